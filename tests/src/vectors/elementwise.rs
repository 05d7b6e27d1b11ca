//! Functions of elements and the arithmetic of two tensors.

use super::Args;
use einsummable::Tensor;

/// Calls an operation.
pub fn apply(operation: &str, _: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    Some(vec![match operation {
        "exp" => x[0].exp(),
        _ => return None,
    }])
}
