//! Named workloads: what their plans move is written down, so that a plan that moves more is a red test, and
//! no fixed strategy that is balanced and fits costs less.

use ein_ir::op::InputKind;
use ein_plan::options::{Objective, Options};
use ein_plan::plan::{compare, plan};
use ein_task::machine::Machine;
use ein_task::task::Verb;
use ein_tests::plans::{computes, cpus, searched};
use einsummable::workloads::workload;

/// Chains and convolutions are what the reference says, however many devices there are.
#[test]
fn small_workloads_compute_what_the_reference_does() {
    let chains = ["bushy", "left", "right", "zigzag", "skewed", "outer", "inner", "power"];
    let chains = chains.map(|shape| format!("chain:{shape},16,f64"));
    for text in chains.iter().map(String::as_str).chain(["conv:2,3,7x5,4,3,f64", "conv:1,2,6x6,3,4,f64"]) {
        let graph = workload(text).unwrap();
        for devices in [1, 3, 8] {
            for objective in [Objective::Time, Objective::Bytes] {
                let plan = searched(&graph, &cpus(devices), objective);
                computes(&plan.graph, &plan.tasks, 1e-9, &format!("{text} on {devices}"));
            }
        }
    }
}

/// A step of generation reads its cache where it lies: no device copies what it holds of it.
#[test]
fn a_step_copies_no_cache() {
    let check = |text: &str, devices: usize| {
        let graph = workload(text).unwrap();
        let machine = Machine::by_name("8xa100").unwrap().first(devices).unwrap();
        let plan = searched(&graph, &machine, Objective::Time);
        let cache = graph.inputs(InputKind::State).iter().map(|&id| graph.ty(id).bytes()).sum::<u64>();
        let local = |verb: &Verb| matches!(verb, Verb::View { .. } | Verb::Cut | Verb::Paste);
        let copied: u64 = plan.tasks.tasks.iter().filter(|t| local(&t.verb)).map(|t| t.value.bytes().0).sum();
        let (time, simulated, moved) = (plan.report.seconds, plan.report.simulated_seconds, plan.report.bytes_total);
        println!("{text} on {devices}: {time}, simulated {simulated}, {copied} bytes copied, {moved} moved");
        assert!(copied < cache / 20 && moved.0 < cache / 10, "{text} on {devices}: {copied} copied, {moved} moved");
    };
    check("llama-7b-block:decode=64x4096", 1);
    check("llama-7b-block:decode=64x4096", 3);
    check("llama-7b-block:decode=64x4096", 8);
    check("llama-7b-block:decode=1x4096", 1);
    check("llama-7b-block:decode=1x4096", 8);
    check("llama-70b-block:decode=1x4096", 1);
    check("llama-70b-block:decode=1x4096", 8);
}

/// Plans a workload; its cost must not exceed any fixed strategy's, nor its bytes what is written down.
fn check(text: &str, machine: &str, devices: usize, objective: Objective, megabytes: f64) {
    let graph = workload(text).unwrap();
    let machine = Machine::by_name(machine).unwrap().first(devices).unwrap();
    let options = Options { objective, ..Options::default() };
    let plan = plan(&graph, &machine, &options).unwrap();
    let report = &plan.report;
    let case = format!("{text} on {devices} of {}, by {}", machine.name, report.objective);
    let moved = report.bytes_total.0 as f64 / 1e6;
    println!("{case}: {moved:.3} MB, cost {} {}, gap {:.4}", report.cost, report.cost_unit, report.gap);
    assert!((moved - megabytes).abs() <= 0.005 * megabytes, "{case}: {moved} MB instead of {megabytes}");
    assert!(report.lower_bound <= report.cost, "{case}");
    let mut compared = 0;
    for strategy in compare(&plan.graph, &machine, &options) {
        if strategy.fits == Some(true) && strategy.balanced == Some(true) {
            let theirs = strategy.cost.unwrap();
            assert!(report.cost <= theirs * (1.0 + 1e-9), "{case}: {} costs {theirs}", strategy.strategy);
            compared += 1;
        }
    }
    assert!(compared > 0, "{case}: no fixed strategy applies, so nothing was compared");
}

#[test]
fn llama_blocks_on_eight_gpus() {
    // Tokens cut outside, heads inside: four all-to-alls of 7/8 of 33.5 MB, 29.4 MB each.
    check("llama-7b-block:1x4096", "8xa100", 8, Objective::Time, 117.44);
    // Eight key/value heads: 58.7 MB for queries and results each, an eighth for keys and values.
    check("llama-70b-block:1x4096", "8xa100", 8, Objective::Time, 132.12);
}

#[test]
fn a_product_on_seven_gpus_moves_half_of_what_any_mesh_moves() {
    let squares = 8192.0 * 8192.0 * 4.0 / 1e6;
    check("gemm:8192,8192,8192,f32", "8xa100", 7, Objective::Bytes, 2.857 * squares);
}
