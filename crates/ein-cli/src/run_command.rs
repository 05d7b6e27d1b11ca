//! `ein run`: embeds or continues texts, or classifies images, with a model of a folder; or runs a graph.

use crate::args::Run as RunArgs;
use crate::asked;
use crate::failure::Failure;
use crate::graphs;
use crate::images;
use crate::output;
use crate::plan_command::refused;
use crate::progress::Progress;
use crate::show;
use ein_plan::plan::compare;
use ein_run::ParameterSource;
use ein_task::units::{Bytes, Seconds};
use einsummable::embed::{EmbedError, Embedder};
use einsummable::generate::{GenerateError, Generator};
use einsummable::models::{CausalLm, Folder, ModelConfig};
use einsummable::tokenizer::Tokenizer;
use einsummable::{Compiled, Session, SessionError, synthetic};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// The name of the model that needs no file.
const SYNTHETIC: &str = "synthetic:llama";

/// Tokens to append where no number is given.
const NEW_TOKENS: usize = 16;

/// `ein run`.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let (machine, runner) = asked::runner(&args.asked, args.trace.is_some())?;
    let options = asked::options(&args.asked, &machine)?;
    output::writable(args.trace.as_ref())?;
    let session =
        Session::new(machine).with_runner(runner).with_options(options).with_cache(asked::cache(&args.asked).into());
    let path = Path::new(&args.model);
    if !path.is_file() && (!args.set.is_empty() || args.tensors.is_some()) {
        return Err(Failure::request(format!(
            "{}: --set and --tensors give values to a graph in text form; a model takes --text or --pixels",
            args.model
        )));
    }
    if args.model == SYNTHETIC {
        takes_texts(args)?;
        let (config, weights) = synthetic::llama(0);
        return generate(args, &session, &config, &weights, &Words::Bytes);
    }
    if path.is_file() {
        return graphs::run(args, &session, path);
    }
    if !path.is_dir() {
        return Err(Failure::request(format!(
            "{}: there is no such folder or file; expected is a Hugging Face folder (config.json, tokenizer.json, model.safetensors), a graph in text form, or {SYNTHETIC}",
            args.model
        )));
    }
    let folder = Folder::open(path).map_err(Failure::request)?;
    match (&folder.config, folder.config.causal_lm()) {
        (ModelConfig::Vit(config), _) => images::classify(args, &session, config, &folder.weights),
        (ModelConfig::Encoder(_), _) => {
            takes_texts(args)?;
            match args.new_tokens {
                Some(n) => Err(Failure::request(format!(
                    "--new-tokens {n}: {} is a sentence model, which embeds texts and does not continue them; leave the option out",
                    args.model
                ))),
                None => embed(args, &session, path),
            }
        }
        (_, Some(config)) => {
            takes_texts(args)?;
            let tokenizer = folder.tokenizer().map_err(Failure::request)?;
            generate(args, &session, config, &folder.weights, &Words::Tokenizer(Box::new(tokenizer)))
        }
        (config, None) => Err(Failure::request(format!(
            "{}: a {} neither embeds nor continues texts; `ein plan` and `ein explain` take it",
            args.model,
            config.architecture()
        ))),
    }
}

fn takes_texts(args: &RunArgs) -> Result<(), Failure> {
    match &args.pixels {
        None if args.text.is_empty() => {
            Err(Failure::request(format!("{} is a model of texts; give it some with --text", args.model)))
        }
        None => Ok(()),
        Some(file) => Err(Failure::request(format!(
            "--pixels {}: {} is a model of texts; give it some with --text",
            file.display(),
            args.model
        ))),
    }
}

fn embed(args: &RunArgs, session: &Session, folder: &Path) -> Result<(), Failure> {
    let mut embedder = Embedder::open(session, folder).map_err(embedding)?;
    let texts: Vec<&str> = args.text.iter().map(String::as_str).collect();
    let vectors = {
        let _progress = Progress::start("planning, loading and running");
        embedder.embed(&texts).map_err(embedding)?
    };
    if let Some(n) = vectors.iter().position(|v| v.iter().any(|x| !x.is_finite())) {
        return Err(Failure::run(format!(
            "the embedding of text [{n}] is not finite; the weights are not what they should be"
        )));
    }
    // Before the check, which reads every weight once more.
    let (read, held) = (embedder.weights().bytes_read(), embedder.weights().bytes());
    let compiled = embedder.compiled().ok_or_else(|| Failure::run("nothing was run"))?;
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
        return finish_json(
            args,
            compiled,
            &outputs,
            error,
            json!({ "weight_bytes": held, "weight_bytes_read": read }),
        );
    }
    let mut out = String::new();
    for (n, text) in texts.iter().enumerate() {
        let _ = writeln!(out, "  [{n}] {}", show::excerpt(text));
    }
    for (a, b, c) in &similarities {
        let _ = writeln!(out, "  cosine [{a}] · [{b}] = {c:.6}");
    }
    let _ = writeln!(out, "  weights      {} in files, {} read", Bytes(held), Bytes(read));
    finish_text(args, compiled, error, out)
}

fn generate(
    args: &RunArgs,
    session: &Session,
    config: &dyn CausalLm,
    weights: &dyn ParameterSource,
    words: &Words,
) -> Result<(), Failure> {
    let prompts: Vec<Vec<i64>> = args.text.iter().map(|text| words.encode(text)).collect::<Result<_, _>>()?;
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
    let new_tokens = args.new_tokens.unwrap_or(NEW_TOKENS);
    // The last token is not read again.
    let capacity = longest.saturating_add(new_tokens - 1).max(1);
    if let Some((text, _)) = args.text.iter().zip(&prompts).find(|(_, tokens)| tokens.is_empty()) {
        return Err(Failure::request(format!("--text {text:?} has no token; a prompt needs at least one")));
    }
    if capacity > config.max_positions() {
        return Err(Failure::request(format!(
            "the longest text has {longest} tokens and {new_tokens} more are asked for, but the model has {} positions",
            config.max_positions()
        )));
    }
    let progress = Progress::start("planning and loading");
    let mut generator = Generator::new(session, config, weights, capacity).map_err(generating)?;
    drop(progress);
    let mut continuations = Vec::new();
    for prompt in &prompts {
        let _progress = Progress::start("running");
        continuations.push(generator.greedy(prompt, new_tokens).map_err(generating)?);
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
    let mut out = String::new();
    for ((prompt, ids), text) in args.text.iter().zip(&continuations).zip(&texts) {
        let _ = writeln!(out, "  {} ⟶ {}", show::excerpt(prompt), show::escaped(text));
        let _ = writeln!(out, "    tokens {ids:?}");
    }
    finish_text(args, compiled, error, out)
}

/// How far the last run's results are from the reference's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Error {
    /// The largest absolute difference.
    largest: f64,
    /// The largest difference in parts of the largest magnitude of its output, where that is more than 1.
    relative: f64,
}

/// Compares the last run with the reference, if asked to.
pub(crate) fn check(
    args: &RunArgs,
    compiled: &Compiled,
    weights: &dyn ParameterSource,
) -> Result<Option<Error>, Failure> {
    if !args.check {
        return Ok(None);
    }
    let _progress = Progress::start("checking against the dense reference");
    let errors = compiled.errors(weights).map_err(session)?;
    let largest = errors.iter().map(|&(error, _)| error).fold(0.0, f64::max);
    let relative = errors.iter().map(|&(error, size)| error / size.max(1.0)).fold(0.0, f64::max);
    Ok(Some(Error { largest, relative }))
}

/// What single precision may differ by between two orders of summation in models of this depth, in parts of the largest
/// value.
const TOLERANCE: f64 = 1e-3;

fn verdict(error: Option<Error>) -> Result<(), Failure> {
    match error {
        Some(Error { largest, relative }) if relative.is_nan() || relative > TOLERANCE => {
            Err(Failure::Differs(format!(
                "the result differs from the one-device reference by up to {largest:.3e}, which is {relative:.1e} of the \
                 largest value: more than {TOLERANCE:.0e}"
            )))
        }
        _ => Ok(()),
    }
}

fn trace(args: &RunArgs, compiled: &Compiled) -> Result<(), Failure> {
    match &args.trace {
        Some(path) => output::write(path, &compiled.timeline().to_chrome_json()),
        None => Ok(()),
    }
}

pub(crate) fn finish_text(
    args: &RunArgs,
    compiled: &Compiled,
    error: Option<Error>,
    mut out: String,
) -> Result<(), Failure> {
    trace(args, compiled)?;
    let plan = compiled.plan();
    if let Some(Error { largest, .. }) = error {
        let _ = writeln!(out, "  check        largest difference to the one-device reference {largest:.3e}");
    }
    let seconds = Seconds(compiled.seconds());
    let on = if compiled.is_on_gpus() { "GPUs" } else { "CPU threads" };
    let _ = writeln!(out, "  ran in       {seconds} (the last run), on {on}");
    out += &show::report(&plan.report, compiled.origin());
    let scratch = compiled.scratch().iter().max().copied().unwrap_or_default();
    if scratch.0 > 0 {
        let _ = writeln!(out, "  scratch      at most {scratch} a device besides its arena, for what kernels need");
    }
    if args.compare {
        let strategies = compare(&plan.graph, &plan.machine, &plan.options);
        let _ = write!(out, "\n{}", show::strategies(&plan.report, &strategies));
    }
    if args.explain {
        let _ = write!(out, "\n{}", ein_plan::explain::explain(plan).map_err(refused)?);
    }
    output::print(&out)?;
    verdict(error)
}

pub(crate) fn finish_json(
    args: &RunArgs,
    compiled: &Compiled,
    outputs: &Value,
    error: Option<Error>,
    more: Value,
) -> Result<(), Failure> {
    trace(args, compiled)?;
    let plan = compiled.plan();
    let mut value = json!({
        "outputs": outputs,
        "seconds": compiled.seconds(),
        "scratch_per_device": compiled.scratch(),
        "plan": show::report_json(&plan.report, compiled.origin())?,
    });
    if let (Some(all), Value::Object(more)) = (value.as_object_mut(), more) {
        all.extend(more);
        if let Some(error) = error {
            all.insert("max_abs_error_vs_reference".into(), json!(error.largest));
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
    output::print(&format!("{value:#}\n"))?;
    verdict(error)
}

/// How text becomes ids.
enum Words {
    /// As the folder's tokenizer says.
    Tokenizer(Box<Tokenizer>),
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

pub(crate) fn session(error: SessionError) -> Failure {
    match error {
        SessionError::Plan(error) => refused(error),
        SessionError::Scratch { .. } | SessionError::NoRoom { .. } => Failure::DoesNotFit(error.to_string()),
        SessionError::Tensor(_) | SessionError::Parameter { .. } => Failure::request(error),
        SessionError::Run(_) | SessionError::Output(_) => Failure::run(error),
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
        GenerateError::NotANumber { .. } => Failure::run(error),
        GenerateError::Empty
        | GenerateError::Token { .. }
        | GenerateError::Capacity { .. }
        | GenerateError::Positions { .. } => Failure::request(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_its_own_exit_code() {
        let check = |relative: Option<f64>, expected: Option<u8>| {
            let error = relative.map(|relative| Error { largest: 7.0, relative });
            assert_eq!(verdict(error).err().map(|failure| failure.code()), expected, "{error:?}");
        };
        check(None, None);
        check(Some(0.0), None);
        check(Some(TOLERANCE), None);
        check(Some(2.0 * TOLERANCE), Some(4));
        check(Some(f64::INFINITY), Some(4));
        check(Some(f64::NAN), Some(4));
    }
}
