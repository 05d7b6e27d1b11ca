//! Views: copies along the straight lines that a view names, or along runs of a reshape.

use super::boxes::{self, Loop};
use super::convert;
use super::piece::{Piece, PieceMut};
use super::strided::Odometer;
use crate::error::Cause;
use ein_ir::dtype::DType;
use ein_ir::region::{Region, strides};
use ein_ir::scalar::Scalar;
use ein_ir::view::{Line, View};

/// The box `result` of a view from boxes of its inputs, whose whole shapes are `inputs`.
pub(crate) fn view(
    view: &View,
    inputs: &[&[usize]],
    pieces: &[(usize, Piece<'_>)],
    result: &mut PieceMut<'_>,
) -> Result<(), Cause> {
    let region = result.region.clone();
    if region.is_empty() {
        return Ok(());
    }
    let element = result.dtype(0).bytes();
    if result.fields() != 1
        || pieces.iter().any(|(_, p)| p.form.fields.len() != 1 || p.form.fields[0].dtype != result.dtype(0))
    {
        return Err(Cause::malformed(format!("{} of values stored in different forms", view.name())));
    }
    let mut copied = 0;
    let needed;
    if let View::Reshape { shape } = view {
        for (_, piece) in pieces {
            copied += reshape(inputs[0], shape, piece, &region, result.bytes(0), element);
        }
        needed = region.volume();
    } else {
        if let View::Pad { value, .. } = view {
            let value = Scalar::F(f64::from_bits(*value));
            let dtype = result.dtype(0);
            fill(value, dtype, result.bytes(0));
        }
        let straight = view.pieces(inputs, &region);
        needed = straight.iter().map(|s| s.dest.volume()).sum();
        for s in &straight {
            for (_, piece) in pieces.iter().filter(|(input, _)| *input == s.input) {
                copied += line(s, piece, &region, result.bytes(0), element);
            }
        }
    }
    if copied < needed {
        let reason = format!("{} of {region} needs {needed} elements and is given {copied}", view.name());
        return Err(Cause::malformed(reason));
    }
    Ok(())
}

/// Fills with a value, converted to a type.
fn fill(value: Scalar, dtype: DType, out: &mut [u8]) {
    let mut word = [0u64; 1];
    let one = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut word)[..dtype.bytes()];
    match value.cast(dtype) {
        Scalar::F(v) => convert::from_f64(&[v], dtype, one, 0),
        Scalar::I(v) => convert::from_i64(&[v], dtype, one, 0),
    }
    out.chunks_exact_mut(dtype.bytes()).for_each(|e| e.copy_from_slice(one));
}

/// Copies what `piece` has of a straight piece of the result; how many elements that were.
fn line(s: &ein_ir::view::Piece, piece: &Piece<'_>, dest: &Region, out: &mut [u8], element: usize) -> usize {
    let Some(Line { part, from, steps }) = s.within(piece.region) else { return 0 };
    let there = strides(&dest.shape());
    let mut to = 0;
    let mut loops = Vec::with_capacity(part.rank());
    for a in 0..part.rank() {
        to += (part.0[a].lo - dest.0[a].lo) * there[a];
        loops.push(Loop { extent: part.0[a].len(), from: steps[a], to: there[a] as i64 });
    }
    boxes::copy(piece.bytes(0), from, out, to as i64, loops, element);
    part.volume()
}

/// The runs of a box of a shape: flat indices in the whole, ascending, all of one length.
struct Runs {
    len: usize,
    steps: Vec<usize>,
    odometer: Odometer,
    base: usize,
    left: usize,
}

impl Runs {
    fn new(shape: &[usize], region: &Region) -> Self {
        let steps = strides(shape);
        // The innermost axes that the box covers wholly make one run with the next axis out.
        let mut axis = shape.len();
        while axis > 0 && region.0[axis - 1].len() == shape[axis - 1] {
            axis -= 1;
        }
        let outer = axis.saturating_sub(1);
        let len = region.0[outer..].iter().map(|i| i.len()).product();
        let extents = region.shape()[..outer].to_vec();
        let base = region.0.iter().zip(&steps).map(|(i, s)| i.lo * s).sum();
        let left = extents.iter().product();
        Self { len, steps: steps[..outer].to_vec(), odometer: Odometer::new(extents), base, left }
    }

    fn next(&mut self) -> Option<(usize, usize)> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let lo = self.base + self.odometer.at().iter().zip(&self.steps).map(|(a, s)| a * s).sum::<usize>();
        self.odometer.step();
        Some((lo, lo + self.len))
    }
}

/// Copies where the runs of the result's box and of the piece's meet; how many elements that were.
fn reshape(old: &[usize], new: &[usize], piece: &Piece<'_>, dest: &Region, out: &mut [u8], element: usize) -> usize {
    if piece.region.is_empty() {
        return 0;
    }
    let source = piece.bytes(0);
    let (mut to, mut from) = (Runs::new(new, dest), Runs::new(old, piece.region));
    let (mut t, mut f) = (to.next(), from.next());
    // Elements of each box before its current run.
    let (mut before_t, mut before_f) = (0, 0);
    let mut copied = 0;
    while let (Some((t_lo, t_hi)), Some((f_lo, f_hi))) = (t, f) {
        let (lo, hi) = (t_lo.max(f_lo), t_hi.min(f_hi));
        if lo < hi {
            let (into, at) = (before_t + lo - t_lo, before_f + lo - f_lo);
            out[into * element..(into + hi - lo) * element]
                .copy_from_slice(&source[at * element..(at + hi - lo) * element]);
            copied += hi - lo;
        }
        if t_hi <= f_hi {
            before_t += t_hi - t_lo;
            t = to.next();
        } else {
            before_f += f_hi - f_lo;
            f = from.next();
        }
    }
    copied
}
