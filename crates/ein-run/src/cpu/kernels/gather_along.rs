//! Elements of a tensor, each by an index along one axis.

use super::Call;
use super::ids::Ids;
use crate::cpu::piece::PieceMut;
use crate::error::Cause;
use ein_ir::kernel::GatherAlong;
use ein_ir::region::{Region, offset, points, strides};

/// What the block's part of the axis holds; bits that are all 0 for ids that another part answers.
pub(crate) fn gather_along(g: &GatherAlong, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    let rank = g.ids.len();
    let out = Region(call.labels.0[..rank].to_vec());
    let rows = call.labels.0[rank];
    if out.is_empty() {
        return Ok(());
    }
    let ids = Ids::new(call.operand(1, &out)?, g.table[g.axis], call.name);
    let size = result.dtype(0).bytes();
    let mut needs = out.clone();
    needs.0[g.axis] = rows;
    // A part of the axis that has no rows answers nothing, but still refuses ids that are wrong.
    let table = if rows.is_empty() { None } else { Some(call.operand(0, &needs)?) };
    let region = table.map_or(&needs, |t| t.region);
    let bytes = table.map_or(&[][..], |t| t.bytes(0));
    let steps = strides(&region.shape());
    for (mut point, to) in points(&out).zip(result.bytes(0).chunks_exact_mut(size)) {
        let row = ids.at(&point)?;
        if row < rows.lo || row >= rows.hi {
            to.fill(0);
            continue;
        }
        point[g.axis] = row;
        let at = offset(&point, region, &steps);
        to.copy_from_slice(&bytes[at * size..][..size]);
    }
    Ok(())
}
