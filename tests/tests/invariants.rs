//! What the source may not contain: most invariants of the architecture are absences.

use ein_plan::options::Strategy;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the project").to_owned()
}

/// The Rust files below a folder of the project, by path from its root, with their text.
fn sources(folder: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root().join(folder)];
    while let Some(path) = open.pop() {
        for entry in std::fs::read_dir(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).expect("a text");
                let name = path.strip_prefix(root()).expect("below the root");
                found.insert(name.to_string_lossy().into_owned(), text);
            }
        }
    }
    assert!(!found.is_empty(), "{folder} holds Rust files");
    found
}

/// The code of a file: without comments, and without the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().expect("a first part");
    let line = |line: &str| line.split("//").next().expect("a first part").to_owned();
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The words of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}

fn crates() -> Vec<String> {
    let folders = std::fs::read_dir(root().join("crates")).expect("the crates");
    let mut names: Vec<String> =
        folders.map(|f| f.expect("a folder").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Files that may hold `unsafe`, or folders of them: those of a device or a transport that needs it.
const UNSAFE: [&str; 11] = [
    "crates/ein-cuda/src/compile/nvrtc.rs",
    "crates/ein-cuda/src/driver.rs",
    "crates/ein-cuda/src/driver/",
    "crates/ein-run/src/cpu/dots.rs",
    "crates/ein-run/src/cpu/gemm.rs",
    "crates/ein-run/src/cpu/tiles.rs",
    "crates/ein-run/src/lent.rs",
    "crates/ein-run/src/pages.rs",
    "crates/ein-run/src/pool.rs",
    "crates/ein-run/src/team.rs",
    "crates/ein-run/src/virtual_devices.rs",
];

#[test]
fn unsafe_only_in_named_files() {
    for name in crates() {
        for (file, text) in sources(&format!("crates/{name}/src")) {
            let found = words(&code(&text)).any(|w| w == "unsafe");
            // The fake libraries are functions that C calls: their files say so by their names.
            let library = name == "ein-fake-cuda" && file.ends_with("_ffi.rs");
            let named = UNSAFE.iter().any(|n| file == *n || (n.ends_with('/') && file.starts_with(n)));
            assert!(!found || library || named, "{file} holds `unsafe`");
        }
    }
}

/// The crates of the project that each depends on.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let own: BTreeSet<String> = crates().into_iter().collect();
    let of = |name: &String| {
        let path = root().join("crates").join(name).join("Cargo.toml");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut inside = false;
        let mut found = BTreeSet::new();
        for line in text.lines() {
            if line.starts_with('[') {
                // Tables of one dependency, such as `[dependencies.ein-ir]`, and those of a target, count too.
                inside = line.contains("dependencies") && !line.contains("dev-dependencies");
            }
            let names = line.split(['.', '=', ' ', '[', ']', '"']).filter(|w| own.contains(*w));
            if inside {
                found.extend(names.map(str::to_owned));
            }
        }
        (name.clone(), found)
    };
    own.iter().map(of).collect()
}

/// Code depends downward only, and the planner and the executor never see each other.
#[test]
fn floors() {
    let allowed: [(&str, &[&str]); 9] = [
        ("ein-ir", &[]),
        ("ein-task", &["ein-ir"]),
        ("ein-plan", &["ein-ir", "ein-task"]),
        ("ein-run", &["ein-ir", "ein-task"]),
        ("ein-cuda", &["ein-ir", "ein-task", "ein-run"]),
        ("ein-fake-cuda", &[]),
        ("einsummable", &["ein-ir", "ein-task", "ein-plan", "ein-run", "ein-cuda"]),
        ("ein-cli", &["ein-ir", "ein-task", "ein-plan", "ein-run", "ein-cuda", "einsummable"]),
        ("ein-py", &["ein-ir", "ein-task", "ein-plan", "ein-run", "ein-cuda", "einsummable"]),
    ];
    let found = dependencies();
    assert_eq!(found.keys().map(String::as_str).collect::<BTreeSet<_>>(), allowed.iter().map(|a| a.0).collect());
    for (name, below) in allowed {
        for other in &found[name] {
            assert!(below.contains(&other.as_str()), "{name} depends on {other}");
        }
    }
    assert!(found["ein-plan"].contains("ein-task") && found["ein-run"].contains("ein-task"), "{found:?}");
}

/// Strategies are fixed plans to compare with: only the files that make and list them name one.
#[test]
fn the_search_names_no_strategy() {
    // Options hold the list, `plan` hands a strategy that was asked for on, the report shows its name.
    let may = |file: &str| {
        let name = file.strip_prefix("crates/ein-plan/src/").expect("a file of the planner");
        name.starts_with("strategies") || name == "options.rs"
    };
    let names: BTreeSet<String> = Strategy::ALL
        .iter()
        .flat_map(|s| [format!("{s:?}"), s.name()])
        .chain(["DataTensor", "Random"].map(str::to_owned))
        .chain(
            ["megatron", "deepspeed", "Megatron", "zero1", "allreduce", "all_reduce", "all_gather"].map(str::to_owned),
        )
        // Words of other meanings.
        .filter(|n| !["Data", "data", "Tensor", "tensor", "OneDevice", "Ring", "ring"].contains(&n.as_str()))
        .collect();
    for (file, text) in sources("crates/ein-plan/src") {
        if may(&file) || file.contains("tests") {
            continue;
        }
        for word in words(&code(&text)) {
            assert!(!names.contains(word), "{file} names the strategy `{word}`");
        }
        assert!(!code(&text).contains("Strategy::") || file.ends_with("/plan.rs"), "{file} names a strategy");
    }
}

/// Only the code that computes an operation knows it by name: neither the planner nor the executor.
#[test]
fn operations_have_no_names_above_their_spec() {
    for folder in ["crates/ein-plan/src", "crates/ein-run/src", "crates/ein-task/src"] {
        for (file, text) in sources(folder) {
            // The strategies follow a model's heads through its views; a device has a kernel for each operation.
            let views = file.starts_with("crates/ein-plan/src/strategies");
            if file.starts_with("crates/ein-run/src/cpu/") || file.contains("tests") {
                continue;
            }
            // Unit tests at the end of a file may name what they try.
            let code = code(text.split("#[cfg(test)]").next().unwrap_or(""));
            assert!(!code.contains("ein_ir::kernel"), "{file} uses the kernels, which it should not know");
            for kind in ["Kernel::", "View::"].into_iter().filter(|&k| !views || k == "Kernel::") {
                for (at, _) in code.match_indices(kind) {
                    let named = code[at + kind.len()..].starts_with(|c: char| c.is_ascii_uppercase());
                    let line = code[..at].matches('\n').count() + 1;
                    assert!(
                        !named,
                        "{file}, line {line} names an operation: {}",
                        code[at..].lines().next().unwrap_or("")
                    );
                }
            }
            for name in ein_ir::kernel::Kernel::NAMES {
                assert!(!text.contains(&format!("\"{name}\"")), "{file} names the operation `{name}`");
            }
        }
    }
}

/// No plan depends on the order of a hash table: what is looked up there is never listed.
#[test]
fn no_plan_depends_on_hash_order() {
    for folder in ["crates/ein-ir/src", "crates/ein-task/src", "crates/ein-plan/src"] {
        for (file, text) in sources(folder) {
            let code = code(&text);
            // The names of fields and variables that are declared as hash tables.
            let declared: BTreeSet<&str> = code
                .lines()
                .filter(|l| l.contains("HashMap<") || l.contains("HashSet<") || l.contains("HashMap::new"))
                .filter_map(|l| l.trim().trim_start_matches("pub ").trim_start_matches("let mut ").split(':').next())
                .filter(|n| n.chars().all(|c| c.is_alphanumeric() || c == '_'))
                .collect();
            for name in declared {
                for listing in [".iter()", ".keys()", ".values()", ".into_iter()", ".drain("] {
                    let listed = format!("{name}{listing}");
                    let found = code
                        .match_indices(&listed)
                        .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
                    assert!(!found, "{file} lists the hash table: `{listed}`");
                }
            }
        }
    }
}

/// Neither the graph nor the task graph nor the planner opens a file or reads the time; how long planning
/// took is reported by the one file that runs all of it or by that of several, and a time limit, if one is asked for, is
/// looked at in one place.
#[test]
fn no_clock_and_no_files_below() {
    for folder in ["crates/ein-ir/src", "crates/ein-task/src", "crates/ein-plan/src"] {
        for (file, text) in sources(folder) {
            if file.contains("tests") {
                continue;
            }
            let code = code(&text);
            let clock = code.contains("Instant::now") || code.contains("SystemTime");
            let may = ["plan.rs", "together.rs", "deadline.rs"].map(|name| format!("crates/ein-plan/src/{name}"));
            assert!(!clock || may.contains(&file), "{file} reads a clock");
            let files = code.contains("std::fs") || code.contains("File::open");
            // A machine may be read from a file that the user names.
            assert!(!files || file == "crates/ein-task/src/machine_file.rs", "{file} opens files");
        }
    }
}
