//! One layer of `LLaMA` on several CPU devices, with synthetic weights.
//!
//! `cargo run --release --example llama_block -- --devices 4`

#[path = "nets/show.rs"]
mod show;

use einsummable::models::{DecoderConfig, DecoderLayer};
use einsummable::nn::Scope;
use einsummable::nn::rotary::{Positions, Rotary};
use einsummable::{DType, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Hidden, query heads, key/value heads, inner features, layers, vocabulary.
    let sizes = DecoderConfig::of_sizes(256, 8, 4, 688, 1, 1000);
    let config = DecoderConfig { dtype: DType::F32, rotary: Rotary::new(10_000.0), ..sizes };
    let x = Tensor::input("input", [1, 128, 256], DType::F32);
    let layer = DecoderLayer::new(&Scope::root(DType::F32), &config, 0);
    show::show("LLaMA block", &x, &layer.forward(&x, None, Positions::default()))
}
