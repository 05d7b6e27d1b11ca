"""Comparisons, logic and choices by a condition."""

import torch

from make import EDGES, INF, NAN, case, extremes, integers, reals, tensor

COMPARISONS = {"lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "eq": torch.eq, "ne": torch.ne}
LEFT = tensor([NAN, INF, -INF, -0.0, 1.0, 2.0, 1.0, NAN])
RIGHT = tensor([NAN, INF, INF, 0.0, 2.0, 1.0, 1.0, 1.0])


def to_number(function):
    return lambda x, value: function(x, value)


ROWS = []
for name, function in COMPARISONS.items():
    ROWS += [
        case(name, "edges", function, LEFT, RIGHT),
        case(name, "broadcast, with ties", function, integers(3, 1, dtype="i64", least=-1, most=1), integers(4, dtype="i64", seed=1, least=-1, most=1)),
        case(name, "i64 and f32", function, integers(5, dtype="i64"), integers(5, seed=4)),
        case(name, "a number", to_number(function), tensor(EDGES), value=0.5),
    ]
ROWS += [
    case("lt", "integers and a float", to_number(torch.lt), tensor([0, 1, 2], "i64"), value=0.5),
    case("ge", "u8 and an integer", to_number(torch.ge), tensor([0, 5, 255], "u8"), value=5),
    case("eq", "bf16 and a float that it has not", to_number(torch.eq), tensor([0.1, 0.5], "bf16"), value=0.1),
    case("eq", "i64 beyond 2**53", torch.eq, tensor([2**53 + 1], "i64"), tensor([2**53], "i64")),
    case("lt", "bools", torch.lt, tensor([True, False, False], "bool"), tensor([True, True, False], "bool")),
    case("ne", "empty", torch.ne, reals(0, 2), reals(1, 2)),
]

TRUTHS = [(torch.logical_and, "logical_and"), (torch.logical_or, "logical_or"), (torch.logical_xor, "logical_xor")]
for function, name in TRUTHS:
    ROWS += [
        case(name, "bools", function, tensor([True, True, False, False], "bool"), tensor([True, False, True, False], "bool")),
        case(name, "floats and integers", function, tensor([0.0, -0.0, NAN, 0.5]), tensor([1, 1, 1, 0], "i64")),
    ]


def where(condition, x, other):
    return torch.where(condition, x, other)


def where_number(condition, x, value):
    return torch.where(condition, x, value)


MASK = tensor([[True], [False], [True]], "bool")

ROWS += [
    case("logical_not", "floats", torch.logical_not, tensor([0.0, -0.0, NAN, 0.5, INF])),
    case("logical_not", "integers", torch.logical_not, integers(6, dtype="i32", least=-1, most=1)),
    case("where_", "broadcast", where, MASK, reals(4), reals(3, 4, seed=1), exact=True),
    case("where_", "hides NaN", where, tensor([True, False], "bool"), tensor([-0.0, NAN]), tensor([INF, 1.0]), exact=True),
    case("where_", "i64 and f32", where, MASK, integers(3, 2, dtype="i64"), reals(2), exact=True),
    case("where_", "bf16 and f32", where, MASK, reals(2, dtype="bf16"), reals(2, seed=5), exact=True),
    case("where_", "a float for integers", where_number, MASK, integers(2, dtype="i64"), exact=True, value=0.5),
    case("where_", "an integer for floats", where_number, MASK, reals(2, dtype="f16"), exact=True, value=3),
    case("masked_fill", "minus infinity", lambda x, mask, value: x.masked_fill(mask, value), reals(3, 2), MASK, exact=True, value=-INF),
    case("masked_fill", "integers", lambda x, mask, value: x.masked_fill(mask, value), integers(3, 2, dtype="i64"), MASK, value=7),
    case("masked_fill", "bf16", lambda x, mask, value: x.masked_fill(mask, value), reals(3, 2, dtype="bf16"), MASK, exact=True, value=0.1),
]


def choose(condition, yes, no):
    return torch.where(condition, yes, no)


ROWS += [
    case("choose", "two numbers", choose, MASK, yes=1.5, no=2),
    case("choose", "two integers", choose, MASK, yes=1, no=2),
    case("choose", "a number and integers", lambda condition, x, yes: torch.where(condition, yes, x), MASK, integers(2, dtype="i32"), yes=0.5),
    case("choose", "two tensors of rank 0", torch.where, MASK, tensor(1.0, "f64"), tensor(2, "i64")),
    case("choose", "a tensor of rank 0 and one with axes", torch.where, MASK, tensor(1.0, "f64"), reals(2)),
    case("masked_fill", "a tensor of rank 0", torch.masked_fill, reals(3, 2), MASK, tensor(4.0)),
]
ROWS.append(case("choose", "zeros of both signs", lambda condition, x, yes: torch.where(condition, yes, x), tensor([True, False, False], "bool"), tensor([1.0, -0.0, 0.0]), exact=True, yes=-0.0))
ROWS += extremes(ROWS)
