//! Arithmetic of two or three tensors or numbers, with `PyTorch`'s type promotion.

use super::formula::Value;
use super::map::{Kind, map, pointwise};
use super::promote::{Standing, result_type};
use super::{Operand, Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::expr::Binary;

/// How [`Tensor::div_rounding`] makes a quotient whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Towards 0: `rounding_mode="trunc"`, as C.
    Trunc,
    /// Towards minus infinity: `rounding_mode="floor"`, as Python.
    Floor,
}

/// One function of two operands. Two tensors are joined in the promoted type itself: one step rounds once anyway.
fn pair(method: &'static str, kind: Kind, function: Binary, left: &Operand, right: &Operand) -> Tensor {
    if let (Operand::Tensor(a), Operand::Tensor(b)) = (left, right)
        && matches!(kind, Kind::Any | Kind::Numbers)
        && let (Ok(x), Ok(y)) = (a.ty(), b.ty())
    {
        let dtype = result_type(&[(x.dtype, Standing::of(x.shape.len())), (y.dtype, Standing::of(y.shape.len()))]);
        if dtype.accumulator() != dtype {
            return Tensor::attempt(|| {
                map(method, &[a, b], |e, r| {
                    let (l, r) = (e.cast(r[0], dtype), e.cast(r[1], dtype));
                    e.binary(function, l, r)
                })
            });
        }
    }
    pointwise(method, kind, [left, right], |[a, b]| a.binary(function, b))
}

/// Whether all operands are bools, of which a sum is "or" and a product "and".
fn bools(operands: &[&Operand]) -> bool {
    operands.iter().all(|o| match o {
        Operand::Tensor(t) => t.check().is_ok() && t.dtype() == DType::Bool,
        Operand::Bool(_) => true,
        Operand::Float(_) | Operand::Int(_) => false,
    })
}

/// `left + right`.
pub(crate) fn add(left: &Operand, right: &Operand) -> Tensor {
    let function = if bools(&[left, right]) { Binary::Or } else { Binary::Add };
    pair("add", Kind::Any, function, left, right)
}

/// `left - right`.
pub(crate) fn sub(left: &Operand, right: &Operand) -> Tensor {
    for operand in [left, right] {
        if let Operand::Tensor(t) = operand
            && bools(&[operand])
        {
            let reason = "bools have no difference; use `^` or `logical_xor`, or `logical_not` to turn a mask";
            return Tensor::poisoned(t.type_error("sub", reason));
        }
    }
    pair("sub", Kind::Numbers, Binary::Sub, left, right)
}

/// `left * right`.
pub(crate) fn mul(left: &Operand, right: &Operand) -> Tensor {
    let function = if bools(&[left, right]) { Binary::And } else { Binary::Mul };
    pair("mul", Kind::Any, function, left, right)
}

/// `left / right`.
pub(crate) fn div(left: &Operand, right: &Operand) -> Tensor {
    pair("div", Kind::ToFloat, Binary::Div, left, right)
}

/// `left % right`.
pub(crate) fn rem(left: &Operand, right: &Operand) -> Tensor {
    pair("remainder", Kind::Numbers, Binary::Rem, left, right)
}

/// The quotient of floats rounded down, as Python's `//`: exact where `a / b` rounds up to an integer.
fn floor_quotient<'f>(a: Value<'f>, b: Value<'f>) -> Value<'f> {
    let rest = a.fmod(b);
    let quotient = (a - rest) / b;
    let turned = rest.ne(0.0) & (b.lt(0.0).ne(rest.lt(0.0)));
    let quotient = turned.select(quotient - 1.0, quotient);
    let floor = quotient.floor();
    let floor = (quotient - floor).gt(0.5).select(floor + 1.0, floor);
    let zero = a.number(0.0).copysign(a / b);
    let whole = quotient.eq(0.0).select(zero, floor);
    b.eq(0.0).select(a / b, whole)
}

impl Tensor {
    /// `self + other`. Of bools, whether one of both holds.
    pub fn add(&self, other: impl Into<Operand>) -> Tensor {
        add(&self.into(), &other.into())
    }

    /// `self - other`.
    pub fn sub(&self, other: impl Into<Operand>) -> Tensor {
        sub(&self.into(), &other.into())
    }

    /// `self * other`. Of bools, whether both hold.
    pub fn mul(&self, other: impl Into<Operand>) -> Tensor {
        mul(&self.into(), &other.into())
    }

    /// `self / other`: true division, so integers give `F32`.
    pub fn div(&self, other: impl Into<Operand>) -> Tensor {
        div(&self.into(), &other.into())
    }

    /// `torch.div(self, other, rounding_mode=…)`: a whole quotient, which keeps the type of integers. An integer
    /// divided by 0 gives 0, where `PyTorch` fails at run time.
    pub fn div_rounding(&self, other: impl Into<Operand>, rounding: Rounding) -> Tensor {
        pointwise("div", Kind::Numbers, [&self.into(), &other.into()], |[a, b]| match rounding {
            Rounding::Floor if a.dtype().is_float() => floor_quotient(a, b),
            Rounding::Floor => a / b,
            Rounding::Trunc if a.dtype().is_float() => (a / b).trunc(),
            // One more where the exact quotient is negative and not whole.
            Rounding::Trunc => {
                let up = a.fmod(b).ne(0.0) & (a.lt(0.0).ne(b.lt(0.0)));
                up.select(a / b + 1.0, a / b)
            }
        })
    }

    /// The quotient rounded down: `div_rounding(other, Rounding::Floor)`.
    pub fn floor_divide(&self, other: impl Into<Operand>) -> Tensor {
        self.div_rounding(other, Rounding::Floor)
    }

    /// The remainder with the sign of `other`, as Python's `%`. An integer's by 0 is 0, where `PyTorch` fails at run
    /// time.
    pub fn remainder(&self, other: impl Into<Operand>) -> Tensor {
        rem(&self.into(), &other.into())
    }

    /// The remainder with the sign of `self`, as C's. An integer's by 0 is 0, where `PyTorch` fails at run time.
    pub fn fmod(&self, other: impl Into<Operand>) -> Tensor {
        pair("fmod", Kind::Numbers, Binary::Fmod, &self.into(), &other.into())
    }

    /// `self` to the power `exponent`. An integer to a negative integer is 0 unless it is 1 or -1.
    pub fn pow(&self, exponent: impl Into<Operand>) -> Tensor {
        let exponent = exponent.into();
        let known = match exponent {
            Operand::Float(v) => Some(v),
            Operand::Int(v) => Some(v as f64),
            Operand::Bool(_) | Operand::Tensor(_) => None,
        };
        // What PyTorch computes without logarithms.
        pointwise("pow", Kind::Numbers, [&self.into(), &exponent], |[x, y]| match known {
            Some(2.0) => x * x,
            Some(3.0) => x * x * x,
            Some(0.5) if x.dtype().is_float() => x.sqrt(),
            Some(-0.5) if x.dtype().is_float() => 1.0 / x.sqrt(),
            Some(-1.0) if x.dtype().is_float() => 1.0 / x,
            Some(-2.0) if x.dtype().is_float() => 1.0 / (x * x),
            Some(_) | None => x.pow(y),
        })
    }

    /// `base` to the power `self`: `torch.pow(base, self)` where the base is a number.
    pub fn rpow(&self, base: impl Into<Operand>) -> Tensor {
        pair("pow", Kind::Numbers, Binary::Pow, &base.into(), &self.into())
    }

    /// `self * self`; bools become `I64`.
    pub fn square(&self) -> Tensor {
        let dtype = if self.dtype() == DType::Bool { DType::I64 } else { self.dtype() };
        Tensor::attempt(|| {
            self.check()?;
            map("square", &[self], |e, r| {
                let x = e.cast(r[0], dtype);
                e.binary(Binary::Mul, x, x)
            })
        })
    }

    /// The larger of both; a NaN wins.
    pub fn maximum(&self, other: impl Into<Operand>) -> Tensor {
        pair("maximum", Kind::Any, Binary::Max, &self.into(), &other.into())
    }

    /// The smaller of both; a NaN wins.
    pub fn minimum(&self, other: impl Into<Operand>) -> Tensor {
        pair("minimum", Kind::Any, Binary::Min, &self.into(), &other.into())
    }

    /// The larger of both; a NaN loses.
    pub fn fmax(&self, other: impl Into<Operand>) -> Tensor {
        pointwise("fmax", Kind::Any, [&self.into(), &other.into()], |[a, b]| {
            a.is_nan().select(b, b.is_nan().select(a, a.max(b)))
        })
    }

    /// The smaller of both; a NaN loses.
    pub fn fmin(&self, other: impl Into<Operand>) -> Tensor {
        pointwise("fmin", Kind::Any, [&self.into(), &other.into()], |[a, b]| {
            a.is_nan().select(b, b.is_nan().select(a, a.min(b)))
        })
    }

    /// At least `min`, then at most `max`. A NaN anywhere wins.
    pub fn clamp(&self, min: impl Into<Operand>, max: impl Into<Operand>) -> Tensor {
        pointwise("clamp", Kind::Numbers, [&self.into(), &min.into(), &max.into()], |[x, low, high]| x.clamp(low, high))
    }

    /// At least `min`: `torch.clamp(self, min=…)`.
    pub fn clamp_min(&self, min: impl Into<Operand>) -> Tensor {
        pair("clamp_min", Kind::Numbers, Binary::Max, &self.into(), &min.into())
    }

    /// At most `max`: `torch.clamp(self, max=…)`.
    pub fn clamp_max(&self, max: impl Into<Operand>) -> Tensor {
        pair("clamp_max", Kind::Numbers, Binary::Min, &self.into(), &max.into())
    }

    /// The angle of the point (`other`, `self`), between -π and π.
    pub fn atan2(&self, other: impl Into<Operand>) -> Tensor {
        pair("atan2", Kind::ToFloat, Binary::Atan2, &self.into(), &other.into())
    }

    /// The magnitude of `self` with the sign of `other`, which a zero and a NaN have too.
    pub fn copysign(&self, other: impl Into<Operand>) -> Tensor {
        pair("copysign", Kind::ToFloat, Binary::Copysign, &self.into(), &other.into())
    }

    /// `sqrt(self² + other²)` of floats, without overflow in between.
    pub fn hypot(&self, other: impl Into<Operand>) -> Tensor {
        pointwise("hypot", Kind::Floats, [&self.into(), &other.into()], |[a, b]| {
            let (a, b) = (a.abs(), b.abs());
            let (large, small) = (a.max(b), a.min(b));
            let ratio = small / large;
            let length = large * (ratio * ratio + 1.0).sqrt();
            let length = large.eq(0.0).select(large, length);
            // An infinity wins over a NaN.
            let infinite = a.eq(f64::INFINITY) | b.eq(f64::INFINITY);
            infinite.select(a.number(f64::INFINITY), length)
        })
    }

    /// `log(exp(self) + exp(other))` of floats, without overflow.
    pub fn logaddexp(&self, other: impl Into<Operand>) -> Tensor {
        pointwise("logaddexp", Kind::Floats, [&self.into(), &other.into()], |[a, b]| {
            let sum = a.max(b) + (-(a - b).abs()).exp().log1p();
            // Of two equal infinities there is no difference.
            (a.eq(b) & a.abs().eq(f64::INFINITY)).select(a, sum)
        })
    }

    /// `log2(2^self + 2^other)` of floats, without overflow.
    pub fn logaddexp2(&self, other: impl Into<Operand>) -> Tensor {
        pointwise("logaddexp2", Kind::Floats, [&self.into(), &other.into()], |[a, b]| {
            let sum = a.max(b) + (-(a - b).abs()).exp2().log1p() * std::f64::consts::LOG2_E;
            (a.eq(b) & a.abs().eq(f64::INFINITY)).select(a, sum)
        })
    }

    /// `self * log(other)`, 0 where `self` is 0 and `other` no NaN.
    pub fn xlogy(&self, other: impl Into<Operand>) -> Tensor {
        pointwise("xlogy", Kind::ToFloat, [&self.into(), &other.into()], |[x, y]| {
            let product = (x.eq(0.0)).select(x.number(0.0), x * y.log());
            y.is_nan().select(y, product)
        })
    }

    /// 0 below 0, 1 above, `values` at 0. Both must have one type.
    pub fn heaviside(&self, values: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            one_type("heaviside", self, values)?;
            Ok(pointwise("heaviside", Kind::Any, [&self.into(), &values.into()], |[x, at_zero]| {
                let zero = x.number(0.0);
                x.eq(zero).select(at_zero, zero.lt(x).cast(x.dtype()))
            }))
        })
    }

    /// `self + weight * (end - self)`: from `self` at 0 to `end` at 1, exactly at both.
    pub fn lerp(&self, end: &Tensor, weight: impl Into<Operand>) -> Tensor {
        Tensor::attempt(|| {
            one_type("lerp", self, end)?;
            let weight = weight.into();
            if let Operand::Tensor(w) = &weight {
                one_type("lerp", self, w)?;
            }
            Ok(pointwise("lerp", Kind::Floats, [&self.into(), &end.into(), &weight], |[a, b, w]| {
                let near = a + w * (b - a);
                let far = b - (b - a) * (1.0 - w);
                w.abs().lt(0.5).select(near, far)
            }))
        })
    }

    /// `self + value * a * b`.
    pub fn addcmul(&self, a: &Tensor, b: &Tensor, value: impl Into<Operand>) -> Tensor {
        let operands = [&self.into(), &a.into(), &b.into(), &value.into()];
        pointwise("addcmul", Kind::Numbers, operands, |[x, a, b, value]| x + value * a * b)
    }

    /// `self + value * a / b` of floats.
    pub fn addcdiv(&self, a: &Tensor, b: &Tensor, value: impl Into<Operand>) -> Tensor {
        let operands = [&self.into(), &a.into(), &b.into(), &value.into()];
        pointwise("addcdiv", Kind::Floats, operands, |[x, a, b, value]| x + value * a / b)
    }
}

/// Refuses two tensors of different types, as `PyTorch` does for a few functions.
fn one_type(method: &'static str, a: &Tensor, b: &Tensor) -> Result<(), TensorError> {
    let dtypes = vec![a.ty()?.dtype, b.ty()?.dtype];
    if dtypes[0] == dtypes[1] {
        return Ok(());
    }
    let reason = "all operands must have one type; convert with `.to`".into();
    Err(TensorError::Type { operation: method, dtypes, reason })
}
