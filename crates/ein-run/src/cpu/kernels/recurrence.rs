//! Linear recurrences along an axis, and their last states.

use super::Call;
use super::block::{Value, values};
use crate::cpu::affine::next;
use crate::cpu::buffer::{Buffer, NearRegion};
use crate::cpu::fold::Fold;
use crate::cpu::piece::PieceMut;
use crate::error::Cause;
use ein_ir::kernel::{LastState, Recurrence};
use ein_ir::region::Interval;

/// Every state. Floats are computed in `f64`, as other running folds are.
pub(crate) fn states(r: &Recurrence, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    if r.dtype.is_float() { every::<f64>(r, call, result) } else { every::<i64>(r, call, result) }
}

fn every<T: Value>(r: &Recurrence, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    if call.labels.is_empty() {
        return Ok(());
    }
    let part = &call.labels.0;
    let a: Buffer<T> = values(call.operand(0, part)?, part);
    let mut b: Buffer<T> = values(call.operand(1, part)?, part);
    let inner: usize = part[r.axis + 1..].iter().map(|i| i.len()).product();
    let slab = inner * part[r.axis].len();
    for (a, b) in a.chunks(slab).zip(b.chunks_mut(slab)) {
        for at in (inner..slab).step_by(inner) {
            let (before, own) = b.split_at_mut(at);
            for ((b, &a), &state) in own[..inner].iter_mut().zip(&a[at..]).zip(&before[at - inner..]) {
                *b = next(a, state, *b);
            }
        }
    }
    let dtype = result.dtype(0);
    T::write(&b, dtype, result.bytes(0), 0);
    Ok(())
}

/// The maps that the block's part of the axis is, or what becomes of 0.
pub(crate) fn last(s: &LastState, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    if s.dtype.is_float() { end::<f64>(s, call, result) } else { end::<i64>(s, call, result) }
}

fn end<T: Value>(s: &LastState, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    let part = NearRegion::of(s.operand(call.labels));
    let part = &part.0;
    let size = |axes: &[Interval]| -> usize { axes.iter().map(|i| i.len()).product() };
    let (outer, steps, inner) = (size(&part[..s.axis]), part[s.axis].len(), size(&part[s.axis + 1..]));
    let dtype = if call.finish { result.dtype(0) } else { result.dtype(1) };
    let mut shifts = Buffer::of(T::default(), outer * inner);
    let mut scales = Buffer::of(T::identity(Fold::Prod, dtype), if call.finish { 0 } else { outer * inner });
    if !call.labels.is_empty() {
        let a: Buffer<T> = values(call.operand(0, part)?, part);
        let b: Buffer<T> = values(call.operand(1, part)?, part);
        let slab = steps * inner;
        for (n, (a, b)) in a.chunks(slab).zip(b.chunks(slab)).enumerate() {
            let shift = &mut shifts[n * inner..][..inner];
            shift.copy_from_slice(&b[..inner]);
            for (a, b) in a.chunks(inner).zip(b.chunks(inner)).skip(1) {
                for ((shift, &a), &b) in shift.iter_mut().zip(a).zip(b) {
                    *shift = next(a, *shift, b);
                }
            }
            if let Some(scale) = scales.get_mut(n * inner..(n + 1) * inner) {
                a.chunks(inner).for_each(|a| T::fold(Fold::Prod, scale, a));
            }
        }
    }
    if call.finish {
        T::write(&shifts, dtype, result.bytes(0), 0);
    } else {
        T::write(&scales, dtype, result.bytes(0), 0);
        T::write(&shifts, dtype, result.bytes(1), 0);
    }
    Ok(())
}
