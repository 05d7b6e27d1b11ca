//! Products: `matmul` and `einsum`.

use super::Args;
use einsummable::Tensor;

/// Calls an operation. An einsum of one input repeats it as often as its string has operands.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    Some(vec![match operation {
        "matmul" => x[0].matmul(&x[1]),
        "einsum" => {
            let operands = args.text("spec").matches(',').count() + 1;
            let given = if x.len() == 1 { vec![&x[0]; operands] } else { x.iter().collect() };
            Tensor::einsum(args.text("spec"), &given)
        }
        _ => return None,
    }])
}
