//! Models of Hugging Face folders, built from their `config.json`.

pub mod bert;
pub mod config;
pub mod folder;
pub mod llama;
pub mod sentence;

pub use bert::{Bert, BertConfig};
pub use config::{Architecture, ConfigError, ModelConfig};
pub use folder::{Folder, FolderError, Pipeline, Pooling};
pub use llama::{Llama, LlamaConfig, LlamaLayer};
