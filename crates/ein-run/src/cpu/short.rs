//! Products of `bf16` factors with sums in `f32`, by way of tile registers or, where there are none, vector registers that
//! multiply pairs.
//!
//! Both multiply `bf16` as they are: factors are only put in the order in which they are loaded, a weight once
//! for all runs. Infinities and NaN are multiplied like other numbers; what is below 2^-126, be it an element, a product
//! or a sum, counts as 0.
// The loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use super::convert::wide;
use super::gemm::{Matrix, prefetch_all};
use super::lines::Name;
use super::packed::Sink;
use super::split::{STEP, Side, steps, take};
use super::tiles::{RESULT, SIDE, Tile, Unit, in_room, transpose};
use bytemuck::{cast_mut, cast_ref, cast_slice};
use std::cell::RefCell;

/// Inner indices done at once: of 32 rows they fill the nearest cache; and columns, which then are in the second.
const DEPTH: usize = 512;
const COLUMNS: usize = 256;

/// Elements of a left factor that are held in order, about: 4 MiB.
const LEFT: usize = 1 << 21;

/// Tiles of 32 rows or columns and one step.
pub(crate) const PAIR: usize = 2;

/// Multiplications, rows or columns, and inner indices from which on tiles gain more than packing both factors takes.
const SMALL: usize = 1 << 16;
const FEW: usize = 16;

/// A right factor.
#[derive(Clone, Copy)]
pub(crate) enum Right<'a> {
    /// In the order of tiles, as [`pack`] leaves it: whole blocks of 32 columns, whole steps.
    Tiles(&'a [u16]),
    Matrix(Matrix<'a, u16>),
}

thread_local! {
    /// Both factors in order, and which the left one is, if others are to find it there; kept, so that later runs allocate
    /// nothing.
    static MEMORY: RefCell<([Vec<Tile>; 2], Option<Name>)> = RefCell::default();
}

/// Whether products of a shape, neither factor being packed, are done here where there are tile registers.
pub(crate) fn worth([m, n, k]: [usize; 3]) -> bool {
    m.min(n) >= FEW && k >= STEP && m * n * k >= SMALL
}

/// Whether a right factor of `k` by `n` takes no more room in tiles than it has.
pub(crate) fn fills([k, n]: [usize; 2]) -> bool {
    k.is_multiple_of(STEP) && n.is_multiple_of(RESULT)
}

/// How many rows of `m` are done at once where the inner extent is `k`, and whether several parts of a product read them.
pub(crate) fn rows(m: usize, k: usize, shared: bool) -> usize {
    let most = (LEFT * (1 + usize::from(shared)) / k.max(1)).max(4 * RESULT);
    m.div_ceil(m.div_ceil(most).max(1)).next_multiple_of(RESULT).max(RESULT)
}

/// Tiles that 32 rows or columns of an inner extent take.
fn tiles(depth: usize) -> usize {
    PAIR * steps(depth)
}

/// Tiles that a matrix takes.
pub(crate) fn count(outer: usize, inner: usize) -> usize {
    outer.div_ceil(RESULT) * tiles(inner)
}

/// Puts a matrix in the order of tiles: of every 32 rows of a left factor, or columns of a right one, all its steps one
/// after the other. Extents are those of the matrix. What there is not is 0.
pub(crate) fn pack(side: Side, extents: [usize; 2], from: Matrix<'_, u16>, out: &mut [Tile]) {
    // As a left factor.
    let (from, [m, k]) = match side {
        Side::Left => (from, extents),
        Side::Right => (from.turned(), [extents[1], extents[0]]),
    };
    let mut near = Tile::ZERO;
    wide!({
        for (block, out) in out.chunks_exact_mut(tiles(k)).enumerate().take(m.div_ceil(RESULT)) {
            for (step, out) in out.chunks_exact_mut(PAIR).enumerate() {
                for (half, out) in out.iter_mut().enumerate() {
                    let (row, inner) = (block * RESULT + half * SIDE, step * STEP);
                    let (rows, depth) = (m.saturating_sub(row).min(SIDE), (k - inner).min(STEP));
                    let at = from.at + row as i64 * from.row + inner as i64 * from.column;
                    let source = Matrix { at, ..from };
                    // Rows lie side by side, or inner indices do.
                    if from.column != 1 && from.row == 1 && rows == SIDE && depth == STEP {
                        let tile = if side == Side::Right { &mut *out } else { &mut near };
                        interleave(source, tile);
                        if side == Side::Left {
                            turn(&near, out);
                        }
                    } else {
                        let tile = if side == Side::Left { &mut *out } else { &mut near };
                        copy(source, [rows, depth], tile);
                        if side == Side::Right {
                            turn(&near, out);
                        }
                    }
                }
            }
        }
    });
}

/// Rows of pairs of inner indices, 16 columns each, of a matrix whose 16 rows lie side by side.
#[inline(always)]
fn interleave(from: Matrix<'_, u16>, out: &mut Tile) {
    for (pair, out) in out.0.iter_mut().enumerate() {
        let line = |n: usize| {
            let at = from.at + (2 * pair + n) as i64 * from.column;
            from.data[at as usize..].first_chunk::<SIDE>().expect("sixteen rows")
        };
        let (first, second) = (line(0), line(1));
        for n in 0..SIDE {
            out[n] = u32::from(first[n]) | u32::from(second[n]) << 16;
        }
    }
}

/// Rows as they are.
#[inline(always)]
fn copy(from: Matrix<'_, u16>, [rows, depth]: [usize; 2], out: &mut Tile) {
    let out: &mut [[u16; STEP]; SIDE] = cast_mut(&mut out.0);
    for (n, out) in out.iter_mut().enumerate() {
        let depth = if n < rows { depth } else { 0 };
        let at = from.at + n as i64 * from.row;
        if from.column == 1 && depth > 0 {
            out[..depth].copy_from_slice(&from.data[at as usize..][..depth]);
        } else {
            let elements = out[..depth].iter_mut().zip(0..);
            elements.for_each(|(to, n)| *to = from.data[(at + n * from.column) as usize]);
        }
        out[depth..].fill(0);
    }
}

/// Rows as columns.
#[inline(always)]
fn turn(from: &Tile, to: &mut Tile) {
    let from: &[[f32; SIDE]; SIDE] = cast_ref(&from.0);
    transpose(from.as_flattened(), SIDE, cast_mut(&mut to.0));
}

/// Rows of 32 `f32`, whole steps of them, as a right factor of 32 columns: the nearest `bf16`, and the one nearest to what
/// is left then.
pub(crate) fn halves(rows: &[f32], high: &mut [Tile], low: &mut [Tile]) {
    let (steps, _) = rows.as_chunks::<{ RESULT * STEP }>();
    wide!({
        for ((rows, high), low) in steps.iter().zip(high.chunks_exact_mut(PAIR)).zip(low.chunks_exact_mut(PAIR)) {
            for (pair, rows) in rows.chunks_exact(2 * RESULT).enumerate() {
                let (first, second) = rows.split_at(RESULT);
                for half in 0..PAIR {
                    let (high, low) = (&mut high[half].0[pair], &mut low[half].0[pair]);
                    for n in 0..SIDE {
                        let ((x, x_left), (y, y_left)) = (take(first[half * SIDE + n]), take(second[half * SIDE + n]));
                        high[n] = x >> 16 | y;
                        low[n] = take(x_left).0 >> 16 | take(y_left).0;
                    }
                }
            }
        }
    });
}

/// Whether no element of some tiles is infinite or NaN.
pub(crate) fn are_finite(tiles: &[Tile]) -> bool {
    let mut found = false;
    wide!({
        for tile in tiles {
            let mut any = [false; SIDE];
            for row in &tile.0 {
                for n in 0..SIDE {
                    any[n] |= row[n] & 0x7f80 == 0x7f80 || row[n] & 0x7f80_0000 == 0x7f80_0000;
                }
            }
            found |= any.contains(&true);
        }
    });
    !found
}

/// `m` rows of a product, tile by tile in `f32`; `false` where there are no tile registers. Panics where a matrix leaves
/// its slice. What was made of a left factor of the same name is used again.
pub(crate) fn product(
    [m, n, k]: [usize; 3],
    left: Matrix<'_, u16>,
    right: Right<'_>,
    name: Option<Name>,
    sink: &mut dyn Sink,
) -> bool {
    let Some(unit) = Unit::of_halves() else { return false };
    let ([mut a, mut b], held) = MEMORY.take();
    a.resize(a.len().max(count(m, k)), Tile::ZERO);
    if held.is_none() || held != name {
        pack(Side::Left, [m, k], left, &mut a);
    }
    for columns in (0..n).step_by(COLUMNS).map(|c| c..n.min(c + COLUMNS)) {
        let (tile, apart) = sink.tile(0..m, columns.clone());
        for depth in (0..k).step_by(DEPTH).map(|d| d..k.min(d + DEPTH)) {
            let (each, add) = (tiles(depth.len()), depth.start > 0);
            // Where a block of columns begins, and how far the next is.
            let (right, from, on): (&[Tile], _, _) = match right {
                Right::Tiles(all) => (&[], &all[columns.start * k + depth.start * RESULT..], k * RESULT),
                Right::Matrix(matrix) => {
                    b.resize(b.len().max(count(columns.len(), depth.len())), Tile::ZERO);
                    let at = matrix.at + depth.start as i64 * matrix.row + columns.start as i64 * matrix.column;
                    pack(Side::Right, [depth.len(), columns.len()], Matrix { at, ..matrix }, &mut b);
                    (&b, &[][..], each * size_of::<Tile>() / 2)
                }
            };
            let from = if right.is_empty() { from } else { cast_slice(right) };
            for first in (0..m).step_by(RESULT) {
                let at = first / RESULT * tiles(k) + tiles(depth.start);
                let next = a.get(at + tiles(k)..).unwrap_or_default();
                let left = &a[at..at + each];
                for (block, start) in (0..columns.len()).step_by(RESULT).enumerate() {
                    let right = &from[block * on..][..each * size_of::<Tile>() / 2];
                    let next = next.get(block * each / 8..).unwrap_or_default();
                    let (here, wide) = (RESULT.min(m - first), RESULT.min(columns.len() - start));
                    if first == 0 {
                        // A weight's next columns, which the first rows are the first to read.
                        prefetch_all(
                            from.get((block + 1) * on..).map_or(&[][..], |next| &next[..next.len().min(right.len())]),
                        );
                    }
                    let out = &mut tile[first * apart + start..];
                    in_room(out, apart, [here, wide], add, |out, apart| {
                        unit.whole(here, left, right, out, apart, add, next);
                    });
                }
            }
        }
        sink.done(0..m, columns);
    }
    MEMORY.set(([a, b], name));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::packed::tests::Whole;
    use crate::cpu::tiles::tests::with_halves;
    use half::bf16;

    fn numbers(count: usize, seed: usize) -> Vec<u16> {
        (0..count).map(|n| bf16::from_f32(((n * 7919 + seed) % 13) as f32 - 6.0).to_bits()).collect()
    }

    fn wide(x: u16) -> f32 {
        bf16::from_bits(x).to_f32()
    }

    fn matrix(data: &[u16], at: usize, [row, column]: [usize; 2]) -> Matrix<'_, u16> {
        Matrix { data, at: at as i64, row: row as i64, column: column as i64 }
    }

    #[test]
    fn any_size_and_step_is_exact() {
        with_halves(|| {
            for [m, n, k] in [
                [1, 1, 1],
                [1, 32, 32],
                [16, 17, 33],
                [33, 31, 64],
                [40, 70, 31],
                [64, 300, 96],
                [70, 257, 1030],
                [5, 64, 544],
            ] {
                let (a, b) = (numbers(m * k + 3, 1), numbers(k * n + 3, 2));
                for (left, right) in [([k, 1], [n, 1]), ([k, 1], [1, k]), ([1, m], [n, 1]), ([1, m], [1, k])] {
                    let one = |r: usize, c: usize, i: usize| {
                        wide(a[3 + r * left[0] + i * left[1]]) * wide(b[1 + i * right[0] + c * right[1]])
                    };
                    let sum = |r: usize, c: usize| (0..k).map(|i| one(r, c, i)).sum::<f32>();
                    let expected: Vec<f32> = (0..m * n).map(|x| sum(x / n, x % n)).collect();
                    let (a, b) = (matrix(&a, 3, left), matrix(&b, 1, right));
                    let mut packed = vec![Tile::ZERO; count(n, k)];
                    pack(Side::Right, [k, n], b, &mut packed);
                    let ways = [Right::Matrix(b), Right::Tiles(cast_slice(&packed))];
                    for way in &ways[..=usize::from(fills([k, n]))] {
                        let mut out = vec![f32::NAN; m * n];
                        assert!(product([m, n, k], a, *way, None, &mut Whole::new(&mut out, n)));
                        assert!(out == expected, "{m} by {n} by {k}, {left:?} {right:?}");
                    }
                }
            }
        });
    }

    #[test]
    fn infinities_and_nan_stay_where_they_belong() {
        let [m, n, k] = [33, 40, 70];
        let (mut a, b) = (numbers(m * k, 1), vec![bf16::from_f32(2.0).to_bits(); k * n]);
        a[5 * k + 69] = bf16::INFINITY.to_bits();
        a[20 * k] = bf16::NAN.to_bits();
        let mut out = vec![0.0; m * n];
        let found = with_halves(|| {
            let right = Right::Matrix(matrix(&b, 0, [n, 1]));
            product([m, n, k], matrix(&a, 0, [k, 1]), right, None, &mut Whole::new(&mut out, n))
        });
        if found.is_none() {
            return;
        }
        for (row, out) in out.chunks(n).enumerate() {
            assert!(out.iter().all(|x| match row {
                5 => *x == f32::INFINITY,
                20 => x.is_nan(),
                _ => x.is_finite(),
            }));
        }
    }

    #[test]
    fn two_parts_are_sixteen_digits() {
        let rows: Vec<f32> = (0..2 * STEP * RESULT).map(|n| (n as f32 * 0.37).sin() / (n % 91 + 1) as f32).collect();
        let (mut high, mut low) = (vec![Tile::ZERO; 2 * PAIR], vec![Tile([[7; SIDE]; SIDE]); 2 * PAIR]);
        halves(&rows, &mut high, &mut low);
        for (n, &x) in rows.iter().enumerate() {
            let (row, column) = (n / RESULT, n % RESULT);
            let (tile, pair) = (row / STEP * PAIR + column / SIDE, row % STEP / 2);
            let part = |tiles: &[Tile]| wide((tiles[tile].0[pair][column % SIDE] >> (16 * (row % 2))) as u16);
            assert_eq!(part(&high), bf16::from_f32(x).to_f32(), "element {n}");
            assert!((part(&high) + part(&low) - x).abs() <= x.abs() * 2f32.powi(-16), "element {n}");
        }
        assert!(are_finite(&high) && are_finite(&[]));
        for bad in [0x7f80, 0xff80_0000, 0x7fc1_0000, 0xff81] {
            high[2].0[15][15] = bad;
            assert!(!are_finite(&high));
        }
    }

    #[test]
    fn tiles_that_fill_their_room_change_places_only() {
        let [k, n] = [64, 96];
        assert!(fills([k, n]) && !fills([k, 95]) && !fills([63, n]));
        let data: Vec<u16> = (0..(k * n) as u16).collect();
        let mut packed = vec![Tile::ZERO; count(n, k)];
        for steps in [[n, 1], [1, k]] {
            pack(Side::Right, [k, n], matrix(&data, 0, steps), &mut packed);
            let mut found: Vec<u16> = cast_slice(&packed).to_vec();
            // Inner indices 2 and 3 of column 33: second block, first step, left half, second pair.
            let at = 2048 + 32 + 2;
            assert_eq!(found[at..at + 2], [2, 3].map(|i| (i * steps[0] + 33 * steps[1]) as u16));
            found.sort_unstable();
            assert_eq!(found, data);
        }
    }
}
