//! `PyTorch`'s own word on the vectors that the tests compare with.

use crate::{python, step};

/// Makes a virtual environment with `PyTorch` in the target folder, unless it is there, and compares what is
/// stored in `tests/vectors/` with what this `PyTorch` computes.
pub fn run() -> Result<(), String> {
    let python = python::environment("torch", &["torch", "numpy"])?.join("bin/python");
    step(&python.to_string_lossy(), &["tests/vectors/make.py", "--check"], &[])
}
