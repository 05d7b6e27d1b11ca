//! Copying rows of one scalar expression into another.

use ein_ir::expr::{Expr, Row, RowId};
use std::collections::BTreeMap;

/// An expression under construction into which others are copied. Equal rows are kept once.
#[derive(Default)]
pub(crate) struct Copier {
    pub expr: Expr,
}

impl Copier {
    /// Copies what row `value` of `from` needs. `leaf` says what stands in for an operand or an index;
    /// `None` copies the row as it is.
    pub fn copy(
        &mut self,
        from: &Expr,
        value: RowId,
        leaf: &mut impl FnMut(&mut Copier, Row) -> Option<RowId>,
    ) -> RowId {
        let mut needed = vec![false; value + 1];
        needed[value] = true;
        for n in (0..=value).rev() {
            if needed[n] {
                for r in reads(from.rows()[n].0) {
                    needed[r] = true;
                }
            }
        }
        let mut map: BTreeMap<RowId, RowId> = BTreeMap::new();
        for n in (0..=value).filter(|&n| needed[n]) {
            let (row, dtype) = from.rows()[n];
            let moved = match row {
                Row::Operand(_) | Row::Index(_) => leaf(self, row),
                _ => None,
            };
            let row = match row {
                Row::Operand(_) | Row::Const(_) | Row::Index(_) => row,
                Row::Unary(f, a) => Row::Unary(f, map[&a]),
                Row::Binary(f, a, b) => Row::Binary(f, map[&a], map[&b]),
                Row::Select(c, a, b) => Row::Select(map[&c], map[&a], map[&b]),
                Row::Cast(a) => Row::Cast(map[&a]),
            };
            let at = moved
                .or_else(|| self.expr.rows().iter().position(|r| *r == (row, dtype)))
                .unwrap_or_else(|| self.push(row, dtype));
            map.insert(n, at);
        }
        map[&value]
    }

    fn push(&mut self, row: Row, dtype: ein_ir::dtype::DType) -> RowId {
        let typed = "a copied row is well typed";
        match row {
            Row::Operand(n) => self.expr.push_operand(n, dtype),
            Row::Const(value) => self.expr.constant(value, dtype),
            Row::Index(label) => self.expr.index(label),
            Row::Unary(f, a) => self.expr.unary(f, a).expect(typed),
            Row::Binary(f, a, b) => self.expr.binary(f, a, b).expect(typed),
            Row::Select(c, a, b) => self.expr.select(c, a, b).expect(typed),
            Row::Cast(a) => self.expr.cast(a, dtype),
        }
    }

    /// The expression whose value is row `value`: rows that it does not need are left out, so that it is
    /// the last one.
    pub fn finish(self, value: RowId) -> Expr {
        let mut last = Copier::default();
        last.copy(&self.expr, value, &mut |_, _| None);
        last.expr
    }
}

/// The rows that a row names.
fn reads(row: Row) -> Vec<RowId> {
    match row {
        Row::Operand(_) | Row::Const(_) | Row::Index(_) => vec![],
        Row::Unary(_, a) | Row::Cast(a) => vec![a],
        Row::Binary(_, a, b) => vec![a, b],
        Row::Select(c, a, b) => vec![c, a, b],
    }
}
