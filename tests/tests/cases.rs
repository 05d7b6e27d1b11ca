//! Small inputs on which distributed tensor systems have gone wrong: by the searched plan, by hand and by
//! chance, on one to eight devices, the result is that of one device.

use ein_ir::graph::Graph;
use ein_ir::text;
use ein_plan::choice::Choice;
use ein_plan::lower::lower;
use ein_plan::options::{Objective, Options};
use ein_plan::plan::plan;
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::task::{TaskGraph, Verb};
use ein_task::task_text::print;
use ein_task::verify::verify;
use ein_tests::cases::{Case, parse};
use ein_tests::choices::{Rng, by_label, drawn, held};
use ein_tests::computed::once;
use ein_tests::machines;
use ein_tests::same::difference;

fn check(file: &str) {
    for case in parse(file) {
        match (&case.waits, &case.refused) {
            (Some(feature), _) => println!("{}: waits for {feature}", case.name),
            (_, Some(why)) => {
                let refusal = text::parse(&case.text).expect_err(&case.name).to_string();
                assert!(refusal.contains(why.as_str()), "{}: {refusal}", case.name);
            }
            (None, None) => {
                let graph = case.graph();
                by_search(&case, &graph);
                by_hand(&case, &graph);
                by_chance(&case, &graph);
            }
        }
    }
}

/// Runs a plan of a case and compares.
fn compare(case: &Case, graph: &Graph, tasks: &TaskGraph, how: &str) {
    verify(tasks).unwrap_or_else(|e| panic!("{}, {how}: {e}\n{}", case.name, print(tasks)));
    let found = once(graph, tasks, &case.inputs(graph));
    match (&case.fails, found) {
        (None, Ok(found)) => {
            let off = difference(&found, &case.expected(graph), case.within);
            assert_eq!(off, None, "{}, {how}\n{}", case.name, print(tasks));
        }
        (None, Err(e)) => panic!("{}, {how}: {e}", case.name),
        (Some(why), Err(e)) => assert!(e.contains(why.as_str()), "{}, {how}: `{why}` is not in: {e}", case.name),
        (Some(_), Ok(found)) => panic!("{}, {how}: {found:?}", case.name),
    }
}

/// Bytes that cross between devices.
fn moved(tasks: &TaskGraph) -> u64 {
    let received = tasks.tasks.iter().filter(|t| matches!(t.verb, Verb::Receive { .. }));
    received.map(|t| t.value.form.bytes(&t.value.region) as u64).sum()
}

fn by_search(case: &Case, graph: &Graph) {
    for devices in 1..=8 {
        let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
        for objective in [Objective::Time, Objective::Bytes] {
            let how = format!("searched for {objective:?} on {devices}");
            let options = Options { objective, ..Options::default() };
            let plan = plan(graph, &machine, &options).unwrap_or_else(|e| panic!("{}, {how}: {e}", case.name));
            compare(case, &plan.graph, &plan.tasks, &how);
            if let (Objective::Bytes, Some(bytes)) = (objective, case.searched_moves) {
                assert_eq!(moved(&plan.tasks), bytes, "{}, {how}", case.name);
            }
        }
    }
}

fn lowered(case: &Case, graph: &Graph, choice: &Choice, machine: &Machine, how: &str) -> TaskGraph {
    let mut tasks =
        lower(graph, choice, machine, &Options::default()).unwrap_or_else(|e| panic!("{}, {how}: {e}", case.name));
    plan_memory(&mut tasks);
    tasks
}

fn by_hand(case: &Case, graph: &Graph) {
    if !case.by_hand() {
        return;
    }
    let find = |name: &str| graph.find(name).unwrap_or_else(|| panic!("{}: there is no `{name}`", case.name));
    for &devices in &case.on {
        let labels: Vec<(&str, &str)> = case.cut.iter().map(|(r, l)| (r.as_str(), l.as_str())).collect();
        for (row, label) in &case.cut {
            let spec = graph.spec(find(row)).expect("a row that computes");
            assert!(spec.labels.iter().any(|l| l.name == *label), "{}: `{row}` has no label `{label}`", case.name);
        }
        let mut choice = by_label(graph, devices, &labels);
        for (input, axis) in &case.hold {
            choice.homes.insert(find(input), held(graph, find(input), *axis, devices));
        }
        let how = format!("by hand on {devices}");
        let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
        let tasks = lowered(case, graph, &choice, &machine, &how);
        compare(case, graph, &tasks, &how);
        if let Some(bytes) = case.moves {
            assert_eq!(moved(&tasks), bytes, "{}, {how}\n{}", case.name, print(&tasks));
        }
    }
}

fn by_chance(case: &Case, graph: &Graph) {
    for devices in 1..=8 {
        for seed in 0..4 {
            let seed = 10 * devices as u64 + seed;
            let machine = machines::drawn(&mut Rng::new(seed), devices);
            let how = format!("by chance {seed} on {}", machine.name);
            let tasks = lowered(case, graph, &drawn(graph, devices, seed), &machine, &how);
            compare(case, graph, &tasks, &how);
        }
    }
}

#[test]
fn a_sizes() {
    check(include_str!("../cases/a-sizes.ein"));
}

#[test]
fn b_views() {
    check(include_str!("../cases/b-views.ein"));
}

#[test]
fn c_partials() {
    check(include_str!("../cases/c-partials.ein"));
}

#[test]
fn d_indices() {
    check(include_str!("../cases/d-indices.ein"));
}

#[test]
fn e_einsums() {
    check(include_str!("../cases/e-einsums.ein"));
}

#[test]
fn f_to_k() {
    check(include_str!("../cases/f-to-k.ein"));
}
