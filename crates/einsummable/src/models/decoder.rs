//! The decoder of `LLaMA` and of the models built like it: Mistral, Qwen2, Qwen3, Gemma-2 and Phi-3.

use super::architecture::{Architecture, Family, Head};
use super::causal::{CausalLm, at_position, language_head};
use super::config::ConfigError;
use super::decoder_layer::{DecoderLayer, KeyValues, Norm};
use super::keys::Keys;
use super::{rope, sentence};
use crate::nn::rotary::{Positions, Rotary};
use crate::nn::{Activation, Embedding, Linear, Module, ModuleList, Scope};
use crate::tensor::Tensor;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;

/// The sizes of a decoder, and in what it differs from a Llama.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderConfig {
    /// The family and the head.
    pub architecture: Architecture,
    /// Features of a token.
    pub hidden_size: usize,
    /// Features inside the feed-forward network.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key/value heads.
    pub num_key_value_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// The longest sequence it was made for.
    pub max_position_embeddings: usize,
    /// Added to mean squares.
    pub rms_norm_eps: f64,
    /// The rotation of queries and keys.
    pub rotary: Rotary,
    /// The activation of the gate.
    pub hidden_act: Activation,
    /// Whether the output layer is the embedding.
    pub tie_word_embeddings: bool,
    /// Which projections have a bias.
    pub biases: Biases,
    /// Whether queries and keys are normed, head by head.
    pub qk_norm: bool,
    /// Whether the projections to queries, keys and values are stored as one, and gate and up too.
    pub fused: bool,
    /// Where norms stand.
    pub norms: Norms,
    /// The last keys that a query reads, for each layer; all of them where there is no number.
    pub windows: Vec<Option<usize>>,
    /// The scale of scores instead of `1 / sqrt(head_dim)`.
    pub attention_scale: Option<f64>,
    /// What bounds scores: `cap * tanh(score / cap)`.
    pub attention_softcap: Option<f64>,
    /// What bounds logits.
    pub logit_softcap: Option<f64>,
    /// What embeddings are multiplied by.
    pub embedding_scale: Option<f64>,
    /// The type it computes in.
    pub dtype: DType,
    /// Tokens that end a text.
    pub eos_token_ids: Vec<i64>,
}

/// Which projections of a decoder layer have a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Biases {
    /// Those to queries, keys and values.
    pub qkv: bool,
    /// That out of attention.
    pub output: bool,
    /// Those of the feed-forward network.
    pub mlp: bool,
}

/// Where the norms of a decoder layer stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norms {
    /// Before attention and before the feed-forward network.
    Before,
    /// Before and after both, each multiplying by one more than the weight that is stored: Gemma.
    Around,
}

impl DecoderConfig {
    /// A model of the Llama 2 family without other particulars, in bf16.
    pub fn of_sizes(
        hidden: usize,
        heads: usize,
        kv_heads: usize,
        intermediate: usize,
        layers: usize,
        vocab: usize,
    ) -> Self {
        Self {
            architecture: Architecture::of(Family::Llama),
            hidden_size: hidden,
            intermediate_size: intermediate,
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim: hidden / heads,
            vocab_size: vocab,
            max_position_embeddings: 131_072,
            rms_norm_eps: 1e-5,
            rotary: Rotary::new(10_000.0),
            hidden_act: Activation::Silu,
            tie_word_embeddings: false,
            biases: Biases::default(),
            qk_norm: false,
            fused: false,
            norms: Norms::Before,
            windows: vec![None; layers],
            attention_scale: None,
            attention_softcap: None,
            logit_softcap: None,
            embedding_scale: None,
            dtype: DType::BF16,
            eos_token_ids: vec![],
        }
    }

    /// Reads what all of these families have in common.
    pub(super) fn common(keys: &Keys, architecture: Architecture, defaults: &Defaults) -> Result<Self, ConfigError> {
        let hidden = keys.size("hidden_size")?;
        let heads = keys.size("num_attention_heads")?;
        // `null` says that every head has its own keys; a file that says nothing has the first model's number.
        let kv_heads = match (keys.value.get("num_key_value_heads"), defaults.kv_heads) {
            (None, Some(usual)) => usual,
            _ => keys.size_or("num_key_value_heads", heads)?,
        };
        keys.divides("num_attention_heads", heads, "num_key_value_heads", kv_heads)?;
        let head_dim = match (keys.optional_size("head_dim")?, defaults.head_dim) {
            (Some(dim), _) | (None, Some(dim)) => dim,
            (None, None) => {
                keys.divides("hidden_size", hidden, "num_attention_heads", heads)?;
                hidden / heads
            }
        };
        let max_position_embeddings = keys.size_or("max_position_embeddings", defaults.positions)?;
        let phi3 = architecture.family() == Family::Phi3;
        let rotary = rope::read(keys, &rope::Sizes { head_dim, max_position_embeddings, phi3, theta: 10_000.0 })?;
        let layers = keys.layers("num_hidden_layers")?;
        Ok(Self {
            architecture,
            head_dim,
            max_position_embeddings,
            rms_norm_eps: keys.number_or("rms_norm_eps", defaults.eps)?,
            rotary,
            hidden_act: keys.activation_or(defaults.act_key, defaults.act)?,
            tie_word_embeddings: keys.flag_or("tie_word_embeddings", defaults.tied)?,
            dtype: keys.dtype()?,
            eos_token_ids: keys.tokens("eos_token_id")?,
            ..Self::of_sizes(hidden, heads, kv_heads, keys.size("intermediate_size")?, layers, keys.size("vocab_size")?)
        })
    }

    /// Whether logits come out.
    pub(super) fn has_head(&self) -> bool {
        self.architecture.head() == Head::CausalLm
    }

    pub(super) fn outputs(&self, batch: usize, sequence: usize) -> (&'static str, Tensor) {
        let ids = Tensor::input(sentence::IDS, [batch, sequence], DType::I64);
        (if self.has_head() { "logits" } else { "hidden" }, Decoder::new(self).forward(&ids))
    }
}

/// What stands in the configuration of a family where the file says nothing.
pub(super) struct Defaults {
    pub kv_heads: Option<usize>,
    pub head_dim: Option<usize>,
    pub positions: usize,
    pub eps: f64,
    pub act_key: &'static str,
    pub act: Activation,
    pub tied: bool,
}

impl Defaults {
    /// Those of Llama.
    pub const LLAMA: Self = Self {
        kv_heads: None,
        head_dim: None,
        positions: 2048,
        eps: 1e-6,
        act_key: "hidden_act",
        act: Activation::Silu,
        tied: false,
    };
}

/// The whole model.
#[derive(Clone, Debug)]
pub struct Decoder {
    config: DecoderConfig,
    embed_tokens: Embedding,
    layers: ModuleList<DecoderLayer>,
    norm: Norm,
    lm_head: Option<Linear>,
}

/// What a decoder reads beside the ids of tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecoderInputs<'a> {
    /// 0 where a token is padding, `[b, s]`, an integer or a bool. Such tokens are read by none but themselves.
    pub attention_mask: Option<&'a Tensor>,
    /// Where the tokens stand, and how many there are of each sequence.
    pub positions: Positions<'a>,
}

impl Decoder {
    /// The model of a configuration, in the configuration's type.
    pub fn new(c: &DecoderConfig) -> Self {
        let root = Scope::root(c.dtype);
        let model = if c.has_head() { root.child(c.architecture.family().prefix()) } else { root.clone() };
        let embed_tokens = Embedding::new(&model.child("embed_tokens"), c.vocab_size, c.hidden_size);
        let lm_head = c.has_head().then(|| language_head(&root, &embed_tokens, c.tie_word_embeddings));
        let layer = |n| DecoderLayer::new(&model.child("layers").child(n), c, n);
        Self {
            config: c.clone(),
            embed_tokens,
            layers: (0..c.num_hidden_layers).map(layer).collect(),
            norm: Norm::new(&model.child("norm"), c.hidden_size, c),
            lm_head,
        }
    }

    /// Ids `[b, s]` to logits `[b, s, vocab]`, or to hidden states `[b, s, hidden]` without a head.
    pub fn forward_with(&self, ids: &Tensor, inputs: DecoderInputs<'_>) -> Tensor {
        self.finish(&self.hidden(ids, inputs))
    }

    /// Ids `[b, s]` to logits `[b, s, vocab]`, or to hidden states, and for each layer the keys and values that
    /// [`Decoder::step`] goes on from.
    pub fn begin(&self, ids: &Tensor, positions: Positions<'_>) -> (Tensor, Vec<KeyValues>) {
        let mut x = self.embedded(ids);
        let mut all = Vec::with_capacity(self.config.num_hidden_layers);
        for layer in &self.layers {
            let (next, own) = layer.begin(&x, positions);
            x = next;
            all.push(own);
        }
        (self.finish(&x), all)
    }

    /// The id of one new token of each sequence, `[b, 1]`, after those of `past`, one for each layer: its logits
    /// `[b, 1, vocab]`, or hidden state, and its keys and values, which are to be appended to the past.
    pub fn step(&self, ids: &Tensor, past: &[KeyValues], positions: Positions<'_>) -> (Tensor, Vec<KeyValues>) {
        let mut x = self.embedded(ids);
        let mut own = Vec::with_capacity(past.len());
        for (layer, past) in self.layers.iter().zip(past) {
            let (next, new) = layer.step(&x, past, positions);
            x = next;
            own.push(new);
        }
        (self.finish(&x), own)
    }

    fn embedded(&self, ids: &Tensor) -> Tensor {
        let x = self.embed_tokens.forward(ids);
        let Some(scale) = self.config.embedding_scale else { return x };
        // The scale has the type of the embeddings, so it is rounded before it multiplies.
        let rounded = Dense::from_f64(self.config.dtype, [], &[scale]).to_f64()[0];
        x.mul(rounded)
    }

    fn hidden(&self, ids: &Tensor, inputs: DecoderInputs<'_>) -> Tensor {
        let x = self.embedded(ids);
        // A number rather than minus infinity, so that a token of padding, which reads nothing else, is not NaN.
        let hidden = if self.config.dtype == DType::F16 { -6e4 } else { -1e30 };
        let padding = inputs.attention_mask.map(|mask| {
            let seen = mask.ne(0);
            Tensor::zeros(&[], self.config.dtype).where_(&seen, hidden)
        });
        self.layers.iter().fold(x, |x, layer| layer.forward(&x, padding.as_ref(), inputs.positions))
    }

    fn finish(&self, x: &Tensor) -> Tensor {
        let x = self.norm.forward(x);
        let Some(head) = &self.lm_head else { return x };
        let logits = head.forward(&x);
        match self.config.logit_softcap {
            Some(cap) => logits.div(cap).tanh().mul(cap).named("logits.capped"),
            None => logits,
        }
    }
}

impl Module for Decoder {
    /// Ids `[b, s]` to logits `[b, s, vocab]`, or to hidden states `[b, s, hidden]` without a head.
    fn forward(&self, ids: &Tensor) -> Tensor {
        self.forward_with(ids, DecoderInputs::default())
    }

    fn parameters(&self) -> Vec<Tensor> {
        let mut all = self.embed_tokens.parameters();
        all.extend(self.layers.iter().flat_map(DecoderLayer::parameters));
        all.extend(self.norm.parameters());
        if !self.config.tie_word_embeddings {
            all.extend(self.lm_head.iter().flat_map(Linear::parameters));
        }
        all
    }
}

impl CausalLm for DecoderConfig {
    fn next_token(&self, ids: &Tensor, position: &Tensor) -> Tensor {
        let model = Decoder::new(self);
        let lengths = position.add(1);
        let positions = Positions { lengths: Some(&lengths), ..Positions::default() };
        let hidden = model.hidden(ids, DecoderInputs { attention_mask: None, positions });
        model.finish(&at_position(&hidden, position).named("at_position"))
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
