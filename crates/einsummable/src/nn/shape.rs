//! Modules without parameters that change shapes, or nothing.

use super::Module;
use crate::tensor::Tensor;
use crate::tensor::interpolate::InterpolateOptions;
use crate::tensor::pad::PadMode;
use crate::tensor::unfold::UnfoldOptions;
use crate::tensor::window::PerAxis;

macro_rules! stateless {
    ($name:ident, |$self:ident, $x:ident| $forward:expr) => {
        impl Module for $name {
            fn forward(&$self, $x: &Tensor) -> Tensor {
                $forward
            }

            fn parameters(&self) -> Vec<Tensor> {
                Vec::new()
            }
        }
    };
}

/// `torch.nn.Identity`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity;
stateless!(Identity, |self, x| x.clone());

/// `torch.nn.Dropout` at inference, where nothing is dropped, whatever the probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout(pub f64);
stateless!(Dropout, |self, x| x.clone());

/// `torch.nn.Flatten`: axes `start` to `end` (both included) made one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flatten {
    /// The first axis.
    pub start: i64,
    /// The last axis.
    pub end: i64,
}

impl Default for Flatten {
    /// All axes after the batch.
    fn default() -> Self {
        Self { start: 1, end: -1 }
    }
}
stateless!(Flatten, |self, x| x.flatten(self.start, self.end));

/// `torch.nn.Unflatten`: one axis as several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unflatten {
    /// The axis.
    pub axis: i64,
    /// Their extents, one of which may be -1.
    pub sizes: Vec<i64>,
}
stateless!(Unflatten, |self, x| x.unflatten(self.axis, &self.sizes));

/// `torch.nn.Upsample`: [`Tensor::interpolate`] with these options.
#[derive(Clone, Debug, PartialEq)]
pub struct Upsample(pub InterpolateOptions);
stateless!(Upsample, |self, x| x.interpolate(&self.0));

/// `torch.nn.PixelShuffle` by a factor: channels to pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelShuffle(pub usize);
stateless!(PixelShuffle, |self, x| x.pixel_shuffle(self.0));

/// `torch.nn.PixelUnshuffle` by a factor: pixels to channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelUnshuffle(pub usize);
stateless!(PixelUnshuffle, |self, x| x.pixel_unshuffle(self.0));

/// `torch.nn.ChannelShuffle` of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelShuffle(pub usize);
stateless!(ChannelShuffle, |self, x| x.channel_shuffle(self.0));

/// `torch.nn.Unfold`: the windows of an image as columns, [`Tensor::im2col`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfold {
    /// Extents of a window.
    pub kernel_size: PerAxis,
    /// Where windows are.
    pub options: UnfoldOptions,
}
stateless!(Unfold, |self, x| x.im2col(self.kernel_size.clone(), &self.options));

/// `torch.nn.Fold`: columns summed into an image, [`Tensor::col2im`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Extents of the image.
    pub output_size: [usize; 2],
    /// Extents of a window.
    pub kernel_size: PerAxis,
    /// Where windows are.
    pub options: UnfoldOptions,
}
stateless!(Fold, |self, x| x.col2im(self.output_size, self.kernel_size.clone(), &self.options));

macro_rules! padding {
    ($($name:ident $axes:literal $mode:expr, $what:literal;)*) => {
        $(
            #[doc = concat!("`torch.nn.", stringify!($name), "`: ", $what, ". Pairs (before, after) of the last axis first.")]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name(pub [(i64, i64); $axes]);
            stateless!($name, |self, x| x.pad(&self.0, $mode));
        )*
    };
}

padding! {
    ZeroPad1d 1 PadMode::Constant(0.0), "zeros around one axis";
    ZeroPad2d 2 PadMode::Constant(0.0), "zeros around two axes";
    ZeroPad3d 3 PadMode::Constant(0.0), "zeros around three axes";
    ReflectionPad1d 1 PadMode::Reflect, "elements in reverse around one axis";
    ReflectionPad2d 2 PadMode::Reflect, "elements in reverse around two axes";
    ReflectionPad3d 3 PadMode::Reflect, "elements in reverse around three axes";
    ReplicationPad1d 1 PadMode::Replicate, "outermost elements again around one axis";
    ReplicationPad2d 2 PadMode::Replicate, "outermost elements again around two axes";
    ReplicationPad3d 3 PadMode::Replicate, "outermost elements again around three axes";
    CircularPad1d 1 PadMode::Circular, "elements from the other end around one axis";
    CircularPad2d 2 PadMode::Circular, "elements from the other end around two axes";
    CircularPad3d 3 PadMode::Circular, "elements from the other end around three axes";
}
