//! A small folder of every architecture against what `transformers` computes of it (`fixtures/make_models.py`).

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::region::Region;
use ein_plan::options::{Objective, Options};
use ein_task::machine::Machine;
use ein_task::units::Bytes;
use ein_tests::fixtures::{fixture, ids, json, numbers};
use ein_tests::same::one_difference;
use einsummable::generate::Generator;
use einsummable::models::{Decoder, DecoderInputs, Folder, Head, KeyValues, ModelConfig, sentence, vit};
use einsummable::nn::rotary::Positions;
use einsummable::{Compiled, Session, Tensor};
use serde_json::{Value, json};

/// What `transformers` gives and what is found differ by at most this, relative to the largest number.
const WITHIN: f64 = 1e-4;

/// The extents of a nested list.
fn shape(value: &Value) -> Vec<usize> {
    match value {
        Value::Array(items) => {
            std::iter::once(items.len()).chain(items.first().map(shape).unwrap_or_default()).collect()
        }
        _ => vec![],
    }
}

fn tensor(value: &Value, dtype: DType) -> Dense {
    Dense::from_f64(dtype, shape(value), &numbers(value))
}

/// A folder, with some keys of its configuration changed.
fn opened(name: &str, changed: &Value) -> (Folder, Value) {
    let mut folder = Folder::open(&fixture(name).join("model")).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut config = json(&folder.path.join("config.json"));
    for (key, value) in changed.as_object().expect("keys") {
        config[key] = value.clone();
    }
    folder.config = ModelConfig::parse(&config.to_string()).unwrap_or_else(|e| panic!("{name}: {e}"));
    (folder, json(&fixture(name).join("expected.json")))
}

fn session(devices: usize, options: Options) -> Session {
    Session::new(Machine::by_name(&format!("{devices}xcpu")).expect("it ships")).with_options(options)
}

/// The inputs of a stored batch.
fn inputs(config: &ModelConfig, expected: &Value) -> Vec<(&'static str, Dense)> {
    let dtype = config.dtype();
    if let ModelConfig::Vit(_) = config {
        return vec![(vit::PIXELS, tensor(&expected["pixel_values"], dtype))];
    }
    let mut inputs = vec![(sentence::IDS, tensor(&expected["input_ids"], DType::I64))];
    if let ModelConfig::Encoder(_) = config {
        let mask = tensor(&expected["attention_mask"], DType::F32);
        let added: Vec<f64> = mask.to_f64().iter().map(|&m| if m == 0.0 { f64::NEG_INFINITY } else { 0.0 }).collect();
        let (batch, sequence) = (mask.shape[0], mask.shape[1]);
        inputs.push((sentence::MASK, Dense::from_f64(dtype, [batch, 1, 1, sequence], &added)));
    }
    inputs
}

/// Both, with 0 where a token is padding: what is computed there is nobody's business.
fn compared(found: &Dense, expected: &Value, mask: &Value) -> (Dense, Dense) {
    let (found_values, expected_values) = (found.to_f64(), numbers(expected));
    let kept: Vec<bool> = if mask.is_null() {
        vec![true; found_values.len()]
    } else {
        let row = found.shape[2];
        numbers(mask).iter().flat_map(|&m| std::iter::repeat_n(m != 0.0, row)).collect()
    };
    let only = |values: &[f64]| {
        let values: Vec<f64> = values.iter().zip(&kept).map(|(v, kept)| if *kept { *v } else { 0.0 }).collect();
        Dense::from_f64(DType::F32, found.shape.clone(), &values)
    };
    assert_eq!(found.shape, shape(expected));
    (only(&found_values), only(&expected_values))
}

/// Compiles the model, runs the stored batch, and compares with the stored result `key`.
fn outputs(folder: &Folder, expected: &Value, key: &str, session: &Session, within: f64, what: &str) -> Compiled {
    let ids = shape(&expected["input_ids"]);
    let (batch, sequence) = if ids.is_empty() { (2, 1) } else { (ids[0], ids[1]) };
    let (name, output) = folder.config.outputs(batch, sequence);
    assert_eq!(name, key, "{what}");
    let mut compiled =
        session.compile_with(&[(name, &output)], &folder.weights).unwrap_or_else(|e| panic!("{what}: {e}"));
    let run = compiled.run(inputs(&folder.config, expected)).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(run[name].ty().dtype, folder.config.dtype(), "{what}");
    let (found, stored) = compared(&run[name], &expected[key], &expected["attention_mask"]);
    assert_eq!(one_difference(&found, &stored, within), None, "{what}");
    compiled
}

/// Logits on 1, 2, 3, 5 and 8 devices, and with two thirds of the memory that one device needs; hidden states of the model
/// without its head; greedy tokens.
fn check(name: &str) {
    let f32 = json!({ "dtype": "float32" });
    let (folder, expected) = opened(name, &f32);
    let mut one_device = Bytes(0);
    for devices in [1, 2, 3, 5, 8] {
        let objective = [Objective::Time, Objective::Bytes][devices % 2];
        let session = session(devices, Options { objective, ..Options::default() });
        let before = folder.weights.bytes_read();
        let compiled = outputs(&folder, &expected, "logits", &session, WITHIN, &format!("{name} on {devices}"));
        assert_eq!(folder.weights.bytes_read() - before, folder.weights.bytes(), "{name} on {devices}: each byte once");
        if devices == 1 {
            one_device = compiled.plan().peak_memory();
        }
    }
    let limit = Bytes(one_device.0 * 2 / 3);
    let what = format!("{name} on 3 in {limit}");
    let little = session(3, Options { memory: Some(limit), ..Options::default() });
    let compiled = outputs(&folder, &expected, "logits", &little, WITHIN, &what);
    assert!(compiled.plan().peak_memory() <= limit, "{what}: {}", compiled.plan().peak_memory());
    if !expected["hidden"].is_null() {
        let heads = folder.config.architecture().family().heads();
        let base = heads.into_iter().find(|h| h.0 == Head::None).map(|h| h.1);
        let (base, _) = opened(name, &json!({ "dtype": "float32", "architectures": [base] }));
        let session = session(2, Options::default());
        outputs(&base, &expected, "hidden", &session, WITHIN, &format!("{name} without its head"));
    }
    if let Some(config) = folder.config.causal_lm() {
        let greedy = &expected["greedy"];
        let prompt = ids(&greedy["prompt"]);
        for devices in [1, 3] {
            let mut generator =
                Generator::new(&session(devices, Options::default()), config, &folder.weights, prompt.len() + 15)
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
            let found = generator.greedy(&prompt, 16).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(found, ids(&greedy["tokens"]), "{name} on {devices}");
        }
    }
}

#[test]
fn llama_with_one_key_head() {
    check("llama-tiny");
}

#[test]
fn llama_with_grouped_heads_and_a_tied_output() {
    check("llama-gqa");
}

#[test]
fn mistral() {
    check("mistral");
}

#[test]
fn qwen2_in_several_files() {
    check("qwen2");
}

#[test]
fn qwen3_from_bf16() {
    check("qwen3");
}

#[test]
fn gemma_2_with_soft_caps() {
    check("gemma-2");
}

#[test]
fn phi_3_with_fused_weights() {
    check("phi-3");
}

#[test]
fn gpt_2() {
    check("gpt-2");
}

#[test]
fn bert() {
    check("bert");
}

#[test]
fn distilbert() {
    check("distilbert");
}

#[test]
fn roberta() {
    check("roberta");
}

#[test]
fn vit_of_images_that_are_not_square() {
    check("vit");
}

/// In other types than the one the numbers were stored in: rounded as they round, and no operand of a wrong type.
#[test]
fn other_types() {
    let decoders = ["mistral", "qwen3", "gemma-2", "phi-3", "gpt-2"];
    for name in decoders.into_iter().chain(["bert", "distilbert", "roberta", "vit"]) {
        for (dtype, within) in [("bfloat16", 0.1), ("float16", 0.02), ("float64", WITHIN)] {
            let (folder, expected) = opened(name, &json!({ "dtype": dtype }));
            let session = session(2, Options::default());
            outputs(&folder, &expected, "logits", &session, within, &format!("{name} in {dtype}"));
        }
    }
}

/// Texts with padding before them, and positions that are given.
#[test]
fn padding_before_texts() {
    for name in ["mistral", "qwen2", "qwen3", "gemma-2", "phi-3"] {
        let (folder, expected) = opened(name, &json!({ "dtype": "float32" }));
        let ModelConfig::Decoder(config) = &folder.config else { panic!("{name} is a decoder") };
        let padded = &expected["padded"];
        let integers = |key: &'static str| Tensor::input(key, [2, 11], DType::I64);
        let (mask, positions) = (integers("attention_mask"), integers("position_ids"));
        let inputs = DecoderInputs {
            attention_mask: Some(&mask),
            positions: Positions { ids: Some(&positions), ..Positions::default() },
        };
        let logits = Decoder::new(config).forward_with(&integers(sentence::IDS), inputs);
        let last = logits.narrow(1, 8, 3);
        for devices in [1, 3] {
            let session = session(devices, Options::default());
            let mut compiled = session.compile_with(&[("logits", &last)], &folder.weights).expect("a model");
            let run = compiled.run([
                (sentence::IDS, tensor(&expected["input_ids"], DType::I64)),
                ("attention_mask", tensor(&padded["attention_mask"], DType::I64)),
                ("position_ids", tensor(&padded["position_ids"], DType::I64)),
            ]);
            let found = &run.unwrap_or_else(|e| panic!("{name}: {e}"))["logits"];
            let stored = tensor(&padded["logits"], DType::F32);
            assert_eq!(one_difference(found, &stored, WITHIN), None, "{name} on {devices}");
        }
    }
}

/// Sequences of different lengths packed in one row: each as if it were alone, whatever the plan.
#[test]
fn packed_sequences() {
    for name in ["mistral", "qwen3", "gemma-2"] {
        let (folder, expected) = opened(name, &json!({ "dtype": "float32" }));
        let ModelConfig::Decoder(config) = &folder.config else { panic!("{name} is a decoder") };
        let all = tensor(&expected["input_ids"], DType::I64).to_f64();
        let lengths = [5_usize, 1, 4];
        let total: usize = lengths.iter().sum();
        let rows = |values: Vec<f64>| Dense::from_f64(DType::I64, [1, values.len()], &values);
        let packed: Vec<f64> = all[..total].to_vec();
        let places: Vec<f64> = lengths.iter().flat_map(|&n| (0..n).map(|p| p as f64)).collect();
        let starts: Vec<usize> = lengths.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect();
        let integers = |key: &'static str, shape: Vec<usize>| Tensor::input(key, shape, DType::I64);
        let (ids, offsets) = (integers("position_ids", vec![1, total]), integers("offsets", vec![lengths.len()]));
        let positions = Positions { ids: Some(&ids), offsets: Some(&offsets), ..Positions::default() };
        let inputs = DecoderInputs { attention_mask: None, positions };
        let logits = Decoder::new(config).forward_with(&integers(sentence::IDS, vec![1, total]), inputs);
        let alone = |start: usize, length: usize| {
            let logits =
                Decoder::new(config).forward_with(&integers(sentence::IDS, vec![1, length]), DecoderInputs::default());
            let compiled = session(1, Options::default()).compile_with(&[("logits", &logits)], &folder.weights);
            let run = compiled.expect("a model").run([(sentence::IDS, rows(packed[start..start + length].to_vec()))]);
            run.expect("it runs")["logits"].to_f64()
        };
        let wanted: Vec<f64> = starts.iter().zip(lengths).flat_map(|(&start, length)| alone(start, length)).collect();
        for devices in [1, 3] {
            let mut compiled = session(devices, Options::default())
                .compile_with(&[("logits", &logits)], &folder.weights)
                .expect("a model");
            let begins: Vec<f64> = starts.iter().map(|&s| s as f64).collect();
            let run = compiled.run([
                (sentence::IDS, rows(packed.clone())),
                ("position_ids", rows(places.clone())),
                ("offsets", Dense::from_f64(DType::I64, [lengths.len()], &begins)),
            ]);
            let found = &run.unwrap_or_else(|e| panic!("{name}: {e}"))["logits"];
            let stored = Dense::from_f64(DType::F32, found.shape.clone(), &wanted);
            assert_eq!(one_difference(found, &stored, WITHIN), None, "{name} on {devices}");
        }
    }
}

/// A prompt and then token by token, each after a cache of the keys and values before it: the logits of the whole.
/// (Not of phi-3, whose tokens all turn otherwise once there are more than its first context holds.)
#[test]
fn steps_after_a_cache() {
    for name in ["mistral", "qwen3", "gemma-2", "llama-gqa"] {
        let (folder, expected) = opened(name, &json!({ "dtype": "float32" }));
        let ModelConfig::Decoder(config) = &folder.config else { panic!("{name} is a decoder") };
        let all = tensor(&expected["input_ids"], DType::I64);
        let (batch, total) = (all.shape[0], all.shape[1]);
        let prompt = total - 3;
        let ids = |from: usize, to: usize| {
            let values = all.to_f64();
            let rows = values.chunks(total).flat_map(|row| row[from..to].to_vec()).collect::<Vec<f64>>();
            Dense::from_f64(DType::I64, [batch, to - from], &rows)
        };
        let integers = |tokens| Tensor::input(sentence::IDS, [batch, tokens], DType::I64);
        let run = |devices, out: &Tensor, own: &[KeyValues], given: Vec<(String, Dense)>| {
            let mut outputs = vec![("logits".to_owned(), out)];
            for (n, own) in own.iter().enumerate() {
                outputs.extend([(format!("keys {n}"), &own.keys), (format!("values {n}"), &own.values)]);
            }
            let outputs: Vec<(&str, &Tensor)> = outputs.iter().map(|(name, tensor)| (name.as_str(), *tensor)).collect();
            let compiled = session(devices, Options::default()).compile_with(&outputs, &folder.weights);
            compiled.expect("a model").run(given).unwrap_or_else(|e| panic!("{name}: {e}"))
        };
        let model = Decoder::new(config);
        let whole = run(
            1,
            &model.forward_with(&integers(total), DecoderInputs::default()),
            &[],
            vec![(sentence::IDS.into(), ids(0, total))],
        );
        let (out, own) = model.begin(&integers(prompt), Positions::default());
        let begun = run(2, &out, &own, vec![(sentence::IDS.into(), ids(0, prompt))]);
        let mut past: Vec<[Dense; 2]> = (0..own.len())
            .map(|n| [begun[&format!("keys {n}")].clone(), begun[&format!("values {n}")].clone()])
            .collect();
        for (at, devices) in (prompt..total).zip([1, 3, 8]) {
            let mut given = vec![(sentence::IDS.to_owned(), ids(at, at + 1))];
            let mut caches = Vec::new();
            for (n, [keys, values]) in past.iter().enumerate() {
                let (k, v) = (format!("past {n} k"), format!("past {n} v"));
                let state = |name: &str, d: &Dense| Tensor::state(name, d.shape.clone(), DType::F32);
                caches.push(KeyValues { keys: state(&k, keys), values: state(&v, values) });
                given.extend([(k, keys.clone()), (v, values.clone())]);
            }
            let (out, own) = model.step(&integers(1), &caches, Positions { start: at, ..Positions::default() });
            let found = run(devices, &out, &own, given);
            let stored = whole["logits"]
                .cut(&whole["logits"].ty().whole(), &Region::of(&[(0, batch), (at, at + 1), (0, config.vocab_size)]));
            assert_eq!(one_difference(&found["logits"], &stored, WITHIN), None, "{name}, token {at} on {devices}");
            for (n, past) in past.iter_mut().enumerate() {
                for (past, own) in past.iter_mut().zip(["keys", "values"]) {
                    *past = appended(past, &found[&format!("{own} {n}")]);
                }
            }
        }
    }
}

/// One more token behind `[b, h, s, d]`.
fn appended(past: &Dense, own: &Dense) -> Dense {
    let &[b, h, s, d] = past.shape.as_slice() else { panic!("keys have four axes") };
    let (past, own) = (past.to_f64(), own.to_f64());
    let rows = past.chunks(s * d).zip(own.chunks(d)).flat_map(|(past, own)| [past, own].concat());
    Dense::from_f64(DType::F32, [b, h, s + 1, d], &rows.collect::<Vec<f64>>())
}

/// Every scaling of the rotation that `transformers` has, on one set of weights, longer than the first context.
#[test]
fn scalings_of_the_rotation() {
    let variants = json(&fixture("llama-rope/expected.json"))["variants"].as_array().expect("a list").clone();
    assert_eq!(variants.len(), 9);
    for variant in variants {
        let (folder, expected) = opened("llama-rope", &variant["config"]);
        let what = variant["config"]["rope_parameters"].to_string();
        let (name, logits) = folder.config.outputs(1, 24);
        let last = logits.narrow(1, 21, 3);
        let mut compiled = session(2, Options::default())
            .compile_with(&[(name, &last)], &folder.weights)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let run = compiled.run(inputs(&folder.config, &expected)).unwrap_or_else(|e| panic!("{what}: {e}"));
        let stored = tensor(&variant["logits"], DType::F32);
        assert_eq!(one_difference(&run[name], &stored, WITHIN), None, "{what}");
    }
}
