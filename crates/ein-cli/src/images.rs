//! `ein run --pixels`: the classes of images.

use crate::args::Run as RunArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::run_command::{check, finish_json, finish_text, session as failed};
use crate::show;
use ein_ir::graph::TensorType;
use einsummable::models::{Head, ModelConfig, VitConfig, vit};
use einsummable::weights::Weights;
use einsummable::{Dense, Session};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Classes that are printed of each image.
const BEST: usize = 5;

/// Runs a vision transformer on the images of a file.
pub fn classify(args: &RunArgs, session: &Session, config: &VitConfig, weights: &Weights) -> Result<(), Failure> {
    let Some(file) = &args.pixels else {
        let why = format!("a {} takes images; give it some with --pixels FILE", config.architecture);
        return Err(Failure::request(format!("{}: {why}", args.model)));
    };
    if config.architecture.head() != Head::ImageClassification {
        let why = format!("a {} has no classes; `ein plan` and `ein explain` take it", config.architecture);
        return Err(Failure::request(format!("{}: {why}", args.model)));
    }
    let pixels = read(file, config)?;
    let progress = Progress::start("planning, loading and running");
    let (name, logits) = ModelConfig::Vit(config.clone()).outputs(pixels.shape[0], config.sequence());
    let mut compiled = session.compile_with(&[(name, &logits)], weights).map_err(failed)?;
    let outputs = compiled.run([(vit::PIXELS, pixels)]).map_err(failed)?;
    drop(progress);
    let logits = outputs[name].to_f64();
    if logits.iter().any(|v| !v.is_finite()) {
        return Err(Failure::run("the scores are not finite; the weights are not what they should be"));
    }
    let error = check(args, &compiled, weights)?;
    let images: Vec<Vec<(usize, f64)>> = logits.chunks(config.labels.len()).map(probabilities).collect();
    if args.asked.json {
        let of = |classes: &Vec<(usize, f64)>| -> Value {
            let class = |&(n, p): &(usize, f64)| json!({ "class": n, "label": config.labels[n], "probability": p });
            classes.iter().map(class).collect()
        };
        let outputs: Vec<Value> = images.iter().map(of).collect();
        return finish_json(args, &compiled, &json!(outputs), error, json!({}));
    }
    let mut out = String::new();
    for (n, classes) in images.iter().enumerate() {
        for (class, probability) in classes.iter().take(BEST) {
            let _ = writeln!(out, "  [{n}] {:6.2} %  {}", 100.0 * probability, show::escaped(&config.labels[*class]));
        }
    }
    finish_text(args, &compiled, error, out)
}

/// The images of a file, in the model's type.
fn read(file: &Path, config: &VitConfig) -> Result<Dense, Failure> {
    let wrong = |reason: String| Failure::request(format!("--pixels {}: {reason}", file.display()));
    let pixels = Weights::open_file(file).map_err(|e| wrong(e.to_string()))?;
    let [height, width] = config.image_size;
    let image = [config.num_channels, height, width];
    let shape = pixels.shape(vit::PIXELS).ok_or_else(|| wrong(format!("it has no tensor `{}`", vit::PIXELS)))?;
    if shape.len() != 4 || shape[0] == 0 || shape[1..] != image {
        return Err(wrong(format!("`{}` is {shape:?}, but the model needs [images, {image:?}]", vit::PIXELS)));
    }
    let ty = TensorType::new(config.dtype, shape);
    let mut bytes = vec![0; ty.bytes() as usize];
    pixels
        .check_tensor(vit::PIXELS, &ty)
        .and_then(|()| pixels.read(vit::PIXELS, &ty, &ty.whole(), &mut bytes))
        .map_err(|e| wrong(e.to_string()))?;
    Dense::from_le_bytes(&ty, &bytes).ok_or_else(|| wrong("its values are no numbers".into()))
}

/// The classes of one image with their probabilities, the likeliest first, the lower class first among equals.
fn probabilities(logits: &[f64]) -> Vec<(usize, f64)> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = logits.iter().map(|l| (l - most).exp()).sum();
    let mut all: Vec<(usize, f64)> = logits.iter().map(|l| (l - most).exp() / total).enumerate().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all
}
