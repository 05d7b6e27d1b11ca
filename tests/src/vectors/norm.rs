//! Softmax and norms.

use super::Args;
use einsummable::Tensor;

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let axis = || args.int("axis");
    let eps = || args.number("eps");
    let normalized = || args.sizes("normalized");
    Some(vec![match operation {
        "softmax" => x[0].softmax(axis()),
        "softmin" => x[0].softmin(axis()),
        "log_softmax" => x[0].log_softmax(axis()),
        "normalize" => x[0].normalize(axis(), eps()),
        "layer_norm" => x[0].layer_norm(&normalized(), x.get(1), x.get(2), eps()),
        "rms_norm" => x[0].rms_norm(&normalized(), x.get(1), eps()),
        _ => return None,
    }])
}
