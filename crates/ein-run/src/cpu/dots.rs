//! Products of pairs of `bf16` with sums in `f32` in vector registers: for processors that have AVX512-BF16 and no tile
//! registers. The one file that speaks to these instructions.
//!
//! Factors are in the order of tiles, as tile registers take them, so that nothing else is told apart. What the instruction
//! does (VDPBF16PS in the manuals of both makers): to every sum it adds the product of the second of a pair, then that of
//! the first, rounding each to nearest; it reads and leaves 0 instead of magnitudes below 2^-126.
#![allow(unsafe_code)]

use super::tiles::Tile;

#[cfg(target_arch = "x86_64")]
mod vectors {
    use super::Tile;
    use crate::cpu::tiles::{RESULT, SIDE};
    use std::arch::x86_64::{
        __cpuid, __m512, __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_set1_epi32,
        _mm512_setzero_ps, _mm512_storeu_ps,
    };
    use std::mem::transmute;
    use std::sync::OnceLock;

    /// Rows done at once: with two registers of columns sixteen sums, enough that none waits for another.
    const ROWS: usize = 8;

    /// `bf16` of one step of a factor: two tiles.
    const STEP: usize = 2 * size_of::<Tile>() / 2;

    /// Whether the processor has the instructions and they are worth it: those of AMD are as quick as multiply-adds of
    /// `f32`, which do half as much each; those of Intel, which come with tile registers but for one model, take four times
    /// as long.
    pub(super) fn available() -> bool {
        static FOUND: OnceLock<bool> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let maker = __cpuid(0);
            let amd = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD";
            amd && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16")
        })
    }

    /// The product of [`super::whole`]; the processor has the instructions.
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn whole(rows: usize, left: &[Tile], right: &[u16], out: &mut [f32], apart: usize, add: bool) {
        let (left, rest) = left.as_chunks::<2>();
        let (right, more) = right.as_chunks::<STEP>();
        assert!(!left.is_empty() && rest.is_empty() && more.is_empty(), "whole steps");
        assert!(left.len() == right.len(), "as many steps on either side");
        assert!(rows <= RESULT && apart >= RESULT && (rows == 0 || out.len() >= (rows - 1) * apart + RESULT), "room");
        for (first, out) in (0..rows).step_by(ROWS).zip(out.chunks_mut(ROWS * apart)) {
            let at = (first / SIDE, first % SIDE);
            match rows - first {
                1 => some::<1>(at, left, right, out, apart, add),
                2 => some::<2>(at, left, right, out, apart, add),
                3 => some::<3>(at, left, right, out, apart, add),
                4 => some::<4>(at, left, right, out, apart, add),
                5 => some::<5>(at, left, right, out, apart, add),
                6 => some::<6>(at, left, right, out, apart, add),
                7 => some::<7>(at, left, right, out, apart, add),
                _ => some::<ROWS>(at, left, right, out, apart, add),
            }
        }
    }

    /// `R` rows from a row of a tile of each step on, and 32 columns.
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn some<const R: usize>(
        (tile, row): (usize, usize),
        left: &[[Tile; 2]],
        right: &[[u16; STEP]],
        out: &mut [f32],
        apart: usize,
        add: bool,
    ) {
        let mut sums: [[__m512; 2]; R] = [[_mm512_setzero_ps(); 2]; R];
        if add {
            for (sums, line) in sums.iter_mut().zip(out.chunks(apart)) {
                let [first, second] = [0, SIDE].map(|at| {
                    let here: &[f32] = &line[at..at + SIDE];
                    // SAFETY: it has the 64 bytes that are read.
                    unsafe { _mm512_loadu_ps(here.as_ptr()) }
                });
                *sums = [first, second];
            }
        }
        for (left, right) in left.iter().zip(right) {
            let lines: &[[u32; SIDE]; R] = left[tile].0[row..].first_chunk().expect("rows of one tile");
            let (pairs, _) = right.as_chunks::<{ 2 * SIDE }>();
            let (one, two) = pairs.split_at(SIDE);
            for pair in 0..SIDE {
                let columns = [&one[pair], &two[pair]].map(|from: &[u16; 2 * SIDE]| {
                    // SAFETY: it has the 64 bytes that are read.
                    halves(unsafe { _mm512_loadu_si512(from.as_ptr().cast()) })
                });
                for (sums, line) in sums.iter_mut().zip(lines) {
                    let factor = halves(_mm512_set1_epi32(line[pair].cast_signed()));
                    sums[0] = _mm512_dpbf16_ps(sums[0], factor, columns[0]);
                    sums[1] = _mm512_dpbf16_ps(sums[1], factor, columns[1]);
                }
            }
        }
        for (sums, line) in sums.iter().zip(out.chunks_mut(apart)) {
            for (sum, to) in sums.iter().zip(line.chunks_exact_mut(SIDE)) {
                // SAFETY: it has the 64 bytes that are written.
                unsafe { _mm512_storeu_ps(to.as_mut_ptr(), *sum) }
            }
        }
    }

    /// Bits as `bf16`, for which there is no function.
    #[target_feature(enable = "avx512f")]
    fn halves(bits: __m512i) -> __m512bh {
        // SAFETY: both are 64 bytes of which any are allowed.
        unsafe { transmute::<__m512i, __m512bh>(bits) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod vectors {
    pub(super) fn available() -> bool {
        false
    }
}

/// Whether products of `bf16` are done here.
pub(crate) fn available() -> bool {
    vectors::available()
}

/// The first `rows` of 32 rows by 32 columns of a product of factors that are `bf16` as they stand: two tiles for every 32
/// inner indices, those of `right` by their elements. Rows of `out` are `apart` elements from each other; the product is
/// added to it or takes its place.
///
/// Panics where the instructions are missing, the factors have different inner extents, or none, or `out` is too short.
pub(crate) fn whole(rows: usize, left: &[Tile], right: &[u16], out: &mut [f32], apart: usize, add: bool) {
    assert!(available(), "the processor has no products of pairs");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the processor has the instructions.
    unsafe {
        vectors::whole(rows, left, right, out, apart, add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::tiles::{RESULT, SIDE};
    use bytemuck::cast_slice;
    use half::bf16;

    const STEPS: usize = 3;

    #[test]
    fn some_rows_are_done_and_others_left() {
        if !available() {
            println!("skipped: this processor has no products of pairs (AVX512-BF16), or slow ones");
            return;
        }
        let value = |n: usize| ((n * 7919) % 13) as f32 - 6.0;
        let pair = |n: usize| {
            let bits = |n: usize| u32::from(bf16::from_f32(value(n)).to_bits());
            bits(2 * n) | bits(2 * n + 1) << 16
        };
        let tiles = |from: usize| -> Vec<Tile> {
            let row = |at: usize| std::array::from_fn(|n| pair(at + n));
            let tile = |t: usize| Tile(std::array::from_fn(|r| row(from + (t * SIDE + r) * SIDE)));
            (0..2 * STEPS).map(tile).collect()
        };
        let (left, right) = (tiles(1), tiles(5));
        let element = |tiles: &[Tile], tile: usize, row: usize, n: usize| {
            bf16::from_bits((tiles[tile].0[row][n / 2] >> (16 * (n % 2))) as u16).to_f32()
        };
        let expected = |row: usize, column: usize| -> f32 {
            let inner = (0..STEPS).flat_map(|s| (0..2 * SIDE).map(move |i| (s, i)));
            inner
                .map(|(s, i)| {
                    let a = element(&left, 2 * s + row / SIDE, row % SIDE, i);
                    a * element(&right, 2 * s + column / SIDE, i / 2, 2 * (column % SIDE) + i % 2)
                })
                .sum()
        };
        for (rows, apart) in [(0, 32), (1, 33), (7, 40), (8, 32), (9, 32), (17, 35), (31, 32), (32, 50)] {
            let mut out = vec![0.5f32; RESULT * apart];
            for rounds in 1..3u8 {
                whole(rows, &left, cast_slice(&right), &mut out, apart, rounds > 1);
                for (n, &found) in out.iter().enumerate() {
                    let (row, column) = (n / apart, n % apart);
                    let there = row < rows && column < RESULT;
                    let expected = if there { f32::from(rounds) * expected(row, column) } else { 0.5 };
                    assert_eq!(found, expected, "{rows} rows {apart} apart, round {rounds}, element {row}, {column}");
                }
            }
        }
    }
}
