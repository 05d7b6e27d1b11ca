//! `Phi3ForCausalLM`: a Llama whose projections are stored as one, for Phi-3 and Phi-4-mini.

use super::architecture::Architecture;
use super::config::ConfigError;
use super::decoder::{DecoderConfig, Defaults};
use super::keys::Keys;

pub(super) fn read(keys: &Keys, architecture: Architecture) -> Result<DecoderConfig, ConfigError> {
    let defaults = Defaults { positions: 4096, eps: 1e-5, ..Defaults::LLAMA };
    let config = DecoderConfig::common(keys, architecture, &defaults)?;
    let window = keys.optional_size("sliding_window")?;
    Ok(DecoderConfig { fused: true, windows: vec![window; config.num_hidden_layers], ..config })
}
