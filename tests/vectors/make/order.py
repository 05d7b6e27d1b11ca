"""Orders along an axis. torch.sort and argsort are asked for a stable order, which is the one given here."""

import torch

from make import INF, NAN, case, extremes, integers, reals, tensor

X = reals(3, 5)
TIES = tensor([[7.0, 2.0, 7.0, 1.0], [-0.0, 0.0, -0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
ODD = tensor([[NAN, 1.0, -INF, INF], [INF, NAN, NAN, -1.0], [-INF, -INF, 2.0, 2.0]])


def topk(x, k, axis, largest):
    # Of equal elements the first, which torch.topk leaves open.
    values, indices = torch.sort(x, dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, k), indices.narrow(axis, 0, k)


def sort(x, axis, descending):
    return torch.sort(x, dim=axis, descending=descending, stable=True)


def argsort(x, axis, descending):
    return torch.argsort(x, dim=axis, descending=descending, stable=True)


def argmax(x, keepdim, axis=None):
    return torch.argmax(x, axis, keepdim)


def argmin(x, keepdim, axis=None):
    return torch.argmin(x, axis, keepdim)


def first(function):
    # Of equal elements torch.max and torch.min give any; argmax and argmin the first.
    place = torch.argmax if function is torch.max else torch.argmin

    def found(x, axis, keepdim):
        return function(x, axis, keepdim).values, place(x, axis, keepdim)

    return found


ROWS = [
    case("topk", "largest", topk, X, k=2, axis=-1, largest=True),
    case("topk", "smallest, first axis", topk, X, k=2, axis=0, largest=False),
    case("topk", "ties", topk, TIES, k=3, axis=1, largest=True),
    case("topk", "NaN and infinities", topk, ODD, k=2, axis=1, largest=True),
    case("topk", "NaN and infinities, smallest", topk, ODD, k=3, axis=1, largest=False),
    case("topk", "none", topk, X, k=0, axis=1, largest=True),
    case("topk", "all", topk, integers(2, 4, dtype="i64"), k=4, axis=1, largest=True),
    case("topk", "bf16", topk, reals(2, 6, dtype="bf16"), k=3, axis=1, largest=True),
    case("topk", "the least i64", topk, tensor([-(2**63), 2**63 - 1, 0], "i64"), k=2, axis=0, largest=False),
    case("sort", "rising", sort, X, axis=-1, descending=False),
    case("sort", "falling", sort, X, axis=0, descending=True),
    case("sort", "ties keep their order", sort, TIES, axis=1, descending=False, exact=True),
    case("sort", "ties keep their order, falling", sort, TIES, axis=1, descending=True, exact=True),
    case("sort", "NaN and infinities", sort, ODD, axis=1, descending=False),
    case("sort", "NaN and infinities, falling", sort, ODD, axis=1, descending=True),
    case("sort", "bools", sort, integers(7, dtype="bool"), axis=0, descending=False),
    case("sort", "u8", sort, integers(3, 4, dtype="u8"), axis=1, descending=True),
    case("sort", "an empty axis", sort, reals(3, 0), axis=1, descending=False),
    case("argsort", "rising", argsort, X, axis=1, descending=False),
    case("argsort", "f16", argsort, reals(9, dtype="f16"), axis=0, descending=True),
    case("argmax", "an axis", argmax, X, axis=1, keepdim=False),
    case("argmax", "an axis, kept", argmax, X, axis=0, keepdim=True),
    case("argmax", "all", argmax, X, keepdim=False),
    case("argmax", "all, kept", argmax, X, keepdim=True),
    case("argmax", "ties", argmax, TIES, axis=1, keepdim=False),
    case("argmax", "NaN and infinities", argmax, ODD, axis=1, keepdim=False),
    case("argmax", "i32", argmax, integers(3, 4, dtype="i32"), axis=-1, keepdim=False),
    case("argmin", "an axis", argmin, X, axis=1, keepdim=False),
    case("argmin", "ties", argmin, TIES, axis=1, keepdim=False),
    case("argmin", "NaN and infinities", argmin, ODD, axis=1, keepdim=False),
    case("argmin", "all, NaN in it", argmin, ODD, keepdim=False),
    case("argmin", "u8", argmin, integers(3, 4, dtype="u8"), axis=0, keepdim=True),
    case("max", "an axis", first(torch.max), X, axis=1, keepdim=False),
    case("max", "NaN and infinities", first(torch.max), ODD, axis=1, keepdim=True),
    case("max", "ties", first(torch.max), integers(3, 6, dtype="i64"), axis=1, keepdim=False),
    case("max", "rank 0", first(torch.max), tensor(2.5), axis=0, keepdim=False),
    case("min", "rank 0, kept", first(torch.min), tensor(-2.5), axis=-1, keepdim=True),
    case("min", "an axis", first(torch.min), X, axis=0, keepdim=False),
    case("min", "NaN and infinities", first(torch.min), ODD, axis=1, keepdim=True),
    case("kthvalue", "the third", lambda x, k, axis, keepdim: torch.kthvalue(x, k, axis, keepdim), X, k=3, axis=1, keepdim=False),
    case("kthvalue", "the first, kept", lambda x, k, axis, keepdim: torch.kthvalue(x, k, axis, keepdim), X, k=1, axis=0, keepdim=True),
    case("median", "odd", lambda x, axis, keepdim: torch.median(x, axis, keepdim), X, axis=1, keepdim=False),
    case("median", "even", lambda x, axis, keepdim: torch.median(x, axis, keepdim), reals(3, 4), axis=1, keepdim=True),
    case("median", "NaN", lambda x, axis, keepdim: torch.median(x, axis, keepdim), ODD[:2], axis=1, keepdim=False),
    case("median", "integers", lambda x, axis, keepdim: torch.median(x, axis, keepdim), tensor([[5, 1, 3, 4], [9, 7, 8, 6]], "i64"), axis=1, keepdim=False),
]
ROWS += [
    case("kthvalue", "NaN, infinities and -0, none twice", lambda x, k, axis, keepdim: torch.kthvalue(x, k, axis, keepdim), tensor([[NAN, 1.0, -0.0, INF], [3.0, -INF, NAN, 2.0]]), k=2, axis=1, keepdim=False),
    case("kthvalue", "huge numbers, none twice", lambda x, k, axis, keepdim: torch.kthvalue(x, k, axis, keepdim), tensor([1e30, -1e34, 3e38, 0.0]), k=3, axis=0, keepdim=False),
]
ROWS.append(case("kthvalue", "no rows", lambda x, k, axis, keepdim: torch.kthvalue(x, k, axis, keepdim), reals(0, 3), k=2, axis=1, keepdim=False))
ROWS += extremes(ROWS)
