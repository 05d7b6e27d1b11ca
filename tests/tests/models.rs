//! Whole models on one to eight devices against outputs that another implementation stored.
//!
//! `MiniLM` is 91 MB and not stored: its test runs where `EIN_MINILM` names the folder of the model.

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::reference::run_from;
use ein_ir::region::Region;
use ein_plan::options::{Objective, Options};
use ein_plan::plan::{Plan, plan};
use ein_run::{Executor, ParameterSource};
use ein_task::machine::Machine;
use ein_task::units::Bytes;
use ein_tests::fixtures::{fixture, ids, json, numbers};
use ein_tests::same::one_difference;
use einsummable::models::{Decoder, Folder, ModelConfig, sentence};
use einsummable::nn::Module;
use einsummable::weights::Weights;
use einsummable::{Tensor, trace};
use std::collections::BTreeMap;
use std::path::Path;

/// Weights of a folder, as parameters of a run.
struct Stored<'a>(&'a Weights);

impl ParameterSource for Stored<'_> {
    fn read(&self, name: &str, ty: &TensorType, region: &Region, out: &mut [u8]) -> Result<(), String> {
        self.0.read(name, ty, region, out).map_err(|e| e.to_string())
    }
}

fn planned(graph: &Graph, devices: usize, options: &Options) -> Plan {
    let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
    plan(graph, &machine, options).unwrap_or_else(|e| panic!("{devices} devices, {options:?}: {e}"))
}

/// Runs a plan once: its outputs.
fn run(plan: &Plan, weights: &Weights, inputs: &BTreeMap<String, Dense>) -> BTreeMap<String, Dense> {
    let mut executor = Executor::new(plan.tasks.clone(), &Stored(weights)).unwrap_or_else(|e| panic!("{e}"));
    let outputs = executor.run(inputs).unwrap_or_else(|e| panic!("{e}")).outputs;
    let of = |(name, value): (String, Dense)| (plan.graph.find(&name).expect("a row"), value);
    let sources: BTreeMap<TensorId, Dense> = outputs.into_iter().map(of).collect();
    run_from(&plan.graph, &sources).unwrap_or_else(|e| panic!("{e}"))
}

/// One to eight devices, planned for time where they are even in number and for bytes where they are odd.
fn llama(name: &str) {
    let folder = Folder::open(&fixture(name).join("model")).expect("it is stored");
    let ModelConfig::Decoder(config) = &folder.config else { panic!("{name} is a Llama") };
    let expected = json(&fixture(name).join("expected.json"));
    let input = Tensor::input("input_ids", [3, 7], DType::I64);
    let graph = trace(&[("logits", &Decoder::new(config).forward(&input))]).expect("a model").graph;
    let inputs = BTreeMap::from([("input_ids".to_owned(), Dense::i64([3, 7], ids(&expected["input_ids"])))]);
    for devices in 1..=8 {
        let objective = [Objective::Time, Objective::Bytes][devices % 2];
        let plan = planned(&graph, devices, &Options { objective, ..Options::default() });
        let logits = &run(&plan, &folder.weights, &inputs)["logits"];
        let stored = Dense::from_f64(DType::F32, logits.shape.clone(), &numbers(&expected["logits"]));
        assert_eq!(one_difference(logits, &stored, 1e-4), None, "{name} on {devices} for {objective:?}");
    }
}

#[test]
fn llama_with_one_key_head() {
    llama("llama-tiny");
}

#[test]
fn llama_with_grouped_heads_and_a_tied_output() {
    llama("llama-gqa");
}

#[test]
fn minilm_embeds_as_stored() {
    let Some(path) = std::env::var_os("EIN_MINILM").filter(|p| !p.is_empty()) else {
        println!("EIN_MINILM names no folder: skipped");
        return;
    };
    let folder = Folder::open(Path::new(&path)).unwrap_or_else(|e| panic!("EIN_MINILM: {e}"));
    let ModelConfig::Encoder(config) = &folder.config else { panic!("EIN_MINILM holds another model") };
    let stored = json(&fixture("minilm/sentences.json"));
    let list = |key: &str| stored[key].as_array().unwrap_or_else(|| panic!("`{key}` is a list")).clone();
    let texts: Vec<Vec<i64>> = list("token_ids").iter().map(ids).collect();
    let vectors: Vec<Vec<f64>> = list("embeddings").iter().map(numbers).collect();
    assert_eq!((texts.len(), vectors.len()), (20, 20));
    let longest = texts.iter().map(Vec::len).max().expect("texts");
    let pipeline = folder.pipeline().expect("a sentence model");
    let out = sentence::embedding(config, &pipeline, texts.len(), longest);
    let graph = trace(&[("embedding", &out)]).expect("a model").graph;
    let (input, mask) = sentence::inputs(config, &texts, texts.len(), longest);
    let inputs = BTreeMap::from([(sentence::IDS.to_owned(), input), (sentence::MASK.to_owned(), mask)]);
    let small = Options { memory: Bytes::parse("40MiB"), ..Options::default() };
    let bytes = Options { objective: Objective::Bytes, ..Options::default() };
    for devices in [1, 2, 3, 5, 7, 8] {
        for (what, options) in [("free", &Options::default()), ("in 40 MiB", &small), ("by bytes", &bytes)] {
            // The weights alone are 87 MiB.
            if options.memory.is_some() && devices < 3 {
                continue;
            }
            let plan = planned(&graph, devices, options);
            if let Some(limit) = options.memory {
                assert!(plan.peak_memory() <= limit, "{what} on {devices}: {}", plan.peak_memory());
            }
            let found = run(&plan, &folder.weights, &inputs)["embedding"].to_f64();
            for (n, (found, stored)) in found.chunks(config.hidden_size).zip(&vectors).enumerate() {
                let cosine = cosine(found, stored);
                assert!(cosine >= 0.99999, "sentence {n}, {what} on {devices}: cosine {cosine}");
            }
        }
    }
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    assert_eq!(a.len(), b.len());
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
