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

/// The type of an operation on operands of these `(type, rank)`: `torch.result_type`. A rank-0 tensor
/// decides only when it is of a higher category (bool, integer, float) than every tensor with axes.
pub fn result_type(operands: &[(DType, usize)]) -> DType {
    let fold = |pick: &dyn Fn(usize) -> bool| operands.iter().filter(|o| pick(o.1)).map(|o| o.0).reduce(promote);
    match (fold(&|rank| rank > 0), fold(&|rank| rank == 0)) {
        (Some(with_axes), Some(scalar)) if category(scalar) > category(with_axes) => scalar,
        (Some(with_axes), _) => with_axes,
        (None, Some(scalar)) => scalar,
        (None, None) => DType::F32,
    }
}

/// The type of an operation on a tensor and a Python scalar, whose own type never wins over a tensor of
/// its category: a float scalar makes an integer tensor `F32`, the default type.
pub fn with_scalar(tensor: DType, float: bool) -> DType {
    match (category(tensor), float) {
        (0 | 1, true) => DType::F32,
        (0, false) => DType::I64,
        _ => tensor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType::*;

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
    fn rank_zero_tensors_yield() {
        let check = |operands: &[(DType, usize)], expected| assert_eq!(result_type(operands), expected, "{operands:?}");
        check(&[(F32, 2), (F64, 0)], F32);
        check(&[(BF16, 1), (F32, 0)], BF16);
        check(&[(I64, 1), (F32, 0)], F32);
        check(&[(I32, 1), (I64, 0)], I32);
        check(&[(F32, 0), (F64, 0)], F64);
        check(&[(I64, 3), (BF16, 1)], BF16);
    }
}
