//! Kernels for NVIDIA GPUs, compiled where there is none.

use crate::{root, step};
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
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let environment = root().join(target).join("nvrtc");
    // The marker is written last, so that an environment that is there is whole.
    let whole = environment.join(COMPILER);
    if !whole.is_file() {
        step("python3", &["-m", "venv", "--clear", &environment.to_string_lossy()], &[])?;
        let python = environment.join("bin/python");
        step(&python.to_string_lossy(), &["-m", "pip", "install", "--quiet", "--no-deps", COMPILER], &[])?;
        std::fs::write(&whole, "").map_err(|e| format!("cannot write {}: {e}", whole.display()))?;
    }
    let pythons = std::fs::read_dir(environment.join("lib")).map_err(|e| e.to_string())?;
    pythons
        .filter_map(|entry| Some(entry.ok()?.path().join("site-packages/nvidia/cu13/lib")))
        .find(|folder| folder.join("libnvrtc.so.13").is_file())
        .ok_or(format!("{COMPILER} has no libnvrtc.so.13 below {}", environment.display()))
}
