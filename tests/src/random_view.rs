//! Random views of the tensors of a graph in the making.

use crate::random::Maker;
use ein_ir::graph::TensorId;
use ein_ir::view::View;

/// A view of `first`, what it reads, and the largest magnitude of its elements. `None` where the draw came
/// to nothing.
pub(crate) fn view(maker: &mut Maker, first: TensorId) -> Option<(View, Vec<TensorId>, f64)> {
    let shape = maker.ty(first).shape;
    let rank = shape.len();
    let mut bound = maker.bound(first);
    let view = match maker.rng.range(0, 6) {
        0 => View::Reshape { shape: reshaped(maker, &shape) },
        1 => View::Permute { axes: maker.rng.shuffled((0..rank).collect()) },
        2 => slice(maker, &shape),
        3 => {
            let mut to: Vec<usize> = shape.iter().map(|&n| if n == 1 { maker.rng.range(1, 4) } else { n }).collect();
            if rank < 4 && maker.rng.one_in(2) {
                to.insert(0, maker.rng.range(1, 3));
            }
            View::Broadcast { shape: to }
        }
        4 => return concat(maker, first),
        5 => {
            let mut sizes = || (0..rank).map(|_| maker.rng.range(0, 2)).collect::<Vec<_>>();
            let (before, after) = (sizes(), sizes());
            let value = f64::from(maker.rng.range(0, 1) as u8);
            bound = bound.max(value);
            View::Pad { before, after, value: value.to_bits() }
        }
        _ => View::Roll { shifts: shape.iter().map(|&n| if n == 0 { 0 } else { maker.rng.range(0, n - 1) }).collect() },
    };
    Some((view, vec![first], bound))
}

/// Another shape of as many elements: the prime factors in a new order, with ones here and there.
fn reshaped(maker: &mut Maker, shape: &[usize]) -> Vec<usize> {
    let elements: usize = shape.iter().product();
    if elements == 0 {
        return shape.iter().rev().copied().collect();
    }
    // Neighbours joined and numbers taken apart in order are what reshapes do most.
    let mut factors = Vec::new();
    for &extent in shape {
        let mut rest = extent;
        for p in [2, 3, 5, 7, 11, 13] {
            while rest.is_multiple_of(p) {
                factors.push(p);
                rest /= p;
            }
        }
        factors.push(rest);
    }
    if maker.rng.one_in(3) {
        factors = maker.rng.shuffled(factors);
    }
    let mut new = vec![1; maker.rng.range(1, 4)];
    let mut axis = 0;
    for (n, factor) in factors.iter().enumerate() {
        let left = factors.len() - n;
        while axis + 1 < new.len() && maker.rng.range(0, left + 1) == 0 {
            axis += 1;
        }
        if axis + 1 < new.len() && maker.rng.one_in(2) {
            axis += 1;
        }
        new[axis] *= factor;
    }
    if elements == 1 && maker.rng.one_in(3) { Vec::new() } else { new }
}

fn slice(maker: &mut Maker, shape: &[usize]) -> View {
    let (mut starts, mut steps, mut new) = (Vec::new(), Vec::new(), Vec::new());
    for &n in shape {
        if n == 0 {
            starts.push(0);
            steps.push(1);
            new.push(0);
            continue;
        }
        let start = maker.rng.range(0, n - 1);
        let step: i64 = maker.rng.pick(&[1, 1, 1, -1, 2, -2, 3]);
        let room = if step > 0 { (n - 1 - start) / step as usize } else { start / step.unsigned_abs() as usize };
        starts.push(start);
        steps.push(step);
        let least = usize::from(!maker.rng.one_in(20));
        new.push(maker.rng.range(least, room + 1));
    }
    View::Slice { starts, steps, shape: new }
}

/// Everything that fits, along some axis; a tensor may come more than once.
fn concat(maker: &mut Maker, first: TensorId) -> Option<(View, Vec<TensorId>, f64)> {
    let ty = maker.ty(first);
    let axis = maker.rng.range(1, ty.shape.len().max(1)) - 1;
    if ty.shape.is_empty() {
        return None;
    }
    let fits = |other: TensorId| {
        let o = maker.ty(other);
        let same = |a: usize| a == axis || o.shape[a] == ty.shape[a];
        o.dtype == ty.dtype && o.shape.len() == ty.shape.len() && (0..o.shape.len()).all(same)
    };
    let all: Vec<TensorId> = maker.graph.ids().filter(|&id| fits(id)).collect();
    let mut inputs = vec![first];
    for _ in 0..maker.rng.range(0, 2) {
        inputs.push(maker.rng.pick(&all));
    }
    let bound = inputs.iter().map(|&i| maker.bound(i)).fold(0.0, f64::max);
    Some((View::Concat { axis }, inputs, bound))
}
