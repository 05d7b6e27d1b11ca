//! Element types in CUDA C++: in memory, in registers, and conversions between them.
//!
//! In memory 16-bit floats are `unsigned short`, `u8` and `bool` are `unsigned char`. In registers 16-bit floats are
//! `float`s that the type can represent, a bool is a `bool`, everything else is itself.

use ein_ir::dtype::DType;

/// The C type of an element in memory.
pub(crate) fn stored(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "double",
        DType::F32 => "float",
        DType::BF16 | DType::F16 => "unsigned short",
        DType::I64 => "long long",
        DType::I32 => "int",
        DType::U8 | DType::Bool => "unsigned char",
    }
}

/// The C type of a value in a register.
pub(crate) fn value(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "double",
        DType::F32 | DType::BF16 | DType::F16 => "float",
        DType::I64 => "long long",
        DType::I32 => "int",
        DType::U8 => "unsigned char",
        DType::Bool => "bool",
    }
}

/// The value of an element in memory.
pub(crate) fn load(dtype: DType, element: &str) -> String {
    match dtype {
        DType::BF16 => format!("ein_from_bf16({element})"),
        DType::F16 => format!("ein_from_f16({element})"),
        DType::Bool => format!("({element} != 0)"),
        DType::F64 | DType::F32 | DType::I64 | DType::I32 | DType::U8 => element.into(),
    }
}

/// The element in memory of a value of the same type.
pub(crate) fn store(dtype: DType, value: &str) -> String {
    match dtype {
        DType::BF16 => format!("ein_to_bf16({value})"),
        DType::F16 => format!("ein_to_f16({value})"),
        DType::Bool => format!("(unsigned char)({value})"),
        DType::F64 | DType::F32 | DType::I64 | DType::I32 | DType::U8 => value.into(),
    }
}

/// A value in registers of the C type of `dtype`, rounded to it: nothing to do but for 16-bit floats.
pub(crate) fn rounded(dtype: DType, value: &str) -> String {
    match dtype {
        DType::BF16 => format!("ein_round_bf16({value})"),
        DType::F16 => format!("ein_round_f16({value})"),
        DType::F64 | DType::F32 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => value.into(),
    }
}

/// A value of one type as one of another, as [`Scalar::cast`](ein_ir::scalar::Scalar::cast) says.
pub(crate) fn cast(from: DType, to: DType, value: &str) -> String {
    if from == to {
        return value.into();
    }
    match to {
        DType::F64 => format!("(double)({value})"),
        DType::F32 => format!("(float)({value})"),
        // From f32 by way of which they are rounded.
        DType::BF16 | DType::F16 => rounded(to, &format!("(float)({value})")),
        DType::Bool => format!("({value} != 0)"),
        DType::I64 if from.is_float() => format!("ein_to_i64({value})"),
        DType::I32 if from.is_float() => format!("ein_to_i32({value})"),
        DType::U8 if from.is_float() => format!("ein_to_u8({value})"),
        DType::I64 | DType::I32 | DType::U8 => format!("({})({value})", self::value(to)),
    }
}

/// A float constant of the C type of `dtype`, exactly.
pub(crate) fn float(dtype: DType, v: f64) -> String {
    let v = ein_ir::scalar::round(v, dtype);
    if dtype == DType::F64 {
        return match v {
            v if v.is_finite() => format!("({v:e})"),
            v => format!("__longlong_as_double({}ll)", v.to_bits().cast_signed()),
        };
    }
    // Rounded above: exact as f32.
    match v as f32 {
        v if v.is_finite() => format!("({v:e}f)"),
        v => format!("__int_as_float({})", v.to_bits().cast_signed()),
    }
}

/// An integer constant of the C type of `dtype`, wrapped to it.
pub(crate) fn integer(dtype: DType, v: i64) -> String {
    match ein_ir::scalar::wrap(v, dtype) {
        // The literal 2^63 is none of a signed type.
        i64::MIN => "(-9223372036854775807ll - 1ll)".into(),
        v => format!("({}){v}ll", value(dtype)),
    }
}
