//! Rates of one GPU: its memory, products, attention, and what a task costs beside its work.

use super::timing::Timing;
use super::{Amount, MeasureError};
use crate::devices::Seat;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::graph::TensorType;
use ein_ir::monoid::Monoid;
use ein_ir::op::Op;
use ein_run::measure::graphs::Rows;
use ein_task::rates::ShapeRate;
use ein_task::task::TaskId;

/// What was measured of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Bytes per second of its memory, read or written by a kernel without arithmetic to speak of.
    pub memory: f64,
    /// Bytes per second of copies within it: each is read and written.
    pub copies: f64,
    /// Seconds that one more task takes in a replay, beside its work.
    pub launch: f64,
    /// Products, by shape and type.
    pub products: Vec<Product>,
    /// Operations per second of attention's products, by the spec's count: causal, bf16, by `mma`.
    pub attention: f64,
}

/// A product of `m` by `k` and `k` by `n`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// The type of its factors and its result.
    pub dtype: DType,
    /// Whether factors of f32 were rounded to TF32.
    pub tf32: bool,
    /// m, n and k.
    pub shape: [usize; 3],
    /// Operations per second, two for each multiply-add, without what a task costs beside its work.
    pub rate: f64,
}

impl Rates {
    /// The rate of a type's largest product, f32 being rounded to TF32 or not.
    pub fn of(&self, dtype: DType, tf32: bool) -> f64 {
        let own = self.chosen(tf32).filter(|p| p.dtype == dtype);
        own.max_by_key(|p| p.shape.iter().product::<usize>()).map_or(0.0, |p| p.rate)
    }

    /// The rates of all products as a machine's table has them, f32 being rounded to TF32 or not.
    pub fn shapes(&self, tf32: bool) -> Vec<ShapeRate> {
        let row = |p: &Product| {
            let [m, n, k] = p.shape;
            ShapeRate { dtype: p.dtype, side: m.min(n).min(k) as f64, points: (m * n * k) as f64, rate: p.rate }
        };
        self.chosen(tf32).map(row).collect()
    }

    fn chosen(&self, tf32: bool) -> impl Iterator<Item = &Product> {
        self.products.iter().filter(move |p| p.tf32 == (tf32 && p.dtype == DType::F32))
    }
}

/// Measures the GPU of a seat.
pub(super) fn rates(seat: Seat, timing: Timing, amount: Amount) -> Result<Rates, MeasureError> {
    let on = [seat];
    let each = |timing: Timing, op: &Op, types: &[TensorType]| {
        timing.each(&on, amount.times(), |rows, n| chain(rows, op, types, n))
    };
    let launch = launch(seat, timing, amount)?;
    let (op, types) = sum(amount.elements());
    let memory = 12.0 * amount.elements() as f64 / beside(each(timing, &op, &types)?, launch);
    let copies = super::ways::within(seat, timing, amount)?;
    let mut products = Vec::new();
    for (dtype, tf32) in
        [(DType::F64, false), (DType::F32, false), (DType::F32, true), (DType::BF16, false), (DType::F16, false)]
    {
        let mut timing = timing;
        timing.settings.tf32 = tf32;
        for &shape in amount.products(dtype, tf32) {
            let [m, n, k] = shape;
            let types = [[m, k], [k, n]].map(|s| TensorType::new(dtype, s.to_vec()));
            let op = Einsum::contraction("mk,kn->mn", &[&[m, k], &[k, n]], dtype).expect("well formed");
            let seconds = beside(each(timing, &Op::Einsum(op), &types)?, launch);
            products.push(Product { dtype, tf32, shape, rate: 2.0 * (m * n * k) as f64 / seconds });
        }
    }
    let attention = attending(seat, timing, amount, launch)?;
    Ok(Rates { memory, copies, launch, products, attention })
}

/// Seconds that one more task takes beside its work.
pub(super) fn launch(seat: Seat, timing: Timing, amount: Amount) -> Result<f64, MeasureError> {
    let (op, types) = sum(1);
    timing.each(&[seat], amount.times(), |rows, n| chain(rows, &op, &types, n))
}

/// Operations per second of attention, by the way that the settings say.
pub(super) fn attending(seat: Seat, timing: Timing, amount: Amount, launch: f64) -> Result<f64, MeasureError> {
    let (op, types) = attention(amount.attention());
    let spec = op.spec(&[DType::BF16; 3]).expect("it computes");
    let each = timing.each(&[seat], amount.times(), |rows, n| chain(rows, &op, &types, n))?;
    Ok(spec.operations(&spec.space()) / beside(each, launch))
}

/// What work takes of a task's seconds: at least a tenth of them.
fn beside(seconds: f64, launch: f64) -> f64 {
    (seconds - launch).max(0.1 * seconds)
}

/// So many of an operation, each after the one before, reading the same operands.
fn chain(rows: &mut Rows, op: &Op, types: &[TensorType], count: usize) {
    let reads: Vec<TaskId> = types
        .iter()
        .map(|ty| {
            let external = rows.parameter(ty);
            rows.feed(0, external)
        })
        .collect();
    let op = rows.op(op.clone(), types);
    let mut last: Option<TaskId> = None;
    for _ in 0..count {
        let row = rows.kernel(0, op, &reads);
        if let Some(last) = last {
            rows.wait(row, last);
        }
        last = Some(row);
    }
}

/// The sum of two vectors of f32.
fn sum(elements: usize) -> (Op, Vec<TensorType>) {
    let mut join = Expr::operand(DType::F32);
    let right = join.push_operand(1, DType::F32);
    join.binary(Binary::Add, 0, right).expect("of one type");
    let op = Einsum {
        labels: vec![Label::new("i", elements)],
        rank: 1,
        accesses: vec![Access::labels(&[0]); 2],
        join,
        monoid: Monoid::Sum,
        dtype: DType::F32,
    };
    (Op::Einsum(op), vec![TensorType::new(DType::F32, vec![elements]); 2])
}

/// Causal attention of so many heads, tokens and elements of a head.
pub(super) fn attention([heads, tokens, size]: [usize; 3]) -> (Op, Vec<TensorType>) {
    let ty = format!("input bf16[1, {heads}, {tokens}, {size}]");
    let text = format!("q: {ty}\nk: {ty}\nv: {ty}\ny = attention(q, k, v) causal\nreturn y\n");
    let graph = ein_ir::text::parse(&text).expect("well formed");
    let op = graph.node(graph.outputs()[0].1).op.clone();
    (op, vec![TensorType::new(DType::BF16, vec![1, heads, tokens, size]); 3])
}
