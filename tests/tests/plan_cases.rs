//! Cases of the groups A to E that ask something of the plan itself: what moves, who holds what, what is refused.

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::Graph;
use ein_ir::reference::run;
use ein_ir::region::{Interval, Region};
use ein_ir::spec::Role;
use ein_plan::choice::{Block, Choice, Decomposition, Home};
use ein_plan::exchanges::exchanges;
use ein_plan::explain::explain;
use ein_plan::lower::lower;
use ein_plan::needs::operand_needs;
use ein_plan::options::{Objective, Options, Strategy};
use ein_plan::plan::plan;
use ein_plan::strategies::fixed;
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::relation::Held;
use ein_task::task::Verb;
use ein_task::task_text::print;
use ein_task::units::Bytes;
use ein_tests::choices::{by_label, cut, drawn, even, held};
use ein_tests::computed::once;
use ein_tests::plans::{computes, cpus, graph, lowered, moved, named, searched};
use ein_tests::same::difference;
use ein_tests::small;
use einsummable::{Along, Tensor, trace};

/// A5: every size on every number of devices, cut and put together.
#[test]
fn a5_every_size_on_every_number_of_devices() {
    for size in 1..=17 {
        let graph = graph(&format!("x: input f32[{size}]\ny = einsum f32 (i: {size}) map x[i] + 1.0\nreturn y\n"));
        for devices in 1..=8 {
            let mut choice = by_label(&graph, devices, &[("y", "i")]);
            let x = named(&graph, "x");
            choice.homes.insert(x, held(&graph, x, 0, devices));
            let tasks = lowered(&graph, &choice, &cpus(devices));
            computes(&graph, &tasks, 0.0, &format!("{size} on {devices}"));
            assert_eq!(moved(&tasks), 0, "{size} on {devices}");
        }
    }
}

/// A7: sizes 1, 5 and 4 of 10 on three devices are used as they are; what does not fill the tensor is refused.
#[test]
fn a7_given_layouts_are_used_or_refused() {
    let graph = graph("x: input f32[10]\ny = einsum f32 (i: 10) map x[i] + 1.0\nreturn y\n");
    let (x, y) = (named(&graph, "x"), named(&graph, "y"));
    let strip = |lo, hi| Region(vec![Interval::new(lo, hi)]);
    let given = |bounds: &[(usize, usize)]| {
        let strips = bounds.iter().map(|&(lo, hi)| strip(lo, hi)).enumerate();
        let one = |(n, region)| (region, DeviceSet::one(DeviceId(n as u16)));
        let strips: Vec<(Region, DeviceSet)> = strips.map(one).collect();
        let mut choice = by_label(&graph, 3, &[]);
        let held = strips.iter().cloned().map(|(region, devices)| Held { region, devices }).collect();
        choice.homes.insert(x, Home::At(held));
        let blocks = strips.into_iter().map(|(region, devices)| Block { region, devices }).collect();
        if let Some(decomposition) = Decomposition::new(&graph.spec(y).expect("it computes").space(), blocks) {
            choice.decompositions.insert(y, decomposition);
            choice.homes.insert(y, Home::AsProduced);
        }
        choice
    };
    let tasks = lowered(&graph, &given(&[(0, 1), (1, 6), (6, 10)]), &cpus(3));
    computes(&graph, &tasks, 0.0, "1, 5 and 4");
    assert_eq!(moved(&tasks), 0, "{}", print(&tasks));
    let fed = tasks.tasks.iter().filter(|t| matches!(t.verb, Verb::Feed { .. }));
    assert_eq!(fed.map(|t| t.value.region.volume()).collect::<Vec<_>>(), [1, 5, 4]);
    for bounds in [[(0, 1), (1, 5), (6, 10)], [(0, 2), (1, 6), (6, 10)], [(0, 1), (1, 6), (6, 11)]] {
        let refusal = lower(&graph, &given(&bounds), &cpus(3), &Options::default()).expect_err("it does not fill x");
        let told = "the home of `x` does not fill [0:10] with disjoint blocks";
        assert!(refusal.to_string().contains(told), "{bounds:?}: {refusal}");
    }
}

/// A10: what lies at several devices is named, with the bytes of its copies; uneven rows need no copies.
#[test]
fn a10_what_is_replicated_is_said() {
    let rows = graph("x: input f32[17, 16]\ny = einsum f32 (i: 17, j: 16) map x[i, j] * 2.0\nreturn y\n");
    let found = searched(&rows, &cpus(8), Objective::Bytes);
    assert_eq!(explain(&found).expect("a plan").replicated, []);
    let graph = small::matmul(17, 16, 5);
    let weights = |strategy| {
        let options = Options { strategy: Some(strategy), ..Options::default() };
        let plan = plan(&graph, &cpus(8), &options).unwrap_or_else(|e| panic!("{e}"));
        let explained = explain(&plan).expect("a plan");
        let text = explained.to_string();
        for r in &explained.replicated {
            let line = text.lines().find(|l| l.starts_with(&r.tensor) && l.ends_with(&r.bytes.to_string()));
            assert!(line.is_some(), "{r:?} is not in\n{text}");
        }
        explained.replicated.into_iter().map(|r| (r.kind, r.copies, r.bytes)).collect::<Vec<_>>()
    };
    // 16 times 5 weights of 4 bytes on eight devices: seven copies too many.
    assert_eq!(weights(Strategy::Data), [("parameter".to_owned(), 8, Bytes(7 * 16 * 5 * 4))]);
    assert_eq!(weights(Strategy::OneDevice), []);
}

fn attention(heads: usize, kv_heads: usize) -> Graph {
    graph(&format!(
        "q: input f32[1, {heads}, 3, 4]\nk: input f32[1, {kv_heads}, 5, 4]\nv: input f32[1, {kv_heads}, 5, 4]\n\
         out = attention(q, k, v) causal scale 0.5\nreturn out\n"
    ))
}

/// The heads that each device computes.
fn heads(graph: &Graph, choice: &Choice, devices: usize) -> Vec<usize> {
    let blocks = choice.decompositions[&named(graph, "out")].blocks();
    let of = |d: usize| {
        let own = blocks.iter().filter(|b| b.devices.contains(DeviceId(d as u16)));
        own.map(|b| b.region.0[1].len()).sum()
    };
    (0..devices).map(of).collect()
}

/// A14: 40 heads on six devices, and on any other number.
#[test]
fn a14_forty_heads() {
    let graph = attention(40, 40);
    for devices in 1..=8 {
        let machine = cpus(devices);
        let choice = fixed(Strategy::Tensor, &graph, &machine, &Options::default()).expect("heads can be cut");
        assert_eq!(heads(&graph, &choice, devices), even(40, devices), "{devices}");
        computes(&graph, &lowered(&graph, &choice, &machine), 1e-5, &format!("{devices}"));
        let plan = searched(&graph, &machine, Objective::Bytes);
        computes(&plan.graph, &plan.tasks, 1e-5, &format!("searched on {devices}"));
    }
    assert_eq!(even(40, 6), [7, 7, 7, 7, 6, 6]);
    assert_eq!(even(28672, 7), [4096; 7]);
}

/// A15: 28 query heads on 4 key/value heads on 8 devices: each gets the key heads that its heads read only.
#[test]
fn a15_key_heads_that_are_read() {
    let graph = attention(28, 4);
    let out = named(&graph, "out");
    let decomposition = cut(&graph, out, &graph.spec(out).expect("a kernel").labels[1].name, 8);
    let mut choice = by_label(&graph, 8, &[]);
    choice.decompositions.insert(out, decomposition);
    choice.homes.insert(out, Home::AsProduced);
    assert_eq!(heads(&graph, &choice, 8), [4, 4, 4, 4, 3, 3, 3, 3]);
    let needs = operand_needs(&graph, out, &choice.decompositions[&out]);
    let read = |device: u16| {
        let own = needs[&named(&graph, "k")].iter().filter(|n| n.device == DeviceId(device));
        own.map(|n| (n.region.0[1].lo, n.region.0[1].hi)).collect::<Vec<_>>()
    };
    assert_eq!(read(0), [(0, 1)]);
    assert_eq!(read(1), [(0, 2)]);
    assert_eq!(read(7), [(3, 4)]);
    computes(&graph, &lowered(&graph, &choice, &cpus(8)), 1e-5, "28 on 4");
    for devices in 1..=8 {
        for seed in 0..4 {
            let tasks = lowered(&graph, &drawn(&graph, devices, seed), &cpus(devices));
            computes(&graph, &tasks, 1e-5, &format!("seed {seed} on {devices}"));
        }
    }
}

/// B11: rows Q0 Q1 K0 K1 V0 V1 held by heads need no move where heads are cut.
#[test]
fn b11_fused_projections_by_heads() {
    let graph = graph(
        "w: param f32[6, 2]\nx: input f32[2]\napart = reshape w [3, 2, 2]\n\
         y = einsum f32 (t: 3, h: 2 | d: 2) sum apart[t, h, d] * x[d]\nreturn y\n",
    );
    let mut choice = by_label(&graph, 2, &[("y", "h")]);
    let row = |n: usize| {
        let region = Region(vec![Interval::new(n, n + 1), Interval::new(0, 2)]);
        Held { region, devices: DeviceSet::one(DeviceId(n as u16 % 2)) }
    };
    choice.homes.insert(named(&graph, "w"), Home::At((0..6).map(row).collect()));
    let tasks = lowered(&graph, &choice, &cpus(2));
    computes(&graph, &tasks, 0.0, "by heads");
    assert_eq!(moved(&tasks), 0, "{}", print(&tasks));
    // Held in halves, three of its rows are at the wrong device: K1 and Q1 of one half, V0 and K0 of the other.
    choice.homes.insert(named(&graph, "w"), held(&graph, named(&graph, "w"), 0, 2));
    let tasks = lowered(&graph, &choice, &cpus(2));
    computes(&graph, &tasks, 0.0, "in halves");
    assert_eq!(moved(&tasks), 2 * 2 * 4, "{}", print(&tasks));
}

/// D3: a long axis is scanned in parts, on all devices, and only carries cross.
#[test]
fn d3_cumulative_sums_along_a_cut_axis() {
    const LENGTH: usize = 2310;
    let x = Tensor::input("x", [LENGTH], DType::I64);
    let along = |reverse, exclusive| x.cumsum_along(0, Along { reverse, exclusive });
    for (reverse, exclusive) in [(false, false), (true, false), (false, true), (true, true)] {
        let graph = trace(&[("y", &along(reverse, exclusive))]).expect("it fits").graph;
        for devices in 1..=8 {
            // Every row is cut along its first label that may be.
            let first = |id| {
                let spec = graph.spec(id)?;
                let label = spec.labels.iter().find(|l| l.role != Role::Whole && l.extent >= devices)?;
                Some((graph.node(id).name.clone(), label.name.clone()))
            };
            let cuts: Vec<(String, String)> = graph.ids().filter_map(first).collect();
            let cuts: Vec<(&str, &str)> = cuts.iter().map(|(row, label)| (row.as_str(), label.as_str())).collect();
            let mut choice = by_label(&graph, devices, &cuts);
            let x = named(&graph, "x");
            choice.homes.insert(x, held(&graph, x, 0, devices));
            let what = format!("reverse {reverse}, exclusive {exclusive}, on {devices}");
            let tasks = lowered(&graph, &choice, &cpus(devices));
            computes(&graph, &tasks, 0.0, &what);
            let scanned = |d: u16| {
                let own =
                    tasks.tasks.iter().filter(|t| t.device == DeviceId(d) && matches!(t.verb, Verb::Kernel { .. }));
                own.map(|t| t.value.region.volume()).sum::<usize>()
            };
            assert!((0..devices as u16).all(|d| scanned(d) >= LENGTH / devices), "{what}: {}", print(&tasks));
            // A strip may begin inside a part; nothing near the whole crosses, unless the strips are read backwards.
            let bytes = moved(&tasks);
            assert!(reverse || bytes < (LENGTH * 8 / 2) as u64, "{what}: {bytes} bytes\n{}", print(&tasks));
        }
    }
}

/// E5: of three products the cheapest order is taken: 200 thousand multiplications, not 20 million.
#[test]
fn e5_three_products_in_the_cheapest_order() {
    let input = |name: &str, shape: [usize; 2]| Tensor::input(name, shape, DType::F32);
    let multiplications = |shapes: [[usize; 2]; 3]| -> f64 {
        let [a, b, c] = ["a", "b", "c"].map(|n| input(n, shapes[(n.as_bytes()[0] - b'a') as usize]));
        let graph = trace(&[("y", &Tensor::einsum("ab,bc,cd->ad", &[&a, &b, &c]))]).expect("it fits").graph;
        graph.ids().filter_map(|id| graph.spec(id)).map(|spec| spec.space().volume() as f64).sum()
    };
    assert_eq!(multiplications([[10, 1000], [1000, 10], [10, 1000]]), 2e5);
    assert_eq!(multiplications([[1000, 10], [10, 1000], [1000, 10]]), 2e5);
}

/// E8: one tensor read twice is handed out once.
#[test]
fn e8_one_tensor_read_twice_moves_once() {
    let graph = graph(
        "x: input f32[4, 4]\ny = einsum f32 (| i: 4, j: 4) sum {\n  of x[i, j], x[i, j];\n  $0 * $1\n}\nreturn y\n",
    );
    let mut choice = by_label(&graph, 2, &[("y", "i")]);
    let x = named(&graph, "x");
    choice.homes.insert(x, Home::At(vec![Held { region: graph.ty(x).whole(), devices: DeviceSet::first(1) }]));
    choice
        .homes
        .insert(named(&graph, "y"), Home::At(vec![Held { region: Region(vec![]), devices: DeviceSet::first(1) }]));
    let tasks = lowered(&graph, &choice, &cpus(2));
    // Two rows go, one partial comes back.
    assert_eq!(moved(&tasks), 2 * 4 * 4 + 4, "{}", print(&tasks));
    computes(&graph, &tasks, 0.0, "twice");
}

/// F4, E8: an exchange is one question of a tensor, however many operations read it alike.
#[test]
fn readers_that_need_the_same_share_an_exchange() {
    let graph = graph(
        "x: input f32[8]\na = einsum f32 (i: 8) map x[i] + 1.0\nb = einsum f32 (i: 8) map x[i] * 2.0\n\
         c = einsum f32 (i: 8) map -x[i]\nreturn a\nreturn b\nreturn c\n",
    );
    let mut choice = by_label(&graph, 4, &[("a", "i"), ("b", "i"), ("c", "i")]);
    let x = named(&graph, "x");
    choice.homes.insert(x, Home::At(vec![Held { region: graph.ty(x).whole(), devices: DeviceSet::first(1) }]));
    let planned = exchanges(&graph, &choice, &Options::default(), &cpus(4)).expect("a choice");
    assert_eq!(planned.len(), 1);
    assert_eq!(planned[0].readers.len(), 3);
    let inputs = [("x".to_owned(), Dense::f32([8], (0..8).map(|v| v as f32).collect()))].into();
    let tasks = lowered(&graph, &choice, &cpus(4));
    let expected = run(&graph, &inputs).expect("the reference runs");
    assert_eq!(difference(&once(&graph, &tasks, &inputs).expect("it runs"), &expected, 0.0), None);
    assert_eq!(moved(&tasks), 3 * 2 * 4);
}

/// J5: an exchange that a view makes necessary names the view, the producer, the readers and the bytes.
#[test]
fn j5_a_costly_view_is_named() {
    let graph = graph(
        "x: input f32[4096, 4096]\na = scan(x) sum axis 1\nt = permute a [1, 0]\nb = scan(t) sum axis 1\nreturn b\n",
    );
    let plan = searched(&graph, &ein_task::machine::Machine::by_name("8xa100").expect("it ships"), Objective::Time);
    let explained = explain(&plan).expect("a plan");
    let moved = explained.exchanges.iter().find(|m| m.tensor == "a").expect("rows become columns");
    assert_eq!(
        (moved.readers.as_slice(), moved.views.as_slice()),
        (&["b".to_owned()][..], &["t (permute)".to_owned()][..])
    );
    // Seven eighths of it change hands.
    assert_eq!(moved.bytes, Bytes(4096 * 4096 * 4 / 8 * 7));
    let line = explained.to_string().lines().find(|l| l.starts_with("a ") && l.contains("through")).map(str::to_owned);
    assert!(line.is_some_and(|l| l.ends_with("b through t (permute)") && l.contains("56.0 MiB")), "{explained}");
}
