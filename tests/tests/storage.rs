//! What devices store where sizes do not divide: as much as they need, and nothing padded.

use ein_ir::graph::Graph;
use ein_ir::op::InputKind;
use ein_ir::reference::run;
use ein_plan::lower::lower;
use ein_plan::needs::operand_needs;
use ein_plan::options::{Objective, Options, Strategy};
use ein_plan::plan::plan;
use ein_plan::strategies::fixed;
use ein_run::Executor;
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::task::{TaskGraph, Verb};
use ein_task::task_text::print;
use ein_task::verify::verify;
use ein_tests::choices::{by_label, even, held};
use ein_tests::computed::once;
use ein_tests::same::difference;
use ein_tests::small;
use einsummable::models::{Decoder, DecoderConfig};
use einsummable::nn::Module;
use einsummable::weights::part::Part;
use einsummable::{DType, Tensor, trace};
use std::collections::BTreeSet;

fn cpus(devices: usize) -> Machine {
    Machine::by_name(&format!("{devices}xcpu")).expect("it ships")
}

/// A whole model of one layer.
fn decoder(config: DecoderConfig, tokens: usize) -> Graph {
    let config = DecoderConfig { dtype: DType::F32, ..config };
    let ids = Tensor::input("input_ids", [1, tokens], DType::I64);
    trace(&[("logits", &Decoder::new(&config).forward(&ids))]).expect("a model").graph
}

/// The plan of a fixed strategy.
fn tensor_parallel(graph: &Graph, devices: usize) -> TaskGraph {
    let (machine, options) = (cpus(devices), Options::default());
    let choice = fixed(Strategy::Tensor, graph, &machine, &options).expect("heads can be cut");
    let mut tasks = lower(graph, &choice, &machine, &options).expect("a choice");
    plan_memory(&mut tasks);
    verify(&tasks).unwrap_or_else(|e| panic!("{e}\n{}", print(&tasks)));
    computes(graph, &tasks);
    tasks
}

fn computes(graph: &Graph, tasks: &TaskGraph) {
    let inputs = small::inputs(graph, 5);
    let expected = run(graph, &inputs).expect("the reference runs");
    let found = once(graph, tasks, &inputs).expect("it runs");
    assert_eq!(difference(&found, &expected, 1e-4), None);
}

/// The indices of an axis of a tensor that each device stores at any time, in whatever task.
fn stored(tasks: &TaskGraph, tensor: &str, axis: usize) -> Vec<BTreeSet<usize>> {
    let mut of = vec![BTreeSet::new(); tasks.devices];
    let mut any = false;
    for (id, task) in tasks.rows().filter(|(_, task)| !task.value.is_nothing()) {
        if tasks.label(id) == tensor {
            any = true;
            let interval = task.value.region.0[axis];
            of[task.device.index()].extend(interval.lo..interval.hi);
        }
    }
    assert!(any, "`{tensor}` is stored nowhere");
    of
}

fn sizes(stored: &[BTreeSet<usize>]) -> Vec<usize> {
    stored.iter().map(BTreeSet::len).collect()
}

/// The bytes that each device keeps of a parameter.
fn kept(tasks: &TaskGraph, parameter: &str) -> Vec<u64> {
    let mut of = vec![0; tasks.devices];
    for (_, task) in tasks.rows().filter(|(id, _)| tasks.fed(*id).is_some_and(|e| e.name == parameter)) {
        of[task.device.index()] += task.value.bytes().0;
    }
    of
}

/// The heads of a device, and the key/value heads that they read.
fn heads(counts: &[usize], group: usize) -> Vec<(BTreeSet<usize>, BTreeSet<usize>)> {
    let mut from = 0;
    let of = |&count: &usize| {
        let own = from..from + count;
        from += count;
        (own.clone().collect(), own.map(|h| h / group).collect())
    };
    counts.iter().map(of).collect()
}

/// A15: of 28 query heads on 4 key/value heads, eight devices store the key/value heads that they read.
#[test]
fn a15_key_heads_that_are_read_are_stored() {
    let config = DecoderConfig { head_dim: 2, ..DecoderConfig::of_sizes(24, 28, 4, 53, 1, 97) };
    let graph = decoder(config, 5);
    let tasks = tensor_parallel(&graph, 8);
    let layer = |name: &str| format!("model.layers.0.self_attn{name}");
    let expected = heads(&[4, 4, 4, 4, 3, 3, 3, 3], 7);
    let (query, key): (Vec<_>, Vec<_>) = expected.into_iter().unzip();
    assert_eq!(key[1], BTreeSet::from([0, 1]));
    for name in [".q_proj", ""] {
        assert_eq!(stored(&tasks, &layer(name), 1), query, "{name}");
    }
    let rows = |heads: &BTreeSet<usize>| -> BTreeSet<usize> { heads.iter().flat_map(|h| [2 * h, 2 * h + 1]).collect() };
    for name in [".k_proj", ".v_proj"] {
        assert_eq!(stored(&tasks, &layer(name), 1), key, "{name}");
        // Of the weight as well: two rows a head, nothing padded.
        let weight = layer(&format!("{name}.weight"));
        assert_eq!(stored(&tasks, &weight, 0), key.iter().map(rows).collect::<Vec<_>>(), "{weight}");
        let bytes: Vec<u64> = key.iter().map(|heads| heads.len() as u64 * 2 * 24 * 4).collect();
        assert_eq!(kept(&tasks, &weight), bytes, "{weight}");
    }
    assert_eq!(stored(&tasks, &layer(".q_proj.weight"), 0), query.iter().map(rows).collect::<Vec<_>>());
    assert_eq!(stored(&tasks, &layer(".o_proj.weight"), 1), query.iter().map(rows).collect::<Vec<_>>());
}

/// A15, as the search has it: whatever it cuts, a device keeps the rows of weights that its own blocks read.
#[test]
fn a15_searched_plans_store_what_is_read() {
    let config = DecoderConfig { head_dim: 2, ..DecoderConfig::of_sizes(24, 28, 4, 53, 1, 97) };
    let graph = decoder(config, 5);
    let bytes = Options { objective: Objective::Bytes, ..Options::default() };
    for (what, options) in [("by time", &Options::default()), ("by bytes", &bytes)] {
        let plan = plan(&graph, &cpus(8), options).unwrap_or_else(|e| panic!("{what}: {e}"));
        computes(&plan.graph, &plan.tasks);
        for id in plan.graph.inputs(InputKind::Parameter) {
            let name = &plan.graph.node(id).name;
            let mut read = vec![BTreeSet::new(); 8];
            for (&reader, decomposition) in &plan.choice.decompositions {
                let needs = operand_needs(&plan.graph, reader, decomposition);
                for need in needs.get(&id).into_iter().flatten() {
                    let interval = need.region.0[0];
                    read[need.device.index()].extend(interval.lo..interval.hi);
                }
            }
            assert_eq!(stored(&plan.tasks, name, 0), read, "{name}, {what}");
        }
    }
}

/// B11: queries, keys and values in one stored tensor. A device keeps the rows of its own heads, and none moves.
#[test]
fn b11_fused_rows_go_with_their_heads() {
    let config = DecoderConfig { fused: true, ..DecoderConfig::of_sizes(4, 2, 2, 6, 1, 11) };
    let tasks = tensor_parallel(&decoder(config, 3), 2);
    let mut rows = vec![BTreeSet::new(); 2];
    for external in tasks.externals.iter().filter(|e| e.name.contains("qkv_proj")) {
        let (_, part) = Part::parse(&external.name);
        let part = part.expect("a part of the stored tensor");
        assert_eq!(part.of, 12);
        for (device, own) in stored(&tasks, &external.name, 0).into_iter().enumerate() {
            rows[device].extend(own.iter().map(|row| part.range.start + row));
        }
    }
    // Q0 Q1 K0 K1 V0 V1, two rows each.
    assert_eq!(rows, [BTreeSet::from([0, 1, 4, 5, 8, 9]), BTreeSet::from([2, 3, 6, 7, 10, 11])]);
    let moved = tasks.rows().filter(|(_, task)| matches!(task.verb, Verb::Receive { .. }));
    assert!(moved.into_iter().all(|(id, _)| !tasks.label(id).contains("weight")));
}

/// A14: 40 heads on 6 devices.
#[test]
fn a14_forty_heads_are_stored_as_they_are_computed() {
    let config = DecoderConfig { head_dim: 2, ..DecoderConfig::of_sizes(24, 40, 40, 53, 1, 97) };
    let tasks = tensor_parallel(&decoder(config, 3), 6);
    let counts = [7, 7, 7, 7, 6, 6];
    for name in ["q_proj", "k_proj", "v_proj"] {
        let name = format!("model.layers.0.self_attn.{name}");
        assert_eq!(sizes(&stored(&tasks, &name, 1)), counts, "{name}");
        assert_eq!(kept(&tasks, &format!("{name}.weight")), counts.map(|heads| heads as u64 * 2 * 24 * 4), "{name}");
    }
    assert_eq!(sizes(&stored(&tasks, "model.layers.0.self_attn", 1)), counts);
}

/// A vocabulary of 97 on 8 devices: logits and the rows of the output layer.
#[test]
fn a_vocabulary_of_odd_size_is_cut_without_padding() {
    let tasks = tensor_parallel(&decoder(DecoderConfig::of_sizes(32, 8, 8, 53, 1, 97), 3), 8);
    let counts = even(97, 8);
    assert_eq!(counts, [13, 12, 12, 12, 12, 12, 12, 12]);
    assert_eq!(sizes(&stored(&tasks, "lm_head", 2)), counts);
    assert_eq!(sizes(&stored(&tasks, "lm_head.weight", 0)), counts);
    let kept = kept(&tasks, "lm_head.weight");
    assert_eq!(kept, counts.iter().map(|&rows| rows as u64 * 32 * 4).collect::<Vec<_>>());
    assert_eq!(kept.iter().sum::<u64>(), 97 * 32 * 4);
}

/// Virtual devices of one process that hold the same weight have it once, whatever the memory plan of the task graph says.
#[test]
fn replicas_of_a_weight_are_the_same_memory() {
    let product = Tensor::input("x", [64, 256], DType::F32).matmul(&Tensor::parameter("w", [256, 128], DType::F32));
    let graph = trace(&[("out", &product.named("product"))]).expect("a graph").graph;
    let choice = by_label(&graph, 4, &[("product", "i")]);
    let mut tasks = lower(&graph, &choice, &cpus(4), &Options::default()).expect("a choice");
    plan_memory(&mut tasks);
    let weight = 256 * 128 * 4;
    assert_eq!(kept(&tasks, "w"), [weight; 4]);
    computes(&graph, &tasks);
    let inputs = small::inputs(&graph, 5);
    let planned: u64 = tasks.arenas.iter().map(|b| b.0).sum();
    let executor = Executor::new(tasks, &inputs).expect("it is ready");
    assert_eq!(planned - executor.memory().0, 3 * weight);
}

/// A20: 129 rows on 2 devices, through a product, a softmax and a norm.
#[test]
fn a20_rows_that_two_does_not_divide() {
    let x = Tensor::input("x", [129, 8], DType::F32);
    let product = x.matmul(&Tensor::parameter("w", [8, 5], DType::F32)).named("product");
    let out = product.softmax(1).named("softmax");
    let graph = trace(&[("out", &out)]).expect("a graph").graph;
    let rows: Vec<(String, String)> = graph
        .ids()
        .filter_map(|id| Some((graph.node(id).name.clone(), graph.spec(id)?.labels[0].name.clone())))
        .collect();
    let rows: Vec<(&str, &str)> = rows.iter().map(|(name, label)| (name.as_str(), label.as_str())).collect();
    let mut choice = by_label(&graph, 2, &rows);
    let x = graph.find("x").expect("an input");
    choice.homes.insert(x, held(&graph, x, 0, 2));
    let mut tasks = lower(&graph, &choice, &cpus(2), &Options::default()).expect("a choice");
    plan_memory(&mut tasks);
    computes(&graph, &tasks);
    for name in ["x", "product", "softmax"] {
        assert_eq!(sizes(&stored(&tasks, name, 0)), [65, 64], "{name}");
    }
    assert_eq!(kept(&tasks, "x"), [65 * 8 * 4, 64 * 8 * 4]);
    for objective in [Objective::Time, Objective::Bytes] {
        let plan = plan(&graph, &cpus(2), &Options { objective, ..Options::default() }).expect("a plan");
        computes(&plan.graph, &plan.tasks);
    }
    let plan = plan(&graph, &cpus(2), &Options { objective: Objective::Bytes, ..Options::default() }).expect("a plan");
    assert_eq!(sizes(&stored(&plan.tasks, "product", 0)), [65, 64], "by bytes");
}
