//! Operands as strided memory: an affine access of a box, seen from the loops over labels.

use ein_ir::einsum::Affine;
use ein_ir::region::{Region, strides};
use ein_run::Cause;

/// Where the element of a point of labels lies: `base + sum of steps[l] * (point[l] - labels[l].lo)`, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strided {
    /// Of the first point.
    pub(crate) base: i64,
    /// One for each label.
    pub(crate) steps: Vec<i64>,
}

impl Strided {
    /// An operand read by `axes` over a block of `labels`, stored as the box `stored`, row after row.
    pub(crate) fn operand(axes: &[Affine], labels: &Region, stored: &Region) -> Result<Self, Cause> {
        let steps: Vec<i64> = strides(&stored.shape()).into_iter().map(|s| s as i64).collect();
        Self::stepped(axes, labels, stored, &steps)
    }

    /// An operand read by `axes` over a block of `labels`, stored as the box `stored` whose axes have these steps.
    pub(crate) fn stepped(axes: &[Affine], labels: &Region, stored: &Region, steps: &[i64]) -> Result<Self, Cause> {
        if stored.rank() != axes.len() {
            return Err(Cause::malformed(format!("an operand of rank {} is stored as {stored}", axes.len())));
        }
        let mut s = Self { base: 0, steps: vec![0; labels.rank()] };
        for ((index, &stride), own) in axes.iter().zip(steps).zip(&stored.0) {
            s.base += (index.offset - own.lo as i64) * stride;
            for &(label, scale) in &index.terms {
                s.base += scale * labels.0[label].lo as i64 * stride;
                s.steps[label] += scale * stride;
            }
            let needed = index.interval(labels);
            if !labels.is_empty() && (needed.is_empty() || !own.contains(needed)) {
                let reason = format!("an operand is read at {}:{} but stored as {stored}", needed.lo, needed.hi);
                return Err(Cause::malformed(reason));
            }
        }
        Ok(s)
    }

    /// A result whose axis `n` is label `n` of the first `rank`, stored as a box that holds the block's. Where the result
    /// has one more axis, of fields that are stacked, a step is a whole value.
    pub(crate) fn result(rank: usize, labels: &Region, stored: &Region) -> Result<Self, Cause> {
        let own = &labels.0[..rank];
        if stored.rank() < rank || !own.iter().zip(&stored.0).all(|(own, all)| all.contains(*own)) {
            return Err(Cause::malformed(format!("the block {labels} is stored as {stored}")));
        }
        let shape: Vec<usize> = stored.0[..rank].iter().map(|i| i.len()).collect();
        let mut steps: Vec<i64> = strides(&shape).iter().map(|&s| s as i64).collect();
        let base = own.iter().zip(&stored.0).zip(&steps).map(|((o, all), s)| (o.lo as i64 - all.lo as i64) * s).sum();
        steps.resize(labels.rank(), 0);
        Ok(Self { base, steps })
    }
}
