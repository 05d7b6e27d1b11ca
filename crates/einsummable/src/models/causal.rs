//! Models that say which token follows.

use crate::nn::{Embedding, Linear, Scope};
use crate::tensor::{Tensor, TensorError};
use ein_ir::einsum::{Access, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::monoid::Monoid;

/// The configuration of a model that continues texts.
pub trait CausalLm {
    /// Ids `[b, s]` and a position for each sequence, `[b]`, to the logits `[b, vocab]` of what follows there.
    ///
    /// The position is a value of the run, so one plan serves every length up to s: what stands after it is
    /// not read.
    fn next_token(&self, ids: &Tensor, position: &Tensor) -> Tensor;

    /// Number of tokens.
    fn vocab_size(&self) -> usize;

    /// The longest sequence it was made for.
    fn max_positions(&self) -> usize;

    /// Tokens that end a text.
    fn eos_token_ids(&self) -> &[i64];
}

/// From hidden states to logits: `lm_head`, which is the table of the tokens' embeddings itself where it is `tied` to it.
pub(super) fn language_head(root: &Scope, tokens: &Embedding, tied: bool) -> Linear {
    let scope = root.child("lm_head");
    if tied {
        Linear::tied(&scope, &tokens.weight, None)
    } else {
        Linear::new(&scope, tokens.weight.size(1), tokens.weight.size(0), false)
    }
}

/// `out[b, e] = x[b, position[b], e]`, as a sum in which one term is not 0.
pub(super) fn at_position(x: &Tensor, position: &Tensor) -> Tensor {
    Tensor::attempt(|| {
        let dtype = x.ty()?.dtype;
        let (b, s, e) = (x.size(0), x.size(1), x.size(2));
        let labels = vec![Label::new("b", b), Label::new("e", e), Label::new("s", s)];
        let mut join = Expr::new();
        let (value, at) = (join.push_operand(0, dtype), join.push_operand(1, position.ty()?.dtype));
        let here = join.index(2);
        let zero = join.float(0.0, dtype);
        let typed = join.binary(Binary::Eq, at, here).and_then(|same| join.select(same, value, zero));
        typed.map_err(|source| TensorError::Expr { operation: "at_position", source })?;
        let accesses = vec![Access::labels(&[0, 2, 1]), Access::labels(&[0])];
        let einsum = Einsum { labels, rank: 2, accesses, join, monoid: Monoid::Sum, dtype };
        Ok(Tensor::from_einsum("at_position", einsum, &[x, position]))
    })
}
