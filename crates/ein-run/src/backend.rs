//! The border to whoever executes whole task graphs.

use crate::error::RunError;
use crate::executor::Order;
use crate::trace::Mark;
use ein_ir::dense::Dense;
use ein_task::task::TaskGraph;
use ein_task::units::Bytes;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// All devices of a task graph, made ready for it: arenas there, parameters loaded.
///
/// The executor checks what goes in and hands out what comes out; in between it is the backend's.
pub trait Backend: Send {
    /// Runs the task graph once, from inputs, which are those of the graph, to outputs, which have their types and are in
    /// the graph's order. State that is not given is where the run before left it.
    ///
    /// # Errors
    ///
    /// What failed, and where. What the outputs hold is then not specified.
    fn run(
        &mut self,
        graph: &TaskGraph,
        inputs: &BTreeMap<String, Dense>,
        outputs: &[Mutex<Dense>],
    ) -> Result<(), RunError>;

    /// When every row of the last run began and ended, where that is known.
    fn marks(&self) -> Vec<Mark>;

    /// The seconds of the last run, where what goes before and after in it, to have inputs and outputs where the devices
    /// use them, is no part of what is timed. None where the run is all that [`Backend::run`] does.
    fn seconds(&self) -> Option<f64> {
        None
    }

    /// Runs once more with the inputs of the last run, and tells its seconds as [`Backend::seconds`] does: outputs stay where the
    /// devices leave them, and inputs that are still there are not brought again. None where there is no such difference.
    fn again(&mut self) -> Option<Result<f64, RunError>> {
        None
    }

    /// Bytes of the arenas that the memory plan has and that take no memory, because devices hold the same parameters.
    fn replicas(&self, graph: &TaskGraph) -> Bytes {
        let _ = graph;
        Bytes(0)
    }

    /// Chooses which of the ready rows goes first, where that is this backend's to choose.
    fn set_order(&mut self, order: Order);
}
