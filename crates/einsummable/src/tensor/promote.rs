//! `PyTorch`'s type promotion.

use ein_ir::dtype::DType;

/// Bool below integers below floats.
fn category(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        DType::U8 | DType::I32 | DType::I64 => 1,
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => 2,
    }
}

/// The smallest type that holds both, for two tensors of one rank class: `torch.promote_types`.
pub fn promote(a: DType, b: DType) -> DType {
    if a == b {
        return a;
    }
    if category(a) != category(b) {
        return if category(a) > category(b) { a } else { b };
    }
    match (a, b) {
        // Neither 16-bit float holds the other.
        (DType::BF16, DType::F16) | (DType::F16, DType::BF16) => DType::F32,
        _ if a.bytes() > b.bytes() => a,
        _ => b,
    }
}

/// What an operand is to the type of a result, in falling order of what it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// A tensor with axes.
    Axes,
    /// A tensor of rank 0.
    Scalar,
    /// A plain number: a float counts as `F32`, an integer as `I64`.
    Number,
}

impl Standing {
    /// Of a tensor of this rank.
    pub(crate) fn of(rank: usize) -> Self {
        if rank == 0 { Self::Scalar } else { Self::Axes }
    }
}

/// The type of an operation on these operands: `torch.result_type`. Operands of a lower standing decide only when
/// they are of a higher category (bool, integer, float) than all above.
pub fn result_type(operands: &[(DType, Standing)]) -> DType {
    let of = |standing| operands.iter().filter(|o| o.1 == standing).map(|o| o.0).reduce(promote);
    let below = |above: Option<DType>, below: Option<DType>| match (above, below) {
        (Some(a), Some(b)) if category(b) > category(a) => Some(b),
        (above, below) => above.or(below),
    };
    let tensors = below(of(Standing::Axes), of(Standing::Scalar));
    below(tensors, of(Standing::Number)).unwrap_or(DType::F32)
}

/// The type of an operation on a tensor and a Python scalar, whose own type never wins over a tensor of
/// its category: a float scalar makes an integer tensor `F32`, the default type.
pub fn with_scalar(tensor: DType, float: bool) -> DType {
    let number = if float { DType::F32 } else { DType::I64 };
    result_type(&[(tensor, Standing::Axes), (number, Standing::Number)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType::*;
    use Standing::{Axes, Number, Scalar};

    #[test]
    fn promotion_is_that_of_pytorch() {
        let check = |a, b, expected| {
            assert_eq!(promote(a, b), expected, "{a} {b}");
            assert_eq!(promote(b, a), expected, "{b} {a}");
        };
        check(F32, F64, F64);
        check(F32, BF16, F32);
        check(BF16, F16, F32);
        check(I64, F16, F16);
        check(Bool, U8, U8);
        check(U8, I32, I32);
        check(I32, I64, I64);
        check(Bool, F64, F64);
    }

    #[test]
    fn tensors_with_axes_decide_then_scalars_then_numbers() {
        let check = |operands: &[_], expected| assert_eq!(result_type(operands), expected, "{operands:?}");
        check(&[(F32, Axes), (F64, Scalar)], F32);
        check(&[(BF16, Axes), (F32, Scalar)], BF16);
        check(&[(I64, Axes), (F32, Scalar)], F32);
        check(&[(I64, Axes), (F64, Scalar)], F64);
        check(&[(I32, Axes), (I64, Scalar)], I32);
        check(&[(F32, Scalar), (F64, Scalar)], F64);
        check(&[(I64, Axes), (BF16, Axes)], BF16);
        check(&[(BF16, Scalar), (F32, Number)], BF16);
        check(&[(I32, Scalar), (F32, Number)], F32);
        check(&[(Bool, Axes), (U8, Scalar), (I64, Number)], U8);
        check(&[(Bool, Axes), (I64, Number)], I64);
        check(&[(U8, Axes), (I64, Number)], U8);
        check(&[(Bool, Axes), (Bool, Number)], Bool);
        check(&[(F32, Number), (I64, Number)], F32);
    }
}
