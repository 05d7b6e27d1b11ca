//! Products as one whose right factor is a single matrix, however many loops its rows and columns are: batches before
//! rows, heads between those and features.

use super::contract::{Dim, merge};
use super::gemm::Matrix;
use super::lines::{Lines, Name};
use super::strided::{Few, Odometer};
use bytemuck::Pod;
use std::ops::Range;

/// One product. Lists of loops are outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// In the order in which the result has them.
    rows: Few<Dim>,
    /// In the order in which the right factor walks on through them as through one.
    columns: Few<Dim>,
    /// As the columns.
    inner: Few<Dim>,
    /// Steps of the right factor along the inner extent and columns.
    right: [i64; 2],
    /// Where rows and columns are in the result: extents and steps.
    out: [Few<(usize, i64)>; 2],
}

/// Extents and steps by one of three, of loops that walk on as one joined.
fn walk(dims: &[Dim], step: fn(&Dim) -> i64) -> Few<(usize, i64)> {
    let mut all: Few<(usize, i64)> = Few::new();
    for dim in dims {
        let (extent, own) = (dim.extent, step(dim));
        match all.last_mut() {
            Some(outer) if outer.1 == own * extent as i64 => *outer = (outer.0 * extent, own),
            _ => all.push((extent, own)),
        }
    }
    all
}

/// Where an index is.
pub(super) fn place(walk: &[(usize, i64)], index: usize) -> i64 {
    let mut rest = index;
    let mut at = 0;
    for &(extent, step) in walk[1..].iter().rev() {
        at += (rest % extent) as i64 * step;
        rest /= extent;
    }
    at + rest as i64 * walk[0].1
}

impl Grid {
    /// All loops of a sum of products, as one product; `None` where the right factor is no single matrix.
    pub(super) fn of(dims: &[Dim]) -> Option<Self> {
        let (mut rows, mut columns, mut inner) = (Few::new(), Few::new(), Few::new());
        // Of loops of one turn, too: a part of a matrix is one.
        let mut right = [i64::MAX; 2];
        for &d in dims {
            let list = match (d.out != 0, d.left != 0, d.right != 0) {
                (false, _, true) => {
                    right[0] = right[0].min(d.right);
                    &mut inner
                }
                (true, false, true) => {
                    right[1] = right[1].min(d.right);
                    &mut columns
                }
                (true, true, false) => &mut rows,
                _ if d.extent == 1 => continue,
                (false, _, false) | (true, true, true) | (true, false, false) => return None,
            };
            if d.extent > 1 {
                list.push(d);
            }
        }
        for (list, step) in [(&mut rows, 0), (&mut columns, right[1]), (&mut inner, right[0])] {
            merge(list);
            if list.is_empty() {
                list.push(Dim { extent: 1, left: 0, right: if step == i64::MAX { 1 } else { step }, out: 0 });
            }
        }
        rows.sort_by_key(|d| std::cmp::Reverse(d.out));
        let on = |list: &mut Few<Dim>| {
            list.sort_by_key(|d| std::cmp::Reverse(d.right));
            walk(list, |d| d.right).len() == 1
        };
        (on(&mut columns) && on(&mut inner)).then(|| Self::new(rows, columns, inner))
    }

    /// Of one loop each.
    pub(super) fn one([m, n, k]: [Dim; 3]) -> Self {
        Self::new(Few::from_elem(m, 1), Few::from_elem(n, 1), Few::from_elem(k, 1))
    }

    fn new(rows: Few<Dim>, columns: Few<Dim>, inner: Few<Dim>) -> Self {
        let right = [&inner, &columns].map(|list| list.last().map_or(1, |d| d.right));
        let out = [walk(&rows, |d| d.step()), walk(&columns, |d| d.step())];
        Self { rows, columns, inner, right, out }
    }

    /// Rows, columns and inner indices.
    pub(super) fn extents(&self) -> [usize; 3] {
        [&self.rows, &self.columns, &self.inner].map(|list| list.iter().map(|d| d.extent).product())
    }

    /// Steps of the right factor along the inner extent and columns.
    pub(super) fn right_steps(&self) -> [i64; 2] {
        self.right
    }

    /// Where the first column of the right factor, whose first element would be at `base`, is in the packed one: it begins
    /// a panel.
    pub(super) fn packed_from(&self, base: i64) -> usize {
        (base / self.right[1]) as usize * self.extents()[2]
    }

    /// Whether the result is row after row.
    pub(super) fn in_rows(&self) -> bool {
        let [m, n, _] = self.extents();
        let along = |walk: &[(usize, i64)], step: usize| walk.len() == 1 && walk[0].1 == step as i64;
        (m == 1 || along(&self.out[0], n)) && (n == 1 || along(&self.out[1], 1))
    }

    /// Where rows and columns are in the result: extents and steps, from which [`place`] says it.
    pub(super) fn out(&self) -> &[Few<(usize, i64)>; 2] {
        &self.out
    }

    /// Whether rows of the left factor are packed before they are multiplied: elements of one do not lie side by side, or rows in
    /// no one step.
    pub(super) fn packs(&self) -> bool {
        let [starts, inner] = self.left();
        !matches!((starts.as_slice(), inner.as_slice()), ([(_, 0..)], [(_, 1)]))
    }

    /// Where rows and inner indices of the left factor are: extents and steps, from which [`place`] says it.
    pub(super) fn left(&self) -> [Few<(usize, i64)>; 2] {
        [walk(&self.rows, |d| d.left), walk(&self.inner, |d| d.left)]
    }

    /// Rows of the left factor, whose first element is at `base`: where they are, or copied side by side where neither they
    /// nor their inner loops walk on as one, unless those of that name lie there.
    pub(super) fn rows_of<'a, T: Pod>(
        &self,
        (data, base): (&'a [T], i64),
        rows: Range<usize>,
        name: Option<Name>,
        lines: &'a mut Lines,
    ) -> Matrix<'a, T> {
        let [starts, inner] = self.left();
        if let ([row], [column]) = (starts.as_slice(), inner.as_slice()) {
            return Matrix { data, at: base + rows.start as i64 * row.1, row: row.1, column: column.1 };
        }
        let [_, _, depth] = self.extents();
        let count = rows.len() * depth;
        let there = name.is_some() && lines.name == name;
        lines.name = name;
        let out: &mut [T] = lines.data.of(count);
        if there {
            return Matrix { data: out, at: 0, row: depth as i64, column: 1 };
        }
        let (Some(&(run, step)), outer) = (inner.last(), &inner[..inner.len() - 1]) else { unreachable!("a loop") };
        let mut loops = Odometer::new(outer.iter().map(|d| d.0));
        for (row, line) in rows.zip(out.chunks_exact_mut(depth)) {
            let from = base + place(&starts, row);
            for part in line.chunks_exact_mut(run) {
                let at = from + loops.at().iter().zip(outer).map(|(&n, d)| n as i64 * d.1).sum::<i64>();
                if step == 1 {
                    part.copy_from_slice(&data[at as usize..][..run]);
                } else {
                    part.iter_mut().zip(0..).for_each(|(x, n)| *x = data[(at + n * step) as usize]);
                }
                loops.step();
            }
        }
        Matrix { data: out, at: 0, row: depth as i64, column: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dim(extent: usize, left: i64, right: i64, out: i64) -> Dim {
        Dim { extent, left, right, out }
    }

    /// Queries of 2 batches, 3 tokens, 5 heads of 4, from 7 features: loops b, h, s, d, k.
    fn queries() -> [Dim; 5] {
        [dim(2, 21, 0, 60), dim(5, 0, 28, 12), dim(3, 7, 0, 4), dim(4, 0, 7, 1), dim(7, 1, 1, 0)]
    }

    #[test]
    fn heads_and_batches_are_one_product() {
        let grid = Grid::of(&queries()).expect("one matrix");
        assert_eq!((grid.extents(), grid.right_steps(), grid.in_rows()), ([6, 20, 7], [1, 7], false));
        let [rows, columns] = grid.out();
        let (row, column): (Vec<i64>, Vec<i64>) =
            ((0..6).map(|r| place(rows, r)).collect(), [0, 3, 4, 19].map(|c| place(columns, c)).to_vec());
        assert_eq!((row, column), (vec![0, 4, 8, 60, 64, 68], vec![0, 3, 12, 51]));
        // The left factor is read where it is.
        let data: Vec<f32> = (0..42).map(|n| n as f32).collect();
        let mut room = Lines::default();
        let left = grid.rows_of((&data, 0), 2..6, None, &mut room);
        assert_eq!((left.at, left.row, left.column), (14, 7, 1));
        // Two heads of all; one column of all.
        let mut part = queries();
        part[1].extent = 2;
        assert_eq!(Grid::of(&part).map(|g| (g.extents(), g.packed_from(28))), Some(([6, 8, 7], 28)));
        part[1].extent = 1;
        part[3].extent = 1;
        assert_eq!(Grid::of(&part).map(|g| (g.extents(), g.packed_from(56))), Some(([6, 1, 7], 56)));
        // Part of every head does not walk on.
        part[1].extent = 2;
        part[3].extent = 2;
        assert_eq!(Grid::of(&part), None);
        // A right factor that changes with the batch.
        let mut other = queries();
        other[0].right = 140;
        assert_eq!(Grid::of(&other), None);
    }

    #[test]
    fn what_does_not_walk_on_is_copied() {
        // Rows b, s of [b, h, s, d] with inner h, d: 2, 3, 2 and 2.
        let dims = [dim(2, 12, 0, 8), dim(2, 2, 0, 4), dim(4, 0, 6, 1), dim(3, 4, 2, 0), dim(2, 1, 1, 0)];
        let grid = Grid::of(&dims).expect("one matrix");
        assert!(grid.in_rows());
        let data: Vec<f32> = (0..24).map(|n| n as f32).collect();
        let mut room = Lines::default();
        let left = grid.rows_of((&data, 0), 1..4, None, &mut room);
        let rows: Vec<&[f32]> = left.data.chunks(6).collect();
        assert_eq!(rows, [[2., 3., 6., 7., 10., 11.], [12., 13., 16., 17., 20., 21.], [14., 15., 18., 19., 22., 23.]]);
        let wide: Vec<u16> = (0..24).collect();
        assert_eq!(grid.rows_of((&wide, 0), 0..1, None, &mut room).data, [0, 1, 4, 5, 8, 9]);
    }
}
