//! Modules and networks of them against what `PyTorch` stored in `tests/fixtures/networks`: weights and inputs are a
//! formula on both sides, parameters have its names, and any number of devices gives its results.

#[path = "../../examples/nets/resnet.rs"]
mod resnet;
#[path = "../../examples/nets/tagger.rs"]
mod tagger;
#[path = "../../examples/nets/unet.rs"]
mod unet;

use super::fixture;
use ein_ir::graph::TensorType;
use einsummable::nn::{
    AdaptiveAvgPool2d, AdaptiveMaxPool2d, AvgPool2d, BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d,
    ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Dropout, Flatten, GRU, GRUCell, GroupNorm, InstanceNorm1d,
    InstanceNorm2d, LPPool2d, LSTM, LSTMCell, LocalResponseNorm, MaxPool2d, Module, PixelShuffle, RNN, RNNCell,
    RecurrentOptions, ReflectionPad2d, Scope, Sequential, Unfold, Upsample,
};
use einsummable::synthetic::SyntheticWeights;
use einsummable::{
    AvgPoolOptions, ConvOptions, ConvTransposeOptions, DType, Dense, InterpolateMode, InterpolateOptions,
    LpPoolOptions, MaxPoolOptions, PadMode, Padding, Session, Tensor, UnfoldOptions,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// The outputs for some inputs, and the parameters.
type Built = (Vec<Tensor>, Vec<Tensor>);

fn net(module: &dyn Module, x: &[Tensor]) -> Built {
    (vec![module.forward(&x[0])], module.parameters())
}

fn lstm(net: &LSTM, x: &[Tensor]) -> Built {
    let (output, (h, c)) = net.forward_from(&x[0], (&x[1], &x[2]));
    (vec![output, h, c], net.parameters())
}

/// The case of this name.
fn build(name: &str, x: &[Tensor]) -> Built {
    let scope = Scope::root(DType::F32);
    let plain = ConvOptions::new;
    let turned = ConvTransposeOptions::new;
    let options = RecurrentOptions::default();
    let around =
        |mode: PadMode| net(&Conv2d::new(&scope, 2, 3, 3, plain().padding([2, 1]), true).padding_mode(mode), x);
    match name {
        "conv1d" => net(&Conv1d::new(&scope, 4, 6, 3, plain().stride(2).padding(1).groups(2), true), x),
        "conv2d" => net(&Conv2d::new(&scope, 3, 4, [3, 2], plain().padding([1, 0]).dilation([1, 2]), false), x),
        "conv3d" => net(&Conv3d::new(&scope, 2, 3, 2, plain(), true), x),
        "conv2d reflect" => around(PadMode::Reflect),
        "conv2d replicate" => around(PadMode::Replicate),
        "conv2d circular" => around(PadMode::Circular),
        "conv1d same circular" => {
            let same = plain().padding(Padding::Same);
            net(&Conv1d::new(&scope, 2, 2, 4, same, true).padding_mode(PadMode::Circular), x)
        }
        "conv_transpose1d" => {
            let options = turned().stride(2).padding(1).output_padding(1).groups(2);
            net(&ConvTranspose1d::new(&scope, 4, 6, 3, options, true), x)
        }
        "conv_transpose2d" => net(&ConvTranspose2d::new(&scope, 3, 2, 4, turned().stride(2).padding(1), false), x),
        "conv_transpose3d" => net(&ConvTranspose3d::new(&scope, 2, 3, 2, turned().stride(2), true), x),
        "batch_norm1d" => net(&BatchNorm1d::new(&scope, 4, 1e-5, true), x),
        "batch_norm2d" => net(&BatchNorm2d::new(&scope, 3, 1e-3, true), x),
        "batch_norm2d plain" => net(&BatchNorm2d::new(&scope, 3, 1e-5, false), x),
        "batch_norm3d" => net(&BatchNorm3d::new(&scope, 2, 1e-5, true), x),
        "group_norm" => net(&GroupNorm::new(&scope, 2, 6, 1e-5, true), x),
        "instance_norm1d" => net(&InstanceNorm1d::new(&scope, 3, 1e-5, false), x),
        "instance_norm2d" => net(&InstanceNorm2d::new(&scope, 3, 1e-5, true), x),
        "local_response_norm" => net(&LocalResponseNorm { size: 3, alpha: 0.1, beta: 0.75, k: 1.0 }, x),
        "upsample" => {
            let twice = InterpolateOptions::scale_factor(2.0).mode(InterpolateMode::Bilinear).align_corners(true);
            net(&Upsample(twice), x)
        }
        "embedding of windows" => {
            let options = UnfoldOptions::new().padding(1).stride(2);
            net(&Unfold { kernel_size: [2, 3].into(), options }, x)
        }
        "sequential" => {
            let net_ = Sequential::new()
                .append(ReflectionPad2d([(1, 2), (0, 1)]))
                .append(Conv2d::new(&scope.child(1), 2, 4, 3, plain(), true))
                .append(Dropout(0.5))
                .append(MaxPool2d::new(2, MaxPoolOptions::new()))
                .append(PixelShuffle(2))
                .append(Flatten::default());
            net(&net_, x)
        }
        "pools" => {
            let uncounted = AvgPoolOptions::new().stride(1).padding(1).count_include_pad(false);
            let pools = Sequential::new()
                .append(AvgPool2d::new(2, uncounted))
                .append(AdaptiveMaxPool2d::new([Some(5), None]))
                .append(LPPool2d::new(2.0, 2, LpPoolOptions::new().ceil_mode(true)))
                .append(AdaptiveAvgPool2d::new(2));
            net(&pools, x)
        }
        "rnn cell" | "rnn cell relu" => {
            let relu = name.ends_with("relu");
            let cell = RNNCell::new(&scope, 3, 4, !relu, relu);
            (vec![cell.forward(&x[0], &x[1])], cell.parameters())
        }
        "lstm cell" => {
            let cell = LSTMCell::new(&scope, 3, 4, true);
            let (h, c) = cell.forward(&x[0], (&x[1], &x[2]));
            (vec![h, c], cell.parameters())
        }
        "gru cell" | "gru cell plain" => {
            let cell = GRUCell::new(&scope, 3, 4, !name.ends_with("plain"));
            (vec![cell.forward(&x[0], &x[1])], cell.parameters())
        }
        "rnn" => {
            let net = RNN::new(&scope, 3, 4, true, RecurrentOptions { num_layers: 2, ..options });
            let (output, h) = net.forward_from(&x[0], &Tensor::zeros(&[2, 2, 4], DType::F32));
            (vec![output, h], net.parameters())
        }
        "lstm" => {
            let zeros = Tensor::zeros(&[1, 2, 4], DType::F32);
            lstm(&LSTM::new(&scope, 3, 4, options), &[x[0].clone(), zeros.clone(), zeros])
        }
        "lstm bidirectional" => {
            let options = RecurrentOptions { num_layers: 2, bidirectional: true, batch_first: true, ..options };
            let zeros = Tensor::zeros(&[4, 2, 4], DType::F32);
            lstm(&LSTM::new(&scope, 3, 4, options), &[x[0].clone(), zeros.clone(), zeros])
        }
        "lstm from states" => lstm(&LSTM::new(&scope, 3, 2, RecurrentOptions { bias: false, ..options }), x),
        "lstm unbatched" => {
            let zeros = Tensor::zeros(&[1, 2], DType::F32);
            lstm(&LSTM::new(&scope, 3, 2, options), &[x[0].clone(), zeros.clone(), zeros])
        }
        "gru" => {
            let net = GRU::new(&scope, 3, 4, RecurrentOptions { bidirectional: true, ..options });
            let (output, h) = net.forward_from(&x[0], &Tensor::zeros(&[2, 2, 4], DType::F32));
            (vec![output, h], net.parameters())
        }
        "gru from states" => {
            let options = RecurrentOptions { num_layers: 2, batch_first: true, ..options };
            let net = GRU::new(&scope, 3, 4, options);
            let (output, h) = net.forward_from(&x[0], &x[1]);
            (vec![output, h], net.parameters())
        }
        "ResNet-18" => net(&resnet::ResNet18::new(&scope, 8, 10), x),
        "U-Net" => net(&unet::UNet::new(&scope, 4, 2, 2), x),
        "LSTM tagger" => net(&tagger::Tagger::new(&scope, 5, 6, 3), x),
        other => panic!("`{other}` is stored and not built here"),
    }
}

/// Parameters, for their names.
struct Held(Vec<Tensor>);

impl Module for Held {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }

    fn parameters(&self) -> Vec<Tensor> {
        self.0.clone()
    }
}

fn sizes(value: &Value) -> Vec<usize> {
    value.as_array().expect("a list").iter().map(|n| n.as_u64().expect("an extent") as usize).collect()
}

/// One stored case on some numbers of devices.
fn check(case: &Value, devices: &[usize]) {
    let name = case["name"].as_str().expect("a name");
    let weights = SyntheticWeights::new(7);
    let mut inputs = Vec::new();
    let mut given = Vec::new();
    for (n, shape) in case["inputs"].as_array().expect("inputs").iter().map(sizes).enumerate() {
        let (input, column) = (format!("x{n}"), TensorType::new(DType::F32, [shape.iter().product(), 1]));
        let values = weights.region(&input, &column, &column.whole());
        given.push((input.clone(), Dense { shape: shape.clone(), ..values }));
        inputs.push(Tensor::input(&input, shape, DType::F32));
    }
    let (outputs, parameters) = build(name, &inputs);
    let found = Held(parameters).parameter_names();
    let stored: Vec<&str> = case["parameters"].as_array().expect("names").iter().map(|n| n.as_str().unwrap()).collect();
    assert_eq!(found, stored, "{name}: names as in a state_dict");
    let names: Vec<String> = (0..outputs.len()).map(|n| format!("y{n}")).collect();
    let named: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(&outputs).collect();
    for &devices in devices {
        let mut compiled =
            Session::cpu(devices).unwrap().compile_with(&named, &weights).unwrap_or_else(|e| panic!("{name}: {e}"));
        let found = compiled.run(given.clone()).unwrap();
        let expected = case["outputs"].as_array().expect("outputs");
        assert_eq!(found.len(), expected.len(), "{name}");
        for (n, expected) in expected.iter().enumerate() {
            let found = &found[&format!("y{n}")];
            assert_eq!(found.shape, sizes(&expected["shape"]), "{name}, output {n}");
            let values: Vec<f64> = expected["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            let most = values.iter().fold(1.0_f64, |m, v| m.max(v.abs()));
            let off = found.to_f64().iter().zip(&values).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
            assert!(off <= 2e-5 * most, "{name} on {devices}, output {n}: off by {off} of {most}");
        }
    }
}

fn cases() -> Vec<Value> {
    let text = std::fs::read_to_string(fixture("networks").join("expected.json")).unwrap();
    serde_json::from_str::<Vec<Value>>(&text).unwrap()
}

/// Cases that are networks, each with a test of its own.
const NETWORKS: [&str; 3] = ["ResNet-18", "U-Net", "LSTM tagger"];

fn network(name: &str, devices: &[usize]) {
    let cases = cases();
    check(cases.iter().find(|c| c["name"] == name).expect("a stored case"), devices);
}

#[test]
fn modules_are_those_of_pytorch() {
    let cases = cases();
    let names: BTreeSet<&str> = cases.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), cases.len(), "names are unique");
    let modules: Vec<&Value> = cases.iter().filter(|c| !NETWORKS.contains(&c["name"].as_str().unwrap())).collect();
    assert!(modules.len() + NETWORKS.len() == cases.len() && modules.len() > 30);
    for (n, case) in modules.into_iter().enumerate() {
        // Layers in both directions make a wide graph, whose plans for many devices take long.
        let wide = case["parameters"].as_array().is_some_and(|p| p.len() > 8);
        check(case, &[1, if wide { 3 } else { 2 + n % 3 }]);
    }
}

#[test]
fn resnet18_is_that_of_pytorch() {
    network("ResNet-18", &[1, 2, 3, 5]);
}

#[test]
fn a_unet_is_that_of_pytorch() {
    network("U-Net", &[1, 2, 5]);
}

#[test]
fn an_lstm_is_that_of_pytorch() {
    network("LSTM tagger", &[1, 2, 3]);
}

#[test]
fn modules_answer_mistakes() {
    let check = |tensor: &Tensor, parts: &[&str]| {
        let message = tensor.check().expect_err(&format!("{tensor:?}")).to_string();
        for part in parts {
            assert!(message.contains(part), "`{part}` in: {message}");
        }
    };
    let scope = Scope::root(DType::F32);
    let x = |shape: &[usize]| Tensor::input("x", shape, DType::F32);
    let lstm = LSTM::new(&scope, 3, 4, RecurrentOptions::default());
    check(&lstm.forward(&x(&[5, 2, 4])), &["lstm", "[5, 2, 4]", "[time, batch, 3]"]);
    check(&lstm.forward(&x(&[3])), &["lstm", "[time, batch, 3]"]);
    check(&lstm.forward(&x(&[0, 2, 3])), &["lstm", "axis 0 is 0 long"]);
    let (h, c) = (x(&[1, 2, 4]), x(&[2, 2, 4]));
    check(&lstm.forward_from(&x(&[5, 2, 3]), (&h, &c)).1.1, &["lstm", "[2, 2, 4]", "[1, 2, 4]"]);
    let none = RecurrentOptions { num_layers: 0, batch_first: true, ..RecurrentOptions::default() };
    check(&GRU::new(&scope, 3, 4, none).forward(&x(&[5, 2, 3])), &["gru", "needs a layer"]);
    check(&GRU::new(&scope, 3, 4, none).forward(&x(&[5, 2, 4])), &["gru", "[batch, time, 3]"]);
    let cell = GRUCell::new(&scope, 3, 4, true);
    check(&cell.forward(&x(&[2, 3]), &x(&[2, 3])), &["gru", "state must be [batch, 4] or [4]"]);
    check(&cell.forward(&x(&[2, 3]), &x(&[3, 4])), &["gru", "one batch for all"]);
    check(&cell.forward(&x(&[2, 2, 3]), &x(&[2, 2, 4])), &["gru", "input must be [batch, 3]"]);
    let wrong = Conv2d::new(&scope, 3, 4, [1, 2, 3], ConvOptions::new(), true);
    check(&wrong.forward(&x(&[1, 3, 5, 5])), &["conv2d", "kernel size [1, 2, 3]", "2 spatial axes"]);
    let far = Conv2d::new(&scope, 3, 4, 3, ConvOptions::new().padding(5), true).padding_mode(PadMode::Reflect);
    check(&far.forward(&x(&[1, 3, 5, 5])), &["pad", "reflect padding (5, 5)", "at most 4"]);
    check(&BatchNorm2d::new(&scope, 3, 1e-5, true).forward(&x(&[2, 3])), &["batch_norm", "4 axes"]);
    check(&InstanceNorm1d::new(&scope, 3, 1e-5, true).forward(&x(&[3])), &["instance_norm", "2 or 3 axes"]);
}
