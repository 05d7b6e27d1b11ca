"""Gathers and scatters. Where several elements are put in one place, torch leaves open which stays: no case does."""

import torch

from make import INF, NAN, case, extremes, integers, reals, tensor

X = reals(3, 4)
ODD = tensor([[NAN, 1.0, -0.0], [INF, -INF, 5.0]])
IDS = tensor([[0, 2, 1], [3, 3, 0], [1, 0, 2]], "i64")


def gather(x, index, axis):
    return torch.gather(x, axis, index)


def take_along_dim(x, index, axis):
    return torch.take_along_dim(x, index, axis)


def index_select(x, index, axis):
    return torch.index_select(x, axis, index)


def index_add(x, index, source, axis, alpha):
    return torch.index_add(x, axis, index, source, alpha=alpha)


def index_copy(x, index, source, axis):
    return torch.index_copy(x, axis, index, source)


def index_fill(x, index, axis, value):
    return torch.index_fill(x, axis, index, value)


def scatter(x, index, source, axis):
    return torch.scatter(x, axis, index, source)


def scatter_value(x, index, axis, value):
    return torch.scatter(x, axis, index, value)


def scatter_add(x, index, source, axis):
    return torch.scatter_add(x, axis, index, source)


def scatter_reduce(x, index, source, axis, reduce, include_self):
    return torch.scatter_reduce(x, axis, index, source, reduce, include_self=include_self)


def bincount(ids, length):
    return torch.bincount(ids, minlength=length)


TABLE = torch.zeros(5, 2)
NAMED = tensor([4, 0, 4, 4, 1], "i64")
ROWS = [
    case("gather", "an axis", gather, X, IDS, axis=1),
    case("gather", "first axis, shorter elsewhere", gather, X, tensor([[2, 0], [1, 1]], "i64"), axis=0),
    case("gather", "-0, NaN and infinities", gather, ODD, tensor([[2, 0], [1, 0]], "i64"), axis=-1, exact=True),
    case("gather", "i64", gather, integers(2, 5, dtype="i64"), tensor([[4, 4], [0, 1]], "i64"), axis=1),
    case("gather", "no index", gather, X, torch.zeros(3, 0, dtype=torch.int64), axis=1),
    case("take_along_dim", "broadcast", take_along_dim, X, tensor([[1], [0], [3]], "i64"), axis=1),
    case("take_along_dim", "one row for all", take_along_dim, reals(1, 4), IDS, axis=1),
    case("index_select", "rows", index_select, X, tensor([2, 0, 2], "i64"), axis=0),
    case("index_select", "columns", index_select, X, tensor([3, 3], "i32"), axis=-1),
    case("index_select", "none", index_select, X, torch.zeros(0, dtype=torch.int64), axis=1),
    case("index_select", "bools", index_select, integers(6, dtype="bool"), tensor([5, 0], "i64"), axis=0),
    case("index_select", "-0, NaN", index_select, ODD, tensor([2, 0], "i64"), axis=1, exact=True),
    case("take", "of the flattened", torch.take, X, tensor([[0, 5], [11, 5]], "i64")),
    case("index_add", "the gradient of an embedding", index_add, TABLE, NAMED, torch.ones(5, 2), axis=0, alpha=1),
    case("index_add", "scaled columns", index_add, integers(2, 4), tensor([3, 0, 3], "i64"), integers(2, 3, seed=5), axis=1, alpha=2),
    case("index_add", "i64", index_add, integers(3, dtype="i64"), tensor([1, 1], "i64"), tensor([5, 6], "i64"), axis=0, alpha=1),
    case("index_add", "infinities", index_add, torch.zeros(3), tensor([1, 1, 2], "i64"), tensor([INF, -INF, NAN]), axis=0, alpha=1),
    case("index_fill", "rows", index_fill, X, tensor([0, 2], "i64"), axis=0, value=7.5),
    case("index_fill", "i32", index_fill, integers(2, 3, dtype="i32"), tensor([1], "i64"), axis=1, value=9),
    case("index_copy", "columns", index_copy, X, tensor([3, 1], "i64"), reals(3, 2, seed=4), axis=1),
    case("scatter", "an axis", scatter, torch.zeros(3, 5), tensor([[0, 4], [1, 2], [3, 0]], "i64"), reals(3, 2), axis=1),
    case("scatter", "a smaller index", scatter, X, tensor([[1, 0]], "i64"), reals(2, 3, seed=8), axis=0),
    case("scatter_value", "one hot", scatter_value, torch.zeros(3, 4), tensor([[1], [0], [3]], "i64"), axis=1, value=1.0),
    case("scatter_value", "named twice", scatter_value, integers(4, dtype="i64"), tensor([2, 2], "i64"), axis=0, value=9),
    case("scatter_add", "an axis", scatter_add, integers(3, 4), IDS, integers(3, 3, seed=3), axis=1),
    case("scatter_add", "a smaller index", scatter_add, integers(3, 4), tensor([[2, 2]], "i64"), integers(2, 3, seed=2), axis=0),
    case("scatter_add", "u8 wraps", scatter_add, tensor([250, 0], "u8"), tensor([0, 0], "i64"), tensor([5, 5], "u8"), axis=0),
]
for reduce in ("sum", "prod", "mean", "amax", "amin"):
    for include in (True, False):
        what = "with what stood there" if include else "without"
        ROWS.append(case("scatter_reduce", f"{reduce}, {what}", scatter_reduce, integers(2, 4), tensor([[0, 1, 0], [3, 3, 3]], "i64"), integers(2, 3, seed=6), axis=1, reduce=reduce, include_self=include))
ROWS += [
    case("scatter_reduce", "mean of integers", scatter_reduce, tensor([-5, 3, 8], "i64"), tensor([0, 0, 1], "i64"), tensor([2, -4, 4], "i64"), axis=0, reduce="mean", include_self=True),
    case("scatter_reduce", "amax with NaN", scatter_reduce, torch.zeros(2), tensor([0, 0], "i64"), tensor([NAN, 3.0]), axis=0, reduce="amax", include_self=True),
    case("bincount", "counts", bincount, tensor([1, 3, 1, 0, 3, 3], "i64"), length=6),
    case("bincount", "of nothing", bincount, torch.zeros(0, dtype=torch.int64), length=3),
]
ROWS += [
    case("index_add", "no ids", index_add, X, torch.zeros(0, dtype=torch.int64), reals(3, 0), axis=1, alpha=2),
    case("scatter", "no ids", scatter, X, torch.zeros(0, 4, dtype=torch.int64), reals(2, 4, seed=1), axis=0),
    case("scatter_add", "no ids", scatter_add, X, torch.zeros(3, 0, dtype=torch.int64), reals(3, 1, seed=1), axis=1),
]
ROWS += extremes(ROWS)
