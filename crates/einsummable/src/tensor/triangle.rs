//! Triangles of matrices.

use super::Tensor;
use super::formula::Value;
use super::map::{aligned, written};

impl Tensor {
    /// Zeros above the diagonal that is `diagonal` to the right of the main one, on the last two axes.
    pub fn tril(&self, diagonal: i64) -> Tensor {
        self.triangle("tril", |row, column| column.le(row + diagonal))
    }

    /// Zeros below the diagonal that is `diagonal` to the right of the main one, on the last two axes.
    pub fn triu(&self, diagonal: i64) -> Tensor {
        self.triangle("triu", |row, column| (row + diagonal).le(column))
    }

    fn triangle(&self, method: &'static str, keep: impl for<'f> FnOnce(Value<'f>, Value<'f>) -> Value<'f>) -> Tensor {
        Tensor::attempt(|| {
            let shape = &self.ty()?.shape;
            let rank = shape.len();
            if rank < 2 {
                return Err(self.shape_error(method, "needs two axes or more".into()));
            }
            written(method, shape, vec![aligned(shape, shape, 0)], &[self], |f, x| {
                keep(f.index(rank - 2), f.index(rank - 1)).select(x[0], 0.0)
            })
        })
    }
}
