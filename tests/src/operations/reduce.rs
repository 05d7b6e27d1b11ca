//! Reductions.

use super::{Draw, Drawn, Elements, Operation, rounded};
use ein_ir::dtype::DType;
use einsummable::Tensor;

/// A reduction of any type over some axes.
fn over(d: &mut Draw, shape: &[usize], dtype: DType, f: fn(&Tensor, &[i64], bool) -> Tensor) -> Tensor {
    let axes = d.axes(shape.len());
    let keepdim = d.rng.one_in(2);
    f(&d.input(shape, dtype), &axes, keepdim)
}

fn sum(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.any());
    let y = over(d, &shape, dtype, Tensor::sum);
    let within = d.sums(dtype);
    Drawn::within(y, within)
}

fn prod(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.any());
    let axes = d.axes(shape.len());
    // Products of ones and zeros are exact in any order; of others, few are taken.
    let few = shape.iter().product::<usize>() <= 24;
    let x = if few { d.finite(&shape, dtype) } else { d.of(Elements::Ties, &shape, dtype) };
    let within = if few { rounded(dtype) } else { 0.0 };
    Drawn::within(x.prod(&axes, d.rng.one_in(2)), within)
}

/// The largest or smallest, which nothing has not.
fn extreme(d: &mut Draw, f: fn(&Tensor, &[i64], bool) -> Tensor) -> Drawn {
    let rank = d.rng.range(0, 4);
    let (shape, dtype) = (d.filled(rank), d.any());
    Drawn::exactly(over(d, &shape, dtype, f))
}

fn logic(d: &mut Draw, f: fn(&Tensor, &[i64], bool) -> Tensor) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.any());
    Drawn::exactly(over(d, &shape, dtype, f))
}

fn mean(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.float());
    Drawn::within(over(d, &shape, dtype, Tensor::mean), rounded(dtype))
}

fn var(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.float());
    let axes = d.axes(shape.len());
    let correction = d.rng.pick(&[0.0, 1.0]);
    let x = d.input(&shape, dtype);
    Drawn::within(x.var(&axes, correction, d.rng.one_in(2)), rounded(dtype))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "sum", draw: sum },
        Operation { name: "prod", draw: prod },
        Operation { name: "amax", draw: |d| extreme(d, Tensor::amax) },
        Operation { name: "amin", draw: |d| extreme(d, Tensor::amin) },
        Operation { name: "mean", draw: mean },
        Operation { name: "var", draw: var },
        Operation { name: "any", draw: |d| logic(d, Tensor::any) },
        Operation { name: "all", draw: |d| logic(d, Tensor::all) },
    ]
}
