//! A box of an operand in the type that it is computed in.

use crate::cpu::buffer::{Buffer, Kept};
use crate::cpu::convert;
use crate::cpu::fold::{Fold, Number};
use crate::cpu::piece::{Elements, Piece};
use crate::cpu::strided::{Few, Odometer, shape, strides};
use crate::error::Cause;
use ein_ir::dtype::DType;
use ein_ir::monoid::Monoid;
use ein_ir::region::{Interval, offset};

/// What kernels compute in: `f32`, `f64` and, for integers and bools, `i64`.
pub(super) trait Value: Number + Default + PartialEq + Kept {
    /// Elements from `at` on.
    fn read(from: Elements<'_>, at: usize, out: &mut [Self]);
    /// Stores elements as a type, from element `at` on. Integers wrap.
    fn write(values: &[Self], dtype: DType, out: &mut [u8], at: usize);
}

impl Value for f32 {
    fn read(from: Elements<'_>, at: usize, out: &mut [Self]) {
        convert::to_f32(from, at, out);
    }
    fn write(values: &[Self], dtype: DType, out: &mut [u8], at: usize) {
        convert::from_f32(values, dtype, out, at);
    }
}

impl Value for f64 {
    fn read(from: Elements<'_>, at: usize, out: &mut [Self]) {
        convert::to_f64(from, at, out);
    }
    fn write(values: &[Self], dtype: DType, out: &mut [u8], at: usize) {
        convert::from_f64(values, dtype, out, at);
    }
}

impl Value for i64 {
    fn read(from: Elements<'_>, at: usize, out: &mut [Self]) {
        let n = out.len();
        match from {
            Elements::I64(v) => out.copy_from_slice(&v[at..at + n]),
            Elements::I32(v) => out.iter_mut().zip(&v[at..at + n]).for_each(|(o, &x)| *o = x.into()),
            Elements::U8(v) => out.iter_mut().zip(&v[at..at + n]).for_each(|(o, &x)| *o = x.into()),
            Elements::F64(_) | Elements::F32(_) | Elements::BF16(_) | Elements::F16(_) => {
                unreachable!("floats are computed as floats")
            }
        }
    }
    fn write(values: &[Self], dtype: DType, out: &mut [u8], at: usize) {
        convert::from_i64(values, dtype, out, at);
    }
}

/// How a plain monoid folds single values; `None` for the others.
pub(super) fn fold_of(monoid: Monoid) -> Option<Fold> {
    match monoid {
        Monoid::Sum => Some(Fold::Sum),
        Monoid::Max => Some(Fold::Max),
        Monoid::Min => Some(Fold::Min),
        Monoid::Prod => Some(Fold::Prod),
        Monoid::Moments | Monoid::SoftMax | Monoid::Attend | Monoid::Once | Monoid::Top(_) | Monoid::Affine => None,
    }
}

/// The points where the lines along the last axis of a box begin, and how long these are.
pub(super) fn lines(part: &[Interval]) -> (Few<Interval>, usize) {
    let mut starts = Few::from_slice(part);
    let Some(last) = starts.last_mut() else { return (starts, 1) };
    let length = last.len();
    last.hi = last.hi.min(last.lo + 1);
    (starts, length)
}

/// Calls `each` for every point of a box in row-major order, until it fails.
pub(super) fn each_point(
    of: &[Interval],
    mut each: impl FnMut(&mut [usize]) -> Result<(), Cause>,
) -> Result<(), Cause> {
    if of.iter().any(|i| i.is_empty()) {
        return Ok(());
    }
    let (mut loops, mut point) = (Odometer::new(of.iter().map(|i| i.len())), Few::from_elem(0, of.len()));
    loop {
        point.iter_mut().zip(of).zip(loops.at()).for_each(|((at, own), n)| *at = own.lo + n);
        each(&mut point)?;
        if !loops.step() {
            return Ok(());
        }
    }
}

/// The positions, in a piece's elements, where the lines along the last axis of a box begin; in row-major order.
pub(super) fn runs(piece: &[Interval], part: &[Interval]) -> Buffer<usize> {
    let steps = strides(&shape(piece));
    let starts = lines(part).0;
    let mut loops = Odometer::new(starts.iter().map(|i| i.len()));
    let count: usize = starts.iter().map(|i| i.len()).product();
    if count == 0 {
        return Buffer::with_room(0);
    }
    let first = offset(&starts.iter().map(|i| i.lo).collect::<Few<_>>(), piece, &steps);
    let mut runs = Buffer::with_room(count);
    while runs.len() < count {
        runs.push(first + loops.at().iter().zip(&steps).map(|(n, step)| n * step).sum::<usize>());
        loops.step();
    }
    runs
}

/// The elements of a box of a piece, row-major.
pub(super) fn values<T: Value>(piece: Piece<'_>, part: &[Interval]) -> Buffer<T> {
    let mut out = Buffer::of(T::default(), part.iter().map(|i| i.len()).product());
    let elements = piece.elements(0);
    if piece.region.0 == part {
        T::read(elements, 0, &mut out);
        return out;
    }
    let run = lines(part).1.max(1);
    for (&start, out) in runs(&piece.region.0, part).iter().zip(out.chunks_mut(run)) {
        T::read(elements, start, out);
    }
    out
}
