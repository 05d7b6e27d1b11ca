//! `measure plan`: what the search finds and how long it takes, table by table, each with its bar.
//!
//! Every plan is made by a process of its own ([`question`]), so that its memory is its own and so that one that takes
//! too long is stopped and told of instead of holding up the rest.

pub mod blocks;
pub mod first_principles;
pub mod gemm;
pub mod graphs;
pub mod long;
pub mod measured;
pub mod memory;
pub mod one;
pub mod prototype;
pub mod question;
pub mod random;
pub mod speed;
pub mod tiny;
pub mod train;
pub mod xla;

use crate::report::{Section, judged};
use clap::{Args, ValueEnum};
use std::process::ExitCode;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// How long planning takes, and how much memory
    Speed,
    /// Bytes moved by single products on 2 to 16 devices
    Gemm,
    /// Blocks on machines, against every fixed strategy that is balanced and fits
    Blocks,
    /// Whole models on `8xa100-ideal`, against plans priced from first principles
    Prototype,
    /// A sequence of 131,072 tokens
    Long,
    /// A model that fills the memory
    Memory,
    /// Plans drawn from the candidates
    Random,
    /// Drawn plans run on threads of this host
    Measured,
    /// Tiny networks in the memory that a fixed strategy takes
    Tiny,
    /// A block's bytes, against what compiled modules of another system move
    Xla,
    /// A training step's bytes
    Train,
}

impl What {
    fn section(self, arguments: &Arguments) -> Section {
        match self {
            What::Speed => speed::section(arguments),
            What::Gemm => gemm::section(arguments),
            What::Blocks => blocks::section(arguments),
            What::Prototype => prototype::section(arguments),
            What::Long => long::section(arguments),
            What::Memory => memory::section(arguments),
            What::Random => random::section(arguments),
            What::Measured => measured::section(arguments),
            What::Tiny => tiny::section(arguments),
            What::Xla => xla::section(arguments),
            What::Train => train::section(arguments),
        }
    }
}

/// The options of `measure plan`.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Only these parts (all if none is given)
    #[arg(long, value_enum, value_delimiter = ',')]
    pub what: Vec<What>,
    /// Only rows of these machines, such as `dgx-1v` or `8xa100:6` for six of its devices
    #[arg(long, value_delimiter = ',')]
    pub machine: Vec<String>,
    /// Only rows of workloads whose name contains this
    #[arg(long, default_value = "")]
    pub workload: String,
    /// Fewer rows
    #[arg(long)]
    pub quick: bool,
    /// Print every row, not only the worst
    #[arg(long)]
    pub rows: bool,
    /// Print only: do not fail where a bar is missed
    #[arg(long)]
    pub report: bool,
    /// The most seconds a plan may take before it is stopped
    #[arg(long, default_value_t = 300.0)]
    pub limit: f64,
}

impl Arguments {
    /// Whether a row of this workload on this machine was asked for.
    pub fn wants(&self, workload: &str, machine: &str) -> bool {
        (self.machine.is_empty() || self.machine.iter().any(|m| m == machine)) && workload.contains(&self.workload)
    }
}

/// Measures and prints; fails if a bar is missed.
pub fn run(arguments: &Arguments) -> ExitCode {
    let wanted = |what: &&What| arguments.what.is_empty() || arguments.what.contains(what);
    let sections = What::value_variants().iter().filter(wanted).map(|what| what.section(arguments));
    judged(sections, arguments.report, "no row has that workload and machine")
}
