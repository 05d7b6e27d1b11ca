//! The last state of a linear recurrence.

use super::recurrence::{each_line, fault, read};
use super::{Definition, Setting, Settings, Signature};
use crate::dtype::DType;
use crate::graph::TensorType;
use crate::monoid::Monoid;
use crate::reference::{Column, EvalError, Operand};
use crate::region::{Interval, Region, offset, strides};
use crate::scalar::Scalar;
use crate::spec::{OperandSpec, Role, Spec, Work, affine, label};
use std::cmp::Ordering;

/// The last of the states `h[t] = a[t] * h[t - 1] + b[t]` along one axis, which the result lacks; `h[0] = b[0]`, and 0
/// where there are none.
///
/// The axis may be cut: a part of it is one map of the state before it, and such maps are folded in the order of the
/// axis ([`Monoid::Affine`]). A state of exactly 0 stays 0 under any factor, were that infinite or NaN: the product of a part's
/// factors overflows where no state does, and must not make NaN of states that are 0. Step by step, a factor that is NaN or
/// infinite would make NaN of such a state; here it does so only of others. Labels in order: the other axes | the axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LastState {
    /// Shape of a and of b.
    pub shape: Vec<usize>,
    /// The axis.
    pub axis: usize,
    /// Type of all; no bool. Integers wrap.
    pub dtype: DType,
}

impl LastState {
    /// The label of every axis of a and b.
    fn labels(&self) -> impl Iterator<Item = usize> {
        let (last, axis) = (self.shape.len() - 1, self.axis);
        (0..=last).map(move |n| match n.cmp(&axis) {
            Ordering::Less => n,
            Ordering::Equal => last,
            Ordering::Greater => n - 1,
        })
    }

    /// The box of a and of b that a block reads: its labels in the order of their axes.
    pub fn operand(&self, labels: &Region) -> impl Iterator<Item = Interval> {
        self.labels().map(|l| labels.0[l])
    }
}

impl Definition for LastState {
    const NAME: &'static str = "last_state";

    fn read(operands: &[&TensorType], settings: &mut Settings) -> Result<Self, String> {
        let (shape, axis, dtype) = read(Self::NAME, operands, settings)?;
        Ok(Self { shape, axis, dtype })
    }

    fn settings(&self) -> Vec<(&'static str, Setting)> {
        Setting::axis(self.axis).into_iter().collect()
    }

    fn fault(&self) -> Option<String> {
        fault(Self::NAME, &self.shape, self.axis, self.dtype)
    }

    fn signature(&self) -> Signature {
        let operand = (vec![self.dtype], self.shape.clone());
        let mut shape = self.shape.clone();
        shape.remove(self.axis);
        Signature { operands: vec![operand.clone(), operand], result: TensorType::new(self.dtype, shape) }
    }

    fn spec(&self) -> Spec {
        let mut labels = Vec::with_capacity(self.shape.len());
        for (n, &extent) in self.shape.iter().enumerate().filter(|(n, _)| *n != self.axis) {
            labels.push(label(&format!("n{n}"), extent, Role::Free));
        }
        labels.push(label("t", self.shape[self.axis], Role::Fold));
        let operand = OperandSpec { axes: affine(&self.labels().collect::<Vec<_>>()), by_index: false };
        Spec {
            rank: labels.len() - 1,
            labels,
            operands: vec![operand.clone(), operand],
            monoid: Monoid::Affine,
            stacked: None,
            dtype: self.dtype,
            work: Work::of_points(3, vec![], self.dtype),
            operand_dtypes: Vec::new(),
        }
    }

    fn block(&self, labels: &Region, operands: &[Option<Operand>], idle: bool) -> Result<Vec<Column>, EvalError> {
        let rows = Region(labels.0[..labels.rank() - 1].to_vec());
        let mut scales = Column::full(Scalar::I(1).cast(self.dtype), rows.volume());
        let mut shifts = Column::full(Scalar::I(0).cast(self.dtype), rows.volume());
        if !idle {
            let part = Region(self.operand(labels).collect());
            let to = strides(&rows.shape());
            each_line(self.dtype, self.axis, &part, operands, |line, _, (scale, shift)| {
                let mut row = line.to_vec();
                row.remove(self.axis);
                let at = offset(&row, &rows.0, &to);
                scales.set(at, scale);
                shifts.set(at, shift);
            });
        }
        Ok(vec![scales, shifts])
    }
}
