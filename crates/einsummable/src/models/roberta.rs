//! `RobertaModel` and `RobertaForMaskedLM`: a BERT whose positions are counted from behind the token of padding.

use super::architecture::Architecture;
use super::bert;
use super::config::ConfigError;
use super::encoder::{EncoderConfig, Names};
use super::keys::Keys;
use crate::nn::Activation;

static NAMES: Names = Names {
    head: ["lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"],
    head_bias: "lm_head.bias",
    ..bert::NAMES
};

pub(super) fn read(keys: &Keys, architecture: Architecture) -> Result<EncoderConfig, ConfigError> {
    let config = bert::read(keys, architecture)?;
    let pad_token_id = keys.index_or("pad_token_id", 1)?;
    if config.max_position_embeddings <= pad_token_id + 1 {
        let expected = format!("positions start behind `pad_token_id` ({pad_token_id}), so more are needed");
        return Err(keys.wrong("max_position_embeddings", config.max_position_embeddings.to_string(), expected));
    }
    Ok(EncoderConfig {
        positions_after_padding: true,
        pad_token_id,
        head_act: Activation::Gelu,
        names: &NAMES,
        ..config
    })
}
