//! What a run of a layer of a model launches, and how many bytes that reads and writes: a copy that comes back is seen here.

use crate::on_fakes::{executor, given, outputs};
use ein_cuda::devices::Seat;
use ein_fake_cuda::{Check, FakeMachine, Traffic, install};
use ein_ir::graph::Graph;
use ein_ir::op::InputKind;
use ein_ir::reference::run;
use ein_plan::options::Objective;
use ein_task::machine::Machine;
use ein_task::task::{Task, TaskGraph, Verb};
use ein_tests::plans::searched;
use ein_tests::same::difference;
use ein_tests::small;
use einsummable::workloads::workload;
use std::collections::BTreeMap;

/// A plan of a layer for some devices.
fn planned(line: &str, devices: usize) -> (Graph, TaskGraph) {
    let machine = Machine::by_name("8xa100").and_then(|m| m.first(devices)).expect("it ships");
    let graph = workload(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    // By bytes every device has its share of the work, however little that is.
    let plan = searched(&graph, &machine, Objective::Bytes);
    (plan.graph, plan.tasks)
}

/// What a run launches on as many GPUs as devices, by kind; its results are right.
fn launched(line: &str, graph: &Graph, tasks: &TaskGraph) -> BTreeMap<String, Traffic> {
    let inputs = small::inputs(graph, 5);
    let fake = install(&FakeMachine::new(tasks.devices).check(Check::Races)).expect("g++ is there");
    let seats: Vec<Seat> = (0..tasks.devices).map(Seat::Gpu).collect();
    let made = executor(tasks, &given(graph, tasks, &inputs, true), &seats);
    let mut executor = made.unwrap_or_else(|e| panic!("{line}: {e}"));
    fake.count_anew();
    let found = executor.run(&given(graph, tasks, &inputs, false));
    let found = found.unwrap_or_else(|e| panic!("{line}: {e}: {:?}", fake.report()));
    let counted = fake.counters();
    let expected = run(graph, &inputs).expect("the reference runs");
    assert_eq!(difference(&outputs(graph, found.outputs), &expected, 0.05), None, "{line}");
    assert_eq!(fake.report(), None);
    counted.traffic
}

/// Of a layer on one GPU, how many launches of each kind there are, and the bytes that all of them read and write: one
/// kernel for each norm, rotation and the gate, one product for each weight (two where rows of two sequences are no
/// matrix), and copies of the input and the result.
const LAYERS: [(&str, &str); 3] = [
    (
        "block:1x256,256,4,4,320,bf16",
        "attention_tiles 1 393216 131072, copy 2 262144 262144, map 3 589824 425984, product 7 2228224 990208, \
         reduce 2 263168 262144",
    ),
    (
        "block:2x128,256,4,4,320,bf16",
        "attention_tiles 1 393216 131072, copy 2 262144 262144, map 3 589824 425984, product 10 2621440 993280, \
         reduce 2 263168 262144",
    ),
    (
        "block:1x256,256,4,2,320,bf16",
        "attention_tiles 1 262144 131072, copy 2 262144 262144, map 3 524288 360448, product 7 2097152 859136, \
         reduce 2 263168 262144",
    ),
];

#[test]
fn a_layer_launches_what_it_must() {
    for (line, expected) in LAYERS {
        let (graph, tasks) = planned(line, 1);
        let kind = |(what, t): (String, Traffic)| format!("{what} {} {} {}", t.runs, t.read, t.written);
        let found: Vec<String> = launched(line, &graph, &tasks).into_iter().map(kind).collect();
        assert_eq!(found.join(", "), expected, "{line}");
    }
}

/// On several GPUs nothing is copied but what comes in, goes out, crosses, or is pasted beside what crossed.
#[test]
fn nothing_else_is_copied_between_devices() {
    for (line, devices) in
        [("block:1x256,256,4,4,320,bf16", 2), ("block:1x256,256,8,8,320,bf16", 8), ("block:1x256,256,8,4,320,bf16", 4)]
    {
        let (graph, tasks) = planned(line, devices);
        let bytes = |task: &Task| task.value.form.bytes(&task.value.region) as u64;
        let copied = |task: &Task| match task.verb {
            Verb::Feed { external } if tasks.externals[external].kind == InputKind::Input => bytes(task),
            Verb::Output { output } => (task.value.region.volume() * tasks.outputs[output].1.dtype.bytes()) as u64,
            Verb::Receive { .. } | Verb::Cut => bytes(task),
            Verb::Paste => {
                let apart = task.reads.iter().map(|&r| tasks.task(r)).filter(|t| t.within.is_none());
                apart.map(bytes).sum()
            }
            _ => 0,
        };
        let due: u64 = tasks.tasks.iter().map(copied).sum();
        let found = launched(line, &graph, &tasks);
        let of = |what: &str| found.get(what).map_or(0, |t| t.read);
        assert!(of("copy") + of("move") <= due, "{line}: more than {due} bytes are copied: {found:?}");
        assert_eq!(of("reshape"), 0, "{line}: {found:?}");
    }
}
