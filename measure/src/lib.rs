//! Measurements that are too long for tests, each with the bar it must pass. `cargo xtask measure` runs them.
//!
//! Whatever is timed on a machine is simulated: nothing here needs a GPU.

pub mod exchange;
pub mod random;
pub mod report;
