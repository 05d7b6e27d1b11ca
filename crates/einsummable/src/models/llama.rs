//! `LlamaForCausalLM`: `LLaMA` 1 to 3.

use super::architecture::Architecture;
use super::config::ConfigError;
use super::decoder::{Biases, DecoderConfig, Defaults};
use super::keys::Keys;

pub(super) fn read(keys: &Keys, architecture: Architecture) -> Result<DecoderConfig, ConfigError> {
    let bias = keys.flag("attention_bias")?;
    Ok(DecoderConfig {
        biases: Biases { qkv: bias, output: bias, mlp: keys.flag("mlp_bias")? },
        ..DecoderConfig::common(keys, architecture, &Defaults::LLAMA)?
    })
}
