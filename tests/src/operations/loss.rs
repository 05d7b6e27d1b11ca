//! Losses.

use super::{Draw, Drawn, Elements, Operation, rounded};
use ein_ir::dtype::DType;
use einsummable::{CrossEntropyOptions, Reduction, Tensor};

fn reduction(d: &mut Draw) -> Reduction {
    d.rng.pick(&[Reduction::None, Reduction::Mean, Reduction::Sum])
}

/// A loss of two tensors that broadcast.
fn pair(d: &mut Draw, f: fn(&Tensor, &Tensor, Reduction) -> Tensor) -> Drawn {
    let (left, right) = d.broadcast_pair();
    let dtype = d.float();
    let (x, y) = (d.input(&left, dtype), d.input(&right, dtype));
    Drawn::within(f(&x, &y, reduction(d)), rounded(dtype))
}

/// A loss of probabilities.
fn probable(d: &mut Draw, f: fn(&mut Draw, &Tensor, &Tensor, Reduction) -> Tensor) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.float());
    let (x, y) = (d.finite(&shape, dtype).sigmoid(), d.finite(&shape, dtype).sigmoid());
    let reduction = reduction(d);
    Drawn::within(f(d, &x, &y, reduction), rounded(dtype))
}

fn options(d: &mut Draw, classes: usize, dtype: DType, smooth: bool) -> CrossEntropyOptions {
    let mut options = CrossEntropyOptions::new().reduction(reduction(d));
    if d.rng.one_in(2) {
        options = options.ignore_index(1);
    }
    if d.rng.one_in(3) {
        options = options.weight(&d.of(Elements::Reals, &[classes], dtype).abs());
    }
    if smooth && d.rng.one_in(2) {
        options = options.label_smoothing(0.25);
    }
    options
}

/// Scores, and numbers of their classes.
fn numbered(d: &mut Draw, f: fn(&Tensor, &Tensor, &CrossEntropyOptions) -> Tensor, smooth: bool) -> Drawn {
    let rank = d.rng.range(1, 4);
    let mut shape = d.shape(rank);
    let axis = usize::from(rank > 1);
    shape[axis] = shape[axis].max(2);
    let dtype = d.float();
    let scores = d.finite(&shape, dtype);
    let classes = shape.remove(axis);
    let target = d.indices(&shape, classes);
    Drawn::within(f(&scores, &target, &options(d, classes, dtype, smooth)), rounded(dtype))
}

fn probabilities(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(1, 4);
    let mut shape = d.shape(rank);
    let axis = usize::from(rank > 1);
    shape[axis] = shape[axis].max(2);
    let dtype = d.float();
    let scores = d.finite(&shape, dtype);
    let target = d.finite(&shape, dtype).softmax(axis as i64);
    Drawn::within(scores.cross_entropy(&target, &options(d, shape[axis], dtype, true)), rounded(dtype))
}

fn logits(d: &mut Draw) -> Drawn {
    let (shape, dtype) = (d.any_shape(1), d.float());
    let (x, y) = (d.finite(&shape, dtype), d.finite(&shape, dtype).sigmoid());
    let last = [shape[shape.len() - 1]];
    let weight = d.rng.one_in(2).then(|| d.finite(&last, dtype));
    let positive = d.rng.one_in(2).then(|| d.finite(&last, dtype).abs());
    let reduction = reduction(d);
    let y = x.binary_cross_entropy_with_logits(&y, weight.as_ref(), positive.as_ref(), reduction);
    Drawn::within(y, rounded(dtype))
}

fn cosine_similarity(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(1);
    let (left, right) = (d.broadcastable(&shape), shape);
    let dtype = d.float();
    let axis = d.axis(right.len());
    let (x, y) = (d.finite(&left, dtype), d.finite(&right, dtype));
    Drawn::within(x.cosine_similarity(&y, axis, 1e-6), rounded(dtype))
}

fn pairwise_distance(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(1, 3);
    let (shape, dtype) = (d.filled(rank), d.float());
    let (x, y) = (d.finite(&shape, dtype), d.finite(&shape, dtype));
    Drawn::within(x.pairwise_distance(&y, 2.0, 1e-3, d.rng.one_in(2)), rounded(dtype))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "mse_loss", draw: |d| pair(d, Tensor::mse_loss) },
        Operation { name: "l1_loss", draw: |d| pair(d, Tensor::l1_loss) },
        Operation { name: "smooth_l1_loss", draw: |d| pair(d, |x, y, r| x.smooth_l1_loss(y, 0.75, r)) },
        Operation { name: "huber_loss", draw: |d| pair(d, |x, y, r| x.huber_loss(y, 1.5, r)) },
        Operation { name: "kl_div", draw: |d| probable(d, |d, x, y, r| x.log().kl_div(y, d.rng.one_in(2), r)) },
        Operation {
            name: "binary_cross_entropy",
            draw: |d| probable(d, |_, x, y, r| x.binary_cross_entropy(y, None, r)),
        },
        Operation { name: "binary_cross_entropy_with_logits", draw: logits },
        Operation { name: "cross_entropy", draw: |d| numbered(d, Tensor::cross_entropy, true) },
        Operation { name: "cross_entropy probabilities", draw: probabilities },
        Operation { name: "nll_loss", draw: |d| numbered(d, Tensor::nll_loss, false) },
        Operation { name: "cosine_similarity", draw: cosine_similarity },
        Operation { name: "pairwise_distance", draw: pairwise_distance },
    ]
}
