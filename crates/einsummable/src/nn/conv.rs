//! Convolutions.

use super::{Module, Scope};
use crate::tensor::conv::{ConvOptions, Padding};
use crate::tensor::conv_transpose::ConvTransposeOptions;
use crate::tensor::pad::PadMode;
use crate::tensor::window::{PerAxis, Window};
use crate::tensor::{Tensor, TensorError};

/// The weight and, if asked for, the bias of a scope, or a weight that carries what is wrong with its shape.
fn parameters(
    scope: &Scope,
    operation: &'static str,
    channels: [usize; 2],
    bias: Option<usize>,
    kernel: &PerAxis,
    axes: usize,
) -> (Tensor, Option<Tensor>) {
    let weight = match kernel.each("the kernel size", axes) {
        Ok(kernel) => scope.parameter("weight", &[&channels[..], &kernel].concat()),
        Err(reason) => Tensor::poisoned(TensorError::Shape { operation, shapes: vec![], reason }),
    };
    (weight, bias.map(|n| scope.parameter("bias", &[n])))
}

/// The tensor with the elements around it that a mode other than zeros puts there, and the options without padding.
fn surrounded(
    x: &Tensor,
    weight: &Tensor,
    options: &ConvOptions,
    mode: PadMode,
) -> Result<(Tensor, ConvOptions), TensorError> {
    if mode == PadMode::Constant(0.0) {
        return Ok((x.clone(), options.clone()));
    }
    weight.check()?;
    let wrong = |reason: String| x.shape_error("pad", reason);
    let windows = Window::of(&weight.shape()[2..], &options.stride, &options.dilation).map_err(wrong)?;
    let pairs = options.padding.pairs(&windows).map_err(wrong)?;
    let pairs: Vec<(i64, i64)> = pairs.into_iter().rev().map(|(lo, hi)| (lo as i64, hi as i64)).collect();
    Ok((x.pad(&pairs, mode), ConvOptions { padding: Padding::Valid, ..options.clone() }))
}

macro_rules! convolution {
    ($name:ident, $method:ident, $axes:literal, $shape:literal) => {
        #[doc = concat!("`torch.nn.", stringify!($name), "`: ", $shape, ".")]
        #[derive(Clone, Debug)]
        pub struct $name {
            path: String,
            options: ConvOptions,
            mode: PadMode,
            #[doc = "`[out, in / groups, …]`."]
            pub weight: Tensor,
            #[doc = "`[out]`."]
            pub bias: Option<Tensor>,
        }

        impl $name {
            /// The layer whose parameters are `weight` and, if asked for, `bias` of this scope.
            pub fn new(
                scope: &Scope,
                in_channels: usize,
                out_channels: usize,
                kernel_size: impl Into<PerAxis>,
                options: ConvOptions,
                bias: bool,
            ) -> Self {
                let kernel = kernel_size.into();
                let channels = [out_channels, in_channels / options.groups.max(1)];
                let bias = bias.then_some(out_channels);
                let (weight, bias) = parameters(scope, stringify!($method), channels, bias, &kernel, $axes);
                Self { path: scope.path().into(), options, mode: PadMode::Constant(0.0), weight, bias }
            }

            /// The layer with something else than zeros around its input: `padding_mode`.
            pub fn padding_mode(self, mode: PadMode) -> Self {
                Self { mode, ..self }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                Tensor::attempt(|| {
                    let (x, options) = surrounded(x, &self.weight, &self.options, self.mode)?;
                    Ok(x.$method(&self.weight, self.bias.as_ref(), &options).named(&self.path))
                })
            }

            fn parameters(&self) -> Vec<Tensor> {
                std::iter::once(&self.weight).chain(&self.bias).cloned().collect()
            }
        }
    };
}

convolution!(Conv1d, conv1d, 1, "windows of `[n, c, x]` times a kernel");
convolution!(Conv2d, conv2d, 2, "windows of `[n, c, y, x]` times a kernel");
convolution!(Conv3d, conv3d, 3, "windows of `[n, c, z, y, x]` times a kernel");

macro_rules! transposed {
    ($name:ident, $method:ident, $axes:literal, $shape:literal) => {
        #[doc = concat!("`torch.nn.", stringify!($name), "`: ", $shape, ".")]
        #[derive(Clone, Debug)]
        pub struct $name {
            path: String,
            options: ConvTransposeOptions,
            #[doc = "`[in, out / groups, …]`."]
            pub weight: Tensor,
            #[doc = "`[out]`."]
            pub bias: Option<Tensor>,
        }

        impl $name {
            /// The layer whose parameters are `weight` and, if asked for, `bias` of this scope.
            pub fn new(
                scope: &Scope,
                in_channels: usize,
                out_channels: usize,
                kernel_size: impl Into<PerAxis>,
                options: ConvTransposeOptions,
                bias: bool,
            ) -> Self {
                let kernel = kernel_size.into();
                let channels = [in_channels, out_channels / options.groups.max(1)];
                let bias = bias.then_some(out_channels);
                let (weight, bias) = parameters(scope, stringify!($method), channels, bias, &kernel, $axes);
                Self { path: scope.path().into(), options, weight, bias }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(&self.weight, self.bias.as_ref(), &self.options).named(&self.path)
            }

            fn parameters(&self) -> Vec<Tensor> {
                std::iter::once(&self.weight).chain(&self.bias).cloned().collect()
            }
        }
    };
}

transposed!(ConvTranspose1d, conv_transpose1d, 1, "a kernel laid down at every element of `[n, c, x]`");
transposed!(ConvTranspose2d, conv_transpose2d, 2, "a kernel laid down at every element of `[n, c, y, x]`");
transposed!(ConvTranspose3d, conv_transpose3d, 3, "a kernel laid down at every element of `[n, c, z, y, x]`");
