//! Measurements with bars: what takes too long for tests.

use crate::step;

/// Runs `ein-measure` with the arguments behind `measure`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if arguments.first().is_some_and(|what| what == "cpu") {
        // It runs the program that lies beside it.
        step("cargo", &["build", "--release", "--quiet", "--package", "ein-cli"], &[])?;
    }
    let mut command = vec!["run", "--release", "--quiet", "--package", "ein-measure", "--"];
    command.extend(arguments.iter().map(String::as_str));
    step("cargo", &command, &[])
}
