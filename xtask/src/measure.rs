//! Measurements with bars: what takes too long for tests.

use crate::step;

/// Runs `ein-measure` with the arguments behind `measure`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let mut command = vec!["run", "--release", "--quiet", "--package", "ein-measure", "--"];
    command.extend(arguments.iter().map(String::as_str));
    step("cargo", &command, &[])
}
