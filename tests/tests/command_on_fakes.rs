//! The command, from words to exit codes, where GPUs are found that are not there.

#[path = "../../crates/ein-cli/tests/place/mod.rs"]
mod place;

use ein_tests::fixtures::fixture;
use place::Place;
use serde_json::Value;

/// The command, where GPUs are found that are not there.
const EIN: &str = env!("CARGO_BIN_EXE_ein_on_fakes");

/// A folder where such GPUs are found.
fn on(gpus: &str) -> Place {
    Place::of(EIN, &[("EIN_FAKE_GPUS", gpus)])
}

fn answered(place: &Place, line: &str) -> Value {
    serde_json::from_str(&place.check(line, 0, &[])).expect("JSON")
}

/// A small graph: a product, and rows of a table.
const GRAPH: &str = "x: input f32[6,12]\nw: param f32[12,8]\nt: param f32[7,8]\nids: input i64[6]\ny = einsum f32 (i: 6, j: 8 | \
                     k: 12) sum x[i,k] * w[k,j]\nrows = gather(t, ids)\nz = einsum f32 (i: 6, j: 8) map y[i,j] + \
                     rows[i,j]\nreturn z\n";
const RUN: &str = "run graph.ein --set x=0..72 --set w=0..96 --set t=0..56 --set ids=0,1,2,3,4,5 --check";

#[test]
fn graphs_run_and_are_planned_and_timed() {
    let place = on("gpus=2");
    place.file("graph.ein", GRAPH);
    for devices in
        ["--machine cuda", "--machine cuda --devices 1", "--devices cuda:1", "--devices cuda:0,cuda:0,cuda:1"]
    {
        let text = place.check(&format!("{RUN} {devices}"), 0, &[]);
        assert!(text.contains("on GPUs") && text.contains("largest difference"), "{text}");
    }
    let run = answered(&place, &format!("{RUN} --devices cuda:0,cuda:1 --json"));
    assert_eq!(run["max_abs_error_vs_reference"], 0.0, "{run}");
    assert_eq!(run["scratch_per_device"].as_array().map(Vec::len), Some(3), "{run}");
    place.check(&format!("{RUN} --machine cuda --trace trace.json"), 0, &[]);
    let trace: Value = serde_json::from_str(&place.read("trace.json")).expect("JSON");
    assert!(trace.to_string().contains("rows"), "{trace}");
    let plan = answered(&place, "plan graph.ein --machine cuda --json");
    assert_eq!((&plan["devices"], &plan["hosts"]), (&2.into(), &1.into()));
    place.check("plan graph.ein --devices cuda:1,cuda:1,cuda:1", 0, &[]);
    let bench = answered(&place, "bench gemm:32,24,40 --machine cuda --devices 2 --runs 1 --warmup 1 --json");
    assert!(bench["seconds"].as_f64().is_some_and(|s| s > 0.0), "{bench}");
}

#[test]
fn a_model_continues() {
    let place = on("gpus=2");
    let folder = fixture("llama-tiny/model");
    let line = ["run", folder.to_str().expect("a path"), "--text", "the cat", "--new-tokens", "2", "--check"];
    let continued = |more: &[&str]| {
        let text = place.check_args(&[&line[..], more].concat(), 0, &[]);
        text.lines().find(|l| l.contains("tokens [")).expect("tokens").to_owned()
    };
    assert_eq!(continued(&["--machine", "cuda"]), continued(&["--machine", "1xcpu"]));
}

#[test]
fn gpus_are_measured_and_planned_with() {
    let place = on("gpus=2");
    assert!(place.check("machine detect", 0, &[]).contains("Fake GPU"));
    place.check("machine show cuda", 0, &[]);
    place.check("machine measure --machine cuda --quick --runs 1 --out gpus.toml", 0, &[]);
    assert!(place.read("gpus.toml").starts_with("# Measured by `ein machine measure --machine cuda` on 20"));
    let machine = answered(&place, "machine show gpus.toml --json");
    assert_eq!(machine["devices"].as_array().map(Vec::len), Some(2));
    place.file("graph.ein", GRAPH);
    place.check("plan graph.ein --machine gpus.toml", 0, &[]);
    let text = place.check(&format!("{RUN} --machine gpus.toml --devices cuda:0,cuda:1"), 0, &[]);
    assert!(text.contains("on GPUs"), "{text}");
    place.check(&format!("{RUN} --machine gpus.toml --devices cuda:0,cuda:2"), 2, &["cuda:2 is not there"]);
    for (words, reason) in [("--quick", "--machine cuda"), ("--tf32", "--machine cuda"), ("--machine gpu", "cuda")] {
        place.check(&format!("machine measure {words}"), 2, &[reason]);
    }
    place.check("machine measure --machine cuda --devices 3", 2, &["3 GPUs are asked for", "use 2"]);
    place.check("machine measure --machine cuda --devices 0", 2, &["--devices 0"]);
}

#[test]
fn what_fails_is_said_and_nothing_is_left() {
    // GPUs and what fails; words; exit code and what is said.
    let rows: [(&str, &str, i32, &[&str]); 10] = [
        ("gpus=1 driver=11080", "--machine cuda", 2, &["CUDA 11.8", "12.0"]),
        ("gpus=0", "--machine cuda", 2, &["GPU"]),
        ("gpus=2", "--devices cuda:2", 2, &["cuda:2 is not there", "2 GPUs"]),
        ("gpus=2", "--machine cuda --devices 3", 2, &["3 GPUs are asked for", "2"]),
        ("gpus=1", "--machine 8xa100 --devices cuda:0", 2, &["--machine"]),
        ("gpus=1", "--machine cuda --memory-per-device 256B", 3, &["fits"]),
        ("gpus=1 alloc=0", "--machine cuda", 1, &["device d0 cannot allocate its arena"]),
        ("gpus=1 compile=0", "--machine cuda", 1, &["NVRTC", "told to fail"]),
        ("gpus=1 launch=0", "--machine cuda", 1, &["cuda:0 no longer answer"]),
        ("gpus=2 lost=1:0", "--devices cuda:1", 1, &["failed"]),
    ];
    for (gpus, words, code, parts) in rows {
        let place = on(gpus);
        place.file("graph.ein", GRAPH);
        place.check(&format!("{RUN} {words} --trace trace.json"), code, parts);
        // A benchmark ends as a run does; it takes no limit of memory.
        if code != 3 {
            let devices = if words.contains("--devices") { "" } else { "--devices 1" };
            place.check(&format!("bench block:2x5,16,2,1,24 {words} {devices} --runs 1"), code, parts);
        }
    }
}
