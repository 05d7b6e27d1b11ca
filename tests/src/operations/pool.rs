//! Pools.

use super::{Draw, Drawn, Operation, rounded};
use ein_ir::dtype::DType;
use einsummable::tensor::adaptive::OutputSize;
use einsummable::tensor::window::PerAxis;
use einsummable::{AvgPoolOptions, LpPoolOptions, MaxPoolOptions, Tensor};

/// The shape of an input with this many spatial axes, none of them empty.
fn shape(d: &mut Draw, axes: usize) -> Vec<usize> {
    let mut shape = match d.rng.range(0, 3) {
        0 => vec![],
        1 => vec![d.extent().min(2)],
        _ => vec![d.rng.range(1, 2)],
    };
    shape.push(d.rng.range(1, 3));
    shape.extend((0..axes).map(|_| if axes == 3 { d.some().min(5) } else { d.some() }));
    shape
}

/// What every pool has.
struct Windows {
    kernel: PerAxis,
    stride: Option<PerAxis>,
    padding: PerAxis,
    dilation: PerAxis,
    ceil_mode: bool,
}

/// Windows that fit the last axes of a shape, with what the pool knows of padding and dilation.
fn windows(d: &mut Draw, shape: &[usize], axes: usize, padded: bool, dilated: bool) -> Windows {
    let (mut kernel, mut padding, mut dilation) = (vec![], vec![], vec![]);
    for &extent in &shape[shape.len() - axes..] {
        let (k, step) = (d.rng.range(1, 4), if dilated { d.rng.range(1, 2) } else { 1 });
        let pad = if padded { d.rng.range(0, k / 2) } else { 0 };
        let fits = step * (k - 1) < extent + 2 * pad;
        kernel.push(if fits { k } else { 1 });
        padding.push(if fits { pad } else { 0 });
        dilation.push(step);
    }
    let stride: Vec<usize> = (0..axes).map(|_| d.rng.range(1, 4)).collect();
    Windows {
        kernel: PerAxis::from(kernel.as_slice()),
        stride: (!d.rng.one_in(3)).then(|| PerAxis::from(stride.as_slice())),
        padding: PerAxis::from(padding.as_slice()),
        dilation: PerAxis::from(dilation.as_slice()),
        ceil_mode: d.rng.one_in(2),
    }
}

fn largest(d: &mut Draw, axes: usize, f: fn(&Tensor, PerAxis, &MaxPoolOptions) -> Tensor) -> Drawn {
    let shape = shape(d, axes);
    let dtype = d.number();
    let x = d.input(&shape, dtype);
    let Windows { kernel, stride, padding, dilation, ceil_mode } = windows(d, &shape, axes, true, true);
    Drawn::exactly(f(&x, kernel, &MaxPoolOptions { stride, padding, dilation, ceil_mode }))
}

fn mean(d: &mut Draw, axes: usize, f: fn(&Tensor, PerAxis, &AvgPoolOptions) -> Tensor) -> Drawn {
    let shape = shape(d, axes);
    let dtype = d.float();
    let x = d.input(&shape, dtype);
    let Windows { kernel, stride, padding, ceil_mode, .. } = windows(d, &shape, axes, true, false);
    let count_include_pad = d.rng.one_in(2);
    let divisor_override = d.rng.one_in(3).then(|| d.rng.pick(&[-2, 1, 3, 7]));
    let options = AvgPoolOptions { stride, padding, ceil_mode, count_include_pad, divisor_override };
    Drawn::within(f(&x, kernel, &options), rounded(dtype))
}

fn power(d: &mut Draw, axes: usize, f: fn(&Tensor, f64, PerAxis, &LpPoolOptions) -> Tensor) -> Drawn {
    let shape = shape(d, axes);
    let dtype = d.rng.pick(&[DType::F32, DType::F64]);
    let x = d.finite(&shape, dtype).abs();
    let Windows { kernel, stride, ceil_mode, .. } = windows(d, &shape, axes, false, false);
    let norm = d.rng.pick(&[1.0, 2.0, 3.0]);
    Drawn::within(f(&x, norm, kernel, &LpPoolOptions { stride, ceil_mode }), 10.0 * rounded(dtype))
}

/// Extents: below, above and at those of the input, some kept.
fn size(d: &mut Draw, axes: usize) -> OutputSize {
    let extent = |d: &mut Draw| if d.rng.one_in(5) { None } else { Some(d.extent()) };
    OutputSize::from((0..axes).map(|_| extent(d)).collect::<Vec<_>>())
}

fn adaptive(d: &mut Draw, axes: usize, mean: bool, f: fn(&Tensor, OutputSize) -> Tensor) -> Drawn {
    let shape = shape(d, axes);
    let dtype = if mean { d.float() } else { d.number() };
    let x = d.input(&shape, dtype);
    let y = f(&x, size(d, axes));
    Drawn::within(y, if mean { rounded(dtype) } else { 0.0 })
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "max_pool1d", draw: |d| largest(d, 1, Tensor::max_pool1d) },
        Operation { name: "max_pool2d", draw: |d| largest(d, 2, Tensor::max_pool2d) },
        Operation { name: "max_pool3d", draw: |d| largest(d, 3, Tensor::max_pool3d) },
        Operation { name: "avg_pool1d", draw: |d| mean(d, 1, Tensor::avg_pool1d) },
        Operation { name: "avg_pool2d", draw: |d| mean(d, 2, Tensor::avg_pool2d) },
        Operation { name: "avg_pool3d", draw: |d| mean(d, 3, Tensor::avg_pool3d) },
        Operation { name: "lp_pool1d", draw: |d| power(d, 1, Tensor::lp_pool1d) },
        Operation { name: "lp_pool2d", draw: |d| power(d, 2, Tensor::lp_pool2d) },
        Operation { name: "lp_pool3d", draw: |d| power(d, 3, Tensor::lp_pool3d) },
        Operation { name: "adaptive_avg_pool1d", draw: |d| adaptive(d, 1, true, Tensor::adaptive_avg_pool1d) },
        Operation { name: "adaptive_avg_pool2d", draw: |d| adaptive(d, 2, true, Tensor::adaptive_avg_pool2d) },
        Operation { name: "adaptive_avg_pool3d", draw: |d| adaptive(d, 3, true, Tensor::adaptive_avg_pool3d) },
        Operation { name: "adaptive_max_pool1d", draw: |d| adaptive(d, 1, false, Tensor::adaptive_max_pool1d) },
        Operation { name: "adaptive_max_pool2d", draw: |d| adaptive(d, 2, false, Tensor::adaptive_max_pool2d) },
        Operation { name: "adaptive_max_pool3d", draw: |d| adaptive(d, 3, false, Tensor::adaptive_max_pool3d) },
    ]
}
