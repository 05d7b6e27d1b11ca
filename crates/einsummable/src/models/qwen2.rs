//! `Qwen2ForCausalLM`: a Llama with biases on queries, keys and values, and windows on the layers after the first.

use super::architecture::Architecture;
use super::config::ConfigError;
use super::decoder::{Biases, DecoderConfig, Defaults};
use super::keys::Keys;
use super::windows;

pub(super) fn read(keys: &Keys, architecture: Architecture) -> Result<DecoderConfig, ConfigError> {
    let defaults = Defaults { kv_heads: Some(32), positions: 32_768, ..Defaults::LLAMA };
    let config = DecoderConfig::common(keys, architecture, &defaults)?;
    Ok(DecoderConfig {
        biases: Biases { qkv: true, ..Biases::default() },
        windows: layer_windows(keys, config.num_hidden_layers)?,
        ..config
    })
}

/// Windows as Qwen models have them: only where `use_sliding_window` says so, from `max_window_layers` on.
pub(super) fn layer_windows(keys: &Keys, layers: usize) -> Result<Vec<Option<usize>>, ConfigError> {
    let window = if keys.flag("use_sliding_window")? { Some(keys.size_or("sliding_window", 4096)?) } else { None };
    let first = match keys.get("max_window_layers") {
        None => 28,
        Some(value) => value
            .as_u64()
            .ok_or_else(|| keys.wrong("max_window_layers", value.to_string(), "a number of layers is expected"))?
            as usize,
    };
    windows::read(keys, window, layers, |n| n >= first)
}
