//! Random numbers that are the same on every run.

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::region::{Interval, Region};

/// Numbers that look random.
pub struct Rng(u64);

impl Rng {
    /// Numbers that depend on a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) ^ (self.0 >> 20)
    }

    /// Below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// From `lo` to `hi`, both included.
    pub fn between(&mut self, lo: usize, hi: usize) -> usize {
        lo + self.below(hi - lo + 1)
    }

    /// One of two.
    pub fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    /// One of some.
    pub fn of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// Integers from -3 to 3, or any floats from -2 to 2.
    pub fn dense(&mut self, dtype: DType, shape: &[usize], whole: bool) -> Dense {
        let n = shape.iter().product();
        let value = |rng: &mut Self| {
            if whole { rng.below(7) as f64 - 3.0 } else { rng.below(4001) as f64 / 1000.0 - 2.0 }
        };
        let values: Vec<f64> = (0..n).map(|_| value(self)).collect();
        Dense::from_f64(dtype, shape, &values)
    }

    /// A part of a region, not empty.
    pub fn part(&mut self, whole: &Region) -> Region {
        let part = |rng: &mut Self, i: Interval| {
            let lo = rng.between(i.lo, i.hi - 1);
            Interval::new(lo, rng.between(lo + 1, i.hi))
        };
        Region(whole.0.iter().map(|&i| part(self, i)).collect())
    }

    /// A region that holds `part` and lies in `whole`.
    pub fn around(&mut self, part: &Region, whole: &Region) -> Region {
        let around = |rng: &mut Self, (p, w): (&Interval, &Interval)| {
            let lo = if rng.coin() { w.lo } else { rng.between(w.lo, p.lo) };
            Interval::new(lo, rng.between(p.hi, w.hi))
        };
        Region(part.0.iter().zip(&whole.0).map(|x| around(self, x)).collect())
    }
}
