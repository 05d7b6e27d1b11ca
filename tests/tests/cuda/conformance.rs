//! The same cases as of the CPU device, on one to eight fake GPUs, or as several devices on one.
//!
//! Every case is run on three numbers of devices, and by some plan, drawn from its place in the list: all on all would be
//! minutes of the C++ compiler. `EIN_TEST_SEEDS` raises the number of random plans, `EIN_TEST_SEED` runs one alone.

use crate::on_fakes::{computed, seats};
use ein_fake_cuda::{Check, FakeMachine, install};
use ein_ir::reference::run;
use ein_ir::simplify::simplify;
use ein_plan::lower::lower;
use ein_plan::options::Options;
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::task_text::print;
use ein_tests::cases::parse;
use ein_tests::choices::{Rng, drawn};
use ein_tests::same::{difference, variable};
use ein_tests::{machines, random};

/// GPUs for so many devices: one each, some, or one for all.
fn gpus(devices: usize, n: usize) -> usize {
    [devices, 1 + devices / 2, 1][n % 3]
}

fn check(file: &str) {
    let cases = parse(file);
    let cases = cases.iter().enumerate().filter(|(_, case)| case.refused.is_none());
    for (n, case) in cases.flat_map(|(n, case)| [(n, case), (n + 4, case), (n + 11, case)]) {
        let graph = case.graph();
        let devices = 1 + n % 8;
        let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
        let tasks = lower(&graph, &drawn(&graph, devices, n as u64), &machine, &Options::default());
        let mut tasks = tasks.unwrap_or_else(|e| panic!("{}: {e}", case.name));
        plan_memory(&mut tasks);
        let gpus = gpus(devices, n);
        let fake = install(&FakeMachine::new(gpus).seed(n as u64)).expect("g++ is there");
        let found = computed(&graph, &tasks, &case.inputs(&graph), &seats(&machine, gpus));
        let how = format!("{} on {devices} of {gpus} GPUs", case.name);
        match (&case.fails, found) {
            (None, Ok(found)) => {
                let off = difference(&found, &case.expected(&graph), case.within);
                assert_eq!(off, None, "{how}\n{}", print(&tasks));
            }
            (None, Err(e)) => panic!("{how}: {e}: {:?}\n{}", fake.report(), print(&tasks)),
            (Some(why), Err(e)) => assert!(e.to_string().contains(why.as_str()), "{how}: `{why}` is not in: {e}"),
            (Some(_), Ok(found)) => panic!("{how}: {found:?}"),
        }
        assert_eq!(fake.report(), None, "{how}");
    }
}

#[test]
fn a_sizes() {
    check(include_str!("../../cases/a-sizes.ein"));
}

#[test]
fn b_views() {
    check(include_str!("../../cases/b-views.ein"));
}

#[test]
fn c_partials() {
    check(include_str!("../../cases/c-partials.ein"));
}

#[test]
fn d_indices() {
    check(include_str!("../../cases/d-indices.ein"));
}

#[test]
fn e_einsums() {
    check(include_str!("../../cases/e-einsums.ein"));
}

#[test]
fn f_to_k() {
    check(include_str!("../../cases/f-to-k.ein"));
}

#[test]
fn any_plan_on_any_machine_computes_the_graph() {
    let seeds = match variable("EIN_TEST_SEED") {
        Some(one) => one..one + 1,
        None => 0..variable("EIN_TEST_SEEDS").unwrap_or(40),
    };
    for seed in seeds {
        let exact = !seed.is_multiple_of(3);
        let (graph, inputs) = random::graph(seed, exact);
        let graph = if seed.is_multiple_of(2) { simplify(&graph) } else { graph };
        let devices = 1 + seed as usize % 8;
        let machine = machines::drawn(&mut Rng::new(seed), devices);
        let tasks = lower(&graph, &drawn(&graph, devices, seed), &machine, &Options::default());
        let mut tasks = tasks.unwrap_or_else(|e| panic!("{seed}: {e}"));
        plan_memory(&mut tasks);
        let gpus = gpus(devices, seed as usize / 2);
        let mut fakes = FakeMachine::new(gpus).seed(seed);
        fakes.check = if seed.is_multiple_of(4) { Check::Bounds } else { Check::Races };
        for (a, b) in
            (0..gpus).flat_map(|a| (0..a).map(move |b| (a, b))).filter(|(a, b)| (a + b) as u64 % 3 == seed % 3)
        {
            fakes = fakes.apart(a, b);
        }
        let fake = install(&fakes).expect("g++ is there");
        let found = computed(&graph, &tasks, &inputs, &seats(&machine, gpus));
        let found = found.unwrap_or_else(|e| panic!("{seed}: {e}: {:?}\n{}", fake.report(), print(&tasks)));
        let expected = run(&graph, &inputs).expect("the reference runs");
        let tolerance = if exact { 0.0 } else { random::tolerance(&graph) };
        assert_eq!(difference(&found, &expected, tolerance), None, "{seed} on {} of {gpus}", machine.name);
        assert_eq!(fake.report(), None, "{seed}");
    }
}
