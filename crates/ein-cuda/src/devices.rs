//! The GPUs of one process, ready to run one task graph.

mod building;
pub mod elsewhere;
mod loading;
mod prepared;

use crate::driver::{DriverError, Gpu, Part, Replay};
use crate::nodes::{Nodes, Passage, Staged, Staging, WORKSPACE};
use crate::program::{Fault, FaultCode};
use crate::rows::is_resident;
use ein_ir::dense::Dense;
use ein_run::backend::Backend;
use ein_run::source::{bytes_of, bytes_of_mut};
use ein_run::trace::Mark;
use ein_run::{Cause, Order, ParameterSource, RunError};
use ein_task::machine::DeviceId;
use ein_task::task::{TaskGraph, TaskId, Verb};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

pub use prepared::Prepared;

/// Where a device of a task graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seat {
    /// On the GPU of this number. Several may be on one: each has memory of its own there.
    Gpu(usize),
    /// In the host's memory. What is done there, other than moves, a GPU does that reaches that memory.
    Host,
}

/// What may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether products of f32 may round their factors to TF32, which is several times faster.
    pub tf32: bool,
    /// Whether attention may use `wgmma` on GPUs that have it (Hopper), rather than `mma`, which all have.
    pub wgmma: bool,
    /// Whether runs tell when every row began and ended. Rows are then done one after the other on each GPU, which takes
    /// longer than a run does otherwise.
    pub traced: bool,
    /// Where what goes in and comes out lies while a run goes on. Where it is in GPUs' memory, the seconds of a run are
    /// those between two events around its launch, as of a program whose tensors are on GPUs.
    pub staging: Staging,
    /// Most bytes that the library of products may use for one of them. With less it may choose a slower way.
    pub workspace: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { tf32: false, wgmma: false, traced: false, staging: Staging::default(), workspace: WORKSPACE }
    }
}

/// The devices of a task graph: memory made, parameters loaded, and all that a run does given to the driver as one graph.
///
/// A run is one launch: no memory is asked for, and the host does nothing between tasks. It packs the inputs before and
/// hands out the outputs after.
pub struct Devices {
    replay: Replay,
    /// Of the replay's blocks, the one that is the host's; devices' come before it.
    host: usize,
    nodes: Nodes,
    seats: Vec<Seat>,
    gpus: Vec<Arc<Gpu>>,
    /// The rows of a traced graph's pieces, and what the last run told of them.
    pieces: Vec<Option<TaskId>>,
    marks: Vec<Mark>,
    staging: Staging,
    /// Of the last run, from before its launch to its end, by the first GPU's clock.
    seconds: Option<f64>,
}

impl Devices {
    /// Makes devices ready for a task graph that has been verified, each on its seat.
    ///
    /// # Errors
    ///
    /// Those of [`Prepared::new`] and [`Prepared::load`].
    pub fn new(
        graph: &TaskGraph,
        parameters: &dyn ParameterSource,
        seats: &[Seat],
        settings: Settings,
    ) -> Result<Self, RunError> {
        Prepared::new(graph, seats, settings)?.load(graph, parameters)
    }

    /// What is done in a run.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Runs once with what is there, and tells the seconds between the begin and the end by the clock of the first GPU:
    /// nothing is brought or fetched.
    ///
    /// # Errors
    ///
    /// As of a run, and a driver that tells no times.
    pub fn timed(&mut self) -> Result<f64, RunError> {
        self.replay.timed().map_err(|error| self.lost(&error))
    }

    /// What is said of a run that the driver failed. It does not say where: named is the first device whose GPU does
    /// not answer any more, and the others with it.
    fn lost(&self, error: &DriverError) -> RunError {
        let silent: Vec<i32> =
            self.gpus.iter().filter(|gpu| gpu.synchronize().is_err()).map(|gpu| gpu.ordinal()).collect();
        let on = |seat: &Seat| silent.iter().any(|&ordinal| *seat == Seat::Gpu(ordinal as usize));
        let device = DeviceId(self.seats.iter().position(on).unwrap_or(0) as u16);
        let names: Vec<String> = silent.iter().map(|ordinal| format!("cuda:{ordinal}")).collect();
        let silent = if names.is_empty() { String::new() } else { format!("; {} no longer answer", names.join(", ")) };
        RunError::Device { device, reason: format!("{error}{silent}; nothing is run here any more") }
    }

    /// Notes when the pieces of a traced run were.
    fn mark(&mut self, graph: &TaskGraph, times: &[[f64; 2]]) {
        self.marks.clear();
        for (row, &[start, end]) in self.pieces.iter().zip(times) {
            let Some(row) = *row else { continue };
            match self.marks.last_mut().filter(|mark| mark.task == row.0) {
                Some(mark) => (mark.start, mark.end) = (mark.start.min(start), mark.end.max(end)),
                None => self.marks.push(Mark { task: row.0, start, end }),
            }
        }
        let send = |mark: &Mark| match graph.task(TaskId(mark.task)).verb {
            Verb::Receive { .. } => Some(Mark { task: graph.task(TaskId(mark.task)).reads[0].0, ..*mark }),
            _ => None,
        };
        let sends: Vec<Mark> = self.marks.iter().filter_map(send).collect();
        self.marks.extend(sends);
    }

    /// What kernels reported in the last run, if anything: the first row's.
    fn fault(&self, graph: &TaskGraph) -> Option<RunError> {
        let host = self.replay.host(self.host);
        let records = self.nodes.faults.iter().map(|at| record(&host[at.clone()]));
        let first = records.filter(|fault| fault.row > 0).min_by_key(|fault| fault.row)?;
        let row = (first.row - 1) as u32;
        Some(RunError::task(graph, row, cause(graph, TaskId(row), &first)))
    }
}

impl Backend for Devices {
    fn run(
        &mut self,
        graph: &TaskGraph,
        inputs: &BTreeMap<String, Dense>,
        outputs: &[Mutex<Dense>],
    ) -> Result<(), RunError> {
        let given = |passage: &Passage| inputs.get(&graph.externals[passage.tensor].name);
        let host = self.replay.host_mut(self.host);
        let mut written = Vec::new();
        for passage in &self.nodes.states {
            let Some(dense) = given(passage) else { continue };
            let task = graph.task(passage.row);
            passage.copy.run(bytes_of(dense), &mut host[passage.at.clone()]);
            written.push(Part { block: task.device.index(), offset: task.slot.offset, at: passage.at.clone() });
        }
        for passage in &self.nodes.inputs {
            if let Some(dense) = given(passage) {
                passage.copy.run(bytes_of(dense), &mut host[passage.at.clone()]);
            }
        }
        written.extend(self.nodes.uploads.iter().map(part));
        self.replay.write(self.host, &written).map_err(|(device, e)| failed(device, &e))?;
        let times = match self.staging {
            // Rows of a traced run are told apart, each between events of its own.
            Staging::Device if self.pieces.is_empty() => self.replay.timed().map(|seconds| {
                self.seconds = Some(seconds);
                Vec::new()
            }),
            Staging::Device | Staging::Host => self.replay.run(),
        };
        let times = times.map_err(|error| self.lost(&error))?;
        let read: Vec<Part> = self.nodes.downloads.iter().map(part).collect();
        self.replay.read(self.host, &read).map_err(|(device, e)| failed(device, &e))?;
        self.mark(graph, &times);
        if let Some(fault) = self.fault(graph) {
            return Err(fault);
        }
        let host = self.replay.host(self.host);
        for passage in &self.nodes.outputs {
            let mut out = outputs[passage.tensor].lock().unwrap_or_else(PoisonError::into_inner);
            passage.copy.run(&host[passage.at.clone()], bytes_of_mut(&mut out));
        }
        Ok(())
    }

    fn again(&mut self) -> Option<Result<f64, RunError>> {
        self.seconds?;
        let written: Vec<Part> = self.nodes.overwritten.iter().map(part).collect();
        if let Err((device, error)) = self.replay.write(self.host, &written) {
            return Some(Err(failed(device, &error)));
        }
        Some(self.timed())
    }

    /// Empty unless it is traced. The halves of a move are one, so both have its times.
    fn marks(&self) -> Vec<Mark> {
        self.marks.clone()
    }

    /// Where inputs and outputs are staged on GPUs and rows are not traced: from just before the launch to its end, by events.
    fn seconds(&self) -> Option<f64> {
        self.seconds
    }

    /// The order is the hardware's.
    fn set_order(&mut self, _: Order) {}
}

/// The bytes of a device's block that something is staged in.
fn part(staged: &Staged) -> Part {
    Part { block: staged.device, offset: staged.offset, at: staged.at.clone() }
}

fn record(bytes: &[u8]) -> Fault {
    let word = |n: usize| u64::from_le_bytes(bytes[8 * n..][..8].try_into().expect("8 bytes"));
    Fault { row: word(0), code: word(1) as i64, value: word(2) as i64, limit: word(3) as i64 }
}

/// What a fault record says of a row.
fn cause(graph: &TaskGraph, row: TaskId, fault: &Fault) -> Cause {
    let operation = match &graph.task(row).verb {
        Verb::Kernel { op, .. } | Verb::View { op, .. } => graph.ops[*op].name.clone(),
        Verb::Fused { stages } => graph.ops[stages[0].op].name.clone(),
        Verb::Feed { .. }
        | Verb::Cut
        | Verb::Send { .. }
        | Verb::Receive { .. }
        | Verb::Fold { .. }
        | Verb::Paste
        | Verb::Output { .. } => graph.label(row).to_owned(),
    };
    if fault.code == FaultCode::Id as i64 {
        return Cause::Id { operation, id: fault.value, rows: fault.limit as usize };
    }
    Cause::Arithmetic { operation, reason: format!("an integer was divided by {}", fault.value) }
}

fn failed(device: usize, error: &DriverError) -> RunError {
    RunError::Device { device: DeviceId(device as u16), reason: error.to_string() }
}

/// The rows of parameters, which are brought in once.
fn parameters(graph: &TaskGraph) -> Vec<TaskId> {
    let parameter = |id: &TaskId| graph.fed(*id).is_some_and(|e| e.kind == ein_ir::op::InputKind::Parameter);
    graph.rows().filter(|(_, task)| is_resident(graph, task)).map(|(id, _)| id).filter(parameter).collect()
}
