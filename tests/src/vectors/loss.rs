//! Losses.

use super::Args;
use einsummable::{CrossEntropyOptions, Reduction, Tensor};

fn reduction(args: &Args) -> Reduction {
    match if args.has("reduction") { args.text("reduction") } else { "mean" } {
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        _ => Reduction::Mean,
    }
}

fn options(args: &Args, x: &[Tensor]) -> CrossEntropyOptions {
    let mut options = CrossEntropyOptions::new().reduction(reduction(args));
    if let Some(weight) = x.get(2) {
        options = options.weight(weight);
    }
    if args.has("ignore") {
        options = options.ignore_index(args.int("ignore"));
    }
    if args.has("smoothing") { options.label_smoothing(args.number("smoothing")) } else { options }
}

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let (number, reduction) = (|name: &str| args.number(name), || reduction(args));
    Some(vec![match operation {
        "mse_loss" => x[0].mse_loss(&x[1], reduction()),
        "l1_loss" => x[0].l1_loss(&x[1], reduction()),
        "smooth_l1_loss" => x[0].smooth_l1_loss(&x[1], number("beta"), reduction()),
        "huber_loss" => x[0].huber_loss(&x[1], number("delta"), reduction()),
        "binary_cross_entropy" => x[0].binary_cross_entropy(&x[1], x.get(2), reduction()),
        "binary_cross_entropy_with_logits" => {
            x[0].binary_cross_entropy_with_logits(&x[1], x.get(2), x.get(3), reduction())
        }
        "kl_div" => x[0].kl_div(&x[1], args.flag("log_target"), reduction()),
        "cross_entropy" => x[0].cross_entropy(&x[1], &options(args, x)),
        "nll_loss" => x[0].nll_loss(&x[1], &options(args, x)),
        "cosine_similarity" => x[0].cosine_similarity(&x[1], args.int("axis"), number("eps")),
        "pairwise_distance" => x[0].pairwise_distance(&x[1], number("p"), number("eps"), args.flag("keepdim")),
        _ => return None,
    }])
}
