//! Gathers and scatters.

use super::{Draw, Drawn, Elements, Operation, rounded};
use ein_ir::dtype::DType;
use einsummable::{Reduce, Tensor};

/// A filled shape, an axis of it from either end, and the axis from the start.
fn table(d: &mut Draw) -> (Vec<usize>, i64, usize) {
    let rank = d.rng.range(1, 4);
    let shape = d.filled(rank);
    let at = d.rng.range(0, rank - 1);
    (shape, d.signed(at as i64, rank), at)
}

/// The shape of an index along an axis: any length there, and nowhere else longer.
fn along(d: &mut Draw, shape: &[usize], at: usize) -> Vec<usize> {
    let other = |d: &mut Draw, n: usize| if d.rng.one_in(2) { n } else { d.rng.range(1, n) };
    (0..shape.len()).map(|n| if n == at { d.extent() } else { other(d, shape[n]) }).collect()
}

fn gather(d: &mut Draw) -> Drawn {
    let ((shape, axis, at), dtype) = (table(d), d.any());
    let ids = along(d, &shape, at);
    let ids = d.indices(&ids, shape[at]);
    Drawn::exactly(d.input(&shape, dtype).gather(axis, &ids))
}

fn take_along_dim(d: &mut Draw) -> Drawn {
    let ((shape, axis, at), dtype) = (table(d), d.any());
    let one = |d: &mut Draw, n: usize| if d.rng.one_in(3) { 1 } else { n };
    let ids: Vec<usize> = (0..shape.len()).map(|n| if n == at { d.some() } else { one(d, shape[n]) }).collect();
    let own: Vec<usize> = (0..shape.len()).map(|n| if n == at { shape[n] } else { one(d, shape[n]) }).collect();
    let ids = d.indices(&ids, shape[at]);
    Drawn::exactly(d.input(&own, dtype).take_along_dim(&ids, axis))
}

fn index_select(d: &mut Draw) -> Drawn {
    let ((shape, axis, at), dtype) = (table(d), d.any());
    let count = d.extent();
    let ids = d.indices(&[count], shape[at]);
    Drawn::exactly(d.input(&shape, dtype).index_select(axis, &ids))
}

fn take(d: &mut Draw) -> Drawn {
    let ((shape, _, _), dtype) = (table(d), d.any());
    // Where there is nothing to take, no id can be right.
    let count = shape.iter().product();
    let ids = if count == 0 { vec![0] } else { d.any_shape(0) };
    let ids = d.indices(&ids, count);
    Drawn::exactly(d.input(&shape, dtype).take(&ids))
}

/// Slices to be scattered along an axis: the tensor, the axis, the index and the slices.
fn slices(d: &mut Draw, dtype: DType) -> (Tensor, i64, Tensor, Tensor) {
    let (shape, axis, at) = table(d);
    let mut source = shape.clone();
    source[at] = d.extent();
    let ids = d.indices(&[source[at]], shape[at]);
    (d.input(&shape, dtype), axis, ids, d.input(&source, dtype))
}

/// Elements to be scattered along an axis: the tensor, the axis, the index and the elements.
fn elements(d: &mut Draw, dtype: DType, kind: Elements) -> (Tensor, i64, Tensor, Tensor) {
    let (shape, axis, at) = table(d);
    let ids = along(d, &shape, at);
    let source: Vec<usize> = ids.iter().map(|&n| n + d.rng.range(0, 1)).collect();
    let ids = d.indices(&ids, shape[at]);
    (d.of(kind, &shape, dtype), axis, ids, d.of(kind, &source, dtype))
}

fn index_add(d: &mut Draw) -> Drawn {
    let dtype = d.number();
    let (x, axis, ids, source) = slices(d, dtype);
    let alpha = d.rng.pick(&[1.0, 2.0]);
    Drawn::within(x.index_add(axis, &ids, &source, alpha), d.sums(dtype))
}

fn scatter_add(d: &mut Draw) -> Drawn {
    let dtype = d.number();
    let kind = d.rng.pick(&[Elements::Integers, Elements::Reals, Elements::Special]);
    let (x, axis, ids, source) = elements(d, dtype, kind);
    Drawn::within(x.scatter_add(axis, &ids, &source), d.sums(dtype))
}

fn scatter_reduce(d: &mut Draw) -> Drawn {
    let dtype = d.number();
    let reduce = d.rng.pick(&[Reduce::Sum, Reduce::Prod, Reduce::Mean, Reduce::Amax, Reduce::Amin]);
    let kind = if reduce == Reduce::Prod { Elements::Ties } else { Elements::Integers };
    let (x, axis, ids, source) = elements(d, dtype, kind);
    let within = if reduce == Reduce::Mean { rounded(dtype) } else { d.sums(dtype) };
    Drawn::within(x.scatter_reduce(axis, &ids, &source, reduce, d.rng.one_in(2)), within)
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "gather", draw: gather },
        Operation { name: "take_along_dim", draw: take_along_dim },
        Operation { name: "index_select", draw: index_select },
        Operation { name: "take", draw: take },
        Operation { name: "index_add", draw: index_add },
        Operation {
            name: "index_fill",
            draw: |d| {
                let dtype = d.any();
                let (x, axis, ids, _) = slices(d, dtype);
                Drawn::exactly(x.index_fill(axis, &ids, 1.0))
            },
        },
        Operation {
            name: "index_copy",
            draw: |d| {
                let dtype = d.any();
                let (x, axis, ids, source) = slices(d, dtype);
                Drawn::exactly(x.index_copy(axis, &ids, &source))
            },
        },
        Operation { name: "scatter_add", draw: scatter_add },
        Operation { name: "scatter_reduce", draw: scatter_reduce },
        Operation {
            name: "scatter",
            draw: |d| {
                let dtype = d.any();
                let (x, axis, ids, source) = elements(d, dtype, Elements::Special);
                Drawn::exactly(x.scatter(axis, &ids, &source))
            },
        },
        Operation {
            name: "scatter_value",
            draw: |d| {
                let dtype = d.any();
                let (x, axis, ids, _) = elements(d, dtype, Elements::Special);
                Drawn::exactly(x.scatter_value(axis, &ids, 1.0))
            },
        },
        Operation {
            name: "bincount",
            draw: |d| {
                let (count, length) = (d.extent(), d.some());
                let ids = d.indices(&[count], length);
                let dtype = d.number();
                let weights = if d.rng.one_in(2) { Some(d.of(Elements::Integers, &[count], dtype)) } else { None };
                Drawn::exactly(ids.bincount(weights.as_ref(), length))
            },
        },
    ]
}
