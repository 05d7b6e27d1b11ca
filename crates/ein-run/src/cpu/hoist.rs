//! Parts of an expression that do not change along every label: computed once for each value of the labels that they
//! depend on, and read from a table by all others.
//!
//! The reciprocal root of a norm depends on the row alone, the angles of a rotation on position and feature, not on
//! batch and head. What reads no operand is the same in every run: see [`super::constants`].

use super::buffer::Buffer;
use super::lanes::{Axis, BLOCK, Lanes, Values};
use super::piece::Elements;
use super::strided::Strided;
use ein_ir::dtype::DType;
use ein_ir::expr::{Expr, Row};
use ein_ir::region::{Region, strides};

/// A table must be read this often, or it is not worth its memory.
const USES: usize = 4;
/// Values of a part of an expression, in the type that it is computed in.
#[derive(Debug)]
pub(crate) enum Table {
    F32(Buffer<f32>),
    F64(Buffer<f64>),
    Int(Buffer<i64>),
}

impl Table {
    pub(crate) fn elements(&self) -> Elements<'_> {
        match self {
            Self::F32(v) => Elements::F32(v),
            Self::F64(v) => Elements::F64(v),
            Self::Int(v) => Elements::I64(v),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::Int(v) => v.len(),
        }
    }
}

/// An expression some of whose operands are tables.
pub(crate) struct Hoisted {
    /// Operands from the number of those that are read on are the tables.
    pub(crate) join: Expr,
    /// The tables and their steps over the labels.
    pub(crate) tables: Vec<(Table, Vec<i64>)>,
}

/// Whether a part of so many values is worth a table in a block of so many points.
pub(super) fn worth(size: usize, points: usize) -> bool {
    size.saturating_mul(USES) <= points
}

/// Takes out what is worth it; `None` where nothing is.
pub(crate) fn hoist(join: &Expr, labels: &Region, operands: &[Elements<'_>], strided: &[Strided]) -> Option<Hoisted> {
    let depends = dependence(join, labels, Some(strided));
    let extents = labels.shape();
    let volume = |set: &[bool]| set.iter().zip(&extents).filter(|(d, _)| **d).map(|(_, e)| e).product::<usize>();
    let total: usize = extents.iter().product();
    let parts = outermost(join, &|n| worth(volume(&depends[n]), total));
    if parts.is_empty() {
        return None;
    }
    let table = |(n, part): &(usize, Expr)| {
        let own: Vec<usize> = (0..extents.len()).filter(|&l| depends[*n][l]).collect();
        let shape: Vec<usize> = own.iter().map(|&l| extents[l]).collect();
        let mut steps = vec![0; extents.len()];
        own.iter().zip(strides(&shape)).for_each(|(&l, step)| steps[l] = step as i64);
        (fill(part, labels, &own, operands, strided), steps)
    };
    let tables = parts.iter().map(table).collect();
    let taken: Vec<usize> = parts.iter().map(|p| p.0).collect();
    Some(Hoisted { join: take_out(join, &taken, operands.len()), tables })
}

/// The rows that compute, fit and are read by one that stays, each as an expression of its own. The last row, which may be
/// folded unrounded, stays.
pub(super) fn outermost(join: &Expr, fit: &dyn Fn(usize) -> bool) -> Vec<(usize, Expr)> {
    let rows = join.rows();
    let last = rows.len() - 1;
    let computes = |n: usize| match rows[n].0 {
        Row::Operand(_) | Row::Const(_) | Row::Index(_) => false,
        Row::Unary(..) | Row::Binary(..) | Row::Select(..) | Row::Cast(_) => true,
    };
    let mut wanted = vec![false; rows.len()];
    wanted[last] = true;
    let mut found = Vec::new();
    for n in (0..=last).rev() {
        if !wanted[n] {
            continue;
        }
        if n < last && computes(n) && fit(n) {
            found.push((n, part(join, n)));
        } else {
            rows[n].0.arguments().into_iter().for_each(|a| wanted[a] = true);
        }
    }
    found.reverse();
    found
}

/// The expression with some rows as operands, in their order from number `first` on.
pub(super) fn take_out(join: &Expr, taken: &[usize], first: usize) -> Expr {
    let rows = join.rows();
    let last = rows.len() - 1;
    let mut wanted = vec![false; rows.len()];
    wanted[last] = true;
    for n in (0..=last).rev() {
        if wanted[n] && !taken.contains(&n) {
            rows[n].0.arguments().into_iter().for_each(|a| wanted[a] = true);
        }
    }
    let mut out = Expr::new();
    let mut places = vec![0; rows.len()];
    for n in (0..=last).filter(|&n| wanted[n]) {
        places[n] = match taken.iter().position(|&t| t == n) {
            Some(table) => out.push_operand(first + table, rows[n].1),
            None => push(&mut out, rows[n], &places),
        };
    }
    out
}

/// For every row, the labels along which its value changes; where it is not said how operands are read, as if operands
/// never changed.
pub(super) fn dependence(join: &Expr, labels: &Region, strided: Option<&[Strided]>) -> Vec<Vec<bool>> {
    let mut depends: Vec<Vec<bool>> = Vec::with_capacity(join.rows().len());
    for (row, _) in join.rows() {
        let mut own = vec![false; labels.rank()];
        match *row {
            Row::Const(_) => {}
            Row::Operand(k) => {
                let steps = strided.map_or(&[][..], |strided| &strided[k].steps);
                own.iter_mut().zip(steps).for_each(|(d, step)| *d = *step != 0);
            }
            Row::Index(label) => own[label] = true,
            Row::Unary(..) | Row::Binary(..) | Row::Select(..) | Row::Cast(_) => {
                for a in row.arguments() {
                    own.iter_mut().zip(&depends[a]).for_each(|(d, other)| *d |= other);
                }
            }
        }
        depends.push(own);
    }
    depends
}

/// The row `last` of an expression with all that it reads.
fn part(join: &Expr, last: usize) -> Expr {
    let rows = join.rows();
    let mut wanted = vec![false; last + 1];
    wanted[last] = true;
    for n in (0..=last).rev().filter(|&n| wanted[n]).collect::<Vec<_>>() {
        mark(rows, n, &mut wanted);
    }
    let mut out = Expr::new();
    let mut places = vec![0; last + 1];
    for n in (0..=last).filter(|&n| wanted[n]) {
        places[n] = push(&mut out, rows[n], &places);
    }
    out
}

fn mark(rows: &[(Row, DType)], n: usize, wanted: &mut [bool]) {
    for a in rows[n].0.arguments() {
        if !wanted[a] {
            wanted[a] = true;
            mark(rows, a, wanted);
        }
    }
}

/// Writes a row of another expression, its arguments at their places.
pub(crate) fn push(out: &mut Expr, (row, dtype): (Row, DType), places: &[usize]) -> usize {
    let typed = "it was well typed where it came from";
    match row {
        Row::Operand(k) => out.push_operand(k, dtype),
        Row::Const(value) => out.constant(value, dtype),
        Row::Index(label) => out.index(label),
        Row::Unary(function, a) => out.unary(function, places[a]).expect(typed),
        Row::Binary(function, a, b) => out.binary(function, places[a], places[b]).expect(typed),
        Row::Select(c, yes, no) => out.select(places[c], places[yes], places[no]).expect(typed),
        Row::Cast(a) => out.cast(places[a], dtype),
    }
}

/// The values of an expression for every value of some labels, the others at their first.
pub(super) fn fill(e: &Expr, labels: &Region, own: &[usize], operands: &[Elements<'_>], strided: &[Strided]) -> Table {
    let axis = |&l: &usize| Axis {
        extent: labels.0[l].len(),
        steps: strided.iter().map(|s| s.steps[l]).collect(),
        label: Some((l, labels.0[l].lo as i64)),
    };
    let mut lanes = Lanes::new(e, false, operands, own.iter().map(axis).collect());
    let base: Vec<i64> = strided.iter().map(|s| s.base).collect();
    let first: Vec<i64> = labels.0.iter().map(|i| i.lo as i64).collect();
    let volume = lanes.volume();
    let mut table = match e.dtype() {
        DType::F64 => Table::F64(Buffer::with_room(volume)),
        DType::F32 | DType::BF16 | DType::F16 => Table::F32(Buffer::with_room(volume)),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => Table::Int(Buffer::with_room(volume)),
    };
    let mut left = volume;
    while left > 0 {
        let n = BLOCK.min(left);
        lanes.advance(n);
        match (&mut table, lanes.evaluate(&base, &first)) {
            (Table::F32(out), Values::F32(v)) => out.extend_from_slice(v),
            (Table::F64(out), Values::F64(v)) => out.extend_from_slice(v),
            (Table::Int(out), Values::Int(v)) => out.extend_from_slice(v),
            _ => unreachable!("a table has its expression's type"),
        }
        left -= n;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::strided::Few;
    use ein_ir::expr::{Binary, Unary};

    #[test]
    fn what_depends_on_fewer_labels_is_a_table() {
        // x[i, j] * sin(y[j] + j) on a block of 9 rows and 5 columns from (3, 4).
        let mut e = Expr::operand(DType::F32);
        let (y, j) = (e.push_operand(1, DType::F32), e.index(1));
        let wide = e.cast(j, DType::F32);
        let sum = e.binary(Binary::Add, y, wide).expect("floats");
        let sin = e.unary(Unary::Sin, sum).expect("a float");
        e.binary(Binary::Mul, 0, sin).expect("floats");
        let labels = Region::of(&[(3, 12), (4, 9)]);
        let (x, y) = (vec![1.0f32; 45], [0.5f32; 5]);
        let operands = [Elements::F32(&x), Elements::F32(&y)];
        let strided = [
            Strided { base: 0, steps: Few::from_slice(&[5, 1]) },
            Strided { base: 0, steps: Few::from_slice(&[0, 1]) },
        ];
        let found = hoist(&e, &labels, &operands, &strided).expect("the sine");
        assert_eq!((found.join.rows().len(), found.tables.len()), (3, 1));
        let (table, steps) = &found.tables[0];
        let Table::F32(values) = table else { panic!("a float's table") };
        assert_eq!(steps, &[0, 1]);
        let near = |(n, v): (usize, &f32)| (f64::from(*v) - (n as f64 + 4.5).sin()).abs() < 1e-6;
        assert!(values.len() == 5 && values.iter().enumerate().all(near), "{values:?}");
        // Of three rows it is not worth it.
        assert!(hoist(&e, &Region::of(&[(3, 6), (4, 9)]), &operands, &strided).is_none());
    }
}
