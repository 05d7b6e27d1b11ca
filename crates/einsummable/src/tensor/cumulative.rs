//! Running folds along an axis.

use super::index::with_fill;
use super::map::map;
use super::{Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Unary};
use ein_ir::graph::TensorType;
use ein_ir::kernel::{Kernel, Scan, ScanFunction};

/// How a running fold goes along its axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Along {
    /// From the last element to the first.
    pub reverse: bool,
    /// Without the element itself: the first result is the fold of nothing.
    pub exclusive: bool,
}

/// From this extent on an axis is scanned in parts, so that it may be cut between devices.
pub(super) const LONG: usize = 256;

/// How long the parts of a long axis are: about as many as there are parts.
pub(super) fn length_of_parts(extent: usize) -> usize {
    1 << (extent.ilog2() / 2)
}

impl Tensor {
    /// `torch.cumsum`. Integers and bools are added up as `I64`, 16-bit floats in `F32`.
    pub fn cumsum(&self, axis: i64) -> Tensor {
        self.cumsum_along(axis, Along::default())
    }

    /// `torch.cumprod`; types as in [`Tensor::cumsum`].
    pub fn cumprod(&self, axis: i64) -> Tensor {
        self.cumprod_along(axis, Along::default())
    }

    /// [`Tensor::cumsum`] in reverse or exclusive; the sum of nothing is 0.
    pub fn cumsum_along(&self, axis: i64, along: Along) -> Tensor {
        Tensor::attempt(|| scan(&integers_widened(self)?, "cumsum", axis, ScanFunction::Sum, along))
    }

    /// [`Tensor::cumprod`] in reverse or exclusive; the product of nothing is 1.
    pub fn cumprod_along(&self, axis: i64, along: Along) -> Tensor {
        Tensor::attempt(|| scan(&integers_widened(self)?, "cumprod", axis, ScanFunction::Prod, along))
    }

    /// `torch.cummax`: the largest so far and its index, of equal elements the last. A NaN stays.
    pub fn cummax(&self, axis: i64) -> (Tensor, Tensor) {
        extremes(self, "cummax", axis, ScanFunction::Max, ScanFunction::MaxIndex)
    }

    /// `torch.cummin`: the smallest so far and its index, of equal elements the last. A NaN stays.
    pub fn cummin(&self, axis: i64) -> (Tensor, Tensor) {
        extremes(self, "cummin", axis, ScanFunction::Min, ScanFunction::MinIndex)
    }

    /// `torch.logcumsumexp`: the log of the sum of the exponentials so far, which do not overflow.
    pub fn logcumsumexp(&self, axis: i64) -> Tensor {
        Tensor::attempt(|| {
            if !self.ty()?.dtype.is_float() {
                return Err(self.type_error("logcumsumexp", "the type must be a float; convert with `.to`"));
            }
            scan(self, "logcumsumexp", axis, ScanFunction::LogSumExp, Along::default())
        })
    }
}

/// Integers and bools as `I64`.
fn integers_widened(x: &Tensor) -> Result<Tensor, TensorError> {
    Ok(if x.ty()?.dtype.is_float() { x.clone() } else { x.to(DType::I64) })
}

fn extremes(
    x: &Tensor,
    operation: &'static str,
    axis: i64,
    values: ScanFunction,
    indices: ScanFunction,
) -> (Tensor, Tensor) {
    let of = |function| Tensor::attempt(|| scan(x, operation, axis, function, Along::default()));
    (of(values), of(indices))
}

/// What a fold of nothing gives.
fn identity(function: ScanFunction) -> f64 {
    match function {
        ScanFunction::Sum => 0.0,
        ScanFunction::Prod => 1.0,
        ScanFunction::Max | ScanFunction::LogSumExp | ScanFunction::MaxIndex => f64::NEG_INFINITY,
        ScanFunction::Min | ScanFunction::MinIndex => f64::INFINITY,
    }
}

fn scan(
    x: &Tensor,
    operation: &'static str,
    axis: i64,
    function: ScanFunction,
    along: Along,
) -> Result<Tensor, TensorError> {
    let dtype = x.ty()?.dtype;
    if x.dim() == 0 {
        x.reshape(&[1]).axis(operation, axis)?;
        return Ok(scan(&x.reshape(&[1]), operation, 0, function, along)?.reshape(&[]));
    }
    let at = x.axis(operation, axis)?;
    let back = |t: &Tensor| if along.reverse { t.flip(&[at as i64]) } else { t.clone() };
    let mut y = back(x);
    if function.gives_index() || y.shape()[at] < LONG {
        y = whole(&y, operation, at, function);
    } else {
        // 16-bit carries would lose what is added to them; a bool has no value below all others to fill with.
        let wide = if dtype == DType::Bool { DType::U8 } else { dtype.accumulator() };
        y = in_parts(&y.to(wide), operation, at, function)?.to(dtype);
    }
    if along.exclusive {
        y = shifted(&y, operation, at, function)?;
    }
    Ok(back(&y))
}

/// One kernel, for which the axis is whole.
fn whole(x: &Tensor, operation: &'static str, at: usize, function: ScanFunction) -> Tensor {
    let kernel = Kernel::Scan(Scan { shape: x.shape().to_vec(), axis: at, function, dtype: x.dtype() });
    let dtype = if function.gives_index() { DType::I64 } else { x.dtype() };
    Tensor::row_kernel(operation, kernel, &[x], TensorType::new(dtype, x.shape()))
}

/// Results one place later; the first is the fold of nothing.
fn shifted(x: &Tensor, operation: &'static str, at: usize, function: ScanFunction) -> Result<Tensor, TensorError> {
    let extent = x.ty()?.shape[at];
    Ok(with_fill(x, operation, at, [1, 0], identity(function))?.narrow(at as i64, 0, extent))
}

/// A long axis as parts of equal length: each is scanned by itself, the last results of the parts are scanned as
/// carries, and every part takes the carry before it. Parts may lie on different devices; what crosses is the carries.
fn in_parts(x: &Tensor, operation: &'static str, at: usize, function: ScanFunction) -> Result<Tensor, TensorError> {
    let extent = x.shape()[at];
    let length = length_of_parts(extent);
    let parts = extent.div_ceil(length);
    let axis = at as i64;
    let filled = with_fill(x, operation, at, [0, parts * length - extent], identity(function))?;
    let mut shape: Vec<i64> = filled.shape().iter().map(|&n| n as i64).collect();
    shape.splice(at..=at, [parts as i64, length as i64]);
    let local = whole(&filled.reshape(&shape), operation, at + 1, function);
    let totals = local.select(axis + 1, -1);
    let carries = shifted(&whole(&totals, operation, at, function), operation, at, function)?.unsqueeze(axis + 1);
    let joined = map(operation, &[&carries, &local], |e, rows| {
        let (carry, own) = (rows[0], rows[1]);
        match function {
            ScanFunction::Sum => e.binary(Binary::Add, carry, own),
            ScanFunction::Prod => e.binary(Binary::Mul, carry, own),
            ScanFunction::Max | ScanFunction::MaxIndex => e.binary(Binary::Max, carry, own),
            ScanFunction::Min | ScanFunction::MinIndex => e.binary(Binary::Min, carry, own),
            ScanFunction::LogSumExp => {
                // max + log(1 + exp(-|a - b|)); equal infinities would make NaN of their difference.
                let dtype = e.dtype_of(own);
                let top = e.binary(Binary::Max, carry, own)?;
                let apart = e.binary(Binary::Sub, carry, own)?;
                let apart = e.unary(Unary::Abs, apart)?;
                let apart = e.unary(Unary::Neg, apart)?;
                let weight = e.unary(Unary::Exp, apart)?;
                let one = e.float(1.0, dtype);
                let sum = e.binary(Binary::Add, one, weight)?;
                let more = e.unary(Unary::Log, sum)?;
                let unequal = e.binary(Binary::Add, top, more)?;
                let two = e.float(2.0_f64.ln(), dtype);
                let twice = e.binary(Binary::Add, own, two)?;
                let equal = e.binary(Binary::Eq, carry, own)?;
                e.select(equal, twice, unequal)
            }
        }
    })?;
    let mut shape: Vec<i64> = joined.shape().iter().map(|&n| n as i64).collect();
    shape.splice(at..=at + 1, [(parts * length) as i64]);
    Ok(joined.reshape(&shape).narrow(axis, 0, extent))
}
