//! Every operation against `PyTorch`: the dense reference, and searched plans on one device and on several,
//! give its types, shapes and values. `tests/vectors/make.py` wrote those.

use ein_ir::reference::run;
use ein_ir::text;
use ein_plan::options::Options;
use ein_plan::plan::plan;
use ein_task::machine::Machine;
use ein_tests::computed::{Values, once};
use ein_tests::operations::all;
use ein_tests::plans::soon_searched;
use ein_tests::vectors::{Apply, Vector, families, read};
use einsummable::Tensor;
use einsummable::trace::trace;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

fn agrees(vector: &Vector, how: &str, found: &Values) -> Result<(), String> {
    if found.len() != vector.outputs.len() {
        return Err(format!("{how}: {} outputs, PyTorch gives {}", found.len(), vector.outputs.len()));
    }
    let wrong = |n: usize| vector.difference(n, &found[&format!("y{n}")]).map(|what| (n, what));
    match (0..found.len()).find_map(wrong) {
        Some((n, what)) => Err(format!("{how}: output {n}: {what}")),
        None => Ok(()),
    }
}

fn check(vector: &Vector, number: usize, apply: Apply) -> Result<(), String> {
    let name = |n: usize| format!("x{n}");
    let tensors: Vec<Tensor> =
        vector.inputs.iter().enumerate().map(|(n, v)| Tensor::input(&name(n), v.shape.clone(), v.dtype())).collect();
    let outputs = apply(&vector.operation, &vector.args, &tensors)
        .ok_or("tests/src/vectors/ does not know this operation".to_owned())?;
    let names: Vec<String> = (0..outputs.len()).map(|n| format!("y{n}")).collect();
    let named: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(&outputs).collect();
    let traced = trace(&named).map_err(|e| e.to_string())?;
    let graph = traced.graph;
    let mut values: Values = traced.constants.into_iter().map(|(name, value)| (name, (*value).clone())).collect();
    values.extend(vector.inputs.iter().enumerate().map(|(n, v)| (name(n), v.clone())));
    values.retain(|name, _| graph.find(name).is_some());
    let told = |e: String| format!("{e}\n{}", text::print(&graph));
    let reference = run(&graph, &values).map_err(|e| told(format!("the reference: {e}")))?;
    agrees(vector, "the reference", &reference).map_err(told)?;
    for devices in [1, soon_searched(&graph, 2 + number % 7)] {
        let how = format!("on {devices}");
        let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
        let plan = plan(&graph, &machine, &Options::default()).map_err(|e| told(format!("{how}: {e}")))?;
        let found = once(&plan.graph, &plan.tasks, &values).map_err(|e| told(format!("{how}: {e}")))?;
        agrees(vector, &how, &found).map_err(told)?;
    }
    Ok(())
}

fn family(name: &str) {
    let (_, apply) = families().into_iter().find(|(n, _)| *n == name).expect("a family");
    let vectors = read(name);
    let mut wrong = Vec::new();
    for (number, vector) in vectors.iter().enumerate() {
        let caught = catch_unwind(AssertUnwindSafe(|| check(vector, number, apply)));
        if let Err(what) = caught.unwrap_or_else(|_| Err("it panics, see above".to_owned())) {
            wrong.push(format!("{name}.jsonl:{}: {}, {}: {what}", number + 1, vector.operation, vector.variant));
        }
    }
    let count = vectors.len();
    assert!(wrong.is_empty(), "{} of {count} cases are wrong:\n\n{}", wrong.len(), wrong.join("\n\n"));
    println!("{name}: {count} cases are what PyTorch gives");
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
            let run: BTreeSet<&str> = [$(stringify!($name)),*].into();
            assert_eq!(families().iter().map(|f| f.0).collect::<BTreeSet<_>>(), run);
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
            let entries = std::fs::read_dir(folder).expect("the folder of vectors").map(|e| e.expect("an entry").path());
            let stored: BTreeSet<String> = entries
                .filter(|p| p.extension().is_some_and(|e| e == "jsonl"))
                .map(|p| p.file_stem().expect("a name").to_string_lossy().into_owned())
                .collect();
            assert_eq!(stored.iter().map(String::as_str).collect::<BTreeSet<_>>(), run);
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
    elementwise,
    functions,
    image,
    index,
    loss,
    norm,
    order,
    pool,
    products,
    rearrange,
    reduce,
    shape,
);

/// Operations that `PyTorch` has no vectors of, with the reason.
const NO_VECTOR: [(&str, &str); 12] = [
    ("rand", RANDOM),
    ("rand_like", RANDOM),
    ("uniform", RANDOM),
    ("randn", RANDOM),
    ("randn_like", RANDOM),
    ("normal", RANDOM),
    ("randint", RANDOM),
    ("exponential", RANDOM),
    ("randperm", RANDOM),
    ("multinomial", RANDOM),
    ("bernoulli", RANDOM),
    ("dropout", RANDOM),
];
const RANDOM: &str =
    "PyTorch's generator is another; einsummable's tests/it/random.rs has known answers and statistics";

#[test]
fn every_operation_has_vectors() {
    let vectors: Vec<Vector> = families().into_iter().flat_map(|(name, _)| read(name)).collect();
    let known: BTreeSet<&str> = vectors.iter().map(|v| v.operation.as_str()).collect();
    let rows = all();
    let named: BTreeSet<&str> = rows.iter().filter_map(|r| r.name.split_whitespace().next()).collect();
    let without = |name: &str| NO_VECTOR.iter().any(|(n, _)| *n == name);
    let missing: Vec<&&str> = named.iter().filter(|n| !known.contains(**n) && !without(n)).collect();
    assert!(missing.is_empty(), "operations without a case in tests/vectors/: {missing:?}");
    let unknown: Vec<&&str> = known.iter().filter(|n| !named.contains(**n)).collect();
    assert!(unknown.is_empty(), "cases of no operation in tests/src/operations/: {unknown:?}");
    println!("{} variants of {} operations", vectors.len(), known.len());
    assert!(vectors.len() >= 150, "only {} variants", vectors.len());
}
