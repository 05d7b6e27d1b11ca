//! `scripts/gpu-check.sh`, as it goes where a GPU is, on GPUs that are not there and with small sizes.

use std::path::Path;
use std::process::{Command, Output};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/gpu-check.sh");

/// Runs the script in a folder; another program stands for the compiled tests, and no row begins after so many seconds.
fn ran(folder: &Path, conformance: &str, limit: &str) -> Output {
    let script = folder.join("gpu-check.sh");
    std::fs::copy(SCRIPT, &script).expect("the script is there");
    let mut command = Command::new("bash");
    command.arg(&script).arg("run").envs([
        ("TRY", "1"),
        ("EIN", env!("CARGO_BIN_EXE_ein_on_fakes")),
        ("EIN_FAKE_GPUS", "gpus=1"),
        ("CONFORMANCE", conformance),
        ("LIMIT", limit),
    ]);
    command.env("EIN_CACHE_DIR", folder.join("cache")).output().expect("bash is there")
}

#[test]
fn every_row_of_the_table_is_measured() {
    // The table is written by Python, as PyTorch's side is: where there is none, neither is a GPU checked.
    if Command::new("python3").arg("--version").output().is_err() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("ein-gpu-check-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let output = ran(&folder, "true", "600");
    let [text, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    assert!(output.status.success(), "{text}\n{errors}\n{}", read("errors.txt"));
    let table = read("table.txt");
    let lines = || table.lines().skip(1);
    let rows: Vec<&str> = lines().take_while(|l| !l.is_empty()).filter(|l| !l.starts_with(' ')).collect();
    assert_eq!(rows.len(), 13, "{table}\n{}", read("errors.txt"));
    assert!(!table.contains("FAILED") && !table.contains("no time left"), "{table}\n{}", read("errors.txt"));
    assert!(text.ends_with(&table) && rows.iter().any(|row| row.contains(" 8 ")), "{text}");
    // What must be, each with what was found: without PyTorch its side of it is not measured.
    let bars: Vec<&str> = lines().skip_while(|l| !l.is_empty()).skip(1).collect();
    let said = |what: &str, parts: &[&str]| {
        let lines: Vec<&&str> = bars.iter().filter(|l| l.contains(what)).collect();
        assert!(!lines.is_empty() && lines.iter().all(|l| parts.iter().any(|p| l.contains(p))), "{what}: {table}");
    };
    assert_eq!(bars.len(), 12, "{table}");
    said("results as 1, 2, 4 and 8 devices", &["equal"]);
    said("our rate over PyTorch's", &["not measured", "met", "MISSED"]);
    said("our rate over the best of PyTorch's", &["not measured", "met", "MISSED"]);
    said("our time over PyTorch's, compiled", &["not measured", "met", "MISSED"]);
    said("part of the memory's bandwidth", &["met", "MISSED"]);
    said("8 devices take", &["GB/s"]);
    said("one more task of a replay", &["1.000  met"]);
    let measured = read("measured.toml");
    assert!(measured.contains("products = [") && measured.contains("kind = \"gpu\""), "{measured}");
    // Results that differ are said, and by the exit code.
    let output = ran(&folder, "false", "-1");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("results differ"));
    let table = read("table.txt");
    assert!(table.contains("no time left") && table.contains("DIFFER"), "{table}");
    std::fs::remove_dir_all(&folder).expect("our own");
}
