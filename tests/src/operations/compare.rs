//! Comparisons, logic and choices by a condition.

use super::{Draw, Drawn, Operation};
use ein_ir::dtype::DType;
use einsummable::Tensor;

/// Two broadcast tensors, or a tensor and a number.
fn comparison(d: &mut Draw, tensors: fn(&Tensor, &Tensor) -> Tensor, number: fn(&Tensor, f64) -> Tensor) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let (a, b) = (d.any(), d.any());
    let x = d.input(&left, a);
    let y = if d.rng.one_in(3) { number(&x, d.rng.range(0, 3) as f64 - 1.0) } else { tensors(&x, &d.input(&right, b)) };
    Drawn::exactly(y)
}

/// Two broadcast tensors of any types.
fn logic(d: &mut Draw, f: fn(&Tensor, &Tensor) -> Tensor) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let (a, b) = (d.any(), d.any());
    let x = d.input(&left, a);
    Drawn::exactly(f(&x, &d.input(&right, b)))
}

fn logical_not(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.any();
    Drawn::exactly(d.input(&shape, dtype).logical_not())
}

fn where_(d: &mut Draw) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let (a, b) = (d.any(), d.any());
    let x = d.input(&left, a);
    let condition = d.broadcastable(&left);
    let condition = d.input(&condition, DType::Bool);
    Drawn::exactly(match d.rng.range(0, 3) {
        0 => x.where_(&condition, 2.5),
        1 => x.where_(&condition, 2),
        _ => x.where_(&condition, d.input(&right, b)),
    })
}

fn choose(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let condition = d.input(&shape, DType::Bool);
    let (own, dtype) = (d.broadcastable(&shape), d.any());
    Drawn::exactly(match d.rng.range(0, 2) {
        0 => condition.choose(1.5, 2),
        1 => condition.choose(-1, d.input(&own, dtype)),
        _ => condition.choose(true, d.input(&own, dtype)),
    })
}

fn masked_fill(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.number();
    let x = d.input(&shape, dtype);
    let mask = d.broadcastable(&shape);
    let value = if dtype.is_float() { d.rng.pick(&[f64::NEG_INFINITY, 0.5]) } else { 2.0 };
    Drawn::exactly(x.masked_fill(&d.input(&mask, DType::Bool), value))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "lt", draw: |d| comparison(d, |a, b| a.lt(b), Tensor::lt) },
        Operation { name: "le", draw: |d| comparison(d, |a, b| a.le(b), Tensor::le) },
        Operation { name: "gt", draw: |d| comparison(d, |a, b| a.gt(b), Tensor::gt) },
        Operation { name: "ge", draw: |d| comparison(d, |a, b| a.ge(b), Tensor::ge) },
        Operation { name: "eq", draw: |d| comparison(d, |a, b| a.eq(b), Tensor::eq) },
        Operation { name: "ne", draw: |d| comparison(d, |a, b| a.ne(b), Tensor::ne) },
        Operation { name: "logical_and", draw: |d| logic(d, Tensor::logical_and) },
        Operation { name: "logical_or", draw: |d| logic(d, Tensor::logical_or) },
        Operation { name: "logical_xor", draw: |d| logic(d, Tensor::logical_xor) },
        Operation { name: "logical_not", draw: logical_not },
        Operation { name: "where_", draw: where_ },
        Operation { name: "choose", draw: choose },
        Operation { name: "masked_fill", draw: masked_fill },
    ]
}
