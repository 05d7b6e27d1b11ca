//! Which boxes of one shape are a box of another shape of the same elements.

use crate::region::{Interval, Region};

/// The boxes of `from` that hold the elements of the box `dest` of `to`: disjoint, exact, in a fixed
/// order and few.
///
/// Axes are taken in groups, as small as possible, of equal products: a box is a product of its parts in
/// the groups. Within a group both shapes are refined to a common one where prefix products divide one
/// another, such as `[b, s*h]` and `[b*s, h]`; where they do not, rows are listed and then joined.
pub fn pulls(from: &[usize], to: &[usize], dest: &Region) -> Vec<Region> {
    if dest.is_empty() {
        return Vec::new();
    }
    let long = |shape: &[usize]| -> Vec<usize> { (0..shape.len()).filter(|&a| shape[a] != 1).collect() };
    let (from_axes, to_axes) = (long(from), long(to));
    let mut boxes = vec![Vec::new()];
    let (mut f, mut t) = (0, 0);
    while f < from_axes.len() || t < to_axes.len() {
        let (f0, t0) = (f, t);
        let (mut left, mut right) = (1, 1);
        while left != right || f == f0 {
            if left <= right {
                left *= from[from_axes[f]];
                f += 1;
            } else {
                right *= to[to_axes[t]];
                t += 1;
            }
        }
        let from_dims: Vec<usize> = from_axes[f0..f].iter().map(|&a| from[a]).collect();
        let to_dims: Vec<usize> = to_axes[t0..t].iter().map(|&a| to[a]).collect();
        let box_: Vec<Interval> = to_axes[t0..t].iter().map(|&a| dest.0[a]).collect();
        boxes = product(&boxes, &group(&from_dims, &to_dims, &box_));
    }
    boxes
        .into_iter()
        .map(|intervals| {
            let mut region = vec![Interval::new(0, 1); from.len()];
            for (&axis, interval) in from_axes.iter().zip(intervals) {
                region[axis] = interval;
            }
            Region(region)
        })
        .collect()
}

type Intervals = Vec<Interval>;

fn product(left: &[Intervals], right: &[Intervals]) -> Vec<Intervals> {
    left.iter().flat_map(|l| right.iter().map(move |r| [l.as_slice(), r].concat())).collect()
}

fn group(from: &[usize], to: &[usize], dest: &[Interval]) -> Vec<Intervals> {
    if from == to {
        return vec![dest.to_vec()];
    }
    let mut boxes = Vec::new();
    match refinement(from, to) {
        Some((from_parts, to_parts)) => {
            let mut refined = vec![Vec::new()];
            for (dims, &interval) in to_parts.iter().zip(dest) {
                refined = product(&refined, &spread(interval, dims));
            }
            for fine in refined {
                let mut coarse = vec![Vec::new()];
                let mut rest = fine.as_slice();
                for dims in &from_parts {
                    let (own, others) = rest.split_at(dims.len());
                    rest = others;
                    let runs: Vec<Intervals> = flatten(own, dims).into_iter().map(|i| vec![i]).collect();
                    coarse = product(&coarse, &runs);
                }
                boxes.extend(coarse);
            }
        }
        None => boxes.extend(flatten(dest, to).into_iter().flat_map(|run| spread(run, from))),
    }
    join(boxes)
}

type Parts = Vec<Vec<usize>>;

/// For every axis of both shapes the axes of their common refinement; `None` when there is none.
fn refinement(from: &[usize], to: &[usize]) -> Option<(Parts, Parts)> {
    let prefixes = |shape: &[usize]| -> Vec<usize> {
        shape
            .iter()
            .scan(1, |p, n| {
                *p *= n;
                Some(*p)
            })
            .collect()
    };
    let mut all = [prefixes(from), prefixes(to), vec![1]].concat();
    all.sort_unstable();
    all.dedup();
    if all.windows(2).any(|w| w[1] % w[0] != 0) {
        return None;
    }
    let parts = |shape: &[usize]| {
        let ends = prefixes(shape);
        let starts = [&[1], ends.as_slice()].concat();
        starts
            .iter()
            .zip(&ends)
            .map(|(&lo, &hi)| all.windows(2).filter(|w| lo <= w[0] && w[1] <= hi).map(|w| w[1] / w[0]).collect())
            .collect()
    };
    Some((parts(from), parts(to)))
}

/// The boxes of a row-major shape that are a run of its flat indices: at most `2 * rank - 1`.
pub fn spread(run: Interval, dims: &[usize]) -> Vec<Vec<Interval>> {
    if run.is_empty() {
        return Vec::new();
    }
    if dims.len() <= 1 {
        return vec![if dims.is_empty() { Vec::new() } else { vec![run] }];
    }
    let rest = &dims[1..];
    let inner: usize = rest.iter().product();
    let below = |row: usize, run: Interval| {
        spread(run, rest).into_iter().map(move |b| [vec![Interval::new(row, row + 1)], b].concat())
    };
    let (first, last) = (run.lo / inner, (run.hi - 1) / inner);
    let (start, end) = (run.lo - first * inner, run.hi - last * inner);
    if first == last && (start, end) != (0, inner) {
        return below(first, Interval::new(start, end)).collect();
    }
    let mut boxes = Vec::new();
    let (mut lo, mut hi) = (first, last + 1);
    if start > 0 {
        boxes.extend(below(first, Interval::new(start, inner)));
        lo += 1;
    }
    if end < inner {
        hi -= 1;
    }
    if lo < hi {
        boxes.push([vec![Interval::new(lo, hi)], rest.iter().map(|&n| Interval::new(0, n)).collect()].concat());
    }
    if end < inner {
        boxes.extend(below(last, Interval::new(0, end)));
    }
    boxes
}

/// The runs of flat indices of a row-major shape that a box is, in order; none touches the next.
pub fn flatten(part: &[Interval], dims: &[usize]) -> Vec<Interval> {
    if part.iter().any(|i| i.is_empty()) {
        return Vec::new();
    }
    let whole = |a: usize| part[a].lo == 0 && part[a].hi == dims[a];
    let mut axis = dims.len();
    while axis > 0 && whole(axis - 1) {
        axis -= 1;
    }
    let inner: usize = dims[axis..].iter().product();
    // Everything after `axis` is whole; `axis - 1` is an interval, and every index before it is a run.
    let Some(row) = axis.checked_sub(1) else { return vec![Interval::new(0, inner)] };
    let mut starts = vec![0];
    for a in 0..row {
        starts = starts.iter().flat_map(|s| (part[a].lo..part[a].hi).map(move |i| s * dims[a] + i)).collect();
    }
    starts
        .into_iter()
        .map(|s| Interval::new((s * dims[row] + part[row].lo) * inner, (s * dims[row] + part[row].hi) * inner))
        .collect()
}

/// Joins boxes that differ on one axis and touch there, until none do.
fn join(mut boxes: Vec<Intervals>) -> Vec<Intervals> {
    let rank = boxes.first().map_or(0, Vec::len);
    loop {
        let before = boxes.len();
        for axis in 0..rank {
            let key = |b: &Intervals| {
                let mut k = b.clone();
                let own = k.remove(axis);
                k.push(own);
                k
            };
            boxes.sort_by_cached_key(key);
            let mut joined: Vec<Intervals> = Vec::new();
            for b in boxes {
                match joined.last_mut() {
                    Some(l) if l[axis].hi == b[axis].lo && (0..rank).all(|a| a == axis || l[a] == b[a]) => {
                        l[axis].hi = b[axis].hi;
                    }
                    _ => joined.push(b),
                }
            }
            boxes = joined;
        }
        if boxes.len() == before {
            boxes.sort();
            return boxes;
        }
    }
}
