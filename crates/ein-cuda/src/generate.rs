//! From rows of a task graph to programs.

use crate::program::{Program, Target};
use ein_run::Cause;
use ein_task::task::{TaskGraph, TaskId};

/// What stands before the kernels in every translation unit.
pub const PRELUDE: &str = "";

/// The program of a row that computes: kernel, fused, view, cut, fold or paste. Values lie in their slots as
/// [`Form::layout`](ein_ir::monoid::Form::layout) says; a read that was received within a paste's own memory
/// (`Task::within`) is there already.
pub fn program(graph: &TaskGraph, task: TaskId, target: &Target) -> Result<Program, Cause> {
    let _ = (graph, task, target);
    Err(Cause::malformed("not yet generated"))
}
