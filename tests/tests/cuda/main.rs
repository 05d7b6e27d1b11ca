//! The device of NVIDIA GPUs, without any: task graphs as nodes, and all of it on GPUs that are not there.

mod conformance;
mod faults;
mod measure;
mod memory;
mod models;
mod nodes;
mod on_fakes;
mod replay;
mod staging;
mod traffic;
