//! A U-Net: Ronneberger et al. (2015), down by pools, up by transposed convolutions, across by concatenation.

use einsummable::nn::{Conv2d, ConvTranspose2d, GroupNorm, MaxPool2d, Module, ReLU, Scope, Sequential};
use einsummable::{ConvOptions, ConvTransposeOptions, MaxPoolOptions, Tensor};

/// Two convolutions, each with a norm and a rectifier.
fn double(scope: &Scope, before: usize, width: usize) -> Sequential {
    let conv = |n: usize, before| Conv2d::new(&scope.child(n), before, width, 3, ConvOptions::new().padding(1), true);
    let norm = |n: usize| GroupNorm::new(&scope.child(n), 2, width, 1e-5, true);
    Sequential::new()
        .append(conv(0, before))
        .append(norm(1))
        .append(ReLU)
        .append(conv(3, width))
        .append(norm(4))
        .append(ReLU)
}

/// The network over images `[n, 3, y, x]`, both extents multiples of 2 to the depth.
pub struct UNet {
    down: Vec<Sequential>,
    middle: Sequential,
    up: Vec<ConvTranspose2d>,
    across: Vec<Sequential>,
    head: Conv2d,
}

impl UNet {
    /// A network that halves the image `depth` times, twice as wide each time.
    pub fn new(scope: &Scope, width: usize, depth: usize, classes: usize) -> Self {
        let twice = ConvTransposeOptions::new().stride(2);
        let child = |name: &str, n: usize| scope.child(name).child(n);
        let before = |n: usize| if n == 0 { 3 } else { width << (n - 1) };
        Self {
            down: (0..depth).map(|n| double(&child("down", n), before(n), width << n)).collect(),
            middle: double(&scope.child("middle"), before(depth), width << depth),
            up: (0..depth)
                .map(|n| ConvTranspose2d::new(&child("up", n), width << (n + 1), width << n, 2, twice.clone(), true))
                .collect(),
            across: (0..depth).map(|n| double(&child("across", n), 2 * (width << n), width << n)).collect(),
            head: Conv2d::new(&scope.child("head"), width, classes, 1, ConvOptions::new(), true),
        }
    }
}

impl Module for UNet {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        let mut kept = Vec::new();
        for down in &self.down {
            x = down.forward(&x);
            kept.push(x.clone());
            x = MaxPool2d::new(2, MaxPoolOptions::new()).forward(&x);
        }
        x = self.middle.forward(&x);
        for n in (0..kept.len()).rev() {
            x = self.across[n].forward(&Tensor::cat(&[&kept[n], &self.up[n].forward(&x)], 1));
        }
        self.head.forward(&x)
    }

    fn parameters(&self) -> Vec<Tensor> {
        let down = self.down.iter().flat_map(Module::parameters);
        let up = self.up.iter().flat_map(Module::parameters);
        let across = self.across.iter().flat_map(Module::parameters);
        down.chain(self.middle.parameters()).chain(up).chain(across).chain(self.head.parameters()).collect()
    }
}
