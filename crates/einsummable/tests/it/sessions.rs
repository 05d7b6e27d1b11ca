//! Sessions on virtual CPU devices: what comes out equals the reference and what `PyTorch` stored.

use super::{c, count, fixture, value};
use ein_run::Order;
use einsummable::embed::{EmbedError, Embedder};
use einsummable::generate::{GenerateError, Generator};
use einsummable::models::{Decoder, DecoderConfig, Folder, ModelConfig};
use einsummable::nn::Module;
use einsummable::{DType, Dense, Session, Tensor, synthetic};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

fn expected(name: &str) -> Value {
    let text = std::fs::read_to_string(fixture(name).join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn list(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect()
}

fn llama(name: &str) -> (Folder, DecoderConfig) {
    let folder = Folder::open(&fixture(name).join("model")).unwrap();
    let ModelConfig::Decoder(config) = folder.config.clone() else { panic!("{name} is a Llama") };
    (folder, config)
}

#[test]
fn small_computations_equal_the_reference() {
    let check = |out: &Tensor| {
        let want = value(out);
        for devices in [1, 2, 3] {
            let mut compiled = Session::cpu(devices).unwrap().compile(&[("out", out)]).unwrap();
            let found = &compiled.run::<&str>([]).unwrap()["out"];
            let difference = found.max_abs_difference(&want);
            assert!(difference < 1e-5, "{out:?} on {devices}: off by {difference}");
            assert_eq!(compiled.run::<&str>([]).unwrap()["out"], *found, "a second run is the same");
        }
    };
    check(&count(&[5, 4]).matmul(&count(&[4, 3])));
    check(&(count(&[3, 4]).softmax(1) + &c(&[4], &[1., 2., 3., 4.])));
    check(&count(&[12]).mean(&[], false));
    check(&count(&[12]).reshape(&[3, 4]).t());
    check(&count(&[7]).square().sum(&[0], true).sqrt());
}

#[test]
fn inputs_arrive_by_name() {
    let x = Tensor::input("x", [2, 2], DType::F32);
    let mut compiled = Session::cpu(2).unwrap().compile(&[("twice", &(&x * 2.0)), ("turned", &x.t())]).unwrap();
    let run = compiled.run([("x", Dense::f32([2, 2], vec![1., 2., 3., 4.]))]).unwrap();
    assert_eq!(run["twice"], Dense::f32([2, 2], vec![2., 4., 6., 8.]));
    assert_eq!(run["turned"], Dense::f32([2, 2], vec![1., 3., 2., 4.]));
    let refused = |shape: &[usize], name: &str| {
        let mut compiled = Session::cpu(2).unwrap().compile(&[("y", &(&x * 2.0))]).unwrap();
        compiled.run([(name, Dense::f32(shape, vec![0.0; shape.iter().product()]))]).unwrap_err().to_string()
    };
    assert!(refused(&[2, 3], "x").contains('x'));
    assert!(refused(&[2, 2], "z").contains('x'));
    let wrong = Session::cpu(1).unwrap().compile(&[("y", &x.matmul(&count(&[3])))]).err().unwrap().to_string();
    assert!(wrong.contains("matmul"), "{wrong}");
    let w = Tensor::parameter("w", [2], DType::F32);
    let missing = Session::cpu(1).unwrap().compile(&[("y", &(&x * &w))]).err().unwrap().to_string();
    assert!(missing.contains('w'), "{missing}");
}

#[test]
fn llama_runs_on_any_number_of_devices() {
    for (name, devices) in [("llama-tiny", 1..=8), ("llama-gqa", 2..=3)] {
        let expected = expected(name);
        let ids: Vec<i64> = expected["input_ids"].as_array().unwrap().iter().flat_map(list).collect();
        for devices in devices {
            let (folder, config) = llama(name);
            let logits = Decoder::new(&config).forward(&Tensor::input("input_ids", [3, 7], DType::I64));
            let session = Session::cpu(devices).unwrap();
            let mut compiled = session.compile_with(&[("logits", &logits)], &folder.weights).unwrap();
            let run = compiled.run([("input_ids", Dense::i64([3, 7], ids.clone()))]).unwrap();
            let want = Dense::from_f64(DType::F32, run["logits"].shape.clone(), &flat(&expected["logits"]));
            let difference = run["logits"].max_abs_difference(&want);
            assert!(difference < 1e-4, "{name} on {devices}: off by {difference}");
            let read = folder.weights.bytes_read();
            assert!(read <= folder.weights.bytes(), "{name} on {devices}: no byte is read twice");
            assert!(devices > 1 || read == folder.weights.bytes(), "{name}: every byte is read");
        }
    }
}

/// The order in which devices take ready tasks changes no bit, nor does running again.
#[test]
fn llama_gives_the_same_bits_in_any_order() {
    let expected = expected("llama-tiny");
    let ids: Vec<i64> = expected["input_ids"].as_array().unwrap().iter().flat_map(list).collect();
    let (folder, config) = llama("llama-tiny");
    let logits = Decoder::new(&config).forward(&Tensor::input("input_ids", [3, 7], DType::I64));
    let session = Session::cpu(5).unwrap();
    let mut compiled = session.compile_with(&[("logits", &logits)], &folder.weights).unwrap();
    let used: BTreeSet<_> = compiled.plan().tasks.tasks.iter().map(|t| t.device).collect();
    assert!(used.len() > 1, "one device alone has no order to get wrong");
    let mut run = || compiled.run([("input_ids", Dense::i64([3, 7], ids.clone()))]).unwrap();
    let first = run();
    assert_eq!(run(), first);
    for seed in 0..20 {
        compiled.set_order(Order::Random(seed));
        let again = compiled.run([("input_ids", Dense::i64([3, 7], ids.clone()))]).unwrap();
        assert_eq!(again, first, "seed {seed}");
    }
}

#[test]
fn bf16_runs_as_near_to_f32_as_its_digits_allow() {
    let (folder, config) = llama("llama-gqa");
    let config = DecoderConfig { dtype: DType::BF16, ..config };
    let expected = expected("llama-gqa");
    let ids: Vec<i64> = expected["input_ids"].as_array().unwrap().iter().flat_map(list).collect();
    let logits = Decoder::new(&config).forward(&Tensor::input("input_ids", [3, 7], DType::I64));
    for devices in [1, 3] {
        let session = Session::cpu(devices).unwrap();
        let mut compiled = session.compile_with(&[("logits", &logits)], &folder.weights).unwrap();
        let run = compiled.run([("input_ids", Dense::i64([3, 7], ids.clone()))]).unwrap();
        assert_eq!(run["logits"].dtype(), DType::BF16);
        let (found, want) = (run["logits"].to_f64(), flat(&expected["logits"]));
        let rms = |v: &mut dyn Iterator<Item = f64>| (v.map(|x| x * x).sum::<f64>() / want.len() as f64).sqrt();
        let off = rms(&mut found.iter().zip(&want).map(|(a, b)| a - b)) / rms(&mut want.iter().copied());
        assert!(off < 0.03, "on {devices}: off by {off} of the logits' size");
    }
}

fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(flat).collect(),
        other => vec![other.as_f64().expect("a number")],
    }
}

#[test]
fn greedy_continuations_are_those_of_pytorch() {
    for (name, devices) in [("llama-tiny", 2), ("llama-gqa", 3)] {
        let (folder, config) = llama(name);
        let expected = expected(name);
        let session = Session::cpu(devices).unwrap();
        let mut generator = Generator::new(&session, &config, &folder.weights, 28).unwrap();
        for (key, prompt) in [("greedy", "prompt"), ("text", "ids")] {
            let (prompt, tokens) = (list(&expected[key][prompt]), list(&expected[key]["tokens"]));
            assert_eq!(generator.greedy(&prompt, 16).unwrap(), tokens, "{name} {key}");
        }
        assert!(matches!(generator.greedy(&[], 1), Err(GenerateError::Empty)));
        assert!(matches!(generator.greedy(&[1, 500], 1), Err(GenerateError::Token { id: 500, .. })));
        assert!(matches!(generator.greedy(&[1; 20], 10), Err(GenerateError::Capacity { capacity: 28, .. })));
        assert_eq!(generator.greedy(&[1], 0).unwrap(), Vec::<i64>::new());
    }
    let (folder, config) = llama("llama-tiny");
    let refused = Generator::new(&Session::cpu(1).unwrap(), &config, &folder.weights, 1000);
    assert!(matches!(refused, Err(GenerateError::Positions { capacity: 1000, most: 128 })));
}

#[test]
fn synthetic_models_agree_on_any_number_of_devices() {
    let (config, weights) = synthetic::llama(5);
    let tokens = |devices| {
        let session = Session::cpu(devices).unwrap();
        Generator::new(&session, &config, &weights, 12).unwrap().greedy(&[1, 2, 3], 8).unwrap()
    };
    let one = tokens(1);
    assert_eq!(one.len(), 8);
    assert_eq!(tokens(3), one);
}

#[test]
fn a_decoder_makes_no_embeddings() {
    let session = Session::cpu(1).unwrap();
    let error = Embedder::open(&session, &fixture("llama-tiny/model")).err().unwrap();
    assert!(matches!(error, EmbedError::Architecture { .. }), "{error}");
    assert!(Embedder::open(&session, Path::new("/nowhere")).is_err());
}
