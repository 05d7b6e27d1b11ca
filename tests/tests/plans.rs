//! Searched plans and fixed strategies of random graphs: they compute the graph, and their figures are those
//! of the task graph.
//!
//! `EIN_TEST_SEEDS` sets the number of seeds; `EIN_TEST_SEED` runs one of them alone.

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::Graph;
use ein_ir::reference::run;
use ein_ir::text;
use ein_plan::error::PlanError;
use ein_plan::options::{Objective, Options, Placement, Strategy};
use ein_plan::plan::{Plan, compare, plan};
use ein_plan::price::price;
use ein_task::machine::{DeviceId, Machine};
use ein_task::task::{TaskGraph, Verb};
use ein_task::task_text::print;
use ein_task::units::Bytes;
use ein_task::verify::verify;
use ein_tests::choices::Rng;
use ein_tests::computed::once;
use ein_tests::same::{difference, variable};
use ein_tests::{machines, random, small};
use std::collections::BTreeMap;

const OBJECTIVES: [Objective; 4] = [Objective::Time, Objective::Makespan, Objective::Bytes, Objective::Memory];

/// Runs a plan, compares it with what is expected of its graph, and checks its figures.
fn check(plan: &Plan, inputs: &BTreeMap<String, Dense>, expected: &BTreeMap<String, Dense>, within: f64, what: &str) {
    let context = || format!("{what}\n{}", text::print(&plan.graph));
    verify(&plan.tasks).unwrap_or_else(|e| panic!("{e}: {}\n{}", context(), print(&plan.tasks)));
    let found = once(&plan.graph, &plan.tasks, inputs).unwrap_or_else(|e| panic!("{e}: {}", context()));
    if let Some(off) = difference(&found, expected, within) {
        panic!("{off}: {}\n{}", context(), print(&plan.tasks));
    }
    let price = price(&plan.graph, &plan.choice, &plan.machine, &plan.options).expect("it was planned");
    let report = &plan.report;
    let fullest = plan.tasks.arenas.iter().map(|a| a.0).max().unwrap_or(0);
    let cost = match plan.options.objective {
        Objective::Time => price.seconds.0,
        Objective::Makespan => report.simulated_seconds.0,
        Objective::Bytes => price.bytes_total.0 as f64,
        Objective::Memory => fullest as f64,
    };
    assert_eq!(report.cost, cost, "cost: {}", context());
    assert_eq!(report.peak_memory_per_device, plan.tasks.arenas, "{}", context());
    assert!(report.lower_bound <= report.cost, "bound {} above {}: {}", report.lower_bound, report.cost, context());
    assert!((0.0..=1.0).contains(&report.gap), "gap {}: {}", report.gap, context());
    let (sent, received) = crossings(&plan.tasks);
    assert_eq!(report.bytes_per_device.sent, sent, "sent: {}\n{}", context(), print(&plan.tasks));
    assert_eq!(report.bytes_per_device.received, received, "received: {}", context());
    let sum = |bytes: &[Bytes]| bytes.iter().map(|b| b.0).sum::<u64>();
    assert_eq!(report.bytes_total.0, sum(&sent), "{}", context());
    assert_eq!(report.bytes_total.0, sum(&received), "{}", context());
    assert!(report.bytes_delivered <= report.bytes_total, "{}", context());
}

/// What each device sends, by the boxes that its send halves take out of what they read, and receives.
fn crossings(tasks: &TaskGraph) -> (Vec<Bytes>, Vec<Bytes>) {
    let mut sent = vec![Bytes(0); tasks.devices];
    let mut received = sent.clone();
    for task in &tasks.tasks {
        let bytes = |value: &ein_task::task::Value| Bytes(value.form.bytes(&task.value.region) as u64);
        match task.verb {
            Verb::Send { .. } => sent[task.device.index()] += bytes(&tasks.task(task.reads[0]).value),
            Verb::Receive { .. } => received[task.device.index()] += bytes(&task.value),
            _ => {}
        }
    }
    (sent, received)
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    match variable("EIN_TEST_SEED") {
        Some(one) => one..one + 1,
        None => 0..variable("EIN_TEST_SEEDS").unwrap_or(default),
    }
}

#[test]
fn searched_plans_of_random_graphs() {
    for seed in seeds(60) {
        let exact = !seed.is_multiple_of(3);
        let (graph, inputs) = random::graph(seed, exact);
        let expected = run(&graph, &inputs).expect("the reference runs");
        let within = if exact { 0.0 } else { random::tolerance(&graph) };
        let devices = 1 + (seed as usize) % 8;
        let machine = machines::drawn(&mut Rng::new(seed), devices);
        for objective in OBJECTIVES {
            let mut rng = Rng::new(seed + 1);
            let placement = |n: usize| match n {
                0 => Placement::Replicated,
                1 => Placement::Device(DeviceId(seed as u16 % devices as u16)),
                _ => Placement::Anywhere,
            };
            let options = Options {
                objective,
                balance: !seed.is_multiple_of(7),
                inputs: placement(rng.below(6)),
                outputs: placement(rng.below(6)),
                wide_partials: seed.is_multiple_of(5),
                ..Options::default()
            };
            let what = format!("seed {seed} on {}, {options:?}", machine.name);
            let plan =
                plan(&graph, &machine, &options).unwrap_or_else(|e| panic!("{e}: {what}\n{}", text::print(&graph)));
            check(&plan, &inputs, &expected, within, &what);
        }
    }
}

#[test]
fn searched_plans_of_small_graphs() {
    for (n, (name, graph)) in small::all().into_iter().enumerate() {
        let inputs = small::inputs(&graph, 3);
        let expected = run(&graph, &inputs).expect("the reference runs");
        let narrow = graph.nodes().iter().any(|n| n.ty.dtype == DType::BF16);
        let within = if narrow { 0.05 } else { 1e-5 };
        // Every number of devices and every objective, but not every pair of them: that would take minutes.
        for devices in 1..=8 {
            let objective = OBJECTIVES[(n + devices) % OBJECTIVES.len()];
            let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
            let options = Options { objective, ..Options::default() };
            let what = format!("{name} on {devices} for {objective:?}");
            let plan = plan(&graph, &machine, &options).unwrap_or_else(|e| panic!("{what}: {e}"));
            check(&plan, &inputs, &expected, within, &what);
        }
    }
}

/// Every strategy that applies computes the graph, and the search does not lose to one that is balanced.
#[test]
fn fixed_strategies() {
    let mut applied = BTreeMap::new();
    for (name, graph) in small::all() {
        let inputs = small::inputs(&graph, 5);
        let expected = run(&graph, &inputs).expect("the reference runs");
        let narrow = graph.nodes().iter().any(|n| n.ty.dtype == DType::BF16);
        let within = if narrow { 0.05 } else { 1e-5 };
        for devices in [1, 2, 3, 5, 8] {
            let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
            for objective in [Objective::Time, Objective::Bytes] {
                let options = Options { objective, ..Options::default() };
                let searched = plan(&graph, &machine, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
                let reports = compare(&graph, &machine, &options);
                for (strategy, report) in Strategy::compared(devices).into_iter().zip(reports) {
                    let what = format!("{} of {name} on {devices} for {objective:?}", strategy.name());
                    let fixed = plan(&graph, &machine, &Options { strategy: Some(strategy), ..options.clone() });
                    match (fixed, &report.refused) {
                        (Err(PlanError::Strategy(_)), Some(_)) => continue,
                        (Ok(fixed), None) => {
                            check(&fixed, &inputs, &expected, within, &what);
                            assert_eq!(Some(fixed.report.cost), report.cost, "{what}");
                            assert_eq!(Some(fixed.report.bytes_total), report.bytes_total, "{what}");
                            *applied.entry(strategy).or_insert(0) += 1;
                        }
                        (fixed, refused) => panic!("{what}: {refused:?}, but {:?}", fixed.map(|p| p.report)),
                    }
                    let balanced = objective == Objective::Time || report.balanced == Some(true);
                    if let (true, Some(cost)) = (balanced, report.cost) {
                        let searched = searched.report.cost;
                        assert!(searched <= cost * (1.0 + 1e-9), "{what}: {cost}, the search {searched}");
                    }
                }
            }
        }
    }
    for strategy in Strategy::ALL {
        assert!(applied.get(&strategy).is_some_and(|&n| n > 0), "{} never applied: {applied:?}", strategy.name());
    }
}

/// Whatever is drawn from the candidates computes the graph.
#[test]
fn drawn_strategies() {
    for (n, (name, graph)) in small::all().into_iter().enumerate() {
        let inputs = small::inputs(&graph, 5);
        let expected = run(&graph, &inputs).expect("the reference runs");
        let narrow = graph.nodes().iter().any(|n| n.ty.dtype == DType::BF16);
        let within = if narrow { 0.05 } else { 1e-5 };
        for seed in 0..12 {
            let devices = [1, 2, 3, 5, 8][(seed as usize + n) % 5];
            let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
            let options = Options { strategy: Some(Strategy::Random(seed)), ..Options::default() };
            let what = format!("draw {seed} of {name} on {devices}");
            let plan = plan(&graph, &machine, &options).unwrap_or_else(|e| panic!("{what}: {e}"));
            check(&plan, &inputs, &expected, within, &what);
        }
    }
}

/// The same question gives the same plan, whoever asks and how often.
#[test]
fn plans_repeat() {
    for (name, graph) in small::all() {
        for (machine, objective) in [("5xcpu", Objective::Time), ("dgx-1v", Objective::Bytes)] {
            let machine = Machine::by_name(machine).expect("it ships");
            let options = Options { objective, ..Options::default() };
            let text = |graph: &Graph| print(&plan(graph, &machine, &options).expect("a plan").tasks);
            let first = text(&graph);
            std::thread::scope(|scope| {
                let again: Vec<_> = (0..2).map(|_| scope.spawn(|| text(&graph))).collect();
                for thread in again {
                    assert_eq!(thread.join().expect("a plan"), first, "{name}");
                }
            });
        }
    }
}
