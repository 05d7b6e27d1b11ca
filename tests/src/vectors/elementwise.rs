//! Functions of elements, the arithmetic of two tensors, and tensors made of numbers alone.

use super::{Args, second};
use einsummable::{Gelu, Tensor};

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    Some(vec![match operation {
        "exp" => x[0].exp(),
        "log" => x[0].log(),
        "sqrt" => x[0].sqrt(),
        "rsqrt" => x[0].rsqrt(),
        "reciprocal" => x[0].reciprocal(),
        "sin" => x[0].sin(),
        "cos" => x[0].cos(),
        "tanh" => x[0].tanh(),
        "erf" => x[0].erf(),
        "sigmoid" => x[0].sigmoid(),
        "silu" => x[0].silu(),
        "square" => x[0].square(),
        "floor" => x[0].floor(),
        "neg" => x[0].neg(),
        "abs" => x[0].abs(),
        "relu" => x[0].relu(),
        "gelu" if args.text("approximate") == "tanh" => x[0].gelu(Gelu::Tanh),
        "gelu" => x[0].gelu(Gelu::Exact),
        "add" => x[0].add(second(args, x, 1)),
        "sub" => x[0].sub(second(args, x, 1)),
        "mul" => x[0].mul(second(args, x, 1)),
        "div" => x[0].div(second(args, x, 1)),
        "maximum" => x[0].maximum(second(args, x, 1)),
        "minimum" => x[0].minimum(second(args, x, 1)),
        "pow" => x[0].pow(second(args, x, 1)),
        "clamp" => x[0].clamp(args.operand("min"), args.operand("max")),
        "to" => x[0].to(args.dtype("dtype")),
        "tril" => x[0].tril(args.int("diagonal")),
        "triu" => x[0].triu(args.int("diagonal")),
        "full" => Tensor::full(&args.sizes("shape"), args.number("value"), args.dtype("dtype")),
        "zeros" => Tensor::zeros(&args.sizes("shape"), args.dtype("dtype")),
        "ones" => Tensor::ones(&args.sizes("shape"), args.dtype("dtype")),
        "arange" => Tensor::arange(args.size("end"), args.dtype("dtype")),
        _ => return None,
    }])
}
