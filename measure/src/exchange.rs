//! `measure exchange`: what synthesised exchange programs achieve, table by table, each with its bar.

pub mod interpret;
pub mod judge;
pub mod known;
pub mod machines;
pub mod named;
pub mod questions;
pub mod random;
pub mod rivals;
pub mod small;
pub mod speed;
pub mod whole;
pub mod writer;

use crate::report::Section;
use clap::{Args, ValueEnum};
use std::process::ExitCode;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Questions with a name, and relayouts, on every preset
    Named,
    /// Questions whose answer is known
    Known,
    /// Small messages
    Small,
    /// Random questions on random machines
    Random,
    /// The same of a monoid that is ordered
    Ordered,
    /// How long synthesis takes
    Speed,
    /// Whole plans, against naive exchange
    Whole,
}

/// The options of `measure exchange`.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Only these parts (all if none is given)
    #[arg(long, value_enum, value_delimiter = ',')]
    pub what: Vec<What>,
    /// Only these presets
    #[arg(long, value_delimiter = ',')]
    pub machine: Vec<String>,
    /// Only these questions, such as `all-reduce` or `3→5`
    #[arg(long, value_delimiter = ',')]
    pub question: Vec<String>,
    /// Only these sizes, such as 64MiB
    #[arg(long, value_delimiter = ',')]
    pub size: Vec<String>,
    /// How many random questions
    #[arg(long, default_value_t = 2000)]
    pub draws: u64,
    /// The seed of random questions
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Show one random question, its figures and its program, and measure nothing else
    #[arg(long)]
    pub draw: Option<u64>,
    /// Fewer sizes and relayouts
    #[arg(long)]
    pub quick: bool,
    /// Print only: do not fail where a bar is missed
    #[arg(long)]
    pub report: bool,
    /// Print every row, not only the worst
    #[arg(long)]
    pub rows: bool,
}

/// Measures and prints; fails if a bar is missed.
pub fn run(arguments: &Arguments) -> ExitCode {
    if let Some(draw) = arguments.draw {
        print!("{}", random::shown(arguments.seed, draw));
        return ExitCode::SUCCESS;
    }
    let wanted = |what: What| arguments.what.is_empty() || arguments.what.contains(&what);
    let mut sections: Vec<Section> = Vec::new();
    let mut add = |section: Section| {
        println!("{}", section.markdown());
        sections.push(section);
    };
    if wanted(What::Named) {
        for issue in named::ISSUES {
            add(named::section(arguments, issue));
        }
    }
    if wanted(What::Known) {
        add(known::section());
    }
    if wanted(What::Small) {
        add(small::section());
    }
    if wanted(What::Random) {
        add(random::section(arguments.seed, arguments.draws));
    }
    if wanted(What::Ordered) {
        add(random::ordered_section(arguments.seed, arguments.draws.min(500)));
    }
    if wanted(What::Speed) {
        add(speed::section());
    }
    if wanted(What::Whole) {
        add(whole::section());
    }
    let passed = sections.iter().all(Section::passed);
    println!("{}", if passed { "All bars are passed." } else { "Some bars are missed." });
    if passed || arguments.report { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
