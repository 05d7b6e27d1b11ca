//! Activation functions.

use super::{Draw, Drawn, Operation, rounded};
use einsummable::{Gelu, Tensor};

fn floats(d: &mut Draw, f: fn(&Tensor) -> Tensor) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.float();
    Drawn::within(f(&d.input(&shape, dtype)), rounded(dtype))
}

/// One that takes integers too, and rounds nothing.
fn numbers(d: &mut Draw, f: fn(&Tensor) -> Tensor) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.number();
    Drawn::exactly(f(&d.input(&shape, dtype)))
}

fn prelu(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(1), d.float());
    let channels = if shape.len() > 1 && d.rng.one_in(2) { shape[1] } else { 1 };
    let (x, weight) = (d.input(&shape, dtype), d.finite(&[channels], dtype));
    Drawn::within(x.prelu(&weight), rounded(dtype))
}

fn glu(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(1, 4);
    let mut shape = d.shape(rank);
    let axis = d.axis(rank);
    shape[axis.rem_euclid(rank as i64) as usize] *= 2;
    let dtype = d.float();
    Drawn::within(d.input(&shape, dtype).glu(axis), rounded(dtype))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "relu", draw: |d| numbers(d, Tensor::relu) },
        Operation { name: "relu6", draw: |d| numbers(d, |x| (x * 4).relu6()) },
        Operation { name: "threshold", draw: |d| numbers(d, |x| x.threshold(1.0, 7.0)) },
        Operation { name: "hardtanh", draw: |d| numbers(d, |x| x.hardtanh(-1.0, 2.0)) },
        Operation { name: "leaky_relu", draw: |d| floats(d, |x| x.leaky_relu(0.01)) },
        Operation { name: "prelu", draw: prelu },
        Operation { name: "elu", draw: |d| floats(d, |x| x.elu(1.5)) },
        Operation { name: "selu", draw: |d| floats(d, Tensor::selu) },
        Operation { name: "celu", draw: |d| floats(d, |x| x.celu(0.75)) },
        Operation { name: "silu", draw: |d| floats(d, Tensor::silu) },
        Operation { name: "gelu", draw: |d| floats(d, |x| x.gelu(Gelu::Exact)) },
        Operation { name: "gelu tanh", draw: |d| floats(d, |x| x.gelu(Gelu::Tanh)) },
        Operation { name: "mish", draw: |d| floats(d, Tensor::mish) },
        Operation { name: "softplus", draw: |d| floats(d, |x| x.softplus(2.0, 3.0)) },
        Operation { name: "logsigmoid", draw: |d| floats(d, Tensor::logsigmoid) },
        Operation { name: "softsign", draw: |d| floats(d, Tensor::softsign) },
        Operation { name: "tanhshrink", draw: |d| floats(d, Tensor::tanhshrink) },
        Operation { name: "softshrink", draw: |d| floats(d, |x| x.softshrink(0.5)) },
        Operation { name: "hardshrink", draw: |d| floats(d, |x| x.hardshrink(1.0)) },
        Operation { name: "hardsigmoid", draw: |d| floats(d, Tensor::hardsigmoid) },
        Operation { name: "hardswish", draw: |d| floats(d, Tensor::hardswish) },
        Operation { name: "glu", draw: glu },
    ]
}
