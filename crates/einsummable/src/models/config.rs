//! `config.json`: which architecture, of which sizes.

use super::{BertConfig, LlamaConfig};
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
    /// A key has a value that makes no sense.
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

/// The architectures that are supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Architecture {
    /// `BertModel`: an encoder.
    Bert,
    /// `LlamaForCausalLM`: a decoder.
    Llama,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Architecture; 2] = [Self::Bert, Self::Llama];

    /// The name in `architectures`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bert => "BertModel",
            Self::Llama => "LlamaForCausalLM",
        }
    }

    /// The names, for messages.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(" and ")
    }
}

/// The configuration of a model of some architecture.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelConfig {
    /// An encoder.
    Bert(BertConfig),
    /// A decoder.
    Llama(LlamaConfig),
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
        let listed: Vec<&str> =
            value["architectures"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let of = |names: &[&str]| names.iter().any(|n| listed.contains(n));
        // Older folders list no architecture; then the model type decides.
        let kind = value["model_type"].as_str().filter(|_| listed.is_empty());
        if of(&["BertModel"]) || kind == Some("bert") {
            BertConfig::read(&Keys { value: &value, architecture: "BertModel" }).map(Self::Bert)
        } else if of(&["LlamaForCausalLM"]) || kind == Some("llama") {
            LlamaConfig::read(&Keys { value: &value, architecture: "LlamaForCausalLM" }).map(Self::Llama)
        } else {
            let found = match (listed.as_slice(), value["model_type"].as_str()) {
                ([], None) => "(neither `architectures` nor `model_type` is given)".into(),
                ([], Some(kind)) => format!("of model type `{kind}`"),
                (names, _) => format!("`{}`", names.join("`, `")),
            };
            Err(ConfigError::Architecture { found })
        }
    }

    /// The architecture.
    pub fn architecture(&self) -> Architecture {
        match self {
            Self::Bert(_) => Architecture::Bert,
            Self::Llama(_) => Architecture::Llama,
        }
    }
}

/// Typed access to the keys of a configuration.
pub(crate) struct Keys<'a> {
    pub value: &'a Value,
    pub architecture: &'static str,
}

impl Keys<'_> {
    /// The value of a key, unless it is missing or null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.value.get(key).filter(|v| !v.is_null())
    }

    fn need(&self, key: &str) -> Result<&Value, ConfigError> {
        self.get(key).ok_or_else(|| ConfigError::Missing { key: key.into(), architecture: self.architecture })
    }

    /// A size of at least 1.
    pub fn size(&self, key: &str) -> Result<usize, ConfigError> {
        self.size_up_to(key, 1 << 40)
    }

    /// A number of layers. Each is rows of the graph, so absurd numbers are refused before they take memory.
    pub fn layers(&self, key: &str) -> Result<usize, ConfigError> {
        self.size_up_to(key, 10_000)
    }

    fn size_up_to(&self, key: &str, most: u64) -> Result<usize, ConfigError> {
        let value = self.need(key)?;
        value.as_u64().filter(|n| (1..=most).contains(n)).map(|n| n as usize).ok_or_else(|| ConfigError::Value {
            key: key.into(),
            found: value.to_string(),
            expected: format!("a whole number from 1 to {most} is expected"),
        })
    }

    /// A size, if it is given.
    pub fn size_or(&self, key: &str, default: usize) -> Result<usize, ConfigError> {
        if self.get(key).is_some() { self.size(key) } else { Ok(default) }
    }

    /// A positive number.
    pub fn number(&self, key: &str) -> Result<f64, ConfigError> {
        let value = self.need(key)?;
        value.as_f64().filter(|&n| n > 0.0 && n.is_finite()).ok_or_else(|| ConfigError::Value {
            key: key.into(),
            found: value.to_string(),
            expected: "a positive number is expected".into(),
        })
    }

    /// A flag, false if it is not given.
    pub fn flag(&self, key: &str) -> Result<bool, ConfigError> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(b)) => Ok(*b),
            Some(other) => Err(ConfigError::Value {
                key: key.into(),
                found: other.to_string(),
                expected: "true or false is expected".into(),
            }),
        }
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<&str, ConfigError> {
        let value = self.need(key)?;
        value.as_str().ok_or_else(|| ConfigError::Value {
            key: key.into(),
            found: value.to_string(),
            expected: "a text is expected".into(),
        })
    }

    /// The activation that a key names.
    pub fn activation(&self, key: &str) -> Result<crate::nn::Activation, ConfigError> {
        let name = self.text(key)?;
        crate::nn::Activation::parse(name).ok_or_else(|| ConfigError::Value {
            key: key.into(),
            found: format!("`{name}`"),
            expected: format!("one of {} is supported", crate::nn::Activation::NAMES),
        })
    }

    /// `dtype`, or `torch_dtype` in older files; `F32` if neither is given.
    pub fn dtype(&self) -> Result<DType, ConfigError> {
        let key = if self.get("dtype").is_some() { "dtype" } else { "torch_dtype" };
        if self.get(key).is_none() {
            return Ok(DType::F32);
        }
        match self.text(key)? {
            "float32" | "auto" => Ok(DType::F32),
            "bfloat16" => Ok(DType::BF16),
            "float16" => Ok(DType::F16),
            "float64" => Ok(DType::F64),
            other => Err(ConfigError::Value {
                key: key.into(),
                found: format!("`{other}`"),
                expected: "one of float32, bfloat16, float16, float64 is supported".into(),
            }),
        }
    }

    /// Refuses `count` that `by` does not divide.
    pub fn divides(key: &str, count: usize, by_key: &str, by: usize) -> Result<(), ConfigError> {
        if count.is_multiple_of(by) {
            return Ok(());
        }
        let expected = format!("a multiple of `{by_key}` ({by}) is expected");
        Err(ConfigError::Value { key: key.into(), found: count.to_string(), expected })
    }
}
