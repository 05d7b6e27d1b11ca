//! The objective of the makespan.

use crate::options::{Objective, Options};
use crate::plan::{compare, plan};
use crate::strategies::strategies_tests::{Sizes, model};
use ein_ir::graph::Graph;
use ein_task::machine::Machine;
use ein_task::memory::check_capacity;
use ein_task::simulate::simulate;
use ein_task::units::Bytes;
use ein_task::verify::verify;

fn layers(tokens: usize) -> Graph {
    model(Sizes { batch: 1, tokens, heads: 16, kv: 16, dim: 128, inner: 4096, labels: true })
}

/// What is quickest by the objective of time, and by that of the makespan, in seconds.
fn check(graph: &Graph, machine: &Machine, asked: &Options) -> (f64, f64) {
    let time = plan(graph, machine, asked).unwrap();
    let options = Options { objective: Objective::Makespan, ..asked.clone() };
    let found = plan(graph, machine, &options).unwrap();
    verify(&found.tasks).unwrap_or_else(|e| panic!("{e}"));
    check_capacity(&found.tasks, machine, options.memory).unwrap_or_else(|e| panic!("{e:?}"));
    let report = &found.report;
    assert_eq!((report.objective.as_str(), report.cost_unit.as_str()), ("makespan", "s"));
    assert_eq!(report.simulated_seconds, simulate(&found.tasks, machine).makespan());
    assert_eq!(report.cost.to_bits(), report.simulated_seconds.0.to_bits());
    assert!(report.lower_bound > 0.0 && report.lower_bound <= report.cost, "{report:?}");
    // What is cheapest by time is among what is judged.
    assert!(report.cost <= time.report.simulated_seconds.0, "{} after {}", report.cost, time.report.simulated_seconds);
    assert!(time.report.cost <= report.seconds.0 * (1.0 + 1e-9), "no plan has less serial cost than by that objective");
    assert_eq!(plan(graph, machine, &options).unwrap().tasks, found.tasks, "the same question has the same answer");
    (time.report.simulated_seconds.0, report.cost)
}

#[test]
fn plans_whose_exchanges_hide_are_found() {
    let mut quicker = 0;
    for (machine, devices) in [("pcie-8", 4), ("8xa100", 8), ("dgx-1v", 3)] {
        let machine = Machine::by_name(machine).unwrap().first(devices).unwrap();
        for tokens in [512, 16384] {
            let (time, makespan) = check(&layers(tokens), &machine, &Options::default());
            println!("{} {tokens}: {time:.6} {makespan:.6}", machine.name);
            quicker += usize::from(makespan < 0.98 * time);
        }
    }
    assert!(quicker > 0, "where exchanges are slow another plan is quicker than that of the least serial cost");
}

#[test]
fn what_does_not_fit_is_no_plan() {
    let machine = Machine::by_name("pcie-8").unwrap().first(4).unwrap();
    let graph = layers(1024);
    let free = plan(&graph, &machine, &Options::default()).unwrap().peak_memory().0;
    let memory = Some(Bytes(free * 2 / 3));
    check(&graph, &machine, &Options { memory, ..Options::default() });
    let refused = Options { objective: Objective::Makespan, memory: Some(Bytes(1 << 20)), ..Options::default() };
    let said = plan(&graph, &machine, &refused).unwrap_err().to_string();
    assert!(said.contains("no plan fits in 1.0 MiB"), "{said}");
}

#[test]
fn fixed_strategies_are_compared_by_it() {
    let machine = Machine::by_name("8xa100").unwrap().first(4).unwrap();
    let options = Options { objective: Objective::Makespan, ..Options::default() };
    let all = compare(&layers(1024), &machine, &options);
    let priced = all.iter().filter(|s| s.refused.is_none());
    assert!(priced.clone().count() > 3);
    for strategy in priced {
        assert_eq!(strategy.cost, strategy.simulated_seconds.map(|s| s.0), "{}", strategy.strategy);
    }
}
