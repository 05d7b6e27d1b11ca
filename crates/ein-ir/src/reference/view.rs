//! Views on boxes.

use crate::copy::Strided;
use crate::dense::Dense;
use crate::dtype::DType;
use crate::region::{Interval, Region, strides};
use crate::reshape::flatten;
use crate::scalar::Scalar;
use crate::view::{Piece, View};

/// The box `dest` of a view's result from boxes of its inputs, `(input, its box, elements)`; `inputs` are
/// the shapes of the whole inputs. The boxes must hold every element that [`View::pulls`] names; they may
/// hold more, and overlap.
///
/// The type is that of the first source. A box of a `Pad` that is all fill has no source: use [`view_as`].
pub fn view(view: &View, inputs: &[&[usize]], dest: &Region, sources: &[(usize, Region, &Dense)]) -> Dense {
    let dtype = sources.first().map_or(DType::F32, |s| s.2.dtype());
    view_as(dtype, view, inputs, dest, sources)
}

/// [`view`] for a result of a known type.
pub fn view_as(
    dtype: DType,
    view: &View,
    inputs: &[&[usize]],
    dest: &Region,
    sources: &[(usize, Region, &Dense)],
) -> Dense {
    let fill = if let View::Pad { value, .. } = view { f64::from_bits(*value) } else { 0.0 };
    let mut result = Dense::full(dtype, dest.shape(), Scalar::F(fill));
    let mut copied = 0;
    let needed = if let View::Reshape { shape } = view {
        for (_, region, data) in sources {
            for copy in reshape(inputs[0], shape, dest, region) {
                copied += copy.len();
                result.copy(copy, data);
            }
        }
        dest.volume()
    } else {
        let pieces = view.pieces(inputs, dest);
        for piece in &pieces {
            for (input, region, data) in sources {
                if let Some(copy) = straight(piece, dest, region).filter(|_| *input == piece.input) {
                    copied += copy.len();
                    result.copy(copy, data);
                }
            }
        }
        pieces.iter().map(|p| p.dest.volume()).sum()
    };
    assert!(copied >= needed, "{}: {copied} of {needed} elements of {dest} are given", view.name());
    result
}

/// The copy of what a piece reads of the box `region` into the box `dest`.
fn straight(piece: &Piece, dest: &Region, region: &Region) -> Option<Strided> {
    let mut part = piece.dest.clone();
    let here = strides(&region.shape());
    let mut steps = vec![0; part.rank()];
    let mut from = 0;
    for (&(axis, start, step), (own, &stride)) in piece.axes.iter().zip(region.0.iter().zip(&here)) {
        let (lo, hi) = (own.lo as i64 - start, own.hi as i64 - start);
        match axis {
            None => {
                if lo > 0 || hi <= 0 {
                    return None;
                }
            }
            Some(a) => {
                // Indices i with lo <= step * i < hi.
                let up = |n: i64, d: i64| n.div_euclid(d) + i64::from(n.rem_euclid(d) != 0);
                let (first, end) =
                    if step > 0 { (up(lo, step), up(hi, step)) } else { (up(1 - hi, -step), up(1 - lo, -step)) };
                part.0[a] = part.0[a].intersect(Interval::new(first.max(0) as usize, end.max(0) as usize));
                steps[a] += step * stride as i64;
            }
        }
        from += (start - own.lo as i64) * stride as i64;
    }
    if part.is_empty() {
        return None;
    }
    let there = strides(&dest.shape());
    let mut to = 0;
    for a in 0..part.rank() {
        to += (part.0[a].lo - dest.0[a].lo) * there[a];
        from += part.0[a].lo as i64 * steps[a];
    }
    let axes = (0..part.rank()).map(|a| (part.0[a].len(), there[a], steps[a])).collect();
    Some(Strided { to, from: from as usize, axes })
}

/// The copies of what the box `dest` of the new shape reads of the box `region` of the old one: where the
/// runs of their flat indices meet.
fn reshape(old: &[usize], new: &[usize], dest: &Region, region: &Region) -> Vec<Strided> {
    let (to, from) = (flatten(&dest.0, new), flatten(&region.0, old));
    let (mut t, mut f) = (0, 0);
    // Elements of each box before its current run.
    let (mut before_to, mut before_from) = (0, 0);
    let mut copies = Vec::new();
    while t < to.len() && f < from.len() {
        let both = to[t].intersect(from[f]);
        if !both.is_empty() {
            copies.push(Strided {
                to: before_to + both.lo - to[t].lo,
                from: before_from + both.lo - from[f].lo,
                axes: vec![(both.len(), 1, 1)],
            });
        }
        if to[t].hi <= from[f].hi {
            before_to += to[t].len();
            t += 1;
        } else {
            before_from += from[f].len();
            f += 1;
        }
    }
    copies
}
