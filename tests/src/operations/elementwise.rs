//! Functions of elements, the arithmetic of two tensors, and tensors made of numbers alone.

use super::{Draw, Drawn, Operation, rounded};
use ein_ir::dtype::DType;
use einsummable::{Gelu, Operand, Tensor};

/// A function that works in floats; integers give `F32`.
fn function(d: &mut Draw, f: fn(&Tensor) -> Tensor) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.any();
    let y = f(&d.input(&shape, dtype));
    let within = rounded(y.dtype());
    Drawn::within(y, within)
}

/// A function that is exact in every type of numbers.
fn exact(d: &mut Draw, f: fn(&Tensor) -> Tensor) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.number();
    Drawn::exactly(f(&d.input(&shape, dtype)))
}

/// Arithmetic of two tensors that broadcast, or of a tensor and a number.
fn arithmetic(d: &mut Draw, f: fn(&Tensor, Operand) -> Tensor) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let (a, b) = (d.number(), d.number());
    let x = d.input(&left, a);
    let other = operand(d, &right, b);
    let y = f(&x, other);
    let within = rounded(y.dtype());
    Drawn::within(y, within)
}

/// A tensor of this shape and type, or a number.
fn operand(d: &mut Draw, shape: &[usize], dtype: DType) -> Operand {
    match d.rng.range(0, 4) {
        0 => Operand::Float(d.rng.range(1, 12) as f64 / 4.0),
        1 => Operand::Int(d.rng.range(1, 3) as i64),
        _ => Operand::Tensor(d.input(shape, dtype)),
    }
}

/// A power of floats, or of integers to small whole exponents.
fn pow(d: &mut Draw) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let dtype = d.number();
    let x = d.input(&left, dtype);
    let y = match d.rng.range(0, 4) {
        0 => x.pow(2),
        1 if dtype.is_float() => x.pow(0.5),
        2 if dtype.is_float() => x.pow(-1.5),
        3 if dtype.is_float() => x.pow(d.finite(&right, dtype)),
        _ => x.pow(3),
    };
    let within = rounded(y.dtype());
    Drawn::within(y, within)
}

fn clamp(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.number();
    let x = d.input(&shape, dtype);
    let low = d.broadcastable(&shape);
    let y = match d.rng.range(0, 2) {
        0 => x.clamp(-1, 2),
        1 => x.clamp(0.5, 1.5),
        _ => x.clamp(d.input(&low, dtype), 1),
    };
    Drawn::exactly(y)
}

fn to(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let (from, to) = (d.any(), d.any());
    // What a NaN or an infinity becomes as an integer is no matter of the language.
    let x = if to.is_float() || to == DType::Bool { d.input(&shape, from) } else { d.finite(&shape, from) };
    Drawn::exactly(x.to(to))
}

fn gelu(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.float();
    let form = d.rng.pick(&[Gelu::Exact, Gelu::Tanh]);
    Drawn::within(d.input(&shape, dtype).gelu(form), rounded(dtype))
}

/// A tensor without inputs, beside one with.
fn made(d: &mut Draw, f: fn(&mut Draw, &[usize], DType) -> Tensor) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.number();
    let y = f(d, &shape, dtype);
    let beside = d.broadcastable(y.shape());
    let sum = &y + &d.of(super::Elements::Integers, &beside, dtype);
    Drawn { outputs: vec![y, sum], within: 0.0 }
}

fn triangle(d: &mut Draw, f: fn(&Tensor, i64) -> Tensor) -> Drawn {
    let shape = d.any_shape(2);
    let dtype = d.any();
    let diagonal = d.rng.range(0, 6) as i64 - 3;
    Drawn::exactly(f(&d.input(&shape, dtype), diagonal))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "add", draw: |d| arithmetic(d, Tensor::add) },
        Operation { name: "sub", draw: |d| arithmetic(d, Tensor::sub) },
        Operation { name: "mul", draw: |d| arithmetic(d, Tensor::mul) },
        Operation { name: "div", draw: |d| arithmetic(d, Tensor::div) },
        Operation { name: "maximum", draw: |d| arithmetic(d, Tensor::maximum) },
        Operation { name: "minimum", draw: |d| arithmetic(d, Tensor::minimum) },
        Operation { name: "pow", draw: pow },
        Operation { name: "clamp", draw: clamp },
        Operation { name: "to", draw: to },
        Operation { name: "square", draw: |d| exact(d, Tensor::square) },
        Operation { name: "neg", draw: |d| exact(d, Tensor::neg) },
        Operation { name: "abs", draw: |d| exact(d, Tensor::abs) },
        Operation { name: "relu", draw: |d| exact(d, Tensor::relu) },
        Operation { name: "exp", draw: |d| function(d, Tensor::exp) },
        Operation { name: "log", draw: |d| function(d, Tensor::log) },
        Operation { name: "sqrt", draw: |d| function(d, Tensor::sqrt) },
        Operation { name: "rsqrt", draw: |d| function(d, Tensor::rsqrt) },
        Operation { name: "reciprocal", draw: |d| function(d, Tensor::reciprocal) },
        Operation { name: "sin", draw: |d| function(d, Tensor::sin) },
        Operation { name: "cos", draw: |d| function(d, Tensor::cos) },
        Operation { name: "tanh", draw: |d| function(d, Tensor::tanh) },
        Operation { name: "erf", draw: |d| function(d, Tensor::erf) },
        Operation { name: "sigmoid", draw: |d| function(d, Tensor::sigmoid) },
        Operation { name: "floor", draw: |d| function(d, Tensor::floor) },
        Operation { name: "silu", draw: |d| function(d, Tensor::silu) },
        Operation { name: "gelu", draw: gelu },
        Operation { name: "tril", draw: |d| triangle(d, Tensor::tril) },
        Operation { name: "triu", draw: |d| triangle(d, Tensor::triu) },
        Operation { name: "full", draw: |d| made(d, |_, shape, dtype| Tensor::full(shape, 3.0, dtype)) },
        Operation { name: "zeros", draw: |d| made(d, |_, shape, dtype| Tensor::zeros(shape, dtype)) },
        Operation { name: "ones", draw: |d| made(d, |_, shape, dtype| Tensor::ones(shape, dtype)) },
        Operation { name: "arange", draw: |d| made(d, |d, _, dtype| Tensor::arange(d.extent(), dtype)) },
    ]
}
