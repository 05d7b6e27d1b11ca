//! A mixture of dense experts on several CPU devices, with synthetic weights.
//!
//! `cargo run --release --example dense_experts -- --devices 4`

#[path = "nets/experts.rs"]
mod experts;
#[path = "nets/show.rs"]
mod show;

use einsummable::nn::{Module, Scope};
use einsummable::{DType, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let x = Tensor::input("input", [1, 128, 64], DType::F32);
    let net = experts::DenseExperts::new(&Scope::root(DType::F32), 64, 256, 8);
    show::show("eight dense experts", &x, &net.forward(&x))
}
