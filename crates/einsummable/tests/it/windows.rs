//! Convolutions, pools, padding and shapes: mistakes that name the culprit, and the rows that graphs get. Values are
//! compared with `PyTorch`'s in `tests/vectors`.

use super::{c, count, value};
use ein_ir::op::Op;
use ein_ir::spec::Role;
use einsummable::{
    AvgPoolOptions, ConvOptions, ConvTransposeOptions, DType, InterpolateMode, InterpolateOptions, MaxPoolOptions,
    PadMode, Padding, Tensor, UnfoldOptions, trace,
};

fn x(shape: &[usize]) -> Tensor {
    Tensor::input("x", shape, DType::F32)
}

fn w(shape: &[usize]) -> Tensor {
    Tensor::parameter("w", shape, DType::F32)
}

fn refused(tensor: &Tensor, parts: &[&str]) {
    let message = tensor.check().expect_err(&format!("{tensor:?}")).to_string();
    for part in parts {
        assert!(message.contains(part), "`{part}` in: {message}");
    }
}

#[test]
fn convolutions_answer_mistakes() {
    let plain = ConvOptions::new();
    let image = x(&[2, 4, 5, 6]);
    refused(&image.conv2d(&w(&[8, 3, 3, 3]), None, &plain), &["conv2d", "[8, 3, 3, 3]", "4 channels", "takes 3"]);
    refused(&image.conv2d(&w(&[8, 4, 3]), None, &plain), &["conv2d", "weight must have 4 axes"]);
    refused(
        &x(&[4, 5]).conv2d(&w(&[8, 4, 3, 3]), None, &plain),
        &["conv2d", "input must have 4 axes", "3 without batch"],
    );
    refused(&image.conv2d(&w(&[8, 4, 7, 3]), None, &plain), &["conv2d", "axis 2 is 5 long", "7"]);
    refused(&image.conv2d(&w(&[8, 4, 3, 3]), None, &plain.clone().dilation([1, 3])), &["axis 3 is 6 long", "7"]);
    refused(&image.conv2d(&w(&[8, 4, 3, 3]), None, &plain.clone().stride(0)), &["conv2d", "stride [0, 0]"]);
    refused(&image.conv2d(&w(&[8, 4, 3, 3]), None, &plain.clone().dilation(0)), &["conv2d", "dilation [0, 0]"]);
    refused(&image.conv2d(&w(&[8, 4, 3, 3]), None, &plain.clone().stride([1, 1, 1])), &["3 numbers for 2"]);
    refused(&image.conv2d(&w(&[8, 4, 0, 3]), None, &plain), &["conv2d", "kernel size [0, 3]"]);
    refused(&image.conv2d(&w(&[8, 4, 3, 3]), None, &plain.clone().groups(0)), &["conv2d", "0 groups"]);
    refused(&image.conv2d(&w(&[9, 2, 3, 3]), None, &plain.clone().groups(2)), &["conv2d", "2 groups", "gives 9"]);
    let same = plain.clone().padding(Padding::Same);
    refused(&image.conv2d(&w(&[8, 4, 3, 3]), None, &same.clone().stride(2)), &["conv2d", "`same`", "stride of 1"]);
    assert_eq!(image.conv2d(&w(&[8, 4, 4, 3]), None, &same).shape(), [2, 8, 5, 6]);
    let bias = Tensor::parameter("b", [7], DType::F32);
    refused(&image.conv2d(&w(&[8, 4, 3, 3]), Some(&bias), &plain), &["conv2d", "[7]", "[8]"]);
    let half = Tensor::parameter("h", [8, 4, 3, 3], DType::F16);
    refused(&image.conv2d(&half, None, &plain), &["conv2d", "f32, f16", "`.to`"]);
    refused(&x(&[1, 2, 0]).conv1d(&w(&[1, 2, 2]), None, &plain.clone().padding(2)), &["conv1d", "0 long"]);
    let far = plain.padding(usize::MAX / 2);
    refused(&image.conv2d(&w(&[8, 4, 3, 3]), None, &far), &["addressed"]);
}

#[test]
fn transposed_convolutions_answer_mistakes() {
    let plain = ConvTransposeOptions::new();
    let image = x(&[2, 4, 5, 6]);
    refused(&image.conv_transpose2d(&w(&[3, 8, 3, 3]), None, &plain), &["conv_transpose2d", "4 channels", "weight 3"]);
    refused(&image.conv_transpose2d(&w(&[4, 8, 3, 3]), None, &plain.clone().groups(3)), &["3 groups", "multiple"]);
    let more = plain.clone().stride(2).output_padding([0, 2]);
    refused(&image.conv_transpose2d(&w(&[4, 8, 3, 3]), None, &more), &["output padding 2", "stride 2", "dilation 1"]);
    let small = plain.clone().padding([4, 0]);
    refused(&image.conv_transpose2d(&w(&[4, 8, 3, 3]), None, &small), &["7 - 2 * 4 + 0 = -1", "axis 0"]);
    let bias = Tensor::parameter("b", [4], DType::F32);
    refused(&image.conv_transpose2d(&w(&[4, 3, 3, 3]), Some(&bias), &plain.clone().groups(2)), &["[4]", "[6]"]);
    for far in [plain.clone().stride(usize::MAX), plain.clone().dilation(usize::MAX), plain.padding(usize::MAX)] {
        assert!(image.conv_transpose2d(&w(&[4, 8, 3, 3]), None, &far).check().is_err(), "{far:?}");
    }
}

#[test]
fn pools_answer_mistakes() {
    let image = x(&[2, 4, 5, 6]);
    let plain = MaxPoolOptions::new();
    refused(&image.max_pool2d(7, &plain), &["max_pool2d", "axis 2 is 5 long", "7"]);
    refused(&image.max_pool2d(0, &plain), &["max_pool2d", "kernel size [0, 0]"]);
    refused(&image.max_pool2d(2, &plain.clone().stride(0)), &["max_pool2d", "stride [0, 0]"]);
    refused(&image.max_pool2d(3, &plain.clone().padding(2)), &["max_pool2d", "padding 2", "more than 1", "half"]);
    refused(&image.max_pool2d(2, &MaxPoolOptions { dilation: usize::MAX.into(), ..plain.clone() }), &["max_pool2d"]);
    refused(&image.max_pool1d(2, &plain), &["max_pool1d", "3 axes are expected"]);
    refused(&image.to(DType::Bool).max_pool2d(2, &plain), &["max_pool2d", "bool", "`.to`"]);
    refused(&image.to(DType::I64).avg_pool2d(2, &AvgPoolOptions::new()), &["avg_pool2d", "floats"]);
    refused(&image.avg_pool2d(2, &AvgPoolOptions::new().divisor_override(0)), &["avg_pool2d", "divisor"]);
    refused(&image.adaptive_avg_pool2d([1, 2, 3]), &["adaptive_avg_pool2d", "3 numbers for 2"]);
    refused(&image.adaptive_max_pool1d(1), &["adaptive_max_pool1d", "3 axes are expected"]);
    refused(&x(&[1, 2, 0]).adaptive_avg_pool1d(1), &["adaptive_avg_pool1d", "0 long"]);
}

#[test]
fn padding_and_windows_answer_mistakes() {
    let t = x(&[3, 4]);
    refused(&t.pad(&[(4, 0)], PadMode::Reflect), &["pad", "reflect padding (4, 0) of axis 1", "4 long", "at most 3"]);
    refused(&t.pad(&[(0, 0), (0, 4)], PadMode::Circular), &["circular padding (0, 4) of axis 0", "at most 3"]);
    refused(&x(&[0]).pad(&[(1, 0)], PadMode::Replicate), &["replicate padding (1, 0) of axis 0", "at most 0"]);
    refused(&t.pad(&[(1, 1); 3], PadMode::Reflect), &["pad", "3 pairs", "2 axes"]);
    refused(&t.pad(&[(-3, -2)], 0.0), &["pad", "(-3, -2)", "axis 1", "4"]);
    refused(&t.pad(&[(i64::MIN, i64::MIN)], 0.0), &["pad", "axis 1"]);
    refused(&t.unfold(1, 5, 1), &["unfold", "5", "axis 1", "4 long"]);
    refused(&t.unfold(0, 1, 0), &["unfold", "steps of 0"]);
    refused(&t.im2col(2, &UnfoldOptions::new()), &["im2col", "[batch, channels, y, x]"]);
    refused(&x(&[1, 2, 3, 3]).im2col(4, &UnfoldOptions::new()), &["im2col", "an axis of 3", "4"]);
    let columns = x(&[1, 8, 5]);
    refused(&columns.col2im([3, 3], 2, &UnfoldOptions::new()), &["col2im", "channels * 4, 4", "2 by 2 windows"]);
    refused(&x(&[5]).col2im([3, 3], 2, &UnfoldOptions::new()), &["col2im", "[5]"]);
}

#[test]
fn shapes_answer_mistakes() {
    let t = x(&[2, 6]);
    refused(&t.unflatten(1, &[4, -1]), &["unflatten", "axis 1 is 6 long", "[4, -1]"]);
    refused(&t.movedim(&[0, 0], &[0, 1]), &["movedim", "named twice"]);
    refused(&t.movedim(&[0], &[0, 1]), &["movedim", "[0]", "[0, 1]"]);
    refused(&t.repeat(&[2]), &["repeat", "1 repeats for 2 axes"]);
    refused(&t.repeat(&[usize::MAX, 2]), &["repeat", "too many"]);
    refused(&t.repeat_interleave(2, 5), &["repeat_interleave", "axis 5"]);
    refused(&t.split(0, 0)[0], &["split", "axis 0", "2 long"]);
    refused(&t.split(1, 7)[0], &["split", "axis 7"]);
    refused(&t.split_with_sizes(&[1, 4], 1)[1], &["split", "[1, 4] make 5", "axis 1 is 6 long"]);
    refused(&t.chunk(0, 0)[0], &["chunk", "0"]);
    refused(&t.tensor_split(0, 0)[0], &["tensor_split", "0"]);
    refused(&t.unbind(2)[0], &["unbind", "axis 2"]);
    refused(&Tensor::stack(&[&t, &x(&[6, 2])], 0), &["stack", "[2, 6], [6, 2]", "one shape"]);
    refused(&Tensor::stack(&[], 0), &["stack", "one tensor"]);
    refused(&t.rot90(1, [0, 0]), &["rot90", "named twice"]);
    refused(&t.diagonal(0, 1, -1), &["diagonal", "named twice"]);
    refused(&t.sum(&[], false).diag(0), &["diag", "0 axes"]);
    refused(&t.unsqueeze(0).trace(), &["trace", "3 axes"]);
    refused(&t.flip(&[0, -2]), &["flip", "named twice"]);
    refused(&x(&[3]).adjoint(), &["transpose", "axis -2"]);
    let wrong = t.select(0, 9);
    for parts in [wrong.split(1, 0), wrong.chunk(2, 0), wrong.unbind(0), wrong.tensor_split(2, 0)] {
        assert!(parts[0].check().unwrap_err().to_string().contains("index 9"), "the first error stays");
    }
}

#[test]
fn images_answer_mistakes() {
    let image = x(&[2, 4, 5, 6]);
    let to = |options: InterpolateOptions| image.interpolate(&options);
    let twice = InterpolateOptions::scale_factor(2.0);
    refused(&to(twice.clone().mode(InterpolateMode::Linear)), &["interpolate", "`linear`", "1 spatial"]);
    refused(&x(&[2, 4]).interpolate(&twice), &["interpolate", "one to three spatial axes"]);
    refused(&to(twice.clone().align_corners(true)), &["`nearest`", "align_corners"]);
    refused(&to(InterpolateOptions::scale_factors(&[2.0; 3])), &["3 scale factors for 2"]);
    refused(&to(InterpolateOptions::size([1, 2, 3])), &["size [1, 2, 3]", "3 numbers for 2"]);
    refused(&to(InterpolateOptions::size([3, 0])), &["[5, 6] become [3, 0]"]);
    for factor in [0.1, -1.0, f64::NAN, f64::INFINITY, 1e300] {
        refused(&to(InterpolateOptions::scale_factor(factor)), &["interpolate", "1 or more"]);
    }
    let integers = image.to(DType::I64);
    refused(&integers.interpolate(&twice.mode(InterpolateMode::Bilinear)), &["interpolate", "floats"]);
    refused(&image.pixel_shuffle(3), &["pixel_shuffle", "4 channels", "3 squared"]);
    refused(&image.pixel_shuffle(usize::MAX), &["pixel_shuffle"]);
    refused(&x(&[4, 4]).pixel_shuffle(2), &["pixel_shuffle", "channels, rows and columns"]);
    refused(&image.pixel_unshuffle(5), &["pixel_unshuffle", "5 by 6", "5"]);
    refused(&image.pixel_unshuffle(0), &["pixel_unshuffle", "0"]);
    refused(&image.channel_shuffle(3), &["channel_shuffle", "4 channels", "3 groups"]);
    refused(&x(&[2, 4]).channel_shuffle(2), &["channel_shuffle", "a spatial axis"]);
}

#[test]
fn norms_of_channels_answer_mistakes() {
    let image = x(&[2, 4, 5, 6]);
    let (three, four) = (w(&[3]), w(&[4]));
    refused(&image.batch_norm(&three, &four, None, None, 1e-5), &["batch_norm", "[3] for 4 channels"]);
    refused(&image.batch_norm(&four, &four, None, Some(&three), 1e-5), &["batch_norm", "[3] for 4 channels"]);
    refused(&x(&[4]).batch_norm(&four, &four, None, None, 1e-5), &["batch_norm", "batch and channels"]);
    refused(&image.to(DType::I64).batch_norm(&four, &four, None, None, 1e-5), &["batch_norm", "floats"]);
    refused(&image.group_norm(3, None, None, 1e-5), &["group_norm", "4 channels", "3 groups"]);
    refused(&image.group_norm(0, None, None, 1e-5), &["group_norm", "0 groups"]);
    refused(&image.group_norm(2, Some(&three), None, 1e-5), &["group_norm", "[3] for 4 channels"]);
    refused(&x(&[2, 4, 1]).instance_norm(None, None, 1e-5), &["instance_norm", "1 spatial", "more than one"]);
    refused(&x(&[2, 4]).local_response_norm(3, 1.0, 0.75, 1.0), &["local_response_norm", "a spatial axis"]);
    refused(&image.local_response_norm(0, 1.0, 0.75, 1.0), &["local_response_norm", "0 neighbours"]);
}

/// Roles of the labels of the row that is named after its method.
fn roles(out: &Tensor, name: &str) -> Vec<(String, Role)> {
    let graph = trace(&[("out", out)]).unwrap().graph;
    let row = graph.find(name).unwrap_or_else(|| panic!("`{name}` in {:?}", graph.nodes()));
    let spec = graph.spec(row).expect("an operation");
    spec.labels.into_iter().map(|l| (l.name, l.role)).collect()
}

#[test]
fn spatial_labels_are_windows() {
    use Role::{Fold, Free, Window};
    let check = |out: &Tensor, name: &str, expected: &[(&str, Role)]| {
        let expected: Vec<(String, Role)> = expected.iter().map(|&(n, r)| (n.to_owned(), r)).collect();
        assert_eq!(roles(out, name), expected);
    };
    let image = x(&[2, 4, 8, 8]);
    let same = ConvOptions::new().padding(1);
    let windows = [("n", Free), ("o", Free), ("y", Window), ("x", Window), ("i", Fold), ("ky", Window), ("kx", Window)];
    check(&image.conv2d(&w(&[5, 4, 3, 3]), None, &same), "conv2d", &windows);
    // Windows side by side share nothing, and a kernel of one has no window.
    let apart = [("n", Free), ("c", Free), ("y", Free), ("x", Free), ("ky", Fold), ("kx", Fold)];
    check(&image.max_pool2d(2, &MaxPoolOptions::new()), "max_pool2d", &apart);
    let one = [("n", Free), ("o", Free), ("y", Free), ("x", Free), ("i", Fold)];
    check(&image.conv2d(&w(&[5, 4, 1, 1]), None, &ConvOptions::new()), "conv2d", &one);
    // Twice as large by windows side by side: no zeros between, no halo.
    let up = image.conv_transpose2d(&w(&[4, 5, 2, 2]), None, &ConvTransposeOptions::new().stride(2));
    let phases = [("n", Free), ("o", Free), ("y", Free), ("cy", Free), ("x", Free), ("cx", Free), ("i", Fold)];
    check(&up, "conv_transpose2d", &phases);
}

#[test]
fn what_only_moves_elements_is_views() {
    let t = x(&[2, 6]);
    for out in [
        t.repeat(&[3, 2]),
        t.repeat_interleave(2, 1),
        t.pad(&[(2, 3), (1, 1)], PadMode::Reflect),
        t.pad(&[(2, -3)], PadMode::Replicate),
        t.pad(&[(2, 3)], PadMode::Circular),
        t.rot90(1, [0, 1]),
        t.movedim(&[0], &[1]),
        t.reshape(&[1, 2, 2, 3]).interpolate(&InterpolateOptions::scale_factor(3.0)),
        t.reshape(&[1, 3, 2, 2]).interpolate(&InterpolateOptions::scale_factor(0.5)),
        t.reshape(&[1, 4, 1, 3]).pixel_shuffle(2),
        t.reshape(&[1, 4, 1, 3]).channel_shuffle(2),
        Tensor::hstack(&[&t, &t]),
        t.chunk(4, 1).pop().unwrap(),
    ] {
        let graph = trace(&[("out", &out)]).unwrap().graph;
        assert!(graph.nodes().iter().all(|n| matches!(n.op, Op::Input(_) | Op::View(_))), "{out:?}");
    }
}

/// Case B8: 1..10 correlated with [1, 2, 1].
#[test]
fn the_convolution_of_case_b8() {
    let t = &count(&[1, 10]) + 1.0;
    let y = t.conv1d(&c(&[1, 1, 3], &[1., 2., 1.]), None, &ConvOptions::new());
    assert_eq!(value(&y).to_f64(), [8., 12., 16., 20., 24., 28., 32., 36.]);
}
