//! Ids that are values of an operand.

use crate::cpu::piece::{Elements, Piece};
use crate::error::Cause;
use ein_ir::region::strides;

/// Ids, each of which must name one of some rows.
pub(super) struct Ids<'a> {
    elements: Elements<'a>,
    steps: Vec<usize>,
    origin: Vec<usize>,
    rows: usize,
    name: &'a str,
}

impl<'a> Ids<'a> {
    /// The ids that a piece holds.
    pub(super) fn new(piece: Piece<'a>, rows: usize, name: &'a str) -> Self {
        let (steps, origin) = (strides(&piece.region.shape()), piece.region.origin());
        Self { elements: piece.elements(0), steps, origin, rows, name }
    }

    /// The row that the id at a point names.
    pub(super) fn at(&self, point: &[usize]) -> Result<usize, Cause> {
        let at: usize = point.iter().zip(&self.origin).zip(&self.steps).map(|((p, o), s)| (p - o) * s).sum();
        let id = match self.elements {
            Elements::I64(v) => v[at],
            Elements::I32(v) => i64::from(v[at]),
            Elements::U8(v) => i64::from(v[at]),
            Elements::F64(_) | Elements::F32(_) | Elements::BF16(_) | Elements::F16(_) => {
                return Err(Cause::malformed(format!("the ids of `{}` are floats", self.name)));
            }
        };
        let row = usize::try_from(id).ok().filter(|&row| row < self.rows);
        row.ok_or_else(|| Cause::Id { operation: self.name.to_owned(), id, rows: self.rows })
    }
}
