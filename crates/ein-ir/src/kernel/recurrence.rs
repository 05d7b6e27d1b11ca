//! Linear recurrences along an axis.

use super::{Definition, Setting, Settings, Signature};
use crate::dtype::DType;
use crate::graph::TensorType;
use crate::monoid::Monoid;
use crate::reference::{Column, EvalError, Operand, next_state, plain};
use crate::region::{Region, offset, points, strides};
use crate::scalar::Scalar;
use crate::spec::{OperandSpec, Role, Spec, Work, affine, label};

/// `h[t] = a[t] * h[t - 1] + b[t]` along one axis, `h[0] = b[0]`: every state of a linear recurrence that starts
/// from 0. A state of exactly 0 stays 0 under any factor, were that infinite or NaN.
///
/// The axis is whole in every block: a long axis is cut by taking it apart into two, of which one is recurred along and
/// the other carries (`Tensor::linear_recurrence` does). Labels in order: the axes of a.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recurrence {
    /// Shape of a, of b and of the result.
    pub shape: Vec<usize>,
    /// The axis.
    pub axis: usize,
    /// Type of all three; no bool. Integers wrap.
    pub dtype: DType,
}

impl Definition for Recurrence {
    const NAME: &'static str = "recurrence";

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
        Signature { operands: vec![operand.clone(), operand], result: TensorType::new(self.dtype, self.shape.clone()) }
    }

    fn spec(&self) -> Spec {
        let role = |n: usize| if n == self.axis { Role::Whole } else { Role::Free };
        let labels = self.shape.iter().enumerate().map(|(n, &extent)| label(&format!("n{n}"), extent, role(n)));
        let operand = OperandSpec { axes: affine(&(0..self.shape.len()).collect::<Vec<_>>()), by_index: false };
        Spec {
            labels: labels.collect(),
            rank: self.shape.len(),
            operands: vec![operand.clone(), operand],
            monoid: Monoid::Sum,
            stacked: None,
            dtype: self.dtype,
            work: Work::of_points(2, vec![], self.dtype),
            operand_dtypes: Vec::new(),
        }
    }

    fn block(&self, labels: &Region, operands: &[Option<Operand>], idle: bool) -> Result<Vec<Column>, EvalError> {
        let mut states = Column::full(Scalar::I(0).cast(self.dtype), labels.volume());
        if idle {
            return Ok(vec![states]);
        }
        let to = strides(&labels.shape());
        each_line(self.dtype, self.axis, labels, operands, |line, place, state| {
            states.set(offset(line, &labels.0, &to) + place * to[self.axis], state.1);
        });
        Ok(vec![states])
    }
}

/// What a recurrence is written with: the shape, the axis and the type.
pub(super) fn read(
    name: &str,
    operands: &[&TensorType],
    settings: &mut Settings,
) -> Result<(Vec<usize>, usize, DType), String> {
    let axis = settings.size("axis")?.unwrap_or(0);
    let &[a, _] = operands else { return Err(format!("{name} takes two tensors, not {}", operands.len())) };
    Ok((a.shape.clone(), axis, a.dtype))
}

/// What is wrong with a recurrence.
pub(super) fn fault(name: &str, shape: &[usize], axis: usize, dtype: DType) -> Option<String> {
    if axis >= shape.len() {
        let rank = shape.len();
        return Some(format!("{name} along axis {axis} of tensors of {rank} axes; it must be one of them"));
    }
    (dtype == DType::Bool).then(|| format!("{name} of bool: cast to a number type"))
}

/// Goes along every line of a box of a and b; `found` is told where the line starts, how far along it is, and the
/// map of all elements so far: by what an earlier state is scaled, and what is added to it. Floats in `f64`.
pub(super) fn each_line(
    dtype: DType,
    axis: usize,
    part: &Region,
    operands: &[Option<Operand>],
    mut found: impl FnMut(&[usize], usize, (Scalar, Scalar)),
) {
    let [a, b] = [0, 1].map(|n| operands[n].as_ref().expect("the operand of a block that reads"));
    let steps = [a, b].map(|x| strides(&x.region.shape()));
    let mut starts = part.clone();
    starts.0[axis].hi = starts.0[axis].hi.min(starts.0[axis].lo + 1);
    for line in points(&starts) {
        let at =
            |n: usize, x: &Operand, i: usize| x.data.scalar(offset(&line, &x.region.0, &steps[n]) + i * steps[n][axis]);
        let mut state = None;
        for i in 0..part.0[axis].len() {
            let (scale, shift) = (at(0, a, i), at(1, b, i));
            let next = match state {
                None => (scale, shift),
                Some((s, t)) => (plain(Monoid::Prod, scale, s, dtype), next_state(scale, t, shift, dtype)),
            };
            state = Some(next);
            found(&line, i, next);
        }
    }
}
