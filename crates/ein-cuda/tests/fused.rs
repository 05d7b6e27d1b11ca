//! Fused rows, executed on the host, against their stages one after the other by the reference.

mod support;

use ein_cuda::program::{Program, Step};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum};
use ein_ir::expr::{Binary, Expr, Unary};
use ein_ir::kernel::{Gather, Kernel};
use ein_ir::monoid::Monoid;
use ein_ir::op::Op;
use ein_ir::region::Region;
use support::{Cases, Chain, Rng, chain, einsum, pair};

/// The stacked fields of rows: axis 0 is label 0, the other constant.
fn field(n: i64) -> Access {
    Access { axes: vec![Affine::label(0), Affine::constant(n)] }
}

#[test]
fn maps_after_maps_round_between() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(3);
    for dtype in [DType::BF16, DType::F16, DType::F32, DType::I32] {
        let both = || vec![Access::labels(&[0, 1]), Access::labels(&[0, 1])];
        let row = || vec![Access::labels(&[0, 1]), Access::labels(&[1])];
        let x: Vec<Dense> = (0..4).map(|_| rng.dense(dtype, &[5, 24], true)).collect();
        let w = rng.dense(dtype, &[24], true);
        let big = Dense::from_f64(dtype, [5, 24], &(0..120).map(|n| f64::from(n) * 17.0).collect::<Vec<_>>());
        let steps: Chain = vec![
            (pair(Binary::Add, &[5, 24], both(), dtype), vec![Some(big), Some(x[1].clone())]),
            (pair(Binary::Mul, &[5, 24], row(), dtype), vec![None, Some(w)]),
            (pair(Binary::Sub, &[5, 24], both(), dtype), vec![Some(x[2].clone()), None]),
        ];
        let space = Region::whole(&[5, 24]);
        for round in 0..3 {
            let part = if round == 0 { space.clone() } else { rng.part(&space) };
            chain(&mut cases, &mut rng, &format!("{dtype}"), &steps, &[part.clone(), part.clone(), part], true);
        }
    }
    assert!(cases.programs().all(|(_, p)| p.steps.len() == 1));
    cases.run();
}

/// (x - mean) * rsqrt(variance + 1) * w, with x in the order of `order`.
fn norm(rng: &mut Rng, [rows, width]: [usize; 2], turned: bool, dtype: DType) -> Chain {
    let (shape, order) = if turned { ([width, rows], [1, 0]) } else { ([rows, width], [0, 1]) };
    let x = rng.dense(dtype, &shape, false);
    let w = rng.dense(DType::F32, &[width], false);
    let mut join = Expr::operand(dtype);
    join.cast(0, DType::F32);
    let stats = einsum(&[rows, width], 1, vec![Access::labels(&order)], join, Monoid::Moments, DType::F32);
    let mut join = Expr::new();
    let (v, mean, variance, w_row) = (
        join.push_operand(0, dtype),
        join.push_operand(1, DType::F32),
        join.push_operand(2, DType::F32),
        join.push_operand(3, DType::F32),
    );
    let v = join.cast(v, DType::F32);
    let apart = join.binary(Binary::Sub, v, mean).expect("f32");
    let one = join.float(1.0, DType::F32);
    let more = join.binary(Binary::Add, variance, one).expect("f32");
    let by = join.unary(Unary::Rsqrt, more).expect("f32");
    let scaled = join.binary(Binary::Mul, apart, by).expect("f32");
    let all = join.binary(Binary::Mul, scaled, w_row).expect("f32");
    join.cast(all, dtype);
    let accesses = vec![Access::labels(&order), field(0), field(1), Access::labels(&[1])];
    let map = einsum(&[rows, width], 2, accesses, join, Monoid::Sum, dtype);
    vec![(Op::Einsum(stats), vec![Some(x.clone())]), (Op::Einsum(map), vec![Some(x), None, None, Some(w)])]
}

#[test]
fn norms_are_one_kernel() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(5);
    for (rows, width) in [(1, 1), (3, 64), (7, 37), (2, 4096), (300, 8)] {
        for dtype in [DType::F32, DType::BF16] {
            let steps = norm(&mut rng, [rows, width], false, dtype);
            let space = Region::whole(&[rows, width]);
            let mut some = rng.part(&space);
            some.0[1] = space.0[1];
            for part in [space, some] {
                chain(&mut cases, &mut rng, &format!("norm {dtype}"), &steps, &[part.clone(), part], false);
            }
        }
    }
    assert!(cases.programs().all(|(_, p)| p.steps.len() == 1));
    cases.run();
}

#[test]
fn norms_across_memory() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(7);
    for (rows, width) in [(40, 9), (64, 300)] {
        let steps = norm(&mut rng, [rows, width], true, DType::F32);
        let space = Region::whole(&[rows, width]);
        chain(&mut cases, &mut rng, "norm across", &steps, &[space.clone(), space], false);
    }
    cases.run();
}

/// A row that is long and almost alone is folded in parts, and written by as many threads as there is to write.
#[test]
fn a_long_norm_is_parts_and_a_map() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(8);
    let steps = norm(&mut rng, [2, 100_000], false, DType::F32);
    let space = Region::whole(&[2, 100_000]);
    chain(&mut cases, &mut rng, "long norm", &steps, &[space.clone(), space], false);
    assert!(cases.programs().all(|(_, p)| p.steps.len() == 3));
    cases.run();
}

#[test]
fn softmax_is_one_kernel() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(9);
    for width in [5, 48, 1000] {
        let x = rng.dense(DType::F32, &[4, width], false);
        let access = || Access::labels(&[0, 1]);
        let stats = einsum(&[4, width], 1, vec![access()], Expr::operand(DType::F32), Monoid::SoftMax, DType::F32);
        let mut join = Expr::new();
        let (v, max, sum) =
            (join.push_operand(0, DType::F32), join.push_operand(1, DType::F32), join.push_operand(2, DType::F32));
        let apart = join.binary(Binary::Sub, v, max).expect("f32");
        let exp = join.unary(Unary::Exp, apart).expect("f32");
        join.binary(Binary::Div, exp, sum).expect("f32");
        let map = einsum(&[4, width], 2, vec![access(), field(0), field(1)], join, Monoid::Sum, DType::F32);
        let steps: Chain =
            vec![(Op::Einsum(stats), vec![Some(x.clone())]), (Op::Einsum(map), vec![Some(x), None, None])];
        let space = Region::whole(&[4, width]);
        chain(&mut cases, &mut rng, "softmax", &steps, &[space.clone(), space], false);
    }
    assert!(cases.programs().all(|(_, p)| p.steps.len() == 1));
    cases.run();
}

/// A sum in parts, or of columns, and a map of the result that knows where it is.
#[test]
fn sums_and_maps_of_them() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(11);
    for (rows, width, order) in [(3, 20_011, [0, 1]), (40, 333, [1, 0]), (5, 16, [0, 1])] {
        let shape = [[rows, width][order[0]], [rows, width][order[1]]];
        let x = rng.dense(DType::F32, &shape, true);
        let sum =
            einsum(&[rows, width], 1, vec![Access::labels(&order)], Expr::operand(DType::F32), Monoid::Sum, DType::F32);
        let mut join = Expr::new();
        let (v, w) = (join.push_operand(0, DType::F32), join.push_operand(1, DType::F32));
        let i = join.index(0);
        let i = join.cast(i, DType::F32);
        let product = join.binary(Binary::Mul, w, i).expect("f32");
        join.binary(Binary::Add, v, product).expect("f32");
        let accesses = vec![Access::labels(&[0]), Access::labels(&[0])];
        let map = einsum(&[rows], 1, accesses, join, Monoid::Sum, DType::F32);
        let w = rng.dense(DType::F32, &[rows], true);
        let steps: Chain = vec![(Op::Einsum(sum), vec![Some(x)]), (Op::Einsum(map), vec![None, Some(w)])];
        let space = Region::whole(&[rows, width]);
        let mut part = rng.part(&space);
        part.0[1] = space.0[1];
        for head in [space, part] {
            let last = Region(head.0[..1].to_vec());
            chain(&mut cases, &mut rng, "sum", &steps, &[head, last], true);
        }
    }
    cases.run();
}

/// A product and what follows it: a bias, an activation of it, a residual.
fn product(rng: &mut Rng, [m, n, k]: [usize; 3], dtype: DType, maps: usize, whole: bool) -> Chain {
    let (a, b) = (rng.dense(dtype, &[m, k], whole), rng.dense(dtype, &[n, k], whole));
    let e = Einsum::contraction("mk,nk->mn", &[&[m, k], &[n, k]], dtype).expect("well formed");
    let bias = rng.dense(dtype, &[n], whole);
    let rest = rng.dense(dtype, &[m, n], whole);
    let mut gate = Expr::operand(dtype);
    let s = gate.unary(Unary::Sigmoid, 0).expect("a float");
    gate.binary(Binary::Mul, 0, s).expect("a float");
    let gate = einsum(&[m, n], 2, vec![Access::labels(&[0, 1])], gate, Monoid::Sum, dtype);
    let mut chain: Chain = vec![
        (Op::Einsum(e), vec![Some(a), Some(b)]),
        (
            pair(Binary::Add, &[m, n], vec![Access::labels(&[0, 1]), Access::labels(&[1])], dtype),
            vec![None, Some(bias)],
        ),
        (
            pair(Binary::Add, &[m, n], vec![Access::labels(&[0, 1]), Access::labels(&[0, 1])], dtype),
            vec![Some(rest), None],
        ),
        (Op::Einsum(gate), vec![None]),
    ];
    chain.truncate(1 + maps);
    chain
}

#[test]
fn products_and_maps_of_them() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(13);
    for dtype in [DType::F32, DType::BF16, DType::F64] {
        for [m, n, k] in [[5, 7, 9], [40, 48, 64], [1, 64, 128], [3, 40, 96], [33, 65, 31]] {
            for maps in [1, 2, 3] {
                let steps = product(&mut rng, [m, n, k], dtype, maps, maps < 3 && dtype != DType::BF16);
                let space = Region::whole(&[m, n, k]);
                let mut part = rng.part(&space);
                part.0[2] = space.0[2];
                for head in [space, part] {
                    let last = Region(head.0[..2].to_vec());
                    let mut blocks = vec![head];
                    blocks.resize(1 + maps, last);
                    let what = format!("product {m} {n} {k} {dtype} and {maps}");
                    chain(&mut cases, &mut rng, &what, &steps, &blocks, maps < 3 && dtype != DType::BF16);
                }
            }
        }
    }
    let by_library = |p: &Program| p.steps.iter().any(|s| matches!(s, Step::Matmul(_)));
    assert!(cases.programs().any(|(_, p)| by_library(p)));
    cases.run();
}

/// What follows a product of the library: nothing where it adds a bias and a residual, else one kernel in the row's own
/// memory.
#[test]
fn products_leave_nothing_between() {
    let mut rng = Rng::new(17);
    for (maps, dtype, count, scratch) in
        [(1, DType::BF16, 1, false), (2, DType::BF16, 1, false), (3, DType::F32, 2, false)]
    {
        let mut cases = Cases::default();
        let steps = product(&mut rng, [32, 48, 64], dtype, maps, true);
        let mut blocks = vec![Region::whole(&[32, 48, 64])];
        blocks.resize(1 + maps, Region::whole(&[32, 48]));
        chain(&mut cases, &mut rng, "product", &steps, &blocks, true);
        let (_, program) = cases.programs().next().expect("one");
        assert_eq!(program.steps.len(), count, "{program:?}");
        assert_eq!(program.scratch > 0, scratch, "{program:?}");
    }
}

/// Kernels leave what they compute to one more kernel: in the row's memory where it fits, else in scratch memory.
#[test]
fn kernels_and_maps_of_them() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(19);
    let kernel = Kernel::Gather(Gather::rows(13, 24, &[6], DType::BF16));
    for widened in [false, true] {
        let table = rng.dense(DType::BF16, &[13, 24], true);
        let ids = Dense::i64([6], vec![3, 12, 0, 3, 7, 1]);
        let w = rng.dense(DType::BF16, &[24], true);
        let mut join = Expr::new();
        let (v, w_row) = (join.push_operand(0, DType::BF16), join.push_operand(1, DType::BF16));
        let sum = join.binary(Binary::Add, v, w_row).expect("one type");
        let dtype = if widened { DType::F32 } else { DType::BF16 };
        join.cast(sum, dtype);
        let accesses = vec![Access::labels(&[0, 1]), Access::labels(&[1])];
        let map = einsum(&[6, 24], 2, accesses, join, Monoid::Sum, dtype);
        let op = Op::Kernel(kernel.clone());
        let spec = op.spec(&[DType::BF16, DType::I64]).expect("it computes");
        let steps: Chain = vec![(op, vec![Some(table), Some(ids)]), (Op::Einsum(map), vec![None, Some(w)])];
        let head = spec.space();
        let last = Region(head.0[..2].to_vec());
        chain(&mut cases, &mut rng, "gather", &steps, &[head, last], true);
        let (_, program) = cases.programs().last().expect("one");
        assert_eq!(program.scratch > 0, widened, "{program:?}");
    }
    cases.run();
}
