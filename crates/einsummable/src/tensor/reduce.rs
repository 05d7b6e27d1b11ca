//! Reductions: einsums of one operand with folded labels.

use super::formula::{Formula, Value};
use super::map::{Kind, letters, map, pointwise, written};
use super::{Operand, Tensor, TensorError};
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

/// The fold over some axes (sorted) of a space of several operands, written as a formula of one row per operand and
/// of the indices of the space's axes. An operand names the axis of the space that each of its own is; where it is 1
/// long and the space is not, it is repeated.
pub(crate) fn folded(
    method: &'static str,
    space: &[usize],
    axes: &[usize],
    operands: &[(&Tensor, Vec<usize>)],
    (monoid, dtype): (Monoid, DType),
    f: impl for<'f> FnOnce(&[Value<'f>], &dyn Fn(usize) -> Value<'f>) -> Value<'f>,
) -> Result<Tensor, TensorError> {
    let order: Vec<usize> = (0..space.len()).filter(|a| !axes.contains(a)).chain(axes.iter().copied()).collect();
    let label = |axis: usize| order.iter().position(|&a| a == axis).expect("every axis is a label");
    let index = |(&axis, &extent): (&usize, &usize)| {
        if extent == 1 && space[axis] != 1 { Affine::constant(0) } else { Affine::label(label(axis)) }
    };
    let accesses = operands.iter().map(|(t, own)| Access { axes: own.iter().zip(t.shape()).map(index).collect() });
    let accesses = accesses.collect();
    let formula = Formula::default();
    let value = {
        let rows: Vec<Value<'_>> =
            operands.iter().enumerate().map(|(n, (t, _))| formula.operand(n, t.dtype())).collect();
        f(&rows, &|axis| formula.index(label(axis))).row()
    };
    let e = formula.expr().map_err(|source| TensorError::Expr { operation: method, source })?;
    let join = ending(&e, value);
    let names = letters(space);
    let labels = order.iter().map(|&a| names[a].clone()).collect();
    let einsum = Einsum { labels, rank: space.len() - axes.len(), accesses, join, monoid, dtype };
    Ok(Tensor::row_einsum(method, einsum, &operands.iter().map(|o| o.0).collect::<Vec<_>>()))
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

    /// Mean and variance, each after its own formula of the statistic at the end, over some axes.
    fn spread(
        &self,
        method: &'static str,
        axes: &[i64],
        correction: f64,
        keepdim: bool,
        root: bool,
    ) -> Result<[Tensor; 2], TensorError> {
        let dtype = self.ty()?.dtype;
        if !dtype.is_float() {
            return Err(self.type_error(method, "needs floats; convert with `.to` first"));
        }
        let axes = self.axes(method, axes)?;
        let count: usize = axes.iter().map(|&a| self.shape()[a]).product();
        if count == 0 {
            // Of nothing there is no mean either: 0 / 0.
            let mean = self.mean(&axes.iter().map(|&a| a as i64).collect::<Vec<_>>(), keepdim);
            return Ok([mean.clone(), mean]);
        }
        let moments = moments(self, &axes)?;
        // The biased variance, at index 1 of the last axis, times count / (count - correction).
        let factor = count as f64 / (count as f64 - correction).max(0.0);
        let shape = &moments.shape()[..moments.dim() - 1];
        let of = |which: usize| {
            let access = vec![stacked(shape.len(), which as i64)];
            let value = written(method, shape, access, &[&moments], |_, m| {
                let value = if which == 1 { m[0] * factor } else { m[0] };
                (if which == 1 && root { value.sqrt() } else { value }).cast(dtype)
            })?;
            Ok::<_, TensorError>(keep(value, self.shape(), &axes, keepdim))
        };
        Ok([of(0)?, of(1)?])
    }

    /// The variance over some axes, divided by the count less `correction` (1 is `PyTorch`'s default).
    pub fn var(&self, axes: &[i64], correction: f64, keepdim: bool) -> Tensor {
        Tensor::attempt(|| self.spread("var", axes, correction, keepdim, false).map(|[_, var]| var))
    }

    /// The standard deviation over some axes: the root of [`Tensor::var`].
    pub fn std(&self, axes: &[i64], correction: f64, keepdim: bool) -> Tensor {
        Tensor::attempt(|| self.spread("std", axes, correction, keepdim, true).map(|[_, std]| std))
    }

    /// [`Tensor::var`] and [`Tensor::mean`], of one pass.
    pub fn var_mean(&self, axes: &[i64], correction: f64, keepdim: bool) -> (Tensor, Tensor) {
        pair(self.spread("var_mean", axes, correction, keepdim, false).map(|[mean, var]| (var, mean)))
    }

    /// [`Tensor::std`] and [`Tensor::mean`], of one pass.
    pub fn std_mean(&self, axes: &[i64], correction: f64, keepdim: bool) -> (Tensor, Tensor) {
        pair(self.spread("std_mean", axes, correction, keepdim, true).map(|[mean, std]| (std, mean)))
    }

    /// [`Tensor::amin`] and [`Tensor::amax`].
    pub fn aminmax(&self, axes: &[i64], keepdim: bool) -> (Tensor, Tensor) {
        (self.amin(axes, keepdim), self.amax(axes, keepdim))
    }

    /// The sum of what is no NaN.
    pub fn nansum(&self, axes: &[i64], keepdim: bool) -> Tensor {
        self.without_nan("nansum", |x| x.sum(axes, keepdim))
    }

    /// The mean of what is no NaN, which is a NaN where all are.
    pub fn nanmean(&self, axes: &[i64], keepdim: bool) -> Tensor {
        Tensor::attempt(|| {
            let dtype = self.ty()?.dtype;
            if !dtype.is_float() {
                return Err(self.type_error("nanmean", "needs floats; convert with `.to` first"));
            }
            // The count is exact, and the sum is rounded once.
            let wide = dtype.accumulator();
            let count = self.isnan().logical_not().sum(axes, keepdim);
            let sum = self.to(wide).nansum(axes, keepdim);
            Ok(pointwise("nanmean", Kind::Floats, [&sum.into(), &count.into()], |[s, n]| s / n).to(dtype))
        })
    }

    fn without_nan(&self, method: &'static str, f: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
        if self.check().is_err() || !self.dtype().is_float() {
            return f(self);
        }
        let own: Operand = self.into();
        f(&pointwise(method, Kind::Floats, [&own], |[x]| x.is_nan().select(x.number(0.0), x)))
    }

    /// How many are not 0, as `I64`. A NaN is not.
    pub fn count_nonzero(&self, axes: &[i64]) -> Tensor {
        self.to(DType::Bool).sum(axes, false)
    }

    /// The `p`-norm over some axes: `torch.linalg.vector_norm(self, p, axes, keepdim)`. `p` may be infinite, of either
    /// sign: then it is the largest or smallest magnitude; at 0 it is the number of elements that are not 0.
    pub fn norm(&self, p: f64, axes: &[i64], keepdim: bool) -> Tensor {
        Tensor::attempt(|| {
            let dtype = self.ty()?.dtype;
            if !dtype.is_float() {
                return Err(self.type_error("norm", "needs floats; convert with `.to` first"));
            }
            if p.is_nan() {
                return Err(self.shape_error("norm", "p is no number".into()));
            }
            let axes = self.axes("norm", axes)?;
            let shape = self.shape();
            if (p < 0.0 || p.is_infinite())
                && let Some(&axis) = axes.iter().find(|&&a| shape[a] == 0)
            {
                let reason = format!("axis {axis} is 0 long, and of nothing the {p}-norm has no value");
                return Err(self.shape_error("norm", reason));
            }
            let wide = dtype.accumulator();
            let monoid = match p {
                f64::INFINITY => Monoid::Max,
                f64::NEG_INFINITY => Monoid::Min,
                _ => Monoid::Sum,
            };
            let operands = [(self, (0..shape.len()).collect())];
            let sum = if axes.is_empty() {
                pointwise("norm", Kind::Floats, [&self.to(wide).into()], |[x]| power(x, p))
            } else {
                folded("norm", shape, &axes, &operands, (monoid, wide), |x, _| power(x[0].cast(wide), p))?
            };
            let norm = pointwise("norm", Kind::Floats, [&sum.into()], |[sum]| root(sum, p)).to(dtype);
            Ok(keep(norm, shape, &axes, keepdim))
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

/// What the `p`-norm adds up, or takes the largest or smallest of.
pub(crate) fn power(x: Value<'_>, p: f64) -> Value<'_> {
    match p {
        0.0 => x.ne(0.0).cast(x.dtype()),
        1.0 | f64::INFINITY | f64::NEG_INFINITY => x.abs(),
        2.0 => x * x,
        _ => x.abs().pow(p),
    }
}

/// The `p`-norm from what [`power`] gave, folded.
pub(crate) fn root(sum: Value<'_>, p: f64) -> Value<'_> {
    match p {
        0.0 | 1.0 | f64::INFINITY | f64::NEG_INFINITY => sum,
        2.0 => sum.sqrt(),
        _ => sum.pow(1.0 / p),
    }
}

/// Two tensors, or twice the error.
fn pair(made: Result<(Tensor, Tensor), TensorError>) -> (Tensor, Tensor) {
    made.unwrap_or_else(|error| (Tensor::poisoned(error.clone()), Tensor::poisoned(error)))
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
