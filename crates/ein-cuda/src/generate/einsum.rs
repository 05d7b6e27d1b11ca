//! Blocks of einsums.

use super::Call;
use super::body::{Body, From};
use super::contract::{self, Contraction};
use super::ending::After;
use super::hoist;
use super::library::reading;
use super::reduce::Reduce;
use super::state::State;
use super::stored::Stored;
use crate::program::{Base, Program, Target};
use ein_ir::einsum::Einsum;
use ein_ir::expr::{Literal, Row};
use ein_ir::monoid::Form;
use ein_ir::region::{Interval, Region};
use ein_run::Cause;

/// What is computed of an einsum's block, before anything is folded.
pub(crate) fn body(e: &Einsum, labels: &Region, operands: &[Option<Stored>]) -> Result<Body, Cause> {
    let idle = labels.is_empty() || operands.iter().any(Option::is_none);
    if idle {
        return Ok(nothing(e, labels));
    }
    Body::of(e, labels, &|k| operands[k].clone().map(From::Value))
}

/// A block that reads nothing: there is nothing to fold, the result is the identity.
fn nothing(e: &Einsum, labels: &Region) -> Body {
    let mut labels = labels.clone();
    labels.0.truncate(e.rank);
    labels.0.push(Interval::new(0, 0));
    let zero = Literal::Int(0);
    Body { rows: vec![(Row::Const(zero), e.dtype)], value: 0, operands: Vec::new(), labels }
}

/// The program of a block.
pub(crate) fn program(e: &Einsum, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    let mut body = body(e, call.labels, &call.operands)?;
    let mut program = Program::default();
    if body.labels.rank() == e.rank && !e.folds() {
        body.cast(e.dtype);
        hoist::push(&mut program, &body, &call.result)?;
        return Ok(program);
    }
    let after = if call.finish { After::Finished(call.result.dtype(0)) } else { After::Pending };
    fold(e, &body, after, &call.result, target, &mut program)?;
    Ok(program)
}

/// Adds the steps of a block that folds, of which `body` is what is computed, and of what follows.
pub(crate) fn fold(
    e: &Einsum,
    body: &Body,
    after: After<'_>,
    result: &Stored,
    target: &Target,
    program: &mut Program,
) -> Result<(), Cause> {
    let state = State::new(e.monoid, e.dtype)?;
    if let Some(contraction) = Contraction::of(body, e.rank, state)
        && contract::push(&contraction, after, body, result, target, program)?
    {
        return Ok(());
    }
    let reduce = Reduce { body, rank: e.rank, state, after, result };
    match after {
        After::Map(dtype, tail) if reduce.ends_apart(target)? => {
            let mut region = Region(body.labels.0[..e.rank].to_vec());
            region.0.extend(e.monoid.stacked().map(|n| Interval::new(0, n)));
            let form = Form::finished(dtype, region.rank());
            let between = Stored::new(region, form, Base::Scratch.at(program.scratch.next_multiple_of(256)));
            program.scratch = between.place.offset + between.bytes();
            let reduce = Reduce { after: After::Finished(dtype), result: &between, ..reduce };
            reduce.push(program, target)?;
            hoist::push(program, &reading(tail, &between, e.rank), result)
        }
        After::Map(..) | After::Pending | After::Finished(_) => reduce.push(program, target),
    }
}
