//! Norms of channels.

use super::{Module, Scope};
use crate::tensor::Tensor;

/// Norms of channels with a weight and a bias, or without both.
fn affine(scope: &Scope, features: usize, affine: bool) -> (Option<Tensor>, Option<Tensor>) {
    let parameter = |name| affine.then(|| scope.parameter(name, &[features]));
    (parameter("weight"), parameter("bias"))
}

/// That a tensor has one of these numbers of axes.
fn ranked(x: &Tensor, operation: &'static str, ranks: [usize; 2]) -> Result<(), crate::TensorError> {
    x.check()?;
    if ranks.contains(&x.dim()) {
        return Ok(());
    }
    let expected = if ranks[0] == ranks[1] { ranks[0].to_string() } else { format!("{} or {}", ranks[0], ranks[1]) };
    Err(x.shape_error(operation, format!("{expected} axes are expected")))
}

macro_rules! batch_norm {
    ($name:ident, $ranks:expr, $what:literal) => {
        #[doc = concat!("`torch.nn.", stringify!($name), "` at inference: the stored statistics of every channel of ", $what, ".")]
        #[derive(Clone, Debug)]
        pub struct $name {
            path: String,
            /// The scale.
            pub weight: Option<Tensor>,
            /// The shift.
            pub bias: Option<Tensor>,
            /// The mean of every channel.
            pub running_mean: Tensor,
            /// The variance of every channel.
            pub running_var: Tensor,
            /// Added to the variance.
            pub eps: f64,
        }

        impl $name {
            /// The norm with the statistics and, if it is `affine`, `weight` and `bias` of this scope.
            pub fn new(scope: &Scope, num_features: usize, eps: f64, affine: bool) -> Self {
                let (weight, bias) = self::affine(scope, num_features, affine);
                let [running_mean, running_var] =
                    ["running_mean", "running_var"].map(|name| scope.parameter(name, &[num_features]));
                Self { path: scope.path().into(), weight, bias, running_mean, running_var, eps }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                Tensor::attempt(|| {
                    ranked(x, "batch_norm", $ranks)?;
                    let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
                    Ok(x.batch_norm(&self.running_mean, &self.running_var, weight, bias, self.eps).named(&self.path))
                })
            }

            fn parameters(&self) -> Vec<Tensor> {
                let own = self.weight.iter().chain(&self.bias);
                own.chain([&self.running_mean, &self.running_var]).cloned().collect()
            }
        }
    };
}

batch_norm!(BatchNorm1d, [2, 3], "`[n, c]` or `[n, c, x]`");
batch_norm!(BatchNorm2d, [4, 4], "`[n, c, y, x]`");
batch_norm!(BatchNorm3d, [5, 5], "`[n, c, z, y, x]`");

macro_rules! instance_norm {
    ($name:ident, $axes:literal, $what:literal) => {
        #[doc = concat!("`torch.nn.", stringify!($name), "`: over every channel of ", $what, ", batched or not.")]
        #[derive(Clone, Debug)]
        pub struct $name {
            path: String,
            /// The scale.
            pub weight: Option<Tensor>,
            /// The shift.
            pub bias: Option<Tensor>,
            /// Added to the variance.
            pub eps: f64,
        }

        impl $name {
            /// The norm with, if it is `affine`, `weight` and `bias` of this scope.
            pub fn new(scope: &Scope, num_features: usize, eps: f64, affine: bool) -> Self {
                let (weight, bias) = self::affine(scope, num_features, affine);
                Self { path: scope.path().into(), weight, bias, eps }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                Tensor::attempt(|| {
                    ranked(x, "instance_norm", [$axes + 1, $axes + 2])?;
                    let norm = |x: &Tensor| x.instance_norm(self.weight.as_ref(), self.bias.as_ref(), self.eps);
                    let y = if x.dim() == $axes + 1 { norm(&x.unsqueeze(0)).select(0, 0) } else { norm(x) };
                    Ok(y.named(&self.path))
                })
            }

            fn parameters(&self) -> Vec<Tensor> {
                self.weight.iter().chain(&self.bias).cloned().collect()
            }
        }
    };
}

instance_norm!(InstanceNorm1d, 1, "`[c, x]`");
instance_norm!(InstanceNorm2d, 2, "`[c, y, x]`");
instance_norm!(InstanceNorm3d, 3, "`[c, z, y, x]`");

/// `torch.nn.GroupNorm`: over the channels of a group and all spatial axes.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    path: String,
    num_groups: usize,
    /// The scale.
    pub weight: Option<Tensor>,
    /// The shift.
    pub bias: Option<Tensor>,
    /// Added to the variance.
    pub eps: f64,
}

impl GroupNorm {
    /// The norm with, if it is `affine`, `weight` and `bias` of this scope.
    pub fn new(scope: &Scope, num_groups: usize, num_channels: usize, eps: f64, affine: bool) -> Self {
        let (weight, bias) = self::affine(scope, num_channels, affine);
        Self { path: scope.path().into(), num_groups, weight, bias, eps }
    }
}

impl Module for GroupNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.group_norm(self.num_groups, self.weight.as_ref(), self.bias.as_ref(), self.eps).named(&self.path)
    }

    fn parameters(&self) -> Vec<Tensor> {
        self.weight.iter().chain(&self.bias).cloned().collect()
    }
}

/// `torch.nn.LocalResponseNorm`: by the squares of neighbouring channels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalResponseNorm {
    /// Channels that count as neighbours.
    pub size: usize,
    /// The weight of their mean square.
    pub alpha: f64,
    /// The power of the divisor.
    pub beta: f64,
    /// Added to the mean.
    pub k: f64,
}

impl Module for LocalResponseNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.local_response_norm(self.size, self.alpha, self.beta, self.k)
    }

    fn parameters(&self) -> Vec<Tensor> {
        Vec::new()
    }
}
