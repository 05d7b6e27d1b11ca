//! The same cases as of the CPU device, on one to eight fake GPUs, or as several devices on one.
//!
//! Every case is run on 1 to 8 devices: by the searched plan, by hand where the case has a plan, and by chance. Their kernels
//! are compiled in a few goes of the C++ compiler. `EIN_TEST_SEEDS` raises the number of random plans, `EIN_TEST_SEED` runs
//! one alone.
//!
//! With `EIN_TEST_GPU=1` all of it but what is searched runs on this host's first GPU: every case as 1, 2, 4 and 8 devices of it. Nothing is read
//! from files then, so the compiled tests can be carried to where the GPU is.

use crate::on_fakes::{computed, seats};
use ein_cuda::devices::{Prepared, Seat, Settings};
use ein_cuda::generate::PRELUDE;
use ein_cuda::nodes::Work;
use ein_fake_cuda::shim::{Instrument, prepare};
use ein_fake_cuda::{Check, Fake, FakeMachine, install};
use ein_ir::graph::Graph;
use ein_ir::reference::run;
use ein_ir::simplify::simplify;
use ein_plan::choice::Choice;
use ein_plan::lower::lower;
use ein_plan::options::Options;
use ein_plan::plan::plan;
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::task::TaskGraph;
use ein_task::task_text::print;
use ein_tests::cases::{Case, parse};
use ein_tests::choices::{Rng, drawn};
use ein_tests::plans::cpus;
use ein_tests::same::{difference, variable};
use ein_tests::{machines, random};
use std::collections::BTreeMap;

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

/// A plan of a case, and where it is to run.
struct Trial {
    /// The case's place in its file.
    case: usize,
    /// The graph that was planned.
    graph: Graph,
    tasks: TaskGraph,
    how: String,
    gpus: usize,
    seats: Vec<Seat>,
    seed: u64,
}

/// Plans of a case on so many devices: by search, by hand where it says one, and by chance.
fn planned(case: &Case, machine: &Machine, seed: u64) -> Vec<(String, Graph, TaskGraph)> {
    let (graph, devices) = (case.graph(), machine.len());
    let lowered = |how: &str, choice: &Choice| {
        let tasks = lower(&graph, choice, machine, &Options::default());
        let mut tasks = tasks.unwrap_or_else(|e| panic!("{}, {how}: {e}", case.name));
        plan_memory(&mut tasks);
        (how.to_owned(), graph.clone(), tasks)
    };
    let mut all = Vec::new();
    // A real compiler has no goes of many: what takes seconds on fakes would take minutes.
    if !on_a_gpu() {
        let searched = plan(&graph, machine, &Options::default()).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        all.push(("by search".to_owned(), searched.graph, searched.tasks));
    }
    if case.by_hand() && case.on.contains(&devices) {
        all.push(lowered("by hand", &case.choice(&graph, devices)));
    }
    all.push(lowered("by chance", &drawn(&graph, devices, seed)));
    all
}

/// What is wrong with how a plan of a case goes.
fn wrong(case: &Case, trial: &Trial) -> Option<String> {
    let given = case.graph();
    match (&case.fails, computed(&trial.graph, &trial.tasks, &case.inputs(&given), &trial.seats)) {
        (None, Ok(found)) => difference(&found, &case.expected(&given), case.within),
        (None, Err(e)) => Some(e.to_string()),
        (Some(why), Err(e)) => (!e.to_string().contains(why.as_str())).then(|| format!("`{why}` is not in: {e}")),
        (Some(why), Ok(found)) => Some(format!("it should fail with `{why}`, but computes {found:?}")),
    }
}

/// Fake GPUs for a trial.
fn stand_ins(trial: &Trial) -> FakeMachine {
    FakeMachine::new(trial.gpus).seed(trial.seed)
}

fn check(file: &str) {
    let cases = parse(file);
    let counts = if on_a_gpu() { vec![1, 2, 4, 8] } else { (1..=8).collect() };
    let mut trials = Vec::new();
    for (n, case) in cases.iter().enumerate().filter(|(_, case)| case.refused.is_none()) {
        for &devices in &counts {
            let machine = cpus(devices);
            for (k, (how, graph, tasks)) in planned(case, &machine, (10 * n + devices) as u64).into_iter().enumerate() {
                let seed = (100 * n + 10 * devices + k) as u64;
                let gpus = if on_a_gpu() { 1 } else { gpus(devices, n + devices + k) };
                let how = format!("{}, {how} on {devices} of {gpus} GPUs", case.name);
                trials.push(Trial { case: n, graph, tasks, how, gpus, seats: seats(&machine, gpus), seed });
            }
        }
    }
    if on_a_gpu() {
        // All of them are tried: a GPU is not always at hand.
        let wrong = trials.iter().filter_map(|t| Some(format!("{}: {}", t.how, wrong(&cases[t.case], t)?)));
        let wrong: Vec<String> = wrong.collect();
        assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
        return;
    }
    // All kernels at once: the compiler is most of what this takes.
    let mut kernels = BTreeMap::new();
    for trial in &trials {
        let fake = install(&stand_ins(trial)).expect("g++ is there");
        let prepared = Prepared::new(&trial.tasks, &trial.seats, Settings::default());
        let prepared = prepared.unwrap_or_else(|e| panic!("{}: {e}", trial.how));
        for node in &prepared.nodes().all {
            if let Work::Kernel { kernel, .. } = &node.work {
                kernels.insert(kernel.name.clone(), kernel.source.clone());
            }
        }
        drop(fake);
    }
    prepare(PRELUDE, &kernels, Instrument::Accesses).unwrap_or_else(|e| panic!("{e}"));
    for trial in &trials {
        let fake = install(&stand_ins(trial)).expect("g++ is there");
        if let Some(what) = wrong(&cases[trial.case], trial) {
            panic!("{}: {what}: {:?}\n{}", trial.how, fake.report(), print(&trial.tasks));
        }
        assert_eq!(fake.report(), None, "{}", trial.how);
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
        // What blocks may have differs.
        stand_ins.capability = [(9, 0), (8, 0), (8, 6)][seed as usize / 3 % 3];
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
