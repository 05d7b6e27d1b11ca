//! One axis of a tensor, or one label of an operation, cut into a strip for each device, and how such a cut
//! is seen on the other side of a view or of an access.

use crate::choice::{Block, Decomposition};
use ein_ir::region::{Interval, Region};
use ein_ir::spec::{AxisMap, Role, Rule, Spec};
use ein_ir::view::View;
use ein_task::machine::{DeviceId, DeviceSet};

/// An interval for each of the working devices, in their order. Strips may be empty, and may overlap where
/// several devices do the same.
pub(super) type Strips = Vec<Interval>;

/// Equal strips, the longer ones first: 17 on 8 are 3, 2, 2, 2, 2, 2, 2, 2.
pub(super) fn even(extent: usize, devices: usize) -> Strips {
    let (each, more) = (extent / devices, extent % devices);
    let mut at = 0;
    (0..devices)
        .map(|n| {
            let lo = at;
            at += each + usize::from(n < more);
            Interval::new(lo, at)
        })
        .collect()
}

/// Equal strips of a label, in the units that its rule allows.
pub(super) fn even_label(spec: &Spec, label: usize, devices: usize) -> Strips {
    let extent = spec.labels[label].extent;
    match spec.labels[label].rule {
        Rule::Any => even(extent, devices),
        Rule::MultipleOf(unit) => scale(&even(extent.div_ceil(unit), devices), unit, extent),
    }
}

/// Strips in units of `by`, up to `extent`.
pub(super) fn scale(strips: &[Interval], by: usize, extent: usize) -> Strips {
    strips.iter().map(|i| Interval::new((i.lo * by).min(extent), (i.hi * by).min(extent))).collect()
}

/// Strips in units of which `from` make one of the old and `to` one of the new; `None` if a cut is between.
fn convert(strips: &[Interval], from: usize, to: usize) -> Option<Strips> {
    let whole = |at: usize| (at * from).is_multiple_of(to).then(|| at * from / to);
    strips.iter().map(|i| Some(Interval::new(whole(i.lo)?, whole(i.hi)?))).collect()
}

/// The same with `by` added to every index, what leaves `0..extent` dropped.
fn shift(strips: &[Interval], by: i64, extent: usize) -> Strips {
    let clip = |at: usize| (at as i64 + by).clamp(0, extent as i64) as usize;
    strips.iter().map(|i| if i.is_empty() { *i } else { Interval::new(clip(i.lo), clip(i.hi)) }).collect()
}

/// Whether every index below `extent` is in some strip.
fn covers(strips: &[Interval], extent: usize) -> bool {
    let mut sorted: Strips = strips.iter().copied().filter(|i| !i.is_empty()).collect();
    sorted.sort_unstable();
    let mut until = 0;
    for i in sorted {
        if i.lo > until {
            return false;
        }
        until = until.max(i.hi);
    }
    until >= extent
}

/// The label that a cut of an operand's axis cuts, with its strips: a block over a label's strip reads the
/// axis' strip and nothing else. `None` if there is no such label, or it may not be cut.
pub(super) fn through_access(spec: &Spec, axis: &AxisMap, strips: &[Interval]) -> Option<(usize, Strips)> {
    let extent = |label: usize| spec.labels[label].extent;
    let (label, strips) = match axis {
        AxisMap::Band(band) => (band.key, strips.to_vec()),
        AxisMap::Div { label, by } => (*label, scale(strips, *by, extent(*label))),
        AxisMap::Affine(a) => {
            let &(label, stride) = a.terms.iter().max_by_key(|t| t.1)?;
            let rest = a.terms.iter().filter(|t| t.0 != label);
            let reach: i64 = rest.clone().map(|t| t.1 * (extent(t.0) as i64 - 1)).sum();
            if stride < 1 || rest.clone().any(|t| t.1 < 0) || reach >= stride {
                return None;
            }
            let shifted = if a.offset == 0 { strips.to_vec() } else { shift(strips, -a.offset, usize::MAX >> 1) };
            // The last strip may end within a unit: the axis is not read beyond.
            let unit = |i: &Interval| {
                let last = i.hi as i64 > stride * (extent(label) as i64 - 1) + reach;
                let hi = if last { extent(label) } else { exact(i.hi, stride)? };
                Some(Interval::new(exact(i.lo, stride)?.min(extent(label)), hi))
            };
            (label, shifted.iter().map(unit).collect::<Option<Strips>>()?)
        }
    };
    let open = spec.labels[label].role != Role::Whole;
    (open && covers(&strips, extent(label))).then_some((label, strips))
}

fn exact(index: usize, stride: i64) -> Option<usize> {
    index.is_multiple_of(stride as usize).then(|| index / stride as usize)
}

/// The strips of a view's result that hold what strips of `axis` of input `input` hold, with their axis.
pub(super) fn forward(
    view: &View,
    inputs: &[&[usize]],
    output: &[usize],
    input: usize,
    axis: usize,
    strips: &[Interval],
) -> Option<(usize, Strips)> {
    let own = inputs[input];
    match view {
        View::Reshape { .. } => reshape(own, output, axis, strips),
        View::Permute { axes } => axes.iter().position(|&a| a == axis).map(|a| (a, strips.to_vec())),
        View::Slice { starts, steps, .. } => {
            (steps[axis] == 1).then(|| (axis, shift(strips, -(starts[axis] as i64), output[axis])))
        }
        View::Broadcast { .. } => {
            let out = axis + output.len() - own.len();
            (own[axis] == output[out]).then(|| (out, strips.to_vec()))
        }
        View::Concat { axis: along } => (axis != *along).then(|| (axis, strips.to_vec())),
        View::Pad { before, .. } => {
            // The fill belongs to the devices at the ends.
            let widen = |i: &Interval| {
                let lo = if i.lo == 0 { 0 } else { i.lo + before[axis] };
                let hi = if i.hi == own[axis] { output[axis] } else { i.hi + before[axis] };
                if i.is_empty() { *i } else { Interval::new(lo, hi) }
            };
            Some((axis, strips.iter().map(widen).collect()))
        }
        View::Roll { shifts } => (shifts[axis] == 0).then(|| (axis, strips.to_vec())),
    }
}

/// The strips of input `input` that strips of `axis` of a view's result show, with their axis.
pub(super) fn backward(
    view: &View,
    inputs: &[&[usize]],
    output: &[usize],
    input: usize,
    axis: usize,
    strips: &[Interval],
) -> Option<(usize, Strips)> {
    let own = inputs[input];
    match view {
        View::Reshape { .. } => reshape(output, own, axis, strips),
        View::Permute { axes } => Some((axes[axis], strips.to_vec())),
        View::Slice { starts, steps, .. } => {
            (steps[axis] == 1).then(|| (axis, shift(strips, starts[axis] as i64, own[axis])))
        }
        View::Broadcast { .. } => {
            let inside = axis.checked_sub(output.len() - own.len())?;
            (own[inside] == output[axis]).then(|| (inside, strips.to_vec()))
        }
        View::Concat { axis: along } => (axis != *along).then(|| (axis, strips.to_vec())),
        View::Pad { before, .. } => Some((axis, shift(strips, -(before[axis] as i64), own[axis]))),
        View::Roll { shifts } => (shifts[axis] == 0).then(|| (axis, strips.to_vec())),
    }
}

/// A reshape takes runs of axes to runs of axes of the same number of elements. A cut of a run's first axis
/// (those of extent 1 aside) is a cut of the other run's first axis, if it falls between its rows.
fn reshape(from: &[usize], to: &[usize], axis: usize, strips: &[Interval]) -> Option<(usize, Strips)> {
    if from.contains(&0) || from[axis] == 1 {
        return None;
    }
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        let (first_i, first_j) = (i, j);
        let (mut a, mut b) = (from[i], to[j]);
        (i, j) = (i + 1, j + 1);
        while a != b {
            if a < b {
                a *= from[i];
                i += 1;
            } else {
                b *= to[j];
                j += 1;
            }
        }
        if (first_i..i).contains(&axis) {
            let lead = |shape: &[usize], run: std::ops::Range<usize>| run.into_iter().find(|&n| shape[n] > 1);
            let (own, other) = (lead(from, first_i..i)?, lead(to, first_j..j)?);
            let inner = |shape: &[usize], run: std::ops::Range<usize>| shape[run].iter().product::<usize>();
            let strips = convert(strips, inner(from, own + 1..i), inner(to, other + 1..j))?;
            return (own == axis).then_some((other, strips));
        }
    }
    None
}

/// The blocks of an operation with `label` cut into `strips`; what several devices do is one block of theirs,
/// and what none does falls to the first.
pub(super) fn blocks(spec: &Spec, label: usize, strips: &[Interval], workers: &[DeviceId]) -> Decomposition {
    let space = spec.space();
    let extent = spec.labels[label].extent;
    if space.is_empty() {
        return Decomposition::whole(&space, workers.iter().copied().collect());
    }
    let parts = parts(strips, extent, workers);
    let block = |(interval, devices): &(Interval, DeviceSet)| {
        let mut region = space.clone();
        region.0[label] = *interval;
        Block { region, devices: *devices }
    };
    Decomposition::new(&space, parts.iter().map(block).collect()).expect("the parts of an axis tile it")
}

/// The same blocks, each cut in `parts` runs of another label.
pub(super) fn further(spec: &Spec, blocks: &Decomposition, label: usize, parts: usize) -> Decomposition {
    let runs = even_label(spec, label, parts);
    let cut = |block: &Block| {
        let own = block.clone();
        runs.iter().filter(|run| !run.is_empty()).map(move |&run| {
            let mut region = own.region.clone();
            region.0[label] = run;
            Block { region, devices: own.devices }
        })
    };
    Decomposition::new(&spec.space(), blocks.blocks().iter().flat_map(cut).collect()).unwrap_or_else(|| blocks.clone())
}

/// The disjoint intervals between all ends of strips, each with the devices whose strips have it.
pub(super) fn parts(strips: &[Interval], extent: usize, workers: &[DeviceId]) -> Vec<(Interval, DeviceSet)> {
    let mut ends: Vec<usize> = strips.iter().filter(|i| !i.is_empty()).flat_map(|i| [i.lo, i.hi]).collect();
    ends.extend([0, extent]);
    ends.retain(|&e| e <= extent);
    ends.sort_unstable();
    ends.dedup();
    let mut parts: Vec<(Interval, DeviceSet)> = Vec::new();
    for pair in ends.windows(2) {
        let interval = Interval::new(pair[0], pair[1]);
        let having = strips.iter().zip(workers).filter(|(s, _)| s.contains(interval));
        let mut devices: DeviceSet = having.map(|(_, d)| *d).collect();
        if devices.is_empty() {
            devices = DeviceSet::one(workers[0]);
        }
        match parts.last_mut() {
            Some((last, same)) if *same == devices => last.hi = interval.hi,
            _ => parts.push((interval, devices)),
        }
    }
    parts
}

/// A shape's region with one axis replaced.
pub(super) fn strip_of(shape: &[usize], axis: usize, interval: Interval) -> Region {
    let mut region = Region::whole(shape);
    region.0[axis] = interval;
    region
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strips(pairs: &[(usize, usize)]) -> Strips {
        pairs.iter().map(|&(lo, hi)| Interval::new(lo, hi)).collect()
    }

    #[test]
    fn strips_are_as_equal_as_can_be() {
        let check = |extent: usize, devices: usize, expected: &[usize]| {
            let found: Vec<usize> = even(extent, devices).iter().map(|i| i.len()).collect();
            assert_eq!(found, expected);
            assert!(covers(&even(extent, devices), extent));
        };
        check(17, 8, &[3, 2, 2, 2, 2, 2, 2, 2]);
        check(40, 6, &[7, 7, 7, 7, 6, 6]);
        check(28, 8, &[4, 4, 4, 4, 3, 3, 3, 3]);
        check(2, 4, &[1, 1, 0, 0]);
        check(0, 2, &[0, 0]);
    }

    #[test]
    fn views_carry_cuts_both_ways() {
        let cut = strips(&[(0, 4), (4, 8)]);
        let check = |view: View, input: &[usize], axis: usize, expected: Option<(usize, &[(usize, usize)])>| {
            let output = view.shape(&[input]).unwrap();
            let found = forward(&view, &[input], &output, 0, axis, &cut);
            assert_eq!(found, expected.map(|(a, s)| (a, strips(s))), "{view:?} of {input:?}");
            // Where nothing is dropped or added the way back is the way there.
            if let Some((out, there)) = found
                && !matches!(view, View::Slice { .. })
            {
                assert_eq!(backward(&view, &[input], &output, 0, out, &there), Some((axis, cut.clone())), "{view:?}");
            }
        };
        let reshape = |shape: &[usize]| View::Reshape { shape: shape.to_vec() };
        check(reshape(&[3, 4, 2, 5]), &[3, 8, 5], 1, Some((1, &[(0, 2), (2, 4)])));
        check(reshape(&[3, 8, 1, 5]), &[3, 8, 5], 1, Some((1, &[(0, 4), (4, 8)])));
        check(reshape(&[3, 2, 4, 5]), &[3, 8, 5], 1, Some((1, &[(0, 1), (1, 2)])));
        check(reshape(&[3, 40]), &[3, 8, 5], 1, Some((1, &[(0, 20), (20, 40)])));
        check(reshape(&[24, 5]), &[3, 8, 5], 1, None);
        check(reshape(&[40]), &[1, 8, 5], 1, Some((0, &[(0, 20), (20, 40)])));
        check(reshape(&[1, 40, 1]), &[8, 5], 0, Some((1, &[(0, 20), (20, 40)])));
        // Three rows of eight cannot be cut in the middle.
        check(reshape(&[3, 8]), &[8, 3], 0, None);
        check(View::Permute { axes: vec![1, 0] }, &[3, 8], 1, Some((0, &[(0, 4), (4, 8)])));
        check(View::Broadcast { shape: vec![2, 8, 5] }, &[8, 1], 0, Some((1, &[(0, 4), (4, 8)])));
        check(View::Roll { shifts: vec![0, 1] }, &[8, 3], 0, Some((0, &[(0, 4), (4, 8)])));
        check(View::Roll { shifts: vec![1, 0] }, &[8, 3], 0, None);
        check(View::Pad { before: vec![1], after: vec![2], value: 0 }, &[8], 0, Some((0, &[(0, 5), (5, 11)])));
        let slice = |start, step, extent| View::Slice { starts: vec![start], steps: vec![step], shape: vec![extent] };
        check(slice(2, 1, 5), &[8], 0, Some((0, &[(0, 2), (2, 5)])));
        check(slice(5, 1, 3), &[8], 0, Some((0, &[(0, 0), (0, 3)])));
        check(slice(0, 2, 4), &[8], 0, None);
    }

    #[test]
    fn overlapping_strips_are_done_by_several_devices() {
        let workers: Vec<DeviceId> = (0..4).map(DeviceId).collect();
        let check = |pairs: &[(usize, usize)], extent: usize, expected: &str| {
            let found: Vec<String> =
                parts(&strips(pairs), extent, &workers).iter().map(|(i, d)| format!("{}:{}@{d}", i.lo, i.hi)).collect();
            assert_eq!(found.join(" "), expected);
        };
        check(&[(0, 1), (1, 2), (2, 2), (2, 4)], 4, "0:1@{0} 1:2@{1} 2:4@{3}");
        check(&[(0, 1), (0, 2), (1, 2), (2, 3)], 3, "0:1@{0,1} 1:2@{1,2} 2:3@{3}");
        check(&[(0, 2), (0, 2), (0, 2), (0, 2)], 3, "0:2@{0,1,2,3} 2:3@{0}");
    }
}
