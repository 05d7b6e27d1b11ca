//! Copying boxes: cutting, pasting and viewing without a kernel, for any element type.

use crate::dense::{Data, Dense};
use crate::dtype::DType;
use crate::region::{Region, strides};
use crate::scalar::Scalar;

/// A copy of a box between two row-major buffers: `(length, stride there, stride here)` per axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    /// First element written.
    pub to: usize,
    /// First element read.
    pub from: usize,
    /// Length, stride of the written buffer and stride of the read one, outermost axis first.
    pub axes: Vec<(usize, usize, i64)>,
}

impl Strided {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.axes.iter().map(|a| a.0).product()
    }

    /// Whether nothing is copied.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The copy with neighbouring axes joined where both buffers allow, so that runs are long.
    fn joined(mut self) -> Self {
        self.axes.retain(|a| a.0 != 1);
        let mut axis = 0;
        while axis + 1 < self.axes.len() {
            let (outer, inner) = (self.axes[axis], self.axes[axis + 1]);
            if outer.1 == inner.0 * inner.1 && outer.2 == inner.0 as i64 * inner.2 {
                self.axes[axis] = (outer.0 * inner.0, inner.1, inner.2);
                self.axes.remove(axis + 1);
            } else {
                axis += 1;
            }
        }
        self
    }

    /// Does it.
    pub fn apply<T: Copy>(self, to: &mut [T], from: &[T]) {
        if self.is_empty() {
            return;
        }
        let copy = self.joined();
        let Some((&(n, there, here), outer)) = copy.axes.split_last() else {
            to[copy.to] = from[copy.from];
            return;
        };
        let mut index = vec![0; outer.len()];
        let (mut t, mut f) = (copy.to, copy.from as i64);
        loop {
            if there == 1 && here == 1 {
                to[t..t + n].copy_from_slice(&from[f as usize..f as usize + n]);
            } else {
                for k in 0..n {
                    to[t + k * there] = from[(f + k as i64 * here) as usize];
                }
            }
            let mut axis = outer.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                let (length, there, here) = outer[axis];
                index[axis] += 1;
                t += there;
                f += here;
                if index[axis] < length {
                    break;
                }
                t -= there * length;
                f -= here * length as i64;
                index[axis] = 0;
            }
        }
    }
}

/// The copy of `part` out of a buffer that holds `from` into one that holds `to`.
pub fn between(to: &Region, from: &Region, part: &Region) -> Strided {
    let (there, here) = (strides(&to.shape()), strides(&from.shape()));
    let start = |own: &Region, strides: &[usize]| {
        (0..part.rank()).map(|a| (part.0[a].lo.wrapping_sub(own.0[a].lo)).wrapping_mul(strides[a])).sum::<usize>()
    };
    if part.is_empty() {
        return Strided { to: 0, from: 0, axes: vec![(0, 1, 1)] };
    }
    Strided {
        to: start(to, &there),
        from: start(from, &here),
        axes: (0..part.rank()).map(|a| (part.0[a].len(), there[a], here[a] as i64)).collect(),
    }
}

impl Dense {
    /// A tensor of one value, which is converted to the type.
    pub fn full(dtype: DType, shape: impl Into<Vec<usize>>, value: Scalar) -> Self {
        let shape = shape.into();
        let n = shape.iter().product();
        let value = value.cast(dtype);
        let (f, i) = (value.to_f64(), value.to_i64());
        let data = match dtype {
            DType::F64 => Data::F64(vec![f; n]),
            DType::F32 => Data::F32(vec![f as f32; n]),
            DType::BF16 => Data::BF16(vec![half::bf16::from_f64(f); n]),
            DType::F16 => Data::F16(vec![half::f16::from_f64(f); n]),
            DType::I64 => Data::I64(vec![i; n]),
            DType::I32 => Data::I32(vec![i as i32; n]),
            DType::U8 => Data::U8(vec![i as u8; n]),
            DType::Bool => Data::Bool(vec![i as u8; n]),
        };
        Self { shape, data }
    }

    /// Element `n` in row-major order.
    pub fn scalar(&self, n: usize) -> Scalar {
        match &self.data {
            Data::F64(v) => Scalar::F(v[n]),
            Data::F32(v) => Scalar::F(v[n] as f64),
            Data::BF16(v) => Scalar::F(v[n].to_f64()),
            Data::F16(v) => Scalar::F(v[n].to_f64()),
            Data::I64(v) => Scalar::I(v[n]),
            Data::I32(v) => Scalar::I(v[n] as i64),
            Data::U8(v) | Data::Bool(v) => Scalar::I(v[n] as i64),
        }
    }

    /// Every element converted to `dtype`, as [`Scalar::cast`] does.
    pub fn cast(&self, dtype: DType) -> Self {
        if self.dtype() == dtype {
            return self.clone();
        }
        let values = (0..self.len()).map(|n| self.scalar(n).cast(dtype));
        let data = if dtype.is_float() {
            return Self::from_f64(dtype, self.shape.clone(), &values.map(Scalar::to_f64).collect::<Vec<_>>());
        } else {
            values.map(Scalar::to_i64).collect::<Vec<_>>()
        };
        Self::from_i64(dtype, self.shape.clone(), data)
    }

    /// A tensor of any type from integers, which wrap to it (or, for floats, round).
    pub fn from_i64(dtype: DType, shape: impl Into<Vec<usize>>, values: Vec<i64>) -> Self {
        let shape = shape.into();
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{shape:?} elements are given");
        let data = match dtype {
            DType::I64 => Data::I64(values),
            DType::I32 => Data::I32(values.iter().map(|&v| v as i32).collect()),
            DType::U8 => Data::U8(values.iter().map(|&v| v as u8).collect()),
            DType::Bool => Data::Bool(values.iter().map(|&v| u8::from(v != 0)).collect()),
            DType::F64 | DType::F32 | DType::BF16 | DType::F16 => {
                return Self::from_f64(dtype, shape, &values.iter().map(|&v| v as f64).collect::<Vec<_>>());
            }
        };
        Self { shape, data }
    }

    /// The box `part` of a tensor whose elements are the box `own` of something.
    pub fn cut(&self, own: &Region, part: &Region) -> Self {
        assert!(own.contains(part), "{part} is cut out of {own}");
        let mut result = Self::full(self.dtype(), part.shape(), Scalar::I(0));
        result.copy(between(part, own, part), self);
        result
    }

    /// The box `own` put together from boxes that fill it.
    pub fn paste(dtype: DType, own: &Region, parts: &[(&Region, &Dense)]) -> Self {
        let mut result = Self::full(dtype, own.shape(), Scalar::I(0));
        for (region, data) in parts {
            assert!(own.contains(region), "{region} is pasted into {own}");
            result.copy(between(own, region, region), data);
        }
        result
    }

    /// Copies elements of `from`, of the same type, into this tensor.
    pub fn copy(&mut self, copy: Strided, from: &Dense) {
        match (&mut self.data, &from.data) {
            (Data::F64(a), Data::F64(b)) => copy.apply(a, b),
            (Data::F32(a), Data::F32(b)) => copy.apply(a, b),
            (Data::BF16(a), Data::BF16(b)) => copy.apply(a, b),
            (Data::F16(a), Data::F16(b)) => copy.apply(a, b),
            (Data::I64(a), Data::I64(b)) => copy.apply(a, b),
            (Data::I32(a), Data::I32(b)) => copy.apply(a, b),
            (Data::U8(a), Data::U8(b)) | (Data::Bool(a), Data::Bool(b)) => copy.apply(a, b),
            (a, b) => panic!("copied between two types: {:?} and {:?}", kind(a), kind(b)),
        }
    }
}

fn kind(data: &Data) -> &'static str {
    match data {
        Data::F64(_) => "f64",
        Data::F32(_) => "f32",
        Data::BF16(_) => "bf16",
        Data::F16(_) => "f16",
        Data::I64(_) => "i64",
        Data::I32(_) => "i32",
        Data::U8(_) => "u8",
        Data::Bool(_) => "bool",
    }
}
