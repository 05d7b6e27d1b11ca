//! ein-plan: from a graph to a task graph. Candidates, costs, search, exchange synthesis, lowering, explain.
//!
//! This crate holds no buffer and reads no clock (but for reporting how long planning took).

pub mod choice;
pub mod exchanges;
#[cfg(test)]
mod exchanges_tests;
pub mod lower;
pub mod needs;
pub mod options;
pub mod strategies;
pub mod synthesis;
