//! Bits of integers. Bools are integers of one bit.

use super::map::{Kind, pointwise};
use super::{Operand, Tensor};
use ein_ir::dtype::DType;
use ein_ir::expr::Binary;

fn shift(method: &'static str, function: Binary, left: &Tensor, right: &Operand) -> Tensor {
    Tensor::attempt(|| {
        // Of two bools PyTorch has no shift.
        Kind::Numbers.types(method, &[&left.into(), right])?;
        Ok(pointwise(method, Kind::Bits, [&left.into(), right], |[a, b]| a.binary(function, b)))
    })
}

impl Tensor {
    /// The bits that both have.
    pub fn bitwise_and(&self, other: impl Into<Operand>) -> Tensor {
        pointwise("bitwise_and", Kind::Bits, [&self.into(), &other.into()], |[a, b]| a & b)
    }

    /// The bits that one of both has.
    pub fn bitwise_or(&self, other: impl Into<Operand>) -> Tensor {
        pointwise("bitwise_or", Kind::Bits, [&self.into(), &other.into()], |[a, b]| a | b)
    }

    /// The bits that exactly one of both has.
    pub fn bitwise_xor(&self, other: impl Into<Operand>) -> Tensor {
        pointwise("bitwise_xor", Kind::Bits, [&self.into(), &other.into()], |[a, b]| {
            if a.dtype() == DType::Bool { a.ne(b) } else { a ^ b }
        })
    }

    /// The bits that it has not.
    pub fn bitwise_not(&self) -> Tensor {
        pointwise(
            "bitwise_not",
            Kind::Bits,
            [&self.into()],
            |[x]| {
                if x.dtype() == DType::Bool { !x } else { x ^ -1_i64 }
            },
        )
    }

    /// Every bit `other` places up; what leaves the type is gone.
    pub fn bitwise_left_shift(&self, other: impl Into<Operand>) -> Tensor {
        shift("bitwise_left_shift", Binary::Shl, self, &other.into())
    }

    /// Every bit `other` places down; the sign stays.
    pub fn bitwise_right_shift(&self, other: impl Into<Operand>) -> Tensor {
        shift("bitwise_right_shift", Binary::Shr, self, &other.into())
    }
}
