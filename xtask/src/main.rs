//! Chores of the project: `cargo xtask ci` is what CI runs, `cargo xtask model` fetches the model of the demo,
//! `cargo xtask cuda-compile` compiles the kernels of GPUs, `cargo xtask vectors` asks `PyTorch` whether it still computes
//! what the tests compare with.

mod ci;
mod cuda;
mod measure;
mod model;
mod nightly;
mod python;
mod vectors;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <chore>

  ci            everything that must hold: format, lints, documentation, tests (and the model they need), `cuda-compile`
  cuda-compile  compiles the kernels of a broad corpus for NVIDIA GPUs, without one (fetches NVRTC)
  measure       measures with bars: `cargo xtask measure --help` says what
  model         fetches all-MiniLM-L6-v2 into models/ and prints the folder
  nightly       the random tests at their full size, and `vectors`: what .ci/nightly runs
  vectors       compares the stored vectors of tests/vectors/ with what PyTorch computes now (fetches PyTorch)
";

fn main() -> ExitCode {
    let chore = std::env::args().nth(1);
    let result = match chore.as_deref() {
        Some("ci") => ci::run(),
        Some("nightly") => nightly::run(),
        Some("vectors") => vectors::run(),
        Some("cuda-compile") => cuda::compile(&std::env::args().skip(2).collect::<Vec<_>>()),
        Some("measure") => measure::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        Some("model") => model::fetch().map(|folder| println!("{}", folder.display())),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a program in the repository's root, showing what it prints.
fn step(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<(), String> {
    eprintln!("$ {program} {}", arguments.join(" "));
    let started = std::time::Instant::now();
    let status = std::process::Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(root())
        .status()
        .map_err(|e| format!("cannot start `{program}`: {e}"))?;
    eprintln!("  {:.0} s", started.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("`{program} {}` failed ({status})", arguments.join(" "))) }
}

/// Where what is built goes.
fn target() -> std::path::PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The repository's root.
fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_path_buf()
}
