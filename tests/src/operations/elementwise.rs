//! Functions of elements, and the arithmetic of two tensors.

use super::{Draw, Drawn, Operation, rounded};
use einsummable::Tensor;

/// A function of floats; integers give `F32`.
fn function(d: &mut Draw, f: fn(&Tensor) -> Tensor) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.any();
    let y = f(&d.input(&shape, dtype));
    let within = rounded(y.dtype());
    Drawn::within(y, within)
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![Operation { name: "exp", draw: |d| function(d, Tensor::exp) }]
}
