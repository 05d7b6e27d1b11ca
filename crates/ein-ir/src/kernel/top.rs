//! The first elements along the last axis in sorted order.

use super::{Definition, Setting, Settings, Signature};
use crate::dtype::DType;
use crate::graph::TensorType;
use crate::monoid::{Monoid, Top};
use crate::reference::{Column, EvalError, Operand};
use crate::region::{Interval, Region, offset, points, strides};
use crate::scalar::Scalar;
use crate::spec::{OperandSpec, Role, Spec, Work, affine, label};

/// `out[a…, 0..k]`: the `k` largest or smallest elements of `x[a…, n]`, in order; or their indices along n.
///
/// Sorting is `k = n`, the place of the largest `k = 1`. NaN is larger than anything; of equal elements the one of the
/// lower index comes first. Labels in order: a… | n; k is an axis of the result that is never cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopK {
    /// Shape of x.
    pub shape: Vec<usize>,
    /// How many elements, which of them, and whether their indices are given.
    pub top: Top,
}

impl Definition for TopK {
    const NAME: &'static str = "top";

    fn read(operands: &[&TensorType], settings: &mut Settings) -> Result<Self, String> {
        let k = settings.size("k")?.ok_or("top needs the number of elements: `k 3`")?;
        let largest = settings.one_of(&["largest", "smallest"])? == 0;
        let indices = settings.one_of(&["values", "indices"])? == 1;
        let &[x] = operands else { return Err(format!("top takes one tensor, not {}", operands.len())) };
        Ok(Self { shape: x.shape.clone(), top: Top { k, largest, indices, of: x.dtype } })
    }

    fn settings(&self) -> Vec<(&'static str, Setting)> {
        let mut settings = vec![("k", Setting::Size(self.top.k))];
        if !self.top.largest {
            settings.push(("smallest", Setting::Flag));
        }
        if self.top.indices {
            settings.push(("indices", Setting::Flag));
        }
        settings
    }

    fn fault(&self) -> Option<String> {
        let Some(&n) = self.shape.last() else {
            return Some("top of a scalar: there is no axis to sort along".into());
        };
        let k = self.top.k;
        (k > n).then(|| format!("top {k} of a last axis of {n}: there are not so many elements; k is at most {n}"))
    }

    fn signature(&self) -> Signature {
        let mut shape = self.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = self.top.k;
        }
        let dtype = if self.top.indices { DType::I64 } else { self.top.of };
        Signature { operands: vec![(vec![self.top.of], self.shape.clone())], result: TensorType::new(dtype, shape) }
    }

    fn spec(&self) -> Spec {
        let rank = self.shape.len() - 1;
        let labels = self.shape.iter().enumerate().map(|(n, &extent)| {
            if n == rank { label("n", extent, Role::Fold) } else { label(&format!("a{n}"), extent, Role::Free) }
        });
        Spec {
            labels: labels.collect(),
            rank,
            operands: vec![OperandSpec { axes: affine(&(0..=rank).collect::<Vec<_>>()), by_index: false }],
            monoid: Monoid::Top(self.top),
            stacked: Some(self.top.k),
            dtype: self.signature().result.dtype,
            // A comparison for every doubling of what is kept.
            work: Work::of_points(1 + self.top.k.max(1).ilog2() as usize, vec![], self.top.of),
            operand_dtypes: Vec::new(),
        }
    }

    /// The first k of the block's part of the axis; where it has fewer, entries that stand for nothing.
    fn block(&self, labels: &Region, operands: &[Option<Operand>], idle: bool) -> Result<Vec<Column>, EvalError> {
        let rank = self.shape.len() - 1;
        let rows = Region(labels.0[..rank].to_vec());
        let k = self.top.k;
        let mut values = Column::full(Scalar::I(0).cast(self.top.of), rows.volume() * k);
        let mut indices = vec![Top::NOTHING; rows.volume() * k];
        if !idle {
            let x = operands[0].as_ref().expect("the operand of a block that reads");
            let steps = strides(&x.region.shape());
            let n: Interval = labels.0[rank];
            for (row, point) in points(&rows).enumerate() {
                let start = offset(&point, &x.region.0, &steps);
                let element = |i: usize| (x.data.scalar(start + i - x.region.0[rank].lo), i as i64);
                let mut all: Vec<(Scalar, i64)> = (n.lo..n.hi).map(element).collect();
                all.sort_by(|a, b| self.top.order(*a, *b));
                for (slot, (value, index)) in all.into_iter().take(k).enumerate() {
                    values.set(row * k + slot, value);
                    indices[row * k + slot] = index;
                }
            }
        }
        Ok(vec![values, Column::I(indices)])
    }
}
