//! Tensors made of numbers and indices alone. They need no memory where their readers compute them.

use super::formula::{Formula, Value};
use super::map::{aligned, written};
use super::{Tensor, TensorError};
use ein_ir::dtype::DType;

/// A map without operands.
fn made(
    method: &'static str,
    shape: &[usize],
    f: impl for<'f> FnOnce(&'f Formula) -> Value<'f>,
) -> Result<Tensor, TensorError> {
    written(method, shape, vec![], &[], |formula, _| f(formula))
}

/// Which axis the first two tensors of [`Tensor::meshgrid`] run along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// The first along axis 0: matrix indexing.
    Ij,
    /// The first along axis 1: Cartesian indexing.
    Xy,
}

impl Tensor {
    /// A tensor of one value.
    pub fn full(shape: &[usize], value: f64, dtype: DType) -> Tensor {
        Tensor::attempt(|| made("full", shape, |f| f.number(value, dtype)))
    }

    /// A tensor of zeros.
    pub fn zeros(shape: &[usize], dtype: DType) -> Tensor {
        Tensor::full(shape, 0.0, dtype)
    }

    /// A tensor of ones.
    pub fn ones(shape: &[usize], dtype: DType) -> Tensor {
        Tensor::full(shape, 1.0, dtype)
    }

    /// One value in the shape and type of `self`.
    pub fn full_like(&self, value: f64) -> Tensor {
        Tensor::attempt(|| self.ty().map(|ty| Tensor::full(&ty.shape, value, ty.dtype)))
    }

    /// Zeros in the shape and type of `self`.
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(0.0)
    }

    /// Ones in the shape and type of `self`.
    pub fn ones_like(&self) -> Tensor {
        self.full_like(1.0)
    }

    /// `0, 1, …, end - 1`.
    pub fn arange(end: usize, dtype: DType) -> Tensor {
        Tensor::attempt(|| made("arange", &[end], |f| f.index(0).cast(dtype)))
    }

    /// `start, start + step, …` up to `end`, which is excluded: `torch.arange(start, end, step)`.
    pub fn arange_step(start: f64, end: f64, step: f64, dtype: DType) -> Tensor {
        let wrong = |reason: &str| {
            let reason = format!("from {start} to {end} in steps of {step}: {reason}");
            Tensor::poisoned(TensorError::Argument { operation: "arange", reason })
        };
        if !(start.is_finite() && end.is_finite() && step.is_finite()) || step == 0.0 {
            return wrong("needs finite bounds and a step other than 0");
        }
        if (end - start) * step < 0.0 {
            return wrong("the step leads away from the end");
        }
        let length = ((end - start) / step).ceil() as usize;
        Tensor::attempt(|| {
            made("arange", &[length], |f| {
                let i = f.index(0);
                if dtype.is_float() {
                    (i.cast(DType::F64) * step + start).cast(dtype)
                } else {
                    (i * step as i64 + start as i64).cast(dtype)
                }
            })
        })
    }

    /// `steps` numbers from `start` to `end`, both included, at equal distances. Of an integer type, both lose their
    /// fractions first, then each number between them its own.
    pub fn linspace(start: f64, end: f64, steps: usize, dtype: DType) -> Tensor {
        let [start, end] = if dtype.is_float() { [start, end] } else { [start.trunc(), end.trunc()] };
        let step = if steps > 1 { (end - start) / (steps - 1) as f64 } else { 0.0 };
        Tensor::attempt(|| {
            made("linspace", &[steps], |f| {
                // From the nearer end, so that both ends are exact.
                let i = f.index(0).cast(DType::F64);
                let up = i * step + start;
                let down = end - (steps as f64 - 1.0 - i) * step;
                i.lt((steps / 2).max(1) as f64).select(up, down).cast(dtype)
            })
        })
    }

    /// Ones on the diagonal of a matrix, else zeros.
    pub fn eye(rows: usize, columns: usize, dtype: DType) -> Tensor {
        Tensor::attempt(|| made("eye", &[rows, columns], |f| f.index(0).eq(f.index(1)).cast(dtype)))
    }

    /// For every class number a last axis of `classes` zeros with a one at it, as `I64`. A number outside has no one.
    pub fn one_hot(&self, classes: usize) -> Tensor {
        Tensor::attempt(|| {
            let ty = self.ty()?;
            if ty.dtype.is_float() || ty.dtype == DType::Bool {
                return Err(self.type_error("one_hot", "needs class numbers, which are integers; convert with `.to`"));
            }
            let rank = ty.shape.len();
            let shape: Vec<usize> = ty.shape.iter().copied().chain([classes]).collect();
            let access = aligned(&ty.shape, &shape[..rank], 0);
            written("one_hot", &shape, vec![access], &[self], |f, x| {
                x[0].cast(DType::I64).eq(f.index(rank)).cast(DType::I64)
            })
        })
    }

    /// Vectors or numbers of one type, each repeated along the axes of the others.
    pub fn meshgrid(tensors: &[&Tensor], indexing: Indexing) -> Vec<Tensor> {
        let rank = tensors.len();
        let turned = |n: usize| if indexing == Indexing::Xy && rank > 1 && n < 2 { 1 - n } else { n };
        let mut shape = vec![0; rank];
        for (n, tensor) in tensors.iter().enumerate() {
            let made = tensor.ty().and_then(|ty| {
                if ty.dtype != tensors[0].ty()?.dtype {
                    return Err(tensor.type_error("meshgrid", "all tensors must have one type; convert with `.to`"));
                }
                match ty.shape.as_slice() {
                    [] => Ok(1),
                    [extent] => Ok(*extent),
                    _ => Err(tensor.shape_error("meshgrid", "takes vectors and numbers only; flatten it".into())),
                }
            });
            match made {
                Ok(extent) => shape[turned(n)] = extent,
                Err(error) => return vec![Tensor::poisoned(error); rank],
            }
        }
        let along = |n: usize| {
            let mut own = vec![1; rank];
            own[turned(n)] = -1;
            tensors[n].reshape(&own).expand(&shape.iter().map(|&n| n as i64).collect::<Vec<_>>())
        };
        (0..rank).map(along).collect()
    }
}
