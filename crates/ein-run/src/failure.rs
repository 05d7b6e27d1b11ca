//! A task that did not succeed.

use crate::error::{Cause, RunError};
use ein_task::task::TaskGraph;
use std::any::Any;

/// Which task, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) task: u32,
    pub(crate) cause: Cause,
}

impl Failure {
    /// The failure to report is the least: one that is not the echo of another, then the earliest task.
    pub(crate) fn rank(&self) -> (bool, u32) {
        (self.cause == Cause::Stopped, self.task)
    }

    /// What is said of it.
    pub(crate) fn error(self, graph: &TaskGraph) -> RunError {
        RunError::task(graph, self.task, self.cause)
    }
}

/// What a panic said.
pub(crate) fn panic_cause(payload: &(dyn Any + Send)) -> Cause {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let message = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Cause::Panic { message: message.to_owned() }
}
