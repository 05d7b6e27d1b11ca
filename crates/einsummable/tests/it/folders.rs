//! Folders that are right, and what is said of those that are not.

use super::fixture;
use ein_ir::graph::TensorType;
use ein_ir::region::Region;
use einsummable::models::{Folder, ModelConfig, Pipeline, Pooling};
use einsummable::nn::rotary::Scaling;
use einsummable::weights::Weights;
use einsummable::{DType, Dense};
use std::path::{Path, PathBuf};

/// A copy of the small Llama in a folder of its own, removed at the end.
struct Copy(PathBuf);

impl Copy {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("einsummable-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        for file in ["config.json", "model.safetensors", "tokenizer.json"] {
            std::fs::copy(fixture("llama-tiny/model").join(file), path.join(file)).unwrap();
        }
        Self(path)
    }

    fn write(&self, file: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.0.join(file), content).unwrap();
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn refused(folder: &Path, parts: &[&str]) {
    let message = Folder::open(folder).expect_err("refused").to_string();
    for part in parts {
        assert!(message.contains(part), "`{part}` in: {message}");
    }
}

#[test]
fn bad_folders_are_refused() {
    refused(Path::new("/nowhere/at/all"), &["/nowhere/at/all", "does not exist"]);
    let copy = Copy::new("refused");
    let weights = std::fs::read(copy.0.join("model.safetensors")).unwrap();
    copy.write("model.safetensors", &weights[..weights.len() - 100]);
    refused(&copy.0, &["is cut off", "tensor `", &format!("{}", weights.len() - 100)]);
    copy.write("model.safetensors", [weights.as_slice(), b"more"].concat());
    refused(&copy.0, &["4 bytes come after its last tensor"]);
    copy.write("model.safetensors", b"PK\x03\x04 this is a zip file");
    refused(&copy.0, &["model.safetensors is not a safetensors file", "header"]);
    copy.write("model.safetensors", b"abc");
    refused(&copy.0, &["only 3 bytes long"]);
    copy.write("model.safetensors", [&8_u64.to_le_bytes()[..], b"not json"].concat());
    refused(&copy.0, &["is not a safetensors file"]);
    std::fs::remove_file(copy.0.join("model.safetensors")).unwrap();
    refused(&copy.0, &["neither model.safetensors nor model.safetensors.index.json"]);
    copy.write("config.json", "{");
    refused(&copy.0, &["config.json"]);
    std::fs::remove_file(copy.0.join("config.json")).unwrap();
    refused(&copy.0, &["config.json"]);
}

#[test]
fn configurations_are_checked() {
    let text = std::fs::read_to_string(fixture("llama-tiny/model/config.json")).unwrap();
    let check = |from: &str, to: &str, parts: &[&str]| {
        assert!(text.contains(from), "`{from}` is there");
        let message = ModelConfig::parse(&text.replace(from, to)).expect_err(to).to_string();
        for part in parts {
            assert!(message.contains(part), "`{part}` in: {message}");
        }
    };
    let both = ["LlamaForCausalLM", "BertModel"];
    check("LlamaForCausalLM", "OPTForCausalLM", &["`OPTForCausalLM`", both[0], both[1]]);
    check("\"hidden_size\"", "\"hidden\"", &["`hidden_size`", "LlamaForCausalLM"]);
    check("\"vocab_size\": 97", "\"vocab_size\": \"many\"", &["`vocab_size`", "many", "whole number"]);
    check("\"vocab_size\": 97", "\"vocab_size\": 0", &["`vocab_size`", "from 1 to"]);
    check("\"num_key_value_heads\": 1", "\"num_key_value_heads\": 2", &["num_attention_heads", "5", "multiple"]);
    check("\"silu\"", "\"cubic\"", &["`hidden_act`", "`cubic`", "gelu"]);
    check(
        "\"rope_type\": \"default\"",
        "\"rope_type\": \"axial\"",
        &["rope_parameters.rope_type", "`axial`", "llama3"],
    );
    check("\"float32\"", "\"float8\"", &["`dtype`", "`float8`", "bfloat16"]);
    check("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": 3", &["`tie_word_embeddings`", "true or false"]);
    check("\"head_dim\": 8", "\"head_dim\": 7", &["head_dim", "even"]);

    // Keys of older files.
    let old = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 8, "vocab_size": 11, "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16", "rope_theta": 5e5,
        "eos_token_id": [1, 2], "rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1,
        "high_freq_factor": 4, "original_max_position_embeddings": 8192}}"#;
    let ModelConfig::Decoder(config) = ModelConfig::parse(old).unwrap() else { panic!("a Llama") };
    assert_eq!((config.dtype, config.num_key_value_heads, config.head_dim), (DType::BF16, 8, 8));
    assert_eq!((config.rotary.theta, config.eos_token_ids), (5e5, vec![1, 2]));
    let scaling = Scaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original: 8192.0 };
    assert_eq!(config.rotary.scaling, scaling);
}

#[test]
fn slices_are_read_once_and_converted() {
    let weights = Weights::open(&fixture("llama-tiny/model")).unwrap();
    let name = "model.layers.0.mlp.up_proj.weight";
    let ty = TensorType::new(DType::F32, [53, 40]);
    let read = |dtype, region: &Region| {
        let mut bytes = vec![0; region.volume() * dtype_bytes(dtype)];
        weights.read(name, &TensorType::new(dtype, [53, 40]), region, &mut bytes).unwrap();
        Dense::from_le_bytes(&TensorType::new(dtype, region.shape()), &bytes).unwrap()
    };
    let whole = read(DType::F32, &ty.whole());
    assert_eq!(weights.bytes_read(), ty.bytes());
    let part = Region::of(&[(7, 20), (3, 31)]);
    assert_eq!(read(DType::F32, &part), whole.cut(&ty.whole(), &part));
    assert_eq!(weights.bytes_read(), ty.bytes() + 13 * 28 * 4);
    assert_eq!(read(DType::BF16, &part), whole.cut(&ty.whole(), &part).cast(DType::BF16));
    assert_eq!(read(DType::F64, &part), whole.cut(&ty.whole(), &part).cast(DType::F64));

    let check = |name: &str, shape: &[usize], parts: &[&str]| {
        let ty = TensorType::new(DType::F32, shape);
        let mut bytes = vec![0; ty.bytes() as usize];
        let message = weights.read(name, &ty, &ty.whole(), &mut bytes).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "`{part}` in: {message}");
        }
    };
    check(
        "model.layers.9.mlp.up_proj.weight",
        &[53, 40],
        &["no tensor `model.layers.9.mlp.up_proj.weight`", "layers.0"],
    );
    check(name, &[40, 53], &[name, "[53, 40]", "[40, 53]"]);
}

fn dtype_bytes(dtype: DType) -> usize {
    dtype.bytes()
}

#[test]
fn several_files_are_one() {
    let copy = Copy::new("several");
    let one = Weights::open(&copy.0).unwrap();
    let names: Vec<String> = one.names().map(str::to_owned).collect();
    // Two files by hand: an 8-byte length, the header, the data.
    let mut map = serde_json::Map::new();
    for (file, part) in ["a.safetensors", "b.safetensors"].into_iter().zip(names.chunks(names.len().div_ceil(2))) {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for name in part {
            let ty = TensorType::new(DType::F32, one.shape(name).unwrap());
            let mut bytes = vec![0; ty.bytes() as usize];
            one.read(name, &ty, &ty.whole(), &mut bytes).unwrap();
            let from = data.len();
            data.extend(bytes);
            let row = serde_json::json!({"dtype": "F32", "shape": ty.shape, "data_offsets": [from, data.len()]});
            header.insert(name.clone(), row);
            map.insert(name.clone(), file.into());
        }
        let header = serde_json::to_vec(&header).unwrap();
        copy.write(file, [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat());
    }
    let index = |map: &serde_json::Map<String, serde_json::Value>| serde_json::json!({ "weight_map": map }).to_string();
    copy.write("model.safetensors.index.json", index(&map));
    let both = Weights::open(&copy.0).unwrap();
    assert!(both.names().eq(one.names()));
    for name in &names {
        let ty = TensorType::new(DType::F32, one.shape(name).unwrap());
        let read = |w: &Weights| {
            let mut bytes = vec![0; ty.bytes() as usize];
            w.read(name, &ty, &ty.whole(), &mut bytes).unwrap();
            bytes
        };
        assert_eq!(read(&one), read(&both), "{name}");
    }
    let refused = |map: &serde_json::Map<String, serde_json::Value>, part: &str| {
        copy.write("model.safetensors.index.json", index(map));
        let message = Weights::open(&copy.0).unwrap_err().to_string();
        assert!(message.contains(part), "`{part}` in: {message}");
    };
    let with = |name: &str, file: &str| {
        let mut map = map.clone();
        map.insert(name.into(), file.into());
        map
    };
    refused(&with("extra", "a.safetensors"), "`extra`");
    refused(&with(&names[0], "b.safetensors"), &names[0]);
    refused(&with("extra", "c.safetensors"), "c.safetensors");
    refused(&with("extra", "../a.safetensors"), "no name of a file");
}

#[test]
fn pipelines_are_read_and_checked() {
    let copy = Copy::new("pipeline");
    let read = || Folder::open(&copy.0).unwrap().pipeline();
    let plain = Pipeline { pooling: Pooling::Mean, normalize: false, max_seq_length: None };
    assert_eq!(read().unwrap(), plain, "a folder without modules.json");
    let modules = |kinds: &[&str]| {
        let rows: Vec<String> = kinds
            .iter()
            .map(|k| {
                format!(
                    r#"{{"path": "{}", "type": "sentence_transformers.models.{k}"}}"#,
                    if *k == "Pooling" { "pool" } else { "" }
                )
            })
            .collect();
        copy.write("modules.json", format!("[{}]", rows.join(",")));
    };
    std::fs::create_dir_all(copy.0.join("pool")).unwrap();
    copy.write("sentence_bert_config.json", r#"{"max_seq_length": 128}"#);
    let on = |modes: &str| copy.write("pool/config.json", format!(r#"{{"word_embedding_dimension": 4, {modes}}}"#));
    modules(&["Transformer", "Pooling", "Normalize"]);
    on(r#""pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false"#);
    assert_eq!(read().unwrap(), Pipeline { pooling: Pooling::Cls, normalize: true, max_seq_length: Some(128) });
    on(r#""pooling_mode_max_tokens": true"#);
    modules(&["Transformer", "Pooling"]);
    assert_eq!(read().unwrap(), Pipeline { pooling: Pooling::Max, normalize: false, max_seq_length: Some(128) });
    let refused = |parts: &[&str]| {
        let message = read().unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "`{part}` in: {message}");
        }
    };
    on(r#""pooling_mode_weightedmean_tokens": true"#);
    refused(&["pooling_mode_weightedmean_tokens", "mean, cls and max"]);
    on(r#""pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true"#);
    refused(&["pooling_mode_mean_tokens", "pooling_mode_cls_token", "alone"]);
    on(r#""pooling_mode_mean_tokens": true"#);
    modules(&["Transformer", "Pooling", "Dense"]);
    refused(&["modules.json", "Dense", "Normalize"]);
    modules(&["Transformer", "Normalize", "Pooling"]);
    refused(&["out of order"]);
    modules(&["Transformer"]);
    refused(&["no Pooling"]);
}

#[test]
fn tokenizers_encode_and_decode() {
    for name in ["llama-tiny", "llama-gqa"] {
        let text = std::fs::read_to_string(fixture(name).join("expected.json")).unwrap();
        let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
        let list =
            |v: &serde_json::Value| v.as_array().unwrap().iter().map(|i| i.as_i64().unwrap()).collect::<Vec<_>>();
        let tokenizer = Folder::open(&fixture(name).join("model")).unwrap().tokenizer().unwrap();
        let ids = tokenizer.encode(expected["text"]["text"].as_str().unwrap()).unwrap();
        assert_eq!(ids, list(&expected["text"]["ids"]), "{name}");
        let decoded = tokenizer.decode(&list(&expected["text"]["tokens"])).unwrap();
        assert_eq!(decoded, expected["text"]["decoded"].as_str().unwrap(), "{name}");
        let short = tokenizer.clone().truncated(4).unwrap().encode(expected["text"]["text"].as_str().unwrap()).unwrap();
        assert_eq!(short, ids[..4], "{name}");
        assert!(tokenizer.decode(&[-1]).is_err());
    }
    let copy = Copy::new("tokenizer");
    copy.write("tokenizer.json", "{}");
    let message = Folder::open(&copy.0).unwrap().tokenizer().unwrap_err().to_string();
    assert!(message.contains("tokenizer.json"), "{message}");
}
