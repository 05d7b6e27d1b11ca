//! `BertModel`.

use super::config::{ConfigError, Keys};
use crate::nn::{Activation, Embedding, LayerNorm, Linear, Module, ModuleList, Scope};
use crate::tensor::attention::AttentionOptions;
use crate::tensor::map::map_over;
use crate::tensor::{Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine};
use ein_ir::expr::Binary;

/// The sizes of a BERT model.
#[derive(Clone, Debug, PartialEq)]
pub struct BertConfig {
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
    /// Rows of the token-type embedding.
    pub type_vocab_size: usize,
    /// Added to variances.
    pub layer_norm_eps: f64,
    /// The activation.
    pub hidden_act: Activation,
    /// The type it computes in.
    pub dtype: DType,
}

impl BertConfig {
    pub(crate) fn read(keys: &Keys) -> Result<Self, ConfigError> {
        let hidden_size = keys.size("hidden_size")?;
        let heads = keys.size("num_attention_heads")?;
        Keys::divides("hidden_size", hidden_size, "num_attention_heads", heads)?;
        if keys.get("position_embedding_type").is_some() && keys.text("position_embedding_type")? != "absolute" {
            return Err(ConfigError::Value {
                key: "position_embedding_type".into(),
                found: format!("`{}`", keys.text("position_embedding_type")?),
                expected: "absolute is supported".into(),
            });
        }
        Ok(Self {
            hidden_size,
            intermediate_size: keys.size("intermediate_size")?,
            num_hidden_layers: keys.layers("num_hidden_layers")?,
            num_attention_heads: heads,
            vocab_size: keys.size("vocab_size")?,
            max_position_embeddings: keys.size("max_position_embeddings")?,
            type_vocab_size: keys.size_or("type_vocab_size", 2)?,
            layer_norm_eps: if keys.get("layer_norm_eps").is_some() { keys.number("layer_norm_eps")? } else { 1e-12 },
            hidden_act: if keys.get("hidden_act").is_some() {
                keys.activation("hidden_act")?
            } else {
                Activation::Gelu
            },
            dtype: keys.dtype()?,
        })
    }
}

#[derive(Clone, Debug)]
struct BertLayer {
    path: Scope,
    heads: usize,
    dim: usize,
    act: Activation,
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    intermediate: Linear,
    output: Linear,
    output_norm: LayerNorm,
}

impl BertLayer {
    fn new(scope: &Scope, c: &BertConfig) -> Self {
        let attention = scope.child("attention");
        let (own, out, last) = (attention.child("self"), attention.child("output"), scope.child("output"));
        let (hidden, inner) = (c.hidden_size, c.intermediate_size);
        Self {
            path: scope.clone(),
            heads: c.num_attention_heads,
            dim: hidden / c.num_attention_heads,
            act: c.hidden_act,
            query: Linear::new(&own.child("query"), hidden, hidden, true),
            key: Linear::new(&own.child("key"), hidden, hidden, true),
            value: Linear::new(&own.child("value"), hidden, hidden, true),
            attention_output: Linear::new(&out.child("dense"), hidden, hidden, true),
            attention_norm: LayerNorm::new(&out.child("LayerNorm"), hidden, c.layer_norm_eps),
            intermediate: Linear::new(&scope.child("intermediate").child("dense"), hidden, inner, true),
            output: Linear::new(&last.child("dense"), inner, hidden, true),
            output_norm: LayerNorm::new(&last.child("LayerNorm"), hidden, c.layer_norm_eps),
        }
    }

    fn forward(&self, x: &Tensor, mask: &Tensor) -> Tensor {
        let project = |l: &Linear| l.heads(x, self.heads, self.dim);
        let (q, k, v) = (project(&self.query), project(&self.key), project(&self.value));
        let options = AttentionOptions { mask: Some(mask), ..AttentionOptions::default() };
        let attended = q.scaled_dot_product_attention(&k, &v, &options).named(&self.path.name("attention"));
        let dense = self.attention_output.merge_heads(&attended);
        let x = self.attention_norm.forward(&dense.add(x).named(&self.path.name("attention.residual")));
        let inner = self.act.forward(&self.intermediate.forward(&x)).named(&self.path.name("intermediate"));
        let x = self.output.forward(&inner).add(&x).named(&self.path.name("residual"));
        self.output_norm.forward(&x)
    }

    fn parameters(&self) -> Vec<Tensor> {
        let linear = |l: &Linear| l.parameters();
        let mut all: Vec<Tensor> =
            [&self.query, &self.key, &self.value, &self.attention_output].into_iter().flat_map(linear).collect();
        all.extend(self.attention_norm.parameters());
        all.extend([&self.intermediate, &self.output].into_iter().flat_map(linear));
        all.extend(self.output_norm.parameters());
        all
    }
}

/// The encoder, without the pooler (sentence models pool by themselves).
#[derive(Clone, Debug)]
pub struct Bert {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Embedding,
    norm: LayerNorm,
    layers: ModuleList<BertLayer>,
}

impl Bert {
    /// The model of a configuration, in the configuration's type.
    pub fn new(c: &BertConfig) -> Self {
        let root = Scope::root(c.dtype);
        let embeddings = root.child("embeddings");
        let table = |name, rows| Embedding::new(&embeddings.child(name), rows, c.hidden_size);
        let layers = root.child("encoder").child("layer");
        Self {
            word_embeddings: table("word_embeddings", c.vocab_size),
            position_embeddings: table("position_embeddings", c.max_position_embeddings),
            token_type_embeddings: table("token_type_embeddings", c.type_vocab_size),
            norm: LayerNorm::new(&embeddings.child("LayerNorm"), c.hidden_size, c.layer_norm_eps),
            layers: (0..c.num_hidden_layers).map(|n| BertLayer::new(&layers.child(n), c)).collect(),
        }
    }

    /// Ids `[b, s]` to the last hidden state `[b, s, hidden]`. The mask `[b, 1, 1, s]` is added to the scores of
    /// keys: 0 where there is a token, minus infinity (or a large negative number) where there is padding.
    /// Every token is of type 0.
    pub fn forward(&self, ids: &Tensor, mask: &Tensor) -> Tensor {
        self.layers.iter().fold(self.embed(ids), |x, layer| layer.forward(&x, mask))
    }

    fn embed(&self, ids: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            let words = self.word_embeddings.forward(ids);
            let shape = words.ty()?.shape.clone();
            let &[_, length, _] = shape.as_slice() else {
                return Err(ids.shape_error("BertModel", "ids must be [batch, sequence]".into()));
            };
            let positions = &self.position_embeddings.weight;
            if length > positions.size(0) {
                let reason = format!("{length} tokens, but there are {} positions", positions.size(0));
                let shapes = vec![ids.shape().to_vec()];
                return Err(TensorError::Shape { operation: "BertModel", shapes, reason });
            }
            let positions = positions.narrow(0, 0, length);
            let types = &self.token_type_embeddings.weight;
            let first = Access { axes: vec![Affine::constant(0), Affine::label(2)] };
            let accesses = vec![Access::labels(&[0, 1, 2]), Access::labels(&[1, 2]), first];
            // Added in PyTorch's order: words and types, then positions.
            let sum = map_over("embeddings", &shape, accesses, &[&words, &positions, types], |e, r| {
                let typed = e.binary(Binary::Add, r[0], r[2])?;
                e.binary(Binary::Add, typed, r[1])
            })?;
            Ok(self.norm.forward(&sum.named("embeddings")))
        })
    }

    /// The parameters, in `PyTorch`'s order.
    pub fn parameters(&self) -> Vec<Tensor> {
        let tables = [&self.word_embeddings, &self.position_embeddings, &self.token_type_embeddings];
        let mut all: Vec<Tensor> = tables.iter().flat_map(|t| t.parameters()).collect();
        all.extend(self.norm.parameters());
        all.extend(self.layers.iter().flat_map(BertLayer::parameters));
        all
    }
}
