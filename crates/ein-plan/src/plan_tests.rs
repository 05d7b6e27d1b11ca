//! Plans: against brute force, against fixed strategies, and known answers.

use crate::options::{Objective, Options};
use crate::plan::{Plan, plan};
use crate::price::price;
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorType};
use ein_ir::op::InputKind;
use ein_task::machine::Machine;

fn machine(name: &str, devices: usize) -> Machine {
    Machine::by_name(name).unwrap().first(devices).unwrap()
}

fn gemm(n: usize) -> Graph {
    let mut g = Graph::new();
    let t = TensorType::new(DType::F32, [n, n]);
    let a = g.input("a", InputKind::Input, t.clone()).unwrap();
    let b = g.input("b", InputKind::Input, t).unwrap();
    let c = g.contraction("c", "ij,jk->ik", &[a, b]).unwrap();
    g.output("c", c).unwrap();
    g
}

fn check(graph: &Graph, machine: &Machine, options: &Options) -> Plan {
    let plan = plan(graph, machine, options).unwrap();
    let own = price(&plan.graph, &plan.choice, machine, options).unwrap();
    assert!((own.of(options.objective) - plan.report.cost).abs() <= 1e-9 * plan.report.cost.abs());
    assert!(plan.report.lower_bound <= plan.report.cost);
    plan
}

#[test]
fn products_reach_the_recursive_optimum() {
    let options = Options { objective: Objective::Bytes, ..Options::default() };
    // Devices, elements moved over N squared: the optimum over proportional recursive cuts.
    for (devices, expected) in [(2, 1.0), (3, 1.667), (4, 2.0), (5, 2.4), (6, 2.667), (7, 2.857), (8, 3.0)] {
        let plan = check(&gemm(8192), &machine("8xa100-ideal", devices), &options);
        let moved = plan.report.bytes_total.0 as f64 / 4.0 / (8192.0 * 8192.0);
        assert!((moved - expected).abs() < 0.01, "{devices} devices: {moved} instead of {expected}");
        assert!(plan.report.balance <= 1.02, "{devices}: {}", plan.report.balance);
        assert_eq!(plan.report.gap, 0.0, "{devices} devices");
    }
}
