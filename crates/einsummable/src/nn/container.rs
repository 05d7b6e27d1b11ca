//! Modules made of modules.

use super::Module;
use crate::tensor::Tensor;

/// Modules applied one after the other.
#[derive(Default)]
pub struct Sequential(pub Vec<Box<dyn Module>>);

impl Sequential {
    /// An empty sequence.
    pub fn new() -> Self {
        Self::default()
    }

    /// The sequence with one more module at the end.
    pub fn append(mut self, module: impl Module + 'static) -> Self {
        self.0.push(Box::new(module));
        self
    }
}

impl Module for Sequential {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.0.iter().fold(x.clone(), |x, module| module.forward(&x))
    }

    fn parameters(&self) -> Vec<Tensor> {
        self.0.iter().flat_map(|m| m.parameters()).collect()
    }
}

/// Modules of one kind in a list.
pub type ModuleList<M> = Vec<M>;
