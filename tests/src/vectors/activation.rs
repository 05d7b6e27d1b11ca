//! Activation functions.

use super::Args;
use einsummable::Tensor;

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let number = |name: &str| args.number(name);
    Some(vec![match operation {
        "relu6" => x[0].relu6(),
        "leaky_relu" => x[0].leaky_relu(number("slope")),
        "prelu" => x[0].prelu(&x[1]),
        "elu" => x[0].elu(number("alpha")),
        "selu" => x[0].selu(),
        "celu" => x[0].celu(number("alpha")),
        "mish" => x[0].mish(),
        "softplus" => x[0].softplus(number("beta"), number("threshold")),
        "logsigmoid" => x[0].logsigmoid(),
        "softsign" => x[0].softsign(),
        "tanhshrink" => x[0].tanhshrink(),
        "softshrink" => x[0].softshrink(number("lambd")),
        "hardshrink" => x[0].hardshrink(number("lambd")),
        "threshold" => x[0].threshold(number("threshold"), number("value")),
        "hardtanh" => x[0].hardtanh(number("min"), number("max")),
        "hardsigmoid" => x[0].hardsigmoid(),
        "hardswish" => x[0].hardswish(),
        "glu" => x[0].glu(args.int("axis")),
        _ => return None,
    }])
}
