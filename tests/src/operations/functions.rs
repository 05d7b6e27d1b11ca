//! Functions of one tensor's elements.

use super::{Draw, Drawn, Operation, rounded};
use ein_ir::dtype::DType;
use einsummable::Tensor;

/// A function that works in floats; integers and bools give `F32`.
fn float(d: &mut Draw, f: fn(&Tensor) -> Tensor) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.any();
    let y = f(&d.input(&shape, dtype));
    let within = rounded(y.dtype());
    Drawn::within(y, within)
}

/// A function of floats alone.
fn floats(d: &mut Draw, f: fn(&Tensor) -> Tensor) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.float();
    Drawn::within(f(&d.input(&shape, dtype)), rounded(dtype))
}

/// A function of numbers that rounds nothing.
fn exact(d: &mut Draw, f: fn(&Tensor) -> Tensor) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.number();
    Drawn::exactly(f(&d.input(&shape, dtype)))
}

/// A function of any type that rounds nothing.
fn any(d: &mut Draw, f: fn(&Tensor) -> Tensor) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.any();
    Drawn::exactly(f(&d.input(&shape, dtype)))
}

fn isclose(d: &mut Draw) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let dtype = d.number();
    let (x, y) = (d.input(&left, dtype), d.input(&right, dtype));
    Drawn::exactly(x.isclose(&y, 0.25, 0.5, d.rng.one_in(2)))
}

fn nan_to_num(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.number();
    let high = d.rng.one_in(2).then_some(9.0);
    Drawn::exactly(d.input(&shape, dtype).nan_to_num(0.5, high, None))
}

fn to(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let (from, to) = (d.any(), d.any());
    // What a NaN or an infinity becomes as an integer is no matter of the language.
    let x = if to.is_float() || to == DType::Bool { d.input(&shape, from) } else { d.finite(&shape, from) };
    Drawn::exactly(x.to(to))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "to", draw: to },
        Operation { name: "exp", draw: |d| float(d, Tensor::exp) },
        Operation { name: "exp2", draw: |d| float(d, Tensor::exp2) },
        Operation { name: "expm1", draw: |d| float(d, Tensor::expm1) },
        Operation { name: "log", draw: |d| float(d, Tensor::log) },
        Operation { name: "log2", draw: |d| float(d, Tensor::log2) },
        Operation { name: "log10", draw: |d| float(d, Tensor::log10) },
        Operation { name: "log1p", draw: |d| float(d, Tensor::log1p) },
        Operation { name: "sqrt", draw: |d| float(d, Tensor::sqrt) },
        Operation { name: "rsqrt", draw: |d| float(d, Tensor::rsqrt) },
        Operation { name: "reciprocal", draw: |d| float(d, Tensor::reciprocal) },
        Operation { name: "sin", draw: |d| float(d, Tensor::sin) },
        Operation { name: "cos", draw: |d| float(d, Tensor::cos) },
        Operation { name: "tan", draw: |d| float(d, Tensor::tan) },
        Operation { name: "asin", draw: |d| float(d, Tensor::asin) },
        Operation { name: "acos", draw: |d| float(d, Tensor::acos) },
        Operation { name: "atan", draw: |d| float(d, Tensor::atan) },
        Operation { name: "sinh", draw: |d| float(d, Tensor::sinh) },
        Operation { name: "cosh", draw: |d| float(d, Tensor::cosh) },
        Operation { name: "tanh", draw: |d| float(d, Tensor::tanh) },
        Operation { name: "asinh", draw: |d| float(d, Tensor::asinh) },
        Operation { name: "acosh", draw: |d| float(d, Tensor::acosh) },
        Operation { name: "atanh", draw: |d| float(d, Tensor::atanh) },
        Operation { name: "erf", draw: |d| float(d, Tensor::erf) },
        Operation { name: "erfc", draw: |d| float(d, Tensor::erfc) },
        Operation { name: "erfinv", draw: |d| float(d, Tensor::erfinv) },
        Operation { name: "sigmoid", draw: |d| float(d, Tensor::sigmoid) },
        Operation { name: "deg2rad", draw: |d| float(d, Tensor::deg2rad) },
        Operation { name: "rad2deg", draw: |d| float(d, Tensor::rad2deg) },
        Operation { name: "logit", draw: |d| float(d, |x| x.logit(None)) },
        Operation { name: "logit eps", draw: |d| float(d, |x| x.logit(Some(0.125))) },
        Operation { name: "frac", draw: |d| floats(d, Tensor::frac) },
        Operation { name: "round_decimals", draw: |d| floats(d, |x| (x * 4.0).round_decimals(1)) },
        Operation { name: "round_decimals tens", draw: |d| floats(d, |x| (x * 40.0).round_decimals(-1)) },
        Operation { name: "floor", draw: |d| exact(d, Tensor::floor) },
        Operation { name: "ceil", draw: |d| exact(d, Tensor::ceil) },
        Operation { name: "round", draw: |d| exact(d, Tensor::round) },
        Operation { name: "trunc", draw: |d| exact(d, Tensor::trunc) },
        Operation { name: "neg", draw: |d| exact(d, Tensor::neg) },
        Operation { name: "abs", draw: |d| exact(d, Tensor::abs) },
        Operation { name: "nan_to_num", draw: nan_to_num },
        Operation { name: "sign", draw: |d| any(d, Tensor::sign) },
        Operation { name: "sgn", draw: |d| any(d, Tensor::sgn) },
        Operation { name: "signbit", draw: |d| any(d, Tensor::signbit) },
        Operation { name: "isnan", draw: |d| any(d, Tensor::isnan) },
        Operation { name: "isinf", draw: |d| any(d, Tensor::isinf) },
        Operation { name: "isposinf", draw: |d| any(d, Tensor::isposinf) },
        Operation { name: "isneginf", draw: |d| any(d, Tensor::isneginf) },
        Operation { name: "isfinite", draw: |d| any(d, Tensor::isfinite) },
        Operation { name: "isclose", draw: isclose },
    ]
}
