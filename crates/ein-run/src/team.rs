//! The threads that may help with one kernel: a file with `unsafe` code, because the parts of a result are borrowed
//! mutably on several threads at once.
#![allow(unsafe_code)]

use crate::pool::Shared;
use std::fmt;
use std::marker::PhantomData;

/// Whoever may help with a kernel: threads of the executor that have nothing else to do.
///
/// A kernel that is worth it names parts, and each is done by whoever comes first. How a kernel is cut must follow from
/// its shape alone and never from the number of threads, so that the same task gives the same bits everywhere.
#[derive(Clone, Copy)]
pub(crate) struct Team<'a> {
    shared: Option<&'a Shared>,
    worker: usize,
}

impl<'a> Team<'a> {
    /// Nobody but the thread itself.
    pub(crate) fn alone() -> Team<'static> {
        Team { shared: None, worker: 0 }
    }

    /// The threads of a pool, called by its thread `worker`.
    pub(crate) fn of(shared: &'a Shared, worker: usize) -> Self {
        Self { shared: Some(shared), worker }
    }

    /// How many threads may work at once. No result may depend on it.
    pub(crate) fn threads(self) -> usize {
        self.shared.map_or(1, Shared::threads)
    }

    /// Calls `part(n)` for every `n` of `0..parts`, each once, in any order, and returns when all have returned.
    /// Allocates nothing. Handing out and waiting cost some microseconds: parts should be worth tens of them.
    pub(crate) fn each(self, parts: usize, part: &(dyn Fn(usize) + Sync)) {
        match self.shared {
            Some(shared) => shared.each(self.worker, parts, part),
            None => (0..parts).for_each(part),
        }
    }

    /// Calls `part(n, chunk)` for every chunk of `size` elements of a slice, the last of which may be shorter.
    pub(crate) fn chunks<T: Send>(self, slice: &mut [T], size: usize, part: &(dyn Fn(usize, &mut [T]) + Sync)) {
        let (base, len) = (Base(slice.as_mut_ptr()), slice.len());
        self.each(len.div_ceil(size.max(1)), &|n| {
            let base = &base;
            let lo = n * size.max(1);
            let count = size.max(1).min(len - lo);
            // SAFETY: chunk `n` lies in the slice, which is borrowed mutably until `each` returns; `each` calls every
            // `n` once, and chunks of different `n` have no element in common. Elements may go to other threads.
            let chunk = unsafe { std::slice::from_raw_parts_mut(base.0.add(lo), count) };
            part(n, chunk);
        });
    }

    /// Calls `part(n, strip)` for every strip of `width` bytes of a matrix whose rows have `row`; the last strip may be
    /// narrower.
    pub(crate) fn strips(
        self,
        matrix: &mut [u8],
        [row, width]: [usize; 2],
        part: &(dyn Fn(usize, &mut Strip<'_>) + Sync),
    ) {
        let (row, width) = (row.max(1), width.max(1));
        let (base, rows) = (Base(matrix.as_mut_ptr()), matrix.len() / row);
        self.each(row.div_ceil(width), &|n| {
            let base = &base;
            let lo = n * width;
            // SAFETY: the first row's bytes from `lo` on lie in the matrix if it has a row; else nothing is put there.
            // `each` calls every `n` once, and strips of different `n` have no byte in common.
            let first = if rows > 0 { unsafe { base.0.add(lo) } } else { base.0 };
            part(n, &mut Strip { first, apart: row, width: width.min(row - lo), rows, of: PhantomData });
        });
    }
}

/// Some columns of a matrix, of every row, that one thread writes while others write other columns.
pub(crate) struct Strip<'a> {
    first: *mut u8,
    /// How far rows are apart, and bytes of each that are its own.
    apart: usize,
    width: usize,
    rows: usize,
    of: PhantomData<&'a mut [u8]>,
}

impl Strip<'_> {
    /// Puts in place what lies row after row. Panics where that is not as much as there is room for.
    pub(crate) fn put(&mut self, from: &[u8]) {
        assert_eq!(from.len(), self.rows * self.width, "as many bytes as the strip has");
        for (n, row) in from.chunks_exact(self.width.max(1)).enumerate() {
            // SAFETY: row `n` of the strip lies in the matrix, which is borrowed mutably as long as the strip lives; no
            // other strip has any of its bytes, and `from` is borrowed from elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), self.first.add(n * self.apart), self.width) };
        }
    }
}

/// Where a slice begins.
struct Base<T>(*mut T);

// SAFETY: it is only used to make disjoint chunks of a slice of elements that may go to other threads.
unsafe impl<T: Send> Sync for Base<T> {}

impl fmt::Debug for Team<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} threads", self.threads())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    #[test]
    fn strips_cover_a_matrix_once() {
        let pool = Pool::new(2);
        for team in [Team::alone(), Team::of(pool.shared(), 0)] {
            for (rows, row, width) in [(0, 3, 2), (1, 7, 7), (5, 7, 3), (4, 6, 2), (3, 5, 9), (2, 1, 1)] {
                let mut matrix = vec![0u8; rows * row];
                team.strips(&mut matrix, [row, width], &|n, strip| {
                    let here = width.min(row - n * width);
                    let values: Vec<u8> =
                        (0..rows * here).map(|i| (10 * (i / here) + n * width + i % here) as u8).collect();
                    strip.put(&values);
                });
                let expected: Vec<u8> = (0..rows * row).map(|i| (10 * (i / row) + i % row) as u8).collect();
                assert_eq!(matrix, expected, "{rows} by {row} in {width}");
            }
        }
    }

    #[test]
    fn chunks_cover_a_slice_once() {
        let pool = Pool::new(2);
        for team in [Team::alone(), Team::of(pool.shared(), 0)] {
            for (len, size) in [(0, 3), (1, 3), (7, 1), (7, 3), (9, 3), (5, 99), (5, 0)] {
                let mut values = vec![0; len];
                team.chunks(&mut values, size, &|n, chunk| chunk.iter_mut().for_each(|v| *v += n + 1));
                let expected: Vec<usize> = (0..len).map(|i| i / size.max(1) + 1).collect();
                assert_eq!(values, expected, "{len} by {size}");
            }
        }
        assert_eq!((Team::alone().threads(), Team::of(pool.shared(), 0).threads()), (1, 2));
    }
}
