//! `LlamaForCausalLM`.

use super::config::{ConfigError, Keys};
use crate::nn::rotary::{Rotary, Scaling};
use crate::nn::{Activation, Embedding, Linear, Module, ModuleList, RMSNorm, Scope};
use crate::tensor::attention::AttentionOptions;
use crate::tensor::{Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::monoid::Monoid;
use serde_json::Value;

/// The sizes of a Llama model.
#[derive(Clone, Debug, PartialEq)]
pub struct LlamaConfig {
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
    /// Whether the projections of attention have a bias.
    pub attention_bias: bool,
    /// Whether the feed-forward network has biases.
    pub mlp_bias: bool,
    /// The type it computes in.
    pub dtype: DType,
    /// Tokens that end a text.
    pub eos_token_ids: Vec<i64>,
}

impl LlamaConfig {
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
            hidden_size: hidden,
            intermediate_size: intermediate,
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim: hidden / heads,
            vocab_size: vocab,
            max_position_embeddings: 131_072,
            rms_norm_eps: 1e-5,
            rotary: Rotary { theta: 10_000.0, scaling: Scaling::None },
            hidden_act: Activation::Silu,
            tie_word_embeddings: false,
            attention_bias: false,
            mlp_bias: false,
            dtype: DType::BF16,
            eos_token_ids: vec![],
        }
    }

    pub(crate) fn read(keys: &Keys) -> Result<Self, ConfigError> {
        let hidden_size = keys.size("hidden_size")?;
        let heads = keys.size("num_attention_heads")?;
        let kv_heads = keys.size_or("num_key_value_heads", heads)?;
        Keys::divides("num_attention_heads", heads, "num_key_value_heads", kv_heads)?;
        if keys.get("head_dim").is_none() {
            Keys::divides("hidden_size", hidden_size, "num_attention_heads", heads)?;
        }
        let head_dim = keys.size_or("head_dim", hidden_size / heads)?;
        let key = if keys.get("head_dim").is_some() { "head_dim" } else { "hidden_size" };
        if !head_dim.is_multiple_of(2) {
            let expected = format!("rotation needs an even head size, not {head_dim}");
            let found = keys.get(key).map_or_else(String::new, Value::to_string);
            return Err(ConfigError::Value { key: key.into(), found, expected });
        }
        let eos = keys.get("eos_token_id");
        let eos_token_ids = match eos {
            Some(Value::Array(ids)) => ids.iter().filter_map(Value::as_i64).collect(),
            Some(id) => id.as_i64().into_iter().collect(),
            None => vec![],
        };
        Ok(Self {
            hidden_size,
            intermediate_size: keys.size("intermediate_size")?,
            num_hidden_layers: keys.layers("num_hidden_layers")?,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim,
            vocab_size: keys.size("vocab_size")?,
            max_position_embeddings: keys.size_or("max_position_embeddings", 2048)?,
            rms_norm_eps: keys.number("rms_norm_eps")?,
            rotary: rotary(keys)?,
            hidden_act: if keys.get("hidden_act").is_some() {
                keys.activation("hidden_act")?
            } else {
                Activation::Silu
            },
            tie_word_embeddings: keys.flag("tie_word_embeddings")?,
            attention_bias: keys.flag("attention_bias")?,
            mlp_bias: keys.flag("mlp_bias")?,
            dtype: keys.dtype()?,
            eos_token_ids,
        })
    }
}

/// `rope_parameters`, or `rope_theta` and `rope_scaling` in older files.
fn rotary(keys: &Keys) -> Result<Rotary, ConfigError> {
    let empty = Value::Object(serde_json::Map::new());
    let new = keys.get("rope_parameters");
    let scaling = new.or_else(|| keys.get("rope_scaling")).unwrap_or(&empty);
    let inner = Keys { value: scaling, architecture: keys.architecture };
    let theta = match (inner.get("rope_theta"), keys.get("rope_theta")) {
        (Some(_), _) => inner.number("rope_theta")?,
        (None, Some(_)) => keys.number("rope_theta")?,
        (None, None) => 10_000.0,
    };
    let kind = inner.get("rope_type").or_else(|| inner.get("type")).and_then(Value::as_str).unwrap_or("default");
    let scaling = match kind {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor: inner.number("factor")? },
        "llama3" => Scaling::Llama3 {
            factor: inner.number("factor")?,
            low_freq_factor: inner.number("low_freq_factor")?,
            high_freq_factor: inner.number("high_freq_factor")?,
            original: inner.number("original_max_position_embeddings")?,
        },
        other => {
            let key = if new.is_some() { "rope_parameters.rope_type" } else { "rope_scaling.rope_type" };
            return Err(ConfigError::Value {
                key: key.into(),
                found: format!("`{other}`"),
                expected: "default, linear and llama3 are supported".into(),
            });
        }
    };
    Ok(Rotary { theta, scaling })
}

/// One decoder layer.
#[derive(Clone, Debug)]
pub struct LlamaLayer {
    path: Scope,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    rotary: Rotary,
    act: Activation,
    input_layernorm: RMSNorm,
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    post_attention_layernorm: RMSNorm,
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

impl LlamaLayer {
    /// The layer whose parameters are in this scope.
    pub fn new(scope: &Scope, c: &LlamaConfig) -> Self {
        let (attention, mlp) = (scope.child("self_attn"), scope.child("mlp"));
        let (hidden, inner) = (c.hidden_size, c.intermediate_size);
        let (q, kv) = (c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim);
        let projection = |name, i, o| Linear::new(&attention.child(name), i, o, c.attention_bias);
        let feed = |name, i, o| Linear::new(&mlp.child(name), i, o, c.mlp_bias);
        let norm = |name| RMSNorm::new(&scope.child(name), hidden, c.rms_norm_eps);
        Self {
            path: scope.clone(),
            heads: c.num_attention_heads,
            kv_heads: c.num_key_value_heads,
            dim: c.head_dim,
            rotary: c.rotary,
            act: c.hidden_act,
            input_layernorm: norm("input_layernorm"),
            q_proj: projection("q_proj", hidden, q),
            k_proj: projection("k_proj", hidden, kv),
            v_proj: projection("v_proj", hidden, kv),
            o_proj: projection("o_proj", q, hidden),
            post_attention_layernorm: norm("post_attention_layernorm"),
            gate_proj: feed("gate_proj", hidden, inner),
            up_proj: feed("up_proj", hidden, inner),
            down_proj: feed("down_proj", inner, hidden),
        }
    }
}

impl Module for LlamaLayer {
    /// `[b, s, hidden]` to the same.
    fn forward(&self, x: &Tensor) -> Tensor {
        let name = |n: &str| self.path.name(n);
        let normed = self.input_layernorm.forward(x);
        let q = self.rotary.apply(&self.q_proj.heads(&normed, self.heads, self.dim)).named(&name("self_attn.q"));
        let k = self.rotary.apply(&self.k_proj.heads(&normed, self.kv_heads, self.dim)).named(&name("self_attn.k"));
        let v = self.v_proj.heads(&normed, self.kv_heads, self.dim);
        let options = AttentionOptions { is_causal: true, enable_gqa: true, ..AttentionOptions::default() };
        let attended = q.scaled_dot_product_attention(&k, &v, &options).named(&name("self_attn"));
        let x = x.add(self.o_proj.merge_heads(&attended)).named(&name("self_attn.residual"));
        let normed = self.post_attention_layernorm.forward(&x);
        let gate = self.act.forward(&self.gate_proj.forward(&normed));
        let inner = gate.mul(self.up_proj.forward(&normed)).named(&name("mlp.gated"));
        x.add(self.down_proj.forward(&inner)).named(&self.path.name("mlp.residual"))
    }

    fn parameters(&self) -> Vec<Tensor> {
        let projections = [&self.q_proj, &self.k_proj, &self.v_proj, &self.o_proj];
        let feed = [&self.gate_proj, &self.up_proj, &self.down_proj];
        let mut all: Vec<Tensor> = projections.iter().chain(&feed).flat_map(|l| l.parameters()).collect();
        all.extend(self.input_layernorm.parameters());
        all.extend(self.post_attention_layernorm.parameters());
        all
    }
}

/// The whole model.
#[derive(Clone, Debug)]
pub struct Llama {
    embed_tokens: Embedding,
    layers: ModuleList<LlamaLayer>,
    norm: RMSNorm,
    lm_head: Linear,
    tied: bool,
}

impl Llama {
    /// The model of a configuration, in the configuration's type.
    pub fn new(c: &LlamaConfig) -> Self {
        let root = Scope::root(c.dtype);
        let model = root.child("model");
        let embed_tokens = Embedding::new(&model.child("embed_tokens"), c.vocab_size, c.hidden_size);
        let head = root.child("lm_head");
        let lm_head = if c.tie_word_embeddings {
            Linear::tied(&head, &embed_tokens.weight)
        } else {
            Linear::new(&head, c.hidden_size, c.vocab_size, false)
        };
        let layer = |n| LlamaLayer::new(&model.child("layers").child(n), c);
        Self {
            embed_tokens,
            layers: (0..c.num_hidden_layers).map(layer).collect(),
            norm: RMSNorm::new(&model.child("norm"), c.hidden_size, c.rms_norm_eps),
            lm_head,
            tied: c.tie_word_embeddings,
        }
    }
}

impl Llama {
    fn hidden(&self, ids: &Tensor) -> Tensor {
        self.layers.iter().fold(self.embed_tokens.forward(ids), |x, layer| layer.forward(&x))
    }

    /// Ids `[b, s]` and a position for each sequence, `[b]`, to the logits `[b, vocab]` of what follows there.
    ///
    /// The position is a value of the run, so one plan serves every length up to s: what stands after it is
    /// not read.
    pub fn next_token(&self, ids: &Tensor, position: &Tensor) -> Tensor {
        let at = at_position(&self.hidden(ids), position).named("at_position");
        self.lm_head.forward(&self.norm.forward(&at))
    }
}

/// `out[b, e] = x[b, position[b], e]`, as a sum in which one term is not 0.
fn at_position(x: &Tensor, position: &Tensor) -> Tensor {
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

impl Module for Llama {
    /// Ids `[b, s]` to logits `[b, s, vocab]`.
    fn forward(&self, ids: &Tensor) -> Tensor {
        self.lm_head.forward(&self.norm.forward(&self.hidden(ids)))
    }

    fn parameters(&self) -> Vec<Tensor> {
        let mut all = self.embed_tokens.parameters();
        all.extend(self.layers.iter().flat_map(Module::parameters));
        all.extend(self.norm.parameters());
        if !self.tied {
            all.extend(self.lm_head.parameters());
        }
        all
    }
}
