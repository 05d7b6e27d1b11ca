//! What can go wrong before and during a run.

use crate::trace;
use ein_ir::graph::TensorType;
use ein_ir::region::Region;
use ein_task::machine::DeviceId;
use ein_task::task::TaskGraph;
use ein_task::verify::VerifyError;
use std::time::Duration;

/// Why a run could not start or did not end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The task graph is not executable; a fault of whoever made it.
    #[error("the task graph cannot be executed: {0}")]
    Graph(#[from] VerifyError),
    /// The task graph has no slots yet; plan its memory first.
    #[error("the task graph has no memory plan: it has {arenas} arenas for {devices} devices")]
    Unplanned {
        /// Number of arenas.
        arenas: usize,
        /// Number of devices.
        devices: usize,
    },
    /// A device has no room for its arena, or for that and its scratch memory.
    #[error(
        "device {device} cannot allocate its arena of {bytes} bytes{more}: use more devices or a smaller model",
        more = if *scratch > 0 { format!(" and {scratch} bytes of scratch memory") } else { String::new() }
    )]
    Memory {
        /// The device.
        device: DeviceId,
        /// Bytes of the arena.
        bytes: u64,
        /// Bytes that are asked for with them, for what its kernels need besides.
        scratch: u64,
    },
    /// A device cannot be used, or no longer.
    #[error("device {device} failed: {reason}")]
    Device {
        /// The device.
        device: DeviceId,
        /// What it said.
        reason: String,
    },
    /// A parameter could not be read.
    #[error("parameter `{name}` {region} for {device}: {reason}")]
    Parameter {
        /// The parameter.
        name: String,
        /// The box that the device holds.
        region: Region,
        /// The device.
        device: DeviceId,
        /// What the source said.
        reason: String,
    },
    /// An input was not given.
    #[error("input `{name}` ({expected}) is not given; the inputs are {inputs}")]
    MissingInput {
        /// The input.
        name: String,
        /// Its type.
        expected: TensorType,
        /// All inputs of the computation.
        inputs: String,
    },
    /// An input that the computation does not have.
    #[error("there is no input `{name}`; the inputs are {inputs}")]
    UnknownInput {
        /// The name given.
        name: String,
        /// All inputs of the computation.
        inputs: String,
    },
    /// An input of another type or shape.
    #[error("input `{name}` is {found}, but the computation was compiled for {expected}")]
    InputType {
        /// The input.
        name: String,
        /// What was given.
        found: TensorType,
        /// What would work.
        expected: TensorType,
    },
    /// A task failed; all devices stopped.
    #[error("task {task} on {device} (`{tensor}`) failed: {cause}")]
    Task {
        /// The row.
        task: u32,
        /// Where.
        device: DeviceId,
        /// The tensor it belongs to.
        tensor: String,
        /// Why.
        cause: Cause,
    },
}

impl RunError {
    /// That a row of a task graph failed.
    pub fn task(graph: &TaskGraph, task: u32, cause: Cause) -> Self {
        let row = &graph.tasks[task as usize];
        Self::Task { task, device: row.device, tensor: trace::tensor(graph, row).to_owned(), cause }
    }
}

/// Why one task failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// A gather's id names no row.
    #[error("operation `{operation}`: id {id} is outside the table's rows 0..{rows}")]
    Id {
        /// The gather.
        operation: String,
        /// The id.
        id: i64,
        /// Rows of the table.
        rows: usize,
    },
    /// The arithmetic refused.
    #[error("operation `{operation}`: {reason}")]
    Arithmetic {
        /// The operation.
        operation: String,
        /// What is wrong.
        reason: String,
    },
    /// The row does not fit the values it names; a fault of whoever made the task graph.
    #[error("the task does not fit its values: {reason}")]
    Malformed {
        /// What is wrong.
        reason: String,
    },
    /// The device itself failed.
    #[error("the device failed: {reason}")]
    Device {
        /// What it said.
        reason: String,
    },
    /// A message could not be sent or received.
    #[error("the transport failed: {reason}")]
    Transport {
        /// What it said.
        reason: String,
    },
    /// Nothing was heard for too long.
    #[error("nothing was heard for {limit:?}")]
    Silence {
        /// How long a device waits.
        limit: Duration,
    },
    /// A device waited for another in vain.
    #[error("waiting for {peer} {what}: {cause}", what = if *.sends { "to take it" } else { "to send it" })]
    Peer {
        /// The other device.
        peer: DeviceId,
        /// Whether the other should take what this one sends, or send what this one takes.
        sends: bool,
        /// What the transport said.
        cause: Box<Cause>,
    },
    /// The worker panicked; a fault of ours.
    #[error("the worker panicked: {message}")]
    Panic {
        /// The panic's message.
        message: String,
    },
    /// Another device failed first.
    #[error("another device stopped the run")]
    Stopped,
}

impl Cause {
    /// A row that does not fit.
    pub fn malformed(reason: impl Into<String>) -> Self {
        Self::Malformed { reason: reason.into() }
    }
}
