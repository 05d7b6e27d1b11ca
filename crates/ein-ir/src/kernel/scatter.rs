//! Slices folded into the rows that ids name.

use super::gather::nameless;
use super::{Definition, Setting, Settings, Signature};
use crate::dtype::DType;
use crate::graph::TensorType;
use crate::monoid::Monoid;
use crate::reference::{Column, EvalError, Operand, checked_id, identity, plain};
use crate::region::{Region, offset, points, strides};
use crate::spec::{OperandSpec, Role, Spec, Work, affine, label};

/// The monoids of scatters, in the order of their settings; the first is the default.
pub(super) const FOLDS: [(&str, Monoid); 4] =
    [("sum", Monoid::Sum), ("prod", Monoid::Prod), ("max", Monoid::Max), ("min", Monoid::Min)];

/// `out[a…, v, e…] = fold over the n with ids[n] = v of x[a…, n, e…]`: `index_add` to zeros, the gradient of an
/// embedding. A row that no id names has the monoid's identity.
///
/// Operands: x, ids `[n]` (`i64` or `i32`). Labels in order: a…, v, e… | n. An id outside `0..rows` is an error, whatever
/// the decomposition. Equal ids fold in the order of n.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scatter {
    /// Shape of x.
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

impl Scatter {
    /// Shape of the result.
    pub fn shape(&self) -> Vec<usize> {
        let mut shape = self.source.clone();
        shape[self.axis] = self.rows;
        shape
    }
}

/// The fold that settings name.
pub(super) fn read_fold(settings: &mut Settings) -> Result<Monoid, String> {
    Ok(FOLDS[settings.one_of(&FOLDS.map(|f| f.0))?].1)
}

/// What is wrong with the fold of a scatter.
pub(super) fn fold_fault(operation: &str, monoid: Monoid, dtype: DType) -> Option<String> {
    if !FOLDS.iter().any(|f| f.1 == monoid) {
        return Some(format!("{operation} folds by sum, prod, max or min, not by {monoid}"));
    }
    let adds = matches!(monoid, Monoid::Sum | Monoid::Prod);
    (adds && dtype == DType::Bool).then(|| format!("{operation} {monoid} of bool: use max (any) or min (all), or cast"))
}

/// The settings of a scatter.
pub(super) fn fold_settings(rows: usize, axis: usize, monoid: Monoid) -> Vec<(&'static str, Setting)> {
    let mut settings = vec![("rows", Setting::Size(rows))];
    settings.extend(Setting::axis(axis));
    settings.extend(FOLDS[1..].iter().find(|f| f.1 == monoid).map(|f| (f.0, Setting::Flag)));
    settings
}

impl Definition for Scatter {
    const NAME: &'static str = "scatter";

    fn read(operands: &[&TensorType], settings: &mut Settings) -> Result<Self, String> {
        let axis = settings.size("axis")?.unwrap_or(0);
        let rows = settings.size("rows")?.ok_or("scatter needs the extent of its result: `rows 5`")?;
        let monoid = read_fold(settings)?;
        let &[source, _] = operands else {
            return Err(format!("scatter takes a tensor and ids, not {} tensors", operands.len()));
        };
        Ok(Self { source: source.shape.clone(), axis, rows, monoid, dtype: source.dtype })
    }

    fn settings(&self) -> Vec<(&'static str, Setting)> {
        fold_settings(self.rows, self.axis, self.monoid)
    }

    fn fault(&self) -> Option<String> {
        let (axis, rank) = (self.axis, self.source.len());
        if axis >= rank {
            return Some(format!("scatter along axis {axis} of a tensor of {rank} axes; it must be one of them"));
        }
        fold_fault(Self::NAME, self.monoid, self.dtype).or_else(|| nameless(Self::NAME, axis, self.rows, &self.source))
    }

    fn signature(&self) -> Signature {
        let ids = vec![self.source[self.axis]];
        let operands = vec![(vec![self.dtype], self.source.clone()), (vec![DType::I64, DType::I32], ids)];
        Signature { operands, result: TensorType::new(self.dtype, self.shape()) }
    }

    fn spec(&self) -> Spec {
        let rank = self.source.len();
        let name = |n: usize| match n.cmp(&self.axis) {
            std::cmp::Ordering::Less => format!("a{n}"),
            std::cmp::Ordering::Equal => "v".into(),
            std::cmp::Ordering::Greater => format!("e{}", n - self.axis - 1),
        };
        let mut labels: Vec<_> =
            self.shape().iter().enumerate().map(|(n, &extent)| label(&name(n), extent, Role::Free)).collect();
        labels.push(label("n", self.source[self.axis], Role::Fold));
        let mut source: Vec<usize> = (0..rank).collect();
        source[self.axis] = rank;
        Spec {
            labels,
            rank,
            operands: vec![
                OperandSpec { axes: affine(&source), by_index: false },
                OperandSpec { axes: affine(&[rank]), by_index: false },
            ],
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
        let axis = self.axis;
        scattered.block(labels, operands, idle, |point| &point[axis..=axis])
    }
}

/// What scatters of slices and of single elements have in common.
pub(super) struct Scattered {
    pub operation: &'static str,
    pub axis: usize,
    pub rows: usize,
    pub monoid: Monoid,
    pub dtype: DType,
}

impl Scattered {
    /// Folds the elements of operand 0, in their order, into the rows that operand 1 names; `id` says where, for the
    /// point of an element, its id stands.
    pub(super) fn block(
        &self,
        labels: &Region,
        operands: &[Option<Operand>],
        idle: bool,
        id: impl Fn(&[usize]) -> &[usize],
    ) -> Result<Vec<Column>, EvalError> {
        let rank = labels.rank() - 1;
        let out = Region(labels.0[..rank].to_vec());
        let mut column = Column::full(identity(self.monoid, "value", self.dtype), out.volume());
        if idle {
            return Ok(vec![column]);
        }
        let given: Vec<&Operand> = operands.iter().flatten().collect();
        let (source, ids) = (given[0], given[1]);
        let mut read = out.clone();
        read.0[self.axis] = labels.0[rank];
        let (from, to) = (strides(&source.region.shape()), strides(&out.shape()));
        for mut point in points(&read) {
            let row = checked_id(ids, id(&point), self.operation, self.rows)?;
            if row < out.0[self.axis].lo || row >= out.0[self.axis].hi {
                continue;
            }
            let value = source.data.scalar(offset(&point, &source.region.0, &from));
            point[self.axis] = row;
            let n = offset(&point, &out.0, &to);
            column.set(n, plain(self.monoid, column.get(n), value, self.dtype));
        }
        Ok(vec![column])
    }
}
