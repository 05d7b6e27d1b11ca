//! Ids that are values of an operand.

use crate::cpu::piece::{Elements, Piece};
use crate::cpu::strided::{Few, shape, strides};
use crate::error::Cause;
use ein_ir::region::{Region, offset};

/// Ids, each of which must name one of some rows.
pub(super) struct Ids<'a> {
    elements: Elements<'a>,
    steps: Few<usize>,
    region: &'a Region,
    rows: usize,
    name: &'a str,
}

impl<'a> Ids<'a> {
    /// The ids that a piece holds.
    pub(super) fn new(piece: Piece<'a>, rows: usize, name: &'a str) -> Self {
        let steps = strides(&shape(&piece.region.0));
        Self { elements: piece.elements(0), steps, region: piece.region, rows, name }
    }

    /// Where the id of a point stands; those along the last axis follow it.
    pub(super) fn place(&self, point: &[usize]) -> usize {
        offset(point, &self.region.0, &self.steps)
    }

    /// The row that the id at a point names.
    pub(super) fn at(&self, point: &[usize]) -> Result<usize, Cause> {
        self.row(self.place(point))
    }

    /// The rows that `out.len()` ids from a place on name.
    pub(super) fn rows(&self, place: usize, out: &mut [usize]) -> Result<(), Cause> {
        let n = out.len();
        macro_rules! each {
            ($v:expr) => {{
                let ids = &$v[place..place + n];
                let mut right = true;
                for (o, &id) in out.iter_mut().zip(ids) {
                    // A negative id is a large one.
                    *o = id as usize;
                    right &= *o < self.rows;
                }
                right
            }};
        }
        let right = match self.elements {
            Elements::I64(v) => each!(v),
            Elements::I32(v) => each!(v),
            Elements::U8(v) => each!(v),
            Elements::F64(_) | Elements::F32(_) | Elements::BF16(_) | Elements::F16(_) => false,
        };
        // The one that is wrong is told by itself.
        if right { Ok(()) } else { (place..place + n).try_for_each(|at| self.row(at).map(drop)) }
    }

    /// The row that the id at a place names.
    pub(super) fn row(&self, place: usize) -> Result<usize, Cause> {
        let id = match self.elements {
            Elements::I64(v) => v[place],
            Elements::I32(v) => i64::from(v[place]),
            Elements::U8(v) => i64::from(v[place]),
            Elements::F64(_) | Elements::F32(_) | Elements::BF16(_) | Elements::F16(_) => {
                return Err(Cause::malformed(format!("the ids of `{}` are floats", self.name)));
            }
        };
        let row = usize::try_from(id).ok().filter(|&row| row < self.rows);
        row.ok_or_else(|| Cause::Id { operation: self.name.to_owned(), id, rows: self.rows })
    }
}
