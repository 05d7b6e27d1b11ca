//! ein-ir: what to compute. Labels, regions, dtypes, scalar expressions, monoids, operations with
//! their join-agg specs, the graph, its text form, simplification and the dense reference.
//!
//! This crate knows no device, no cost and no input or output.

pub mod algebra;
pub mod copy;
pub mod dense;
pub mod dtype;
pub mod einsum;
pub mod expr;
pub mod graph;
pub mod kernel;
pub mod monoid;
pub mod op;
#[cfg(test)]
mod random;
pub mod reference;
pub mod region;
pub mod reshape;
pub mod scalar;
pub mod simplify;
pub mod spec;
pub mod text;
pub mod view;
