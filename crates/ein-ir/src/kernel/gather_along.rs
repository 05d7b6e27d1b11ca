//! Elements of a tensor, each by an index along one axis.

use super::gather::nameless;
use super::{Definition, Setting, Settings, Signature};
use crate::dtype::DType;
use crate::graph::TensorType;
use crate::monoid::Monoid;
use crate::reference::{Column, EvalError, Operand, checked_id};
use crate::region::{Region, offset, points, strides};
use crate::scalar::Scalar;
use crate::spec::{OperandSpec, Role, Spec, Work, affine, label};

/// `out[i…] = x[i…]` with the index along `axis` replaced by `ids[i…]`: `torch.gather`.
///
/// Operands: x, ids (`i64` or `i32`), as many axes as x and, but for `axis`, nowhere longer. Labels in order: the axes
/// of the ids | v, the axis of x that they index. An id outside the axis is an error, whatever the decomposition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GatherAlong {
    /// Shape of x.
    pub table: Vec<usize>,
    /// The axis that the ids index.
    pub axis: usize,
    /// Shape of the ids and the result.
    pub ids: Vec<usize>,
    /// Type of x and the result.
    pub dtype: DType,
}

impl Definition for GatherAlong {
    const NAME: &'static str = "gather_along";

    fn read(operands: &[&TensorType], settings: &mut Settings) -> Result<Self, String> {
        let axis = settings.size("axis")?.unwrap_or(0);
        let &[table, ids] = operands else {
            return Err(format!("gather_along takes a tensor and ids, not {} tensors", operands.len()));
        };
        Ok(Self { table: table.shape.clone(), axis, ids: ids.shape.clone(), dtype: table.dtype })
    }

    fn settings(&self) -> Vec<(&'static str, Setting)> {
        Setting::axis(self.axis).into_iter().collect()
    }

    fn fault(&self) -> Option<String> {
        along_fault(Self::NAME, self.axis, &self.table, &self.ids)
            .or_else(|| nameless(Self::NAME, self.axis, self.table[self.axis], &self.ids))
    }

    fn signature(&self) -> Signature {
        let operands = vec![(vec![self.dtype], self.table.clone()), (vec![DType::I64, DType::I32], self.ids.clone())];
        Signature { operands, result: TensorType::new(self.dtype, self.ids.clone()) }
    }

    fn spec(&self) -> Spec {
        let rank = self.ids.len();
        let mut labels: Vec<_> =
            self.ids.iter().enumerate().map(|(n, &extent)| label(&format!("n{n}"), extent, Role::Free)).collect();
        labels.push(label("v", self.table[self.axis], Role::Fold));
        let mut table: Vec<usize> = (0..rank).collect();
        let ids = affine(&table);
        table[self.axis] = rank;
        Spec {
            labels,
            rank,
            operands: vec![
                OperandSpec { axes: affine(&table), by_index: true },
                OperandSpec { axes: ids, by_index: false },
            ],
            monoid: Monoid::Once,
            stacked: None,
            dtype: self.dtype,
            work: Work::of_points(1, vec![rank], self.dtype),
            operand_dtypes: Vec::new(),
        }
    }

    /// What the block's part of the axis holds; nothing for ids that another part answers.
    fn block(&self, labels: &Region, operands: &[Option<Operand>], idle: bool) -> Result<Vec<Column>, EvalError> {
        let rank = self.ids.len();
        let out = Region(labels.0[..rank].to_vec());
        let mut column = Column::full(Scalar::I(0).cast(self.dtype), out.volume());
        if idle {
            return Ok(vec![column]);
        }
        let given: Vec<&Operand> = operands.iter().flatten().collect();
        let (table, ids) = (given[0], given[1]);
        let rows = labels.0[rank];
        let steps = strides(&table.region.shape());
        for (n, mut point) in points(&out).enumerate() {
            let id = checked_id(ids, &point, Self::NAME, self.table[self.axis])?;
            if id < rows.lo || id >= rows.hi {
                continue;
            }
            point[self.axis] = id;
            let at = offset(&point, &table.region.0, &steps);
            column.set(n, table.data.scalar(at));
        }
        Ok(vec![column])
    }
}

/// What is wrong with ids of a shape along an axis of a tensor.
pub(super) fn along_fault(operation: &str, axis: usize, whole: &[usize], ids: &[usize]) -> Option<String> {
    if axis >= whole.len() {
        return Some(format!("{operation} axis {axis} of a tensor of {} axes; it must be one of them", whole.len()));
    }
    let longer = (0..whole.len()).find(|&n| n != axis && ids.get(n).is_some_and(|&i| i > whole[n]));
    match longer {
        _ if ids.len() != whole.len() => {
            Some(format!("{operation}: ids of shape {ids:?} have not as many axes as {whole:?}"))
        }
        Some(n) => Some(format!(
            "{operation}: ids of shape {ids:?} are longer than {whole:?} on axis {n}; only axis {axis} may be longer"
        )),
        None => None,
    }
}
