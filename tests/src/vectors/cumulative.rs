//! Running folds along an axis.

use super::Args;
use einsummable::{Along, Tensor};

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let both = |(values, indices): (Tensor, Tensor)| vec![values, indices];
    let axis = args.int("axis");
    let along = Along { reverse: args.flag_or("reverse", false), exclusive: args.flag_or("exclusive", false) };
    Some(match operation {
        "cumsum" => vec![x[0].cumsum(axis)],
        "cumprod" => vec![x[0].cumprod(axis)],
        "cumsum_along" => vec![x[0].cumsum_along(axis, along)],
        "cumprod_along" => vec![x[0].cumprod_along(axis, along)],
        "cummax" => both(x[0].cummax(axis)),
        "cummin" => both(x[0].cummin(axis)),
        "logcumsumexp" => vec![x[0].logcumsumexp(axis)],
        "linear_recurrence" => vec![x[0].linear_recurrence(&x[1], axis, x.get(2))],
        "linear_recurrence_last" => vec![x[0].linear_recurrence_last(&x[1], axis, x.get(2))],
        _ => return None,
    })
}
