//! Plans for tests: made by search or from a choice, run, and measured.

use crate::computed::once;
use crate::same::difference;
use crate::small;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::reference::run;
use ein_ir::text;
use ein_plan::choice::Choice;
use ein_plan::lower::lower;
use ein_plan::options::{Objective, Options};
use ein_plan::plan::{Plan, plan};
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::task::{TaskGraph, Verb};
use ein_task::task_text::print;
use ein_task::verify::verify;

/// The graph of a text.
pub fn graph(text: &str) -> Graph {
    text::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

/// Virtual devices of this host.
pub fn cpus(devices: usize) -> Machine {
    Machine::by_name(&format!("{devices}xcpu")).expect("it ships")
}

/// The searched plan.
pub fn searched(graph: &Graph, machine: &Machine, objective: Objective) -> Plan {
    let options = Options { objective, ..Options::default() };
    plan(graph, machine, &options).unwrap_or_else(|e| panic!("{e}\n{}", text::print(graph)))
}

/// This many devices, or six where a search on them would take seconds: of a single row every cut is tried on three
/// devices. The cases and the search's own tests do that.
pub fn soon_searched(graph: &Graph, devices: usize) -> usize {
    let rows = graph.ids().filter(|&id| graph.spec(id).is_some()).count();
    if rows == 1 && devices == 3 { 6 } else { devices }
}

/// The tensor of this name.
pub fn named(graph: &Graph, name: &str) -> TensorId {
    graph.find(name).unwrap_or_else(|| panic!("there is no `{name}`"))
}

/// The task graph of a choice, with its memory planned, accepted by the gatekeeper.
pub fn lowered(graph: &Graph, choice: &Choice, machine: &Machine) -> TaskGraph {
    let mut tasks = lower(graph, choice, machine, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    plan_memory(&mut tasks);
    verify(&tasks).unwrap_or_else(|e| panic!("{e}\n{}", print(&tasks)));
    tasks
}

/// The plan computes what the reference does, with small integers.
pub fn computes(graph: &Graph, tasks: &TaskGraph, within: f64, what: &str) {
    let inputs = small::inputs(graph, 11);
    let expected = run(graph, &inputs).expect("the reference runs");
    let found = once(graph, tasks, &inputs).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(difference(&found, &expected, within), None, "{what}");
}

/// Bytes that cross between devices.
pub fn moved(tasks: &TaskGraph) -> u64 {
    let received = tasks.tasks.iter().filter(|t| matches!(t.verb, Verb::Receive { .. }));
    received.map(|t| t.value.form.bytes(&t.value.region) as u64).sum()
}
