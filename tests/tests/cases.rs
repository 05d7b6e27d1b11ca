//! Small inputs on which distributed tensor systems have gone wrong: by the searched plan, by hand and by
//! chance, on one to eight devices, the result is that of one device.

use ein_ir::graph::Graph;
use ein_ir::text;
use ein_plan::choice::Choice;
use ein_plan::lower::lower;
use ein_plan::options::{Objective, Options};
use ein_plan::plan::plan;
use ein_run::Order;
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::task::{TaskGraph, Verb};
use ein_task::task_text::print;
use ein_task::verify::verify;
use ein_tests::cases::{Case, parse};
use ein_tests::choices::{Rng, drawn};
use ein_tests::computed::computed;
use ein_tests::machines;
use ein_tests::same::difference;
use std::collections::BTreeSet;
use std::path::Path;

fn check(file: &str) {
    for case in parse(file) {
        if let Some(why) = &case.refused {
            let refusal = text::parse(&case.text).expect_err(&case.name).to_string();
            assert!(refusal.contains(why.as_str()), "{}: {refusal}", case.name);
            continue;
        }
        let graph = case.graph();
        by_search(&case, &graph);
        by_hand(&case, &graph);
        by_chance(&case, &graph);
    }
}

/// Runs a plan of a case and compares.
fn compare(case: &Case, graph: &Graph, tasks: &TaskGraph, how: &str) {
    verify(tasks).unwrap_or_else(|e| panic!("{}, {how}: {e}\n{}", case.name, print(tasks)));
    // In random order, it is also run with no message buffered.
    let found = computed(graph, tasks, &case.inputs(graph), &[Order::Listed, Order::Random(3)]);
    match (&case.fails, found) {
        (None, Ok(runs)) => {
            for found in runs {
                let off = difference(&found, &case.expected(graph), case.within);
                assert_eq!(off, None, "{}, {how}\n{}", case.name, print(tasks));
            }
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
    for &devices in &case.on {
        let choice = case.choice(graph, devices);
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

/// Every id that there is. One that is not listed in the index is forgotten.
const IDS: &str = "A1 A2 A4 A5 A6 A7 A9 A10 A11 A12 A14 A15 A16 A18 A20 A21 A23 \
    B1 B3 B4 B6 B8 B10 B11 C1 C2 C4 C5 C6 C7 C10 C11 C12 C13 C15 C16 C18 C19 C21 D1 D3 D5 D7 E1 E4 E5 E6 E7 E8 \
    F2 F4 F5 G1 G3 G4 G5 H1 H4 H5 H6 H8 I1 I2 I4 I6 I7 I9 I10 J1 J2 J5 J6 J7 J8 J9 K1 K4 K5";

/// A test by its file and name, such as `plans::plans_repeat`.
fn is_a_test(place: &str) -> bool {
    let Some((file, name)) = place.split_once("::") else { return false };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = if file.contains('/') { here.join("..").join(file) } else { here.join(format!("tests/{file}.rs")) };
    let Ok(source) = std::fs::read_to_string(path) else { return false };
    let written = source.contains(&format!("#[test]\nfn {name}()"));
    // The tests of families are made by a macro, from their names.
    let families = source.split_once("\nfamilies!(").and_then(|(_, rest)| Some(rest.split_once(");")?.0));
    written || families.is_some_and(|names| names.split([',', '\n']).any(|n| n.trim() == name))
}

#[test]
fn a_case_is_tested_or_waits() {
    let files = [
        include_str!("../cases/a-sizes.ein"),
        include_str!("../cases/b-views.ein"),
        include_str!("../cases/c-partials.ein"),
        include_str!("../cases/d-indices.ein"),
        include_str!("../cases/e-einsums.ein"),
        include_str!("../cases/f-to-k.ein"),
    ];
    let id_of = |name: &str| name.split_whitespace().next().unwrap_or_default().to_owned();
    let sections: BTreeSet<String> = files.iter().flat_map(|f| parse(f)).map(|c| id_of(&c.name)).collect();
    let mut tested: BTreeSet<String> = BTreeSet::new();
    let mut waiting: BTreeSet<String> = BTreeSet::new();
    let mut with_section: BTreeSet<String> = BTreeSet::new();
    let rows = include_str!("../cases/index.txt").lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    for row in rows {
        let (case, places) = row.split_once(" | ").unwrap_or_else(|| panic!("`{row}` says not where"));
        let id = id_of(case);
        let places: Vec<&str> = places.split("; ").collect();
        if let [place] = places[..]
            && let Some(what) = place.strip_prefix("waits for ")
        {
            println!("{case}: waits for {what}");
            waiting.insert(id);
            continue;
        }
        for place in places {
            if place == "section" {
                assert!(sections.contains(&id), "{case}: no section of tests/cases/*.ein is named `{id} …`");
                with_section.insert(id.clone());
            } else {
                assert!(is_a_test(place), "{case}: `{place}` is no test, and not `section` or `waits for …` alone");
            }
        }
        tested.insert(id);
    }
    let ids: BTreeSet<String> = IDS.split_whitespace().map(str::to_owned).collect();
    let listed: BTreeSet<String> = tested.union(&waiting).cloned().collect();
    assert_eq!(listed, ids, "the index and the list of ids");
    assert_eq!(sections, with_section, "sections, and rows of the index that name them");
    // What waits altogether has no test yet: one by its name says that it waits no more.
    let written = [include_str!("plan_cases.rs"), include_str!("run_cases.rs"), include_str!("search_cases.rs")];
    for id in waiting.difference(&tested) {
        let name = format!("fn {}_", id.to_lowercase());
        assert!(!written.iter().any(|w| w.contains(&name)), "{id} waits, but there is a test of it");
    }
    println!("{} cases are tested, {} wait in part or whole", tested.len(), waiting.len());
}
