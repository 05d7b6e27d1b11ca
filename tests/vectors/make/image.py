"""Interpolation, shuffles, and norms of channels."""

from make import INF, NAN, case, extremes, integers, reals, tensor

import torch.nn.functional as F

ROWS = []


def interpolate(x, size=(), scale_factor=(), mode="nearest", align_corners=None, recompute_scale_factor=None):
    size, scale_factor = tuple(size) or None, tuple(scale_factor) or None
    return F.interpolate(x, size, scale_factor, mode, align_corners, recompute_scale_factor)


def resized(variant, x, **args):
    nearest = args.get("mode", "nearest").startswith("nearest")
    options = {} if nearest else {"near": args.pop("near", 2e-6)}
    ROWS.append(case("interpolate", variant, interpolate, x, exact=nearest, **options, **args))


for mode in ("nearest", "nearest-exact"):
    resized(f"{mode}, twice", reals(1, 2, 3, 4), scale_factor=[2.0, 2.0], mode=mode)
    resized(f"{mode}, half", reals(1, 1, 6, 8), scale_factor=[0.5, 0.5], mode=mode)
    resized(f"{mode}, 5 to 7", reals(2, 1, 5), size=[7], mode=mode)
    resized(f"{mode}, 7 to 5", reals(2, 1, 7), size=[5], mode=mode)
    resized(f"{mode}, 4 to 6", reals(1, 1, 4), size=[6], mode=mode)
    resized(f"{mode}, by 1.7", reals(1, 1, 7), scale_factor=[1.7], mode=mode)
    resized(f"{mode}, by 1.7, recomputed", reals(1, 1, 7), scale_factor=[1.7], mode=mode, recompute_scale_factor=True)
    resized(f"{mode}, by 0.3", reals(1, 1, 11), scale_factor=[0.3], mode=mode)
    resized(f"{mode}, three axes", reals(1, 2, 2, 3, 2), size=[3, 4, 5], mode=mode)
    resized(f"{mode}, edges", tensor([[[NAN, -INF, -0.0, INF, 1.0]]]), size=[8], mode=mode)
    resized(f"{mode}, u8", integers(1, 2, 3, 3, dtype="u8"), size=[5, 2], mode=mode)
    resized(f"{mode}, f64", reals(1, 1, 5, dtype="f64"), size=[9], mode=mode)
    resized(f"{mode}, bf16", reals(1, 1, 5, dtype="bf16"), size=[3], mode=mode)
    resized(f"{mode}, 49 in 1 / 49", reals(1, 1, 3), size=[49 * 3 // 2], mode=mode)
for align_corners in (False, True):
    how = "corners aligned" if align_corners else "edges aligned"
    for start, end in ((3, 6), (3, 12), (6, 3), (5, 7), (7, 5), (4, 1), (1, 4), (4, 4), (9, 2), (2, 9)):
        resized(f"linear, {start} to {end}, {how}", reals(2, 1, start), size=[end], mode="linear", align_corners=align_corners)
    resized(f"linear, by 2.5, {how}", reals(1, 2, 5), scale_factor=[2.5], mode="linear", align_corners=align_corners)
    resized(f"linear, by 1.7, {how}", reals(1, 2, 7), scale_factor=[1.7], mode="linear", align_corners=align_corners)
    resized(f"linear, infinities, {how}", tensor([[[1.0, INF, 2.0, NAN, 3.0, -INF]]]), size=[9], mode="linear", align_corners=align_corners)
    resized(f"linear, f64, {how}", reals(1, 1, 5, dtype="f64"), size=[8], mode="linear", align_corners=align_corners, near=1e-14)
    resized(f"linear, bf16, {how}", reals(1, 1, 5, dtype="bf16"), size=[8], mode="linear", align_corners=align_corners, near=2e-2)
    resized(f"bilinear, twice, {how}", reals(1, 2, 3, 4), scale_factor=[2.0, 2.0], mode="bilinear", align_corners=align_corners)
    resized(f"bilinear, all different, {how}", reals(2, 1, 3, 5), size=[4, 3], mode="bilinear", align_corners=align_corners)
    resized(f"bilinear, f16, {how}", reals(1, 1, 3, 4, dtype="f16"), size=[5, 6], mode="bilinear", align_corners=align_corners, near=4e-3)
    resized(f"trilinear, {how}", reals(1, 1, 2, 3, 2), size=[3, 2, 4], mode="trilinear", align_corners=align_corners)
    resized(f"bicubic, twice, {how}", reals(1, 1, 4, 5), scale_factor=[2.0, 2.0], mode="bicubic", align_corners=align_corners, near=5e-6)
    resized(f"bicubic, smaller and larger, {how}", reals(1, 2, 5, 3), size=[3, 7], mode="bicubic", align_corners=align_corners, near=5e-6)
    resized(f"bicubic, of one element, {how}", reals(1, 1, 1, 2), size=[3, 3], mode="bicubic", align_corners=align_corners, near=5e-6)
resized("area, half", reals(1, 2, 4, 6), scale_factor=[0.5, 0.5], mode="area")
resized("area, uneven", reals(1, 2, 7), size=[3], mode="area")
resized("area, three axes", reals(1, 1, 3, 4, 2), size=[2, 2, 3], mode="area")

for operation, shape, factor in (
    ("pixel_shuffle", (2, 12, 2, 3), 2), ("pixel_shuffle", (9, 2, 1), 3), ("pixel_shuffle", (2, 0, 1, 4, 2, 2), 2),
    ("pixel_unshuffle", (2, 3, 4, 6), 2), ("pixel_unshuffle", (1, 6, 3), 3), ("pixel_unshuffle", (1, 2, 3, 3), 1),
):
    apply = lambda x, factor, function=getattr(F, operation): function(x, factor)
    ROWS.append(case(operation, f"{shape} by {factor}", apply, reals(*shape), exact=True, factor=factor))
for groups in (1, 2, 3, 6):
    ROWS.append(case("channel_shuffle", f"{groups} groups", lambda x, groups: F.channel_shuffle(x, groups), reals(2, 6, 2, 2), exact=True, groups=groups))


def batch_norm(x, mean, var, *parameters, eps):
    return F.batch_norm(x, mean, var, *parameters, eps=eps)


def normalized(variant, x, *parameters, **args):
    var = reals(x.shape[1], dtype="f32" if x.dtype.itemsize < 8 else "f64", seed=6).abs()
    mean = reals(x.shape[1], dtype="f32" if x.dtype.itemsize < 8 else "f64", seed=5)
    ROWS.append(case("batch_norm", variant, batch_norm, x, mean, var, *parameters, near=args.pop("near", 1e-5), **args))


normalized("no parameters", reals(3, 4), eps=1e-5)
normalized("both parameters", reals(2, 3, 4, 2), reals(3, seed=1), reals(3, seed=2), eps=1e-5)
normalized("three spatial axes, a large eps", reals(1, 2, 2, 3, 2), reals(2, seed=1), reals(2, seed=2), eps=0.1)
normalized("NaN and infinities", tensor([[[NAN, 1.0]], [[INF, -INF]]]), reals(1, seed=1), reals(1, seed=2), eps=1e-5)
normalized("f64", reals(2, 3, 4, dtype="f64"), reals(3, dtype="f64", seed=1), reals(3, dtype="f64", seed=2), eps=1e-5, near=1e-14)
normalized("bf16 by f32", reals(2, 3, 4, dtype="bf16"), reals(3, seed=1), reals(3, seed=2), eps=1e-5, near=3e-2)


def group_norm(x, *parameters, num_groups, eps):
    return F.group_norm(x, num_groups, *parameters, eps=eps)


def instance_norm(x, *parameters, eps):
    return F.instance_norm(x, None, None, *parameters, eps=eps)


for groups in (1, 2, 3, 6):
    ROWS.append(case("group_norm", f"{groups} groups", group_norm, reals(2, 6, 3, 2), reals(6, seed=1), reals(6, seed=2), near=1e-5, num_groups=groups, eps=1e-5))
ROWS.append(case("group_norm", "no parameters, no spatial axis", group_norm, reals(3, 4), near=1e-5, num_groups=2, eps=1e-3))
ROWS.append(case("group_norm", "bf16", group_norm, reals(1, 4, 5, dtype="bf16"), reals(4, dtype="bf16", seed=1), reals(4, dtype="bf16", seed=2), near=6e-2, num_groups=2, eps=1e-5))
ROWS.append(case("group_norm", "a NaN stays in its group", group_norm, tensor([[[1.0, NAN], [2.0, 3.0]]]), near=1e-5, num_groups=2, eps=1e-5))
ROWS.append(case("instance_norm", "no parameters", instance_norm, reals(2, 3, 5), near=1e-5, eps=1e-5))
ROWS.append(case("instance_norm", "both parameters", instance_norm, reals(2, 3, 4, 2), reals(3, seed=1), reals(3, seed=2), near=1e-5, eps=1e-5))


def local_response_norm(x, size, alpha, beta, k):
    return F.local_response_norm(x, size, alpha, beta, k)


for size in (1, 2, 3, 5, 9):
    ROWS.append(case("local_response_norm", f"{size} neighbours", local_response_norm, reals(2, 6, 3), near=1e-6, size=size, alpha=0.5, beta=0.75, k=1.0))
ROWS.append(case("local_response_norm", "as in AlexNet", local_response_norm, reals(1, 7, 2, 3), near=1e-6, size=5, alpha=1e-4, beta=0.75, k=2.0))
ROWS += [
    case("instance_norm", "no images", instance_norm, reals(0, 2, 3), near=1e-5, eps=1e-5),
    case("group_norm", "huge numbers of f64", group_norm, tensor([[1e30, -2e30, 0.5, 3e31]], "f64"), near=1e-9, num_groups=2, eps=1e-5),
]
BUT = {
    ("pixel_unshuffle", "nothing goes in"),  # torch leaves the shape as it was
}
ROWS += extremes(ROWS, BUT)
