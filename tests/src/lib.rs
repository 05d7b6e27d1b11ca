//! Shared helpers of the conformance tests: every plan on every device equals the dense reference.

pub mod choices;
pub mod interpret;
pub mod random;
mod random_kernel;
mod random_view;
pub mod small;
