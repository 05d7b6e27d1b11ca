//! Sums in registers: some rows of a left factor and one panel of a packed right factor, whose products are summed up over
//! the inner extent and leave the registers once.
// The loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use super::gemm::prefetch;
use super::registers::Number;
use pulp::Simd;

/// Elements of a cache line.
pub(super) const fn line<T>() -> usize {
    64 / size_of::<T>()
}

/// Rows of a panel between which lines of the next are fetched.
const STEPS: usize = 16;

/// Rows of a left factor.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a, T> {
    /// In groups, each column by column, as [`super::packed::pack_left`] leaves them.
    Grouped(&'a [T]),
    /// Where they are: elements of a row side by side, rows so far apart.
    Apart(&'a [T], usize),
}

impl<T> Rows<'_, T> {
    /// `count` rows, those of a group, from `first` on: of `k` inner indices `depth` from `from` on.
    #[inline(always)]
    pub(super) fn some(self, first: usize, count: usize, [k, from, depth]: [usize; 3]) -> Self {
        match self {
            Self::Grouped(all) => Self::Grouped(&all[first * k + from * count..][..depth * count]),
            Self::Apart(all, apart) => Self::Apart(&all[first * apart + from..], apart),
        }
    }
}

/// Some rows of a panel's columns.
pub(super) struct Job<'a, T> {
    pub(super) left: Rows<'a, T>,
    pub(super) panel: &'a [T],
    /// What will be read soon.
    pub(super) fetch: &'a [T],
    pub(super) out: &'a mut [T],
    pub(super) apart: usize,
    /// To what is there, rather than instead of it.
    pub(super) add: bool,
}

impl<T: Number> Job<'_, T> {
    /// `R` rows and a whole panel: all sums stay in registers.
    #[inline(always)]
    pub(super) fn full<S: Simd, const R: usize>(self, simd: S) {
        let mut sums = [[T::default().splat(simd); 2]; R];
        let lanes = T::lanes::<S>();
        let out = &mut self.out[..(R - 1) * self.apart + 2 * lanes];
        // The result is there once the sums are.
        for row in 0..R {
            prefetch(&out[row * self.apart..]);
            prefetch(&out[row * self.apart + lanes..]);
        }
        let (panel, _) = T::whole::<S>(self.panel).as_chunks::<2>();
        let lines = self.fetch.len().div_ceil(line::<T>()).div_ceil(panel.len().div_ceil(STEPS).max(1)) * line::<T>();
        let mut fetch = self.fetch.chunks(lines.max(1));
        match self.left {
            Rows::Grouped(left) => {
                let (left, _) = left.as_chunks::<R>();
                for (left, panel) in left.chunks(STEPS).zip(panel.chunks(STEPS)) {
                    fetch.next().unwrap_or_default().chunks(line::<T>()).for_each(prefetch);
                    for (left, panel) in left.iter().zip(panel) {
                        for (sums, &x) in sums.iter_mut().zip(left) {
                            let x = x.splat(simd);
                            sums[0] = T::mul_add(simd, x, panel[0], sums[0]);
                            sums[1] = T::mul_add(simd, x, panel[1], sums[1]);
                        }
                    }
                }
            }
            Rows::Apart(left, apart) => {
                let depth = panel.len();
                let rows: [&[T]; R] = std::array::from_fn(|row| &left[row * apart..][..depth]);
                let (whole, rest) = panel.as_chunks::<STEPS>();
                for (n, panel) in whole.iter().enumerate() {
                    fetch.next().unwrap_or_default().chunks(line::<T>()).for_each(prefetch);
                    // Of a known length, so that where a row is, is asked once and no place is checked.
                    let near: [&[T; STEPS]; R] = std::array::from_fn(|row| {
                        rows[row][n * STEPS..].first_chunk().expect("as many as the panel has")
                    });
                    for (inner, panel) in panel.iter().enumerate() {
                        for (sums, row) in sums.iter_mut().zip(near) {
                            let x = row[inner].splat(simd);
                            sums[0] = T::mul_add(simd, x, panel[0], sums[0]);
                            sums[1] = T::mul_add(simd, x, panel[1], sums[1]);
                        }
                    }
                }
                for (inner, panel) in (depth - rest.len()..depth).zip(rest) {
                    for (sums, row) in sums.iter_mut().zip(rows) {
                        let x = row[inner].splat(simd);
                        sums[0] = T::mul_add(simd, x, panel[0], sums[0]);
                        sums[1] = T::mul_add(simd, x, panel[1], sums[1]);
                    }
                }
            }
        }
        for row in 0..R {
            let (out, _) = T::whole_mut::<S>(&mut out[row * self.apart..][..2 * lanes]).as_chunks_mut::<2>();
            let [out] = out else { unreachable!("two registers") };
            if self.add {
                out[0] = T::add(simd, out[0], sums[row][0]);
                out[1] = T::add(simd, out[1], sums[row][1]);
            } else {
                *out = sums[row];
            }
        }
    }

    /// Fewer rows or columns.
    #[inline(always)]
    pub(super) fn part<S: Simd, const R: usize>(self, simd: S, rows: usize, columns: usize) {
        macro_rules! of {
            ($($n:literal)*) => {
                match rows {
                    $($n if R >= $n && columns == 2 * T::lanes::<S>() => self.full::<S, $n>(simd),)*
                    $($n if R >= $n => self.narrow::<S, $n>(simd, columns),)*
                    _ => unreachable!("at most as many rows as are done at once"),
                }
            };
        }
        of!(1 2 3 4 5 6 7 8 9 10 11 12);
    }

    /// `R` rows and the columns of a narrow panel.
    #[inline(always)]
    fn narrow<S: Simd, const R: usize>(self, simd: S, columns: usize) {
        let mut sums = [[T::default().splat(simd); 2]; R];
        // How far elements of a row are apart, and rows.
        let (left, [along, down]) = match self.left {
            Rows::Grouped(left) => (left, [R, 1]),
            Rows::Apart(left, apart) => (left, [1, apart]),
        };
        let cut = columns.min(T::lanes::<S>());
        for (inner, panel) in self.panel.chunks_exact(columns).enumerate() {
            let panel = [T::read(simd, &panel[..cut]), T::read(simd, &panel[cut..])];
            for (row, sums) in sums.iter_mut().enumerate() {
                let x = left[inner * along + row * down].splat(simd);
                sums[0] = T::mul_add(simd, x, panel[0], sums[0]);
                sums[1] = T::mul_add(simd, x, panel[1], sums[1]);
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            let (low, high) = self.out[row * self.apart..][..columns].split_at_mut(cut);
            for (out, &sum) in [low, high].into_iter().zip(sums) {
                let sum = if self.add { T::add(simd, T::read(simd, out), sum) } else { sum };
                T::write(simd, out, sum);
            }
        }
    }
}
