"""Tensors made of numbers and indices alone, beyond those of elementwise.py."""

import torch

from make import DTYPES, case, extremes, integers, reals, tensor


def arange(start, end, step, dtype):
    return torch.arange(start, end, step, dtype=DTYPES[dtype])


def linspace(start, end, steps, dtype):
    return torch.linspace(start, end, steps, dtype=DTYPES[dtype])


def eye(rows, columns, dtype):
    return torch.eye(rows, columns, dtype=DTYPES[dtype])


def one_hot(x, classes):
    return torch.nn.functional.one_hot(x, classes)


def meshgrid(*vectors, indexing):
    return torch.meshgrid(*vectors, indexing=indexing)


ROWS = [
    case("arange_step", "floats", arange, start=1.0, end=2.0, step=0.3, dtype="f32"),
    case("arange_step", "backwards", arange, start=5.0, end=-1.0, step=-2.0, dtype="i64"),
    case("arange_step", "the end is excluded", arange, start=0.0, end=6.0, step=2.0, dtype="i32"),
    case("arange_step", "nothing", arange, start=3.0, end=3.0, step=1.0, dtype="f32"),
    case("arange_step", "f64", arange, start=-1.0, end=1.0, step=0.25, dtype="f64"),
    case("arange_step", "bf16", arange, start=0.0, end=3.0, step=0.5, dtype="bf16"),
    case("linspace", "f32", linspace, near=1e-7, start=-1.0, end=2.0, steps=7, dtype="f32"),
    case("linspace", "one", linspace, start=3.0, end=5.0, steps=1, dtype="f32"),
    case("linspace", "nothing", linspace, start=3.0, end=5.0, steps=0, dtype="f64"),
    case("linspace", "two", linspace, exact=True, start=0.1, end=0.7, steps=2, dtype="f64"),
    case("linspace", "backwards", linspace, near=1e-7, start=1.0, end=0.0, steps=6, dtype="f32"),
    case("linspace", "integers", linspace, start=-1.5, end=2.0, steps=4, dtype="i64"),
    case("linspace", "integers that are no multiples", linspace, start=-7.0, end=3.0, steps=7, dtype="i32"),
    case("eye", "square", eye, exact=True, rows=3, columns=3, dtype="f32"),
    case("eye", "wide", eye, rows=2, columns=4, dtype="i64"),
    case("eye", "empty", eye, rows=0, columns=2, dtype="bool"),
    case("one_hot", "a vector", one_hot, tensor([0, 2, 1, 2], "i64"), classes=4),
    case("one_hot", "a matrix", one_hot, tensor([[0], [1]], "i64"), classes=2),
    case("one_hot", "rank 0", one_hot, tensor(1, "i64"), classes=3),
    case("meshgrid", "ij", meshgrid, reals(2), reals(3, seed=1), exact=True, indexing="ij"),
    case("meshgrid", "xy", meshgrid, reals(2), reals(3, seed=1), reals(2, seed=2), exact=True, indexing="xy"),
    case("meshgrid", "a number", meshgrid, integers(3, dtype="i64"), tensor(5, "i64"), indexing="ij"),
    case("full_like", "bf16", lambda x, value: torch.full_like(x, value), reals(2, 3, dtype="bf16"), exact=True, value=0.1),
    case("zeros_like", "bools", torch.zeros_like, tensor([True, False], "bool")),
    case("ones_like", "i32", torch.ones_like, integers(2, 2, dtype="i32")),
]
ROWS += extremes(ROWS)
