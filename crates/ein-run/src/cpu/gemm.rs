//! The matrix product of the `gemm` crate behind checked slices. The file has `unsafe` code because that crate takes raw
//! pointers.
#![allow(unsafe_code)]

use super::registers::Number;
use super::sums::Rows;
use super::{arriving, thin, tiled};
use gemm::Parallelism;

/// A matrix to read: element `(r, c)` is `data[at + r * row + c * column]`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) at: i64,
    pub(crate) row: i64,
    pub(crate) column: i64,
}

/// A matrix to write.
pub(crate) struct MatrixMut<'a, T> {
    pub(crate) data: &'a mut [T],
    pub(crate) at: i64,
    pub(crate) row: i64,
    pub(crate) column: i64,
}

impl<'a, T> Matrix<'a, T> {
    /// Its rows where they are, if elements of a row lie side by side and rows one after the other.
    pub(crate) fn rows(&self) -> Option<Rows<'a, T>> {
        let forward = self.column == 1 && self.row >= 0 && self.at >= 0;
        (forward && self.at as usize <= self.data.len())
            .then(|| Rows::Apart(&self.data[self.at as usize..], self.row as usize))
    }

    /// Columns in the place of rows.
    pub(crate) fn turned(self) -> Self {
        Self { row: self.column, column: self.row, ..self }
    }
}

impl<T> MatrixMut<'_, T> {
    /// Columns in the place of rows.
    pub(crate) fn turned(&mut self) -> MatrixMut<'_, T> {
        MatrixMut { data: self.data, at: self.at, row: self.column, column: self.row }
    }
}

/// Types with a product: `f32` and `f64`.
pub(crate) trait Factor: gemm_type::Sealed + Number + PartialEq {
    const ONE: Self;

    /// As [`product`] in tile registers or, of few rows, in place, or `false` where it is not done so.
    fn near(_: [usize; 3], _: Matrix<'_, Self>, _: Matrix<'_, Self>, _: &mut MatrixMut<'_, Self>, _: bool) -> bool {
        false
    }
}

mod gemm_type {
    /// `gemm` panics on types it does not know; only these are let through.
    pub(crate) trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

impl Factor for f32 {
    const ONE: Self = 1.0;

    fn near(
        extents: [usize; 3],
        a: Matrix<'_, f32>,
        b: Matrix<'_, f32>,
        out: &mut MatrixMut<'_, f32>,
        add: bool,
    ) -> bool {
        tiled::product(extents, a, b, out, add) || thin::product(extents, a, b, out, add)
    }
}

impl Factor for f64 {
    const ONE: Self = 1.0;
}

/// Whether every element of an `extents` matrix lies in `len` elements.
fn inside(len: usize, at: i64, extents: [usize; 2], steps: [i64; 2]) -> bool {
    let (mut lo, mut hi) = (i128::from(at), i128::from(at));
    for (extent, step) in extents.into_iter().zip(steps) {
        let last = i128::from(step) * (extent as i128 - 1);
        lo += last.min(0);
        hi += last.max(0);
    }
    lo >= 0 && hi < len as i128
}

/// Whether two different elements of an `extents` matrix never are the same memory.
fn distinct(extents: [usize; 2], steps: [i64; 2]) -> bool {
    let [(m, r), (n, c)] = [0, 1].map(|x| (extents[x] as i128, i128::from(steps[x].unsigned_abs())));
    let apart = |m: i128, r: i128, c: i128| r > 0 && c >= m * r;
    match (m <= 1, n <= 1) {
        (true, true) => true,
        (true, false) => c > 0,
        (false, true) => r > 0,
        (false, false) => apart(m, r, c) || apart(n, c, r),
    }
}

/// `out = a b`, or `out += a b` when `add`; `a` is `m` by `k`, `b` is `k` by `n`. One thread, and the same
/// bits for the same shapes, strides and values. Panics where a matrix leaves its slice.
pub(crate) fn product<T: Factor>(
    extents: [usize; 3],
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut MatrixMut<'_, T>,
    add: bool,
) {
    if extents[0] == 0 || extents[1] == 0 {
        return;
    }
    check(extents, &a, &b, out);
    // The library asks for memory with every call: it does what is left.
    if !T::near(extents, a, b, out, add) && !arriving::product(extents, a, b, out, add) {
        plain(extents, a, b, out, add);
    }
}

/// Panics where a matrix leaves its slice, or elements of the result are the same memory.
fn check<T>([m, n, k]: [usize; 3], a: &Matrix<'_, T>, b: &Matrix<'_, T>, out: &MatrixMut<'_, T>) {
    assert!(inside(out.data.len(), out.at, [m, n], [out.row, out.column]), "the result lies in its slice");
    assert!(distinct([m, n], [out.row, out.column]), "the result's elements are different memory");
    if k > 0 {
        assert!(inside(a.data.len(), a.at, [m, k], [a.row, a.column]), "the left factor lies in its slice");
        assert!(inside(b.data.len(), b.at, [k, n], [b.row, b.column]), "the right factor lies in its slice");
    }
}

/// [`product`] by the `gemm` crate.
fn plain<T: Factor>([m, n, k]: [usize; 3], a: Matrix<'_, T>, b: Matrix<'_, T>, out: &mut MatrixMut<'_, T>, add: bool) {
    if m == 0 || n == 0 {
        return;
    }
    check([m, n, k], &a, &b, out);
    let (left, right) = if k > 0 { (a.at as usize, b.at as usize) } else { (0, 0) };
    // SAFETY: every element that `gemm` reads of `a` and `b` and reads or writes of `out` lies in their
    // slices (asserted above), the elements of `out` are distinct, `out` is borrowed mutably and so
    // overlaps neither factor, and `T` is `f32` or `f64` (sealed), which `gemm` knows.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.data.as_mut_ptr().add(out.at as usize),
            out.column as isize,
            out.row as isize,
            add,
            a.data.as_ptr().add(left),
            a.column as isize,
            a.row as isize,
            b.data.as_ptr().add(right),
            b.column as isize,
            b.row as isize,
            T::ONE,
            T::ONE,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// Asks for the memory where a slice begins to be brought near, where the processor has an instruction for that.
#[inline(always)]
#[allow(clippy::inline_always)]
pub(crate) fn prefetch<T>(from: &[T]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint: it reads nothing that the program could see, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(from.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}

/// The same of memory that is read later: all its lines are brought to the second cache.
#[inline(always)]
#[allow(clippy::inline_always)]
pub(crate) fn prefetch_all<T>(from: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in from.chunks((64 / size_of::<T>()).max(1)) {
        // SAFETY: as above.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_result_are_told_apart() {
        for (extents, steps, expected) in [
            ([3, 4], [4, 1], true),
            ([3, 4], [1, 3], true),
            ([3, 4], [3, 1], false),
            ([3, 4], [0, 1], false),
            ([1, 4], [0, 1], true),
            ([1, 1], [0, 0], true),
            ([3, 1], [-1, 0], true),
            ([3, 4], [8, -2], true),
        ] {
            assert_eq!(distinct(extents, steps), expected, "{extents:?} {steps:?}");
        }
    }

    #[test]
    fn products_take_any_strides() {
        // a is 2 by 3 backwards, b is one row repeated, out has gaps.
        let a = [6.0f32, 5.0, 4.0, 3.0, 2.0, 1.0];
        let b = [1.0f32, 10.0];
        let mut out = [7.0f32; 8];
        let left = Matrix { data: &a, at: 5, row: -3, column: -1 };
        let right = Matrix { data: &b, at: 0, row: 0, column: 1 };
        product([2, 2, 3], left, right, &mut MatrixMut { data: &mut out, at: 0, row: 4, column: 2 }, false);
        assert_eq!(out, [6.0, 7.0, 60.0, 7.0, 15.0, 7.0, 150.0, 7.0]);
        product([2, 2, 3], left, right, &mut MatrixMut { data: &mut out, at: 0, row: 4, column: 2 }, true);
        assert_eq!(out, [12.0, 7.0, 120.0, 7.0, 30.0, 7.0, 300.0, 7.0]);
        product([2, 2, 0], left, right, &mut MatrixMut { data: &mut out, at: 0, row: 4, column: 2 }, false);
        assert_eq!(out[0], 0.0);
    }

    #[test]
    #[should_panic(expected = "the left factor lies in its slice")]
    fn a_factor_outside_its_slice_is_refused() {
        let a = [0.0f32; 5];
        let mut out = [0.0f32; 4];
        let factor = Matrix { data: &a, at: 0, row: 3, column: 1 };
        product([2, 2, 3], factor, factor, &mut MatrixMut { data: &mut out, at: 0, row: 2, column: 1 }, false);
    }
}
