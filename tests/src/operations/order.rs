//! Orders: top k, sorting, the place of the largest.

use super::{Draw, Drawn, Operation};
use einsummable::Tensor;

/// Of a pair of values and indices, which differ where a plan is wrong in one of them only.
fn exactly((values, indices): (Tensor, Tensor)) -> Drawn {
    Drawn { outputs: vec![values, indices], within: 0.0 }
}

/// A tensor with an axis, and the axis.
fn with_axis(d: &mut Draw) -> (Tensor, i64) {
    let (shape, dtype) = (d.any_shape(1), d.any());
    let axis = d.axis(shape.len());
    (d.input(&shape, dtype), axis)
}

/// The same, but the axis has an element.
fn with_filled_axis(d: &mut Draw) -> (Tensor, i64) {
    let rank = d.rng.range(1, 4);
    let (shape, dtype) = (d.filled(rank), d.any());
    let axis = d.axis(rank);
    (d.input(&shape, dtype), axis)
}

fn topk(d: &mut Draw) -> Drawn {
    let (x, axis) = with_axis(d);
    let k = d.rng.range(0, x.size(axis));
    exactly(x.topk(k, axis, d.rng.one_in(2)))
}

fn sort(d: &mut Draw) -> Drawn {
    let (x, axis) = with_axis(d);
    exactly(x.sort(axis, d.rng.one_in(2)))
}

fn place(d: &mut Draw, f: fn(&Tensor, Option<i64>, bool) -> Tensor) -> Drawn {
    let (x, axis) = with_filled_axis(d);
    let axis = (!d.rng.one_in(4)).then_some(axis);
    Drawn::exactly(f(&x, axis, d.rng.one_in(2)))
}

fn extreme(d: &mut Draw, f: fn(&Tensor, i64, bool) -> (Tensor, Tensor)) -> Drawn {
    let (x, axis) = with_filled_axis(d);
    exactly(f(&x, axis, d.rng.one_in(2)))
}

fn kthvalue(d: &mut Draw) -> Drawn {
    let (x, axis) = with_filled_axis(d);
    let k = d.rng.range(1, x.size(axis));
    exactly(x.kthvalue(k, axis, d.rng.one_in(2)))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "topk", draw: topk },
        Operation { name: "sort", draw: sort },
        Operation {
            name: "argsort",
            draw: |d| {
                let (x, axis) = with_axis(d);
                Drawn::exactly(x.argsort(axis, d.rng.one_in(2)))
            },
        },
        Operation { name: "argmax", draw: |d| place(d, Tensor::argmax) },
        Operation { name: "argmin", draw: |d| place(d, Tensor::argmin) },
        Operation { name: "max", draw: |d| extreme(d, Tensor::max) },
        Operation { name: "min", draw: |d| extreme(d, Tensor::min) },
        Operation { name: "kthvalue", draw: kthvalue },
        Operation { name: "median", draw: |d| extreme(d, Tensor::median) },
    ]
}
