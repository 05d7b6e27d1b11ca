//! Operands as strided memory: an affine access of a box, seen from the loops over labels.

use crate::error::Cause;
use ein_ir::einsum::Affine;
use ein_ir::region::{Interval, Region};
use smallvec::SmallVec;

/// A list with an entry for each of some axes or loops: of up to eight no memory is asked for while a run goes on.
pub(crate) type Few<T> = SmallVec<[T; 8]>;

/// The shape of a box.
pub(crate) fn shape(region: &[Interval]) -> Few<usize> {
    region.iter().map(|i| i.len()).collect()
}

/// Row-major steps, in elements, of a shape.
pub(crate) fn strides(shape: &[usize]) -> Few<usize> {
    let mut steps = Few::from_elem(1, shape.len());
    for axis in (1..shape.len()).rev() {
        steps[axis - 1] = steps[axis] * shape[axis];
    }
    steps
}

/// Where element `labels` of an operand lies: `base + sum of steps[l] * (labels[l] - lo[l])`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strided {
    pub(crate) base: i64,
    pub(crate) steps: Few<i64>,
}

impl Strided {
    /// An operand read by `axes` over a block of `labels`, stored as the box `piece`.
    pub(crate) fn operand(axes: &[Affine], labels: &Region, piece: &Region) -> Result<Self, Cause> {
        let rank = axes.len();
        if piece.rank() != rank {
            return Err(Cause::malformed(format!("an operand of rank {rank} is stored as {piece}")));
        }
        let mut s = Self { base: 0, steps: Few::from_elem(0, labels.rank()) };
        for (axis, step) in axes.iter().zip(strides(&shape(&piece.0))).enumerate().map(|(n, (a, s))| (n, (a, s as i64)))
        {
            let (index, stride) = step;
            s.base += (index.offset - piece.0[axis].lo as i64) * stride;
            for &(label, scale) in &index.terms {
                s.base += scale * labels.0[label].lo as i64 * stride;
                s.steps[label] += scale * stride;
            }
            let needed = index.interval(labels);
            if !labels.is_empty() && (needed.is_empty() || !piece.0[axis].contains(needed)) {
                let reason = format!("axis {axis} is read at {}:{} but stored as {piece}", needed.lo, needed.hi);
                return Err(Cause::malformed(reason));
            }
        }
        Ok(s)
    }

    /// A result whose axis `n` is label `n` of the first `rank`, stored as a box that holds the block's. (A result that
    /// stacks its fields has one more axis, of which a step is a whole value.)
    pub(crate) fn result(rank: usize, labels: &Region, piece: &Region) -> Result<Self, Cause> {
        let own = &labels.0[..rank];
        if piece.rank() < rank || !own.iter().zip(&piece.0).all(|(own, all)| own.is_empty() || all.contains(*own)) {
            return Err(Cause::malformed(format!("the block {labels} is stored as {piece}")));
        }
        let mut steps: Few<i64> = strides(&shape(&piece.0[..rank])).iter().map(|&s| s as i64).collect();
        let base =
            own.iter().zip(&piece.0).zip(&steps).map(|((own, all), s)| (own.lo as i64 - all.lo as i64) * s).sum();
        steps.resize(labels.rank(), 0);
        Ok(Self { base, steps })
    }

    /// The lowest and highest element reached by loops of these extents, none 0.
    pub(crate) fn reach(&self, extents: &[usize]) -> (i64, i64) {
        let (mut lo, mut hi) = (self.base, self.base);
        for (&step, &extent) in self.steps.iter().zip(extents) {
            let last = step * (extent as i64 - 1);
            lo += last.min(0);
            hi += last.max(0);
        }
        (lo, hi)
    }
}

/// Walks a space of loops in row-major order, last loop fastest.
#[derive(Clone, Debug)]
pub(crate) struct Odometer {
    extents: Few<usize>,
    at: Few<usize>,
}

impl Odometer {
    /// Of so many turns each, outermost first.
    pub(crate) fn new(extents: impl IntoIterator<Item = usize>) -> Self {
        let extents: Few<usize> = extents.into_iter().collect();
        let at = Few::from_elem(0, extents.len());
        Self { extents, at }
    }

    /// The current point.
    pub(crate) fn at(&self) -> &[usize] {
        &self.at
    }

    /// Goes to the point of this number in row-major order.
    pub(crate) fn seek(&mut self, number: usize) {
        let mut rest = number;
        for (at, &extent) in self.at.iter_mut().zip(&self.extents).rev() {
            *at = rest % extent;
            rest /= extent;
        }
    }

    /// Points left in the last loop, the current one included.
    pub(crate) fn left(&self) -> usize {
        self.extents.last().map_or(1, |e| e - self.at.last().copied().unwrap_or(0))
    }

    /// Walks on by `points <= left()`.
    pub(crate) fn skip(&mut self, points: usize) {
        if points == 0 {
            return;
        }
        if let Some(at) = self.at.last_mut() {
            *at += points - 1;
        }
        self.step();
    }

    /// To the next point; `false` after the last, when it begins anew.
    pub(crate) fn step(&mut self) -> bool {
        for (at, &extent) in self.at.iter_mut().zip(&self.extents).rev() {
            *at += 1;
            if *at < extent {
                return true;
            }
            *at = 0;
        }
        false
    }
}

/// `sum of steps * at`.
pub(crate) fn dot(steps: &[i64], at: &[usize]) -> i64 {
    steps.iter().zip(at).map(|(&s, &a)| s * a as i64).sum()
}
