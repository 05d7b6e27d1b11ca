//! Activations.

use super::Module;
use crate::tensor::Tensor;
use crate::tensor::map::Gelu;

/// An activation that a configuration names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `gelu`.
    Gelu,
    /// `gelu_new`, `gelu_pytorch_tanh`, `gelu_fast`.
    GeluTanh,
    /// `relu`.
    Relu,
    /// `silu`, `swish`.
    Silu,
    /// `tanh`.
    Tanh,
}

impl Activation {
    /// The names that are understood.
    pub const NAMES: &'static str = "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, silu, swish, tanh";

    /// The activation of this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "gelu" => Some(Self::Gelu),
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Some(Self::GeluTanh),
            "relu" => Some(Self::Relu),
            "silu" | "swish" => Some(Self::Silu),
            "tanh" => Some(Self::Tanh),
            _ => None,
        }
    }
}

impl Module for Activation {
    fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Self::Gelu => x.gelu(Gelu::Exact),
            Self::GeluTanh => x.gelu(Gelu::Tanh),
            Self::Relu => x.relu(),
            Self::Silu => x.silu(),
            Self::Tanh => x.tanh(),
        }
    }

    fn parameters(&self) -> Vec<Tensor> {
        Vec::new()
    }
}

macro_rules! activation {
    ($name:ident, $kind:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                Activation::$kind.forward(x)
            }

            fn parameters(&self) -> Vec<Tensor> {
                Vec::new()
            }
        }
    };
}

activation!(GELU, Gelu, "The Gaussian error linear unit, by the error function.");
activation!(SiLU, Silu, "`x * sigmoid(x)`.");
activation!(ReLU, Relu, "`max(x, 0)`.");
