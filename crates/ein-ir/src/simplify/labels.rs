//! Other labels for an einsum that computes the same.

use crate::dtype::DType;
use crate::einsum::{Affine, Einsum, Label};
use crate::expr::{Binary, Expr, Literal, Row, RowId};

use super::index::substitute;

/// Appends a row of another expression whose arguments are found by `at`.
pub(super) fn copy(expr: &mut Expr, row: Row, dtype: DType, at: &[RowId]) -> RowId {
    let typed = "the row was well typed before";
    match row {
        Row::Operand(n) => expr.push_operand(n, dtype),
        Row::Const(value) => expr.constant(value, dtype),
        Row::Index(label) => expr.index(label),
        Row::Unary(function, a) => expr.unary(function, at[a]).expect(typed),
        Row::Binary(function, a, b) => expr.binary(function, at[a], at[b]).expect(typed),
        Row::Select(c, a, b) => expr.select(at[c], at[a], at[b]).expect(typed),
        Row::Cast(a) => expr.cast(at[a], dtype),
    }
}

/// Appends the value of an index.
pub(super) fn value(expr: &mut Expr, index: &Affine) -> RowId {
    let typed = "indices are integers";
    let mut total: Option<RowId> = None;
    for &(label, stride) in &index.terms {
        let mut term = expr.index(label);
        if stride != 1 {
            let stride = expr.constant(Literal::Int(stride), DType::I64);
            term = expr.binary(Binary::Mul, term, stride).expect(typed);
        }
        total = Some(total.map_or(term, |t| expr.binary(Binary::Add, t, term).expect(typed)));
    }
    match total {
        Some(total) if index.offset == 0 => total,
        Some(total) => {
            let offset = expr.constant(Literal::Int(index.offset), DType::I64);
            expr.binary(Binary::Add, total, offset).expect(typed)
        }
        None => expr.constant(Literal::Int(index.offset), DType::I64),
    }
}

/// The einsum over other labels: `values[l]`, over the new labels, is old label `l`.
pub(super) fn relabel(e: &Einsum, labels: Vec<Label>, rank: usize, values: &[Affine]) -> Einsum {
    let mut join = Expr::new();
    let mut at = Vec::new();
    for &(row, dtype) in e.join.rows() {
        at.push(match row {
            Row::Index(label) => value(&mut join, &values[label]),
            other => copy(&mut join, other, dtype, &at),
        });
    }
    let mut accesses = e.accesses.clone();
    for index in accesses.iter_mut().flat_map(|a| &mut a.axes) {
        *index = substitute(index, values);
    }
    Einsum { labels, rank, accesses, join, monoid: e.monoid, dtype: e.dtype }
}

/// The einsum with labels of these extents, outermost first, in place of one label.
pub(super) fn apart(e: &Einsum, label: usize, extents: &[usize]) -> Einsum {
    let mut labels = e.labels.clone();
    let old = labels.remove(label);
    let mut names: Vec<String> = labels.iter().map(|l| l.name.clone()).collect();
    for (n, &extent) in extents.iter().enumerate() {
        let name = fresh(&names, &format!("{}{n}", old.name));
        labels.insert(label + n, Label::new(name.clone(), extent));
        names.push(name);
    }
    let count = extents.len();
    let values: Vec<Affine> = (0..e.labels.len())
        .map(|l| match l.cmp(&label) {
            std::cmp::Ordering::Less => Affine::label(l),
            std::cmp::Ordering::Greater => Affine::label(l + count - 1),
            std::cmp::Ordering::Equal => {
                let step = |n: usize| extents[n + 1..].iter().product::<usize>() as i64;
                Affine { terms: (0..count).map(|n| (label + n, step(n))).collect(), offset: 0 }
            }
        })
        .collect();
    let rank = if label < e.rank { e.rank + count - 1 } else { e.rank };
    relabel(e, labels, rank, &values)
}

/// A name that is not taken.
pub(super) fn fresh(taken: &[String], name: &str) -> String {
    let mut name = name.to_string();
    while taken.contains(&name) {
        name.push('_');
    }
    name
}

/// The einsum whose result has the axes `order` of this one's, `None` being a new axis of extent 1. Every axis that is
/// left out has extent 1.
pub(super) fn rearrange(e: &Einsum, order: &[Option<usize>]) -> Einsum {
    let mut labels: Vec<Label> = Vec::new();
    let mut values = vec![Affine::constant(0); e.labels.len()];
    let mut names: Vec<String> = e.labels.iter().map(|l| l.name.clone()).collect();
    for axis in order {
        if let Some(old) = *axis {
            values[old] = Affine::label(labels.len());
            labels.push(e.labels[old].clone());
        } else {
            let name = fresh(&names, "one");
            names.push(name.clone());
            labels.push(Label::new(name, 1));
        }
    }
    for (value, old) in values.iter_mut().zip(&e.labels).skip(e.rank) {
        *value = Affine::label(labels.len());
        labels.push(old.clone());
    }
    relabel(e, labels, order.len(), &values)
}

/// The einsum for only the indices `starts + steps * i` of its result's axes, `shape` of them.
pub(super) fn restrict(e: &Einsum, starts: &[usize], steps: &[i64], shape: &[usize]) -> Einsum {
    let mut labels = e.labels.clone();
    let mut values: Vec<Affine> = (0..labels.len()).map(Affine::label).collect();
    for axis in 0..e.rank {
        labels[axis].extent = shape[axis];
        values[axis] = Affine { terms: vec![(axis, steps[axis])], offset: starts[axis] as i64 };
    }
    relabel(e, labels, e.rank, &values)
}
