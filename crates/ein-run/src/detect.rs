//! What machine this is: the GPUs of this host as a machine file.
//!
//! [`read`] asks the driver's management library (NVML) and gives plain [`Facts`]; [`describe`] makes a machine
//! of them and asks nobody. So everything but the asking is tested without a GPU.

mod error;
mod facts;
mod figures;
mod machine;
mod nvml;
mod tree;

pub use error::DetectError;
pub use facts::{Ancestor, Bus, Chip, Facts, Gpu, NvLink, Pair, Pcie};
pub use figures::{Figures, figures};
pub use machine::{Detected, describe};
pub use nvml::read;

#[cfg(test)]
mod tests;
