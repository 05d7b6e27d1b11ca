//! Scalar expressions as statements.
//!
//! A row becomes a constant `r<n>` of its type's C type in registers, computed and then rounded as
//! [`ein_ir::scalar`] says: 16-bit floats in `float`, integers wrapping. Functions of `float` are CUDA's, which are
//! within a few units of the last place.

use super::types::{cast, float, integer, rounded, value};
use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Literal, Row, Unary};
use std::fmt::Write;

/// Statements for rows, but not for those in `skip`; `operand` and `index` are the values of operands and of global label
/// indices.
pub(crate) fn statements(
    rows: &[(Row, DType)],
    skip: Option<usize>,
    operand: &dyn Fn(usize) -> String,
    index: &dyn Fn(usize) -> String,
) -> String {
    let mut text = String::new();
    for (n, &(row, dtype)) in rows.iter().enumerate() {
        if skip == Some(n) {
            continue;
        }
        let of = |r: usize| format!("r{r}");
        let it = match row {
            Row::Operand(k) => operand(k),
            Row::Const(Literal::Float(bits)) => literal(f64::from_bits(bits), dtype),
            Row::Const(Literal::Int(v)) if dtype.is_float() => {
                // By way of f32, as a cast of an integer.
                float(dtype, if dtype == DType::F64 { v as f64 } else { f64::from(v as f32) })
            }
            Row::Const(Literal::Int(v)) => integer(dtype, v),
            Row::Index(l) => index(l),
            Row::Unary(function, x) => unary(function, &of(x), dtype),
            Row::Binary(function, a, b) => binary(function, [&of(a), &of(b)], rows[a].1, dtype),
            Row::Select(c, yes, no) => format!("r{c} ? r{yes} : r{no}"),
            Row::Cast(x) => cast(rows[x].1, dtype, &of(x)),
        };
        let _ = writeln!(text, "const {} r{n} = {it};", value(dtype));
    }
    text
}

fn literal(v: f64, dtype: DType) -> String {
    if dtype.is_float() { float(dtype, v) } else { integer(dtype, ein_ir::scalar::Scalar::F(v).cast(dtype).to_i64()) }
}

/// The name of a function of CUDA for a type: with an `f` at the end for what is computed in `float`.
fn named(name: &str, dtype: DType) -> String {
    if dtype == DType::F64 { name.into() } else { format!("{name}f") }
}

fn unary(function: Unary, x: &str, dtype: DType) -> String {
    let one = if dtype == DType::F64 { "1.0" } else { "1.0f" };
    let call = |name: &str| format!("{}({x})", named(name, dtype));
    let short = matches!(dtype, DType::BF16 | DType::F16);
    let all = match function {
        Unary::Neg if dtype.is_float() => format!("-{x}"),
        Unary::Neg => return format!("ein_sub(({})0, {x})", value(dtype)),
        Unary::Abs if dtype.is_float() => call("fabs"),
        Unary::Abs if dtype == DType::U8 => return x.into(),
        Unary::Abs => return format!("{x} < 0 ? ein_sub(({})0, {x}) : {x}", value(dtype)),
        Unary::Not => return format!("!{x}"),
        Unary::Exp if short => format!("ein_exp_short({x})"),
        Unary::Exp => call("exp"),
        Unary::Exp2 => call("exp2"),
        Unary::Expm1 => call("expm1"),
        Unary::Log => call("log"),
        Unary::Log2 => call("log2"),
        Unary::Log10 => call("log10"),
        Unary::Log1p => call("log1p"),
        Unary::Sqrt => call("sqrt"),
        Unary::Rsqrt => format!("{one} / {}", call("sqrt")),
        Unary::Sin => call("sin"),
        Unary::Cos => call("cos"),
        Unary::Tan => call("tan"),
        Unary::Asin => call("asin"),
        Unary::Acos => call("acos"),
        Unary::Atan => call("atan"),
        Unary::Sinh => call("sinh"),
        Unary::Cosh => call("cosh"),
        Unary::Tanh => call("tanh"),
        Unary::Asinh => call("asinh"),
        Unary::Acosh => call("acosh"),
        Unary::Atanh => call("atanh"),
        Unary::Erf => call("erf"),
        Unary::Erfc => call("erfc"),
        Unary::Erfinv if dtype == DType::F64 => format!("ein_erfinv({x})"),
        Unary::Erfinv => format!("(float)ein_erfinv((double){x})"),
        Unary::Sigmoid if short => format!("ein_sigmoid_short({x})"),
        Unary::Sigmoid => format!("ein_sigmoid({x})"),
        Unary::Floor => call("floor"),
        Unary::Ceil => call("ceil"),
        Unary::Round => call("rint"),
        Unary::Trunc => call("trunc"),
    };
    rounded(dtype, &all)
}

/// A function of two values of type `of` that gives one of type `dtype`.
fn binary(function: Binary, [a, b]: [&str; 2], of: DType, dtype: DType) -> String {
    let infix = |sign: &str| format!("{a} {sign} {b}");
    let call = |name: &str| format!("{name}({a}, {b})");
    let bits = |sign: &str| format!("({})({a} {sign} {b})", value(dtype));
    // Integers are computed in 64 bits and wrapped; floats rounded.
    let either = |float: String, whole: &str| {
        if of.is_float() { rounded(dtype, &float) } else { format!("({}){whole}({a}, {b})", value(dtype)) }
    };
    match function {
        Binary::Add => rounded(dtype, &call("ein_add")),
        Binary::Sub => rounded(dtype, &call("ein_sub")),
        Binary::Mul => rounded(dtype, &call("ein_mul")),
        Binary::Div => either(infix("/"), "ein_div_int"),
        Binary::Rem => either(call("ein_rem"), "ein_rem_int"),
        Binary::Fmod => either(call(&named("fmod", of)), "ein_fmod_int"),
        Binary::Pow => either(call(&named("pow", of)), "ein_pow_int"),
        Binary::Atan2 => rounded(dtype, &call(&named("atan2", of))),
        Binary::Copysign => rounded(dtype, &call(&named("copysign", of))),
        Binary::Max => call("ein_max"),
        Binary::Min => call("ein_min"),
        Binary::Lt => infix("<"),
        Binary::Le => infix("<="),
        Binary::Eq => infix("=="),
        Binary::Ne => infix("!="),
        Binary::And => infix("&&"),
        Binary::Or => infix("||"),
        Binary::BitAnd => bits("&"),
        Binary::BitOr => bits("|"),
        Binary::BitXor => bits("^"),
        Binary::Shl => either(String::new(), "ein_shl"),
        Binary::Shr => either(String::new(), "ein_shr"),
    }
}
