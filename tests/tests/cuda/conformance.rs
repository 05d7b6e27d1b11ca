//! The same cases as of the CPU device, on one to eight fake GPUs, or as several devices on one.
//!
//! Every case is run on three numbers of devices, and by some plan, drawn from its place in the list: all on all would be
//! minutes of the C++ compiler. `EIN_TEST_SEEDS` raises the number of random plans, `EIN_TEST_SEED` runs one alone.
//!
//! With `EIN_TEST_GPU=1` all of it runs on this host's first GPU: every case as 1, 2, 4 and 8 devices of it. Nothing is read
//! from files then, so the compiled tests can be carried to where the GPU is.

use crate::on_fakes::{computed, seats};
use ein_cuda::devices::Seat;
use ein_fake_cuda::{Check, Fake, FakeMachine, install};
use ein_ir::reference::run;
use ein_ir::simplify::simplify;
use ein_plan::lower::lower;
use ein_plan::options::Options;
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::task::TaskGraph;
use ein_task::task_text::print;
use ein_tests::cases::{Case, parse};
use ein_tests::choices::{Rng, drawn};
use ein_tests::plans::cpus;
use ein_tests::same::{difference, variable};
use ein_tests::{machines, random};

/// GPUs for so many devices: one each, some, or one for all.
fn gpus(devices: usize, n: usize) -> usize {
    [devices, 1 + devices / 2, 1][n % 3]
}

/// Whether all of this runs on the first GPU of this host, on which all devices are, and not on fakes.
fn on_a_gpu() -> bool {
    variable("EIN_TEST_GPU").is_some()
}

/// Fake GPUs, unless there is to be a real one.
fn fakes(machine: &FakeMachine) -> Option<Fake> {
    (!on_a_gpu()).then(|| install(machine).expect("g++ is there"))
}

/// A plan by chance of a case.
fn planned(case: &Case, machine: &Machine, seed: u64) -> TaskGraph {
    let graph = case.graph();
    let tasks = lower(&graph, &drawn(&graph, machine.len(), seed), machine, &Options::default());
    let mut tasks = tasks.unwrap_or_else(|e| panic!("{}: {e}", case.name));
    plan_memory(&mut tasks);
    tasks
}

/// What is wrong with how a plan of a case goes on these seats.
fn wrong(case: &Case, tasks: &TaskGraph, seats: &[Seat]) -> Option<String> {
    let graph = case.graph();
    match (&case.fails, computed(&graph, tasks, &case.inputs(&graph), seats)) {
        (None, Ok(found)) => difference(&found, &case.expected(&graph), case.within),
        (None, Err(e)) => Some(e.to_string()),
        (Some(why), Err(e)) => (!e.to_string().contains(why.as_str())).then(|| format!("`{why}` is not in: {e}")),
        (Some(why), Ok(found)) => Some(format!("it should fail with `{why}`, but computes {found:?}")),
    }
}

fn check(file: &str) {
    let cases = parse(file);
    let cases: Vec<_> = cases.iter().enumerate().filter(|(_, case)| case.refused.is_none()).collect();
    if on_a_gpu() {
        // All of them are tried: a GPU is not always at hand.
        let each = [1, 2, 4, 8].into_iter().flat_map(|devices| cases.iter().map(move |&(n, case)| (devices, n, case)));
        let wrong = each.filter_map(|(devices, n, case)| {
            let machine = cpus(devices);
            let what = wrong(case, &planned(case, &machine, n as u64), &seats(&machine, 1))?;
            Some(format!("{} as {devices} devices: {what}", case.name))
        });
        let wrong: Vec<String> = wrong.collect();
        assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
        return;
    }
    for (n, case) in cases.into_iter().flat_map(|(n, case)| [(n, case), (n + 4, case), (n + 11, case)]) {
        let devices = 1 + n % 8;
        let machine = cpus(devices);
        let tasks = planned(case, &machine, n as u64);
        let gpus = gpus(devices, n);
        let fake = install(&FakeMachine::new(gpus).seed(n as u64)).expect("g++ is there");
        let how = format!("{} on {devices} of {gpus} GPUs", case.name);
        if let Some(what) = wrong(case, &tasks, &seats(&machine, gpus)) {
            panic!("{how}: {what}: {:?}\n{}", fake.report(), print(&tasks));
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
        let gpus = if on_a_gpu() { 1 } else { gpus(devices, seed as usize / 2) };
        let mut stand_ins = FakeMachine::new(gpus).seed(seed);
        stand_ins.check = if seed.is_multiple_of(4) { Check::Bounds } else { Check::Races };
        for (a, b) in
            (0..gpus).flat_map(|a| (0..a).map(move |b| (a, b))).filter(|(a, b)| (a + b) as u64 % 3 == seed % 3)
        {
            stand_ins = stand_ins.apart(a, b);
        }
        let fake = fakes(&stand_ins);
        let report = || fake.as_ref().and_then(Fake::report);
        let found = computed(&graph, &tasks, &inputs, &seats(&machine, gpus));
        let found = found.unwrap_or_else(|e| panic!("{seed}: {e}: {:?}\n{}", report(), print(&tasks)));
        let expected = run(&graph, &inputs).expect("the reference runs");
        let tolerance = if exact { 0.0 } else { random::tolerance(&graph) };
        assert_eq!(difference(&found, &expected, tolerance), None, "{seed} on {} of {gpus}", machine.name);
        assert_eq!(report(), None, "{seed}");
    }
}
