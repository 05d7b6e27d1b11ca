//! Products of two factors that arrive with a run, neither being packed before: the right one is put in order slab by slab,
//! in memory that a thread keeps, and multiplied as [`super::packed`] does; the left one is read where it is, or put in order
//! where elements of a row do not lie side by side. The `gemm` crate is about as quick, but asks for memory with every call.

use super::buffer::Room;
use super::gemm::{Matrix, MatrixMut};
use super::packed::{self, Slab, pack, pack_left};
use super::registers::Number;
use super::sums::Rows;
use std::cell::RefCell;

/// Inner extent of a slab: results are read and written again for every slab.
const DEPTH: usize = 1024;
/// Columns of a slab: the left factor is read, or put in order, again for every slab.
const COLUMNS: usize = 1024;
/// Bytes of the left factor that are read at once for one panel after the other: they stay in the second cache.
const LEFT: usize = 512 << 10;

thread_local! {
    /// Both factors in order, of whichever type; kept, so that later runs allocate nothing.
    static MEMORY: RefCell<[Room; 2]> = RefCell::default();
}

/// As [`super::gemm::product`]; `false` where neither rows nor columns of the result lie side by side.
pub(crate) fn product<T: Number>(
    [m, n, k]: [usize; 3],
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut MatrixMut<'_, T>,
    add: bool,
) -> bool {
    if out.column != 1 && n > 1 {
        let mut out = out.turned();
        return (out.column == 1 || m == 1) && product([n, m, k], b.turned(), a.turned(), &mut out, add);
    }
    if m > 1 && out.row < n as i64 {
        return false;
    }
    in_rows([m, n, k], a, b, (&mut out.data[out.at as usize..], out.row.max(n as i64) as usize), add);
    true
}

/// A product whose result begins a slice, its rows so far apart.
pub(crate) fn in_rows<T: Number>(
    [m, n, k]: [usize; 3],
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    (out, apart): (&mut [T], usize),
    add: bool,
) {
    if k == 0 && !add {
        out.chunks_mut(apart).take(m).for_each(|row| row[..n].fill(T::default()));
    }
    let [mut left, mut right] = MEMORY.take();
    for columns in (0..n).step_by(COLUMNS).map(|c| c..n.min(c + COLUMNS)) {
        for depth in (0..k).step_by(DEPTH).map(|d| d..k.min(d + DEPTH)) {
            let at = b.at + depth.start as i64 * b.row + columns.start as i64 * b.column;
            let inner = depth.len();
            let right = right.of(inner * columns.len());
            pack([inner, columns.len()], Matrix { at, ..b }, right);
            let many = (LEFT / size_of::<T>() / inner / packed::group()).max(1) * packed::group();
            for rows in (0..m).step_by(many).map(|r| r..m.min(r + many)) {
                let at = a.at + rows.start as i64 * a.row + depth.start as i64 * a.column;
                let from = Matrix { at, ..a };
                let left = from.rows().unwrap_or_else(|| {
                    let left = left.of(rows.len() * inner);
                    pack_left([rows.len(), inner], from, left);
                    Rows::Grouped(left)
                });
                let tile = &mut out[rows.start * apart + columns.start..];
                let extents = [rows.len(), columns.len(), inner];
                Slab { extents, left, right, tile, apart, add: add || depth.start > 0 }.multiply();
            }
        }
    }
    MEMORY.set([left, right]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::Sum;
    use std::ops::{Add, Mul};

    /// Products of small integers, of factors and results that lie in every order, beside the sums written out.
    #[test]
    fn any_size_is_exact_from_and_to_either_layout() {
        exact(|n| n as f32);
        exact(|n| n as f64);
    }

    fn exact<T>(of: fn(i32) -> T)
    where
        T: Number + PartialEq + Sum + Add<Output = T> + Mul<Output = T>,
    {
        for [m, n, k] in [[1, 1, 1], [8, 9, 3], [13, 40, 0], [12, 32, 64], [37, 70, 1030], [3, 1100, 5], [270, 33, 520]]
        {
            let numbers = |count, seed| (0..count).map(|n| of((n * 7919 + seed) as i32 % 7 - 3)).collect::<Vec<T>>();
            let (a, b) = (numbers(m * k + 3, 1), numbers(k * n + 2, 2));
            for (left, right) in [([k, 1], [n, 1]), ([k, 1], [1, k]), ([1, m], [n, 1]), ([1, m], [1, k])] {
                for to in [[n + 3, 1], [1, m + 2]] {
                    let mut out = vec![of(9); 5 + (n + 3) * (m + 2)];
                    let mut expected = out.clone();
                    let matrix = |data, at, [row, column]: [usize; 2]| Matrix {
                        data,
                        at,
                        row: row as i64,
                        column: column as i64,
                    };
                    for add in [false, true] {
                        let mut out = MatrixMut { data: &mut out, at: 5, row: to[0] as i64, column: to[1] as i64 };
                        assert!(product([m, n, k], matrix(&a, 3, left), matrix(&b, 2, right), &mut out, add));
                        for (r, c) in (0..m).flat_map(|r| (0..n).map(move |c| (r, c))) {
                            let one = |i: usize| a[3 + r * left[0] + i * left[1]] * b[2 + i * right[0] + c * right[1]];
                            let before = &mut expected[5 + r * to[0] + c * to[1]];
                            *before = (0..k).map(one).sum::<T>() + if add { *before } else { of(0) };
                        }
                    }
                    assert!(out == expected, "{m} by {n} by {k}, {left:?} {right:?} {to:?}");
                }
            }
        }
    }

    #[test]
    fn what_lies_in_no_rows_is_left_to_others() {
        let (a, mut out) = ([1.0; 6], [0.0f32; 20]);
        let of = |row, column| Matrix { data: &a, at: 0, row, column };
        let mut gaps = MatrixMut { data: &mut out, at: 0, row: 4, column: 2 };
        assert!(!product([3, 2, 2], of(2, 1), of(2, 1), &mut gaps, false));
        assert_eq!(out, [0.0; 20]);
    }
}
