//! Orders along an axis.

use super::Args;
use einsummable::Tensor;

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let both = |(values, indices): (Tensor, Tensor)| vec![values, indices];
    let axis = || args.int("axis");
    let some_axis = || args.has("axis").then(axis);
    Some(match operation {
        "topk" => both(x[0].topk(args.size("k"), axis(), args.flag("largest"))),
        "sort" => both(x[0].sort(axis(), args.flag("descending"))),
        "argsort" => vec![x[0].argsort(axis(), args.flag("descending"))],
        "argmax" => vec![x[0].argmax(some_axis(), args.flag("keepdim"))],
        "argmin" => vec![x[0].argmin(some_axis(), args.flag("keepdim"))],
        "max" => both(x[0].max(axis(), args.flag("keepdim"))),
        "min" => both(x[0].min(axis(), args.flag("keepdim"))),
        "kthvalue" => both(x[0].kthvalue(args.size("k"), axis(), args.flag("keepdim"))),
        "median" => both(x[0].median(axis(), args.flag("keepdim"))),
        _ => return None,
    })
}
