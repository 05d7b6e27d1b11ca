//! Maps that only one other map or reduction reads become part of it.

use crate::expression::Copier;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum};
use ein_ir::expr::{Binary, Literal, Row, RowId};
use ein_ir::op::Op;

/// A row on its way into the graph.
pub(crate) struct Draft {
    pub op: Op,
    pub inputs: Vec<usize>,
    pub name: Option<String>,
    pub method: &'static str,
}

/// Operands of one row, beyond which no more are taken in: a kernel reads them all at once.
const MOST_OPERANDS: usize = 12;
/// Operations of a map that may be repeated because its reader is larger (the scaling of a mean).
const CHEAP: usize = 2;

/// Merges in place; says which rows are still read.
pub(crate) fn fuse(rows: &mut [Draft], results: &[usize]) -> Vec<bool> {
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
    for (n, row) in rows.iter().enumerate() {
        for &input in &row.inputs {
            if readers[input].last() != Some(&n) {
                readers[input].push(n);
            }
        }
    }
    for n in 0..rows.len() {
        // An operand may itself have taken in others; those are not looked at again.
        let mut operand = 0;
        while operand < rows[n].inputs.len() {
            let from = rows[n].inputs[operand];
            let alone = readers[from] == [n] && !results.contains(&from);
            match merged(rows, n, from).filter(|_| alone) {
                Some((einsum, inputs)) => {
                    for &input in &inputs {
                        readers[input].retain(|&r| r != from && r != n);
                        readers[input].push(n);
                    }
                    let name = rows[from].name.take();
                    let row = &mut rows[n];
                    row.name = row.name.take().or(name);
                    (row.op, row.inputs) = (Op::Einsum(einsum), inputs);
                    operand = 0;
                }
                None => operand += 1,
            }
        }
    }
    let mut used = vec![false; rows.len()];
    for &r in results {
        used[r] = true;
    }
    for n in (0..rows.len()).rev() {
        if used[n] {
            for &input in &rows[n].inputs {
                used[input] = true;
            }
        }
    }
    used
}

/// Row `into` with row `from` taken in, if that is possible and of use.
fn merged(rows: &[Draft], into: usize, from: usize) -> Option<(Einsum, Vec<usize>)> {
    let (Op::Einsum(outer), Op::Einsum(inner)) = (&rows[into].op, &rows[from].op) else { return None };
    let outer_inputs = &rows[into].inputs;
    if inner.folds() || outer.labels.len() > outer.rank && outer_inputs.iter().any(|&i| i != from) {
        return None;
    }
    let places: Vec<usize> = (0..outer_inputs.len()).filter(|&n| outer_inputs[n] == from).collect();
    let access = &outer.accesses[places[0]];
    if places.iter().any(|&n| outer.accesses[n] != *access) {
        return None;
    }
    let points = |e: &Einsum| e.labels.iter().map(|l| l.extent).product::<usize>();
    let repeated = points(outer) > points(inner);
    if repeated && (inner.join.operations() > CHEAP || inner.accesses.len() > 1) {
        return None;
    }
    let mut inputs: Vec<usize> = Vec::new();
    let mut accesses: Vec<Access> = Vec::new();
    let mut slot = |input: usize, access: Access| {
        let known = (0..inputs.len()).find(|&n| inputs[n] == input && accesses[n] == access);
        known.unwrap_or_else(|| {
            inputs.push(input);
            accesses.push(access);
            inputs.len() - 1
        })
    };
    let outer_slots: Vec<Option<usize>> = (0..outer_inputs.len())
        .map(|n| (outer_inputs[n] != from).then(|| slot(outer_inputs[n], outer.accesses[n].clone())))
        .collect();
    let inner_slots: Vec<usize> = (0..inner.accesses.len())
        .map(|n| {
            let axes = inner.accesses[n].axes.iter().map(|a| compose(a, &access.axes)).collect();
            slot(rows[from].inputs[n], Access { axes })
        })
        .collect();
    if inputs.len() > MOST_OPERANDS {
        return None;
    }
    let dtypes = |e: &Einsum, operand: usize| {
        e.join.rows().iter().find(|(r, _)| *r == Row::Operand(operand)).map_or(DType::F32, |r| r.1)
    };
    let mut copier = Copier::default();
    let value = copier.copy(&inner.join, inner.join.rows().len() - 1, &mut |c, row| match row {
        Row::Operand(n) => Some(operand_row(c, inner_slots[n], dtypes(inner, n))),
        Row::Index(label) => Some(index_row(c, &access.axes[label])),
        _ => None,
    });
    // What the inner row would have been rounded to.
    let value = copier.expr.cast(value, inner.dtype);
    let value = copier.copy(&outer.join, outer.join.rows().len() - 1, &mut |c, row| match row {
        Row::Operand(n) => Some(outer_slots[n].map_or(value, |s| operand_row(c, s, dtypes(outer, n)))),
        _ => None,
    });
    let join = copier.finish(value);
    Some((Einsum { accesses, join, ..outer.clone() }, inputs))
}

fn operand_row(copier: &mut Copier, operand: usize, dtype: DType) -> RowId {
    let known = copier.expr.rows().iter().position(|r| *r == (Row::Operand(operand), dtype));
    known.unwrap_or_else(|| copier.expr.push_operand(operand, dtype))
}

/// An affine function of labels as rows.
fn index_row(copier: &mut Copier, index: &Affine) -> RowId {
    let e = &mut copier.expr;
    let mut sum = None;
    for &(label, stride) in &index.terms {
        let mut term = e.index(label);
        if stride != 1 {
            let stride = e.constant(Literal::Int(stride), DType::I64);
            term = e.binary(Binary::Mul, term, stride).expect("both are i64");
        }
        sum = Some(sum.map_or(term, |s| e.binary(Binary::Add, s, term).expect("both are i64")));
    }
    let offset = |e: &mut ein_ir::expr::Expr| e.constant(Literal::Int(index.offset), DType::I64);
    match sum {
        None => offset(e),
        Some(sum) if index.offset == 0 => sum,
        Some(sum) => {
            let offset = offset(e);
            e.binary(Binary::Add, sum, offset).expect("both are i64")
        }
    }
}

/// `index`, whose labels are the axes that `by` gives, as a function of the labels of `by`.
fn compose(index: &Affine, by: &[Affine]) -> Affine {
    let mut terms: std::collections::BTreeMap<usize, i64> = std::collections::BTreeMap::new();
    let mut offset = index.offset;
    for &(axis, stride) in &index.terms {
        offset += stride * by[axis].offset;
        for &(label, s) in &by[axis].terms {
            *terms.entry(label).or_default() += stride * s;
        }
    }
    Affine { terms: terms.into_iter().filter(|t| t.1 != 0).collect(), offset }
}
