//! Views: operations without a kernel. They rename coordinates and compute nothing.

use crate::region::{Interval, Region, strides};
use crate::reshape;

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
    /// Which input; always `Some`, since the fill of a `Pad` is pulled from nowhere.
    pub input: Option<usize>,
    /// Box of the input.
    pub source: Region,
}

/// A box of a view's result that follows one input along straight lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which input.
    pub input: usize,
    /// Box of the result.
    pub dest: Region,
    /// For every axis of the input `(result axis, start, step)`: the index is `start + step * index`, or
    /// `start` where it follows no axis of the result.
    pub axes: Vec<(Option<usize>, i64, i64)>,
}

impl Piece {
    /// The smallest box of the input that holds every element of the piece.
    pub fn source(&self) -> Region {
        let bounds = |&(axis, start, step): &(Option<usize>, i64, i64)| {
            let i = axis.map_or(Interval::new(0, 1), |a| self.dest.0[a]);
            let (a, b) = (start + step * i.lo as i64, start + step * (i.hi as i64 - 1));
            Interval::new(a.min(b) as usize, a.max(b) as usize + 1)
        };
        Region(self.axes.iter().map(bounds).collect())
    }

    /// What a box of the input has of the piece, for devices; `None` where that is nothing. The dense reference works it
    /// out for itself, so that the one is compared with the other.
    pub fn within(&self, region: &Region) -> Option<Line> {
        let mut part = self.dest.clone();
        let mut steps = vec![0; part.rank()];
        let mut from = 0;
        for ((&(axis, start, step), own), stride) in self.axes.iter().zip(&region.0).zip(strides(&region.shape())) {
            // The result's indices i with lo <= start + step * i < hi.
            let (lo, hi) = (own.lo as i64 - start, own.hi as i64 - start);
            match axis {
                None if lo > 0 || hi <= 0 => return None,
                None => {}
                Some(a) => {
                    let ceil = |n: i64, d: i64| n.div_euclid(d) + i64::from(n.rem_euclid(d) != 0);
                    let (first, end) = if step > 0 {
                        (ceil(lo, step), ceil(hi, step))
                    } else {
                        (ceil(1 - hi, -step), ceil(1 - lo, -step))
                    };
                    let inside = Interval::new(first.max(0) as usize, end.max(0) as usize);
                    part.0[a] = part.0[a].intersect(inside);
                    steps[a] += step * stride as i64;
                }
            }
            from += (start - own.lo as i64) * stride as i64;
        }
        if part.is_empty() {
            return None;
        }
        from += part.0.iter().zip(&steps).map(|(i, step)| i.lo as i64 * step).sum::<i64>();
        Some(Line { part, from, steps })
    }
}

/// What a box of a view's input has of a straight piece of its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Box of the result.
    pub part: Region,
    /// Which element of the input's box its first element is, in storage order.
    pub from: i64,
    /// Elements of the input's box from one index to the next, for every axis of the result.
    pub steps: Vec<i64>,
}

/// What of a view does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// All that it says.
    Whole,
    /// What it says of one axis of the input.
    Axis(usize),
    /// One of its inputs.
    Input(usize),
}

/// Why a view is not well formed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The view does not fit its input.
    #[error("{view} of a tensor of shape {shape:?}: {reason}")]
    Misfit {
        /// What of the view it is.
        at: Misfit,
        /// Name of the view.
        view: &'static str,
        /// Shape of the input.
        shape: Vec<usize>,
        /// What is wrong, with the sizes.
        reason: String,
    },
}

impl View {
    /// Whether its result is all elements of one input in the order in which they lie there.
    pub fn shows_all_as_it_lies(&self) -> bool {
        matches!(self, Self::Reshape { .. })
    }

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
        let at =
            |at: Misfit, reason: String| ViewError::Misfit { at, view: self.name(), shape: first.to_vec(), reason };
        let misfit = |reason: String| at(Misfit::Whole, reason);
        let rank = first.len();
        let one_per_axis = |n: usize, what: &str| {
            if n == rank { Ok(()) } else { Err(misfit(format!("{n} {what} for {rank} axes"))) }
        };
        if !matches!(self, Self::Concat { .. }) && inputs.len() != 1 {
            return Err(misfit(format!("takes one tensor, not {}", inputs.len())));
        }
        match self {
            Self::Reshape { shape } => {
                let count = |s: &[usize]| s.iter().fold(1_usize, |n, &e| n.saturating_mul(e));
                let (from, to) = (count(first), count(shape));
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
                    let last = starts[axis] as i128 + steps[axis] as i128 * (shape[axis] as i128 - 1);
                    let outside = starts[axis] >= first[axis] || last < 0 || last >= first[axis] as i128;
                    if steps[axis] == 0 || (shape[axis] > 0 && outside) {
                        let (s, t, n, e) = (starts[axis], steps[axis], shape[axis], first[axis]);
                        let reason = format!("axis {axis}: {n} indices from {s} in steps of {t} leave 0..{e}");
                        return Err(at(Misfit::Axis(axis), reason));
                    }
                }
                Ok(shape.clone())
            }
            Self::Broadcast { shape } => {
                let lead = shape.len().checked_sub(rank).ok_or_else(|| misfit(format!("{shape:?} has fewer axes")))?;
                match (0..rank).find(|&a| first[a] != shape[lead + a] && first[a] != 1) {
                    Some(a) => {
                        let (from, to) = (first[a], shape[lead + a]);
                        Err(at(Misfit::Axis(a), format!("axis {a} of extent {from} cannot be repeated to {to}")))
                    }
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
                        let reason = format!("part {n} has shape {input:?}; parts differ on axis {axis} only");
                        return Err(at(Misfit::Input(n), reason));
                    }
                    shape[*axis] += input[*axis];
                }
                Ok(shape)
            }
            Self::Pad { before, after, .. } => {
                one_per_axis(before.len(), "paddings before")?;
                one_per_axis(after.len(), "paddings after")?;
                Ok((0..rank).map(|a| before[a].saturating_add(first[a]).saturating_add(after[a])).collect())
            }
            Self::Roll { shifts } => {
                one_per_axis(shifts.len(), "shifts")?;
                match (0..rank).find(|&a| shifts[a] >= first[a].max(1)) {
                    Some(a) => {
                        let reason = format!("shift {} of axis {a} is not below its extent {}", shifts[a], first[a]);
                        Err(at(Misfit::Axis(a), reason))
                    }
                    None => Ok(first.to_vec()),
                }
            }
        }
    }

    /// The boxes of the inputs that hold the elements of the box `dest` of the result: disjoint for each
    /// input, in a fixed order, and exact. A `Slice` with a step beyond ±1 gives one bounding box, which
    /// also holds the elements between. The fill of a `Pad` needs no box.
    pub fn pulls(&self, inputs: &[&[usize]], dest: &Region) -> Vec<Pull> {
        let pull = |input, source| Pull { input: Some(input), source };
        match self {
            Self::Reshape { shape } => {
                reshape::pulls(inputs[0], shape, dest).into_iter().map(|source| pull(0, source)).collect()
            }
            Self::Permute { .. }
            | Self::Slice { .. }
            | Self::Broadcast { .. }
            | Self::Concat { .. }
            | Self::Pad { .. }
            | Self::Roll { .. } => self.pieces(inputs, dest).iter().map(|p| pull(p.input, p.source())).collect(),
        }
    }

    /// The input, and the index in it, that an element of the result is; `None` for the fill of a `Pad`.
    pub fn source(&self, inputs: &[&[usize]], dest_index: &[usize]) -> Option<(usize, Vec<usize>)> {
        if let Self::Reshape { shape } = self {
            let mut flat = dest_index.iter().zip(shape).fold(0, |flat, (&i, &n)| flat * n + i);
            let mut index = vec![0; inputs[0].len()];
            for (i, &n) in index.iter_mut().zip(inputs[0]).rev() {
                (*i, flat) = (flat % n, flat / n);
            }
            return Some((0, index));
        }
        let dest = Region(dest_index.iter().map(|&i| Interval::new(i, i + 1)).collect());
        self.pieces(inputs, &dest).first().map(|p| (p.input, p.source().origin()))
    }

    /// The pieces that make up the box `dest` of the result, but for the fill of a `Pad`: disjoint and in a
    /// fixed order. A reshaped box does not follow straight lines; `Reshape` has none.
    pub fn pieces(&self, inputs: &[&[usize]], dest: &Region) -> Vec<Piece> {
        if dest.is_empty() {
            return Vec::new();
        }
        let first = inputs[0];
        let rank = first.len();
        let along = |axis: usize, start: i64| (Some(axis), start, 1);
        let one = |axes: Vec<(Option<usize>, i64, i64)>| vec![Piece { input: 0, dest: dest.clone(), axes }];
        match self {
            Self::Reshape { .. } => Vec::new(),
            Self::Permute { axes } => {
                let mut inverse = vec![0; rank];
                for (n, &a) in axes.iter().enumerate() {
                    inverse[a] = n;
                }
                one(inverse.into_iter().map(|n| along(n, 0)).collect())
            }
            Self::Slice { starts, steps, .. } => {
                one((0..rank).map(|a| (Some(a), starts[a] as i64, steps[a])).collect())
            }
            Self::Broadcast { shape } => {
                let lead = shape.len() - rank;
                one((0..rank).map(|a| if first[a] == 1 { (None, 0, 0) } else { along(lead + a, 0) }).collect())
            }
            Self::Concat { axis } => {
                let mut pieces = Vec::new();
                let mut start = 0;
                for (input, shape) in inputs.iter().enumerate() {
                    let mut part = dest.clone();
                    part.0[*axis] = part.0[*axis].intersect(Interval::new(start, start + shape[*axis]));
                    if !part.is_empty() {
                        let axes = (0..rank).map(|a| along(a, if a == *axis { -(start as i64) } else { 0 })).collect();
                        pieces.push(Piece { input, dest: part, axes });
                    }
                    start += shape[*axis];
                }
                pieces
            }
            Self::Pad { before, .. } => {
                let inside = Region((0..rank).map(|a| Interval::new(before[a], before[a] + first[a])).collect());
                let axes = (0..rank).map(|a| along(a, -(before[a] as i64))).collect();
                let piece = dest.intersect(&inside).map(|dest| Piece { input: 0, dest, axes });
                piece.into_iter().collect()
            }
            Self::Roll { shifts } => {
                let mut pieces = one((0..rank).map(|a| along(a, 0)).collect());
                for a in 0..rank {
                    let (shift, extent) = (shifts[a], first[a]);
                    let sides = [
                        (Interval::new(0, shift), (extent - shift) as i64),
                        (Interval::new(shift, extent), -(shift as i64)),
                    ];
                    let cut = |piece: &Piece, (side, start): (Interval, i64)| {
                        let mut piece = piece.clone();
                        piece.dest.0[a] = piece.dest.0[a].intersect(side);
                        piece.axes[a].1 = start;
                        (!piece.dest.is_empty()).then_some(piece)
                    };
                    pieces = pieces.iter().flat_map(|p| sides.map(|side| cut(p, side))).flatten().collect();
                }
                pieces
            }
        }
    }
}
