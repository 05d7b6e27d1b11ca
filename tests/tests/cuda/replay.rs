//! What a run is: one launch, and what moves is what the plan moves.

use crate::on_fakes::{executor, given, outputs, seats};
use ein_fake_cuda::{FakeMachine, Side, install};
use ein_ir::reference::run;
use ein_plan::lower::lower;
use ein_plan::options::Options;
use ein_task::memory::plan_memory;
use ein_tests::choices::{by_label, held};
use ein_tests::plans::{cpus, graph, moved, named};
use ein_tests::same::difference;
use ein_tests::small;
use std::collections::BTreeMap;

/// A product whose sum is cut, so that partials are folded, with a parameter, and a map behind it.
const PRODUCT: &str = "x: input f32[6,12]\nw: param f32[12,8]\ny = einsum f32 (i: 6, j: 8 | k: 12) sum x[i,k] * \
                       w[k,j]\nz = einsum f32 (i: 6, j: 8) map y[i,j] + 1.0\nreturn z\n";

#[test]
fn a_run_is_one_launch_and_moves_what_the_plan_moves() {
    let graph = graph(PRODUCT);
    for devices in [1, 2, 3, 5] {
        let mut choice = by_label(&graph, devices, &[("y", "k"), ("z", "i")]);
        let y = named(&graph, "y");
        choice.homes.insert(y, held(&graph, y, 0, devices));
        let machine = cpus(devices);
        let mut tasks = lower(&graph, &choice, &machine, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        plan_memory(&mut tasks);
        let inputs = small::inputs(&graph, 3);
        let fake = install(&FakeMachine::new(devices)).expect("g++ is there");
        let seats = seats(&machine, devices);
        let made = executor(&tasks, &given(&graph, &tasks, &inputs, true), &seats);
        let mut executor = made.unwrap_or_else(|e| panic!("{devices}: {e}"));
        let given = given(&graph, &tasks, &inputs, false);
        let expected = run(&graph, &inputs).expect("the reference runs");
        let mut found = BTreeMap::new();
        for turn in 0..3 {
            fake.count_anew();
            executor.run_into(&given, &mut found).unwrap_or_else(|e| panic!("{devices}: {e}: {:?}", fake.report()));
            let counted = fake.counters();
            let once = (counted.allocations, counted.synchronizations, counted.graphs, counted.calls);
            assert_eq!(once, (0, 1, 1, 0), "{devices}, turn {turn}: {counted:?}");
            let across = |(sides, bytes): (&(Side, Side), &u64)| match sides {
                (Side::Gpu(a), Side::Gpu(b)) if a != b => *bytes,
                _ => 0,
            };
            let bytes = counted.copied.iter().chain(&counted.reached).map(across).sum::<u64>();
            assert_eq!(bytes, moved(&tasks), "{devices}: {counted:?}");
            // What folds read where it is, is not copied before.
            assert!(devices == 1 || counted.reached.values().sum::<u64>() > 0, "{counted:?}");
            let found = outputs(&graph, found.clone());
            assert_eq!(difference(&found, &expected, 0.0), None, "{devices}, turn {turn}");
        }
        assert_eq!(fake.report(), None);
    }
}

/// State stays where a run left it, and is replaced when it is given again.
#[test]
fn state_stays() {
    let graph = graph("s: state f32[5]\nx: input f32[5]\ny = einsum f32 (i: 5) map s[i] + x[i]\nreturn y\n");
    let machine = cpus(2);
    let mut tasks = lower(&graph, &by_label(&graph, 2, &[("y", "i")]), &machine, &Options::default())
        .unwrap_or_else(|e| panic!("{e}"));
    plan_memory(&mut tasks);
    let fake = install(&FakeMachine::new(2)).expect("g++ is there");
    let made = executor(&tasks, &BTreeMap::new(), &seats(&machine, 2));
    let mut executor = made.unwrap_or_else(|e| panic!("{e}"));
    let mut inputs = small::inputs(&graph, 4);
    let state = inputs.remove("s").expect("a state");
    let missing = executor.run(&inputs).expect_err("it was never given").to_string();
    assert!(missing.contains("`s`"), "{missing}");
    let both = |value: f64| {
        let mut all = inputs.clone();
        let values = vec![value; 5];
        all.insert("s".into(), ein_ir::dense::Dense::from_f64(state.dtype(), [5], &values));
        all
    };
    for value in [1.0, 7.0] {
        let expected = run(&graph, &both(value)).expect("the reference runs");
        for inputs in [both(value), inputs.clone(), inputs.clone()] {
            let found = executor.run(&inputs).unwrap_or_else(|e| panic!("{e}: {:?}", fake.report())).outputs;
            assert_eq!(difference(&outputs(&graph, found), &expected, 0.0), None, "{value}");
        }
    }
}
