//! Where products leave their results, tile by tile.

use super::buffer::Room;
use super::convert;
use super::grid::{Grid, place};
use super::packed::Sink;
use crate::error::Cause;
use ein_ir::dtype::DType;
use std::ops::Range;

/// Who uses a product's tiles while they are near.
pub(crate) trait Use {
    /// Rows and columns of the product, whose rows are the first `lead` labels of the result and whose columns are the
    /// others; of several labels of columns there are all. Values are those of the product's type.
    fn tile(&mut self, rows: Range<usize>, lead: usize, columns: Range<usize>, values: &[f32]) -> Result<(), Cause>;
}

/// Tiles on their way to who uses them.
pub(super) struct Used<'a> {
    pub(super) first: usize,
    pub(super) width: usize,
    pub(super) lead: usize,
    /// Whether some columns may go alone.
    pub(super) split: bool,
    pub(super) tile: &'a mut Room,
    /// Whether the product's type is `bf16`.
    pub(super) rounded: bool,
    pub(super) each: &'a mut dyn Use,
    pub(super) fault: Result<(), Cause>,
}

impl Sink for Used<'_> {
    fn tile(&mut self, rows: Range<usize>, columns: Range<usize>) -> (&mut [f32], usize) {
        let (from, apart) = if self.split { (0, columns.len()) } else { (columns.start, self.width) };
        (&mut self.tile.of(rows.len() * apart)[from..], apart)
    }

    fn done(&mut self, rows: Range<usize>, columns: Range<usize>) {
        if self.fault.is_err() || (!self.split && columns.end < self.width) {
            return;
        }
        let columns = if self.split { columns } else { 0..self.width };
        let size = rows.len() * columns.len();
        let rows = self.first + rows.start..self.first + rows.end;
        let values = self.tile.of(size);
        if self.rounded {
            convert::round_all(values);
        }
        self.fault = self.each.tile(rows, self.lead, columns, values);
    }
}

/// Where results of a product are: of rows from `first` on, the product's first element being at `at`.
pub(super) struct Places<'a> {
    pub(super) grid: &'a Grid,
    pub(super) first: usize,
    pub(super) at: i64,
}

impl Places<'_> {
    /// Where a tile begins and how far its rows are apart, where it lies in the result as it is made.
    fn direct(&self, rows: &Range<usize>, columns: &Range<usize>) -> Option<(usize, usize)> {
        let [down, across] = self.grid.out();
        let (&[(_, apart)], &(run, step)) = (down.as_slice(), across.last()?) else { return None };
        let one = columns.start / run == columns.end.max(1).div_ceil(run) - 1 || across.len() == 1;
        let at = self.at + place(down, self.first + rows.start) + place(across, columns.start);
        // Of one row none is next.
        let apart = if rows.len() == 1 { columns.len() as i64 } else { apart };
        (step == 1 && apart > 0 && one).then_some((at as usize, apart as usize))
    }

    /// Calls `put` for results of a tile that lie at one step: where they are in the tile, in the result, how many they are
    /// and the step.
    fn each(&self, rows: Range<usize>, columns: Range<usize>, mut put: impl FnMut(Range<usize>, usize, usize)) {
        let [down, across] = self.grid.out();
        let Some(&(run, step)) = across.last() else { return };
        let mut from = columns.start;
        while from < columns.end {
            let to = columns.end.min(if across.len() == 1 { columns.end } else { (from / run + 1) * run });
            let at = self.at + place(across, from);
            for row in rows.clone() {
                let tile = (row - rows.start) * columns.len();
                let within = tile + from - columns.start..tile + to - columns.start;
                put(within, (at + place(down, self.first + row)) as usize, step as usize);
            }
            from = to;
        }
    }
}

/// Room for a tile.
fn room<'a>(tile: &'a mut Room, rows: &Range<usize>, columns: &Range<usize>) -> (&'a mut [f32], usize) {
    (tile.of(rows.len() * columns.len()), columns.len())
}

/// Tiles of a product with a packed factor: in the result where they lie there as they are made, else on their way there.
pub(super) struct Tiles<'a> {
    pub(super) out: &'a mut [f32],
    pub(super) places: Places<'a>,
    pub(super) tile: &'a mut Room,
}

impl Sink for Tiles<'_> {
    fn tile(&mut self, rows: Range<usize>, columns: Range<usize>) -> (&mut [f32], usize) {
        match self.places.direct(&rows, &columns) {
            Some((at, apart)) => (&mut self.out[at..], apart),
            None => room(self.tile, &rows, &columns),
        }
    }

    fn done(&mut self, rows: Range<usize>, columns: Range<usize>) {
        if self.places.direct(&rows, &columns).is_some() {
            return;
        }
        let values = &*self.tile.of::<f32>(rows.len() * columns.len());
        self.places.each(rows, columns, |tile, at, step| {
            let (values, out) = (&values[tile], &mut self.out[at..]);
            if step == 1 {
                out[..values.len()].copy_from_slice(values);
            } else {
                out.iter_mut().step_by(step).zip(values).for_each(|(to, &x)| *to = x);
            }
        });
    }
}

/// Tiles that are rounded to the result's type.
pub(super) struct Rounded<'a> {
    pub(super) out: &'a mut [u8],
    pub(super) dtype: DType,
    pub(super) places: Places<'a>,
    pub(super) tile: &'a mut Room,
}

impl Sink for Rounded<'_> {
    fn tile(&mut self, rows: Range<usize>, columns: Range<usize>) -> (&mut [f32], usize) {
        room(self.tile, &rows, &columns)
    }

    fn done(&mut self, rows: Range<usize>, columns: Range<usize>) {
        let all = &*self.tile.of::<f32>(rows.len() * columns.len());
        self.places.each(rows, columns, |tile, at, step| {
            let values = &all[tile];
            if step == 1 {
                convert::from_f32(values, self.dtype, self.out, at);
                return;
            }
            for (n, value) in values.iter().enumerate() {
                convert::from_f32(std::slice::from_ref(value), self.dtype, self.out, at + n * step);
            }
        });
    }
}
