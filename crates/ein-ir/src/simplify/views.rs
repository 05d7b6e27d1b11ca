//! Views into views, into the einsums before them and into the einsums after them.

use super::index::{Stuck, radix, refine, reshaped, scaled};
use super::labels::{apart, rearrange, restrict};
use super::maps::spanning;
use super::{Readers, Rows};
use crate::einsum::{Access, Affine, Einsum};
use crate::graph::{TensorId, TensorType};
use crate::op::Op;
use crate::view::View;

/// Merges views of views, and passes by those that change nothing.
pub(super) fn merge(rows: &mut Rows) -> bool {
    let mut changed = false;
    for n in 0..rows.nodes.len() {
        if let Op::View(outer) = &rows.nodes[n].op
            && let [input] = rows.nodes[n].inputs[..]
            && let Op::View(inner) = &rows.nodes[input.index()].op
            && let [source] = rows.nodes[input.index()].inputs[..]
            && let Some(both) = merged(inner, outer)
        {
            rows.nodes[n].op = Op::View(both);
            rows.nodes[n].inputs = vec![source];
            changed = true;
        }
    }
    // Rows in order, so that a chain of views that change nothing ends at its source.
    for n in 0..rows.nodes.len() {
        let Op::View(view) = &rows.nodes[n].op else { continue };
        let [input] = rows.nodes[n].inputs[..] else { continue };
        if changes_nothing(view, rows.shape(input)) {
            let this = TensorId(n as u32);
            let later = rows.nodes[n + 1..].iter_mut().flat_map(|node| &mut node.inputs);
            for place in later.chain(rows.outputs.iter_mut().map(|o| &mut o.1)).filter(|p| **p == this) {
                *place = input;
                changed = true;
            }
        }
    }
    changed
}

/// One view for two; `None` when there is none.
fn merged(inner: &View, outer: &View) -> Option<View> {
    Some(match (inner, outer) {
        (View::Reshape { .. }, View::Reshape { shape }) => View::Reshape { shape: shape.clone() },
        (View::Permute { axes: first }, View::Permute { axes }) => {
            View::Permute { axes: axes.iter().map(|&a| first[a]).collect() }
        }
        (View::Broadcast { .. }, View::Broadcast { shape }) => View::Broadcast { shape: shape.clone() },
        // The start of an empty axis need not be an index.
        (View::Slice { starts: s, steps: t, .. }, View::Slice { starts, steps, shape }) if !shape.contains(&0) => {
            let start = |a: usize| (s[a] as i64 + t[a] * starts[a] as i64) as usize;
            View::Slice {
                starts: (0..shape.len()).map(start).collect(),
                steps: steps.iter().zip(t).map(|(a, b)| a * b).collect(),
                shape: shape.clone(),
            }
        }
        _ => return None,
    })
}

fn changes_nothing(view: &View, source: &[usize]) -> bool {
    match view {
        View::Reshape { shape } | View::Broadcast { shape } => shape == source,
        View::Permute { axes } => axes.iter().copied().eq(0..source.len()),
        View::Slice { starts, shape, .. } if shape != source || starts.iter().any(|&s| s != 0) => false,
        View::Slice { steps, shape, .. } => steps.iter().zip(shape).all(|(&s, &n)| s == 1 || n <= 1),
        View::Concat { .. } => true,
        View::Pad { before, after, .. } => before.iter().chain(after).all(|&n| n == 0),
        View::Roll { shifts } => shifts.iter().all(|&s| s == 0),
    }
}

/// Makes a view that alone reads an einsum part of it, as far as it only cuts, exchanges, drops or adds axes or
/// leaves indices out. The einsum moves to the row of the view; its name goes with it.
pub(super) fn push(rows: &mut Rows) -> bool {
    let mut changed = false;
    loop {
        let before = changed;
        for (n, readers) in rows.readers().iter().enumerate() {
            if let Op::Einsum(e) = &rows.nodes[n].op
                && let Some((reader, _)) = readers.only()
                && let Op::View(view) = &rows.nodes[reader].op
                && !e.labels.iter().any(|l| l.extent == 0)
                && let Some((einsum, rest)) = pushed(e, view)
                && spans(rows, &einsum, &rows.nodes[n].inputs)
            {
                let ty = TensorType::new(einsum.dtype, einsum.shape());
                if let Some(shape) = rest {
                    rows.nodes[n].op = Op::Einsum(einsum);
                    rows.nodes[n].ty = ty;
                    rows.nodes[reader].op = Op::View(View::Reshape { shape });
                } else {
                    rows.nodes[reader].op = Op::Einsum(einsum);
                    let inputs = rows.nodes[n].inputs.clone();
                    rows.nodes[reader].inputs = inputs;
                    // Swapped, so that names stay unique.
                    let name = std::mem::take(&mut rows.nodes[n].name);
                    rows.nodes[n].name = std::mem::replace(&mut rows.nodes[reader].name, name);
                }
                changed = true;
            }
        }
        if before == changed {
            return changed;
        }
    }
}

fn spans(rows: &Rows, e: &Einsum, inputs: &[TensorId]) -> bool {
    e.accesses.iter().zip(inputs).all(|(access, &input)| spanning(access, rows.shape(input), e))
}

/// The einsum that gives what the view shows, and the shape of the reshape that is still to follow, if any.
fn pushed(e: &Einsum, view: &View) -> Option<(Einsum, Option<Vec<usize>>)> {
    let stacked = if e.folds() { e.monoid.stacked() } else { None };
    match view {
        View::Permute { axes } => {
            let axes = match (stacked, axes.split_last()) {
                (Some(_), Some((&last, axes))) if last == e.rank => axes,
                (Some(_), _) => return None,
                (None, _) => axes,
            };
            let order: Vec<Option<usize>> = axes.iter().map(|&a| Some(a)).collect();
            Some((rearrange(e, &order), None))
        }
        View::Slice { starts, steps, shape } => {
            let whole = stacked.is_none_or(|n| shape[e.rank] == n && starts[e.rank] == 0 && steps[e.rank] == 1);
            (whole && !shape.contains(&0)).then(|| (restrict(e, starts, steps, shape), None))
        }
        View::Reshape { shape } => {
            let (kept, last) = match stacked {
                Some(n) => (shape.strip_suffix(&[n])?, Some(n)),
                None => (shape.as_slice(), None),
            };
            let from: Vec<usize> = e.labels[..e.rank].iter().map(|l| l.extent).collect();
            let refinement = refine(&from, kept)?;
            let whole = refinement.merged.iter().all(|&n| n <= 1);
            let mut einsum = e.clone();
            for axis in (0..e.rank).rev().filter(|&a| refinement.pieces[a].len() > 1) {
                einsum = apart(&einsum, axis, &refinement.pieces[axis]);
            }
            if whole {
                // The axes that are longer than 1 follow each other in both shapes.
                let mut long =
                    (0..einsum.rank).filter(|&a| einsum.labels[a].extent > 1).collect::<Vec<_>>().into_iter();
                let order: Vec<Option<usize>> =
                    refinement.merged.iter().map(|&n| if n == 0 { None } else { long.next() }).collect();
                return Some((rearrange(&einsum, &order), None));
            }
            let mut rest = kept.to_vec();
            rest.extend(last);
            (einsum.rank > e.rank).then_some((einsum, Some(rest)))
        }
        View::Broadcast { .. } | View::Concat { .. } | View::Pad { .. } | View::Roll { .. } => None,
    }
}

/// Makes views that an einsum reads part of its indices.
pub(super) fn fold(rows: &mut Rows) -> bool {
    let mut changed = false;
    for n in 0..rows.nodes.len() {
        let mut operand = 0;
        while operand < rows.nodes[n].inputs.len() {
            let input = rows.nodes[n].inputs[operand];
            if let Op::Einsum(e) = &rows.nodes[n].op
                && let Op::View(view) = &rows.nodes[input.index()].op
                && let [source] = rows.nodes[input.index()].inputs[..]
                && let Some(folded) = folded(e, operand, view, rows.shape(source))
                && {
                    let mut inputs = rows.nodes[n].inputs.clone();
                    inputs[operand] = source;
                    spans(rows, &folded, &inputs)
                }
            {
                rows.nodes[n].op = Op::Einsum(folded);
                rows.nodes[n].inputs[operand] = source;
                changed = true;
            } else {
                operand += 1;
            }
        }
    }
    changed
}

/// The einsum that reads the source of a view in place of the view.
fn folded(e: &Einsum, operand: usize, view: &View, source: &[usize]) -> Option<Einsum> {
    if source.contains(&0) || e.labels.iter().any(|l| l.extent == 0) {
        return None;
    }
    let indices = &e.accesses[operand].axes;
    let axes: Vec<Affine> = match view {
        View::Permute { axes } => {
            let mut found = vec![Affine::default(); axes.len()];
            axes.iter().zip(indices).for_each(|(&a, i)| found[a] = i.clone());
            found
        }
        View::Slice { starts, steps, .. } => {
            let all = indices.iter().zip(steps).zip(starts);
            all.map(|((i, &step), &start)| scaled(i, step, start as i64)).collect()
        }
        View::Broadcast { shape } => {
            let lead = shape.len() - source.len();
            let axis = |a: usize| {
                let repeated = source[a] != shape[lead + a];
                if repeated { Affine::constant(0) } else { indices[lead + a].clone() }
            };
            (0..source.len()).map(axis).collect()
        }
        View::Reshape { shape } => match reshaped(indices, shape, source, &e.labels) {
            Ok(axes) => axes,
            // An axis of the result stays one: only what is folded may have more labels.
            Err(Stuck::Label(label, inner)) if label >= e.rank => {
                let extents = [e.labels[label].extent / inner, inner];
                return folded(&apart(e, label, &extents), operand, view, source);
            }
            Err(Stuck::Label(..) | Stuck::Never) => return None,
        },
        View::Concat { .. } | View::Pad { .. } | View::Roll { .. } => return None,
    };
    let mut einsum = e.clone();
    einsum.accesses[operand] = Access { axes };
    Some(einsum)
}

/// Gives the result of an einsum the axes at which all its readers read it: `h` and `d` for `64*h + d`.
pub(super) fn spread(rows: &mut Rows) -> bool {
    let mut changed = false;
    for (n, readers) in rows.readers().iter().enumerate() {
        while let Some((axis, extents)) = wanted(rows, n, readers) {
            let Op::Einsum(e) = &rows.nodes[n].op else { unreachable!("only an einsum is spread") };
            let einsum = apart(e, axis, &extents);
            rows.nodes[n].ty = TensorType::new(einsum.dtype, einsum.shape());
            rows.nodes[n].op = Op::Einsum(einsum);
            for &(reader, operand) in &readers.reads {
                if let Op::Einsum(e) = &mut rows.nodes[reader].op {
                    let axes = &mut e.accesses[operand].axes;
                    let terms = axes.remove(axis).terms;
                    let labels = terms.into_iter().map(|t| Affine::label(t.0));
                    axes.splice(axis..axis, labels);
                }
            }
            changed = true;
        }
    }
    changed
}

/// An axis that all readers read in one mixed radix, and its extents.
fn wanted(rows: &Rows, n: usize, readers: &Readers) -> Option<(usize, Vec<usize>)> {
    let Op::Einsum(e) = &rows.nodes[n].op else { return None };
    if readers.output {
        return None;
    }
    (0..e.rank).find_map(|axis| {
        let mut found = None;
        for &(reader, operand) in &readers.reads {
            let Op::Einsum(r) = &rows.nodes[reader].op else { return None };
            let extents = radix(&r.accesses[operand].axes[axis], &r.labels, e.labels[axis].extent)?;
            if found.get_or_insert_with(|| extents.clone()) != &extents {
                return None;
            }
        }
        found.map(|extents| (axis, extents))
    })
}

/// Orders the axes of an einsum's result as its only reader, a map, orders its labels, so that one can be the
/// epilogue of the other.
pub(super) fn align(rows: &mut Rows) -> bool {
    let mut changed = false;
    let readers = rows.readers();
    // Later rows first: a row is ordered when what reads it is.
    for n in (0..rows.nodes.len()).rev() {
        if let Op::Einsum(e) = &rows.nodes[n].op
            && let Some((reader, operand)) = readers[n].only()
            && let Op::Einsum(map) = &rows.nodes[reader].op
            && !(map.folds() || e.folds() && e.monoid.stacked().is_some())
            && let Some(labels) =
                map.accesses[operand].axes.iter().map(Affine::as_label).collect::<Option<Vec<usize>>>()
        {
            let mut order: Vec<usize> = (0..labels.len()).collect();
            order.sort_by_key(|&axis| labels[axis]);
            if order.is_sorted() {
                continue;
            }
            let access: Vec<usize> = order.iter().map(|&axis| labels[axis]).collect();
            let einsum = rearrange(e, &order.into_iter().map(Some).collect::<Vec<_>>());
            rows.nodes[n].ty = TensorType::new(einsum.dtype, einsum.shape());
            rows.nodes[n].op = Op::Einsum(einsum);
            if let Op::Einsum(map) = &mut rows.nodes[reader].op {
                map.accesses[operand] = Access::labels(&access);
            }
            changed = true;
        }
    }
    changed
}
