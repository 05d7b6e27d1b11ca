//! `measure cpu`: the CPU device beside `PyTorch` and JAX, beside itself on more devices, and beside what the host can do
//! at most.
//!
//! Every row is a run of `ein bench` in a process of its own, which times all sides in turns and compares what they compute;
//! a ratio is the median over its turns.

pub mod overhead;
pub mod row;

use crate::report::{Section, judged};
use clap::{Args, ValueEnum};
use row::{Row, geometric_mean};
use std::path::PathBuf;
use std::process::ExitCode;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Decoder layers of whole sequences
    Block,
    /// One new token behind a cache
    Decode,
    /// Causal attention alone
    Attention,
    /// Products of eight matrices
    Chain,
    /// A real encoder on 32 texts
    Minilm,
    /// Decoder layers in bf16
    Bf16,
    /// Eight virtual devices against one
    Devices,
    /// Time of a task beside its work
    Overhead,
    /// Memory of a real model
    Memory,
}

/// The options of `measure cpu`.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Only these parts (all if none is given)
    #[arg(long, value_enum, value_delimiter = ',')]
    pub what: Vec<What>,
    /// Only rows of workloads whose name contains this
    #[arg(long, default_value = "")]
    pub workload: String,
    /// Fewer rows
    #[arg(long)]
    pub quick: bool,
    /// Print only: do not fail where a bar is missed
    #[arg(long)]
    pub report: bool,
    /// The Python that has torch, jax and transformers
    #[arg(long, default_value = "python3")]
    pub python: PathBuf,
    /// What to compare with
    #[arg(long, default_value = "torch,jax")]
    pub compare: String,
    /// Threads of every side
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Turns of which medians are taken
    #[arg(long, default_value_t = 9)]
    pub runs: usize,
    /// The folder of all-MiniLM-L6-v2; `cargo xtask model` fetches it
    #[arg(long, default_value = "models/all-MiniLM-L6-v2")]
    pub model: PathBuf,
}

impl Arguments {
    fn wants(&self, workload: &str) -> bool {
        workload.contains(&self.workload)
    }
}

/// Features, heads and hidden features of the layers.
const LAYERS: [(usize, usize, usize); 4] = [(512, 8, 1536), (1024, 8, 2816), (1024, 16, 2816), (2048, 16, 5632)];

/// Measures and prints; fails if a bar is missed.
pub fn run(arguments: &Arguments) -> ExitCode {
    let wanted = |what: &&What| arguments.what.is_empty() || arguments.what.contains(what);
    let sections = What::value_variants().iter().filter(wanted).map(|what| what.section(arguments));
    judged(sections, arguments.report, "no row has that workload")
}

impl What {
    fn section(self, arguments: &Arguments) -> Section {
        match self {
            What::Block => {
                let sizes = if arguments.quick { &[(1, 512), (8, 128)][..] } else { &GRID };
                let rows = sizes.iter().flat_map(|&(batch, tokens)| {
                    LAYERS.map(|(d, heads, hidden)| format!("block:{batch}x{tokens},{d},{heads},{heads},{hidden}"))
                });
                against(
                    "Decoder layers, f32",
                    &rows.collect::<Vec<_>>(),
                    Bar { mean: 0.90, worst: Some(1.05) },
                    arguments,
                )
            }
            What::Decode => {
                let sizes = if arguments.quick { &[(1, 512)][..] } else { &CACHES };
                let rows = sizes.iter().flat_map(|&(batch, length)| {
                    LAYERS
                        .map(|(d, heads, hidden)| format!("block:decode={batch}x{length},{d},{heads},{heads},{hidden}"))
                });
                against("One new token behind a cache, f32", &rows.collect::<Vec<_>>(), Bar::mean(0.80), arguments)
            }
            What::Attention => {
                let lengths: &[usize] = if arguments.quick { &[1024] } else { &[1024, 2048, 4096, 8192] };
                let rows: Vec<_> = lengths.iter().map(|n| format!("attention:1x{n},8,8,64,causal")).collect();
                against("Causal attention alone, f32", &rows, Bar::mean(0.80), arguments)
            }
            What::Chain => {
                let sizes: &[usize] = if arguments.quick { &[1024] } else { &[1024, 2048, 4096] };
                let rows: Vec<_> = sizes.iter().map(|n| format!("chain:bushy,{n}")).collect();
                against("Products of eight matrices, f32", &rows, Bar::mean(1.00), arguments)
            }
            What::Minilm => {
                let model = arguments.model.display().to_string();
                against("MiniLM, 32 texts of 8 to 40 words", &[model], Bar::mean(0.90), arguments)
            }
            What::Bf16 => {
                let sizes = if arguments.quick { &[(1, 512)][..] } else { &[(1, 512), (8, 128), (8, 512)] };
                let rows = sizes.iter().flat_map(|&(batch, tokens)| {
                    LAYERS.map(|(d, heads, hidden)| format!("block:{batch}x{tokens},{d},{heads},{heads},{hidden},bf16"))
                });
                against("Decoder layers, bf16", &rows.collect::<Vec<_>>(), Bar::mean(1.00), arguments)
            }
            What::Devices => devices(arguments),
            What::Overhead => overhead::section(arguments),
            What::Memory => memory(arguments),
        }
    }
}

const GRID: [(usize, usize); 9] =
    [(1, 128), (1, 512), (1, 1024), (4, 128), (4, 512), (4, 1024), (8, 128), (8, 512), (8, 1024)];
const CACHES: [(usize, usize); 6] = [(1, 128), (1, 512), (1, 1024), (4, 512), (8, 128), (8, 1024)];

/// Virtual devices where there are several.
const DEVICES: usize = 8;

/// What our time over the fastest peer's may be.
#[derive(Clone, Copy)]
struct Bar {
    mean: f64,
    worst: Option<f64>,
}

impl Bar {
    fn mean(mean: f64) -> Self {
        Self { mean, worst: None }
    }
}

/// Rows against peers.
fn against(title: &str, workloads: &[String], bar: Bar, arguments: &Arguments) -> Section {
    let mut section = Section::new(title);
    let (mut ratios, mut lines) = (Vec::new(), Vec::new());
    for workload in workloads.iter().filter(|w| arguments.wants(w)) {
        match Row::measure(workload, 1, arguments) {
            Ok(row) => {
                eprintln!("  {workload}: {:.3} ms, {}", row.seconds * 1e3, row.told());
                match row.fastest() {
                    Some((_, ratio)) => ratios.push((ratio, workload.clone())),
                    None => section.verdict(workload.as_str(), "a peer", row.missing.join("; "), false),
                }
                lines.push(row.line());
            }
            Err(fault) => section.verdict(workload.as_str(), "measured", fault, false),
        }
    }
    if let Some((worst, at)) = ratios.iter().max_by(|a, b| a.0.total_cmp(&b.0)) {
        let mean = geometric_mean(ratios.iter().map(|r| r.0));
        let count = ratios.len();
        section.verdict(
            "our time ÷ the fastest peer's, geometric mean",
            format!("≤ {:.2}", bar.mean),
            format!("{mean:.3} ({count} rows, worst {worst:.3} at `{at}`)"),
            mean <= bar.mean,
        );
        if let Some(most) = bar.worst {
            let above = ratios.iter().filter(|r| r.0 > most).count();
            section.verdict("no row above", format!("≤ {most:.2}"), format!("{above} of {count} above"), above == 0);
        }
    }
    section.table(&Row::HEAD, &lines);
    section.say(&load());
    section
}

/// Eight virtual devices against one, on the same threads.
fn devices(arguments: &Arguments) -> Section {
    const BAR: f64 = 1.10;
    let mut section = Section::new("Eight virtual devices against one");
    let machine = match row::machine(DEVICES) {
        Ok(machine) => machine,
        Err(fault) => {
            section.verdict("this host as a machine", "measured", fault, false);
            return section;
        }
    };
    let sizes: &[(usize, usize)] =
        if arguments.quick { &[(1, 512)] } else { &[(1, 512), (1, 1024), (8, 128), (8, 512)] };
    let mut lines = Vec::new();
    for (d, heads, hidden) in LAYERS.into_iter().filter(|l| l.0 >= 1024) {
        for (batch, tokens) in sizes {
            let workload = format!("block:{batch}x{tokens},{d},{heads},{heads},{hidden}");
            if !arguments.wants(&workload) {
                continue;
            }
            let alone = Arguments { compare: String::new(), ..arguments.clone() };
            match Row::on(&machine, &workload, DEVICES, &alone) {
                Ok(row) => {
                    let ratio = row.over_one.unwrap_or(f64::NAN);
                    eprintln!("  {workload}: {ratio:.3}");
                    section.verdict(&workload, format!("≤ {BAR:.2}"), format!("{ratio:.3}"), ratio <= BAR);
                    let moved = format!("{:.1}", row.moved as f64 / f64::from(1 << 20));
                    lines.push(vec![workload, format!("{:.2}", row.seconds * 1e3), moved, row.tasks.to_string()]);
                }
                Err(fault) => section.verdict(&workload, "measured", fault, false),
            }
        }
    }
    section.table(&["workload", "eight devices, ms", "moved, MiB", "tasks"], &lines);
    section.say("Planned for this host as `ein machine measure` describes it, on the same threads.");
    section.say(&load());
    section
}

/// What a real model takes.
fn memory(arguments: &Arguments) -> Section {
    const BAR: f64 = 1.2;
    let mut section = Section::new("Memory of MiniLM");
    let model = arguments.model.display().to_string();
    let alone = Arguments { compare: String::new(), runs: 1, ..arguments.clone() };
    match Row::measure(&model, 1, &alone) {
        Ok(row) => {
            let live = row.live.saturating_sub(row.weights) as f64;
            let mib = |bytes: f64| format!("{:.1} MiB", bytes / f64::from(1 << 20));
            let most = row.weights as f64 + BAR * live;
            for (what, found) in [("the arena", row.arenas), ("the process, for loading and running", row.peak)] {
                section.verdict(what, format!("≤ {}", mib(most)), mib(found as f64), found as f64 <= most);
            }
        }
        Err(fault) => section.verdict(model, "measured", fault, false),
    }
    section.say("One device. The bar is the weights once and 1.2 × the largest set of tensors that live at once.");
    section
}

/// What else the host did.
pub(crate) fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown").to_owned();
    format!("Load of the host over the last minute, this measurement included: {load}.")
}
