//! Values of operations.

use super::{c, constant, count, value};
use einsummable::{AttentionOptions, DType, Gelu, Tensor};

/// Shape, values within 1e-5 (relative above 1), NaN equal to NaN.
fn check(tensor: &Tensor, shape: &[usize], expected: &[f64]) {
    let found = value(tensor);
    assert_eq!(found.shape, shape, "{tensor:?}");
    assert_eq!(found.shape, tensor.shape(), "{tensor:?}: what was promised");
    assert_eq!(found.dtype(), tensor.dtype(), "{tensor:?}: what was promised");
    for (n, (f, e)) in found.to_f64().iter().zip(expected).enumerate() {
        let same = f == e || f.is_nan() && e.is_nan() || (f - e).abs() <= 1e-5 * e.abs().max(1.0);
        assert!(same, "{tensor:?}: element {n} is {f}, not {e}; all: {:?}", found.to_f64());
    }
    assert_eq!(found.len(), expected.len(), "{tensor:?}");
}

fn check_type(tensor: &Tensor, dtype: DType, shape: &[usize], expected: &[f64]) {
    check(tensor, shape, expected);
    assert_eq!(tensor.dtype(), dtype, "{tensor:?}");
}

fn integers(values: &[i64]) -> Tensor {
    constant(DType::I64, &[values.len()], &values.iter().map(|&v| v as f64).collect::<Vec<_>>())
}

#[test]
fn arithmetic_broadcasts() {
    let (row, column) = (c(&[3], &[1., 2., 3.]), c(&[2, 1], &[10., 20.]));
    check(&(&row + &column), &[2, 3], &[11., 12., 13., 21., 22., 23.]);
    check(&(&row - &column), &[2, 3], &[-9., -8., -7., -19., -18., -17.]);
    check(&(&row * &column), &[2, 3], &[10., 20., 30., 20., 40., 60.]);
    check(&(&column / &row), &[2, 3], &[10., 5., 10. / 3., 20., 10., 20. / 3.]);
    check(&(&row + 1.0), &[3], &[2., 3., 4.]);
    check(&(1.0 - &row), &[3], &[0., -1., -2.]);
    check(&(6 / &row), &[3], &[6., 3., 2.]);
    check(&(2.0 * row.clone() * 0.5f32 - 1), &[3], &[0., 1., 2.]);
    check(&-&row, &[3], &[-1., -2., -3.]);
    check(&row.maximum(2.0).minimum(&column), &[2, 3], &[2., 2., 3., 2., 2., 3.]);
    check(&row.clamp(1.5, 2.5), &[3], &[1.5, 2., 2.5]);
    check(&row.pow(2), &[3], &[1., 4., 9.]);
    check(&row.pow(-1.0), &[3], &[1., 0.5, 1. / 3.]);
    check(&c(&[2], &[4., 9.]).pow(0.5), &[2], &[2., 3.]);
    // Broadcast with an empty axis and with a number.
    check(&(&c(&[0, 3], &[]) + &row), &[0, 3], &[]);
    check(&(&c(&[], &[5.]) + &row), &[3], &[6., 7., 8.]);
    check(&(&c(&[7, 1], &[1.; 7]) + &c(&[1, 5], &[2.; 5])).sum(&[], false), &[], &[105.]);
}

#[test]
fn types_promote_as_in_pytorch() {
    let i = integers(&[7, -7, 2]);
    check_type(&(&i + 1), DType::I64, &[3], &[8., -6., 3.]);
    check_type(&(&i + 0.5), DType::F32, &[3], &[7.5, -6.5, 2.5]);
    check_type(&(&i / 2), DType::F32, &[3], &[3.5, -3.5, 1.]);
    check_type(&(&i + &c(&[3], &[0.5; 3])), DType::F32, &[3], &[7.5, -6.5, 2.5]);
    let half = constant(DType::BF16, &[2], &[1., 3.]);
    check_type(&(&half * 0.1), DType::BF16, &[2], &[0.10009765625, 0.30078125]);
    check_type(&(&half + &constant(DType::F16, &[2], &[1., 1.])), DType::F32, &[2], &[2., 4.]);
    check_type(&(&half + &constant(DType::F32, &[], &[1.])), DType::BF16, &[2], &[2., 4.]);
    check_type(&i.gt(2), DType::Bool, &[3], &[1., 0., 0.]);
    check_type(&i.gt(2).sum(&[], false), DType::I64, &[], &[1.]);
    check_type(&i.exp(), DType::F32, &[3], &[7f64.exp(), (-7f64).exp(), 2f64.exp()]);
    check_type(&c(&[2], &[-1.7, 1.7]).to(DType::I64), DType::I64, &[2], &[-1., 1.]);
    check_type(&(&i.ne(2) + &i.ne(7).to(DType::I64)), DType::I64, &[3], &[1., 2., 1.]);
}

#[test]
fn functions_have_their_values() {
    let x = [-2.5, -1.0, 0.0, 0.3, 2.0];
    let t = c(&[5], &x);
    let every = |f: &dyn Fn(f64) -> f64| x.map(f);
    check(&t.exp(), &[5], &every(&f64::exp));
    check(&t.sin(), &[5], &every(&f64::sin));
    check(&t.cos(), &[5], &every(&f64::cos));
    check(&t.tanh(), &[5], &every(&f64::tanh));
    check(&t.abs().sqrt(), &[5], &every(&|v| v.abs().sqrt()));
    check(&(t.abs() + 1.0).rsqrt(), &[5], &every(&|v| 1.0 / (v.abs() + 1.0).sqrt()));
    check(&(t.abs() + 1.0).log(), &[5], &every(&|v| (v.abs() + 1.0).ln()));
    check(&t.sigmoid(), &[5], &every(&|v| 1.0 / (1.0 + (-v).exp())));
    check(&t.silu(), &[5], &every(&|v| v / (1.0 + (-v).exp())));
    check(&t.relu(), &[5], &[0., 0., 0., 0.3, 2.]);
    check(&t.floor(), &[5], &[-3., -1., 0., 0., 2.]);
    check(&(t.abs() + 1.0).reciprocal(), &[5], &every(&|v| 1.0 / (v.abs() + 1.0)));
    // torch.erf and both forms of torch.nn.functional.gelu.
    check(&t.erf(), &[5], &[-0.99959305, -0.84270079, 0., 0.32862676, 0.99532227]);
    check(&t.gelu(Gelu::Exact), &[5], &[-0.01552416, -0.15865526, 0., 0.18537343, 1.95449974]);
    check(&t.gelu(Gelu::Tanh), &[5], &[-0.01508335, -0.15880801, 0., 0.18537140, 1.95459769]);
}

#[test]
fn conditions_choose() {
    let x = c(&[4], &[-1., 0., 2., f64::NAN]);
    check(&x.lt(1.0), &[4], &[1., 1., 0., 0.]);
    check(&x.le(0.0), &[4], &[1., 1., 0., 0.]);
    check(&x.gt(0.0), &[4], &[0., 0., 1., 0.]);
    check(&x.ge(0.0), &[4], &[0., 1., 1., 0.]);
    check(&x.eq(&x), &[4], &[1., 1., 1., 0.]);
    check(&x.ne(&x), &[4], &[0., 0., 0., 1.]);
    check(&x.where_(&x.gt(0.0), 9.0), &[4], &[9., 9., 2., 9.]);
    check(&x.where_(&x.eq(&x), c(&[2, 1], &[5., 6.])), &[2, 4], &[-1., 0., 2., 5., -1., 0., 2., 6.]);
    check(&x.masked_fill(&x.ne(&x), -1.0), &[4], &[-1., 0., 2., -1.]);
    check(&x.gt(-2.0).logical_and(&x.lt(1.0)), &[4], &[1., 1., 0., 0.]);
    check(&x.lt(0.0).logical_or(&x.gt(1.0)).logical_not(), &[4], &[0., 1., 0., 1.]);
    check(&x.maximum(0.5), &[4], &[0.5, 0.5, 2., f64::NAN]);
}

#[test]
fn reductions_fold() {
    let x = count(&[3, 4]);
    check(&x.sum(&[], false), &[], &[66.]);
    check(&x.sum(&[0], false), &[4], &[12., 15., 18., 21.]);
    check(&x.sum(&[-1], true), &[3, 1], &[6., 22., 38.]);
    check(&x.mean(&[], false), &[], &[5.5]);
    check(&x.mean(&[0], false), &[4], &[4., 5., 6., 7.]);
    check(&x.amax(&[1], false), &[3], &[3., 7., 11.]);
    check(&(-&x).amin(&[0, 1], true), &[1, 1], &[-11.]);
    check(&(&x + 1.0).prod(&[1], false), &[3], &[24., 1680., 11880.]);
    check(&x.var(&[1], 1.0, false), &[3], &[5. / 3.; 3]);
    check(&x.var(&[0], 0.0, true), &[1, 4], &[32. / 3.; 4]);
    check(&x.eq(5.0).any(&[1], false), &[3], &[0., 1., 0.]);
    check(&x.ge(4.0).all(&[1], false), &[3], &[0., 1., 1.]);
    check(&c(&[2, 0], &[]).sum(&[1], false), &[2], &[0., 0.]);
    check(&c(&[2, 0], &[]).prod(&[1], false), &[2], &[1., 1.]);
    check(&c(&[2, 0], &[]).mean(&[1], false), &[2], &[f64::NAN; 2]);
    // Accumulated in f32 and rounded once: 256 and eight ones make 264 in bf16.
    let mut parts = [1.0; 9];
    parts[0] = 256.0;
    check(&constant(DType::BF16, &[9], &parts).sum(&[0], false), &[], &[264.]);
}

#[test]
fn softmax_and_norms() {
    let x = c(&[2, 3], &[1., 2., 3., 0., 0., 0.]);
    let e = [0.09003057, 0.24472847, 0.66524096];
    let third = 1. / 3.;
    check(&x.softmax(-1), &[2, 3], &[e[0], e[1], e[2], third, third, third]);
    check(&x.t().softmax(0), &[3, 2], &[e[0], third, e[1], third, e[2], third]);
    check(&x.log_softmax(1), &[2, 3], &[-2.40760596, -1.40760596, -0.40760596, -1.09861229, -1.09861229, -1.09861229]);
    check(&c(&[7], &[1000., 0., -1000., 1001., 3., 2., 1.]).logsumexp(&[0], false), &[], &[1001.3132617]);
    check(&c(&[1, 2], &[f64::NEG_INFINITY, 0.]).softmax(1), &[1, 2], &[0., 1.]);
    let (w, b) = (c(&[3], &[1., 2., 3.]), c(&[3], &[0.5, 0., -0.5]));
    let s = 1.5_f64.sqrt();
    check(&x.layer_norm(&[3], None, None, 0.0).narrow(0, 0, 1), &[1, 3], &[-s, 0., s]);
    check(&x.layer_norm(&[3], Some(&w), Some(&b), 1e-5).narrow(0, 0, 1), &[1, 3], &[-0.72473553, 0., 3.17420658]);
    check(&x.layer_norm(&[3], None, Some(&b), 1e-5).narrow(0, 1, 1), &[1, 3], &[0.5, 0., -0.5]);
    let r = (14f64 / 3.).sqrt();
    check(&x.rms_norm(&[3], None, 0.0).narrow(0, 0, 1), &[1, 3], &[1. / r, 2. / r, 3. / r]);
    check(&x.rms_norm(&[3], Some(&w), 0.0).narrow(0, 0, 1), &[1, 3], &[1. / r, 4. / r, 9. / r]);
    check(&c(&[1, 2], &[3., 4.]).normalize(1, 1e-12), &[1, 2], &[0.6, 0.8]);
    let all: f64 = (0..6).map(|v| (v as f64 - 2.5).powi(2)).sum::<f64>() / 6.;
    let expected: Vec<f64> = (0..6).map(|v| (v as f64 - 2.5) / all.sqrt()).collect();
    check(&count(&[2, 3]).layer_norm(&[2, 3], None, None, 0.0), &[2, 3], &expected);
}

#[test]
fn views_rename() {
    let x = count(&[2, 3]);
    check(&x.reshape(&[3, -1]), &[3, 2], &[0., 1., 2., 3., 4., 5.]);
    check(&x.view(&[-1]), &[6], &[0., 1., 2., 3., 4., 5.]);
    check(&x.transpose(0, -1), &[3, 2], &[0., 3., 1., 4., 2., 5.]);
    check(&count(&[2, 1, 3]).permute(&[2, 0, 1]), &[3, 2, 1], &[0., 3., 1., 4., 2., 5.]);
    check(&x.unsqueeze(-1).squeeze(&[-1]), &[2, 3], &[0., 1., 2., 3., 4., 5.]);
    check(&x.unsqueeze(0).squeeze(&[]), &[2, 3], &[0., 1., 2., 3., 4., 5.]);
    check(&x.unsqueeze(1).expand(&[-1, 2, -1]), &[2, 2, 3], &[0., 1., 2., 0., 1., 2., 3., 4., 5., 3., 4., 5.]);
    check(&c(&[3], &[1., 2., 3.]).expand(&[2, 3]), &[2, 3], &[1., 2., 3., 1., 2., 3.]);
    check(&x.narrow(1, 1, 2), &[2, 2], &[1., 2., 4., 5.]);
    check(&count(&[6]).slice(0, 1, -1, 2), &[2], &[1., 3.]);
    check(&count(&[6]).slice(0, 4, 100, 1), &[2], &[4., 5.]);
    check(&count(&[6]).slice(0, 4, 2, 1), &[0], &[]);
    check(&x.select(0, -1), &[3], &[3., 4., 5.]);
    check(&Tensor::cat(&[&x, &x.narrow(1, 0, 1)], 1), &[2, 4], &[0., 1., 2., 0., 3., 4., 5., 3.]);
    check(&Tensor::stack(&[&x, &-&x], -1).select(2, 1), &[2, 3], &[0., -1., -2., -3., -4., -5.]);
    check(&c(&[2], &[1., 2.]).pad(&[(1, 2)], 9.0), &[5], &[9., 1., 2., 9., 9.]);
    check(&x.pad(&[(-1, 1), (0, 1)], 0.0), &[3, 3], &[1., 2., 0., 4., 5., 0., 0., 0., 0.]);
    check(&count(&[5]).roll(&[2], &[0]), &[5], &[3., 4., 0., 1., 2.]);
    check(&x.roll(&[-1, 1], &[1, 0]), &[2, 3], &[4., 5., 3., 1., 2., 0.]);
    check(&x.flip(&[0, 1]), &[2, 3], &[5., 4., 3., 2., 1., 0.]);
    check(&count(&[2, 3, 2]).flatten(1, -1), &[2, 6], &(0..12).map(f64::from).collect::<Vec<_>>());
    check(&count(&[3, 3]).tril(0), &[3, 3], &[0., 0., 0., 3., 4., 0., 6., 7., 8.]);
    check(&count(&[3, 3]).triu(1), &[3, 3], &[0., 1., 2., 0., 0., 5., 0., 0., 0.]);
    check(&Tensor::arange(4, DType::F32).unsqueeze(1), &[4, 1], &[0., 1., 2., 3.]);
    check(&(&Tensor::ones(&[2], DType::F32) + &Tensor::full(&[2], 3.0, DType::F32)), &[2], &[4., 4.]);
}

#[test]
fn products_and_einsums() {
    let (a, b) = (count(&[2, 3]), count(&[3, 2]));
    check(&a.matmul(&b), &[2, 2], &[10., 13., 28., 40.]);
    check(&a.matmul(&c(&[3], &[1., 1., 2.])), &[2], &[5., 17.]);
    check(&c(&[2], &[1., 2.]).matmul(&a), &[3], &[6., 9., 12.]);
    check(&c(&[3], &[1., 2., 3.]).matmul(&c(&[3], &[4., 5., 6.])), &[], &[32.]);
    check(&c(&[4, 0], &[]).matmul(&c(&[0, 3], &[])), &[4, 3], &[0.; 12]);
    check(&Tensor::einsum("ij,jk->ik", &[&a, &b]), &[2, 2], &[10., 13., 28., 40.]);
    check(&Tensor::einsum("ij , kj -> ki", &[&a, &a]), &[2, 2], &[5., 14., 14., 50.]);
    check(&Tensor::einsum("ij,jk", &[&a, &b]), &[2, 2], &[10., 13., 28., 40.]);
    check(&Tensor::einsum("ba", &[&a]), &[3, 2], &[0., 3., 1., 4., 2., 5.]);
    let square = c(&[3, 3], &(1..10).map(f64::from).collect::<Vec<_>>());
    check(&Tensor::einsum("ii", &[&square]), &[], &[15.]);
    check(&Tensor::einsum("ii->i", &[&square]), &[3], &[1., 5., 9.]);
    check(&Tensor::einsum("i,i->", &[&count(&[5]), &count(&[5])]), &[], &[30.]);
    check(&Tensor::einsum("ij,ij->", &[&a, &a]), &[], &[55.]);
    check(&Tensor::einsum("i,j->ij", &[&count(&[2]), &count(&[3])]), &[2, 3], &[0., 0., 0., 0., 1., 2.]);
    check(
        &Tensor::einsum("...ij,...jk->...ik", &[&count(&[2, 2, 3]), &b]),
        &[2, 2, 2],
        &[10., 13., 28., 40., 46., 67., 64., 94.],
    );
    check(&Tensor::einsum("i...->...", &[&a]), &[3], &[3., 5., 7.]);
    check(&Tensor::einsum("ij,jk,kl->il", &[&a, &b, &a]), &[2, 3], &[39., 62., 85., 120., 188., 256.]);
    check(&Tensor::einsum("ij,jk,k->", &[&a, &b, &c(&[2], &[1., 1.])]), &[], &[91.]);
    check(&Tensor::einsum("ab,b->a", &[&c(&[2, 1], &[1., 2.]), &count(&[3])]), &[2], &[3., 6.]);
}

#[test]
fn attention_and_embedding() {
    let ids = constant(DType::I64, &[2, 2], &[4., 0., 1., 1.]);
    let table = count(&[5, 2]);
    check(&ids.embedding(&table), &[2, 2, 2], &[8., 9., 0., 1., 2., 3., 2., 3.]);
    // One head, keys that are equal: the mean of the values that are seen.
    let (q, k, v) = (c(&[1, 1, 2, 1], &[1., 2.]), c(&[1, 1, 2, 1], &[0., 0.]), c(&[1, 1, 2, 2], &[1., 2., 3., 6.]));
    let options = AttentionOptions::default();
    check(&q.scaled_dot_product_attention(&k, &v, &options), &[1, 1, 2, 2], &[2., 4., 2., 4.]);
    let causal = AttentionOptions { is_causal: true, ..options };
    check(&q.scaled_dot_product_attention(&k, &v, &causal), &[1, 1, 2, 2], &[1., 2., 2., 4.]);
    // More keys than queries: PyTorch's triangle starts at the first key.
    check(&q.narrow(2, 0, 1).scaled_dot_product_attention(&k, &v, &causal), &[1, 1, 1, 2], &[1., 2.]);
    let seen = constant(DType::Bool, &[2, 2], &[0., 1., 1., 0.]);
    let masked = AttentionOptions { mask: Some(&seen), ..options };
    check(&q.scaled_dot_product_attention(&k, &v, &masked), &[1, 1, 2, 2], &[3., 6., 1., 2.]);
    let bias = c(&[1, 2], &[0., 3f64.ln()]);
    let biased = AttentionOptions { mask: Some(&bias), ..options };
    check(&q.scaled_dot_product_attention(&k, &v, &biased), &[1, 1, 2, 2], &[2.5, 5., 2.5, 5.]);
    // Four query heads on two key/value heads; without batch.
    let q = c(&[4, 1, 1], &[1.; 4]);
    let (k, v) = (c(&[2, 1, 1], &[1., 1.]), c(&[2, 1, 1], &[5., 7.]));
    let grouped = AttentionOptions { enable_gqa: true, ..options };
    check(&q.scaled_dot_product_attention(&k, &v, &grouped), &[4, 1, 1], &[5., 5., 7., 7.]);
    // Scores 2 and 0 at scale 1.
    let (q, k, v) = (c(&[1, 2], &[1., 1.]), c(&[2, 2], &[1., 1., 0., 0.]), c(&[2, 1], &[1., 0.]));
    let scaled = AttentionOptions { scale: Some(1.0), ..options };
    check(&q.scaled_dot_product_attention(&k, &v, &scaled), &[1, 1], &[0.88079708]);
}
