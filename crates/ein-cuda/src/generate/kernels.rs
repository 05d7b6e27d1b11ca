//! Operations that are no einsums: one file for each kind, and the one place that knows them all.
//!
//! What is algorithm stands in `.cuh` files as templates, which the prelude holds; what is generated are the kernels that
//! name them with their sizes.

mod attention;
mod gather;
mod idle;
mod recurrence;
mod scan;
mod scatter;
mod top;

use super::Call;
use super::strided::Strided;
use crate::program::{Arg, Kernel as Text, Launch, Program, Step, Target};
use ein_ir::kernel::Kernel;
use ein_ir::region::Region;
use ein_ir::spec::{AxisMap, Spec};
use ein_run::Cause;
use std::sync::Arc;

/// The program of a block of a kernel.
pub(crate) fn program(kernel: &Kernel, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    if call.result.region.is_empty() {
        return Ok(Program::default());
    }
    match kernel {
        Kernel::Attention(a) => attention::program(a, call, target),
        Kernel::Gather(g) => gather::slices(g, call, target),
        Kernel::GatherAlong(g) => gather::elements(g, call, target),
        Kernel::Scatter(s) => scatter::slices(s, call, target),
        Kernel::ScatterAlong(s) => scatter::elements(s, call, target),
        Kernel::TopK(t) => top::program(t, call, target),
        Kernel::Scan(s) => scan::program(s, call, target),
        Kernel::Recurrence(r) => recurrence::states(r, call, target),
        Kernel::LastState(s) => recurrence::last(s, call, target),
    }
}

/// The spec of the operation.
fn spec<'a>(call: &Call<'a>) -> Result<&'a Spec, Cause> {
    call.row.spec.as_ref().ok_or_else(|| Cause::malformed(format!("`{}` has no spec", call.row.name)))
}

/// What there is of an operand, which must be read by single labels.
fn operand(call: &Call<'_>, n: usize, labels: &Region) -> Result<Strided, Cause> {
    let stored = given(call, n)?;
    let single = |axis: &AxisMap| match axis {
        AxisMap::Affine(a) => Ok(a.clone()),
        AxisMap::Div { .. } | AxisMap::Band(_) => {
            Err(Cause::malformed(format!("operand {n} of `{}` is not read by single labels", call.row.name)))
        }
    };
    let axes: Vec<_> = spec(call)?.operands[n].axes.iter().map(single).collect::<Result<_, _>>()?;
    Strided::operand(&axes, labels, &stored.region)
}

/// What there is of an operand.
fn given<'a>(call: &'a Call<'_>, n: usize) -> Result<&'a super::Stored, Cause> {
    let missing = || Cause::malformed(format!("operand {n} of `{}` is not given", call.row.name));
    call.operands.get(n).and_then(Option::as_ref).ok_or_else(missing)
}

/// Refuses a result that is not stored as just the block's box of its first `rank` axes, row after row.
fn own_box(call: &Call<'_>, rank: usize) -> Result<(), Cause> {
    if call.result.region.0[..rank] == call.labels.0[..rank] {
        return Ok(());
    }
    let reason = format!("`{}` over {} is stored as {}", call.row.name, call.labels, call.result.region);
    Err(Cause::malformed(reason))
}

/// The row's number, for reports.
fn row(call: &Call<'_>) -> Arg {
    Arg::I64(i64::from(call.task.0))
}

/// A kernel on a row of blocks.
fn launch(kernel: Arc<Text>, blocks: u64, threads: u32, args: Vec<Arg>) -> Result<Step, Cause> {
    if blocks == 0 || blocks >= 1 << 31 {
        return Err(Cause::malformed(format!("`{}` would be launched with {blocks} blocks", kernel.name)));
    }
    let grid = [blocks as u32, 1, 1];
    Ok(Step::Launch(Launch { kernel, grid, block: [threads, 1, 1], shared: 0, args }))
}

/// Blocks of `threads` for so many points, but no more than `most`: kernels walk on by the whole grid.
fn blocks(points: u64, threads: u32, most: u64) -> u64 {
    points.div_ceil(u64::from(threads)).clamp(1, most.max(1))
}
