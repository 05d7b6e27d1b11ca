//! Padding. All of it is views: what surrounds a tensor is a fill that is stored nowhere, or elements of its own.

use super::{Tensor, TensorError};
use ein_ir::view::View;

/// What stands around a padded tensor: the `mode` of `torch.nn.functional.pad`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// This value.
    Constant(f64),
    /// The elements in reverse, the outermost not repeated. A padding must be below the extent.
    Reflect,
    /// The outermost element again and again.
    Replicate,
    /// The elements from the other end. A padding may be as long as the axis, no longer.
    Circular,
}

impl From<f64> for PadMode {
    fn from(value: f64) -> Self {
        Self::Constant(value)
    }
}

impl Tensor {
    /// `torch.nn.functional.pad`: more elements around the tensor. `padding` lists (before, after) of the last axis
    /// first; negative numbers take elements away. `mode` is a value or one of the other modes.
    ///
    /// ```
    /// use einsummable::{DType, PadMode, Tensor};
    /// let x = Tensor::arange(4, DType::F32).reshape(&[1, 4]);
    /// assert_eq!(x.pad(&[(1, 2)], 0.0).shape(), [1, 7]);
    /// assert_eq!(x.pad(&[(-1, 2), (0, 1)], PadMode::Replicate).shape(), [2, 5]);
    /// ```
    pub fn pad(&self, padding: &[(i64, i64)], mode: impl Into<PadMode>) -> Tensor {
        let mode = mode.into();
        Tensor::attempt(|| {
            let own = self.ty()?.shape.clone();
            if padding.len() > own.len() {
                let reason = format!("{} pairs of padding for {} axes", padding.len(), own.len());
                return Err(self.shape_error("pad", reason));
            }
            let of_axis = |n: usize| own.len() - 1 - n;
            for (n, &(lo, hi)) in padding.iter().enumerate() {
                let taken = lo.min(0).unsigned_abs().saturating_add(hi.min(0).unsigned_abs());
                let axis = of_axis(n);
                if taken > own[axis] as u64 {
                    let reason = format!("padding ({lo}, {hi}) takes more than the {} of axis {axis}", own[axis]);
                    return Err(self.shape_error("pad", reason));
                }
            }
            let crop = |x: &Tensor, n: usize, (lo, hi): (i64, i64)| {
                let (lo, hi) = (lo.min(0).unsigned_abs() as usize, hi.min(0).unsigned_abs() as usize);
                x.narrow(of_axis(n) as i64, lo, x.shape()[of_axis(n)] - lo - hi)
            };
            let mut x = self.clone();
            match mode {
                PadMode::Constant(value) => {
                    let (mut before, mut after) = (vec![0; own.len()], vec![0; own.len()]);
                    for (n, &(lo, hi)) in padding.iter().enumerate() {
                        x = crop(&x, n, (lo, hi));
                        before[of_axis(n)] = lo.max(0) as usize;
                        after[of_axis(n)] = hi.max(0) as usize;
                    }
                    if before.iter().chain(&after).all(|&n| n == 0) {
                        return Ok(x);
                    }
                    Tensor::row_view("pad", View::Pad { before, after, value: value.to_bits() }, &[&x])
                }
                // As in PyTorch: what a crop takes away is still seen by the other end, but not by a circle.
                PadMode::Reflect => padding
                    .iter()
                    .enumerate()
                    .try_fold(x, |x, (n, &pair)| Ok(crop(&reflected(&x, of_axis(n), positive(pair))?, n, pair))),
                PadMode::Replicate => padding
                    .iter()
                    .enumerate()
                    .try_fold(x, |x, (n, &pair)| Ok(crop(&replicated(&x, of_axis(n), positive(pair))?, n, pair))),
                PadMode::Circular => padding
                    .iter()
                    .enumerate()
                    .try_fold(x, |x, (n, &pair)| wrapped(&crop(&x, n, pair), of_axis(n), positive(pair))),
            }
        })
    }
}

/// The elements that a pair of paddings adds before and after.
fn positive((lo, hi): (i64, i64)) -> (usize, usize) {
    (lo.max(0) as usize, hi.max(0) as usize)
}

/// That one axis can lend that many elements.
fn enough(
    x: &Tensor,
    mode: &str,
    axis: usize,
    (before, after): (usize, usize),
    most: usize,
) -> Result<(), TensorError> {
    if before <= most && after <= most {
        return Ok(());
    }
    let extent = x.shape()[axis];
    let reason = format!("{mode} padding ({before}, {after}) of axis {axis}, which is {extent} long: at most {most}");
    Err(x.shape_error("pad", reason))
}

/// A tensor between others along an axis.
fn between(before: &Tensor, x: &Tensor, after: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
    let mut parts = Vec::new();
    for part in [before, x, after] {
        if part.ty()?.shape[axis] > 0 {
            parts.push(part);
        }
    }
    Ok(if parts.is_empty() { x.clone() } else { Tensor::cat(&parts, axis as i64) })
}

fn reflected(x: &Tensor, axis: usize, (before, after): (usize, usize)) -> Result<Tensor, TensorError> {
    let extent = x.ty()?.shape[axis];
    enough(x, "reflect", axis, (before, after), extent.saturating_sub(1))?;
    let at = axis as i64;
    let last = extent.saturating_sub(1 + after);
    between(&x.narrow(at, 1, before).flip(&[at]), x, &x.narrow(at, last, after).flip(&[at]), axis)
}

fn replicated(x: &Tensor, axis: usize, (before, after): (usize, usize)) -> Result<Tensor, TensorError> {
    let extent = x.ty()?.shape[axis];
    if extent == 0 {
        return enough(x, "replicate", axis, (before, after), 0).map(|()| x.clone());
    }
    let repeated = |start: usize, times: usize| {
        let mut shape = vec![-1; x.dim()];
        shape[axis] = times as i64;
        x.narrow(axis as i64, start, 1).expand(&shape)
    };
    between(&repeated(0, before), x, &repeated(extent - 1, after), axis)
}

fn wrapped(x: &Tensor, axis: usize, (before, after): (usize, usize)) -> Result<Tensor, TensorError> {
    let extent = x.ty()?.shape[axis];
    enough(x, "circular", axis, (before, after), extent)?;
    let at = axis as i64;
    between(&x.narrow(at, extent - before, before), x, &x.narrow(at, 0, after), axis)
}
