//! A run that is not the first allocates nothing.

mod common;

use common::{Build, integers};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::op::InputKind;
use ein_ir::region::Region;
use ein_run::Executor;
use ein_task::task::{TaskGraph, TaskId};
use std::collections::BTreeMap;

#[global_allocator]
static COUNTING: dhat::Alloc = dhat::Alloc;

const F: DType = DType::F32;

/// Every device holds a row of `x`, hands it on to the next so many times, and then it is handed out.
fn handed_on(devices: usize, rounds: usize, columns: usize) -> TaskGraph {
    let mut b = Build::new(devices);
    let x = b.external("x", InputKind::Input, F, &[devices, columns]);
    let row = |r: usize| Region::of(&[(r, r + 1), (0, columns)]);
    let mut held: Vec<TaskId> = (0..devices).map(|d| b.feed(d as u16, x, row(d))).collect();
    for _ in 0..rounds {
        held = (0..devices).map(|d| b.send(held[(d + devices - 1) % devices], d as u16)).collect();
    }
    b.output("y", F, &[devices, columns], &held);
    b.finish()
}

/// Blocks that were allocated by anybody while `work` ran.
fn blocks(work: impl FnOnce()) -> u64 {
    let before = dhat::HeapStats::get().total_blocks;
    work();
    dhat::HeapStats::get().total_blocks - before
}

#[test]
fn later_runs_allocate_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    assert_eq!(blocks(|| drop(vec![1u8; 9])), 1, "they are counted");
    for (graph, shape) in [(handed_on(1, 0, 7), [1, 7]), (handed_on(3, 5, 11), [3, 11]), (handed_on(8, 4, 1), [8, 1])] {
        for threads in [1, 2, 3] {
            let x = integers(F, &shape, 1);
            let inputs = BTreeMap::from([("x".to_owned(), x)]);
            let mut executor = Executor::with_threads(graph.clone(), &BTreeMap::new(), threads).expect("well formed");
            let mut outputs: BTreeMap<String, Dense> = BTreeMap::new();
            // Every thread has its first turn at some time: a few runs, until nothing is new to anybody.
            for _ in 0..5 {
                executor.run_into(&inputs, &mut outputs).expect("it runs");
            }
            let allocated = blocks(|| {
                for _ in 0..20 {
                    executor.run_into(&inputs, &mut outputs).expect("it runs");
                }
            });
            assert_eq!(allocated, 0, "{shape:?} on {threads} threads");
        }
    }
}
