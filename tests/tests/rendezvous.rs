//! Whole plans on virtual devices that buffer no message, each taking its ready tasks in random order: every plan
//! ends, with the right numbers.

use ein_ir::reference::run;
use ein_plan::options::{Objective, Strategy};
use ein_plan::plan::plan;
use ein_run::Order;
use ein_task::task::Verb;
use ein_tests::choices::{by_label, drawn, held};
use ein_tests::computed::computed;
use ein_tests::machines;
use ein_tests::plans::{cpus, graph, lowered, named, searched};
use ein_tests::same::{difference, variable};
use ein_tests::{random, small};

/// Runs a task graph over both transports in random orders and compares with the reference.
fn ends(
    graph: &ein_ir::graph::Graph,
    tasks: &ein_task::task::TaskGraph,
    within: f64,
    seeds: std::ops::Range<u64>,
    at: &str,
) {
    let inputs = small::inputs(graph, 17);
    let expected = run(graph, &inputs).expect("the reference runs");
    let orders: Vec<Order> = seeds.map(Order::Random).collect();
    for found in computed(graph, tasks, &inputs, &orders).unwrap_or_else(|e| panic!("{at}: {e}")) {
        assert_eq!(difference(&found, &expected, within), None, "{at}");
    }
}

/// H1: every two devices swap what they have, at once. Both sides have all their sends ready before anything comes.
#[test]
fn h1_everybody_swaps_at_once() {
    let graph = graph("x: input f32[64]\ny = einsum f32 (i: 64) map x[-i + 63]\nreturn y\n");
    for devices in 1..=8 {
        let mut choice = by_label(&graph, devices, &[("y", "i")]);
        let x = named(&graph, "x");
        choice.homes.insert(x, held(&graph, x, 0, devices));
        for machine in machines::all(devices) {
            ends(&graph, &lowered(&graph, &choice, &machine), 0.0, 0..8, &machine.name);
        }
    }
}

/// H4: devices that have nothing to compute, or nothing at all, follow the same plan.
#[test]
fn h4_devices_without_work() {
    for devices in 1..=8 {
        for rows in 1..=3 {
            let graph = small::matmul(rows, 2, 2);
            let product = named(&graph, "y");
            let mut choice = by_label(&graph, devices, &[("y", "k")]);
            choice.homes.insert(product, held(&graph, product, 0, devices));
            let tasks = lowered(&graph, &choice, &cpus(devices));
            ends(&graph, &tasks, 0.0, 0..4, &format!("{rows} rows on {devices}"));
            // What is empty is not moved, on neither end.
            for task in &tasks.tasks {
                let moves = matches!(task.verb, Verb::Send { .. } | Verb::Receive { .. });
                assert!(!(moves && task.value.region.is_empty()), "{rows} rows on {devices}");
            }
        }
    }
}

/// H5: devices in twos, the twos joined by a host that only relays.
#[test]
fn h5_pairs_over_a_host() {
    let graph = small::matmul(12, 10, 14);
    for devices in 2..=8 {
        for machine in [machines::pairs(devices), machines::star(devices), machines::line(devices)] {
            for seed in 0..3 {
                let tasks = lowered(&graph, &drawn(&graph, devices, seed), &machine);
                ends(&graph, &tasks, 0.0, seed..seed + 2, &machine.name);
            }
        }
    }
}

/// H6: products of every size.
#[test]
fn h6_products_of_every_size() {
    for rows in 1..=257 {
        let graph = small::matmul(rows, 3, 5);
        let devices = 1 + rows % 8;
        let tasks = lowered(&graph, &drawn(&graph, devices, 1000 + rows as u64), &cpus(devices));
        ends(&graph, &tasks, 0.0, 0..1, &format!("{rows} rows on {devices}"));
    }
}

/// Random graphs with random choices on random machines of 1 to 8 devices.
#[test]
fn random_plans_end() {
    let seeds = variable("EIN_TEST_SEEDS").map_or(160, |n| n / 2);
    for seed in 0..seeds {
        let seed = 7_000_000 + seed;
        let devices = 1 + (seed % 8) as usize;
        let (graph, inputs) = random::graph(seed, true);
        let mut rng = ein_tests::choices::Rng::new(seed);
        let machine = machines::drawn(&mut rng, devices);
        let tasks = lowered(&graph, &drawn(&graph, devices, seed), &machine);
        let expected = run(&graph, &inputs).expect("the reference runs");
        let orders = [seed, seed + 1].map(Order::Random);
        for found in computed(&graph, &tasks, &inputs, &orders).unwrap_or_else(|e| panic!("seed {seed}: {e}")) {
            assert_eq!(difference(&found, &expected, 0.0), None, "seed {seed} on {}", machine.name);
        }
    }
}

/// Searched plans and fixed strategies for two products with a map between them.
#[test]
fn searched_plans_end() {
    let text = "x: input f32[12, 8]\nv: param f32[8, 16]\nw: param f32[16, 8]\n\
                h = einsum f32 (i: 12, j: 16 | k: 8) sum x[i, k] * v[k, j]\n\
                r = einsum f32 (i: 12, j: 16) map max(h[i, j], 0.0)\n\
                y = einsum f32 (i: 12, j: 8 | k: 16) sum r[i, k] * w[k, j]\nreturn y\n";
    let graph = graph(text);
    let mut moving = 0;
    for devices in 1..=8 {
        let mut plans = vec![searched(&graph, &cpus(devices), Objective::Bytes)];
        for strategy in [Strategy::Data, Strategy::Tensor, Strategy::FullyShardedData] {
            let options = ein_plan::options::Options { strategy: Some(strategy), ..Default::default() };
            plans.extend(plan(&graph, &cpus(devices), &options).ok());
        }
        for plan in plans {
            moving += usize::from(plan.tasks.tasks.iter().any(|t| matches!(t.verb, Verb::Send { .. })));
            ends(&plan.graph, &plan.tasks, 0.0, 0..4, &format!("{devices} devices"));
        }
    }
    assert!(moving > 10, "{moving} of these plans move something");
}
