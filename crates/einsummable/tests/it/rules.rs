//! Shapes that operations give and mistakes that they answer, as `PyTorch` does.

use super::{c, count};
use ein_ir::op::Op;
use einsummable::nn::{LayerNorm, Linear, Module, RMSNorm, Scope, Sequential, SiLU};
use einsummable::{
    AttentionOptions, DType, Dense, Gelu, MaxPoolOptions, PadMode, Tensor, TensorError, UnfoldOptions, trace,
};

fn x(shape: &[usize]) -> Tensor {
    Tensor::input("x", shape, DType::F32)
}

#[test]
fn matmul_has_pytorchs_shapes() {
    let check = |a: &[usize], b: &[usize], expected: &[usize]| {
        let product = x(a).matmul(&Tensor::input("y", b, DType::F32));
        product.check().unwrap_or_else(|e| panic!("{a:?} {b:?}: {e}"));
        assert_eq!(product.shape(), expected, "{a:?} {b:?}");
        trace(&[("out", &product)]).unwrap();
    };
    check(&[3], &[3], &[]);
    check(&[3], &[3, 4], &[4]);
    check(&[2, 3], &[3], &[2]);
    check(&[2, 3], &[3, 4], &[2, 4]);
    check(&[5, 2, 3], &[3], &[5, 2]);
    check(&[3], &[5, 3, 4], &[5, 4]);
    check(&[5, 2, 3], &[3, 4], &[5, 2, 4]);
    check(&[2, 3], &[5, 3, 4], &[5, 2, 4]);
    check(&[5, 2, 3], &[5, 3, 4], &[5, 2, 4]);
    check(&[1, 2, 3], &[5, 3, 4], &[5, 2, 4]);
    check(&[7, 1, 2, 3], &[5, 3, 4], &[7, 5, 2, 4]);
    check(&[6, 1, 2, 3], &[1, 5, 3, 4], &[6, 5, 2, 4]);
    check(&[1, 2, 1], &[1, 1, 4], &[1, 2, 4]);
    check(&[0, 3], &[3, 4], &[0, 4]);
}

#[test]
fn shapes_broadcast_as_in_pytorch() {
    let check = |a: &[usize], b: &[usize], expected: Option<&[usize]>| {
        let sum = x(a).add(Tensor::input("y", b, DType::F32));
        assert_eq!(sum.check().ok().map(|()| sum.shape()), expected, "{a:?} {b:?}");
    };
    check(&[], &[2, 3], Some(&[2, 3]));
    check(&[3], &[2, 3], Some(&[2, 3]));
    check(&[2, 1], &[1, 3], Some(&[2, 3]));
    check(&[5, 1, 4, 1], &[3, 1, 1], Some(&[5, 3, 4, 1]));
    check(&[0], &[1], Some(&[0]));
    check(&[2], &[3], None);
    check(&[2, 1], &[8, 4, 3], None);
    check(&[0], &[2], None);
}

#[test]
fn mistakes_name_the_culprit() {
    let check = |tensor: &Tensor, parts: &[&str]| {
        let message = tensor.check().expect_err(&format!("{tensor:?}")).to_string();
        for part in parts {
            assert!(message.contains(part), "`{part}` in: {message}");
        }
    };
    let t = x(&[2, 3]);
    check(&(&t + &c(&[2], &[0., 0.])), &["add", "[2, 3] and [2]", "axis 1 from the right is 3 long in one and 2"]);
    check(&t.matmul(&t), &["matmul", "[2, 3], [2, 3]", "3 long", "2"]);
    check(&t.matmul(&c(&[], &[1.])), &["matmul", "need an axis"]);
    check(&t.matmul(&Tensor::input("i", [3, 2], DType::I64)), &["matmul", "f32, i64", "`.to`"]);
    check(&t.sum(&[2], false), &["sum", "axis 2", "[2, 3]"]);
    check(&t.sum(&[0, -2], false), &["sum", "axis -2 is named twice"]);
    check(&t.reshape(&[4, -1]), &["reshape", "6 elements", "axis 1"]);
    check(&t.reshape(&[-1, -1]), &["reshape", "more than one"]);
    check(&t.reshape(&[i64::MAX, i64::MAX]), &["reshape", "too many elements"]);
    check(&t.unsqueeze(0).expand(&[i64::MAX, 2, 3]), &["expand", "addressed"]);
    check(&t.reshape(&[7]), &["reshape", "6 elements"]);
    check(&t.transpose(0, 2), &["transpose", "axis 2"]);
    check(&t.permute(&[0, 0]), &["permute", "[0, 0]"]);
    check(&t.permute(&[0]), &["permute", "[0]"]);
    check(&t.narrow(1, 2, 2), &["narrow", "[2, 3]", "axis 1"]);
    check(&t.narrow(1, 4, 0), &["narrow", "[2, 3]", "index 4 of axis 1", "3 long"]);
    check(&c(&[], &[1.]).select(0, 0), &["select", "axis 0", "shape []", "it has no axes"]);
    check(&c(&[], &[1.]).sum(&[1], false), &["sum", "axis 1", "it has no axes"]);
    check(&t.col2im([usize::MAX; 2], 2, &UnfoldOptions::new()), &["col2im", "[2, 3]", "4 taps"]);
    let far = MaxPoolOptions::new().stride(usize::MAX).ceil_mode(true);
    assert_eq!(x(&[1, 2, 5]).max_pool1d(2, &far).shape(), [1, 2, 1]);
    check(&t.hardtanh(1.0, -1.0), &["hardtanh", "the least, 1, is above the most, -1"]);
    check(&t.softshrink(-0.5), &["softshrink", "lambda is -0.5", "0 or more"]);
    check(&t.celu(0.0), &["celu", "alpha is 0"]);
    let (none, ids) = (x(&[0, 3]), Tensor::input("ids", [2], DType::I64));
    check(&none.index_select(0, &ids), &["index_select", "[0, 3], [2]", "axis 0 is 0 long", "no id"]);
    check(&ids.embedding(&none), &["embedding", "[0, 3]", "axis 0 is 0 long"]);
    check(&none.gather(0, &ids.unsqueeze(1)), &["gather", "[0, 3], [2, 1]", "axis 0 is 0 long"]);
    check(&none.index_add(0, &ids, &t, 1.0), &["index_add", "axis 0 is 0 long"]);
    check(&none.scatter_add(0, &ids.unsqueeze(1), &t), &["scatter_add", "axis 0 is 0 long"]);
    check(&t.select(0, 2), &["select", "index 2", "axis 0", "2 long"]);
    check(&t.expand(&[2, 4]), &["expand", "3", "4"]);
    check(&t.expand(&[-1, 2, 3]), &["expand", "-1", "axis 0"]);
    check(&Tensor::cat(&[&t, &x(&[3, 3])], 1), &["cat", "[3, 3]"]);
    check(&Tensor::cat(&[], 0), &["cat", "one tensor"]);
    check(&t.roll(&[1], &[5]), &["roll", "axis 5"]);
    check(&t.pad(&[(0, 0), (0, 0), (1, 1)], 0.0), &["pad", "3 pairs", "2 axes"]);
    check(&t.pad(&[(i64::MAX, i64::MAX)], PadMode::Replicate), &["addressed"]);
    check(&t.pad(&[(-2, -2)], 0.0), &["pad", "(-2, -2)", "axis 1"]);
    check(&x(&[2, 0]).amax(&[1], false), &["amax", "[2, 0]", "axis 1 is 0 long"]);
    check(&Tensor::input("i", [3], DType::I64).mean(&[], false), &["mean", "i64"]);
    check(&t.where_(&t, 0.0), &["where", "f32", "must be a bool"]);
    check(&t.layer_norm(&[2], None, None, 1e-5), &["layer_norm", "[2, 3]", "[2]"]);
    check(&t.rms_norm(&[3], Some(&x(&[2])), 1e-5), &["rms_norm", "[2]", "shape [3]"]);
    check(&Tensor::einsum("ij,jk->ik", &[&t]), &["`ij,jk->ik`", "2 operands but 1"]);
    check(&Tensor::einsum("ij,jk->ik", &[&t, &t]), &["letter `j` is 3 long", "2 in operand 1"]);
    check(&Tensor::einsum("ijk->i", &[&t]), &["operand 0", "[2, 3]", "3 axes"]);
    check(&Tensor::einsum("ij->ii", &[&t]), &["letter `i` occurs twice"]);
    check(&Tensor::einsum("ij->k", &[&t]), &["letter `k`", "in no operand"]);
    check(&Tensor::einsum("i1->i", &[&t]), &["`1`"]);
    check(&t.embedding(&t), &["embedding", "i64 or i32"]);
    let head = |h| Tensor::input("h", [1, h, 4, 8], DType::F32);
    let default = AttentionOptions::default();
    check(&head(4).scaled_dot_product_attention(&head(2), &head(2), &default), &["4 query heads", "2", "enable_gqa"]);
    let grouped = AttentionOptions { enable_gqa: true, ..default };
    check(&head(3).scaled_dot_product_attention(&head(2), &head(2), &grouped), &["3 query heads", "multiple"]);
    let both = AttentionOptions { mask: Some(&t), is_causal: true, ..default };
    check(&head(2).scaled_dot_product_attention(&head(2), &head(2), &both), &["not both"]);
    let bad = AttentionOptions { mask: Some(&t), ..default };
    check(&head(2).scaled_dot_product_attention(&head(2), &head(2), &bad), &["[2, 3]", "[1, 2, 4, 4]"]);
    let keys = |shape: &[usize], dtype| Tensor::input("keys", shape, dtype);
    for (keys, parts) in [
        (keys(&[2, 4], DType::Bool), ["mask of keys", "[1, 4]"]),
        (keys(&[1, 4], DType::F64), ["mask of keys", "query's type"]),
    ] {
        let padded = AttentionOptions { key_padding_mask: Some(&keys), ..AttentionOptions::default() };
        check(&head(2).scaled_dot_product_attention(&head(2), &head(2), &padded), &parts);
    }
    let window = AttentionOptions { window: Some(2), ..AttentionOptions::default() };
    check(&head(2).scaled_dot_product_attention(&head(2), &head(2), &window), &["window", "is_causal"]);
    let none = AttentionOptions { window: Some(0), is_causal: true, ..AttentionOptions::default() };
    check(&head(2).scaled_dot_product_attention(&head(2), &head(2), &none), &["window of 0"]);
    let cap = AttentionOptions { softcap: Some(-1.0), ..AttentionOptions::default() };
    check(&head(2).scaled_dot_product_attention(&head(2), &head(2), &cap), &["softcap", "-1"]);
}

#[test]
fn the_first_mistake_is_kept() {
    let t = x(&[2, 3]);
    let wrong = t.matmul(&t);
    let later = (wrong.exp().softmax(0) + &t).sum(&[9], false);
    assert_eq!(later.check(), wrong.check());
    assert_eq!(trace(&[("fine", &t), ("out", &later)]).unwrap_err(), wrong.check().unwrap_err());
    assert!(matches!(wrong.check(), Err(TensorError::Shape { operation: "matmul", .. })));
}

#[test]
fn inputs_of_one_name_are_one() {
    let sum = &x(&[2]) + &x(&[2]);
    assert_eq!(trace(&[("out", &sum)]).unwrap().graph.nodes().len(), 2);
    let check = |other: Tensor| {
        let error = trace(&[("out", &(&x(&[2]) + &other))]).unwrap_err();
        assert!(error.to_string().contains("two inputs are named `x`"), "{error}");
    };
    check(x(&[1]));
    check(Tensor::input("x", [2], DType::F64));
    check(Tensor::parameter("x", [2], DType::F32));
    check(Tensor::constant("x", Dense::f32([2], vec![0.0; 2])));
}

#[test]
fn rows_are_few_and_named() {
    // Names of the rows that compute, in order.
    let check = |out: &Tensor, expected: &[&str]| {
        let graph = trace(&[("out", out)]).unwrap().graph;
        let rows = graph.nodes().iter().filter(|n| !matches!(n.op, Op::Input(_)));
        assert_eq!(rows.map(|n| n.name.as_str()).collect::<Vec<_>>(), expected, "{out:?}");
    };
    let scope = Scope::root(DType::F32);
    let fc = Linear::new(&scope.child("fc"), 3, 5, true);
    let t = x(&[2, 3]);
    check(&fc.forward(&t).gelu(Gelu::Exact).named("act"), &["fc.product", "act"]);
    check(&((&t + 1.0) * 2.0).exp().named("e"), &["e"]);
    check(&t.square().sum(&[1], false), &["sum"]);
    check(&(&t + &t.sum(&[1], true)), &["sum", "add"]);
    check(&t.softmax(1), &["softmax_stats", "softmax"]);
    check(&LayerNorm::new(&scope.child("ln"), 3, 1e-5).forward(&t), &["moments", "ln"]);
    check(&RMSNorm::new(&scope.child("norm"), 3, 1e-5).forward(&t), &["sum_of_squares", "norm"]);
    let twice = count(&[3, 3]).matmul(&count(&[3, 3]));
    check(&twice.matmul(&twice), &["matmul", "matmul_2"]);
    // A long chain is one row and does not overflow the stack.
    let mut long = t.clone();
    for _ in 0..300 {
        long = long + 1.0;
    }
    assert_eq!(trace(&[("out", &long)]).unwrap().graph.outputs().len(), 1);
    let mut deep = t.clone();
    for _ in 0..100_000 {
        deep = -deep;
    }
    drop(deep);
}

#[test]
fn modules_have_pytorchs_parameter_names() {
    let scope = Scope::root(DType::F32);
    let net = Sequential::new()
        .append(Linear::new(&scope.child(0), 4, 8, true))
        .append(SiLU)
        .append(LayerNorm::new(&scope.child(2), 8, 1e-5))
        .append(RMSNorm::new(&scope.child(3), 8, 1e-5))
        .append(Linear::new(&scope.child(4), 8, 2, false));
    let names = ["0.weight", "0.bias", "2.weight", "2.bias", "3.weight", "4.weight"];
    assert_eq!(net.parameter_names(), names);
    assert_eq!(net.forward(&x(&[5, 4])).shape(), [5, 2]);
    assert_eq!(net.forward(&x(&[2, 5, 4])).shape(), [2, 5, 2]);
    assert_eq!(net.forward(&x(&[1, 2, 5, 4])).shape(), [1, 2, 5, 2]);
    assert!(net.forward(&x(&[5, 3])).check().unwrap_err().to_string().contains('3'));
}
