//! `ein bench`: what it answers, and how it speaks to peers.

mod place;

use place::{Place, llama};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

/// The command.
const EIN: &str = env!("CARGO_BIN_EXE_ein");

fn answered(place: &Place, line: &str) -> Value {
    serde_json::from_str(&place.check(line, 0, &[])).unwrap_or_else(|e| panic!("{line}: {e}"))
}

/// A program that stands for Python: it answers every script alike.
fn peer(place: &Place, name: &str, first: &str) {
    let seconds = "i=1; while [ $i -lt \"$n\" ]; do list=\"$list,1.0\"; i=$((i+1)); done";
    let loop_ = format!("while read n; do list=1.0; {seconds}; echo \"{{\\\"seconds\\\":[$list]}}\"; done");
    place.file(name, &format!("#!/bin/sh\nread request\necho \"$request\" > asked\n{first}\n{loop_}\n"));
    std::fs::set_permissions(place.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_computation_has_its_figures() {
    let place = Place::new();
    let model = llama().display().to_string();
    for (computation, devices, weights) in [
        ("gemm:64,32,48".to_owned(), 1, 0),
        ("block:2x5,16,2,1,24".to_owned(), 3, 4 * (2 * 256 + 2 * 128 + 3 * 384 + 32)),
        ("block:decode=2x5,16,2,2,24".to_owned(), 2, 4 * (4 * 256 + 3 * 384 + 32)),
        (format!("{model} --batch-seq 1x7"), 2, 0),
    ] {
        let line = format!("bench {computation} --devices {devices} --threads 2 --runs 3 --warmup 1 --json");
        let found = answered(&place, &line);
        assert_eq!((&found["devices"], &found["threads"], &found["runs"]), (&json!(devices), &json!(2), &json!(3)));
        for key in ["seconds", "gflops", "operations", "tasks", "arena_bytes", "live_bytes", "peak_bytes"] {
            assert!(found[key].as_f64().is_some_and(|v| v > 0.0), "{line}: {key} is {}", found[key]);
        }
        for key in ["peak_gflops", "bandwidth", "bytes", "seconds", "over"] {
            assert!(found["floor"][key].as_f64().is_some_and(|v| v > 0.0), "{line}: floor {key}");
        }
        assert_eq!(found["one_device"].is_null(), devices == 1, "{line}");
        if weights > 0 {
            assert_eq!(found["weight_bytes"], json!(weights), "{line}");
        }
    }
    let text = place.check("bench gemm:64,32,48 --runs 1 --devices 2 --trace t.json", 0, &[]);
    for part in ["GFLOP/s", "1 turns on 2 devices", "floor", "one device", "arenas"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    assert!(place.read("t.json").contains("traceEvents"));
}

#[test]
fn peers_compute_the_same_or_say_why_not() {
    let place = Place::new();
    let line = "bench gemm:3,4,5 --runs 2 --threads 1 --json";
    let ours = answered(&place, line);
    let figures = ours["figures"].to_string().replace('"', "");
    let answer = |figures: &str| format!("echo '{{\"version\":\"9.9\",\"first_seconds\":0.5,\"figures\":{figures}}}'");
    peer(&place, "same", &answer(&figures));
    let found = answered(&place, &format!("{line} --compare torch:eager,jax --python ./same"));
    let names: Vec<&str> = found["peers"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!((names, &found["missing"]), (vec!["torch (eager)", "jax (jit)"], &json!([])));
    for peer in found["peers"].as_array().unwrap() {
        assert_eq!((&peer["version"], &peer["seconds"], &peer["apart"]), (&json!("9.9"), &json!(1.0), &json!(0.0)));
        assert!(peer["ratio"].as_f64().is_some_and(|r| r > 0.0 && r < 1.0), "{peer}");
    }
    assert_eq!(place.read("asked").trim(), r#"{"workload":"gemm:3,4,5"}"#);
    // Who computes something else is no comparison.
    peer(&place, "other", &answer("[[1.0,0.0]]"));
    place.check(&format!("{line} --compare jax --python ./other"), 4, &["jax (jit) computes something else"]);
    // Who cannot, says why, and the others count.
    let missing = |place: &Place, python: &str| {
        let found = answered(place, &format!("{line} --compare torch:compile --python {python}"));
        assert_eq!(found["peers"], json!([]));
        found["missing"][0]["reason"].as_str().expect("a reason").to_owned()
    };
    peer(&place, "refuses", "echo '{\"error\":\"it has no workload of this kind\"}'");
    assert_eq!(missing(&place, "./refuses"), "it has no workload of this kind");
    peer(&place, "lacks", "echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1");
    assert!(missing(&place, "./lacks").contains("-m pip install torch` installs it"));
    assert!(missing(&place, "./nowhere").contains("name a Python with --python"));
    let text = place.check("bench gemm:3,4,5 --runs 1 --compare torch:eager --python ./nowhere", 0, &[]);
    assert!(text.contains("torch (eager): not compared"), "{text}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let place = Place::new();
    let check = |line: &str, parts: &[&str]| {
        place.check(&format!("bench {line}"), 2, parts);
    };
    check("gemm:3,4", &["2 arguments, not 3"]);
    check("nothing-here", &["there is no such file or folder"]);
    check("gemm:3,4,5 --compare numpy", &["--compare numpy: there is no such peer", "torch:compile"]);
    check("gemm:3,4,5 --compare torch:jit", &["--compare torch:jit"]);
    for option in ["--devices", "--threads", "--runs"] {
        check(&format!("gemm:3,4,5 {option} 0"), &[option]);
    }
    check("gemm:3,4,5 --devices 999", &["999"]);
    check("gemm:3,4,5 --machine nowhere", &["nowhere"]);
    check("gemm:3,4,5 --trace .", &["it is a folder"]);
}
