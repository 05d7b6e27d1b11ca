//! Attention of many queries in `f32`, keys by queries: every register holds one key's scores of several queries, so that
//! maxima, exponentials and sums of a query need nothing from its neighbours, and the weights come out as the product
//! with the values reads them.
//!
//! Keys and values of a head are packed once for all queries that read them, for tile registers where there are any;
//! scores never leave the cache. Keys that no query of a block sees are not computed.

use super::attention::{Limits, Tensor};
use crate::cpu::buffer::Buffer;
use crate::cpu::convert::wide;
use crate::cpu::fold::attended;
use crate::cpu::gemm::Matrix;
use crate::cpu::packed::{Left, group, width};
use crate::cpu::short::{self, PAIR, halves};
use crate::cpu::split::{Class, STEP, Side, THIRDS, thirds, tiles};
use crate::cpu::tiles::{RESULT, SIDE, Tile, Unit, available, multiply_halves, transpose};
use crate::cpu::{math, rows};
use bytemuck::cast_slice;
use ein_ir::region::Interval;
use std::ops::Range;

/// Keys done together, about.
const KEYS: usize = 240;

/// Panels of queries that read keys one after the other while these are near.
const PANELS: usize = 8;

/// Memory of a head.
#[derive(Default)]
pub(crate) struct Flash {
    keys: Left,
    values: Left,
    way: Way,
    parts: Parts,
    /// The queries of a block, features by queries, in panels.
    queries: Vec<f32>,
    scores: Vec<f32>,
    /// Sums of values, features by queries, in panels.
    acc: Vec<f32>,
    tops: Vec<f32>,
    sums: Vec<f32>,
    weights: Vec<f32>,
}

/// How a head's keys and values are held.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Way {
    /// In groups of rows.
    #[default]
    Packed,
    /// In tiles of three parts: the class of the keys.
    Thirds(Class),
    /// `bf16` in tiles as they are.
    Whole,
}

/// Queries of a block, by type.
#[derive(Clone, Copy)]
pub(super) enum Queries<'a> {
    Single(Matrix<'a, f32>),
    Half(Matrix<'a, u16>),
}

/// Factors in tiles.
#[derive(Default)]
struct Parts {
    keys: Vec<Tile>,
    /// Features are rows.
    values: Vec<Tile>,
    /// Panel after panel.
    queries: Vec<Tile>,
    /// Of one panel and the keys done together.
    weights: Vec<Tile>,
}

/// What a block of queries leaves: for each the maximum, the sum and the weighted values, by feature.
pub(super) struct Rows<'a> {
    pub(super) tops: &'a [f32],
    pub(super) sums: &'a [f32],
    pub(super) acc: &'a [f32],
    /// Features in a panel of `acc`.
    deep: usize,
}

impl Flash {
    /// Packs the keys and values of a head, `[d]` and `[e]` features of the keys `t`, in tiles where there are any and
    /// their magnitudes allow it. `false` where a value is not finite: what a query does not see must not be multiplied
    /// then, not even by 0.
    pub(super) fn head(
        &mut self,
        (k, v): (&Tensor<'_, f32>, &Tensor<'_, f32>),
        [batch, head]: [usize; 2],
        t: Interval,
        [d, e]: [Interval; 2],
    ) -> bool {
        let keys = Matrix {
            data: k.data,
            at: k.at([batch, head, t.lo, d.lo]),
            row: k.steps[2] as i64,
            column: k.steps[3] as i64,
        };
        // The values' features are the rows.
        let first = v.at([batch, head, t.lo, e.lo]);
        let values = Matrix { data: v.data, at: first, row: v.steps[3] as i64, column: v.steps[2] as i64 };
        let tiled = (available() && width() == RESULT)
            .then(|| {
                let part = |list: &mut Vec<Tile>, [m, k]: [usize; 2], from| {
                    list.resize(m.div_ceil(RESULT) * tiles(k), Tile::ZERO);
                    thirds(Side::Left, [m, k], from, list)
                };
                let keys = part(&mut self.parts.keys, [t.len(), d.len()], keys);
                // Weights are at most 1, and some key of every query weighs as much.
                let values = part(&mut self.parts.values, [e.len(), t.len()], values);
                (keys.fits(Class::ZERO) && values.fits(Class::ONE)).then_some(keys)
            })
            .flatten();
        self.way = tiled.map_or(Way::Packed, Way::Thirds);
        if tiled.is_some() {
            return true;
        }
        let row = |key: usize| &v.data[first as usize + key * v.steps[2]..][..e.len()];
        let finite = (0..t.len()).all(|key| row(key).iter().fold(0.0f32, |sum, x| sum + x * 0.0) == 0.0);
        self.keys.pack([t.len(), d.len()], keys);
        self.values.pack([e.len(), t.len()], values);
        finite
    }

    /// The same of keys and values in `bf16`, which are put in tiles as they are; `false` also where there are none.
    pub(super) fn half_head(
        &mut self,
        (k, v): (&Tensor<'_, u16>, &Tensor<'_, u16>),
        [batch, head]: [usize; 2],
        t: Interval,
        [d, e]: [Interval; 2],
    ) -> bool {
        if !multiply_halves() || width() != RESULT {
            return false;
        }
        let pack = |list: &mut Vec<Tile>, [m, k]: [usize; 2], from| {
            list.resize(short::count(m, k), Tile::ZERO);
            short::pack(Side::Left, [m, k], from, list);
        };
        let at = k.at([batch, head, t.lo, d.lo]);
        let keys = Matrix { data: k.data, at, row: k.steps[2] as i64, column: k.steps[3] as i64 };
        pack(&mut self.parts.keys, [t.len(), d.len()], keys);
        let at = v.at([batch, head, t.lo, e.lo]);
        let values = Matrix { data: v.data, at, row: v.steps[3] as i64, column: v.steps[2] as i64 };
        pack(&mut self.parts.values, [e.len(), t.len()], values);
        self.way = Way::Whole;
        short::are_finite(&self.parts.values)
    }

    /// Attention of some queries, at most as many as [`together`] says, over the head's keys, which are `t`, with what is
    /// added to their scores, if anything is; `None` where the queries' magnitudes do not fit the keys' in tiles, or what
    /// is added leaves no largest score.
    pub(super) fn block(
        &mut self,
        q: Queries<'_>,
        (queries, mask): (Interval, Option<Matrix<'_, f32>>),
        t: Interval,
        [d, e]: [usize; 2],
        scale: f32,
        limits: &Limits<'_>,
    ) -> Option<Rows<'_>> {
        let (wide, count) = (width(), queries.len());
        let unit = match self.way {
            Way::Packed => None,
            Way::Thirds(_) => Unit::open(),
            Way::Whole => Unit::of_halves(),
        };
        let (group, deep) = if unit.is_some() { (STEP, e.next_multiple_of(RESULT)) } else { (group(), e) };
        let all = count.next_multiple_of(wide);
        match (self.way, q) {
            (Way::Whole, Queries::Half(q)) => {
                self.parts.queries.resize(short::count(all, d), Tile::ZERO);
                short::pack(Side::Right, [d, count], q.turned(), &mut self.parts.queries);
            }
            (Way::Thirds(keys), Queries::Single(q)) => {
                // Query by query, scaled, and from there into tiles.
                self.queries.resize(d * all, 0.0);
                for (n, line) in self.queries.chunks_exact_mut(d).enumerate().take(count) {
                    let at = q.at + n as i64 * q.row;
                    if q.column == 1 {
                        line.iter_mut().zip(&q.data[at as usize..]).for_each(|(to, x)| *to = x * scale);
                    } else {
                        line.iter_mut().zip(0..).for_each(|(to, f)| *to = q.data[(at + f * q.column) as usize] * scale);
                    }
                }
                self.queries[d * count..d * all].fill(0.0);
                self.parts.queries.resize(all / RESULT * tiles(d), Tile::ZERO);
                let from = Matrix { data: &self.queries, at: 0, row: 1, column: d as i64 };
                if !keys.fits(thirds(Side::Right, [d, all], from, &mut self.parts.queries)) {
                    return None;
                }
            }
            (Way::Packed, Queries::Single(q)) => {
                self.queries.clear();
                self.queries.resize(d * all, 0.0);
                for n in 0..count {
                    let at = q.at + n as i64 * q.row;
                    let to = self.queries[n / wide * wide * d + n % wide..].iter_mut().step_by(wide);
                    to.zip(0..d as i64).for_each(|(to, f)| *to = q.data[(at + f * q.column) as usize] * scale);
                }
            }
            (Way::Whole, Queries::Single(_)) | (Way::Thirds(_) | Way::Packed, Queries::Half(_)) => return None,
        }
        let lists =
            [(&mut self.tops, f32::NEG_INFINITY, all), (&mut self.sums, 0.0, all), (&mut self.acc, 0.0, deep * all)];
        for (list, value, len) in lists {
            list.clear();
            list.resize(len, value);
        }
        self.weights.resize(wide, 0.0);
        let seen = Buffer::collect(queries.len(), (queries.lo..queries.hi).map(|query| limits.seen(query, t)));
        // The keys that some of the queries see, from the head's first on.
        let hull = |seen: &[Interval]| {
            let visible = seen.iter().filter(|s| !s.is_empty());
            let (lo, hi) = visible.fold((usize::MAX, 0), |(lo, hi), s| (lo.min(s.lo - t.lo), hi.max(s.hi - t.lo)));
            (lo.min(hi), hi)
        };
        let ((lo, hi), step) = (hull(&seen), KEYS.next_multiple_of(group));
        self.scores.resize(step * wide, 0.0);
        // Keys and values of a part are near while all queries read them.
        for first in (lo / group * group..hi).step_by(step) {
            for (panel, seen) in seen.chunks(wide).enumerate() {
                let (lo, hi) = hull(seen);
                let from = first.max(lo / group * group);
                // Whole groups of keys: those that no query sees are hidden like others.
                let to = (first + step).min(hi).next_multiple_of(group).min(first + step);
                // In tiles there are zeros behind the last key.
                let to = if unit.is_some() { to } else { to.min(t.len()) };
                let mask = mask.map(|mask| Matrix { at: mask.at + (panel * wide) as i64 * mask.row, ..mask });
                let unit = unit.as_ref();
                if from < to && !self.step(unit, panel, from..to, [d, deep], (seen, mask), t.lo, scale) {
                    return None;
                }
            }
        }
        Some(Rows { tops: &self.tops[..count], sums: &self.sums[..count], acc: &self.acc, deep })
    }

    /// Some keys, whole groups of them, for one panel of queries; `false` where some query has no largest score.
    fn step(
        &mut self,
        unit: Option<&Unit>,
        panel: usize,
        keys: Range<usize>,
        [d, e]: [usize; 2],
        (seen, mask): (&[Interval], Option<Matrix<'_, f32>>),
        first: usize,
        scale: f32,
    ) -> bool {
        let (wide, parts, way) = (width(), &mut self.parts, self.way);
        let scores = &mut self.scores[..keys.len() * wide];
        if let (Some(unit), Way::Whole) = (unit, way) {
            let each = short::count(RESULT, d);
            let queries: &[u16] = cast_slice(&parts.queries[panel * each..][..each]);
            let blocks = parts.keys[keys.start / RESULT * each..].chunks_exact(each);
            for (scores, keys) in scores.chunks_exact_mut(RESULT * wide).zip(blocks) {
                unit.whole(RESULT, keys, queries, scores, wide, false, &[]);
            }
            // Scaled queries would be rounded.
            wide!({
                for x in scores.iter_mut() {
                    *x *= scale;
                }
            });
        } else if let Some(unit) = unit {
            let (each, queries) = (tiles(d), &parts.queries[panel * tiles(d)..][..tiles(d)]);
            let blocks = parts.keys[keys.start / RESULT * each..].chunks_exact(each);
            for (scores, keys) in scores.chunks_exact_mut(RESULT * wide).zip(blocks) {
                unit.thirds(keys, queries, scores, wide, false, &[]);
            }
        } else {
            self.keys.multiply(keys.clone(), 0..d, &self.queries[panel * d * wide..][..d * wide], scores, false);
        }
        if let Some(mask) = mask {
            let from = Matrix { at: mask.at + keys.start as i64 * mask.column, ..mask };
            // There may be zeros behind the last key that anybody sees.
            let last = seen.iter().map(|s| s.hi - first).max().unwrap_or_default();
            add(scores, from, [seen.len(), keys.end.min(last).saturating_sub(keys.start)]);
        }
        for (n, seen) in seen.iter().enumerate() {
            let (lo, hi) = (seen.lo - first, seen.hi - first);
            for key in (keys.start..lo.clamp(keys.start, keys.end)).chain(hi.clamp(keys.start, keys.end)..keys.end) {
                scores[(key - keys.start) * wide + n] = f32::NEG_INFINITY;
            }
        }
        let queries = panel * wide..(panel + 1) * wide;
        let (tops, sums) = (&mut self.tops[queries.clone()], &mut self.sums[queries]);
        if unit.is_some() {
            weigh_all::<32, true>(scores, tops, sums, &mut self.weights);
        } else {
            weigh(scores, tops, sums, &mut self.weights);
        }
        if (mask.is_some() || way == Way::Whole) && tops.iter().any(|top| top.is_nan() || *top == f32::INFINITY) {
            return false;
        }
        let acc = &mut self.acc[panel * e * wide..][..e * wide];
        scaled(acc, &self.weights);
        let Some(unit) = unit else {
            self.values.multiply(0..e, keys, scores, acc, true);
            return true;
        };
        if way == Way::Whole {
            // As the sums of two parts: rounded once more, a weight would be no more exact than the result.
            let (all, count) = (parts.values.len() / (e / RESULT), short::count(RESULT, keys.len()));
            parts.weights.resize(parts.weights.len().max(2 * count), Tile::ZERO);
            let (high, low) = parts.weights[..2 * count].split_at_mut(count);
            halves(scores, high, low);
            for (acc, values) in acc.chunks_exact_mut(RESULT * wide).zip(parts.values.chunks_exact(all)) {
                let values = &values[keys.start / STEP * PAIR..][..count];
                unit.whole(RESULT, values, cast_slice(low), acc, wide, true, &[]);
                unit.whole(RESULT, values, cast_slice(high), acc, wide, true, &[]);
            }
            return true;
        }
        let count = tiles(keys.len());
        parts.weights.resize(parts.weights.len().max(count), Tile::ZERO);
        let weights = &mut parts.weights[..count];
        let from = Matrix { data: scores, at: 0, row: wide as i64, column: 1 };
        thirds(Side::Right, [keys.len(), wide], from, weights);
        let all = parts.values.len() / (e / RESULT);
        for (acc, values) in acc.chunks_exact_mut(RESULT * wide).zip(parts.values.chunks_exact(all)) {
            unit.thirds(&values[keys.start / STEP * THIRDS..][..count], weights, acc, wide, true, &[]);
        }
        true
    }
}

/// How many queries are done together.
pub(super) fn together() -> usize {
    PANELS * width()
}

impl Rows<'_> {
    /// The rows of `e` features, query by query, divided by the sums where they are finished.
    pub(super) fn store(&self, e: usize, finish: bool, out: &mut Vec<f32>) {
        let wide = width();
        out.resize(self.tops.len() * e, 0.0);
        let mut turned = [[0.0; SIDE]; SIDE];
        for (panel, out) in out.chunks_mut((wide * e).max(1)).enumerate() {
            let (acc, sums) = (&self.acc[panel * wide * self.deep..][..wide * self.deep], &self.sums[panel * wide..]);
            for first in (0..out.len() / e).step_by(SIDE) {
                for feature in (0..e).step_by(SIDE) {
                    let (queries, features) = (SIDE.min(out.len() / e - first), SIDE.min(e - feature));
                    if wide >= SIDE && feature + SIDE <= self.deep {
                        transpose(&acc[feature * wide + first..], wide, &mut turned);
                    } else {
                        for (n, line) in turned.iter_mut().enumerate().take(queries) {
                            let values = acc[feature * wide + first + n..].iter().step_by(wide);
                            line.iter_mut().zip(values).for_each(|(to, &x)| *to = x);
                        }
                    }
                    for (n, line) in turned.iter().enumerate().take(queries) {
                        let row = &mut out[(first + n) * e + feature..][..features];
                        let sum = sums[first + n];
                        row.iter_mut().zip(line).for_each(|(o, &x)| *o = if finish { attended(x, sum) } else { x });
                    }
                }
            }
        }
    }
}

/// Adds to the scores of so many keys, a row for each, what there is for so many queries: rows of queries.
fn add(scores: &mut [f32], mask: Matrix<'_, f32>, [queries, keys]: [usize; 2]) {
    let wide = width();
    if mask.row == 0 {
        wide!({
            for (scores, key) in scores.chunks_exact_mut(wide).zip(0..keys as i64) {
                let added = mask.data[(mask.at + key * mask.column) as usize];
                for x in scores.iter_mut() {
                    *x += added;
                }
            }
        });
        return;
    }
    let mut turned = [[0.0; SIDE]; SIDE];
    for query in (0..queries).step_by(SIDE) {
        for key in (0..keys).step_by(SIDE) {
            let (here, deep) = (SIDE.min(queries - query), SIDE.min(keys - key));
            let at = mask.at + query as i64 * mask.row + key as i64 * mask.column;
            if mask.column == 1 && here == SIDE && deep == SIDE {
                transpose(&mask.data[at as usize..], mask.row as usize, &mut turned);
            } else {
                for (n, line) in turned.iter_mut().enumerate().take(deep) {
                    let at = at + n as i64 * mask.column;
                    let values = line.iter_mut().take(here).zip(0..);
                    values.for_each(|(to, query)| *to = mask.data[(at + query * mask.row) as usize]);
                }
            }
            for (n, line) in turned.iter().enumerate().take(deep) {
                let scores = &mut scores[(key + n) * wide + query..][..here];
                scores.iter_mut().zip(line).for_each(|(x, added)| *x += added);
            }
        }
    }
}

/// Scores to weights against the maximum so far, and their sums; `weights` is what earlier ones are to be scaled by.
fn weigh(scores: &mut [f32], tops: &mut [f32], sums: &mut [f32], weights: &mut [f32]) {
    match tops.len() {
        32 => weigh_all::<32, false>(scores, tops, sums, weights),
        16 => weigh_all::<16, false>(scores, tops, sums, weights),
        _ => weigh_all::<8, false>(scores, tops, sums, weights),
    }
}

/// Of panels of `L` queries, which are two registers; with fused multiply-adds where there are tile registers.
fn weigh_all<const L: usize, const FUSED: bool>(
    scores: &mut [f32],
    tops: &mut [f32],
    sums: &mut [f32],
    weights: &mut [f32],
) {
    let lists = (tops.first_chunk_mut::<L>(), sums.first_chunk_mut::<L>(), weights.first_chunk_mut::<L>());
    let (Some(tops), Some(sums), Some(weights)) = lists else { unreachable!("a panel has as many queries") };
    let (scores, _) = scores.as_chunks_mut::<L>();
    wide!({
        let mut top = *tops;
        for row in scores.iter() {
            for n in 0..L {
                top[n] = rows::max(top[n], row[n]);
            }
        }
        let mut sum = *sums;
        for n in 0..L {
            let scale = math::exp(tops[n] - top[n]);
            // Nothing was seen before, or nothing yet.
            weights[n] = if tops[n] == f32::NEG_INFINITY { 0.0 } else { scale };
            sum[n] *= weights[n];
        }
        for row in scores.iter_mut() {
            for n in 0..L {
                let apart = row[n] - top[n];
                let weight = if FUSED { math::exp_fused(apart) } else { math::exp(apart) };
                row[n] = if row[n] == f32::NEG_INFINITY { 0.0 } else { weight };
                sum[n] += row[n];
            }
        }
        (*tops, *sums) = (top, sum);
    });
}

/// Rows of sums, each query's scaled by its weight.
fn scaled(acc: &mut [f32], weights: &[f32]) {
    if weights.iter().all(|&w| w == 1.0) {
        return;
    }
    wide!({
        for row in acc.chunks_exact_mut(weights.len()) {
            for (x, &weight) in row.iter_mut().zip(weights) {
                *x *= weight;
            }
        }
    });
}
