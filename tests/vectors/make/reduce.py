"""Reductions over axes."""

import torch

from make import INF, NAN, case, extremes, integers, reals, tensor

X = reals(2, 3, 4)
HOLES = tensor([[NAN, 1.0, -2.0], [INF, 0.0, 5.0], [-INF, INF, 1.0], [-0.0, -0.0, -0.0]])


def over(function):
    return lambda x, axes, keepdim: function(x, axes, keepdim)


def prod(x, axes, keepdim):
    # torch.prod takes one axis.
    for axis in sorted([a % x.dim() for a in axes], reverse=True):
        x = torch.prod(x, axis, keepdim)
    return x


def one_by_one(function):
    def reduced(x, axes, keepdim):
        return function(x, tuple(axes), keepdim)

    return reduced


FUNCTIONS = {
    "sum": over(torch.sum),
    "prod": prod,
    "amax": over(torch.amax),
    "amin": over(torch.amin),
    "mean": over(torch.mean),
    "any": one_by_one(torch.any),
    "all": one_by_one(torch.all),
}

ROWS = []
for name, function in FUNCTIONS.items():
    near = 2e-6 if name in ("sum", "mean", "prod") else None
    exact = name in ("amax", "amin")
    ROWS += [
        case(name, "one axis", function, X, axes=[1], keepdim=False, near=near, exact=exact),
        case(name, "negative axes, kept", function, X, axes=[-1, 0], keepdim=True, near=near, exact=exact),
        case(name, "all axes", function, X, axes=[0, 1, 2], keepdim=False, near=near, exact=exact),
        case(name, "NaN and infinities", function, HOLES, axes=[1], keepdim=False, near=near),
        case(name, "an axis of one", function, reals(3, 1), axes=[1], keepdim=False, near=near, exact=exact),
    ]
    if name != "mean":
        ROWS += [
            case(name, "i64", function, integers(3, 4, dtype="i64"), axes=[0], keepdim=False),
            case(name, "u8", function, integers(3, 4, dtype="u8"), axes=[-1], keepdim=False),
            case(name, "bools", function, integers(3, 4, dtype="bool"), axes=[1], keepdim=False),
        ]
    if name not in ("amax", "amin"):
        ROWS += [
            case(name, "an empty axis", function, reals(0, 3), axes=[0], keepdim=True),
            case(name, "an empty axis that stays", function, reals(3, 0), axes=[0], keepdim=False),
        ]
ROWS += [
    case("sum", "bf16 sums in f32", FUNCTIONS["sum"], tensor([256.0] + [1.0] * 8, "bf16"), axes=[0], keepdim=False),
    case("sum", "f16 overflows once at the end", FUNCTIONS["sum"], tensor([60000.0, 60000.0, -60000.0], "f16"), axes=[0], keepdim=False),
    case("sum", "huge of both signs", FUNCTIONS["sum"], tensor([1e38, -1e38, 3e38, -3e38, 2.0]), axes=[0], keepdim=False, near=1e32),
    case("sum", "f64", FUNCTIONS["sum"], reals(5, 7, dtype="f64"), axes=[1], keepdim=False, near=1e-13),
    case("sum", "i32 gives i64", FUNCTIONS["sum"], tensor([2**31 - 1, 2**31 - 1], "i32"), axes=[0], keepdim=False),
    case("sum", "i64 wraps", FUNCTIONS["sum"], tensor([2**63 - 1, 2], "i64"), axes=[0], keepdim=False),
    case("amax", "ties, and both zeros", FUNCTIONS["amax"], tensor([[1.0, 1.0], [3.0, 3.0], [-1.0, -1.0]]), axes=[1], keepdim=False),
    case("amax", "the least i64", FUNCTIONS["amax"], tensor([[-(2**63), -(2**63) + 1]], "i64"), axes=[1], keepdim=False),
    case("amin", "all infinite", FUNCTIONS["amin"], tensor([INF, INF]), axes=[0], keepdim=True, exact=True),
    case("mean", "bf16", FUNCTIONS["mean"], reals(3, 5, dtype="bf16"), axes=[-1], keepdim=False, near=1e-3),
    case("mean", "large values", FUNCTIONS["mean"], tensor([1e38, 3e38, 2e38]), axes=[0], keepdim=False),
    case("any", "rank 0", lambda x: torch.any(x), tensor(NAN)),
    case("all", "rank 0", lambda x: torch.all(x), tensor(0.0)),
    case("sum", "rank 0", lambda x: torch.sum(x), tensor(-2.5)),
    case("sum", "no axis named is all", lambda x: torch.sum(x), integers(2, 3, 2)),
    case("prod", "all of them", lambda x: torch.prod(x), integers(2, 3, seed=9)),
]


def var(x, axes, correction, keepdim):
    return torch.var(x, axes, correction=correction, keepdim=keepdim)


ROWS += [
    case("var", "one axis", var, X, axes=[1], correction=1, keepdim=False, near=2e-6),
    case("var", "biased, kept", var, X, axes=[0, -1], correction=0, keepdim=True, near=2e-6),
    case("var", "of one element", var, reals(3, 1), axes=[1], correction=1, keepdim=False),
    case("var", "of one element, biased", var, reals(3, 1), axes=[1], correction=0, keepdim=False),
    case("var", "far from zero", var, tensor([10000.0, 10001.0, 10002.0, 10003.0]), axes=[0], correction=1, keepdim=False),
    case("var", "NaN and infinities", var, HOLES, axes=[1], correction=1, keepdim=False),
    case("var", "bf16", var, reals(2, 5, dtype="bf16"), axes=[1], correction=1, keepdim=False, near=1e-2),
    case("var", "f64", var, reals(2, 5, dtype="f64"), axes=[1], correction=1, keepdim=False),
    case("var", "a correction above the count", var, reals(2), axes=[0], correction=3, keepdim=False),
    case("var", "of nothing", var, reals(0, 2), axes=[0], correction=1, keepdim=False),
    case("var", "of nothing, kept", var, reals(2, 0, 3), axes=[1], correction=0, keepdim=True),
    case("var", "nothing that stays", var, reals(2, 0), axes=[0], correction=1, keepdim=False),
]


def spread(function):
    return lambda x, axes, correction, keepdim: function(x, axes, correction=correction, keepdim=keepdim)


def aminmax(x, axes, keepdim):
    return torch.amin(x, axes, keepdim), torch.amax(x, axes, keepdim)


def norm(x, p, axes, keepdim):
    return torch.linalg.vector_norm(x, p, axes, keepdim)


def logsumexp(x, axes, keepdim):
    return torch.logsumexp(x, axes, keepdim)


for name, function in {"std": torch.std, "var_mean": torch.var_mean, "std_mean": torch.std_mean}.items():
    ROWS += [
        case(name, "two axes, kept", spread(function), X, axes=[0, -1], correction=1, keepdim=True, near=2e-6),
        case(name, "biased", spread(function), X, axes=[1], correction=0, keepdim=False, near=2e-6),
        case(name, "far from zero", spread(function), tensor([10000.0, 10001.0, 10002.0, 10003.0]), axes=[0], correction=1, keepdim=False),
        case(name, "one element", spread(function), reals(3, 1), axes=[1], correction=1, keepdim=False),
        # Of infinities PyTorch's own means differ.
        case(name, "NaN", spread(function), HOLES[::3], axes=[1], correction=1, keepdim=False),
        case(name, "of nothing", spread(function), reals(0, 2), axes=[0], correction=1, keepdim=False),
        case(name, "bf16", spread(function), reals(2, 5, dtype="bf16"), axes=[1], correction=1, keepdim=False, near=1e-2),
    ]
ROWS += [
    case("aminmax", "one axis", aminmax, X, axes=[1], keepdim=True, exact=True),
    case("aminmax", "NaN and infinities", aminmax, HOLES, axes=[1], keepdim=False),
    case("nansum", "floats", over(torch.nansum), HOLES[:, :2], axes=[0], keepdim=False),
    case("nansum", "all NaN", over(torch.nansum), tensor([[NAN, NAN]]), axes=[1], keepdim=True),
    case("nansum", "integers", over(torch.nansum), integers(2, 3, dtype="i32"), axes=[0], keepdim=False),
    case("nansum", "all axes of bf16", over(torch.nansum), tensor([[NAN, 1.0], [2.5, -4.0]], "bf16"), axes=[0, 1], keepdim=False),
    case("nanmean", "floats", over(torch.nanmean), HOLES, axes=[1], keepdim=False),
    case("nanmean", "all NaN", over(torch.nanmean), tensor([[NAN, NAN], [NAN, 1.0]]), axes=[1], keepdim=True),
    case("nanmean", "of nothing", over(torch.nanmean), reals(2, 0), axes=[1], keepdim=False),
    case("count_nonzero", "floats", lambda x, axes: torch.count_nonzero(x, axes), HOLES, axes=[1]),
    case("count_nonzero", "bools", lambda x, axes: torch.count_nonzero(x, axes), integers(3, 4, dtype="bool"), axes=[0, 1]),
    case("logsumexp", "two axes", logsumexp, X, axes=[0, 2], keepdim=False),
    case("logsumexp", "kept", logsumexp, X, axes=[-1], keepdim=True),
    case("logsumexp", "edges", logsumexp, tensor([[1000.0, 0.0, -1000.0], [NAN, 1.0, 2.0], [INF, 1.0, 2.0], [INF, INF, -INF], [-INF, 1.0, 2.0], [-INF, -INF, -INF]]), axes=[1], keepdim=False),
    case("logsumexp", "over nothing", logsumexp, reals(3, 0), axes=[1], keepdim=False),
    case("logsumexp", "integers", logsumexp, integers(3, 2, dtype="i64"), axes=[1], keepdim=False),
    case("logsumexp", "no overflow", logsumexp, tensor([1000.0, 0.0, -1000.0, 1001.0, 3.0, 2.0, 1.0]), axes=[0], keepdim=False),
    case("logsumexp", "bf16", logsumexp, reals(2, 6, dtype="bf16"), axes=[1], keepdim=False),
]
for p in (0.0, 1.0, 2.0, 3.0, 0.5, -1.0, INF, -INF):
    ROWS += [
        case("norm", f"p = {p}", norm, X, p=p, axes=[1], keepdim=False, near=1e-6),
        case("norm", f"p = {p}, NaN and infinities", norm, HOLES, p=p, axes=[1], keepdim=True),
        case("norm", f"p = {p}, all axes of f64", norm, reals(2, 3, dtype="f64"), p=p, axes=[0, 1], keepdim=False),
    ]
ROWS += [
    case("norm", "of nothing", norm, reals(2, 0), p=2.0, axes=[1], keepdim=False),
    case("norm", "bf16", norm, reals(3, 5, dtype="bf16"), p=2.0, axes=[1], keepdim=False),
    case("norm", "f16 whose squares overflow", norm, tensor([300.0, 400.0], "f16"), p=2.0, axes=[0], keepdim=False),
]
for name, function in {"std": torch.std, "std_mean": torch.std_mean}.items():
    ROWS.append(case(name, "huge numbers of f64", spread(function), tensor([1e30, -2e30, 0.5, 3e31], "f64"), axes=[0], correction=1, keepdim=False))
ROWS.append(case("amin", "no rows", FUNCTIONS["amin"], reals(0, 3), axes=[1], keepdim=True))
ROWS += extremes(ROWS)
