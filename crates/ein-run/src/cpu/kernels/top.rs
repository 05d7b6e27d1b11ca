//! The first elements along the last axis in sorted order.

use super::Call;
use super::block::runs;
use crate::cpu::buffer::Buffer;
use crate::cpu::convert::wide;
use crate::cpu::piece::{Elements, PieceMut};
use crate::error::Cause;
use ein_ir::kernel::TopK;
use ein_ir::monoid::Top;

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
    let x = call.operand(0, &call.labels.0)?;
    let (elements, bytes) = (x.elements(0), x.bytes(0));
    let mut keys = Buffer::<(i64, usize)>::with_room(axis.len());
    let mut all = Buffer::of(0i64, axis.len());
    for (row, &start) in runs(&x.region.0, &call.labels.0).iter().enumerate() {
        fill(elements, start, t.top.largest, &mut all);
        keys.clear();
        if k <= FEW && k < all.len() {
            few(&all, k, &mut keys);
        } else {
            keys.extend(all.iter().zip(0..).map(|(&key, n)| (key, n)));
            // No two pairs are equal, so an unstable order is the order.
            if k < keys.len() {
                keys.select_nth_unstable(k - 1);
                keys.truncate(k);
            }
            keys.sort_unstable();
        }
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

/// So many are kept in order while the others pass by.
const FEW: usize = 16;

/// The `k` least keys with their places, in order; of equal ones the first.
fn few(all: &[i64], k: usize, kept: &mut Vec<(i64, usize)>) {
    /// Keys that are looked at together: most runs have none to keep.
    const RUN: usize = 64;
    let mut worst = i64::MAX;
    for (first, run) in all.chunks(RUN).enumerate() {
        let mut least = i64::MAX;
        wide!({
            for &key in run {
                least = least.min(key);
            }
        });
        if kept.len() == k && least >= worst {
            continue;
        }
        for (n, &key) in run.iter().enumerate() {
            if kept.len() < k || key < worst {
                kept.truncate(k - 1);
                let at = kept.partition_point(|other| other.0 <= key);
                kept.insert(at, (key, first * RUN + n));
                worst = kept[kept.len() - 1].0;
            }
        }
    }
}

/// Integers that order elements: NaN above all, the two zeros equal; turned round where the largest come first.
fn fill(elements: Elements<'_>, start: usize, largest: bool, out: &mut [i64]) {
    fn float(x: f64) -> i64 {
        if x.is_nan() {
            return i64::MAX;
        }
        // Adding zero makes a minus zero a zero.
        let bits = (x + 0.0).to_bits() as i64;
        bits ^ (((bits >> 63) as u64) >> 1) as i64
    }
    let turn = if largest { -1 } else { 0 };
    let n = out.len();
    macro_rules! each {
        ($v:expr, $f:expr) => {
            wide!({
                for (o, &x) in out.iter_mut().zip(&$v[start..start + n]) {
                    *o = $f(x) ^ turn;
                }
            })
        };
    }
    match elements {
        Elements::F64(v) => each!(v, float),
        Elements::F32(v) => each!(v, |x: f32| {
            let bits = (x + 0.0).to_bits() as i32;
            let bits = bits ^ (((bits >> 31) as u32) >> 1) as i32;
            if x.is_nan() { i64::MAX } else { i64::from(bits) }
        }),
        Elements::BF16(v) => each!(v, |x: half::bf16| float(x.to_f64())),
        Elements::F16(v) => each!(v, |x: half::f16| float(x.to_f64())),
        Elements::I64(v) => each!(v, |x| x),
        Elements::I32(v) => each!(v, i64::from),
        Elements::U8(v) => each!(v, i64::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_the_first_in_order() {
        for n in [1, 2, 63, 64, 65, 200, 1000] {
            // Many are equal.
            let all: Vec<i64> = (0..n as i64).map(|i| (i * 7919 + 13) % 37 - 18).collect();
            let mut sorted: Vec<(i64, usize)> = all.iter().zip(0..).map(|(&key, n)| (key, n)).collect();
            sorted.sort_unstable();
            for k in [1, 2, 8, 16] {
                let mut kept = Vec::new();
                few(&all, k.min(n), &mut kept);
                assert_eq!(kept, sorted[..k.min(n)], "{k} of {n}");
            }
        }
    }
}
