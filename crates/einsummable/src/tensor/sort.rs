//! Orders along an axis: the largest, the first k, sorting, and where they stand.
//!
//! NaN is larger than any number. Of equal elements the one of the lowest index comes first, so that every result is
//! the same however many devices compute it; `PyTorch` leaves that open for `topk`.

use super::{Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_ir::kernel::{Kernel, TopK};
use ein_ir::monoid::Top;

impl Tensor {
    /// `torch.topk`: the `k` largest (or smallest) elements along an axis in order, and their indices (`I64`).
    ///
    /// ```
    /// use einsummable::{DType, Tensor};
    /// let (values, indices) = Tensor::input("x", [4, 10], DType::F32).topk(3, -1, true);
    /// assert_eq!((values.shape(), indices.dtype()), (&[4, 3][..], DType::I64));
    /// ```
    pub fn topk(&self, k: usize, axis: i64, largest: bool) -> (Tensor, Tensor) {
        pair(|indices| first(self, "topk", k, axis, largest, indices))
    }

    /// `torch.sort`, always stable: the elements along an axis in order, and the indices they had.
    pub fn sort(&self, axis: i64, descending: bool) -> (Tensor, Tensor) {
        pair(|indices| {
            let k = lifted(self)?.size(axis);
            first(self, "sort", k, axis, descending, indices)
        })
    }

    /// `torch.argsort`, always stable: the indices that put an axis in order.
    pub fn argsort(&self, axis: i64, descending: bool) -> Tensor {
        self.sort(axis, descending).1
    }

    /// `torch.argmax`: the index of the largest element along an axis, or in the flattened tensor without one. Of equal
    /// elements the first; a NaN is the largest.
    pub fn argmax(&self, axis: Option<i64>, keepdim: bool) -> Tensor {
        Tensor::attempt(|| place(self, "argmax", axis, keepdim, true))
    }

    /// `torch.argmin`: as [`Tensor::argmax`]; here a NaN is the smallest.
    pub fn argmin(&self, axis: Option<i64>, keepdim: bool) -> Tensor {
        Tensor::attempt(|| place(self, "argmin", axis, keepdim, false))
    }

    /// `torch.max` along an axis: the largest element, NaN above all, and its first index.
    pub fn max(&self, axis: i64, keepdim: bool) -> (Tensor, Tensor) {
        (self.amax(&[axis], keepdim), Tensor::attempt(|| place(self, "max", Some(axis), keepdim, true)))
    }

    /// `torch.min` along an axis: the smallest element, NaN below all, and its first index.
    pub fn min(&self, axis: i64, keepdim: bool) -> (Tensor, Tensor) {
        (self.amin(&[axis], keepdim), Tensor::attempt(|| place(self, "min", Some(axis), keepdim, false)))
    }

    /// `torch.kthvalue`: the `k`-th smallest element along an axis, counted from 1, and its index.
    pub fn kthvalue(&self, k: usize, axis: i64, keepdim: bool) -> (Tensor, Tensor) {
        pair(|indices| {
            let x = lifted(self)?;
            let at = x.axis("kthvalue", axis)?;
            let extent = x.shape()[at];
            if k == 0 || k > extent {
                return Err(self.shape_error("kthvalue", format!("k is {k}; axis {axis} has elements 1 to {extent}")));
            }
            let sorted = first(&x, "kthvalue", k, axis, false, indices)?;
            Ok(dropped(sorted.narrow(at as i64, k - 1, 1), at, keepdim, self.dim()))
        })
    }

    /// `torch.median` along an axis: of an even number the lower of the two in the middle, and its index. A NaN is the
    /// median of what holds one.
    pub fn median(&self, axis: i64, keepdim: bool) -> (Tensor, Tensor) {
        let extent = lifted(self).map_or(0, |x| x.size(axis));
        if extent == 0 {
            let empty = || self.shape_error("median", format!("axis {axis} is 0 long, and nothing has no median"));
            return (Tensor::poisoned(empty()), Tensor::poisoned(empty()));
        }
        let (value, index) = self.kthvalue(extent.div_ceil(2), axis, keepdim);
        if !self.dtype().is_float() {
            return (value, index);
        }
        // A NaN is the largest, so if there is one it is the maximum, which stands first.
        let (top, place) = if self.dim() == 0 { (self.clone(), index.clone()) } else { self.max(axis, keepdim) };
        let odd = top.ne(&top);
        (top.where_(&odd, &value), place.where_(&odd, &index))
    }
}

/// A scalar as a tensor of one element, which has an axis.
fn lifted(x: &Tensor) -> Result<Tensor, TensorError> {
    Ok(if x.ty()?.shape.is_empty() { x.reshape(&[1]) } else { x.clone() })
}

fn pair(make: impl Fn(bool) -> Result<Tensor, TensorError>) -> (Tensor, Tensor) {
    (Tensor::attempt(|| make(false)), Tensor::attempt(|| make(true)))
}

/// The first `k` along an axis: their values or their indices.
fn first(
    x: &Tensor,
    operation: &'static str,
    k: usize,
    axis: i64,
    largest: bool,
    indices: bool,
) -> Result<Tensor, TensorError> {
    let scalar = x.ty()?.shape.is_empty();
    let x = &lifted(x)?;
    let at = x.axis(operation, axis)?;
    let extent = x.shape()[at];
    if k > extent {
        return Err(x.shape_error(operation, format!("{k} elements are asked of axis {axis}, which has {extent}")));
    }
    let last = x.dim() as i64 - 1;
    let moved = x.transpose(at as i64, last);
    let top = Top { k, largest, indices, of: x.dtype() };
    let mut shape = moved.ty()?.shape.clone();
    let kernel = Kernel::TopK(TopK { shape: shape.clone(), top });
    shape[last as usize] = k;
    let dtype = if indices { DType::I64 } else { x.dtype() };
    let found = Tensor::row_kernel(operation, kernel, &[&moved], TensorType::new(dtype, shape));
    let found = found.transpose(at as i64, last);
    Ok(if scalar { found.reshape(&[]) } else { found })
}

/// The index of the largest or smallest along an axis.
fn place(
    x: &Tensor,
    operation: &'static str,
    axis: Option<i64>,
    keepdim: bool,
    largest: bool,
) -> Result<Tensor, TensorError> {
    let rank = x.ty()?.shape.len();
    let Some(axis) = axis else {
        let flat = place(&x.reshape(&[-1]), operation, Some(0), false, largest)?;
        let kept = vec![1; if keepdim { rank } else { 0 }];
        return Ok(flat.reshape(&kept));
    };
    let lifted = lifted(x)?;
    let at = lifted.axis(operation, axis)?;
    if lifted.shape()[at] == 0 {
        return Err(x.shape_error(operation, format!("axis {axis} is 0 long, and nothing has no {operation}")));
    }
    // The smallest of floats is the largest of what is negated: there a NaN stays in front.
    let turned = !largest && lifted.dtype().is_float();
    let found = if turned {
        first(&lifted.neg(), operation, 1, axis, true, true)?
    } else {
        first(&lifted, operation, 1, axis, largest, true)?
    };
    Ok(dropped(found, at, keepdim, rank))
}

/// Drops an axis of one element unless it is kept; a scalar's has never been there.
fn dropped(x: Tensor, at: usize, keepdim: bool, rank: usize) -> Tensor {
    if keepdim && rank > 0 { x } else { x.select(at as i64, 0) }
}
