//! Blocks of einsums.

use super::Call;
use super::body::{Body, From};
use super::map::map;
use super::reduce::{After, Reduce};
use super::state::State;
use super::stored::Stored;
use crate::program::{Program, Target};
use ein_ir::einsum::Einsum;
use ein_ir::expr::{Literal, Row};
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
    let body = body(e, call.labels, &call.operands)?;
    let after = if call.finish { After::Finished(call.result.dtype(0)) } else { After::Pending };
    let mut program = Program::default();
    block(e, &body, after, &call.result, target, &mut program)?;
    Ok(program)
}

/// Adds the steps of a block of an einsum, of which `body` is what is computed, and of what follows.
pub(crate) fn block(
    e: &Einsum,
    body: &Body,
    after: After<'_>,
    result: &Stored,
    target: &Target,
    program: &mut Program,
) -> Result<(), Cause> {
    if body.labels.rank() == e.rank && !e.folds() {
        if let After::Map(..) = after {
            return Err(Cause::malformed("a map is followed by no map: they are one"));
        }
        program.steps.extend(map(body, result)?);
        return Ok(());
    }
    let state = State::new(e.monoid, e.dtype)?;
    Reduce { body, rank: e.rank, state, after, result }.push(program, target)
}
