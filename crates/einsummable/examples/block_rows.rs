//! Where the time of a decoder block goes on one device, row by row:
//! `cargo run --release -p einsummable --example block_rows -- 1024 8 8 4 512`: hidden size, heads, key/value heads,
//! batch and sequence; a sequence of 1 is a step of generation behind `--past` tokens (512).

use einsummable::models::{DecoderConfig, DecoderLayer, KeyValues};
use einsummable::nn::Scope;
use einsummable::nn::rotary::{Positions, Rotary};
use einsummable::synthetic::SyntheticWeights;
use einsummable::{DType, Dense, Session, Tensor};
use std::collections::BTreeMap;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|n| arguments.get(n + 1));
    let sizes: Vec<usize> = arguments.iter().map_while(|a| a.parse().ok()).collect();
    let &[d, heads, kv, batch, sequence] = sizes.as_slice() else {
        return Err("hidden size, heads, key/value heads, batch and sequence are expected".into());
    };
    let past: usize = value("--past").map_or(Ok(512), |v| v.parse())?;
    let rounds: usize = value("--rounds").map_or(Ok(15), |v| v.parse())?;
    let dtype = if arguments.iter().any(|a| a == "--bf16") { DType::BF16 } else { DType::F32 };
    let inner = (8 * d).div_ceil(3).div_ceil(256) * 256;
    let config =
        DecoderConfig { dtype, rotary: Rotary::new(10_000.0), ..DecoderConfig::of_sizes(d, heads, kv, inner, 1, 1000) };
    let mut given: BTreeMap<String, Dense> = BTreeMap::new();
    let mut input = |name: &str, shape: &[usize]| {
        let count: usize = shape.iter().product();
        let values: Vec<f64> = (0..count).map(|n| f64::from((n * 7919 % 2001) as u32) / 1000.0 - 1.0).collect();
        given.insert(name.into(), Dense::from_f64(dtype, shape.to_vec(), &values));
    };
    let x = Tensor::input("input", [batch, sequence, d], dtype);
    input("input", &[batch, sequence, d]);
    let layer = DecoderLayer::new(&Scope::root(dtype), &config, 0);
    let y = if sequence > 1 {
        layer.forward(&x, None, Positions::default())
    } else {
        let shape = [batch, kv, past, config.head_dim];
        let mut cache = |name: &str| {
            input(name, &shape);
            Tensor::state(name, shape, dtype)
        };
        let cache = KeyValues { keys: cache("keys"), values: cache("values") };
        layer.step(&x, &cache, Positions { start: past, ..Positions::default() }).0
    };
    let mut compiled = Session::cpu(1)?.compile_with(&[("output", &y)], &SyntheticWeights::new(7))?;
    let mut rows: BTreeMap<u32, (String, Vec<f64>)> = BTreeMap::new();
    let mut totals: Vec<f64> = Vec::new();
    for round in 0..=rounds {
        compiled.run(given.clone())?;
        if round == 0 {
            continue;
        }
        totals.push(compiled.seconds());
        for event in &compiled.timeline().events {
            let row = rows.entry(event.task).or_insert_with(|| (event.name.clone(), Vec::new()));
            row.1.push(event.end.0 - event.start.0);
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2] * 1e3
    };
    let total = median(&mut totals);
    for (task, (name, times)) in &mut rows {
        let time = median(times);
        if time >= 0.0005 * total {
            println!("{task:>5} {time:>9.3} ms {:>5.1} %  {name}", 100.0 * time / total);
        }
    }
    println!("whole {total:>9.3} ms, least {:.3} ms", totals[0] * 1e3);
    Ok(())
}
