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

/// What is multiplied, what is added, an axis, now and then a first state; and how far plans may be off.
fn recurrence(d: &mut Draw, f: fn(&Tensor, &Tensor, i64, Option<&Tensor>) -> Tensor) -> Drawn {
    let (shape, axis) = lines(d);
    let dtype = d.rng.pick(&[DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::I32, DType::U8]);
    let own = if d.rng.one_in(4) { d.broadcastable(&shape) } else { shape.clone() };
    // Factors of 1, 0 and -1: others grow beyond what is exact.
    let a = d.of(super::Elements::Ties, &own, dtype);
    let b = d.of(super::Elements::Integers, &shape, dtype);
    let initial = d.rng.one_in(3).then(|| {
        let mut rest = shape.clone();
        rest.remove(axis.rem_euclid(shape.len() as i64) as usize);
        d.of(super::Elements::Integers, &rest, dtype)
    });
    let within = d.sums(dtype);
    Drawn::within(f(&a, &b, axis, initial.as_ref()), within)
}

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
        Operation { name: "linear_recurrence", draw: |d| recurrence(d, Tensor::linear_recurrence) },
        Operation { name: "linear_recurrence_last", draw: |d| recurrence(d, Tensor::linear_recurrence_last) },
    ]
}
