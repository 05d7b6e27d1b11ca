//! Convolutions and windows as axes.

use super::Args;
use einsummable::{ConvOptions, ConvTransposeOptions, Padding, Tensor, UnfoldOptions};

fn conv(args: &Args) -> ConvOptions {
    let padding = match args.word("padding") {
        Some("same") => Padding::Same,
        Some("valid") => Padding::Valid,
        Some(other) => panic!("padding `{other}`"),
        None => args.each("padding", 0).into(),
    };
    let (stride, dilation) = (args.each("stride", 1), args.each("dilation", 1));
    ConvOptions { stride, padding, dilation, groups: args.size_or("groups", 1) }
}

fn transpose(args: &Args) -> ConvTransposeOptions {
    ConvTransposeOptions {
        stride: args.each("stride", 1),
        padding: args.each("padding", 0),
        output_padding: args.each("output_padding", 0),
        dilation: args.each("dilation", 1),
        groups: args.size_or("groups", 1),
    }
}

fn unfold(args: &Args) -> UnfoldOptions {
    UnfoldOptions {
        dilation: args.each("dilation", 1),
        padding: args.each("padding", 0),
        stride: args.each("stride", 1),
    }
}

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let (first, bias) = (&x[0], x.get(2));
    let kernel = || args.each("kernel_size", 1);
    Some(vec![match operation {
        "conv1d" => first.conv1d(&x[1], bias, &conv(args)),
        "conv2d" => first.conv2d(&x[1], bias, &conv(args)),
        "conv3d" => first.conv3d(&x[1], bias, &conv(args)),
        "conv_transpose1d" => first.conv_transpose1d(&x[1], bias, &transpose(args)),
        "conv_transpose2d" => first.conv_transpose2d(&x[1], bias, &transpose(args)),
        "conv_transpose3d" => first.conv_transpose3d(&x[1], bias, &transpose(args)),
        "unfold" => first.unfold(args.int("axis"), args.size("size"), args.size("step")),
        "im2col" => first.im2col(kernel(), &unfold(args)),
        "col2im" => {
            let [y, x] = args.sizes("output_size")[..] else { panic!("two numbers are expected in {args:?}") };
            first.col2im([y, x], kernel(), &unfold(args))
        }
        _ => return None,
    }])
}
