//! Pools.

use super::Module;
use crate::tensor::Tensor;
use crate::tensor::adaptive::OutputSize;
use crate::tensor::pool::{AvgPoolOptions, LpPoolOptions, MaxPoolOptions};
use crate::tensor::window::PerAxis;

macro_rules! pool {
    ($name:ident, $method:ident, $options:ident, $what:literal) => {
        #[doc = concat!("`torch.nn.", stringify!($name), "`: ", $what, ".")]
        #[derive(Clone, Debug)]
        pub struct $name {
            kernel_size: PerAxis,
            options: $options,
        }

        impl $name {
            /// Windows of this size.
            pub fn new(kernel_size: impl Into<PerAxis>, options: $options) -> Self {
                Self { kernel_size: kernel_size.into(), options }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.kernel_size.clone(), &self.options)
            }

            fn parameters(&self) -> Vec<Tensor> {
                Vec::new()
            }
        }
    };
}

pool!(MaxPool1d, max_pool1d, MaxPoolOptions, "the largest of every window of one spatial axis");
pool!(MaxPool2d, max_pool2d, MaxPoolOptions, "the largest of every window of two spatial axes");
pool!(MaxPool3d, max_pool3d, MaxPoolOptions, "the largest of every window of three spatial axes");
pool!(AvgPool1d, avg_pool1d, AvgPoolOptions, "the mean of every window of one spatial axis");
pool!(AvgPool2d, avg_pool2d, AvgPoolOptions, "the mean of every window of two spatial axes");
pool!(AvgPool3d, avg_pool3d, AvgPoolOptions, "the mean of every window of three spatial axes");

macro_rules! power {
    ($name:ident, $method:ident, $what:literal) => {
        #[doc = concat!("`torch.nn.", stringify!($name), "`: the root of the sum of powers in every window of ", $what, ".")]
        #[derive(Clone, Debug)]
        pub struct $name {
            norm_type: f64,
            kernel_size: PerAxis,
            options: LpPoolOptions,
        }

        impl $name {
            /// Powers of `norm_type` in windows of this size.
            pub fn new(norm_type: f64, kernel_size: impl Into<PerAxis>, options: LpPoolOptions) -> Self {
                Self { norm_type, kernel_size: kernel_size.into(), options }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.norm_type, self.kernel_size.clone(), &self.options)
            }

            fn parameters(&self) -> Vec<Tensor> {
                Vec::new()
            }
        }
    };
}

power!(LPPool1d, lp_pool1d, "one spatial axis");
power!(LPPool2d, lp_pool2d, "two spatial axes");
power!(LPPool3d, lp_pool3d, "three spatial axes");

macro_rules! adaptive {
    ($name:ident, $method:ident, $what:literal) => {
        #[doc = concat!("`torch.nn.", stringify!($name), "`: ", $what, " over as many windows as are asked for.")]
        #[derive(Clone, Debug)]
        pub struct $name(OutputSize);

        impl $name {
            /// As many windows as this.
            pub fn new(output_size: impl Into<OutputSize>) -> Self {
                Self(output_size.into())
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.0.clone())
            }

            fn parameters(&self) -> Vec<Tensor> {
                Vec::new()
            }
        }
    };
}

adaptive!(AdaptiveAvgPool1d, adaptive_avg_pool1d, "means of one spatial axis");
adaptive!(AdaptiveAvgPool2d, adaptive_avg_pool2d, "means of two spatial axes");
adaptive!(AdaptiveAvgPool3d, adaptive_avg_pool3d, "means of three spatial axes");
adaptive!(AdaptiveMaxPool1d, adaptive_max_pool1d, "the largest of one spatial axis");
adaptive!(AdaptiveMaxPool2d, adaptive_max_pool2d, "the largest of two spatial axes");
adaptive!(AdaptiveMaxPool3d, adaptive_max_pool3d, "the largest of three spatial axes");
