//! A tensor in parts, and parts in one tensor.

use super::promote::{Standing, result_type};
use super::{Tensor, TensorError};
use ein_ir::view::View;

impl Tensor {
    /// The tensors one after the other along an axis, in their promoted type. As in `PyTorch`, a tensor of shape `[0]`
    /// among tensors of another rank is passed by.
    pub fn cat(tensors: &[&Tensor], axis: i64) -> Tensor {
        Tensor::attempt(|| {
            let mut types = Vec::new();
            for t in tensors {
                let ty = t.ty()?;
                types.push((ty.dtype, Standing::of(ty.shape.len())));
            }
            let ranked = tensors.iter().filter(|t| t.shape() != [0]);
            let parts: Vec<&Tensor> =
                if ranked.clone().all(|t| t.dim() == 1) { tensors.to_vec() } else { ranked.copied().collect() };
            let Some(first) = parts.first() else {
                let reason = "needs one tensor or more".into();
                return Err(TensorError::Shape { operation: "cat", shapes: vec![], reason });
            };
            let at = first.axis("cat", axis)?;
            let dtype = result_type(&types);
            let parts: Vec<Tensor> = parts.iter().map(|t| t.to(dtype)).collect();
            if let [part] = parts.as_slice() {
                return Ok(part.clone());
            }
            Tensor::row_view("cat", View::Concat { axis: at }, &parts.iter().collect::<Vec<_>>())
        })
    }

    /// The tensors, all of one shape, along a new axis.
    pub fn stack(tensors: &[&Tensor], axis: i64) -> Tensor {
        Tensor::attempt(|| {
            let Some(first) = tensors.first() else {
                let reason = "needs one tensor or more".into();
                return Err(TensorError::Shape { operation: "stack", shapes: vec![], reason });
            };
            for t in tensors {
                if t.ty()?.shape != first.ty()?.shape {
                    let shapes = tensors.iter().map(|t| t.shape().to_vec()).collect();
                    let reason = "all parts must have one shape".into();
                    return Err(TensorError::Shape { operation: "stack", shapes, reason });
                }
            }
            let parts: Vec<Tensor> = tensors.iter().map(|t| t.unsqueeze(axis)).collect();
            let last = first.unsqueeze(axis).axis("stack", axis)?;
            Ok(Tensor::cat(&parts.iter().collect::<Vec<_>>(), last as i64))
        })
    }

    /// The tensors side by side: along axis 1, vectors and numbers along axis 0.
    pub fn hstack(tensors: &[&Tensor]) -> Tensor {
        let parts: Vec<Tensor> = tensors.iter().map(|t| t.atleast_1d()).collect();
        let axis = i64::from(parts.first().is_some_and(|t| t.dim() > 1));
        Tensor::cat(&parts.iter().collect::<Vec<_>>(), axis)
    }

    /// The tensors one below the other, vectors and numbers as rows: along axis 0.
    pub fn vstack(tensors: &[&Tensor]) -> Tensor {
        let parts: Vec<Tensor> = tensors.iter().map(|t| t.atleast_2d()).collect();
        Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0)
    }

    /// The tensors one behind the other: along axis 2, where matrices, vectors and numbers get one.
    pub fn dstack(tensors: &[&Tensor]) -> Tensor {
        let parts: Vec<Tensor> = tensors.iter().map(|t| t.atleast_3d()).collect();
        Tensor::cat(&parts.iter().collect::<Vec<_>>(), 2)
    }

    /// The tensors as columns: vectors and numbers become one each, then [`Tensor::hstack`].
    pub fn column_stack(tensors: &[&Tensor]) -> Tensor {
        let column = |t: &&Tensor| if t.dim() < 2 { t.reshape(&[-1, 1]) } else { (*t).clone() };
        let parts: Vec<Tensor> = tensors.iter().map(column).collect();
        Tensor::hstack(&parts.iter().collect::<Vec<_>>())
    }

    /// A number as a vector of one element; anything else as it is.
    pub fn atleast_1d(&self) -> Tensor {
        if self.check().is_ok() && self.dim() == 0 { self.unsqueeze(0) } else { self.clone() }
    }

    /// A vector or a number as a row; anything else as it is.
    pub fn atleast_2d(&self) -> Tensor {
        let t = self.atleast_1d();
        if t.dim() == 1 { t.unsqueeze(0) } else { t }
    }

    /// A matrix, a vector or a number, as a row, with a last axis of 1; anything else as it is.
    pub fn atleast_3d(&self) -> Tensor {
        let t = self.atleast_2d();
        if t.dim() == 2 { t.unsqueeze(-1) } else { t }
    }

    /// Parts of `size` along an axis, the last one perhaps shorter: `torch.split` with a number. Of an empty axis there
    /// is one part, empty.
    pub fn split(&self, size: usize, axis: i64) -> Vec<Tensor> {
        let at = match self.axis("split", axis) {
            Ok(at) => at,
            Err(error) => return vec![Tensor::poisoned(error)],
        };
        let extent = self.shape()[at];
        if size == 0 && extent > 0 {
            let reason = format!("parts of 0 do not make up axis {at}, which is {extent} long");
            return vec![Tensor::poisoned(self.shape_error("split", reason))];
        }
        let size = size.max(1);
        let count = extent.div_ceil(size).max(1);
        (0..count).map(|n| self.narrow(axis, n * size, size.min(extent - n * size))).collect()
    }

    /// Parts of these sizes along an axis: `torch.split` with a list. The sizes must add up to the extent.
    pub fn split_with_sizes(&self, sizes: &[usize], axis: i64) -> Vec<Tensor> {
        let at = match self.axis("split", axis) {
            Ok(at) => at,
            Err(error) => return vec![Tensor::poisoned(error)],
        };
        let extent = self.shape()[at];
        let total = sizes.iter().fold(0, |n: usize, &s| n.saturating_add(s));
        if total != extent {
            let reason = format!("parts of {sizes:?} make {total}, and axis {at} is {extent} long");
            let wrong = Tensor::poisoned(self.shape_error("split", reason));
            return vec![wrong; sizes.len().max(1)];
        }
        let mut start = 0;
        let mut part = |&size: &usize| {
            start += size;
            self.narrow(axis, start - size, size)
        };
        sizes.iter().map(&mut part).collect()
    }

    /// At most `chunks` parts along an axis, all as long as the first but perhaps the last: `torch.chunk`.
    pub fn chunk(&self, chunks: usize, axis: i64) -> Vec<Tensor> {
        let at = match self.axis("chunk", axis) {
            Ok(at) => at,
            Err(error) => return vec![Tensor::poisoned(error)],
        };
        if chunks == 0 {
            return vec![Tensor::poisoned(self.shape_error("chunk", "one part or more is expected, not 0".into()))];
        }
        let extent = self.shape()[at];
        if extent == 0 { vec![self.clone(); chunks] } else { self.split(extent.div_ceil(chunks), axis) }
    }

    /// `sections` parts along an axis that differ by one at most, longer ones first: `torch.tensor_split`.
    pub fn tensor_split(&self, sections: usize, axis: i64) -> Vec<Tensor> {
        let at = match self.axis("tensor_split", axis) {
            Ok(at) => at,
            Err(error) => return vec![Tensor::poisoned(error)],
        };
        if sections == 0 {
            let reason = "one part or more is expected, not 0".into();
            return vec![Tensor::poisoned(self.shape_error("tensor_split", reason))];
        }
        let extent = self.shape()[at];
        let end = |n: usize| extent / sections * n + n.min(extent % sections);
        (0..sections).map(|n| self.narrow(axis, end(n), end(n + 1) - end(n))).collect()
    }

    /// The tensor at every index of an axis; the axis goes.
    pub fn unbind(&self, axis: i64) -> Vec<Tensor> {
        match self.axis("unbind", axis) {
            Ok(at) => (0..self.shape()[at]).map(|n| self.select(axis, n as i64)).collect(),
            Err(error) => vec![Tensor::poisoned(error)],
        }
    }
}
