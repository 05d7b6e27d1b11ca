//! Where products leave their results, tile by tile.

use super::convert;
use super::packed::Sink;
use crate::error::Cause;
use bytemuck::{cast_slice, cast_slice_mut};
use ein_ir::dtype::DType;
use std::ops::Range;

/// Who uses a product's tiles while they are near.
pub(crate) trait Use {
    /// Rows and columns of the product, whose rows are the first `lead` labels of the result and whose columns are the
    /// others; of several labels of columns there are all. Values are of the product's type.
    fn tile(&mut self, rows: Range<usize>, lead: usize, columns: Range<usize>, values: &[u8]) -> Result<(), Cause>;
}

/// Tiles on their way to who uses them.
pub(super) struct Used<'a> {
    pub(super) first: usize,
    pub(super) width: usize,
    pub(super) lead: usize,
    /// Whether some columns may go alone.
    pub(super) split: bool,
    pub(super) tile: &'a mut Vec<f32>,
    /// Where a tile is put as `bf16`, if that is the product's type.
    pub(super) rounded: Option<&'a mut Vec<f32>>,
    pub(super) each: &'a mut dyn Use,
    pub(super) fault: Result<(), Cause>,
}

impl Sink for Used<'_> {
    fn tile(&mut self, rows: Range<usize>, columns: Range<usize>) -> (&mut [f32], usize) {
        let (from, apart) = if self.split { (0, columns.len()) } else { (columns.start, self.width) };
        let size = rows.len() * apart;
        if self.tile.len() < size {
            self.tile.resize(size, 0.0);
        }
        (&mut self.tile[from..size], apart)
    }

    fn done(&mut self, rows: Range<usize>, columns: Range<usize>) {
        if self.fault.is_err() || (!self.split && columns.end < self.width) {
            return;
        }
        let columns = if self.split { columns } else { 0..self.width };
        let size = rows.len() * columns.len();
        let rows = self.first + rows.start..self.first + rows.end;
        let values = if let Some(rounded) = &mut self.rounded {
            rounded.resize(rounded.len().max(size.div_ceil(2)), 0.0);
            let out = &mut cast_slice_mut(rounded)[..2 * size];
            convert::from_f32(&self.tile[..size], DType::BF16, out, 0);
            &*out
        } else {
            cast_slice(&self.tile[..size])
        };
        self.fault = self.each.tile(rows, self.lead, columns, values);
    }
}

/// Tiles of a product with a packed factor: in the result where its columns lie side by side, else on their way there.
pub(super) struct Tiles<'a> {
    pub(super) out: &'a mut [f32],
    pub(super) at: i64,
    pub(super) steps: [i64; 2],
    pub(super) tile: &'a mut Vec<f32>,
}

impl Sink for Tiles<'_> {
    fn tile(&mut self, rows: Range<usize>, columns: Range<usize>) -> (&mut [f32], usize) {
        let [row, column] = self.steps;
        if column == 1 && row > 0 {
            let at = self.at + rows.start as i64 * row + columns.start as i64;
            return (&mut self.out[at as usize..], row as usize);
        }
        let size = rows.len() * columns.len();
        if self.tile.len() < size {
            self.tile.resize(size, 0.0);
        }
        (&mut self.tile[..size], columns.len())
    }

    fn done(&mut self, rows: Range<usize>, columns: Range<usize>) {
        let [row, column] = self.steps;
        if column == 1 && row > 0 {
            return;
        }
        for (r, values) in rows.zip(self.tile.chunks(columns.len())) {
            for (c, &value) in columns.clone().zip(values) {
                self.out[(self.at + r as i64 * row + c as i64 * column) as usize] = value;
            }
        }
    }
}

/// Tiles that are rounded to the result's type.
pub(super) struct Rounded<'a> {
    pub(super) out: &'a mut [u8],
    pub(super) dtype: DType,
    pub(super) at: i64,
    pub(super) steps: [i64; 2],
    pub(super) tile: &'a mut Vec<f32>,
}

impl Sink for Rounded<'_> {
    fn tile(&mut self, rows: Range<usize>, columns: Range<usize>) -> (&mut [f32], usize) {
        let size = rows.len() * columns.len();
        self.tile.resize(self.tile.len().max(size), 0.0);
        (&mut self.tile[..size], columns.len())
    }

    fn done(&mut self, rows: Range<usize>, columns: Range<usize>) {
        let [row, column] = self.steps;
        for (r, values) in rows.zip(self.tile.chunks(columns.len())) {
            let at = self.at + r as i64 * row + columns.start as i64 * column;
            if column == 1 {
                convert::from_f32(values, self.dtype, self.out, at as usize);
                continue;
            }
            for (c, value) in values.iter().enumerate() {
                let at = at + c as i64 * column;
                convert::from_f32(std::slice::from_ref(value), self.dtype, self.out, at as usize);
            }
        }
    }
}
