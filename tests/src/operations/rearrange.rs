//! Axes moved, parts, repetitions, and padding with elements of the tensor's own.

use super::{Draw, Drawn, Operation};
use einsummable::{PadMode, Tensor};

/// A view of a tensor of any type and of rank `least` or more.
fn view(d: &mut Draw, least: usize, f: fn(&mut Draw, &Tensor) -> Tensor) -> Drawn {
    let shape = d.any_shape(least);
    let dtype = d.any();
    let x = d.input(&shape, dtype);
    Drawn::exactly(f(d, &x))
}

/// Parts of a tensor along an axis: every one is an output.
fn parts(d: &mut Draw, f: fn(&mut Draw, &Tensor, i64) -> Vec<Tensor>) -> Drawn {
    let rank = d.rng.range(1, 4);
    let mut shape = d.shape(rank);
    let axis = d.axis(rank);
    let at = axis.rem_euclid(rank as i64) as usize;
    shape[at] = shape[at].max(1);
    let dtype = d.any();
    let x = d.input(&shape, dtype);
    Drawn { outputs: f(d, &x, axis), within: 0.0 }
}

/// Sizes that add up to an extent.
fn sizes(d: &mut Draw, extent: usize) -> Vec<usize> {
    let mut left = extent;
    let mut sizes = Vec::new();
    while left > 0 || sizes.is_empty() {
        sizes.push(d.rng.range(0, left));
        left -= sizes[sizes.len() - 1];
    }
    sizes
}

fn movedim(d: &mut Draw, x: &Tensor) -> Tensor {
    let from = d.axes(x.dim());
    let mut to: Vec<i64> = d.rng.shuffled((0..x.dim() as i64).collect());
    to.truncate(from.len());
    let to: Vec<i64> = to.into_iter().map(|a| d.signed(a, x.dim())).collect();
    x.movedim(&from, &to)
}

fn unflatten(d: &mut Draw, x: &Tensor) -> Tensor {
    let axis = d.axis(x.dim());
    let extent = x.size(axis);
    let divisors: Vec<usize> = (1..=extent).filter(|n| extent.is_multiple_of(*n)).collect();
    if divisors.is_empty() {
        return x.unflatten(axis, &[2, 0]);
    }
    let inner = d.rng.pick(&divisors) as i64;
    let outer = if d.rng.one_in(2) { -1 } else { extent as i64 / inner };
    x.unflatten(axis, &[outer, inner])
}

/// Two axes of a tensor.
fn pair(d: &mut Draw, x: &Tensor) -> [i64; 2] {
    let axes = d.rng.shuffled((0..x.dim() as i64).collect());
    [d.signed(axes[0], x.dim()), d.signed(axes[1], x.dim())]
}

fn repeat(d: &mut Draw, x: &Tensor) -> Tensor {
    let more = d.rng.range(0, 4 - x.dim());
    let repeats: Vec<usize> = (0..x.dim() + more).map(|_| d.rng.pick(&[0, 1, 1, 1, 1, 2, 2, 2, 3])).collect();
    x.repeat(&repeats)
}

fn stacked(d: &mut Draw, f: fn(&[&Tensor]) -> Tensor) -> Drawn {
    let shape = d.any_shape(0);
    let dtype = d.any();
    let parts: Vec<Tensor> = (0..d.rng.range(1, 3)).map(|_| d.input(&shape, dtype)).collect();
    Drawn::exactly(f(&parts.iter().collect::<Vec<_>>()))
}

/// Parts of different types and an empty vector among them.
fn promoted(d: &mut Draw) -> Drawn {
    let shape = d.shape(2);
    let types = [d.any(), d.any(), d.any()];
    let nothing = d.input(&[0], types[2]);
    let parts = [d.input(&shape, types[0]), d.input(&shape, types[1])];
    Drawn::exactly(Tensor::cat(&[&parts[0], &nothing, &parts[1]], d.axis(2)))
}

fn pad(d: &mut Draw, mode: PadMode) -> Drawn {
    let rank = d.rng.range(1, 3);
    let shape = d.filled(rank);
    let dtype = d.any();
    let x = d.input(&shape, dtype);
    let mut padding = Vec::new();
    for &extent in shape.iter().rev().take(d.rng.range(1, rank)) {
        let crop = if d.rng.one_in(3) { d.rng.range(0, extent - 1) } else { 0 };
        let most = match mode {
            PadMode::Reflect => extent - 1,
            // What a circle crops first, it does not lend.
            PadMode::Circular => extent - crop,
            PadMode::Replicate | PadMode::Constant(_) => 3,
        };
        let (add, other) = (d.rng.range(0, most) as i64, d.rng.range(0, most) as i64);
        let crop = -(crop as i64);
        padding.push(match d.rng.range(0, 2) {
            0 if crop < 0 => (crop, add),
            1 if crop < 0 => (add, crop),
            _ if crop < 0 => (crop / 2, crop - crop / 2),
            _ => (add, other),
        });
    }
    Drawn::exactly(x.pad(&padding, mode))
}

fn diagonal(d: &mut Draw, x: &Tensor) -> Tensor {
    let [a, b] = pair(d, x);
    x.diagonal(d.rng.range(0, 8) as i64 - 4, a, b)
}

fn diag(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(1, 2);
    let shape = d.shape(rank);
    let dtype = d.any();
    let x = d.input(&shape, dtype);
    Drawn::exactly(x.diag(d.rng.range(0, 6) as i64 - 3))
}

fn trace(d: &mut Draw) -> Drawn {
    let shape = d.shape(2);
    let dtype = d.number();
    let x = d.input(&shape, dtype);
    Drawn::within(x.trace(), d.sums(dtype))
}

/// The shape of a tensor that `f` is asked for by way of another tensor.
fn like(d: &mut Draw, f: fn(&mut Draw, &[usize]) -> Vec<usize>, g: fn(&Tensor, &Tensor) -> Tensor) -> Drawn {
    let full = d.any_shape(0);
    let own = f(d, &full);
    let dtype = d.any();
    let (x, other) = (d.input(&own, dtype), d.input(&full, dtype));
    Drawn::exactly(g(&x, &other))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "movedim", draw: |d| view(d, 1, movedim) },
        Operation { name: "moveaxis", draw: |d| view(d, 1, |d, x| x.moveaxis(&[d.axis(x.dim())], &[d.axis(x.dim())])) },
        Operation { name: "swapdims", draw: |d| view(d, 1, |d, x| x.swapdims(d.axis(x.dim()), d.axis(x.dim()))) },
        Operation { name: "adjoint", draw: |d| view(d, 2, |_, x| x.adjoint()) },
        Operation { name: "view_as", draw: |d| like(d, |_, full| vec![full.iter().product()], Tensor::view_as) },
        Operation { name: "dstack", draw: |d| stacked(d, Tensor::dstack) },
        Operation { name: "column_stack", draw: |d| stacked(d, Tensor::column_stack) },
        Operation { name: "atleast_1d", draw: |d| view(d, 0, |_, x| x.atleast_1d()) },
        Operation { name: "atleast_2d", draw: |d| view(d, 0, |_, x| x.atleast_2d()) },
        Operation { name: "atleast_3d", draw: |d| view(d, 0, |_, x| x.atleast_3d()) },
        Operation { name: "swapaxes", draw: |d| view(d, 1, |d, x| x.swapaxes(d.axis(x.dim()), d.axis(x.dim()))) },
        Operation { name: "unflatten", draw: |d| view(d, 1, unflatten) },
        Operation { name: "ravel", draw: |d| view(d, 0, |_, x| x.ravel()) },
        Operation { name: "expand_as", draw: |d| like(d, Draw::broadcastable, Tensor::expand_as) },
        Operation { name: "reshape_as", draw: |d| like(d, |_, full| vec![full.iter().product()], Tensor::reshape_as) },
        Operation {
            name: "broadcast_to",
            draw: |d| like(d, Draw::broadcastable, |x, other| x.broadcast_to(other.shape())),
        },
        Operation { name: "rot90", draw: |d| view(d, 2, |d, x| x.rot90(d.rng.range(0, 9) as i64 - 4, pair(d, x))) },
        Operation { name: "fliplr", draw: |d| view(d, 2, |_, x| x.fliplr()) },
        Operation { name: "flipud", draw: |d| view(d, 1, |_, x| x.flipud()) },
        Operation { name: "roll of all elements", draw: |d| view(d, 0, |d, x| x.roll(&[d.axis(9)], &[])) },
        Operation { name: "diagonal", draw: |d| view(d, 2, diagonal) },
        Operation {
            name: "diag_embed",
            draw: |d| {
                let rank = d.rng.range(1, 3);
                let shape = d.shape(rank);
                let dtype = d.any();
                let x = d.input(&shape, dtype);
                Drawn::exactly(x.diag_embed(d.rng.range(0, 6) as i64 - 3))
            },
        },
        Operation { name: "diag", draw: diag },
        Operation { name: "trace", draw: trace },
        Operation { name: "repeat", draw: |d| view(d, 0, repeat) },
        Operation { name: "tile", draw: |d| view(d, 0, |d, x| x.tile(&vec![d.rng.range(1, 2); d.rng.range(0, 3)])) },
        Operation {
            name: "repeat_interleave",
            draw: |d| view(d, 1, |d, x| x.repeat_interleave(d.rng.range(0, 3), d.axis(x.dim()))),
        },
        Operation { name: "cat of several types", draw: promoted },
        Operation { name: "hstack", draw: |d| stacked(d, Tensor::hstack) },
        Operation { name: "vstack", draw: |d| stacked(d, Tensor::vstack) },
        Operation { name: "split", draw: |d| parts(d, |d, x, axis| x.split(d.rng.range(1, 4), axis)) },
        Operation {
            name: "split_with_sizes",
            draw: |d| parts(d, |d, x, axis| x.split_with_sizes(&sizes(d, x.size(axis)), axis)),
        },
        Operation { name: "chunk", draw: |d| parts(d, |d, x, axis| x.chunk(d.rng.range(1, 4), axis)) },
        Operation { name: "tensor_split", draw: |d| parts(d, |d, x, axis| x.tensor_split(d.rng.range(1, 4), axis)) },
        Operation { name: "unbind", draw: |d| parts(d, |_, x, axis| x.unbind(axis)) },
        Operation { name: "pad by reflection", draw: |d| pad(d, PadMode::Reflect) },
        Operation { name: "pad by repetition", draw: |d| pad(d, PadMode::Replicate) },
        Operation { name: "pad in a circle", draw: |d| pad(d, PadMode::Circular) },
    ]
}
