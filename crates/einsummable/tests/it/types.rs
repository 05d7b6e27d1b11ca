//! What types functions refuse, and how they say it.

use einsummable::tensor::create::Indexing;
use einsummable::{DType, Rounding, Tensor};

#[test]
fn types_that_are_refused() {
    let check = |tensor: &Tensor, message: &str| {
        assert_eq!(tensor.check().expect_err(message).to_string(), message);
    };
    let x = |dtype| Tensor::input(&format!("x of {dtype}"), [3], dtype);
    let (float, int, bool) = (x(DType::F32), x(DType::I64), x(DType::Bool));
    let no_difference = "bools have no difference; use `^` or `logical_xor`, or `logical_not` to turn a mask";
    check(&(&bool - &int), &format!("sub of bool: {no_difference}"));
    check(&(1 - &bool), &format!("sub of bool: {no_difference}"));
    check(&bool.neg(), "neg of bool: needs numbers, not bools; convert with `.to`");
    check(&bool.abs(), "abs of bool: needs numbers, not bools; convert with `.to`");
    check(&bool.relu(), "relu of bool: needs numbers, not bools; convert with `.to`");
    check(&bool.pow(&bool), "pow of bool, bool: needs numbers, not bools; convert with `.to`");
    check(&bool.remainder(&bool), "remainder of bool, bool: needs numbers, not bools; convert with `.to`");
    check(
        &bool.div_rounding(&bool, Rounding::Floor),
        "div of bool, bool: needs numbers, not bools; convert with `.to`",
    );
    check(&bool.round(), "round of bool: needs numbers, not bools; convert with `.to`");
    check(&int.frac(), "frac of i64: needs floats; convert with `.to`");
    check(&int.hypot(&int), "hypot of i64, i64: needs floats; convert with `.to`");
    check(&int.logaddexp(1), "logaddexp of i64: needs floats; convert with `.to`");
    check(&int.elu(1.0), "elu of i64: needs floats; convert with `.to`");
    check(&(&float & &int), "bitwise_and of f32, i64: needs integers or bools; convert with `.to`");
    check(&!&float, "bitwise_not of f32: needs integers or bools; convert with `.to`");
    check(
        &bool.bitwise_left_shift(&bool),
        "bitwise_left_shift of bool, bool: needs numbers, not bools; convert with `.to`",
    );
    check(&float.lerp(&x(DType::F64), 0.5), "lerp of f32, f64: all operands must have one type; convert with `.to`");
    check(&float.isclose(&int, 0.0, 0.0, false), "isclose of f32, i64: both must have one type; convert with `.to`");
    check(&float.choose(1, 2), "where of f32: the condition must be a bool; compare it, as in `.ne(0)`");
    check(&int.masked_fill(&bool, 0.5), "masked_fill of i64: the value is no number of this type; convert with `.to`");
    check(
        &float.masked_fill(&bool, &float),
        "masked_fill of [3]: the value must be a number or a tensor of rank 0; use `where_`",
    );
    check(&float.one_hot(3), "one_hot of f32: needs class numbers, which are integers; convert with `.to`");
    check(&int.mean(&[], false), "mean of i64: the mean of integers is no integer; convert with `.to` first");
    check(&int.std(&[], 1.0, false), "std of i64: needs floats; convert with `.to` first");
    check(&int.norm(2.0, &[], false), "norm of i64: needs floats; convert with `.to` first");
    check(
        &Tensor::meshgrid(&[&float, &int], Indexing::Ij)[1],
        "meshgrid of i64: all tensors must have one type; convert with `.to`",
    );
}

#[test]
fn shapes_and_numbers_that_are_refused() {
    let check = |tensor: &Tensor, message: &str| {
        assert_eq!(tensor.check().expect_err(message).to_string(), message);
    };
    let x = Tensor::input("x", [2, 3], DType::F32);
    check(&x.glu(1), "glu of [2, 3]: axis 1 is 3 long, which is not even");
    check(
        &x.prelu(&Tensor::input("w", [2], DType::F32)),
        "prelu of [2, 3], [2]: the weight must be one number or one for each of 3 channels on axis 1",
    );
    check(
        &Tensor::arange_step(0.0, 3.0, -1.0, DType::F32),
        "arange from 0 to 3 in steps of -1: the step leads away from the end",
    );
    check(
        &Tensor::arange_step(0.0, 3.0, 0.0, DType::F32),
        "arange from 0 to 3 in steps of 0: needs finite bounds and a step other than 0",
    );
    check(&x.select(0, 0).select(0, 0).tril(0), "tril of []: needs two axes or more");
    check(&Tensor::meshgrid(&[&x], Indexing::Xy)[0], "meshgrid of [2, 3]: takes vectors and numbers only; flatten it");
}
