//! Running folds along an axis.

use super::Call;
use super::block::{Value, values};
use crate::cpu::buffer::{Buffer, Kept};
use crate::cpu::fold::{Fold, Number};
use crate::cpu::piece::PieceMut;
use crate::error::Cause;
use ein_ir::kernel::{Scan, ScanFunction};

/// Every line of the block along the axis. Floats are folded in `f64`: a long sum in `f32` would lose its tail.
pub(crate) fn scan(s: &Scan, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    if call.labels.is_empty() {
        return Ok(());
    }
    let x = call.operand(0, &call.labels.0)?;
    // Line by line: the axis, and within it all that lies behind it.
    let inner: usize = call.labels.0[s.axis + 1..].iter().map(|i| i.len()).product();
    let slab = inner * call.labels.0[s.axis].len();
    if s.dtype.is_float() {
        let mut all: Buffer<f64> = values(x, &call.labels.0);
        if let (1, Some(fold)) = (inner, plain(s.function)) {
            all.chunks_mut(slab * LINES).for_each(|lines| side_by_side(fold, lines, slab));
            store(s, &all, &[], result);
            return Ok(());
        }
        let mut places = Buffer::of(0, if s.function.gives_index() { all.len() } else { 0 });
        for (n, line) in all.chunks_mut(slab).enumerate() {
            floats(s.function, line, inner, places.get_mut(n * slab..).unwrap_or_default());
        }
        store(s, &all, &places, result);
    } else {
        let mut all: Buffer<i64> = values(x, &call.labels.0);
        let mut places = Buffer::of(0, if s.function.gives_index() { all.len() } else { 0 });
        for (n, line) in all.chunks_mut(slab).enumerate() {
            integers(s.function, line, inner, places.get_mut(n * slab..).unwrap_or_default());
        }
        store(s, &all, &places, result);
    }
    Ok(())
}

/// Lines that are folded together: each waits for its own last sum, none for another's.
const LINES: usize = 8;

/// The fold of single values that a function is, if it is one.
fn plain(function: ScanFunction) -> Option<Fold> {
    match function {
        ScanFunction::Sum => Some(Fold::Sum),
        ScanFunction::Prod => Some(Fold::Prod),
        ScanFunction::Max => Some(Fold::Max),
        ScanFunction::Min => Some(Fold::Min),
        ScanFunction::LogSumExp | ScanFunction::MaxIndex | ScanFunction::MinIndex => None,
    }
}

/// Folds lines of `length` elements, each from its first on.
fn side_by_side(fold: Fold, lines: &mut [f64], length: usize) {
    macro_rules! each {
        ($fold:expr) => {{
            if lines.len() == length * LINES {
                let mut own = [0.0; LINES];
                for (own, n) in own.iter_mut().zip(0..) {
                    *own = lines[n * length];
                }
                for at in 1..length {
                    for n in 0..LINES {
                        own[n] = f64::one($fold, own[n], lines[n * length + at]);
                        lines[n * length + at] = own[n];
                    }
                }
            } else {
                for line in lines.chunks_mut(length) {
                    for at in 1..length {
                        line[at] = f64::one($fold, line[at - 1], line[at]);
                    }
                }
            }
        }};
    }
    match fold {
        Fold::Sum => each!(Fold::Sum),
        Fold::Max => each!(Fold::Max),
        Fold::Min => each!(Fold::Min),
        Fold::Prod => each!(Fold::Prod),
    }
}

fn store<T: Value>(s: &Scan, all: &[T], places: &[i64], result: &mut PieceMut<'_>) {
    let dtype = result.dtype(0);
    if s.function.gives_index() {
        i64::write(places, dtype, result.bytes(0), 0);
    } else {
        T::write(all, dtype, result.bytes(0), 0);
    }
}

/// Folds each row of `inner` elements with the one before it.
fn fold<T: Value>(fold: Fold, slab: &mut [T], inner: usize) {
    for at in (inner..slab.len()).step_by(inner) {
        let (before, row) = slab.split_at_mut(at);
        for (x, &own) in row[..inner].iter_mut().zip(&before[at - inner..]) {
            *x = T::one(fold, own, *x);
        }
    }
}

/// The row of the first or last extreme so far, for every element.
fn places<T: Copy>(slab: &[T], inner: usize, places: &mut [i64], beats: impl Fn(T, T) -> bool)
where
    (T, i64): Kept,
{
    let mut best = Buffer::<(T, i64)>::collect(inner, slab.iter().map(|&x| (x, 0)));
    places[..inner].fill(0);
    for (n, row) in slab.chunks(inner).enumerate().skip(1) {
        for (i, &x) in row.iter().enumerate() {
            if beats(x, best[i].0) {
                best[i] = (x, n as i64);
            }
            places[n * inner + i] = best[i].1;
        }
    }
}

/// Folds a slab, or puts the rows of its extremes in `at`.
fn integers(function: ScanFunction, slab: &mut [i64], inner: usize, at: &mut [i64]) {
    match function {
        ScanFunction::Sum => fold(Fold::Sum, slab, inner),
        ScanFunction::Prod => fold(Fold::Prod, slab, inner),
        ScanFunction::Max => fold(Fold::Max, slab, inner),
        ScanFunction::Min => fold(Fold::Min, slab, inner),
        ScanFunction::MaxIndex => places(slab, inner, at, |x, own| x >= own),
        ScanFunction::MinIndex => places(slab, inner, at, |x, own| x <= own),
        ScanFunction::LogSumExp => unreachable!("the graph refuses integers"),
    }
}

/// As [`integers`].
fn floats(function: ScanFunction, slab: &mut [f64], inner: usize, at: &mut [i64]) {
    match function {
        ScanFunction::Sum => fold(Fold::Sum, slab, inner),
        ScanFunction::Prod => fold(Fold::Prod, slab, inner),
        ScanFunction::Max => fold(Fold::Max, slab, inner),
        ScanFunction::Min => fold(Fold::Min, slab, inner),
        ScanFunction::LogSumExp => log_sums(slab, inner),
        ScanFunction::MaxIndex => places(slab, inner, at, |x, own| x.is_nan() || x >= own),
        ScanFunction::MinIndex => places(slab, inner, at, |x, own| x.is_nan() || x <= own),
    }
}

/// The running log of the sum of exponentials, with a running maximum.
fn log_sums(slab: &mut [f64], inner: usize) {
    let mut tops = Buffer::of(f64::NEG_INFINITY, inner);
    let mut sums = Buffer::of(0.0, inner);
    for row in slab.chunks_mut(inner) {
        for ((x, top), sum) in row.iter_mut().zip(tops.iter_mut()).zip(sums.iter_mut()) {
            let weight = |own: f64, all: f64| if own == f64::NEG_INFINITY { 0.0 } else { (own - all).exp() };
            let all = f64::one(Fold::Max, *top, *x);
            *sum = *sum * weight(*top, all) + weight(*x, all);
            *top = all;
            // Infinite, or nothing yet: the largest says it all.
            *x = if all.is_finite() { all + sum.ln() } else { all };
        }
    }
}
