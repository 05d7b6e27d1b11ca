//! What is stored under `tests/fixtures`.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// Where a fixture lies.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A JSON file.
pub fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The numbers of a nested list, in order.
pub fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().expect("a number")],
    }
}

/// The same as integers.
pub fn ids(value: &Value) -> Vec<i64> {
    numbers(value).iter().map(|&v| v as i64).collect()
}
