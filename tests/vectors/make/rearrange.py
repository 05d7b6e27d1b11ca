"""Axes moved, parts, repetitions, and padding with elements of the tensor's own."""

from make import INF, NAN, case, extremes, integers, reals, tensor

import torch
import torch.nn.functional as F

ROWS = []


def exact(operation, variant, function, *inputs, **args):
    ROWS.append(case(operation, variant, function, *inputs, exact=True, **args))


def rows(operation, function, *variants):
    for variant, inputs, args in variants:
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        exact(operation, variant, function, *inputs, **args)


EDGES = tensor([[NAN, INF, -0.0], [-INF, 1.0, 0.0]])

rows("movedim", lambda x, source, destination: torch.movedim(x, tuple(source), tuple(destination)),
    ("one", reals(2, 3, 4), dict(source=[0], destination=[-1])),
    ("two, in the wrong order", reals(2, 3, 4, 5), dict(source=[-1, 0], destination=[0, 2])),
    ("none", reals(2, 3), dict(source=[], destination=[])),
)
rows("swapaxes", lambda x, a, b: torch.swapaxes(x, a, b),
    ("two", reals(2, 3, 4), dict(a=0, b=-1)),
    ("the same", integers(2, 3, dtype="i64"), dict(a=1, b=-1)),
)
rows("unflatten", lambda x, axis, sizes: x.unflatten(axis, sizes),
    ("two", reals(2, 6), dict(axis=1, sizes=[2, 3])),
    ("an open one", reals(12, 2), dict(axis=-2, sizes=[3, -1, 2])),
    ("of nothing", reals(0, 2), dict(axis=0, sizes=[3, 0])),
)
rows("ravel", torch.ravel, ("three axes", reals(2, 3, 2), {}), ("a number", tensor(2.0), {}))
rows("expand_as", lambda x, other: x.expand_as(other), ("ones", (reals(2, 1), reals(3, 2, 4)), {}))
rows("reshape_as", lambda x, other: x.reshape_as(other), ("another", (reals(2, 6), reals(3, 2, 2)), {}))
rows("broadcast_to", lambda x, shape: torch.broadcast_to(x, shape),
    ("a number", tensor(5, "i32"), dict(shape=[2, 3])),
    ("to nothing", reals(1, 3), dict(shape=[0, 3])),
)
for turns in (0, 1, 2, 3, -1, 5):
    exact("rot90", f"{turns} quarters", lambda x, k, axes: torch.rot90(x, k, axes), reals(2, 3, 2), k=turns, axes=[0, 1])
exact("rot90", "axes in reverse", lambda x, k, axes: torch.rot90(x, k, axes), reals(2, 3, 2), k=1, axes=[2, 0])
rows("fliplr", torch.fliplr, ("a matrix", EDGES, {}))
rows("flipud", torch.flipud, ("a vector", reals(5), {}), ("a matrix", EDGES, {}))
rows("roll", lambda x, shifts, axes: torch.roll(x, shifts),
    ("all elements in order", reals(2, 3), dict(shifts=[2], axes=[])),
    ("all elements, far", reals(2, 3), dict(shifts=[-13], axes=[])),
)
for offset in (0, 1, -2, 3, -3, 9):
    exact("diagonal", f"offset {offset}", lambda x, offset, a, b: torch.diagonal(x, offset, a, b), reals(3, 4), offset=offset, a=0, b=1)
exact("diagonal", "of three axes", lambda x, offset, a, b: torch.diagonal(x, offset, a, b), reals(3, 2, 4), offset=1, a=-1, b=0)
exact("diagonal", "edges", lambda x, offset, a, b: torch.diagonal(x, offset, a, b), EDGES, offset=0, a=1, b=0)
rows("diag_embed", lambda x, offset: torch.diag_embed(x, offset),
    ("main", reals(3), dict(offset=0)),
    ("above, batched", reals(2, 3), dict(offset=2)),
    ("below, NaN and infinities", EDGES, dict(offset=-1)),
    ("of nothing", reals(0), dict(offset=1)),
    ("bools", integers(3, dtype="bool"), dict(offset=0)),
)
rows("diag", lambda x, offset: torch.diag(x, offset),
    ("a vector", reals(3), dict(offset=1)),
    ("a matrix", reals(3, 4), dict(offset=-1)),
    ("a matrix of integers", integers(4, 3, dtype="i64"), dict(offset=0)),
)
ROWS.append(case("trace", "a matrix", torch.trace, reals(3, 5), near=1e-6))
ROWS.append(case("trace", "integers", torch.trace, integers(4, 4, dtype="i32")))
ROWS.append(case("trace", "of nothing", torch.trace, reals(0, 3), near=1e-6))
rows("repeat", lambda x, repeats: x.repeat(repeats),
    ("all axes", reals(2, 3), dict(repeats=[2, 3])),
    ("a new axis", reals(3), dict(repeats=[2, 1])),
    ("no times", reals(2, 3), dict(repeats=[0, 2])),
    ("a number", tensor(1.5), dict(repeats=[3])),
    ("once", EDGES, dict(repeats=[1, 1])),
)
rows("tile", lambda x, repeats: torch.tile(x, tuple(repeats)),
    ("fewer numbers than axes", reals(2, 3), dict(repeats=[2])),
    ("more numbers than axes", reals(2), dict(repeats=[2, 1, 3])),
)
rows("repeat_interleave", lambda x, repeats, axis: torch.repeat_interleave(x, repeats, axis),
    ("the last axis", reals(2, 3), dict(repeats=2, axis=-1)),
    ("the first axis", EDGES, dict(repeats=3, axis=0)),
    ("no times", reals(2, 3), dict(repeats=0, axis=0)),
)
rows("cat", lambda *x, axis: torch.cat(x, axis),
    ("types are promoted", (integers(2, 2, dtype="i32"), reals(1, 2, dtype="f16")), dict(axis=0)),
    ("u8 and i64", (integers(2, dtype="u8"), integers(1, dtype="i64")), dict(axis=0)),
    ("bf16 and f16", (reals(2, dtype="bf16"), reals(2, dtype="f16")), dict(axis=0)),
    ("an empty vector is passed by", (reals(2, 2), reals(0), reals(2, 1)), dict(axis=1)),
    ("empty vectors alone", (reals(0), reals(0)), dict(axis=0)),
)
rows("hstack", lambda *x: torch.hstack(x),
    ("matrices", (reals(2, 1), reals(2, 2)), {}), ("vectors", (reals(2), reals(3)), {}), ("numbers", (tensor(1.0), tensor(2.0)), {}))
rows("vstack", lambda *x: torch.vstack(x),
    ("matrices", (reals(1, 3), reals(2, 3)), {}), ("vectors", (reals(3), reals(3)), {}), ("numbers", (tensor(1.0), tensor(2.0)), {}))
rows("split", lambda x, size, axis: torch.split(x, size, axis),
    ("the last is shorter", reals(2, 5), dict(size=2, axis=1)),
    ("larger than the axis", reals(2, 5), dict(size=9, axis=-1)),
    ("of nothing", reals(2, 0), dict(size=3, axis=1)),
    ("of nothing by nothing", reals(2, 0), dict(size=0, axis=1)),
)
rows("split_with_sizes", lambda x, sizes, axis: torch.split(x, sizes, axis),
    ("three parts, one empty", reals(5, 2), dict(sizes=[2, 0, 3], axis=0)),
)
for count in (1, 2, 4, 7, 9):
    exact("chunk", f"7 in {count}", lambda x, chunks, axis: torch.chunk(x, chunks, axis), reals(7), chunks=count, axis=0)
    exact("tensor_split", f"7 in {count}", lambda x, sections, axis: torch.tensor_split(x, sections, axis), reals(7), sections=count, axis=0)
exact("chunk", "of nothing", lambda x, chunks, axis: torch.chunk(x, chunks, axis), reals(0, 2), chunks=3, axis=0)
exact("chunk", "an inner axis", lambda x, chunks, axis: torch.chunk(x, chunks, axis), reals(2, 5, 2), chunks=3, axis=-2)
rows("unbind", lambda x, axis: torch.unbind(x, axis), ("the last axis", EDGES, dict(axis=-1)), ("one", reals(1), dict(axis=0)))
rows("moveaxis", lambda x, source, destination: torch.moveaxis(x, tuple(source), tuple(destination)), ("one", reals(2, 3, 4), dict(source=[1], destination=[-1])))
rows("swapdims", lambda x, a, b: torch.swapdims(x, a, b), ("two", reals(2, 3, 4), dict(a=0, b=-1)))
rows("adjoint", torch.adjoint, ("batched", reals(2, 3, 4), {}))
rows("view_as", lambda x, other: x.view_as(other), ("another", (reals(2, 6), reals(3, 2, 2)), {}))
for rank in range(4):
    x = reals(*[2, 3, 2][:rank])
    exact("atleast_1d", f"rank {rank}", torch.atleast_1d, x)
    exact("atleast_2d", f"rank {rank}", torch.atleast_2d, x)
    exact("atleast_3d", f"rank {rank}", torch.atleast_3d, x)
    exact("dstack", f"rank {rank}", lambda *x: torch.dstack(x), x, x + 1)
    exact("column_stack", f"rank {rank}", lambda *x: torch.column_stack(x), x, x + 1)


def pad(x, padding, mode):
    return F.pad(x, tuple(padding), mode=mode)


for mode in ("reflect", "replicate", "circular"):
    exact("pad", f"{mode}, one axis", pad, reals(1, 2, 5), padding=[2, 3], mode=mode)
    exact("pad", f"{mode}, as far as it goes", pad, reals(1, 2, 5), padding=[4, 4], mode=mode)
    exact("pad", f"{mode}, one side", pad, reals(1, 2, 5), padding=[0, 3], mode=mode)
    exact("pad", f"{mode}, a crop and a pad", pad, reals(1, 2, 5), padding=[-1, 2], mode=mode)
    exact("pad", f"{mode}, a pad and a crop", pad, reals(1, 2, 5), padding=[2, -1], mode=mode)
    exact("pad", f"{mode}, two axes", pad, reals(1, 2, 4, 5), padding=[2, 1, 0, 3], mode=mode)
    exact("pad", f"{mode}, three axes", pad, reals(1, 1, 3, 2, 3), padding=[1, 0, 1, 1, 2, 1], mode=mode)
    exact("pad", f"{mode}, NaN and infinities", pad, EDGES.reshape(1, 2, 3), padding=[2, 2], mode=mode)
    exact("pad", f"{mode}, bf16", pad, reals(1, 1, 3, dtype="bf16"), padding=[1, 2], mode=mode)
exact("pad", "circular, all of it", pad, reals(1, 2, 5), padding=[5, 5], mode="circular")
exact("pad", "replicate, further than its own", pad, reals(1, 1, 2), padding=[6, 0], mode="replicate")
exact("pad", "replicate, one element", pad, reals(1, 1, 1), padding=[2, 2], mode="replicate")
exact("pad", "circular, integers", pad, integers(1, 2, 5, dtype="i64"), padding=[2, 3], mode="circular")
ROWS += extremes(ROWS)
