//! The random graphs themselves: they run, they hold everything, and any cut of their rows gives the whole.

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::Graph;
use ein_ir::kernel::Kernel;
use ein_ir::op::{InputKind, Op};
use ein_ir::reference::{assemble, run};
use ein_ir::region::Region;
use ein_ir::spec::Role;
use ein_tests::random::{self, Rng};
use std::collections::{BTreeMap, BTreeSet};

/// The value of every row.
fn values(graph: &Graph, inputs: &BTreeMap<String, Dense>) -> Vec<Dense> {
    let mut all = graph.clone();
    for id in graph.ids() {
        all.output(&format!("every {id}"), id).expect("a fresh name");
    }
    let results = run(&all, inputs).unwrap_or_else(|e| panic!("{e}"));
    graph.ids().map(|id| results[&format!("every {id}")].clone()).collect()
}

/// Recursive cuts of a box on the axes allowed.
fn cuts(rng: &mut Rng, whole: &Region, axes: &[usize], n: usize) -> Vec<Region> {
    let long: Vec<usize> = axes.iter().copied().filter(|&a| whole.0[a].len() > 1).collect();
    if n <= 1 || long.is_empty() {
        return vec![whole.clone()];
    }
    let axis = rng.pick(&long);
    let (low, high) = whole.split(axis, rng.range(whole.0[axis].lo + 1, whole.0[axis].hi - 1));
    let left = rng.range(1, n - 1);
    let mut boxes = cuts(rng, &low, axes, left);
    boxes.extend(cuts(rng, &high, axes, n - left));
    boxes
}

/// 500 graphs of each mode run; exact ones hold integers only; and every row that computes, cut at random
/// and put together, is what it is in one piece.
#[test]
fn they_run_and_every_cut_equals_the_whole() {
    for seed in 0..2_000 {
        let exact = seed % 2 == 0;
        let (graph, inputs) = random::graph(seed, exact);
        let values = values(&graph, &inputs);
        let mut rng = Rng::new(seed);
        for id in graph.ids() {
            let (node, whole) = (graph.node(id), &values[id.index()]);
            let context = format!("seed {seed}, `{}`", node.name);
            if exact {
                assert!(whole.to_f64().iter().all(|v| v.fract() == 0.0), "{context}: {node:?} {whole:?}");
            }
            let Some(spec) = graph.spec(id) else { continue };
            let axes: Vec<usize> = (0..spec.labels.len()).filter(|&n| spec.labels[n].role != Role::Whole).collect();
            let pieces = rng.range(2, 7);
            let blocks = cuts(&mut rng, &spec.space(), &axes, pieces);
            let operands: Vec<&Dense> = node.inputs.iter().map(|i| &values[i.index()]).collect();
            let parts = assemble(&node.op, &operands, &blocks, &node.ty, rng.one_in(2))
                .unwrap_or_else(|e| panic!("{context}: {e}"));
            if exact {
                assert_eq!(&parts, whole, "{context}: {:?} as {blocks:?}", node.op);
                continue;
            }
            let size = whole.to_f64().iter().filter(|v| v.is_finite()).fold(1.0_f64, |m, v| m.max(v.abs()));
            let apart = whole.max_abs_difference(&parts);
            let narrow = graph.operand_dtypes(id).iter().chain([&node.ty.dtype]).any(|d| d.bytes() == 2);
            let tolerance = if narrow { 0.05 } else { 1e-5 };
            assert!(apart <= tolerance * size, "{context}: {apart} apart, {:?} as {blocks:?}", node.op);
        }
    }
}

/// Every operation, monoid, view and type is drawn often enough to be tested.
#[test]
fn they_hold_everything() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut kinds = BTreeSet::new();
    for seed in 0..2_000 {
        let (graph, _) = random::graph(seed, seed % 2 == 0);
        let mut count = |what: String| *seen.entry(what).or_default() += 1;
        for id in graph.ids() {
            let node = graph.node(id);
            count(node.ty.dtype.to_string());
            assert!(node.ty.shape.len() <= 4);
            if node.ty.elements() == 0 {
                count("empty".into());
            }
            match &node.op {
                Op::Input(kind) => {
                    kinds.insert(*kind);
                }
                Op::View(v) => count(v.name().into()),
                Op::Kernel(kernel) => {
                    count(kernel.name().into());
                    // Settings too, for all but the names of kernels.
                    kernel.settings().iter().for_each(|(setting, _)| count(format!("{setting}.")));
                    if let Kernel::Attention(a) = kernel {
                        for (what, is) in [("masked", a.mask.is_some()), ("gqa", a.kv_heads < a.heads)] {
                            if is {
                                count(what.into());
                            }
                        }
                    }
                }
                Op::Einsum(e) => {
                    count(if e.folds() { e.monoid.name().into() } else { "map".into() });
                    count(format!("{} operands", e.accesses.len()));
                    let spec = graph.spec(id).expect("an einsum has a spec");
                    if spec.labels.iter().any(|l| l.role == Role::Window) {
                        count("window".into());
                    }
                    if spec.work.contraction {
                        count("contraction".into());
                    }
                    let rows = e.join.rows();
                    if rows.iter().any(|(r, _)| matches!(r, ein_ir::expr::Row::Index(_))) {
                        count("index".into());
                    }
                }
            }
        }
    }
    let expected = [
        "reshape",
        "permute",
        "slice",
        "broadcast",
        "concat",
        "pad",
        "roll",
        "masked",
        "gqa",
        "causal.",
        "window.",
        "softcap.",
        "packed.",
        "indices.",
        "smallest.",
        "logsumexp.",
        "map",
        "sum",
        "max",
        "min",
        "prod",
        "moments",
        "softmax",
        "0 operands",
        "1 operands",
        "2 operands",
        "3 operands",
        "window",
        "contraction",
        "index",
        "empty",
    ];
    let types = DType::ALL.map(DType::name);
    for what in expected.iter().chain(&types).chain(Kernel::NAMES) {
        assert!(seen.get(*what).copied().unwrap_or(0) >= 20, "{what} is rare: {seen:?}");
    }
    assert_eq!(kinds, BTreeSet::from([InputKind::Parameter, InputKind::Input]));
}

/// A seed is all that a failure needs to name.
#[test]
fn equal_seeds_give_equal_graphs() {
    for seed in 0..50 {
        assert_eq!(random::graph(seed, true), random::graph(seed, true));
    }
    assert_ne!(random::graph(1, true), random::graph(2, true));
    assert_ne!(random::graph(1, true).0, random::graph(1, false).0);
}
