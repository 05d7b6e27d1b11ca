//! One scalar at a time: what every row of an [`Expr`] means, rounding included.
//!
//! This is the definition that devices are compared with. Each row is computed and then rounded to its
//! own type: `f32` once, 16-bit floats by way of `f32`, integers by wrapping. Functions are evaluated in
//! `f64` first, which for `+ - * /` and the square root gives the same bits as `f32` arithmetic.

use crate::dtype::DType;
use crate::expr::{Binary, Expr, Literal, Row, Unary};
use half::{bf16, f16};

/// A value of some element type: `F` for the float types, `I` for integers and, as 0 or 1, bools.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A float that its type can represent.
    F(f64),
    /// An integer that its type can represent.
    I(i64),
}

impl Scalar {
    /// Conversion as [`Row::Cast`] says: float to integer truncates and saturates and NaN gives 0, integer
    /// to integer wraps, anything to bool is `!= 0`, anything to float rounds to nearest even.
    pub fn cast(self, dtype: DType) -> Self {
        match (self, dtype) {
            (Self::F(v), DType::F64 | DType::F32 | DType::BF16 | DType::F16) => Self::F(round(v, dtype)),
            (Self::I(v), DType::F64) => Self::F(v as f64),
            (Self::I(v), DType::F32 | DType::BF16 | DType::F16) => Self::F(round((v as f32) as f64, dtype)),
            (Self::F(v), DType::I64) => Self::I(v as i64),
            (Self::F(v), DType::I32) => Self::I((v as i32) as i64),
            (Self::F(v), DType::U8) => Self::I((v as u8) as i64),
            (Self::F(v), DType::Bool) => Self::I(i64::from(v != 0.0)),
            (Self::I(v), DType::I64 | DType::I32 | DType::U8 | DType::Bool) => Self::I(wrap(v, dtype)),
        }
    }

    /// The value as `f64` (an integer beyond 2⁵³ rounds).
    pub fn to_f64(self) -> f64 {
        match self {
            Self::F(v) => v,
            Self::I(v) => v as f64,
        }
    }

    /// The value as `i64`, as a cast to [`DType::I64`].
    pub fn to_i64(self) -> i64 {
        match self {
            Self::F(v) => v as i64,
            Self::I(v) => v,
        }
    }

    fn truth(self) -> bool {
        match self {
            Self::F(v) => v != 0.0,
            Self::I(v) => v != 0,
        }
    }
}

/// A constant as a value of a type.
pub fn literal(value: Literal, dtype: DType) -> Scalar {
    match value {
        Literal::Float(bits) => Scalar::F(f64::from_bits(bits)).cast(dtype),
        Literal::Int(v) => Scalar::I(v).cast(dtype),
    }
}

/// `v` rounded to a float type; unchanged for other types.
pub fn round(v: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => (v as f32) as f64,
        DType::BF16 => bf16::from_f32(v as f32).to_f64(),
        DType::F16 => f16::from_f32(v as f32).to_f64(),
        DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => v,
    }
}

/// `v` wrapped to an integer type; a bool is `v != 0`.
pub fn wrap(v: i64, dtype: DType) -> i64 {
    match dtype {
        DType::I32 => (v as i32) as i64,
        DType::U8 => (v as u8) as i64,
        DType::Bool => i64::from(v != 0),
        DType::I64 | DType::F64 | DType::F32 | DType::BF16 | DType::F16 => v,
    }
}

/// The larger; a NaN on either side is passed on.
pub fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// The smaller; a NaN on either side is passed on.
pub fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

/// A function of one argument of type `dtype`.
pub fn unary(function: Unary, x: Scalar, dtype: DType) -> Scalar {
    match x {
        Scalar::F(v) => Scalar::F(round(unary_float(function, v), dtype)),
        Scalar::I(v) => Scalar::I(unary_int(function, v, dtype)),
    }
}

fn unary_float(function: Unary, v: f64) -> f64 {
    match function {
        Unary::Exp => v.exp(),
        Unary::Exp2 => v.exp2(),
        Unary::Expm1 => v.exp_m1(),
        Unary::Log => v.ln(),
        Unary::Log2 => v.log2(),
        Unary::Log10 => v.log10(),
        Unary::Log1p => v.ln_1p(),
        Unary::Sqrt => v.sqrt(),
        Unary::Rsqrt => 1.0 / v.sqrt(),
        Unary::Sin => v.sin(),
        Unary::Cos => v.cos(),
        Unary::Tan => v.tan(),
        Unary::Asin => v.asin(),
        Unary::Acos => v.acos(),
        Unary::Atan => v.atan(),
        Unary::Sinh => v.sinh(),
        Unary::Cosh => v.cosh(),
        Unary::Tanh => v.tanh(),
        Unary::Asinh => libm::asinh(v),
        Unary::Acosh if v < 1.0 => f64::NAN,
        Unary::Acosh => libm::acosh(v),
        Unary::Atanh => libm::atanh(v),
        Unary::Erf => libm::erf(v),
        Unary::Erfc => libm::erfc(v),
        Unary::Erfinv => erfinv(v),
        Unary::Sigmoid => 1.0 / (1.0 + (-v).exp()),
        Unary::Floor => v.floor(),
        Unary::Ceil => v.ceil(),
        Unary::Round => v.round_ties_even(),
        Unary::Trunc => v.trunc(),
        Unary::Neg => -v,
        Unary::Abs => v.abs(),
        Unary::Not => unreachable!("refused for floats when the row was pushed"),
    }
}

/// The `y` of which `x` is the error function: a guess of three digits (Winitzki 2008), then three steps of
/// Halley's method, each of which triples the digits.
fn erfinv(x: f64) -> f64 {
    let a = x.abs();
    if !(0.0 < a && a < 1.0) {
        return if a == 1.0 {
            f64::INFINITY.copysign(x)
        } else if a == 0.0 {
            x
        } else {
            f64::NAN
        };
    }
    // 1 - x² and 1 - x without cancellation: both are exact enough for every x below 1.
    let log = ((1.0 - a) * (1.0 + a)).ln();
    let b = 2.0 / (std::f64::consts::PI * 0.147) + 0.5 * log;
    let mut y = ((b * b - log / 0.147).sqrt() - b).sqrt();
    for _ in 0..3 {
        let above = if a < 0.5 { libm::erf(y) - a } else { (1.0 - a) - libm::erfc(y) };
        let step = above / (std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp());
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}

fn unary_int(function: Unary, v: i64, dtype: DType) -> i64 {
    match function {
        Unary::Neg => wrap(v.wrapping_neg(), dtype),
        Unary::Abs => wrap(v.wrapping_abs(), dtype),
        Unary::Not => i64::from(v == 0),
        Unary::Exp
        | Unary::Exp2
        | Unary::Expm1
        | Unary::Log
        | Unary::Log2
        | Unary::Log10
        | Unary::Log1p
        | Unary::Sqrt
        | Unary::Rsqrt
        | Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Asin
        | Unary::Acos
        | Unary::Atan
        | Unary::Sinh
        | Unary::Cosh
        | Unary::Tanh
        | Unary::Asinh
        | Unary::Acosh
        | Unary::Atanh
        | Unary::Erf
        | Unary::Erfc
        | Unary::Erfinv
        | Unary::Sigmoid
        | Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::Trunc => unreachable!("refused for integers when the row was pushed"),
    }
}

/// A function of two arguments of type `dtype`; comparisons give a bool.
pub fn binary(function: Binary, a: Scalar, b: Scalar, dtype: DType) -> Scalar {
    match (a, b) {
        (Scalar::I(a), Scalar::I(b)) => Scalar::I(binary_int(function, a, b, dtype)),
        (a, b) => binary_float(function, a.to_f64(), b.to_f64(), dtype),
    }
}

fn binary_float(function: Binary, a: f64, b: f64, dtype: DType) -> Scalar {
    let value = match function {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Rem => {
            let r = a % b;
            if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
        }
        Binary::Fmod => a % b,
        Binary::Pow => a.powf(b),
        Binary::Max => max(a, b),
        Binary::Min => min(a, b),
        Binary::Atan2 => a.atan2(b),
        Binary::Copysign => a.copysign(b),
        Binary::Lt => return Scalar::I(i64::from(a < b)),
        Binary::Le => return Scalar::I(i64::from(a <= b)),
        Binary::Eq => return Scalar::I(i64::from(a == b)),
        Binary::Ne => return Scalar::I(i64::from(a != b)),
        Binary::And | Binary::Or | Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr => {
            unreachable!("refused for floats when the row was pushed")
        }
    };
    Scalar::F(round(value, dtype))
}

fn binary_int(function: Binary, a: i64, b: i64, dtype: DType) -> i64 {
    match function {
        Binary::Add => wrap(a.wrapping_add(b), dtype),
        Binary::Sub => wrap(a.wrapping_sub(b), dtype),
        Binary::Mul => wrap(a.wrapping_mul(b), dtype),
        Binary::Div => wrap(floor_div(a, b), dtype),
        Binary::Rem => wrap(a.wrapping_sub(floor_div(a, b).wrapping_mul(b)), dtype) * i64::from(b != 0),
        Binary::Fmod => wrap(if b == 0 { 0 } else { a.wrapping_rem(b) }, dtype),
        Binary::Pow => wrap(int_pow(a, b), dtype),
        Binary::Max => a.max(b),
        Binary::Min => a.min(b),
        Binary::Lt => i64::from(a < b),
        Binary::Le => i64::from(a <= b),
        Binary::Eq => i64::from(a == b),
        Binary::Ne => i64::from(a != b),
        Binary::And => i64::from(a != 0 && b != 0),
        Binary::Or => i64::from(a != 0 || b != 0),
        Binary::BitAnd => a & b,
        Binary::BitOr => a | b,
        Binary::BitXor => a ^ b,
        Binary::Shl => wrap(shl(a, b), dtype),
        Binary::Shr => shr(a, b),
        Binary::Atan2 | Binary::Copysign => unreachable!("refused for integers when the row was pushed"),
    }
}

/// `a` shifted to the left; 0 where no bit is left. What is shifted out of a narrower type, wrapping removes.
#[inline]
pub fn shl(a: i64, by: i64) -> i64 {
    if (0..64).contains(&by) { a << by } else { 0 }
}

/// `a` shifted to the right; its sign where no other bit is left.
#[inline]
pub fn shr(a: i64, by: i64) -> i64 {
    a >> if (0..64).contains(&by) { by } else { 63 }
}

/// `a / b` rounded towards minus infinity; 0 when `b` is 0.
fn floor_div(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let q = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

/// `a` to the power `b`, wrapping. A negative power is 0 unless the base is 1 or -1.
fn int_pow(a: i64, b: i64) -> i64 {
    if b < 0 {
        return match a {
            1 => 1,
            -1 => 1 - 2 * (b & 1),
            _ => 0,
        };
    }
    let (mut base, mut power, mut result) = (a, b, 1_i64);
    while power > 0 {
        if power & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        power >>= 1;
    }
    result
}

/// An expression ready to be evaluated many times without allocating.
#[derive(Clone, Debug)]
pub struct Evaluator {
    /// The rows, with the type that each is rounded to.
    rows: Vec<(Row, DType)>,
    values: Vec<Scalar>,
}

impl Evaluator {
    /// Prepares `expr`. With `exact_product` a last row that is a product of floats is not rounded: what is
    /// added up next is the exact product, as a fused multiply-add and a tensor core do.
    pub fn new(expr: &Expr, exact_product: bool) -> Self {
        let mut rows = expr.rows().to_vec();
        let values = rows
            .iter()
            .map(|&(row, dtype)| if let Row::Const(v) = row { literal(v, dtype) } else { Scalar::I(0) })
            .collect();
        if exact_product
            && let Some((Row::Binary(Binary::Mul, ..), dtype)) = rows.last_mut()
            && dtype.is_float()
        {
            *dtype = DType::F64;
        }
        Self { rows, values }
    }

    /// What every row was at the last point.
    #[cfg(test)]
    pub(crate) fn values(&self) -> &[Scalar] {
        &self.values
    }

    /// The value where `operand(n)` is the element of operand `n` and `index(l)` the global index of label `l`.
    pub fn value(&mut self, operand: impl Fn(usize) -> Scalar, index: impl Fn(usize) -> usize) -> Scalar {
        for n in 0..self.rows.len() {
            let (row, dtype) = self.rows[n];
            let v = |r: usize| self.values[r];
            self.values[n] = match row {
                Row::Const(_) => continue,
                Row::Operand(k) => operand(k),
                Row::Index(l) => Scalar::I(index(l) as i64),
                Row::Unary(function, x) => unary(function, v(x), dtype),
                Row::Binary(function, a, b) => binary(function, v(a), v(b), dtype),
                Row::Select(c, yes, no) => {
                    if v(c).truth() {
                        v(yes)
                    } else {
                        v(no)
                    }
                }
                Row::Cast(x) => v(x).cast(dtype),
            };
        }
        self.values.last().copied().unwrap_or(Scalar::I(0))
    }
}

/// The value of `expr` at one point: elements of the operands and global indices of the labels.
pub fn evaluate(expr: &Expr, operands: &[Scalar], point: &[usize]) -> Scalar {
    Evaluator::new(expr, false).value(|n| operands[n], |l| point[l])
}
