//! `ein run`: embeds or continues texts with a model of a folder.

use crate::args::Run as RunArgs;
use crate::asked;
use crate::failure::Failure;
use crate::plan_command::refused;
use crate::progress::Progress;
use crate::show;
use ein_plan::plan::compare;
use ein_run::ParameterSource;
use ein_task::units::Bytes;
use einsummable::embed::{EmbedError, Embedder};
use einsummable::generate::{GenerateError, Generator};
use einsummable::models::{Folder, LlamaConfig, ModelConfig};
use einsummable::tokenizer::Tokenizer;
use einsummable::{Compiled, Session, SessionError, synthetic};
use serde_json::{Value, json};
use std::path::Path;

/// The name of the model that needs no file.
const SYNTHETIC: &str = "synthetic:llama";

/// `ein run`.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let machine = asked::machine(&args.asked)?;
    let options = asked::options(&args.asked, &machine)?;
    let session = Session::new(machine).with_options(options);
    if args.model == SYNTHETIC {
        let (config, weights) = synthetic::llama(0);
        return generate(args, &session, &config, &weights, &Words::Bytes);
    }
    let path = Path::new(&args.model);
    let folder = Folder::open(path).map_err(Failure::request)?;
    match &folder.config {
        ModelConfig::Bert(_) => embed(args, &session, path),
        ModelConfig::Llama(config) => {
            let tokenizer = folder.tokenizer().map_err(Failure::request)?;
            generate(args, &session, config, &folder.weights, &Words::Tokenizer(tokenizer))
        }
    }
}

fn embed(args: &RunArgs, session: &Session, folder: &Path) -> Result<(), Failure> {
    let mut embedder = Embedder::open(session, folder).map_err(embedding)?;
    let texts: Vec<&str> = args.text.iter().map(String::as_str).collect();
    let vectors = {
        let _progress = Progress::start("planning, loading and running");
        embedder.embed(&texts).map_err(embedding)?
    };
    let compiled = embedder.compiled().ok_or_else(|| Failure::run("nothing was run"))?;
    // The check reads them all again.
    let (read, held) = (embedder.weights().bytes_read(), embedder.weights().bytes());
    let error = check(args, compiled, embedder.weights())?;
    let mut similarities = Vec::new();
    for (a, first) in vectors.iter().enumerate() {
        for (b, second) in vectors.iter().enumerate().skip(a + 1) {
            similarities.push((a, b, cosine(first, second)));
        }
    }
    if args.asked.json {
        let pairs: Vec<Value> =
            similarities.iter().map(|(a, b, c)| json!({ "first": a, "second": b, "cosine": c })).collect();
        let outputs = json!({ "embeddings": vectors, "similarities": pairs });
        return finish_json(args, compiled, &outputs, error, json!({ "weight_bytes_read": read }));
    }
    for (n, text) in texts.iter().enumerate() {
        println!("  [{n}] {text}");
    }
    for (a, b, c) in &similarities {
        println!("  cosine [{a}] · [{b}] = {c:.6}");
    }
    println!("  weights      {} of {} read", Bytes(read), Bytes(held));
    finish_text(args, compiled, error)
}

fn generate(
    args: &RunArgs,
    session: &Session,
    config: &LlamaConfig,
    weights: &dyn ParameterSource,
    words: &Words,
) -> Result<(), Failure> {
    let prompts: Vec<Vec<i64>> = args.text.iter().map(|text| words.encode(text)).collect::<Result<_, _>>()?;
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
    let capacity = (longest + args.new_tokens.saturating_sub(1)).max(1);
    let progress = Progress::start("planning and loading");
    let mut generator = Generator::new(session, config, weights, capacity).map_err(generating)?;
    drop(progress);
    let mut continuations = Vec::new();
    for prompt in &prompts {
        let _progress = Progress::start("running");
        continuations.push(generator.greedy(prompt, args.new_tokens).map_err(generating)?);
    }
    let compiled = generator.compiled();
    let error = check(args, compiled, weights)?;
    let texts: Vec<String> = continuations.iter().map(|ids| words.decode(ids)).collect::<Result<_, _>>()?;
    if args.asked.json {
        let outputs: Vec<Value> = args
            .text
            .iter()
            .zip(&continuations)
            .zip(&texts)
            .map(|((prompt, ids), text)| json!({ "prompt": prompt, "tokens": ids, "text": text }))
            .collect();
        return finish_json(args, compiled, &json!(outputs), error, json!({}));
    }
    for ((prompt, ids), text) in args.text.iter().zip(&continuations).zip(&texts) {
        println!("  {prompt} ⟶ {text}");
        println!("    tokens {ids:?}");
    }
    finish_text(args, compiled, error)
}

/// Compares the last run with the reference, if asked to.
fn check(args: &RunArgs, compiled: &Compiled, weights: &dyn ParameterSource) -> Result<Option<f64>, Failure> {
    if !args.check {
        return Ok(None);
    }
    let _progress = Progress::start("checking against the dense reference");
    compiled.max_abs_error(weights).map(Some).map_err(session)
}

/// What single precision may differ by between two orders of summation in models of this depth, for values
/// near 1.
const TOLERANCE: f64 = 1e-3;

fn verdict(error: Option<f64>) -> Result<(), Failure> {
    match error {
        Some(error) if error.is_nan() || error > TOLERANCE => Err(Failure::Differs(format!(
            "the result differs from the one-device reference by up to {error:.3e}, more than {TOLERANCE:.0e}"
        ))),
        _ => Ok(()),
    }
}

fn trace(args: &RunArgs, compiled: &Compiled) -> Result<(), Failure> {
    match &args.trace {
        Some(path) => show::write(path, &compiled.timeline().to_chrome_json()),
        None => Ok(()),
    }
}

fn finish_text(args: &RunArgs, compiled: &Compiled, error: Option<f64>) -> Result<(), Failure> {
    trace(args, compiled)?;
    let plan = compiled.plan();
    if let Some(error) = error {
        println!("  check        largest difference to the one-device reference {error:.3e}");
    }
    println!("  ran in       {:.4} s (the last run)", compiled.seconds());
    print!("{}", show::report(&plan.report));
    if args.compare {
        let strategies = compare(&plan.graph, &plan.machine, &plan.options);
        print!("\n{}", show::strategies(&plan.report, &strategies));
    }
    if args.explain {
        print!("\n{}", ein_plan::explain::explain(plan).map_err(refused)?);
    }
    verdict(error)
}

fn finish_json(
    args: &RunArgs,
    compiled: &Compiled,
    outputs: &Value,
    error: Option<f64>,
    more: Value,
) -> Result<(), Failure> {
    trace(args, compiled)?;
    let plan = compiled.plan();
    let mut value = json!({
        "outputs": outputs,
        "seconds": compiled.seconds(),
        "plan": show::report_json(&plan.report)?,
    });
    if let (Some(all), Value::Object(more)) = (value.as_object_mut(), more) {
        all.extend(more);
        if let Some(error) = error {
            all.insert("max_abs_error_vs_reference".into(), json!(error));
        }
        if args.compare {
            let strategies = compare(&plan.graph, &plan.machine, &plan.options);
            all.insert("strategies".into(), show::strategies_json(&strategies)?);
        }
        if args.explain {
            let explanation = ein_plan::explain::explain(plan).map_err(refused)?;
            all.insert("explain".into(), serde_json::to_value(explanation).map_err(Failure::run)?);
        }
    }
    println!("{value:#}");
    verdict(error)
}

/// How text becomes ids.
enum Words {
    /// As the folder's tokenizer says.
    Tokenizer(Tokenizer),
    /// One id a byte: for a model that no text trained.
    Bytes,
}

impl Words {
    fn encode(&self, text: &str) -> Result<Vec<i64>, Failure> {
        match self {
            Self::Tokenizer(tokenizer) => tokenizer.encode(text).map_err(Failure::request),
            Self::Bytes => Ok(text.bytes().map(i64::from).collect()),
        }
    }

    fn decode(&self, ids: &[i64]) -> Result<String, Failure> {
        match self {
            Self::Tokenizer(tokenizer) => tokenizer.decode(ids).map_err(Failure::run),
            Self::Bytes => {
                let bytes: Vec<u8> = ids.iter().map(|&id| id as u8).collect();
                Ok(format!("{:?}", String::from_utf8_lossy(&bytes)))
            }
        }
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(p, q)| f64::from(*p) * f64::from(*q)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn session(error: SessionError) -> Failure {
    match error {
        SessionError::Plan(error) => refused(error),
        other => Failure::run(other),
    }
}

fn embedding(error: EmbedError) -> Failure {
    match error {
        EmbedError::Session(error) => session(error),
        other => Failure::request(other),
    }
}

fn generating(error: GenerateError) -> Failure {
    match error {
        GenerateError::Session(error) => session(error),
        other => Failure::request(other),
    }
}
