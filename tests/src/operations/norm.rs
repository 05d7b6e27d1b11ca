//! Softmax and norms.

use super::{Draw, Drawn, Operation, rounded};

fn softmax(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(1, 4);
    let shape = d.filled(rank);
    let dtype = d.float();
    let axis = d.axis(rank);
    Drawn::within(d.input(&shape, dtype).softmax(axis), rounded(dtype))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![Operation { name: "softmax", draw: softmax }]
}
