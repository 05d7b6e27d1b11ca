//! A run that is not the first allocates nothing, whatever it moves or computes.

mod common;

use common::{Build, integers};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::{InputKind, Op};
use ein_ir::region::Region;
use ein_ir::text;
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

/// Blocks and bytes that were allocated by anybody while `work` ran.
fn allocated(work: impl FnOnce()) -> [u64; 2] {
    let count = dhat::HeapStats::get;
    let before = count();
    work();
    [count().total_blocks - before.total_blocks, count().total_bytes - before.total_bytes]
}

/// A graph in text form as it stands on one device, one row for each of its rows.
fn as_written(graph: &Graph) -> TaskGraph {
    let mut b = Build::new(1);
    let mut rows: Vec<TaskId> = Vec::new();
    for id in graph.ids() {
        let node = graph.node(id);
        let (types, reads): (Vec<_>, Vec<TaskId>) =
            node.inputs.iter().map(|&n| (graph.ty(n).clone(), rows[n.index()])).unzip();
        rows.push(match &node.op {
            Op::Input(kind) => {
                let external = b.external(&node.name, *kind, node.ty.dtype, &node.ty.shape);
                b.feed(0, external, node.ty.whole())
            }
            Op::View(_) => {
                let op = b.op(&node.name, node.op.clone(), &types, node.ty.clone());
                let inputs: Vec<(usize, TaskId)> = reads.into_iter().enumerate().collect();
                b.view(op, &inputs, node.ty.whole())
            }
            Op::Einsum(_) | Op::Kernel(_) => {
                let op = b.op(&node.name, node.op.clone(), &types, node.ty.clone());
                let space = graph.spec(id).expect("it computes").space();
                b.kernel(0, op, space, true, &reads)
            }
        });
    }
    let last: TensorId = graph.outputs().last().expect("it returns something").1;
    b.output("y", graph.ty(last).dtype, &graph.ty(last).shape.clone(), &[rows[last.index()]]);
    b.finish()
}

/// Bytes that a run allocates once a few have been.
fn bytes_of_a_run(lines: &str) -> u64 {
    let graph = text::parse(lines).unwrap_or_else(|e| panic!("{e}\n{lines}"));
    let mut inputs: BTreeMap<String, Dense> = BTreeMap::new();
    for id in graph.ids().filter(|&id| matches!(graph.node(id).op, Op::Input(_))) {
        let ty = graph.ty(id);
        // Ids are of the first three places.
        let values = integers(ty.dtype, &ty.shape, 3);
        let ids = || values.to_f64().iter().map(|v| v.abs().min(2.0)).collect::<Vec<f64>>();
        let values = if ty.dtype.is_float() { values } else { Dense::from_f64(ty.dtype, ty.shape.clone(), &ids()) };
        inputs.insert(graph.node(id).name.clone(), values);
    }
    let mut executor = Executor::with_threads(as_written(&graph), &BTreeMap::new(), 1).expect("well formed");
    let mut outputs: BTreeMap<String, Dense> = BTreeMap::new();
    let mut run = || {
        executor.run_into(&inputs, &mut outputs).expect("it runs");
    };
    (0..3).for_each(|_| run());
    allocated(run)[1]
}

/// Every verb and kernel, `n` elements along each of two axes.
fn of_every_kind(n: usize) -> Vec<(&'static str, String)> {
    let x = format!("x: input f32[{n}, {n}]\n");
    let ids = format!("{x}ids: input i64[{n}]\n");
    let own = format!("{x}ids: input i64[{n}, {n}]\n");
    let heads = |name: &str| format!("{name}: input f32[1, 2, {n}, 16]\n");
    let all = [
        ("map", format!("{x}y = einsum f32 (i: {n}, j: {n}) map x[i, j] * sigmoid(x[j, i])\n")),
        ("sum of rows", format!("{x}y = einsum f32 (i: {n} | j: {n}) sum x[i, j]\n")),
        ("largest of columns", format!("{x}y = einsum f32 (j: {n} | i: {n}) max x[i, j]\n")),
        ("moments", format!("{x}y = einsum f32 (i: {n} | j: {n}) moments x[i, j]\n")),
        ("product", format!("{x}y = einsum f32 (i: {n}, j: {n} | k: {n}) sum x[i, k] * x[k, j]\n")),
        (
            "product of f64",
            format!(
                "x: input f64[{n}, {n}]\n\
                 y = einsum f64 (i: {n}, j: {n} | k: {n}) sum x[i, k] * x[j, k]\n"
            ),
        ),
        ("view", format!("{x}y = permute x [1, 0]\n")),
        ("gather", format!("{ids}y = gather(x, ids)\n")),
        ("gather along", format!("{own}y = gather_along(x, ids)\n")),
        ("scatter", format!("{ids}y = scatter(x, ids) rows 3\n")),
        ("scatter along", format!("{own}y = scatter_along(x, ids) rows 3\n")),
        ("running sum down", format!("{x}y = scan(x)\n")),
        ("running sum along", format!("{x}y = scan(x) axis 1\n")),
        ("running log-sum-exp", format!("{x}y = scan(x) logsumexp\n")),
        ("place of the largest so far", format!("{x}y = scan(x) max_index\n")),
        ("every state down", format!("{x}y = recurrence(x, x)\n")),
        ("every state along", format!("{x}y = recurrence(x, x) axis 1\n")),
        ("last state down", format!("{x}y = last_state(x, x)\n")),
        ("last state along", format!("{x}y = last_state(x, x) axis 1\n")),
        ("first eight", format!("{x}y = top(x) k 8\n")),
        ("attention", format!("{}{}{}y = attention(q, k, v) causal\n", heads("q"), heads("k"), heads("v"))),
    ];
    all.into_iter().map(|(name, lines)| (name, format!("{lines}return y\n"))).collect()
}

#[test]
fn later_runs_allocate_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    assert_eq!(allocated(|| drop(vec![1u8; 9])), [1, 9], "they are counted");
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
            let allocated = allocated(|| {
                for _ in 0..20 {
                    executor.run_into(&inputs, &mut outputs).expect("it runs");
                }
            });
            assert_eq!(allocated, [0, 0], "{shape:?} on {threads} threads");
        }
    }
    let [few, many] = [40, 200].map(of_every_kind);
    for ((name, few), (_, many)) in few.iter().zip(&many) {
        let found = [few, many].map(|lines| bytes_of_a_run(lines));
        assert_eq!(found, [0, 0], "{name}: bytes in later runs");
    }
}
