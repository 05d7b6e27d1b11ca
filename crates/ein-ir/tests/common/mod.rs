//! What the tests of this crate share: a seeded generator and small random things.
#![allow(dead_code)]

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_ir::region::{Interval, Region};

/// `SplitMix64`: enough for tests, and the same everywhere.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `lo..=hi`.
    pub fn range(&mut self, lo: usize, hi: usize) -> usize {
        lo + (self.next() % (hi - lo + 1) as u64) as usize
    }

    pub fn chance(&mut self, one_in: usize) -> bool {
        self.range(1, one_in) == 1
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.range(0, of.len() - 1)]
    }

    pub fn shape(&mut self, rank: usize, lo: usize, hi: usize) -> Vec<usize> {
        (0..rank).map(|_| self.range(lo, hi)).collect()
    }

    /// A box inside `whole`, not empty unless `whole` is.
    pub fn inside(&mut self, whole: &Region) -> Region {
        let side = |i: &Interval, rng: &mut Self| {
            if i.is_empty() {
                return *i;
            }
            let lo = rng.range(i.lo, i.hi - 1);
            Interval::new(lo, rng.range(lo + 1, i.hi))
        };
        Region(whole.0.iter().map(|i| side(i, self)).collect())
    }

    /// Small integers of both signs in any type.
    pub fn integers(&mut self, dtype: DType, shape: &[usize]) -> Dense {
        let lo = if matches!(dtype, DType::U8 | DType::Bool) { 0 } else { -3 };
        let hi = if dtype == DType::Bool { 1 } else { 3 };
        let n = shape.iter().product();
        let values = (0..n).map(|_| (self.range(0, (hi - lo) as usize) as i64) + lo).collect();
        Dense::from_i64(dtype, shape, values)
    }

    /// Floats of both signs around 1.
    pub fn floats(&mut self, dtype: DType, shape: &[usize]) -> Dense {
        let n: usize = shape.iter().product();
        let values: Vec<f64> = (0..n).map(|_| self.range(0, 4_000) as f64 / 1_000.0 - 2.0).collect();
        Dense::from_f64(dtype, shape, &values)
    }

    /// Recursive cuts of a box, on the axes allowed, into `n` boxes or as many as there is room for.
    pub fn cuts(&mut self, whole: &Region, axes: &[usize], n: usize) -> Vec<Region> {
        let long: Vec<usize> = axes.iter().copied().filter(|&a| whole.0[a].len() > 1).collect();
        if n <= 1 || long.is_empty() {
            return vec![whole.clone()];
        }
        let axis = *self.pick(&long);
        let at = self.range(whole.0[axis].lo + 1, whole.0[axis].hi - 1);
        let (low, high) = whole.split(axis, at);
        let left = self.range(1, n - 1);
        let mut boxes = self.cuts(&low, axes, left);
        boxes.extend(self.cuts(&high, axes, n - left));
        boxes
    }
}

/// Elements that are their own position.
pub fn iota(shape: &[usize]) -> Dense {
    Dense::i64(shape, (0..shape.iter().product::<usize>() as i64).collect())
}

pub fn ty(dtype: DType, shape: &[usize]) -> TensorType {
    TensorType::new(dtype, shape)
}

/// Every index of a box, in row-major order.
pub fn points(region: &Region) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for i in &region.0 {
        all = all.iter().flat_map(|p: &Vec<usize>| (i.lo..i.hi).map(move |x| [p.as_slice(), &[x]].concat())).collect();
    }
    all
}
