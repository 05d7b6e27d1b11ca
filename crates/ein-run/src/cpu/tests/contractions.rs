//! Contractions of all sorts.

use super::{Rng, assert_near, check, fields, room, stored};
use crate::cpu::Scratch;
use crate::cpu::contract::{contract, packable};
use crate::cpu::piece::{Piece, PieceMut};
use crate::cpu::tiles;
use crate::cpu::tiles::tests::{within, without};
use bytemuck::{cast_slice, cast_slice_mut};
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::Op;
use ein_ir::reference::{self, Operand};
use ein_ir::region::Region;

/// Checks an einsum whole and on random blocks, on integers exactly and on floats nearly.
fn blocks(what: &str, e: &Einsum, operands: &[(DType, Vec<usize>)], rounds: usize) {
    let rank = e.shape().len();
    let op = Op::Einsum(e.clone());
    let mut rng = Rng::new(what.len() as u64);
    for round in 0..rounds {
        let whole = round % 2 == 0;
        let tensors: Vec<_> = operands.iter().map(|(d, s)| rng.dense(*d, s, whole)).collect();
        let labels = if round < 2 { e.space() } else { rng.part(&e.space()) };
        let finish = round % 3 == 0;
        let wide = round % 4 == 0;
        let form = if finish { Form::finished(e.dtype, rank) } else { e.monoid.pending(e.dtype, rank, wide) };
        check(&format!("{what} {}", e.dtype), &mut rng, &op, &tensors, &labels, &form, finish, whole);
    }
}

#[test]
fn every_shape_of_contraction() {
    let shapes = |text: &str| -> Vec<Vec<usize>> {
        text.split(',')
            .map(|s| s.split('x').filter(|n| !n.is_empty()).map(|n| n.parse().expect("a size")).collect())
            .collect()
    };
    for (spec, sizes) in [
        ("ik,kj->ij", "9x17,17x11"),
        ("ki,kj->ij", "17x9,17x11"),
        ("ik,jk->ji", "9x17,11x17"),
        ("ik,kj->ij", "1x40,40x33"),
        ("ik,kj->ij", "40x1,1x33"),
        ("bsk,nk->bsn", "2x7x16,12x16"),
        ("bij,bjk->bik", "3x8x9,3x9x10"),
        ("bij,bjk->kib", "3x8x9,3x9x10"),
        ("bhsd,bhtd->bhst", "2x3x7x8,2x3x9x8"),
        ("bhst,bhtd->bshd", "2x3x7x9,2x3x9x8"),
        ("bshd,hdn->bsn", "2x5x3x8,3x8x20"),
        ("bhsd,hdn->bsn", "2x3x5x8,3x8x20"),
        ("ij,jk->", "6x7,7x8"),
        ("i,i->", "100,100"),
        ("i,j->ij", "30,40"),
        ("ii,ij->j", "9x9,9x20"),
        ("ijj,jk->ik", "9x6x6,6x20"),
        ("bi,bi->b", "20x30,20x30"),
        ("ij,kl->ik", "7x5,9x4"),
        ("abcd,cdef->abef", "3x4x5x2,5x2x6x3"),
        ("abcd,aebf->cdef", "3x4x5x6,3x7x4x2"),
        ("ij,->ij", "5x6,"),
    ] {
        let sizes = shapes(sizes);
        let views: Vec<&[usize]> = sizes.iter().map(Vec::as_slice).collect();
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::I32] {
            let e = Einsum::contraction(spec, &views, dtype).expect("well formed");
            let operands: Vec<_> = sizes.iter().map(|s| (dtype, s.clone())).collect();
            blocks(spec, &e, &operands, if dtype == DType::F32 { 12 } else { 6 });
        }
    }
}

#[test]
fn three_operands_and_one() {
    for (spec, sizes) in [("ij,jk,kl->il", vec![vec![5, 6], vec![6, 7], vec![7, 8]]), ("ijk->ki", vec![vec![5, 6, 7]])]
    {
        let views: Vec<&[usize]> = sizes.iter().map(Vec::as_slice).collect();
        let e = Einsum::contraction(spec, &views, DType::F32).expect("well formed");
        let operands: Vec<_> = sizes.iter().map(|s| (DType::F32, s.clone())).collect();
        blocks(spec, &e, &operands, 8);
    }
}

fn label(name: &str, extent: usize) -> Label {
    Label::new(name, extent)
}

fn index(terms: &[(usize, i64)]) -> Affine {
    Affine { terms: terms.to_vec(), offset: 0 }
}

#[test]
fn heads_inside_an_axis() {
    // out[s, h, n] = sum over d of x[s, 8 h + d] w[n, 8 h + d]
    for dtype in [DType::F32, DType::BF16] {
        let e = Einsum {
            labels: vec![label("s", 9), label("h", 4), label("n", 10), label("d", 8)],
            rank: 3,
            accesses: vec![
                Access { axes: vec![Affine::label(0), index(&[(1, 8), (3, 1)])] },
                Access { axes: vec![Affine::label(2), index(&[(1, 8), (3, 1)])] },
            ],
            join: Expr::product(2, dtype),
            monoid: Monoid::Sum,
            dtype,
        };
        blocks("heads", &e, &[(dtype, vec![9, 32]), (dtype, vec![10, 32])], 12);
    }
}

#[test]
fn convolutions() {
    // out[n, o, y, x] = sum over c, ky, kx of a[n, c, 2 y + ky, x + 2 kx] w[o, c, ky, kx], either factor first, with few
    // output channels and with as many as make it worth to gather windows.
    for (outputs, dtypes) in
        [(5, [DType::F32, DType::I32]), (8, [DType::F32, DType::F64]), (9, [DType::BF16, DType::F32])]
    {
        for dtype in dtypes {
            let image = Access {
                axes: vec![Affine::label(0), Affine::label(4), index(&[(2, 2), (5, 1)]), index(&[(3, 1), (6, 2)])],
            };
            let mut e = Einsum {
                labels: [("n", 2), ("o", outputs), ("y", 4), ("x", 9), ("c", 6), ("ky", 3), ("kx", 2)]
                    .map(|(name, extent)| label(name, extent))
                    .to_vec(),
                rank: 4,
                accesses: vec![image, Access::labels(&[1, 4, 5, 6])],
                join: Expr::product(2, dtype),
                monoid: Monoid::Sum,
                dtype,
            };
            let mut operands = [(dtype, vec![2, 6, 9, 11]), (dtype, vec![outputs, 6, 3, 2])];
            blocks("convolution", &e, &operands, 10);
            e.accesses.reverse();
            operands.reverse();
            blocks("convolution, weight first", &e, &operands, 6);
        }
    }
}

#[test]
fn transposed_convolutions() {
    // out[n, o, t, c] = sum over i, j of a[n, i, t - j + 1] w[i, o, 2 j + c]: columns and rows are apart in the result.
    let dtype = DType::F32;
    let shifted = Affine { terms: vec![(2, 1), (5, -1)], offset: 1 };
    let e = Einsum {
        labels: [("n", 2), ("o", 8), ("t", 9), ("c", 2), ("i", 7), ("j", 2)].map(|(n, e)| label(n, e)).to_vec(),
        rank: 4,
        accesses: vec![
            Access { axes: vec![Affine::label(0), Affine::label(4), shifted] },
            Access { axes: vec![Affine::label(4), Affine::label(1), index(&[(5, 2), (3, 1)])] },
        ],
        join: Expr::product(2, dtype),
        monoid: Monoid::Sum,
        dtype,
    };
    blocks("transposed convolution", &e, &[(dtype, vec![2, 7, 10]), (dtype, vec![7, 8, 4])], 12);
}

#[test]
fn sixteen_bits_in_and_thirty_two_out() {
    let mut join = Expr::new();
    let (x, y) = (join.push_operand(0, DType::BF16), join.push_operand(1, DType::F16));
    let (x, y) = (join.cast(x, DType::F32), join.cast(y, DType::F32));
    join.binary(Binary::Mul, y, x).expect("one type");
    let e = Einsum {
        labels: vec![label("i", 12), label("j", 13), label("k", 20)],
        rank: 2,
        accesses: vec![Access::labels(&[0, 2]), Access::labels(&[2, 1])],
        join,
        monoid: Monoid::Sum,
        dtype: DType::F32,
    };
    blocks("mixed", &e, &[(DType::BF16, vec![12, 20]), (DType::F16, vec![20, 13])], 6);
}

#[test]
fn products_of_sixteen_bits_are_rounded_once() {
    // Large enough for tile registers, where there are any; rows and columns in either place of the result.
    for (spec, shapes) in [
        ("sk,nk->sn", [vec![70, 96], vec![40, 96]]),
        ("ks,kn->ns", [vec![96, 40], vec![96, 70]]),
        ("bsk,bkn->bsn", [vec![3, 33, 64], vec![3, 64, 50]]),
        ("shd,hdn->sn", [vec![40, 2, 48], vec![2, 48, 33]]),
    ] {
        let given: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let e = Einsum::contraction(spec, &given, DType::BF16).expect("well formed");
        let operands = shapes.map(|shape| (DType::BF16, shape));
        blocks(spec, &e, &operands, 6);
        without(|| blocks(spec, &e, &operands, 2));
    }
}

#[test]
fn packed_weights_are_read_by_columns() {
    let rows_and_columns =
        [[(0, 70), (0, 96)], [(3, 40), (32, 96)], [(0, 1), (64, 96)], [(60, 70), (0, 64)]].map(|part| part.to_vec());
    // Inner extents of one loop, and of two that walk on as one in the weight alone.
    packed("sk,nk->sn", [&[70, 64], &[96, 64]], &rows_and_columns);
    packed("hsd,nhd->sn", [&[2, 70, 32], &[96, 2, 32]], &rows_and_columns);
    // Heads before rows, and batches before both; all of them, one, and one that ends elsewhere.
    let heads = [
        [(0, 2), (0, 3), (0, 41), (0, 32)],
        [(1, 2), (1, 3), (0, 41), (0, 32)],
        [(0, 2), (1, 2), (7, 20), (0, 32)],
        [(0, 1), (2, 3), (40, 41), (0, 32)],
    ];
    packed("bsk,hdk->bhsd", [&[2, 41, 64], &[3, 32, 64]], &heads.map(|part| part.to_vec()));
    packed("bsk,hdk->bhsd", [&[2, 41, 64], &[4, 24, 64]], &[vec![(0, 2), (0, 4), (0, 41), (0, 24)]]);
    // Rows of a factor of heads, in which they do not follow one another.
    let rows = [[(0, 3), (0, 33), (0, 64)], [(1, 3), (2, 9), (32, 64)]].map(|part| part.to_vec());
    packed("bhsd,nhd->bsn", [&[3, 2, 33, 32], &[64, 2, 32]], &rows);
}

/// A product with its second factor packed, all of it and parts of the result, as several threads do them.
fn packed(spec: &str, [x, w]: [&[usize]; 2], parts: &[Vec<(usize, usize)>]) {
    let mut rng = Rng::new(5);
    for dtype in [DType::F32, DType::BF16] {
        let e = Einsum::contraction(spec, &[x, w], dtype).expect("well formed");
        let given = [x, w].map(|shape| rng.dense(dtype, shape, true));
        let regions = [x, w].map(Region::whole);
        let forms = [x, w].map(|shape| Form::finished(dtype, shape.len()));
        let form = Form::finished(dtype, e.rank);
        let mut words = [0, 1].map(|n| stored(std::slice::from_ref(&given[n]), &forms[n], &regions[n]));
        let whole = Region(e.space().0[..e.rank].to_vec());
        let constant = packable(&e, &e.space(), [&regions[0], &regions[1]], &whole, 1, [dtype; 2]);
        let Some(constant) = constant else {
            assert!(dtype == DType::BF16 && !tiles::multiply_halves(), "{spec} {dtype} is packed");
            println!("skipped: this processor has no tile registers (AMX), or Linux does not lend them");
            continue;
        };
        constant.pack(cast_slice_mut(&mut words[1]));
        for part in parts {
            let region = Region::of(part);
            let labels = Region([&region.0[..], &e.space().0[e.rank..]].concat());
            let pieces = [0, 1].map(|n| {
                let piece = Piece::new(&regions[n], &forms[n], cast_slice(&words[n]));
                Some(if n == 1 { piece.packed(true) } else { piece })
            });
            let operand = |n: usize| Some(Operand { data: &given[n], region: regions[n].clone() });
            let op = Op::Einsum(e.clone());
            let expected = reference::block(&op, &labels, &[operand(0), operand(1)], &form, true).expect("computed");
            let check = || {
                let mut out = room(&form, &region);
                let mut result = PieceMut::new(&region, &form, cast_slice_mut(&mut out));
                assert_eq!(contract(&e, &labels, &pieces, &mut result, &mut Scratch::default()), Ok(true));
                assert_near(&format!("{spec} {dtype} {region}"), &fields(&out, &form, &region), &expected, true);
            };
            check();
            if dtype == DType::F32 {
                within(check);
            }
        }
    }
}
