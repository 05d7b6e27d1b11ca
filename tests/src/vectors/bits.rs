//! Bits of integers and bools.

use super::{Args, second};
use einsummable::Tensor;

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let other = || second(args, x, 1);
    Some(vec![match operation {
        "bitwise_and" => x[0].bitwise_and(other()),
        "bitwise_or" => x[0].bitwise_or(other()),
        "bitwise_xor" => x[0].bitwise_xor(other()),
        "bitwise_not" => x[0].bitwise_not(),
        "bitwise_left_shift" => x[0].bitwise_left_shift(other()),
        "bitwise_right_shift" => x[0].bitwise_right_shift(other()),
        _ => return None,
    }])
}
