//! Maps into their readers.

use std::collections::HashMap;

use super::labels::{copy, value};
use super::{Rows, index};
use crate::dtype::DType;
use crate::einsum::{Access, Einsum};
use crate::expr::{Expr, Row, RowId};
use crate::graph::TensorId;
use crate::op::Op;

/// A map that is repeated along labels of its reader may have this many operations.
const CHEAP: usize = 4;
/// A reader takes no map in that would give it more operands than this: a kernel reads them all at once.
const MOST_OPERANDS: usize = 12;

/// Puts every map with one reader into that reader, if it is a map or a reduction of one operand: never into a
/// contraction, which must stay a plain product.
pub(super) fn fuse(rows: &mut Rows) -> bool {
    let mut changed = false;
    let readers = rows.readers();
    for (reader, live) in rows.live().into_iter().enumerate() {
        let mut operand = 0;
        while live && operand < rows.nodes[reader].inputs.len() {
            let map = rows.nodes[reader].inputs[operand];
            // An inner map has one reader even after it has moved: what it was read by is now this row.
            if readers[map.index()].reads.len() == 1 && !readers[map.index()].output && fuse_one(rows, reader, operand)
            {
                changed = true;
                operand = 0;
            } else {
                operand += 1;
            }
        }
    }
    changed
}

fn fuse_one(rows: &mut Rows, reader: usize, operand: usize) -> bool {
    let map = rows.nodes[reader].inputs[operand].index();
    let (Op::Einsum(outer), Op::Einsum(inner)) = (&rows.nodes[reader].op, &rows.nodes[map].op) else { return false };
    let takes = !outer.folds() || outer.accesses.len() == 1;
    let volume = |e: &Einsum| e.labels.iter().map(|l| l.extent as u128).product::<u128>();
    let repeats = volume(outer) > volume(inner) && inner.join.operations() > CHEAP;
    if inner.folds() || !takes || repeats {
        return false;
    }
    let (einsum, inputs) = composed(outer, &rows.nodes[reader].inputs, operand, inner, &rows.nodes[map].inputs);
    if inputs.len() > MOST_OPERANDS.max(outer.accesses.len()) {
        return false;
    }
    let spans = |(n, access): (usize, &Access)| spanning(access, rows.shape(inputs[n]), &einsum);
    if !einsum.accesses.iter().enumerate().all(spans) {
        return false;
    }
    rows.nodes[reader].inputs = inputs;
    rows.nodes[reader].op = Op::Einsum(einsum);
    true
}

/// Whether every axis that is read at a plain label is as long as the label: what a graph asks of an einsum.
pub(super) fn spanning(access: &Access, shape: &[usize], e: &Einsum) -> bool {
    access.axes.iter().zip(shape).all(|(i, &extent)| i.as_label().is_none_or(|l| e.labels[l].extent == extent))
}

/// The reader with the map in place of one operand, equal operands and equal rows being one.
fn composed(
    outer: &Einsum,
    outer_inputs: &[TensorId],
    operand: usize,
    inner: &Einsum,
    inner_inputs: &[TensorId],
) -> (Einsum, Vec<TensorId>) {
    let seen_at = &outer.accesses[operand].axes;
    let mut reads: Vec<(TensorId, Access)> = Vec::new();
    let mut number = |input: TensorId, access: Access| {
        let read = (input, access);
        reads.iter().position(|r| *r == read).unwrap_or_else(|| {
            reads.push(read);
            reads.len() - 1
        })
    };
    let mut outer_number = vec![0; outer.accesses.len()];
    let mut inner_number = Vec::new();
    for n in 0..outer.accesses.len() {
        if n == operand {
            for (access, &input) in inner.accesses.iter().zip(inner_inputs) {
                let axes = access.axes.iter().map(|i| index::substitute(i, seen_at)).collect();
                inner_number.push(number(input, Access { axes }));
            }
        } else {
            outer_number[n] = number(outer_inputs[n], outer.accesses[n].clone());
        }
    }

    let mut join = Shared::default();
    let mut value_of_map: Option<RowId> = None;
    let mut at = Vec::new();
    for &(row, dtype) in outer.join.rows() {
        at.push(match row {
            Row::Operand(n) if n == operand => *value_of_map.get_or_insert_with(|| {
                let mut inside = Vec::new();
                for &(row, dtype) in inner.join.rows() {
                    inside.push(match row {
                        Row::Operand(n) => join.row(Row::Operand(inner_number[n]), dtype, &[]),
                        Row::Index(label) => {
                            let mut part = Expr::new();
                            value(&mut part, &seen_at[label]);
                            join.all(&part)
                        }
                        other => join.row(other, dtype, &inside),
                    });
                }
                // The tensor's own roundings: to the accumulator, then to the type.
                let last = *inside.last().expect("a join has a row");
                let wide = join.row(Row::Cast(0), inner.dtype.accumulator(), &[last]);
                join.row(Row::Cast(0), inner.dtype, &[wide])
            }),
            Row::Operand(n) => join.row(Row::Operand(outer_number[n]), dtype, &[]),
            other => join.row(other, dtype, &at),
        });
    }
    let value = *at.last().expect("a join has a row");
    let join = join.ending(value);
    let (inputs, accesses) = reads.into_iter().unzip();
    (Einsum { labels: outer.labels.clone(), accesses, join, ..outer.clone() }, inputs)
}

/// An expression in which equal rows are one.
#[derive(Default)]
struct Shared {
    expr: Expr,
    known: HashMap<(Row, DType), RowId>,
}

impl Shared {
    /// The row with arguments found by `at`.
    fn row(&mut self, row: Row, dtype: DType, at: &[RowId]) -> RowId {
        let placed = match row {
            Row::Operand(_) | Row::Const(_) | Row::Index(_) => row,
            Row::Unary(f, a) => Row::Unary(f, at[a]),
            Row::Binary(f, a, b) => Row::Binary(f, at[a], at[b]),
            Row::Select(c, a, b) => Row::Select(at[c], at[a], at[b]),
            Row::Cast(a) => Row::Cast(at[a]),
        };
        if let Some(&known) = self.known.get(&(placed, dtype)) {
            return known;
        }
        let id = copy(&mut self.expr, row, dtype, at);
        self.known.insert((placed, dtype), id);
        id
    }

    /// All rows of another expression; the last one.
    fn all(&mut self, other: &Expr) -> RowId {
        let mut at = Vec::new();
        for &(row, dtype) in other.rows() {
            at.push(self.row(row, dtype, &at));
        }
        *at.last().expect("an expression has a row")
    }

    /// The expression without the rows after `value`, which it does not name.
    fn ending(self, value: RowId) -> Expr {
        if value + 1 == self.expr.rows().len() {
            return self.expr;
        }
        let mut expr = Expr::new();
        let mut at = Vec::new();
        for &(row, dtype) in &self.expr.rows()[..=value] {
            at.push(copy(&mut expr, row, dtype, &at));
        }
        expr
    }
}
