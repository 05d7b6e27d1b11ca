//! One row of an expression for a block of points: a function applied to lanes.
// Loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use super::convert::{round_all, round_bf16, to_f64, wide};
use super::lanes::{Values, ValuesMut};
use super::piece::Elements;
use super::{double, math};
use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Unary};
use ein_ir::scalar;
use half::f16;

pub(super) fn unary(function: Unary, x: Values<'_>, out: ValuesMut<'_>, dtype: DType) {
    match (x, out) {
        (Values::F32(x), ValuesMut::F32(out)) => {
            unary_f32(function, x, out);
            round(out, dtype);
        }
        (Values::F64(x), ValuesMut::F64(out)) => {
            for (o, &x) in out.iter_mut().zip(x) {
                *o = scalar::unary(function, scalar::Scalar::F(x), DType::F64).to_f64();
            }
        }
        (Values::Int(x), ValuesMut::Int(out)) => {
            for (o, &x) in out.iter_mut().zip(x) {
                *o = scalar::unary(function, scalar::Scalar::I(x), dtype).to_i64();
            }
        }
        _ => unreachable!("a function keeps the type"),
    }
}

fn unary_f32(function: Unary, x: &[f32], out: &mut [f32]) {
    macro_rules! each {
        ($f:expr) => {
            wide!({
                for (o, &x) in out.iter_mut().zip(x) {
                    *o = $f(x);
                }
            })
        };
    }
    match function {
        Unary::Exp => each!(math::exp),
        Unary::Exp2 => each!(double::exp2),
        Unary::Expm1 => each!(double::expm1),
        Unary::Log => each!(double::log),
        Unary::Log2 => each!(double::log2),
        Unary::Log10 => each!(double::log10),
        Unary::Log1p => each!(double::log1p),
        Unary::Sqrt => each!(f32::sqrt),
        Unary::Rsqrt => each!(|x: f32| 1.0 / x.sqrt()),
        Unary::Sin => {
            each!(double::sin);
            far(x, out, f64::sin);
        }
        Unary::Cos => {
            each!(double::cos);
            far(x, out, f64::cos);
        }
        Unary::Tan => {
            each!(double::tan);
            far(x, out, f64::tan);
        }
        Unary::Asin => each!(double::asin),
        Unary::Acos => each!(double::acos),
        Unary::Atan => each!(double::atan),
        Unary::Sinh => each!(double::sinh),
        Unary::Cosh => each!(double::cosh),
        Unary::Tanh => each!(math::tanh),
        Unary::Asinh => each!(double::asinh),
        Unary::Acosh => each!(double::acosh),
        Unary::Atanh => each!(double::atanh),
        Unary::Erf => each!(math::erf),
        Unary::Erfc => each!(double::erfc),
        Unary::Erfinv => each!(double::erfinv),
        Unary::Sigmoid => each!(math::sigmoid),
        Unary::Floor => each!(f32::floor),
        Unary::Ceil => each!(f32::ceil),
        Unary::Round => each!(f32::round_ties_even),
        Unary::Trunc => each!(f32::trunc),
        Unary::Neg => each!(|x: f32| -x),
        Unary::Abs => each!(f32::abs),
        Unary::Not => unreachable!("`not` is of bools"),
    }
}

/// Angles that the fast functions do not take, each by itself, so that no value depends on its neighbours.
fn far(x: &[f32], out: &mut [f32], f: fn(f64) -> f64) {
    for (o, &x) in out.iter_mut().zip(x).filter(|(_, x)| x.abs() > double::FARTHEST) {
        *o = f(f64::from(x)) as f32;
    }
}

/// Rounds to a 16-bit type.
fn round(v: &mut [f32], dtype: DType) {
    match dtype {
        DType::BF16 => round_all(v),
        DType::F16 => v.iter_mut().for_each(|v| *v = f16::from_f32(*v).to_f32()),
        _ => {}
    }
}

pub(super) fn binary(function: Binary, a: Values<'_>, b: Values<'_>, out: ValuesMut<'_>, dtype: DType, squares: bool) {
    macro_rules! compare {
        ($a:expr, $b:expr, $out:expr, $f:expr) => {
            wide!({
                for ((o, &a), &b) in $out.iter_mut().zip($a.iter()).zip($b.iter()) {
                    *o = i64::from($f(a, b));
                }
            })
        };
    }
    match (a, b, out) {
        (Values::F32(a), Values::F32(b), ValuesMut::F32(out)) => {
            binary_f32(function, a, b, out, squares);
            round(out, dtype);
        }
        (Values::F64(a), Values::F64(b), ValuesMut::F64(out)) => {
            for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                let (a, b) = (scalar::Scalar::F(a), scalar::Scalar::F(b));
                *o = scalar::binary(function, a, b, DType::F64).to_f64();
            }
        }
        (Values::Int(a), Values::Int(b), ValuesMut::Int(out)) => binary_int(function, a, b, out, dtype),
        (Values::F32(a), Values::F32(b), ValuesMut::Int(out)) => match function {
            Binary::Lt => compare!(a, b, out, |a, b| a < b),
            Binary::Le => compare!(a, b, out, |a, b| a <= b),
            Binary::Eq => compare!(a, b, out, |a, b| a == b),
            _ => compare!(a, b, out, |a, b| a != b),
        },
        (Values::F64(a), Values::F64(b), ValuesMut::Int(out)) => match function {
            Binary::Lt => compare!(a, b, out, |a, b| a < b),
            Binary::Le => compare!(a, b, out, |a, b| a <= b),
            Binary::Eq => compare!(a, b, out, |a, b| a == b),
            _ => compare!(a, b, out, |a, b| a != b),
        },
        _ => unreachable!("both sides have one type"),
    }
}

fn binary_f32(function: Binary, a: &[f32], b: &[f32], out: &mut [f32], squares: bool) {
    macro_rules! each {
        ($f:expr) => {
            wide!({
                for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *o = $f(a, b);
                }
            })
        };
    }
    match function {
        Binary::Add => each!(|a, b| a + b),
        Binary::Sub => each!(|a, b| a - b),
        Binary::Mul => each!(|a, b| a * b),
        Binary::Div => each!(|a, b| a / b),
        Binary::Max => each!(max),
        Binary::Min => each!(min),
        Binary::Pow if squares => each!(|a, _| a * a),
        Binary::Pow => each!(double::pow),
        Binary::Atan2 => each!(double::atan2),
        Binary::Copysign => each!(f32::copysign),
        Binary::Rem | Binary::Fmod => {
            for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                let (a, b) = (scalar::Scalar::F(a.into()), scalar::Scalar::F(b.into()));
                *o = scalar::binary(function, a, b, DType::F32).to_f64() as f32;
            }
        }
        Binary::Lt
        | Binary::Le
        | Binary::Eq
        | Binary::Ne
        | Binary::And
        | Binary::Or
        | Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::Shl
        | Binary::Shr => unreachable!("of other types"),
    }
}

fn binary_int(function: Binary, a: &[i64], b: &[i64], out: &mut [i64], dtype: DType) {
    macro_rules! each {
        ($f:expr) => {
            wide!({
                for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *o = $f(a, b);
                }
            })
        };
    }
    match (function, dtype) {
        (Binary::Add, DType::I64) => each!(|a: i64, b| a.wrapping_add(b)),
        (Binary::Sub, DType::I64) => each!(|a: i64, b| a.wrapping_sub(b)),
        (Binary::Mul, DType::I64) => each!(|a: i64, b| a.wrapping_mul(b)),
        (Binary::Add, DType::I32) => each!(|a: i64, b| i64::from(a.wrapping_add(b) as i32)),
        (Binary::Sub, DType::I32) => each!(|a: i64, b| i64::from(a.wrapping_sub(b) as i32)),
        (Binary::Mul, DType::I32) => each!(|a: i64, b| i64::from(a.wrapping_mul(b) as i32)),
        (Binary::Lt, _) => each!(|a, b| i64::from(a < b)),
        (Binary::Le, _) => each!(|a, b| i64::from(a <= b)),
        (Binary::Eq, _) => each!(|a, b| i64::from(a == b)),
        (Binary::Ne, _) => each!(|a, b| i64::from(a != b)),
        (Binary::Max, _) => each!(|a: i64, b| a.max(b)),
        (Binary::Min, _) => each!(|a: i64, b| a.min(b)),
        (Binary::And | Binary::BitAnd, _) => each!(|a, b| a & b),
        (Binary::Or | Binary::BitOr, _) => each!(|a, b| a | b),
        (Binary::BitXor, _) => each!(|a, b| a ^ b),
        (Binary::Shl, DType::I64) => each!(scalar::shl),
        (Binary::Shl, DType::I32) => each!(|a, b| i64::from(scalar::shl(a, b) as i32)),
        (Binary::Shr, _) => each!(scalar::shr),
        (
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::Rem
            | Binary::Fmod
            | Binary::Pow
            | Binary::Shl
            | Binary::Atan2
            | Binary::Copysign,
            _,
        ) => {
            for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                *o = scalar::binary(function, scalar::Scalar::I(a), scalar::Scalar::I(b), dtype).to_i64();
            }
        }
    }
}

/// The larger; a NaN on either side passes.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller; a NaN on either side passes.
#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

pub(super) fn select(condition: &[i64], yes: Values<'_>, no: Values<'_>, out: ValuesMut<'_>) {
    macro_rules! each {
        ($yes:expr, $no:expr, $out:expr) => {
            wide!({
                for (((o, &c), &y), &x) in $out.iter_mut().zip(condition).zip($yes.iter()).zip($no.iter()) {
                    *o = if c != 0 { y } else { x };
                }
            })
        };
    }
    match (yes, no, out) {
        (Values::F32(y), Values::F32(x), ValuesMut::F32(o)) => each!(y, x, o),
        (Values::F64(y), Values::F64(x), ValuesMut::F64(o)) => each!(y, x, o),
        (Values::Int(y), Values::Int(x), ValuesMut::Int(o)) => each!(y, x, o),
        _ => unreachable!("both sides have one type"),
    }
}

/// Converts a lane to a type, as `Row::Cast` says.
pub(crate) fn cast(from: Values<'_>, out: ValuesMut<'_>, dtype: DType) {
    match (from, out) {
        (Values::F32(x), ValuesMut::F32(out)) if dtype == DType::BF16 => wide!({
            for (o, &x) in out.iter_mut().zip(x) {
                *o = round_bf16(x);
            }
        }),
        (Values::F32(x), ValuesMut::F32(out)) => {
            out.copy_from_slice(x);
            round(out, dtype);
        }
        (Values::F64(x), ValuesMut::F32(out)) => {
            wide!({
                for (o, &x) in out.iter_mut().zip(x) {
                    *o = x as f32;
                }
            });
            round(out, dtype);
        }
        (Values::Int(x), ValuesMut::F32(out)) => {
            wide!({
                for (o, &x) in out.iter_mut().zip(x) {
                    *o = x as f32;
                }
            });
            round(out, dtype);
        }
        (Values::F32(x), ValuesMut::F64(out)) => to_f64(Elements::F32(x), 0, out),
        (Values::F64(x), ValuesMut::F64(out)) => out.copy_from_slice(x),
        (Values::Int(x), ValuesMut::F64(out)) => to_f64(Elements::I64(x), 0, out),
        (Values::F32(x), ValuesMut::Int(out)) => {
            let wide = |x: &f32| scalar::Scalar::F(f64::from(*x)).cast(dtype).to_i64();
            out.iter_mut().zip(x).for_each(|(o, x)| *o = wide(x));
        }
        (Values::F64(x), ValuesMut::Int(out)) => {
            out.iter_mut().zip(x).for_each(|(o, &x)| *o = scalar::Scalar::F(x).cast(dtype).to_i64());
        }
        (Values::Int(x), ValuesMut::Int(out)) => {
            out.iter_mut().zip(x).for_each(|(o, &x)| *o = scalar::wrap(x, dtype));
        }
    }
}
