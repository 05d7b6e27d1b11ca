//! Axes moved, parts, repetitions, and padding with elements of the tensor's own.

use super::Args;
use einsummable::{PadMode, Tensor};

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let int = |name: &str| args.int(name);
    let all: Vec<&Tensor> = x.iter().collect();
    let pair = |name: &str| {
        let [a, b] = args.ints(name)[..] else { panic!("two numbers are expected in {args:?}") };
        [a, b]
    };
    Some(vec![match operation {
        "movedim" => x[0].movedim(&args.ints("source"), &args.ints("destination")),
        "moveaxis" => x[0].moveaxis(&args.ints("source"), &args.ints("destination")),
        "swapdims" => x[0].swapdims(int("a"), int("b")),
        "adjoint" => x[0].adjoint(),
        "view_as" => x[0].view_as(&x[1]),
        "dstack" => Tensor::dstack(&all),
        "column_stack" => Tensor::column_stack(&all),
        "atleast_1d" => x[0].atleast_1d(),
        "atleast_2d" => x[0].atleast_2d(),
        "atleast_3d" => x[0].atleast_3d(),
        "swapaxes" => x[0].swapaxes(int("a"), int("b")),
        "unflatten" => x[0].unflatten(int("axis"), &args.ints("sizes")),
        "ravel" => x[0].ravel(),
        "expand_as" => x[0].expand_as(&x[1]),
        "reshape_as" => x[0].reshape_as(&x[1]),
        "broadcast_to" => x[0].broadcast_to(&args.sizes("shape")),
        "rot90" => x[0].rot90(int("k"), pair("axes")),
        "fliplr" => x[0].fliplr(),
        "flipud" => x[0].flipud(),
        "roll" => x[0].roll(&args.ints("shifts"), &args.ints("axes")),
        "diagonal" => x[0].diagonal(int("offset"), int("a"), int("b")),
        "diag_embed" => x[0].diag_embed(int("offset")),
        "diag" => x[0].diag(int("offset")),
        "trace" => x[0].trace(),
        "repeat" => x[0].repeat(&args.sizes("repeats")),
        "tile" => x[0].tile(&args.sizes("repeats")),
        "repeat_interleave" => x[0].repeat_interleave(args.size("repeats"), int("axis")),
        "cat" => Tensor::cat(&all, int("axis")),
        "hstack" => Tensor::hstack(&all),
        "vstack" => Tensor::vstack(&all),
        "split" => return Some(x[0].split(args.size("size"), int("axis"))),
        "split_with_sizes" => return Some(x[0].split_with_sizes(&args.sizes("sizes"), int("axis"))),
        "chunk" => return Some(x[0].chunk(args.size("chunks"), int("axis"))),
        "tensor_split" => return Some(x[0].tensor_split(args.size("sections"), int("axis"))),
        "unbind" => return Some(x[0].unbind(int("axis"))),
        "pad" => {
            let mode = match args.text("mode") {
                "reflect" => PadMode::Reflect,
                "replicate" => PadMode::Replicate,
                "circular" => PadMode::Circular,
                other => panic!("mode `{other}`"),
            };
            let padding: Vec<(i64, i64)> = args.ints("padding").chunks(2).map(|pair| (pair[0], pair[1])).collect();
            x[0].pad(&padding, mode)
        }
        _ => return None,
    }])
}
