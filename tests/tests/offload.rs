//! Parameters in a host's memory, sent to where they are read in every run, because the devices' own does not suffice.

use ein_ir::graph::{Graph, TensorType};
use ein_ir::op::InputKind;
use ein_ir::reference::run;
use ein_plan::error::PlanError;
use ein_plan::options::{Objective, Options};
use ein_plan::plan::{Plan, plan};
use ein_run::Order;
use ein_task::machine::{DeviceKind, Machine};
use ein_task::units::Bytes;
use ein_task::verify::verify;
use ein_tests::same::difference;
use ein_tests::small;
use einsummable::DType;

/// A chain of `layers` products, whose square weights are all there is to store.
fn chain(layers: usize, width: usize) -> Graph {
    let mut g = Graph::new();
    let mut x = g.input("x", InputKind::Input, TensorType::new(DType::F32, [4, width])).unwrap();
    for n in 0..layers {
        let ty = TensorType::new(DType::F32, [width, width]);
        let w = g.input(&format!("w{n}"), InputKind::Parameter, ty).unwrap();
        x = g.contraction(&format!("y{n}"), "ij,jk->ik", &[x, w]).unwrap();
    }
    g.output("out", x).unwrap();
    g
}

/// Two GPUs and the host of a DGX-1.
fn machine() -> Machine {
    let machine = Machine::by_name("dgx-1v").and_then(|m| m.first(2)).expect("it ships");
    assert_eq!(machine.devices[2].kind, DeviceKind::Host);
    machine
}

/// Bytes of parameters that each device keeps.
fn kept(plan: &Plan) -> Vec<u64> {
    let mut of = vec![0; plan.machine.len()];
    let parameters =
        plan.tasks.rows().filter(|(id, _)| plan.tasks.fed(*id).is_some_and(ein_task::task::External::is_resident));
    parameters.for_each(|(_, task)| of[task.device.index()] += task.value.bytes().0);
    of
}

#[test]
fn what_does_not_fit_stays_at_the_host() {
    // 16 weights of 1 KiB; x and products of 256 bytes.
    let (graph, machine, host) = (chain(16, 16), machine(), 2);
    let weights = 16 * 1024;
    let ask = |memory: u64, offload| {
        plan(&graph, &machine, &Options { memory: Some(Bytes(memory)), offload, ..Options::default() })
    };
    let inputs = small::inputs(&graph, 3);
    let expected = run(&graph, &inputs).expect("the reference runs");
    let mut last = f64::INFINITY;
    for memory in [3 * 1024, 5 * 1024, 8 * 1024, 20 * 1024] {
        let what = format!("{memory} bytes a device");
        let plan = ask(memory, true).unwrap_or_else(|e| panic!("{what}: {e}"));
        verify(&plan.tasks).unwrap_or_else(|e| panic!("{what}: {e}"));
        let (kept, arenas) = (kept(&plan), &plan.tasks.arenas);
        assert!(arenas[0].0 <= memory && arenas[1].0 <= memory, "{what}: {arenas:?}");
        assert_eq!(kept[host] > 0, 2 * memory < weights + 4 * 1024, "{what}: {kept:?}");
        // No more is there than what one device, which computes all of this fastest, has no room for.
        assert!(kept[host] + memory <= weights + 2 * 1024 || kept[host] == 0, "{what}: {kept:?}");
        // More memory, less to send.
        assert!(plan.report.seconds.0 <= last, "{what}: {} after {last}", plan.report.seconds);
        last = plan.report.seconds.0;
        let found = ein_tests::computed::computed(&graph, &plan.tasks, &inputs, &[Order::Listed, Order::Random(1)]);
        for found in found.unwrap_or_else(|e| panic!("{what}: {e}")) {
            assert_eq!(difference(&found, &expected, 1e-4), None, "{what}");
        }
    }
    for memory in [3 * 1024, 5 * 1024] {
        assert!(matches!(ask(memory, false), Err(PlanError::DoesNotFit { .. })), "{memory} without the host");
    }
}

/// By bytes, what is sent from the host counts as anything that is sent: the least is sent that memory allows.
#[test]
fn no_more_than_what_lacks_is_sent() {
    let (graph, machine) = (chain(16, 16), machine());
    let memory = Some(Bytes(6 * 1024));
    let options = Options { memory, offload: true, objective: Objective::Bytes, ..Options::default() };
    let plan = plan(&graph, &machine, &options).expect("a plan fits");
    let kept = kept(&plan);
    // The devices have 12 KiB, of which they need some for what they compute; weights come whole.
    assert!(kept[2] >= 4 * 1024 && kept[2] <= 9 * 1024, "{kept:?}");
}

#[test]
fn a_host_is_needed() {
    let machine = Machine::by_name("8xa100").and_then(|m| m.first(2)).expect("it ships");
    let error = plan(&chain(1, 8), &machine, &Options { offload: true, ..Options::default() }).expect_err("no host");
    let error = error.to_string();
    assert!(error.contains("no host memory") && error.contains("`8xa100/0,1`"), "{error}");
}
