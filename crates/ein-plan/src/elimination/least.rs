//! The inner loops of elimination: the least sum of tables over one variable, for every assignment of the others.
//!
//! Bytes and operations: an entry costs an addition and a minimum. Of the last axis four values are taken at once,
//! so that the sum over the axes before it is read once for the four.
// Loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use crate::parallel::threads;
use std::borrow::Cow;
use std::ops::Range;

/// A table with the minimised variable last, ready to be walked over the outer axes.
pub(super) struct Walked<'a> {
    /// For every outer axis how many rows apart its values are; 0 if the table does not have it.
    pub strides: Vec<usize>,
    /// Rows of the minimised variable.
    pub data: Cow<'a, [f64]>,
}

/// Entries from which on several threads share them: a thread is started in the time of some ten thousand.
const SHARED: usize = 1 << 20;

/// For every assignment of the outer axes, row-major, the least sum of the tables' rows. Threads share the first axis, and
/// each entry is computed as it is by one, so that their number changes nothing.
pub(super) fn least_sums(tables: &[Walked<'_>], sizes: &[usize], inner: usize) -> Vec<f64> {
    let entries = sizes.iter().product::<usize>() * inner;
    let first = sizes.first().copied().unwrap_or(1);
    let threads = if entries < SHARED { 1 } else { threads() };
    let parts = threads.min(first);
    if parts < 2 {
        return part(tables, sizes, inner, 0..first);
    }
    let bounds = |n: usize| first * n / parts;
    std::thread::scope(|scope| {
        let run = |n: usize| move || part(tables, sizes, inner, bounds(n)..bounds(n + 1));
        let others: Vec<_> = (1..parts).map(|n| scope.spawn(run(n))).collect();
        let mut out = run(0)();
        out.reserve_exact(entries / inner.max(1) - out.len());
        for other in others {
            out.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        out
    })
}

/// [`least_sums`] for some values of the first outer axis, if there is one.
fn part(tables: &[Walked<'_>], sizes: &[usize], inner: usize, first: Range<usize>) -> Vec<f64> {
    let mut sizes = sizes.to_vec();
    if let Some(size) = sizes.first_mut() {
        *size = first.len();
    }
    let start = |t: &Walked<'_>| t.strides.first().map_or(0, |stride| stride * first.start);
    let mut out = Vec::with_capacity(sizes.iter().product());
    // Tables by the last axis that they have: what an axis does not change is added up once before it.
    let mut levels: Vec<Vec<usize>> = vec![Vec::new(); sizes.len() + 1];
    for (n, t) in tables.iter().enumerate() {
        levels[t.strides.iter().rposition(|&s| s > 0).map_or(0, |axis| axis + 1)].push(n);
    }
    let mut walk = Walk {
        tables,
        sizes: &sizes,
        levels,
        inner,
        sums: vec![vec![0.0; inner]; sizes.len() + 1],
        at: tables.iter().map(start).collect(),
        out: &mut out,
    };
    walk.add(0);
    walk.down(0);
    out
}

struct Walk<'a> {
    tables: &'a [Walked<'a>],
    sizes: &'a [usize],
    /// Tables whose last axis is the one before this level.
    levels: Vec<Vec<usize>>,
    inner: usize,
    /// The sum of the tables of all levels up to this one, at the current assignment.
    sums: Vec<Vec<f64>>,
    /// The row of every table at the current assignment.
    at: Vec<usize>,
    out: &'a mut Vec<f64>,
}

impl Walk<'_> {
    fn row(&self, table: usize, at: usize) -> &[f64] {
        &self.tables[table].data[at * self.inner..(at + 1) * self.inner]
    }

    /// Adds the tables of a level to the sum of the levels before it.
    fn add(&mut self, level: usize) {
        let (before, after) = self.sums.split_at_mut(level);
        let sum = &mut after[0];
        match before.last() {
            Some(before) => sum.copy_from_slice(before),
            None => sum.fill(0.0),
        }
        for &n in &self.levels[level] {
            let row = &self.tables[n].data[self.at[n] * self.inner..(self.at[n] + 1) * self.inner];
            sum.iter_mut().zip(row).for_each(|(s, x)| *s += x);
        }
    }

    fn down(&mut self, axis: usize) {
        if axis == self.sizes.len() {
            self.out.push(wide(&self.sums[axis], &[])[0]);
            return;
        }
        if axis + 1 == self.sizes.len()
            && let [only] = self.levels[axis + 1][..]
        {
            return self.last(axis, only);
        }
        for value in 0..self.sizes[axis] {
            if value > 0 {
                self.step(axis, 1);
            }
            self.add(axis + 1);
            self.down(axis + 1);
        }
        self.back(axis);
    }

    /// The last axis, where one table alone depends on it.
    fn last(&mut self, axis: usize, only: usize) {
        let (size, stride, start) = (self.sizes[axis], self.tables[only].strides[axis], self.at[only]);
        let mut value = 0;
        while value < size {
            let some = (size - value).min(4);
            // Of fewer than four the last one is taken again.
            let rows: [&[f64]; 4] = std::array::from_fn(|n| self.row(only, start + (value + n.min(some - 1)) * stride));
            let least = wide(&self.sums[axis], &rows);
            self.out.extend_from_slice(&least[..some]);
            value += some;
        }
    }

    fn step(&mut self, axis: usize, by: usize) {
        for (at, t) in self.at.iter_mut().zip(self.tables) {
            *at += by * t.strides[axis];
        }
    }

    fn back(&mut self, axis: usize) {
        for (at, t) in self.at.iter_mut().zip(self.tables) {
            *at -= (self.sizes[axis] - 1) * t.strides[axis];
        }
    }
}

/// Something that can be used once, so that the closure which takes it is inlined.
struct Once;

/// The least of `sum`, or of `sum` plus each of four rows, with the widest instructions there are.
fn wide(sum: &[f64], rows: &[&[f64]]) -> [f64; 4] {
    let once = Once;
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            let Once = once;
            match rows {
                [a, b, c, d] => least_of_four(sum, [a, b, c, d]),
                _ => [least(sum); 4],
            }
        },
    )
}

const LANES: usize = 8;

#[inline(always)]
fn min(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}

#[inline(always)]
fn least(row: &[f64]) -> f64 {
    let mut lanes = [f64::INFINITY; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for x in chunks {
        for n in 0..LANES {
            lanes[n] = min(lanes[n], x[n]);
        }
    }
    lanes.iter().chain(rest).fold(f64::INFINITY, |a, &b| min(a, b))
}

#[inline(always)]
fn least_of_four(sum: &[f64], rows: [&[f64]; 4]) -> [f64; 4] {
    let length = sum.len();
    let rows = rows.map(|r| &r[..length]);
    let mut lanes = [[f64::INFINITY; LANES]; 4];
    let whole = length / LANES * LANES;
    let mut at = 0;
    while at < whole {
        let s: &[f64; LANES] = sum[at..at + LANES].try_into().expect("a chunk of so many");
        for (lanes, row) in lanes.iter_mut().zip(rows) {
            let x: &[f64; LANES] = row[at..at + LANES].try_into().expect("a chunk of so many");
            for n in 0..LANES {
                lanes[n] = min(lanes[n], s[n] + x[n]);
            }
        }
        at += LANES;
    }
    std::array::from_fn(|r| {
        let tail = sum[whole..].iter().zip(&rows[r][whole..]).map(|(s, x)| s + x);
        lanes[r].iter().copied().chain(tail).fold(f64::INFINITY, min)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever parts the first axis is shared in, the entries are those of one walk, bit for bit.
    #[test]
    fn parts_are_the_whole() {
        let sizes = [7, 3, 5];
        let inner = 11;
        let number = |n: usize| ((n * 7919 + 13) % 1009) as f64 / 7.0;
        // Tables over axes 0 and 2, axis 1, all, and none but the minimised one.
        let strides = [vec![5, 0, 1], vec![0, 1, 0], vec![15, 5, 1], vec![0, 0, 0]];
        let rows = [35, 3, 105, 1];
        let data: Vec<Vec<f64>> =
            rows.iter().enumerate().map(|(t, r)| (0..r * inner).map(|n| number(n + 31 * t)).collect()).collect();
        let tables: Vec<Walked<'_>> = strides
            .iter()
            .zip(&data)
            .map(|(s, data)| Walked { strides: s.clone(), data: Cow::Borrowed(data) })
            .collect();
        let whole = least_sums(&tables, &sizes, inner);
        assert_eq!(whole.len(), 105);
        for cut in 1..7 {
            let parts = [part(&tables, &sizes, inner, 0..cut), part(&tables, &sizes, inner, cut..7)].concat();
            assert_eq!(parts, whole, "{cut}");
        }
        let at = |i: usize, j: usize, k: usize| {
            let sum = |x: usize| {
                let row = [5 * i + k, j, 15 * i + 5 * j + k, 0];
                (0..4).map(|t| data[t][row[t] * inner + x]).sum::<f64>()
            };
            (0..inner).map(sum).fold(f64::INFINITY, f64::min)
        };
        let plain: Vec<f64> = (0..7).flat_map(|i| (0..3).flat_map(move |j| (0..5).map(move |k| at(i, j, k)))).collect();
        assert!(whole.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-9));
        // Enough entries for threads.
        let many = [SHARED / 64 + 3, 2];
        let data: Vec<f64> = (0..many[0] * 64).map(number).collect();
        let other: Vec<f64> = (0..2 * 64).map(number).collect();
        let tables = [
            Walked { strides: vec![1, 0], data: Cow::Borrowed(&data) },
            Walked { strides: vec![0, 1], data: Cow::Borrowed(&other) },
        ];
        assert_eq!(least_sums(&tables, &many, 64), part(&tables, &many, 64, 0..many[0]));
    }
}
