//! Cases that ask something of the plan itself: what moves, who holds what, what is refused, what wins.

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::reference::run;
use ein_ir::region::{Interval, Region};
use ein_ir::text;
use ein_plan::choice::{Choice, Home};
use ein_plan::error::PlanError;
use ein_plan::exchanges::exchanges;
use ein_plan::lower::lower;
use ein_plan::needs::operand_needs;
use ein_plan::options::{Objective, Options, Strategy};
use ein_plan::plan::{Plan, compare, plan};
use ein_plan::strategies::fixed;
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::memory::plan_memory;
use ein_task::relation::Held;
use ein_task::task::{TaskGraph, Verb};
use ein_task::task_text::print;
use ein_task::units::Bytes;
use ein_task::verify::verify;
use ein_tests::choices::{by_label, cut, drawn, even, held};
use ein_tests::computed::once;
use ein_tests::same::difference;
use ein_tests::small;
use einsummable::models::{Decoder, DecoderConfig};
use einsummable::nn::Module;
use einsummable::workloads::workload;
use einsummable::{Tensor, trace};

fn graph(text: &str) -> Graph {
    text::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

fn cpus(devices: usize) -> Machine {
    Machine::by_name(&format!("{devices}xcpu")).expect("it ships")
}

fn searched(graph: &Graph, machine: &Machine, objective: Objective) -> Plan {
    let options = Options { objective, ..Options::default() };
    plan(graph, machine, &options).unwrap_or_else(|e| panic!("{e}\n{}", text::print(graph)))
}

fn named(graph: &Graph, name: &str) -> TensorId {
    graph.find(name).unwrap_or_else(|| panic!("there is no `{name}`"))
}

fn lowered(graph: &Graph, choice: &Choice, machine: &Machine) -> TaskGraph {
    let mut tasks = lower(graph, choice, machine, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    plan_memory(&mut tasks);
    verify(&tasks).unwrap_or_else(|e| panic!("{e}\n{}", print(&tasks)));
    tasks
}

/// The plan computes what the reference does, with small integers.
fn computes(graph: &Graph, tasks: &TaskGraph, within: f64, what: &str) {
    let inputs = small::inputs(graph, 11);
    let expected = run(graph, &inputs).expect("the reference runs");
    let found = once(graph, tasks, &inputs).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(difference(&found, &expected, within), None, "{what}");
}

fn moved(tasks: &TaskGraph) -> u64 {
    let received = tasks.tasks.iter().filter(|t| matches!(t.verb, Verb::Receive { .. }));
    received.map(|t| t.value.form.bytes(&t.value.region) as u64).sum()
}

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

/// H6: products of every size.
#[test]
fn h6_products_of_every_size() {
    for rows in 1..=257 {
        let graph = small::matmul(rows, 3, 5);
        let devices = 1 + rows % 8;
        let tasks = lowered(&graph, &drawn(&graph, devices, rows as u64), &cpus(devices));
        computes(&graph, &tasks, 0.0, &format!("{rows} rows on {devices}"));
    }
}

/// I1: a weight larger than a device is cut, and no device gathers it.
#[test]
fn i1_a_weight_larger_than_a_device() {
    let graph = graph(
        "x: input f32[1, 64]\nw: param f32[64, 96]\n\
         y = einsum f32 (i: 1, j: 96 | k: 64) sum x[i, k] * w[k, j]\nreturn y\n",
    );
    let limit = Bytes(16 << 10);
    let options = Options { memory: Some(limit), ..Options::default() };
    for devices in [2, 3, 5, 8] {
        let plan = plan(&graph, &cpus(devices), &options).unwrap_or_else(|e| panic!("{devices}: {e}"));
        assert!(plan.peak_memory() <= limit, "{devices}: {}", plan.peak_memory());
        assert!(plan.tasks.arenas.iter().all(|a| *a <= limit));
        computes(&plan.graph, &plan.tasks, 0.0, &format!("{devices} devices"));
    }
    // I6: where it cannot be, the error says what lies there and how much would do.
    let Err(PlanError::DoesNotFit { limit: at, needed, largest, .. }) = plan(&graph, &cpus(1), &options) else {
        panic!("24 KiB do not fit in 16");
    };
    assert_eq!(at, limit);
    assert!(needed.0 >= 64 * 96 * 4, "{needed}");
    assert_eq!(largest.first().map(|l| l.tensor.as_str()), Some("w"));
    let enough = Options { memory: Some(needed), ..Options::default() };
    plan(&graph, &cpus(1), &enough).unwrap_or_else(|e| panic!("{needed} would do: {e}"));
}

/// I10: names and the order of rows that do not depend on each other change no cost.
#[test]
fn i10_names_and_order_change_no_cost() {
    let written = graph(
        "x: input f32[24, 32]\nw: param f32[32, 48]\nv: param f32[32, 40]\n\
         a = einsum f32 (i: 24, j: 48 | k: 32) sum x[i, k] * w[k, j]\n\
         b = einsum f32 (i: 24, j: 40 | k: 32) sum x[i, k] * v[k, j]\nreturn a\nreturn b\n",
    );
    let renamed = graph(
        "v: param f32[32, 40]\nw: param f32[32, 48]\nz: input f32[24, 32]\n\
         second = einsum f32 (p: 24, q: 40 | r: 32) sum z[p, r] * v[r, q]\n\
         first = einsum f32 (q: 24, r: 48 | p: 32) sum z[q, p] * w[p, r]\nreturn first\nreturn second\n",
    );
    for devices in 1..=8 {
        for objective in [Objective::Time, Objective::Bytes] {
            let costs = [&written, &renamed].map(|g| searched(g, &cpus(devices), objective).report.cost);
            assert!((costs[0] - costs[1]).abs() <= 1e-9 * costs[0], "{devices}, {objective:?}: {costs:?}");
        }
    }
}

/// J8: the same graph gives the same plan.
#[test]
fn j8_twenty_times_the_same() {
    let graph = workload("ffnn:24,48,12,10,f32").expect("a workload");
    let text = || print(&searched(&graph, &cpus(5), Objective::Time).tasks);
    let first = text();
    for _ in 1..20 {
        assert_eq!(text(), first);
    }
}

/// J9: with 128 tokens of one sequence on eight devices, cutting the batch loses.
#[test]
fn j9_data_parallel_loses() {
    let graph = workload("llama-7b-block:1x128").expect("a workload");
    let machine = Machine::by_name("8xa100").expect("it ships");
    let plan = searched(&graph, &machine, Objective::Time);
    for report in compare(&graph, &machine, &Options::default()) {
        if let Some(cost) = report.cost {
            assert!(
                plan.report.cost <= cost * (1.0 + 1e-9),
                "{}: {cost} against {}",
                report.strategy,
                plan.report.cost
            );
            if report.strategy == Strategy::Data.name() {
                assert!(plan.report.cost < 0.9 * cost, "{cost} against {}", plan.report.cost);
            }
        }
    }
}

/// K1: a Llama of sizes that nothing divides, forward.
#[test]
fn k1_a_llama_that_nothing_divides() {
    let config = DecoderConfig { dtype: DType::F32, ..DecoderConfig::of_sizes(20, 5, 1, 53, 1, 97) };
    let ids = Tensor::input("ids", [3, 7], DType::I64);
    let graph = trace(&[("logits", &Decoder::new(&config).forward(&ids))]).expect("a model").graph;
    let inputs = small::inputs(&graph, 2);
    let expected = run(&graph, &inputs).expect("the reference runs");
    for devices in 1..=8 {
        let objective = [Objective::Time, Objective::Bytes, Objective::Memory][devices % 3];
        let plan = searched(&graph, &cpus(devices), objective);
        let found = once(&plan.graph, &plan.tasks, &inputs).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(difference(&found, &expected, 1e-4), None, "{objective:?} on {devices}");
        for seed in 0..6 {
            let tasks = lowered(&graph, &drawn(&graph, devices, seed), &cpus(devices));
            let found = once(&graph, &tasks, &inputs).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(difference(&found, &expected, 1e-4), None, "seed {seed} on {devices}");
        }
    }
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
