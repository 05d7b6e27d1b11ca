//! Convolutions and windows as axes.

use super::{Draw, Drawn, Operation};
use ein_ir::dtype::DType;
use einsummable::tensor::window::PerAxis;
use einsummable::{ConvOptions, ConvTransposeOptions, Padding, Tensor, UnfoldOptions};

/// Channels of the input and of the result, and groups that divide both.
fn channels(d: &mut Draw) -> (usize, usize, usize) {
    let groups = if d.rng.one_in(2) { 1 } else { d.rng.range(1, 4) };
    let (from, to) = (d.rng.range(1, 7 / groups), d.rng.range(1, 7 / groups));
    match d.rng.range(0, 5) {
        // Depthwise.
        0 => (groups, groups * to, groups),
        _ => (groups * from, groups * to, groups),
    }
}

/// Extents of spatial axes that are not 0.
fn spatial(d: &mut Draw, axes: usize) -> Vec<usize> {
    (0..axes).map(|_| if axes == 3 { d.some().min(4) } else { d.some() }).collect()
}

/// A batch of a few elements or none, or no batch.
fn batch(d: &mut Draw) -> Vec<usize> {
    match d.rng.range(0, 5) {
        0 => vec![],
        1 => vec![d.extent().min(2)],
        _ => vec![d.rng.range(1, 3)],
    }
}

fn each(d: &mut Draw, axes: usize, least: usize, most: usize) -> Vec<usize> {
    (0..axes).map(|_| d.rng.range(least, most)).collect()
}

fn given(numbers: &[usize]) -> PerAxis {
    PerAxis::from(numbers)
}

/// A bias or none.
fn bias(d: &mut Draw, channels: usize, dtype: DType) -> Option<Tensor> {
    d.rng.one_in(2).then(|| d.finite(&[channels], dtype))
}

fn conv(d: &mut Draw, axes: usize, f: fn(&Tensor, &Tensor, Option<&Tensor>, &ConvOptions) -> Tensor) -> Drawn {
    let (from, to, groups) = channels(d);
    let dtype = d.number();
    let extents = spatial(d, axes);
    let kernel = each(d, axes, 1, 4);
    let dilation = each(d, axes, 1, 2);
    let (stride, padding) = if d.rng.one_in(5) {
        (vec![1; axes], Padding::Same)
    } else {
        // As much padding as makes the input as long as a window.
        let mut padding = each(d, axes, 0, 2);
        for n in 0..axes {
            let missing = (dilation[n] * (kernel[n] - 1) + 1).saturating_sub(extents[n]);
            padding[n] = padding[n].max(missing.div_ceil(2));
        }
        (each(d, axes, 1, 3), given(&padding).into())
    };
    let batch = batch(d);
    let x = d.input(&[&batch[..], &[from], &extents].concat(), dtype);
    let weight = d.input(&[&[to, from / groups], &kernel[..]].concat(), dtype);
    let bias = bias(d, to, dtype);
    let options = ConvOptions { stride: given(&stride), padding, dilation: given(&dilation), groups };
    Drawn::within(f(&x, &weight, bias.as_ref(), &options), d.sums(dtype))
}

fn transposed(
    d: &mut Draw,
    axes: usize,
    f: fn(&Tensor, &Tensor, Option<&Tensor>, &ConvTransposeOptions) -> Tensor,
) -> Drawn {
    let (from, to, groups) = channels(d);
    let dtype = d.number();
    let extents: Vec<usize> = spatial(d, axes).into_iter().map(|n| n.min(5)).collect();
    let (kernel, stride, dilation) = (each(d, axes, 1, 4), each(d, axes, 1, 4), each(d, axes, 1, 3));
    let (mut padding, mut more) = (vec![0; axes], vec![0; axes]);
    for n in 0..axes {
        let full = stride[n] * (extents[n] - 1) + dilation[n] * (kernel[n] - 1) + 1;
        padding[n] = d.rng.range(0, 3.min((full - 1) / 2));
        more[n] = d.rng.range(0, stride[n].max(dilation[n]) - 1);
    }
    let batch = batch(d);
    let x = d.input(&[&batch[..], &[from], &extents].concat(), dtype);
    let weight = d.input(&[&[from, to / groups], &kernel[..]].concat(), dtype);
    let bias = bias(d, to, dtype);
    let options = ConvTransposeOptions {
        stride: given(&stride),
        padding: given(&padding),
        output_padding: given(&more),
        dilation: given(&dilation),
        groups,
    };
    Drawn::within(f(&x, &weight, bias.as_ref(), &options), d.sums(dtype))
}

fn unfold(d: &mut Draw) -> Drawn {
    let rank = d.rng.range(1, 3);
    let shape = d.shape(rank);
    let dtype = d.any();
    let x = d.input(&shape, dtype);
    let axis = d.axis(rank);
    let size = d.rng.range(0, x.size(axis));
    Drawn::exactly(x.unfold(axis, size, d.rng.range(1, 3)))
}

/// An image, a kernel that fits it, and how many windows there are.
fn frame(d: &mut Draw) -> (Vec<usize>, Vec<usize>, UnfoldOptions, usize) {
    let (extents, kernel, dilation) = (spatial(d, 2), each(d, 2, 1, 3), each(d, 2, 1, 2));
    let (mut padding, stride) = (each(d, 2, 0, 1), each(d, 2, 1, 3));
    let mut windows = 1;
    for n in 0..2 {
        let reach = dilation[n] * (kernel[n] - 1) + 1;
        padding[n] = padding[n].max(reach.saturating_sub(extents[n]).div_ceil(2));
        windows *= (extents[n] + 2 * padding[n] - reach) / stride[n] + 1;
    }
    let options = UnfoldOptions { dilation: given(&dilation), padding: given(&padding), stride: given(&stride) };
    (extents, kernel, options, windows)
}

fn im2col(d: &mut Draw) -> Drawn {
    let (extents, kernel, options, _) = frame(d);
    let dtype = d.number();
    let channels = d.rng.range(1, 3);
    let batch = batch(d);
    let x = d.input(&[&batch[..], &[channels], &extents].concat(), dtype);
    Drawn::exactly(x.im2col(given(&kernel), &options))
}

fn col2im(d: &mut Draw) -> Drawn {
    let (extents, kernel, options, windows) = frame(d);
    let dtype = d.number();
    let channels = d.rng.range(1, 3);
    let batch = batch(d);
    let x = d.input(&[&batch[..], &[channels * kernel[0] * kernel[1], windows]].concat(), dtype);
    Drawn::within(x.col2im([extents[0], extents[1]], given(&kernel), &options), d.sums(dtype))
}

/// Two convolutions with something between: halos of halos, and biases that are epilogues.
fn twice(d: &mut Draw) -> Drawn {
    let dtype = d.float();
    let extents = [d.rng.range(3, 7), d.rng.range(3, 7)];
    let x = d.input(&[1, 2, extents[0], extents[1]], dtype);
    let (first, second) = (d.finite(&[3, 2, 3, 3], dtype), d.finite(&[2, 3, 3, 2], dtype));
    let bias = d.finite(&[3], dtype);
    let y = x.conv2d(&first, Some(&bias), &ConvOptions::new().padding(1)).relu();
    let y = y.conv2d(&second, None, &ConvOptions::new().padding(1).stride(d.rng.range(1, 2)));
    let steps = d.sums(dtype);
    Drawn::within(y, 4.0 * steps)
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "conv1d", draw: |d| conv(d, 1, Tensor::conv1d) },
        Operation { name: "conv2d", draw: |d| conv(d, 2, Tensor::conv2d) },
        Operation { name: "conv2d after another", draw: twice },
        Operation { name: "conv3d", draw: |d| conv(d, 3, Tensor::conv3d) },
        Operation { name: "conv_transpose1d", draw: |d| transposed(d, 1, Tensor::conv_transpose1d) },
        Operation { name: "conv_transpose2d", draw: |d| transposed(d, 2, Tensor::conv_transpose2d) },
        Operation { name: "conv_transpose3d", draw: |d| transposed(d, 3, Tensor::conv_transpose3d) },
        Operation { name: "unfold", draw: unfold },
        Operation { name: "im2col", draw: im2col },
        Operation { name: "col2im", draw: col2im },
    ]
}
