"""Convolutions and windows as axes."""

from make import INF, NAN, case, extremes, integers, reals, tensor

import torch.nn.functional as F

ROWS = []


def convolution(function):
    """With the bias as a third tensor, if there is one; padding is numbers or a word."""

    def apply(x, weight, *bias, stride=(1,), padding=(0,), dilation=(1,), groups=1):
        padding = padding if isinstance(padding, str) else tuple(padding)
        return function(x, weight, bias[0] if bias else None, tuple(stride), padding, tuple(dilation), groups)

    return apply


def conv(operation, variant, *inputs, **args):
    near = args.pop("near", 1e-5)
    ROWS.append(case(operation, variant, convolution(getattr(F, operation)), *inputs, near=near, **args))


conv("conv1d", "plain", reals(2, 3, 7), reals(4, 3, 3, seed=1))
conv("conv1d", "bias", reals(2, 3, 7), reals(4, 3, 3, seed=1), reals(4, seed=2))
conv("conv1d", "unbatched, a kernel of one", reals(3, 5), reals(2, 3, 1, seed=1), reals(2, seed=2))
conv("conv1d", "stride 2, padding 2, dilation 3", reals(1, 2, 11), reals(3, 2, 4, seed=1), stride=[2], padding=[1], dilation=[3])
conv("conv1d", "stride beyond the kernel", reals(1, 2, 11), reals(3, 2, 2, seed=1), stride=[4])
conv("conv1d", "depthwise", reals(2, 4, 9), reals(4, 1, 3, seed=1), reals(4, seed=2), padding=[1], groups=4)
conv("conv1d", "depthwise, two results each, a kernel of one", reals(1, 3, 5), reals(6, 1, 1, seed=1), groups=3)
conv("conv1d", "three groups", reals(1, 6, 8), reals(9, 2, 3, seed=1), stride=[3], groups=3)
conv("conv1d", "same, even kernel", reals(1, 2, 7), reals(2, 2, 4, seed=1), padding="same")
conv("conv1d", "same, dilated", reals(1, 1, 9), reals(1, 1, 3, seed=1), padding="same", dilation=[3])
conv("conv1d", "valid", reals(1, 1, 5), reals(2, 1, 5, seed=1), padding="valid")
conv("conv1d", "longer than the input but for the padding", reals(1, 1, 2), reals(1, 1, 5, seed=1), padding=[2])
conv("conv1d", "no batch elements", reals(0, 2, 6), reals(3, 2, 3, seed=1))
conv("conv1d", "integers", integers(1, 2, 6, dtype="i64"), integers(2, 2, 3, dtype="i64", seed=1), near=0)
conv("conv1d", "f64", reals(1, 2, 6, dtype="f64"), reals(2, 2, 3, dtype="f64", seed=1), near=1e-14)
conv("conv1d", "bf16", reals(1, 4, 6, dtype="bf16"), reals(2, 4, 3, dtype="bf16", seed=1), reals(2, dtype="bf16", seed=2), near=5e-2)
conv("conv1d", "NaN and infinities stay in their windows", tensor([[[1.0, NAN, 2.0, 3.0, INF, 4.0, 5.0, -INF]]]), tensor([[[1.0, -1.0]]]))
conv("conv2d", "plain", reals(2, 3, 6, 7), reals(4, 3, 3, 2, seed=1), reals(4, seed=2))
conv("conv2d", "one number for both axes", reals(1, 2, 8, 9), reals(3, 2, 3, 3, seed=1), stride=[2], padding=[1])
conv("conv2d", "different numbers", reals(1, 2, 8, 9), reals(3, 2, 2, 3, seed=1), stride=[1, 3], padding=[2, 0], dilation=[3, 2])
conv("conv2d", "unbatched", reals(2, 5, 4), reals(3, 2, 3, 3, seed=1), padding=[1, 1])
conv("conv2d", "groups", reals(2, 4, 5, 5), reals(6, 2, 3, 3, seed=1), reals(6, seed=2), groups=2, padding=[1, 1])
conv("conv2d", "depthwise, stride 2", reals(1, 5, 7, 7), reals(5, 1, 3, 3, seed=1), groups=5, stride=[2, 2], padding=[1, 1])
conv("conv2d", "a kernel of one by one", reals(1, 5, 3, 3), reals(2, 5, 1, 1, seed=1), reals(2, seed=2))
conv("conv2d", "a kernel of one by one, stride 2", reals(1, 5, 5, 4), reals(2, 5, 1, 1, seed=1), stride=[2, 2])
conv("conv2d", "the whole image", reals(2, 2, 4, 3), reals(3, 2, 4, 3, seed=1))
conv("conv2d", "same", reals(1, 1, 5, 6), reals(2, 1, 4, 3, seed=1), padding="same", dilation=[2, 1])
conv("conv2d", "f16", reals(1, 3, 5, 5, dtype="f16"), reals(2, 3, 3, 3, dtype="f16", seed=1), near=1e-2)
conv("conv3d", "plain", reals(1, 2, 4, 5, 3), reals(3, 2, 2, 3, 2, seed=1), reals(3, seed=2))
conv("conv3d", "strides and padding", reals(1, 2, 4, 5, 3), reals(2, 2, 2, 3, 2, seed=1), stride=[2, 1, 1], padding=[1, 0, 2], dilation=[1, 2, 1])
conv("conv3d", "unbatched, groups", reals(4, 3, 3, 3), reals(4, 1, 2, 2, 2, seed=1), groups=4)


def transposed(function):
    def apply(x, weight, *bias, stride=(1,), padding=(0,), output_padding=(0,), dilation=(1,), groups=1):
        more = (tuple(stride), tuple(padding), tuple(output_padding), groups, tuple(dilation))
        return function(x, weight, bias[0] if bias else None, *more)

    return apply


def conv_transpose(operation, variant, *inputs, **args):
    near = args.pop("near", 1e-5)
    ROWS.append(case(operation, variant, transposed(getattr(F, operation)), *inputs, near=near, **args))


conv_transpose("conv_transpose1d", "plain", reals(2, 3, 5), reals(3, 4, 3, seed=1))
conv_transpose("conv_transpose1d", "bias, stride 2", reals(2, 3, 5), reals(3, 4, 2, seed=1), reals(4, seed=2), stride=[2])
conv_transpose("conv_transpose1d", "kernel 3, stride 2, padding 1, output padding 1", reals(1, 2, 5), reals(2, 3, 3, seed=1), reals(3, seed=2), stride=[2], padding=[1], output_padding=[1])
conv_transpose("conv_transpose1d", "stride beyond the kernel", reals(1, 2, 4), reals(2, 3, 2, seed=1), reals(3, seed=2), stride=[5], output_padding=[3])
conv_transpose("conv_transpose1d", "stride 4, dilation 2", reals(1, 2, 4), reals(2, 3, 5, seed=1), reals(3, seed=2), stride=[4], dilation=[2], padding=[3])
conv_transpose("conv_transpose1d", "stride 2, dilation 3", reals(1, 2, 4), reals(2, 3, 4, seed=1), stride=[2], dilation=[3], padding=[2], output_padding=[2])
conv_transpose("conv_transpose1d", "stride 3, dilation 2", reals(1, 1, 6), reals(1, 1, 5, seed=1), stride=[3], dilation=[2], padding=[4])
conv_transpose("conv_transpose1d", "stride 6, dilation 4", reals(1, 1, 3), reals(1, 2, 7, seed=1), stride=[6], dilation=[4], padding=[1])
conv_transpose("conv_transpose1d", "dilation alone", reals(1, 2, 4), reals(2, 1, 3, seed=1), dilation=[3])
conv_transpose("conv_transpose1d", "padding beyond the kernel", reals(1, 1, 9), reals(1, 1, 2, seed=1), padding=[4])
conv_transpose("conv_transpose1d", "a result outside of all", reals(1, 1, 1), reals(1, 1, 1, seed=1), tensor([2.0]), dilation=[10], padding=[4], output_padding=[9])
conv_transpose("conv_transpose1d", "groups", reals(2, 4, 3), reals(4, 3, 4, seed=1), reals(6, seed=2), stride=[2], groups=2)
conv_transpose("conv_transpose1d", "depthwise, unbatched", reals(3, 5), reals(3, 1, 3, seed=1), groups=3, stride=[2])
conv_transpose("conv_transpose1d", "integers", integers(1, 1, 4, dtype="i64"), integers(1, 1, 2, dtype="i64", seed=1), near=0)
conv_transpose("conv_transpose1d", "bf16", reals(1, 4, 4, dtype="bf16"), reals(4, 2, 3, dtype="bf16", seed=1), stride=[2], near=5e-2)
conv_transpose("conv_transpose2d", "plain", reals(1, 3, 4, 5), reals(3, 2, 3, 2, seed=1), reals(2, seed=2))
conv_transpose("conv_transpose2d", "twice as large", reals(1, 3, 4, 5), reals(3, 2, 2, 2, seed=1), reals(2, seed=2), stride=[2])
conv_transpose("conv_transpose2d", "kernel 4, stride 2, padding 1", reals(2, 2, 3, 3), reals(2, 3, 4, 4, seed=1), stride=[2, 2], padding=[1, 1])
conv_transpose("conv_transpose2d", "all different", reals(1, 2, 4, 3), reals(2, 2, 3, 4, seed=1), reals(2, seed=2), stride=[2, 3], padding=[1, 2], output_padding=[1, 2], dilation=[2, 1])
conv_transpose("conv_transpose2d", "groups, unbatched", reals(4, 3, 3), reals(4, 2, 3, 3, seed=1), groups=2, stride=[2], padding=[1])
conv_transpose("conv_transpose3d", "plain", reals(1, 2, 3, 2, 3), reals(2, 2, 2, 3, 2, seed=1), reals(2, seed=2))
conv_transpose("conv_transpose3d", "strides", reals(1, 2, 2, 2, 3), reals(2, 1, 2, 3, 2, seed=1), stride=[2, 3, 1], padding=[0, 1, 1], output_padding=[1, 0, 0])


def im2col(x, kernel_size, dilation=(1,), padding=(0,), stride=(1,)):
    pair = lambda n: tuple(n) * 2 if len(n) == 1 else tuple(n)
    return F.unfold(x, pair(kernel_size), pair(dilation), pair(padding), pair(stride))


def col2im(x, output_size, kernel_size, dilation=(1,), padding=(0,), stride=(1,)):
    pair = lambda n: tuple(n) * 2 if len(n) == 1 else tuple(n)
    return F.fold(x, tuple(output_size), pair(kernel_size), pair(dilation), pair(padding), pair(stride))


ROWS += [
    case("unfold", "overlapping", lambda x, axis, size, step: x.unfold(axis, size, step), reals(2, 7), exact=True, axis=1, size=3, step=2),
    case("unfold", "the first axis, apart", lambda x, axis, size, step: x.unfold(axis, size, step), reals(8, 2), exact=True, axis=-2, size=2, step=3),
    case("unfold", "windows of nothing", lambda x, axis, size, step: x.unfold(axis, size, step), reals(3), exact=True, axis=0, size=0, step=1),
    case("unfold", "bools", lambda x, axis, size, step: x.unfold(axis, size, step), integers(2, 5, dtype="bool"), axis=1, size=4, step=1),
    case("im2col", "plain", im2col, reals(2, 3, 4, 5), exact=True, kernel_size=[2, 3]),
    case("im2col", "all different", im2col, reals(1, 2, 6, 7), exact=True, kernel_size=[3, 2], dilation=[2, 1], padding=[1, 2], stride=[2, 3]),
    case("im2col", "unbatched, one number", im2col, reals(2, 4, 4), exact=True, kernel_size=[2], padding=[1], stride=[2]),
    case("col2im", "overlapping", col2im, reals(2, 12, 6), near=1e-6, output_size=[3, 4], kernel_size=[2, 2]),
    case("col2im", "padded", col2im, reals(1, 18, 12), near=1e-6, output_size=[4, 3], kernel_size=[3, 3], padding=[1]),
    case("col2im", "strides and dilations", col2im, reals(1, 12, 9), near=1e-6, output_size=[7, 8], kernel_size=[3, 2], dilation=[2, 3], padding=[1, 1], stride=[2, 3]),
    case("col2im", "holes", col2im, reals(6, 4), exact=True, output_size=[5, 6], kernel_size=[2, 3], stride=[3, 3]),
]
conv("conv2d", "no images", reals(0, 2, 3, 3), reals(2, 2, 2, 2, seed=1))
FEW = tensor([[[[NAN, 1.0, -0.0], [2.0, -0.0, INF]]]])
conv_transpose("conv_transpose2d", "NaN, an infinity and -0 go in", FEW, integers(1, 1, 2, 2, seed=1), stride=[2])
conv_transpose("conv_transpose3d", "NaN, an infinity and -0 go in", FEW[None], integers(1, 1, 1, 2, 2, seed=1), stride=[2])
ROWS.append(case("col2im", "NaN, an infinity and -0", col2im, tensor([[[NAN, 1.0], [2.0, INF], [-0.0, 0.0], [3.0, -INF]]]), near=1e-6, output_size=[2, 3], kernel_size=[2, 2]))
conv("conv3d", "no batch elements", reals(0, 1, 2, 3, 2), reals(2, 1, 2, 2, 1, seed=1))
ROWS += [
    case("im2col", "no images", im2col, reals(0, 1, 3, 4), exact=True, kernel_size=[2]),
    case("col2im", "no images", col2im, reals(0, 4, 2), near=1e-6, output_size=[2, 3], kernel_size=[2, 2]),
]
ROWS += extremes(ROWS)
