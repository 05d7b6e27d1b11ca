//! Activations.

use super::Module;
use crate::tensor::Tensor;
use crate::tensor::activation::Gelu;

/// An activation that a configuration names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `gelu`, `gelu_python`.
    Gelu,
    /// `gelu_new`, `gelu_fast`, `gelu_accurate`, `gelu_pytorch_tanh`, `gelu_python_tanh`.
    GeluTanh,
    /// `quick_gelu`: `x * sigmoid(1.702 x)`.
    QuickGelu,
    /// `relu`.
    Relu,
    /// `relu2`: the square of `relu`.
    Relu2,
    /// `sigmoid`.
    Sigmoid,
    /// `silu`, `swish`.
    Silu,
    /// `tanh`.
    Tanh,
    /// `linear`: what comes in.
    Linear,
}

impl Activation {
    /// The names that are understood.
    pub const NAMES: &'static str = "gelu, gelu_new, gelu_fast, gelu_accurate, gelu_python, gelu_pytorch_tanh, \
                                     gelu_python_tanh, quick_gelu, relu, relu2, sigmoid, silu, swish, tanh, linear";

    /// The activation of this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "gelu" | "gelu_python" => Some(Self::Gelu),
            "gelu_new" | "gelu_fast" | "gelu_accurate" | "gelu_pytorch_tanh" | "gelu_python_tanh" => {
                Some(Self::GeluTanh)
            }
            "quick_gelu" => Some(Self::QuickGelu),
            "relu" => Some(Self::Relu),
            "relu2" => Some(Self::Relu2),
            "sigmoid" => Some(Self::Sigmoid),
            "silu" | "swish" => Some(Self::Silu),
            "tanh" => Some(Self::Tanh),
            "linear" => Some(Self::Linear),
            _ => None,
        }
    }
}

impl Module for Activation {
    fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Self::Gelu => x.gelu(Gelu::Exact),
            Self::GeluTanh => x.gelu(Gelu::Tanh),
            Self::QuickGelu => x.mul(x.mul(1.702).sigmoid()),
            Self::Relu => x.relu(),
            Self::Relu2 => x.relu().square(),
            Self::Sigmoid => x.sigmoid(),
            Self::Silu => x.silu(),
            Self::Tanh => x.tanh(),
            Self::Linear => x.clone(),
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
