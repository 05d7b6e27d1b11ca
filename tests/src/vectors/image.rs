//! Interpolation, shuffles, and norms of channels.

use super::Args;
use einsummable::{InterpolateMode, InterpolateOptions, Tensor};

fn interpolate(args: &Args) -> InterpolateOptions {
    use InterpolateMode::{Area, Bicubic, Bilinear, Linear, Nearest, NearestExact, Trilinear};
    let modes = [Nearest, NearestExact, Linear, Bilinear, Trilinear, Bicubic, Area];
    let name = args.word("mode").unwrap_or("nearest");
    let mode = modes.into_iter().find(|m| m.name() == name).unwrap_or_else(|| panic!("mode `{name}`"));
    let options = if args.has("size") {
        InterpolateOptions::size(args.each("size", 1))
    } else {
        InterpolateOptions::scale_factors(&args.numbers("scale_factor"))
    };
    let recompute = args.flag_or("recompute_scale_factor", false);
    options.mode(mode).align_corners(args.flag_or("align_corners", false)).recompute_scale_factor(recompute)
}

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    Some(vec![match operation {
        "interpolate" => x[0].interpolate(&interpolate(args)),
        "pixel_shuffle" => x[0].pixel_shuffle(args.size("factor")),
        "pixel_unshuffle" => x[0].pixel_unshuffle(args.size("factor")),
        "channel_shuffle" => x[0].channel_shuffle(args.size("groups")),
        "batch_norm" => x[0].batch_norm(&x[1], &x[2], x.get(3), x.get(4), args.number("eps")),
        "group_norm" => x[0].group_norm(args.size("num_groups"), x.get(1), x.get(2), args.number("eps")),
        "instance_norm" => x[0].instance_norm(x.get(1), x.get(2), args.number("eps")),
        "local_response_norm" => {
            let [alpha, beta, k] = ["alpha", "beta", "k"].map(|name| args.number(name));
            x[0].local_response_norm(args.size("size"), alpha, beta, k)
        }
        _ => return None,
    }])
}
