//! What the processors of this host can do at most: multiply-adds in registers, products of `bf16` or of parts in tile
//! registers or by pairs, and bytes out of memory.
// Loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use crate::cpu::tiles::{RESULT, SIDE, Tile, Unit};
use bytemuck::cast_slice;
use ein_ir::dtype::DType;
use pulp::{Arch, Simd, WithSimd};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Independent sums of a multiply-add loop: enough that each waits for no other, few enough for the registers.
const SUMS: usize = 12;
/// Multiply-adds of one loop, for each sum.
const ROUNDS: usize = 4096;
/// How long each figure is measured.
const TIME: Duration = Duration::from_millis(60);
/// The least bytes that bandwidth is measured with: fewer are over before the clock is read.
const LEAST: usize = 1 << 16;

/// Blocks of results of one loop, and steps of their inner extents: both factors are near.
const BLOCKS: usize = 400;
const STEPS: usize = 8;

/// Operations per second of products of a type, two each, on so many threads at once, the quickest of many loops: of
/// multiply-adds in `f32`, or where those are quicker of products in tile registers, or of `bf16` as they are.
pub fn operations(threads: usize, dtype: DType) -> f64 {
    let lanes = Arch::new().dispatch(Lanes);
    let amount = (2 * SUMS * ROUNDS * lanes) as f64;
    let vectors = together(threads, amount, |_| Arch::new().dispatch(Multiply(black_box(0.999))));
    let unit = if dtype == DType::BF16 { Unit::of_halves } else { Unit::open };
    if unit().is_none() {
        return vectors;
    }
    let amount = (2 * BLOCKS * RESULT * RESULT * 2 * SIDE * STEPS) as f64;
    vectors.max(together(threads, amount, |_| unit().map_or(0.0, |unit| in_blocks(&unit, dtype))))
}

/// Some products of zeros, which take as long as any.
fn in_blocks(unit: &Unit, dtype: DType) -> f32 {
    let factor = vec![Tile::ZERO; 6 * STEPS];
    let mut out = [0.0; RESULT * RESULT];
    let halves = &factor[..2 * STEPS];
    for _ in 0..BLOCKS {
        if dtype == DType::BF16 {
            unit.whole(RESULT, halves, cast_slice(black_box(halves)), &mut out, RESULT, true, &[]);
        } else {
            unit.thirds(&factor, black_box(&factor), &mut out, RESULT, true, &[]);
        }
    }
    out[0]
}

/// Bytes per second that so many threads read out of `bytes` bytes in all, again and again: out of caches where they
/// hold as much.
pub fn bandwidth(threads: usize, bytes: usize) -> f64 {
    let each = (bytes / threads.max(1)).max(LEAST).div_ceil(4);
    let parts: Vec<Vec<f32>> = (0..threads.max(1)).map(|_| vec![1.0; each]).collect();
    together(threads, (4 * each) as f64, |n| Arch::new().dispatch(Read(&parts[n])))
}

/// Amounts per second of all threads together, thread `n` doing `work(n)` again and again: of each the quickest.
fn together(threads: usize, amount: f64, work: impl Fn(usize) -> f32 + Sync) -> f64 {
    let rate = |n: usize| {
        let (begun, mut best) = (Instant::now(), f64::INFINITY);
        while begun.elapsed() < TIME {
            let start = Instant::now();
            black_box(work(n));
            best = best.min(start.elapsed().as_secs_f64());
        }
        amount / best.max(1e-12)
    };
    std::thread::scope(|scope| {
        let rate = &rate;
        let threads: Vec<_> = (0..threads.max(1)).map(|n| scope.spawn(move || rate(n))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).sum()
    })
}

/// Elements of a vector.
struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F32_LANES
    }
}

/// Sums of products, none of which waits for another.
struct Multiply(f32);

impl WithSimd for Multiply {
    type Output = f32;
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let factor = simd.splat_f32s(self.0);
        let mut sums = [simd.splat_f32s(1.0); SUMS];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = simd.mul_add_f32s(*sum, factor, factor);
            }
        }
        let all = sums.into_iter().reduce(|a, b| simd.add_f32s(a, b)).unwrap_or(factor);
        simd.reduce_sum_f32s(all)
    }
}

/// The sum of a slice, which is read once.
struct Read<'a>(&'a [f32]);

impl WithSimd for Read<'_> {
    type Output = f32;
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (vectors, rest) = S::as_simd_f32s(self.0);
        let mut sums = [simd.splat_f32s(0.0); 8];
        let (eights, last) = vectors.as_chunks::<8>();
        for eight in eights {
            for (sum, &value) in sums.iter_mut().zip(eight) {
                *sum = simd.add_f32s(*sum, value);
            }
        }
        for (sum, &value) in sums.iter_mut().zip(last) {
            *sum = simd.add_f32s(*sum, value);
        }
        let all = sums.into_iter().reduce(|a, b| simd.add_f32s(a, b)).unwrap_or(simd.splat_f32s(0.0));
        simd.reduce_sum_f32s(all) + rest.iter().sum::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_positive_and_grow_with_caches_that_are_near() {
        for dtype in [DType::F32, DType::BF16] {
            assert!(operations(1, dtype) > 1e8, "{dtype}");
        }
        for bytes in [0, 1, 1 << 20] {
            let found = bandwidth(2, bytes);
            assert!(found.is_finite() && found > 1e8, "{bytes}: {found}");
        }
    }

    #[test]
    fn everything_is_read() {
        let values: Vec<f32> = (0..1037).map(|n| (n % 7) as f32).collect();
        let sum: f32 = values.iter().sum();
        assert_eq!(Arch::new().dispatch(Read(&values)), sum);
    }
}
