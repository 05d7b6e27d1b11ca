//! Everything that must hold before a change lands.

use crate::{cuda, model, step, target};

/// Format, lints, documentation and tests, each without a warning, and the kernels of GPUs by NVIDIA's compiler.
pub fn run() -> Result<(), String> {
    step("cargo", &["fmt", "--all", "--check"], &[])?;
    step("cargo", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"], &[])?;
    step("cargo", &["doc", "--workspace", "--no-deps", "--quiet"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    // The tests on the real model say so and fail without it, unless it cannot be had (no network).
    let folder = model::fetch();
    let folder = match &folder {
        Ok(folder) => folder.to_string_lossy().into_owned(),
        Err(reason) if std::env::var_os("CI").is_some() => return Err(format!("the model is needed in CI: {reason}")),
        Err(reason) => {
            eprintln!("warning: tests on the real model are left out: {reason}");
            String::new()
        }
    };
    // What tests compile for fake GPUs is none of this user's kernels.
    let kept = target().join("kept").to_string_lossy().into_owned();
    let variables = [("EIN_MINILM", folder.as_str()), ("EIN_CACHE_DIR", kept.as_str())];
    step("cargo", &["test", "--workspace", "--quiet", "--no-fail-fast"], &variables)?;
    match cuda::compiler() {
        Err(reason) if std::env::var_os("CI").is_none() => {
            eprintln!("warning: kernels of GPUs are not compiled: {reason}");
            Ok(())
        }
        _ => cuda::compile(&[]),
    }
}
