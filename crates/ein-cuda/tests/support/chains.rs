//! Chains of operations as one fused row.

use super::{Cases, Rng, Row, Values, op_row};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::Op;
use ein_ir::reference;
use ein_ir::region::Region;
use ein_task::task::{Source, Stage, Value, Verb};

/// An operation and, for each operand, the tensor it reads; `None` is what the stage before leaves.
pub type Chain = Vec<(Op, Vec<Option<Dense>>)>;

/// Adds a chain over blocks of these labels, one for each stage, as one row.
pub fn chain(cases: &mut Cases, rng: &mut Rng, what: &str, all: &Chain, blocks: &[Region], exact: bool) {
    let mut reads: Vec<Values> = Vec::new();
    let (mut ops, mut stages) = (Vec::new(), Vec::new());
    let mut before: Option<(Region, Dense)> = None;
    for ((n, (op, operands)), labels) in all.iter().enumerate().zip(blocks) {
        let dtype = |o: &Option<Dense>| o.as_ref().or(before.as_ref().map(|b| &b.1)).expect("given").dtype();
        let dtypes: Vec<DType> = operands.iter().map(dtype).collect();
        let row = op_row(op, &dtypes);
        let spec = row.spec.clone().expect("it computes");
        let (mut given, mut sources) = (Vec::new(), Vec::new());
        for (k, operand) in operands.iter().enumerate() {
            match operand {
                None => {
                    let (region, data) = before.clone().expect("a stage before");
                    given.push((region, data));
                    sources.push(Some(Source::Previous));
                }
                Some(dense) => {
                    let all = Region::whole(&dense.shape);
                    let region = rng.around(&spec.operand_region(k, labels), &all);
                    let data = dense.cut(&all, &region);
                    sources.push(Some(Source::Read(reads.len())));
                    given.push((region.clone(), data.clone()));
                    reads.push((region, Form::finished(dense.dtype(), all.rank()), vec![data]));
                }
            }
        }
        let operands: Vec<Option<reference::Operand<'_>>> =
            given.iter().map(|(region, data)| Some(reference::Operand { data, region: region.clone() })).collect();
        let region = spec.result_region(labels);
        let form = Form::finished(spec.dtype, region.rank());
        let mut done = reference::block(op, labels, &operands, &form, true).expect("the reference agrees to it");
        before = Some((region, done.remove(0)));
        stages.push(Stage { op: n, labels: labels.clone(), finish: true, operands: sources });
        ops.push(row);
    }
    let (region, expected) = before.expect("a stage");
    let form = Form::finished(expected.dtype(), region.rank());
    let row = Row::new(ops, Verb::Fused { stages }, &reads, Value { region, form });
    row.check(cases, &format!("{what} over {}", blocks[blocks.len() - 1]), vec![expected], exact);
}

fn labels(extents: &[usize]) -> Vec<Label> {
    extents.iter().enumerate().map(|(n, &e)| Label::new(format!("l{n}"), e)).collect()
}

/// An einsum of labels of these extents, the first `rank` the result's.
pub fn einsum(
    extents: &[usize],
    rank: usize,
    accesses: Vec<Access>,
    join: Expr,
    monoid: Monoid,
    dtype: DType,
) -> Einsum {
    Einsum { labels: labels(extents), rank, accesses, join, monoid, dtype }
}

/// A map of two operands of one type.
pub fn pair(function: Binary, extents: &[usize], accesses: Vec<Access>, dtype: DType) -> Op {
    let mut join = Expr::new();
    let (a, b) = (join.push_operand(0, dtype), join.push_operand(1, dtype));
    join.binary(function, a, b).expect("one type");
    Op::Einsum(einsum(extents, extents.len(), accesses, join, Monoid::Sum, dtype))
}
