//! Contractions whose factors are gathered into matrices first: windows and whatever else has no single step along the
//! rows, the columns or the inner extent of a product.
//!
//! A convolution read in place is a product for every row of the image and every tap, each too small to run fast. Here
//! the windows of a panel of rows are copied side by side, all channels and taps in one inner extent, and multiplied
//! by all output channels at once.

use super::contract::Dim;
use super::gemm::{self, Matrix, MatrixMut};
use super::strided::{Few, Odometer};
use super::widen::Wide;

/// Products of this many multiplications run fast as they stand.
const LARGE: usize = 1 << 21;
/// A gathered element must be used this often to be worth its copy.
const USES: usize = 6;
/// Elements of a gathered panel.
const PANEL: usize = 1 << 20;

/// A contraction as products of gathered matrices in loops over different results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gathered {
    /// Rows, outermost first; in the result they are one step apart.
    m: Few<Dim>,
    /// Columns, likewise.
    n: Few<Dim>,
    /// The inner extent.
    k: Few<Dim>,
    free: Few<Dim>,
    /// Whether the factors have changed places, and rows and columns with them.
    swapped: bool,
}

fn extent(dims: &[Dim]) -> usize {
    dims.iter().map(|d| d.extent).product()
}

/// The step of dims that walk on as one, outermost first; `None` where they do not.
fn single(dims: &[Dim], step: fn(&Dim) -> i64) -> Option<i64> {
    let on = |pair: &[Dim]| step(&pair[0]) == step(&pair[1]) * pair[1].extent as i64;
    dims.windows(2).all(on).then(|| dims.last().map_or(1, step))
}

/// Takes out those dims that are the most results one step apart, outermost first.
fn chain(dims: &mut Few<Dim>) -> Few<Dim> {
    let from = |start: usize| {
        let mut taken: Few<usize> = Few::from_elem(start, 1);
        let mut next = dims[start].out * dims[start].extent as i64;
        while let Some(n) = (0..dims.len()).find(|n| !taken.contains(n) && dims[*n].out == next) {
            next = dims[n].out * dims[n].extent as i64;
            taken.push(n);
        }
        taken
    };
    let all = (0..dims.len()).map(from);
    let count = |taken: &[usize]| taken.iter().map(|&n| dims[n].extent).product::<usize>();
    let mut taken = all.max_by_key(|t| (count(t), std::cmp::Reverse(t[0]))).unwrap_or_default();
    taken.reverse();
    let chain = taken.iter().map(|&n| dims[n]).collect();
    let rest = (0..dims.len()).filter(|n| !taken.contains(n)).map(|n| dims[n]).collect();
    *dims = rest;
    chain
}

/// The gathered products of a contraction that would otherwise be `calls` products of `size` multiplications; `None`
/// where they are fast, or the copies would cost more than they gain.
pub(super) fn gathered(dims: &[Dim], calls: usize, size: usize) -> Option<Gathered> {
    if calls <= 1 || size >= LARGE {
        return None;
    }
    let (mut m, mut n, mut k, mut free) = (Few::new(), Few::new(), Few::new(), Few::new());
    for &d in dims.iter().filter(|d| d.extent != 1) {
        match (d.out != 0, d.left != 0, d.right != 0) {
            (false, _, _) => k.push(d),
            (true, true, false) => m.push(d),
            (true, false, true) => n.push(d),
            (true, true, true) | (true, false, false) => free.push(d),
        }
    }
    let (rows, columns) = (chain(&mut m), chain(&mut n));
    free.extend(m);
    free.extend(n);
    let found = Gathered { m: rows, n: columns, k, free, swapped: false };
    // The left factor is gathered in panels, the right one whole: the left is to be the larger.
    let in_place = (found.left_step().is_some(), found.right_step().is_some());
    let found = match in_place {
        (true, false) => found.swap(),
        (false, false) if extent(&found.n) > extent(&found.m) => found.swap(),
        (true | false, true) | (false, false) => found,
    };
    let (m, n, k) = (extent(&found.m), extent(&found.n), extent(&found.k));
    let left = if found.left_step().is_none() { n } else { usize::MAX };
    let right = if found.right_step().is_none() { m } else { usize::MAX };
    // Neither gathered: what is in place is as large as it can be.
    let gathers = left.min(right) != usize::MAX;
    (gathers && left.min(right) >= USES && m * n * k > 2 * size).then_some(found)
}

impl Gathered {
    /// The same with the factors in each other's places.
    fn swap(self) -> Self {
        let all = |dims: Few<Dim>| dims.into_iter().map(|d| Dim { left: d.right, right: d.left, ..d }).collect();
        Self { m: all(self.n), n: all(self.m), k: all(self.k), free: all(self.free), swapped: !self.swapped }
    }

    /// Steps of the left factor along rows and the inner extent, where it can be read in place.
    fn left_step(&self) -> Option<(i64, i64)> {
        Some((single(&self.m, |d| d.left)?, single(&self.k, |d| d.left)?))
    }

    /// Steps of the right factor along the inner extent and columns, where it can be read in place.
    fn right_step(&self) -> Option<(i64, i64)> {
        Some((single(&self.k, |d| d.right)?, single(&self.n, |d| d.right)?))
    }

    /// Computes `out` from factors whose first elements are at their bases.
    pub(super) fn multiply<T: Wide>(
        &self,
        left: (&[T], i64),
        right: (&[T], i64),
        (out, first_out): (&mut [T], i64),
        [rows, columns]: [&mut Vec<T>; 2],
    ) {
        let ((a, a_base), (b, b_base)) = if self.swapped { (right, left) } else { (left, right) };
        let (m, n, k) = (extent(&self.m), extent(&self.n), extent(&self.k));
        let (in_place, right_in_place) = (self.left_step(), self.right_step());
        let panel = if in_place.is_some() { m } else { (PANEL / k.max(1)).clamp(1, m) };
        // An extent of 1 has no step; any that tells elements apart will do.
        let into_step = |dims: &[Dim]| dims.last().map_or(1, |d| d.out);
        let (row, column) = (into_step(&self.m), into_step(&self.n));
        let mut free = Odometer::new(self.free.iter().map(|d| d.extent));
        let mut packed_at = None;
        loop {
            let (mut left, mut right, mut into) = (a_base, b_base, first_out);
            for (d, &at) in self.free.iter().zip(free.at()) {
                left += d.left * at as i64;
                right += d.right * at as i64;
                into += d.out * at as i64;
            }
            if right_in_place.is_none() && packed_at != Some(right) {
                gather(b, right, (&self.k, |d| d.right), (&self.n, |d| d.right), 0..n, columns);
                packed_at = Some(right);
            }
            let right = match right_in_place {
                Some((row, column)) => Matrix { data: b, at: right, row, column },
                None => Matrix { data: &*columns, at: 0, row: n as i64, column: 1 },
            };
            for first in (0..m).step_by(panel) {
                let count = panel.min(m - first);
                let left = if let Some((row, column)) = in_place {
                    Matrix { data: a, at: left, row, column }
                } else {
                    gather(a, left, (&self.k, |d| d.left), (&self.m, |d| d.left), first..first + count, rows);
                    Matrix { data: &*rows, at: 0, row: 1, column: count as i64 }
                };
                let mut product = MatrixMut { data: &mut *out, at: into + first as i64 * row, row, column };
                gemm::product([count, n, k], left, right, &mut product, false);
            }
            if !free.step() {
                return;
            }
        }
    }
}

type Steps<'a> = (&'a [Dim], fn(&Dim) -> i64);

/// Copies elements `base + outer + inner` of every outer point, and of those inner points whose number is in `range`,
/// side by side.
fn gather<T: Wide>(
    from: &[T],
    base: i64,
    (outer, outer_step): Steps<'_>,
    (inner, inner_step): Steps<'_>,
    range: std::ops::Range<usize>,
    out: &mut Vec<T>,
) {
    out.clear();
    out.reserve(extent(outer) * range.len());
    let mut points = Odometer::new(outer.iter().map(|d| d.extent));
    let mut rows = Odometer::new(inner.iter().map(|d| d.extent));
    let step = inner.last().map_or(1, inner_step);
    loop {
        let start = base + points.at().iter().zip(outer).map(|(&at, d)| at as i64 * outer_step(d)).sum::<i64>();
        rows.seek(range.start);
        let mut left = range.len();
        while left > 0 {
            let at = start + rows.at().iter().zip(inner).map(|(&at, d)| at as i64 * inner_step(d)).sum::<i64>();
            let run = rows.left().min(left);
            let at = at as usize;
            match step {
                1 => out.extend_from_slice(&from[at..at + run]),
                2.. => out.extend(from[at..].iter().step_by(step as usize).take(run)),
                _ => out.extend((0..run as i64).map(|n| from[(at as i64 + n * step) as usize])),
            }
            rows.skip(run);
            left -= run;
        }
        if !points.step() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dim(extent: usize, left: i64, right: i64, out: i64) -> Dim {
        Dim { extent, left, right, out }
    }

    /// A convolution of an image of `y` by `x` with `i` channels to `o`, 3 by 3 taps, and what it would be in place.
    fn convolution(o: usize, y: usize, x: usize, i: usize) -> Option<Gathered> {
        let (line, image) = (x as i64 + 2, (x as i64 + 2) * (y as i64 + 2));
        let dims = [
            dim(o, 0, 9 * i as i64, (x * y) as i64),
            dim(y, line, 0, x as i64),
            dim(x, 1, 0, 1),
            dim(i, image, 9, 0),
            dim(3, line, 3, 0),
            dim(3, 1, 1, 0),
        ];
        gathered(&dims, y * 9, x * o * i)
    }

    #[test]
    fn windows_become_rows() {
        let found = convolution(64, 56, 56, 64).expect("gathered");
        assert_eq!((extent(&found.m), extent(&found.n), extent(&found.k)), (56 * 56, 64, 64 * 9));
        assert_eq!((found.left_step(), found.right_step()), (None, Some((1, 576))));
        assert!(found.free.is_empty());
        // Few output channels use an element too seldom.
        assert_eq!(convolution(2, 56, 56, 64), None);
        let other = found.clone().swap();
        assert_eq!((other.left_step(), other.right_step()), (Some((576, 1)), None));
        assert_eq!(other.swap(), found);
    }

    #[test]
    fn what_is_large_or_one_product_stays_in_place() {
        let plain = [dim(500, 400, 0, 300), dim(300, 0, 1, 1), dim(400, 1, 300, 0)];
        assert_eq!(gathered(&plain, 1, 500 * 300 * 400), None);
        let batched = [dim(8, 160000, 120000, 120000), plain[0], plain[1], plain[2]];
        assert_eq!(gathered(&batched, 8, 500 * 300 * 400), None);
    }

    #[test]
    fn parts_of_rows_are_gathered() {
        let from: Vec<f32> = (0..24).map(|n| n as f32).collect();
        let mut out = Vec::new();
        // Rows of a 4 by 6 image without its last two columns, seen from two columns.
        let (outer, inner) = ([dim(2, 1, 0, 0)], [dim(3, 6, 0, 4), dim(4, 1, 0, 1)]);
        gather(&from, 0, (&outer, |d| d.left), (&inner, |d| d.left), 2..7, &mut out);
        assert_eq!(out, [2., 3., 6., 7., 8., 3., 4., 7., 8., 9.]);
        // Backwards, two apart.
        let inner = [dim(3, -2, 0, 1)];
        gather(&from, 10, (&outer, |d| d.left), (&inner, |d| d.left), 0..3, &mut out);
        assert_eq!(out, [10., 8., 6., 11., 9., 7.]);
        let inner = [dim(3, 2, 0, 1)];
        gather(&from, 1, (&[], |d| d.left), (&inner, |d| d.left), 1..3, &mut out);
        assert_eq!(out, [3., 5.]);
    }
}
