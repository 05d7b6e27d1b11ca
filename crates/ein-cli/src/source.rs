//! The computation that a command line names: a workload, a folder, its config.json, or a graph in text form.

use crate::args::Source;
use crate::failure::Failure;
use ein_ir::graph::Graph;
use einsummable::models::ModelConfig;
use std::path::Path;

/// The graph and a name for it.
pub fn graph(source: &Source) -> Result<(String, Graph), Failure> {
    if let Some(workload) = &source.workload {
        let graph = einsummable::workloads::workload(workload).map_err(Failure::request)?;
        return Ok((workload.clone(), graph));
    }
    let name = source.source.clone().unwrap_or_default();
    let path = Path::new(&name);
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|e| Failure::request(format!("{}: {e}", path.display())))
    };
    if path.is_dir() || path.extension().is_some_and(|e| e == "json") {
        let config = if path.is_dir() { path.join("config.json") } else { path.to_path_buf() };
        let parsed = ModelConfig::parse(&read(&config)?)
            .map_err(|e| Failure::request(format!("{}: {e}", config.display())))?;
        let (batch, sequence) = batch_seq(&source.batch_seq)?;
        let graph = parsed.graph(batch, sequence).map_err(Failure::request)?;
        return Ok((name, graph));
    }
    let graph = ein_ir::text::parse(&read(path)?).map_err(|e| Failure::request(format!("{name}:{e}")))?;
    Ok((name, graph))
}

fn batch_seq(text: &str) -> Result<(usize, usize), Failure> {
    let pair = text.split_once('x').and_then(|(b, s)| Some((b.parse().ok()?, s.parse().ok()?)));
    pair.filter(|&(b, s): &(usize, usize)| b > 0 && s > 0)
        .ok_or_else(|| Failure::request(format!("--batch-seq {text}: two positive sizes such as 8x512 are expected")))
}
