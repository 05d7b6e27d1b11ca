//! ein-task: what machines do. The machine, relations, the exchange question with its five steps and
//! their checker, the task graph, its memory plan, the price list and the simulator.
//!
//! This crate knows devices and seconds, but makes no choice and holds no tensor.

mod ancestors;
pub mod bounds;
pub mod buffers;
pub mod check;
#[cfg(test)]
mod closed_form_tests;
pub mod describe;
pub mod exchange;
pub mod flow;
#[cfg(test)]
mod flow_tests;
pub mod machine;
pub mod machine_error;
pub mod machine_file;
#[cfg(test)]
mod machine_tests;
mod machine_text;
pub mod memory;
mod network;
pub mod pending;
#[cfg(test)]
mod pending_tests;
pub mod presets;
pub mod price;
pub mod program_time;
mod quantity;
pub mod rates;
pub mod relation;
mod sharing;
pub mod simulate;
#[cfg(test)]
mod simulate_tests;
pub mod task;
pub mod task_text;
pub mod timeline;
pub mod traffic;
pub mod units;
pub mod verify;
mod work;
