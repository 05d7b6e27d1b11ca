//! Slices of a table by their ids.

use super::Call;
use super::block::{each_point, runs};
use super::ids::Ids;
use crate::cpu::piece::PieceMut;
use crate::cpu::strided::{Few, shape, strides};
use crate::error::Cause;
use ein_ir::kernel::Gather;
use ein_ir::region::{Interval, offset};

/// What the block's part of the axis holds; bits that are all 0 for ids that another part answers.
pub(crate) fn gather(g: &Gather, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    let labels = &call.labels.0;
    let rows = labels[g.row_label()];
    let (lead, rest) = labels[..g.row_label()].split_at(g.axis);
    let (tokens, slice) = rest.split_at(g.ids.len());
    if labels[..g.row_label()].iter().any(|i| i.is_empty()) {
        return Ok(());
    }
    let name = call.name;
    let ids = Ids::new(call.operand(1, tokens)?, g.table[g.axis], name);
    let size = result.dtype(0).bytes();
    let out = result.bytes(0);
    let slice_bytes = slice.iter().map(|i| i.len()).product::<usize>() * size;
    let table_box: Few<Interval> = lead.iter().chain([&rows]).chain(slice).copied().collect();
    // A part of the axis that has no rows answers nothing, but still refuses ids that are wrong.
    let table = if rows.is_empty() { None } else { Some(call.operand(0, &table_box)?) };
    // Where the runs of a slice begin, relative to the slice.
    let (region, bytes) = match &table {
        None => (&table_box[..], &[][..]),
        Some(table) => (&table.region.0[..], table.bytes(0)),
    };
    let steps = strides(&shape(region));
    let starts = runs(&region[g.axis + 1..], slice);
    let run = slice.last().map_or(1, |i| i.len()) * size;
    let mut to = out.chunks_exact_mut(slice_bytes);
    each_point(lead, |first| {
        let base = offset(first, region, &steps);
        each_point(tokens, |token| {
            let row = ids.at(token)?;
            let to = to.next().expect("a slice of the result for every id");
            if row < rows.lo || row >= rows.hi {
                to.fill(0);
                return Ok(());
            }
            let from = base + (row - region[g.axis].lo) * steps[g.axis];
            for (start, to) in starts.iter().zip(to.chunks_exact_mut(run)) {
                to.copy_from_slice(&bytes[(from + start) * size..][..run]);
            }
            Ok(())
        })
    })
}
