//! ein-plan: from a graph to a task graph. Candidates, costs, search, exchange synthesis, lowering, explain.
//!
//! This crate holds no buffer and reads no clock (but for reporting how long planning took).

pub mod choice;
pub mod options;
pub mod synthesis;
