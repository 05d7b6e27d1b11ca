//! Arithmetic of two or three tensors or numbers.

use super::{Draw, Drawn, Elements, Operation, rounded};
use ein_ir::dtype::DType;
use einsummable::{Operand, Rounding, Tensor};

/// Two tensors of any types that broadcast, or a tensor and a number.
fn any(d: &mut Draw, f: fn(&Tensor, Operand) -> Tensor) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let (a, b) = (d.any(), d.any());
    let x = d.input(&left, a);
    let other = operand(d, &right, b);
    let y = f(&x, other);
    let within = rounded(y.dtype());
    Drawn::within(y, within)
}

/// As [`any`], without bools.
fn numbers(d: &mut Draw, f: fn(&Tensor, Operand) -> Tensor) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let (a, b) = (d.number(), d.number());
    let x = d.input(&left, a);
    let other = operand(d, &right, b);
    let y = f(&x, other);
    let within = rounded(y.dtype());
    Drawn::within(y, within)
}

/// As [`any`], the second finite and not 0.
fn divided(d: &mut Draw, f: fn(&Tensor, Operand) -> Tensor) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let (a, b) = (d.number(), d.number());
    let x = d.finite(&left, a);
    let divisor = d.of(Elements::Integers, &right, b);
    let y = f(&x, Operand::Tensor(divisor.where_(&divisor.ne(0), 2)));
    let within = rounded(y.dtype());
    Drawn::within(y, within)
}

/// Two tensors of floats.
fn floats(d: &mut Draw, f: fn(&Tensor, &Tensor) -> Tensor) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let (a, b) = (d.float(), d.float());
    let (x, y) = (d.input(&left, a), d.input(&right, b));
    let y = f(&x, &y);
    let within = rounded(y.dtype());
    Drawn::within(y, within)
}

/// A tensor of this shape and type, or a number.
fn operand(d: &mut Draw, shape: &[usize], dtype: DType) -> Operand {
    match d.rng.range(0, 5) {
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
    let float = dtype.is_float();
    let y = match d.rng.range(0, 6) {
        0 => x.pow(2),
        1 => x.pow(3),
        2 if float => x.pow(0.5),
        3 if float => x.pow(-1.5),
        4 if float => x.pow(-2),
        5 if float => x.pow(d.finite(&right, dtype)),
        _ => x.pow(d.of(Elements::Ties, &right, dtype)),
    };
    let within = rounded(y.dtype());
    Drawn::within(y, within)
}

fn rpow(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.float());
    Drawn::within(d.input(&shape, dtype).rpow(2.5), rounded(dtype))
}

fn clamp(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.number();
    let x = d.input(&shape, dtype);
    let low = d.broadcastable(&shape);
    let y = match d.rng.range(0, 2) {
        0 => x.clamp(1, 2),
        1 => x.clamp(0.5, 1.5),
        _ => x.clamp(d.input(&low, dtype), 1),
    };
    Drawn::exactly(y)
}

fn heaviside(d: &mut Draw) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let dtype = d.number();
    let (x, y) = (d.input(&left, dtype), d.input(&right, dtype));
    Drawn::exactly(x.heaviside(&y))
}

fn lerp(d: &mut Draw) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let dtype = d.float();
    let (x, y) = (d.input(&left, dtype), d.input(&right, dtype));
    let y = if d.rng.one_in(2) { x.lerp(&y, 0.75) } else { x.lerp(&y, d.input(&right, dtype)) };
    Drawn::within(y, rounded(dtype))
}

/// `f(x, a, b, value)` of numbers.
fn three(d: &mut Draw, float: bool, f: fn(&Tensor, &Tensor, &Tensor, f64) -> Tensor) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let dtype = if float { d.float() } else { d.number() };
    let (x, a, b) = (d.input(&left, dtype), d.input(&right, dtype), d.input(&right, dtype));
    let y = f(&x, &a, &b, 2.0);
    let within = rounded(y.dtype());
    Drawn::within(y, within)
}

fn square(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.any());
    Drawn::exactly(d.input(&shape, dtype).square())
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "add", draw: |d| any(d, Tensor::add) },
        Operation { name: "sub", draw: |d| numbers(d, Tensor::sub) },
        Operation { name: "mul", draw: |d| any(d, Tensor::mul) },
        Operation { name: "div", draw: |d| any(d, Tensor::div) },
        Operation { name: "div_rounding trunc", draw: |d| divided(d, |x, y| x.div_rounding(y, Rounding::Trunc)) },
        Operation { name: "div_rounding floor", draw: |d| divided(d, |x, y| x.div_rounding(y, Rounding::Floor)) },
        Operation { name: "floor_divide", draw: |d| divided(d, Tensor::floor_divide) },
        Operation { name: "remainder", draw: |d| divided(d, Tensor::remainder) },
        Operation { name: "fmod", draw: |d| divided(d, Tensor::fmod) },
        Operation { name: "maximum", draw: |d| any(d, Tensor::maximum) },
        Operation { name: "minimum", draw: |d| any(d, Tensor::minimum) },
        Operation { name: "fmax", draw: |d| any(d, Tensor::fmax) },
        Operation { name: "fmin", draw: |d| any(d, Tensor::fmin) },
        Operation { name: "clamp", draw: clamp },
        Operation { name: "clamp_min", draw: |d| numbers(d, Tensor::clamp_min) },
        Operation { name: "clamp_max", draw: |d| numbers(d, Tensor::clamp_max) },
        Operation { name: "pow", draw: pow },
        Operation { name: "rpow", draw: rpow },
        Operation { name: "square", draw: square },
        Operation { name: "atan2", draw: |d| any(d, Tensor::atan2) },
        Operation { name: "copysign", draw: |d| any(d, Tensor::copysign) },
        Operation { name: "hypot", draw: |d| floats(d, |x, y| x.hypot(y)) },
        Operation { name: "logaddexp", draw: |d| floats(d, |x, y| x.logaddexp(y)) },
        Operation { name: "logaddexp2", draw: |d| floats(d, |x, y| x.logaddexp2(y)) },
        Operation { name: "xlogy", draw: |d| any(d, Tensor::xlogy) },
        Operation { name: "heaviside", draw: heaviside },
        Operation { name: "lerp", draw: lerp },
        Operation { name: "addcmul", draw: |d| three(d, false, Tensor::addcmul) },
        Operation { name: "addcdiv", draw: |d| three(d, true, Tensor::addcdiv) },
    ]
}
