//! The encoder of BERT and of the models built like it: `DistilBERT` and `RoBERTa`.

use super::architecture::{Architecture, Head};
use super::sentence;
use crate::nn::{Activation, Embedding, LayerNorm, Linear, Module, ModuleList, Scope};
use crate::tensor::Tensor;
use crate::tensor::attention::AttentionOptions;
use crate::tensor::map::map_over;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine};
use ein_ir::expr::Binary;

/// The sizes of an encoder, and in what it differs from a BERT.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderConfig {
    /// The family and the head.
    pub architecture: Architecture,
    /// Features of a token.
    pub hidden_size: usize,
    /// Features inside the feed-forward network.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads.
    pub num_attention_heads: usize,
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Rows of the position embedding.
    pub max_position_embeddings: usize,
    /// Whether positions count tokens that are not padding, from `pad_token_id + 1` on, and padding is at
    /// `pad_token_id`: `RoBERTa`.
    pub positions_after_padding: bool,
    /// Rows of the token-type embedding, if there is one.
    pub type_vocab_size: Option<usize>,
    /// Added to variances.
    pub layer_norm_eps: f64,
    /// The activation.
    pub hidden_act: Activation,
    /// The activation of the head that predicts tokens.
    pub head_act: Activation,
    /// Whether that head's output layer is the embedding.
    pub tie_word_embeddings: bool,
    /// The token of padding.
    pub pad_token_id: usize,
    /// The type it computes in.
    pub dtype: DType,
    /// What its parameters are called.
    pub names: &'static Names,
}

/// What the parameters of an encoder are called.
#[derive(Debug, PartialEq, Eq)]
pub struct Names {
    pub(super) layers: &'static str,
    pub(super) query: &'static str,
    pub(super) key: &'static str,
    pub(super) value: &'static str,
    pub(super) attention_output: &'static str,
    pub(super) attention_norm: &'static str,
    pub(super) inner: &'static str,
    pub(super) outer: &'static str,
    pub(super) norm: &'static str,
    /// Of the head that predicts tokens: its layer, norm and output layer.
    pub(super) head: [&'static str; 3],
    /// The bias of the head's output layer.
    pub(super) head_bias: &'static str,
}

impl EncoderConfig {
    /// Whether logits come out.
    pub(super) fn has_head(&self) -> bool {
        self.architecture.head() == Head::MaskedLm
    }

    /// The longest sequence.
    pub fn max_tokens(&self) -> usize {
        let before = if self.positions_after_padding { self.pad_token_id + 1 } else { 0 };
        self.max_position_embeddings.saturating_sub(before)
    }

    pub(super) fn outputs(&self, batch: usize, sequence: usize) -> (&'static str, Tensor) {
        let ids = Tensor::input(sentence::IDS, [batch, sequence], DType::I64);
        let mask = Tensor::input(sentence::MASK, [batch, 1, 1, sequence], self.dtype);
        (if self.has_head() { "logits" } else { "hidden" }, Encoder::new(self).forward(&ids, &mask))
    }
}

#[derive(Clone, Debug)]
struct EncoderLayer {
    path: Scope,
    heads: usize,
    dim: usize,
    act: Activation,
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    inner: Linear,
    outer: Linear,
    norm: LayerNorm,
}

impl EncoderLayer {
    fn new(scope: &Scope, c: &EncoderConfig) -> Self {
        let (hidden, inner, names) = (c.hidden_size, c.intermediate_size, c.names);
        let linear = |name, from, to| Linear::new(&scope.child(name), from, to, true);
        let norm = |name| LayerNorm::new(&scope.child(name), hidden, c.layer_norm_eps);
        Self {
            path: scope.clone(),
            heads: c.num_attention_heads,
            dim: hidden / c.num_attention_heads,
            act: c.hidden_act,
            query: linear(names.query, hidden, hidden),
            key: linear(names.key, hidden, hidden),
            value: linear(names.value, hidden, hidden),
            attention_output: linear(names.attention_output, hidden, hidden),
            attention_norm: norm(names.attention_norm),
            inner: linear(names.inner, hidden, inner),
            outer: linear(names.outer, inner, hidden),
            norm: norm(names.norm),
        }
    }

    fn forward(&self, x: &Tensor, mask: &Tensor) -> Tensor {
        let project = |l: &Linear| l.heads(x, self.heads, self.dim);
        let (q, k, v) = (project(&self.query), project(&self.key), project(&self.value));
        let options = AttentionOptions { mask: Some(mask), ..AttentionOptions::default() };
        let attended = q.scaled_dot_product_attention(&k, &v, &options).named(&self.path.name("attention"));
        let dense = self.attention_output.merge_heads(&attended);
        let x = self.attention_norm.forward(&dense.add(x).named(&self.path.name("attention.residual")));
        let inner = self.act.forward(&self.inner.forward(&x)).named(&self.path.name("intermediate"));
        let x = self.outer.forward(&inner).add(&x).named(&self.path.name("residual"));
        self.norm.forward(&x)
    }

    fn parameters(&self) -> Vec<Tensor> {
        let linear = |l: &Linear| l.parameters();
        let mut all: Vec<Tensor> =
            [&self.query, &self.key, &self.value, &self.attention_output].into_iter().flat_map(linear).collect();
        all.extend(self.attention_norm.parameters());
        all.extend([&self.inner, &self.outer].into_iter().flat_map(linear));
        all.extend(self.norm.parameters());
        all
    }
}

/// The head that predicts tokens.
#[derive(Clone, Debug)]
struct MaskedHead {
    dense: Linear,
    act: Activation,
    norm: LayerNorm,
    decoder: Linear,
    tied: bool,
}

impl MaskedHead {
    fn new(root: &Scope, c: &EncoderConfig, embedding: &Tensor) -> Self {
        let [dense, norm, decoder] = c.names.head.map(|name| root.child(name));
        let bias = root.parameter(c.names.head_bias, &[c.vocab_size]);
        let weight = || decoder.parameter("weight", &[c.vocab_size, c.hidden_size]);
        let weight = if c.tie_word_embeddings { embedding.clone() } else { weight() };
        Self {
            dense: Linear::new(&dense, c.hidden_size, c.hidden_size, true),
            act: c.head_act,
            norm: LayerNorm::new(&norm, c.hidden_size, c.layer_norm_eps),
            decoder: Linear::tied(&decoder, &weight, Some(bias)),
            tied: c.tie_word_embeddings,
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        self.decoder.forward(&self.norm.forward(&self.act.forward(&self.dense.forward(x))))
    }

    fn parameters(&self) -> Vec<Tensor> {
        let last = self.decoder.parameters().into_iter().skip(usize::from(self.tied));
        self.dense.parameters().into_iter().chain(self.norm.parameters()).chain(last).collect()
    }
}

/// The encoder and, if the configuration names one, the head that predicts tokens. Without the pooler: sentence models
/// pool by themselves.
#[derive(Clone, Debug)]
pub struct Encoder {
    config: EncoderConfig,
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Option<Embedding>,
    norm: LayerNorm,
    layers: ModuleList<EncoderLayer>,
    head: Option<MaskedHead>,
}

impl Encoder {
    /// The model of a configuration, in the configuration's type.
    pub fn new(c: &EncoderConfig) -> Self {
        let root = Scope::root(c.dtype);
        let model = if c.has_head() { root.child(c.architecture.family().prefix()) } else { root.clone() };
        let embeddings = model.child("embeddings");
        let table = |name, rows| Embedding::new(&embeddings.child(name), rows, c.hidden_size);
        let layers = model.child(c.names.layers);
        let word_embeddings = table("word_embeddings", c.vocab_size);
        Self {
            config: c.clone(),
            head: c.has_head().then(|| MaskedHead::new(&root, c, &word_embeddings.weight)),
            word_embeddings,
            position_embeddings: table("position_embeddings", c.max_position_embeddings),
            token_type_embeddings: c.type_vocab_size.map(|rows| table("token_type_embeddings", rows)),
            norm: LayerNorm::new(&embeddings.child("LayerNorm"), c.hidden_size, c.layer_norm_eps),
            layers: (0..c.num_hidden_layers).map(|n| EncoderLayer::new(&layers.child(n), c)).collect(),
        }
    }

    /// Ids `[b, s]` to logits `[b, s, vocab]`, or to the last hidden state without a head. The mask is that of
    /// [`Encoder::hidden`].
    pub fn forward(&self, ids: &Tensor, mask: &Tensor) -> Tensor {
        let hidden = self.hidden(ids, mask);
        self.head.as_ref().map_or(hidden.clone(), |head| head.forward(&hidden))
    }

    /// Ids `[b, s]` to the last hidden state `[b, s, hidden]`. The mask `[b, 1, 1, s]` is added to the scores of
    /// keys: 0 where there is a token, minus infinity (or a large negative number) where there is padding.
    /// Every token is of type 0.
    pub fn hidden(&self, ids: &Tensor, mask: &Tensor) -> Tensor {
        self.layers.iter().fold(self.embed(ids), |x, layer| layer.forward(&x, mask))
    }

    fn embed(&self, ids: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            let words = self.word_embeddings.forward(ids);
            let shape = words.ty()?.shape.clone();
            let &[_, length, _] = shape.as_slice() else {
                return Err(ids.shape_error("encoder", "ids must be [batch, sequence]".into()));
            };
            let most = self.config.max_tokens();
            if length > most {
                let reason = format!("{length} tokens, but there are {most} positions");
                return Err(ids.shape_error("encoder", reason));
            }
            let (positions, own) = if self.config.positions_after_padding {
                let at = positions(ids, self.config.pad_token_id).named("positions");
                (self.position_embeddings.forward(&at), Access::labels(&[0, 1, 2]))
            } else {
                (self.position_embeddings.weight.narrow(0, 0, length), Access::labels(&[1, 2]))
            };
            let mut operands = vec![&words, &positions];
            let mut accesses = vec![Access::labels(&[0, 1, 2]), own];
            if let Some(types) = &self.token_type_embeddings {
                operands.push(&types.weight);
                accesses.push(Access { axes: vec![Affine::constant(0), Affine::label(2)] });
            }
            // Added in PyTorch's order: words and types, then positions.
            let sum = map_over("embeddings", &shape, accesses, &operands, |e, r| {
                let typed = if let Some(&kind) = r.get(2) { e.binary(Binary::Add, r[0], kind)? } else { r[0] };
                e.binary(Binary::Add, typed, r[1])
            })?;
            Ok(self.norm.forward(&sum.named("embeddings")))
        })
    }

    /// The parameters, in `PyTorch`'s order.
    pub fn parameters(&self) -> Vec<Tensor> {
        let tables = [&self.word_embeddings, &self.position_embeddings].into_iter().chain(&self.token_type_embeddings);
        let mut all: Vec<Tensor> = tables.flat_map(Embedding::parameters).collect();
        all.extend(self.norm.parameters());
        all.extend(self.layers.iter().flat_map(EncoderLayer::parameters));
        all.extend(self.head.iter().flat_map(MaskedHead::parameters));
        all
    }
}

/// The position of every token, `[b, s]`: padding is at `pad`, the tokens that are none are counted from `pad + 1` on.
fn positions(ids: &Tensor, pad: usize) -> Tensor {
    let tokens = ids.ne(pad as i64).to(DType::I64);
    tokens.cumsum(1).mul(tokens).add(pad as i64)
}
