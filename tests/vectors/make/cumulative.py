"""Running folds along an axis."""

import torch

from make import INF, NAN, case, extremes, integers, reals, tensor

X = reals(3, 5)
ODD = tensor([[1.0, NAN, 2.0, 5.0], [INF, 1.0, -INF, 0.0], [-INF, -INF, 3.0, 3.0], [-0.0, 0.0, -0.0, 0.0]])
COUNT = tensor([float(n) for n in range(1, 11)])


def along(function):
    def folded(x, axis, reverse, exclusive):
        x = x.flip([axis]) if reverse else x
        y = function(x, axis)
        if exclusive:
            first = torch.ones_like if function is torch.cumprod else torch.zeros_like
            y = torch.cat([first(y.narrow(axis, 0, 1)), y.narrow(axis, 0, y.size(axis) - 1)], axis)
        return y.flip([axis]) if reverse else y

    return folded


def scan(function):
    return lambda x, axis: function(x, axis)


def states(a, b, axis, initial=None):
    a, b = torch.broadcast_tensors(a, b)
    found = [] if initial is None else [initial]
    for s, t in zip(a.unbind(axis), b.unbind(axis)):
        found.append(s * found[-1] + t if found else t)
    return found if initial is None else found[1:]


def recurrence(a, b, initial=None, axis=0):
    return torch.stack(states(a, b, axis, initial), axis)


def last(a, b, initial=None, axis=0):
    return states(a, b, axis, initial)[-1]


FACTORS = integers(2, 6, most=2)
LONG = [integers(300, least=-1, most=1), integers(300, seed=1)]

ROWS = [
    case("cumsum", "1 to 10", scan(torch.cumsum), COUNT, axis=0, exact=True),
    case("cumsum", "an axis", scan(torch.cumsum), X, axis=0, near=2e-6),
    case("cumsum", "negative axis", scan(torch.cumsum), X, axis=-1, near=2e-6),
    case("cumsum", "NaN and infinities", scan(torch.cumsum), ODD, axis=1),
    case("cumsum", "i32 gives i64", scan(torch.cumsum), integers(6, dtype="i32"), axis=0),
    case("cumsum", "bools are counted", scan(torch.cumsum), integers(2, 6, dtype="bool"), axis=1),
    case("cumsum", "u8 does not wrap", scan(torch.cumsum), tensor([200, 100, 50], "u8"), axis=0),
    case("cumsum", "bf16", scan(torch.cumsum), integers(12, dtype="bf16"), axis=0),
    case("cumsum", "f64", scan(torch.cumsum), reals(7, dtype="f64"), axis=0),
    case("cumsum", "nothing", scan(torch.cumsum), reals(0, 3), axis=0),
    case("cumsum", "a long axis", scan(torch.cumsum), integers(300), axis=0, exact=True),
    case("cumsum", "rank 0", scan(torch.cumsum), tensor(3.5), axis=0),
    case("cumprod", "an axis", scan(torch.cumprod), X, axis=1),
    case("cumprod", "i64", scan(torch.cumprod), tensor([1, 2, -3, 4], "i64"), axis=0),
    case("cumprod", "NaN and infinities", scan(torch.cumprod), ODD, axis=1),
    case("cumsum_along", "reverse", along(torch.cumsum), COUNT, axis=0, reverse=True, exclusive=False, exact=True),
    case("cumsum_along", "exclusive", along(torch.cumsum), COUNT, axis=0, reverse=False, exclusive=True, exact=True),
    case("cumsum_along", "both", along(torch.cumsum), integers(2, 5), axis=1, reverse=True, exclusive=True, exact=True),
    case("cumprod_along", "reverse, exclusive", along(torch.cumprod), tensor([1.0, 2.0, 3.0]), axis=0, reverse=True, exclusive=True),
    case("cummax", "an axis", scan(torch.cummax), X, axis=1),
    case("cummax", "NaN and infinities", scan(torch.cummax), ODD, axis=1),
    case("cummax", "ties", scan(torch.cummax), integers(9, dtype="i64", most=0), axis=0),
    case("cummin", "an axis", scan(torch.cummin), X, axis=0),
    case("cummin", "NaN and infinities", scan(torch.cummin), ODD, axis=1),
    case("cummin", "u8", scan(torch.cummin), integers(2, 6, dtype="u8"), axis=1),
    case("logcumsumexp", "an axis", scan(torch.logcumsumexp), X, axis=1),
    case("logcumsumexp", "far apart", scan(torch.logcumsumexp), tensor([1000.0, 0.0, -1000.0, 1001.0, 3.0]), axis=0),
    case("logcumsumexp", "minus infinity", scan(torch.logcumsumexp), tensor([-INF, -INF, 2.0, -INF]), axis=0),
    case("logcumsumexp", "a long axis", scan(torch.logcumsumexp), reals(270), axis=0, near=2e-6),
]
for name, function in [("linear_recurrence", recurrence), ("linear_recurrence_last", last)]:
    ROWS += [
        case(name, "an axis", function, FACTORS, integers(2, 6, seed=1), axis=1, exact=True),
        case(name, "reals", function, X, reals(3, 5, seed=1), axis=0, near=2e-6),
        case(name, "an initial state", function, FACTORS, integers(2, 6, seed=1), integers(2), axis=-1, exact=True),
        case(name, "factors that broadcast", function, reals(3, 1), X, axis=1, near=2e-6),
        case(name, "a long axis", function, *LONG, axis=0, exact=True),
        case(name, "i32 wraps", function, tensor([3, 70000, -5], "i32"), tensor([2, 70000, 1], "i32"), axis=0),
        case(name, "NaN stays", function, tensor([1.0, NAN, 2.0]), tensor([1.0, 2.0, 3.0]), axis=0),
        case(name, "one element, which nothing is multiplied with", function, tensor([INF]), tensor([2.0]), axis=0),
    ]
ROWS.append(case("cumprod_along", "nothing", along(torch.cumprod), reals(2, 0), axis=1, reverse=True, exclusive=False))
ROWS += extremes(ROWS)
