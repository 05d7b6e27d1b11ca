//! ein-run: from task graph to numbers. The device and transport borders, the executor, the CPU device
//! and measured traces; which GPUs a host has, and what its threads reach.
//!
//! This crate knows no cost and makes no choice: what happens where is in the task graph.

#[cfg(target_endian = "big")]
compile_error!("values are stored little-endian and read in place");

pub mod backend;
pub mod cpu;
pub mod detect;
pub mod device;
pub mod error;
pub mod executor;
mod failure;
pub mod kept;
mod lent;
pub mod load;
pub mod measure;
mod messages;
mod pages;
mod pool;
pub mod rendezvous;
mod replicas;
mod schedule;
pub mod source;
mod steps;
mod team;
pub mod trace;
pub mod transport;
mod virtual_devices;

pub use backend::Backend;
pub use error::{Cause, RunError};
pub use executor::{Executor, Order, Run};
pub use source::ParameterSource;
