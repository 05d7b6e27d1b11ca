//! Graphs over the same parameters, planned together: one layout serves them all.

use ein_ir::graph::Graph;
use ein_ir::op::InputKind;
use ein_ir::reference::run;
use ein_plan::choice::Home;
use ein_plan::error::PlanError;
use ein_plan::options::Options;
use ein_plan::plan::plan;
use ein_plan::together::{Together, plan_together};
use ein_task::machine::Machine;
use ein_task::task::{External, Slot};
use ein_task::units::Bytes;
use ein_task::verify::verify;
use ein_tests::computed::once;
use ein_tests::same::difference;
use ein_tests::small;
use einsummable::models::{Decoder, DecoderConfig};
use einsummable::nn::Module;
use einsummable::{DType, Tensor, trace};
use std::collections::BTreeMap;

/// A language model of two layers over so many tokens at once.
fn decoder(batch: usize, tokens: usize) -> Graph {
    let config = DecoderConfig { dtype: DType::F32, ..DecoderConfig::of_sizes(32, 4, 2, 64, 2, 48) };
    let ids = Tensor::input("input_ids", [batch, tokens], DType::I64);
    trace(&[("logits", &Decoder::new(&config).forward(&ids))]).expect("a model").graph
}

fn machine() -> Machine {
    Machine::by_name("8xa100").and_then(|m| m.first(4)).expect("it ships")
}

/// Where what is resident lies, by name, device and region.
fn resident(tasks: &ein_task::task::TaskGraph) -> BTreeMap<(String, usize, String), Slot> {
    let fed = tasks.rows().filter_map(|(id, t)| Some((tasks.fed(id).filter(|e| External::is_resident(e))?, t)));
    fed.map(|(e, t)| ((e.name.clone(), t.device.index(), t.value.region.to_string()), t.slot)).collect()
}

fn check(graphs: &[Graph], together: &Together, memory: Option<Bytes>) {
    let mut homes: BTreeMap<String, Home> = BTreeMap::new();
    let mut slots = BTreeMap::new();
    for (graph, plan) in graphs.iter().zip(&together.plans) {
        verify(&plan.tasks).unwrap_or_else(|e| panic!("{e}"));
        assert!(memory.is_none_or(|m| plan.peak_memory() <= m));
        for id in plan.graph.inputs(InputKind::Parameter) {
            let (name, home) = (plan.graph.node(id).name.clone(), plan.choice.homes[&id].clone());
            assert_eq!(*homes.entry(name.clone()).or_insert_with(|| home.clone()), home, "{name}");
        }
        for (key, slot) in resident(&plan.tasks) {
            assert_eq!(*slots.entry(key.clone()).or_insert(slot), slot, "{key:?}");
        }
        let inputs = small::inputs(graph, 4);
        let expected = run(graph, &inputs).expect("the reference runs");
        assert_eq!(difference(&once(graph, &plan.tasks, &inputs).expect("it runs"), &expected, 1e-4), None);
    }
    assert!(!slots.is_empty());
    let sum: f64 = together.plans.iter().map(|p| p.report.cost).sum();
    assert!((sum - together.cost).abs() <= 1e-9 * sum, "{sum} is not {}", together.cost);
    assert!(together.lower_bound <= together.cost);
}

#[test]
fn a_prompt_and_its_tokens_share_weights() {
    let graphs = [decoder(1, 24), decoder(8, 1)];
    let machine = machine();
    let free = Options { overlap: false, ..Options::default() };
    let alone: Vec<_> = graphs.iter().map(|g| plan(g, &machine, &free).expect("a plan")).collect();
    let together = plan_together(&graphs, &machine, &free).expect("a plan");
    check(&graphs, &together, None);
    // Memory aside, every graph is decided as it is alone.
    let sum: f64 = alone.iter().map(|p| p.report.cost).sum();
    assert!((together.cost - sum).abs() <= 1e-9 * sum && together.gap == 0.0, "{} and {sum}", together.cost);
    // With less memory than either of the two likes, one layout has to do for both.
    let weights: u64 = graphs[0].inputs(InputKind::Parameter).iter().map(|&id| graphs[0].ty(id).bytes()).sum();
    let least = Bytes(weights * 6 / 10);
    let tight = Options { memory: Some(least), ..free };
    let bound = plan_together(&graphs, &machine, &tight).expect("a plan fits");
    check(&graphs, &bound, Some(least));
    assert!(bound.cost >= together.cost);
    let tight: f64 = graphs.iter().map(|g| plan(g, &machine, &tight).expect("a plan").report.lower_bound).sum();
    assert!(bound.cost >= tight * (1.0 - 1e-9), "each alone is no dearer: {} and {tight}", bound.cost);
}

#[test]
fn a_graph_without_some_of_the_parameters_leaves_their_room_alone() {
    let graphs = [small::matmul(8, 6, 4), decoder(1, 3), small::mlp(4, 6, 8, DType::F32)];
    let together = plan_together(&graphs, &machine(), &Options::default()).expect("a plan");
    check(&graphs, &together, None);
    let begin = |n: usize| {
        let tasks = &together.plans[n].tasks;
        let own = tasks.rows().filter(|(id, t)| {
            !tasks.fed(*id).is_some_and(External::is_resident) && t.slot.bytes > 0 && t.device.index() == 0
        });
        own.map(|(_, t)| t.slot.offset).min()
    };
    let ends: Vec<u64> = together
        .plans
        .iter()
        .flat_map(|p| {
            p.tasks
                .rows()
                .filter(|(id, t)| p.tasks.fed(*id).is_some_and(External::is_resident) && t.device.index() == 0)
        })
        .map(|(_, t)| t.slot.offset + t.slot.bytes)
        .collect();
    let end = ends.into_iter().max().unwrap_or(0);
    assert!((0..3).all(|n| begin(n).is_none_or(|b| b >= end)), "{end}");
}

#[test]
fn one_name_is_one_type() {
    let text = |n: usize| {
        format!(
            "x: input f32[2, {n}]\nw: param f32[{n}, 2]\ny = einsum f32 (i: 2, j: 2 | k: {n}) sum x[i, k] * w[k, j]\nreturn y\n"
        )
    };
    let graphs = [3, 4].map(|n| ein_ir::text::parse(&text(n)).expect("it reads"));
    let error = plan_together(&graphs, &machine(), &Options::default()).expect_err("two types");
    assert!(matches!(error, PlanError::Shared { .. }));
    assert!(error.to_string().contains("`w` is f32[3, 2] in one and f32[4, 2] in another"), "{error}");
}
