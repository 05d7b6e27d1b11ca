//! Parts of an expression that read no operand: the angles of a rotation, the slopes of a position bias. Their values are
//! the same in every run, so they are made when a row is made ready, and rows that need the same share them.

use super::hoist::{Table, dependence, fill, has, outermost, take_out, worth};
use super::strided::{Few, Strided};
use crate::error::Cause;
use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Expr, Row, Unary};
use ein_ir::region::{Interval, Region, strides};
use std::collections::HashMap;
use std::sync::Arc;

/// Elements of all tables of a process's devices, at most.
const KEPT: usize = 1 << 22;

/// A row of an expression and its type.
type TypedRow = (Row, DType);

/// The tables that rows share, by expression and the indices that it depends on.
#[derive(Default)]
pub(crate) struct Tables {
    known: HashMap<(Vec<TypedRow>, Region), Arc<Table>>,
    elements: usize,
}

/// An expression without its constant parts.
pub(crate) struct Constants {
    /// Operands from the number of the einsum's on are the tables.
    pub(crate) join: Vec<TypedRow>,
    tables: Vec<Constant>,
}

/// Values of a part for some indices of the labels that it depends on.
struct Constant {
    values: Arc<Table>,
    /// These indices; of all other labels one.
    region: Region,
    steps: Vec<i64>,
}

impl Constants {
    /// Takes out of the expression of a row, whose block has these labels, what is constant and worth a table; `None`
    /// where nothing is. `operands` is how many the einsum reads.
    pub(crate) fn of(join: &Expr, operands: usize, labels: &Region, tables: &mut Tables) -> Option<Self> {
        let rows = join.rows();
        let depends = dependence(rows, labels.rank(), None);
        let (mut constant, mut costly) = (vec![true; rows.len()], vec![false; rows.len()]);
        for (n, (row, _)) in rows.iter().enumerate() {
            let arguments = row.arguments();
            constant[n] = !matches!(row, Row::Operand(_)) && arguments.iter().all(|&a| constant[a]);
            costly[n] = is_costly(row) || arguments.iter().any(|&a| costly[a]);
        }
        let total = labels.volume();
        let fit = |n: usize| {
            let own = (0..labels.rank()).filter(|&l| has(depends[n], l));
            let size = own.map(|l| labels.0[l].len()).product::<usize>();
            // It is read in every run: where it takes long to compute, once is often enough.
            constant[n] && size <= KEPT && (costly[n] || worth(size, total))
        };
        let parts = outermost(rows, &fit);
        if total == 0 || parts.is_empty() {
            return None;
        }
        let mut made: Vec<Constant> = Vec::new();
        let mut taken = Vec::new();
        for (n, part) in parts {
            let own: Vec<usize> = (0..labels.rank()).filter(|&l| has(depends[n], l)).collect();
            let index = |(l, i): (usize, &Interval)| if has(depends[n], l) { *i } else { Interval::new(0, 1) };
            let region = Region(labels.0.iter().enumerate().map(index).collect());
            let mut steps = vec![0; labels.rank()];
            let shape: Vec<usize> = own.iter().map(|&l| labels.0[l].len()).collect();
            own.iter().zip(strides(&shape)).for_each(|(&l, step)| steps[l] = step as i64);
            let key = (part.to_vec(), region);
            let values = if let Some(values) = tables.known.get(&key) {
                Arc::clone(values)
            } else {
                let values = Arc::new(fill(&key.0, &key.1, &own, &[], &[]));
                if tables.elements + values.len() > KEPT {
                    continue;
                }
                tables.elements += values.len();
                tables.known.insert(key.clone(), Arc::clone(&values));
                values
            };
            made.push(Constant { values, region: key.1, steps });
            taken.push(n);
        }
        if taken.is_empty() {
            return None;
        }
        Some(Self { join: take_out(rows, &taken, operands).to_vec(), tables: made })
    }

    /// The tables and how a block of the row, with these labels, reads them.
    pub(crate) fn operands(&self, labels: &Region) -> impl Iterator<Item = Result<(&Table, Strided), Cause>> {
        self.tables.iter().map(move |table| {
            let mut base = 0;
            for ((label, own), step) in labels.0.iter().zip(&table.region.0).zip(&table.steps) {
                if *step != 0 && (label.lo < own.lo || label.hi > own.hi) {
                    return Err(Cause::malformed(format!("a block {labels} is not of its row {}", table.region)));
                }
                base += (label.lo as i64 - own.lo as i64) * step;
            }
            Ok((&*table.values, Strided { base, steps: Few::from_slice(&table.steps) }))
        })
    }
}

/// Whether one evaluation takes as long as reading several elements from memory.
fn is_costly(row: &Row) -> bool {
    match row {
        Row::Unary(function, _) => !matches!(
            function,
            Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc | Unary::Neg | Unary::Abs | Unary::Not
        ),
        Row::Binary(function, ..) => matches!(function, Binary::Pow | Binary::Atan2),
        Row::Operand(_) | Row::Const(_) | Row::Index(_) | Row::Select(..) | Row::Cast(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::expr::Literal;

    /// `x * sin(label 1 + 2)`.
    fn turned() -> Expr {
        let mut e = Expr::operand(DType::F32);
        let (j, two) = (e.index(1), e.constant(Literal::Int(2), DType::I64));
        let sum = e.binary(Binary::Add, j, two).expect("integers");
        let wide = e.cast(sum, DType::F32);
        let sin = e.unary(Unary::Sin, wide).expect("a float");
        e.binary(Binary::Mul, 0, sin).expect("floats");
        e
    }

    fn values(table: &Table) -> &[f32] {
        let Table::F32(values) = table else { panic!("a float's table") };
        values
    }

    #[test]
    fn costly_constants_are_made_once_for_all_rows() {
        let mut tables = Tables::default();
        // One row of the block is enough, since there are many runs.
        let first = Constants::of(&turned(), 1, &Region::of(&[(3, 4), (4, 9)]), &mut tables).expect("the sine");
        let second = Constants::of(&turned(), 1, &Region::of(&[(0, 9), (4, 9)]), &mut tables).expect("the sine");
        let third = Constants::of(&turned(), 1, &Region::of(&[(0, 9), (4, 8)]), &mut tables).expect("the sine");
        assert_eq!((first.join.len(), first.tables.len()), (3, 1));
        assert!(Arc::ptr_eq(&first.tables[0].values, &second.tables[0].values));
        assert!(!Arc::ptr_eq(&first.tables[0].values, &third.tables[0].values));
        let near = |(n, v): (usize, &f32)| (f64::from(*v) - (n as f64 + 6.0).sin()).abs() < 1e-6;
        let found = values(&first.tables[0].values);
        assert!(found.len() == 5 && found.iter().enumerate().all(near), "{found:?}");
        // A part of the block reads its own part.
        let part = second.operands(&Region::of(&[(7, 9), (6, 8)])).next().expect("one").expect("it is in the block");
        assert_eq!(part.1, Strided { base: 2, steps: Few::from_slice(&[0, 1]) });
        assert!(second.operands(&Region::of(&[(7, 9), (6, 10)])).next().expect("one").is_err());
    }

    #[test]
    fn what_is_cheap_or_large_is_no_table() {
        let mut tables = Tables::default();
        // x + (label 1 + 2): of many rows only.
        let mut e = Expr::operand(DType::I64);
        let (j, two) = (e.index(1), e.constant(Literal::Int(2), DType::I64));
        let sum = e.binary(Binary::Add, j, two).expect("integers");
        e.binary(Binary::Add, 0, sum).expect("integers");
        assert!(Constants::of(&e, 1, &Region::of(&[(0, 2), (0, 9)]), &mut tables).is_none());
        assert!(Constants::of(&e, 1, &Region::of(&[(0, 9), (0, 9)]), &mut tables).is_some());
        assert!(Constants::of(&turned(), 1, &Region::of(&[(0, 1), (0, KEPT + 1)]), &mut tables).is_none());
        assert!(
            Constants::of(&turned(), 1, &Region::of(&[(0, 1), (0, KEPT)]), &mut tables).is_none(),
            "with the other"
        );
        assert!(Constants::of(&turned(), 1, &Region::of(&[(0, 1), (0, 0)]), &mut tables).is_none());
    }
}
