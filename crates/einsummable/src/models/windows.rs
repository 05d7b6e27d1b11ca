//! Which layers have a sliding window: `layer_types`.

use super::config::ConfigError;
use super::keys::Keys;

/// The window of each layer. `usual` says which layers have it where the configuration lists no types.
pub(super) fn read(
    keys: &Keys,
    window: Option<usize>,
    layers: usize,
    usual: impl Fn(usize) -> bool,
) -> Result<Vec<Option<usize>>, ConfigError> {
    let Some(types) = keys.get("layer_types") else {
        return Ok((0..layers).map(|n| window.filter(|_| usual(n))).collect());
    };
    let types = types.as_array().filter(|t| t.len() == layers).ok_or_else(|| {
        keys.wrong("layer_types", types.to_string(), format!("a list of {layers}, one for each layer, is expected"))
    })?;
    let each = types.iter().map(|kind| match (kind.as_str(), window) {
        (Some("full_attention"), _) => Ok(None),
        (Some("sliding_attention"), Some(window)) => Ok(Some(window)),
        (Some("sliding_attention"), None) => {
            Err(keys.wrong("layer_types", kind.to_string(), "there is no `sliding_window`, so no layer can have one"))
        }
        _ => Err(keys.wrong("layer_types", kind.to_string(), "full_attention and sliding_attention are supported")),
    });
    each.collect()
}

/// Refuses types that say something else than that all layers are alike, for a model whose layers are.
pub(super) fn refuse_layer_types(keys: &Keys, window: Option<usize>, layers: usize) -> Result<(), ConfigError> {
    let found = read(keys, window, layers, |_| true)?;
    match found.iter().find(|own| **own != window) {
        None => Ok(()),
        Some(_) => {
            Err(keys.wrong("layer_types", keys.value["layer_types"].to_string(), "layers of one type are supported"))
        }
    }
}
