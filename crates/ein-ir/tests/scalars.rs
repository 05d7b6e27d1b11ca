//! What every row of an expression means, rounding included.

use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Expr, Literal, Unary};
use ein_ir::scalar::{Evaluator, Scalar, evaluate};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

fn same(a: Scalar, b: Scalar) -> bool {
    match (a, b) {
        (Scalar::F(a), Scalar::F(b)) => a == b || (a.is_nan() && b.is_nan()),
        (Scalar::I(a), Scalar::I(b)) => a == b,
        (Scalar::F(_), Scalar::I(_)) | (Scalar::I(_), Scalar::F(_)) => false,
    }
}

fn value(v: f64, dtype: DType) -> Scalar {
    if dtype.is_float() { Scalar::F(v) } else { Scalar::I(v as i64) }
}

#[test]
fn binary_rows() {
    use Binary::{
        Add, Atan2, BitAnd, BitOr, BitXor, Copysign, Div, Eq, Fmod, Le, Lt, Max, Min, Mul, Ne, Pow, Rem, Shl, Shr, Sub,
    };
    use DType::{BF16, F16, F32, F64, I32, I64, U8};
    let check = |function: Binary, dtype: DType, a: f64, b: f64, expected: f64| {
        let mut e = Expr::new();
        let (x, y) = (e.push_operand(0, dtype), e.push_operand(1, dtype));
        let row = e.binary(function, x, y).expect("one type");
        let found = evaluate(&e, &[value(a, dtype), value(b, dtype)], &[]);
        let expected = value(expected, e.dtype_of(row));
        assert!(same(found, expected), "{function:?} of {dtype} {a} and {b}: {found:?}, not {expected:?}");
    };
    // Each type rounds or wraps in its own way.
    check(Add, F64, 0.1, 0.2, 0.1 + 0.2);
    check(Add, F32, 16_777_216.0, 1.0, 16_777_216.0);
    check(Add, BF16, 256.0, 1.0, 256.0);
    check(Add, F16, 2048.0, 1.0, 2048.0);
    check(Mul, F16, 300.0, 300.0, INF);
    check(Add, I32, 2_147_483_647.0, 1.0, -2_147_483_648.0);
    check(Sub, U8, 3.0, 5.0, 254.0);
    check(Mul, U8, 16.0, 17.0, 16.0);
    // NaN passes through the larger and the smaller, and compares unequal.
    for (a, b) in [(NAN, 1.0), (1.0, NAN)] {
        check(Max, F32, a, b, NAN);
        check(Min, F32, a, b, NAN);
        check(Eq, F32, a, b, 0.0);
        check(Ne, F32, a, b, 1.0);
        check(Le, F32, a, b, 0.0);
    }
    check(Max, F32, -INF, -3.0, -3.0);
    check(Min, I64, -3.0, 2.0, -3.0);
    check(Lt, U8, 3.0, 200.0, 1.0);
    // Division rounds down, remainders have the sign of the divisor, and nothing faults.
    check(Div, I64, -7.0, 2.0, -4.0);
    check(Div, I64, 7.0, -2.0, -4.0);
    check(Div, I64, 6.0, -2.0, -3.0);
    check(Div, I32, -2_147_483_648.0, -1.0, -2_147_483_648.0);
    check(Div, I64, 7.0, 0.0, 0.0);
    check(Rem, I64, -7.0, 3.0, 2.0);
    check(Rem, I64, 7.0, -3.0, -2.0);
    check(Rem, I64, 7.0, 0.0, 0.0);
    check(Div, F32, 1.0, 0.0, INF);
    check(Rem, F32, -7.0, 3.0, 2.0);
    check(Rem, F32, 7.0, -3.0, -2.0);
    check(Rem, F32, 6.0, 3.0, 0.0);
    check(Pow, F32, 2.0, 0.5, 2.0_f64.sqrt() as f32 as f64);
    check(Pow, I64, -2.0, 3.0, -8.0);
    check(Pow, I64, 2.0, -1.0, 0.0);
    check(Pow, I64, -1.0, -3.0, -1.0);
    check(Pow, I32, 2.0, 32.0, 0.0);
    // The other remainder has the sign of the dividend.
    check(Fmod, F32, -7.0, 3.0, -1.0);
    check(Fmod, F32, 7.0, -3.0, 1.0);
    check(Fmod, F64, 7.0, 0.0, NAN);
    check(Fmod, F64, 7.0, INF, 7.0);
    check(Fmod, I64, -7.0, 3.0, -1.0);
    check(Fmod, I64, 7.0, -3.0, 1.0);
    check(Fmod, I32, 7.0, 0.0, 0.0);
    // Signs of zeros and NaN count.
    check(Copysign, F32, 3.0, -0.0, -3.0);
    check(Copysign, F16, -3.0, INF, 3.0);
    check(Copysign, F64, 3.0, -NAN, if NAN.is_sign_negative() { 3.0 } else { -3.0 });
    check(Atan2, F64, 0.0, -0.0, std::f64::consts::PI);
    check(Atan2, F64, -1.0, -1.0, -3.0 * std::f64::consts::FRAC_PI_4);
    check(Atan2, F64, -0.0, 1.0, 0.0);
    // Bits of integers; what is shifted out is gone.
    check(BitAnd, I64, -2.0, 7.0, 6.0);
    check(BitOr, I32, -8.0, 3.0, -5.0);
    check(BitXor, U8, 255.0, 15.0, 240.0);
    check(Shl, U8, 129.0, 1.0, 2.0);
    check(Shl, I32, 1.0, 31.0, -2_147_483_648.0);
    check(Shl, I32, 1.0, 32.0, 0.0);
    check(Shl, I64, 1.0, 64.0, 0.0);
    check(Shl, I64, 1.0, -1.0, 0.0);
    check(Shr, I64, -9.0, 1.0, -5.0);
    check(Shr, I64, -9.0, 64.0, -1.0);
    check(Shr, U8, 200.0, 8.0, 0.0);
    check(Shr, I32, 200.0, -1.0, 0.0);
}

#[test]
fn unary_rows() {
    use DType::{BF16, F32, F64};
    use Unary::{Acosh, Asinh, Atanh, Ceil, Erfc, Erfinv, Exp2, Expm1, Log1p, Log2, Log10, Round, Tan, Trunc};
    let check = |function: Unary, dtype: DType, x: f64, expected: f64| {
        let mut e = Expr::operand(dtype);
        e.unary(function, 0).expect("a float");
        let Scalar::F(found) = evaluate(&e, &[Scalar::F(x)], &[]) else { panic!("a float") };
        let near = (found - expected).abs() <= 2.0 * f64::EPSILON * expected.abs();
        let special = found == expected && found.is_sign_negative() == expected.is_sign_negative();
        assert!(near || special || (found.is_nan() && expected.is_nan()), "{function:?} of {dtype} {x}: {found:e}");
    };
    // Halves go to the even integer, and what is lost below zero is minus zero.
    for (x, expected) in [(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (-2.5, -2.0), (2.51, 3.0)] {
        check(Round, F64, x, expected);
    }
    check(Ceil, F32, -0.5, -0.0);
    check(Trunc, F32, -1.9, -1.0);
    check(Trunc, BF16, INF, INF);
    // Near 0 every digit is kept.
    check(Expm1, F64, 1e-20, 1e-20);
    check(Log1p, F64, 1e-20, 1e-20);
    check(Log1p, F64, -1.0, -INF);
    check(Exp2, F32, -149.0, 2f64.powi(-149));
    check(Log2, F32, 8.0, 3.0);
    check(Log10, F64, 1000.0, 3.0);
    check(Tan, F64, 1.0, 1.557_407_724_654_902_3);
    check(Asinh, F64, -1e300, -691.468_675_078_773_6);
    check(Acosh, F64, 0.5, NAN);
    check(Acosh, F64, -7000.0, NAN);
    check(Atanh, F64, 1.0, INF);
    check(Erfc, F64, 10.0, 2.088_487_583_762_545e-45);
    // Against 40 digits.
    for (x, expected) in [
        (0.1, 0.088_855_990_494_257_69),
        (0.5, 0.476_936_276_204_469_9),
        (-0.9, -1.163_087_153_676_674),
        (0.999_999, 3.458_910_737_275_499),
        (1e-300, 8.862_269_254_527_58e-301),
        (1.0 - f64::EPSILON / 2.0, 5.863_584_748_755_168),
        (1.0, INF),
        (-0.0, -0.0),
        (1.5, NAN),
        (NAN, NAN),
    ] {
        check(Erfinv, F64, x, expected);
    }
}

#[test]
fn functions_refuse_other_types() {
    let mut e = Expr::new();
    let (float, bool, int) =
        (e.push_operand(0, DType::F32), e.push_operand(1, DType::Bool), e.push_operand(2, DType::I64));
    let mut check = |function: Binary, row: usize, message: &str| {
        assert_eq!(e.binary(function, row, row).expect_err("not of this type").to_string(), message);
    };
    check(Binary::BitXor, float, "`bitxor` is not defined for f32");
    check(Binary::Shl, bool, "`shl` is not defined for bool");
    check(Binary::Atan2, int, "`atan2` is not defined for i64");
    check(Binary::And, int, "`and` is not defined for i64");
    assert_eq!(e.unary(Unary::Round, int).expect_err("an integer").to_string(), "`round` is not defined for i64");
}

#[test]
fn casts() {
    use DType::{BF16, Bool, F16, F32, F64, I32, I64, U8};
    let check = |from: DType, v: f64, to: DType, expected: f64| {
        let mut e = Expr::operand(from);
        e.cast(0, to);
        let found = evaluate(&e, &[value(v, from)], &[]);
        assert!(same(found, value(expected, to)), "{from} {v} to {to}: {found:?}, not {expected}");
    };
    check(F32, -1.9, I64, -1.0);
    check(F32, 3e9, I32, 2_147_483_647.0);
    check(F32, -5.0, U8, 0.0);
    check(F32, 300.0, U8, 255.0);
    check(F64, NAN, I32, 0.0);
    check(F64, NAN, Bool, 1.0);
    check(F32, 0.25, Bool, 1.0);
    check(F32, -0.0, Bool, 0.0);
    check(I64, 300.0, U8, 44.0);
    check(I64, 2_147_483_648.0, I32, -2_147_483_648.0);
    check(I64, 256.0, Bool, 1.0);
    check(I64, 16_777_217.0, F32, 16_777_216.0);
    check(F64, 257.0, BF16, 256.0);
    check(F64, 1e6, F16, INF);
    check(Bool, 1.0, F16, 1.0);
}

/// Rows that are no function of values: constants, indices, selection, and the row that is not rounded.
#[test]
fn other_rows() {
    let mut e = Expr::new();
    let x = e.push_operand(0, DType::F32);
    let (i, j) = (e.index(0), e.index(1));
    let seen = e.binary(Binary::Le, j, i).expect("indices");
    let hidden = e.unary(Unary::Not, seen).expect("a bool");
    let low = e.constant(Literal::Int(-9), DType::F32);
    e.select(hidden, low, x).expect("floats");
    assert_eq!(evaluate(&e, &[Scalar::F(5.0)], &[2, 2]), Scalar::F(5.0));
    assert_eq!(evaluate(&e, &[Scalar::F(5.0)], &[2, 3]), Scalar::F(-9.0));

    let product = Expr::product(2, DType::BF16);
    let at = |exact| Evaluator::new(&product, exact).value(|_| Scalar::F(129.0), |_| 0);
    assert_eq!((at(false), at(true)), (Scalar::F(16640.0), Scalar::F(16641.0)));

    let mut minus = Expr::operand(DType::U8);
    minus.unary(Unary::Neg, 0).expect("an integer");
    assert_eq!(evaluate(&minus, &[Scalar::I(1)], &[]), Scalar::I(255));
}
