//! Comparisons, logic and choices by a condition.

use super::{Args, second};
use einsummable::Tensor;

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let other = || second(args, x, 1);
    Some(vec![match operation {
        "lt" => x[0].lt(other()),
        "le" => x[0].le(other()),
        "gt" => x[0].gt(other()),
        "ge" => x[0].ge(other()),
        "eq" => x[0].eq(other()),
        "ne" => x[0].ne(other()),
        "logical_and" => x[0].logical_and(&x[1]),
        "logical_or" => x[0].logical_or(&x[1]),
        "logical_xor" => x[0].logical_xor(&x[1]),
        "logical_not" => x[0].logical_not(),
        "where_" => x[1].where_(&x[0], second(args, x, 2)),
        "masked_fill" => x[0].masked_fill(&x[1], second(args, x, 2)),
        "choose" => {
            let given = |n: usize, name: &str| if args.has(name) { args.operand(name) } else { (&x[n]).into() };
            x[0].choose(given(1, "yes"), given(x.len() - 1, "no"))
        }
        _ => return None,
    }])
}
