//! A Hugging Face folder: configuration, weights and tokenizer, opened together and checked.

use super::config::{ConfigError, ModelConfig};
use crate::tokenizer::{Tokenizer, TokenizerError};
use crate::weights::{WeightError, Weights};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Why a folder cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is no such folder, or a file of it cannot be read.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The configuration is refused.
    #[error("{folder}: {source}", folder = folder.display())]
    Config {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: ConfigError,
    },
    /// The weights are refused.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// The tokenizer is refused.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The steps of a sentence model are not understood.
    #[error("{path}: {reason}", path = path.display())]
    Pipeline {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what is supported.
        reason: String,
    },
}

/// A folder with a model.
#[derive(Debug)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// What it holds.
    pub config: ModelConfig,
    /// Its weights.
    pub weights: Weights,
}

impl Folder {
    /// Reads `config.json` and the headers of the weights.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        if !path.is_dir() {
            let reason = if path.exists() { "is no folder" } else { "does not exist" };
            return Err(FolderError::File { path: path.into(), reason: reason.into() });
        }
        let file = path.join("config.json");
        let text = std::fs::read_to_string(&file)
            .map_err(|e| FolderError::File { path: file.clone(), reason: e.to_string() })?;
        let config = ModelConfig::parse(&text).map_err(|source| FolderError::Config { folder: path.into(), source })?;
        Ok(Self { path: path.into(), config, weights: Weights::open(path)? })
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer, FolderError> {
        Ok(Tokenizer::open(&self.path)?)
    }

    /// How it makes one vector of a text.
    pub fn pipeline(&self) -> Result<Pipeline, FolderError> {
        Pipeline::read(&self.path)
    }
}

/// How the vectors of tokens become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The mean over tokens, padding left out.
    Mean,
    /// The first token's.
    Cls,
    /// The largest of every feature over tokens, padding left out.
    Max,
}

/// The steps of a sentence model after the encoder: `modules.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// How tokens become one vector.
    pub pooling: Pooling,
    /// Whether it is divided by its length.
    pub normalize: bool,
    /// The most tokens of a text, if the folder says.
    pub max_seq_length: Option<usize>,
}

impl Pipeline {
    /// Reads a folder's `modules.json` and what it names.
    pub fn read(folder: &Path) -> Result<Self, FolderError> {
        let path = folder.join("modules.json");
        let wrong = |reason: String| FolderError::Pipeline { path: path.clone(), reason };
        let max_seq_length = optional(&folder.join("sentence_bert_config.json"))?
            .and_then(|v| v["max_seq_length"].as_u64())
            .map(|n| n as usize);
        let mut pipeline = Self { pooling: Pooling::Mean, normalize: false, max_seq_length };
        // A plain encoder folder: the mean is what sentence-transformers does then.
        let Some(modules) = optional(&path)? else { return Ok(pipeline) };
        let modules = modules.as_array().ok_or_else(|| wrong("it is no list".into()))?;
        let mut stage = 0;
        for module in modules {
            let kind = module["type"].as_str().unwrap_or("");
            let name = kind.rsplit('.').next().unwrap_or("");
            let next = match name {
                "Transformer" => 1,
                "Pooling" => {
                    let inside = folder.join(module["path"].as_str().unwrap_or("1_Pooling")).join("config.json");
                    pipeline.pooling = Pooling::read(&inside)?;
                    2
                }
                "Normalize" => {
                    pipeline.normalize = true;
                    3
                }
                _ => {
                    return Err(wrong(format!(
                        "the module `{kind}` is not supported; supported are Transformer, Pooling and Normalize"
                    )));
                }
            };
            if next != stage + 1 {
                return Err(wrong(format!("`{name}` is out of order; Transformer, Pooling, Normalize is supported")));
            }
            stage = next;
        }
        if stage < 2 {
            return Err(wrong("it has no Pooling, so a text has no one vector".into()));
        }
        Ok(pipeline)
    }
}

impl Pooling {
    fn read(path: &Path) -> Result<Self, FolderError> {
        let wrong = |reason: String| FolderError::Pipeline { path: path.into(), reason };
        let config = optional(path)?.ok_or_else(|| wrong("the file does not exist".into()))?;
        let object = config.as_object().ok_or_else(|| wrong("it is no object".into()))?;
        let on: Vec<&str> = object
            .iter()
            .filter(|(key, value)| key.starts_with("pooling_mode_") && **value == Value::Bool(true))
            .map(|(key, _)| key.as_str())
            .collect();
        match on.as_slice() {
            ["pooling_mode_mean_tokens"] => Ok(Self::Mean),
            ["pooling_mode_cls_token"] => Ok(Self::Cls),
            ["pooling_mode_max_tokens"] => Ok(Self::Max),
            [] => Err(wrong("no pooling mode is on; mean, cls and max are supported".into())),
            modes => Err(wrong(format!("{} is on; one of mean, cls and max alone is supported", modes.join(", ")))),
        }
    }
}

/// A JSON file, if it exists.
fn optional(path: &Path) -> Result<Option<Value>, FolderError> {
    let error = |reason: String| FolderError::File { path: path.into(), reason };
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|e| error(e.to_string())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(error(e.to_string())),
    }
}
