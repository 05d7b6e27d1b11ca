//! Matrices in tiles: every `f32` as the sum of three `bf16`, or `bf16` as they are.
//!
//! An `f32` has 24 binary digits and a `bf16` eight: the nearest `bf16`, the one nearest to what is left, and what is left
//! then are together the number itself. Of the nine products of two such sums the three smallest are left out, less than
//! 2^-23 of the product at worst and 2^-27 as a rule: what remains is as exact as sums in `f32` are.
//!
//! That holds for numbers of usual size only: [`Class`] says which products of which matrices may be made so.
// The loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use super::convert::wide;
use super::gemm::{Matrix, prefetch, prefetch_all};
use super::tiles::{RESULT, SIDE, Tile, transpose};

/// Inner indices of a tile.
pub(crate) const STEP: usize = 2 * SIDE;

/// Tiles of 32 rows or columns and one step, in three parts.
pub(crate) const THIRDS: usize = 6;

/// How many steps before it is read what is split is brought near.
const AHEAD: i64 = 4;

type Row = [f32; SIDE];

/// Which side of a product a matrix is: its rows or its columns are the results'.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// The largest magnitude of a matrix, as the bits of an `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class(u32);

/// The bits of `2^exponent`.
const fn power(exponent: i32) -> u32 {
    ((exponent + 127) as u32) << 23
}

impl Class {
    /// Of zeros.
    pub(crate) const ZERO: Self = Self(0);

    /// Of ones.
    pub(crate) const ONE: Self = Self(power(0));

    /// Whether the product of two matrices may be made of parts.
    ///
    /// Both largest magnitudes are 0 or in `2^-60..2^100`, and their product is in `2^-80..2^100`: so that nothing is
    /// infinite that would not be else, and what the processor takes as 0 (parts and sums of less than 2^-126) is at most
    /// 2^-46 of the largest product. Small elements beside large ones are rounded to multiples of some 2^-133, as is a
    /// result: a row of results that are all that small is less exact than it could be.
    pub(crate) fn fits(self, other: Self) -> bool {
        let usual = |Self(top): Self| top == 0 || (power(-60)..power(100)).contains(&top);
        let exponent = |Self(top): Self| (top >> 23) as i32 - 127;
        let product = exponent(self) + exponent(other);
        usual(self) && usual(other) && (self.0 == 0 || other.0 == 0 || (-80..99).contains(&product))
    }

    /// Of two matrices together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }
}

/// Largest magnitudes so far, lane by lane.
struct Tops([u32; SIDE]);

/// A number and the nearest `bf16` taken from it: its bits, and the rest, which is exact. Halves go away from 0.
#[inline(always)]
pub(crate) fn take(x: f32) -> (u32, f32) {
    let bits = x.to_bits().wrapping_add(0x8000) & 0xffff_0000;
    (bits, x - f32::from_bits(bits))
}

/// Pairs of numbers in three parts; the first of a pair is in the low half.
#[inline(always)]
fn pairs(first: &Row, second: &Row, tops: &mut Tops) -> [[u32; SIDE]; 3] {
    let mut parts = [[0; SIDE]; 3];
    let [high, middle, low] = &mut parts;
    for n in 0..SIDE {
        let (x, y) = (first[n], second[n]);
        let magnitude = (x.to_bits() & 0x7fff_ffff).max(y.to_bits() & 0x7fff_ffff);
        tops.0[n] = tops.0[n].max(magnitude);
        let ((x0, x), (y0, y)) = (take(x), take(y));
        let ((x1, x), (y1, y)) = (take(x), take(y));
        high[n] = x0 >> 16 | y0;
        middle[n] = x1 >> 16 | y1;
        // Eight digits are left: they are a `bf16`.
        low[n] = x.to_bits() >> 16 | (y.to_bits() & 0xffff_0000);
    }
    parts
}

/// Puts a row of all parts of the upper or the lower half of a step.
#[inline(always)]
fn write(out: &mut [Tile], half: usize, row: usize, parts: &[[u32; SIDE]; 3]) {
    for (part, pairs) in parts.iter().enumerate() {
        out[2 * part + half].0[row] = *pairs;
    }
}

/// Copies the 16 by 16 elements of a matrix from a row and a column on, zeros where it ends.
#[inline(always)]
fn square(from: &Matrix<'_, f32>, [row, column]: [usize; 2], [rows, columns]: [usize; 2], out: &mut [Row; SIDE]) {
    let at = from.at + row as i64 * from.row + column as i64 * from.column;
    let (rows, columns) = (rows.saturating_sub(row).min(SIDE), columns.saturating_sub(column).min(SIDE));
    if from.row == 1 && from.column > 0 && rows == SIDE && columns == SIDE {
        return transpose(&from.data[at as usize..], from.column as usize, out);
    }
    for (n, line) in out.iter_mut().enumerate() {
        let columns = if n < rows { columns } else { 0 };
        let at = at + n as i64 * from.row;
        if from.column == 1 && columns > 0 {
            line[..columns].copy_from_slice(&from.data[at as usize..][..columns]);
        } else {
            let elements = line[..columns].iter_mut().zip(0..);
            elements.for_each(|(to, n)| *to = from.data[(at + n * from.column) as usize]);
        }
        line[columns..].fill(0.0);
    }
}

/// Steps of an inner extent.
pub(crate) fn steps(depth: usize) -> usize {
    depth.div_ceil(STEP)
}

/// Tiles that 32 rows or columns of an inner extent take, in three parts.
pub(crate) fn tiles(depth: usize) -> usize {
    THIRDS * steps(depth)
}

/// Puts a matrix in tiles of three parts: of every 32 rows of a left factor, or columns of a right one, all its steps one
/// after the other. Extents are those of the matrix, inner indices being columns of a left factor and rows of a right one.
/// What there is not is 0.
pub(crate) fn thirds(side: Side, extents: [usize; 2], from: Matrix<'_, f32>, out: &mut [Tile]) -> Class {
    let near = |at: i64| prefetch(from.data.get(at as usize..).unwrap_or_default());
    let ahead = match side {
        Side::Left => AHEAD * STEP as i64,
        Side::Right => AHEAD * STEP as i64 * from.row,
    };
    split(side, extents, from, (ahead, near), out)
}

/// The same of a panel of a packed right factor, while memory `ahead` of each element is brought to the second cache.
pub(crate) fn panel_thirds(extents: [usize; 2], from: Matrix<'_, f32>, ahead: i64, out: &mut [Tile]) -> Class {
    let near = |at: i64| prefetch_all(from.data.get(at as usize..at as usize + SIDE).unwrap_or_default());
    split(Side::Right, extents, from, (ahead, near), out)
}

#[inline(always)]
fn split(
    side: Side,
    extents: [usize; 2],
    from: Matrix<'_, f32>,
    (ahead, near): (i64, impl Fn(i64)),
    out: &mut [Tile],
) -> Class {
    let mut tops = Tops([0; SIDE]);
    let mut squares = [[[0.0; SIDE]; SIDE]; 2];
    wide!({
        let (outer, inner) = match side {
            Side::Left => (extents[0], extents[1]),
            Side::Right => (extents[1], extents[0]),
        };
        for (block, out) in out.chunks_exact_mut(tiles(inner)).enumerate().take(outer.div_ceil(RESULT)) {
            for (step, out) in out.chunks_exact_mut(THIRDS).enumerate() {
                let (outer, inner) = (block * RESULT, step * STEP);
                // Where the upper half of the tiles reads, and the lower half.
                let places = [outer, outer + SIDE].map(|outer| match side {
                    Side::Left => [[outer, inner], [outer, inner + SIDE]],
                    Side::Right => [[inner, outer], [inner + SIDE, outer]],
                });
                let [_, [_, last]] = places;
                if from.column == 1 && last[0] + SIDE <= extents[0] && last[1] + SIDE <= extents[1] {
                    // Read where they are.
                    let at = |[row, column]: [usize; 2]| from.at + row as i64 * from.row + column as i64;
                    let starts = places.map(|half| half.map(at));
                    for n in 0..SIDE {
                        for (half, starts) in starts.iter().enumerate() {
                            let [first, second] = starts.map(|at| at + n as i64 * from.row);
                            near(first + ahead);
                            near(second + ahead);
                            let row = |at: i64| from.data[at as usize..].first_chunk::<SIDE>().expect("inside");
                            write(out, half, n, &pairs(row(first), row(second), &mut tops));
                        }
                    }
                    continue;
                }
                for (half, places) in places.into_iter().enumerate() {
                    let [first, second] = &mut squares;
                    square(&from, places[0], extents, first);
                    square(&from, places[1], extents, second);
                    for n in 0..SIDE {
                        write(out, half, n, &pairs(&first[n], &second[n], &mut tops));
                    }
                }
            }
        }
    });
    Class(tops.0.into_iter().max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of all signs and of many magnitudes, always the same.
    fn numbers(count: usize, exponents: std::ops::Range<i32>) -> Vec<f32> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let number = |_| {
            let exponent = exponents.start + (next() % exponents.len() as u32) as i32;
            f32::from_bits(power(exponent) | (next() & 0x7f_ffff) | (next() & 1) << 31)
        };
        (0..count).map(number).collect()
    }

    /// The three parts of element `inner` of row or column `outer`.
    fn parts(tiles: &[Tile], all: usize, outer: usize, inner: usize) -> [f32; 3] {
        let (step, place) = (inner / STEP, inner % STEP);
        [0, 1, 2]
            .map(|part| {
                let tile = outer / RESULT * super::tiles(all) + step * THIRDS + 2 * part + outer % RESULT / SIDE;
                (tile, place, outer % SIDE)
            })
            .map(|(tile, place, line)| {
                let pair = tiles[tile].0[line][place % SIDE];
                f32::from_bits(if place < SIDE { pair << 16 } else { pair & 0xffff_0000 })
            })
    }

    #[test]
    fn three_parts_are_the_number_itself() {
        for [outer, inner] in [[1, 1], [16, 32], [17, 33], [31, 70], [65, 40], [32, 16], [40, 100]] {
            let data = numbers(outer * inner + 5, -60..100);
            for (row, column) in [(inner, 1), (1, outer)] {
                // Tiles hold what was there before.
                let mut tiles = vec![Tile([[0x7fc0_7fc0; SIDE]; SIDE]); outer.div_ceil(RESULT) * tiles(inner)];
                let from = Matrix { data: &data, at: 3, row: row as i64, column: column as i64 };
                let class = thirds(Side::Left, [outer, inner], from, &mut tiles);
                let at = |r: usize, c: usize| if r < outer && c < inner { data[3 + r * row + c * column] } else { 0.0 };
                for r in 0..outer.next_multiple_of(RESULT) {
                    for c in 0..inner.next_multiple_of(STEP) {
                        let [high, middle, low] = parts(&tiles, inner, r, c).map(f64::from);
                        assert_eq!(high + middle + low, f64::from(at(r, c)), "{outer} by {inner}, {r}, {c}");
                        assert!(middle.abs() <= high.abs() / 256.0 && low.abs() <= high.abs() / 131_072.0);
                    }
                }
                let largest = (0..outer * inner).map(|n| data[3 + n].abs()).fold(0.0, f32::max);
                assert_eq!(class, Class(largest.to_bits()));
            }
        }
    }

    #[test]
    fn columns_are_like_rows_of_what_is_turned() {
        for [outer, inner] in [[32, 64], [33, 31], [7, 100], [50, 17]] {
            let data = numbers(outer * inner, -3..3);
            let count = outer.div_ceil(RESULT) * tiles(inner);
            let (mut left, mut right) = (vec![Tile::ZERO; count], vec![Tile::ZERO; count]);
            for (row, column) in [(inner as i64, 1), (1, outer as i64)] {
                thirds(Side::Left, [outer, inner], Matrix { data: &data, at: 0, row, column }, &mut left);
                let turned = Matrix { data: &data, at: 0, row: column, column: row };
                thirds(Side::Right, [inner, outer], turned, &mut right);
                for (n, (left, right)) in left.iter().zip(&right).enumerate() {
                    for r in 0..SIDE {
                        for c in 0..SIDE {
                            assert_eq!(left.0[r][c], right.0[c][r], "tile {n} of {outer} by {inner}, {r}, {c}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn six_products_of_parts_are_as_good_as_the_product() {
        let (a, b) = (numbers(20_000, -2..2), numbers(20_000, -1..5));
        let split = |x: f32| {
            let (mut tiles, from) = (vec![Tile::ZERO; tiles(1)], Matrix { data: &[x], at: 0, row: 1, column: 1 });
            thirds(Side::Left, [1, 1], from, &mut tiles);
            parts(&tiles, 1, 0, 0).map(f64::from)
        };
        for (&a, &b) in a.iter().zip(&b) {
            let (x, y) = (split(a), split(b));
            let six = x[0] * y[0] + x[0] * y[1] + x[1] * y[0] + x[0] * y[2] + x[1] * y[1] + x[2] * y[0];
            let product = f64::from(a) * f64::from(b);
            assert!((six - product).abs() <= product.abs() * 2f64.powi(-24), "{a} times {b}");
        }
    }

    #[test]
    fn parts_are_for_usual_magnitudes() {
        let class = |x: f32| Class(x.abs().to_bits());
        let one = class(1.0);
        for (x, usual) in [
            (0.0, true),
            (-1.0, true),
            (1e-15, true),
            (1e-19, false),
            (1e-40, false),
            (1e25, true),
            (1e31, false),
            (-f32::MAX, false),
            (f32::INFINITY, false),
            (f32::NAN, false),
        ] {
            assert_eq!((class(x).fits(one), one.fits(class(x))), (usual, usual), "{x}");
            assert_eq!(class(x).fits(Class::ZERO), usual, "{x}");
        }
        assert!(class(1e16).fits(class(1e10)) && !class(1e16).fits(class(1e16)));
        assert!(class(1e-12).fits(class(1e-11)) && !class(1e-13).fits(class(1e-13)));
        assert_eq!(class(1e-40).and(class(-2.0)), class(2.0));
    }
}
