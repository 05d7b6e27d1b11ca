"""Pools."""

from make import INF, NAN, case, extremes, integers, reals, tensor

import torch.nn.functional as F

ROWS = []


def max_pool(function):
    def apply(x, kernel_size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
        return function(x, tuple(kernel_size), tuple(stride) or None, tuple(padding), tuple(dilation), ceil_mode)

    return apply


def largest(operation, variant, x, **args):
    ROWS.append(case(operation, variant, max_pool(getattr(F, operation)), x, exact=True, **args))


largest("max_pool1d", "side by side", reals(2, 3, 7), kernel_size=[2])
largest("max_pool1d", "rounded up", reals(1, 2, 8), kernel_size=[3], ceil_mode=True)
largest("max_pool1d", "rounded up, but no window begins in the padding", reals(1, 1, 5), kernel_size=[2], stride=[3], padding=[1], ceil_mode=True)
largest("max_pool1d", "rounded up, shorter than a window", reals(1, 1, 2), kernel_size=[3], stride=[2], ceil_mode=True)
largest("max_pool1d", "padding is minus infinity", tensor([[-5.0, -3.0, -4.0]]), kernel_size=[3], stride=[1], padding=[1])
largest("max_pool1d", "dilation", reals(1, 1, 9), kernel_size=[3], stride=[2], padding=[1], dilation=[3])
largest("max_pool1d", "NaN, infinities, -0", tensor([[[1.0, NAN, 0.0, 2.0, -INF, -INF, -0.0, -0.0, INF, 1.0]]]), kernel_size=[2])
largest("max_pool1d", "bf16", reals(1, 2, 6, dtype="bf16"), kernel_size=[3], stride=[1])
largest("max_pool2d", "the usual", reals(1, 2, 7, 6), kernel_size=[3], stride=[2], padding=[1])
largest("max_pool2d", "all different", reals(2, 2, 7, 6), kernel_size=[3, 2], stride=[1, 2], padding=[1, 0], dilation=[2, 1], ceil_mode=True)
largest("max_pool2d", "integers", integers(1, 1, 4, 4, dtype="i64"), kernel_size=[3, 3], stride=[1, 1], padding=[1, 1])
largest("max_pool2d", "i32, all lowest", tensor([[[-(2**31), -(2**31)], [-7, -(2**31)]]], "i32"), kernel_size=[2, 1], stride=[1], padding=[1, 0])
largest("max_pool2d", "u8", integers(1, 1, 4, 4, dtype="u8"), kernel_size=[3, 3], stride=[1, 1], padding=[1, 1])
largest("max_pool2d", "no batch elements", reals(0, 2, 4, 4), kernel_size=[2, 2])
largest("max_pool3d", "padding", reals(1, 2, 4, 3, 5), kernel_size=[2, 3, 2], stride=[2, 1, 2], padding=[1, 1, 0])
largest("max_pool3d", "unbatched, rounded up", reals(2, 3, 5, 3), kernel_size=[2], ceil_mode=True)


def avg_pool(function):
    def apply(x, kernel_size, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
        more = () if function is F.avg_pool1d else (divisor_override,)
        return function(x, tuple(kernel_size), tuple(stride) or None, tuple(padding), ceil_mode, count_include_pad, *more)

    return apply


def mean(operation, variant, x, **args):
    ROWS.append(case(operation, variant, avg_pool(getattr(F, operation)), x, near=args.pop("near", 1e-6), **args))


mean("avg_pool1d", "side by side", reals(2, 3, 7), kernel_size=[2])
mean("avg_pool1d", "padding counts", reals(1, 2, 6), kernel_size=[3], stride=[2], padding=[1])
mean("avg_pool1d", "padding does not count", reals(1, 2, 6), kernel_size=[3], stride=[2], padding=[1], count_include_pad=False)
mean("avg_pool1d", "rounded up", reals(1, 2, 8), kernel_size=[3], stride=[3], padding=[1], ceil_mode=True)
mean("avg_pool1d", "rounded up, padding does not count", reals(1, 2, 8), kernel_size=[3], stride=[3], padding=[1], ceil_mode=True, count_include_pad=False)
mean("avg_pool1d", "infinities and NaN", tensor([[[1.0, INF, 0.0, -INF, INF, 1.0, NAN, 2.0]]]), kernel_size=[2])
mean("avg_pool1d", "bf16", reals(1, 2, 6, dtype="bf16"), kernel_size=[3], stride=[1], near=1e-2)
mean("avg_pool2d", "plain", reals(1, 2, 6, 5), kernel_size=[2, 3])
mean("avg_pool2d", "rounded up, padded", reals(1, 2, 6, 5), kernel_size=[3, 2], stride=[2, 2], padding=[1, 1], ceil_mode=True)
mean("avg_pool2d", "rounded up, padded, not counted", reals(1, 2, 6, 5), kernel_size=[3, 2], stride=[2, 2], padding=[1, 1], ceil_mode=True, count_include_pad=False)
mean("avg_pool2d", "divisor", reals(1, 2, 6, 5), kernel_size=[2, 2], padding=[1, 1], divisor_override=3)
mean("avg_pool2d", "negative divisor, unbatched", reals(2, 6, 5), kernel_size=[2, 2], divisor_override=-2)
mean("avg_pool3d", "not counted", reals(1, 1, 4, 5, 3), kernel_size=[2, 3, 2], stride=[1, 2, 2], padding=[1, 1, 1], count_include_pad=False)
mean("avg_pool3d", "divisor", reals(1, 1, 4, 5, 3), kernel_size=[2, 3, 2], divisor_override=5)


def lp_pool(function):
    def apply(x, norm_type, kernel_size, stride=(), ceil_mode=False):
        kernel_size = kernel_size[0] if function is F.lp_pool1d else tuple(kernel_size)
        stride = stride[0] if stride and function is F.lp_pool1d else tuple(stride) or None
        return function(x, norm_type, kernel_size, stride, ceil_mode)

    return apply


ROWS += [
    case("lp_pool1d", "2", lp_pool(F.lp_pool1d), reals(1, 2, 7), near=1e-6, norm_type=2.0, kernel_size=[3], stride=[2]),
    case("lp_pool1d", "3, rounded up", lp_pool(F.lp_pool1d), reals(1, 2, 8).abs(), near=1e-6, norm_type=3.0, kernel_size=[3], ceil_mode=True),
    case("lp_pool2d", "1", lp_pool(F.lp_pool2d), reals(1, 2, 5, 4).abs(), near=1e-6, norm_type=1.0, kernel_size=[2, 3]),
    case("lp_pool2d", "1.5", lp_pool(F.lp_pool2d), reals(1, 2, 5, 4).abs(), near=1e-6, norm_type=1.5, kernel_size=[2, 2], stride=[1, 1]),
    case("lp_pool3d", "2", lp_pool(F.lp_pool3d), reals(1, 1, 4, 4, 3), near=1e-6, norm_type=2.0, kernel_size=[2, 2, 3]),
]


def adaptive(function):
    def apply(x, output_size):
        sizes = [None if n < 0 else n for n in output_size]
        return function(x, sizes[0] if len(sizes) == 1 else tuple(sizes))

    return apply


def adapted(operation, variant, x, output_size, **args):
    """An output size of -1 is None."""
    ROWS.append(case(operation, variant, adaptive(getattr(F, operation)), x, output_size=output_size, **args))


for size in (1, 2, 3, 4, 5, 7, 12, 18, 0):
    adapted("adaptive_avg_pool1d", f"12 to {size}", reals(2, 1, 12), [size], near=1e-6)
    adapted("adaptive_max_pool1d", f"12 to {size}", reals(2, 1, 12, seed=1), [size], exact=True)
adapted("adaptive_avg_pool1d", "prime to prime", reals(3, 7), [5], near=1e-6)
adapted("adaptive_avg_pool1d", "bf16", reals(1, 2, 7, dtype="bf16"), [3], near=1e-2)
adapted("adaptive_avg_pool1d", "an infinity and a NaN stay in their windows", tensor([[1.0, INF, 2.0, 3.0, 4.0, NAN, 5.0]]), [3])
adapted("adaptive_max_pool1d", "lowest and NaN", tensor([[-INF, -INF, -2.0, -3.0, -4.0, NAN, -0.0]]), [4], exact=True)
adapted("adaptive_avg_pool2d", "to one", reals(2, 3, 5, 4), [1], near=1e-6)
adapted("adaptive_avg_pool2d", "one axis kept", reals(2, 3, 6, 4), [3, -1], near=1e-6)
adapted("adaptive_avg_pool2d", "both uneven", reals(1, 2, 7, 5), [3, 4], near=1e-6)
adapted("adaptive_avg_pool2d", "unbatched, even and uneven", reals(2, 6, 10), [2, 4], near=1e-6)
adapted("adaptive_max_pool2d", "both uneven", reals(1, 2, 7, 5), [3, 4], exact=True)
adapted("adaptive_max_pool2d", "larger than the input", reals(1, 2, 3, 4), [5, 6], exact=True)
adapted("adaptive_avg_pool3d", "all kinds", reals(1, 2, 4, 5, 3), [2, 3, -1], near=1e-6)
adapted("adaptive_max_pool3d", "all kinds", reals(1, 2, 4, 5, 3), [2, 3, 1], exact=True)
largest("max_pool3d", "no batch elements", reals(0, 2, 3, 2, 4), kernel_size=[2])
ROWS += extremes(ROWS)
