//! Copies of boxes: cuts, pastes and moves.
//!
//! Bytes: what is copied is read once and written once. What is consecutive on both sides is a copy for the copy
//! engine, everything else a map.

use super::body::{Body, Memory, Operand};
use super::map::{self, Target};
use super::stored::Stored;
use super::strided::Strided;
use crate::program::{Base, Kernel, Program, Step};
use ein_ir::einsum::Affine;
use ein_ir::expr::Row;
use ein_ir::region::Region;
use ein_run::Cause;
use ein_task::task::Task;
use std::sync::Arc;

/// The step that copies what is read by the memory of `from`, over `labels`, to `target`.
pub(crate) fn copy(from: Memory, labels: Region, target: &Target) -> Result<Option<Step>, Cause> {
    let rows = vec![(Row::Operand(0), from.dtype)];
    map::to(&Body { rows, value: 0, operands: vec![Operand::Memory(from)], labels }, target)
}

/// Adds the steps that copy a box of all fields from one value to another.
pub(crate) fn fields(program: &mut Program, from: &Stored, to: &Stored, region: &Region) -> Result<(), Cause> {
    if from.form != to.form {
        return Err(Cause::malformed("pieces of one value are stored in different forms"));
    }
    // All of both: fields, and what is between them, are one run.
    if from.region == *region && to.region == *region {
        let bytes = from.bytes();
        if bytes > 0 {
            program.steps.push(Step::Copy { from: from.place, to: to.place, bytes });
        }
        return Ok(());
    }
    for n in 0..from.form.fields.len() {
        let labels = region.project(&from.form.fields[n].axes);
        let axes: Vec<Affine> = (0..labels.rank()).map(Affine::label).collect();
        let source = Strided::operand(&axes, &labels, &from.field(n))?;
        let own = Strided::operand(&axes, &labels, &to.field(n))?;
        if labels.is_empty() {
            continue;
        }
        let dtype = from.dtype(n);
        let memory = Memory { place: from.at(n, source.base), dtype, steps: source.steps };
        let target = Target { place: to.at(n, own.base), dtype, steps: own.steps };
        program.steps.extend(copy(memory, labels, &target)?);
    }
    Ok(())
}

/// The program that fills the result with what each piece has of it; `there` elements are there.
pub(crate) fn paste(pieces: &[Stored], there: usize, result: &Stored) -> Result<Program, Cause> {
    let covered: usize = there + pieces.iter().map(|p| p.region.overlap(&result.region)).sum::<usize>();
    if covered != result.region.volume() {
        return Err(Cause::malformed(format!("{covered} elements of {} are given", result.region)));
    }
    let mut program = Program::default();
    for piece in pieces {
        if let Some(both) = piece.region.intersect(&result.region) {
            fields(&mut program, piece, result, &both)?;
        }
    }
    Ok(program)
}

/// Threads of a block of [`stores`].
pub const STORING: u32 = 256;

/// The kernel that copies consecutive words of 1, 2, 4, 8 or 16 bytes, one a thread: to, from, and how many. It does what
/// is too little for a copy engine, mostly from one GPU's memory to another's.
pub fn stores(word: u64) -> Arc<Kernel> {
    let source = format!(
        "extern \"C\" __global__ void __launch_bounds__({STORING}) NAME(unsigned char* to, const unsigned char* from, long \
         long count) {{
    typedef ein_Word<{word}>::type word;
    const long long n = (long long)blockIdx.x * {STORING} + threadIdx.x;
    if (n < count) ((word*)to)[n] = ((const word*)from)[n];
}}
"
    );
    Kernel::new("move", &source)
}

/// The program that copies what `to`, the receiving row of a move, receives: out of the value of `from`, the row that the
/// sending one reads, which is [`Base::Read`]`(0)`, into the memory of `to`, which is [`Base::Own`]. Either may be
/// another device's.
pub fn moved(from: &Task, to: &Task) -> Result<Program, Cause> {
    let source = Stored::new(from.stored().clone(), from.value.form.clone(), Base::Read(0).at(0));
    let mut program = Program::default();
    fields(&mut program, &source, &Stored::own(to), &to.value.region)?;
    Ok(program)
}
