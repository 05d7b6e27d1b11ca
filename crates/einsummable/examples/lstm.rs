//! An LSTM tagger on several CPU devices, with synthetic weights.
//!
//! `cargo run --release --example lstm -- --devices 4`

#[path = "nets/show.rs"]
mod show;
#[path = "nets/tagger.rs"]
mod tagger;

use einsummable::nn::{Module, Scope};
use einsummable::{DType, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let x = Tensor::input("input", [4, 12, 32], DType::F32);
    let net = tagger::Tagger::new(&Scope::root(DType::F32), 32, 64, 9);
    show::show("LSTM tagger, in both directions", &x, &net.forward(&x))
}
