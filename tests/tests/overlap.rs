//! Task graphs whose blocks were cut once more compute what the reference does, bit for bit with small integers.

use ein_ir::dtype::DType;
use ein_ir::graph::Graph;
use ein_plan::options::{Options, Strategy};
use ein_plan::plan::{Plan, plan};
use ein_task::machine::Machine;
use ein_task::task_text::print;
use ein_task::verify::verify;
use ein_tests::plans::computes;
use ein_tests::small::Builder;

/// Devices on which small products take about as long as moving what they make.
fn machine(devices: usize) -> Machine {
    let mut machine = Machine::by_name("8xa100-ideal").and_then(|m| m.first(devices)).expect("it ships");
    machine.devices.iter_mut().for_each(|d| d.flops = vec![(DType::F32, 1e12)]);
    machine
}

/// Three products, one after the other.
fn products(rows: usize, features: usize, inner: usize) -> Graph {
    let mut b = Builder::new(DType::F32);
    let x = b.input("x", &[rows, features]);
    let up = b.parameter("up", &[features, inner]);
    let down = b.parameter("down", &[inner, features]);
    let h = b.contraction("h", "ij,jk->ik", &[x, up]);
    let y = b.contraction("y", "ij,jk->ik", &[h, down]);
    let z = b.contraction("z", "ij,jk->ik", &[y, up]);
    b.output("z", z);
    b.done()
}

fn check(graph: &Graph, devices: usize, strategy: Option<Strategy>) -> Plan {
    let options = Options { strategy, overlap: true, ..Options::default() };
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
                let plan = check(&products(rows, features, inner), devices, strategy);
                cut += plan.report.overlap.cuts.len();
            }
        }
    }
    assert!(cut > 0, "no plan was cut");
}
