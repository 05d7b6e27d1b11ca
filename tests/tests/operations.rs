//! Every operation, with drawn arguments, by random choices and by searched plans on one to eight devices:
//! what comes out is what the dense reference gives.
//!
//! `EIN_TEST_DRAWS` sets the number of draws of each operation (50 unless it is set); `EIN_TEST_SEED` runs one
//! draw alone and `EIN_TEST_OPERATION` one row alone.

use ein_ir::graph::Graph;
use ein_ir::op::InputKind;
use ein_ir::reference::run;
use ein_ir::text;
use ein_plan::lower::lower;
use ein_plan::options::{Objective, Options};
use ein_plan::plan::plan;
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::verify::verify;
use ein_tests::choices::{self, drawn};
use ein_tests::computed::{Values, once};
use ein_tests::machines;
use ein_tests::operations::{Draw, Drawn, Operation, all, families};
use ein_tests::plans::soon_searched;
use ein_tests::same::{difference, variable};
use einsummable::Tensor;
use einsummable::trace::trace;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Draws of one operation, unless the environment says otherwise.
const DRAWS: u64 = 50;

/// A number for a name, the same everywhere.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// One draw; what is wrong, if anything is, is told with the graph where there is one.
fn check(operation: &Operation, seed: u64) -> Result<(), String> {
    let mixed = hash(operation.name) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let devices = 1 + (seed % 8) as usize;
    let mut draw = Draw::new(mixed, devices);
    let Drawn { outputs, within } = (operation.draw)(&mut draw);
    for output in &outputs {
        output.check().map_err(|e| format!("the row draws what is refused: {e}"))?;
    }
    let names: Vec<String> = (0..outputs.len()).map(|n| format!("y{n}")).collect();
    let named: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(&outputs).collect();
    let graph = trace(&named).map_err(|e| format!("tracing: {e}"))?;
    assert!(graph.constants.is_empty(), "a row's inputs come from its draw");
    let graph = graph.graph;
    planned(&graph, draw.values(), within, devices, mixed, seed)
        .map_err(|what| format!("{what}\n{}", text::print(&graph)))
}

/// Compares plans of the graph with its reference.
fn planned(graph: &Graph, values: &Values, within: f64, devices: usize, mixed: u64, seed: u64) -> Result<(), String> {
    let kinds = [InputKind::Parameter, InputKind::Input, InputKind::State];
    let ids = kinds.into_iter().flat_map(|k| graph.inputs(k));
    let inputs: Values = ids
        .filter_map(|id| values.get_key_value(&graph.node(id).name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let expected = run(graph, &inputs).map_err(|e| format!("the reference: {e}"))?;
    let compare = |how: &str, found: &Values| match difference(found, &expected, within) {
        Some(what) => Err(format!("{how}: {what}")),
        None => Ok(()),
    };
    let machine = machines::drawn(&mut choices::Rng::new(mixed), devices);
    let how = format!("by chance on {} of {devices}", machine.name);
    let told = |e: String| format!("{how}: {e}");
    let mut tasks =
        lower(graph, &drawn(graph, devices, mixed), &machine, &Options::default()).map_err(|e| told(e.to_string()))?;
    plan_memory(&mut tasks);
    verify(&tasks).map_err(|e| told(e.to_string()))?;
    compare(&how, &once(graph, &tasks, &inputs).map_err(told)?)?;
    // Searches are dearer than lowering: every few draws, for every count of devices in turn.
    if seed.is_multiple_of(3) {
        let devices = soon_searched(graph, devices);
        let objective = if seed.is_multiple_of(2) { Objective::Time } else { Objective::Bytes };
        let how = format!("searched for {objective:?} on {devices}");
        let told = |e: String| format!("{how}: {e}");
        let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
        let options = Options { objective, ..Options::default() };
        let plan = plan(graph, &machine, &options).map_err(|e| told(e.to_string()))?;
        verify(&plan.tasks).map_err(|e| told(e.to_string()))?;
        compare(&how, &once(&plan.graph, &plan.tasks, &inputs).map_err(told)?)?;
    }
    Ok(())
}

/// [`check`], panics included.
fn wrong(operation: &Operation, seed: u64) -> Option<String> {
    let caught = catch_unwind(AssertUnwindSafe(|| check(operation, seed)));
    let result = caught.unwrap_or_else(|p| {
        let text = p.downcast_ref::<String>().cloned();
        let text = text.or_else(|| p.downcast_ref::<&str>().map(ToString::to_string));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    result.err()
}

fn family(name: &str) {
    let (_, rows) = families().into_iter().find(|(n, _)| *n == name).expect("a family");
    let seeds = match variable("EIN_TEST_SEED") {
        Some(one) => one..one + 1,
        None => 0..variable("EIN_TEST_DRAWS").unwrap_or(DRAWS),
    };
    let only = std::env::var("EIN_TEST_OPERATION").ok();
    let mut told = Vec::new();
    for row in rows.iter().filter(|r| only.as_ref().is_none_or(|o| r.name == o)) {
        let failures: Vec<(u64, String)> = seeds.clone().filter_map(|seed| Some((seed, wrong(row, seed)?))).collect();
        // The shortest says most.
        if let Some((seed, what)) = failures.iter().min_by_key(|(_, what)| what.len()) {
            let replay = format!("EIN_TEST_OPERATION='{}' EIN_TEST_SEED={seed}", row.name);
            told.push(format!("{}: {} draws are wrong, such as {replay}:\n{what}", row.name, failures.len()));
        }
    }
    assert!(told.is_empty(), "{}", told.join("\n\n"));
}

macro_rules! families {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                family(stringify!($name));
            }
        )*

        #[test]
        fn every_family_is_run() {
            let run = [$(stringify!($name)),*];
            assert_eq!(families().iter().map(|f| f.0).collect::<Vec<_>>(), run);
        }
    };
}

// One line a family.
#[rustfmt::skip]
families!(
    activation,
    arithmetic,
    attention,
    bits,
    compare,
    contract,
    conv,
    create,
    cumulative,
    functions,
    image,
    index,
    loss,
    norm,
    order,
    pool,
    products,
    random,
    rearrange,
    reduce,
    shape,
);

/// Methods that make tensors and need no row, with the reason.
const NO_ROW: [(&str, &str); 7] = [
    ("input", "every row has inputs, which the draw makes"),
    ("parameter", "as `input`"),
    ("state", "as `input`"),
    ("constant", "as `input`: to the graph it is a parameter; ein_run's and the session's tests give values"),
    ("named", "names a row and computes nothing"),
    ("poisoned", "carries an error and computes nothing"),
    ("from_einsum", "any einsum: tests/tests/random_graphs.rs and random_plans.rs draw those"),
];

/// The names of the public functions in a source file that give tensors, macros' included.
fn makers(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in source.match_indices("pub fn ") {
        let rest = &source[at + "pub fn ".len()..];
        let signature = &rest[..rest.find(" {\n").unwrap_or(rest.len())];
        let name: String = signature.chars().take_while(|c| c.is_ascii_alphanumeric() || "_$".contains(*c)).collect();
        let result = signature.split_once("->").map_or("", |(_, result)| result);
        if !name.starts_with('$') && ["Tensor", "Self"].iter().any(|t| result.replace("TensorError", "").contains(t)) {
            names.push(name);
        }
    }
    // Rows of the macros that make methods: `exp Exp "e to the power …",`.
    for line in source.lines() {
        if let [name, _, doc, ..] = line.split_whitespace().collect::<Vec<_>>()[..]
            && line.starts_with("    ")
            && doc.starts_with('"')
            && line.ends_with("\",")
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        {
            names.push(name.to_owned());
        }
    }
    names
}

fn sources(folder: &Path, found: &mut Vec<String>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.map(|e| e.expect("an entry").path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
        }
    }
}

#[test]
fn every_method_that_makes_a_tensor_has_a_row() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/einsummable/src/tensor"), &mut files);
    let made: BTreeSet<String> = files.iter().flat_map(|f| makers(f)).collect();
    for known in ["exp", "matmul", "softmax", "einsum", "named"] {
        assert!(made.contains(known), "`{known}` is not found in the source: {made:?}");
    }
    let rows: BTreeSet<String> =
        all().iter().map(|r| r.name.split_whitespace().next().expect("a name").to_owned()).collect();
    let without: BTreeSet<String> = NO_ROW.iter().map(|(name, _)| (*name).to_owned()).collect();
    let missing: Vec<&String> = made.iter().filter(|m| !rows.contains(*m) && !without.contains(*m)).collect();
    assert!(missing.is_empty(), "methods of Tensor without a row in tests/src/operations/: {missing:?}");
    let unknown: Vec<&String> = rows.iter().chain(&without).filter(|r| !made.contains(*r)).collect();
    assert!(unknown.is_empty(), "rows or exceptions that name no method of Tensor: {unknown:?}");
    let twice: Vec<&String> = rows.iter().filter(|r| without.contains(*r)).collect();
    assert!(twice.is_empty(), "exceptions that have a row: {twice:?}");
}

#[test]
fn rows_have_names_of_their_own() {
    let mut seen = BTreeSet::new();
    for row in all() {
        assert!(seen.insert(row.name), "two rows are named `{}`", row.name);
    }
}
