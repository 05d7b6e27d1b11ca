//! Weights in several files, under other names, in parts; and what is said of those that are wrong.

use super::fixture;
use ein_ir::graph::TensorType;
use ein_ir::op::InputKind;
use ein_ir::region::Region;
use einsummable::models::Folder;
use einsummable::weights::Weights;
use einsummable::{DType, Dense, Session, trace};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// A folder of its own, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("einsummable-weights-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A safetensors file by hand: an 8-byte length, the header, the data.
    fn file(&self, name: &str, tensors: &[(&str, &[usize], &[f32])]) {
        let (mut header, mut data) = (Map::new(), Vec::new());
        for (tensor, shape, values) in tensors {
            let from = data.len();
            data.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            let row = json!({ "dtype": "F32", "shape": shape, "data_offsets": [from, data.len()] });
            header.insert((*tensor).into(), row);
        }
        let header = serde_json::to_vec(&header).unwrap();
        let bytes = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
        std::fs::write(self.0.join(name), bytes).unwrap();
    }

    fn index(&self, rows: &[(&str, &str)]) {
        let map: Map<String, Value> = rows.iter().map(|(t, f)| ((*t).to_owned(), json!(f))).collect();
        let text = json!({ "weight_map": map }).to_string();
        std::fs::write(self.0.join("model.safetensors.index.json"), text).unwrap();
    }

    fn refused(&self, parts: &[&str]) {
        let message = Weights::open(&self.0).expect_err("refused").to_string();
        for part in parts {
            assert!(message.contains(part), "`{part}` in: {message}");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read(weights: &Weights, name: &str, shape: &[usize], region: &Region) -> Result<Vec<f64>, String> {
    let mut bytes = vec![0; region.volume() * 4];
    let ty = TensorType::new(DType::F32, shape);
    weights.check_tensor(name, &ty).map_err(|e| e.to_string())?;
    weights.read(name, &ty, region, &mut bytes).map_err(|e| e.to_string())?;
    Ok(Dense::from_le_bytes(&TensorType::new(DType::F32, region.shape()), &bytes).unwrap().to_f64())
}

fn whole(weights: &Weights, name: &str, shape: &[usize]) -> Result<Vec<f64>, String> {
    read(weights, name, shape, &TensorType::new(DType::F32, shape).whole())
}

const COUNT: [f32; 12] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11.];

#[test]
fn parts_are_read_by_slice() {
    let place = Place::new("parts");
    place.file("model.safetensors", &[("model.w", &[4, 3], &COUNT), ("b", &[4], &COUNT[..4])]);
    let weights = Weights::open(&place.0).unwrap();
    assert_eq!(whole(&weights, "w[1:3/4]", &[2, 3]).unwrap(), [3., 4., 5., 6., 7., 8.]);
    assert_eq!(whole(&weights, "w[:,1:2/3]", &[4, 1]).unwrap(), [1., 4., 7., 10.]);
    assert_eq!(whole(&weights, "b[2:4/4]", &[2]).unwrap(), [2., 3.]);
    assert_eq!(weights.bytes_read(), (6 + 4 + 2) * 4, "of a part its own bytes only");
    assert_eq!(read(&weights, "w[2:4/4]", &[2, 3], &Region::of(&[(1, 2), (1, 3)])).unwrap(), [10., 11.]);
    let refused = |name: &str, shape: &[usize], parts: &[&str]| {
        let message = whole(&weights, name, shape).unwrap_err();
        for part in parts {
            assert!(message.contains(part), "`{part}` in: {message}");
        }
    };
    refused("w[0:2/5]", &[2, 3], &["`w` is [4, 3]", "needs [5, 3]", "model.safetensors"]);
    refused("w[0:2/4]", &[2, 4], &["`w` is [4, 3]", "needs [4, 4]"]);
    refused("w[0:2/4]", &[3, 3], &["`w` is [4, 3]"]);
    refused("b[:,0:2/4]", &[4], &["`b` is [4]"]);
    refused("v[0:2/4]", &[2, 3], &["no tensor `v`"]);
}

#[test]
fn names_with_and_without_the_prefix_of_the_model() {
    let place = Place::new("names");
    let norm = &COUNT[..2];
    place.file(
        "model.safetensors",
        &[
            ("bert.embeddings.LayerNorm.gamma", &[2], norm),
            ("bert.embeddings.LayerNorm.beta", &[2], norm),
            ("roberta.w", &[2], norm),
            ("h.0.w", &[2], norm),
            ("layers.0.w", &[2], norm),
        ],
    );
    let weights = Weights::open(&place.0).unwrap();
    for name in [
        "embeddings.LayerNorm.weight",
        "bert.embeddings.LayerNorm.bias",
        "w",
        "transformer.h.0.w",
        "h.0.w",
        "model.layers.0.w",
    ] {
        whole(&weights, name, &[2]).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let message = whole(&weights, "layers.1.w", &[2]).unwrap_err();
    for part in [&place.0.join("model.safetensors").display().to_string(), "no tensor `layers.1.w`"] {
        assert!(message.contains(part), "`{part}` in: {message}");
    }
}

#[test]
fn files_of_an_index_that_are_wrong() {
    let place = Place::new("index");
    place.file("a.safetensors", &[("x", &[2], &COUNT[..2])]);
    place.file("b.safetensors", &[("y", &[2], &COUNT[..2])]);
    place.index(&[("x", "a.safetensors"), ("y", "b.safetensors")]);
    let weights = Weights::open(&place.0).unwrap();
    assert_eq!(weights.bytes(), 16);
    // Several files are missing a tensor as one folder.
    let message = whole(&weights, "z", &[2]).unwrap_err();
    assert!(message.contains(&format!("{} has no tensor `z`", place.0.display())), "{message}");
    let message = whole(&weights, "y", &[3]).unwrap_err();
    assert!(message.contains("b.safetensors: tensor `y` is [2], but the model needs [3]"), "{message}");

    place.index(&[("x", "a.safetensors"), ("y", "b.safetensors"), ("z", "c.safetensors")]);
    place.refused(&["c.safetensors", "No such file", "tensor `z` is in this file"]);
    place.index(&[("x", "a.safetensors"), ("y", "a.safetensors")]);
    place.refused(&["a.safetensors", "`y`", "index"]);
    place.file("b.safetensors", &[("x", &[2], &COUNT[..2]), ("y", &[2], &COUNT[..2])]);
    place.index(&[("x", "a.safetensors"), ("y", "b.safetensors")]);
    place.refused(&["tensor `x` is in", "a.safetensors", "b.safetensors"]);
    place.file("b.safetensors", &[("y", &[2], &COUNT[..2])]);
    let path = place.0.join("b.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    place.refused(&["b.safetensors is cut off", "tensor `y`"]);
    std::fs::write(place.0.join("model.safetensors.index.json"), "{}").unwrap();
    place.refused(&["model.safetensors.index.json", "weight_map"]);
}

#[test]
fn a_file_that_shrinks_after_it_was_opened() {
    let place = Place::new("shrinks");
    place.file("model.safetensors", &[("w", &[4, 3], &COUNT)]);
    let weights = Weights::open(&place.0).unwrap();
    let file = std::fs::File::options().write(true).open(place.0.join("model.safetensors")).unwrap();
    file.set_len(100).unwrap();
    let message = whole(&weights, "w", &[4, 3]).unwrap_err();
    for part in ["model.safetensors", "tensor `w` cannot be read"] {
        assert!(message.contains(part), "`{part}` in: {message}");
    }
}

/// A tied embedding is one parameter, read by the first operation and by the last, and is in memory once.
#[test]
fn tied_embeddings_are_in_memory_once() {
    let check = |folder: &Path, name: &str| {
        let folder = Folder::open(folder).unwrap();
        let (output, logits) = folder.config.outputs(2, 5);
        let graph = trace(&[(output, &logits)]).unwrap().graph;
        let of_vocabulary = |id: &_| graph.ty(*id).shape.first() == Some(&folder.config.vocab_size().unwrap());
        let tables: Vec<_> = graph
            .inputs(InputKind::Parameter)
            .into_iter()
            .filter(|id| of_vocabulary(id) && graph.ty(*id).shape.len() == 2)
            .map(|id| (graph.node(id).name.clone(), id))
            .collect();
        assert_eq!(tables.iter().map(|t| t.0.as_str()).collect::<Vec<_>>(), [name]);
        let readers = graph.nodes().iter().filter(|n| n.inputs.contains(&tables[0].1)).count();
        assert_eq!(readers, 2, "{name}");
        let compiled = Session::cpu(1).unwrap().compile_with(&[(output, &logits)], &folder.weights).unwrap();
        let tasks = &compiled.plan().tasks;
        let fed: u64 = tasks
            .rows()
            .filter(|(id, _)| tasks.fed(*id).is_some_and(|e| e.name == name))
            .map(|(_, task)| task.value.bytes().0)
            .sum();
        assert_eq!(fed, graph.ty(tables[0].1).bytes().next_multiple_of(8), "{name}");
    };
    check(&fixture("llama-gqa/model"), "model.embed_tokens.weight");
    check(&fixture("gemma-2/model"), "model.embed_tokens.weight");
    check(&fixture("gpt-2/model"), "transformer.wte.weight");
    check(&fixture("bert/model"), "bert.embeddings.word_embeddings.weight");
    check(&fixture("distilbert/model"), "distilbert.embeddings.word_embeddings.weight");
}
