//! What the examples have in common: a network with synthetic weights on several devices, its plan, and the comparison
//! with one device.

use einsummable::synthetic::SyntheticWeights;
use einsummable::{Dense, Session, Tensor};
use std::error::Error;

/// `--devices N`, or 3.
fn devices() -> Result<usize, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => Ok(3),
        ["--devices", n] => Ok(n.parse()?),
        other => Err(format!("`--devices N` is expected, not {other:?}").into()),
    }
}

/// Runs a network on as many devices as the command line says, prints its plan, and compares with one device.
pub fn show(name: &str, input: &Tensor, output: &Tensor) -> Result<(), Box<dyn Error>> {
    let devices = devices()?;
    let weights = SyntheticWeights::new(7);
    let run = |devices: usize| -> Result<(Dense, String), Box<dyn Error>> {
        let mut compiled = Session::cpu(devices)?.compile_with(&[("output", output)], &weights)?;
        let count: usize = input.shape().iter().product();
        // The same everywhere, and of both signs.
        let values: Vec<f64> = (0..count).map(|n| f64::from((n * 7919 % 2001) as u32) / 1000.0 - 1.0).collect();
        let given = Dense::from_f64(input.dtype(), input.shape(), &values);
        let mut found = compiled.run([("input", given)])?;
        let report = &compiled.plan().report;
        let plan = format!(
            "cost {:.6} {}, {} between devices, planned in {:.2} s, run in {:.3} s",
            report.cost,
            report.cost_unit,
            report.bytes_total,
            report.planning_seconds.0,
            compiled.seconds()
        );
        Ok((found.remove("output").expect("the output"), plan))
    };
    let (several, plan) = run(devices)?;
    let (one, alone) = run(1)?;
    println!("{name}: {:?} to {:?}", input.shape(), several.shape);
    println!("  on {devices}: {plan}");
    println!("  on 1: {alone}");
    let most = one.to_f64().iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    let off = several.max_abs_difference(&one) / most.max(1.0);
    println!("  largest difference, relative: {off:.1e}");
    if off > 1e-4 { Err(format!("{devices} devices give something else than one").into()) } else { Ok(()) }
}
