//! Modules with `PyTorch`'s names and parameter names.

mod activation;
mod container;
mod embedding;
mod linear;
mod norm;
pub mod rotary;

pub use activation::{Activation, GELU, ReLU, SiLU};
pub use container::{ModuleList, Sequential};
pub use embedding::Embedding;
pub use linear::Linear;
pub use norm::{LayerNorm, RMSNorm};

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
