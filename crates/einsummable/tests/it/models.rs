//! Models against outputs that `PyTorch` stored.

use super::fixture;
use ein_ir::graph::Graph;
use ein_ir::op::{InputKind, Op};
use ein_ir::reference;
use einsummable::models::{Decoder, Encoder, Folder, ModelConfig, Pipeline, Pooling, sentence};
use einsummable::nn::Module;
use einsummable::weights::Weights;
use einsummable::{DType, Dense, Tensor, trace};
use serde_json::Value;
use std::collections::BTreeMap;

fn parameters(graph: &Graph, weights: &Weights) -> BTreeMap<String, Dense> {
    let read = |id| {
        let node = graph.node(id);
        let mut bytes = vec![0; node.ty.bytes() as usize];
        weights.read(&node.name, &node.ty, &node.ty.whole(), &mut bytes).unwrap();
        (node.name.clone(), Dense::from_le_bytes(&node.ty, &bytes).unwrap())
    };
    graph.inputs(InputKind::Parameter).into_iter().map(read).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().expect("a number")],
    }
}

#[test]
fn llama_logits_are_those_of_pytorch() {
    let check = |name: &str| {
        let folder = Folder::open(&fixture(name).join("model")).unwrap();
        let ModelConfig::Decoder(config) = &folder.config else { panic!("{name} is a Llama") };
        let text = std::fs::read_to_string(fixture(name).join("expected.json")).unwrap();
        let expected: Value = serde_json::from_str(&text).unwrap();
        let ids = numbers(&expected["input_ids"]).iter().map(|&v| v as i64).collect();
        let model = Decoder::new(config);
        let logits = model.forward(&Tensor::input("input_ids", [3, 7], DType::I64));
        let graph = trace(&[("logits", &logits)]).unwrap().graph;
        folder.weights.check(&graph).unwrap();
        let mut inputs = parameters(&graph, &folder.weights);
        assert_eq!(folder.weights.bytes_read(), folder.weights.bytes(), "{name}: each byte once");
        assert_eq!(model.parameters().len(), folder.weights.names().count(), "{name}");
        inputs.insert("input_ids".into(), Dense::i64([3, 7], ids));
        let found = &reference::run(&graph, &inputs).unwrap()["logits"];
        let want = Dense::from_f64(DType::F32, found.shape.clone(), &numbers(&expected["logits"]));
        assert!(found.max_abs_difference(&want) < 1e-4, "{name}: {}", found.max_abs_difference(&want));
    };
    check("llama-tiny");
    check("llama-gqa");
}

#[test]
fn heads_can_be_cut() {
    // No view stands between the embedding and the logits but the one that ends the rotation, and every
    // label of the projections that stands for heads is one of its own.
    let folder = Folder::open(&fixture("llama-gqa/model")).unwrap();
    let ModelConfig::Decoder(config) = &folder.config else { panic!("a Llama") };
    let logits = Decoder::new(config).forward(&Tensor::input("input_ids", [2, 5], DType::I64));
    let graph = trace(&[("logits", &logits)]).unwrap().graph;
    let views = graph.nodes().iter().filter(|n| matches!(n.op, Op::View(_))).count();
    assert!(views <= 2 * config.num_hidden_layers, "{views} views");
    let check = |name: &str, expected: &[(&str, usize)]| {
        let name = format!("model.layers.0.self_attn.{name}");
        let Op::Einsum(e) = &graph.node(graph.find(&name).expect(&name)).op else { panic!("{name} is an einsum") };
        for &(label, extent) in expected {
            assert!(e.labels.iter().any(|l| l.name == label && l.extent == extent), "{name}: {:?}", e.labels);
        }
    };
    check("q_proj", &[("h", 6), ("k", 48)]);
    check("k_proj", &[("h", 2), ("k", 48)]);
    check("v_proj", &[("h", 2), ("d", 8), ("k", 48)]);
    check("o_proj", &[("h", 6), ("d", 8), ("n", 48)]);
}

/// A BERT of two layers with weights from a formula, in our terms and written out by hand in `f64`.
#[test]
fn bert_is_what_it_says() {
    let config = r#"{"architectures": ["BertModel"], "hidden_size": 6, "num_attention_heads": 2, "num_hidden_layers": 2,
        "intermediate_size": 5, "hidden_act": "gelu", "vocab_size": 11, "max_position_embeddings": 8,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12}"#;
    let ModelConfig::Encoder(config) = ModelConfig::parse(config).unwrap() else { panic!("a BERT") };
    let pipeline = Pipeline { pooling: Pooling::Mean, normalize: true, max_seq_length: None };
    let out = sentence::embedding(&config, &pipeline, 2, 4);
    let graph = trace(&[("out", &out)]).unwrap().graph;
    let rows = graph.nodes().iter().filter(|n| matches!(n.op, Op::Einsum(_) | Op::Kernel(_))).count();
    assert!(rows <= 1 + 1 + 2 + 2 * 17 + 5, "{rows} rows");
    let mut tensors: BTreeMap<String, Dense> = BTreeMap::new();
    for id in graph.inputs(InputKind::Parameter) {
        let node = graph.node(id);
        let salt = node.name.bytes().map(u64::from).sum::<u64>() as f64;
        let values: Vec<f64> = (0..node.ty.elements()).map(|n| (salt + 1.7 * n as f64).sin() * 0.7).collect();
        tensors.insert(node.name.clone(), Dense::from_f64(DType::F32, node.ty.shape.clone(), &values));
    }
    let texts = [vec![3, 1, 4], vec![10, 0, 5, 9]];
    let by_hand: Vec<f64> = texts.iter().flat_map(|ids| hand(ids, &tensors)).collect();
    let (ids, mask) = sentence::inputs(&config, &texts, 2, 4);
    tensors.insert(sentence::IDS.into(), ids);
    tensors.insert(sentence::MASK.into(), mask);
    let found = &reference::run(&graph, &tensors).unwrap()["out"];
    let want = Dense::from_f64(DType::F32, [2, 6], &by_hand);
    assert!(found.max_abs_difference(&want) < 1e-5, "{:?} {:?}", found.to_f64(), by_hand);

    // The other ways to pool, from the hidden states, of which the fourth of the first text is padding.
    let mask = Tensor::input(sentence::MASK, [2, 1, 1, 4], DType::F32);
    let hidden = Encoder::new(&config).forward(&Tensor::input(sentence::IDS, [2, 4], DType::I64), &mask);
    let graph = trace(&[("hidden", &hidden)]).unwrap().graph;
    let states = reference::run(&graph, &tensors).unwrap()["hidden"].to_f64();
    let check = |pooling, pick: &dyn Fn(usize, usize) -> f64| {
        let out = sentence::embedding(&config, &Pipeline { pooling, normalize: false, max_seq_length: None }, 2, 4);
        let found = &reference::run(&trace(&[("out", &out)]).unwrap().graph, &tensors).unwrap()["out"];
        let want: Vec<f64> = (0..12).map(|n| pick(n / 6, n % 6)).collect();
        let off = found.max_abs_difference(&Dense::from_f64(DType::F32, [2, 6], &want));
        assert!(off < 1e-6, "{pooling:?}: off by {off}");
    };
    let at = |b: usize, s: usize, e: usize| states[(b * 4 + s) * 6 + e];
    check(Pooling::Cls, &|b, e| at(b, 0, e));
    check(Pooling::Max, &|b, e| (0..texts[b].len()).map(|s| at(b, s, e)).fold(f64::NEG_INFINITY, f64::max));
    check(Pooling::Mean, &|b, e| (0..texts[b].len()).map(|s| at(b, s, e)).sum::<f64>() / texts[b].len() as f64);
}

type Matrix = Vec<Vec<f64>>;

/// One text without padding.
fn hand(ids: &[i64], w: &BTreeMap<String, Dense>) -> Vec<f64> {
    let get = |name: &str| -> Matrix {
        let t = &w[name];
        t.to_f64().chunks(*t.shape.last().unwrap()).map(<[f64]>::to_vec).collect()
    };
    let norm = |x: &Matrix, name: &str| -> Matrix {
        let (g, b) = (&get(&format!("{name}.weight"))[0], &get(&format!("{name}.bias"))[0]);
        let row = |r: &Vec<f64>| {
            let n = r.len() as f64;
            let mean = r.iter().sum::<f64>() / n;
            let var = r.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
            (0..r.len()).map(|i| (r[i] - mean) / (var + 1e-12).sqrt() * g[i] + b[i]).collect()
        };
        x.iter().map(row).collect()
    };
    let linear = |x: &Matrix, name: &str| -> Matrix {
        let (m, b) = (get(&format!("{name}.weight")), &get(&format!("{name}.bias"))[0]);
        let dot = |r: &Vec<f64>, o: usize| r.iter().zip(&m[o]).map(|(a, b)| a * b).sum::<f64>() + b[o];
        x.iter().map(|r| (0..m.len()).map(|o| dot(r, o)).collect()).collect()
    };
    let add = |x: &Matrix, y: &Matrix| -> Matrix {
        x.iter().zip(y).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect()
    };
    let (words, positions) = (get("embeddings.word_embeddings.weight"), get("embeddings.position_embeddings.weight"));
    let kinds = get("embeddings.token_type_embeddings.weight");
    let embedded: Matrix = ids
        .iter()
        .enumerate()
        .map(|(n, &id)| (0..6).map(|i| words[id as usize][i] + positions[n][i] + kinds[0][i]).collect())
        .collect();
    let mut x = norm(&embedded, "embeddings.LayerNorm");
    for layer in 0..2 {
        let at = |name: &str| format!("encoder.layer.{layer}.{name}");
        let project = |name: &str| linear(&x, &at(&format!("attention.self.{name}")));
        let (q, k, v) = (project("query"), project("key"), project("value"));
        let mut attended = vec![vec![0.0; 6]; ids.len()];
        for head in 0..2 {
            let dims = 3 * head..3 * head + 3;
            for s in 0..ids.len() {
                let score = |t: usize| dims.clone().map(|i| q[s][i] * k[t][i]).sum::<f64>() / 3f64.sqrt();
                let weights: Vec<f64> = (0..ids.len()).map(|t| score(t).exp()).collect();
                let total: f64 = weights.iter().sum();
                for i in dims.clone() {
                    attended[s][i] = (0..ids.len()).map(|t| weights[t] / total * v[t][i]).sum();
                }
            }
        }
        x = norm(&add(&linear(&attended, &at("attention.output.dense")), &x), &at("attention.output.LayerNorm"));
        let gelu = |v: &f64| 0.5 * v * (1.0 + libm_erf(v / 2f64.sqrt()));
        let inner: Matrix =
            linear(&x, &at("intermediate.dense")).iter().map(|r| r.iter().map(gelu).collect()).collect();
        x = norm(&add(&linear(&inner, &at("output.dense")), &x), &at("output.LayerNorm"));
    }
    let mean: Vec<f64> = (0..6).map(|i| x.iter().map(|r| r[i]).sum::<f64>() / ids.len() as f64).collect();
    let length = mean.iter().map(|v| v * v).sum::<f64>().sqrt();
    mean.iter().map(|v| v / length).collect()
}

/// The error function by its power series, enough for small arguments.
fn libm_erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}
