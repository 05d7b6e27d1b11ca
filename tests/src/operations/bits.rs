//! Bits of integers and bools.

use super::{Draw, Drawn, Elements, Operation};
use ein_ir::dtype::DType;
use einsummable::{Operand, Tensor};

fn bits(d: &mut Draw) -> DType {
    if d.rng.one_in(4) { DType::Bool } else { d.integer() }
}

fn two(d: &mut Draw, f: fn(&Tensor, Operand) -> Tensor) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let (a, b) = (bits(d), bits(d));
    let x = d.input(&left, a);
    let other = if d.rng.one_in(4) { Operand::Int(6) } else { Operand::Tensor(d.input(&right, b)) };
    Drawn::exactly(f(&x, other))
}

fn shift(d: &mut Draw, f: fn(&Tensor, Operand) -> Tensor) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let (a, b) = (d.integer(), d.integer());
    let x = d.of(Elements::Integers, &left, a);
    let by = d.of(Elements::Integers, &right, b);
    let by = by * d.rng.pick(&[1, 3, 21]);
    Drawn::exactly(f(&x, Operand::Tensor(by)))
}

fn not(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), bits(d));
    Drawn::exactly(d.input(&shape, dtype).bitwise_not())
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "bitwise_and", draw: |d| two(d, Tensor::bitwise_and) },
        Operation { name: "bitwise_or", draw: |d| two(d, Tensor::bitwise_or) },
        Operation { name: "bitwise_xor", draw: |d| two(d, Tensor::bitwise_xor) },
        Operation { name: "bitwise_not", draw: not },
        Operation { name: "bitwise_left_shift", draw: |d| shift(d, Tensor::bitwise_left_shift) },
        Operation { name: "bitwise_right_shift", draw: |d| shift(d, Tensor::bitwise_right_shift) },
    ]
}
