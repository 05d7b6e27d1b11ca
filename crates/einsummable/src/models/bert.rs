//! `BertModel` and `BertForMaskedLM`.

use super::architecture::Architecture;
use super::config::ConfigError;
use super::encoder::{EncoderConfig, Names};
use super::keys::Keys;
use crate::nn::Activation;

/// What `transformers` calls the parameters.
pub(super) const NAMES: Names = Names {
    layers: "encoder.layer",
    query: "attention.self.query",
    key: "attention.self.key",
    value: "attention.self.value",
    attention_output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    inner: "intermediate.dense",
    outer: "output.dense",
    norm: "output.LayerNorm",
    head: ["cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder"],
    head_bias: "cls.predictions.bias",
};

pub(super) fn read(keys: &Keys, architecture: Architecture) -> Result<EncoderConfig, ConfigError> {
    let hidden_size = keys.size("hidden_size")?;
    let heads = keys.size("num_attention_heads")?;
    keys.divides("hidden_size", hidden_size, "num_attention_heads", heads)?;
    keys.not(&["is_decoder", "add_cross_attention"])?;
    let positions = "position_embedding_type";
    if keys.get(positions).is_some() && keys.text(positions)? != "absolute" {
        return Err(keys.wrong(positions, format!("`{}`", keys.text(positions)?), "absolute is supported"));
    }
    let hidden_act = keys.activation_or("hidden_act", Activation::Gelu)?;
    Ok(EncoderConfig {
        architecture,
        hidden_size,
        intermediate_size: keys.size("intermediate_size")?,
        num_hidden_layers: keys.layers("num_hidden_layers")?,
        num_attention_heads: heads,
        vocab_size: keys.size("vocab_size")?,
        max_position_embeddings: keys.size("max_position_embeddings")?,
        positions_after_padding: false,
        type_vocab_size: Some(keys.size_or("type_vocab_size", 2)?),
        layer_norm_eps: keys.number_or("layer_norm_eps", 1e-12)?,
        hidden_act,
        head_act: hidden_act,
        tie_word_embeddings: keys.flag_or("tie_word_embeddings", true)?,
        pad_token_id: keys.index_or("pad_token_id", 0)?,
        dtype: keys.dtype()?,
        names: const { &NAMES },
    })
}
