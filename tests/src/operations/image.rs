//! Interpolation, shuffles, and norms of channels.

use super::{Draw, Drawn, Operation, rounded};
use ein_ir::dtype::DType;
use einsummable::{InterpolateMode, InterpolateOptions, Tensor};

/// Batch, channels and spatial axes, none of them empty but the batch.
fn shape(d: &mut Draw, axes: usize) -> Vec<usize> {
    let mut shape = vec![d.extent().min(2), d.rng.range(1, 3)];
    shape.extend((0..axes).map(|_| if axes == 3 { d.some().min(4) } else { d.some() }));
    shape
}

/// An interpolation, and how far a curve's values may be off.
fn interpolate(d: &mut Draw, mode: InterpolateMode, axes: usize) -> Drawn {
    use InterpolateMode::{Area, Bicubic, Bilinear, Linear, Nearest, NearestExact, Trilinear};
    let shape = shape(d, axes);
    let moved = matches!(mode, Nearest | NearestExact);
    let dtype = if moved { d.any() } else { d.float() };
    let x = d.input(&shape, dtype);
    let options = if d.rng.one_in(2) {
        let size: Vec<usize> = (0..axes).map(|_| d.rng.range(1, 9)).collect();
        InterpolateOptions::size(size.as_slice())
    } else {
        // At least 1 even of an extent of 1.
        let factors: Vec<f64> = shape[2..]
            .iter()
            .map(|&n| d.rng.pick(&[1.0_f64, 1.5, 1.7, 2.0, 3.0, 0.5, 0.7]).max(1.0 / n as f64))
            .collect();
        InterpolateOptions::scale_factors(&factors).recompute_scale_factor(d.rng.one_in(2))
    };
    let align = match mode {
        Linear | Bilinear | Trilinear | Bicubic => d.rng.one_in(2),
        Nearest | NearestExact | Area => false,
    };
    Drawn::within(x.interpolate(&options.mode(mode).align_corners(align)), if moved { 0.0 } else { rounded(dtype) })
}

/// An interpolation of one to three spatial axes.
fn spatial(d: &mut Draw, mode: InterpolateMode) -> Drawn {
    let axes = d.rng.range(1, 3);
    interpolate(d, mode, axes)
}

fn shuffle(d: &mut Draw, up: bool) -> Drawn {
    let factor = d.rng.range(1, 3);
    let (channels, y, x) = (d.rng.range(1, 2), d.extent().min(3), d.rng.range(1, 3));
    let mut shape = if d.rng.one_in(2) { vec![] } else { vec![d.rng.range(1, 2)] };
    shape.extend(if up { [channels * factor * factor, y, x] } else { [channels, y * factor, x * factor] });
    let dtype = d.any();
    let x = d.input(&shape, dtype);
    Drawn::exactly(if up { x.pixel_shuffle(factor) } else { x.pixel_unshuffle(factor) })
}

fn channel_shuffle(d: &mut Draw) -> Drawn {
    let (groups, per) = (d.rng.range(1, 4), d.rng.range(1, 3));
    let mut shape = shape(d, 1);
    shape[1] = groups * per;
    let dtype = d.any();
    Drawn::exactly(d.input(&shape, dtype).channel_shuffle(groups))
}

/// A weight and a bias of a number for each channel, one or both of them or none.
fn parameters(d: &mut Draw, channels: usize, dtype: DType) -> (Option<Tensor>, Option<Tensor>) {
    let mut parameter = |n| (!d.rng.one_in(n)).then(|| d.finite(&[channels], dtype));
    (parameter(3), parameter(2))
}

fn batch_norm(d: &mut Draw) -> Drawn {
    let axes = d.rng.range(0, 2);
    let shape = shape(d, axes);
    let dtype = d.float();
    let x = d.input(&shape, dtype);
    let stored = if d.rng.one_in(2) { dtype } else { DType::F32 };
    let (mean, var) = (d.finite(&shape[1..2], stored), d.finite(&shape[1..2], stored).abs());
    let (weight, bias) = parameters(d, shape[1], stored);
    Drawn::within(x.batch_norm(&mean, &var, weight.as_ref(), bias.as_ref(), 1e-2), rounded(dtype))
}

fn group_norm(d: &mut Draw) -> Drawn {
    let axes = d.rng.range(0, 2);
    let mut shape = shape(d, axes);
    let groups = d.rng.range(1, 4);
    shape[1] = groups * d.rng.range(1, 3);
    let dtype = d.float();
    let x = d.input(&shape, dtype);
    let (weight, bias) = parameters(d, shape[1], dtype);
    Drawn::within(x.group_norm(groups, weight.as_ref(), bias.as_ref(), 1e-2), 4.0 * rounded(dtype))
}

fn instance_norm(d: &mut Draw) -> Drawn {
    let axes = d.rng.range(1, 2);
    let mut shape = shape(d, axes);
    shape[2] = shape[2].max(2);
    let dtype = d.float();
    let x = d.input(&shape, dtype);
    let (weight, bias) = parameters(d, shape[1], dtype);
    Drawn::within(x.instance_norm(weight.as_ref(), bias.as_ref(), 1e-2), 4.0 * rounded(dtype))
}

fn local_response_norm(d: &mut Draw) -> Drawn {
    let axes = d.rng.range(1, 2);
    let mut shape = shape(d, axes);
    shape[1] = d.some();
    let dtype = d.float();
    let x = d.input(&shape, dtype);
    Drawn::within(x.local_response_norm(d.rng.range(1, 6), 0.5, 0.75, 1.0), rounded(dtype))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    use InterpolateMode::{Area, Bicubic, Bilinear, Linear, Nearest, NearestExact, Trilinear};
    vec![
        Operation { name: "interpolate to the nearest", draw: |d| spatial(d, Nearest) },
        Operation { name: "interpolate to the nearest centre", draw: |d| spatial(d, NearestExact) },
        Operation { name: "interpolate on a line", draw: |d| interpolate(d, Linear, 1) },
        Operation { name: "interpolate on lines of two axes", draw: |d| interpolate(d, Bilinear, 2) },
        Operation { name: "interpolate on lines of three axes", draw: |d| interpolate(d, Trilinear, 3) },
        Operation { name: "interpolate on cubics", draw: |d| interpolate(d, Bicubic, 2) },
        Operation { name: "interpolate by areas", draw: |d| spatial(d, Area) },
        Operation { name: "pixel_shuffle", draw: |d| shuffle(d, true) },
        Operation { name: "pixel_unshuffle", draw: |d| shuffle(d, false) },
        Operation { name: "channel_shuffle", draw: channel_shuffle },
        Operation { name: "batch_norm", draw: batch_norm },
        Operation { name: "group_norm", draw: group_norm },
        Operation { name: "instance_norm", draw: instance_norm },
        Operation { name: "local_response_norm", draw: local_response_norm },
    ]
}
