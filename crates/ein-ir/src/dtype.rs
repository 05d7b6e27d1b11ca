//! Element types.

use std::fmt;

/// The type of one element of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE double precision.
    F64,
    /// IEEE single precision.
    F32,
    /// bfloat16: the upper half of an `F32`.
    BF16,
    /// IEEE half precision.
    F16,
    /// 64-bit signed integer.
    I64,
    /// 32-bit signed integer.
    I32,
    /// 8-bit unsigned integer.
    U8,
    /// One byte, 0 or 1.
    Bool,
}

impl DType {
    /// Every element type, in promotion order.
    pub const ALL: [DType; 8] =
        [Self::F64, Self::F32, Self::BF16, Self::F16, Self::I64, Self::I32, Self::U8, Self::Bool];

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::BF16 | Self::F16 => 2,
            Self::U8 | Self::Bool => 1,
        }
    }

    /// Whether this is one of the floating-point types.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::BF16 | Self::F16)
    }

    /// The type in which sums of this type are accumulated: 16-bit floats in `F32`, others in themselves.
    pub fn accumulator(self) -> DType {
        match self {
            Self::BF16 | Self::F16 => Self::F32,
            other => other,
        }
    }

    /// The name used in text forms: `f32`, `bf16`, `i64`, `bool`, …
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::BF16 => "bf16",
            Self::F16 => "f16",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }

    /// The type with this name, if there is one.
    pub fn parse(name: &str) -> Option<DType> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
