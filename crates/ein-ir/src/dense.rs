//! Whole tensors in host memory: what the reference computes with and what goes in and out of a run.

use crate::dtype::DType;
use crate::graph::TensorType;
use half::{bf16, f16};

/// The elements, row-major, in their own type. Bools are bytes 0 and 1.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Data {
    F64(Vec<f64>),
    F32(Vec<f32>),
    BF16(Vec<bf16>),
    F16(Vec<f16>),
    I64(Vec<i64>),
    I32(Vec<i32>),
    U8(Vec<u8>),
    Bool(Vec<u8>),
}

/// A whole tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    /// Extents.
    pub shape: Vec<usize>,
    /// `shape` elements.
    pub data: Data,
}

macro_rules! each {
    ($data:expr, $v:ident => $body:expr) => {
        match $data {
            Data::F64($v) => $body,
            Data::F32($v) => $body,
            Data::BF16($v) => $body,
            Data::F16($v) => $body,
            Data::I64($v) => $body,
            Data::I32($v) => $body,
            Data::U8($v) | Data::Bool($v) => $body,
        }
    };
}

impl Dense {
    /// A tensor of `f32`.
    pub fn f32(shape: impl Into<Vec<usize>>, values: Vec<f32>) -> Self {
        let shape = shape.into();
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{shape:?} elements are given");
        Self { shape, data: Data::F32(values) }
    }

    /// A tensor of `i64`.
    pub fn i64(shape: impl Into<Vec<usize>>, values: Vec<i64>) -> Self {
        let shape = shape.into();
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{shape:?} elements are given");
        Self { shape, data: Data::I64(values) }
    }

    /// A tensor of any type from values that are rounded to it.
    pub fn from_f64(dtype: DType, shape: impl Into<Vec<usize>>, values: &[f64]) -> Self {
        let shape = shape.into();
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{shape:?} elements are given");
        let it = values.iter().copied();
        let data = match dtype {
            DType::F64 => Data::F64(it.collect()),
            DType::F32 => Data::F32(it.map(|v| v as f32).collect()),
            DType::BF16 => Data::BF16(it.map(bf16::from_f64).collect()),
            DType::F16 => Data::F16(it.map(f16::from_f64).collect()),
            DType::I64 => Data::I64(it.map(|v| v as i64).collect()),
            DType::I32 => Data::I32(it.map(|v| v as i32).collect()),
            DType::U8 => Data::U8(it.map(|v| v as u8).collect()),
            DType::Bool => Data::Bool(it.map(|v| u8::from(v != 0.0)).collect()),
        };
        Self { shape, data }
    }

    /// A tensor of zeros.
    pub fn zeros(ty: &TensorType) -> Self {
        Self::from_le_bytes(ty, &vec![0; ty.bytes() as usize]).expect("the right number of bytes")
    }

    /// The type and shape.
    pub fn ty(&self) -> TensorType {
        TensorType::new(self.dtype(), self.shape.clone())
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        match self.data {
            Data::F64(_) => DType::F64,
            Data::F32(_) => DType::F32,
            Data::BF16(_) => DType::BF16,
            Data::F16(_) => DType::F16,
            Data::I64(_) => DType::I64,
            Data::I32(_) => DType::I32,
            Data::U8(_) => DType::U8,
            Data::Bool(_) => DType::Bool,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        each!(&self.data, v => v.len())
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element `n` in row-major order as `f64` (an `i64` beyond 2⁵³ rounds).
    pub fn get(&self, n: usize) -> f64 {
        match &self.data {
            Data::F64(v) => v[n],
            Data::F32(v) => v[n] as f64,
            Data::BF16(v) => v[n].to_f64(),
            Data::F16(v) => v[n].to_f64(),
            Data::I64(v) => v[n] as f64,
            Data::I32(v) => v[n] as f64,
            Data::U8(v) | Data::Bool(v) => v[n] as f64,
        }
    }

    /// All elements as `f64`.
    pub fn to_f64(&self) -> Vec<f64> {
        (0..self.len()).map(|n| self.get(n)).collect()
    }

    /// The elements in little-endian bytes, row-major: the storage of a finished value.
    pub fn to_le_bytes(&self) -> Vec<u8> {
        each!(&self.data, v => v.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// The tensor with these little-endian bytes; `None` when their number is wrong.
    pub fn from_le_bytes(ty: &TensorType, bytes: &[u8]) -> Option<Self> {
        if bytes.len() as u64 != ty.bytes() {
            return None;
        }
        macro_rules! read {
            ($kind:ident, $t:ty) => {
                Data::$kind(
                    bytes
                        .chunks_exact(size_of::<$t>())
                        .map(|b| <$t>::from_le_bytes(b.try_into().expect("an exact chunk")))
                        .collect(),
                )
            };
        }
        let data = match ty.dtype {
            DType::F64 => read!(F64, f64),
            DType::F32 => read!(F32, f32),
            DType::BF16 => read!(BF16, bf16),
            DType::F16 => read!(F16, f16),
            DType::I64 => read!(I64, i64),
            DType::I32 => read!(I32, i32),
            DType::U8 => Data::U8(bytes.to_vec()),
            DType::Bool => Data::Bool(bytes.iter().map(|&b| u8::from(b != 0)).collect()),
        };
        Some(Self { shape: ty.shape.clone(), data })
    }

    /// The largest absolute difference to `other`, NaN counting as equal to NaN and equal infinities as
    /// equal; infinite when shapes differ or only one side is NaN or infinite.
    pub fn max_abs_difference(&self, other: &Self) -> f64 {
        if self.shape != other.shape {
            return f64::INFINITY;
        }
        let difference = |n| {
            let (a, b) = (self.get(n), other.get(n));
            if a == b || (a.is_nan() && b.is_nan()) {
                0.0
            } else if a.is_nan() || b.is_nan() {
                f64::INFINITY
            } else {
                (a - b).abs()
            }
        };
        (0..self.len()).map(difference).fold(0.0, f64::max)
    }
}
