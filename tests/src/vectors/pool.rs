//! Pools.

use super::Args;
use einsummable::tensor::adaptive::OutputSize;
use einsummable::tensor::window::PerAxis;
use einsummable::{AvgPoolOptions, LpPoolOptions, MaxPoolOptions, Tensor};

fn stride(args: &Args) -> Option<PerAxis> {
    args.has("stride").then(|| args.each("stride", 1))
}

fn largest(args: &Args) -> MaxPoolOptions {
    MaxPoolOptions {
        stride: stride(args),
        padding: args.each("padding", 0),
        dilation: args.each("dilation", 1),
        ceil_mode: args.flag_or("ceil_mode", false),
    }
}

fn mean(args: &Args) -> AvgPoolOptions {
    AvgPoolOptions {
        stride: stride(args),
        padding: args.each("padding", 0),
        ceil_mode: args.flag_or("ceil_mode", false),
        count_include_pad: args.flag_or("count_include_pad", true),
        divisor_override: args.has("divisor_override").then(|| args.int("divisor_override")),
    }
}

fn power(args: &Args) -> LpPoolOptions {
    LpPoolOptions { stride: stride(args), ceil_mode: args.flag_or("ceil_mode", false) }
}

/// The output size of an adaptive pool; -1 keeps an extent.
fn size(args: &Args) -> OutputSize {
    let sizes = args.ints("output_size").into_iter().map(|n| usize::try_from(n).ok());
    OutputSize::from(sizes.collect::<Vec<_>>())
}

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let x = &x[0];
    let kernel = || args.each("kernel_size", 1);
    Some(vec![match operation {
        "max_pool1d" => x.max_pool1d(kernel(), &largest(args)),
        "max_pool2d" => x.max_pool2d(kernel(), &largest(args)),
        "max_pool3d" => x.max_pool3d(kernel(), &largest(args)),
        "avg_pool1d" => x.avg_pool1d(kernel(), &mean(args)),
        "avg_pool2d" => x.avg_pool2d(kernel(), &mean(args)),
        "avg_pool3d" => x.avg_pool3d(kernel(), &mean(args)),
        "lp_pool1d" => x.lp_pool1d(args.number("norm_type"), kernel(), &power(args)),
        "lp_pool2d" => x.lp_pool2d(args.number("norm_type"), kernel(), &power(args)),
        "lp_pool3d" => x.lp_pool3d(args.number("norm_type"), kernel(), &power(args)),
        "adaptive_avg_pool1d" => x.adaptive_avg_pool1d(size(args)),
        "adaptive_avg_pool2d" => x.adaptive_avg_pool2d(size(args)),
        "adaptive_avg_pool3d" => x.adaptive_avg_pool3d(size(args)),
        "adaptive_max_pool1d" => x.adaptive_max_pool1d(size(args)),
        "adaptive_max_pool2d" => x.adaptive_max_pool2d(size(args)),
        "adaptive_max_pool3d" => x.adaptive_max_pool3d(size(args)),
        _ => return None,
    }])
}
