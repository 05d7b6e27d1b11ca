//! Views: copies along the straight lines that a view names, or along runs of a reshape.

use super::boxes::{BoxCopy, Loop};
use super::convert;
use super::piece::{Piece, PieceMut};
use super::strided::{Few, Odometer, shape, strides};
use crate::error::Cause;
use ein_ir::dtype::DType;
use ein_ir::monoid::Form;
use ein_ir::region::Region;
use ein_ir::scalar::Scalar;
use ein_ir::view::{self, Line};

/// A box of a view, made ready: what is copied from where, which does not depend on values.
pub(crate) struct View {
    name: &'static str,
    /// What is there before anything is copied.
    fill: Option<Scalar>,
    /// Which piece, and what of it.
    copies: Vec<(usize, BoxCopy)>,
    /// Old and new shape of a reshape, which follows no straight lines.
    reshape: Option<[Vec<usize>; 2]>,
    needed: usize,
}

impl View {
    /// The box `region`, stored as `form`, of a view from boxes of its inputs, whose whole shapes are `inputs`: of each
    /// piece, which input it is of, its region and how it is stored.
    pub(crate) fn new(
        view: &view::View,
        inputs: &[&[usize]],
        pieces: &[(usize, &Region, &Form)],
        region: &Region,
        form: &Form,
    ) -> Result<Self, Cause> {
        let mut ready = Self { name: view.name(), fill: None, copies: Vec::new(), reshape: None, needed: 0 };
        if region.is_empty() {
            return Ok(ready);
        }
        let [field] = form.fields.as_slice() else { return Err(ready.forms()) };
        if pieces.iter().any(|(_, _, f)| f.fields.len() != 1 || f.fields[0].dtype != field.dtype) {
            return Err(ready.forms());
        }
        if let view::View::Reshape { shape } = view {
            ready.reshape = Some([inputs[0].to_vec(), shape.clone()]);
            ready.needed = region.volume();
            return Ok(ready);
        }
        if let view::View::Pad { value, .. } = view {
            ready.fill = Some(Scalar::F(f64::from_bits(*value)));
        }
        let straight = view.pieces(inputs, region);
        let needed: usize = straight.iter().map(|s| s.dest.volume()).sum();
        let mut copied = 0;
        for s in &straight {
            for (n, (_, piece, _)) in pieces.iter().enumerate().filter(|(_, p)| p.0 == s.input) {
                let Some(line) = s.within(piece) else { continue };
                copied += line.part.volume();
                ready.copies.push((n, copy(&line, region, field.dtype.bytes())));
            }
        }
        ready.needed = needed;
        if copied < needed { Err(ready.missing(region, copied)) } else { Ok(ready) }
    }

    /// Copies from the pieces it was made of.
    pub(crate) fn run(&self, pieces: &[Piece<'_>], result: &mut PieceMut<'_>) -> Result<(), Cause> {
        if let Some(value) = self.fill {
            let dtype = result.dtype(0);
            fill(value, dtype, result.bytes(0));
        }
        for (n, copy) in &self.copies {
            copy.run(pieces[*n].bytes(0), result.bytes(0));
        }
        let Some([old, new]) = &self.reshape else { return Ok(()) };
        let (region, element) = (result.region, result.dtype(0).bytes());
        let copied: usize = pieces.iter().map(|p| reshape(old, new, p, region, result.bytes(0), element)).sum();
        if copied < self.needed { Err(self.missing(region, copied)) } else { Ok(()) }
    }

    fn forms(&self) -> Cause {
        Cause::malformed(format!("{} of values stored in different forms", self.name))
    }

    fn missing(&self, region: &Region, copied: usize) -> Cause {
        Cause::malformed(format!("{} of {region} needs {} elements and is given {copied}", self.name, self.needed))
    }
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

/// What a box of an input has of a straight piece, as a copy into the box `dest` of the result.
fn copy(line: &Line, dest: &Region, element: usize) -> BoxCopy {
    let there = strides(&shape(&dest.0));
    let Line { part, from, steps } = line;
    let mut to = 0;
    let mut loops = Few::new();
    for a in 0..part.rank() {
        to += (part.0[a].lo - dest.0[a].lo) * there[a];
        loops.push(Loop { extent: part.0[a].len(), from: steps[a], to: there[a] as i64 });
    }
    BoxCopy::along(*from, to as i64, loops, element)
}

/// The runs of a box of a shape: flat indices in the whole, ascending, all of one length.
struct Runs {
    len: usize,
    steps: Few<usize>,
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
        let extents = region.0[..outer].iter().map(|i| i.len());
        let base = region.0.iter().zip(&steps).map(|(i, s)| i.lo * s).sum();
        let left = extents.clone().product();
        Self { len, steps: Few::from_slice(&steps[..outer]), odometer: Odometer::new(extents.clone()), base, left }
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
