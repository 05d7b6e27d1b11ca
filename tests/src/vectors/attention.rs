//! Attention and embedding.

use super::Args;
use einsummable::{AttentionOptions, Tensor};

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let flag = |name: &str| args.has(name) && args.flag(name);
    Some(vec![match operation {
        "scaled_dot_product_attention" => {
            // What the fourth tensor is, the case says.
            let fourth = |role: &str| if args.has("fourth") { args.text("fourth") == role } else { role == "mask" };
            let options = AttentionOptions {
                mask: x.get(3).filter(|_| fourth("mask")),
                key_padding_mask: x.get(3).filter(|_| fourth("key_padding_mask")),
                offsets: x.get(3).filter(|_| fourth("offsets")),
                is_causal: flag("is_causal"),
                scale: args.has("scale").then(|| args.number("scale")),
                enable_gqa: flag("enable_gqa"),
                window: args.has("window").then(|| args.size("window")),
                softcap: args.has("softcap").then(|| args.number("softcap")),
                own: None,
            };
            x[0].scaled_dot_product_attention(&x[1], &x[2], &options)
        }
        "embedding" => x[0].embedding(&x[1]),
        _ => return None,
    }])
}
