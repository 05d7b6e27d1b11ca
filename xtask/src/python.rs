//! Python packages in environments of their own, in the target folder.

use crate::{step, target};
use std::path::PathBuf;

/// A virtual environment with some packages, made unless it is there.
pub fn environment(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let environment = target().join(name);
    // The marker is written last, so that an environment that is there is whole; it says what is in it.
    let whole = environment.join("whole");
    let wanted = packages.join(" ");
    if std::fs::read_to_string(&whole).is_ok_and(|made| made == wanted) {
        return Ok(environment);
    }
    step("python3", &["-m", "venv", "--clear", &environment.to_string_lossy()], &[])?;
    let python = environment.join("bin/python");
    step(&python.to_string_lossy(), &[&["-m", "pip", "install", "--quiet"], packages].concat(), &[])?;
    std::fs::write(&whole, wanted).map_err(|e| format!("cannot write {}: {e}", whole.display()))?;
    Ok(environment)
}
