//! Functions of one tensor's elements.

use super::formula::Value;
use super::map::{Kind, map, pointwise};
use super::{Operand, Tensor};
use ein_ir::dtype::DType;
use ein_ir::expr::Unary;

impl Tensor {
    /// A function of floats: integers become `F32`, 16-bit floats are computed in `F32` and rounded once.
    pub(crate) fn float_map(&self, method: &'static str, f: impl for<'f> FnOnce(Value<'f>) -> Value<'f>) -> Tensor {
        pointwise(method, Kind::ToFloat, [&self.into()], |[x]| f(x))
    }

    /// A function that leaves integers as they are and is not defined for bools.
    fn whole(&self, method: &'static str, function: Unary) -> Tensor {
        Tensor::attempt(|| {
            Kind::Numbers.types(method, &[&self.into()])?;
            if !self.dtype().is_float() {
                return Ok(self.clone());
            }
            map(method, &[self], |e, r| e.unary(function, r[0]))
        })
    }

    /// A question that only floats can answer with anything but `otherwise`.
    fn asked(&self, method: &'static str, otherwise: bool, f: impl for<'f> FnOnce(Value<'f>) -> Value<'f>) -> Tensor {
        if self.check().is_ok() && !self.dtype().is_float() {
            return Tensor::full(self.shape(), f64::from(otherwise), DType::Bool);
        }
        pointwise(method, Kind::Compare, [&self.into()], |[x]| f(x))
    }
}

macro_rules! functions {
    ($($method:ident $function:ident $doc:literal),* $(,)?) => {
        impl Tensor {
            $(
                #[doc = $doc]
                pub fn $method(&self) -> Tensor {
                    self.float_map(stringify!($method), |x| x.unary(Unary::$function))
                }
            )*
        }
    };
}

functions! {
    exp Exp "e to the power `self`.",
    exp2 Exp2 "2 to the power `self`.",
    expm1 Expm1 "`exp(self) - 1`, exact near 0.",
    log Log "The natural logarithm.",
    log2 Log2 "The logarithm to base 2.",
    log10 Log10 "The logarithm to base 10.",
    log1p Log1p "`log(1 + self)`, exact near 0.",
    sqrt Sqrt "The square root.",
    rsqrt Rsqrt "`1 / sqrt(self)`.",
    sin Sin "The sine.",
    cos Cos "The cosine.",
    tan Tan "The tangent.",
    asin Asin "The inverse of the sine, between -π/2 and π/2.",
    acos Acos "The inverse of the cosine, between 0 and π.",
    atan Atan "The inverse of the tangent, between -π/2 and π/2.",
    sinh Sinh "The hyperbolic sine.",
    cosh Cosh "The hyperbolic cosine.",
    tanh Tanh "The hyperbolic tangent.",
    asinh Asinh "The inverse of the hyperbolic sine.",
    acosh Acosh "The inverse of the hyperbolic cosine.",
    atanh Atanh "The inverse of the hyperbolic tangent.",
    erf Erf "The error function.",
    erfc Erfc "`1 - erf(self)`, exact where that is small.",
    erfinv Erfinv "The inverse of the error function.",
    sigmoid Sigmoid "`1 / (1 + exp(-self))`.",
}

impl Tensor {
    /// The largest integer that is not above. Integers stay as they are.
    pub fn floor(&self) -> Tensor {
        self.whole("floor", Unary::Floor)
    }

    /// The smallest integer that is not below. Integers stay as they are.
    pub fn ceil(&self) -> Tensor {
        self.whole("ceil", Unary::Ceil)
    }

    /// The nearest integer, halves to the even one. Integers stay as they are.
    pub fn round(&self) -> Tensor {
        self.whole("round", Unary::Round)
    }

    /// The nearest multiple of 10 to the power `-decimals`: `torch.round(self, decimals=…)`.
    pub fn round_decimals(&self, decimals: i32) -> Tensor {
        let scale = 10f64.powi(decimals.saturating_abs());
        pointwise("round", Kind::Floats, [&self.into()], |[x]| match decimals {
            0 => x.round(),
            1.. => (x * scale).round() / scale,
            _ => (x / scale).round() * scale,
        })
    }

    /// Without what follows the point. Integers stay as they are.
    pub fn trunc(&self) -> Tensor {
        self.whole("trunc", Unary::Trunc)
    }

    /// What follows the point, with the sign of `self`.
    pub fn frac(&self) -> Tensor {
        pointwise("frac", Kind::Floats, [&self.into()], |[x]| x - x.trunc())
    }

    /// `-self`.
    pub fn neg(&self) -> Tensor {
        Tensor::attempt(|| {
            Kind::Numbers.types("neg", &[&self.into()])?;
            map("neg", &[self], |e, r| e.unary(Unary::Neg, r[0]))
        })
    }

    /// The absolute value.
    pub fn abs(&self) -> Tensor {
        Tensor::attempt(|| {
            Kind::Numbers.types("abs", &[&self.into()])?;
            map("abs", &[self], |e, r| e.unary(Unary::Abs, r[0]))
        })
    }

    /// -1, 0 or 1, of the type of `self`; 0 of a NaN.
    pub fn sign(&self) -> Tensor {
        if self.dtype() == DType::Bool {
            return self.clone();
        }
        pointwise("sign", Kind::Numbers, [&self.into()], |[x]| {
            let dtype = x.dtype();
            let zero = x.number(0.0);
            zero.lt(x).cast(dtype) - x.lt(zero).cast(dtype)
        })
    }

    /// As [`Tensor::sign`]: the two differ for complex numbers.
    pub fn sgn(&self) -> Tensor {
        self.sign()
    }

    /// Whether the sign is minus, which it may be of zeros and NaN too.
    pub fn signbit(&self) -> Tensor {
        pointwise("signbit", Kind::Compare, [&self.into()], |[x]| {
            if x.dtype().is_float() { x.number(1.0).copysign(x).lt(0.0) } else { x.lt(0.0) }
        })
    }

    /// `1 / self`; integers give `F32`.
    pub fn reciprocal(&self) -> Tensor {
        self.float_map("reciprocal", |x| 1.0 / x)
    }

    /// Degrees to radians.
    pub fn deg2rad(&self) -> Tensor {
        self.float_map("deg2rad", |x| x * (std::f64::consts::PI / 180.0))
    }

    /// Radians to degrees.
    pub fn rad2deg(&self) -> Tensor {
        self.float_map("rad2deg", |x| x * (180.0 / std::f64::consts::PI))
    }

    /// `log(x / (1 - x))`, the inverse of the sigmoid, of `self` kept between `eps` and `1 - eps` where that is given.
    pub fn logit(&self, eps: Option<f64>) -> Tensor {
        self.float_map("logit", |x| {
            let x = eps.map_or(x, |eps| x.clamp(eps, 1.0 - eps));
            (x / (1.0 - x)).log()
        })
    }

    /// Whether it is a NaN.
    pub fn isnan(&self) -> Tensor {
        self.asked("isnan", false, |x| x.ne(x))
    }

    /// Whether it is an infinity of either sign.
    pub fn isinf(&self) -> Tensor {
        self.asked("isinf", false, |x| x.abs().eq(f64::INFINITY))
    }

    /// Whether it is infinity.
    pub fn isposinf(&self) -> Tensor {
        self.asked("isposinf", false, |x| x.eq(f64::INFINITY))
    }

    /// Whether it is minus infinity.
    pub fn isneginf(&self) -> Tensor {
        self.asked("isneginf", false, |x| x.eq(f64::NEG_INFINITY))
    }

    /// Whether it is neither a NaN nor an infinity.
    pub fn isfinite(&self) -> Tensor {
        self.asked("isfinite", true, |x| x.abs().lt(f64::INFINITY))
    }

    /// `nan` in place of every NaN, `posinf` and `neginf` in place of the infinities: of the type's largest and
    /// lowest number where none is given.
    pub fn nan_to_num(&self, nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Tensor {
        if !self.dtype().is_float() {
            return self.clone();
        }
        pointwise("nan_to_num", Kind::Floats, [&self.into()], |[x]| {
            let most = largest(self.dtype());
            let high = x.number(posinf.unwrap_or(most));
            let low = x.number(neginf.unwrap_or(-most));
            let x = x.is_nan().select(x.number(nan), x);
            let x = x.eq(f64::INFINITY).select(high, x);
            x.eq(f64::NEG_INFINITY).select(low, x)
        })
    }

    /// Conversion to another type. Floats become integers by truncation, what an integer type cannot hold its
    /// nearest number and a NaN 0; integers become narrower by wrapping; a bool is `!= 0`.
    pub fn to(&self, dtype: DType) -> Tensor {
        if self.check().is_err() || self.dtype() == dtype {
            return self.clone();
        }
        Tensor::attempt(|| map("to", &[self], |e, r| Ok(e.cast(r[0], dtype))))
    }

    /// Whether two tensors are near: `|self - other| <= atol + rtol * |other|`, equal infinities included, and two NaN
    /// if `equal_nan`.
    pub fn isclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Tensor {
        Tensor::attempt(|| {
            let dtypes = vec![self.ty()?.dtype, other.ty()?.dtype];
            if dtypes[0] != dtypes[1] {
                let reason = "both must have one type; convert with `.to`".into();
                return Err(super::TensorError::Type { operation: "isclose", dtypes, reason });
            }
            let operands: [&Operand; 2] = [&self.into(), &other.into()];
            Ok(pointwise("isclose", Kind::Compare, operands, |[a, b]| {
                let same = a.eq(b);
                let (x, y) = if a.dtype().is_float() {
                    let wide = a.dtype().accumulator();
                    (a.cast(wide), b.cast(wide))
                } else {
                    (a.cast(DType::F64), b.cast(DType::F64))
                };
                let apart = (x - y).abs();
                let near = apart.le(y.abs() * rtol + atol) & apart.lt(f64::INFINITY);
                let close = same | near;
                if equal_nan { close | (a.is_nan() & b.is_nan()) } else { close }
            }))
        })
    }
}

/// The largest finite number of a type of floats.
fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MAX,
        DType::F32 => f64::from(f32::MAX),
        DType::BF16 => half::bf16::MAX.to_f64(),
        DType::F16 => half::f16::MAX.to_f64(),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => unreachable!("only asked of floats"),
    }
}
