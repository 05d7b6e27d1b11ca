//! `MistralForCausalLM`: a Llama in which every layer has a sliding window.

use super::architecture::Architecture;
use super::config::ConfigError;
use super::decoder::{DecoderConfig, Defaults};
use super::keys::Keys;
use super::windows;

pub(super) fn read(keys: &Keys, architecture: Architecture) -> Result<DecoderConfig, ConfigError> {
    let defaults = Defaults { kv_heads: Some(8), positions: 131_072, ..Defaults::LLAMA };
    let config = DecoderConfig::common(keys, architecture, &defaults)?;
    // `null` turns the window off; a file that says nothing has the first model's.
    let window = match keys.value.get("sliding_window") {
        None => Some(4096),
        Some(_) => keys.optional_size("sliding_window")?,
    };
    windows::refuse_layer_types(keys, window, config.num_hidden_layers)?;
    Ok(DecoderConfig { windows: vec![window; config.num_hidden_layers], ..config })
}
