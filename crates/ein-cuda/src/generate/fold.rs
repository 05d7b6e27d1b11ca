//! Folds of stored partials, in the order in which they are listed, in one kernel.
//!
//! Bytes: every partial is read once, be it in a peer's memory, and the result is written once.

use super::body::{Body, Memory, Operand};
use super::fold_fields::{affine, attend, merge, statistics};
use super::map::{self, Target};
use super::stored::Stored;
use crate::program::{Program, Step};
use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Row};
use ein_ir::monoid::Monoid;
use ein_ir::region::{Interval, Region};
use ein_run::Cause;

/// The program that combines partials of the result's region.
pub(crate) fn program(monoid: Monoid, finish: bool, pieces: &[Stored], result: &Stored) -> Result<Program, Cause> {
    let Some(first) = pieces.first() else { return Err(Cause::malformed("a fold of nothing")) };
    if let Some(p) = pieces.iter().find(|p| p.region != result.region || p.form != first.form) {
        return Err(Cause::malformed(format!("a partial of {} is folded into {}", p.region, result.region)));
    }
    let fields = monoid.pending(DType::F32, result.region.rank(), false).fields.len();
    let (has, to) = (first.form.fields.len(), result.form.fields.len());
    if has != fields || to != if finish { 1 } else { fields } {
        return Err(Cause::malformed(format!("partials of {has} fields are folded by {} into {to}", monoid.name())));
    }
    let mut program = Program::default();
    if result.region.is_empty() {
        return Ok(program);
    }
    program.steps.extend(match monoid {
        Monoid::Sum => plain(Binary::Add, pieces, result)?,
        Monoid::Max => plain(Binary::Max, pieces, result)?,
        Monoid::Min => plain(Binary::Min, pieces, result)?,
        Monoid::Prod => plain(Binary::Mul, pieces, result)?,
        Monoid::Once => once(pieces, result)?,
        Monoid::Top(top) => Some(merge(top, finish, pieces, result)?),
        Monoid::Moments | Monoid::SoftMax => Some(statistics(monoid, finish, pieces, result)?),
        Monoid::Attend => Some(attend(finish, pieces, result)?),
        Monoid::Affine => Some(affine(finish, pieces, result)?),
    });
    Ok(program)
}

/// Elements side by side in all partials, of a type, combined by a function of values of type `wide`.
fn elements(
    function: Binary,
    pieces: &[Stored],
    result: &Stored,
    count: usize,
    [dtype, wide, own]: [DType; 3],
) -> Result<Option<Step>, Cause> {
    let memory = |p: &Stored| Operand::Memory(Memory { place: p.at(0, 0), dtype, steps: vec![1] });
    let operands = pieces.iter().map(memory).collect();
    let labels = Region(vec![Interval::new(0, count)]);
    let mut body = Body { rows: vec![(Row::Operand(0), dtype)], value: 0, operands, labels };
    body.cast(wide);
    for n in 1..pieces.len() {
        let before = body.value;
        body.rows.push((Row::Operand(n), dtype));
        body.value = body.rows.len() - 1;
        body.cast(wide);
        body.rows.push((Row::Binary(function, before, body.value), wide));
        body.value = body.rows.len() - 1;
    }
    map::to(&body, &Target { place: result.at(0, 0), dtype: own, steps: vec![1] })
}

fn plain(function: Binary, pieces: &[Stored], result: &Stored) -> Result<Option<Step>, Cause> {
    let dtype = pieces[0].dtype(0);
    let types = [dtype, dtype.accumulator(), result.dtype(0)];
    elements(function, pieces, result, result.field(0).volume(), types)
}

/// Combines the bits of partials of which one holds each element, as words of 8 bytes where they are.
fn once(pieces: &[Stored], result: &Stored) -> Result<Option<Step>, Cause> {
    let bytes = result.field(0).volume() * result.dtype(0).bytes();
    let word = [DType::I64, DType::I32].into_iter().find(|w| bytes.is_multiple_of(w.bytes())).unwrap_or(DType::U8);
    elements(Binary::BitOr, pieces, result, bytes / word.bytes(), [word; 3])
}
