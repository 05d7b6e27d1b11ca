//! Products by other names than `matmul` and `einsum`.

use super::{Draw, Drawn, Operation, rounded};
use einsummable::Tensor;

/// A function of two tensors of these shapes and one type.
fn two(d: &mut Draw, left: &[usize], right: &[usize], f: fn(&Tensor, &Tensor) -> Tensor) -> Drawn {
    let dtype = d.number();
    let y = f(&d.input(left, dtype), &d.input(right, dtype));
    let within = d.sums(dtype);
    Drawn::within(y, within)
}

fn bmm(d: &mut Draw) -> Drawn {
    let (b, m, k, n) = (d.extent(), d.some(), d.extent(), d.some());
    two(d, &[b.min(4), m.min(5), k], &[b.min(4), k, n.min(5)], Tensor::bmm)
}

fn mm(d: &mut Draw) -> Drawn {
    let (m, k, n) = (d.extent(), d.extent(), d.extent());
    two(d, &[m, k], &[k, n], Tensor::mm)
}

fn mv(d: &mut Draw) -> Drawn {
    let (m, k) = (d.extent(), d.extent());
    two(d, &[m, k], &[k], Tensor::mv)
}

fn dot(d: &mut Draw) -> Drawn {
    let k = d.extent();
    two(d, &[k], &[k], Tensor::dot)
}

fn vecdot(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(1);
    let left = d.broadcastable(&shape);
    two(d, &left, &shape, |a, b| a.vecdot(b, -1))
}

fn outer(d: &mut Draw) -> Drawn {
    let (m, n) = (d.extent(), d.extent());
    two(d, &[m], &[n], Tensor::outer)
}

fn inner(d: &mut Draw) -> Drawn {
    let (m, n, k) = (d.extent(), d.extent(), d.extent());
    match d.rng.range(0, 2) {
        0 => two(d, &[m, k], &[n, k], Tensor::inner),
        1 => two(d, &[k], &[m, n, k], Tensor::inner),
        _ => two(d, &[], &[m, n], Tensor::inner),
    }
}

fn tensordot(d: &mut Draw) -> Drawn {
    let (m, n, j, k) = (d.extent(), d.some(), d.extent(), d.some());
    match d.rng.range(0, 2) {
        0 => two(d, &[j, m, k], &[k, n, j], |a, b| a.tensordot(b, &[0, -1], &[2, 0])),
        1 => two(d, &[m, k], &[k, n], |a, b| a.tensordot(b, &[1], &[0])),
        _ => two(d, &[m], &[n], |a, b| a.tensordot(b, &[], &[])),
    }
}

/// `f(x, a, b)` of one type, `x` of a shape that broadcasts to the result's.
fn onto(d: &mut Draw, shapes: [&[usize]; 3], f: fn(&Tensor, &Tensor, &Tensor) -> Tensor) -> Drawn {
    let dtype = d.number();
    let onto = d.broadcastable(shapes[2]);
    let y = f(&d.input(&onto, dtype), &d.input(shapes[0], dtype), &d.input(shapes[1], dtype));
    let within = d.sums(dtype);
    Drawn::within(y, within)
}

fn addmm(d: &mut Draw) -> Drawn {
    let (m, k, n) = (d.extent(), d.extent(), d.extent());
    onto(d, [&[m, k], &[k, n], &[m, n]], |x, a, b| x.addmm(a, b, 2.0, -1.0))
}

fn addmv(d: &mut Draw) -> Drawn {
    let (m, k) = (d.extent(), d.extent());
    onto(d, [&[m, k], &[k], &[m]], |x, a, b| x.addmv(a, b, 1.0, 3.0))
}

fn addr(d: &mut Draw) -> Drawn {
    let (m, n) = (d.extent(), d.extent());
    onto(d, [&[m], &[n], &[m, n]], |x, a, b| x.addr(a, b, 0.0, 2.0))
}

fn baddbmm(d: &mut Draw) -> Drawn {
    let (b, m, k, n) = (d.some().min(4), d.some().min(5), d.extent(), d.some().min(5));
    onto(d, [&[b, m, k], &[b, k, n], &[b, m, n]], |x, a, b| x.baddbmm(a, b, 1.0, 1.0))
}

fn addbmm(d: &mut Draw) -> Drawn {
    let (b, m, k, n) = (d.extent().min(4), d.some().min(5), d.extent(), d.some().min(5));
    onto(d, [&[b, m, k], &[b, k, n], &[m, n]], |x, a, b| x.addbmm(a, b, 1.0, 2.0))
}

fn linear(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(1, 3);
    let (mut shape, out, dtype) = (d.shape(rank), d.extent(), d.number());
    let features = shape[rank - 1];
    let (x, weight) = (d.input(&shape, dtype), d.input(&[out, features], dtype));
    let bias = d.rng.one_in(2).then(|| d.input(&[out], dtype));
    shape[rank - 1] = out;
    let y = x.linear(&weight, bias.as_ref());
    let within = d.sums(dtype);
    Drawn::within(y, within)
}

fn bilinear(d: &mut Draw) -> Drawn {
    let (rows, i, j, o) = (d.extent(), d.some().min(4), d.some().min(4), d.some().min(4));
    let dtype = d.number();
    let (x, y, weight) = (d.input(&[rows, i], dtype), d.input(&[rows, j], dtype), d.input(&[o, i, j], dtype));
    let bias = d.rng.one_in(2).then(|| d.input(&[o], dtype));
    let y = x.bilinear(&y, &weight, bias.as_ref());
    // A product is rounded in between.
    let within = d.sums(dtype) * 4.0;
    Drawn::within(y, within)
}

fn multi_dot(d: &mut Draw) -> Drawn {
    let count = d.rng.range(2, 5);
    let extents: Vec<usize> = (0..=count).map(|_| d.some().min(5)).collect();
    let dtype = d.number();
    let matrices: Vec<Tensor> = (0..count)
        .map(|n| {
            let vector = d.rng.one_in(4);
            match n {
                0 if vector => d.input(&extents[1..2], dtype),
                n if n + 1 == count && vector => d.input(&extents[n..=n], dtype),
                n => d.input(&extents[n..n + 2], dtype),
            }
        })
        .collect();
    let y = Tensor::multi_dot(&matrices.iter().collect::<Vec<_>>());
    let within = d.sums(dtype) * 8.0;
    Drawn::within(y, within)
}

fn matrix_power(d: &mut Draw) -> Drawn {
    let (n, dtype) = (d.some().min(4), d.number());
    let y = d.finite(&[2, n, n], dtype).matrix_power(u32::try_from(d.rng.range(0, 4)).expect("small"));
    let within = d.sums(dtype) * 8.0;
    Drawn::within(y, within)
}

fn kron(d: &mut Draw) -> Drawn {
    let (left, right) = (d.rng.range(0, 2), d.rng.range(0, 2));
    let (left, right) = (d.shape(left), d.shape(right));
    let (a, b) = (d.number(), d.number());
    let y = d.input(&left, a).kron(&d.input(&right, b));
    let within = rounded(y.dtype());
    Drawn::within(y, within)
}

fn cross(d: &mut Draw) -> Drawn {
    let (rows, dtype) = (d.extent(), d.number());
    let (a, b) = (d.input(&[rows, 3], dtype), d.input(&[3], dtype));
    Drawn::within(a.cross(&b, -1), rounded(dtype))
}

fn cdist(d: &mut Draw) -> Drawn {
    let (batch, m, n, k) = (d.some().min(3), d.extent().min(5), d.some().min(5), d.some());
    let dtype = d.float();
    let (a, b) = (d.finite(&[batch, m, k], dtype), d.finite(&[n, k], dtype));
    let p = d.rng.pick(&[2.0, 1.0, 0.0, f64::INFINITY, 3.0]);
    Drawn::within(a.cdist(&b, p), rounded(dtype))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "bmm", draw: bmm },
        Operation { name: "mm", draw: mm },
        Operation { name: "mv", draw: mv },
        Operation { name: "dot", draw: dot },
        Operation { name: "vecdot", draw: vecdot },
        Operation { name: "outer", draw: outer },
        Operation { name: "inner", draw: inner },
        Operation { name: "tensordot", draw: tensordot },
        Operation { name: "addmm", draw: addmm },
        Operation { name: "addmv", draw: addmv },
        Operation { name: "addr", draw: addr },
        Operation { name: "baddbmm", draw: baddbmm },
        Operation { name: "addbmm", draw: addbmm },
        Operation { name: "linear", draw: linear },
        Operation { name: "bilinear", draw: bilinear },
        Operation { name: "multi_dot", draw: multi_dot },
        Operation { name: "matrix_power", draw: matrix_power },
        Operation { name: "kron", draw: kron },
        Operation { name: "cross", draw: cross },
        Operation { name: "cdist", draw: cdist },
    ]
}
