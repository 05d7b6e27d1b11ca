//! Slices of a table by their ids.

use super::{Definition, Setting, Settings, Signature};
use crate::dtype::DType;
use crate::graph::TensorType;
use crate::monoid::Monoid;
use crate::reference::{Column, EvalError, Operand, checked_id};
use crate::region::{Region, offset, points, strides};
use crate::scalar::Scalar;
use crate::spec::{OperandSpec, Role, Spec, Work, affine, label};

/// `out[a…, n…, e…] = table[a…, ids[n…], e…]`: an embedding, or the selection of indices along an axis.
///
/// Operands: table, ids (`i64` or `i32`). Labels in order: a…, n…, e… | v, where v is the axis of the table that the
/// ids index. An id outside the axis is an error, whatever the decomposition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    /// Shape of the table.
    pub table: Vec<usize>,
    /// The axis that the ids index.
    pub axis: usize,
    /// Shape of the ids.
    pub ids: Vec<usize>,
    /// Type of the table and the result.
    pub dtype: DType,
}

impl Gather {
    /// Rows of a table with two axes: an embedding.
    pub fn rows(rows: usize, features: usize, ids: &[usize], dtype: DType) -> Self {
        Self { table: vec![rows, features], axis: 0, ids: ids.to_vec(), dtype }
    }

    /// Shape of the result.
    pub fn shape(&self) -> Vec<usize> {
        [&self.table[..self.axis], &self.ids, &self.table[self.axis + 1..]].concat()
    }

    /// The label v.
    pub fn row_label(&self) -> usize {
        self.table.len() - 1 + self.ids.len()
    }

    /// Labels of the table's axes, v in its place.
    fn table_labels(&self) -> Vec<usize> {
        let after = self.axis + self.ids.len();
        (0..self.axis).chain([self.row_label()]).chain(after..self.row_label()).collect()
    }
}

impl Definition for Gather {
    const NAME: &'static str = "gather";

    fn read(operands: &[&TensorType], settings: &mut Settings) -> Result<Self, String> {
        let axis = settings.size("axis")?.unwrap_or(0);
        let &[table, ids] = operands else {
            return Err(format!("gather takes a table and ids, not {} tensors", operands.len()));
        };
        Ok(Self { table: table.shape.clone(), axis, ids: ids.shape.clone(), dtype: table.dtype })
    }

    fn settings(&self) -> Vec<(&'static str, Setting)> {
        Setting::axis(self.axis).into_iter().collect()
    }

    fn fault(&self) -> Option<String> {
        let (axis, rank) = (self.axis, self.table.len());
        if axis >= rank {
            return Some(format!("gather along axis {axis} of a table of {rank} axes; it must be one of them"));
        }
        nameless(Self::NAME, axis, self.table[axis], &self.shape())
    }

    fn signature(&self) -> Signature {
        let operands = vec![(vec![self.dtype], self.table.clone()), (vec![DType::I64, DType::I32], self.ids.clone())];
        Signature { operands, result: TensorType::new(self.dtype, self.shape()) }
    }

    fn spec(&self) -> Spec {
        let (v, ids) = (self.row_label(), self.axis..self.axis + self.ids.len());
        let mut labels: Vec<_> = self
            .shape()
            .iter()
            .enumerate()
            .map(|(n, &extent)| {
                let name = if n < ids.start {
                    format!("a{n}")
                } else if ids.contains(&n) {
                    format!("n{}", n - ids.start)
                } else if v == ids.end + 1 {
                    "e".into()
                } else {
                    format!("e{}", n - ids.end)
                };
                label(&name, extent, Role::Free)
            })
            .collect();
        labels.push(label("v", self.table[self.axis], Role::Fold));
        Spec {
            labels,
            rank: v,
            operands: vec![
                OperandSpec { axes: affine(&self.table_labels()), by_index: true },
                OperandSpec { axes: affine(&ids.collect::<Vec<_>>()), by_index: false },
            ],
            monoid: Monoid::Once,
            stacked: None,
            dtype: self.dtype,
            work: Work::of_points(1, vec![v], self.dtype),
            operand_dtypes: Vec::new(),
        }
    }

    /// What the block's part of the axis holds; nothing for ids that another part answers.
    fn block(&self, labels: &Region, operands: &[Option<Operand>], idle: bool) -> Result<Vec<Column>, EvalError> {
        let out = Region(labels.0[..self.row_label()].to_vec());
        let mut column = Column::full(Scalar::I(0).cast(self.dtype), out.volume());
        if idle {
            return Ok(vec![column]);
        }
        let given: Vec<&Operand> = operands.iter().flatten().collect();
        let (table, ids) = (given[0], given[1]);
        let rows = labels.0[self.row_label()];
        let id_axes = self.axis..self.axis + self.ids.len();
        let steps = strides(&table.region.shape());
        for (n, point) in points(&out).enumerate() {
            let id = checked_id(ids, &point[id_axes.clone()], Self::NAME, self.table[self.axis])?;
            if id < rows.lo || id >= rows.hi {
                continue;
            }
            let index: Vec<usize> = [&point[..self.axis], &[id], &point[id_axes.end..]].concat();
            let at = offset(&index, &table.region.0, &steps);
            column.set(n, table.data.scalar(at));
        }
        Ok(vec![column])
    }
}

/// What is wrong where elements of a shape are asked of, or go to, the `rows` that ids name along an axis: where there
/// are elements but no rows, no id can be right. Nothing would be left to check them, so they are refused beforehand.
pub(super) fn nameless(operation: &str, axis: usize, rows: usize, elements: &[usize]) -> Option<String> {
    (rows == 0 && !elements.contains(&0)).then(|| {
        format!("{operation}: axis {axis} is 0 long, so that no id can name a place on it; there must be no ids either")
    })
}
