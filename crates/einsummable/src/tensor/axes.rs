//! Axes moved, taken apart and turned.

use super::map::{map_over, written};
use super::{Tensor, TensorError};
use ein_ir::einsum::{Access, Affine};

impl Tensor {
    /// Axes `from[n]` moved to `to[n]`, the others in order: `torch.movedim`.
    pub fn movedim(&self, from: &[i64], to: &[i64]) -> Tensor {
        Tensor::attempt(|| {
            let rank = self.ty()?.shape.len();
            let (from_axes, to_axes) = (self.distinct("movedim", from)?, self.distinct("movedim", to)?);
            if from_axes.len() != to_axes.len() {
                return Err(
                    self.shape_error("movedim", format!("axes {from:?} to {to:?}: as many as are moved are expected"))
                );
            }
            let mut rest = (0..rank).filter(|a| !from_axes.contains(a));
            let source = |a: usize| match to_axes.iter().position(|&t| t == a) {
                Some(n) => Some(from_axes[n]),
                None => rest.next(),
            };
            let order: Vec<i64> = (0..rank).filter_map(source).map(|a| a as i64).collect();
            Ok(self.permute(&order))
        })
    }

    /// Another name of [`Tensor::movedim`].
    pub fn moveaxis(&self, from: &[i64], to: &[i64]) -> Tensor {
        self.movedim(from, to)
    }

    /// The last two axes exchanged: `torch.adjoint` and `.mT` of a real tensor.
    pub fn adjoint(&self) -> Tensor {
        self.transpose(-2, -1)
    }

    fn distinct(&self, operation: &'static str, axes: &[i64]) -> Result<Vec<usize>, TensorError> {
        // For its errors; it sorts, and the order matters here.
        if !axes.is_empty() {
            self.axes(operation, axes)?;
        }
        axes.iter().map(|&a| self.axis(operation, a)).collect()
    }

    /// Two axes exchanged: another name of [`Tensor::transpose`].
    pub fn swapaxes(&self, a: i64, b: i64) -> Tensor {
        self.transpose(a, b)
    }

    /// Another name of [`Tensor::transpose`].
    pub fn swapdims(&self, a: i64, b: i64) -> Tensor {
        self.transpose(a, b)
    }

    /// One axis as several of these extents, one of which may be -1: `torch.unflatten`.
    pub fn unflatten(&self, axis: i64, sizes: &[i64]) -> Tensor {
        Tensor::attempt(|| {
            let at = self.axis("unflatten", axis)?;
            let own = self.shape();
            let extent = own[at];
            let wrong = || self.shape_error("unflatten", format!("axis {at} is {extent} long and {sizes:?} are not"));
            if sizes.is_empty() || sizes.iter().filter(|&&n| n < 0).count() > 1 || sizes.iter().any(|&n| n < -1) {
                return Err(wrong());
            }
            let known = sizes.iter().filter(|&&n| n >= 0).try_fold(1_usize, |all, &n| all.checked_mul(n as usize));
            let known = known.ok_or_else(wrong)?;
            let open = sizes.contains(&-1);
            if if open { known == 0 || !extent.is_multiple_of(known) } else { known != extent } {
                return Err(wrong());
            }
            let sizes = sizes.iter().map(|&n| if n < 0 { (extent / known) as i64 } else { n });
            let mut shape: Vec<i64> = own.iter().map(|&n| n as i64).collect();
            shape.splice(at..=at, sizes);
            Ok(self.reshape(&shape))
        })
    }

    /// All axes as one: `torch.ravel`.
    pub fn ravel(&self) -> Tensor {
        self.reshape(&[-1])
    }

    /// Repeated to the shape of another tensor.
    pub fn expand_as(&self, other: &Tensor) -> Tensor {
        Tensor::attempt(|| Ok(self.expand(&other.ty()?.shape.iter().map(|&n| n as i64).collect::<Vec<_>>())))
    }

    /// Under the shape of another tensor.
    pub fn reshape_as(&self, other: &Tensor) -> Tensor {
        Tensor::attempt(|| Ok(self.reshape(&other.ty()?.shape.iter().map(|&n| n as i64).collect::<Vec<_>>())))
    }

    /// Another name of [`Tensor::reshape_as`].
    pub fn view_as(&self, other: &Tensor) -> Tensor {
        self.reshape_as(other)
    }

    /// Repeated to a shape: `torch.broadcast_to`.
    pub fn broadcast_to(&self, shape: &[usize]) -> Tensor {
        self.expand(&shape.iter().map(|&n| n as i64).collect::<Vec<_>>())
    }

    /// Turned `turns` times by a quarter, from the first axis to the second: `torch.rot90`.
    pub fn rot90(&self, turns: i64, axes: [i64; 2]) -> Tensor {
        Tensor::attempt(|| {
            self.distinct("rot90", &axes)?;
            let [a, b] = axes;
            Ok(match turns.rem_euclid(4) {
                0 => self.clone(),
                1 => self.flip(&[b]).transpose(a, b),
                2 => self.flip(&[a, b]),
                _ => self.flip(&[a]).transpose(a, b),
            })
        })
    }

    /// Columns in reverse: axis 1.
    pub fn fliplr(&self) -> Tensor {
        self.flip(&[1])
    }

    /// Rows in reverse: axis 0.
    pub fn flipud(&self) -> Tensor {
        self.flip(&[0])
    }

    /// The diagonal of two axes, `offset` above the main one, as a new last axis: `torch.diagonal`.
    pub fn diagonal(&self, offset: i64, first: i64, second: i64) -> Tensor {
        Tensor::attempt(|| {
            let pair = self.distinct("diagonal", &[first, second])?;
            let own = self.shape();
            let start = |shift: i64, extent: usize| (shift.max(0) as u64).min(extent as u64) as usize;
            let starts = [start(offset.saturating_neg(), own[pair[0]]), start(offset, own[pair[1]])];
            let length = (own[pair[0]] - starts[0]).min(own[pair[1]] - starts[1]);
            let x = self.narrow(pair[0] as i64, starts[0], length).narrow(pair[1] as i64, starts[1], length);
            x.made()?;
            let mut shape: Vec<usize> = (0..own.len()).filter(|a| !pair.contains(a)).map(|a| own[a]).collect();
            shape.push(length);
            let diagonal = shape.len() - 1;
            let mut others = 0..diagonal;
            let label = |a: usize| if pair.contains(&a) { diagonal } else { others.next().expect("one label an axis") };
            let access = Access { axes: (0..own.len()).map(label).map(Affine::label).collect() };
            map_over("diagonal", &shape, vec![access], &[&x], |_, r| Ok(r[0]))
        })
    }

    /// The last axis on the diagonal of two new axes, `offset` above the main one, zeros elsewhere: `torch.diag_embed`
    /// with the new axes last.
    pub fn diag_embed(&self, offset: i64) -> Tensor {
        Tensor::attempt(|| {
            let own = &self.ty()?.shape;
            let Some((&length, lead)) = own.split_last() else {
                return Err(self.shape_error("diag_embed", "needs an axis".into()));
            };
            let side = usize::try_from(offset.unsigned_abs()).ok().and_then(|n| n.checked_add(length));
            let side = side.ok_or_else(|| self.shape_error("diag_embed", format!("the offset {offset} is too far")))?;
            let (above, below) = (offset.max(0), offset.min(0).unsigned_abs());
            // Row `below + n` holds element `n`, at column `above + n`.
            let rows = self.pad(&[(below as i64, above)], 0.0);
            rows.made()?;
            let shape = [lead, &[side, side]].concat();
            let rank = shape.len();
            let access = Access::labels(&(0..rank - 1).collect::<Vec<_>>());
            written("diag_embed", &shape, vec![access], &[&rows], |f, x| {
                (f.index(rank - 2) + offset).eq(f.index(rank - 1)).select(x[0], 0.0)
            })
        })
    }

    /// A vector as the diagonal of a matrix, or the diagonal of a matrix: `torch.diag`.
    pub fn diag(&self, offset: i64) -> Tensor {
        Tensor::attempt(|| match self.ty()?.shape.len() {
            1 => Ok(self.diag_embed(offset)),
            2 => Ok(self.diagonal(offset, 0, 1)),
            n => Err(self.shape_error("diag", format!("takes a vector or a matrix, not {n} axes"))),
        })
    }

    /// The sum of a matrix's diagonal: `torch.trace`.
    pub fn trace(&self) -> Tensor {
        Tensor::attempt(|| match self.ty()?.shape.len() {
            2 => Ok(self.diagonal(0, 0, 1).sum(&[], false)),
            n => Err(self.shape_error("trace", format!("takes a matrix, not {n} axes"))),
        })
    }
}
