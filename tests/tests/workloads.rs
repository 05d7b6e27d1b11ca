//! Named workloads: what their plans move is written down, so that a plan that moves more is a red test, and
//! no fixed strategy that is balanced and fits costs less.

use ein_plan::options::{Objective, Options};
use ein_plan::plan::{compare, plan};
use ein_task::machine::Machine;
use einsummable::workloads::workload;

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
