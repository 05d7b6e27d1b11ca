//! Products of `f32` of few rows, where the factors lie: a step's attention over a cache, say. The `gemm` crate is no quicker
//! there, and asks for memory with every call.
// The loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use super::gemm::{Matrix, MatrixMut};
use pulp::{Simd, WithSimd};

/// More rows than these are worth putting the right factor in order.
const FEW: usize = 8;

/// As [`super::gemm::product`]; `false` where there are more rows, or factors or result lie otherwise.
pub(crate) fn product(
    [m, n, k]: [usize; 3],
    a: Matrix<'_, f32>,
    b: Matrix<'_, f32>,
    out: &mut MatrixMut<'_, f32>,
    add: bool,
) -> bool {
    let lies = (n == 1 || out.column == 1) && (m == 1 || out.row >= n as i64);
    if m >= FEW || k == 0 || !lies || a.column != 1 || (b.row != 1 && b.column != 1) {
        return false;
    }
    let apart = out.row.max(n as i64) as usize;
    let out = &mut out.data[out.at as usize..];
    pulp::Arch::new().dispatch(Thin { extents: [m, n, k], a, b, out, apart, add });
    true
}

/// Few rows, whose inner indices lie side by side.
struct Thin<'a> {
    extents: [usize; 3],
    a: Matrix<'a, f32>,
    b: Matrix<'a, f32>,
    out: &'a mut [f32],
    apart: usize,
    add: bool,
}

impl WithSimd for Thin<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { extents: [m, n, k], a, b, out, apart, add } = self;
        for row in 0..m {
            let left = &a.data[(a.at + row as i64 * a.row) as usize..][..k];
            let out = &mut out[row * apart..][..n];
            if !add {
                out.fill(0.0);
            }
            if b.row == 1 && (b.column != 1 || n == 1) {
                for (column, out) in out.iter_mut().enumerate() {
                    let at = (b.at + column as i64 * b.column) as usize;
                    *out += dot(simd, left, &b.data[at..at + k]);
                }
                continue;
            }
            let line = |inner: usize| &b.data[(b.at + inner as i64 * b.row) as usize..][..n];
            let whole = k / LINES * LINES;
            for inner in (0..whole).step_by(LINES) {
                let weights: [f32; LINES] = std::array::from_fn(|i| left[inner + i]);
                add_lines(simd, weights, std::array::from_fn(|i| line(inner + i)), out);
            }
            for (&weight, inner) in left[whole..].iter().zip(whole..) {
                add_lines(simd, [weight], [line(inner)], out);
            }
        }
    }
}

/// Rows of a right factor added at once: the result is read and written once for all.
const LINES: usize = 4;

#[inline(always)]
fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (S::as_simd_f32s(a), S::as_simd_f32s(b));
    let mut sums = [simd.splat_f32s(0.0); LINES];
    let ((a, a_last), (b, b_last)) = (a.as_chunks::<LINES>(), b.as_chunks::<LINES>());
    for (a, b) in a.iter().zip(b) {
        for (sum, (&a, &b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum = simd.mul_add_f32s(a, b, *sum);
        }
    }
    for (sum, (&a, &b)) in sums.iter_mut().zip(a_last.iter().zip(b_last)) {
        *sum = simd.mul_add_f32s(a, b, *sum);
    }
    let all = sums.into_iter().reduce(|a, b| simd.add_f32s(a, b)).unwrap_or(simd.splat_f32s(0.0));
    simd.reduce_sum_f32s(all) + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

/// `out += sum of weights[i] * lines[i]`.
#[inline(always)]
fn add_lines<S: Simd, const N: usize>(simd: S, weights: [f32; N], lines: [&[f32]; N], out: &mut [f32]) {
    let (whole, rest) = S::as_mut_simd_f32s(out);
    let vectors = weights.map(|w| simd.splat_f32s(w));
    let lines = lines.map(|line| S::as_simd_f32s(line));
    for (n, out) in whole.iter_mut().enumerate() {
        for (weight, line) in vectors.iter().zip(&lines) {
            *out = simd.mul_add_f32s(*weight, line.0[n], *out);
        }
    }
    for (n, out) in rest.iter_mut().enumerate() {
        for (weight, line) in weights.iter().zip(&lines) {
            *out += weight * line.1[n];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|n| ((n * 7919 + seed) % 7) as f32 - 3.0).collect()
    }

    fn matrix(data: &[f32], at: usize, [row, column]: [usize; 2]) -> Matrix<'_, f32> {
        Matrix { data, at: at as i64, row: row as i64, column: column as i64 }
    }

    #[test]
    fn any_size_and_layout_is_exact() {
        let mut done = [0; 2];
        for [m, n, k] in [[1, 1, 1], [1, 70, 33], [3, 5, 300], [7, 64, 64], [2, 1, 65], [5, 130, 3], [8, 31, 7]] {
            let (a, b) = (numbers(m * k + 3, 1), numbers(k * n + 3, 2));
            for (left, right) in [([k, 1], [n, 1]), ([k, 1], [1, k]), ([1, m], [n, 1]), ([1, m], [1, k])] {
                for (row, column, add) in [(n + 2, 1, false), (n, 1, true), (1, m + 1, false)] {
                    let mut out = vec![2.0; 1 + (m + 2) * (n + 2)];
                    let mut to = MatrixMut { data: &mut out, at: 1, row: row as i64, column: column as i64 };
                    let is_done = product([m, n, k], matrix(&a, 3, left), matrix(&b, 1, right), &mut to, add);
                    done[usize::from(is_done)] += 1;
                    if !is_done {
                        assert!(out.iter().all(|&x| x == 2.0), "what is not done is left alone");
                        continue;
                    }
                    let mut expected = vec![2.0; out.len()];
                    for (r, c) in (0..m).flat_map(|r| (0..n).map(move |c| (r, c))) {
                        let one = |i: usize| a[3 + r * left[0] + i * left[1]] * b[1 + i * right[0] + c * right[1]];
                        let sum: f32 = (0..k).map(one).sum();
                        let to = &mut expected[1 + r * row + c * column];
                        *to = if add { *to + sum } else { sum };
                    }
                    assert!(out == expected, "{m} by {n} by {k}, {left:?} {right:?} into {row}, {column}");
                }
            }
        }
        assert!(done[0] > 0 && done[1] > 20, "those of few rows are done here, others are not: {done:?}");
    }
}
