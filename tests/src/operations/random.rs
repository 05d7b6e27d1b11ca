//! Random numbers, whose bits no plan may change.

use super::{Draw, Drawn, Operation};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use einsummable::{Operand, Tensor};

/// A number, or a tensor that holds one.
fn seed(d: &mut Draw) -> Operand {
    let number = d.rng.range(0, 1 << 40) as i64;
    if d.rng.one_in(2) { Operand::Int(number) } else { Operand::Tensor(d.given(Dense::i64([], vec![number]))) }
}

/// Draws without other operands.
fn alone(d: &mut Draw, f: fn(&[usize], DType, Operand) -> Tensor) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.float());
    let seed = seed(d);
    Drawn::exactly(f(&shape, dtype, seed))
}

fn like(d: &mut Draw, f: fn(&Tensor, Operand) -> Tensor) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.float());
    let seed = seed(d);
    Drawn::exactly(f(&d.finite(&shape, dtype), seed))
}

fn randint(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.number());
    let seed = seed(d);
    Drawn::exactly(Tensor::randint(-3, 90, &shape, dtype, seed))
}

fn randperm(d: &mut Draw) -> Drawn {
    let n = d.extent();
    let seed = seed(d);
    Drawn::exactly(Tensor::randperm(n, seed))
}

fn multinomial(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(1, 2);
    let mut shape = d.shape(rank);
    shape[rank - 1] = shape[rank - 1].max(2);
    let dtype = d.float();
    let seed = seed(d);
    let weights = d.finite(&shape, dtype).sigmoid();
    let samples = d.rng.range(1, shape[rank - 1]);
    Drawn::exactly(weights.multinomial(samples, d.rng.one_in(2), seed))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "rand", draw: |d| alone(d, Tensor::rand) },
        Operation { name: "rand_like", draw: |d| like(d, Tensor::rand_like) },
        Operation { name: "uniform", draw: |d| alone(d, |shape, t, seed| Tensor::uniform(shape, -1.0, 3.0, t, seed)) },
        Operation { name: "randint", draw: randint },
        Operation { name: "bernoulli", draw: |d| like(d, |x, seed| x.abs().bernoulli(seed)) },
        Operation { name: "dropout", draw: |d| like(d, |x, seed| x.dropout(0.5, seed)) },
        Operation {
            name: "exponential",
            draw: |d| normal(d, |shape, t, seed| Tensor::exponential(shape, 2.0, t, seed)),
        },
        Operation { name: "randperm", draw: randperm },
        Operation { name: "multinomial", draw: multinomial },
        Operation { name: "randn", draw: |d| normal(d, Tensor::randn) },
        Operation { name: "randn_like", draw: |d| normal(d, |shape, t, seed| Tensor::ones(shape, t).randn_like(seed)) },
        Operation { name: "normal", draw: |d| normal(d, |shape, t, seed| Tensor::normal(shape, 2.0, 0.5, t, seed)) },
    ]
}

/// Logarithms and cosines of another library are the reference's: only they may differ.
fn normal(d: &mut Draw, f: fn(&[usize], DType, Operand) -> Tensor) -> Drawn {
    let drawn = alone(d, f);
    let within = super::rounded(drawn.outputs[0].dtype());
    Drawn { within, ..drawn }
}
