//! Task graphs whose blocks were cut once more compute what the reference does, bit for bit with small integers.
//!
//! `EIN_TEST_SEEDS` sets the number of seeds of random graphs.

use ein_ir::dtype::DType;
use ein_ir::graph::Graph;
use ein_ir::reference::run;
use ein_plan::answers::Answers;
use ein_plan::lower::lower_with;
use ein_plan::options::{Options, Strategy};
use ein_plan::overlap::overlap;
use ein_plan::plan::{Plan, plan};
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::task_text::print;
use ein_task::units::Seconds;
use ein_task::verify::verify;
use ein_tests::computed::once;
use ein_tests::plans::{computes, graph};
use ein_tests::same::{difference, variable};
use ein_tests::small::products;
use ein_tests::{choices, random};

/// Devices on which small products take about as long as moving what they make.
fn machine(devices: usize) -> Machine {
    let mut machine = Machine::by_name("8xa100-ideal").and_then(|m| m.first(devices)).expect("it ships");
    machine.devices.iter_mut().for_each(|d| d.flops = vec![(DType::F32, 1e12)]);
    machine
}

fn check(graph: &Graph, devices: usize, strategy: Option<Strategy>) -> Plan {
    let options = Options { strategy, ..Options::default() };
    let plan = plan(graph, &machine(devices), &options).unwrap_or_else(|e| panic!("{e}"));
    verify(&plan.tasks).unwrap_or_else(|e| panic!("{e}\n{}", print(&plan.tasks)));
    computes(&plan.graph, &plan.tasks, 0.0, &format!("{strategy:?} on {devices}: {:?}", plan.report.overlap));
    plan
}

#[test]
fn cut_plans_compute_the_same() {
    let mut cut = 0;
    for devices in [2, 3, 4, 8] {
        for (rows, features, inner) in [(64, 64, 64), (48, 24, 96), (13, 32, 40)] {
            for strategy in [None, Some(Strategy::Tensor), Some(Strategy::TensorSequence)] {
                let plan = check(&products(rows, features, inner, 3), devices, strategy);
                cut += plan.report.overlap.cuts.len();
            }
        }
    }
    assert!(cut > 0, "no plan was cut");
}

/// Queries and keys that products make: where keys come from other devices, attention begins with those that are there.
fn attends(tokens: usize, settings: &str) -> Graph {
    graph(&format!(
        "x: input f32[1, {tokens}, 16]\n\
         a: param f32[16, 4, 8]\nb: param f32[16, 2, 8]\nc: param f32[16, 2, 8]\n\
         q = einsum f32 (e: 1, h: 4, s: {tokens}, d: 8 | n: 16) sum x[e, s, n] * a[n, h, d]\n\
         k = einsum f32 (e: 1, h: 2, s: {tokens}, d: 8 | n: 16) sum x[e, s, n] * b[n, h, d]\n\
         v = einsum f32 (e: 1, h: 2, s: {tokens}, d: 8 | n: 16) sum x[e, s, n] * c[n, h, d]\n\
         out = attention(q, k, v){settings}\n\
         return out\n"
    ))
}

#[test]
fn attention_over_keys_in_parts_computes_the_same() {
    let mut folded = 0;
    for devices in [2, 3, 8] {
        for (tokens, settings) in [(64, ""), (64, " causal"), (37, " causal"), (96, " causal window 40")] {
            for strategy in [None, Some(Strategy::Ulysses), Some(Strategy::Random(5)), Some(Strategy::Random(8))] {
                let graph = attends(tokens, settings);
                // Launches and messages for nothing, arithmetic and links slow: then small cuts pay, too.
                let mut machine = machine(devices);
                machine.issue = Seconds(0.0);
                machine.devices.iter_mut().for_each(|d| d.launch = Seconds(0.0));
                machine.links.iter_mut().for_each(|l| l.latency = Seconds(0.0));
                machine.devices.iter_mut().for_each(|d| d.flops = vec![(DType::F32, 2e11)]);
                let plan = plan(&graph, &machine, &Options { strategy, ..Options::default() });
                let Ok(plan) = plan else { continue };
                verify(&plan.tasks).unwrap_or_else(|e| panic!("{e}\n{}", print(&plan.tasks)));
                let what = format!("{strategy:?} on {devices}: {:?}", plan.report.overlap);
                computes(&plan.graph, &plan.tasks, 1e-5, &what);
                let keys = |operation: &String| operation == "out (t)";
                folded += plan.report.overlap.cuts.iter().filter(|c| c.operations.iter().any(keys)).count();
            }
        }
    }
    assert!(folded > 0, "no attention was cut along its keys");
}

/// Random graphs by random choices: what no search would choose leaves much to hide.
#[test]
fn cut_choices_of_random_graphs_compute_the_same() {
    let (mut cut, mut spread, mut tried) = (0, 0, 0);
    for seed in 0..variable("EIN_TEST_SEEDS").unwrap_or(150) {
        let exact = !seed.is_multiple_of(3);
        let (graph, inputs) = random::graph(seed, exact);
        let mut machine = machine(2 + seed as usize % 7);
        // Launches and messages for nothing: then small cuts pay, too.
        machine.issue = Seconds(0.0);
        machine.devices.iter_mut().for_each(|d| d.launch = Seconds(0.0));
        machine.links.iter_mut().for_each(|l| l.latency = Seconds(0.0));
        machine.devices.iter_mut().for_each(|d| d.flops = vec![(DType::F32, 1e11)]);
        let choice = choices::drawn(&graph, machine.len(), seed);
        let options = Options::default();
        let mut answers = Answers::of(&options);
        let mut tasks = lower_with(&graph, &choice, &machine, &options, &mut answers).unwrap_or_else(|e| panic!("{e}"));
        plan_memory(&mut tasks);
        let found = overlap(&graph, &choice, &machine, &options, &tasks, 1 << 20, &mut answers);
        let (better, overlap) = found.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        tried += overlap.tried;
        let Some(better) = better else { continue };
        (cut, spread) = (cut + overlap.cuts.len(), spread + usize::from(overlap.cuts.is_empty()));
        verify(&better).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", print(&better)));
        let expected = run(&graph, &inputs).expect("the reference runs");
        let within = if exact { 0.0 } else { random::tolerance(&graph) };
        let found = once(&graph, &better, &inputs).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(difference(&found, &expected, within), None, "seed {seed}: {:?}", overlap.cuts);
    }
    println!("{cut} cuts, {spread} spread only, {tried} tried");
    assert!(cut > 0 && spread > 0, "{cut} cuts, {spread} task graphs whose memory alone is spread, of {tried} tried");
}
