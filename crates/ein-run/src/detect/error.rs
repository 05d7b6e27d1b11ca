//! Why no machine was detected.

use ein_task::machine_error::MachineError;

/// What would work instead, wherever there is no GPU to be found.
const INSTEAD: &str = "without GPUs, name a machine that comes with the program (`ein machine list`), give a \
                       machine file, or let `ein machine measure` write one for this host's CPU";

/// Why the GPUs of this host could not be described.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DetectError {
    /// The driver's library is not there.
    #[error(
        "the library of NVIDIA's driver, libnvidia-ml.so.1, cannot be loaded ({reason}): install the driver, or give \
         the container access to the GPUs; {INSTEAD}"
    )]
    NoLibrary {
        /// The loader's words.
        reason: String,
    },
    /// The library is there, and the driver does not answer.
    #[error("NVIDIA's driver does not answer ({reason}): load its kernel module, or check the permissions; {INSTEAD}")]
    NoDriver {
        /// The library's words.
        reason: String,
    },
    /// No GPU.
    #[error("NVIDIA's driver (version {driver}) reports no GPU; {INSTEAD}")]
    NoGpu {
        /// The driver's version.
        driver: String,
    },
    /// Every GPU is divided into instances.
    #[error(
        "every GPU is in MIG mode, in which a process may use a single instance and no instance reaches another: \
         turn it off (`nvidia-smi -mig 0`), or write a machine file for the one instance"
    )]
    OnlyInstances,
    /// More GPUs than a machine can have.
    #[error("{found} GPUs are reported; a machine has at most {most} devices, the host included")]
    TooMany {
        /// How many.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// A question that the library answered with an error.
    #[error("NVIDIA's driver does not tell {what} ({reason})")]
    Query {
        /// What was asked.
        what: String,
        /// The library's words.
        reason: String,
    },
    /// A GPU that neither the table nor the driver gives rates for.
    #[error(
        "no figures are known for `{name}`, and the driver tells neither its cores nor its clocks: write a machine file \
         from the one of a like machine (`ein machine show NAME --file`) with the rates of its data sheet"
    )]
    NoFigures {
        /// The product.
        name: String,
    },
    /// What was found is no machine.
    #[error("what the driver reports is not a machine: {0}")]
    Machine(#[from] MachineError),
}
