//! The inner loops of elimination: the least sum of tables over one variable, for every assignment of the others.
//!
//! Bytes and operations: an entry costs an addition and a minimum. Of the last axis four values are taken at once,
//! so that the sum over the axes before it is read once for the four.
// Loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

/// A table with the minimised variable last, ready to be walked over the outer axes.
pub(super) struct Walked<'a> {
    /// For every outer axis how many rows apart its values are; 0 if the table does not have it.
    pub strides: Vec<usize>,
    /// Rows of the minimised variable.
    pub data: &'a [f64],
}

/// For every assignment of the outer axes, row-major, the least sum of the tables' rows.
pub(super) fn least_sums(tables: &[Walked<'_>], sizes: &[usize], inner: usize) -> Vec<f64> {
    let total: usize = sizes.iter().product();
    let mut out = Vec::with_capacity(total);
    // Tables by the last axis that they have: what an axis does not change is added up once before it.
    let mut levels: Vec<Vec<usize>> = vec![Vec::new(); sizes.len() + 1];
    for (n, t) in tables.iter().enumerate() {
        levels[t.strides.iter().rposition(|&s| s > 0).map_or(0, |axis| axis + 1)].push(n);
    }
    let mut walk = Walk {
        tables,
        sizes,
        levels,
        inner,
        sums: vec![vec![0.0; inner]; sizes.len() + 1],
        at: vec![0; tables.len()],
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
