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
    use Binary::{Add, Div, Eq, Le, Lt, Max, Min, Mul, Ne, Pow, Rem, Sub};
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
