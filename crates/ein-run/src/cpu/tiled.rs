//! Products in `f32` by way of tile registers, where the processor has them and shapes and values allow it.
//!
//! Both factors are split into parts of `bf16` (see [`super::split`]) while they are packed; results are summed up in
//! `f32`. Which way a product takes follows from its shape and from the largest magnitudes of its factors' blocks, so that
//! the same product always has the same bits.

use super::arriving;
use super::buffer::first;
use super::gemm::{Matrix, MatrixMut};
use super::lines::Name;
use super::packed::{self, Sink};
use super::split::{Class, STEP, Side, THIRDS, panel_thirds, steps, thirds, tiles};
use super::tiles::{RESULT, Tile, Unit, in_room};
use std::cell::RefCell;
use std::ops::Range;

/// Inner indices of a right factor's block, and its columns: in parts it fills a third of the second cache, and all
/// blocks of rows read it there.
const DEPTH: usize = 512;
const COLUMNS: usize = 256;

/// Elements of a left factor that are held in parts, about: 6 MiB. What many parts of a product read may be more.
const LEFT: usize = 1 << 20;
const SHARED: usize = 3 << 20;

/// Rows of a left factor that are held in parts however long they are: a right factor is split for every block of rows.
const BLOCK: usize = 512;

/// With fewer rows, or columns, or inner indices than this, or fewer multiplications than that, splitting takes longer
/// than tiles gain.
const FEW: usize = 32;
const SMALL: usize = 1 << 20;

/// The rows from which on that holds where the right factor is packed, which the other way need not be packed again.
const ROWS: usize = 64;

/// Both factors in parts.
#[derive(Default)]
struct Memory {
    left: Vec<Tile>,
    right: Vec<Tile>,
    /// Which left factor there is, if others are to find it there.
    held: Option<(Name, Class)>,
}

thread_local! {
    /// Kept, so that later runs allocate nothing.
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// Whether products of a shape are done in tiles where there are any.
pub(crate) fn worth([m, n, k]: [usize; 3]) -> bool {
    #[cfg(test)]
    if super::tiles::tests::way() == Some(true) {
        return m * n * k > 0;
    }
    m.min(n).min(k) >= FEW && m * n * k >= SMALL
}

/// The same where the right factor lies in panels of as many columns as a result has.
pub(crate) fn worth_packed([m, n, k]: [usize; 3]) -> bool {
    #[cfg(test)]
    if super::tiles::tests::way() == Some(true) {
        return m * n * k > 0;
    }
    m >= ROWS && worth([m, n, k]) && packed::width() == RESULT
}

/// How many rows of `m` are done at once where the inner extent is `k`, and whether several parts of a product read them:
/// whole results, and blocks of one size.
pub(crate) fn rows(m: usize, k: usize, shared: bool) -> usize {
    let most = ((if shared { SHARED } else { LEFT }) / k.max(1)).max(BLOCK);
    m.div_ceil(m.div_ceil(most)).next_multiple_of(RESULT)
}

/// A part of a product that is not made in tiles: columns and inner indices.
pub(crate) struct Rest {
    pub(crate) columns: Range<usize>,
    pub(crate) depth: Range<usize>,
}

/// Results of all rows of a left factor, in parts, and some columns, for some inner indices.
struct Block<'a> {
    unit: &'a Unit,
    rows: usize,
    columns: usize,
    /// Steps of the left factor, of which some are done.
    all: usize,
    steps: Range<usize>,
}

impl Block<'_> {
    /// Adds to `out`, whose rows are `apart`, or takes the place of what is there.
    fn multiply(&self, left: &[Tile], right: &[Tile], out: &mut [f32], apart: usize, add: bool) {
        let Self { unit, rows, columns, all, ref steps } = *self;
        let count = columns.div_ceil(RESULT);
        for first in (0..rows).step_by(RESULT) {
            let at = first / RESULT * THIRDS * all + THIRDS * steps.start;
            // The next rows' parts are brought near meanwhile, with every column's results some.
            let next = left.get(at + THIRDS * all..).unwrap_or_default();
            let left = &left[at..][..THIRDS * steps.len()];
            for (n, right) in right.chunks_exact(THIRDS * steps.len()).enumerate().take(count) {
                let start = n * RESULT;
                let next = next.get(n * left.len() / 8..).unwrap_or_default();
                let (here, wide) = (RESULT.min(rows - first), RESULT.min(columns - start));
                let out = &mut out[first * apart + start..];
                in_room(out, apart, [here, wide], add, |out, apart| unit.thirds(left, right, out, apart, add, next));
            }
        }
    }
}

/// As [`super::packed::product`], whose right factor lies in panels of 32 columns; `false` where it is not done in tiles.
/// What cannot be done so of a product that is, `rest` does: into a tile of the sink or, unless the first inner indices
/// are done, added to it.
pub(crate) fn panels(
    [m, n, k]: [usize; 3],
    left: Matrix<'_, f32>,
    right: &[f32],
    name: Option<Name>,
    sink: &mut dyn Sink,
    rest: &mut dyn FnMut(Rest, &mut [f32], usize),
) -> bool {
    if !worth_packed([m, n, k]) {
        return false;
    }
    let Some(unit) = Unit::open() else { return false };
    let Memory { left: mut a, right: mut b, held } = MEMORY.take();
    let packed = first(&mut a, m.div_ceil(RESULT) * tiles(k), Tile::ZERO);
    let known = held.filter(|held| Some(held.0) == name).map(|held| held.1);
    let class = known.unwrap_or_else(|| thirds(Side::Left, [m, k], left, packed));
    // Where a panel has its rows from an inner index on.
    let at = |start: usize, depth: usize| (start * k + depth * RESULT.min(n - start)) as i64;
    let usual = class.fits(Class::ZERO);
    if usual {
        for columns in (0..n).step_by(COLUMNS).map(|c| c..n.min(c + COLUMNS)) {
            let (tile, apart) = sink.tile(0..m, columns.clone());
            for depth in (0..k).step_by(DEPTH).map(|d| d..k.min(d + DEPTH)) {
                let each = tiles(depth.len());
                let block = first(&mut b, columns.len().div_ceil(RESULT) * each, Tile::ZERO);
                let mut found = Class::ZERO;
                for (start, block) in columns.clone().step_by(RESULT).zip(block.chunks_exact_mut(each)) {
                    let wide = RESULT.min(n - start);
                    let panel = Matrix { data: right, at: at(start, depth.start), row: wide as i64, column: 1 };
                    // What is split next.
                    let next = match (start + RESULT < columns.end, depth.end < k) {
                        (true, _) => at(start + RESULT, depth.start),
                        (false, true) => at(columns.start, depth.end),
                        (false, false) => at(columns.end.min(n - 1), 0),
                    };
                    found = found.and(panel_thirds([depth.len(), wide], panel, next - panel.at, block));
                }
                if class.fits(found) {
                    let at = depth.start / STEP..depth.start / STEP + steps(depth.len());
                    let done = Block { unit: &unit, rows: m, columns: columns.len(), all: steps(k), steps: at };
                    done.multiply(packed, block, tile, apart, depth.start > 0);
                } else {
                    rest(Rest { columns: columns.clone(), depth }, tile, apart);
                }
            }
            sink.done(0..m, columns);
        }
    }
    MEMORY.set(Memory { left: a, right: b, held: name.map(|name| (name, class)) });
    usual
}

/// As [`super::gemm::product`]; `false` where it is not done in tiles.
pub(crate) fn product(
    [m, n, k]: [usize; 3],
    a: Matrix<'_, f32>,
    b: Matrix<'_, f32>,
    out: &mut MatrixMut<'_, f32>,
    add: bool,
) -> bool {
    if !worth([m, n, k]) {
        return false;
    }
    if out.column != 1 {
        let mut out = out.turned();
        return out.column == 1 && product([n, m, k], b.turned(), a.turned(), &mut out, add);
    }
    if out.row < n as i64 {
        return false;
    }
    let Some(unit) = Unit::open() else { return false };
    let Memory { left: mut left_tiles, right: mut right_tiles, .. } = MEMORY.take();
    for depth in (0..k).step_by(DEPTH).map(|d| d..k.min(d + DEPTH)) {
        let (add, each) = (add || depth.start > 0, tiles(depth.len()));
        let many = rows(m, depth.len(), false);
        for rows in (0..m).step_by(many).map(|r| r..m.min(r + many)) {
            let at = a.at + rows.start as i64 * a.row + depth.start as i64 * a.column;
            let a = Matrix { at, ..a };
            let left = first(&mut left_tiles, rows.len().div_ceil(RESULT) * each, Tile::ZERO);
            let class = thirds(Side::Left, [rows.len(), depth.len()], a, left);
            for columns in (0..n).step_by(COLUMNS).map(|c| c..n.min(c + COLUMNS)) {
                let at = b.at + depth.start as i64 * b.row + columns.start as i64 * b.column;
                let b = Matrix { at, ..b };
                let right = first(&mut right_tiles, columns.len().div_ceil(RESULT) * each, Tile::ZERO);
                let found = thirds(Side::Right, [depth.len(), columns.len()], b, right);
                let at = out.at + rows.start as i64 * out.row + columns.start as i64;
                if class.fits(found) {
                    let all = steps(depth.len());
                    let block = Block { unit: &unit, rows: rows.len(), columns: columns.len(), all, steps: 0..all };
                    block.multiply(left, right, &mut out.data[at as usize..], out.row as usize, add);
                } else {
                    let out = (&mut out.data[at as usize..], out.row as usize);
                    arriving::in_rows([rows.len(), columns.len(), depth.len()], a, b, out, add);
                }
            }
        }
    }
    MEMORY.set(Memory { left: left_tiles, right: right_tiles, held: None });
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::buffer::Room;
    use crate::cpu::gemm;
    use crate::cpu::left_rows::LeftRows;
    use crate::cpu::packed::tests::Whole;
    use crate::cpu::tiles::tests::{within, without};

    fn matrix(data: &[f32], at: usize, [row, column]: [usize; 2]) -> Matrix<'_, f32> {
        Matrix { data, at: at as i64, row: row as i64, column: column as i64 }
    }

    /// A product of matrices that lie row by row, with a packed right factor.
    fn packed([m, n, k]: [usize; 3], a: &[f32], b: &[f32]) -> Vec<f32> {
        let mut right = vec![0.0; k * n];
        packed::pack([k, n], matrix(b, 0, [n, 1]), &mut right);
        let mut out = vec![f32::NAN; m * n];
        let left = LeftRows::Matrix(matrix(a, 0, [k, 1]));
        packed::product([m, n, k], left, &right, None, &mut Whole::new(&mut out, n), &mut Room::default());
        out
    }

    /// The same, neither being packed before.
    fn plain([m, n, k]: [usize; 3], a: &[f32], b: &[f32]) -> Vec<f32> {
        let mut out = vec![f32::NAN; m * n];
        let mut result = MatrixMut { data: &mut out, at: 0, row: n as i64, column: 1 };
        gemm::product([m, n, k], matrix(a, 0, [k, 1]), matrix(b, 0, [n, 1]), &mut result, false);
        out
    }

    fn integers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|n| ((n * 7919 + seed) % 1023) as f32 - 511.0).collect()
    }

    fn waves(count: usize, step: f32) -> Vec<f32> {
        (0..count).map(|n| (n as f32 * step).sin()).collect()
    }

    const SIZES: [[usize; 3]; 14] = [
        [1, 1, 1],
        [1, 33, 40],
        [16, 16, 32],
        [17, 15, 33],
        [31, 64, 7],
        [32, 32, 512],
        [33, 70, 31],
        [64, 300, 64],
        [70, 257, 16],
        [48, 65, 513],
        [5, 31, 600],
        [65, 1, 100],
        [2, 256, 64],
        [130, 63, 1030],
    ];

    #[test]
    fn small_integers_are_exact_at_any_size_and_step() {
        within(|| {
            for [m, n, k] in SIZES {
                // Sums stay below 2^24.
                let small = |v: Vec<f32>| v.iter().map(|x| (x % 90.0).trunc()).collect::<Vec<f32>>();
                let (a, b) = (small(integers(m * k + 7, 1)), small(integers(k * n + 7, 2)));
                for (left, right) in [([k, 1], [n, 1]), ([k, 1], [1, k]), ([1, m], [n, 1]), ([1, m], [1, k])] {
                    for turned in [false, true] {
                        let (width, height) = (n + 3, m + 2);
                        let steps = if turned { [1, height] } else { [width, 1] };
                        let mut out = vec![9.0; 5 + width * height];
                        for add in [false, true] {
                            let (a, b) = (matrix(&a, 7, left), matrix(&b, 2, right));
                            let (row, column) = (steps[0] as i64, steps[1] as i64);
                            let mut out = MatrixMut { data: &mut out, at: 5, row, column };
                            gemm::product([m, n, k], a, b, &mut out, add);
                        }
                        let mut expected = vec![9.0; out.len()];
                        for r in 0..m {
                            for c in 0..n {
                                let one =
                                    |i: usize| a[7 + r * left[0] + i * left[1]] * b[2 + i * right[0] + c * right[1]];
                                let sum: f32 = (0..k).map(one).sum();
                                expected[5 + r * steps[0] + c * steps[1]] = 2.0 * sum;
                            }
                        }
                        assert!(out == expected, "{m} by {n} by {k}, {left:?} {right:?}, turned {turned}");
                    }
                }
                assert_eq!(packed([m, n, k], &a, &b), without(|| packed([m, n, k], &a, &b)), "{m} by {n} by {k}");
            }
        });
    }

    #[test]
    fn sums_are_as_exact_as_with_multiply_adds() {
        let worst = |[m, n, k]: [usize; 3], found: &[f32], a: &[f32], b: &[f32]| {
            let mut worst = 0f64;
            for r in 0..m {
                for c in 0..n {
                    let one = |i: usize| f64::from(a[r * k + i]) * f64::from(b[i * n + c]);
                    let (sum, size): (f64, f64) = ((0..k).map(one).sum(), (0..k).map(|i| one(i).abs()).sum());
                    worst = worst.max((f64::from(found[r * n + c]) - sum).abs() / size);
                }
            }
            worst
        };
        let unit = 2f64.powi(-24);
        within(|| {
            for extents @ [m, n, k] in [[33, 40, 1], [40, 33, 31], [64, 64, 64], [50, 70, 1000], [32, 32, 4096]] {
                let (a, b) = (waves(m * k, 0.37), waves(k * n, 0.71));
                for make in [packed, plain] {
                    let found = worst(extents, &make(extents, &a, &b), &a, &b);
                    let other = worst(extents, &without(|| make(extents, &a, &b)), &a, &b);
                    let bound = unit * (2.0 + (k as f64).sqrt() / 4.0);
                    assert!(found <= bound, "{m} by {n} by {k}: {:.2} units, {:.2}", found / unit, other / unit);
                }
            }
        });
    }

    #[test]
    fn unusual_values_are_multiplied_as_without_tiles() {
        let extents @ [m, n, k] = [70, 300, 600];
        let (a, b) = (waves(m * k, 0.37), waves(k * n, 0.71));
        for x in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 1e38] {
            for make in [packed, plain] {
                for left in [true, false] {
                    let (mut a, mut b) = (a.clone(), b.clone());
                    if left {
                        a[3 * k + 5] = x;
                    } else {
                        b[520 * n + 290] = x;
                    }
                    let found = within(|| make(extents, &a, &b));
                    let expected = without(|| make(extents, &a, &b));
                    for (n, (found, expected)) in found.iter().flatten().zip(&expected).enumerate() {
                        let near = (found - expected).abs() <= 2e-5 * expected.abs().max(k as f32 / 10.0);
                        let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
                        assert!(same || near, "{x} left {left}: element {n} is {found}, not {expected}");
                    }
                }
            }
        }
        // All of a factor so small that parts of it would be 0.
        for scale in [1e-20f32, 1e-30, 1e-42] {
            let tiny: Vec<f32> = a.iter().map(|x| x * scale).collect();
            for make in [packed, plain] {
                let Some(found) = within(|| make(extents, &tiny, &b)) else { return };
                let expected = without(|| make(extents, &tiny, &b));
                let bound = expected.iter().fold(0.0f32, |top, x| top.max(x.abs())) * 1e-5 + 1e-44;
                assert!(found.iter().zip(&expected).all(|(f, e)| (f - e).abs() <= bound), "{scale}");
            }
        }
        // Some tiny elements beside usual ones: what is lost of them is nothing beside the largest product.
        let mixed: Vec<f32> = a.iter().enumerate().map(|(n, x)| if n % 3 == 0 { x * 1e-38 } else { *x }).collect();
        for make in [packed, plain] {
            let Some(found) = within(|| make(extents, &mixed, &b)) else { return };
            let expected = without(|| make(extents, &mixed, &b));
            assert!(found.iter().zip(&expected).all(|(f, e)| (f - e).abs() < 1e-4));
        }
    }

    #[test]
    fn the_same_product_has_the_same_bits_on_every_thread() {
        let extents @ [m, n, k] = [100, 170, 700];
        let (a, b) = (waves(m * k, 0.37), waves(k * n, 0.71));
        let Some(first) = within(|| packed(extents, &a, &b)) else { return };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| within(|| packed(extents, &a, &b)))).collect();
            for thread in threads {
                assert!(thread.join().expect("no panic").expect("tiles").iter().zip(&first).all(|(x, y)| x == y));
            }
        });
    }

    #[test]
    fn blocks_of_rows_are_whole_results_of_one_size() {
        for (m, k) in [(1, 1), (33, 1024), (512, 1024), (513, 2816), (8192, 5632), (100_000, 7)] {
            for (shared, most) in [(false, LEFT), (true, SHARED)] {
                let rows = rows(m, k, shared);
                let room = most.max(BLOCK * k) + RESULT * k;
                assert!(rows.is_multiple_of(RESULT) && rows * k <= room, "{m} by {k}: {rows}");
                assert!(m.div_ceil(rows) * rows < m + RESULT * m.div_ceil(rows));
            }
        }
    }
}
