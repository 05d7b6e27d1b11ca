//! Results while they are folded.

use super::buffer::Buffer;
use super::convert;
use super::fold::{self, Fold, Number, Statistic, WIDE};
use super::lanes::{BLOCK, Lane, Values};
use super::piece::PieceMut;
use ein_ir::dtype::DType;
use ein_ir::monoid::Monoid;

/// Fields of a block of results while they are folded.
///
/// Plain monoids and the first field of the others are in the accumulator's type. Moments and softmax take
/// two passes over the values: the mean or the maximum first, then the distances from it.
pub(crate) struct State {
    monoid: Monoid,
    acc: DType,
    finish: bool,
    fields: [Lane; 2],
    /// Partial folds side by side, for one result at a time.
    wide: Lane,
    points: usize,
}

impl State {
    /// Fields for a monoid in an accumulator's type, to be stored finished or pending.
    pub(crate) fn new(monoid: Monoid, acc: DType, finish: bool) -> Self {
        let lane = || Lane::new(acc);
        Self { monoid, acc, finish, fields: [lane(), lane()], wide: lane(), points: 0 }
    }

    /// Another with nothing in it.
    pub(crate) fn fresh(&self) -> Self {
        Self::new(self.monoid, self.acc, self.finish)
    }

    /// Passes over the values.
    pub(crate) fn passes(&self) -> usize {
        match self.monoid {
            Monoid::Sum | Monoid::Max | Monoid::Min | Monoid::Prod | Monoid::Once | Monoid::Top(_) | Monoid::Affine => {
                1
            }
            Monoid::Moments | Monoid::SoftMax | Monoid::Attend => 2,
        }
    }

    /// How values are combined in a pass.
    fn fold(&self, pass: usize) -> Fold {
        match (self.monoid, pass) {
            (Monoid::Max | Monoid::SoftMax | Monoid::Attend, 0) => Fold::Max,
            (Monoid::Min, _) => Fold::Min,
            (Monoid::Prod, _) => Fold::Prod,
            // Sums, counts, and in a second pass the distances from a mean or a maximum.
            (
                Monoid::Sum
                | Monoid::Max
                | Monoid::Moments
                | Monoid::SoftMax
                | Monoid::Attend
                | Monoid::Once
                | Monoid::Top(_)
                | Monoid::Affine,
                _,
            ) => Fold::Sum,
        }
    }

    /// Begins a block of `n` results of `points` values each.
    pub(crate) fn start(&mut self, n: usize, points: usize) {
        self.points = points;
        let acc = self.acc;
        let first = self.fold(0);
        let [one, two] = &mut self.fields;
        identity(one, first, acc, n);
        identity(two, Fold::Sum, acc, n);
    }

    /// Adds one value to each of `n` results.
    pub(crate) fn add(&mut self, pass: usize, value: Values<'_>, n: usize) {
        let fold = self.fold(pass);
        let [first, second] = &mut self.fields;
        match (self.monoid, pass, first, second, value) {
            (_, 0, Lane::F32(acc), _, Values::F32(v)) => f32::fold(fold, &mut acc[..n], &v[..n]),
            (_, 0, Lane::F64(acc), _, Values::F64(v)) => f64::fold(fold, &mut acc[..n], &v[..n]),
            (_, 0, Lane::Int(acc), _, Values::Int(v)) => i64::fold(fold, &mut acc[..n], &v[..n]),
            (Monoid::Moments, _, Lane::F32(mean), Lane::F32(m2), Values::F32(v)) => {
                f32::squares(&mut m2[..n], &v[..n], mean);
            }
            (Monoid::Moments, _, Lane::F64(mean), Lane::F64(m2), Values::F64(v)) => {
                f64::squares(&mut m2[..n], &v[..n], mean);
            }
            (_, _, Lane::F32(top), Lane::F32(sum), Values::F32(v)) => {
                f32::weights(&mut sum[..n], &v[..n], top);
            }
            (_, _, Lane::F64(top), Lane::F64(sum), Values::F64(v)) => {
                f64::weights(&mut sum[..n], &v[..n], top);
            }
            _ => unreachable!("statistics are of floats"),
        }
    }

    /// Ends a pass.
    pub(crate) fn end(&mut self, pass: usize, n: usize, points: usize) {
        if self.monoid == Monoid::Moments && pass == 0 {
            match &mut self.fields[0] {
                Lane::F32(v) => v[..n].iter_mut().for_each(|x| *x /= points as f32),
                Lane::F64(v) => v[..n].iter_mut().for_each(|x| *x /= points as f64),
                Lane::Int(_) => {}
            }
        }
    }

    /// Begins a pass over the values of one result.
    pub(crate) fn wide_start(&mut self, pass: usize) {
        let fold = self.fold(pass);
        identity(&mut self.wide, fold, self.acc, WIDE);
    }

    /// Adds `n` values of the one result, side by side.
    pub(crate) fn wide_add(&mut self, pass: usize, value: Values<'_>, n: usize) {
        let fold = self.fold(pass);
        let second = (pass > 0).then_some(self.monoid);
        match (second, &mut self.wide, &self.fields[0], value) {
            (None, Lane::F32(w), _, Values::F32(v)) => f32::wide_fold(fold, w, &v[..n]),
            (None, Lane::F64(w), _, Values::F64(v)) => f64::wide_fold(fold, w, &v[..n]),
            (None, Lane::Int(w), _, Values::Int(v)) => i64::wide_fold(fold, w, &v[..n]),
            (Some(monoid), Lane::F32(w), Lane::F32(first), Values::F32(v)) => {
                let mut apart = [0.0f32; BLOCK];
                apart[..n].copy_from_slice(&v[..n]);
                match monoid {
                    Monoid::Moments => f32::deviations(&mut apart[..n], first[0]),
                    _ => f32::exps(&mut apart[..n], first[0]),
                }
                f32::wide_fold(fold, w, &apart[..n]);
            }
            (Some(monoid), Lane::F64(w), Lane::F64(first), Values::F64(v)) => {
                let mut apart = [0.0f64; BLOCK];
                apart[..n].copy_from_slice(&v[..n]);
                match monoid {
                    Monoid::Moments => f64::deviations(&mut apart[..n], first[0]),
                    _ => f64::exps(&mut apart[..n], first[0]),
                }
                f64::wide_fold(fold, w, &apart[..n]);
            }
            _ => unreachable!("statistics are of floats"),
        }
    }

    /// Folds the values side by side into the one result.
    pub(crate) fn wide_end(&mut self, pass: usize) {
        let fold = self.fold(pass);
        let field = &mut self.fields[usize::from(pass > 0)];
        match (&mut self.wide, field) {
            (Lane::F32(w), Lane::F32(f)) => f[0] = f32::reduce(fold, &mut w[..WIDE]),
            (Lane::F64(w), Lane::F64(f)) => f[0] = f64::reduce(fold, &mut w[..WIDE]),
            (Lane::Int(w), Lane::Int(f)) => f[0] = i64::reduce(fold, &mut w[..WIDE]),
            _ => unreachable!("all lanes have the accumulator's type"),
        }
    }

    /// Takes the one result of `row` as result `n`.
    pub(crate) fn take(&mut self, n: usize, row: &Self) {
        for (to, from) in self.fields.iter_mut().zip(&row.fields) {
            match (to, from) {
                (Lane::F32(to), Lane::F32(from)) => to[n] = from[0],
                (Lane::F64(to), Lane::F64(from)) => to[n] = from[0],
                (Lane::Int(to), Lane::Int(from)) => to[n] = from[0],
                _ => unreachable!("all lanes have the accumulator's type"),
            }
        }
    }

    /// Stores `n` results from result `at` on.
    pub(crate) fn store(&mut self, n: usize, result: &mut PieceMut<'_>, at: usize) {
        let count = self.points as f64;
        if self.monoid.is_plain() {
            // Integers that were added up beyond their type wrap when stored.
            return store(self.fields[0].values(n), result.dtype(0), result.bytes(0), at);
        }
        if self.finish {
            if self.monoid == Monoid::Moments {
                match &mut self.fields[1] {
                    Lane::F32(v) => v[..n].iter_mut().for_each(|x| *x /= count as f32),
                    Lane::F64(v) => v[..n].iter_mut().for_each(|x| *x /= count),
                    Lane::Int(_) => {}
                }
            }
            let dtype = result.dtype(0);
            return fold::store_pairs(&self.fields[0], &self.fields[1], n, dtype, result.bytes(0), at);
        }
        let mut field = 0;
        if self.monoid == Monoid::Moments {
            let counts = Buffer::of(count, n);
            convert::from_f64(&counts, result.dtype(0), result.bytes(0), at);
            field = 1;
        }
        for lane in &self.fields {
            store(lane.values(n), result.dtype(field), result.bytes(field), at);
            field += 1;
        }
    }
}

/// Fills with the identity of a fold in a type.
fn identity(lane: &mut Lane, fold: Fold, dtype: DType, n: usize) {
    match lane {
        Lane::F32(v) => v[..n].fill(f32::identity(fold, dtype)),
        Lane::F64(v) => v[..n].fill(f64::identity(fold, dtype)),
        Lane::Int(v) => v[..n].fill(i64::identity(fold, dtype)),
    }
}

/// Stores values as a type.
pub(crate) fn store(values: Values<'_>, dtype: DType, out: &mut [u8], at: usize) {
    match values {
        Values::F32(v) => convert::from_f32(v, dtype, out, at),
        Values::F64(v) => convert::from_f64(v, dtype, out, at),
        Values::Int(v) => convert::from_i64(v, dtype, out, at),
    }
}
