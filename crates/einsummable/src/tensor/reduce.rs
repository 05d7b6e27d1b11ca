//! Reductions: einsums of one operand with folded labels.

use super::map::{letters, map};
use super::{Tensor, TensorError};
use crate::expression::ending;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum};
use ein_ir::expr::{Binary, Expr, ExprError, RowId};
use ein_ir::monoid::Monoid;

/// Folds `axes` (sorted) of one tensor, after applying `f` to every element. Axes that are kept come first
/// in the label list.
pub(crate) fn fold(
    method: &'static str,
    x: &Tensor,
    axes: &[usize],
    monoid: Monoid,
    dtype: DType,
    f: impl FnOnce(&mut Expr, RowId) -> Result<RowId, ExprError>,
) -> Result<Tensor, TensorError> {
    let shape = &x.ty()?.shape;
    let needs_element = matches!(monoid, Monoid::Max | Monoid::Min | Monoid::Moments | Monoid::SoftMax);
    if needs_element && let Some(&axis) = axes.iter().find(|&&a| shape[a] == 0) {
        return Err(
            x.shape_error(method, format!("axis {axis} is 0 long, and {} of nothing has no value", monoid.name()))
        );
    }
    let kept: Vec<usize> = (0..shape.len()).filter(|a| !axes.contains(a)).collect();
    let order: Vec<usize> = kept.iter().chain(axes).copied().collect();
    let names = letters(shape);
    let labels = order.iter().map(|&a| names[a].clone()).collect();
    let label_of = |axis: usize| order.iter().position(|&a| a == axis).expect("every axis is a label");
    let access = Access { axes: (0..shape.len()).map(|a| Affine::label(label_of(a))).collect() };
    let mut e = Expr::new();
    let row = e.push_operand(0, x.dtype());
    let value = f(&mut e, row).map_err(|source| TensorError::Expr { operation: method, source })?;
    let join = ending(&e, value);
    let einsum = Einsum { labels, rank: kept.len(), accesses: vec![access], join, monoid, dtype };
    Ok(Tensor::row_einsum(method, einsum, &[x]))
}

/// Puts back the folded axes with extent 1.
pub(crate) fn keep(result: Tensor, shape: &[usize], axes: &[usize], keepdim: bool) -> Tensor {
    if !keepdim || axes.is_empty() {
        return result;
    }
    let kept: Vec<i64> = shape.iter().enumerate().map(|(a, &n)| if axes.contains(&a) { 1 } else { n as i64 }).collect();
    result.reshape(&kept)
}

impl Tensor {
    fn reduce(&self, method: &'static str, monoid: Monoid, axes: &[i64], keepdim: bool) -> Tensor {
        Tensor::attempt(|| {
            let dtype = self.ty()?.dtype;
            let axes = self.axes(method, axes)?;
            // Sums and products of bools and integers are i64, as in PyTorch; the largest of bools is any.
            let result = match monoid {
                Monoid::Sum | Monoid::Prod if !dtype.is_float() => DType::I64,
                _ => dtype,
            };
            if axes.is_empty() {
                return Ok(self.to(result));
            }
            let folded = fold(method, self, &axes, monoid, result, |e, x| Ok(e.cast(x, result)))?;
            Ok(keep(folded, self.shape(), &axes, keepdim))
        })
    }

    /// The sum over some axes, all of them when none is named. Integers and bools give `I64`.
    pub fn sum(&self, axes: &[i64], keepdim: bool) -> Tensor {
        self.reduce("sum", Monoid::Sum, axes, keepdim)
    }

    /// The product over some axes.
    pub fn prod(&self, axes: &[i64], keepdim: bool) -> Tensor {
        self.reduce("prod", Monoid::Prod, axes, keepdim)
    }

    /// The largest over some axes.
    pub fn amax(&self, axes: &[i64], keepdim: bool) -> Tensor {
        self.reduce("amax", Monoid::Max, axes, keepdim)
    }

    /// The smallest over some axes.
    pub fn amin(&self, axes: &[i64], keepdim: bool) -> Tensor {
        self.reduce("amin", Monoid::Min, axes, keepdim)
    }

    /// The mean over some axes: a sum, then a division, so that uneven parts never average averages.
    pub fn mean(&self, axes: &[i64], keepdim: bool) -> Tensor {
        Tensor::attempt(|| {
            let dtype = self.ty()?.dtype;
            if !dtype.is_float() {
                return Err(self.type_error("mean", "the mean of integers is no integer; convert with `.to` first"));
            }
            let axes = self.axes("mean", axes)?;
            let count: usize = axes.iter().map(|&a| self.shape()[a]).product();
            let wide = dtype.accumulator();
            let sum = if axes.is_empty() {
                self.to(wide)
            } else {
                fold("sum", self, &axes, Monoid::Sum, wide, |e, x| Ok(e.cast(x, wide)))?
            };
            let mean = map("mean", &[&sum], |e, r| {
                let n = e.float(count as f64, wide);
                let mean = e.binary(Binary::Div, r[0], n)?;
                Ok(e.cast(mean, dtype))
            })?;
            Ok(keep(mean, self.shape(), &axes, keepdim))
        })
    }

    /// The variance over some axes, divided by the count less `correction` (1 is `PyTorch`'s default).
    pub fn var(&self, axes: &[i64], correction: f64, keepdim: bool) -> Tensor {
        Tensor::attempt(|| {
            let dtype = self.ty()?.dtype;
            if !dtype.is_float() {
                return Err(self.type_error("var", "needs floats; convert with `.to` first"));
            }
            let axes = self.axes("var", axes)?;
            let count: usize = axes.iter().map(|&a| self.shape()[a]).product();
            if count == 0 {
                // Of nothing there is no mean either: 0 / 0.
                return Ok(self.mean(&axes.iter().map(|&a| a as i64).collect::<Vec<_>>(), keepdim));
            }
            let moments = moments(self, &axes)?;
            // The biased variance, at index 1 of the last axis, times count / (count - correction).
            let factor = count as f64 / (count as f64 - correction).max(0.0);
            let shape = &moments.shape()[..moments.dim() - 1];
            let var = super::map::map_over("var", shape, vec![stacked(shape.len(), 1)], &[&moments], |e, r| {
                let factor = e.float(factor, dtype.accumulator());
                let var = e.binary(Binary::Mul, r[0], factor)?;
                Ok(e.cast(var, dtype))
            })?;
            Ok(keep(var, self.shape(), &axes, keepdim))
        })
    }

    /// A fold of truths. Of no elements there is no largest, but there is a truth: `nothing`.
    fn truth(&self, method: &'static str, monoid: Monoid, nothing: f64, axes: &[i64], keepdim: bool) -> Tensor {
        Tensor::attempt(|| {
            let shape = &self.ty()?.shape;
            let folded = self.axes(method, axes)?;
            let truth = if folded.iter().all(|&a| shape[a] > 0) {
                self.to(DType::Bool).reduce(method, monoid, axes, keepdim)
            } else {
                let kept: Vec<usize> = (0..shape.len()).filter(|a| !folded.contains(a)).map(|a| shape[a]).collect();
                keep(Tensor::full(&kept, nothing, DType::Bool), shape, &folded, keepdim)
            };
            // PyTorch keeps `u8`, which was its bool once.
            Ok(if self.dtype() == DType::U8 { truth.to(DType::U8) } else { truth })
        })
    }

    /// Whether any element over some axes is not 0: of no elements, none is. A bool, or `U8` of `U8`.
    pub fn any(&self, axes: &[i64], keepdim: bool) -> Tensor {
        self.truth("any", Monoid::Max, 0.0, axes, keepdim)
    }

    /// Whether every element over some axes is not 0: of no elements, all are. A bool, or `U8` of `U8`.
    pub fn all(&self, axes: &[i64], keepdim: bool) -> Tensor {
        self.truth("all", Monoid::Min, 1.0, axes, keepdim)
    }
}

/// Mean and biased variance over `axes`, in a last axis of two, in the accumulator's type.
pub(crate) fn moments(x: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    let wide = x.ty()?.dtype.accumulator();
    fold("moments", x, axes, Monoid::Moments, wide, |e, x| Ok(e.cast(x, wide)))
}

/// The access that reads element `which` of the last axis of a statistics tensor whose other axes are
/// labels `0..rank`.
pub(crate) fn stacked(rank: usize, which: i64) -> Access {
    let mut access = Access::labels(&(0..rank).collect::<Vec<_>>());
    access.axes.push(Affine::constant(which));
    access
}
