//! Combining and finishing pending results.

use crate::dense::{Data, Dense};
use crate::dtype::DType;
use crate::monoid::{Form, Monoid, Top};
use crate::scalar::{self, Scalar};

/// One field while it is computed: floats in `f64`, integers and bools in `i64`.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    F(Vec<f64>),
    I(Vec<i64>),
}

impl Column {
    /// `n` times a value.
    pub(crate) fn full(value: Scalar, n: usize) -> Self {
        match value {
            Scalar::F(v) => Self::F(vec![v; n]),
            Scalar::I(v) => Self::I(vec![v; n]),
        }
    }

    /// One element.
    pub(crate) fn get(&self, n: usize) -> Scalar {
        match self {
            Self::F(v) => Scalar::F(v[n]),
            Self::I(v) => Scalar::I(v[n]),
        }
    }

    /// Replaces one element.
    pub(crate) fn set(&mut self, n: usize, value: Scalar) {
        match self {
            Self::F(v) => v[n] = value.to_f64(),
            Self::I(v) => v[n] = value.to_i64(),
        }
    }

    /// The elements of a tensor.
    pub(super) fn of(data: &Dense) -> Self {
        match &data.data {
            Data::I64(v) => Self::I(v.clone()),
            Data::I32(_) | Data::U8(_) | Data::Bool(_) => {
                Self::I((0..data.len()).map(|n| data.scalar(n).to_i64()).collect())
            }
            Data::F64(_) | Data::F32(_) | Data::BF16(_) | Data::F16(_) => Self::F(data.to_f64()),
        }
    }

    /// The tensor with these elements, rounded or wrapped to `dtype`.
    pub(super) fn store(self, dtype: DType, shape: Vec<usize>) -> Dense {
        match self {
            // By way of f32, in which 16-bit types are accumulated.
            Self::F(v) if matches!(dtype, DType::BF16 | DType::F16) => {
                Dense::from_f64(dtype, shape, &v.into_iter().map(|x| scalar::round(x, dtype)).collect::<Vec<_>>())
            }
            Self::F(v) => Dense::from_f64(dtype, shape, &v),
            Self::I(v) => Dense::from_i64(dtype, shape, v),
        }
    }

    /// The elements as floats.
    pub(super) fn floats(self) -> Vec<f64> {
        match self {
            Self::F(v) => v,
            Self::I(v) => v.into_iter().map(|x| x as f64).collect(),
        }
    }
}

/// The identity of a field of a monoid, in a type.
pub fn identity(monoid: Monoid, field: &str, dtype: DType) -> Scalar {
    let lowest = match dtype {
        DType::F64 | DType::F32 | DType::BF16 | DType::F16 => Scalar::F(f64::NEG_INFINITY),
        DType::I64 => Scalar::I(i64::MIN),
        DType::I32 => Scalar::I(i32::MIN as i64),
        DType::U8 | DType::Bool => Scalar::I(0),
    };
    let highest = match dtype {
        DType::F64 | DType::F32 | DType::BF16 | DType::F16 => Scalar::F(f64::INFINITY),
        DType::I64 => Scalar::I(i64::MAX),
        DType::I32 => Scalar::I(i32::MAX as i64),
        DType::U8 => Scalar::I(255),
        DType::Bool => Scalar::I(1),
    };
    match monoid {
        Monoid::Top(_) if field == "index" => Scalar::I(Top::NOTHING),
        Monoid::Affine if field == "scale" => Scalar::I(1).cast(dtype),
        Monoid::Sum | Monoid::Moments | Monoid::Once | Monoid::Top(_) | Monoid::Affine => Scalar::I(0).cast(dtype),
        Monoid::Prod => Scalar::I(1).cast(dtype),
        Monoid::Max => lowest,
        Monoid::Min => highest,
        Monoid::SoftMax | Monoid::Attend => {
            if field == "max" {
                lowest
            } else {
                Scalar::I(0).cast(dtype)
            }
        }
    }
}

/// `a` and `b` combined by a monoid of one field, floats exactly in `f64`.
pub(crate) fn plain(monoid: Monoid, a: Scalar, b: Scalar, dtype: DType) -> Scalar {
    match (a, b) {
        (Scalar::I(a), Scalar::I(b)) => Scalar::I(plain_int(monoid, a, b, dtype)),
        (a, b) => Scalar::F(plain_float(monoid, a.to_f64(), b.to_f64())),
    }
}

fn plain_float(monoid: Monoid, a: f64, b: f64) -> f64 {
    match monoid {
        Monoid::Sum => a + b,
        Monoid::Prod => a * b,
        Monoid::Max => scalar::max(a, b),
        Monoid::Min => scalar::min(a, b),
        Monoid::Once => f64::from_bits(a.to_bits() | b.to_bits()),
        Monoid::Moments | Monoid::SoftMax | Monoid::Attend | Monoid::Top(_) | Monoid::Affine => {
            unreachable!("a monoid of several fields")
        }
    }
}

fn plain_int(monoid: Monoid, a: i64, b: i64, dtype: DType) -> i64 {
    match monoid {
        Monoid::Sum => scalar::wrap(a.wrapping_add(b), dtype),
        Monoid::Prod => scalar::wrap(a.wrapping_mul(b), dtype),
        Monoid::Max => a.max(b),
        Monoid::Min => a.min(b),
        Monoid::Once => a | b,
        Monoid::Moments | Monoid::SoftMax | Monoid::Attend | Monoid::Top(_) | Monoid::Affine => {
            unreachable!("a monoid of several fields")
        }
    }
}

/// The state after one of a linear recurrence, `scale * state + shift`. A state of exactly 0 stays 0 under any scale, were that
/// infinite or NaN: products of scales overflow where no state does.
pub(crate) fn next_state(scale: Scalar, state: Scalar, shift: Scalar, dtype: DType) -> Scalar {
    match (scale, state, shift) {
        (Scalar::F(scale), Scalar::F(state), Scalar::F(shift)) => Scalar::F(next_float(scale, state, shift)),
        _ => plain(Monoid::Sum, plain(Monoid::Prod, scale, state, dtype), shift, dtype),
    }
}

fn next_float(scale: f64, state: f64, shift: f64) -> f64 {
    if state == 0.0 { shift } else { scale * state + shift }
}

/// Folds pending results of one region in the order given. Floats are folded in the accumulator's type of
/// the field, one rounding a fold (`f32` for 16-bit types), and rounded to the field's type at the end.
///
/// An identity on one side changes nothing; NaN and infinities come out as they would have in one piece.
pub fn combine(monoid: Monoid, parts: &[Vec<Dense>], form: &Form) -> Vec<Dense> {
    let first = parts.first().expect("at least one partial");
    let shapes: Vec<Vec<usize>> = first.iter().map(|d| d.shape.clone()).collect();
    let mut state: Vec<Column> = first.iter().map(Column::of).collect();
    for part in &parts[1..] {
        let next: Vec<Column> = part.iter().map(Column::of).collect();
        match monoid {
            Monoid::Sum | Monoid::Max | Monoid::Min | Monoid::Prod | Monoid::Once => {
                combine_plain(monoid, &mut state[0], &next[0], form.fields[0].dtype);
            }
            Monoid::Moments => combine_moments(&mut state, &next),
            Monoid::SoftMax | Monoid::Attend => combine_softmax(&mut state, &next),
            Monoid::Top(top) => combine_top(top, &mut state, &next),
            Monoid::Affine => combine_affine(&mut state, &next, form.fields[0].dtype),
        }
        for (column, field) in state.iter_mut().zip(&form.fields) {
            if let Column::F(v) = column {
                let dtype = field.dtype.accumulator();
                for x in v {
                    *x = scalar::round(*x, dtype);
                }
            }
        }
    }
    state.into_iter().zip(shapes).zip(&form.fields).map(|((c, shape), f)| c.store(f.dtype, shape)).collect()
}

fn combine_plain(monoid: Monoid, state: &mut Column, next: &Column, dtype: DType) {
    match (state, next) {
        (Column::F(a), Column::F(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a = plain_float(monoid, *a, *b)),
        (Column::I(a), Column::I(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a = plain_int(monoid, *a, *b, dtype)),
        (Column::F(_), Column::I(_)) | (Column::I(_), Column::F(_)) => panic!("partials of two types"),
    }
}

/// Applies the next map to what the one so far gives.
fn combine_affine(state: &mut [Column], next: &[Column], dtype: DType) {
    let [scale, shift] = state else { panic!("an affine map has two fields") };
    match (&mut *shift, &next[0], &next[1]) {
        (Column::F(state), Column::F(by), Column::F(more)) => {
            let each = |(state, (&by, &more)): (&mut f64, _)| *state = next_float(by, *state, more);
            state.iter_mut().zip(by.iter().zip(more)).for_each(each);
        }
        (shift, by, more) => {
            combine_plain(Monoid::Prod, shift, by, dtype);
            combine_plain(Monoid::Sum, shift, more, dtype);
        }
    }
    combine_plain(Monoid::Prod, scale, &next[0], dtype);
}

/// Merges sorted entries, k at a time.
fn combine_top(top: Top, state: &mut [Column], next: &[Column]) {
    let [values, indices] = state else { panic!("a top has two fields") };
    let entry = |values: &Column, indices: &Column, n: usize| (values.get(n), indices.get(n).to_i64());
    let Column::I(all) = &*indices else { panic!("indices are integers") };
    for row in (0..all.len().checked_div(top.k).unwrap_or(0)).map(|row| row * top.k) {
        let own = (row..row + top.k).map(|n| entry(values, indices, n));
        let mut entries: Vec<_> = own.chain((row..row + top.k).map(|n| entry(&next[0], &next[1], n))).collect();
        entries.sort_by(|a, b| top.order(*a, *b));
        for (n, (value, index)) in entries.into_iter().take(top.k).enumerate() {
            values.set(row + n, value);
            indices.set(row + n, Scalar::I(index));
        }
    }
}

fn floats(column: &mut Column) -> &mut Vec<f64> {
    match column {
        Column::F(v) => v,
        Column::I(_) => panic!("statistics are floats"),
    }
}

fn combine_moments(state: &mut [Column], next: &[Column]) {
    let [count, mean, m2] = state else { panic!("moments have three fields") };
    let (count, mean, m2) = (floats(count), floats(mean), floats(m2));
    let next: Vec<Vec<f64>> = next.iter().cloned().map(Column::floats).collect();
    for i in 0..count.len() {
        let (n, m, s) = (next[0][i], next[1][i], next[2][i]);
        if n == 0.0 {
            continue;
        }
        if count[i] == 0.0 {
            (count[i], mean[i], m2[i]) = (n, m, s);
            continue;
        }
        let total = count[i] + n;
        let apart = m - mean[i];
        m2[i] += s + apart * apart * (count[i] * n / total);
        // Weighted, not corrected: an infinite mean stays infinite.
        mean[i] = (mean[i] * count[i] + m * n) / total;
        count[i] = total;
    }
}

/// What a partial of maximum `own` is scaled by when the maximum is `all`. A partial that has seen nothing
/// above minus infinity has sum 0, and stays so; anything else would make NaN of `-inf - -inf`.
pub(crate) fn scale(own: f64, all: f64) -> f64 {
    if own == f64::NEG_INFINITY { 0.0 } else { (own - all).exp() }
}

fn combine_softmax(state: &mut [Column], next: &[Column]) {
    let (head, tail) = state.split_at_mut(2);
    let [top, sum] = head else { panic!("a softmax has two fields or more") };
    let (top, sum) = (floats(top), floats(sum));
    let next: Vec<Vec<f64>> = next.iter().cloned().map(Column::floats).collect();
    let mut acc = tail.first_mut().map(floats);
    let width = acc.as_ref().map_or(0, |a| if top.is_empty() { 0 } else { a.len() / top.len() });
    for i in 0..top.len() {
        let all = scalar::max(top[i], next[0][i]);
        let (a, b) = (scale(top[i], all), scale(next[0][i], all));
        let weigh = |v: f64, own: f64, by: f64| if own == f64::NEG_INFINITY { 0.0 } else { v * by };
        sum[i] = weigh(sum[i], top[i], a) + weigh(next[1][i], next[0][i], b);
        if let Some(acc) = &mut acc {
            for k in i * width..(i + 1) * width {
                acc[k] = weigh(acc[k], top[i], a) + weigh(next[2][k], next[0][i], b);
            }
        }
        top[i] = all;
    }
}

/// Turns the fields of a complete fold into the result. A monoid of one field is converted; `Moments` gives
/// a last axis of mean and biased variance, `SoftMax` one of maximum and sum, `Attend` gives `acc / sum`, 0 where the sum is,
/// `Affine` its shift.
#[allow(clippy::needless_pass_by_value)] // The fields are used up: nobody should read a pending value again.
pub fn finish(monoid: Monoid, fields: Vec<Dense>, dtype: DType) -> Dense {
    let mut shape = fields.last().expect("a monoid has a field").shape.clone();
    // The fields of moments and of a softmax lack the axis on which they are stacked.
    if matches!(monoid, Monoid::Moments | Monoid::SoftMax) {
        shape.extend(monoid.stacked());
    }
    finish_columns(monoid, fields.iter().map(Column::of).collect()).store(dtype, shape)
}

pub(super) fn finish_columns(monoid: Monoid, columns: Vec<Column>) -> Column {
    let pair = |a: Vec<f64>, b: Vec<f64>| Column::F(a.into_iter().zip(b).flat_map(|(a, b)| [a, b]).collect());
    let mut columns = columns.into_iter();
    let mut next = || columns.next().expect("every field of the monoid");
    match monoid {
        Monoid::Sum | Monoid::Max | Monoid::Min | Monoid::Prod | Monoid::Once => next(),
        Monoid::Top(top) => {
            let (values, indices) = (next(), next());
            if top.indices { indices } else { values }
        }
        Monoid::Moments => {
            let (count, mean, m2) = (next().floats(), next().floats(), next().floats());
            pair(mean, m2.iter().zip(&count).map(|(m2, n)| m2 / n).collect())
        }
        Monoid::SoftMax => pair(next().floats(), next().floats()),
        Monoid::Affine => {
            next();
            next()
        }
        Monoid::Attend => {
            let (_, sum, mut acc) = (next(), next().floats(), next().floats());
            if !sum.is_empty() {
                let width = acc.len() / sum.len();
                let seen =
                    |(n, a): (usize, &mut f64)| *a = if sum[n / width] == 0.0 { 0.0 } else { *a / sum[n / width] };
                acc.iter_mut().enumerate().for_each(seen);
            }
            Column::F(acc)
        }
    }
}
