//! Expressions that end with the row that is meant.

use ein_ir::expr::{Expr, Row, RowId};
use std::collections::BTreeMap;

/// The expression whose value is row `value`: later rows and rows that it does not need are left out.
pub(crate) fn ending(from: &Expr, value: RowId) -> Expr {
    let mut needed = vec![false; value + 1];
    needed[value] = true;
    for n in (0..=value).rev() {
        if needed[n] {
            for r in from.rows()[n].0.arguments() {
                needed[r] = true;
            }
        }
    }
    let typed = "a copied row is well typed";
    let mut to = Expr::new();
    let mut at: BTreeMap<RowId, RowId> = BTreeMap::new();
    for n in (0..=value).filter(|&n| needed[n]) {
        let (row, dtype) = from.rows()[n];
        let copy = match row {
            Row::Operand(operand) => to.push_operand(operand, dtype),
            Row::Const(constant) => to.constant(constant, dtype),
            Row::Index(label) => to.index(label),
            Row::Unary(f, a) => to.unary(f, at[&a]).expect(typed),
            Row::Binary(f, a, b) => to.binary(f, at[&a], at[&b]).expect(typed),
            Row::Select(c, a, b) => to.select(at[&c], at[&a], at[&b]).expect(typed),
            Row::Cast(a) => to.cast(at[&a], dtype),
        };
        at.insert(n, copy);
    }
    to
}
