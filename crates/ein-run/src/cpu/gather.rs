//! Rows of a table by their ids.

use super::convert;
use super::piece::{Elements, Piece, PieceMut};
use super::strided::{Odometer, dot};
use crate::error::Cause;
use ein_ir::kernel::Gather;
use ein_ir::region::{Region, strides};

/// The rows that the block's part of the table holds; 0 for ids that another part answers.
pub(crate) fn gather(
    g: &Gather,
    labels: &Region,
    operands: &[Option<Piece<'_>>],
    result: &mut PieceMut<'_>,
    name: &str,
) -> Result<(), Cause> {
    let n = g.ids.len();
    let (features, rows) = (labels.0[n], labels.0[n + 1]);
    let tokens = Region(labels.0[..n].to_vec());
    if tokens.is_empty() || features.is_empty() {
        return Ok(());
    }
    let dtype = result.dtype(0);
    let row_bytes = features.len() * dtype.bytes();
    let missing = |what: &str| Cause::malformed(format!("the {what} of `{name}` are not given"));
    let ids = operands.get(1).copied().flatten().ok_or_else(|| missing("ids"))?;
    if !ids.region.contains(&tokens) {
        return Err(Cause::malformed(format!("ids {} of `{name}` are given, not {tokens}", ids.region)));
    }
    let steps: Vec<i64> = strides(&ids.region.shape()).iter().map(|&s| s as i64).collect();
    let first: Vec<usize> = tokens.0.iter().zip(&ids.region.0).map(|(t, i)| t.lo - i.lo).collect();
    let base = dot(&steps, &first);
    let elements = ids.elements(0);
    let table = operands.first().copied().flatten();
    let mut odometer = Odometer::new(tokens.shape());
    for token in 0..tokens.volume() {
        let at = (base + dot(&steps, odometer.at())) as usize;
        let id = match elements {
            Elements::I64(v) => v[at],
            Elements::I32(v) => i64::from(v[at]),
            Elements::U8(v) => i64::from(v[at]),
            Elements::F64(_) | Elements::F32(_) | Elements::BF16(_) | Elements::F16(_) => {
                return Err(Cause::malformed(format!("the ids of `{name}` are floats")));
            }
        };
        let row = usize::try_from(id).ok().filter(|&row| row < g.rows);
        let row = row.ok_or_else(|| Cause::Id { operation: name.to_owned(), id, rows: g.rows })?;
        if row < rows.lo || row >= rows.hi {
            result.bytes(0)[token * row_bytes..][..row_bytes].fill(0);
        } else {
            let table = table.ok_or_else(|| missing("rows"))?;
            let (r, f) = (table.region.0[0], table.region.0[1]);
            if row < r.lo || row >= r.hi || !f.contains(features) {
                let reason = format!("{} of the table of `{name}` is given, row {row} is asked for", table.region);
                return Err(Cause::malformed(reason));
            }
            let from = (row - r.lo) * f.len() + features.lo - f.lo;
            if table.form.fields[0].dtype == dtype {
                let bytes = &table.bytes(0)[from * dtype.bytes()..][..row_bytes];
                result.bytes(0)[token * row_bytes..][..row_bytes].copy_from_slice(bytes);
            } else {
                // Partials of 16-bit tables may be stored wider.
                let mut wide = vec![0.0; features.len()];
                convert::to_f32(table.elements(0), from, &mut wide);
                convert::from_f32(&wide, dtype, result.bytes(0), token * features.len());
            }
        }
        odometer.step();
    }
    Ok(())
}
