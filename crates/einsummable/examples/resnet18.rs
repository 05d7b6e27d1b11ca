//! ResNet-18 on several CPU devices, with synthetic weights.
//!
//! `cargo run --release --example resnet18 -- --devices 4`

#[path = "nets/resnet.rs"]
mod resnet;
#[path = "nets/show.rs"]
mod show;

use einsummable::nn::{Module, Scope};
use einsummable::{DType, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let x = Tensor::input("input", [2, 3, 64, 64], DType::F32);
    let net = resnet::ResNet18::new(&Scope::root(DType::F32), 16, 10);
    show::show("ResNet-18, a quarter as wide", &x, &net.forward(&x))
}
