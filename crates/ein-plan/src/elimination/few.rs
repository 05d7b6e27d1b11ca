//! Least sums without what need not be added up: of values whose entries are equal one stands for all, and entries that
//! forbid are left out.
//!
//! Readers' tables repeat, because many decompositions need the same of an operand; homes that are as produced forbid all
//! but a few of the producer's decompositions.

use super::least::{Walked, least_sums};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Entries below which nothing is left out.
const SMALL: usize = 1 << 15;

/// Of a table of which at most one in so many entries allows anything, the rest is left out.
const SPARSE: usize = 4;

/// [`least_sums`] of the same tables: the same numbers but for the order in which a sum is taken.
pub(super) fn few_sums(tables: &[Walked<'_>], sizes: &[usize], inner: usize) -> Vec<f64> {
    let entries = sizes.iter().product::<usize>() * inner;
    let held: usize = tables.iter().map(|t| t.data.len()).sum();
    // Looking at the tables must be cheap beside adding them up.
    if entries < SMALL || entries < 8 * held {
        return least_sums(tables, sizes, inner);
    }
    let mut own: Vec<Walked<'_>> = tables.iter().map(Walked::borrowed).collect();
    let mut fewer = sizes.to_vec();
    let mut classes: Vec<Option<Vec<usize>>> = vec![None; sizes.len()];
    for axis in 0..sizes.len() {
        let (class, first) = equal(&own, &fewer, axis, inner);
        if first.len() < fewer[axis] {
            for table in &mut own {
                table.keep(axis, fewer[axis], &first, inner);
            }
            fewer[axis] = first.len();
            classes[axis] = Some(class);
        }
    }
    let sums = match sparse(&own, &fewer, inner) {
        Some((table, axis)) => allowed_sums(&own, &fewer, inner, table, axis),
        None => least_sums(&own, &fewer, inner),
    };
    if classes.iter().all(Option::is_none) { sums } else { expanded(&sums, sizes, &fewer, &classes) }
}

impl<'a> Walked<'a> {
    fn borrowed(&'a self) -> Self {
        Walked { strides: self.strides.clone(), data: Cow::Borrowed(&self.data) }
    }

    /// The value of an axis at a row.
    fn value(&self, row: usize, axis: usize, size: usize) -> usize {
        row / self.strides[axis] % size
    }

    /// Keeps some values of an axis.
    fn keep(&mut self, axis: usize, size: usize, values: &[usize], inner: usize) {
        let stride = self.strides[axis];
        if stride == 0 {
            return;
        }
        let run = stride * inner;
        let blocks = self.data.chunks(size * run);
        let kept = blocks.flat_map(|b| values.iter().flat_map(move |&x| &b[x * run..(x + 1) * run]));
        self.data = Cow::Owned(kept.copied().collect());
        for s in self.strides.iter_mut().filter(|s| **s > stride) {
            *s = *s / size * values.len();
        }
    }
}

/// The class of every value of an axis, and the first value of every class: values of a class have equal entries.
fn equal(tables: &[Walked<'_>], sizes: &[usize], axis: usize, inner: usize) -> (Vec<usize>, Vec<usize>) {
    let size = sizes[axis];
    let mut names = vec![0u64; size];
    let with: Vec<&Walked<'_>> = tables.iter().filter(|t| t.strides[axis] > 0).collect();
    for t in &with {
        for (row, entries) in t.data.chunks(inner).enumerate() {
            let name = &mut names[t.value(row, axis, size)];
            for x in entries {
                *name = (name.rotate_left(5) ^ x.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
    }
    // Equal names may be an accident.
    let same = |a: usize, b: usize| {
        with.iter().all(|t| {
            let (stride, rows) = (t.strides[axis], t.data.len() / inner);
            let run = |block: usize, x: usize| {
                let lo = (block * size + x) * stride * inner;
                &t.data[lo..lo + stride * inner]
            };
            (0..rows / (size * stride)).all(|block| run(block, a) == run(block, b))
        })
    };
    let mut first: Vec<usize> = Vec::new();
    let mut known: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    let mut class = Vec::with_capacity(size);
    for (value, name) in names.into_iter().enumerate() {
        let alike = known.entry(name).or_default();
        let found = alike.iter().copied().find(|&c| same(first[c], value));
        class.push(found.unwrap_or_else(|| {
            alike.push(first.len());
            first.push(value);
            first.len() - 1
        }));
    }
    (class, first)
}

/// A table over one axis that no other table has, most of which forbids.
fn sparse(tables: &[Walked<'_>], sizes: &[usize], inner: usize) -> Option<(usize, usize)> {
    (0..tables.len()).find_map(|n| {
        let t = &tables[n];
        let axis = t.strides.iter().position(|&s| s > 0)?;
        let others = tables.iter().enumerate().filter(|o| o.0 != n);
        let alone = t.strides.iter().filter(|&&s| s > 0).count() == 1
            && sizes[axis] * inner == t.data.len()
            && others.into_iter().all(|(_, o)| o.strides[axis] == 0);
        let allowed = || t.data.iter().filter(|x| x.is_finite()).count();
        (alone && allowed() * SPARSE <= t.data.len()).then_some((n, axis))
    })
}

/// Least sums where table `n`, the only one over `axis`, allows little.
fn allowed_sums(tables: &[Walked<'_>], sizes: &[usize], inner: usize, n: usize, axis: usize) -> Vec<f64> {
    let after: usize = sizes[axis + 1..].iter().product();
    let before: usize = sizes[..axis].iter().product();
    let rest = before * after;
    // The row of every other table for every assignment of the other axes.
    let others: Vec<(&Walked<'_>, Vec<usize>)> = tables
        .iter()
        .enumerate()
        .filter(|t| t.0 != n)
        .map(|(_, t)| {
            let mut rows = vec![0];
            for (a, &size) in sizes.iter().enumerate().filter(|a| a.0 != axis) {
                rows = rows.iter().flat_map(|row| (0..size).map(move |x| row + x * t.strides[a])).collect();
            }
            (t, rows)
        })
        .collect();
    let mut out = vec![f64::INFINITY; rest * sizes[axis]];
    let mut sums = vec![0.0; rest];
    for x in 0..inner {
        sums.fill(0.0);
        for (t, rows) in &others {
            sums.iter_mut().zip(rows).for_each(|(s, row)| *s += t.data[row * inner + x]);
        }
        for value in 0..sizes[axis] {
            let own = tables[n].data[value * inner + x];
            if own.is_finite() {
                for (block, sums) in sums.chunks(after).enumerate() {
                    let lo = (block * sizes[axis] + value) * after;
                    for (o, s) in out[lo..lo + after].iter_mut().zip(sums) {
                        *o = if s + own < *o { s + own } else { *o };
                    }
                }
            }
        }
    }
    out
}

/// Sums for every value from those for the first of every class.
fn expanded(sums: &[f64], sizes: &[usize], fewer: &[usize], classes: &[Option<Vec<usize>>]) -> Vec<f64> {
    let mut at = vec![0];
    for ((&size, &few), class) in sizes.iter().zip(fewer).zip(classes) {
        let of = |x: usize| class.as_ref().map_or(x, |c| c[x]);
        at = at.iter().flat_map(|n| (0..size).map(move |x| n * few + of(x))).collect();
    }
    at.into_iter().map(|n| sums[n]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elimination::tests::draw;

    /// Tables of few distinct numbers, one of them mostly forbidding: what is left out changes no least sum.
    #[test]
    fn nothing_is_lost() {
        let mut left_out = 0;
        for seed in 0..40 {
            let state = &mut (seed + 1);
            let (sizes, inner) =
                ([5 + draw(state, 30), 7 + draw(state, 9), 11 + draw(state, 30)], 17 + draw(state, 20));
            let mut table = |strides: [usize; 3], forbid: bool| {
                let rows: usize = (0..3).map(|a| if strides[a] > 0 { sizes[a] } else { 1 }).product();
                // A value repeats one before it now and then.
                let mut data: Vec<f64> = Vec::new();
                for row in 0..rows {
                    if row > 0 && strides[0] <= 1 && draw(state, 3) == 0 {
                        let from = draw(state, row);
                        data.extend_from_within(from * inner..(from + 1) * inner);
                    } else {
                        data.extend((0..inner).map(|_| match draw(state, 30) {
                            n if n > 0 && forbid => f64::INFINITY,
                            n => n as f64,
                        }));
                    }
                }
                Walked { strides: strides.to_vec(), data: Cow::Owned(data) }
            };
            let tables = [
                table([1, 0, 0], false),
                table([0, sizes[2], 1], false),
                table([0, 1, 0], false),
                if seed % 2 == 0 { table([1, 0, 0], true) } else { table([0, 0, 0], false) },
            ];
            let tables = if seed % 4 == 0 { &tables[1..] } else { &tables[..] };
            let plain = least_sums(tables, &sizes, inner);
            assert_eq!(few_sums(tables, &sizes, inner), plain, "seed {seed}");
            left_out += usize::from(sparse(tables, &sizes, inner).is_some());
        }
        assert!(left_out > 5, "{left_out}");
    }
}
