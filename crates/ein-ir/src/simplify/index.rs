//! Indices: composing them, and taking them apart along a shape.

use crate::einsum::{Affine, Label};
use crate::region::strides;

/// `by * index + offset`.
pub(super) fn scaled(index: &Affine, by: i64, offset: i64) -> Affine {
    Affine { terms: index.terms.iter().map(|&(l, s)| (l, s * by)).collect(), offset: index.offset * by + offset }
}

/// The sum of indices, one term a label, labels in the order in which they first occur.
pub(super) fn sum(parts: impl IntoIterator<Item = Affine>) -> Affine {
    let mut total = Affine::default();
    for part in parts {
        total.offset += part.offset;
        for (label, stride) in part.terms {
            match total.terms.iter_mut().find(|t| t.0 == label) {
                Some(term) => term.1 += stride,
                None => total.terms.push((label, stride)),
            }
        }
    }
    total.terms.retain(|t| t.1 != 0);
    total
}

/// The index with `values[l]` in place of label `l`.
pub(super) fn substitute(index: &Affine, values: &[Affine]) -> Affine {
    let terms = index.terms.iter().map(|&(l, s)| scaled(&values[l], s, 0));
    sum(terms.chain([Affine::constant(index.offset)]))
}

/// Why an index cannot be taken apart.
pub(super) enum Stuck {
    /// It could if this label were two, the inner one of this extent.
    Label(usize, usize),
    /// It cannot.
    Never,
}

/// The indices into a tensor of shape `source` that reach what `indices` reach in its reshape to `shape`.
///
/// The position in row-major order is an affine function of labels. Every axis of the source, from the last, takes
/// the terms that stay below its extent; what is left must be a multiple of that extent.
pub(super) fn reshaped(
    indices: &[Affine],
    shape: &[usize],
    source: &[usize],
    labels: &[Label],
) -> Result<Vec<Affine>, Stuck> {
    let steps = strides(shape);
    let mut left = sum(indices.iter().zip(steps).map(|(i, s)| scaled(i, s as i64, 0)));
    // A label of extent 1 is always 0.
    left.terms.retain(|t| labels[t.0].extent != 1);
    let mut found = vec![Affine::default(); source.len()];
    for axis in (0..source.len()).rev() {
        let extent = source[axis] as i64;
        let (outer, inner): (Vec<_>, Vec<_>) = left.terms.into_iter().partition(|t| t.1 % extent == 0);
        let here = Affine { terms: inner, offset: left.offset.rem_euclid(extent) };
        let reach = |below: bool| {
            let ends = here.terms.iter().map(|&(l, s)| s * (labels[l].extent as i64 - 1));
            here.offset + ends.filter(|&e| (e < 0) == below).sum::<i64>()
        };
        if reach(true) < 0 || reach(false) >= extent {
            let apart = here.terms.iter().find_map(|&(l, s)| {
                let fits = s > 0 && extent % s == 0;
                let inner = if fits { (extent / s) as usize } else { return None };
                (labels[l].extent > inner && labels[l].extent.is_multiple_of(inner)).then_some(Stuck::Label(l, inner))
            });
            return Err(apart.unwrap_or(Stuck::Never));
        }
        let terms = outer.into_iter().map(|(l, s)| (l, s / extent)).collect();
        left = Affine { terms, offset: left.offset.div_euclid(extent) };
        found[axis] = here;
    }
    if left == Affine::default() { Ok(found) } else { Err(Stuck::Never) }
}

/// How a reshape cuts the axes of `from`, and merges what is left to those of `to`.
pub(super) struct Refinement {
    /// For every axis of `from` the extents it is cut into, outermost first; none for an extent of 1.
    pub pieces: Vec<Vec<usize>>,
    /// For every axis of `to` the number of pieces that it merges; 0 for an extent of 1.
    pub merged: Vec<usize>,
}

/// The pieces of which both shapes are made; `None` when there are none such, as for 12·8 and 16·6.
pub(super) fn refine(from: &[usize], to: &[usize]) -> Option<Refinement> {
    let mut refinement = Refinement { pieces: vec![vec![]; from.len()], merged: vec![0; to.len()] };
    let (mut i, mut j) = (0, 0);
    let (mut source, mut dest) = (1, 1);
    loop {
        // What is left of one axis of each; 1 when it is used up.
        while source == 1 && i < from.len() {
            source = from[i];
            i += 1;
        }
        while dest == 1 && j < to.len() {
            dest = to[j];
            j += 1;
        }
        if source == 1 && dest == 1 {
            return Some(refinement);
        }
        let piece = source.min(dest);
        if piece <= 1 || source % piece != 0 || dest % piece != 0 {
            return None;
        }
        refinement.pieces[i - 1].push(piece);
        refinement.merged[j - 1] += 1;
        source /= piece;
        dest /= piece;
    }
}

/// The extents of an index that counts through an axis of `extent` in mixed radix, as `64*h + d`: at least two
/// labels, outermost first.
pub(super) fn radix(index: &Affine, labels: &[Label], extent: usize) -> Option<Vec<usize>> {
    if index.terms.len() < 2 || index.offset != 0 {
        return None;
    }
    let mut stride = 1i64;
    for &(label, step) in index.terms.iter().rev() {
        if step != stride || labels[label].extent < 2 {
            return None;
        }
        stride *= labels[label].extent as i64;
    }
    (stride == extent as i64).then(|| index.terms.iter().map(|t| labels[t.0].extent).collect())
}
