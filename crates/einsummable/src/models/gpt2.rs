//! `GPT2LMHeadModel`.

use super::architecture::{Architecture, Head};
use super::causal::{CausalLm, at_position, language_head};
use super::config::ConfigError;
use super::keys::Keys;
use super::sentence;
use crate::nn::{Activation, Embedding, LayerNorm, Linear, Module, ModuleList, Scope};
use crate::tensor::attention::AttentionOptions;
use crate::tensor::{Tensor, TensorError};
use ein_ir::dtype::DType;

/// The sizes of a GPT-2.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpt2Config {
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
    /// The longest sequence.
    pub max_position_embeddings: usize,
    /// Added to variances.
    pub layer_norm_epsilon: f64,
    /// The activation.
    pub hidden_act: Activation,
    /// Whether scores are divided by the square root of the size of a head.
    pub scale_attn_weights: bool,
    /// Whether the scores of layer `n` are divided by `n + 1`, too.
    pub scale_attn_by_inverse_layer_idx: bool,
    /// Whether the output layer is the embedding.
    pub tie_word_embeddings: bool,
    /// The type it computes in.
    pub dtype: DType,
    /// Tokens that end a text.
    pub eos_token_ids: Vec<i64>,
}

impl Gpt2Config {
    pub(super) fn read(keys: &Keys, architecture: Architecture) -> Result<Self, ConfigError> {
        // `reorder_and_upcast_attn` changes the order of rounding only, so it is not read.
        keys.not(&["add_cross_attention"])?;
        let hidden_size = keys.size("n_embd")?;
        let heads = keys.size("n_head")?;
        keys.divides("n_embd", hidden_size, "n_head", heads)?;
        Ok(Self {
            architecture,
            hidden_size,
            intermediate_size: keys.size_or("n_inner", 4 * hidden_size)?,
            num_hidden_layers: keys.layers("n_layer")?,
            num_attention_heads: heads,
            vocab_size: keys.size("vocab_size")?,
            max_position_embeddings: keys.size_or("n_positions", 1024)?,
            layer_norm_epsilon: keys.number_or("layer_norm_epsilon", 1e-5)?,
            hidden_act: keys.activation_or("activation_function", Activation::GeluTanh)?,
            scale_attn_weights: keys.flag_or("scale_attn_weights", true)?,
            scale_attn_by_inverse_layer_idx: keys.flag("scale_attn_by_inverse_layer_idx")?,
            tie_word_embeddings: keys.flag_or("tie_word_embeddings", true)?,
            dtype: keys.dtype()?,
            eos_token_ids: keys.tokens("eos_token_id")?,
        })
    }

    /// Whether logits come out.
    pub(super) fn has_head(&self) -> bool {
        self.architecture.head() == Head::CausalLm
    }

    pub(super) fn outputs(&self, batch: usize, sequence: usize) -> (&'static str, Tensor) {
        let ids = Tensor::input(sentence::IDS, [batch, sequence], DType::I64);
        (if self.has_head() { "logits" } else { "hidden" }, Gpt2::new(self).forward(&ids))
    }
}

#[derive(Clone, Debug)]
struct Gpt2Layer {
    path: Scope,
    heads: usize,
    dim: usize,
    scale: f64,
    act: Activation,
    before_attention: LayerNorm,
    query: Linear,
    key: Linear,
    value: Linear,
    projection: Linear,
    before_mlp: LayerNorm,
    inner: Linear,
    outer: Linear,
}

impl Gpt2Layer {
    fn new(scope: &Scope, c: &Gpt2Config, n: usize) -> Self {
        let (attention, mlp) = (scope.child("attn"), scope.child("mlp"));
        let (hidden, inner) = (c.hidden_size, c.intermediate_size);
        let fused = attention.child("c_attn");
        let third = |name, first: usize| {
            let columns = first * hidden..(first + 1) * hidden;
            Linear::conv1d_columns(&attention.child(name), &fused, hidden, &columns, 3 * hidden)
        };
        let norm = |name| LayerNorm::new(&scope.child(name), hidden, c.layer_norm_epsilon);
        let dim = hidden / c.num_attention_heads;
        let scale = if c.scale_attn_weights { (dim as f64).sqrt().recip() } else { 1.0 };
        let depth = if c.scale_attn_by_inverse_layer_idx { n as f64 + 1.0 } else { 1.0 };
        Self {
            path: scope.clone(),
            heads: c.num_attention_heads,
            dim,
            scale: scale / depth,
            act: c.hidden_act,
            before_attention: norm("ln_1"),
            query: third("query", 0),
            key: third("key", 1),
            value: third("value", 2),
            projection: Linear::conv1d(&attention.child("c_proj"), hidden, hidden),
            before_mlp: norm("ln_2"),
            inner: Linear::conv1d(&mlp.child("c_fc"), hidden, inner),
            outer: Linear::conv1d(&mlp.child("c_proj"), inner, hidden),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let name = |n: &str| self.path.name(n);
        let normed = self.before_attention.forward(x);
        let project = |l: &Linear| l.heads(&normed, self.heads, self.dim);
        let (q, k, v) = (project(&self.query), project(&self.key), project(&self.value));
        let options = AttentionOptions { is_causal: true, scale: Some(self.scale), ..AttentionOptions::default() };
        let attended = q.scaled_dot_product_attention(&k, &v, &options).named(&name("attn"));
        let x = self.projection.merge_heads(&attended).add(x).named(&name("attn.residual"));
        let inner = self.act.forward(&self.inner.forward(&self.before_mlp.forward(&x))).named(&name("mlp.inner"));
        self.outer.forward(&inner).add(x).named(&name("mlp.residual"))
    }

    fn parameters(&self) -> Vec<Tensor> {
        let linear = [&self.query, &self.key, &self.value, &self.projection, &self.inner, &self.outer];
        let norms = [&self.before_attention, &self.before_mlp];
        let norms = norms.into_iter().flat_map(LayerNorm::parameters);
        linear.into_iter().flat_map(Linear::parameters).chain(norms).collect()
    }
}

/// The whole model.
#[derive(Clone, Debug)]
pub struct Gpt2 {
    wte: Embedding,
    wpe: Embedding,
    layers: ModuleList<Gpt2Layer>,
    norm: LayerNorm,
    lm_head: Option<Linear>,
    tied: bool,
}

impl Gpt2 {
    /// The model of a configuration, in the configuration's type.
    pub fn new(c: &Gpt2Config) -> Self {
        let root = Scope::root(c.dtype);
        let model = if c.has_head() { root.child(c.architecture.family().prefix()) } else { root.clone() };
        let wte = Embedding::new(&model.child("wte"), c.vocab_size, c.hidden_size);
        let lm_head = c.has_head().then(|| language_head(&root, &wte, c.tie_word_embeddings));
        Self {
            wpe: Embedding::new(&model.child("wpe"), c.max_position_embeddings, c.hidden_size),
            layers: (0..c.num_hidden_layers).map(|n| Gpt2Layer::new(&model.child("h").child(n), c, n)).collect(),
            norm: LayerNorm::new(&model.child("ln_f"), c.hidden_size, c.layer_norm_epsilon),
            wte,
            lm_head,
            tied: c.tie_word_embeddings,
        }
    }

    fn hidden(&self, ids: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            let (length, positions) = (ids.ty()?.shape.last().copied().unwrap_or(0), &self.wpe.weight);
            if length > positions.size(0) {
                let reason = format!("{length} tokens, but there are {} positions", positions.size(0));
                let shapes = vec![ids.shape().to_vec()];
                return Err(TensorError::Shape { operation: "GPT2Model", shapes, reason });
            }
            let x = self.wte.forward(ids).add(positions.narrow(0, 0, length)).named("embeddings");
            Ok(self.layers.iter().fold(x, |x, layer| layer.forward(&x)))
        })
    }

    fn finish(&self, x: &Tensor) -> Tensor {
        let x = self.norm.forward(x);
        self.lm_head.as_ref().map_or(x.clone(), |head| head.forward(&x))
    }
}

impl Module for Gpt2 {
    /// Ids `[b, s]` to logits `[b, s, vocab]`, or to hidden states `[b, s, hidden]` without a head.
    fn forward(&self, ids: &Tensor) -> Tensor {
        self.finish(&self.hidden(ids))
    }

    fn parameters(&self) -> Vec<Tensor> {
        let mut all: Vec<Tensor> = [&self.wte, &self.wpe].into_iter().flat_map(Embedding::parameters).collect();
        all.extend(self.layers.iter().flat_map(Gpt2Layer::parameters));
        all.extend(self.norm.parameters());
        if !self.tied {
            all.extend(self.lm_head.iter().flat_map(Linear::parameters));
        }
        all
    }
}

impl CausalLm for Gpt2Config {
    fn next_token(&self, ids: &Tensor, position: &Tensor) -> Tensor {
        let model = Gpt2::new(self);
        model.finish(&at_position(&model.hidden(ids), position).named("at_position"))
    }

    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn max_positions(&self) -> usize {
        self.max_position_embeddings
    }

    fn eos_token_ids(&self) -> &[i64] {
        &self.eos_token_ids
    }
}
