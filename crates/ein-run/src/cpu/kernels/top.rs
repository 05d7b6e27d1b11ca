//! The first elements along the last axis in sorted order.

use super::Call;
use super::block::runs;
use crate::cpu::piece::{Elements, PieceMut};
use crate::error::Cause;
use ein_ir::kernel::TopK;
use ein_ir::monoid::Top;
use ein_ir::region::Region;

/// The first k of the block's part of the axis; where it has fewer, entries that stand for nothing.
pub(crate) fn top(t: &TopK, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    let k = t.top.k;
    let size = t.top.of.bytes();
    if call.labels.is_empty() || k == 0 {
        for field in 0..result.fields() {
            result.bytes(field).fill(0);
        }
        if !call.finish {
            result.slice::<i64>(1).fill(Top::NOTHING);
        }
        return Ok(());
    }
    let axis = call.labels.0[t.shape.len() - 1];
    let x = call.operand(0, call.labels)?;
    let (elements, bytes) = (x.elements(0), x.bytes(0));
    let mut keys: Vec<(i64, usize)> = Vec::with_capacity(axis.len());
    let part = Region(call.labels.0.clone());
    for (row, start) in runs(x.region, &part).into_iter().enumerate() {
        keys.clear();
        keys.extend((0..axis.len()).map(|n| (key(elements, start + n, t.top.largest), n)));
        // No two pairs are equal, so an unstable order is the order.
        if k < keys.len() {
            keys.select_nth_unstable(k - 1);
            keys.truncate(k);
        }
        keys.sort_unstable();
        let written = keys.len().min(k);
        if !(call.finish && t.top.indices) {
            let to = &mut result.bytes(0)[row * k * size..][..k * size];
            for (&(_, n), to) in keys.iter().zip(to.chunks_exact_mut(size)) {
                to.copy_from_slice(&bytes[(start + n) * size..][..size]);
            }
            to[written * size..].fill(0);
        }
        if !call.finish || t.top.indices {
            let to = &mut result.slice::<i64>(usize::from(!call.finish))[row * k..][..k];
            for (&(_, n), to) in keys.iter().zip(to.iter_mut()) {
                *to = (axis.lo + n) as i64;
            }
            to[written..].fill(Top::NOTHING);
        }
    }
    Ok(())
}

/// An integer that orders elements: NaN above all, the two zeros equal; turned round where the largest come first.
fn key(elements: Elements<'_>, at: usize, largest: bool) -> i64 {
    let float = |x: f64| {
        if x.is_nan() {
            return i64::MAX;
        }
        // Adding zero makes a minus zero a zero.
        let bits = (x + 0.0).to_bits() as i64;
        bits ^ (((bits >> 63) as u64) >> 1) as i64
    };
    let rising = match elements {
        Elements::F64(v) => float(v[at]),
        Elements::F32(v) => float(v[at].into()),
        Elements::BF16(v) => float(v[at].to_f64()),
        Elements::F16(v) => float(v[at].to_f64()),
        Elements::I64(v) => v[at],
        Elements::I32(v) => v[at].into(),
        Elements::U8(v) => v[at].into(),
    };
    if largest { !rising } else { rising }
}
