//! Tensors made of numbers and indices alone.

use super::Args;
use einsummable::Tensor;
use einsummable::tensor::create::Indexing;

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let (number, dtype) = (|name: &str| args.number(name), || args.dtype("dtype"));
    Some(vec![match operation {
        "arange_step" => Tensor::arange_step(number("start"), number("end"), number("step"), dtype()),
        "linspace" => Tensor::linspace(number("start"), number("end"), args.size("steps"), dtype()),
        "eye" => Tensor::eye(args.size("rows"), args.size("columns"), dtype()),
        "one_hot" => x[0].one_hot(args.size("classes")),
        "full_like" => x[0].full_like(number("value")),
        "zeros_like" => x[0].zeros_like(),
        "ones_like" => x[0].ones_like(),
        "meshgrid" => {
            let indexing = if args.text("indexing") == "ij" { Indexing::Ij } else { Indexing::Xy };
            return Some(Tensor::meshgrid(&x.iter().collect::<Vec<_>>(), indexing));
        }
        _ => return None,
    }])
}
