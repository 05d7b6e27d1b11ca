//! Tensors made of numbers and indices alone, and triangles.

use super::{Draw, Drawn, Elements, Operation, rounded};
use ein_ir::dtype::DType;
use einsummable::Tensor;
use einsummable::tensor::create::Indexing;

/// A tensor without inputs, beside one with.
fn made(d: &mut Draw, f: fn(&mut Draw, &[usize], DType) -> Tensor) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.number();
    let y = f(d, &shape, dtype);
    let beside = d.broadcastable(y.shape());
    let sum = &y + &d.of(Elements::Integers, &beside, dtype);
    Drawn { outputs: vec![y, sum], within: rounded(dtype) }
}

/// A tensor like another.
fn like(d: &mut Draw, f: fn(&Tensor) -> Tensor) -> Drawn {
    let (shape, dtype) = (d.any_shape(0), d.any());
    Drawn::exactly(f(&d.input(&shape, dtype)))
}

fn arange_step(d: &mut Draw) -> Drawn {
    let dtype = d.rng.pick(&[DType::F32, DType::F64, DType::BF16, DType::I64, DType::I32]);
    let (start, step) = (d.rng.range(0, 8) as f64 - 4.0, d.rng.pick(&[1.0, 2.0, -1.0, -3.0]));
    let end = start + step * d.rng.range(0, 7) as f64;
    Drawn::exactly(Tensor::arange_step(start, end, step, dtype))
}

fn one_hot(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let shape = &shape[shape.len().saturating_sub(3)..];
    Drawn::exactly(d.indices(shape, 5).one_hot(d.rng.range(4, 6)))
}

fn meshgrid(d: &mut Draw) -> Drawn {
    let dtype = d.any();
    let count = d.rng.range(1, 3);
    let vectors: Vec<Tensor> = (0..count)
        .map(|_| {
            let shape = if d.rng.one_in(5) { vec![] } else { vec![d.extent()] };
            d.input(&shape, dtype)
        })
        .collect();
    let indexing = d.rng.pick(&[Indexing::Ij, Indexing::Xy]);
    Drawn { outputs: Tensor::meshgrid(&vectors.iter().collect::<Vec<_>>(), indexing), within: 0.0 }
}

fn triangle(d: &mut Draw, f: fn(&Tensor, i64) -> Tensor) -> Drawn {
    let shape = d.any_shape(2);
    let dtype = d.any();
    let diagonal = d.rng.range(0, 6) as i64 - 3;
    Drawn::exactly(f(&d.input(&shape, dtype), diagonal))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "full", draw: |d| made(d, |_, shape, dtype| Tensor::full(shape, 3.0, dtype)) },
        Operation { name: "zeros", draw: |d| made(d, |_, shape, dtype| Tensor::zeros(shape, dtype)) },
        Operation { name: "ones", draw: |d| made(d, |_, shape, dtype| Tensor::ones(shape, dtype)) },
        Operation { name: "full_like", draw: |d| like(d, |x| x.full_like(1.0)) },
        Operation { name: "zeros_like", draw: |d| like(d, Tensor::zeros_like) },
        Operation { name: "ones_like", draw: |d| like(d, Tensor::ones_like) },
        Operation { name: "arange", draw: |d| made(d, |d, _, dtype| Tensor::arange(d.extent(), dtype)) },
        Operation { name: "arange_step", draw: arange_step },
        Operation { name: "linspace", draw: |d| made(d, |d, _, dtype| Tensor::linspace(-1.0, 2.0, d.extent(), dtype)) },
        Operation { name: "eye", draw: |d| made(d, |d, _, dtype| Tensor::eye(d.extent(), d.extent(), dtype)) },
        Operation { name: "one_hot", draw: one_hot },
        Operation { name: "meshgrid", draw: meshgrid },
        Operation { name: "tril", draw: |d| triangle(d, Tensor::tril) },
        Operation { name: "triu", draw: |d| triangle(d, Tensor::triu) },
    ]
}
