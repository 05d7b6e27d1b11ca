//! `DistilBertModel` and `DistilBertForMaskedLM`: a BERT without token types, under other names.

use super::architecture::Architecture;
use super::config::ConfigError;
use super::encoder::{EncoderConfig, Names};
use super::keys::Keys;
use crate::nn::Activation;

static NAMES: Names = Names {
    layers: "transformer.layer",
    query: "attention.q_lin",
    key: "attention.k_lin",
    value: "attention.v_lin",
    attention_output: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    inner: "ffn.lin1",
    outer: "ffn.lin2",
    norm: "output_layer_norm",
    head: ["vocab_transform", "vocab_layer_norm", "vocab_projector"],
    head_bias: "vocab_projector.bias",
};

pub(super) fn read(keys: &Keys, architecture: Architecture) -> Result<EncoderConfig, ConfigError> {
    // `sinusoidal_pos_embds` says how positions were made, not how they are read: they are stored like others.
    let hidden_size = keys.size("dim")?;
    let heads = keys.size("n_heads")?;
    keys.divides("dim", hidden_size, "n_heads", heads)?;
    let hidden_act = keys.activation_or("activation", Activation::Gelu)?;
    Ok(EncoderConfig {
        architecture,
        hidden_size,
        intermediate_size: keys.size("hidden_dim")?,
        num_hidden_layers: keys.layers("n_layers")?,
        num_attention_heads: heads,
        vocab_size: keys.size("vocab_size")?,
        max_position_embeddings: keys.size("max_position_embeddings")?,
        positions_after_padding: false,
        type_vocab_size: None,
        layer_norm_eps: 1e-12,
        hidden_act,
        head_act: hidden_act,
        tie_word_embeddings: keys.flag_or("tie_word_embeddings", true)?,
        pad_token_id: keys.index_or("pad_token_id", 0)?,
        dtype: keys.dtype()?,
        names: &NAMES,
    })
}
