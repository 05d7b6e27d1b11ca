"""Views: nothing is computed, so every bit stays."""

import torch
import torch.nn.functional as F

from make import INF, NAN, case, extremes, integers, reals, tensor

X = reals(2, 3, 4)


def view(name, variant, function, *inputs, **args):
    return case(name, variant, function, *inputs, exact=True, **args)


def reshape(x, shape):
    return x.reshape(shape)


def cut(x, axis, start, end, step):
    axis %= x.dim()
    return x[tuple([slice(None)] * axis + [slice(start, end, step)])]


def pad(x, padding, value):
    return F.pad(x, padding, value=value)


ROWS = [
    view("reshape", "merges axes", reshape, X, shape=[6, 4]),
    view("reshape", "takes axes apart", reshape, X, shape=[2, 3, 2, 2]),
    view("reshape", "across axes", reshape, X, shape=[8, 3]),
    view("reshape", "one extent open", reshape, X, shape=[-1, 6]),
    view("reshape", "to rank 0", reshape, reals(1, 1), shape=[]),
    view("reshape", "from rank 0", reshape, tensor(2.0), shape=[1, 1]),
    view("reshape", "empty", reshape, reals(0, 3), shape=[2, 0, 5]),
    view("view", "merges axes", lambda x, shape: x.view(shape), X, shape=[-1]),
    view("flatten", "some axes", lambda x, start, end: torch.flatten(x, start, end), reals(2, 3, 2, 2), start=1, end=2),
    view("flatten", "to the end", lambda x, start, end: torch.flatten(x, start, end), X, start=-2, end=-1),
    view("flatten", "rank 0", lambda x, start, end: torch.flatten(x, start, end), tensor(-0.0), start=0, end=-1),
    view("permute", "of rank 3", lambda x, axes: x.permute(axes), X, axes=[2, 0, 1]),
    view("permute", "negative axes", lambda x, axes: x.permute(axes), integers(2, 3, dtype="u8"), axes=[-1, 0]),
    view("transpose", "negative axes", lambda x, a, b: x.transpose(a, b), X, a=0, b=-1),
    view("transpose", "an axis with itself", lambda x, a, b: x.transpose(a, b), X, a=1, b=1),
    view("t", "a matrix", lambda x: x.t(), reals(2, 3)),
    view("t", "a vector", lambda x: x.t(), reals(3)),
    view("t", "rank 0", lambda x: x.t(), tensor(1.0)),
    view("unsqueeze", "in front", lambda x, axis: x.unsqueeze(axis), reals(2, 3), axis=0),
    view("unsqueeze", "at the end", lambda x, axis: x.unsqueeze(axis), reals(2, 3), axis=-1),
    view("unsqueeze", "rank 0", lambda x, axis: x.unsqueeze(axis), tensor(1.0), axis=0),
    view("transpose", "rank 0", lambda x, a, b: x.transpose(a, b), tensor(1.5), a=0, b=-1),
    view("squeeze", "rank 0", lambda x, axes: x.squeeze(axes), tensor(1.5), axes=[0]),
    view("flip", "rank 0", lambda x, axes: x.flip(axes), tensor(1.5), axes=[-1]),
    view("squeeze", "every axis of one", lambda x, axes: x.squeeze(), reals(1, 3, 1), axes=[]),
    view("squeeze", "some axes", lambda x, axes: x.squeeze(axes), reals(1, 3, 1), axes=[-1, 1]),
    view("expand", "axes of one", lambda x, shape: x.expand(shape), reals(3, 1), shape=[2, 3, 4]),
    view("expand", "kept axes", lambda x, shape: x.expand(shape), reals(1, 3), shape=[2, -1]),
    view("expand", "to nothing", lambda x, shape: x.expand(shape), reals(1, 3), shape=[0, 3]),
    view("expand", "rank 0", lambda x, shape: x.expand(shape), tensor(True, "bool"), shape=[2]),
    view("narrow", "a middle part", lambda x, axis, start, length: x.narrow(axis, start, length), X, axis=-1, start=1, length=2),
    view("narrow", "nothing", lambda x, axis, start, length: x.narrow(axis, start, length), X, axis=0, start=2, length=0),
    view("slice", "with a step", cut, X, axis=2, start=0, end=4, step=3),
    view("slice", "negative bounds", cut, X, axis=1, start=-2, end=-1, step=1),
    view("slice", "bounds outside", cut, X, axis=-1, start=-9, end=9, step=2),
    view("slice", "nothing", cut, X, axis=0, start=1, end=0, step=1),
    view("select", "the last", lambda x, axis, index: x.select(axis, index), X, axis=1, index=-1),
    view("select", "from rank 1", lambda x, axis, index: x.select(axis, index), tensor([NAN, -0.0]), axis=0, index=1),
    view("flip", "two axes", lambda x, axes: x.flip(axes), X, axes=[0, -1]),
    view("flip", "an empty axis", lambda x, axes: x.flip(axes), reals(0, 2), axes=[0]),
    view("cat", "last axis", lambda *x, axis: torch.cat(x, axis), reals(2, 3), reals(2, 1, seed=1), axis=-1),
    view("cat", "with an empty part", lambda *x, axis: torch.cat(x, axis), reals(2, 3), reals(0, 3), reals(1, 3, seed=1), axis=0),
    view("cat", "integers", lambda *x, axis: torch.cat(x, axis), integers(2, dtype="i64"), integers(3, dtype="i64"), axis=0),
    view("stack", "a new axis in front", lambda *x, axis: torch.stack(x, axis), reals(2, 3), reals(2, 3, seed=1), axis=0),
    view("stack", "a new axis at the end", lambda *x, axis: torch.stack(x, axis), reals(2), reals(2, seed=1), reals(2, seed=2), axis=-1),
    view("stack", "rank 0", lambda *x, axis: torch.stack(x, axis), tensor(1.0), tensor(NAN), axis=0),
    view("pad", "two axes", pad, reals(2, 3), padding=[1, 2, 0, 1], value=0.5),
    view("pad", "one axis of three", pad, X, padding=[2, 0], value=-INF),
    view("pad", "takes away", pad, X, padding=[-1, 1, 1, -1], value=0.0),
    view("pad", "nothing becomes something", pad, reals(0, 2), padding=[0, 0, 1, 1], value=2.0),
    view("pad", "integers", pad, integers(2, 2, dtype="i64"), padding=[1, 1], value=7.0),
    view("pad", "bf16", pad, reals(2, 2, dtype="bf16"), padding=[1, 1], value=0.1),
    view("roll", "one axis", lambda x, shifts, axes: torch.roll(x, shifts, axes), X, shifts=[1], axes=[-1]),
    view("roll", "two axes, backwards and around", lambda x, shifts, axes: torch.roll(x, shifts, axes), X, shifts=[-5, 7], axes=[1, 0]),
    view("roll", "empty", lambda x, shifts, axes: torch.roll(x, shifts, axes), reals(0, 2), shifts=[1], axes=[0]),
]
ROWS += [
    view("squeeze", "NaN, infinities, -0 and a huge number", lambda x, axes: x.squeeze(axes), tensor([[NAN, INF, -INF, -0.0, 1e30]]), axes=[0]),
    view("squeeze", "nothing", lambda x, axes: x.squeeze(axes), reals(0, 1), axes=[1]),
]
ROWS += extremes(ROWS)
