//! `Gemma2ForCausalLM`: soft caps on scores and logits, norms before and after, a window on every other layer.

use super::architecture::Architecture;
use super::config::ConfigError;
use super::decoder::{Biases, DecoderConfig, Defaults, Norms};
use super::keys::Keys;
use super::windows;
use crate::nn::Activation;

pub(super) fn read(keys: &Keys, architecture: Architecture) -> Result<DecoderConfig, ConfigError> {
    let defaults = Defaults {
        kv_heads: Some(4),
        head_dim: Some(256),
        positions: 8192,
        eps: 1e-6,
        act_key: "hidden_activation",
        act: Activation::GeluTanh,
        tied: true,
    };
    let config = DecoderConfig::common(keys, architecture, &defaults)?;
    keys.not(&["use_bidirectional_attention"])?;
    let bias = keys.flag("attention_bias")?;
    let window = Some(keys.size_or("sliding_window", 4096)?);
    // `null` turns a cap off; a file that says nothing has the first model's.
    let cap = |key: &str, usual: f64| match keys.value.get(key) {
        None => Ok(Some(usual)),
        Some(_) => keys.optional_number(key),
    };
    Ok(DecoderConfig {
        biases: Biases { qkv: bias, output: bias, mlp: false },
        norms: Norms::Around,
        windows: windows::read(keys, window, config.num_hidden_layers, |n| n % 2 == 0)?,
        attention_scale: Some(keys.number_or("query_pre_attn_scalar", 256.0)?.sqrt().recip()),
        attention_softcap: cap("attn_logit_softcapping", 50.0)?,
        logit_softcap: cap("final_logit_softcapping", 30.0)?,
        embedding_scale: Some((config.hidden_size as f64).sqrt()),
        ..config
    })
}
