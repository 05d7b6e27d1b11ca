//! ein-plan: from a graph to a task graph. Candidates, costs, search, exchange synthesis, lowering, explain.
//!
//! This crate holds no buffer and reads no clock (but for reporting how long planning took, and for a time limit), and no file: what keeps
//! plans is a trait ([`cache::Store`]).

pub mod answers;
pub mod bounds;
#[cfg(test)]
mod brute_force_tests;
pub mod cache;
pub mod candidates;
pub mod choice;
pub mod consumers;
mod costs;
mod deadline;
pub mod diff;
mod elimination;
pub mod error;
pub mod exchanges;
#[cfg(test)]
mod exchanges_tests;
pub mod explain;
mod fit;
mod layouts;
pub mod lower;
mod makespan;
#[cfg(test)]
mod makespan_tests;
pub mod needs;
pub mod options;
pub mod overlap;
#[cfg(test)]
mod overlap_tests;
mod parallel;
mod pattern;
pub mod plan;
#[cfg(test)]
mod plan_tests;
mod ports;
pub mod price;
mod recompute;
mod recursive;
pub mod report;
pub mod saved;
mod search;
pub mod strategies;
mod symmetry;
pub mod synthesis;
mod tiny;
pub mod together;
