//! Later runs of whole layers ask for no memory: norms, products with weights, rotations, attention and gates, fused or not,
//! on one device or several.

use ein_ir::dense::Dense;
use ein_ir::op::InputKind;
use ein_plan::options::Objective;
use ein_run::Executor;
use ein_tests::plans::{cpus, searched};
use ein_tests::small;
use einsummable::workloads::workload;
use std::collections::BTreeMap;

#[global_allocator]
static COUNTING: dhat::Alloc = dhat::Alloc;

/// Bytes that a later run asks for, of several the fewest: a thread that has not yet done a part of some kind needs memory
/// for it once.
fn fewest(text: &str, devices: usize, threads: usize) -> u64 {
    let graph = workload(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let plan = searched(&graph, &cpus(devices), Objective::Time);
    let mut inputs = small::inputs(&graph, 3);
    let names = graph.inputs(InputKind::Parameter).into_iter().map(|id| graph.node(id).name.clone());
    let parameters: BTreeMap<String, Dense> = names.filter_map(|name| inputs.remove_entry(&name)).collect();
    let mut executor = Executor::with_threads(plan.tasks, &parameters, threads).expect("a plan that runs");
    let mut outputs: BTreeMap<String, Dense> = BTreeMap::new();
    let mut bytes = || {
        let before = dhat::HeapStats::get().total_bytes;
        executor.run_into(&inputs, &mut outputs).expect("it runs");
        dhat::HeapStats::get().total_bytes - before
    };
    let first = bytes();
    assert!(first > 0, "{text}: the first run makes what later ones use");
    (0..8).map(|_| bytes()).min().unwrap_or(first)
}

#[test]
fn layers_ask_for_nothing_once_they_have_run() {
    let _profiler = dhat::Profiler::builder().testing().build();
    for (text, devices, threads) in [
        ("block:1x40,64,4,2,96", 1, 1),
        ("block:1x40,64,4,2,96", 1, 2),
        ("block:1x40,64,4,2,96", 8, 2),
        ("block:decode=2x40,64,4,2,96", 1, 1),
        ("block:2x40,64,4,4,96,bf16", 1, 2),
        ("block:packed=9+20+11,64,4,4,96", 1, 1),
        ("conv:1,4,9x9,6,3", 1, 1),
    ] {
        assert_eq!(fewest(text, devices, threads), 0, "{text} on {devices} devices and {threads} threads");
    }
}
