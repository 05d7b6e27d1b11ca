//! Models of Hugging Face folders, built from their `config.json`.

pub mod bert;
pub mod config;
pub mod llama;

pub use bert::{Bert, BertConfig};
pub use config::{Architecture, ConfigError, ModelConfig};
pub use llama::{Llama, LlamaConfig, LlamaLayer};
