//! The `ein` command: `run`, `plan`, `explain`, `simulate`, `bench`, `format`, `machine`.

mod args;
mod asked;
mod bench_command;
mod diff_command;
mod failure;
mod format_command;
mod gpus;
mod graphs;
mod images;
mod machine_command;
mod output;
mod plan_command;
mod progress;
mod run_command;
mod show;
mod source;

use clap::Parser;
use std::io::Write as _;
use std::process::ExitCode;

/// What `ein` does, with this process's arguments.
pub fn main() -> ExitCode {
    ExitCode::from(run())
}

/// As [`main`]: the exit code.
pub fn run() -> u8 {
    let cli = args::Cli::parse();
    let result = match &cli.command {
        args::Command::Run(run) => run_command::run(run),
        args::Command::Plan(plan) => match &plan.also {
            Some(args::AlsoPlan::Diff(diff)) => diff_command::diff(diff),
            None => plan_command::plan(plan),
        },
        args::Command::Explain(explain) => plan_command::explain(explain),
        args::Command::Simulate(simulate) => plan_command::simulate(simulate),
        args::Command::Bench(bench) => bench_command::bench(bench),
        args::Command::Format(format) => format_command::format(format),
        args::Command::Machine(machine) => machine_command::machine(machine),
    };
    match result {
        Ok(()) => 0,
        Err(failure) => {
            // Where nobody listens there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "ein: {failure}");
            failure.code()
        }
    }
}
