//! A mixture of dense experts: every expert computes every token, and a softmax weighs them.
//!
//! The experts are a label of two contractions, so that a plan may put them on different devices; their weighted sum is
//! a contraction over that label, which leaves partials.

use einsummable::nn::{Linear, Module, Scope};
use einsummable::{Gelu, Tensor};

/// The layer over `[n, tokens, hidden]`.
pub struct DenseExperts {
    gate: Linear,
    up: Tensor,
    down: Tensor,
}

impl DenseExperts {
    /// A layer of `experts` experts with `inner` features each.
    pub fn new(scope: &Scope, hidden: usize, inner: usize, experts: usize) -> Self {
        Self {
            gate: Linear::new(&scope.child("gate"), hidden, experts, false),
            up: scope.parameter("up", &[experts, inner, hidden]),
            down: scope.parameter("down", &[experts, hidden, inner]),
        }
    }
}

impl Module for DenseExperts {
    fn forward(&self, x: &Tensor) -> Tensor {
        let weights = self.gate.forward(x).softmax(-1).named("weights");
        let inner = Tensor::einsum("bsk,enk->besn", &[x, &self.up]).gelu(Gelu::Exact).named("inner");
        let experts = Tensor::einsum("besn,ekn->besk", &[&inner, &self.down]).named("experts");
        (Tensor::einsum("besk,bse->bsk", &[&experts, &weights]) + x).named("mixture")
    }

    fn parameters(&self) -> Vec<Tensor> {
        [self.gate.parameters(), vec![self.up.clone(), self.down.clone()]].concat()
    }
}
