//! Views.

use super::{Draw, Drawn, Operation};
use einsummable::Tensor;

/// A view of a tensor of any type and of rank `least` or more.
fn view(d: &mut Draw, least: usize, f: fn(&mut Draw, &Tensor) -> Tensor) -> Drawn {
    let shape = d.any_shape(least);
    let dtype = d.any();
    let x = d.input(&shape, dtype);
    Drawn::exactly(f(d, &x))
}

/// Another shape of as many elements: axes merged, and axes taken apart; one may be left open.
fn other_shape(d: &mut Draw, shape: &[usize]) -> Vec<i64> {
    let mut merged: Vec<usize> = Vec::new();
    for &n in shape {
        match merged.last_mut() {
            Some(last) if d.rng.one_in(2) => *last *= n,
            _ => merged.push(n),
        }
    }
    let mut apart: Vec<i64> = Vec::new();
    for n in merged {
        let divisors: Vec<usize> = (1..=n).filter(|k| n.is_multiple_of(*k)).collect();
        if divisors.is_empty() || apart.len() > 2 || d.rng.one_in(2) {
            apart.push(n as i64);
        } else {
            let inner = d.rng.pick(&divisors);
            apart.extend([(n / inner) as i64, inner as i64]);
        }
    }
    if d.rng.one_in(4) {
        let at = d.rng.range(0, apart.len());
        apart.insert(at, 1);
    }
    let open = !apart.is_empty() && !apart.contains(&0) && d.rng.one_in(3);
    if open {
        let at = d.rng.range(0, apart.len() - 1);
        apart[at] = -1;
    }
    apart
}

fn flatten(d: &mut Draw, x: &Tensor) -> Tensor {
    // A number may be flattened as if it had an axis.
    let rank = x.dim().max(1);
    let start = d.rng.range(0, rank - 1);
    let end = d.rng.range(start, rank - 1);
    x.flatten(d.signed(start as i64, rank), d.signed(end as i64, rank))
}

fn permute(d: &mut Draw, x: &Tensor) -> Tensor {
    let axes: Vec<i64> = d.rng.shuffled((0..x.dim() as i64).collect());
    let axes: Vec<i64> = axes.into_iter().map(|a| d.signed(a, x.dim())).collect();
    x.permute(&axes)
}

fn t(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(0, 2);
    let shape = d.shape(rank);
    let dtype = d.any();
    Drawn::exactly(d.input(&shape, dtype).t())
}

fn expand(d: &mut Draw) -> Drawn {
    let full = d.any_shape(0);
    let own = d.broadcastable(&full);
    let dtype = d.any();
    let x = d.input(&own, dtype);
    let lead = full.len() - own.len();
    let kept = |(axis, &n): (usize, &usize)| {
        if axis >= lead && own[axis - lead] == n && d.rng.one_in(2) { -1 } else { n as i64 }
    };
    let shape: Vec<i64> = full.iter().enumerate().map(kept).collect();
    Drawn::exactly(x.expand(&shape))
}

fn narrow(d: &mut Draw, x: &Tensor) -> Tensor {
    let axis = d.axis(x.dim());
    let start = d.rng.range(0, x.size(axis));
    let length = d.rng.range(0, x.size(axis) - start);
    x.narrow(axis, start, length)
}

fn slice(d: &mut Draw, x: &Tensor) -> Tensor {
    let (start, end) = (d.rng.range(0, 18) as i64 - 9, d.rng.range(0, 18) as i64 - 9);
    let axis = d.axis(x.dim());
    x.slice(axis, start, end, d.rng.range(1, 3))
}

fn select(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(1, 4);
    let shape = d.filled(rank);
    let dtype = d.any();
    let x = d.input(&shape, dtype);
    let axis = d.axis(rank);
    let index = d.axis(x.size(axis));
    Drawn::exactly(x.select(axis, index))
}

/// Parts that are alike but for one axis.
fn cat(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(1, 4);
    let shape = d.shape(rank);
    let dtype = d.any();
    let axis = d.axis(rank);
    let at = axis.rem_euclid(rank as i64) as usize;
    let mut parts = Vec::new();
    for _ in 0..d.rng.range(1, 4) {
        let mut own = shape.clone();
        own[at] = d.extent().min(4);
        parts.push(d.input(&own, dtype));
    }
    if d.rng.one_in(3) {
        parts.push(parts[0].clone());
    }
    Drawn::exactly(Tensor::cat(&parts.iter().collect::<Vec<_>>(), axis))
}

fn stack(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(0, 3);
    let shape = d.shape(rank);
    let dtype = d.any();
    let parts: Vec<Tensor> = (0..d.rng.range(1, 4)).map(|_| d.input(&shape, dtype)).collect();
    let axis = d.axis(rank + 1);
    Drawn::exactly(Tensor::stack(&parts.iter().collect::<Vec<_>>(), axis))
}

fn pad(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.number();
    let x = d.input(&shape, dtype);
    let mut padding = Vec::new();
    for &extent in shape.iter().rev().take(d.rng.range(0, shape.len())) {
        let before = d.rng.range(0, 4) as i64 - 2;
        let after = d.rng.range(0, 4) as i64 - 2;
        let taken = (-before).max(0) + (-after).max(0);
        padding.push(if taken > extent as i64 { (1, 0) } else { (before, after) });
    }
    let value = if dtype.is_float() { d.rng.pick(&[0.0, -1.5, f64::NEG_INFINITY]) } else { 2.0 };
    Drawn::exactly(x.pad(&padding, value))
}

fn roll(d: &mut Draw, x: &Tensor) -> Tensor {
    let axes = d.axes(x.dim());
    let shifts: Vec<i64> = axes.iter().map(|_| d.rng.range(0, 20) as i64 - 10).collect();
    x.roll(&shifts, &axes)
}

/// Views of views, then a sum that reads them: labels stand for what they can, the rest stays a view.
fn chain(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(1);
    let dtype = d.number();
    let mut x = d.input(&shape, dtype);
    for _ in 0..d.rng.range(2, 4) {
        x = match d.rng.range(0, 4) {
            0 => permute(d, &x),
            1 => x.reshape(&other_shape(d, x.shape())),
            2 if x.dim() > 0 => slice(d, &x),
            3 if x.dim() > 0 => roll(d, &x),
            _ => x.flip(&d.axes(x.dim())),
        };
    }
    Drawn { outputs: vec![&x + 1, x], within: 0.0 }
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "reshape", draw: |d| view(d, 0, |d, x| x.reshape(&other_shape(d, x.shape()))) },
        Operation { name: "reshape in a chain of views", draw: chain },
        Operation { name: "view", draw: |d| view(d, 0, |d, x| x.view(&other_shape(d, x.shape()))) },
        Operation { name: "flatten", draw: |d| view(d, 0, flatten) },
        Operation { name: "permute", draw: |d| view(d, 0, permute) },
        Operation { name: "transpose", draw: |d| view(d, 1, |d, x| x.transpose(d.axis(x.dim()), d.axis(x.dim()))) },
        Operation { name: "t", draw: t },
        Operation { name: "unsqueeze", draw: |d| view(d, 0, |d, x| x.unsqueeze(d.axis(x.dim() + 1))) },
        Operation { name: "squeeze", draw: |d| view(d, 0, |d, x| x.squeeze(&d.axes(x.dim()))) },
        Operation { name: "expand", draw: expand },
        Operation { name: "narrow", draw: |d| view(d, 1, narrow) },
        Operation { name: "slice", draw: |d| view(d, 1, slice) },
        Operation { name: "select", draw: select },
        Operation { name: "flip", draw: |d| view(d, 0, |d, x| x.flip(&d.axes(x.dim()))) },
        Operation { name: "cat", draw: cat },
        Operation { name: "stack", draw: stack },
        Operation { name: "pad", draw: pad },
        Operation { name: "roll", draw: |d| view(d, 1, roll) },
    ]
}
