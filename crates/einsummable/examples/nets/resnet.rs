//! ResNet-18: He et al. (2015), with the parameter names of torchvision.

use einsummable::nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Flatten, Linear, MaxPool2d, Module, ReLU, Scope, Sequential,
};
use einsummable::{ConvOptions, MaxPoolOptions, Tensor};

/// A convolution without bias and the norm after it.
struct ConvNorm {
    conv: Conv2d,
    norm: BatchNorm2d,
}

impl ConvNorm {
    fn new(conv: &Scope, norm: &Scope, channels: [usize; 2], kernel: usize, stride: usize) -> Self {
        let options = ConvOptions::new().stride(stride).padding(kernel / 2);
        Self {
            conv: Conv2d::new(conv, channels[0], channels[1], kernel, options, false),
            norm: BatchNorm2d::new(norm, channels[1], 1e-5, true),
        }
    }
}

impl Module for ConvNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.norm.forward(&self.conv.forward(x))
    }

    fn parameters(&self) -> Vec<Tensor> {
        [self.conv.parameters(), self.norm.parameters()].concat()
    }
}

/// Two convolutions and what they are added to.
struct Block {
    path: String,
    first: ConvNorm,
    second: ConvNorm,
    downsample: Option<ConvNorm>,
}

impl Block {
    fn new(scope: &Scope, before: usize, width: usize, stride: usize) -> Self {
        let down = scope.child("downsample");
        let changes = stride != 1 || before != width;
        Self {
            path: scope.path().into(),
            first: ConvNorm::new(&scope.child("conv1"), &scope.child("bn1"), [before, width], 3, stride),
            second: ConvNorm::new(&scope.child("conv2"), &scope.child("bn2"), [width, width], 3, 1),
            downsample: changes.then(|| ConvNorm::new(&down.child(0), &down.child(1), [before, width], 1, stride)),
        }
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.second.forward(&self.first.forward(x).relu());
        let past = self.downsample.as_ref().map_or_else(|| x.clone(), |d| d.forward(x));
        (y + past).relu().named(&self.path)
    }

    fn parameters(&self) -> Vec<Tensor> {
        let down = self.downsample.iter().flat_map(Module::parameters);
        [self.first.parameters(), self.second.parameters()].concat().into_iter().chain(down).collect()
    }
}

/// The network over images `[n, 3, y, x]`; `width` is 64 in the paper.
pub struct ResNet18(Sequential);

impl ResNet18 {
    /// A network of this width.
    pub fn new(scope: &Scope, width: usize, classes: usize) -> Self {
        let mut net = Sequential::new()
            .append(ConvNorm::new(&scope.child("conv1"), &scope.child("bn1"), [3, width], 7, 2))
            .append(ReLU)
            .append(MaxPool2d::new(3, MaxPoolOptions::new().stride(2).padding(1)));
        let mut before = width;
        for n in 0..4 {
            let (layer, wide) = (scope.child(format!("layer{}", n + 1)), width << n);
            net = net.append(Block::new(&layer.child(0), before, wide, if n == 0 { 1 } else { 2 })).append(Block::new(
                &layer.child(1),
                wide,
                wide,
                1,
            ));
            before = wide;
        }
        let head = Linear::new(&scope.child("fc"), before, classes, true);
        Self(net.append(AdaptiveAvgPool2d::new(1)).append(Flatten::default()).append(head))
    }
}

impl Module for ResNet18 {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.0.forward(x)
    }

    fn parameters(&self) -> Vec<Tensor> {
        self.0.parameters()
    }
}
