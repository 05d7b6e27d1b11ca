//! One layer of a decoder.

use super::decoder::{DecoderConfig, Norms};
use crate::nn::rotary::{Positions, Rotary};
use crate::nn::{Activation, Linear, Module, RMSNorm, Scope};
use crate::tensor::Tensor;
use crate::tensor::attention::AttentionOptions;

/// A root-mean-square norm, of which some models store the scale less one.
#[derive(Clone, Debug)]
pub(super) struct Norm {
    path: String,
    inner: RMSNorm,
    less_one: bool,
}

impl Norm {
    pub fn new(scope: &Scope, features: usize, c: &DecoderConfig) -> Self {
        let inner = RMSNorm::new(scope, features, c.rms_norm_eps);
        Self { path: scope.path().into(), inner, less_one: c.norms == Norms::Around }
    }

    pub fn forward(&self, x: &Tensor) -> Tensor {
        if !self.less_one {
            return self.inner.forward(x);
        }
        let wide = x.dtype().accumulator();
        let weight = self.inner.weight.to(wide).add(1.0);
        x.to(wide).rms_norm(weight.shape(), Some(&weight), self.inner.eps).to(x.dtype()).named(&self.path)
    }

    pub fn parameters(&self) -> Vec<Tensor> {
        self.inner.parameters()
    }
}

/// Keys and values of some tokens, rotated: `[b, kv_heads, tokens, head_dim]` each.
#[derive(Clone, Debug)]
pub struct KeyValues {
    /// The keys.
    pub keys: Tensor,
    /// The values.
    pub values: Tensor,
}

/// One layer: attention and a gated feed-forward network, each after a norm and added to what came in.
#[derive(Clone, Debug)]
pub struct DecoderLayer {
    path: Scope,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    rotary: Rotary,
    act: Activation,
    window: Option<usize>,
    scale: Option<f64>,
    softcap: Option<f64>,
    before_attention: Norm,
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    qk_norms: Option<(Norm, Norm)>,
    o_proj: Linear,
    after_attention: Option<Norm>,
    before_mlp: Norm,
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    after_mlp: Option<Norm>,
}

impl DecoderLayer {
    /// Layer `n`, whose parameters are in this scope.
    pub fn new(scope: &Scope, c: &DecoderConfig, n: usize) -> Self {
        let (attention, mlp) = (scope.child("self_attn"), scope.child("mlp"));
        let (hidden, inner) = (c.hidden_size, c.intermediate_size);
        let (q, kv) = (c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim);
        let of = q + 2 * kv;
        let projection = |name, from: usize, features: usize| {
            let own = attention.child(name);
            if c.fused {
                let rows = from..from + features;
                Linear::rows(&own, &attention.child("qkv_proj"), hidden, &rows, of, c.biases.qkv)
            } else {
                Linear::new(&own, hidden, features, c.biases.qkv)
            }
        };
        let gate = |name, from: usize| {
            let own = mlp.child(name);
            if c.fused {
                let rows = from..from + inner;
                Linear::rows(&own, &mlp.child("gate_up_proj"), hidden, &rows, 2 * inner, c.biases.mlp)
            } else {
                Linear::new(&own, hidden, inner, c.biases.mlp)
            }
        };
        let norm = |name| Norm::new(&scope.child(name), hidden, c);
        let around = c.norms == Norms::Around;
        let head_norm = |name| Norm::new(&attention.child(name), c.head_dim, c);
        Self {
            path: scope.clone(),
            heads: c.num_attention_heads,
            kv_heads: c.num_key_value_heads,
            dim: c.head_dim,
            rotary: c.rotary.clone(),
            act: c.hidden_act,
            window: c.windows[n],
            scale: c.attention_scale,
            softcap: c.attention_softcap,
            before_attention: norm("input_layernorm"),
            q_proj: projection("q_proj", 0, q),
            k_proj: projection("k_proj", q, kv),
            v_proj: projection("v_proj", q + kv, kv),
            qk_norms: c.qk_norm.then(|| (head_norm("q_norm"), head_norm("k_norm"))),
            o_proj: Linear::new(&attention.child("o_proj"), q, hidden, c.biases.output),
            after_attention: around.then(|| norm("post_attention_layernorm")),
            before_mlp: norm(if around { "pre_feedforward_layernorm" } else { "post_attention_layernorm" }),
            gate_proj: gate("gate_proj", 0),
            up_proj: gate("up_proj", inner),
            down_proj: Linear::new(&mlp.child("down_proj"), inner, hidden, c.biases.mlp),
            after_mlp: around.then(|| norm("post_feedforward_layernorm")),
        }
    }

    /// `[b, s, hidden]` to the same. `padding` is added to the scores of keys, `[b, s]`.
    pub fn forward(&self, x: &Tensor, padding: Option<&Tensor>, positions: Positions<'_>) -> Tensor {
        self.layer(x, padding, positions, None).0
    }

    /// [`DecoderLayer::forward`] without padding, and the keys and values of all tokens: what later steps read.
    pub fn begin(&self, x: &Tensor, positions: Positions<'_>) -> (Tensor, KeyValues) {
        self.layer(x, None, positions, None)
    }

    /// One new token of each sequence, `[b, 1, hidden]`, after those of `past`: to the same, and its own key and value,
    /// which are to be appended to the past.
    pub fn step(&self, x: &Tensor, past: &KeyValues, positions: Positions<'_>) -> (Tensor, KeyValues) {
        self.layer(x, None, positions, Some(past))
    }

    fn layer(
        &self,
        x: &Tensor,
        padding: Option<&Tensor>,
        positions: Positions<'_>,
        past: Option<&KeyValues>,
    ) -> (Tensor, KeyValues) {
        let name = |n: &str| self.path.name(n);
        let (attended, own) = self.attend(&self.before_attention.forward(x), padding, positions, past);
        let attended = self.after_attention.as_ref().map_or(attended.clone(), |norm| norm.forward(&attended));
        let x = x.add(attended).named(&name("self_attn.residual"));
        let normed = self.before_mlp.forward(&x);
        let gate = self.act.forward(&self.gate_proj.forward(&normed));
        let inner = gate.mul(self.up_proj.forward(&normed)).named(&name("mlp.gated"));
        let y = self.down_proj.forward(&inner);
        let y = self.after_mlp.as_ref().map_or(y.clone(), |norm| norm.forward(&y));
        (x.add(y).named(&name("mlp.residual")), own)
    }

    fn attend(
        &self,
        x: &Tensor,
        padding: Option<&Tensor>,
        positions: Positions<'_>,
        past: Option<&KeyValues>,
    ) -> (Tensor, KeyValues) {
        let name = |n: &str| self.path.name(n);
        let mut q = self.q_proj.heads(x, self.heads, self.dim);
        let mut k = self.k_proj.heads(x, self.kv_heads, self.dim);
        let v = self.v_proj.heads(x, self.kv_heads, self.dim);
        if let Some((q_norm, k_norm)) = &self.qk_norms {
            (q, k) = (q_norm.forward(&q), k_norm.forward(&k));
        }
        let q = self.rotary.apply_at(&q, positions).named(&name("self_attn.q"));
        let k = self.rotary.apply_at(&k, positions).named(&name("self_attn.k"));
        let own = KeyValues { keys: k, values: v };
        let options = AttentionOptions {
            enable_gqa: true,
            key_padding_mask: padding,
            softcap: self.softcap,
            scale: self.scale,
            offsets: positions.offsets,
            ..AttentionOptions::default()
        };
        let attended = match past {
            None => {
                // A window that holds the whole sequence is none.
                let window = self.window.filter(|&w| w < x.size(1));
                let options = AttentionOptions { is_causal: true, window, ..options };
                q.scaled_dot_product_attention(&own.keys, &own.values, &options)
            }
            Some(past) => Tensor::attempt(|| {
                if q.ty()?.shape[2] != 1 {
                    return Err(x.shape_error("decoder step", "one new token of each sequence, [b, 1, hidden]".into()));
                }
                // The own key is the last of a window.
                let tokens = past.keys.ty()?.shape.get(2).copied().unwrap_or(0);
                let seen = self.window.map_or(tokens, |w| tokens.min(w - 1));
                let last = |t: &Tensor| t.narrow(2, tokens - seen, seen);
                let (keys, values) = if seen < tokens {
                    (last(&past.keys), last(&past.values))
                } else {
                    (past.keys.clone(), past.values.clone())
                };
                let options = AttentionOptions { own: Some((&own.keys, &own.values)), ..options };
                Ok(q.scaled_dot_product_attention(&keys, &values, &options))
            }),
        };
        (self.o_proj.merge_heads(&attended.named(&name("self_attn"))), own)
    }

    /// The parameters.
    pub fn parameters(&self) -> Vec<Tensor> {
        let projections = [&self.q_proj, &self.k_proj, &self.v_proj, &self.o_proj];
        let feed = [&self.gate_proj, &self.up_proj, &self.down_proj];
        let mut all: Vec<Tensor> = projections.iter().chain(&feed).flat_map(|l| l.parameters()).collect();
        let heads = self.qk_norms.iter().flat_map(|(q, k)| [q, k]);
        let after = self.after_attention.iter().chain(&self.after_mlp);
        let norms = [&self.before_attention, &self.before_mlp].into_iter().chain(heads).chain(after);
        all.extend(norms.flat_map(Norm::parameters));
        all
    }
}
