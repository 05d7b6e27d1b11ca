//! Arithmetic of two or three tensors or numbers.

use super::{Args, second};
use einsummable::{Rounding, Tensor};

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let other = || second(args, x, 1);
    Some(vec![match operation {
        "add" => x[0].add(other()),
        "mul" => x[0].mul(other()),
        "div" => x[0].div(other()),
        "div_rounding" if args.text("mode") == "trunc" => x[0].div_rounding(other(), Rounding::Trunc),
        "div_rounding" => x[0].div_rounding(other(), Rounding::Floor),
        "floor_divide" => x[0].floor_divide(other()),
        "remainder" => x[0].remainder(other()),
        "fmod" => x[0].fmod(other()),
        "fmax" => x[0].fmax(other()),
        "fmin" => x[0].fmin(other()),
        "clamp" => x[0].clamp(args.operand("min"), args.operand("max")),
        "clamp_min" => x[0].clamp_min(other()),
        "clamp_max" => x[0].clamp_max(other()),
        "pow" => x[0].pow(other()),
        "rpow" => x[0].rpow(other()),
        "square" => x[0].square(),
        "atan2" => x[0].atan2(other()),
        "copysign" => x[0].copysign(other()),
        "hypot" => x[0].hypot(other()),
        "logaddexp" => x[0].logaddexp(other()),
        "logaddexp2" => x[0].logaddexp2(other()),
        "xlogy" => x[0].xlogy(other()),
        "heaviside" => x[0].heaviside(&x[1]),
        "lerp" => x[0].lerp(&x[1], second(args, x, 2)),
        "addcmul" => x[0].addcmul(&x[1], &x[2], args.operand("value")),
        "addcdiv" => x[0].addcdiv(&x[1], &x[2], args.operand("value")),
        _ => return None,
    }])
}
