//! Products whose right factor is packed: the weights of a model, packed once and multiplied in every run.
//!
//! The `gemm` crate packs both factors in every call, which at 120 rows is a third of the time. Here the right factor
//! lies in panels of as many columns as two vector registers hold, each row of a panel side by side, so that the inner
//! loop reads it in one line from memory; the left factor is read where it is, or packed for every block of rows where
//! elements of a row do not lie side by side. Results are made in tiles
//! that stay in the second cache until whoever asked for them has used them. Weights are `f32`; the loops are those of
//! [`super::arriving`], too, and do `f64` as well.
// The loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use super::buffer::Room;
use super::gemm::Matrix;
use super::left_rows::LeftRows;
use super::lines::Name;
use super::registers::Number;
use super::sums::{Job, Rows, line};
use super::tiled::{self, Rest};
use super::tiles;
use pulp::{Simd, WithSimd};
use std::marker::PhantomData;
use std::ops::Range;

/// Inner extents done at once: a panel's part of so many rows stays near.
const DEPTH: usize = 512;
/// Columns of a tile, at most.
const COLUMNS: usize = 256;
/// Elements of a block's rows of the left factor; fewer where they are packed and the right factor stays in the third cache,
/// from where it is quick to be read again for every block of rows: so threads keep less memory.
const LEFT: usize = 1 << 18;
const PACKED_OF_NEAR: usize = 1 << 15;
/// Elements of a right factor that stays there.
const NEAR: usize = 1 << 20;
/// Rows of a block, at least and at most: whole [`group`]s.
const ROWS: Range<usize> = 48..240;
const ROWS_OF_NEAR: Range<usize> = 36..120;

/// Evaluates an expression for as many rows at once as there are registers for.
macro_rules! rows_at_once {
    ($lanes:expr, $rows:ident => $value:expr) => {
        match $lanes {
            16 => {
                const $rows: usize = 12;
                $value
            }
            8 => {
                const $rows: usize = 6;
                $value
            }
            _ => {
                const $rows: usize = 4;
                $value
            }
        }
    };
}

/// Where tiles of a product go.
pub(crate) trait Sink {
    /// Memory for a tile, row by row, and how far rows are apart. It keeps what is written until the tile is done.
    fn tile(&mut self, rows: Range<usize>, columns: Range<usize>) -> (&mut [f32], usize);
    /// The tile is done.
    fn done(&mut self, rows: Range<usize>, columns: Range<usize>);
}

/// Columns of a panel of `f32` on this host.
pub(crate) fn width() -> usize {
    width_of::<f32>()
}

/// Columns of a panel on this host.
fn width_of<T: Number>() -> usize {
    struct Width<T>(PhantomData<T>);
    impl<T: Number> WithSimd for Width<T> {
        type Output = usize;
        fn with_simd<S: Simd>(self, _: S) -> usize {
            2 * T::lanes::<S>()
        }
    }
    pulp::Arch::new().dispatch(Width(PhantomData::<T>))
}

/// Packs a `k` by `n` matrix: panel after panel, the last of which may be narrower, each row by row. It takes the room
/// of the matrix.
pub(crate) fn pack<T: Number>([k, n]: [usize; 2], from: Matrix<'_, T>, out: &mut [T]) {
    in_groups(width_of::<T>(), [n, k], from.turned(), out);
}

/// A left factor packed whole, to be multiplied by many narrow right factors.
#[derive(Default)]
pub(crate) struct Left {
    data: Vec<f32>,
    rows: usize,
    depth: usize,
}

impl Left {
    /// Packs a `rows` by `depth` matrix instead of what there was.
    pub(crate) fn pack(&mut self, [rows, depth]: [usize; 2], from: Matrix<'_, f32>) {
        (self.rows, self.depth) = (rows, depth);
        self.data.resize(rows * depth, 0.0);
        pack_left([rows, depth], from, &mut self.data);
    }

    /// Multiplies some rows, the first of which begins a [`group`], of some columns with one panel, each of whose rows is
    /// as long as [`width`] says. `out` has as long rows; the product is added to it or takes its place.
    pub(crate) fn multiply(&self, rows: Range<usize>, depth: Range<usize>, panel: &[f32], out: &mut [f32], add: bool) {
        pulp::Arch::new().dispatch(Multiply { left: self, rows, depth, panel, out, add });
    }
}

struct Multiply<'a> {
    left: &'a Left,
    rows: Range<usize>,
    depth: Range<usize>,
    panel: &'a [f32],
    out: &'a mut [f32],
    add: bool,
}

impl WithSimd for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        rows_at_once!(S::F32_LANES, R => self.run::<S, R>(simd));
    }
}

impl Multiply<'_> {
    #[inline(always)]
    fn run<S: Simd, const R: usize>(self, simd: S) {
        let Self { left, rows, depth, panel, out, add } = self;
        let width = 2 * S::F32_LANES;
        assert!(rows.start.is_multiple_of(R) && rows.end <= left.rows, "whole groups of rows");
        for row in rows.clone().step_by(R) {
            let (here, all) = (R.min(rows.end - row), R.min(left.rows - row));
            let data = &left.data[row * left.depth..][depth.start * all..depth.end * all];
            let out = &mut out[(row - rows.start) * width..];
            let job = Job { left: Rows::Grouped(data), panel, fetch: &[], out, apart: width, add };
            if all == R && here == R {
                job.full::<S, R>(simd);
            } else {
                assert!(here == all, "whole groups of rows");
                job.part::<S, R>(simd, here, width);
            }
        }
    }
}

/// Rows of a left factor that are packed together on this host.
pub(crate) fn group() -> usize {
    struct Group;
    impl WithSimd for Group {
        type Output = usize;
        fn with_simd<S: Simd>(self, _: S) -> usize {
            rows_at_once!(S::F32_LANES, R => R)
        }
    }
    pulp::Arch::new().dispatch(Group)
}

/// How many rows of a product are done at once: a block's rows of the left factor stay in the second cache. It follows
/// from the shape alone; whole groups of rows, and blocks of about one size. In tile registers there are as many as
/// there is room for in parts, because a right factor is split for every block of rows; more where several parts of a
/// product share them. Elsewhere it matters whether the left factor is packed.
pub(crate) fn block_rows(extents: [usize; 3], shared: bool, packs: bool) -> usize {
    let [m, n, k] = extents;
    if tiles::available() && tiled::worth_packed(extents) {
        return tiled::rows(m, k, shared);
    }
    let near = n * k <= NEAR;
    let (left, rows) = (if near && packs { PACKED_OF_NEAR } else { LEFT }, if near { ROWS_OF_NEAR } else { ROWS });
    let most = (left / k.max(1)).clamp(rows.start, rows.end) / group() * group();
    if m <= most { m.max(1) } else { m.div_ceil(m.div_ceil(most)).next_multiple_of(group()) }
}

/// `m` rows of a product with a packed right factor of `k` by `n`, tile by tile, in tile registers where that is
/// worth it. What was made of a left factor of the same name is used again. Panics where a matrix leaves its slice.
pub(crate) fn product(
    extents: [usize; 3],
    left: LeftRows<'_>,
    right: &[f32],
    name: Option<Name>,
    sink: &mut dyn Sink,
    buffer: &mut Room,
) {
    let [m, n, k] = extents;
    if m == 0 || n == 0 {
        return;
    }
    let right = &right[..k * n];
    // Tiles take rows that lie side by side.
    let tiled = tiles::available() && tiled::worth_packed(extents);
    let left = if tiled { LeftRows::Matrix(left.side_by_side(name)) } else { left };
    let mut ready = false;
    let mut strip = |columns: Range<usize>, depth: Range<usize>, tile: &mut [f32], apart: usize| {
        let left = left.in_place().filter(|_| k > 0).unwrap_or_else(|| {
            let packed = buffer.of(m * k);
            if !ready {
                left.pack([m, k], packed);
                ready = true;
            }
            Rows::Grouped(packed)
        });
        pulp::Arch::new().dispatch(Strip { extents, left, right, columns, add: depth.start > 0, depth, tile, apart });
    };
    if let (true, LeftRows::Matrix(left)) = (tiled, &left) {
        let mut rest = |Rest { columns, depth }, tile: &mut [f32], apart| strip(columns, depth, tile, apart);
        if tiled::panels(extents, *left, right, name, sink, &mut rest) {
            return;
        }
    }
    for columns in (0..n).step_by(COLUMNS).map(|c| c..n.min(c + COLUMNS)) {
        let (tile, apart) = sink.tile(0..m, columns.clone());
        for from in (0..k.max(1)).step_by(DEPTH) {
            strip(columns.clone(), from..k.min(from + DEPTH), tile, apart);
        }
        sink.done(0..m, columns);
    }
}

/// Columns of all rows of a product, for some inner indices: added to what is there unless these are the first. An
/// element is the sum over the inner extent in one order, whatever rows are done together.
struct Strip<'a, T> {
    extents: [usize; 3],
    left: Rows<'a, T>,
    right: &'a [T],
    columns: Range<usize>,
    depth: Range<usize>,
    tile: &'a mut [T],
    apart: usize,
    add: bool,
}

impl<T: Number> WithSimd for Strip<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        rows_at_once!(S::F32_LANES, R => self.run::<S, R>(simd));
    }
}

impl<T: Number> Strip<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const R: usize>(self, simd: S) {
        let Self { extents: [m, n, k], left, right, columns, depth: Range { start: from, end }, tile, apart, add } =
            self;
        let (width, depth) = (2 * T::lanes::<S>(), end - from);
        let panel = |start: usize| {
            let here = width.min(n - start);
            &right[start * k + from * here..][..depth * here]
        };
        for start in columns.clone().step_by(width) {
            let here = width.min(n - start);
            // What comes next is fetched meanwhile, a part with every group of rows.
            let mut next = if start + width < columns.end {
                panel(start + width)
            } else if from + depth < k {
                let here = width.min(n - columns.start);
                &right[columns.start * k + (from + depth) * here..][..DEPTH.min(k - from - depth) * here]
            } else {
                right.get(columns.end * k..).map_or(&[][..], |rest| &rest[..rest.len().min(DEPTH * width)])
            };
            let part = next.len().div_ceil(m.div_ceil(R)).next_multiple_of(line::<T>());
            for row in (0..m).step_by(R) {
                let rows = R.min(m - row);
                let left = left.some(row, rows, [k, from, depth]);
                let out = &mut tile[row * apart + start - columns.start..];
                let (fetch, rest) = next.split_at(part.min(next.len()));
                next = rest;
                let job = Job { left, panel: panel(start), fetch, out, apart, add };
                if here == width && rows == R {
                    job.full::<S, R>(simd);
                } else {
                    job.part::<S, R>(simd, rows, here);
                }
            }
        }
    }
}

/// A product of a packed left and a packed right factor, all columns of all rows, from one slab of inner indices.
pub(crate) struct Slab<'a, T> {
    pub(crate) extents: [usize; 3],
    pub(crate) left: Rows<'a, T>,
    pub(crate) right: &'a [T],
    pub(crate) tile: &'a mut [T],
    /// How far rows of the tile are apart.
    pub(crate) apart: usize,
    /// To what is there, rather than instead of it.
    pub(crate) add: bool,
}

impl<T: Number> Slab<'_, T> {
    pub(crate) fn multiply(self) {
        let Self { extents, left, right, tile, apart, add } = self;
        let [_, n, k] = extents;
        pulp::Arch::new().dispatch(Strip { extents, left, right, columns: 0..n, depth: 0..k, tile, apart, add });
    }
}

/// Packs a left factor of `m` by `k`: groups of as many rows as [`group`] says, the last of which may be smaller, each column
/// by column.
pub(crate) fn pack_left<T: Number>(extents: [usize; 2], from: Matrix<'_, T>, out: &mut [T]) {
    in_groups(group(), extents, from, out);
}

/// Packs groups of so many rows of a matrix of `m` by `k`, the last of which may be smaller, each column by column.
fn in_groups<T: Number>(group: usize, [m, k]: [usize; 2], from: Matrix<'_, T>, out: &mut [T]) {
    /// Groups at once whose rows lie side by side: what is read of a column is long enough to be fetched ahead, and what is
    /// written lies in no more places than a cache tells apart.
    const TOGETHER: usize = 4;
    let together = if from.row == 1 { TOGETHER * group } else { group };
    for (first, out) in (0..m).step_by(together).zip(out[..m * k].chunks_mut((together * k).max(1))) {
        let rows = together.min(m - first);
        let from = Matrix { at: from.at + first as i64 * from.row, ..from };
        if from.row == 1 {
            match group {
                32 => side_by_side::<T, 32>([rows, k], from, out),
                16 => side_by_side::<T, 16>([rows, k], from, out),
                12 => side_by_side::<T, 12>([rows, k], from, out),
                8 => side_by_side::<T, 8>([rows, k], from, out),
                6 => side_by_side::<T, 6>([rows, k], from, out),
                _ => side_by_side::<T, 4>([rows, k], from, out),
            }
        } else {
            let at = |row: usize| from.at + row as i64 * from.row;
            columns([rows, k], (from.data, from.column), at, out);
        }
    }
}

/// Some groups of `N` rows that lie side by side, the last of which may be smaller.
fn side_by_side<T: Number, const N: usize>([rows, k]: [usize; 2], from: Matrix<'_, T>, out: &mut [T]) {
    let (whole, rest) = out.split_at_mut(rows / N * N * k);
    for inner in 0..k {
        let line = &from.data[(from.at + inner as i64 * from.column) as usize..][..rows];
        let (lines, last) = line.as_chunks::<N>();
        for (n, line) in lines.iter().enumerate() {
            // Of a known length, so that it is a few moves of registers.
            whole[(n * k + inner) * N..][..N].copy_from_slice(line);
        }
        if !last.is_empty() {
            rest[inner * last.len()..][..last.len()].copy_from_slice(last);
        }
    }
}

/// Columns of a group of rows, the first elements of which are `at` places of the data and the others at one step: column by
/// column.
pub(crate) fn columns<T: Number>(
    [rows, k]: [usize; 2],
    (data, step): (&[T], i64),
    at: impl Fn(usize) -> i64,
    out: &mut [T],
) {
    /// Columns at once, so that what is written stays in the nearest cache.
    const NEAR: usize = 128;
    for (near, out) in (0..k).step_by(NEAR).zip(out.chunks_mut(NEAR * rows)) {
        let columns = NEAR.min(k - near);
        for row in 0..rows {
            let at = at(row) + near as i64 * step;
            let to = out[row..].iter_mut().step_by(rows);
            if step == 1 {
                to.zip(&data[at as usize..][..columns]).for_each(|(to, &x)| *to = x);
            } else {
                to.zip(0..columns as i64).for_each(|(to, n)| *to = data[(at + n * step) as usize]);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cpu::lines::Run;
    use crate::cpu::tiles::tests::{within, without};

    /// Results in rows of a width, and how many there are.
    pub(crate) struct Whole<'a>(&'a mut [f32], usize, usize);

    impl<'a> Whole<'a> {
        pub(crate) fn new(out: &'a mut [f32], width: usize) -> Self {
            Self(out, width, 0)
        }
    }

    impl Sink for Whole<'_> {
        fn tile(&mut self, rows: Range<usize>, columns: Range<usize>) -> (&mut [f32], usize) {
            (&mut self.0[rows.start * self.1 + columns.start..], self.1)
        }
        fn done(&mut self, rows: Range<usize>, columns: Range<usize>) {
            self.2 += rows.len() * columns.len();
        }
    }

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|n| ((n * 7919 + seed) % 7) as f32 - 3.0).collect()
    }

    #[test]
    fn any_size_is_exact_from_either_layout() {
        for [m, n, k] in
            [[1, 1, 1], [1, 33, 300], [2, 64, 7], [5, 31, 256], [12, 32, 257], [13, 300, 64], [49, 65, 3], [7, 40, 0]]
        {
            let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
            for (row, column) in [(n, 1), (1, k)] {
                let right = Matrix { data: &b, at: 0, row: row as i64, column: column as i64 };
                let mut packed = vec![f32::NAN; k * n];
                pack([k, n], right, &mut packed);
                for (row_left, column_left) in [(k, 1), (1, m)] {
                    let left = Matrix { data: &a, at: 0, row: row_left as i64, column: column_left as i64 };
                    // Results lie apart.
                    let mut out = vec![9.0; m * (n + 3)];
                    let mut sink = Whole::new(&mut out, n + 3);
                    product([m, n, k], LeftRows::Matrix(left), &packed, None, &mut sink, &mut Room::default());
                    assert_eq!(sink.2, m * n, "every element is in one tile");
                    for r in 0..m {
                        for c in 0..n {
                            let one = |i: usize| a[r * row_left + i * column_left] * b[i * row + c * column];
                            let sum: f32 = (0..k).map(one).sum();
                            assert_eq!(out[r * (n + 3) + c], sum, "{m} by {n} by {k}, element {r}, {c}");
                        }
                        assert!(out[r * (n + 3) + n..][..3].iter().all(|&x| x == 9.0));
                    }
                }
            }
        }
    }

    #[test]
    fn an_element_does_not_depend_on_the_rows_done_with_it() {
        let (m, n, k) = (29, 70, 600);
        let a: Vec<f32> = (0..m * k).map(|n| (n as f32 * 0.37).sin()).collect();
        let b: Vec<f32> = (0..k * n).map(|n| (n as f32 * 0.71).cos()).collect();
        let mut packed = vec![0.0; k * n];
        pack([k, n], Matrix { data: &b, at: 0, row: n as i64, column: 1 }, &mut packed);
        let rows = |first: usize, count: usize| {
            let mut out = vec![0.0; count * n];
            let left = Matrix { data: &a, at: (first * k) as i64, row: k as i64, column: 1 };
            product(
                [count, n, k],
                LeftRows::Matrix(left),
                &packed,
                None,
                &mut Whole::new(&mut out, n),
                &mut Room::default(),
            );
            out
        };
        let check = || {
            let whole = rows(0, m);
            for (first, count) in [(0, 1), (3, 12), (5, 13), (28, 1)] {
                assert_eq!(rows(first, count), whole[first * n..(first + count) * n], "rows from {first}");
            }
        };
        without(check);
        within(check);
    }

    #[test]
    fn parts_of_columns_share_a_left_factor() {
        let [m, n, k] = [70, 96, 100];
        let b: Vec<f32> = (0..k * n).map(|n| (n as f32 * 0.71).cos()).collect();
        let mut packed = vec![0.0; k * n];
        pack([k, n], Matrix { data: &b, at: 0, row: n as i64, column: 1 }, &mut packed);
        let mut a = vec![0.0; m * k];
        let mut check = |step: f32| {
            // Another run has other values at the same place.
            a.iter_mut().zip(0..).for_each(|(x, n)| *x = (n as f32 * step).sin());
            let left = Matrix { data: &a, at: 0, row: k as i64, column: 1 };
            let mut whole = vec![0.0; m * n];
            product(
                [m, n, k],
                LeftRows::Matrix(left),
                &packed,
                None,
                &mut Whole::new(&mut whole, n),
                &mut Room::default(),
            );
            let mut parts = vec![0.0; m * n];
            let run = Run::new();
            for columns in [0..32, 32..96] {
                let mut sink = Whole::new(&mut parts[columns.start..], n);
                let part = [m, columns.len(), k];
                let right = &packed[columns.start * k..];
                run.part(|| product(part, LeftRows::Matrix(left), right, Name::of(0), &mut sink, &mut Room::default()));
            }
            assert!(parts == whole, "{step}");
        };
        without(|| check(0.37));
        within(|| [0.37, 0.53].map(&mut check));
    }

    #[test]
    fn a_left_factor_is_multiplied_in_parts() {
        let width = width();
        for (rows, depth) in [(1, 1), (11, 5), (24, 70), (65, 600)] {
            let (a, b) = (numbers(rows * depth, 3), numbers(depth * width, 4));
            let mut left = Left::default();
            left.pack([rows, depth], Matrix { data: &a, at: 0, row: depth as i64, column: 1 });
            let first = group() * usize::from(rows > 2 * group());
            for (from, to) in [(0, depth), (depth / 2, depth)] {
                let mut out = vec![1.0; (rows - first) * width];
                for add in [false, true] {
                    left.multiply(first..rows, from..to, &b[from * width..to * width], &mut out, add);
                }
                for (n, &found) in out.iter().enumerate() {
                    let (r, c) = (first + n / width, n % width);
                    let sum: f32 = (from..to).map(|i| a[r * depth + i] * b[i * width + c]).sum();
                    assert_eq!(found, 2.0 * sum, "{rows} by {depth}, element {r}, {c}");
                }
            }
        }
    }

    #[test]
    fn blocks_are_whole_groups_of_about_one_size() {
        for (m, k) in [(1, 10), (48, 10), (49, 10), (128, 512), (512, 1024), (2048, 2816), (8192, 5632), (1000, 7)] {
            for n in [64, 1 << 20] {
                let (rows, group) = (without(|| block_rows([m, n, k], false, n == 64)), group());
                let blocks = m.div_ceil(rows);
                assert!(blocks == 1 || rows.is_multiple_of(group), "{m} by {k}: {rows}");
                assert!(
                    rows <= ROWS.end && (blocks - 1) * rows < m && rows - m / blocks <= group,
                    "{m} by {k}: {rows}"
                );
                let left = rows * k;
                assert!(left <= LEFT || rows <= ROWS.start, "{m} by {k}: {left} elements");
            }
        }
    }
}
