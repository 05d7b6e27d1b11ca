//! Folding: vector loops for every monoid, and the fold of stored partials.
// Loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use super::affine;
use super::buffer::Buffer;
use super::convert::{self, wide};
use super::lanes::{BLOCK, Lane};
use super::math;
use super::piece::{Elements, Piece, PieceMut};
use super::rows;
use super::state::store;
use crate::error::Cause;
use ein_ir::dtype::DType;
use ein_ir::monoid::{Monoid, Top};
use ein_ir::scalar::Scalar;

/// Partial folds kept side by side when one result's values are folded.
pub(crate) const WIDE: usize = 64;

/// How single values combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Sum,
    Max,
    Min,
    Prod,
}

/// Number of fields of a pending value.
pub(crate) fn fields(monoid: Monoid) -> usize {
    match monoid {
        Monoid::Sum | Monoid::Max | Monoid::Min | Monoid::Prod | Monoid::Once => 1,
        Monoid::SoftMax | Monoid::Top(_) | Monoid::Affine => 2,
        Monoid::Moments | Monoid::Attend => 3,
    }
}

/// Types that are folded.
pub(crate) trait Number: Copy {
    fn identity(fold: Fold, dtype: DType) -> Self;
    fn one(fold: Fold, a: Self, b: Self) -> Self;
    /// `acc[k] = acc[k] fold values[k]`; where there are more values than `acc` is long, it begins anew.
    fn fold(fold: Fold, acc: &mut [Self], values: &[Self]);

    /// Value `k` to partial `k mod WIDE`.
    fn wide_fold(fold: Fold, wide: &mut [Self], values: &[Self]) {
        Self::fold(fold, &mut wide[..WIDE], values);
    }

    /// The partials folded in pairs.
    fn reduce(fold: Fold, wide: &mut [Self]) -> Self {
        let mut n = wide.len();
        while n > 1 {
            n /= 2;
            for k in 0..n {
                wide[k] = Self::one(fold, wide[k], wide[k + n]);
            }
        }
        wide[0]
    }
}

macro_rules! fold_loops {
    ($fold:expr, $acc:expr, $values:expr, $sum:expr, $max:expr, $min:expr, $prod:expr) => {{
        macro_rules! each {
            ($f:expr) => {
                wide!({
                    for values in $values.chunks($acc.len().max(1)) {
                        for (a, &v) in $acc.iter_mut().zip(values) {
                            *a = $f(*a, v);
                        }
                    }
                })
            };
        }
        match $fold {
            Fold::Sum => each!($sum),
            Fold::Max => each!($max),
            Fold::Min => each!($min),
            Fold::Prod => each!($prod),
        }
    }};
}

impl Number for f32 {
    fn identity(fold: Fold, _: DType) -> Self {
        match fold {
            Fold::Sum => 0.0,
            Fold::Max => f32::NEG_INFINITY,
            Fold::Min => f32::INFINITY,
            Fold::Prod => 1.0,
        }
    }

    fn one(fold: Fold, a: Self, b: Self) -> Self {
        match fold {
            Fold::Sum => a + b,
            Fold::Max => rows::max(a, b),
            Fold::Min => rows::min(a, b),
            Fold::Prod => a * b,
        }
    }

    fn fold(fold: Fold, acc: &mut [Self], values: &[Self]) {
        fold_loops!(fold, acc, values, |a, v| a + v, rows::max, rows::min, |a, v| a * v);
    }
}

impl Number for f64 {
    fn identity(fold: Fold, _: DType) -> Self {
        f64::from(f32::identity(fold, DType::F32))
    }

    fn one(fold: Fold, a: Self, b: Self) -> Self {
        match fold {
            Fold::Sum => a + b,
            Fold::Max => ein_ir::scalar::max(a, b),
            Fold::Min => ein_ir::scalar::min(a, b),
            Fold::Prod => a * b,
        }
    }

    fn fold(fold: Fold, acc: &mut [Self], values: &[Self]) {
        let max = |a: f64, b: f64| if a > b || a.is_nan() { a } else { b };
        let min = |a: f64, b: f64| if a < b || a.is_nan() { a } else { b };
        fold_loops!(fold, acc, values, |a, v| a + v, max, min, |a, v| a * v);
    }
}

impl Number for i64 {
    fn identity(fold: Fold, dtype: DType) -> Self {
        let (lowest, highest) = match dtype {
            DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            DType::U8 => (0, 255),
            DType::Bool => (0, 1),
            DType::I64 | DType::F64 | DType::F32 | DType::BF16 | DType::F16 => (i64::MIN, i64::MAX),
        };
        match fold {
            Fold::Sum => 0,
            Fold::Max => lowest,
            Fold::Min => highest,
            Fold::Prod => 1,
        }
    }

    fn one(fold: Fold, a: Self, b: Self) -> Self {
        match fold {
            Fold::Sum => a.wrapping_add(b),
            Fold::Max => a.max(b),
            Fold::Min => a.min(b),
            Fold::Prod => a.wrapping_mul(b),
        }
    }

    fn fold(fold: Fold, acc: &mut [Self], values: &[Self]) {
        let (sum, prod) = (|a: i64, v| a.wrapping_add(v), |a: i64, v| a.wrapping_mul(v));
        fold_loops!(fold, acc, values, sum, |a: i64, v| a.max(v), |a: i64, v| a.min(v), prod);
    }
}

/// Types of statistics.
pub(crate) trait Statistic: Number {
    /// `m2[k] += (values[k] - mean[k])²`.
    fn squares(m2: &mut [Self], values: &[Self], mean: &[Self]);
    /// `sum[k] += exp(values[k] - top[k])`, where a minus infinity adds nothing.
    fn weights(sum: &mut [Self], values: &[Self], top: &[Self]);
    /// `values[k] = (values[k] - mean)²`.
    fn deviations(values: &mut [Self], mean: Self);
    /// `values[k] = exp(values[k] - top)`, 0 where a value is minus infinity.
    fn exps(values: &mut [Self], top: Self);
    /// `exp(own - all)`, 0 where `own` is minus infinity.
    fn scale(own: Self, all: Self) -> Self;
}

/// `exp(own - all)`, 0 where `own` is minus infinity.
#[inline(always)]
fn weight(own: f32, all: f32) -> f32 {
    let weight = math::exp(own - all);
    if own == f32::NEG_INFINITY { 0.0 } else { weight }
}

impl Statistic for f32 {
    fn squares(m2: &mut [Self], values: &[Self], mean: &[Self]) {
        wide!({
            for ((m2, &v), &mean) in m2.iter_mut().zip(values).zip(mean) {
                *m2 += (v - mean) * (v - mean);
            }
        });
    }

    fn weights(sum: &mut [Self], values: &[Self], top: &[Self]) {
        wide!({
            for ((sum, &v), &top) in sum.iter_mut().zip(values).zip(top) {
                *sum += weight(v, top);
            }
        });
    }

    fn deviations(values: &mut [Self], mean: Self) {
        wide!({
            for v in values.iter_mut() {
                *v = (*v - mean) * (*v - mean);
            }
        });
    }

    fn exps(values: &mut [Self], top: Self) {
        wide!({
            for v in values.iter_mut() {
                *v = weight(*v, top);
            }
        });
    }

    fn scale(own: Self, all: Self) -> Self {
        weight(own, all)
    }
}

impl Statistic for f64 {
    fn squares(m2: &mut [Self], values: &[Self], mean: &[Self]) {
        for ((m2, &v), &mean) in m2.iter_mut().zip(values).zip(mean) {
            *m2 += (v - mean) * (v - mean);
        }
    }

    fn weights(sum: &mut [Self], values: &[Self], top: &[Self]) {
        for ((sum, &v), &top) in sum.iter_mut().zip(values).zip(top) {
            *sum += Self::scale(v, top);
        }
    }

    fn deviations(values: &mut [Self], mean: Self) {
        for v in values {
            *v = (*v - mean) * (*v - mean);
        }
    }

    fn exps(values: &mut [Self], top: Self) {
        for v in values {
            *v = Self::scale(*v, top);
        }
    }

    fn scale(own: Self, all: Self) -> Self {
        if own == f64::NEG_INFINITY { 0.0 } else { (own - all).exp() }
    }
}

/// Stores two lanes as pairs, result `at` first.
pub(crate) fn store_pairs(a: &Lane, b: &Lane, n: usize, dtype: DType, out: &mut [u8], at: usize) {
    match (a, b) {
        (Lane::F32(a), Lane::F32(b)) => {
            let pairs = Buffer::<f32>::collect(2 * n, a[..n].iter().zip(b.iter()).flat_map(|(a, b)| [*a, *b]));
            convert::from_f32(&pairs, dtype, out, 2 * at);
        }
        (Lane::F64(a), Lane::F64(b)) => {
            let pairs = Buffer::<f64>::collect(2 * n, a[..n].iter().zip(b.iter()).flat_map(|(a, b)| [*a, *b]));
            convert::from_f64(&pairs, dtype, out, 2 * at);
        }
        _ => unreachable!("statistics are of floats"),
    }
}

/// Combines stored partials of one region, in order.
pub(crate) fn fold(monoid: Monoid, finish: bool, pieces: &[Piece<'_>], result: &mut PieceMut<'_>) -> Result<(), Cause> {
    let Some(first) = pieces.first() else { return Err(Cause::malformed("a fold of nothing")) };
    if let Some(p) = pieces.iter().find(|p| p.region != result.region || p.form != first.form) {
        return Err(Cause::malformed(format!("a partial of {} is folded into {}", p.region, result.region)));
    }
    let stored = if finish { 1 } else { fields(monoid) };
    if first.form.fields.len() != fields(monoid) || result.fields() != stored {
        let (has, to) = (first.form.fields.len(), result.fields());
        return Err(Cause::malformed(format!("partials of {has} fields are folded by {} into {to}", monoid.name())));
    }
    match monoid {
        Monoid::Sum => plain(Fold::Sum, pieces, result),
        Monoid::Max => plain(Fold::Max, pieces, result),
        Monoid::Min => plain(Fold::Min, pieces, result),
        Monoid::Prod => plain(Fold::Prod, pieces, result),
        Monoid::Once => once(pieces, result),
        Monoid::Top(top) => merge(top, finish, pieces, result),
        Monoid::Affine => affine::fold(finish, pieces, result),
        Monoid::Moments | Monoid::SoftMax | Monoid::Attend => {
            if first.form.fields[0].dtype == DType::F64 {
                statistics::<f64>(monoid, finish, pieces, result);
            } else {
                statistics::<f32>(monoid, finish, pieces, result);
            }
        }
    }
    Ok(())
}

/// Loads stored elements, in their accumulator's type.
pub(super) fn load(from: Elements<'_>, at: usize, lane: &mut Lane, n: usize) {
    match (lane, from) {
        (Lane::F32(v), from) => convert::to_f32(from, at, &mut v[..n]),
        (Lane::F64(v), from) => convert::to_f64(from, at, &mut v[..n]),
        (Lane::Int(v), Elements::I64(x)) => v[..n].copy_from_slice(&x[at..at + n]),
        (Lane::Int(v), Elements::I32(x)) => v.iter_mut().zip(&x[at..at + n]).for_each(|(v, &x)| *v = x.into()),
        (Lane::Int(v), Elements::U8(x)) => v.iter_mut().zip(&x[at..at + n]).for_each(|(v, &x)| *v = x.into()),
        (Lane::Int(_), _) => unreachable!("integers are folded as integers"),
    }
}

fn plain(fold: Fold, pieces: &[Piece<'_>], result: &mut PieceMut<'_>) {
    let dtype = pieces[0].form.fields[0].dtype;
    let total = result.region.project(&result.form.fields[0].axes).volume();
    let (mut acc, mut next) = (Lane::new(dtype), Lane::new(dtype));
    let mut at = 0;
    while at < total {
        let n = BLOCK.min(total - at);
        load(pieces[0].elements(0), at, &mut acc, n);
        for piece in &pieces[1..] {
            load(piece.elements(0), at, &mut next, n);
            combine(fold, &mut acc, &next, n, dtype);
        }
        store(acc.values(n), result.dtype(0), result.bytes(0), at);
        at += n;
    }
}

/// Combines the first `n` values of two lanes.
pub(super) fn combine(fold: Fold, acc: &mut Lane, next: &Lane, n: usize, dtype: DType) {
    match (acc, next) {
        (Lane::F32(a), Lane::F32(v)) => f32::fold(fold, &mut a[..n], &v[..n]),
        (Lane::F64(a), Lane::F64(v)) => f64::fold(fold, &mut a[..n], &v[..n]),
        (Lane::Int(a), Lane::Int(v)) => {
            i64::fold(fold, &mut a[..n], &v[..n]);
            a[..n].iter_mut().for_each(|a| *a = ein_ir::scalar::wrap(*a, dtype));
        }
        _ => unreachable!("all partials are stored alike"),
    }
}

/// Combines the bits of partials of which one holds each element.
fn once(pieces: &[Piece<'_>], result: &mut PieceMut<'_>) {
    let out = result.bytes(0);
    out.copy_from_slice(pieces[0].bytes(0));
    for piece in &pieces[1..] {
        for (out, &bits) in out.iter_mut().zip(piece.bytes(0)) {
            *out |= bits;
        }
    }
}

/// Merges sorted entries of (value, index), k at a time.
fn merge(top: Top, finish: bool, pieces: &[Piece<'_>], result: &mut PieceMut<'_>) {
    let size = top.of.bytes();
    let k = top.k;
    let total = pieces[0].bytes(1).len() / 8;
    let value = |piece: &Piece<'_>, n: usize| match piece.elements(0) {
        Elements::F64(v) => Scalar::F(v[n]),
        Elements::F32(v) => Scalar::F(v[n].into()),
        Elements::BF16(v) => Scalar::F(v[n].to_f64()),
        Elements::F16(v) => Scalar::F(v[n].to_f64()),
        Elements::I64(v) => Scalar::I(v[n]),
        Elements::I32(v) => Scalar::I(v[n].into()),
        Elements::U8(v) => Scalar::I(v[n].into()),
    };
    let index = |piece: &Piece<'_>, n: usize| match piece.elements(1) {
        Elements::I64(v) => v[n],
        _ => unreachable!("indices are i64"),
    };
    let mut entries: Vec<(Scalar, i64, usize, usize)> = Vec::with_capacity(k * pieces.len());
    for row in (0..total.checked_div(k).unwrap_or(0)).map(|row| row * k) {
        entries.clear();
        for (p, piece) in pieces.iter().enumerate() {
            entries.extend((row..row + k).map(|n| (value(piece, n), index(piece, n), p, n)));
        }
        entries.sort_by(|a, b| top.order((a.0, a.1), (b.0, b.1)));
        for (n, &(_, place, p, from)) in entries[..k].iter().enumerate() {
            let at = row + n;
            if !(finish && top.indices) {
                let bits = &pieces[p].bytes(0)[from * size..][..size];
                result.bytes(0)[at * size..][..size].copy_from_slice(bits);
            }
            if !finish || top.indices {
                result.slice::<i64>(usize::from(!finish))[at] = place;
            }
        }
    }
}

/// What statistics are computed in: `f32` and `f64`.
pub(crate) trait Real: Statistic + Into<f64> + Default + PartialEq {
    fn from_f64(value: f64) -> Self;
    /// `values[k] *= by`.
    fn scale_all(values: &mut [Self], by: Self);
    /// `values[k] += add[k]`.
    fn add_all(values: &mut [Self], add: &[Self]);
    fn load(from: Elements<'_>, at: usize, out: &mut [Self]);
    fn store(values: &[Self], dtype: DType, out: &mut [u8], at: usize);
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
}

macro_rules! real {
    ($t:ty, $load:path, $store:path) => {
        impl Real for $t {
            fn scale_all(values: &mut [Self], by: Self) {
                wide!({
                    for v in values.iter_mut() {
                        *v *= by;
                    }
                });
            }
            fn add_all(values: &mut [Self], add: &[Self]) {
                wide!({
                    for (v, &a) in values.iter_mut().zip(add) {
                        *v += a;
                    }
                });
            }
            fn from_f64(value: f64) -> Self {
                value as $t
            }
            fn load(from: Elements<'_>, at: usize, out: &mut [Self]) {
                $load(from, at, out);
            }
            fn store(values: &[Self], dtype: DType, out: &mut [u8], at: usize) {
                $store(values, dtype, out, at);
            }
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn minus(self, other: Self) -> Self {
                self - other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn over(self, other: Self) -> Self {
                self / other
            }
        }
    };
}
real!(f32, convert::to_f32, convert::from_f32);
real!(f64, convert::to_f64, convert::from_f64);

/// Folds (count, mean, M2), (max, sum) or (max, sum, acc), a block of results at a time.
fn statistics<T: Real>(monoid: Monoid, finish: bool, pieces: &[Piece<'_>], result: &mut PieceMut<'_>) {
    let form = pieces[0].form;
    let rows = result.region.project(&form.fields[0].axes).volume();
    if rows == 0 {
        return;
    }
    // The last field of attention has a row of values for each result.
    let width = result.region.project(&form.fields[form.fields.len() - 1].axes).volume() / rows;
    let block = (BLOCK / width.max(1)).max(1);
    let size = |n: usize, field: usize| if field == 2 { n * width } else { n };
    let zeros = || [vec![T::default(); block], vec![T::default(); block], vec![T::default(); block * width.max(1)]];
    let (mut state, mut next) = (zeros(), zeros());
    let count = form.fields.len();
    let mut at = 0;
    while at < rows {
        let n = block.min(rows - at);
        for (k, piece) in pieces.iter().enumerate() {
            let into = if k == 0 { &mut state } else { &mut next };
            for (field, out) in into.iter_mut().enumerate().take(count) {
                T::load(piece.elements(field), size(at, field), &mut out[..size(n, field)]);
            }
            if k > 0 {
                match monoid {
                    Monoid::Moments => combine_moments(&mut state, &next, n),
                    Monoid::Sum
                    | Monoid::Max
                    | Monoid::Min
                    | Monoid::Prod
                    | Monoid::Once
                    | Monoid::Top(_)
                    | Monoid::Affine
                    | Monoid::SoftMax
                    | Monoid::Attend => {
                        combine_softmax(&mut state, &next, n, if count == 3 { width } else { 0 });
                    }
                }
            }
        }
        if finish {
            finish_block(monoid, &mut state, n, width);
            let (dtype, out) = (result.dtype(0), 2);
            match monoid {
                Monoid::Attend => T::store(&state[2][..n * width], dtype, result.bytes(0), at * width),
                Monoid::Moments
                | Monoid::SoftMax
                | Monoid::Sum
                | Monoid::Max
                | Monoid::Min
                | Monoid::Prod
                | Monoid::Once
                | Monoid::Top(_)
                | Monoid::Affine => {
                    let skip = usize::from(monoid == Monoid::Moments);
                    let pairs: Vec<T> =
                        state[skip][..n].iter().zip(&state[skip + 1]).flat_map(|(a, b)| [*a, *b]).collect();
                    T::store(&pairs, dtype, result.bytes(0), out * at);
                }
            }
        } else {
            for (field, values) in state.iter().enumerate().take(count) {
                let dtype = result.dtype(field);
                T::store(&values[..size(n, field)], dtype, result.bytes(field), size(at, field));
            }
        }
        at += n;
    }
}

/// A value of attention from its two fields: 0 where no key was seen.
pub(crate) fn attended<T: Real>(acc: T, sum: T) -> T {
    if sum == T::default() { sum } else { acc.over(sum) }
}

fn finish_block<T: Real>(monoid: Monoid, state: &mut [Vec<T>; 3], n: usize, width: usize) {
    let [a, b, c] = state;
    match monoid {
        Monoid::Moments => (0..n).for_each(|k| c[k] = c[k].over(a[k])),
        Monoid::Attend => (0..n * width).for_each(|k| c[k] = attended(c[k], b[k / width])),
        Monoid::SoftMax
        | Monoid::Sum
        | Monoid::Max
        | Monoid::Min
        | Monoid::Prod
        | Monoid::Once
        | Monoid::Top(_)
        | Monoid::Affine => {}
    }
}

/// Chan, Golub and `LeVeque`: means weighted by counts, and the distance between them.
fn combine_moments<T: Real>(state: &mut [Vec<T>; 3], next: &[Vec<T>; 3], rows: usize) {
    let [count, mean, m2] = state;
    let zero = T::default();
    for k in 0..rows {
        let (n, m, s) = (next[0][k], next[1][k], next[2][k]);
        if n == zero {
            continue;
        }
        if count[k] == zero {
            (count[k], mean[k], m2[k]) = (n, m, s);
            continue;
        }
        let total = count[k].plus(n);
        let apart = m.minus(mean[k]);
        m2[k] = m2[k].plus(s.plus(apart.times(apart).times(count[k].times(n).over(total))));
        // Weighted, not corrected: an infinite mean stays infinite.
        mean[k] = mean[k].times(count[k]).plus(m.times(n)).over(total);
        count[k] = total;
    }
}

fn combine_softmax<T: Real>(state: &mut [Vec<T>; 3], next: &[Vec<T>; 3], rows: usize, width: usize) {
    let [top, sum, acc] = state;
    let zero = T::default();
    for k in 0..rows {
        let all = T::one(Fold::Max, top[k], next[0][k]);
        let (a, b) = (T::scale(top[k], all), T::scale(next[0][k], all));
        // What was scaled by 0 adds nothing, were it infinite or NaN.
        let weigh = |v: T, by: T| if by == zero { zero } else { v.times(by) };
        sum[k] = weigh(sum[k], a).plus(weigh(next[1][k], b));
        for i in k * width..(k + 1) * width {
            acc[i] = weigh(acc[i], a).plus(weigh(next[2][i], b));
        }
        top[k] = all;
    }
}
