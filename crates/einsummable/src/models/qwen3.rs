//! `Qwen3ForCausalLM`: a Llama with norms of queries and keys.

use super::architecture::Architecture;
use super::config::ConfigError;
use super::decoder::{Biases, DecoderConfig, Defaults};
use super::keys::Keys;
use super::qwen2::layer_windows;

pub(super) fn read(keys: &Keys, architecture: Architecture) -> Result<DecoderConfig, ConfigError> {
    let defaults = Defaults { head_dim: Some(128), kv_heads: Some(32), positions: 32_768, ..Defaults::LLAMA };
    let config = DecoderConfig::common(keys, architecture, &defaults)?;
    let bias = keys.flag("attention_bias")?;
    Ok(DecoderConfig {
        biases: Biases { qkv: bias, output: bias, mlp: false },
        qk_norm: true,
        windows: layer_windows(keys, config.num_hidden_layers)?,
        ..config
    })
}
