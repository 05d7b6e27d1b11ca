//! `cargo xtask measure <what>`: one module a subcommand.

use clap::{Parser, Subcommand};
use ein_measure::{cpu, exchange, kernels, plan, simulator};
use std::process::ExitCode;

/// Measures, and compares with bars.
#[derive(Debug, Parser)]
#[command(name = "measure", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The CPU device: beside other programs, on more devices, its overheads and its memory
    Cpu(cpu::Arguments),
    /// Exchange programs: simulated time against bounds and against programs written by hand
    Exchange(exchange::Arguments),
    /// Every GPU kernel of a broad corpus: whether it compiles, and what it takes of registers
    Kernels(kernels::Arguments),
    /// The search: what its plans cost, and how long they take to find
    Plan(plan::Arguments),
    /// One plan: its figures as JSON
    One(plan::question::Question),
    /// The simulator: plans simulated on this host's fitted machine, and run on its threads
    Simulator(simulator::Arguments),
}

fn main() -> ExitCode {
    match Cli::parse().what {
        What::Cpu(arguments) => cpu::run(&arguments),
        What::Exchange(arguments) => exchange::run(&arguments),
        What::Kernels(arguments) => kernels::run(&arguments),
        What::Plan(arguments) => plan::run(&arguments),
        What::One(question) => plan::one::run(&question),
        What::Simulator(arguments) => simulator::run(&arguments),
    }
}
