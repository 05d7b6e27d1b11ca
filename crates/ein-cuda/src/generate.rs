//! From rows of a task graph to programs.
//!
//! What becomes of a row:
//!
//! | row | steps |
//! |---|---|
//! | a map, or maps fused | one kernel (`map`) |
//! | a fold, and maps of it | one kernel (`reduce`, `across`); two where there are few results and long folds |
//! | a sum of products, and maps of it | the library's product and one kernel (`library`), or one kernel (`thin`, `gathered`, `tile`) |
//! | another operation | its own (`kernels`), and one kernel for maps of it |
//! | view, cut, paste, move | copies of consecutive bytes (of small moves a kernel), else one kernel for each piece (`view`, `copy`) |
//! | fold of partials | one kernel (`fold`) |
//!
//! Almost all of it is bound by memory, so each module says which bytes its kernels move; what is read twice is read while
//! it is in a cache.
//!
//! How kernels are written: `types` has the C types of elements and conversions, `stored` where a value's fields
//! lie, `strided` an operand's steps along labels, `loops` the positions of a point as text, `body` an expression
//! with its operands, `launch` parameters and grids. A kernel takes every buffer as `unsigned char*` that points to the
//! first element it needs, and first indices as numbers: its text knows extents and steps, but no position, so that blocks
//! that differ by where they are share it.
//!
//! Memory that a kernel reads or writes begins at a multiple of 16 bytes where its value does; `stored::alignment`
//! tells what is left of that at an element. All orders of folding follow from sizes: a run repeats bit for bit.

mod across;
mod body;
mod contract;
mod copy;
mod einsum;
mod ending;
mod epilogue;
mod expression;
mod fold;
mod fold_fields;
mod fused;
mod gathered;
mod hoist;
mod kernels;
mod launch;
mod library;
mod loops;
mod map;
mod orders;
mod reduce;
mod state;
mod stored;
mod strided;
mod thin;
mod tile;
mod types;
mod view;

use crate::program::{Program, Target};
use ein_ir::op::Op;
use ein_ir::region::Region;
use ein_run::Cause;
use ein_task::task::{OpRow, TaskGraph, TaskId, Verb};
use stored::Stored;

pub use copy::{STORING, moved, stores};
pub use orders::Orders;

/// What stands before the kernels in every translation unit.
pub const PRELUDE: &str = concat!(
    include_str!("generate/prelude.cuh"),
    include_str!("generate/tensor_cores.cuh"),
    include_str!("generate/wgmma.cuh"),
    include_str!("generate/bulk.cuh"),
    include_str!("generate/kernels/scan.cuh"),
    include_str!("generate/kernels/top.cuh"),
    include_str!("generate/kernels/attention.cuh"),
    include_str!("generate/kernels/attention_tiles.cuh"),
    include_str!("generate/kernels/attention_groups.cuh"),
    include_str!("generate/kernels/attention_split.cuh"),
    include_str!("generate/kernels/attention_squares.cuh"),
);

/// Every kind of kernel that is generated: what their names begin with.
pub const KINDS: [&str; 32] = [
    "attention_groups",
    "attention_join",
    "attention_rows",
    "attention_split",
    "attention_squares",
    "attention_tiles",
    "fill",
    "fold_affine",
    "fold_attend",
    "fold_statistics",
    "fold_top",
    "gather",
    "gather_along",
    "gathered",
    "last_state",
    "map",
    "map_turned",
    "move",
    "product",
    "recurrence",
    "reduce",
    "reduce_across",
    "reduce_across_part",
    "reduce_join",
    "reduce_part",
    "reshape",
    "scan",
    "scatter_ends",
    "scatter_fold",
    "scatter_next",
    "thin",
    "top",
];

/// A block of an operation: from which values to which.
pub(crate) struct Call<'a> {
    /// The row of the task graph, for [`FaultCode`](crate::program::FaultCode) reports.
    pub(crate) task: TaskId,
    /// The operation.
    pub(crate) row: &'a OpRow,
    /// The block, in label space.
    pub(crate) labels: &'a Region,
    /// Whether the result is finished rather than left pending.
    pub(crate) finish: bool,
    /// Where the operands lie: boxes that hold what is read. `None` where nothing is.
    pub(crate) operands: Vec<Option<Stored>>,
    /// Where the result goes.
    pub(crate) result: Stored,
}

/// The program of a row that computes: kernel, fused, view, cut, fold or paste. Values lie in their slots as
/// [`Form::layout`](ein_ir::monoid::Form::layout) says; a read that was received within a paste's own memory
/// (`Task::within`) is there already, and so is what a reshape shows. `orders` says which values lie otherwise.
pub fn program(graph: &TaskGraph, task: TaskId, orders: &Orders, target: &Target) -> Result<Program, Cause> {
    let row = graph.task(task);
    let reads = Stored::reads(graph, row, orders);
    let result = Stored::own(row).ordered(orders.get(task));
    match &row.verb {
        Verb::Kernel { op, labels, finish, operands } => {
            let operands = operands.iter().map(|o| o.map(|n| reads[n].clone())).collect();
            let row = &graph.ops[*op];
            block(&Call { task, row, labels, finish: *finish, operands, result }, target)
        }
        Verb::Fused { stages } => fused::program(graph, task, stages, &reads, target),
        Verb::View { op, inputs } => {
            let op = &graph.ops[*op];
            let Op::View(view) = &op.op else { return Err(Cause::malformed(format!("`{}` is not a view", op.name))) };
            let shapes: Vec<&[usize]> = op.operands.iter().map(|t| t.shape.as_slice()).collect();
            let pieces: Vec<(usize, Stored)> = inputs.iter().copied().zip(reads).collect();
            if row.reads.iter().any(|&r| graph.task(r).within.is_some()) {
                return Ok(Program::default());
            }
            view::program(view, &shapes, &pieces, &result)
        }
        Verb::Cut | Verb::Paste => {
            let (there, pieces): (Vec<usize>, Vec<usize>) =
                (0..row.reads.len()).partition(|&n| graph.task(row.reads[n]).within.is_some());
            let there = there.into_iter().map(|n| graph.task(row.reads[n]).value.region.volume()).sum();
            let pieces: Vec<Stored> = pieces.into_iter().map(|n| reads[n].clone()).collect();
            copy::paste(&pieces, there, &result)
        }
        Verb::Fold { monoid, finish } => fold::program(*monoid, *finish, &reads, &result),
        Verb::Feed { .. } | Verb::Send { .. } | Verb::Receive { .. } | Verb::Output { .. } => {
            Err(Cause::malformed("this row moves data and is the executor's"))
        }
    }
}

/// The program of a block of an operation.
fn block(call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    match &call.row.op {
        Op::Kernel(kernel) => kernels::program(kernel, call, target),
        Op::Einsum(e) => einsum::program(e, call, target),
        Op::Input(_) | Op::View(_) => Err(Cause::malformed(format!("`{}` has no kernel", call.row.name))),
    }
}
