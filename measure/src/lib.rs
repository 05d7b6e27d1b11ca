//! Measurements that are too long for tests, each with the bar it must pass. `cargo xtask measure` runs them.
//!
//! Nothing here needs a GPU: what is timed on a machine is simulated, or runs on threads of this host.

pub mod cpu;
pub mod exchange;
pub mod kernels;
pub mod plan;
pub mod random;
pub mod report;
pub mod running;
pub mod simulator;
pub mod statistics;
