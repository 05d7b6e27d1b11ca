//! The operations of a graph: three kinds and the inputs.

use crate::einsum::Einsum;
use crate::kernel::Kernel;
use crate::view::View;

/// Where an input of the graph comes from, which decides what its layout costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InputKind {
    /// Resident weights: costs memory, never traffic.
    Parameter,
    /// Arrives each run, held once.
    Input,
    /// Lives between runs in its layout.
    State,
}

/// What a node computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A tensor from outside.
    Input(InputKind),
    /// A join and an aggregation.
    Einsum(Einsum),
    /// A renaming of coordinates.
    View(View),
    /// Anything else.
    Kernel(Kernel),
}
