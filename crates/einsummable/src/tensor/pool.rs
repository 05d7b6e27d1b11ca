//! Pools: folds over windows of every channel.

use super::conv::Labels;
use super::map::{map, map_over};
use super::window::{PerAxis, Window, spatial_names};
use super::{Tensor, TensorError};
use crate::expression::ending;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum};
use ein_ir::expr::{Binary, Expr, ExprError, Literal, RowId};
use ein_ir::monoid::Monoid;

/// The options of [`Tensor::max_pool2d`] and its relatives, by default `PyTorch`'s: windows side by side, no padding,
/// dilation 1, rounding down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxPoolOptions {
    /// Distance from one window to the next; the kernel size when it is not given.
    pub stride: Option<PerAxis>,
    /// Elements of minus infinity before and after; at most half of the kernel size.
    pub padding: PerAxis,
    /// Distance from one tap of a window to the next.
    pub dilation: PerAxis,
    /// Whether a last window that leaves the padded input at its end is kept, if it begins in it.
    pub ceil_mode: bool,
}

impl Default for MaxPoolOptions {
    fn default() -> Self {
        Self { stride: None, padding: 0.into(), dilation: 1.into(), ceil_mode: false }
    }
}

impl MaxPoolOptions {
    /// `PyTorch`'s defaults.
    pub fn new() -> MaxPoolOptions {
        Self::default()
    }

    /// With this stride.
    pub fn stride(self, stride: impl Into<PerAxis>) -> MaxPoolOptions {
        Self { stride: Some(stride.into()), ..self }
    }

    /// With this padding.
    pub fn padding(self, padding: impl Into<PerAxis>) -> MaxPoolOptions {
        Self { padding: padding.into(), ..self }
    }

    /// With this dilation.
    pub fn dilation(self, dilation: impl Into<PerAxis>) -> MaxPoolOptions {
        Self { dilation: dilation.into(), ..self }
    }

    /// Rounding the number of windows up if `ceil_mode`.
    pub fn ceil_mode(self, ceil_mode: bool) -> MaxPoolOptions {
        Self { ceil_mode, ..self }
    }
}

/// The options of [`Tensor::avg_pool2d`] and its relatives, by default `PyTorch`'s: windows side by side, no padding,
/// rounding down, padding counted, divided by the count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvgPoolOptions {
    /// Distance from one window to the next; the kernel size when it is not given.
    pub stride: Option<PerAxis>,
    /// Zeros before and after; at most half of the kernel size.
    pub padding: PerAxis,
    /// Whether a last window that leaves the padded input at its end is kept, if it begins in it.
    pub ceil_mode: bool,
    /// Whether zeros of the padding count as elements.
    pub count_include_pad: bool,
    /// What sums are divided by in place of the number of elements; not 0.
    pub divisor_override: Option<i64>,
}

impl Default for AvgPoolOptions {
    fn default() -> Self {
        Self { stride: None, padding: 0.into(), ceil_mode: false, count_include_pad: true, divisor_override: None }
    }
}

impl AvgPoolOptions {
    /// `PyTorch`'s defaults.
    pub fn new() -> AvgPoolOptions {
        Self::default()
    }

    /// With this stride.
    pub fn stride(self, stride: impl Into<PerAxis>) -> AvgPoolOptions {
        Self { stride: Some(stride.into()), ..self }
    }

    /// With this padding.
    pub fn padding(self, padding: impl Into<PerAxis>) -> AvgPoolOptions {
        Self { padding: padding.into(), ..self }
    }

    /// Rounding the number of windows up if `ceil_mode`.
    pub fn ceil_mode(self, ceil_mode: bool) -> AvgPoolOptions {
        Self { ceil_mode, ..self }
    }

    /// Counting zeros of the padding if `count_include_pad`.
    pub fn count_include_pad(self, count_include_pad: bool) -> AvgPoolOptions {
        Self { count_include_pad, ..self }
    }

    /// Dividing sums by this number.
    pub fn divisor_override(self, divisor: i64) -> AvgPoolOptions {
        Self { divisor_override: Some(divisor), ..self }
    }
}

/// The options of [`Tensor::lp_pool2d`] and its relatives, by default `PyTorch`'s: windows side by side, rounding down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LpPoolOptions {
    /// Distance from one window to the next; the kernel size when it is not given.
    pub stride: Option<PerAxis>,
    /// Whether a last window that leaves the input is kept. It counts as a full one with the same mean power.
    pub ceil_mode: bool,
}

impl LpPoolOptions {
    /// `PyTorch`'s defaults.
    pub fn new() -> LpPoolOptions {
        Self::default()
    }

    /// With this stride.
    pub fn stride(self, stride: impl Into<PerAxis>) -> LpPoolOptions {
        Self { stride: Some(stride.into()), ..self }
    }

    /// Rounding the number of windows up if `ceil_mode`.
    pub fn ceil_mode(self, ceil_mode: bool) -> LpPoolOptions {
        Self { ceil_mode, ..self }
    }
}

impl Tensor {
    /// `torch.nn.functional.max_pool1d`: the largest of every window of `[n, c, x]` or `[c, x]`; a NaN wins.
    pub fn max_pool1d(&self, kernel_size: impl Into<PerAxis>, options: &MaxPoolOptions) -> Tensor {
        let kernel = kernel_size.into();
        Tensor::attempt(|| max_pool("max_pool1d", 1, self, &kernel, options))
    }

    /// `torch.nn.functional.max_pool2d`: the largest of every window of `[n, c, y, x]` or `[c, y, x]`; a NaN wins.
    pub fn max_pool2d(&self, kernel_size: impl Into<PerAxis>, options: &MaxPoolOptions) -> Tensor {
        let kernel = kernel_size.into();
        Tensor::attempt(|| max_pool("max_pool2d", 2, self, &kernel, options))
    }

    /// `torch.nn.functional.max_pool3d`: the largest of every window of `[n, c, z, y, x]` or `[c, z, y, x]`; a NaN wins.
    pub fn max_pool3d(&self, kernel_size: impl Into<PerAxis>, options: &MaxPoolOptions) -> Tensor {
        let kernel = kernel_size.into();
        Tensor::attempt(|| max_pool("max_pool3d", 3, self, &kernel, options))
    }

    /// `torch.nn.functional.avg_pool1d`: the mean of every window of `[n, c, x]` or `[c, x]`.
    pub fn avg_pool1d(&self, kernel_size: impl Into<PerAxis>, options: &AvgPoolOptions) -> Tensor {
        let kernel = kernel_size.into();
        Tensor::attempt(|| avg_pool("avg_pool1d", 1, self, &kernel, options))
    }

    /// `torch.nn.functional.avg_pool2d`: the mean of every window of `[n, c, y, x]` or `[c, y, x]`.
    pub fn avg_pool2d(&self, kernel_size: impl Into<PerAxis>, options: &AvgPoolOptions) -> Tensor {
        let kernel = kernel_size.into();
        Tensor::attempt(|| avg_pool("avg_pool2d", 2, self, &kernel, options))
    }

    /// `torch.nn.functional.avg_pool3d`: the mean of every window of `[n, c, z, y, x]` or `[c, z, y, x]`.
    pub fn avg_pool3d(&self, kernel_size: impl Into<PerAxis>, options: &AvgPoolOptions) -> Tensor {
        let kernel = kernel_size.into();
        Tensor::attempt(|| avg_pool("avg_pool3d", 3, self, &kernel, options))
    }

    /// `torch.nn.functional.lp_pool1d`: the root of the sum of powers in every window of `[n, c, x]` or `[c, x]`.
    pub fn lp_pool1d(&self, norm_type: f64, kernel_size: impl Into<PerAxis>, options: &LpPoolOptions) -> Tensor {
        let kernel = kernel_size.into();
        Tensor::attempt(|| lp_pool("lp_pool1d", 1, self, norm_type, &kernel, options))
    }

    /// `torch.nn.functional.lp_pool2d`: the root of the sum of powers in every window of `[n, c, y, x]` or `[c, y, x]`.
    pub fn lp_pool2d(&self, norm_type: f64, kernel_size: impl Into<PerAxis>, options: &LpPoolOptions) -> Tensor {
        let kernel = kernel_size.into();
        Tensor::attempt(|| lp_pool("lp_pool2d", 2, self, norm_type, &kernel, options))
    }

    /// `torch.nn.functional.lp_pool3d`: the root of the sum of powers in every window of `[n, c, z, y, x]` or `[c, z, y, x]`.
    pub fn lp_pool3d(&self, norm_type: f64, kernel_size: impl Into<PerAxis>, options: &LpPoolOptions) -> Tensor {
        let kernel = kernel_size.into();
        Tensor::attempt(|| lp_pool("lp_pool3d", 3, self, norm_type, &kernel, options))
    }
}

/// The windows of a pool, and how far they leave the input at its end.
struct Pool {
    windows: Vec<Window>,
    counts: Vec<usize>,
    padding: Vec<usize>,
    /// Elements after the padded input that the last window reads.
    beyond: Vec<usize>,
}

impl Pool {
    fn of(
        operation: &'static str,
        axes: usize,
        x: &Tensor,
        kernel: &PerAxis,
        stride: Option<&PerAxis>,
        padding: &PerAxis,
        dilation: &PerAxis,
        ceil: bool,
    ) -> Result<Self, TensorError> {
        let shape = &x.ty()?.shape;
        let wrong = |reason: String| x.shape_error(operation, reason);
        if shape.len() != axes + 1 && shape.len() != axes + 2 {
            let (with, without) = (axes + 2, axes + 1);
            return Err(wrong(format!(
                "{with} axes are expected, batch and channels first, or {without} without batch"
            )));
        }
        let kernel = kernel.positive("the kernel size", axes).map_err(wrong)?;
        let sizes = PerAxis::from(kernel.as_slice());
        let windows = Window::of(&kernel, stride.unwrap_or(&sizes), dilation).map_err(wrong)?;
        let padding = padding.each("the padding", axes).map_err(wrong)?;
        let mut pool = Self { windows, counts: vec![], padding, beyond: vec![] };
        for n in 0..axes {
            let axis = shape.len() - axes + n;
            let (window, pad) = (pool.windows[n], pool.padding[n]);
            if window.reach() > isize::MAX as usize || pad > window.kernel / 2 {
                let (most, kernel) = (window.kernel / 2, window.kernel);
                return Err(wrong(format!("the padding {pad} is more than {most}, half of the kernel size {kernel}")));
            }
            let padded = shape[axis] + 2 * pad;
            let mut count = window.count(padded).unwrap_or(0);
            // One more window may leave the input by less than a stride, if it begins in it or before.
            let start = count.saturating_mul(window.stride);
            let more = start.saturating_add(window.reach()).checked_sub(padded);
            let near = more.is_some_and(|m| m < window.stride) && start < shape[axis] + pad;
            count += usize::from(ceil && near);
            if count == 0 || shape[axis] == 0 {
                let reach = window.reach();
                let reason = format!("axis {axis} is {padded} long with its padding, shorter than a window's {reach}");
                return Err(wrong(reason));
            }
            pool.beyond.push(((count - 1) * window.stride + window.reach()).saturating_sub(padded));
            pool.counts.push(count);
        }
        Ok(pool)
    }

    /// Folds every window, after applying `f` to every element.
    fn fold(
        &self,
        operation: &'static str,
        x: &Tensor,
        monoid: Monoid,
        fill: f64,
        dtype: DType,
        f: impl FnOnce(&mut Expr, RowId) -> Result<RowId, ExprError>,
    ) -> Result<Tensor, TensorError> {
        let axes = self.windows.len();
        let pair = |n: usize| (self.padding[n] as i64, (self.padding[n] + self.beyond[n]) as i64);
        let padded = x.pad(&(0..axes).rev().map(pair).collect::<Vec<_>>(), fill);
        padded.made()?;
        let lead = x.dim() - axes;
        let mut labels = Labels::default();
        let mut read: Vec<Affine> = Vec::new();
        for (name, &extent) in ["n", "c"][2 - lead..].iter().zip(x.shape()) {
            read.push(Affine::label(labels.add(*name, extent)));
        }
        let names = spatial_names(axes);
        let places: Vec<usize> = (0..axes).map(|n| labels.add(names[n], self.counts[n])).collect();
        let rank = labels.0.len();
        for n in 0..axes {
            let kernel = self.windows[n].kernel;
            let tap = (kernel > 1).then(|| labels.add(format!("k{}", names[n]), kernel));
            read.push(self.windows[n].index(places[n], tap));
        }
        let mut e = Expr::new();
        let row = e.push_operand(0, x.dtype());
        let value = f(&mut e, row).map_err(|source| TensorError::Expr { operation, source })?;
        let join = ending(&e, value);
        let accesses = vec![Access { axes: read }];
        Ok(Tensor::row_einsum(operation, Einsum { labels: labels.0, rank, accesses, join, monoid, dtype }, &[&padded]))
    }

    /// The number of elements of every window: a row over labels `first..`, or a number where all are equal.
    fn elements(&self, extents: &[usize], include_pad: bool, e: &mut Expr, first: usize) -> Result<RowId, ExprError> {
        let int = |e: &mut Expr, value: usize| e.constant(Literal::Int(value as i64), DType::I64);
        let mut total = int(e, 1);
        for (n, window) in self.windows.iter().enumerate() {
            let (pad, extent) = (self.padding[n], extents[n]);
            let uneven = self.beyond[n] > 0 || (pad > 0 && !include_pad);
            let count = if uneven {
                // From padded index `stride * y`, `kernel` long, cut to the padded input or to the input.
                let (y, stride) = (e.index(first + n), int(e, window.stride));
                let start = e.binary(Binary::Mul, y, stride)?;
                let kernel = int(e, window.kernel);
                let end = e.binary(Binary::Add, start, kernel)?;
                let (lo, hi) = if include_pad { (0, extent + 2 * pad) } else { (pad, extent + pad) };
                let (lo, hi) = (int(e, lo), int(e, hi));
                let start = e.binary(Binary::Max, start, lo)?;
                let end = e.binary(Binary::Min, end, hi)?;
                e.binary(Binary::Sub, end, start)?
            } else {
                int(e, window.kernel)
            };
            total = e.binary(Binary::Mul, total, count)?;
        }
        Ok(total)
    }
}

fn max_pool(
    operation: &'static str,
    axes: usize,
    x: &Tensor,
    kernel: &PerAxis,
    options: &MaxPoolOptions,
) -> Result<Tensor, TensorError> {
    if x.ty()?.dtype == DType::Bool {
        return Err(x.type_error(operation, "needs numbers; convert with `.to`"));
    }
    let MaxPoolOptions { stride, padding, dilation, ceil_mode } = options;
    let pool = Pool::of(operation, axes, x, kernel, stride.as_ref(), padding, dilation, *ceil_mode)?;
    pool.fold(operation, x, Monoid::Max, f64::NEG_INFINITY, x.dtype(), |_, x| Ok(x))
}

fn avg_pool(
    operation: &'static str,
    axes: usize,
    x: &Tensor,
    kernel: &PerAxis,
    options: &AvgPoolOptions,
) -> Result<Tensor, TensorError> {
    let dtype = x.float_type(operation)?;
    let AvgPoolOptions { stride, padding, ceil_mode, count_include_pad, divisor_override } = options;
    if *divisor_override == Some(0) {
        return Err(x.shape_error(operation, "the divisor must not be 0".into()));
    }
    let pool = Pool::of(operation, axes, x, kernel, stride.as_ref(), padding, &1.into(), *ceil_mode)?;
    let wide = dtype.accumulator();
    let sum = pool.fold(operation, x, Monoid::Sum, 0.0, wide, |e, x| Ok(e.cast(x, wide)))?;
    let lead = x.dim() - axes;
    let own = Access::labels(&(0..x.dim()).collect::<Vec<_>>());
    map_over(operation, sum.shape(), vec![own], &[&sum], |e, r| {
        let elements = match divisor_override {
            Some(divisor) => e.constant(Literal::Int(*divisor), DType::I64),
            None => pool.elements(&x.shape()[lead..], *count_include_pad, e, lead)?,
        };
        let elements = e.cast(elements, wide);
        let mean = e.binary(Binary::Div, r[0], elements)?;
        Ok(e.cast(mean, dtype))
    })
}

fn lp_pool(
    operation: &'static str,
    axes: usize,
    x: &Tensor,
    norm_type: f64,
    kernel: &PerAxis,
    options: &LpPoolOptions,
) -> Result<Tensor, TensorError> {
    let kernel_sizes = kernel.positive("the kernel size", axes).map_err(|r| x.shape_error(operation, r))?;
    let options =
        AvgPoolOptions { stride: options.stride.clone(), ..AvgPoolOptions::new().ceil_mode(options.ceil_mode) };
    let mean = avg_pool(operation, axes, &x.pow(norm_type), kernel, &options)?;
    let size = kernel_sizes.iter().map(|&n| n as f64).product::<f64>();
    map(operation, &[&mean], |e, r| {
        let dtype = e.dtype_of(r[0]);
        let size = e.float(size, dtype);
        e.binary(Binary::Mul, r[0], size)
    })
    .map(|powers| powers.pow(1.0 / norm_type))
}
