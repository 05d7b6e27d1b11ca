//! Attention and embedding.

use super::Args;
use einsummable::{AttentionOptions, Tensor};

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let flag = |name: &str| args.has(name) && args.flag(name);
    Some(vec![match operation {
        "scaled_dot_product_attention" => {
            let padding = flag("key_padding_mask");
            let options = AttentionOptions {
                mask: x.get(3).filter(|_| !padding),
                key_padding_mask: x.get(3).filter(|_| padding),
                window: args.has("window").then(|| args.size("window")),
                softcap: args.has("softcap").then(|| args.number("softcap")),
                is_causal: flag("is_causal"),
                scale: args.has("scale").then(|| args.number("scale")),
                enable_gqa: flag("enable_gqa"),
                ..AttentionOptions::default()
            };
            x[0].scaled_dot_product_attention(&x[1], &x[2], &options)
        }
        "embedding" => x[0].embedding(&x[1]),
        _ => return None,
    }])
}
