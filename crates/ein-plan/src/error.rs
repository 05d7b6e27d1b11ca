//! Why a plan cannot be made.

use ein_ir::graph::TensorType;
use ein_task::machine::DeviceId;
use ein_task::units::Bytes;

/// A tensor that takes memory where it runs out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Its name in the graph.
    pub tensor: String,
    /// Bytes of it on the device.
    pub bytes: Bytes,
}

/// Why a plan cannot be made. Every variant names what is in the way.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The machine has no device that computes.
    #[error("machine `{machine}` has no device that computes: give it at least one that is not host memory")]
    NoDevice {
        /// The machine.
        machine: String,
    },
    /// A placement names a device that the machine lacks.
    #[error("placement on device {device}, but machine `{machine}` has {count} devices")]
    NoSuchDevice {
        /// The machine.
        machine: String,
        /// The device asked for.
        device: DeviceId,
        /// How many there are.
        count: usize,
    },
    /// A parameter that graphs are to share is not the same in all of them.
    #[error(
        "graphs that are planned together share parameters by name, but `{name}` is {first} in one and {second} in another"
    )]
    Shared {
        /// The parameter or state.
        name: String,
        /// Its type where it comes first.
        first: TensorType,
        /// Its type in a later graph.
        second: TensorType,
    },
    /// Nothing was found in time.
    #[error("no plan was found within the time limit of {} s: allow more", limit.as_secs_f64())]
    TimeLimit {
        /// The limit.
        limit: std::time::Duration,
    },
    /// There is no host whose memory could be used.
    #[error(
        "machine `{machine}` has no host memory to keep parameters in: give its file a device of kind `host` with links to \
         the others, or plan without offloading"
    )]
    NoHost {
        /// The machine.
        machine: String,
    },
    /// No plan fits the memory.
    #[error("no plan fits in {limit} a device: the best found needs {needed} on {device}; there the largest tensors \
             are {list}; {needed} ({} B) on every device would do", needed.0, list = list(.largest))]
    DoesNotFit {
        /// Memory of a device.
        limit: Bytes,
        /// The least that the search found to be enough.
        needed: Bytes,
        /// The name of the device that lacks most.
        device: String,
        /// The largest tensors live at its peak, largest first.
        largest: Vec<Live>,
    },
    /// A fixed strategy cannot be applied to the graph.
    #[error(transparent)]
    Strategy(#[from] crate::strategies::Refusal),
    /// An exchange program was refused by the checker or could not be made.
    #[error("exchange of `{tensor}`: {reason}")]
    Exchange {
        /// The tensor.
        tensor: String,
        /// What went wrong.
        reason: String,
    },
    /// A choice that does not belong to its graph and machine.
    #[error(transparent)]
    Choice(#[from] crate::exchanges::ChoiceError),
    /// A choice that could not be lowered.
    #[error(transparent)]
    Lower(#[from] crate::lower::LowerError),
}

fn list(largest: &[Live]) -> String {
    let items: Vec<String> = largest.iter().map(|l| format!("`{}` {}", l.tensor, l.bytes)).collect();
    items.join(", ")
}
