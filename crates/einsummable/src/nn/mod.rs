//! Modules with `PyTorch`'s names and parameter names.

mod activation;
mod channel_norm;
mod container;
mod conv;
mod embedding;
mod linear;
mod norm;
mod pool;
mod recurrent;
pub mod rotary;
mod shape;

pub use activation::{Activation, GELU, ReLU, SiLU};
pub use channel_norm::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LocalResponseNorm,
};
pub use container::{ModuleList, Sequential};
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use embedding::Embedding;
pub use linear::Linear;
pub use norm::{LayerNorm, RMSNorm};
pub use pool::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
    AvgPool1d, AvgPool2d, AvgPool3d, LPPool1d, LPPool2d, LPPool3d, MaxPool1d, MaxPool2d, MaxPool3d,
};
pub use recurrent::{GRU, GRUCell, LSTM, LSTMCell, RNN, RNNCell, RecurrentOptions};
pub use shape::{
    ChannelShuffle, CircularPad1d, CircularPad2d, CircularPad3d, Dropout, Flatten, Fold, Identity, PixelShuffle,
    PixelUnshuffle, ReflectionPad1d, ReflectionPad2d, ReflectionPad3d, ReplicationPad1d, ReplicationPad2d,
    ReplicationPad3d, Unflatten, Unfold, Upsample, ZeroPad1d, ZeroPad2d, ZeroPad3d,
};

use crate::tensor::Tensor;
use ein_ir::dtype::DType;

/// Something with parameters that maps a tensor to a tensor.
pub trait Module {
    /// The result for an input.
    fn forward(&self, x: &Tensor) -> Tensor;

    /// The parameters under their `state_dict` names, in `PyTorch`'s order.
    fn parameters(&self) -> Vec<Tensor>;

    /// The `state_dict` names of the parameters.
    fn parameter_names(&self) -> Vec<String> {
        self.parameters().iter().filter_map(|p| p.explicit_name().map(str::to_owned)).collect()
    }
}

/// Where in a model a module stands: the prefix of its parameters' names, and their type.
///
/// ```
/// use einsummable::{DType, nn::{Linear, Module, Scope}};
/// let scope = Scope::root(DType::F32);
/// let fc = Linear::new(&scope.child("mlp").child("fc1"), 16, 64, true);
/// assert_eq!(fc.parameter_names(), ["mlp.fc1.weight", "mlp.fc1.bias"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    prefix: String,
    dtype: DType,
}

impl Scope {
    /// The top of a model whose parameters have this type.
    pub fn root(dtype: DType) -> Self {
        Self { prefix: String::new(), dtype }
    }

    /// A submodule.
    pub fn child(&self, name: impl std::fmt::Display) -> Self {
        Self { prefix: self.name(name), dtype: self.dtype }
    }

    /// The type of parameters.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The full name of something in this scope.
    pub fn name(&self, name: impl std::fmt::Display) -> String {
        if self.prefix.is_empty() { name.to_string() } else { format!("{}.{name}", self.prefix) }
    }

    /// The prefix itself.
    pub fn path(&self) -> &str {
        &self.prefix
    }

    /// A parameter of this scope.
    pub fn parameter(&self, name: &str, shape: &[usize]) -> Tensor {
        Tensor::parameter(&self.name(name), shape, self.dtype)
    }
}
