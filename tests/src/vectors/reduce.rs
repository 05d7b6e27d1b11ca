//! Reductions over axes.

use super::Args;
use einsummable::Tensor;

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let axes = if args.has("axes") { args.ints("axes") } else { vec![] };
    let keepdim = args.has("keepdim") && args.flag("keepdim");
    Some(vec![match operation {
        "sum" => x[0].sum(&axes, keepdim),
        "prod" => x[0].prod(&axes, keepdim),
        "amax" => x[0].amax(&axes, keepdim),
        "amin" => x[0].amin(&axes, keepdim),
        "mean" => x[0].mean(&axes, keepdim),
        "var" => x[0].var(&axes, args.number("correction"), keepdim),
        "any" => x[0].any(&axes, keepdim),
        "all" => x[0].all(&axes, keepdim),
        _ => return None,
    }])
}
