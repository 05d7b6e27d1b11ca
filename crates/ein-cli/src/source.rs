//! The computation that a command line names: a workload, a folder, its config.json, or a graph in text form.

use crate::args::Source;
use crate::failure::Failure;
use ein_ir::graph::Graph;
use einsummable::models::{Bert, Llama, ModelConfig, Pipeline, sentence};
use einsummable::nn::Module;
use einsummable::{DType, Tensor, trace};
use std::path::{Path, PathBuf};

/// The graph and a name for it.
pub fn graph(source: &Source) -> Result<(String, Graph), Failure> {
    if let Some(workload) = &source.workload {
        let graph = einsummable::workloads::workload(workload).map_err(Failure::request)?;
        return Ok((workload.clone(), graph));
    }
    let name = source.source.clone().unwrap_or_default();
    let path = PathBuf::from(&name);
    let path = path.as_path();
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|e| Failure::request(format!("{}: {e}", path.display())));
    if path.is_dir() || path.extension().is_some_and(|e| e == "json") {
        let config = if path.is_dir() { path.join("config.json") } else { path.to_path_buf() };
        let parsed =
            ModelConfig::parse(&read(&config)?).map_err(|e| Failure::request(format!("{}: {e}", config.display())))?;
        let (batch, sequence) = batch_seq(&source.batch_seq)?;
        let graph = forward(&parsed, path.is_dir().then_some(path), batch, sequence)?;
        return Ok((name, graph));
    }
    let graph = ein_ir::text::parse(&read(path)?).map_err(|e| Failure::request(format!("{name}:{e}")))?;
    Ok((name, graph))
}

/// The forward graph of a model. A sentence model's folder says how its tokens become one vector.
fn forward(config: &ModelConfig, folder: Option<&Path>, batch: usize, sequence: usize) -> Result<Graph, Failure> {
    let ids = Tensor::input(sentence::IDS, [batch, sequence], DType::I64);
    let traced = match config {
        ModelConfig::Llama(config) => trace(&[("logits", &Llama::new(config).forward(&ids))]),
        ModelConfig::Bert(config) => match folder.filter(|f| f.join("modules.json").is_file()) {
            Some(folder) => {
                let pipeline = Pipeline::read(folder).map_err(Failure::request)?;
                trace(&[("embedding", &sentence::embedding(config, &pipeline, batch, sequence))])
            }
            None => {
                let mask = Tensor::input(sentence::MASK, [batch, 1, 1, sequence], config.dtype);
                trace(&[("hidden", &Bert::new(config).forward(&ids, &mask))])
            }
        },
    };
    Ok(traced.map_err(Failure::request)?.graph)
}

fn batch_seq(text: &str) -> Result<(usize, usize), Failure> {
    let pair = text.split_once('x').and_then(|(b, s)| Some((b.parse().ok()?, s.parse().ok()?)));
    pair.filter(|&(b, s): &(usize, usize)| b > 0 && s > 0)
        .ok_or_else(|| Failure::request(format!("--batch-seq {text}: two positive sizes such as 8x512 are expected")))
}
