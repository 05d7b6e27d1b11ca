//! The computation that a command line names: a workload, a folder, its config.json, or a graph in text form.

use crate::args::Source;
use crate::failure::Failure;
use ein_ir::graph::Graph;
use einsummable::models::{ModelConfig, Pipeline, sentence};
use einsummable::trace;
use einsummable::workloads::{FORMS, workload};
use std::io::ErrorKind;
use std::path::Path;

/// Sequence length where none is given, of one text; less for a model that does not take as much.
const SEQUENCE: usize = 128;

/// The graph and a name for it.
pub fn graph(source: &Source) -> Result<(String, Graph), Failure> {
    if let Some(name) = &source.workload {
        return Ok((name.clone(), workload(name).map_err(Failure::request)?));
    }
    let name = source.place.clone().unwrap_or_default();
    let path = Path::new(&name);
    if !path.exists() {
        return Err(Failure::request(format!("{name}: {}", nothing_there(&name))));
    }
    let folder = path.is_dir().then_some(path);
    if folder.is_some() || path.extension().is_some_and(|e| e == "json") {
        let config = folder.map_or(path.to_path_buf(), |f| f.join("config.json"));
        let parsed = ModelConfig::parse(&read(&config).map_err(Failure::request)?)
            .map_err(|e| Failure::request(format!("{}: {e}", config.display())))?;
        let (batch, sequence) = sizes(&parsed, source.batch_seq.as_deref())?;
        let graph = forward(&parsed, folder, batch, sequence)?;
        return Ok((name, graph));
    }
    if let Some(sizes) = &source.batch_seq {
        return Err(Failure::request(format!(
            "--batch-seq {sizes}: {name} is a graph, which says its own sizes; leave the option out"
        )));
    }
    let graph = text_graph(path)?;
    Ok((name, graph))
}

/// The graph that a file says.
pub fn text_graph(path: &Path) -> Result<Graph, Failure> {
    let name = path.display();
    let graph = ein_ir::text::parse(&read(path).map_err(Failure::request)?)
        .map_err(|e| Failure::request(format!("{name}: {e}")))?;
    if graph.outputs().is_empty() {
        return Err(Failure::request(format!("{name}: the graph returns nothing; end it with `return NAME`")));
    }
    Ok(graph)
}

/// A whole text file, or what is wrong with it after its name.
pub fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| match e.kind() {
        ErrorKind::InvalidData => format!("{}: it is not UTF-8 text", path.display()),
        _ => format!("{}: {e}", path.display()),
    })
}

fn nothing_there(name: &str) -> String {
    let kind = name.split(':').next().unwrap_or_default();
    if FORMS.iter().any(|f| f.0 == kind) {
        return format!("there is no such file; for the workload, write --workload {name}");
    }
    "there is no such file or folder; expected is a Hugging Face folder, its config.json, a graph in text form, or \
     --workload NAME:SIZES"
        .into()
}

/// The forward graph of a model. A sentence model's folder says how its tokens become one vector.
fn forward(config: &ModelConfig, folder: Option<&Path>, batch: usize, sequence: usize) -> Result<Graph, Failure> {
    let pipeline = folder.filter(|f| f.join("modules.json").is_file());
    let (name, output) = match (config, pipeline) {
        (ModelConfig::Encoder(config), Some(folder)) => {
            let pipeline = Pipeline::read(folder).map_err(Failure::request)?;
            ("embedding", sentence::embedding(config, &pipeline, batch, sequence))
        }
        _ => config.outputs(batch, sequence),
    };
    Ok(trace(&[(name, &output)]).map_err(Failure::request)?.graph)
}

/// Batch and sequence, of which a model of images knows its own.
fn sizes(config: &ModelConfig, asked: Option<&str>) -> Result<(usize, usize), Failure> {
    let Some(asked) = asked else { return Ok((1, SEQUENCE.min(config.max_tokens()))) };
    let (batch, sequence) = batch_seq(asked)?;
    match config {
        ModelConfig::Vit(vit) if vit.sequence() != sequence => {
            let own = vit.sequence();
            let why = format!("its images of {:?} are sequences of {own}; write {batch}x{own}", vit.image_size);
            Err(Failure::request(format!("--batch-seq {asked}: the model is a {}; {why}", config.architecture())))
        }
        ModelConfig::Encoder(_) | ModelConfig::Decoder(_) | ModelConfig::Gpt2(_) | ModelConfig::Vit(_) => {
            Ok((batch, sequence))
        }
    }
}

fn batch_seq(text: &str) -> Result<(usize, usize), Failure> {
    let pair = text.split_once('x').and_then(|(b, s)| Some((b.parse().ok()?, s.parse().ok()?)));
    pair.filter(|&(b, s): &(usize, usize)| b > 0 && s > 0)
        .ok_or_else(|| Failure::request(format!("--batch-seq {text}: two positive sizes such as 8x512 are expected")))
}
