//! Norms.

use super::{Module, Scope};
use crate::tensor::Tensor;

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    path: String,
    /// The scale.
    pub weight: Tensor,
    /// The shift.
    pub bias: Tensor,
    /// Added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    /// The norm with `weight` and `bias` of this scope.
    pub fn new(scope: &Scope, features: usize, eps: f64) -> Self {
        let parameter = |name| scope.parameter(name, &[features]);
        Self { path: scope.path().into(), weight: parameter("weight"), bias: parameter("bias"), eps }
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.layer_norm(self.weight.shape(), Some(&self.weight), Some(&self.bias), self.eps).named(&self.path)
    }

    fn parameters(&self) -> Vec<Tensor> {
        vec![self.weight.clone(), self.bias.clone()]
    }
}

/// `x / sqrt(mean(x²) + eps) * weight` over the last axis.
#[derive(Clone, Debug)]
pub struct RMSNorm {
    path: String,
    /// The scale.
    pub weight: Tensor,
    /// Added to the mean square.
    pub eps: f64,
}

impl RMSNorm {
    /// The norm with `weight` of this scope.
    pub fn new(scope: &Scope, features: usize, eps: f64) -> Self {
        Self { path: scope.path().into(), weight: scope.parameter("weight", &[features]), eps }
    }
}

impl Module for RMSNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.rms_norm(self.weight.shape(), Some(&self.weight), self.eps).named(&self.path)
    }

    fn parameters(&self) -> Vec<Tensor> {
        vec![self.weight.clone()]
    }
}
