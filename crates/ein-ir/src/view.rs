//! Views: operations without a kernel. They rename coordinates and compute nothing.

use crate::region::Region;

/// A view of one tensor (of several, for `Concat`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// The same elements in row-major order under another shape.
    Reshape {
        /// The new shape.
        shape: Vec<usize>,
    },
    /// Axis `n` of the result is axis `axes[n]` of the input.
    Permute {
        /// A permutation of the input's axes.
        axes: Vec<usize>,
    },
    /// Along every axis the indices `start, start + step, …`, `shape[axis]` of them. A step may be negative (a flip).
    Slice {
        /// First index on every axis.
        starts: Vec<usize>,
        /// Distance on every axis, not 0.
        steps: Vec<i64>,
        /// The new shape.
        shape: Vec<usize>,
    },
    /// Axes are aligned at the right; an axis that is missing or 1 long is repeated.
    Broadcast {
        /// The new shape.
        shape: Vec<usize>,
    },
    /// The inputs one after the other along `axis`.
    Concat {
        /// The axis.
        axis: usize,
    },
    /// `before` and `after` elements of `value` around the input.
    Pad {
        /// Elements before, on every axis.
        before: Vec<usize>,
        /// Elements after, on every axis.
        after: Vec<usize>,
        /// The bits of the fill value as `f64`; converted to the tensor's type.
        value: u64,
    },
    /// Element `i` moves to `(i + shift) mod extent` on every axis, as `torch.roll`.
    Roll {
        /// Shift on every axis, `0 <= shift < extent` (0 where the extent is 0).
        shifts: Vec<usize>,
    },
}

/// A box of a view's result that is a box of one input: what a reader of `dest` needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pull {
    /// Which input; `None` for the fill of a `Pad`.
    pub input: Option<usize>,
    /// Box of the input (empty shape-compatible box for fill).
    pub source: Region,
}

/// Why a view is not well formed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The view does not fit its input.
    #[error("{view} of a tensor of shape {shape:?}: {reason}")]
    Misfit {
        /// Name of the view.
        view: &'static str,
        /// Shape of the input.
        shape: Vec<usize>,
        /// What is wrong, with the sizes.
        reason: String,
    },
}

impl View {
    /// Name in messages and text forms.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reshape { .. } => "reshape",
            Self::Permute { .. } => "permute",
            Self::Slice { .. } => "slice",
            Self::Broadcast { .. } => "broadcast",
            Self::Concat { .. } => "concat",
            Self::Pad { .. } => "pad",
            Self::Roll { .. } => "roll",
        }
    }

    /// The shape of the result for inputs of these shapes.
    pub fn shape(&self, inputs: &[&[usize]]) -> Result<Vec<usize>, ViewError> {
        let first = inputs.first().copied().unwrap_or(&[]);
        let misfit = |reason: String| ViewError::Misfit { view: self.name(), shape: first.to_vec(), reason };
        let rank = first.len();
        let one_per_axis = |n: usize, what: &str| {
            if n == rank { Ok(()) } else { Err(misfit(format!("{n} {what} for {rank} axes"))) }
        };
        if !matches!(self, Self::Concat { .. }) && inputs.len() != 1 {
            return Err(misfit(format!("takes one tensor, not {}", inputs.len())));
        }
        match self {
            Self::Reshape { shape } => {
                let (from, to) = (first.iter().product::<usize>(), shape.iter().product::<usize>());
                if from == to {
                    Ok(shape.clone())
                } else {
                    Err(misfit(format!("{from} elements do not fill {shape:?} ({to})")))
                }
            }
            Self::Permute { axes } => {
                let mut sorted = axes.clone();
                sorted.sort_unstable();
                if sorted.iter().copied().eq(0..rank) {
                    Ok(axes.iter().map(|&a| first[a]).collect())
                } else {
                    Err(misfit(format!("{axes:?} is not a permutation of its {rank} axes")))
                }
            }
            Self::Slice { starts, steps, shape } => {
                one_per_axis(starts.len(), "starts")?;
                one_per_axis(steps.len(), "steps")?;
                one_per_axis(shape.len(), "extents")?;
                for axis in 0..rank {
                    let last = starts[axis] as i64 + steps[axis] * (shape[axis] as i64 - 1);
                    let outside = starts[axis] >= first[axis] || last < 0 || last >= first[axis] as i64;
                    if steps[axis] == 0 || (shape[axis] > 0 && outside) {
                        let (s, t, n, e) = (starts[axis], steps[axis], shape[axis], first[axis]);
                        return Err(misfit(format!("axis {axis}: {n} indices from {s} in steps of {t} leave 0..{e}")));
                    }
                }
                Ok(shape.clone())
            }
            Self::Broadcast { shape } => {
                let lead = shape.len().checked_sub(rank).ok_or_else(|| misfit(format!("{shape:?} has fewer axes")))?;
                match (0..rank).find(|&a| first[a] != shape[lead + a] && first[a] != 1) {
                    Some(a) => Err(misfit(format!(
                        "axis {a} of extent {} cannot be repeated to {}",
                        first[a],
                        shape[lead + a]
                    ))),
                    None => Ok(shape.clone()),
                }
            }
            Self::Concat { axis } => {
                if *axis >= rank {
                    return Err(misfit(format!("there is no axis {axis}")));
                }
                let mut shape = first.to_vec();
                shape[*axis] = 0;
                for (n, input) in inputs.iter().enumerate() {
                    let fits = input.len() == rank && (0..rank).all(|a| a == *axis || input[a] == first[a]);
                    if !fits {
                        return Err(misfit(format!("part {n} has shape {input:?}; parts differ on axis {axis} only")));
                    }
                    shape[*axis] += input[*axis];
                }
                Ok(shape)
            }
            Self::Pad { before, after, .. } => {
                one_per_axis(before.len(), "paddings before")?;
                one_per_axis(after.len(), "paddings after")?;
                Ok((0..rank).map(|a| before[a] + first[a] + after[a]).collect())
            }
            Self::Roll { shifts } => {
                one_per_axis(shifts.len(), "shifts")?;
                match (0..rank).find(|&a| shifts[a] >= first[a].max(1)) {
                    Some(a) => {
                        Err(misfit(format!("shift {} of axis {a} is not below its extent {}", shifts[a], first[a])))
                    }
                    None => Ok(first.to_vec()),
                }
            }
        }
    }
}
