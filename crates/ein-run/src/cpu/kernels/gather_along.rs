//! Elements of a tensor, each by an index along one axis.

use super::Call;
use super::block::{each_point, lines};
use super::ids::Ids;
use crate::cpu::buffer::Buffer;
use crate::cpu::piece::PieceMut;
use crate::cpu::strided::{Few, shape, strides};
use crate::error::Cause;
use bytemuck::{Pod, cast_slice};
use ein_ir::kernel::GatherAlong;
use ein_ir::region::offset;

/// What the block's part of the axis holds; bits that are all 0 for ids that another part answers.
pub(crate) fn gather_along(g: &GatherAlong, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    match result.dtype(0).bytes() {
        1 => typed::<u8>(g, call, result),
        2 => typed::<u16>(g, call, result),
        4 => typed::<u32>(g, call, result),
        _ => typed::<u64>(g, call, result),
    }
}

/// By the size of an element: bits are moved, whatever they mean.
fn typed<T: Pod>(g: &GatherAlong, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    let rank = g.ids.len();
    let out = &call.labels.0[..rank];
    let rows = call.labels.0[rank];
    if out.iter().any(|i| i.is_empty()) {
        return Ok(());
    }
    let ids = Ids::new(call.operand(1, out)?, g.table[g.axis], call.name);
    let mut needs: Few<_> = Few::from_slice(out);
    needs[g.axis] = rows;
    // A part of the axis that has no rows answers nothing, but still refuses ids that are wrong.
    let table = if rows.is_empty() { None } else { Some(call.operand(0, &needs)?) };
    let region = table.map_or(&needs[..], |t| &t.region.0);
    let elements: &[T] = table.map_or(&[], |t| cast_slice(t.bytes(0)));
    let steps = strides(&shape(region));
    let (starts, length) = lines(out);
    // Along a line the place in the table follows the line, unless the line is the axis.
    let along = if g.axis + 1 == rank { 0 } else { steps[rank - 1] };
    let mut taken = Buffer::of(0, length);
    let (first_row, step) = (region[g.axis].lo, steps[g.axis]);
    let mut lines = result.slice::<T>(0).chunks_exact_mut(length);
    each_point(&starts, |point| {
        let to = lines.next().unwrap_or_default();
        let first = ids.place(point);
        point[g.axis] = region[g.axis].lo;
        let base = offset(point, region, &steps);
        ids.rows(first, &mut taken)?;
        let whole = rows.lo == 0 && rows.hi == g.table[g.axis];
        if whole && along == 0 && step == 1 {
            let line = &elements[base - first_row..];
            to.iter_mut().zip(taken.iter()).for_each(|(to, &row)| *to = line[row]);
            return Ok(());
        }
        for (n, (to, &row)) in to.iter_mut().zip(taken.iter()).enumerate() {
            let own = row >= rows.lo && row < rows.hi;
            *to = if own { elements[base + n * along + (row - first_row) * step] } else { T::zeroed() };
        }
        Ok(())
    })
}
