//! Gathers and scatters.

use super::Args;
use einsummable::{Reduce, Tensor};

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let axis = || args.int("axis");
    Some(vec![match operation {
        "gather" => x[0].gather(axis(), &x[1]),
        "take_along_dim" => x[0].take_along_dim(&x[1], axis()),
        "index_select" => x[0].index_select(axis(), &x[1]),
        "take" => x[0].take(&x[1]),
        "index_add" => x[0].index_add(axis(), &x[1], &x[2], args.number("alpha")),
        "index_fill" => x[0].index_fill(axis(), &x[1], args.number("value")),
        "index_copy" => x[0].index_copy(axis(), &x[1], &x[2]),
        "scatter" => x[0].scatter(axis(), &x[1], &x[2]),
        "scatter_value" => x[0].scatter_value(axis(), &x[1], args.number("value")),
        "scatter_add" => x[0].scatter_add(axis(), &x[1], &x[2]),
        "scatter_reduce" => {
            let reduce = match args.text("reduce") {
                "sum" => Reduce::Sum,
                "prod" => Reduce::Prod,
                "mean" => Reduce::Mean,
                "amax" => Reduce::Amax,
                "amin" => Reduce::Amin,
                other => panic!("`{other}`"),
            };
            x[0].scatter_reduce(axis(), &x[1], &x[2], reduce, args.flag("include_self"))
        }
        "bincount" => x[0].bincount(None, args.size("length")),
        _ => return None,
    }])
}
