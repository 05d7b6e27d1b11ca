//! Parts of an expression that do not change along every label: computed once for each value of the labels that they
//! depend on, and read from a table by all others.
//!
//! The reciprocal root of a norm depends on the row alone, the angles of a rotation on position and feature, not on
//! batch and head. What reads no operand is the same in every run: see [`super::constants`].

use super::buffer::Buffer;
use super::lanes::{Axis, BLOCK, Lanes, Values};
use super::piece::Elements;
use super::strided::{Few, Strided, shape, strides};
use ein_ir::dtype::DType;
use ein_ir::expr::Row;
use ein_ir::region::Region;

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

/// Rows of an expression.
pub(crate) type Rows = Buffer<(Row, DType)>;

/// An expression some of whose operands are tables.
pub(crate) struct Hoisted {
    /// Operands from the number of those that are read on are the tables.
    pub(crate) join: Rows,
    /// The tables and their steps over the labels.
    pub(crate) tables: Few<(Table, Few<i64>)>,
}

/// Whether a part of so many values is worth a table in a block of so many points.
pub(super) fn worth(size: usize, points: usize) -> bool {
    size.saturating_mul(USES) <= points
}

/// The bit of a label in a set of labels. The 64th and those behind it share one: what changes along one of them may along
/// all.
fn bit(label: usize) -> u64 {
    1 << label.min(63)
}

/// Whether a set has a label.
pub(super) fn has(set: u64, label: usize) -> bool {
    set & bit(label) != 0
}

/// Takes out what is worth it; `None` where nothing is.
pub(crate) fn hoist(
    join: &[(Row, DType)],
    labels: &Region,
    operands: &[Elements<'_>],
    strided: &[Strided],
) -> Option<Hoisted> {
    let depends = dependence(join, labels.rank(), Some(strided));
    let extents = shape(&labels.0);
    let own = |set: u64| (0..extents.len()).filter(move |&l| has(set, l));
    let total: usize = extents.iter().product();
    let volume = |n: usize| own(depends[n]).map(|l| extents[l]).product();
    let parts = outermost(join, &|n| worth(volume(n), total));
    if parts.is_empty() {
        return None;
    }
    let table = |(n, part): &(usize, Rows)| {
        let own: Few<usize> = own(depends[*n]).collect();
        let mut steps = Few::from_elem(0, extents.len());
        let shape: Few<usize> = own.iter().map(|&l| extents[l]).collect();
        own.iter().zip(strides(&shape)).for_each(|(&l, step)| steps[l] = step as i64);
        (fill(part, labels, &own, operands, strided), steps)
    };
    let tables = parts.iter().map(table).collect();
    let taken: Few<usize> = parts.iter().map(|p| p.0).collect();
    Some(Hoisted { join: take_out(join, &taken, operands.len()), tables })
}

/// The rows that compute, fit and are read by one that stays, each as an expression of its own. The last row, which may be
/// folded unrounded, stays.
pub(super) fn outermost(rows: &[(Row, DType)], fit: &dyn Fn(usize) -> bool) -> Few<(usize, Rows)> {
    let last = rows.len() - 1;
    let computes = |n: usize| match rows[n].0 {
        Row::Operand(_) | Row::Const(_) | Row::Index(_) => false,
        Row::Unary(..) | Row::Binary(..) | Row::Select(..) | Row::Cast(_) => true,
    };
    let mut wanted = Buffer::of(false, rows.len());
    wanted[last] = true;
    let mut found = Few::new();
    for n in (0..=last).rev() {
        if !wanted[n] {
            continue;
        }
        if n < last && computes(n) && fit(n) {
            found.push((n, part(rows, n)));
        } else {
            rows[n].0.arguments().into_iter().for_each(|a| wanted[a] = true);
        }
    }
    found.reverse();
    found
}

/// The expression with some rows as operands, in their order from number `first` on.
pub(super) fn take_out(rows: &[(Row, DType)], taken: &[usize], first: usize) -> Rows {
    let last = rows.len() - 1;
    let mut wanted = Buffer::of(false, rows.len());
    wanted[last] = true;
    for n in (0..=last).rev() {
        if wanted[n] && !taken.contains(&n) {
            rows[n].0.arguments().into_iter().for_each(|a| wanted[a] = true);
        }
    }
    let mut out = Rows::with_room(rows.len());
    let mut places = Buffer::of(0, rows.len());
    for n in (0..=last).filter(|&n| wanted[n]) {
        places[n] = out.len();
        let (row, dtype) = rows[n];
        let table = taken.iter().position(|&t| t == n);
        out.push((table.map_or_else(|| row.renamed(|a| places[a]), |table| Row::Operand(first + table)), dtype));
    }
    out
}

/// For every row, the labels of `rank` along which its value changes; where it is not said how operands are read, as if
/// operands never changed.
pub(super) fn dependence(rows: &[(Row, DType)], rank: usize, strided: Option<&[Strided]>) -> Buffer<u64> {
    let mut depends: Buffer<u64> = Buffer::with_room(rows.len());
    for (row, _) in rows {
        let own = match *row {
            Row::Const(_) => 0,
            Row::Operand(k) => {
                let steps = strided.map_or(&[][..], |strided| &strided[k].steps[..rank]);
                steps.iter().enumerate().filter(|(_, step)| **step != 0).fold(0, |all, (l, _)| all | bit(l))
            }
            Row::Index(label) => bit(label),
            Row::Unary(..) | Row::Binary(..) | Row::Select(..) | Row::Cast(_) => {
                row.arguments().iter().fold(0, |all, &a| all | depends[a])
            }
        };
        depends.push(own);
    }
    depends
}

/// The row `last` of an expression with all that it reads.
fn part(rows: &[(Row, DType)], last: usize) -> Rows {
    let mut wanted = Buffer::of(false, last + 1);
    wanted[last] = true;
    for n in (0..=last).rev() {
        if wanted[n] {
            rows[n].0.arguments().into_iter().for_each(|a| wanted[a] = true);
        }
    }
    let mut out = Rows::with_room(last + 1);
    let mut places = Buffer::of(0, last + 1);
    for n in (0..=last).filter(|&n| wanted[n]) {
        places[n] = out.len();
        let (row, dtype) = rows[n];
        out.push((row.renamed(|a| places[a]), dtype));
    }
    out
}

/// The values of an expression for every value of some labels, the others at their first.
pub(super) fn fill(
    rows: &[(Row, DType)],
    labels: &Region,
    own: &[usize],
    operands: &[Elements<'_>],
    strided: &[Strided],
) -> Table {
    let axis = |&l: &usize| Axis {
        extent: labels.0[l].len(),
        steps: strided.iter().map(|s| s.steps[l]).collect(),
        label: Some((l, labels.0[l].lo as i64)),
    };
    let mut lanes = Lanes::new(rows, false, operands, own.iter().map(axis).collect());
    let base: Few<i64> = strided.iter().map(|s| s.base).collect();
    let first: Few<i64> = labels.0.iter().map(|i| i.lo as i64).collect();
    let volume = lanes.volume();
    let mut table = match rows[rows.len() - 1].1 {
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
    use ein_ir::expr::{Binary, Expr, Unary};

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
        let found = hoist(e.rows(), &labels, &operands, &strided).expect("the sine");
        assert_eq!((found.join.len(), found.tables.len()), (3, 1));
        let (table, steps) = &found.tables[0];
        let Table::F32(values) = table else { panic!("a float's table") };
        assert_eq!(&steps[..], [0, 1]);
        let near = |(n, v): (usize, &f32)| (f64::from(*v) - (n as f64 + 4.5).sin()).abs() < 1e-6;
        assert!(values.len() == 5 && values.iter().enumerate().all(near), "{values:?}");
        // Of three rows it is not worth it.
        assert!(hoist(e.rows(), &Region::of(&[(3, 6), (4, 9)]), &operands, &strided).is_none());
    }
}
