//! Views: copies along the straight lines that a view names, or of the runs of a reshape.
//!
//! Bytes: each element of the result is read and written once; a padded result is first filled.

use super::body::{Body, Memory};
use super::copy::copy;
use super::launch::{Arguments, THREADS};
use super::map::{self, Target};
use super::stored::{Stored, alignment};
use crate::program::{Program, Step};
use ein_ir::expr::{Literal, Row};
use ein_ir::region::{Region, strides};
use ein_ir::view::{Line, Piece, View};
use ein_run::Cause;
use std::fmt::Write;

/// The program of a box of a view from boxes of its inputs, whose whole shapes are `inputs`.
pub(crate) fn program(
    view: &View,
    inputs: &[&[usize]],
    pieces: &[(usize, Stored)],
    result: &Stored,
) -> Result<Program, Cause> {
    let mut program = Program::default();
    let region = &result.region;
    if region.is_empty() {
        return Ok(program);
    }
    if result.form.fields.len() != 1
        || pieces.iter().any(|(_, p)| p.form.fields.len() != 1 || p.dtype(0) != result.dtype(0))
    {
        return Err(Cause::malformed(format!("{} of values stored in different forms", view.name())));
    }
    if let View::Reshape { shape } = view {
        for (_, piece) in pieces {
            program.steps.extend(reshape(inputs[0], shape, piece, result)?);
        }
        return Ok(program);
    }
    let straight = view.pieces(inputs, region);
    let needed: usize = straight.iter().map(|s| s.dest.volume()).sum();
    if let View::Pad { value, .. } = view
        && needed < region.volume()
    {
        let rows = vec![(Row::Const(Literal::Float(*value)), result.dtype(0))];
        let body = Body { rows, value: 0, operands: Vec::new(), labels: region.clone() };
        program.steps.extend(map::map(&body, result)?);
    }
    let mut copied = 0;
    for s in &straight {
        for (_, piece) in pieces.iter().filter(|(input, _)| *input == s.input) {
            if let Some((part, memory, target)) = line(s, piece, result) {
                copied += part.volume();
                program.steps.extend(copy(memory, part, &target)?);
            }
        }
    }
    if copied < needed {
        let reason = format!("{} of {region} needs {needed} elements and is given {copied}", view.name());
        return Err(Cause::malformed(reason));
    }
    Ok(program)
}

/// What `piece` has of a straight piece of the result: the box, and where it is read and written.
fn line(s: &Piece, piece: &Stored, result: &Stored) -> Option<(Region, Memory, Target)> {
    let Line { part, from, steps } = s.within(&piece.region)?;
    let there: Vec<i64> = strides(&result.region.shape()).into_iter().map(|s| s as i64).collect();
    let begins = part.0.iter().zip(&result.region.0).map(|(own, whole)| own.lo as i64 - whole.lo as i64);
    let to = begins.zip(&there).map(|(begin, step)| begin * step).sum();
    let dtype = result.dtype(0);
    let memory = Memory { place: piece.at(0, from), dtype, steps };
    Some((part, memory, Target { place: result.at(0, to), dtype, steps: there }))
}

/// How a box lies in a shape, in row-major order of the whole.
struct Runs {
    /// All runs have a length and a first place that are multiples of it.
    unit: usize,
    /// The whole box, where it is one run.
    one: Option<(usize, usize)>,
}

impl Runs {
    fn new(shape: &[usize], region: &Region) -> Self {
        let steps = strides(shape);
        let mut axis = shape.len();
        while axis > 0 && region.0[axis - 1].len() == shape[axis - 1] {
            axis -= 1;
        }
        let first: usize = region.0.iter().zip(&steps).map(|(i, s)| i.lo * s).sum();
        let Some(cut) = axis.checked_sub(1) else {
            let all = shape.iter().product();
            return Self { unit: all, one: Some((0, all)) };
        };
        let (i, step) = (region.0[cut], steps[cut]);
        let unit = step * gcd(gcd(i.lo, i.len()), shape[cut]);
        let one = region.0[..cut].iter().all(|i| i.len() == 1).then(|| (first, first + i.len() * step));
        Self { unit, one }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The step that copies what a piece of a tensor of shape `old` has of the box of the same elements in shape `new`.
fn reshape(old: &[usize], new: &[usize], piece: &Stored, result: &Stored) -> Result<Option<Step>, Cause> {
    if piece.region.is_empty() {
        return Ok(None);
    }
    let (from, to) = (Runs::new(old, &piece.region), Runs::new(new, &result.region));
    if let (Some(f), Some(t)) = (from.one, to.one) {
        let (lo, hi) = (f.0.max(t.0), f.1.min(t.1));
        let bytes = (hi.saturating_sub(lo) * result.dtype(0).bytes()) as u64;
        let (from, to) = (piece.at(0, lo as i64 - f.0 as i64), result.at(0, lo as i64 - t.0 as i64));
        return Ok((lo < hi).then_some(Step::Copy { from, to, bytes }));
    }
    // Words that lie whole in a run of both.
    let size = result.dtype(0).bytes();
    let (place, own) = (piece.at(0, 0), result.at(0, 0));
    let unit = gcd(from.unit, to.unit) * size;
    let word = (1u64 << unit.trailing_zeros().min(4)).min(alignment(place)).min(alignment(own)) as usize;
    let each = word / size;
    let (each, ty) = if each == 0 { (1, size) } else { (each, word) };
    let mut arguments = Arguments::default();
    let ty = format!("ein_Word<{ty}>::type");
    let target = arguments.typed(own, &ty);
    let source = arguments.typed(place, &format!("const {ty}"));
    let words = result.region.volume() / each;
    // What is counted is at most the whole tensor's elements.
    let counter = if new.iter().product::<usize>() < (1 << 31) - (1 << 24) { "int" } else { "long long" };
    let mut text = format!(
        "const {counter} n = ({counter})blockIdx.x * {THREADS} + threadIdx.x;\nif (n >= {words}) return;\n{counter} rest = n \
         * {each}, flat = 0, at = 0;\nbool inside = true;\n"
    );
    for ((i, &step), extent) in result.region.0.iter().zip(&strides(new)).zip(result.region.shape()).rev() {
        let lo = arguments.number(i.lo as i64);
        let _ = writeln!(text, "flat += (rest % {extent} + ({counter}){lo}) * {step};\nrest /= {extent};");
    }
    let own = strides(&piece.region.shape());
    for ((i, &extent), step) in piece.region.0.iter().zip(old).zip(own).rev() {
        let lo = arguments.number(i.lo as i64);
        let _ = writeln!(
            text,
            "{{\nconst {counter} i = flat % {extent} - ({counter}){lo};\nflat /= {extent};\ninside = inside && i >= 0 && i < {};\nat += \
             i * {step};\n}}",
            i.len()
        );
    }
    let _ = writeln!(text, "if (inside) {target}[n] = {source}[at / {each}];");
    arguments.launch("reshape", &text, [(words as u64).div_ceil(u64::from(THREADS)), 1], THREADS).map(Some)
}
