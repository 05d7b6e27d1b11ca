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

/// A mean and what spreads around it.
fn spread(d: &mut Draw, f: fn(&Tensor, &[i64], f64, bool) -> (Tensor, Tensor)) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.float());
    let axes = d.axes(shape.len());
    let correction = d.rng.pick(&[0.0, 1.0]);
    let (a, b) = f(&d.input(&shape, dtype), &axes, correction, d.rng.one_in(2));
    Drawn { outputs: vec![a, b], within: rounded(dtype) }
}

fn std(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.float());
    let axes = d.axes(shape.len());
    let correction = d.rng.pick(&[0.0, 1.0]);
    Drawn::within(d.input(&shape, dtype).std(&axes, correction, d.rng.one_in(2)), rounded(dtype))
}

fn aminmax(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(0, 4);
    let (shape, dtype) = (d.filled(rank), d.any());
    let axes = d.axes(rank);
    let (least, most) = d.input(&shape, dtype).aminmax(&axes, d.rng.one_in(2));
    Drawn { outputs: vec![least, most], within: 0.0 }
}

fn nansum(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.any());
    let y = over(d, &shape, dtype, Tensor::nansum);
    let within = d.sums(dtype);
    Drawn::within(y, within)
}

fn count_nonzero(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.any());
    let axes = d.axes(shape.len());
    Drawn::exactly(d.input(&shape, dtype).count_nonzero(&axes))
}

fn norm(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(0, 4);
    let (shape, dtype) = (d.filled(rank), d.float());
    let axes = d.axes(rank);
    let p = d.rng.pick(&[0.0, 1.0, 2.0, 3.0, -1.0, 0.5, f64::INFINITY, f64::NEG_INFINITY]);
    Drawn::within(d.input(&shape, dtype).norm(p, &axes, d.rng.one_in(2)), rounded(dtype))
}

fn logsumexp(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.number());
    let y = over(d, &shape, dtype, Tensor::logsumexp);
    let within = rounded(y.dtype());
    Drawn::within(y, within)
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
        Operation { name: "std", draw: std },
        Operation { name: "var_mean", draw: |d| spread(d, Tensor::var_mean) },
        Operation { name: "std_mean", draw: |d| spread(d, Tensor::std_mean) },
        Operation { name: "aminmax", draw: aminmax },
        Operation { name: "nansum", draw: nansum },
        Operation {
            name: "nanmean",
            draw: |d| {
                let (shape, dtype) = (d.any_shape(0), d.float());
                Drawn::within(over(d, &shape, dtype, Tensor::nanmean), rounded(dtype))
            },
        },
        Operation { name: "count_nonzero", draw: count_nonzero },
        Operation { name: "norm", draw: norm },
        Operation { name: "logsumexp", draw: logsumexp },
        Operation { name: "any", draw: |d| logic(d, Tensor::any) },
        Operation { name: "all", draw: |d| logic(d, Tensor::all) },
    ]
}
