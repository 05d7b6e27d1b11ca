//! Tables of vectors.

use super::{Module, Scope};
use crate::tensor::Tensor;

/// Rows of a table, `weight` `[num_embeddings, embedding_dim]`.
#[derive(Clone, Debug)]
pub struct Embedding {
    path: String,
    /// The table.
    pub weight: Tensor,
}

impl Embedding {
    /// The table `weight` of this scope.
    pub fn new(scope: &Scope, num_embeddings: usize, embedding_dim: usize) -> Self {
        Self { path: scope.path().into(), weight: scope.parameter("weight", &[num_embeddings, embedding_dim]) }
    }
}

impl Module for Embedding {
    fn forward(&self, ids: &Tensor) -> Tensor {
        ids.embedding(&self.weight).named(&self.path)
    }

    fn parameters(&self) -> Vec<Tensor> {
        vec![self.weight.clone()]
    }
}
