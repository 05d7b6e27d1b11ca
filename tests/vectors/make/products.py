"""Products by other names than matmul and einsum."""

import torch
import torch.nn.functional as F

from make import INF, NAN, case, extremes, integers, reals, tensor

NEAR = 4e-6


def tensordot(x, y, own, others):
    return torch.tensordot(x, y, dims=(own, others))


def adding(function):
    return lambda x, a, b, beta, alpha: function(x, a, b, beta=beta, alpha=alpha)


def multi_dot(*matrices):
    return torch.linalg.multi_dot(matrices)


ROWS = [
    case("bmm", "f32", torch.bmm, reals(2, 3, 4), reals(2, 4, 5, seed=1), near=NEAR),
    case("bmm", "nothing contracted", torch.bmm, reals(2, 3, 0), reals(2, 0, 2)),
    case("mm", "f64", torch.mm, reals(3, 4, dtype="f64"), reals(4, 2, dtype="f64", seed=1), near=1e-14),
    case("mm", "i64", torch.mm, integers(3, 4, dtype="i64"), integers(4, 2, dtype="i64", seed=1)),
    case("mv", "f32", torch.mv, reals(3, 4), reals(4, seed=1), near=NEAR),
    case("dot", "f32", torch.dot, reals(7), reals(7, seed=1), near=NEAR),
    case("dot", "i32", torch.dot, integers(7, dtype="i32"), integers(7, dtype="i32", seed=1)),
    case("dot", "of nothing", torch.dot, reals(0), reals(0)),
    case("vecdot", "last axis", lambda x, y, axis: torch.linalg.vecdot(x, y, dim=axis), reals(3, 4), reals(4, seed=1), axis=-1, near=NEAR),
    case("vecdot", "first axis", lambda x, y, axis: torch.linalg.vecdot(x, y, dim=axis), reals(3, 4), reals(3, 4, seed=1), axis=0, near=NEAR),
    case("outer", "f32", torch.outer, reals(3), reals(4, seed=1)),
    case("outer", "i32 and f32", torch.outer, integers(3, dtype="i32"), reals(4, seed=1)),
    case("inner", "matrices", torch.inner, reals(2, 3), reals(4, 3, seed=1), near=NEAR),
    case("inner", "a number", torch.inner, tensor(2.5), reals(4, 3, seed=1)),
    case("tensordot", "two axes", tensordot, reals(2, 3, 4), reals(4, 5, 2, seed=1), own=[0, 2], others=[2, 0], near=NEAR),
    case("tensordot", "none", tensordot, reals(2), reals(3, seed=1), own=[], others=[]),
    case("tensordot", "negative axes", tensordot, integers(2, 3, dtype="i64"), integers(3, 2, dtype="i64", seed=1), own=[-1, -2], others=[0, 1]),
    case("addmm", "a bias", adding(torch.addmm), reals(4), reals(2, 3, seed=1), reals(3, 4, seed=2), beta=1.0, alpha=1.0, near=NEAR),
    case("addmm", "scaled", adding(torch.addmm), reals(2, 4), reals(2, 3, seed=1), reals(3, 4, seed=2), beta=0.5, alpha=-2.0, near=NEAR),
    case("addmm", "beta 0 hides NaN", adding(torch.addmm), tensor([NAN]), reals(2, 3, seed=1), reals(3, 4, seed=2), beta=0.0, alpha=1.0, near=NEAR),
    case("addmm", "integers", adding(torch.addmm), integers(2, 2, dtype="i64"), integers(2, 3, dtype="i64", seed=1), integers(3, 2, dtype="i64", seed=2), beta=2, alpha=3),
    case("addmv", "f32", adding(torch.addmv), reals(2), reals(2, 3, seed=1), reals(3, seed=2), beta=1.0, alpha=0.5, near=NEAR),
    case("addr", "f32", adding(torch.addr), reals(2, 3), reals(2, seed=1), reals(3, seed=2), beta=2.0, alpha=0.5, near=NEAR),
    case("baddbmm", "f32", adding(torch.baddbmm), reals(2, 1, 4), reals(2, 3, 2, seed=1), reals(2, 2, 4, seed=2), beta=1.0, alpha=2.0, near=NEAR),
    case("addbmm", "f32", adding(torch.addbmm), reals(3, 4), reals(2, 3, 2, seed=1), reals(2, 2, 4, seed=2), beta=1.0, alpha=2.0, near=NEAR),
    case("linear", "a bias", F.linear, reals(2, 3, 4), reals(5, 4, seed=1), reals(5, seed=2), near=NEAR),
    case("linear", "no bias, a vector", F.linear, reals(4), reals(5, 4, seed=1), near=NEAR),
    case("linear", "one output", F.linear, reals(3, 4), reals(4, seed=1), near=NEAR),
    case("bilinear", "a bias", F.bilinear, reals(2, 3), reals(2, 4, seed=1), reals(5, 3, 4, seed=2), reals(5, seed=3), near=2e-5),
    case("multi_dot", "a chain", multi_dot, reals(2, 3), reals(3, 4, seed=1), reals(4, 2, seed=2), near=2e-5),
    case("multi_dot", "vectors at the ends", multi_dot, reals(3), reals(3, 4, seed=1), reals(4, seed=2), near=2e-5),
    case("multi_dot", "two", multi_dot, reals(2, 3), reals(3, 2, seed=1), near=NEAR),
    case("matrix_power", "to 0", lambda x, exponent: torch.linalg.matrix_power(x, exponent), reals(2, 3, 3), exponent=0),
    case("matrix_power", "to 5", lambda x, exponent: torch.linalg.matrix_power(x, exponent), reals(3, 3), exponent=5, near=1e-4),
    case("kron", "matrices", torch.kron, reals(2, 3), reals(2, 2, seed=1)),
    case("kron", "of different ranks", torch.kron, integers(2, 3, dtype="i64"), reals(4, seed=1)),
    case("kron", "a number", torch.kron, tensor(2.0), reals(2, 2, seed=1)),
    case("cross", "rows", lambda x, y, axis: torch.linalg.cross(x, y, dim=axis), reals(2, 3), reals(2, 3, seed=1), axis=-1, near=NEAR),
    case("cross", "broadcast", lambda x, y, axis: torch.linalg.cross(x, y, dim=axis), reals(3, 2), reals(3, 1, seed=1), axis=0, near=NEAR),
]
for p in (2.0, 1.0, 0.0, 3.0, INF):
    ROWS.append(case("cdist", f"p = {p}", lambda x, y, p: torch.cdist(x, y, p), reals(3, 4), reals(2, 4, seed=1), p=p, near=NEAR))
ROWS += [
    case("cdist", "batches broadcast", lambda x, y, p: torch.cdist(x, y, p), reals(2, 1, 3, 4), reals(5, 2, 4, seed=1), p=2.0, near=NEAR),
    case("cdist", "no columns", lambda x, y, p: torch.cdist(x, y, p), reals(3, 0), reals(2, 0, seed=1), p=2.0),
]
ROWS += extremes(ROWS)
