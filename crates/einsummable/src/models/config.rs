//! `config.json`: which architecture, of which sizes.

use super::architecture::{Architecture, Family};
use super::keys::Keys;
use super::{CausalLm, DecoderConfig, EncoderConfig, Gpt2Config, VitConfig, bert, distilbert, gemma2, llama, mistral};
use super::{phi3, qwen2, qwen3, roberta};
use crate::tensor::Tensor;
use ein_ir::dtype::DType;
use serde_json::Value;

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is not JSON, or not an object.
    #[error("config.json: {reason}")]
    Json {
        /// Why.
        reason: String,
    },
    /// A key that is needed is not there.
    #[error("config.json has no `{key}`, which {architecture} needs")]
    Missing {
        /// The key.
        key: String,
        /// Who needs it.
        architecture: &'static str,
    },
    /// A key has a value that makes no sense, or that changes the computation in a way that is not built here.
    #[error("config.json: `{key}` is {found}, but {expected}")]
    Value {
        /// The key.
        key: String,
        /// What it is.
        found: String,
        /// What would work.
        expected: String,
    },
    /// An architecture that is not built here.
    #[error("config.json: the architecture {found} is not supported; supported are {}", Architecture::names())]
    Architecture {
        /// The architecture.
        found: String,
    },
}

/// The configuration of a model of some architecture.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelConfig {
    /// BERT and what is built like it.
    Encoder(EncoderConfig),
    /// `LLaMA` and what is built like it.
    Decoder(DecoderConfig),
    /// GPT-2.
    Gpt2(Gpt2Config),
    /// The vision transformer.
    Vit(VitConfig),
}

impl ModelConfig {
    /// Reads a `config.json`.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let value: Value = serde_json::from_str(text).map_err(|e| ConfigError::Json { reason: e.to_string() })?;
        if !value.is_object() {
            return Err(ConfigError::Json { reason: "it is no object".into() });
        }
        if let Some(quantized) = value.get("quantization_config").filter(|v| !v.is_null()) {
            return Err(ConfigError::Value {
                key: "quantization_config".into(),
                found: quantized["quant_method"].to_string(),
                expected: "only weights that are not quantized are supported".into(),
            });
        }
        let architecture = architecture(&value)?;
        let keys = Keys::new(&value, architecture.name());
        let decoder = |config: Result<DecoderConfig, ConfigError>| config.map(Self::Decoder);
        let encoder = |config: Result<EncoderConfig, ConfigError>| config.map(Self::Encoder);
        match architecture.family() {
            Family::Bert => encoder(bert::read(&keys, architecture)),
            Family::DistilBert => encoder(distilbert::read(&keys, architecture)),
            Family::Roberta => encoder(roberta::read(&keys, architecture)),
            Family::Llama => decoder(llama::read(&keys, architecture)),
            Family::Mistral => decoder(mistral::read(&keys, architecture)),
            Family::Qwen2 => decoder(qwen2::read(&keys, architecture)),
            Family::Qwen3 => decoder(qwen3::read(&keys, architecture)),
            Family::Gemma2 => decoder(gemma2::read(&keys, architecture)),
            Family::Phi3 => decoder(phi3::read(&keys, architecture)),
            Family::Gpt2 => Gpt2Config::read(&keys, architecture).map(Self::Gpt2),
            Family::Vit => VitConfig::read(&keys, architecture).map(Self::Vit),
        }
    }

    /// The architecture.
    pub fn architecture(&self) -> Architecture {
        match self {
            Self::Encoder(c) => c.architecture,
            Self::Decoder(c) => c.architecture,
            Self::Gpt2(c) => c.architecture,
            Self::Vit(c) => c.architecture,
        }
    }

    /// The type it computes in.
    pub fn dtype(&self) -> DType {
        match self {
            Self::Encoder(c) => c.dtype,
            Self::Decoder(c) => c.dtype,
            Self::Gpt2(c) => c.dtype,
            Self::Vit(c) => c.dtype,
        }
    }

    /// Number of tokens that it knows; none of a model of images.
    pub fn vocab_size(&self) -> Option<usize> {
        match self {
            Self::Encoder(c) => Some(c.vocab_size),
            Self::Decoder(c) => Some(c.vocab_size),
            Self::Gpt2(c) => Some(c.vocab_size),
            Self::Vit(_) => None,
        }
    }

    /// The longest sequence it was made for; of a model of images the only one.
    pub fn max_tokens(&self) -> usize {
        match self {
            Self::Encoder(c) => c.max_tokens(),
            Self::Decoder(c) => c.max_position_embeddings,
            Self::Gpt2(c) => c.max_position_embeddings,
            Self::Vit(c) => c.sequence(),
        }
    }

    /// The model as one that continues texts, if it is one.
    pub fn causal_lm(&self) -> Option<&dyn CausalLm> {
        match self {
            Self::Decoder(c) if c.has_head() => Some(c),
            Self::Gpt2(c) if c.has_head() => Some(c),
            Self::Encoder(_) | Self::Decoder(_) | Self::Gpt2(_) | Self::Vit(_) => None,
        }
    }

    /// What the model computes of a batch, and its name: `logits`, or `hidden` without a head.
    ///
    /// Inputs are [`IDS`](super::sentence::IDS) `[batch, sequence]` and, for an encoder,
    /// [`MASK`](super::sentence::MASK) `[batch, 1, 1, sequence]`; for a vision transformer
    /// [`PIXELS`](super::vit::PIXELS) `[batch, channels, height, width]`, and the sequence is not read.
    pub fn outputs(&self, batch: usize, sequence: usize) -> (&'static str, Tensor) {
        match self {
            Self::Encoder(c) => c.outputs(batch, sequence),
            Self::Decoder(c) => c.outputs(batch, sequence),
            Self::Gpt2(c) => c.outputs(batch, sequence),
            Self::Vit(c) => c.outputs(batch),
        }
    }
}

/// What a configuration says it is. Older folders list no architecture; then the model type decides.
fn architecture(value: &Value) -> Result<Architecture, ConfigError> {
    let listed: Vec<&str> = value["architectures"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let kind = value["model_type"].as_str();
    if let Some(found) = listed.iter().find_map(|name| Architecture::named(name)) {
        return Ok(found);
    }
    let found = match (listed.as_slice(), kind) {
        ([], None) => "(neither `architectures` nor `model_type` is given)".into(),
        ([], Some(kind)) => match Family::ALL.into_iter().find(|f| f.model_type() == kind) {
            Some(family) => return Ok(Architecture::of(family)),
            None => format!("of model type `{kind}`"),
        },
        (names, _) => format!("`{}`", names.join("`, `")),
    };
    Err(ConfigError::Architecture { found })
}
