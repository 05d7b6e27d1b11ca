//! `PyTorch`'s own word on the vectors that the tests compare with.

use crate::{root, step};

/// Makes a virtual environment with `PyTorch` in the target folder, unless it is there, and compares what is
/// stored in `tests/vectors/` with what this `PyTorch` computes.
pub fn run() -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let environment = root().join(target).join("torch");
    let python = environment.join("bin/python");
    let python = python.to_string_lossy();
    // The marker is written last, so that an environment that is there is whole.
    let whole = environment.join("whole");
    if !whole.is_file() {
        step("python3", &["-m", "venv", "--clear", &environment.to_string_lossy()], &[])?;
        step(&python, &["-m", "pip", "install", "--quiet", "torch", "numpy"], &[])?;
        std::fs::write(&whole, "").map_err(|e| format!("cannot write {}: {e}", whole.display()))?;
    }
    step(&python, &["tests/vectors/make.py", "--check"], &[])
}
