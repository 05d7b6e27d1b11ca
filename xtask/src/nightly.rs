//! What is too long for every change.

use crate::{step, vectors};

/// Draws of every operation, and seeds of every other random test.
const ENVIRONMENT: [(&str, &str); 2] = [("EIN_TEST_DRAWS", "1000"), ("EIN_TEST_SEEDS", "10000")];

/// The random tests at their full size, then the stored vectors against `PyTorch`.
pub fn run() -> Result<(), String> {
    // Texts and maps of partials are drawn faster than plans.
    step("cargo", &["test", "-p", "ein-ir", "--quiet"], &[("EIN_TEST_SEEDS", "100000")])?;
    step("cargo", &["test", "-p", "ein-tests", "--quiet"], &ENVIRONMENT)?;
    vectors::run()
}
