//! Reductions.

use super::{Draw, Drawn, Operation};

fn sum(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.any();
    let axes = d.axes(shape.len());
    let keepdim = d.rng.one_in(2);
    let y = d.input(&shape, dtype).sum(&axes, keepdim);
    let within = d.sums(dtype);
    Drawn::within(y, within)
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![Operation { name: "sum", draw: sum }]
}
