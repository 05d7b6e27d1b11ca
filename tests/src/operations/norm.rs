//! Softmax and norms.

use super::{Draw, Drawn, Operation, rounded};
use einsummable::Tensor;

/// Something along an axis.
fn along(d: &mut Draw, f: fn(&mut Draw, &Tensor, i64) -> Tensor) -> Drawn {
    let rank = d.rng.range(1, 4);
    let (shape, dtype) = (d.shape(rank), d.float());
    let axis = d.axis(rank);
    let x = d.input(&shape, dtype);
    Drawn::within(f(d, &x, axis), rounded(dtype))
}

/// A tensor, its last axes, and maybe a weight and a bias of their shape.
fn normalized(d: &mut Draw, f: fn(&Tensor, &[usize], Option<&Tensor>, Option<&Tensor>) -> Tensor) -> Drawn {
    let rank = d.rng.range(1, 4);
    let (shape, dtype) = (d.shape(rank), d.float());
    let from = d.rng.range(0, rank - 1);
    let x = d.input(&shape, dtype);
    let weight = (!d.rng.one_in(3)).then(|| d.finite(&shape[from..], dtype));
    let bias = d.rng.one_in(2).then(|| d.finite(&shape[from..], dtype));
    Drawn::within(f(&x, &shape[from..], weight.as_ref(), bias.as_ref()), rounded(dtype))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "softmax", draw: |d| along(d, |_, x, axis| x.softmax(axis)) },
        Operation { name: "softmin", draw: |d| along(d, |_, x, axis| x.softmin(axis)) },
        Operation { name: "log_softmax", draw: |d| along(d, |_, x, axis| x.log_softmax(axis)) },
        Operation { name: "normalize", draw: |d| along(d, |_, x, axis| x.normalize(axis, 1e-12)) },
        Operation { name: "layer_norm", draw: |d| normalized(d, |x, last, w, b| x.layer_norm(last, w, b, 1e-5)) },
        Operation { name: "rms_norm", draw: |d| normalized(d, |x, last, w, _| x.rms_norm(last, w, 1e-6)) },
    ]
}
