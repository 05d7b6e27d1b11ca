//! A U-Net on several CPU devices, with synthetic weights.
//!
//! `cargo run --release --example unet -- --devices 4`

#[path = "nets/show.rs"]
mod show;
#[path = "nets/unet.rs"]
mod unet;

use einsummable::nn::{Module, Scope};
use einsummable::{DType, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let x = Tensor::input("input", [1, 3, 64, 64], DType::F32);
    let net = unet::UNet::new(&Scope::root(DType::F32), 8, 3, 2);
    show::show("U-Net, three halvings", &x, &net.forward(&x))
}
