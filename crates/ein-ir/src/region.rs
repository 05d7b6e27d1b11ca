//! Boxes: one half-open interval per axis.

use std::fmt;

/// A half-open interval `[lo, hi)` of one axis; empty when `lo >= hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interval {
    /// First index inside.
    pub lo: usize,
    /// First index outside.
    pub hi: usize,
}

impl Interval {
    /// The interval `[lo, hi)`.
    pub fn new(lo: usize, hi: usize) -> Self {
        Self { lo, hi }
    }

    /// Number of indices inside.
    pub fn len(self) -> usize {
        self.hi.saturating_sub(self.lo)
    }

    /// Whether no index is inside.
    pub fn is_empty(self) -> bool {
        self.hi <= self.lo
    }

    /// What both contain.
    pub fn intersect(self, other: Self) -> Self {
        Self { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) }
    }

    /// Whether every index of `other` is inside; an empty interval is inside everything.
    pub fn contains(self, other: Self) -> bool {
        other.is_empty() || (self.lo <= other.lo && other.hi <= self.hi)
    }
}

/// A box: one interval per axis. A region of rank 0 holds exactly one point.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Region(pub Vec<Interval>);

impl Region {
    /// The whole of a shape: `[0, extent)` on every axis.
    pub fn whole(shape: &[usize]) -> Self {
        Self(shape.iter().map(|&n| Interval::new(0, n)).collect())
    }

    /// The region with these `(lo, hi)` pairs.
    pub fn of(pairs: &[(usize, usize)]) -> Self {
        Self(pairs.iter().map(|&(lo, hi)| Interval::new(lo, hi)).collect())
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Extent of every axis.
    pub fn shape(&self) -> Vec<usize> {
        self.0.iter().map(|i| i.len()).collect()
    }

    /// Number of points.
    pub fn volume(&self) -> usize {
        self.0.iter().map(|i| i.len()).product()
    }

    /// Whether it holds no point.
    pub fn is_empty(&self) -> bool {
        self.0.iter().any(|i| i.is_empty())
    }

    /// What both contain, or `None` when that is empty.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let both = Self(self.0.iter().zip(&other.0).map(|(a, b)| a.intersect(*b)).collect());
        (!both.is_empty()).then_some(both)
    }

    /// Volume of the intersection, without building it.
    pub fn overlap(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).map(|(a, b)| a.intersect(*b).len()).product()
    }

    /// Whether every point of `other` is inside.
    pub fn contains(&self, other: &Self) -> bool {
        other.is_empty() || self.0.iter().zip(&other.0).all(|(a, b)| a.contains(*b))
    }

    /// What is left of `self` without `hole`, as disjoint boxes in a fixed order.
    pub fn subtract(&self, hole: &Self) -> Vec<Self> {
        if self.is_empty() {
            return Vec::new();
        }
        let Some(hole) = self.intersect(hole) else { return vec![self.clone()] };
        let mut rest = Vec::new();
        let mut core = self.clone();
        for axis in 0..self.rank() {
            let (own, cut) = (core.0[axis], hole.0[axis]);
            for side in [Interval::new(own.lo, cut.lo), Interval::new(cut.hi, own.hi)] {
                if !side.is_empty() {
                    let mut part = core.clone();
                    part.0[axis] = side;
                    rest.push(part);
                }
            }
            core.0[axis] = cut;
        }
        rest
    }

    /// The box that the two are together, if they differ on one axis only and touch there.
    pub fn joined(&self, other: &Self) -> Option<Self> {
        let mut differing = (0..self.rank()).filter(|&a| self.0[a] != other.0[a]);
        let axis = differing.next()?;
        let (one, two) = (self.0[axis], other.0[axis]);
        if differing.next().is_some() || (one.hi != two.lo && two.hi != one.lo) {
            return None;
        }
        let mut both = self.clone();
        both.0[axis] = Interval::new(one.lo.min(two.lo), one.hi.max(two.hi));
        Some(both)
    }

    /// The two parts of `self` below and from `at` on `axis`.
    pub fn split(&self, axis: usize, at: usize) -> (Self, Self) {
        let (mut low, mut high) = (self.clone(), self.clone());
        low.0[axis].hi = at;
        high.0[axis].lo = at;
        (low, high)
    }

    /// The region with the intervals of `axes`, in that order.
    pub fn project(&self, axes: &[usize]) -> Self {
        Self(axes.iter().map(|&a| self.0[a]).collect())
    }

    /// The offsets of every axis.
    pub fn origin(&self) -> Vec<usize> {
        self.0.iter().map(|i| i.lo).collect()
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (n, i) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(f, "{comma}{}:{}", i.lo, i.hi)?;
        }
        f.write_str("]")
    }
}

/// Row-major strides, in elements, of a shape.
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Where a point lies among the elements of a region, by its intervals, stored with these strides.
pub fn offset(point: &[usize], region: &[Interval], strides: &[usize]) -> usize {
    point.iter().zip(region).zip(strides).map(|((p, i), stride)| (p - i.lo) * stride).sum()
}

/// The points of a region in row-major order.
pub fn points(region: &Region) -> impl Iterator<Item = Vec<usize>> + use<> {
    let (origin, shape) = (region.origin(), region.shape());
    (0..region.volume()).map(move |mut n| {
        let mut point = origin.clone();
        for (index, &extent) in point.iter_mut().zip(&shape).rev() {
            *index += n % extent;
            n /= extent;
        }
        point
    })
}

/// Whether `boxes` are disjoint, lie inside `whole` and together fill it.
pub fn tiles(boxes: &[Region], whole: &Region) -> bool {
    let filled: usize = boxes.iter().map(Region::volume).sum();
    filled == whole.volume()
        && boxes.iter().all(|b| whole.contains(b))
        && boxes.iter().enumerate().all(|(n, a)| boxes[..n].iter().all(|b| a.overlap(b) == 0))
}
