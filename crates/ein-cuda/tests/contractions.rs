//! Contractions by the library, in squares and of few rows, executed on the host, against the dense reference.

mod support;

use ein_cuda::program::{Program, Step};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::Op;
use ein_ir::region::Region;
use support::{Cases, Rng, kernel_row};

/// What does a program's first step.
fn way(program: &Program) -> &str {
    match program.steps.first() {
        Some(Step::Matmul(_)) => "library",
        Some(Step::Launch(l)) => l.kernel.name.split('_').next().unwrap_or(""),
        Some(Step::Copy { .. } | Step::Zero { .. }) | None => "",
    }
}

fn add(
    cases: &mut Cases,
    rng: &mut Rng,
    what: &str,
    e: &Einsum,
    tensors: &[Dense],
    labels: &Region,
    wide: Option<bool>,
) {
    let rank = e.shape().len();
    let form = wide.map_or(Form::finished(e.dtype, rank), |wide| e.monoid.pending(e.dtype, rank, wide));
    let (row, expected) = kernel_row(rng, &Op::Einsum(e.clone()), tensors, labels, &form, wide.is_none());
    row.check(cases, &format!("{what} over {labels}"), expected, true);
}

/// The contraction of a spec, with its whole operands of small integers.
fn contraction(rng: &mut Rng, spec: &str, extents: &[(char, usize)], dtype: DType) -> (Einsum, Vec<Dense>) {
    let extent = |c: char| extents.iter().find(|e| e.0 == c).expect("all letters").1;
    let shapes: Vec<Vec<usize>> =
        spec.split("->").next().unwrap_or("").split(',').map(|s| s.chars().map(extent).collect()).collect();
    let refs: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let e = Einsum::contraction(spec, &refs, dtype).expect("well formed");
    let tensors = shapes.iter().map(|s| rng.dense(dtype, s, true)).collect();
    (e, tensors)
}

#[test]
fn specs_sizes_and_types() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(51);
    let specs: [(&str, &[(char, usize)]); 14] = [
        ("ik,kj->ij", &[('i', 33), ('j', 40), ('k', 29)]),
        ("ik,kj->ji", &[('i', 33), ('j', 40), ('k', 29)]),
        ("ki,jk->ij", &[('i', 17), ('j', 64), ('k', 32)]),
        ("bsk,nk->bsn", &[('b', 2), ('s', 19), ('n', 24), ('k', 48)]),
        ("bsk,bnk->bsn", &[('b', 3), ('s', 19), ('n', 24), ('k', 40)]),
        ("bshd,hdn->bsn", &[('b', 2), ('s', 9), ('h', 4), ('d', 16), ('n', 23)]),
        ("bhsd,hdn->bsn", &[('b', 2), ('s', 9), ('h', 4), ('d', 16), ('n', 23)]),
        ("bqhd,bkhd->bhqk", &[('b', 2), ('q', 17), ('k', 19), ('h', 3), ('d', 16)]),
        ("bhqk,bkhd->bqhd", &[('b', 2), ('q', 17), ('k', 19), ('h', 3), ('d', 16)]),
        ("k,nk->n", &[('n', 300), ('k', 64)]),
        ("k,kn->n", &[('n', 300), ('k', 64)]),
        ("mk,nk->mn", &[('m', 5), ('n', 41), ('k', 96)]),
        ("bmk,nk->bmn", &[('b', 2), ('m', 2), ('n', 41), ('k', 104)]),
        ("mk,nk->nm", &[('m', 65), ('n', 3), ('k', 56)]),
    ];
    for dtype in [DType::F32, DType::BF16, DType::F64, DType::I32, DType::U8] {
        for (spec, extents) in specs {
            let (e, tensors) = contraction(&mut rng, spec, extents, dtype);
            add(&mut cases, &mut rng, &format!("{spec} {dtype}"), &e, &tensors, &e.space(), None);
            let part = rng.part(&e.space());
            let wide = rng.coin();
            add(&mut cases, &mut rng, &format!("{spec} {dtype} wide {wide}"), &e, &tensors, &part, Some(wide));
        }
    }
    for expected in ["library", "thin", "product", "reduce"] {
        assert!(cases.programs().any(|(_, p)| way(p) == expected), "nothing is done by {expected}");
    }
    cases.run();
}

/// Operands are widened before they are multiplied, or the sum is narrowed at the end.
#[test]
fn types_that_differ() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(53);
    for (left, right, join, dtype) in [
        (DType::BF16, DType::BF16, DType::F32, DType::F32),
        (DType::F16, DType::F16, DType::F32, DType::F16),
        (DType::F32, DType::F32, DType::F32, DType::BF16),
        (DType::BF16, DType::F32, DType::F32, DType::F32),
        (DType::F16, DType::BF16, DType::F32, DType::F32),
        (DType::F32, DType::F32, DType::F32, DType::F64),
        (DType::I32, DType::I32, DType::I32, DType::I64),
    ] {
        for [m, n, k] in [[20, 33, 40], [3, 70, 64]] {
            let mut expr = Expr::new();
            let (a, b) = (expr.push_operand(0, left), expr.push_operand(1, right));
            let (a, b) = (expr.cast(a, join), expr.cast(b, join));
            expr.binary(Binary::Mul, a, b).expect("one type");
            let labels = [("m", m), ("n", n), ("k", k)].map(|(name, e)| Label::new(name, e)).to_vec();
            let accesses = vec![Access::labels(&[0, 2]), Access::labels(&[1, 2])];
            let e = Einsum { labels, rank: 2, accesses, join: expr, monoid: Monoid::Sum, dtype };
            let tensors = [rng.dense(left, &[m, k], true), rng.dense(right, &[n, k], true)];
            let what = format!("{left} {right} {join} {dtype}");
            add(&mut cases, &mut rng, &what, &e, &tensors, &e.space(), None);
        }
    }
    cases.run();
}

/// What looks like a product and is not one of matrices.
#[test]
fn no_products_of_matrices() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(57);
    for (spec, extents) in [
        ("bk,bk->b", &[('b', 90), ('k', 100)][..]),
        ("ii,ij->ij", &[('i', 40), ('j', 400)]),
        ("ik,k->i", &[('i', 200), ('k', 90)]),
        ("ik,jl->ij", &[('i', 20), ('j', 20), ('k', 9), ('l', 9)]),
        ("i,j->ij", &[('i', 100), ('j', 100)]),
        ("ik,kj,j->ij", &[('i', 20), ('j', 20), ('k', 30)]),
    ] {
        let (e, tensors) = contraction(&mut rng, spec, extents, DType::F32);
        add(&mut cases, &mut rng, spec, &e, &tensors, &e.space(), None);
    }
    let x = rng.dense(DType::F32, &[30, 40, 9], true);
    let mut join = Expr::operand(DType::F32);
    join.binary(Binary::Mul, 0, 0).expect("a float");
    let labels = [30, 40, 9].iter().enumerate().map(|(n, &e)| Label::new(format!("l{n}"), e)).collect();
    let e = Einsum {
        labels,
        rank: 1,
        accesses: vec![Access::labels(&[0, 1, 2])],
        join,
        monoid: Monoid::Sum,
        dtype: DType::F32,
    };
    add(&mut cases, &mut rng, "squares", &e, &[x], &e.space(), None);
    cases.run();
}

/// Large products of what is not a matrix, such as heads that are summed over: the library after a copy.
#[test]
fn factors_are_copied_where_that_makes_matrices() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(59);
    let sizes = [('b', 2), ('s', 60), ('n', 72), ('h', 32), ('d', 64)];
    for spec in ["bhsd,nhd->bsn", "bshd,hnd->bsn", "bhsd,hnd->bns", "bhsd,ndh->bsn"] {
        for dtype in [DType::BF16, DType::F32] {
            let (e, tensors) = contraction(&mut rng, spec, &sizes, dtype);
            add(&mut cases, &mut rng, &format!("{spec} {dtype}"), &e, &tensors, &e.space(), None);
        }
    }
    let by_library = |p: &Program| p.steps.iter().any(|s| matches!(s, Step::Matmul(_)));
    for (what, program) in cases.programs() {
        assert!(by_library(program) && program.steps.len() > 1 && program.scratch > 0, "{what}: {program:?}");
    }
    cases.run();
}

/// Convolutions: windows of an image by `steps` and `apart` of the window's own elements, few channels and more, layouts with
/// channels before and after places, the weight on either side.
#[test]
fn windows_are_gathered() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(61));
    let mut expected = Vec::new();
    for (n, (dtype, channels, outs, size, window, steps, apart)) in [
        (DType::BF16, 3, 40, [13, 11], [3, 3], 1, 1),
        (DType::F16, 5, 64, [9, 20], [3, 2], 2, 1),
        (DType::BF16, 8, 70, [7, 7], [5, 3], 1, 2),
        (DType::BF16, 40, 17, [6, 5], [3, 3], 1, 1),
        (DType::F32, 4, 20, [12, 9], [3, 3], 1, 1),
        (DType::F32, 4, 60, [12, 9], [3, 3], 1, 1),
        (DType::BF16, 6, 140, [16, 17], [3, 3], 1, 1),
    ]
    .into_iter()
    .enumerate()
    {
        let whole = [0, 1].map(|i| (size[i] - 1) * steps + (window[i] - 1) * apart + 1);
        let names = ["b", "o", "y", "x", "c", "i", "j"];
        let extents = [2, outs, size[0], size[1], channels, window[0], window[1]];
        let labels = names.iter().zip(extents).map(|(name, e)| Label::new(*name, e)).collect();
        let at =
            |place: usize, own: usize| Affine { offset: 0, terms: vec![(place, steps as i64), (own, apart as i64)] };
        let (channel, across) = (Affine::label(4), [at(2, 5), at(3, 6)]);
        let [y, x] = across;
        let (shape, axes) = if n % 2 == 1 {
            ([2, whole[0], whole[1], channels], [Affine::label(0), y, x, channel])
        } else {
            ([2, channels, whole[0], whole[1]], [Affine::label(0), channel, y, x])
        };
        let weight = rng.dense(dtype, &[outs, channels, window[0], window[1]], true);
        let mut tensors = vec![rng.dense(dtype, &shape, true), weight];
        let mut accesses = vec![Access { axes: axes.to_vec() }, Access::labels(&[1, 4, 5, 6])];
        if n % 3 == 2 {
            tensors.reverse();
            accesses.reverse();
        }
        let mut join = Expr::new();
        let (a, b) = (join.push_operand(0, dtype), join.push_operand(1, dtype));
        join.binary(Binary::Mul, a, b).expect("one type");
        let e = Einsum { labels, rank: 4, accesses, join, monoid: Monoid::Sum, dtype };
        let what = format!("{dtype} {channels} {outs} {size:?} {window:?} {steps} {apart}");
        add(&mut cases, &mut rng, &what, &e, &tensors, &e.space(), None);
        let part = rng.part(&e.space());
        add(&mut cases, &mut rng, &what, &e, &tensors, &part, Some(true));
        expected.push((what, if dtype == DType::F32 { "product" } else { "gathered" }, outs));
    }
    // The first of each two is whole.
    for ((_, program), (what, way_of_it, outs)) in cases.programs().step_by(2).zip(&expected) {
        let few = *outs <= if *way_of_it == "product" { 24 } else { 128 };
        assert!(!few || way(program) == *way_of_it && program.scratch == 0, "{what}: {program:?}");
    }
    cases.run();
}

#[test]
fn ways_are_chosen_by_size_and_layout() {
    let mut rng = Rng::new(1);
    let mut check = |spec: &str, extents: &[(char, usize)], dtype: DType, expected: &str| {
        let mut cases = Cases::default();
        let (e, tensors) = contraction(&mut rng, spec, extents, dtype);
        add(&mut cases, &mut Rng::new(1), spec, &e, &tensors, &e.space(), None);
        let (_, program) = cases.programs().next().expect("one");
        assert_eq!(way(program), expected, "{spec} {extents:?}: {program:?}");
    };
    let sizes = |m, n, k| [('m', m), ('n', n), ('k', k)];
    check("mk,nk->mn", &sizes(64, 64, 64), DType::BF16, "library");
    check("mk,kn->mn", &sizes(64, 64, 64), DType::F32, "library");
    check("mk,nk->mn", &sizes(4, 512, 64), DType::BF16, "thin");
    check("mk,nk->mn", &sizes(512, 4, 64), DType::BF16, "thin");
    check("mk,nk->mn", &sizes(1, 512, 64), DType::BF16, "reduce");
    check("mk,kn->mn", &sizes(1, 512, 64), DType::BF16, "library");
    check("mk,nk->mn", &sizes(64, 64, 64), DType::I32, "product");
    check("mk,nk->mn", &sizes(4, 4, 4), DType::F32, "reduce");
    check("mkl,lnk->mn", &[('m', 30), ('n', 30), ('k', 10), ('l', 9)], DType::F32, "product");
}
