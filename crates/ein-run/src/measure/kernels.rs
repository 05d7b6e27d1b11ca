//! Rates of kernels: copies and plain passes for memory and launch; maps and folds, products for arithmetic.

use super::fit::{Line, fit, median};
use super::graphs::{Rows, timed};
use crate::error::RunError;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Einsum, Label};
use ein_ir::expr::{Binary, Expr, Unary};
use ein_ir::graph::TensorType;
use ein_ir::monoid::Monoid;
use ein_ir::op::Op;
use ein_ir::region::Region;
use ein_task::rates::{ShapeRate, Turns};
use ein_task::task::TaskId;

/// How often at least a kernel stands in a graph.
const TIMES: usize = 6;
/// Operands go round over this many bytes a device, and over no more than so many tensors.
const ROUND: usize = 8 << 20;
const TENSORS: usize = 32;

/// How many devices work at once, and how often each graph is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) devices: usize,
    pub(super) runs: usize,
}

/// Bytes read and written against seconds, for sums of two matrices and cuts of f32, from some KB to some MB.
pub(super) fn passes(pace: Pace) -> Result<Line, RunError> {
    let mut points = Vec::new();
    for rows in [4, 16, 64, 256, 1024] {
        let shape = [rows, 1024];
        let elements = (rows * 1024) as f64;
        let add = joined(|e| {
            let right = e.push_operand(1, DType::F32);
            e.binary(Binary::Add, 0, right).expect("of one type")
        });
        let added = seconds(pace, &einsum(shape, 2, add, None), DType::F32, &[&shape, &shape])?;
        points.push((12.0 * elements, added));
        points.push((4.0 * elements, cut_seconds(pace, shape)?));
    }
    Ok(fit(&points))
}

/// Elements per second of maps and folds with some arithmetic: of an exponential, a logistic function, moments and
/// softmax statistics, beside launch and bytes.
pub(super) fn elements(pace: Pace, passes: &Line) -> Result<f64, RunError> {
    let shape = [512, 1024];
    let unary = |f: Unary| joined(|e| e.unary(f, 0).expect("of a float"));
    let whole = || Expr::operand(DType::F32);
    let kinds = [
        einsum(shape, 1, unary(Unary::Exp), None),
        einsum(shape, 1, unary(Unary::Sigmoid), None),
        einsum(shape, 1, whole(), Some(Monoid::Moments)),
        einsum(shape, 1, whole(), Some(Monoid::SoftMax)),
    ];
    let mut rate = Rate::default();
    for op in kinds {
        rate.add(
            (shape[0] * shape[1]) as f64,
            seconds(pace, &op, DType::F32, &[&shape])?,
            passes.at(bytes(&op, DType::F32, 1)),
        );
    }
    Ok(rate.per_second())
}

/// Operations per second of products, by type: of square, wide and flat ones, beside launch and bytes.
pub(super) fn products(pace: Pace, passes: &Line) -> Result<Vec<(DType, f64)>, RunError> {
    let mut rates = Vec::new();
    for dtype in [DType::F64, DType::F32, DType::BF16, DType::F16] {
        let mut rate = Rate::default();
        for [m, n, k] in
            [[43, 512, 1024], [128, 512, 256], [512, 256, 256], [256, 1024, 256], [384, 384, 384], [512, 512, 512]]
        {
            let shapes: [&[usize]; 2] = [&[m, k], &[k, n]];
            let op = Einsum::contraction("mk,kn->mn", &shapes, dtype).expect("well formed");
            let op = Op::Einsum(op);
            rate.add(2.0 * (m * n * k) as f64, seconds(pace, &op, dtype, &shapes)?, passes.at(bytes(&op, dtype, 2)));
        }
        rates.push((dtype, rate.per_second()));
    }
    Ok(rates)
}

/// Sides of products of f32 whose rates are told apart, and the smallest and largest number of multiply-adds, as
/// logarithms: the CPU device multiplies large blocks with no short side by other instructions than the rest.
const SIDES: [usize; 2] = [1, 32];
const POINTS: std::ops::RangeInclusive<u32> = 14..=26;

/// Operations per second of products of f32 by shape: flat ones, of eight rows, and square ones.
pub(super) fn shapes(pace: Pace, passes: &Line) -> Result<Vec<ShapeRate>, RunError> {
    let dtype = DType::F32;
    let mut rates = Vec::new();
    for side in SIDES {
        for log in POINTS.step_by(2) {
            let m = if side == 1 { 8 } else { 1 << (log / 3).max(5) };
            let rest = (1_usize << log) / m;
            let n = 1 << rest.ilog2().div_ceil(2);
            let k = rest / n;
            if m.min(n).min(k) < side {
                continue;
            }
            let shapes: [&[usize]; 2] = [&[m, k], &[k, n]];
            let op = Op::Einsum(Einsum::contraction("mk,kn->mn", &shapes, dtype).expect("well formed"));
            let mut rate = Rate::default();
            let points = (m * n * k) as f64;
            rate.add(2.0 * points, seconds(pace, &op, dtype, &shapes)?, passes.at(bytes(&op, dtype, 2)));
            rates.push(ShapeRate { dtype, side: side as f64, points, rate: rate.per_second() });
        }
    }
    Ok(rates)
}

/// Operations per second of convolutions.
pub(super) fn windows(pace: Pace, passes: &Line) -> Result<f64, RunError> {
    let mut rate = Rate::default();
    for [batch, channels, side] in [[1, 32, 18], [2, 32, 34], [1, 64, 30]] {
        let out = side - 2;
        let text = format!(
            "x: input f32[{batch}, {channels}, {side}, {side}]\nw: param f32[{channels}, {channels}, 3, 3]\n\
             y = einsum f32 (n: {batch}, o: {channels}, h: {out}, v: {out} | c: {channels}, i: 3, j: 3) \
             sum x[n, c, h + i, v + j] * w[o, c, i, j]\nreturn y\n"
        );
        let graph = ein_ir::text::parse(&text).expect("well formed");
        let op = &graph.node(graph.outputs()[0].1).op;
        let spec = op.spec(&[DType::F32; 2]).expect("it computes");
        let shapes: [&[usize]; 2] = [&[batch, channels, side, side], &[channels, channels, 3, 3]];
        let taken = seconds(pace, op, DType::F32, &shapes)?;
        rate.add(spec.operations(&spec.space()), taken, passes.at(spec.bytes(&spec.space())));
    }
    Ok(rate.per_second())
}

/// The speed of one device alone, and that of more devices than processors, against that of as many as there are: of
/// products, and of sums of matrices.
pub(super) fn turns(pace: Pace, devices: usize) -> Result<Turns, RunError> {
    let product = |devices: usize| {
        let shapes: [&[usize]; 2] = [&[128, 256], &[256, 256]];
        let op = Op::Einsum(Einsum::contraction("mk,kn->mn", &shapes, DType::F32).expect("well formed"));
        seconds(Pace { devices, ..pace }, &op, DType::F32, &shapes)
    };
    let map = |devices: usize| {
        let shape = [128, 1024];
        let unary = joined(|e| e.unary(Unary::Exp, 0).expect("of a float"));
        seconds(Pace { devices, ..pace }, &einsum(shape, 1, unary, None), DType::F32, &[&shape])
    };
    let (products, maps) = (product(pace.devices)?, map(pace.devices)?);
    let speed = |devices: usize| -> Result<f64, RunError> {
        Ok((products / product(devices)? * (maps / map(devices)?)).sqrt())
    };
    // One device has no more than all processors, and more devices do no more than as many as there are: beyond that it
    // was the host that was slower meanwhile.
    let alone = if pace.devices > 1 { speed(1)?.min(pace.devices as f64) } else { 1.0 };
    let most = devices.min(4 * pace.devices);
    // Each of them has so much of a processor.
    let crowded = if most > pace.devices { speed(most)? * most as f64 / pace.devices as f64 } else { 1.0 };
    Ok(Turns { alone, crowded: crowded.min(1.0) })
}

/// Operations per second of products under a softmax, by the spec's count.
pub(super) fn under_softmax(pace: Pace, passes: &Line) -> Result<f64, RunError> {
    let mut rate = Rate::default();
    for (tokens, causal) in [(128, " causal"), (256, ""), (256, " causal"), (512, " causal")] {
        let shape = [1, 4, tokens, 64];
        let ty = format!("input f32{shape:?}");
        let text = format!("q: {ty}\nk: {ty}\nv: {ty}\ny = attention(q, k, v){causal}\nreturn y\n");
        let graph = ein_ir::text::parse(&text).expect("well formed");
        let op = &graph.node(graph.outputs()[0].1).op;
        let spec = op.spec(&[DType::F32; 3]).expect("it computes");
        let taken = seconds(pace, op, DType::F32, &[&shape, &shape, &shape])?;
        rate.add(spec.operations(&spec.space()), taken, passes.at(spec.bytes(&spec.space())));
    }
    Ok(rate.per_second())
}

/// Bytes that a whole operation reads and writes.
fn bytes(op: &Op, dtype: DType, operands: usize) -> f64 {
    let spec = op.spec(&vec![dtype; operands]).expect("what is measured computes");
    spec.bytes(&spec.space())
}

/// Work and time of several kernels: all their work by all their time, since in a plan the large ones take the time.
#[derive(Default)]
struct Rate {
    work: f64,
    seconds: f64,
}

impl Rate {
    /// A kernel's work, its time, and how much of that launch and bytes take: the rest is arithmetic, at least a tenth.
    fn add(&mut self, work: f64, taken: f64, other: f64) {
        self.work += work;
        self.seconds += (taken - other).max(0.1 * taken);
    }

    fn per_second(&self) -> f64 {
        self.work / self.seconds
    }
}

/// An expression that begins with its first operand.
fn joined(build: impl Fn(&mut Expr) -> usize) -> Expr {
    let mut expression = Expr::operand(DType::F32);
    build(&mut expression);
    expression
}

/// An element-wise operation of a matrix, or a fold of its rows.
fn einsum(shape: [usize; 2], operands: usize, join: Expr, fold: Option<Monoid>) -> Op {
    Op::Einsum(Einsum {
        labels: vec![Label::new("i", shape[0]), Label::new("j", shape[1])],
        rank: if fold.is_some() { 1 } else { 2 },
        accesses: vec![Access::labels(&[0, 1]); operands],
        join,
        monoid: fold.unwrap_or(Monoid::Sum),
        dtype: DType::F32,
    })
}

/// Seconds from the start of a kernel to the start of the next like it, all devices working: the mean of the device that
/// took longest, since an operation is over when the last one is; of several runs the median.
fn seconds(pace: Pace, op: &Op, dtype: DType, shapes: &[&[usize]]) -> Result<f64, RunError> {
    let types: Vec<TensorType> = shapes.iter().map(|s| TensorType::new(dtype, s.to_vec())).collect();
    paced(pace, &types, super::graphs::Rows::kernel, Some(op))
}

/// The same of cutting the right half out of a matrix: strided reads.
fn cut_seconds(pace: Pace, shape: [usize; 2]) -> Result<f64, RunError> {
    let right = Region::of(&[(0, shape[0]), (shape[1] / 2, shape[1])]);
    let types = [TensorType::new(DType::F32, shape.to_vec())];
    paced(pace, &types, |rows, _, _, fed| rows.cut(fed[0], right.clone()), None)
}

fn paced(
    pace: Pace,
    types: &[TensorType],
    add: impl Fn(&mut Rows, usize, usize, &[TaskId]) -> TaskId,
    op: Option<&Op>,
) -> Result<f64, RunError> {
    let bytes: usize = types.iter().map(|t| t.elements() * t.dtype.bytes()).sum();
    let sets = (ROUND / bytes.max(1)).clamp(2, TENSORS);
    let mut rows = Rows::new(pace.devices);
    let externals: Vec<Vec<usize>> = (0..sets).map(|_| types.iter().map(|t| rows.parameter(t)).collect()).collect();
    let op_row = op.map_or(0, |op| rows.op(op.clone(), types));
    let mut chains: Vec<Vec<TaskId>> = Vec::new();
    for device in 0..pace.devices {
        let fed: Vec<Vec<TaskId>> =
            externals.iter().map(|set| set.iter().map(|&e| rows.feed(device, e)).collect()).collect();
        chains.push((0..TIMES.max(sets)).map(|n| add(&mut rows, device, op_row, &fed[n % sets])).collect());
    }
    let mut executor = rows.executor()?;
    let mut found = Vec::new();
    for events in timed(&mut executor, pace.runs)? {
        let start = |t: &TaskId| events.get(&t.index()).map_or(0.0, |e| e.0);
        // The first of a run finds other threads starting.
        let mean = |chain: &Vec<TaskId>| (start(&chain[chain.len() - 1]) - start(&chain[1])) / (chain.len() - 2) as f64;
        found.push(chains.iter().map(mean).fold(0.0, f64::max));
    }
    Ok(median(&found).max(1e-9))
}
