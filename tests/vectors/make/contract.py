"""Products: matmul and einsum."""

import torch

from make import INF, NAN, case, extremes, integers, reals, tensor


def einsum(*operands, spec):
    return torch.einsum(spec, *operands)


def product(variant, *operands, **options):
    return case("matmul", variant, torch.matmul, *operands, **options)


def contraction(spec, *operands, variant=None, **options):
    return case("einsum", variant or spec, einsum, *operands, spec=spec, **options)


def twice(spec, x):
    """The same tensor as every operand, which is one input."""
    return case("einsum", f"{spec} of one tensor", lambda x, spec: torch.einsum(spec, *[x] * (spec.count(",") + 1)), x, spec=spec)


NEAR = 4e-6

ROWS = [
    product("matrices", reals(3, 5), reals(5, 2, seed=1), near=NEAR),
    product("vectors", reals(5), reals(5, seed=1), near=NEAR),
    product("a matrix and a vector", reals(3, 5), reals(5, seed=1), near=NEAR),
    product("a vector and a matrix", reals(5), reals(5, 2, seed=1), near=NEAR),
    product("batched", reals(2, 3, 4), reals(2, 4, 2, seed=1), near=NEAR),
    product("batches broadcast", reals(2, 1, 3, 4), reals(5, 4, 2, seed=1), near=NEAR),
    product("a batch and a matrix", reals(2, 3, 4), reals(4, 2, seed=1), near=NEAR),
    product("a batch and a vector", reals(2, 3, 4), reals(4, seed=1), near=NEAR),
    product("a vector and a batch", reals(3), reals(2, 3, 4, seed=1), near=NEAR),
    product("nothing contracted", reals(4, 0), reals(0, 3)),
    product("no rows", reals(0, 5), reals(5, 3)),
    product("no batch", reals(0, 2, 3), reals(3, 2)),
    product("i64", integers(2, 3, dtype="i64"), integers(3, 4, dtype="i64", seed=1)),
    product("i32 wraps", tensor([[2**30, 2**30]], "i32"), tensor([[2], [3]], "i32")),
    product("u8 wraps", tensor([[200, 100]], "u8"), tensor([[2], [3]], "u8")),
    product("bf16", reals(3, 8, dtype="bf16"), reals(8, 2, dtype="bf16", seed=1), near=1e-2),
    product("bf16 sums in f32", tensor([[256.0] + [1.0] * 8], "bf16"), tensor([[1.0]] * 9, "bf16")),
    product("f16", reals(3, 8, dtype="f16"), reals(8, 2, dtype="f16", seed=1), near=2e-3),
    product("f64", reals(3, 8, dtype="f64"), reals(8, 2, dtype="f64", seed=1), near=1e-13),
    product("NaN and infinities", tensor([[NAN, 0.0], [INF, 1.0], [1.0, 2.0]]), tensor([[0.0, 1.0], [1.0, -INF]])),
    product("overflow", tensor([[1e20, 1e20]]), tensor([[1e20, -1e20, 1e10], [1e20, -1e20, 1.0]])),
    contraction("ij,jk->ik", reals(3, 5), reals(5, 2, seed=1), near=NEAR),
    contraction("ij,jk", reals(3, 5), reals(5, 2, seed=1), near=NEAR, variant="no arrow, in alphabetic order"),
    contraction("ba", reals(3, 5), exact=True, variant="no arrow, a transpose"),
    contraction("ii", integers(3, 3), variant="a trace"),
    contraction("ii->i", integers(3, 3), variant="a diagonal"),
    contraction("iij->ij", integers(2, 2, 3), variant="a diagonal of the first axes"),
    contraction("iji->j", integers(2, 3, 2), variant="a trace that keeps an axis"),
    contraction("ij->", integers(2, 3), variant="all summed"),
    contraction("ij->j", integers(2, 3), variant="rows summed"),
    contraction("ijk->kji", integers(2, 3, 4), variant="axes in reverse"),
    contraction("i,j->ij", integers(3), integers(4, seed=1), variant="outer"),
    contraction("i,i->", integers(5), integers(5, seed=1), variant="inner"),
    contraction("ij,ij->ij", integers(2, 3), integers(2, 3, seed=1), variant="element by element"),
    contraction("ij,ik->ijk", integers(2, 3), integers(2, 4, seed=1), variant="outer in a batch"),
    contraction("bhsd,bhtd->bhst", integers(1, 2, 3, 4), integers(1, 2, 5, 4, seed=1), variant="scores of attention"),
    contraction("ab,bc,cd->ad", integers(2, 3), integers(3, 4, seed=1), integers(4, 2, seed=2), variant="a chain"),
    contraction("a,b,c->abc", integers(2), integers(3, seed=1), integers(2, seed=2), variant="three outer"),
    contraction("ab,bc,ca->", integers(2, 3), integers(3, 4, seed=1), integers(4, 2, seed=2), variant="a trace of a chain"),
    contraction("...ij,...jk->...ik", integers(2, 1, 2, 3), integers(4, 3, 2, seed=1), variant="an ellipsis that broadcasts"),
    contraction("...i->i...", integers(2, 3, 4), variant="an ellipsis that moves"),
    contraction("i...,i...->...", integers(3, 2), integers(3, 2, seed=1), variant="an ellipsis at the end"),
    contraction("...i,i", integers(2, 3), integers(3, seed=1), variant="an ellipsis without an arrow"),
    contraction("...,...->...", integers(2, 1), integers(3, seed=1), variant="ellipses alone"),
    contraction("ij,jk->ik", integers(3, 1), integers(5, 2, seed=1), variant="an axis of one that is contracted"),
    contraction("ij,ij->ij", integers(1, 4), integers(3, 4, seed=1), variant="an axis of one that stays"),
    contraction("ij,jk->ik", reals(3, 0), reals(0, 2), variant="an empty axis contracted"),
    contraction(",->", tensor(3.0), tensor(-2.0), variant="rank 0"),
    contraction(" i j , j -> i ", integers(2, 3), integers(3, seed=1), variant="blanks"),
    contraction("aB,Bc->ca", integers(2, 3), integers(3, 2, seed=1), variant="capital letters"),
    contraction("ij,j->i", integers(2, 3, dtype="i64"), integers(3, dtype="i64", seed=1), variant="i64"),
    contraction("ij,j->i", reals(2, 3, dtype="bf16"), reals(3, dtype="bf16", seed=1), variant="bf16", near=1e-2),
    twice("ij,ij->", integers(2, 3)),
    twice("ij,kj->ik", integers(2, 3)),
]
ROWS += [
    contraction("...i->i", integers(2, 3, 4), variant="an ellipsis that is summed"),
    contraction("ij...,jk->ik", integers(2, 3, 2), integers(3, 2, seed=1), variant="an ellipsis of one operand that is summed"),
    contraction("ij->", integers(2, 3, dtype="i32"), variant="a sum of i32 gives i64"),
    contraction("ij->j", tensor([[True, False], [True, True]], "bool"), variant="a sum of bools gives i64"),
    contraction("ii->i", tensor([[True, False], [True, False]], "bool"), variant="a diagonal of bools"),
    contraction("iij->ji", integers(3, 3, 2, dtype="i32"), variant="a diagonal, turned, of i32"),
    contraction("ij,ij->ij", integers(1, 3), integers(2, 1, seed=1), variant="axes of one in both"),
    contraction("ij,jk,kl->il", integers(1, 1), integers(3, 1, seed=1), integers(4, 2, seed=2), variant="axes of one in a chain"),
    contraction("ij,ij->", integers(1, 3), integers(4, 3, seed=1), variant="an axis of one that is summed"),
    contraction("a,b,c,d,e,f,g,h,i,j,k->", *[integers(2, seed=n) for n in range(11)], variant="eleven operands"),
    contraction("ab,bc,cd,de,ef,fg,gh,hi,ij,jk,kl,lm->am", *[integers(2, 2, seed=n, least=-1, most=2) for n in range(12)], variant="a chain of twelve"),
]
ROWS += extremes(ROWS)
