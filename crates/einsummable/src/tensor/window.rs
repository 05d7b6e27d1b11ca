//! Windows that slide along axes: what convolutions, pools and `unfold` share.

use super::{Tensor, TensorError};
use ein_ir::einsum::Affine;

/// What `PyTorch` takes as an integer or a tuple: one number for all spatial axes, or one for each.
///
/// ```
/// use einsummable::tensor::window::PerAxis;
/// assert_eq!(PerAxis::from(2), PerAxis::from([2]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerAxis(Vec<usize>);

impl From<usize> for PerAxis {
    fn from(all: usize) -> Self {
        Self(vec![all])
    }
}

impl<const N: usize> From<[usize; N]> for PerAxis {
    fn from(each: [usize; N]) -> Self {
        Self(each.to_vec())
    }
}

impl From<&[usize]> for PerAxis {
    fn from(each: &[usize]) -> Self {
        Self(each.to_vec())
    }
}

impl PerAxis {
    /// One number for each of `axes` axes, or what is wrong with them as `what`.
    pub(crate) fn each(&self, what: &str, axes: usize) -> Result<Vec<usize>, String> {
        match self.0.as_slice() {
            [all] => Ok(vec![*all; axes]),
            each if each.len() == axes => Ok(each.to_vec()),
            each => Err(format!("{what} {each:?} has {} numbers for {axes} spatial axes", each.len())),
        }
    }

    /// As [`PerAxis::each`]; none may be 0.
    pub(crate) fn positive(&self, what: &str, axes: usize) -> Result<Vec<usize>, String> {
        let each = self.each(what, axes)?;
        if each.contains(&0) { Err(format!("{what} {each:?} must be 1 or more on every axis")) } else { Ok(each) }
    }
}

/// The windows along one axis: window `y` reads indices `stride * y + dilation * k` for `k` below `kernel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
}

impl Window {
    /// The windows of some axes, from what a user gave.
    pub(crate) fn of(kernel: &[usize], stride: &PerAxis, dilation: &PerAxis) -> Result<Vec<Window>, String> {
        if kernel.contains(&0) {
            return Err(format!("the kernel size {kernel:?} must be 1 or more on every axis"));
        }
        let strides = stride.positive("the stride", kernel.len())?;
        let dilations = dilation.positive("the dilation", kernel.len())?;
        let window = |((&kernel, stride), dilation)| Window { kernel, stride, dilation };
        Ok(kernel.iter().zip(strides).zip(dilations).map(window).collect())
    }

    /// Indices from the first to the last that one window reads, both included.
    pub(crate) fn reach(self) -> usize {
        self.dilation.saturating_mul(self.kernel - 1).saturating_add(1)
    }

    /// How many windows fit into an axis; none if it is shorter than one.
    pub(crate) fn count(self, extent: usize) -> Option<usize> {
        extent.checked_sub(self.reach()).map(|rest| rest / self.stride + 1)
    }

    /// The index that window `y` reads at tap `k`; `None` as tap where there is but one.
    pub(crate) fn index(self, y: usize, k: Option<usize>) -> Affine {
        let mut terms = vec![(y, self.stride as i64)];
        terms.extend(k.map(|k| (k, self.dilation as i64)));
        Affine { terms, offset: 0 }
    }
}

/// Names of the labels of windows along one, two or three spatial axes; of taps with a `k` in front.
pub(crate) fn spatial_names(axes: usize) -> &'static [&'static str] {
    &["z", "y", "x"][3 - axes..]
}

impl Tensor {
    /// Indices `lo..hi` of an axis, `value` where there is no such index. `lo` is not above `hi`.
    pub(crate) fn around(&self, axis: usize, lo: i64, hi: i64, value: f64) -> Result<Tensor, TensorError> {
        let extent = self.ty()?.shape[axis] as i64;
        let (start, end) = (lo.clamp(0, extent), hi.clamp(0, extent));
        let kept = self.narrow(axis as i64, start as usize, (end - start) as usize);
        let mut padding = vec![(0, 0); self.dim() - axis];
        let before = (start - lo).clamp(0, hi - lo);
        padding[self.dim() - axis - 1] = (before, hi - lo - before - (end - start));
        Ok(kept.pad(&padding, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted() {
        for (kernel, stride, dilation, extent, expected) in [
            (3, 1, 1, 10, Some(8)),
            (3, 2, 1, 10, Some(4)),
            (3, 1, 4, 9, Some(1)),
            (3, 1, 4, 8, None),
            (1, 3, 7, 7, Some(3)),
            (usize::MAX, 1, 2, 7, None),
        ] {
            assert_eq!(Window { kernel, stride, dilation }.count(extent), expected, "{kernel} {stride} {dilation}");
        }
    }

    #[test]
    fn one_number_is_for_all_axes() {
        assert_eq!(PerAxis::from(2).each("the stride", 3), Ok(vec![2; 3]));
        assert_eq!(PerAxis::from([1, 2]).each("the stride", 2), Ok(vec![1, 2]));
        assert!(PerAxis::from([1, 2]).each("the stride", 3).unwrap_err().contains("2 numbers for 3"));
        assert!(PerAxis::from([1, 0]).positive("the stride", 2).is_err());
    }
}
