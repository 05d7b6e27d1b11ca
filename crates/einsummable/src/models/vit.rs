//! `ViTModel` and `ViTForImageClassification`.

use super::architecture::{Architecture, Head};
use super::config::ConfigError;
use super::keys::Keys;
use crate::nn::{Activation, LayerNorm, Linear, Module, ModuleList, Scope};
use crate::tensor::Tensor;
use crate::tensor::attention::AttentionOptions;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::Expr;
use ein_ir::monoid::Monoid;

/// Name of the input of images, `[batch, channels, height, width]`.
pub const PIXELS: &str = "pixel_values";

/// The sizes of a vision transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct VitConfig {
    /// The family and the head.
    pub architecture: Architecture,
    /// Features of a patch.
    pub hidden_size: usize,
    /// Features inside the feed-forward network.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads.
    pub num_attention_heads: usize,
    /// Added to variances.
    pub layer_norm_eps: f64,
    /// The activation.
    pub hidden_act: Activation,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Height and width of an image.
    pub image_size: [usize; 2],
    /// Height and width of a patch.
    pub patch_size: [usize; 2],
    /// Channels of an image.
    pub num_channels: usize,
    /// What the classes are called, in order.
    pub labels: Vec<String>,
    /// The type it computes in.
    pub dtype: DType,
}

impl VitConfig {
    pub(super) fn read(keys: &Keys, architecture: Architecture) -> Result<Self, ConfigError> {
        let hidden_size = keys.size("hidden_size")?;
        let heads = keys.size("num_attention_heads")?;
        keys.divides("hidden_size", hidden_size, "num_attention_heads", heads)?;
        let (image_size, patch_size) = (keys.pair("image_size")?, keys.pair("patch_size")?);
        if image_size.iter().zip(&patch_size).any(|(image, patch)| image < patch) {
            let expected = format!("a patch of {patch_size:?} must fit into it");
            return Err(keys.wrong("image_size", format!("{image_size:?}"), expected));
        }
        Ok(Self {
            architecture,
            hidden_size,
            intermediate_size: keys.size("intermediate_size")?,
            num_hidden_layers: keys.layers("num_hidden_layers")?,
            num_attention_heads: heads,
            layer_norm_eps: keys.number_or("layer_norm_eps", 1e-12)?,
            hidden_act: keys.activation_or("hidden_act", Activation::Gelu)?,
            qkv_bias: keys.flag_or("qkv_bias", true)?,
            image_size,
            patch_size,
            num_channels: keys.size_or("num_channels", 3)?,
            labels: labels(keys)?,
            dtype: keys.dtype()?,
        })
    }

    fn has_head(&self) -> bool {
        self.architecture.head() == Head::ImageClassification
    }

    /// Patches along height and width. What is left over at the ends is not read.
    pub fn grid(&self) -> [usize; 2] {
        [self.image_size[0] / self.patch_size[0], self.image_size[1] / self.patch_size[1]]
    }

    /// Length of the sequence: one patch each, and the class.
    pub fn sequence(&self) -> usize {
        self.grid().iter().product::<usize>() + 1
    }

    pub(super) fn outputs(&self, batch: usize) -> (&'static str, Tensor) {
        let [height, width] = self.image_size;
        let pixels = Tensor::input(PIXELS, [batch, self.num_channels, height, width], self.dtype);
        (if self.has_head() { "logits" } else { "hidden" }, Vit::new(self).forward(&pixels))
    }
}

/// `id2label`, or as many names as `num_labels` says; two where neither is given, as `transformers` has it.
fn labels(keys: &Keys) -> Result<Vec<String>, ConfigError> {
    let count = keys.size_or("num_labels", 2)?;
    let Some(names) = keys.get("id2label") else { return Ok((0..count).map(|n| format!("LABEL_{n}")).collect()) };
    let object = names.as_object();
    let name = |n: usize| object?.get(&n.to_string())?.as_str().map(str::to_owned);
    let all: Option<Vec<String>> = (0..object.map_or(0, serde_json::Map::len)).map(name).collect();
    all.filter(|all| !all.is_empty())
        .ok_or_else(|| keys.wrong("id2label", "incomplete", "a name for every class from 0 on is expected"))
}

#[derive(Clone, Debug)]
struct VitLayer {
    path: Scope,
    heads: usize,
    dim: usize,
    act: Activation,
    before_attention: LayerNorm,
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    before_mlp: LayerNorm,
    inner: Linear,
    outer: Linear,
}

impl VitLayer {
    fn new(scope: &Scope, c: &VitConfig) -> Self {
        let (hidden, inner) = (c.hidden_size, c.intermediate_size);
        let own = scope.child("attention.attention");
        let projection = |name| Linear::new(&own.child(name), hidden, hidden, c.qkv_bias);
        let norm = |name| LayerNorm::new(&scope.child(name), hidden, c.layer_norm_eps);
        Self {
            path: scope.clone(),
            heads: c.num_attention_heads,
            dim: hidden / c.num_attention_heads,
            act: c.hidden_act,
            before_attention: norm("layernorm_before"),
            query: projection("query"),
            key: projection("key"),
            value: projection("value"),
            attention_output: Linear::new(&scope.child("attention.output.dense"), hidden, hidden, true),
            before_mlp: norm("layernorm_after"),
            inner: Linear::new(&scope.child("intermediate.dense"), hidden, inner, true),
            outer: Linear::new(&scope.child("output.dense"), inner, hidden, true),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let name = |n: &str| self.path.name(n);
        let normed = self.before_attention.forward(x);
        let project = |l: &Linear| l.heads(&normed, self.heads, self.dim);
        let (q, k, v) = (project(&self.query), project(&self.key), project(&self.value));
        let attended = q.scaled_dot_product_attention(&k, &v, &AttentionOptions::default()).named(&name("attention"));
        let x = self.attention_output.merge_heads(&attended).add(x).named(&name("attention.residual"));
        let inner = self.act.forward(&self.inner.forward(&self.before_mlp.forward(&x))).named(&name("intermediate"));
        self.outer.forward(&inner).add(x).named(&name("residual"))
    }

    fn parameters(&self) -> Vec<Tensor> {
        let linear = [&self.query, &self.key, &self.value, &self.attention_output, &self.inner, &self.outer];
        let norms = [&self.before_attention, &self.before_mlp].into_iter().flat_map(LayerNorm::parameters);
        linear.into_iter().flat_map(Linear::parameters).chain(norms).collect()
    }
}

/// The whole model, without the pooler.
#[derive(Clone, Debug)]
pub struct Vit {
    config: VitConfig,
    cls_token: Tensor,
    position_embeddings: Tensor,
    /// `[hidden, channels, height, width]` of a patch, and the bias.
    projection: (Tensor, Tensor),
    layers: ModuleList<VitLayer>,
    norm: LayerNorm,
    classifier: Option<Linear>,
}

impl Vit {
    /// The model of a configuration, in the configuration's type.
    pub fn new(c: &VitConfig) -> Self {
        let root = Scope::root(c.dtype);
        let model = if c.has_head() { root.child(c.architecture.family().prefix()) } else { root.clone() };
        let embeddings = model.child("embeddings");
        let projection = embeddings.child("patch_embeddings.projection");
        let [height, width] = c.patch_size;
        let layers = model.child("encoder.layer");
        Self {
            config: c.clone(),
            cls_token: embeddings.parameter("cls_token", &[1, 1, c.hidden_size]),
            position_embeddings: embeddings.parameter("position_embeddings", &[1, c.sequence(), c.hidden_size]),
            projection: (
                projection.parameter("weight", &[c.hidden_size, c.num_channels, height, width]),
                projection.parameter("bias", &[c.hidden_size]),
            ),
            layers: (0..c.num_hidden_layers).map(|n| VitLayer::new(&layers.child(n), c)).collect(),
            norm: LayerNorm::new(&model.child("layernorm"), c.hidden_size, c.layer_norm_eps),
            classifier: c
                .has_head()
                .then(|| Linear::new(&root.child("classifier"), c.hidden_size, c.labels.len(), true)),
        }
    }

    /// Patches do not overlap, so each is a product of its own: `out[b, y, x, n] = Σ pixels[b, c, h·y + i, w·x + j] ·
    /// weight[n, c, i, j]`.
    fn patches(&self, pixels: &Tensor) -> Tensor {
        let (c, batch) = (&self.config, pixels.size(0));
        let ([rows, columns], [height, width]) = (c.grid(), c.patch_size);
        let extents = [
            ("b", batch),
            ("y", rows),
            ("x", columns),
            ("n", c.hidden_size),
            ("c", c.num_channels),
            ("i", height),
            ("j", width),
        ];
        let at = |patch: usize, size: usize, within: usize| Affine {
            terms: vec![(patch, size as i64), (within, 1)],
            offset: 0,
        };
        let einsum = Einsum {
            labels: extents.iter().map(|&(name, extent)| Label::new(name, extent)).collect(),
            rank: 4,
            accesses: vec![
                Access { axes: vec![Affine::label(0), Affine::label(4), at(1, height, 5), at(2, width, 6)] },
                Access::labels(&[3, 4, 5, 6]),
            ],
            join: Expr::product(2, c.dtype),
            monoid: Monoid::Sum,
            dtype: c.dtype,
        };
        let product = Tensor::from_einsum("patches", einsum, &[pixels, &self.projection.0]).named("patches.product");
        let patches = product.add(&self.projection.1).named("patches");
        patches.reshape(&[batch as i64, (rows * columns) as i64, c.hidden_size as i64])
    }

    /// Images `[b, channels, height, width]` to the hidden states `[b, patches + 1, hidden]` after the last norm; the
    /// class comes first.
    pub fn hidden(&self, pixels: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            let c = &self.config;
            let shape = pixels.ty()?.shape.clone();
            let expected = [c.num_channels, c.image_size[0], c.image_size[1]];
            if shape.len() != 4 || shape[1..] != expected {
                return Err(pixels.shape_error("ViTModel", format!("images must be [batch, {expected:?}]")));
            }
            let class = self.cls_token.expand(&[shape[0] as i64, 1, -1]);
            let x = Tensor::cat(&[&class, &self.patches(pixels)], 1);
            let x = x.add(&self.position_embeddings).named("embeddings");
            let x = self.layers.iter().fold(x, |x, layer| layer.forward(&x));
            Ok(self.norm.forward(&x))
        })
    }
}

impl Module for Vit {
    /// Images `[b, channels, height, width]` to the scores of classes `[b, classes]`, or to hidden states without a head.
    fn forward(&self, pixels: &Tensor) -> Tensor {
        let hidden = self.hidden(pixels);
        self.classifier.as_ref().map_or(hidden.clone(), |classifier| classifier.forward(&hidden.select(1, 0)))
    }

    fn parameters(&self) -> Vec<Tensor> {
        let (weight, bias) = self.projection.clone();
        let mut all = vec![self.cls_token.clone(), self.position_embeddings.clone(), weight, bias];
        all.extend(self.layers.iter().flat_map(VitLayer::parameters));
        all.extend(self.norm.parameters());
        all.extend(self.classifier.iter().flat_map(Linear::parameters));
        all
    }
}
