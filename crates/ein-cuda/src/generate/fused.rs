//! Fused rows: a first operation, and maps of its result.
//!
//! Maps that follow one another are one body. After a reduction they are part of its kernel, and what is between them is
//! never written; after any other operation that is left in scratch memory, or in the row's own slot where it fits, for
//! one more kernel.

use super::body::{Body, From};
use super::einsum;
use super::ending::After;
use super::hoist;
use super::stored::Stored;
use super::{Call, block};
use crate::program::{Arg, Base, Place, Program, Step, Target};
use ein_ir::einsum::Einsum;
use ein_ir::monoid::Form;
use ein_ir::op::Op;
use ein_ir::region::Region;
use ein_run::Cause;
use ein_task::task::{OpRow, Source, Stage, TaskGraph, TaskId};

/// The stages of a row.
struct Fused<'a> {
    graph: &'a TaskGraph,
    stages: &'a [Stage],
    reads: &'a [Stored],
}

/// The program of a fused row.
pub(crate) fn program(
    graph: &TaskGraph,
    task: TaskId,
    stages: &[Stage],
    reads: &[Stored],
    target: &Target,
) -> Result<Program, Cause> {
    let fused = Fused { graph, stages, reads };
    let result = Stored::own(graph.task(task));
    let head = &graph.ops[stages[0].op];
    let mut program = Program::default();
    let Op::Einsum(e) = &head.op else { return fused.apart(task, &result, target) };
    let operands = fused.operands(0);
    let first = einsum::body(e, &stages[0].labels, &operands)?;
    if !e.folds() {
        let tail = fused.tail(None)?;
        hoist::push(&mut program, &first.then(&tail, e.dtype), &result)?;
        return Ok(program);
    }
    let tail = fused.tail(None)?;
    einsum::fold(e, &first, After::Map(e.dtype, &tail), &result, target, &mut program)?;
    Ok(program)
}

impl Fused<'_> {
    fn row(&self, stage: usize) -> &OpRow {
        &self.graph.ops[self.stages[stage].op]
    }

    /// Where the operands of the first stage are.
    fn operands(&self, stage: usize) -> Vec<Option<Stored>> {
        let read = |s: &Option<Source>| match s {
            Some(Source::Read(n)) => Some(self.reads[*n].clone()),
            Some(Source::Previous) | None => None,
        };
        self.stages[stage].operands.iter().map(read).collect()
    }

    fn map(&self, stage: usize) -> Result<&Einsum, Cause> {
        let row = self.row(stage);
        match &row.op {
            Op::Einsum(e) if !e.folds() => Ok(e),
            Op::Einsum(_) | Op::Kernel(_) | Op::View(_) | Op::Input(_) => {
                Err(Cause::malformed(format!("`{}` is no map", row.name)))
            }
        }
    }

    /// The body of a stage that is a map, what is before it being `before`, or given.
    fn stage(&self, stage: usize, before: Option<&Stored>) -> Result<Body, Cause> {
        let rank = self.row(stage - 1).spec.as_ref().map_or(0, |s| s.rank);
        let operands = &self.stages[stage].operands;
        let source = |k: usize| match (operands[k]?, before) {
            (Source::Read(n), _) => Some(From::Value(self.reads[n].clone())),
            (Source::Previous, Some(before)) => Some(From::Value(before.clone())),
            (Source::Previous, None) => Some(From::Before { rank }),
        };
        Body::of(self.map(stage)?, &self.stages[stage].labels, &source)
    }

    /// All stages but the first as one body; what the first leaves is `before`, or given.
    fn tail(&self, before: Option<&Stored>) -> Result<Body, Cause> {
        let mut body = self.stage(1, before)?;
        for n in 2..self.stages.len() {
            body = body.then(&self.stage(n, None)?, self.map(n - 1)?.dtype);
        }
        Ok(body)
    }

    /// The first stage, and then one map.
    fn apart(&self, task: TaskId, result: &Stored, target: &Target) -> Result<Program, Cause> {
        let (first, row) = (&self.stages[0], self.row(0));
        let spec = row.spec.as_ref().ok_or_else(|| Cause::malformed(format!("`{}` has no kernel", row.name)))?;
        let region: Region = spec.result_region(&first.labels);
        let form = Form::finished(row.result.dtype, region.rank());
        let between = Stored::new(region, form, Base::Own.at(0));
        let operands = self.operands(0);
        let call = Call { task, row, labels: &first.labels, finish: first.finish, operands, result: between.clone() };
        let mut program = block(&call, target)?;
        // A map of the same axes reads an element where it writes one.
        let in_place = between.region == result.region && between.form == result.form;
        let before = if in_place {
            between
        } else {
            let at = program.scratch.next_multiple_of(256);
            program.scratch = at + between.bytes();
            retarget(&mut program, at);
            Stored { place: Base::Scratch.at(at), ..between }
        };
        hoist::push(&mut program, &self.tail(Some(&before))?, result)?;
        Ok(program)
    }
}

/// Lets what writes the row's own slot write scratch memory from `at` on.
fn retarget(program: &mut Program, at: u64) {
    let moved = |place: &mut Place| {
        if place.base == Base::Own {
            *place = Base::Scratch.at(at + place.offset);
        }
    };
    for step in &mut program.steps {
        match step {
            Step::Launch(launch) => {
                for arg in &mut launch.args {
                    if let Arg::Pointer(place) = arg {
                        moved(place);
                    }
                }
            }
            Step::Matmul(m) => {
                for matrix in [&mut m.a, &mut m.b, &mut m.c] {
                    moved(&mut matrix.place);
                }
                m.epilogue.places().for_each(moved);
            }
            Step::Copy { from, to, .. } => {
                moved(from);
                moved(to);
            }
            Step::Zero { at, .. } => moved(at),
        }
    }
}
