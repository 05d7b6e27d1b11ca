//! Where cutting blocks once more pays, and where it must not be done.

use crate::options::{Objective, Options, Strategy};
use crate::plan::{Plan, plan};
use crate::strategies::strategies_tests::{Sizes, model};
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorType};
use ein_ir::op::InputKind;
use ein_task::machine::Machine;
use ein_task::simulate::simulate;
use ein_task::units::Bytes;
use ein_task::verify::verify;

/// Two products, one after the other: whatever the plan, what the first makes is exchanged under this strategy.
fn two_products(rows: usize, features: usize, inner: usize) -> Graph {
    let mut g = Graph::new();
    let input = |g: &mut Graph, name: &str, kind, shape: [usize; 2]| {
        g.input(name, kind, TensorType::new(DType::F32, shape)).unwrap()
    };
    let x = input(&mut g, "x", InputKind::Input, [rows, features]);
    let up = input(&mut g, "up", InputKind::Parameter, [features, inner]);
    let down = input(&mut g, "down", InputKind::Parameter, [inner, features]);
    let h = g.contraction("h", "ij,jk->ik", &[x, up]).unwrap();
    let y = g.contraction("y", "ij,jk->ik", &[h, down]).unwrap();
    let up = input(&mut g, "up2", InputKind::Parameter, [features, inner]);
    let z = g.contraction("z", "ij,jk->ik", &[y, up]).unwrap();
    g.output("z", z).unwrap();
    g
}

/// Plans with and without overlap, and checks what holds of both.
fn check(graph: &Graph, machine: &Machine, strategy: Option<Strategy>) -> Plan {
    let options = Options { strategy, overlap: true, ..Options::default() };
    let with = plan(graph, machine, &options).unwrap();
    let without = plan(graph, machine, &Options { overlap: false, ..options }).unwrap();
    // The decisions and what they cost are those of the search: only when things happen differs.
    assert_eq!(with.choice, without.choice);
    assert_eq!((with.report.cost, with.report.bytes_total), (without.report.cost, without.report.bytes_total));
    assert!(without.report.overlap.cuts.is_empty() && without.report.overlap.tried == 0);
    let overlap = &with.report.overlap;
    assert_eq!(overlap.simulated_seconds_uncut, without.report.simulated_seconds);
    assert_eq!(with.report.simulated_seconds, simulate(&with.tasks, machine).makespan());
    assert_eq!(overlap.simulated_seconds, with.report.simulated_seconds);
    if overlap.cuts.is_empty() && !overlap.memory_apart {
        assert_eq!(with.tasks, without.tasks);
    } else {
        assert!(overlap.simulated_seconds.0 < 0.99 * overlap.simulated_seconds_uncut.0);
    }
    verify(&with.tasks).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(plan(graph, machine, &options).unwrap().tasks, with.tasks, "the same question has the same answer");
    let ratio = overlap.simulated_seconds.0 / overlap.simulated_seconds_uncut.0;
    println!(
        "{}: {ratio:.3} of {}, {} tried: {:?}",
        machine.name, overlap.simulated_seconds_uncut, overlap.tried, overlap.cuts
    );
    with
}

#[test]
fn exchanges_hide_behind_large_products() {
    let machine = Machine::by_name("8xa100-ideal").unwrap().first(4).unwrap();
    let plan = check(&two_products(8192, 4096, 4096), &machine, Some(Strategy::Tensor));
    let overlap = &plan.report.overlap;
    assert!(overlap.simulated_seconds.0 < 0.85 * overlap.simulated_seconds_uncut.0, "{overlap:?}");
    let cut = overlap.cuts.first().expect("a cut");
    assert!(cut.tensors == ["y"] && cut.operations == ["y (i)", "z (i)"] && cut.axis == 0, "{cut:?}");
    // Never less than what there is to compute.
    assert!(overlap.simulated_seconds >= plan.report.compute_seconds, "{overlap:?}");
}

#[test]
fn memory_is_not_used_again_where_that_makes_wait() {
    let machine = Machine::by_name("dgx-1v").unwrap().first(4).unwrap();
    let sizes = Sizes { batch: 1, tokens: 4096, heads: 16, kv: 16, dim: 128, inner: 4096, labels: true };
    let plan = check(&model(sizes), &machine, Some(Strategy::TensorSequence));
    let overlap = &plan.report.overlap;
    assert!(
        overlap.memory_apart && overlap.simulated_seconds.0 < 0.9 * overlap.simulated_seconds_uncut.0,
        "{overlap:?}"
    );
}

#[test]
fn launches_are_not_doubled_for_nothing() {
    let machine = Machine::by_name("8xa100").unwrap().first(4).unwrap();
    let mut tried = 0;
    for n in [64, 256, 512] {
        let plan = check(&two_products(n, n, n), &machine, Some(Strategy::Tensor));
        assert!(plan.report.overlap.cuts.is_empty(), "{:?}", plan.report.overlap);
        tried += plan.report.overlap.tried;
    }
    assert!(tried > 0, "a cut is refused because it does not pay, and not because nothing is waited for");
}

/// Plans as asked by default, but for what is given, and says why overlap was not tried.
fn untried(machine: &str, graph: &Graph, options: &Options) -> Option<String> {
    let machine = Machine::by_name(machine).unwrap();
    let plan = plan(graph, &machine, options).unwrap();
    let overlap = plan.report.overlap;
    assert!(overlap.untried.is_none() || overlap.tried == 0 && !overlap.memory_apart && overlap.cuts.is_empty());
    assert_eq!(overlap.peak_memory_uncut == plan.tasks.arenas.iter().copied().max().unwrap(), !overlap.memory_apart);
    overlap.untried.map(String::from)
}

#[test]
fn it_is_on_by_default_and_says_why_nothing_was_tried() {
    let graph = two_products(4096, 4096, 4096);
    let asked = || Options { strategy: Some(Strategy::Tensor), ..Options::default() };
    let check = |machine: &str, options: &Options, part: &str| {
        let reason = untried(machine, &graph, options).unwrap_or_else(|| panic!("{machine}: {part} is a reason"));
        assert!(reason.contains(part), "{machine}: {reason}");
    };
    assert_eq!(untried("8xa100", &graph, &asked()), None);
    check("8xa100", &Options { overlap: false, ..asked() }, "switched off");
    check("8xa100", &Options { objective: Objective::Bytes, ..asked() }, "not time");
    check("4xcpu", &asked(), "threads");
    check("8xa100", &Options { strategy: Some(Strategy::OneDevice), ..asked() }, "computes nearly all the time");
}

/// Memory that is spread never exceeds what there is, however little that is.
#[test]
fn spread_memory_fits() {
    let machine = Machine::by_name("dgx-1v").unwrap().first(4).unwrap();
    let sizes = Sizes { batch: 1, tokens: 4096, heads: 16, kv: 16, dim: 128, inner: 4096, labels: true };
    let graph = model(sizes);
    let asked = Options { strategy: Some(Strategy::TensorSequence), ..Options::default() };
    let least = plan(&graph, &machine, &Options { overlap: false, ..asked.clone() }).unwrap().peak_memory().0;
    let most = plan(&graph, &machine, &asked).unwrap().peak_memory().0;
    assert!(most > least, "memory is spread where there is some: {most} after {least}");
    let mut seconds = Vec::new();
    for step in 0..=8 {
        let limit = least + (most - least) * step / 8;
        let plan = plan(&graph, &machine, &Options { memory: Some(Bytes(limit)), ..asked.clone() }).unwrap();
        assert!(plan.peak_memory().0 <= limit, "{} of {limit}", plan.peak_memory());
        verify(&plan.tasks).unwrap_or_else(|e| panic!("{e}"));
        seconds.push(plan.report.simulated_seconds.0);
    }
    assert!(seconds[8] < seconds[0], "{seconds:?}");
}

/// Where little was searched, few tasks are simulated, and none of a large graph.
#[test]
fn tries_are_bounded_by_tasks() {
    let machine = Machine::by_name("8xa100").unwrap();
    let mut graph = two_products(4096, 4096, 4096);
    let options = Options { strategy: Some(Strategy::Tensor), ..Options::default() };
    let tasks = |overlap| plan(&graph, &machine, &Options { overlap, ..options.clone() }).unwrap();
    let (tried, tasks) = (tasks(true).report.overlap.tried, tasks(false).tasks.tasks.len());
    assert!((1..=16).contains(&tried) && tried <= 4000 / tasks, "{tried} of {tasks} tasks");
    let mut y = graph.find("z").unwrap();
    for n in 0..80 {
        let [up, down] = ["up2", "down"].map(|name| graph.find(name).unwrap());
        let h = graph.contraction(&format!("h{n}"), "ij,jk->ik", &[y, down]).unwrap();
        y = graph.contraction(&format!("z{n}"), "ij,jk->ik", &[h, up]).unwrap();
    }
    graph.output("end", y).unwrap();
    let plan = plan(&graph, &machine, &options).unwrap();
    assert!(plan.tasks.tasks.len() > 4000);
    assert_eq!((plan.report.overlap.tried, plan.report.overlap.untried), (0, None));
}
