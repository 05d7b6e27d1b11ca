//! The command as its users meet it: what it answers to good requests, and to bad ones.
//!
//! Every row runs the binary in a folder of its own with files that the test made. A row says the arguments, the
//! exit code and what standard error must contain.

mod place;

use ein_run::detect;
use place::{Place, edited, fixture, llama, with_header};
use serde_json::{Value, json};

/// The command.
const EIN: &str = env!("CARGO_BIN_EXE_ein");

/// A request that is answered with JSON.
fn answered(place: &Place, line: &str) -> Value {
    serde_json::from_str(&place.check(line, 0, &[])).unwrap_or_else(|e| panic!("{line}: {e}"))
}

/// The keys of an object, in order.
fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn help_is_there() {
    let place = Place::new();
    let check = |line: &str, parts: &[&str]| {
        let text = place.check(line, 0, &[]);
        for part in parts {
            assert!(text.contains(part), "{line}: no {part} in\n{text}");
        }
    };
    check("--help", &["run", "plan", "explain", "simulate", "bench", "machine", "Exit codes:", "Examples:"]);
    check("--version", &["ein 0."]);
    let options = ["--machine", "--devices", "--objective", "--balance", "--memory-per-device", "--partials", "--json"];
    for command in ["run", "plan", "explain", "simulate"] {
        check(&format!("{command} --help"), &options);
        check(&format!("{command} --help"), &["--inputs", "--outputs", "one-device, data, tensor", "Example"]);
        check(
            &format!("{command} --help"),
            &["--no-cache", "EIN_CACHE_DIR", "--no-overlap", "--offload", "--time-limit"],
        );
    }
    check("plan --help", &["gemm:M,N,K[,DTYPE]", "llama-3-8b:BATCHxSEQ", "1x128 if not given", "--write-tasks"]);
    check("run --help", &["--text", "--new-tokens", "--check", "--trace", "synthetic:llama"]);
    check(
        "bench --help",
        &["--devices", "--threads", "--runs", "--warmup", "--compare", "--python", "--trace", "block:B"],
    );
    check("machine --help", &["list", "show", "detect", "measure", "ein machine show dgx-1v"]);
}

#[test]
fn plans_have_the_keys_that_others_read() {
    let place = Place::new();
    place.file("graph.ein", GRAPH);
    let needed = [
        "machine",
        "devices",
        "operations",
        "objective",
        "bytes_total",
        "bytes_delivered",
        "bytes_per_device",
        "cost",
        "cost_unit",
        "simulated_seconds",
        "lower_bound",
        "gap",
        "gap_absolute",
        "balance",
        "peak_memory_per_device",
        "planning_seconds",
        "assumptions",
        "strategies",
    ];
    let check = |source: &str, machine: &str, devices: usize| {
        let line = format!("plan {source} --machine {machine} --json");
        let plan = answered(&place, &line);
        for key in needed {
            assert!(!plan[key].is_null(), "{line}: no {key}");
        }
        assert_eq!(plan["devices"], json!(devices), "{line}");
        assert_eq!(plan["peak_memory_per_device"].as_array().map(Vec::len), Some(devices), "{line}");
        assert_eq!(keys(&plan["bytes_per_device"]), ["received", "sent"], "{line}");
        let sum = |v: &Value| v.as_array().expect("a list").iter().map(|b| b.as_u64().expect("bytes")).sum::<u64>();
        assert_eq!(sum(&plan["bytes_per_device"]["sent"]), plan["bytes_total"].as_u64().unwrap(), "{line}");
        assert!(plan["lower_bound"].as_f64() <= plan["cost"].as_f64(), "{line}");
        let strategies = &plan["strategies"];
        let products: &[&str] = if devices == 4 { &["data-2-tensor-2"] } else { &[] };
        let others = ["fsdp", "grid-2d", "grid-3d", "one-device", "ring", "tensor", "tensor-sequence", "ulysses"];
        assert_eq!(keys(strategies), [&["data"], products, &others].concat(), "{line}");
        for (name, strategy) in strategies.as_object().expect("strategies") {
            if strategy["refused"].is_string() {
                assert_eq!(keys(strategy), ["refused"], "{line}: {name}");
                continue;
            }
            for key in ["cost", "simulated_seconds", "bytes_total", "bytes_per_device", "fits", "balanced"] {
                assert!(!strategy[key].is_null(), "{line}: no {key} in {name}");
            }
        }
    };
    check("--workload gemm:64,48,32", "8xa100 --devices 3", 3);
    check("--workload gemm:64,48,32,bf16", "8xa100 --devices 0,2,5 --objective bytes --partials f32", 3);
    check("--workload ffnn:32,64,16,8", "4xcpu --objective bytes --balance none --no-cache", 4);
    check("--workload chain:bushy,16", "2xcpu --objective memory", 2);
    check("--workload chain:left,16,f64", "unequal", 4);
    check("--workload attention:2x16,4,2,8,causal", "pcie-4", 4);
    check("--workload llama-7b-block:1x8", "8xa100-ideal --devices 2 --inputs replicated --outputs device:1", 2);
    check("graph.ein", "2xcpu", 2);
    check("--workload gemm:8,8,8", "1xcpu", 1);
    check("--workload gemm:8,8,8", "2xcpu --strategy one-device --memory-per-device 1MiB", 2);
    let text = place.check("plan graph.ein --devices 2", 0, &[]);
    for part in ["cpu0", "sent", "received", "memory", "lower bound", "--json", "one-device"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

#[test]
fn exchanges_hide_unless_that_is_switched_off() {
    let place = Place::new();
    let request = "--workload ffnn:8192,4096,4096,4096 --machine 8xa100-ideal --devices 4 --strategy tensor";
    let line = "\n  overlap      ";
    let on = place.check(&format!("explain {request}"), 0, &[]);
    assert!(on.contains(line) && on.contains("without overlap"), "{on}");
    let off = place.check(&format!("explain {request} --no-overlap"), 0, &[]);
    assert!(!off.contains(line), "{off}");
    let [on, off] = ["", " --no-overlap"].map(|flag| answered(&place, &format!("plan {request} --json{flag}")));
    assert_eq!((&on["cost"], &on["bytes_total"]), (&off["cost"], &off["bytes_total"]));
    assert!(on["simulated_seconds"].as_f64() < off["simulated_seconds"].as_f64(), "{on} and {off}");
    assert_eq!(on["overlap"]["simulated_seconds_uncut"], off["simulated_seconds"]);
    assert_eq!(on["overlap"]["untried"], Value::Null);
    assert_eq!(off["overlap"]["untried"], json!("it is switched off"));
    let threads = answered(&place, "plan --workload gemm:256,256,256 --machine 4xcpu --json");
    assert!(threads["overlap"]["untried"].as_str().is_some_and(|why| why.contains("threads")), "{threads}");
}

#[test]
fn what_has_no_room_stays_at_the_host() {
    let place = Place::new();
    let request =
        "plan --workload ffnn:512,512,512,8 --machine dgx-1v --devices 2 --memory-per-device 900KiB --no-cache";
    place.check(request, 3, &["no plan fits"]);
    let text = place.check(&format!("{request} --offload"), 0, &[]);
    assert!(text.contains("\n  host         keeps "), "{text}");
    let json = answered(&place, &format!("{request} --offload --json"));
    let peaks: Vec<u64> =
        json["peak_memory_per_device"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert!(peaks[..2].iter().all(|&p| p <= 900 << 10) && peaks[2] > 0, "{peaks:?}");
    place.check("plan --workload gemm:8,8,8 --machine 8xa100 --offload", 2, &["`8xa100` has no host memory"]);
}

#[test]
fn a_search_may_be_given_a_time() {
    let place = Place::new();
    let request = "plan --workload ffnn:16,32,32,32 --machine 8xa100 --devices 2 --no-cache --json";
    let (free, ample) = (answered(&place, request), answered(&place, &format!("{request} --time-limit 3600")));
    assert_eq!((&free["cost"], &ample["effort"]["stopped"]), (&ample["cost"], &json!(false)));
    place.check(&format!("{request} --time-limit 0.000000001"), 2, &["within the time limit of 0.000000001 s"]);
    for wrong in ["0", "-1", "soon", "nan", "1e400"] {
        place.check(&format!("{request} --time-limit {wrong}"), 2, &["a number of seconds such as 2 or 0.5"]);
    }
}

#[test]
fn lean_exchanges_are_named() {
    let place = Place::new();
    let request = "--workload ffnn:64,64,64,64 --machine 8xa100 --devices 4 --strategy tensor";
    let line = "\n  exchanges    store as little at once as they can: the quickest do not fit\n";
    let check = |limit: &str, exchanges: &str| {
        let plan = answered(&place, &format!("plan {request} --json {limit}"));
        assert_eq!(plan["exchanges"], json!(exchanges), "{limit}");
        let text = place.check(&format!("explain {request} {limit}"), 0, &[]);
        assert_eq!(text.contains(line), exchanges == "lean", "{limit}: {text}");
    };
    check("", "quickest");
    check("--memory-per-device 60KiB", "lean");
}

#[test]
fn graphs_at_the_edge_are_planned() {
    let place = Place::new();
    let check = |name: &str, text: &str| {
        place.file(name, text);
        for command in ["plan", "explain", "simulate"] {
            place.check(&format!("{command} {name} --machine 3xcpu"), 0, &[]);
        }
    };
    check("no-elements.ein", "x: input f32[0, 4]\ny = einsum f32 (i: 0, j: 4) map x[i, j] + 1.0\nreturn y\n");
    check("empty-sum.ein", "x: input f32[4, 0]\ny = einsum f32 (i: 4 | j: 0) sum x[i, j]\nreturn y\n");
    check("scalar.ein", "x: input f32[]\ny = einsum f32 () map x[] * 2.0\nreturn y\n");
    check("to-scalar.ein", "x: input f32[9]\ny = einsum f32 (| i: 9) sum x[i]\nreturn y\n");
    check("input-out.ein", "x: input f32[8]\nreturn x\n");
    check("parameter-out.ein", "x: param f32[8]\nreturn x\n");
    check("view-out.ein", "x: input f32[8, 2]\ny = permute x [1, 0]\nz = reshape y [16]\nreturn z\n");
    check(
        "both-out.ein",
        "x: input f32[8]\ny = einsum f32 (i: 8) map x[i] + 1.0\nreturn a = y\nreturn b = y\nreturn x\n",
    );
    check("no-input.ein", "y = einsum f32 (i: 8) map cast<f32>(index(i))\nreturn y\n");
    check("state.ein", "s: state f32[8]\ny = einsum f32 (i: 8) map s[i] + 1.0\nreturn y\n");
    check("unread.ein", "x: input f32[8]\nz: input f32[900]\ny = einsum f32 (i: 8) map x[i] + 1.0\nreturn y\n");
    check("crlf.ein", "x: input f32[8]\r\ny = einsum f32 (i: 8) map x[i] + 1.0\r\nreturn y\r\n");
}

#[test]
fn explain_and_simulate_answer() {
    let place = Place::new();
    let text = place.check("explain --workload gemm:64,64,64 --devices 2 --objective bytes --programs", 0, &[]);
    assert!(text.contains("contraction") && text.contains("exchange of"), "{text}");
    let explained = answered(&place, "explain --workload gemm:64,64,64 --devices 2 --json");
    assert_eq!(explained["computation"], "gemm:64,64,64");
    let simulated = answered(&place, "simulate --workload gemm:64,64,64 --machine dgx-1v --json --trace t.json");
    assert!(simulated["simulated_seconds"].as_f64() > Some(0.0), "{simulated}");
    let trace: Value = serde_json::from_str(&place.read("t.json")).expect("a trace is JSON");
    assert!(trace["traceEvents"].as_array().is_some_and(|events| !events.is_empty()), "{trace}");
    place.check("plan --workload gemm:64,64,64 --devices 2 --write-tasks tasks.txt", 0, &[]);
    assert!(place.read("tasks.txt").lines().count() > 4);
}

#[test]
fn machines_are_listed_and_shown() {
    let place = Place::new();
    let list = place.check("machine list", 0, &[]);
    let names = answered(&place, "machine list --json")["machines"].clone();
    for name in names.as_array().expect("names") {
        let name = name.as_str().expect("a name");
        assert_eq!(list.lines().filter(|l| l.split_whitespace().next() == Some(name)).count(), 1, "{name} in\n{list}");
        let shown = if name == "Nxcpu" { "5xcpu" } else { name };
        assert!(place.check(&format!("machine show {shown}"), 0, &[]).contains("device"), "{name}");
        assert_eq!(answered(&place, &format!("machine show {shown} --json"))["name"], shown);
        // The file is a machine, and the same one.
        let text = place.check(&format!("machine show {shown} --file"), 0, &[]);
        place.file("same.toml", &text);
        let same = answered(&place, "machine show same.toml --json");
        assert_eq!(same, answered(&place, &format!("machine show {shown} --json")));
    }
    // A host stores and relays; it is not counted with what computes.
    let dgx = answered(&place, "machine show dgx-1v --json");
    assert_eq!(dgx["devices"].as_array().map(Vec::len), Some(8));
    assert_eq!(dgx["hosts"][0]["name"], "host");
    let plan = answered(&place, "plan --workload gemm:64,64,64 --machine dgx-1v --json");
    assert_eq!((&plan["devices"], &plan["hosts"]), (&json!(8), &json!(1)));
    assert_eq!(plan["peak_memory_per_device"].as_array().map(Vec::len), Some(9));
    place.file("m.toml", MACHINE);
    assert!(place.check("machine show m.toml", 0, &[]).contains("g0-2"));
    place.check("plan --workload gemm:64,64,64 --machine ./m.toml --devices 2", 0, &[]);
}

#[test]
fn this_host_is_measured() {
    let place = Place::new();
    place.check("machine measure --devices 3 --runs 1 --out host.toml", 0, &[]);
    assert!(place.read("host.toml").starts_with("# Measured by `ein machine measure` on 20"));
    let machine = answered(&place, "machine show host.toml --json");
    assert_eq!(machine["devices"].as_array().map(Vec::len), Some(3));
    for line in
        ["plan --workload ffnn:64,64,64,8", "simulate --workload ffnn:64,64,64,8", "run synthetic:llama --text=cat"]
    {
        place.check(&format!("{line} --machine host.toml"), 0, &[]);
    }
    for (devices, reason) in [("0", "1 to 128"), ("129", "1 to 128"), ("-1", "--devices"), ("many", "--devices")] {
        place.check(&format!("machine measure --devices={devices}"), 2, &[reason]);
    }
    place.check("machine measure --runs 0", 2, &["--runs"]);
}

#[test]
fn this_hosts_gpus_are_detected_or_it_is_said_why_not() {
    let place = Place::new();
    match detect::read().and_then(|facts| detect::describe(&facts)) {
        Ok(found) => {
            assert_eq!(place.check("machine detect", 0, &[]), found.text);
            place.check("machine detect --out cuda.toml", 0, &[]);
            assert_eq!(place.read("cuda.toml"), found.text);
            place.check("plan --workload gemm:64,64,64 --machine cuda", 0, &[]);
            place.check("plan --workload gemm:64,64,64 --devices cuda:0,cuda:0", 0, &[]);
        }
        Err(error) => {
            let reason = error.to_string();
            for line in [
                "machine detect",
                "machine show cuda",
                "plan --workload gemm:64,64,64 --machine cuda",
                "plan --workload gemm:64,64,64 --devices cuda:0,cuda:0",
                "run synthetic:llama --text cat --machine cuda --devices 1",
                "run synthetic:llama --text cat --machine cuda --devices 100000000000000000",
                "run synthetic:llama --text cat --devices cuda:0,cuda:0",
                "bench gemm:64,64,64 --machine cuda",
                "bench gemm:64,64,64 --machine cuda --devices 100000000000000000",
                "bench gemm:64,64,64 --devices cuda:0",
            ] {
                place.check(line, 2, &[&reason]);
            }
        }
    }
    // A list of GPUs is one, and of this host's: for another machine there are plans, and nobody who runs them.
    for devices in ["cuda", "cuda:", "cuda:x", "cuda:0,1", "0,cuda:1"] {
        let line = format!("run synthetic:llama --text cat --devices {devices}");
        place.check(&line, 2, &["cuda:0,cuda:0,cuda:1"]);
    }
    place.check("plan --workload gemm:64,64,64 --machine 8xa100 --devices cuda:0,cuda:0,cuda:1", 0, &[]);
    place.check(
        "plan --workload gemm:64,64,64 --machine 8xa100 --devices cuda:0,cuda:8",
        2,
        &["cuda:8", "`8xa100` has 8 GPUs"],
    );
    let many = vec!["cuda:0"; 300].join(",");
    let line = format!("plan --workload gemm:64,64,64 --machine 8xa100 --devices {many}");
    place.check(&line, 2, &["300 devices", "at most 128"]);
    place.check("run synthetic:llama --text cat --machine 8xa100 --devices cuda:0", 2, &["8xa100", "--machine"]);
}

#[test]
fn models_run() {
    let place = Place::new();
    place.model("llama", |_| ());
    let check = |line: &str| {
        let run = answered(&place, &format!("run {line} --json --check"));
        assert!(run["seconds"].as_f64().is_some(), "{line}");
        assert!(run["max_abs_error_vs_reference"].as_f64() < Some(1e-3), "{line}");
        run["outputs"].clone()
    };
    let one = check("llama --text=cat --new-tokens 3 --machine 1xcpu");
    assert_eq!(one[0]["tokens"].as_array().map(Vec::len), Some(3), "{one}");
    assert_eq!(one, check("llama --text cat --new-tokens 3 --devices 3"));
    check("llama --text -cat --text cat --devices 2 --new-tokens 1 --strategy one-device");
    let bytes = check("synthetic:llama --text once --devices 2 --new-tokens 2 --trace trace.json");
    assert_eq!(bytes[0]["prompt"], "once");
    assert!(place.read("trace.json").contains("traceEvents"));
    let text = place.check("run llama --text cat --devices 2 --check --compare --explain", 0, &[]);
    for part in ["cat ⟶", "largest difference", "one-device", "gather"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    // Characters that would disturb a terminal are shown, not sent.
    let raw = place.check_args(&["run", "synthetic:llama", "--text", "a\u{1b}[2J🙂\n", "--devices=1"], 0, &[]);
    assert!(!raw.contains('\u{1b}') && raw.contains("\\u{1b}") && raw.contains('🙂'), "{raw}");
    // Without `--check` nothing is said about the reference.
    let plain = answered(&place, "run llama --text cat --new-tokens 1 --devices 2 --json");
    assert!(plain["max_abs_error_vs_reference"].is_null());
}

/// Every folder of `tests/fixtures` is planned and explained; those that read texts run on some.
#[test]
fn every_architecture_runs() {
    let place = Place::new();
    let decoders = ["mistral", "qwen2", "qwen3", "gemma-2", "phi-3", "gpt-2", "llama-rope"];
    let encoders = ["bert", "distilbert", "roberta"];
    for name in decoders.into_iter().chain(encoders).chain(["vit"]) {
        let folder = fixture(name).join("model");
        let folder = folder.display();
        let plan = answered(&place, &format!("plan {folder} --devices 3 --json"));
        assert!(plan["operations"].as_u64() > Some(20), "{name}: {plan}");
        let text = place.check(&format!("explain {folder} --devices 2 --objective bytes"), 0, &[]);
        assert!(text.contains("attention"), "{name}:\n{text}");
    }
    for name in decoders {
        let folder = fixture(name).join("model");
        // Where numbers have 16 bits, the order of sums shows.
        let check = if name == "qwen3" { "" } else { "--check" };
        let line = format!("run {} --text cat --new-tokens 2 --devices 3 --json {check}", folder.display());
        let run = answered(&place, &line);
        assert_eq!(run["outputs"][0]["tokens"].as_array().map(Vec::len), Some(2), "{name}: {run}");
    }
    for name in encoders {
        let folder = fixture(name).join("model");
        let run =
            answered(&place, &format!("run {} --text cat --text sea --devices 3 --json --check", folder.display()));
        assert_eq!(run["outputs"]["embeddings"][1].as_array().map(Vec::len), Some(24), "{name}: {run}");
    }
}

/// The numbers of nested lists.
fn flat(value: &Value) -> Vec<f32> {
    match value {
        Value::Array(items) => items.iter().flat_map(flat).collect(),
        other => vec![other.as_f64().unwrap() as f32],
    }
}

#[test]
fn images_are_classified() {
    let place = Place::new();
    let folder = fixture("vit/model");
    let folder = folder.display();
    let expected: Value =
        serde_json::from_str(&std::fs::read_to_string(fixture("vit/expected.json")).unwrap()).unwrap();
    let images = |name: &str, tensor: &str, shape: [usize; 4]| {
        let data: Vec<u8> = flat(&expected["pixel_values"]).iter().flat_map(|v| v.to_le_bytes()).collect();
        let row = json!({ "dtype": "F32", "shape": shape, "data_offsets": [0, data.len()] });
        let header = json!({ tensor: row }).to_string().into_bytes();
        place.bytes(name, &[&(header.len() as u64).to_le_bytes()[..], &header, &data].concat());
    };
    images("two.safetensors", "pixel_values", [2, 3, 12, 10]);
    let run = answered(&place, &format!("run {folder} --pixels two.safetensors --devices 3 --json --check"));
    let best = |logits: &Value| {
        let logits = flat(logits);
        (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap() as u64
    };
    for n in 0..2 {
        let (found, stored) = (&run["outputs"][n][0], best(&expected["logits"][n]));
        assert_eq!(
            (found["class"].as_u64(), found["label"].as_str()),
            (Some(stored), Some(&*format!("LABEL_{stored}")))
        );
    }
    let text = place.check(&format!("run {folder} --pixels two.safetensors --devices 2"), 0, &[]);
    assert!(text.contains(&format!("%  LABEL_{}", best(&expected["logits"][1]))), "{text}");

    let check = |line: &str, parts: &[&str]| {
        place.check(line, 2, parts);
    };
    check(&format!("run {folder} --text cat"), &["ViTForImageClassification takes images", "--pixels FILE"]);
    check(&format!("run {folder} --pixels none.safetensors"), &["none.safetensors", "No such file"]);
    images("other.safetensors", "pixels", [2, 3, 12, 10]);
    check(&format!("run {folder} --pixels other.safetensors"), &["other.safetensors", "no tensor `pixel_values`"]);
    images("turned.safetensors", "pixel_values", [2, 3, 10, 12]);
    check(&format!("run {folder} --pixels turned.safetensors"), &["[2, 3, 10, 12]", "[images, [3, 12, 10]]"]);
    check("run synthetic:llama --pixels two.safetensors", &["--pixels two.safetensors", "a model of texts", "--text"]);
    let bert = fixture("bert/model");
    check(&format!("run {} --pixels two.safetensors", bert.display()), &["a model of texts"]);
    check(&format!("plan {folder} --batch-seq 2x128"), &["--batch-seq 2x128", "sequences of 7", "2x7"]);
    place.check(&format!("plan {folder} --batch-seq 2x7"), 0, &[]);
}

#[test]
fn requests_that_make_no_sense() {
    let place = Place::new();
    place.file("graph.ein", GRAPH);
    let check = |line: &str, parts: &[&str]| {
        place.check(line, 2, parts);
    };
    check("", &["Usage: ein"]);
    check("frobnicate", &["frobnicate"]);
    check("plan", &["--workload"]);
    check("plan graph.ein --frob", &["--frob"]);
    check("plan graph.ein --workload gemm:8,8,8", &["cannot be used with"]);
    check("plan graph.ein --objective speed", &["speed", "time, makespan, bytes, memory"]);
    check("plan graph.ein --balance some", &["some", "none"]);
    check("plan graph.ein --partials f8", &["f8", "same", "f32"]);
    check("plan graph.ein --batch-seq 1x2", &["--batch-seq 1x2", "graph.ein", "leave the option out"]);
    check("plan --workload gemm:8,8,8 --batch-seq 1x2", &["--batch-seq", "cannot be used with"]);
    check("plan graph.ein --inputs nowhere", &["--inputs nowhere", "anywhere, replicated or device:N"]);
    check("plan graph.ein --inputs device:99", &["--inputs device:99", "0 to 7"]);
    check("plan graph.ein --outputs device:-1", &["--outputs device:-1", "device:N"]);
    check("plan graph.ein --strategy foo", &["--strategy foo", "one-device, data", "random:SEED"]);
    check("plan graph.ein --strategy data-3-tensor-2", &["`data-3-tensor-2` does not apply", "data-2-tensor-4"]);
    check("plan graph.ein --strategy ulysses", &["`ulysses` does not apply", "no attention"]);
    for size in ["0", "-5GB", "xyz", "NaN", "infGB", "99999999999999999999TB", "1.2.3MB"] {
        check(&format!("plan graph.ein --memory-per-device {size}"), &[size, "40MiB"]);
    }
    // Sources.
    check("plan nothing.ein", &["nothing.ein", "no such file", "--workload"]);
    check("plan gemm:8,8,8", &["gemm:8,8,8", "--workload gemm:8,8,8"]);
    check("plan .", &["config.json"]);
    check("run nothing --text a", &["nothing", "no such folder", "synthetic:llama"]);
    check("run graph.ein --text a", &["graph.ein", "--set NAME=VALUES", "--tensors FILE"]);
    check("run synthetic:llama --text a --set x=1", &["--set", "a graph in text form"]);
    check("run synthetic:llama", &["--text"]);
    check("machine", &["list", "show"]);
    check("machine show nope", &["`nope`", "dgx-1v"]);
}

#[test]
fn devices_that_are_not_there() {
    let place = Place::new();
    let check = |options: &str, parts: &[&str]| {
        place.check(&format!("plan --workload gemm:8,8,8 {options}"), 2, parts);
    };
    check("--machine nope", &["`nope`", "8xa100", "Nxcpu", "machine file"]);
    check("--machine=", &["``", "8xa100"]);
    check("--machine 0xcpu", &["`0xcpu`", "no device that computes"]);
    check("--machine -1xcpu", &["-1xcpu"]);
    check("--machine 10000xcpu", &["`10000xcpu`", "at most 128"]);
    check("--machine 999999999999xcpu", &["`999999999999xcpu`", "at most 128"]);
    check("--machine 99999999999999999999999xcpu", &["at most 128"]);
    check("--machine 8xa100 --devices 0", &["--devices 0", "8xa100", "8 that compute"]);
    check("--machine 8xa100 --devices 9", &["--devices 9", "8 that compute"]);
    check("--machine 8xa100 --devices 10000", &["--devices 10000", "8 that compute"]);
    check("--machine 8xa100 --devices -1", &["--devices -1", "a list such as 0,2,3"]);
    check("--machine 8xa100 --devices 99999999999999999999999", &["a number"]);
    check("--machine 8xa100 --devices 0,0", &["--devices 0,0", "twice"]);
    check("--machine 8xa100 --devices 0,8", &["--devices 0,8", "0 to 7"]);
    check("--machine 8xa100 --devices 0,70000", &["--devices 0,70000", "0 to 7"]);
    for garbage in ["0,x", ",", "3,", "0;1", "1-3"] {
        check(&format!("--machine 8xa100 --devices {garbage}"), &[garbage, "a list such as 0,2,3"]);
    }
}

#[test]
fn machine_files_that_are_wrong() {
    let place = Place::new();
    let check = |name: &str, text: &str, parts: &[&str]| {
        place.file(name, text);
        let parts: Vec<&str> = [name].iter().chain(parts).copied().collect();
        place.check(&format!("plan --workload gemm:8,8,8 --machine {name}"), 2, &parts);
        place.check(&format!("machine show {name}"), 2, &parts);
    };
    let with = |from: &str, to: &str| {
        assert!(MACHINE.contains(from), "{from}");
        MACHINE.replace(from, to)
    };
    check("empty.toml", "", &["`name`"]);
    check("garbage.toml", "asdf asdf\n[[[", &["line 1, column 6"]);
    check("key.toml", &with("issue", "isue"), &["line 2, column 1", "`isue`", "`issue`"]);
    check("slow.toml", &with("25 GB/s", "0 GB/s"), &["cable g0–g1", "above 0"]);
    check("negative.toml", &with("25 GB/s", "-25 GB/s"), &["cable g0–g1", "-25000000000"]);
    check("unit.toml", &with("25 GB/s", "25 parsecs"), &["25 parsecs", "300 GB/s"]);
    check("unreachable.toml", &with(r#", ["g1", "g2"]"#, ""), &["from `g0` to `g2`", "would join them"]);
    check("stranger.toml", &with(r#""g2"]"#, r#""g9"]"#), &["`g9` is not known", "g0 to g2"]);
    check("many.toml", &with("count = 3", "count = 99999999"), &["99999999 devices", "at most 128"]);
    check("none.toml", &with("count = 3", "count = 0"), &["g0"]);
    check("memory.toml", &with("16 GB", "0 GB"), &["memory of `g`", "above 0"]);
    place.bytes("binary.toml", &[0xff, 0xfe, 0, 1]);
    place.check("machine show binary.toml", 2, &["binary.toml", "UTF-8"]);
    place.check("machine show missing.toml", 2, &["missing.toml", "No such file"]);
    place.check("machine show ./", 2, &["./", "directory"]);
}

#[test]
fn graphs_that_are_wrong() {
    let place = Place::new();
    // Where the fault is, what it is, and a caret under it.
    let check = |name: &str, text: &str, at: (usize, usize), parts: &[&str]| {
        place.file(name, text);
        let place_of = format!("{name}: line {}, column {}: ", at.0, at.1);
        let caret = format!("\n{} | {}^\n", " ".repeat(at.0.to_string().len()), " ".repeat(at.1 - 1));
        let parts: Vec<&str> = [place_of.as_str(), caret.as_str()].iter().chain(parts).copied().collect();
        place.check(&format!("plan {name}"), 2, &parts);
    };
    check("operation.ein", "x: input f32[8]\ny = frob x\nreturn y\n", (2, 5), &["`frob`", "einsum, map, reshape"]);
    check("tensor.ein", "x: input f32[8]\ny = reshape z [8]\nreturn y\n", (2, 13), &["no tensor `z`"]);
    check("syntax.ein", "x: input f32[8]\ny = einsum f32 (i: 8) map x[i] * )\n", (2, 34), &["found `)`"]);
    check(
        "bracket.ein",
        "x: input f32[8\ny = reshape x [8]\n",
        (2, 1),
        &["expected `,` or `]`", "the `[` of line 1 is never closed"],
    );
    check("dtype.ein", "x: input f33[8]\nreturn x\n", (1, 10), &["f33"]);
    check(
        "sizes.ein",
        "x: input f32[2, 3]\nw: param f32[4, 5]\ny = einsum \"ik,kj->ij\" x w\n",
        (3, 26),
        &["`k` is 3"],
    );
    check("beyond.ein", "x: input f32[8]\ny = einsum f32 (i: 8) map x[i + 1]\n", (2, 29), &["`x` is f32[8]", "1 to 8"]);
    check("no-value.ein", "x: input f32[0]\ny = einsum f32 (| j: 0) max x[j]\n", (2, 19), &["`j` of extent 0"]);
    check("twice.ein", "x: input f32[8]\nx: input f32[9]\nreturn x\n", (2, 1), &["`x` is taken"]);
    check("negative.ein", "x: input f32[-4]\nreturn x\n", (1, 14), &["expected a size"]);
    check("huge.ein", "x: input f32[4294967296, 4294967296]\nreturn x\n", (1, 13), &["elements"]);
    check("huger.ein", "x: input f32[99999999999999999999999]\nreturn x\n", (1, 14), &["99999999999999999999999"]);
    check("emoji.ein", "x: input f32[8]\n🙂 = reshape x [8]\n", (2, 1), &["no meaning here"]);
    check("nul.ein", "x: input f32[8]\0\nreturn x\n", (1, 16), &["no meaning here"]);
    place.file("nothing.ein", "");
    place.check("plan nothing.ein", 2, &["nothing.ein", "returns nothing", "`return NAME`"]);
    place.file("no-return.ein", "x: input f32[8]\n");
    place.check("plan no-return.ein", 2, &["no-return.ein", "returns nothing"]);
    place.bytes("binary.ein", &[0xff, 0, 0x80, 7]);
    place.check("plan binary.ein", 2, &["binary.ein", "UTF-8"]);
    // However long the line, the message is short.
    let deep = format!("x: input f32[8]\ny = einsum f32 (i: 8) map {}x[i]\n", "(".repeat(100_000));
    place.file("deep.ein", &deep);
    place.check("plan deep.ein", 2, &["deep.ein: line 2", "64 levels"]);
    assert!(place.stderr().len() < 1000, "{}", place.stderr());
}

#[test]
fn texts_are_laid_out() {
    let place = Place::new();
    let (loose, tidy) = ("x:input f32[ 8 ] # as given\nreturn x", "x: input f32[8]  # as given\nreturn x\n");
    place.file("loose.ein", loose);
    place.file("tidy.ein", tidy);
    assert_eq!(place.check("format loose.ein", 0, &[]), tidy);
    assert_eq!(place.check("format tidy.ein", 0, &[]), tidy);
    assert_eq!(place.read("loose.ein"), loose);
    place.check("format --check tidy.ein", 0, &[]);
    place.check("format --check tidy.ein loose.ein", 4, &["loose.ein: line 1 ", "`ein format --write loose.ein`"]);
    assert_eq!(place.check("format --write loose.ein tidy.ein", 0, &[]), "");
    assert_eq!(place.read("loose.ein"), tidy);
    place.file("wrong.ein", "x: input f32[8\n");
    place.check("format --write wrong.ein", 2, &["wrong.ein: line 2", "never closed"]);
    assert_eq!(place.read("wrong.ein"), "x: input f32[8\n");
    place.check("format missing.ein", 2, &["missing.ein", "No such file"]);
    place.check("format", 2, &["FILE"]);
    place.check("format --write --check tidy.ein", 2, &["cannot be used with"]);
}

#[test]
fn sizes_that_are_wrong() {
    let place = Place::new();
    let check = |workload: &str, parts: &[&str]| {
        place.check_args(&["plan", "--workload", workload, "--devices", "2"], 2, parts);
    };
    check("", &["no workload ``", "gemm:M,N,K"]);
    check("nope:1,2", &["no workload `nope`", "llama-70b:BATCHxSEQ"]);
    check("gemm", &["0 arguments, not 3", "gemm:M,N,K"]);
    check("gemm:1,,1,1", &["4 arguments, not 3"]);
    check("gemm:0,1,1", &["`0` is not a size"]);
    check("gemm:-1,1,1", &["`-1` is not a size"]);
    check("gemm:99999999999,9,9", &["`99999999999` is not a size", "2147483648"]);
    check("gemm:2147483648,2147483648,2147483648", &["more bytes than can be addressed"]);
    check("gemm:8,8,8,f33", &["gemm:M,N,K[,DTYPE]"]);
    check("gemm:8,8,8,bool", &["bool"]);
    check("chain:deep,4", &["no chain `deep`", "bushy|left|right"]);
    check("attention:2x4,3,2,8", &["3 query heads", "2 key/value heads"]);
    check("attention:4,3,2,8", &["`4` is not BATCHxSEQ"]);
    check("llama-7b:0x4", &["`0` is not a size"]);
    check("llama-7b:2147483648x2147483648", &["more bytes than can be addressed"]);
    check("llama-7b-block:1x4,i64", &["i64"]);
    check("decode:llama-7b:1x128", &["no workload `decode`", "decode=BATCHxLENGTH"]);
    place.model("llama", |_| ());
    for sizes in ["0x4", "4", "x", "-1x4", "1x2x3", "1.5x2"] {
        place.check(&format!("plan llama --batch-seq={sizes}"), 2, &[sizes, "8x512"]);
    }
    place.check("plan llama --batch-seq 99999999999999x99999999999", 2, &["more bytes than can be addressed"]);
}

#[test]
fn what_does_not_fit() {
    let place = Place::new();
    // Names the limit, the device, the largest tensors there and what would do: which does.
    let check = |request: &str, limit: &str, parts: &[&str]| {
        place.check(&format!("{request} --memory-per-device {limit}"), 3, &["no plan fits in", "would do"]);
        let error = place.stderr();
        for part in parts {
            assert!(error.contains(part), "{request}: no {part} in {error}");
        }
        let bytes = error.rsplit_once(" B) on every device").and_then(|(before, _)| before.rsplit_once('('));
        let bytes = bytes.unwrap_or_else(|| panic!("{error}")).1;
        place.check(&format!("{request} --memory-per-device {bytes}"), 0, &[]);
    };
    place.model("llama", |_| ());
    check("plan --workload gemm:64,64,64 --machine 8xa100 --strategy data", "1KiB", &["1.0 KiB", "gpu0", "`b`"]);
    check("plan --workload gemm:64,64,64 --machine 1xcpu", "10", &["10 B", "cpu0", "`a`", "`b`"]);
    let run = "run llama --text cat --new-tokens 1 --devices 2 --strategy one-device";
    check(run, "10KiB", &["10.0 KiB", "cpu", "weight"]);
    check("plan llama --batch-seq 1x4 --devices 2", "50KiB", &["50.0 KiB", "cpu", "mlp.down_proj.weight"]);
    // The machine's own memory is a limit too.
    let large = "plan --workload gemm:262144,262144,262144 --machine 8xa100 --devices 2";
    place.check(large, 3, &["no plan fits in 37.25 GiB", "gpu", "`a`", "would do"]);
}

#[test]
fn model_folders_that_are_wrong() {
    let place = Place::new();
    let check = |name: &str, edit: &dyn Fn(&std::path::Path), parts: &[&str]| {
        place.model(name, edit);
        let parts: Vec<&str> = parts.to_vec();
        place.check(&format!("run {name} --text cat --new-tokens 2 --devices 2"), 2, &parts);
    };
    let remove = |file: &'static str| move |folder: &std::path::Path| std::fs::remove_file(folder.join(file)).unwrap();
    let write = |file: &'static str, bytes: &'static [u8]| {
        move |folder: &std::path::Path| std::fs::write(folder.join(file), bytes).unwrap()
    };
    let config = |key: &'static str, value: Value| {
        move |folder: &std::path::Path| edited(&folder.join("config.json"), |c| c[key] = value.clone())
    };
    // Files.
    check("no-config", &remove("config.json"), &["no-config/config.json", "No such file"]);
    check("no-weights", &remove("model.safetensors"), &["no-weights", "model.safetensors.index.json"]);
    check("no-words", &remove("tokenizer.json"), &["no-words/tokenizer.json", "No such file"]);
    let folder_for_file = |folder: &std::path::Path| {
        std::fs::remove_file(folder.join("config.json")).unwrap();
        std::fs::create_dir(folder.join("config.json")).unwrap();
    };
    check("folder-config", &folder_for_file, &["folder-config/config.json", "directory"]);
    let dangling = |folder: &std::path::Path| {
        std::fs::remove_file(folder.join("tokenizer.json")).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", folder.join("tokenizer.json")).unwrap();
    };
    check("dangling", &dangling, &["dangling/tokenizer.json"]);
    // The configuration.
    check("empty-config", &write("config.json", b""), &["empty-config", "config.json", "EOF"]);
    check("cut-config", &write("config.json", b"{\"model_type\": "), &["config.json", "line 1 column 15"]);
    check("list-config", &write("config.json", b"[1]"), &["config.json", "no object"]);
    check("binary-config", &write("config.json", b"\xff\xfe\x00"), &["binary-config/config.json", "UTF-8"]);
    check("mamba", &config("architectures", json!(["MambaForCausalLM"])), &["`MambaForCausalLM`", "LlamaForCausalLM"]);
    check("headless-model", &config("architectures", json!(["LlamaModel"])), &["LlamaModel", "`ein plan`"]);
    check("heads", &config("num_attention_heads", json!(0)), &["`num_attention_heads` is 0", "from 1"]);
    check("kv", &config("num_key_value_heads", json!(3)), &["`num_attention_heads` is 5", "(3)"]);
    check("odd", &config("head_dim", json!(7)), &["`head_dim` is 7", "even"]);
    check("negative", &config("hidden_size", json!(-4)), &["`hidden_size` is -4"]);
    check("words", &config("hidden_size", json!("x")), &["`hidden_size` is \"x\""]);
    check("large", &config("hidden_size", json!(1_u64 << 52)), &["`hidden_size` is 4503599627370496"]);
    check("layers", &config("num_hidden_layers", json!(1_000_000_000_000_u64)), &["`num_hidden_layers`", "10000"]);
    check("activation", &config("hidden_act", json!("weird")), &["`hidden_act` is `weird`", "silu"]);
    check("rope", &config("rope_parameters", json!({ "rope_type": "weird" })), &["`weird`", "llama3"]);
    check("fp8", &config("dtype", json!("float8_e4m3fn")), &["`float8_e4m3fn`", "bfloat16"]);
    check("gptq", &config("quantization_config", json!({ "quant_method": "gptq" })), &["gptq", "not quantized"]);
    check("vocabulary", &config("vocab_size", json!(98)), &["`model.embed_tokens.weight` is [97, 40]", "[98, 40]"]);
    // The words.
    check("empty-words", &write("tokenizer.json", b""), &["empty-words/tokenizer.json"]);
    check("cut-words", &write("tokenizer.json", b"{\"version\""), &["cut-words/tokenizer.json"]);
    // The weights.
    check("empty", &write("model.safetensors", b""), &["empty/model.safetensors", "0 bytes"]);
    check("short", &write("model.safetensors", b"12345"), &["short/model.safetensors", "5 bytes"]);
    check("page", &write("model.safetensors", b"<!DOCTYPE html>"), &["page/model.safetensors", "safetensors file"]);
    check("lfs", &write("model.safetensors", b"version https://git-lfs.github.com/spec/v1\n"), &["git lfs pull"]);
    let weights = |edit: fn(Vec<u8>) -> Vec<u8>| {
        move |folder: &std::path::Path| {
            let path = folder.join("model.safetensors");
            std::fs::write(&path, edit(std::fs::read(&path).unwrap())).unwrap();
        }
    };
    check("half", &weights(|b| b[..b.len() / 2].to_vec()), &["half/model.safetensors", "cut off", "ends at byte"]);
    check("headless", &weights(|b| b[..500].to_vec()), &["headless/model.safetensors", "the file ends at 500"]);
    check("longer", &weights(|b| [b, vec![0; 9]].concat()), &["longer/model.safetensors", "9 bytes come after"]);
    let renamed = weights(|b| {
        with_header(&b, |h| h["model.layers.1.mlp.up.weight"] = h.as_object_mut().unwrap().remove(UP).unwrap())
    });
    check("missing", &renamed, &["no tensor `model.layers.1.mlp.up_proj.weight`"]);
    let turned = weights(|b| with_header(&b, |h| h[UP]["shape"] = json!([40, 53])));
    check("turned", &turned, &[UP, "[40, 53]", "[53, 40]"]);
    let whole = weights(|b| with_header(&b, |h| h["model.norm.weight"]["dtype"] = json!("I32")));
    check("whole", &whole, &["`model.norm.weight` is i32", "quantized"]);
    let beyond = weights(|b| with_header(&b, |h| h["model.norm.weight"]["data_offsets"][1] = json!(1_u64 << 50)));
    check("beyond", &beyond, &["`model.norm.weight`"]);
}

#[test]
fn texts_that_are_wrong() {
    let place = Place::new();
    place.model("llama", |_| ());
    let check = |args: &[&str], parts: &[&str]| {
        let args: Vec<&str> = ["run", "llama", "--devices", "2"].iter().chain(args).copied().collect();
        place.check_args(&args, 2, parts);
    };
    check(&["--text", ""], &["--text \"\"", "no token"]);
    check(&["--text", "cat", "--text", ""], &["--text \"\"", "no token"]);
    check(&["--text", &"the cat ".repeat(2000)], &["tokens", "the model has 128 positions"]);
    check(&["--text", "cat", "--new-tokens", "100000"], &["100000 more", "128 positions"]);
    check(&["--text", "cat", "--new-tokens", &u64::MAX.to_string()], &["128 positions"]);
    for number in ["0", "-1", "x", "1.5", "99999999999999999999999"] {
        check(&["--text", "cat", "--new-tokens", number], &[number, "at least 1"]);
    }
    // A model whose numbers are none continues nothing.
    place.model("nan", |folder| {
        let path = folder.join("model.safetensors");
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 4;
        bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
        std::fs::write(path, bytes).unwrap();
    });
    place.check("run nan --text cat --devices 2", 1, &["NaN", "weights"]);
    // What a text with odd characters means is the tokenizer's affair; it is no fault.
    place.check_args(&["run", "llama", "--text", "🙂 é\u{1}\n", "--new-tokens", "1", "--devices", "2"], 0, &[]);
}

#[test]
fn files_that_cannot_be_written() {
    let place = Place::new();
    place.model("llama", |_| ());
    let check = |file: &str, parts: &[&str]| {
        place.check(&format!("plan --workload gemm:8,8,8 --devices 2 --write-tasks {file}"), 2, parts);
        place.check(&format!("simulate --workload gemm:8,8,8 --devices 2 --trace {file}"), 2, parts);
        place.check(&format!("run llama --text cat --new-tokens 1 --devices 2 --trace {file}"), 2, parts);
    };
    check("no/such/folder/x", &["no/such/folder/x", "cannot be written", "No such file"]);
    check(".", &["cannot be written", "it is a folder"]);
    check("llama/config.json/x", &["cannot be written", "Not a directory"]);
    // What is no plain file is not replaced by one.
    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    place.check("simulate --workload gemm:8,8,8 --devices 2 --trace socket", 1, &["socket cannot be written"]);
    assert!(!place.path("socket").metadata().unwrap().is_file());
    // A failed request leaves what was there.
    place.file("kept.json", "kept");
    place.check("simulate --workload gemm:8,8,8 --devices 2 --trace kept.json --strategy ulysses", 2, &["ulysses"]);
    assert_eq!(place.read("kept.json"), "kept");
}

#[test]
fn readers_that_go_away() {
    let place = Place::new();
    place.file("graph.ein", GRAPH);
    // More than a pipe holds, so that writing meets the closed end.
    for line in ["machine show nvl72 --json", "plan graph.ein", "plan graph.ein --json", "machine list", "--help"] {
        assert_eq!(place.cut_off(line), (Some(0), String::new()), "{line}");
    }
    if std::path::Path::new("/dev/full").exists() {
        place.check_full("machine list", 1, &["standard output", "No space left"]);
    }
}

#[test]
fn the_fixture_is_what_these_tests_think_it_is() {
    let config: Value = serde_json::from_str(&std::fs::read_to_string(llama().join("config.json")).unwrap()).unwrap();
    let sizes = ["hidden_size", "num_attention_heads", "vocab_size", "max_position_embeddings", "intermediate_size"];
    assert_eq!(sizes.map(|key| config[key].as_u64()), [40, 5, 97, 128, 53].map(Some));
}

/// A parameter of the small model.
const UP: &str = "model.layers.1.mlp.up_proj.weight";

const GRAPH: &str = "\
x: input f32[8, 16]
w: param f32[16, 4]
y = einsum f32 (i: 8, j: 4 | k: 16) sum x[i, k] * w[k, j]
return y
";

const MACHINE: &str = r#"name = "three"
issue = "1 us"

[[devices]]
name = "g"
count = 3
kind = "gpu"
memory = "16 GB"
memory_bandwidth = "900 GB/s"
flops = { f32 = "15 TFLOP/s" }
launch = "2 us"

[[cables]]
pairs = [["g0", "g1"], ["g1", "g2"]]
bandwidth = "25 GB/s"
latency = "3 us"
"#;

/// A graph in text form runs on any number of devices with the values that are given.
#[test]
fn a_graph_runs_with_given_values() {
    let place = Place::new();
    let text =
        "table: param f32[5, 2]\nids: input i64[3]\ny = gather(table, ids)\ns = scan(y) sum\nreturn y\nreturn s\n";
    place.file("rows.ein", text);
    for devices in [1, 3, 8] {
        let line = format!("run rows.ein --devices {devices} --set table=0..10 --set ids=4,0,4 --check --json");
        let found = answered(&place, &line);
        assert_eq!(found["outputs"]["y"]["values"], serde_json::json!([8.0, 9.0, 0.0, 1.0, 8.0, 9.0]), "{devices}");
        assert_eq!(found["outputs"]["s"]["shape"], serde_json::json!([3, 2]), "{devices}");
        assert_eq!(found["max_abs_error_vs_reference"], 0.0, "{devices}");
        let told = place.check(&format!("run rows.ein --devices {devices} --set table=10*1.5 --set ids=3*2"), 0, &[]);
        assert!(told.contains("y f32[3, 2]\n    1.5 1.5"), "{told}");
        place.check(
            &format!("run rows.ein --devices {devices} --set table=0..10 --set ids=4,0,5"),
            1,
            &["`y`", "id 5", "0..5"],
        );
    }
    let check = |rest: &str, parts: &[&str]| drop(place.check(&format!("run rows.ein {rest}"), 2, parts));
    check("--set table=0..10", &["`ids` is i64[3] and has no value", "--set ids="]);
    check("--set table=0..10 --set ids=1,2", &["--set ids=1,2", "2 values for the 3 elements of i64[3]"]);
    check("--set tables=1", &["no input `tables`", "table, ids"]);
    check("--set ids", &["--set ids", "NAME=VALUES"]);
    check("--set ids=1,2,3 --set ids=1,2,3", &["`ids` is set twice"]);
    check("--tensors nothing.safetensors", &["--tensors nothing.safetensors"]);
}

/// A question that was asked before is answered from the folder of kept plans, unless the caller wants none of it.
#[test]
fn plans_are_kept() {
    let place = Place::new();
    let kept = place.kept();
    let check = |line: &str, cached: bool, files: usize| {
        let value: Value = serde_json::from_str(&place.check(&format!("{line} --json"), 0, &[])).unwrap();
        let found = value.get("plan").unwrap_or(&value)["cached"].as_bool();
        assert_eq!((found, std::fs::read_dir(&kept).map_or(0, Iterator::count)), (Some(cached), files), "{line}");
    };
    let question = "--workload ffnn:32,64,16,8 --machine 4xcpu";
    check(&format!("plan {question} --no-cache"), false, 0);
    check(&format!("plan {question}"), false, 1);
    check(&format!("plan {question}"), true, 1);
    check(&format!("explain {question}"), true, 1);
    check(&format!("simulate {question}"), true, 1);
    check(&format!("plan {question} --no-cache"), false, 1);
    check(&format!("plan {question} --devices 3"), false, 2);
    check(&format!("plan {question} --objective bytes"), false, 3);
    place.file("g.ein", "x: input f32[4]\ny = einsum f32 (i: 4) map x[i] + 1.0\nreturn y\n");
    check("run g.ein --set x=0..4 --devices 2", false, 4);
    check("run g.ein --set x=0..4 --devices 2", true, 4);
    for entry in std::fs::read_dir(&kept).unwrap() {
        std::fs::write(entry.unwrap().path(), "nonsense").unwrap();
    }
    check(&format!("plan {question}"), false, 4);
    check(&format!("plan {question}"), true, 4);
    let text = place.check(&format!("plan {question}"), 0, &[]);
    assert!(text.contains("known from then: --no-cache plans afresh"), "{text}");
}

/// Two plans beside each other, from files and from questions.
#[test]
fn plans_are_compared() {
    let place = Place::new();
    let question = "--workload ffnn:32,64,16,8 --machine 8xa100 --devices 4";
    place.check(&format!("plan {question} --save a.plan"), 0, &[]);
    place.check(&format!("plan {question} --no-cache --save again.plan"), 0, &[]);
    assert_eq!(place.read("a.plan"), place.read("again.plan"), "equal questions write equal bytes");
    place.check(&format!("plan {question} --strategy tensor --save b.plan"), 0, &[]);
    let check = |a: &str, b: &str, code: i32, parts: &[&str]| place.check_args(&["plan", "diff", a, b], code, parts);
    assert!(check("a.plan", "again.plan", 0, &[]).contains("the plans are the same"));
    assert!(check("a.plan", question, 0, &[]).contains("the plans are the same"));
    let other = question.replace("--devices 4", "--devices 3");
    let text = check("a.plan", "b.plan", 4, &["the plans differ"]);
    assert!(text.contains("operations are cut otherwise") && text.contains("tensors live elsewhere"), "{text}");
    let text = place.check_args(&["plan", "diff", "a.plan", &format!("{other} --objective bytes"), "--json"], 4, &[]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((value["equal"].as_bool(), value["sides"][1]["cost_unit"].as_str()), (Some(false), Some("B")));
    // What is neither.
    check("a.plan", "nothing", 2, &["nothing: there is no such file"]);
    check("a.plan", "--machine 8xa100", 2, &["`--machine 8xa100`", "ein plan --save"]);
    check("a.plan", "diff a.plan b.plan", 2, &["ein plan --save"]);
    place.file("cut.plan", &place.read("a.plan")[..200]);
    check("cut.plan", "a.plan", 2, &["cut.plan", "cut short or changed"]);
    place.check("plan diff a.plan", 2, &["<B>"]);
    place.check(&format!("plan {question} --save no/such/place"), 2, &["no/such/place cannot be written"]);
}
