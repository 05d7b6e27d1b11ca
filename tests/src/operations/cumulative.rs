//! Running folds.

use super::{Draw, Drawn, Operation, rounded};
use ein_ir::dtype::DType;
use einsummable::{Along, Tensor};

/// A shape and an axis of it; now and then the axis is long enough to be scanned in parts.
fn lines(d: &mut Draw) -> (Vec<usize>, i64) {
    if d.rng.one_in(6) {
        let shape = if d.rng.one_in(2) { vec![d.rng.range(256, 300)] } else { vec![2, d.rng.range(256, 270)] };
        let rank = shape.len();
        return (shape, d.signed(rank as i64 - 1, rank));
    }
    let shape = d.any_shape(1);
    let axis = d.axis(shape.len());
    (shape, axis)
}

fn sum(d: &mut Draw, f: fn(&Tensor, i64) -> Tensor) -> Drawn {
    let ((shape, axis), dtype) = (lines(d), d.any());
    let y = f(&d.input(&shape, dtype), axis);
    let within = d.sums(dtype);
    Drawn::within(y, within)
}

fn prod(d: &mut Draw, f: fn(&Tensor, i64) -> Tensor) -> Drawn {
    let (shape, axis) = lines(d);
    // Factors of 1 and 0, since others grow beyond what is exact.
    let dtype = d.any();
    Drawn::exactly(f(&d.of(super::Elements::Ties, &shape, dtype), axis))
}

fn extremes(d: &mut Draw, f: fn(&Tensor, i64) -> (Tensor, Tensor)) -> Drawn {
    let ((shape, axis), dtype) = (lines(d), d.any());
    let (values, indices) = f(&d.input(&shape, dtype), axis);
    Drawn { outputs: vec![values, indices], within: 0.0 }
}

fn logcumsumexp(d: &mut Draw) -> Drawn {
    let ((shape, axis), dtype) = (lines(d), d.float());
    Drawn::within(d.input(&shape, dtype).logcumsumexp(axis), rounded(dtype))
}

const WAYS: [Along; 3] = [
    Along { reverse: true, exclusive: false },
    Along { reverse: false, exclusive: true },
    Along { reverse: true, exclusive: true },
];

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "cumsum", draw: |d| sum(d, Tensor::cumsum) },
        Operation {
            name: "cumsum_along",
            draw: |d| {
                let way = d.rng.pick(&WAYS);
                let ((shape, axis), dtype) = (lines(d), d.any());
                let y = d.input(&shape, dtype).cumsum_along(axis, way);
                let within = d.sums(dtype);
                Drawn::within(y, within)
            },
        },
        Operation { name: "cumprod", draw: |d| prod(d, Tensor::cumprod) },
        Operation {
            name: "cumprod_along",
            draw: |d| {
                let way = d.rng.pick(&WAYS);
                let ((shape, axis), dtype) = (lines(d), DType::F32);
                Drawn::exactly(d.of(super::Elements::Ties, &shape, dtype).cumprod_along(axis, way))
            },
        },
        Operation { name: "cummax", draw: |d| extremes(d, Tensor::cummax) },
        Operation { name: "cummin", draw: |d| extremes(d, Tensor::cummin) },
        Operation { name: "logcumsumexp", draw: logcumsumexp },
    ]
}
