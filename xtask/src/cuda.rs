//! Kernels for NVIDIA GPUs, compiled where there is none.

use crate::{python, step};
use std::path::PathBuf;

/// NVIDIA's run-time compiler as a Python package, of the version of the oldest driver that is meant to run (580): what a
/// newer one compiles, that driver might not load.
const COMPILER: &str = "nvidia-cuda-nvrtc==13.0.88";

/// Compiles every kernel of the corpus for every architecture, and fails if one does not compile or keeps values outside
/// of registers.
pub fn compile(arguments: &[String]) -> Result<(), String> {
    let library = compiler()?;
    let mut command = vec!["run", "--quiet", "--package", "ein-measure", "--", "kernels"];
    command.extend(arguments.iter().map(String::as_str));
    step("cargo", &command, &[("EIN_NVRTC", &library.to_string_lossy())])
}

/// Makes a virtual environment with the compiler in the target folder, unless it is there; the folder of its library.
pub fn compiler() -> Result<PathBuf, String> {
    let environment = python::environment("nvrtc", &["--no-deps", COMPILER])?;
    let pythons = std::fs::read_dir(environment.join("lib")).map_err(|e| e.to_string())?;
    pythons
        .filter_map(|entry| Some(entry.ok()?.path().join("site-packages/nvidia/cu13/lib")))
        .find(|folder| folder.join("libnvrtc.so.13").is_file())
        .ok_or(format!("{COMPILER} has no libnvrtc.so.13 below {}", environment.display()))
}
