//! Models of Hugging Face folders, built from their `config.json`.
//!
//! | family | classes | what is built |
//! |---|---|---|
//! | BERT, `DistilBERT`, `RoBERTa` | `…Model`, `…ForMaskedLM` | [`Encoder`] |
//! | `LLaMA` 1–3, Mistral, Qwen2, Qwen3, Gemma-2, Phi-3 | `…ForCausalLM`, `…Model` | [`Decoder`] |
//! | GPT-2 | `GPT2LMHeadModel`, `GPT2Model` | [`Gpt2`] |
//! | `ViT` | `ViTForImageClassification`, `ViTModel` | [`Vit`] |
//!
//! A value of the configuration that would change the computation in a way that is not built is refused by name.

pub mod architecture;
mod bert;
mod causal;
pub mod config;
pub mod decoder;
mod decoder_layer;
mod distilbert;
pub mod encoder;
pub mod folder;
mod gemma2;
pub mod gpt2;
mod keys;
mod llama;
mod mistral;
mod phi3;
mod qwen2;
mod qwen3;
mod roberta;
mod rope;
pub mod sentence;
pub mod vit;
mod windows;

pub use architecture::{Architecture, Family, Head};
pub use causal::CausalLm;
pub use config::{ConfigError, ModelConfig};
pub use decoder::{Biases, Decoder, DecoderConfig, DecoderInputs, Norms};
pub use decoder_layer::{DecoderLayer, KeyValues};
pub use encoder::{Encoder, EncoderConfig};
pub use folder::{Folder, FolderError, Pipeline, Pooling};
pub use gpt2::{Gpt2, Gpt2Config};
pub use vit::{Vit, VitConfig};
