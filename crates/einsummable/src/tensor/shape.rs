//! Views: methods that rename coordinates and compute nothing.

use super::{Tensor, TensorError, resolve_axis, stands_for_none};
use ein_ir::view::View;

impl Tensor {
    /// The same elements under another shape; one extent may be -1.
    pub fn reshape(&self, shape: &[i64]) -> Tensor {
        Tensor::attempt(|| {
            let own = &self.ty()?.shape;
            let elements: usize = own.iter().product();
            let wrong = |reason: String| self.shape_error("reshape", reason);
            if let Some(n) = shape.iter().find(|&&n| n < -1) {
                return Err(wrong(format!("an extent of {n} in {shape:?}")));
            }
            let open: Vec<usize> = (0..shape.len()).filter(|&a| shape[a] == -1).collect();
            let known = shape.iter().filter(|&&n| n >= 0).try_fold(1_usize, |all, &n| all.checked_mul(n as usize));
            let Some(known) = known else { return Err(wrong(format!("{shape:?} has too many elements"))) };
            let mut full: Vec<usize> = shape.iter().map(|&n| n.max(0) as usize).collect();
            match open.as_slice() {
                [] => {}
                [axis] if known > 0 && elements.is_multiple_of(known) => full[*axis] = elements / known,
                [axis] => {
                    return Err(wrong(format!(
                        "{elements} elements leave no whole extent for axis {axis} of {shape:?}"
                    )));
                }
                _ => return Err(wrong(format!("{shape:?} leaves more than one extent open"))),
            }
            if full == *own {
                return Ok(self.clone());
            }
            Tensor::row_view("reshape", View::Reshape { shape: full }, &[self])
        })
    }

    /// Same as [`Tensor::reshape`]: whether elements move is the plan's matter.
    pub fn view(&self, shape: &[i64]) -> Tensor {
        self.reshape(shape)
    }

    /// Axes `start` to `end` (both included) made one. A number becomes a vector of one element.
    pub fn flatten(&self, start: i64, end: i64) -> Tensor {
        Tensor::attempt(|| {
            if self.ty()?.shape.is_empty() && [start, end].iter().all(|n| (-1..=0).contains(n)) {
                return Ok(self.reshape(&[1]));
            }
            let (start, end) = (self.axis("flatten", start)?, self.axis("flatten", end)?);
            if start > end {
                return Err(self.shape_error("flatten", format!("axis {start} comes after axis {end}")));
            }
            let own = self.shape();
            let mut shape: Vec<i64> = own[..start].iter().map(|&n| n as i64).collect();
            shape.push(own[start..=end].iter().product::<usize>() as i64);
            shape.extend(own[end + 1..].iter().map(|&n| n as i64));
            Ok(self.reshape(&shape))
        })
    }

    /// Axis `n` of the result is axis `axes[n]`.
    pub fn permute(&self, axes: &[i64]) -> Tensor {
        Tensor::attempt(|| {
            let rank = self.ty()?.shape.len();
            let mut order = Vec::new();
            for &axis in axes {
                order.push(self.axis("permute", axis)?);
            }
            if order.iter().copied().eq(0..rank) {
                return Ok(self.clone());
            }
            Tensor::row_view("permute", View::Permute { axes: order }, &[self])
        })
    }

    /// Two axes exchanged.
    pub fn transpose(&self, a: i64, b: i64) -> Tensor {
        Tensor::attempt(|| {
            if self.ty()?.shape.is_empty() && [a, b].iter().all(|&axis| stands_for_none(axis)) {
                return Ok(self.clone());
            }
            let (a, b) = (self.axis("transpose", a)?, self.axis("transpose", b)?);
            let mut axes: Vec<i64> = (0..self.dim() as i64).collect();
            axes.swap(a, b);
            Ok(self.permute(&axes))
        })
    }

    /// The transpose of a matrix; a vector or a number is itself.
    pub fn t(&self) -> Tensor {
        Tensor::attempt(|| match self.ty()?.shape.len() {
            0 | 1 => Ok(self.clone()),
            2 => Ok(self.transpose(0, 1)),
            n => Err(self.shape_error("t", format!("takes at most 2 axes, not {n}; use transpose"))),
        })
    }

    /// A new axis of extent 1 before `axis`.
    pub fn unsqueeze(&self, axis: i64) -> Tensor {
        Tensor::attempt(|| {
            let own = &self.ty()?.shape;
            let at = resolve_axis(axis, own.len() + 1).ok_or_else(|| TensorError::Axis {
                operation: "unsqueeze",
                axis,
                shape: own.clone(),
            })?;
            let mut shape: Vec<i64> = own.iter().map(|&n| n as i64).collect();
            shape.insert(at, 1);
            Ok(self.reshape(&shape))
        })
    }

    /// Without those of `axes` that are 1 long; without every axis that is 1 long when none is named.
    pub fn squeeze(&self, axes: &[i64]) -> Tensor {
        Tensor::attempt(|| {
            let axes = self.axes("squeeze", axes)?;
            let kept = |&(a, n): &(usize, &usize)| *n != 1 || !axes.contains(&a);
            let shape: Vec<i64> = self.shape().iter().enumerate().filter(kept).map(|(_, &n)| n as i64).collect();
            Ok(self.reshape(&shape))
        })
    }

    /// Axes of extent 1 repeated to `shape`; -1 keeps an extent. New axes may be added in front.
    pub fn expand(&self, shape: &[i64]) -> Tensor {
        Tensor::attempt(|| {
            let own = &self.ty()?.shape;
            let lead = shape
                .len()
                .checked_sub(own.len())
                .ok_or_else(|| self.shape_error("expand", format!("{shape:?} has fewer axes than the tensor")))?;
            let mut full = Vec::new();
            for (axis, &n) in shape.iter().enumerate() {
                full.push(match n {
                    -1 if axis >= lead => own[axis - lead],
                    n if n >= 0 => n as usize,
                    n => return Err(self.shape_error("expand", format!("extent {n} for the new axis {axis}"))),
                });
            }
            if full == *own {
                return Ok(self.clone());
            }
            Tensor::row_view("expand", View::Broadcast { shape: full }, &[self])
        })
    }

    /// Indices `start..start + length` of one axis.
    pub fn narrow(&self, axis: i64, start: usize, length: usize) -> Tensor {
        Tensor::attempt(|| {
            let extent = self.shape()[self.axis("narrow", axis)?];
            if start > extent {
                let reason = format!("index {start} of axis {axis}, which is {extent} long, is behind its end");
                return Err(self.shape_error("narrow", reason));
            }
            Ok(self.strided("narrow", axis, start, 1, length))
        })
    }

    /// Indices `start, start + step, …` below `end` of one axis. Negative bounds count from the end and
    /// bounds outside are clipped, as in Python.
    pub fn slice(&self, axis: i64, start: i64, end: i64, step: usize) -> Tensor {
        Tensor::attempt(|| {
            let at = self.axis("slice", axis)?;
            if step == 0 {
                return Err(self.shape_error("slice", format!("a step of 0 on axis {axis}")));
            }
            let extent = self.shape()[at] as i64;
            let clip = |n: i64| if n < 0 { n + extent } else { n }.clamp(0, extent) as usize;
            let (start, end) = (clip(start), clip(end));
            let length = end.saturating_sub(start).div_ceil(step);
            Ok(self.strided("slice", axis, start, step as i64, length))
        })
    }

    /// One index of an axis; the axis goes.
    pub fn select(&self, axis: i64, index: i64) -> Tensor {
        Tensor::attempt(|| {
            let at = self.axis("select", axis)?;
            let extent = self.shape()[at];
            let start = resolve_axis(index, extent).ok_or_else(|| {
                self.shape_error("select", format!("index {index} of axis {axis}, which is {extent} long"))
            })?;
            Ok(self.strided("select", axis, start, 1, 1).squeeze(&[at as i64]))
        })
    }

    /// The order of some axes reversed; of none when none is named.
    pub fn flip(&self, axes: &[i64]) -> Tensor {
        Tensor::attempt(|| {
            if axes.is_empty() {
                return Ok(self.clone());
            }
            Ok(self.axes("flip", axes)?.into_iter().fold(self.clone(), |t, axis| {
                let extent = t.shape()[axis];
                t.strided("flip", axis as i64, extent.saturating_sub(1), -1, extent)
            }))
        })
    }

    fn strided(&self, method: &'static str, axis: i64, start: usize, step: i64, length: usize) -> Tensor {
        Tensor::attempt(|| {
            let at = self.axis(method, axis)?;
            let own = self.shape();
            if (start, step, length) == (0, 1, own[at]) {
                return Ok(self.clone());
            }
            let (mut starts, mut steps, mut shape) = (vec![0; own.len()], vec![1; own.len()], own.to_vec());
            // An empty slice starts at 0, so that its start is an index of the axis.
            (starts[at], steps[at], shape[at]) = (if length == 0 { 0 } else { start }, step, length);
            Tensor::row_view(method, View::Slice { starts, steps, shape }, &[self])
        })
    }

    /// Elements moved along some axes, those that leave one end coming in at the other; by one shift along all elements
    /// in order when no axis is named.
    pub fn roll(&self, shifts: &[i64], axes: &[i64]) -> Tensor {
        Tensor::attempt(|| {
            let own = self.ty()?.shape.clone();
            if axes.is_empty() && shifts.len() == 1 {
                let shape: Vec<i64> = own.iter().map(|&n| n as i64).collect();
                return Ok(self.reshape(&[-1]).roll(shifts, &[0]).reshape(&shape));
            }
            if shifts.len() != axes.len() {
                let reason = format!("{} shifts for {} axes", shifts.len(), axes.len());
                return Err(self.shape_error("roll", reason));
            }
            let mut full = vec![0_usize; own.len()];
            for (&shift, &axis) in shifts.iter().zip(axes) {
                let at = self.axis("roll", axis)?;
                let extent = own[at].max(1) as i64;
                full[at] = (full[at] as i64 + shift.rem_euclid(extent)).rem_euclid(extent) as usize;
            }
            if full.iter().all(|&s| s == 0) {
                return Ok(self.clone());
            }
            Tensor::row_view("roll", View::Roll { shifts: full }, &[self])
        })
    }
}
