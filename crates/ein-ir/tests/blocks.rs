//! Any decomposition gives what the whole gives, for every kind of operation.

mod common;

use common::Rng;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr, Literal, Unary};
use ein_ir::graph::{Graph, TensorType};
use ein_ir::kernel::{
    Attention, Gather, GatherAlong, Kernel, LastState, Recurrence, Scan, ScanFunction, Scatter, ScatterAlong, TopK,
};
use ein_ir::monoid::{Monoid, Top};
use ein_ir::op::{InputKind, Op};
use ein_ir::reference::assemble;
use ein_ir::region::{Region, tiles};
use ein_ir::spec::Role;

/// An operation with operands; `exact` when integers must come out to the bit.
struct Case {
    op: Op,
    operands: Vec<Dense>,
    result: TensorType,
    tolerance: f64,
}

fn case(op: Op, operands: Vec<Dense>, tolerance: f64) -> Case {
    let mut graph = Graph::new();
    let ids: Vec<_> = operands
        .iter()
        .enumerate()
        .map(|(n, d)| graph.input(&format!("x{n}"), InputKind::Input, d.ty()).expect("an input"))
        .collect();
    let id = match op.clone() {
        Op::Einsum(e) => graph.einsum("out", e, &ids),
        Op::Kernel(k) => graph.kernel("out", k, &ids),
        Op::View(_) | Op::Input(_) => unreachable!("operations that compute"),
    };
    let id = id.unwrap_or_else(|e| panic!("{e}"));
    Case { op, operands, result: graph.ty(id).clone(), tolerance }
}

fn contraction(rng: &mut Rng) -> Case {
    let spec = *rng.pick(&[
        "ij,jk->ik",
        "bij,bkj->bik",
        "ij,kj->ki",
        "f,f->",
        "i,j->ij",
        "ii->i",
        "ii->",
        "ij->ji",
        "ab,bc,cd->ad",
        "iij,jk->ik",
    ]);
    let dtype = *rng.pick(&DType::ALL[..7]);
    let extents: Vec<usize> = (0..26).map(|_| if rng.chance(12) { 0 } else { rng.range(1, 7) }).collect();
    let (inputs, _) = spec.split_once("->").expect("an arrow");
    let shapes: Vec<Vec<usize>> =
        inputs.split(',').map(|s| s.bytes().map(|c| extents[(c - b'a') as usize]).collect()).collect();
    let slices: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let e = Einsum::contraction(spec, &slices, dtype).expect("well formed");
    case(Op::Einsum(e), shapes.iter().map(|s| rng.integers(dtype, s)).collect(), 0.0)
}

/// A convolution of one axis with stride and dilation, any plain monoid.
fn window(rng: &mut Rng) -> Case {
    let (batch, ins, outs) = (rng.range(1, 3), rng.range(1, 3), rng.range(1, 3));
    let (y, ky) = (rng.range(1, 7), rng.range(1, 3));
    let (stride, dilation) = (rng.range(1, 3), rng.range(1, 2));
    let length = stride * (y - 1) + dilation * (ky - 1) + 1;
    let names = [("b", batch), ("o", outs), ("y", y), ("i", ins), ("k", ky)];
    let moved = Affine { terms: vec![(2, stride as i64), (4, dilation as i64)], offset: 0 };
    let e = Einsum {
        labels: names.iter().map(|&(n, e)| Label::new(n, e)).collect(),
        rank: 3,
        accesses: vec![Access { axes: vec![Affine::label(0), Affine::label(3), moved] }, Access::labels(&[1, 3, 4])],
        join: Expr::product(2, DType::F32),
        monoid: *rng.pick(&[Monoid::Sum, Monoid::Max, Monoid::Min]),
        dtype: DType::F32,
    };
    let (x, w) = (rng.integers(DType::F32, &[batch, ins, length]), rng.integers(DType::F32, &[outs, ins, ky]));
    case(Op::Einsum(e), vec![x, w], 0.0)
}

/// A map with a causal mask, from indices alone.
fn masked(rng: &mut Rng) -> Case {
    let (s, t) = (rng.range(1, 7), rng.range(1, 7));
    let mut join = Expr::new();
    let x = join.push_operand(0, DType::F32);
    let (q, k) = (join.index(0), join.index(1));
    let seen = join.binary(Binary::Le, k, q).expect("two indices");
    let out = join.float(f64::NEG_INFINITY, DType::F32);
    join.select(seen, x, out).expect("two floats");
    let e = Einsum {
        labels: vec![Label::new("s", s), Label::new("t", t)],
        rank: 2,
        accesses: vec![Access::labels(&[0, 1])],
        join,
        monoid: Monoid::Sum,
        dtype: DType::F32,
    };
    case(Op::Einsum(e), vec![rng.floats(DType::F32, &[s, t])], 0.0)
}

/// A reduction of `c * x[i,j] + j`, any monoid, any type it has.
fn reduction(rng: &mut Rng) -> Case {
    let monoid = *rng.pick(&Monoid::ALL[..6]);
    let statistics = matches!(monoid, Monoid::Moments | Monoid::SoftMax);
    let dtype = *rng.pick(if statistics { &DType::ALL[..4] } else { &DType::ALL[..7] });
    let (i, j) = (rng.range(1, 5), rng.range(1, 7));
    let mut join = Expr::new();
    let x = join.push_operand(0, dtype);
    let c = join.constant(Literal::Int(2), dtype);
    let scaled = join.binary(Binary::Mul, x, c).expect("one type");
    let index = join.index(1);
    let index = join.cast(index, dtype);
    join.binary(Binary::Add, scaled, index).expect("one type");
    let e = Einsum {
        labels: vec![Label::new("i", i), Label::new("j", j)],
        rank: 1,
        accesses: vec![Access::labels(&[0, 1])],
        join,
        monoid,
        dtype,
    };
    // A 16-bit product of seven factors does not stay an integer that the type can hold.
    let narrow = dtype.bytes() == 2 && dtype.is_float();
    let tolerance = match (statistics, narrow) {
        (true, true) => 0.5,
        (true, false) => 1e-4,
        (false, true) if monoid == Monoid::Prod => f64::INFINITY,
        (false, _) => 0.0,
    };
    case(Op::Einsum(e), vec![rng.integers(dtype, &[i, j])], tolerance)
}

fn attention(rng: &mut Rng) -> Case {
    let kv_heads = rng.range(1, 3);
    let a = Attention {
        batch: rng.range(1, 2),
        heads: kv_heads * rng.range(1, 3),
        kv_heads,
        queries: rng.range(1, 6),
        keys: rng.range(1, 6),
        dim: rng.range(1, 3),
        value_dim: rng.range(1, 3),
        causal: rng.chance(2),
        window: None,
        softcap: None,
        packed: None,
        own: false,
        mask: None,
        scale: 0.5_f64.to_bits(),
        dtype: *rng.pick(&[DType::F32, DType::F64, DType::BF16]),
    };
    let full = [a.batch, a.heads, a.queries, a.keys];
    let mut mask = full.to_vec();
    for m in &mut mask[..3] {
        *m = if rng.chance(2) { 1 } else { *m };
    }
    let packed = (a.queries == a.keys && rng.chance(2)).then(|| rng.range(1, 3));
    let a = Attention {
        mask: rng.chance(2).then_some(mask),
        window: (a.causal && rng.chance(2)).then(|| rng.range(1, 4)),
        softcap: rng.chance(3).then(|| 1.5_f64.to_bits()),
        packed,
        own: !a.causal && packed.is_none() && rng.chance(2),
        ..a
    };
    let mut operands = vec![
        rng.floats(a.dtype, &[a.batch, a.heads, a.queries, a.dim]),
        rng.floats(a.dtype, &[a.batch, a.kv_heads, a.keys, a.dim]),
        rng.floats(a.dtype, &[a.batch, a.kv_heads, a.keys, a.value_dim]),
    ];
    if let Some(mask) = &a.mask {
        let n = mask.iter().product();
        let values: Vec<f64> = (0..n).map(|_| if rng.chance(3) { f64::NEG_INFINITY } else { 0.5 }).collect();
        operands.push(Dense::from_f64(a.dtype, mask.as_slice(), &values));
    }
    if a.own {
        operands.push(rng.floats(a.dtype, &[a.batch, a.kv_heads, a.queries, a.dim]));
        operands.push(rng.floats(a.dtype, &[a.batch, a.kv_heads, a.queries, a.value_dim]));
    }
    if let Some(n) = a.packed {
        let mut offsets: Vec<i64> = (0..n).map(|_| rng.range(0, a.keys) as i64).collect();
        offsets[0] = 0;
        offsets.sort_unstable();
        operands.push(Dense::i64([n], offsets));
    }
    let tolerance = if a.dtype == DType::BF16 { 0.05 } else { 1e-5 };
    case(Op::Kernel(Kernel::Attention(a)), operands, tolerance)
}

/// Some ids below `rows`, of either type.
fn ids(rng: &mut Rng, shape: &[usize], rows: usize) -> Dense {
    let n: usize = shape.iter().product();
    let values: Vec<i64> = (0..n).map(|_| rng.range(0, rows - 1) as i64).collect();
    Dense::from_i64(*rng.pick(&[DType::I64, DType::I32]), shape, values)
}

fn gather(rng: &mut Rng) -> Case {
    let (rank, of) = (rng.range(0, 2), rng.range(1, 3));
    let table = rng.shape(of, 1, 5);
    let g = Gather {
        axis: rng.range(0, table.len() - 1),
        table,
        ids: rng.shape(rank, 1, 4),
        dtype: *rng.pick(&DType::ALL),
    };
    let ids = ids(rng, &g.ids, g.table[g.axis]);
    // A minus zero comes through as it is.
    let mut table = rng.integers(g.dtype, &g.table);
    if g.dtype == DType::F32 {
        let values: Vec<f64> = table.to_f64().iter().map(|&x| if x == 0.0 { -0.0 } else { x }).collect();
        table = Dense::from_f64(g.dtype, g.table.clone(), &values);
    }
    case(Op::Kernel(Kernel::Gather(g)), vec![table, ids], 0.0)
}

fn gather_along(rng: &mut Rng) -> Case {
    let rank = rng.range(1, 3);
    let table = rng.shape(rank, 1, 5);
    let axis = rng.range(0, rank - 1);
    let shape: Vec<usize> =
        (0..rank).map(|n| if n == axis { rng.range(1, 7) } else { rng.range(1, table[n]) }).collect();
    let g = GatherAlong { table, axis, ids: shape, dtype: *rng.pick(&DType::ALL) };
    let ids = ids(rng, &g.ids, g.table[axis]);
    let table = rng.integers(g.dtype, &g.table);
    case(Op::Kernel(Kernel::GatherAlong(g)), vec![table, ids], 0.0)
}

fn scatter(rng: &mut Rng) -> Case {
    let rank = rng.range(1, 3);
    let source = rng.shape(rank, 1, 5);
    let (axis, rows) = (rng.range(0, rank - 1), rng.range(1, 6));
    let monoid = *rng.pick(&[Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min]);
    let dtype = *rng.pick(&[DType::F32, DType::F64, DType::I64, DType::U8, DType::BF16]);
    if rng.chance(2) {
        let ids = ids(rng, &[source[axis]], rows);
        let x = rng.integers(dtype, &source);
        return case(Op::Kernel(Kernel::Scatter(Scatter { source, axis, rows, monoid, dtype })), vec![x, ids], 0.0);
    }
    let ids = ids(rng, &source, rows);
    let x = rng.integers(dtype, &source);
    let op = Op::Kernel(Kernel::ScatterAlong(ScatterAlong { source, axis, rows, monoid, dtype }));
    case(op, vec![x, ids], 0.0)
}

/// Ties, infinities and NaN among the elements.
fn top(rng: &mut Rng) -> Case {
    let rank = rng.range(1, 3);
    let shape = rng.shape(rank, 1, 7);
    let of = *rng.pick(&DType::ALL);
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.0];
    let mut values = rng.integers(of, &shape).to_f64();
    if of.is_float() {
        for v in &mut values {
            *v = if rng.chance(2) { *rng.pick(&odd) } else { *v };
        }
    }
    let k = rng.range(0, shape[rank - 1]);
    let top = Top { k, largest: rng.chance(2), indices: rng.chance(2), of };
    let x = Dense::from_f64(of, shape.clone(), &values);
    case(Op::Kernel(Kernel::TopK(TopK { shape, top })), vec![x], 0.0)
}

fn scan(rng: &mut Rng) -> Case {
    let rank = rng.range(1, 3);
    let shape = rng.shape(rank, 1, 6);
    let function = *rng.pick(&[
        ScanFunction::Sum,
        ScanFunction::Prod,
        ScanFunction::Max,
        ScanFunction::Min,
        ScanFunction::LogSumExp,
        ScanFunction::MaxIndex,
        ScanFunction::MinIndex,
    ]);
    let any = [DType::F32, DType::F64, DType::BF16, DType::I64, DType::I32];
    let dtype = *rng.pick(if function == ScanFunction::LogSumExp { &any[..3] } else { &any });
    let s = Scan { axis: rng.range(0, rank - 1), shape, function, dtype };
    let x = rng.integers(dtype, &s.shape);
    case(Op::Kernel(Kernel::Scan(s)), vec![x], 0.0)
}

/// Scales and what is added of which every state is an integer that any type here holds, but for those that wrap.
fn recurrence(rng: &mut Rng) -> (Vec<usize>, usize, DType, Vec<Dense>) {
    let rank = rng.range(1, 3);
    let shape = rng.shape(rank, 1, 6);
    let dtype = *rng.pick(&[DType::F32, DType::F64, DType::BF16, DType::I64, DType::I32, DType::U8]);
    let mut operand = |low: f64| {
        let values: Vec<f64> = (0..shape.iter().product()).map(|_| rng.range(0, 2) as f64 + low).collect();
        Dense::from_f64(dtype, shape.clone(), &values)
    };
    let low = if dtype == DType::U8 { 0.0 } else { -1.0 };
    let operands = vec![operand(low), operand(low)];
    (shape, rng.range(0, rank - 1), dtype, operands)
}

fn states(rng: &mut Rng) -> Case {
    let (shape, axis, dtype, operands) = recurrence(rng);
    case(Op::Kernel(Kernel::Recurrence(Recurrence { shape, axis, dtype })), operands, 0.0)
}

fn last_state(rng: &mut Rng) -> Case {
    let (shape, axis, dtype, operands) = recurrence(rng);
    case(Op::Kernel(Kernel::LastState(LastState { shape, axis, dtype })), operands, 0.0)
}

/// Random recursive cuts of the label space, folded and put together, equal the whole.
#[test]
fn any_decomposition_equals_the_whole() {
    let kinds = [
        contraction,
        window,
        masked,
        reduction,
        attention,
        gather,
        gather_along,
        scatter,
        top,
        scan,
        states,
        last_state,
    ];
    let mut partial = vec![0; kinds.len()];
    for seed in 0..3_600 {
        let mut rng = Rng(seed);
        let kind = seed as usize % kinds.len();
        let c = kinds[kind](&mut rng);
        let dtypes: Vec<DType> = c.operands.iter().map(Dense::dtype).collect();
        let spec = c.op.spec(&dtypes).expect("a spec");
        let axes: Vec<usize> = (0..spec.labels.len()).filter(|&n| spec.labels[n].role != Role::Whole).collect();
        let n = rng.range(2, 9);
        let blocks = rng.cuts(&spec.space(), &axes, n);
        assert!(tiles(&blocks, &spec.space()), "seed {seed}");
        partial[kind] += usize::from(blocks.iter().any(|b| !spec.is_complete(b)));
        let operands: Vec<&Dense> = c.operands.iter().collect();
        let wide = rng.chance(2);
        let whole = assemble(&c.op, &operands, &[spec.space()], &c.result, wide).unwrap_or_else(|e| panic!("{e}"));
        let parts = assemble(&c.op, &operands, &blocks, &c.result, wide).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((whole.ty(), parts.ty()), (c.result.clone(), c.result.clone()), "seed {seed}: {:?}", c.op);
        let apart = whole.max_abs_difference(&parts);
        assert!(apart <= c.tolerance, "seed {seed}: {apart} apart\n{:?}\n{whole:?}\n{parts:?}", c.op);
    }
    // The cuts did leave partials, except for the map and what keeps its axis whole.
    assert!(partial.iter().enumerate().all(|(n, &p)| (p > 50) != [2, 9, 10].contains(&n)), "{partial:?}");
}

/// `h[t] = a[t] * h[t - 1] + b[t]`, by hand: along the first axis of two.
#[test]
fn recurrences_of_known_values() {
    let a = Dense::from_f64(DType::F32, [3, 2], &[f64::INFINITY, 2.0, -1.0, 0.5, 3.0, 0.0]);
    let b = Dense::from_f64(DType::F32, [3, 2], &[1.0, 4.0, 2.0, 1.0, -1.0, 7.0]);
    let expected = Dense::from_f64(DType::F32, [3, 2], &[1.0, 4.0, 1.0, 3.0, 2.0, 7.0]);
    let (shape, dtype) = (vec![3, 2], DType::F32);
    let all = Op::Kernel(Kernel::Recurrence(Recurrence { shape: shape.clone(), axis: 0, dtype }));
    let c = case(all, vec![a.clone(), b.clone()], 0.0);
    let whole = Region::whole(&shape);
    assert_eq!(assemble(&c.op, &[&a, &b], std::slice::from_ref(&whole), &c.result, false), Ok(expected));
    let last =
        case(Op::Kernel(Kernel::LastState(LastState { shape, axis: 0, dtype })), vec![a.clone(), b.clone()], 0.0);
    // Labels: the second axis, then the first.
    let blocks = [Region::of(&[(0, 2), (2, 3)]), Region::of(&[(0, 2), (0, 2)])];
    assert_eq!(
        assemble(&last.op, &[&a, &b], &blocks, &last.result, false),
        Ok(Dense::from_f64(DType::F32, [2], &[2.0, 7.0]))
    );
}

/// A state of 0 stays 0 under any factor, wherever the axis is cut: products of factors overflow, states do not.
#[test]
fn states_of_0_stay_0() {
    let (dtype, shape) = (DType::F32, vec![3000]);
    for last in [2.0, f64::INFINITY, f64::NAN] {
        let mut factors = vec![2.0; 3000];
        factors[2999] = last;
        let a = Dense::from_f64(dtype, [3000], &factors);
        let b = Dense::from_f64(dtype, [3000], &vec![0.0; 3000]);
        let all = Op::Kernel(Kernel::Recurrence(Recurrence { shape: shape.clone(), axis: 0, dtype }));
        let c = case(all, vec![a.clone(), b.clone()], 0.0);
        assert_eq!(assemble(&c.op, &[&a, &b], &[Region::whole(&shape)], &c.result, false), Ok(b.clone()));
        let end = Op::Kernel(Kernel::LastState(LastState { shape: shape.clone(), axis: 0, dtype }));
        let c = case(end, vec![a.clone(), b.clone()], 0.0);
        for cuts in [&[0, 3000][..], &[0, 1500, 3000], &[0, 1, 200, 1400, 2999, 3000]] {
            let parts: Vec<Region> = cuts.windows(2).map(|c| Region::of(&[(c[0], c[1])])).collect();
            let found = assemble(&c.op, &[&a, &b], &parts, &c.result, false);
            assert_eq!(found, Ok(Dense::from_f64(dtype, [], &[0.0])), "{last} {cuts:?}");
        }
    }
}

/// A unary that is used nowhere else: a map of every float function equals the function.
#[test]
fn maps_of_known_values() {
    let check = |function: Unary, x: f64, expected: f64| {
        let mut join = Expr::operand(DType::F64);
        join.unary(function, 0).expect("a float");
        let e = Einsum {
            labels: vec![Label::new("i", 1)],
            rank: 1,
            accesses: vec![Access::labels(&[0])],
            join,
            monoid: Monoid::Sum,
            dtype: DType::F64,
        };
        let c = case(Op::Einsum(e), vec![Dense::from_f64(DType::F64, [1], &[x])], 0.0);
        let whole = Region::whole(&[1]);
        let y = assemble(&c.op, &[&c.operands[0]], &[whole], &c.result, false).expect("a value").get(0);
        assert!((y - expected).abs() < 1e-12 || y == expected, "{function:?}({x}) = {y}, not {expected}");
    };
    check(Unary::Neg, 2.0, -2.0);
    check(Unary::Abs, -2.0, 2.0);
    check(Unary::Exp, 1.0, std::f64::consts::E);
    check(Unary::Log, 1.0, 0.0);
    check(Unary::Sqrt, 2.25, 1.5);
    check(Unary::Rsqrt, 4.0, 0.5);
    check(Unary::Sin, 0.0, 0.0);
    check(Unary::Cos, 0.0, 1.0);
    check(Unary::Tanh, 0.5, 0.46211715726000975);
    check(Unary::Erf, 0.5, 0.5204998778130465);
    check(Unary::Sigmoid, 0.0, 0.5);
    check(Unary::Sigmoid, -1e4, 0.0);
    check(Unary::Floor, -0.5, -1.0);
}
