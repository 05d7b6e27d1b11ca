//! Elements folded into the places that indices along one axis name.

use super::gather::nameless;
use super::gather_along::along_fault;
use super::scatter::{Scattered, fold_fault, fold_settings, read_fold};
use super::{Definition, Setting, Settings, Signature};
use crate::dtype::DType;
use crate::graph::TensorType;
use crate::monoid::Monoid;
use crate::reference::{Column, EvalError, Operand};
use crate::region::Region;
use crate::spec::{OperandSpec, Role, Spec, Work, affine, label};

/// `out[i…] = fold of the x[j…] whose j is i but for the axis, where ids[j…] = i`: `torch.scatter_reduce` to an identity.
///
/// Operands: x and ids (`i64` or `i32`) of one shape. The result has x's shape but for `rows` along the axis; a place
/// that no id names has the monoid's identity. Labels in order: the axes of the result, v in the axis' place | n, the
/// axis of x. An id outside `0..rows` is an error, whatever the decomposition. Equal ids fold in the order of n.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterAlong {
    /// Shape of x and the ids.
    pub source: Vec<usize>,
    /// The axis n of x, and v of the result.
    pub axis: usize,
    /// Extent of v.
    pub rows: usize,
    /// Sum, product, maximum or minimum.
    pub monoid: Monoid,
    /// Type of x and the result.
    pub dtype: DType,
}

impl Definition for ScatterAlong {
    const NAME: &'static str = "scatter_along";

    fn read(operands: &[&TensorType], settings: &mut Settings) -> Result<Self, String> {
        let axis = settings.size("axis")?.unwrap_or(0);
        let rows = settings.size("rows")?.ok_or("scatter_along needs the extent of its result: `rows 5`")?;
        let monoid = read_fold(settings)?;
        let &[source, _] = operands else {
            return Err(format!("scatter_along takes a tensor and ids, not {} tensors", operands.len()));
        };
        Ok(Self { source: source.shape.clone(), axis, rows, monoid, dtype: source.dtype })
    }

    fn settings(&self) -> Vec<(&'static str, Setting)> {
        fold_settings(self.rows, self.axis, self.monoid)
    }

    fn fault(&self) -> Option<String> {
        along_fault(Self::NAME, self.axis, &self.source, &self.source)
            .or_else(|| fold_fault(Self::NAME, self.monoid, self.dtype))
            .or_else(|| nameless(Self::NAME, self.axis, self.rows, &self.source))
    }

    fn signature(&self) -> Signature {
        let operands =
            vec![(vec![self.dtype], self.source.clone()), (vec![DType::I64, DType::I32], self.source.clone())];
        let mut shape = self.source.clone();
        shape[self.axis] = self.rows;
        Signature { operands, result: TensorType::new(self.dtype, shape) }
    }

    fn spec(&self) -> Spec {
        let rank = self.source.len();
        let mut labels: Vec<_> = self
            .source
            .iter()
            .enumerate()
            .map(|(n, &extent)| {
                if n == self.axis {
                    label("v", self.rows, Role::Free)
                } else {
                    label(&format!("a{n}"), extent, Role::Free)
                }
            })
            .collect();
        labels.push(label("n", self.source[self.axis], Role::Fold));
        let mut source: Vec<usize> = (0..rank).collect();
        source[self.axis] = rank;
        let operand = OperandSpec { axes: affine(&source), by_index: false };
        Spec {
            labels,
            rank,
            operands: vec![operand.clone(), operand],
            monoid: self.monoid,
            stacked: None,
            dtype: self.dtype,
            work: Work::of_points(1, vec![self.axis], self.dtype),
            operand_dtypes: Vec::new(),
        }
    }

    fn block(&self, labels: &Region, operands: &[Option<Operand>], idle: bool) -> Result<Vec<Column>, EvalError> {
        let scattered = Scattered {
            operation: Self::NAME,
            axis: self.axis,
            rows: self.rows,
            monoid: self.monoid,
            dtype: self.dtype,
        };
        scattered.block(labels, operands, idle, |point| point)
    }
}
