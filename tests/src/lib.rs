//! Shared helpers of the conformance tests: every plan on every device equals the dense reference.

pub mod cases;
pub mod choices;
pub mod computed;
pub mod fixtures;
pub mod interpret;
pub mod machines;
pub mod operations;
pub mod plans;
pub mod random;
mod random_kernel;
mod random_view;
pub mod same;
pub mod small;
pub mod vectors;
