//! The order of products, and what mistakes in them are told.

use einsummable::{DType, Tensor, trace};

fn x(shape: &[usize]) -> Tensor {
    Tensor::input(&format!("x{shape:?}"), shape, DType::F32)
}

/// The shapes of the products on the way, by the cheapest order.
#[test]
fn chains_are_multiplied_in_the_cheapest_order() {
    let check = |tensor: &Tensor, expected: &[&[usize]]| {
        let graph = trace(&[("out", tensor)]).expect("well formed").graph;
        let products: Vec<Vec<usize>> =
            graph.ids().filter(|&id| !graph.node(id).inputs.is_empty()).map(|id| graph.ty(id).shape.clone()).collect();
        assert_eq!(products, expected, "{tensor:?}");
    };
    // Case E5: 200 thousand multiplications against 20 million.
    let (thin, wide) = (x(&[10, 1000]), x(&[1000, 10]));
    check(&Tensor::einsum("ab,bc,cd->ad", &[&thin, &wide, &thin]), &[&[10, 10], &[10, 1000]]);
    check(&Tensor::multi_dot(&[&wide, &thin, &wide]), &[&[10, 10], &[1000, 10]]);
    check(&Tensor::einsum("ab,bc,c->a", &[&wide, &thin, &x(&[1000])]), &[&[10], &[1000]]);
    // What one operand alone has is summed before it is multiplied, and an axis of one is no axis of a product.
    check(&Tensor::einsum("ab,bc->c", &[&x(&[50, 4]), &x(&[4, 6])]), &[&[4], &[6]]);
    check(&Tensor::einsum("ab,bc->c", &[&x(&[50, 1]), &x(&[4, 6])]), &[&[], &[6]]);
}

#[test]
fn mistakes_are_told() {
    let check = |tensor: &Tensor, message: &str| {
        assert_eq!(tensor.check().expect_err(message).to_string(), message);
    };
    let (a, b, v) = (x(&[2, 3]), x(&[4, 5]), x(&[7]));
    check(&a.mm(&b), "mm of [2, 3], [4, 5]: axis -1 of the first is 3 long, axis -2 of the second 4");
    check(&a.mm(&v), "mm of [2, 3], [7]: operand 1 must have 2 axes, not 1");
    check(
        &x(&[2, 3, 4]).bmm(&x(&[3, 4, 5])),
        "bmm of [2, 3, 4], [3, 4, 5]: both must have one number of matrices on axis 0; use `matmul`",
    );
    check(&v.dot(&x(&[6])), "dot of [7], [6]: axis -1 of the first is 7 long, axis -1 of the second 6");
    check(
        &a.tensordot(&b, &[1], &[0]),
        "tensordot of [2, 3], [4, 5]: axis 1 of the first is 3 long, axis 0 of the second 4",
    );
    check(
        &a.tensordot(&b, &[0, 1], &[0]),
        "tensordot of [2, 3], [4, 5]: axes [0, 1] and [0]: as many of one as of the other are expected",
    );
    check(&a.tensordot(&a, &[0, 0], &[0, 1]), "tensordot of [2, 3], [2, 3]: axis 0 is named twice");
    check(
        &x(&[2, 2, 5]).addmm(&a, &x(&[3, 5]), 1.0, 1.0),
        "addmm of [2, 2, 5], [2, 5]: what is added must broadcast to the product",
    );
    let whole = Tensor::input("whole", [2, 2], DType::I64);
    check(
        &whole.addmm(&whole, &whole, 0.5, 1.0),
        "addmm of i64: integers are multiplied by whole numbers only; convert with `.to`",
    );
    check(&a.linear(&x(&[2, 3, 4]), None), "linear of [2, 3, 4]: the weight must have 1 or 2 axes, not 3");
    check(&a.linear(&b, None), "linear of [2, 3], [5, 4]: axis -1 of the first is 3 long, axis -2 of the second 5");
    check(&a.matrix_power(2), "matrix_power of [2, 3]: a matrix of 2 by 3 is not square");
    check(&a.cross(&a, 0), "cross of [2, 3]: axis 0 is 2 long, not 3");
    check(&a.cdist(&b, 2.0), "cdist of [2, 3], [4, 5]: rows are 3 long in the first and 5 in the second");
    check(&a.cdist(&a, -1.0), "cdist of [2, 3], [2, 3]: p is -1, which is below 0 or no number");
    check(&Tensor::multi_dot(&[&a]), "multi_dot of 1 matrices: takes from 2 to 25");
    check(
        &Tensor::multi_dot(&[&a, &v, &b]),
        "multi_dot of [7]: needs matrices, of which the first and the last may be vectors",
    );
    check(
        &Tensor::einsum("ii", &[&a]),
        "einsum `ii`: letter `i` is 2 and 3 long in operand 0, of which it is the diagonal",
    );
    check(&Tensor::einsum("ij->ik", &[&a]), "einsum `ij->ik`: letter `k` of the output is in no operand");
    check(&Tensor::einsum("i.j", &[&a]), "einsum `i.j`: operand 0 has shape [2, 3], but `i.j` names 3 axes");
}
