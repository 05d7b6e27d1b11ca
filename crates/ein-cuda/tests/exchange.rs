//! What exchanges become: who moves how much by what, what waits for what, and in which order partials are folded.

#[path = "../../ein-run/tests/common/mod.rs"]
mod common;

use common::Build;
use ein_cuda::devices::{Devices, Seat, Settings};
use ein_cuda::nodes::{Block, Node, Nodes, Site, Sites, Staging, WORKSPACE, Work};
use ein_cuda::program::Target;
use ein_fake_cuda::{FakeMachine, Side, install};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorType};
use ein_ir::monoid::Monoid;
use ein_ir::op::InputKind;
use ein_ir::region::Region;
use ein_run::Executor;
use ein_task::machine::Machine;
use ein_task::memory::plan_memory_apart;
use ein_task::task::{OpRow, TaskGraph, TaskId};
use std::collections::BTreeMap;

/// A GPU for each device; all reach one another, or none another.
fn sites(devices: usize, reach: bool) -> Sites {
    let site = |gpu| Site { gpu, host: false, target: Target::A100 };
    let reach = (0..devices).map(|a| (0..devices).map(|b| a == b || reach).collect()).collect();
    Sites { devices: (0..devices).map(site).collect(), reach, staging: Staging::Host, workspace: WORKSPACE }
}

/// The nodes of a row.
fn of(nodes: &Nodes, row: TaskId) -> Vec<(usize, &Node)> {
    nodes.all.iter().enumerate().filter(|(_, n)| n.row == Some(row)).collect()
}

/// Little is stored by threads of the GPU that has it, more is copied by an engine, and the host is passed only where there is
/// no other way.
#[test]
fn engines_copy_much_and_threads_store_little() {
    const MOST: usize = 32 << 10;
    for (bytes, stored) in [(1, true), (1000, true), (MOST, true), (MOST + 1, false), (1 << 20, false)] {
        let mut b = Build::new(2);
        let x = b.external("x", InputKind::Input, DType::U8, &[bytes]);
        let feed = b.feed(0, x, Region::whole(&[bytes]));
        let received = b.send(feed, 1);
        b.output("y", DType::U8, &[bytes], &[received]);
        let tasks = b.finish();
        let made = |reach| Nodes::generated(&tasks, &sites(2, reach)).unwrap_or_else(|e| panic!("{bytes}: {e}"));
        let nodes = made(true);
        match &of(&nodes, received)[..] {
            [(_, Node { gpu, work: Work::Kernel { .. }, .. })] => assert!(stored && *gpu == 0, "{bytes} on {gpu}"),
            [(_, Node { work: Work::Copy { from, to, lines }, .. })] => {
                assert!(!stored, "{bytes}");
                let whole = (Block::Device(0), Block::Device(1), bytes as u64);
                assert_eq!((*from, *to, lines.bytes()), whole);
            }
            other => panic!("{bytes}: {other:?}"),
        }
        let nodes = made(false);
        let ways: Vec<_> = of(&nodes, received)
            .into_iter()
            .map(|(_, node)| match &node.work {
                Work::Copy { from, to, .. } => (*from, *to),
                other => panic!("{bytes}: {other:?}"),
            })
            .collect();
        assert_eq!(ways, [(Block::Device(0), Block::Host), (Block::Host, Block::Device(1))], "{bytes}");
    }
}

/// A sum of three products of one term each, on a device each, folded in two pieces on device 0 in this order.
fn folded(order: [usize; 3], columns: usize) -> (TaskGraph, [TaskId; 2]) {
    let mut graph = Graph::new();
    let [x, w] = [("x", InputKind::Input, [1, 3]), ("w", InputKind::Parameter, [3, columns])]
        .map(|(name, kind, shape)| graph.input(name, kind, TensorType::new(DType::F64, shape)).expect("an input"));
    let y = graph.contraction("y", "ik,kj->ij", &[x, w]).expect("a product");
    let mut b = Build::new(3);
    b.0.ops.push(OpRow::of(&graph, y));
    let x = b.external("x", InputKind::Input, DType::F64, &[1, 3]);
    let w = b.external("w", InputKind::Parameter, DType::F64, &[3, columns]);
    let partials = [0, 1, 2].map(|k| {
        let term = (k, k + 1);
        let device = k as u16;
        let factors =
            [b.feed(device, x, Region::of(&[(0, 1), term])), b.feed(device, w, Region::of(&[term, (0, columns)]))];
        b.kernel(device, 0, Region::of(&[(0, 1), (0, columns), term]), false, &factors)
    });
    let folds = [(0, columns / 2), (columns / 2, columns)].map(|piece| {
        let pieces = order.map(|k| {
            let cut = b.cut(partials[k], Region::of(&[(0, 1), piece]));
            if k == 0 { cut } else { b.send(cut, 0) }
        });
        b.fold(Monoid::Sum, true, &pieces, DType::F64)
    });
    b.output("y", DType::F64, &[1, columns], &folds);
    (b.finish(), folds)
}

/// Partials are folded in the order in which they are listed, each read where it is.
#[test]
fn partials_are_folded_in_order_from_where_they_are() {
    let large = (1u64 << 53) as f64;
    let terms = [large, 1.0, -large];
    let columns = 6;
    let mut sums = Vec::new();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let (tasks, _) = folded(order, columns);
        let fake = install(&FakeMachine::new(3)).expect("g++ is there");
        let seats = [0, 1, 2].map(Seat::Gpu);
        let parameters =
            BTreeMap::from([("w".to_owned(), Dense::from_f64(DType::F64, [3, columns], &vec![1.0; 3 * columns]))]);
        let made = Executor::on(tasks.clone(), |graph| {
            Ok(Box::new(Devices::new(graph, &parameters, &seats, Settings::default())?))
        });
        let mut executor = made.unwrap_or_else(|e| panic!("{order:?}: {e}: {:?}", fake.report()));
        let inputs = BTreeMap::from([("x".to_owned(), Dense::from_f64(DType::F64, [1, 3], &terms))]);
        fake.count_anew();
        let run = executor.run(&inputs).unwrap_or_else(|e| panic!("{order:?}: {e}: {:?}", fake.report()));
        let sum = order[1..].iter().fold(terms[order[0]], |sum, &k| sum + terms[k]);
        assert_eq!(run.outputs["y"].to_f64(), vec![sum; columns], "{order:?}");
        let counted = fake.counters();
        for from in [1, 2] {
            let ends = (Side::Gpu(from), Side::Gpu(0));
            let bytes = (counted.copied.get(&ends), counted.reached.get(&ends));
            assert_eq!(bytes, (None, Some(&(8 * columns as u64))), "{order:?}: {counted:?}");
        }
        sums.push(sum);
    }
    assert!(sums.contains(&0.0) && sums.contains(&1.0), "the order makes no difference: {sums:?}");
}

/// Pieces are nodes of their own that wait for what makes them and not for one another, so that they follow each other
/// through links and folds.
#[test]
fn pieces_wait_for_what_makes_them_alone() {
    let (mut tasks, folds) = folded([0, 1, 2], 1 << 16);
    // No memory is used again, for which the second piece would wait.
    plan_memory_apart(&mut tasks, &Machine::by_name("3xcpu").expect("it ships"), None);
    for reach in [true, false] {
        let nodes = Nodes::generated(&tasks, &sites(3, reach)).unwrap_or_else(|e| panic!("{e}"));
        let mut before: Vec<Vec<bool>> = Vec::new();
        for node in &nodes.all {
            let mut own = vec![false; nodes.all.len()];
            for &after in &node.after {
                own[after] = true;
                own.iter_mut().zip(&before[after]).for_each(|(own, other)| *own |= other);
            }
            before.push(own);
        }
        // What is folded in one piece is moved and folded without the other.
        let of_piece = |fold: TaskId| -> Vec<usize> {
            let rows = tasks.task(fold).reads.iter().copied().chain([fold]);
            rows.flat_map(|row| of(&nodes, row)).map(|(n, _)| n).collect()
        };
        let [first, second] = folds.map(of_piece);
        assert!(first.len() >= if reach { 1 } else { 5 } && first.len() == second.len(), "{first:?} {second:?}");
        for (&a, &b) in first.iter().flat_map(|a| second.iter().map(move |b| (a, b))) {
            assert!(!before[a][b] && !before[b][a], "{reach}: nodes {a} and {b} wait");
        }
    }
}
