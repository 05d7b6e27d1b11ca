//! Comparisons, logic and choices by a condition.

use super::{Draw, Drawn, Operation};
use einsummable::Tensor;

/// Two broadcast tensors, or a tensor and a number.
fn comparison(d: &mut Draw, tensors: fn(&Tensor, &Tensor) -> Tensor, number: fn(&Tensor, f64) -> Tensor) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let (a, b) = (d.any(), d.any());
    let x = d.input(&left, a);
    let y = if d.rng.one_in(3) { number(&x, d.rng.range(0, 3) as f64 - 1.0) } else { tensors(&x, &d.input(&right, b)) };
    Drawn::exactly(y)
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![Operation { name: "lt", draw: |d| comparison(d, |a, b| a.lt(b), Tensor::lt) }]
}
