//! Inputs and outputs that lie on GPUs while a run goes on: what is computed stays the same, and nothing goes between the
//! host and a GPU until it ends.

use crate::on_fakes::{given, outputs, seats};
use ein_cuda::devices::{Devices, Prepared, Settings};
use ein_cuda::nodes::{Block, Staged, Staging, Work};
use ein_fake_cuda::{FakeMachine, Side, Speeds, install};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::Graph;
use ein_ir::reference::run;
use ein_plan::lower::lower;
use ein_plan::options::{Objective, Options};
use ein_run::Executor;
use ein_run::backend::Backend;
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::task::{TaskGraph, Verb};
use ein_tests::choices::{by_label, held};
use ein_tests::plans::{cpus, graph, lowered, named, searched};
use ein_tests::same::difference;
use ein_tests::small;
use einsummable::workloads::workload;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A product whose sum is cut, rows of it by ids, and a state that is added: partials are folded, ids may be none, and two
/// tensors come out.
const TEXT: &str = "x: input f32[6,12]\nids: input i64[5]\ns: state f32[5,8]\nw: param f32[12,8]\ny = einsum f32 (i: 6, \
                    j: 8 | k: 12) sum x[i,k] * w[k,j]\nrows = gather(y, ids)\nz = einsum f32 (i: 5, j: 8) map \
                    rows[i,j] + s[i,j]\nreturn y\nreturn z\n";

fn ids(values: [f64; 5]) -> Dense {
    Dense::from_f64(DType::I64, [5], &values)
}

fn bytes(all: &[Staged]) -> u64 {
    all.iter().map(|s| s.at.len() as u64).sum()
}

#[test]
fn results_are_the_same_and_nothing_goes_to_the_host_in_a_run() {
    let graph = graph(TEXT);
    let mut inputs = small::inputs(&graph, 5);
    inputs.insert("ids".into(), ids([4.0, 0.0, 5.0, 4.0, 1.0]));
    let expected = run(&graph, &inputs).expect("the reference runs");
    for (devices, gpus) in [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2)] {
        let mut choice = by_label(&graph, devices, &[("y", "k"), ("rows", "n"), ("z", "i")]);
        for name in ["x", "y"] {
            let tensor = named(&graph, name);
            choice.homes.insert(tensor, held(&graph, tensor, 0, devices));
        }
        let machine = cpus(devices);
        let tasks = lowered(&graph, &choice, &machine);
        let (parameters, seats) = (given(&graph, &tasks, &inputs, true), seats(&machine, gpus));
        let mut found_before = None;
        for staging in [Staging::Host, Staging::Device] {
            let how = format!("{devices} on {gpus} GPUs, {staging:?}");
            let fake = install(&FakeMachine::new(gpus).seed(7)).expect("g++ is there");
            let settings = Settings { staging, ..Settings::default() };
            let made = Devices::new(&tasks, &parameters, &seats, settings);
            let made = made.unwrap_or_else(|e| panic!("{how}: {e}: {:?}", fake.report()));
            let nodes = made.nodes().clone();
            let mut executor = Executor::on(tasks.clone(), |_| Ok(Box::new(made))).expect("it is verified");
            let mut given = given(&graph, &tasks, &inputs, false);
            let mut found = BTreeMap::new();
            for turn in 0..3 {
                fake.count_anew();
                let seconds = executor.run_into(&given, &mut found);
                let seconds = seconds.unwrap_or_else(|e| panic!("{how}: {e}: {:?}", fake.report()));
                assert!(seconds > 0.0, "{how}");
                assert_eq!(difference(&outputs(&graph, found.clone()), &expected, 0.0), None, "{how}, turn {turn}");
                let counted = fake.counters();
                assert_eq!((counted.graphs, counted.allocations), (1, 0), "{how}: {counted:?}");
                // The state stays where it is from the second run on.
                if given.remove("s").is_some() {
                    continue;
                }
                let staged = (nodes.uploads.len() + nodes.downloads.len()) as u64;
                // What is brought is waited for once a GPU, and so is what is fetched.
                let waits = 1 + if staged > 0 { 2 * gpus as u64 } else { 0 };
                assert_eq!(counted.calls, staged, "{how}: {counted:?}");
                assert!((1..=waits).contains(&counted.synchronizations), "{how}: {counted:?}");
                let between = |to_host: bool| {
                    let of =
                        |(from, to): &(Side, Side)| (to_host && *to == Side::Host) || (!to_host && *from == Side::Host);
                    let all = counted.copied.iter().chain(&counted.reached).filter(|(sides, _)| of(sides));
                    all.map(|(_, bytes)| bytes).sum::<u64>()
                };
                let outside = (bytes(&nodes.uploads), bytes(&nodes.downloads));
                match staging {
                    Staging::Host => assert_eq!(staged, 0, "{how}"),
                    Staging::Device => assert_eq!((between(false), between(true)), outside, "{how}: {counted:?}"),
                }
            }
            let touches_host = nodes.all.iter().any(|node| match &node.work {
                Work::Copy { from, to, .. } => *from == Block::Host || *to == Block::Host,
                Work::Kernel { .. } | Work::Matmul { .. } | Work::Zero { .. } => false,
            });
            assert_eq!(touches_host, staging == Staging::Host, "{how}");
            let before = found_before.get_or_insert_with(|| found.clone());
            assert_eq!(*before, found, "{how}");
            // What is reported comes from the GPU, too, and is gone when the next run is right.
            let mut wrong = given.clone();
            wrong.insert("ids".into(), ids([0.0, 1.0, 6.0, 2.0, 3.0]));
            let said = executor.run(&wrong).expect_err("there is no row 6").to_string();
            assert!(said.contains('6'), "{how}: {said}");
            assert!(executor.run(&given).is_ok(), "{how}");
            assert_eq!(fake.report(), None, "{how}");
        }
    }
}

#[test]
fn a_run_that_is_staged_on_gpus_takes_what_its_launch_takes() {
    let graph = graph("x: input f32[7]\ny = einsum f32 (i: 7) map x[i] + 1.0\nreturn y\n");
    let tasks = lowered(&graph, &by_label(&graph, 1, &[]), &cpus(1));
    let inputs = small::inputs(&graph, 2);
    let _fake = install(&FakeMachine::new(1)).expect("g++ is there");
    let launch = Speeds::default().launch;
    for staging in [Staging::Host, Staging::Device] {
        let settings = Settings { staging, ..Settings::default() };
        let mut devices =
            Devices::new(&tasks, &BTreeMap::new(), &seats(&cpus(1), 1), settings).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(Backend::seconds(&devices), None, "nothing was run");
        let outputs = [Mutex::new(Dense::f32([7], vec![0.0; 7]))];
        devices.run(&tasks, &inputs, &outputs).unwrap_or_else(|e| panic!("{e}"));
        match (staging, Backend::seconds(&devices)) {
            (Staging::Host, seconds) => assert_eq!(seconds, None, "all of the run is timed"),
            // By the GPU's clock: one kernel, and nothing is copied.
            (Staging::Device, seconds) => {
                assert!(seconds.is_some_and(|s| (launch..1.5 * launch).contains(&s)), "{seconds:?}");
            }
        }
    }
}

/// Inputs lie where a run reads them, and results are fetched from where it left them, unless that memory is used for
/// something else before or after: as tensors of other programs do, whose times ours are compared with.
#[test]
fn what_is_staged_is_not_copied_within_a_gpu() {
    let copies = |tasks: &TaskGraph, gpus: usize| {
        let settings = Settings { staging: Staging::Device, ..Settings::default() };
        let _fake = install(&FakeMachine::new(gpus)).expect("g++ is there");
        let prepared = Prepared::new(tasks, &seats(&cpus(tasks.devices), gpus), settings);
        let prepared = prepared.unwrap_or_else(|e| panic!("{e}"));
        prepared.nodes().all.iter().filter(|n| matches!(n.work, Work::Copy { .. })).count()
    };
    // What `scripts/gpu-check.sh` times.
    for line in [
        "gemm:8192,8192,8192,bf16",
        "attention:1x4096,32,8,128,causal,bf16",
        "attention:32x128,32,8,128,causal,bf16",
        "block:1x4096,4096,32,32,11008,bf16",
        "block:8x1024,4096,32,32,11008,bf16",
        "block:1x4096,8192,64,8,28672,bf16",
        "block:decode=64x4096,4096,32,32,11008,bf16",
    ] {
        let graph = workload(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let machine = Machine::by_name("8xa100").and_then(|m| m.first(1)).expect("it ships");
        let plan = searched(&graph, &machine, Objective::Time);
        // A step of generation has half a megabyte of it where something else lies, beside the gigabytes that it reads.
        assert_eq!(copies(&plan.tasks, 1), usize::from(line.contains("decode")), "{line}");
    }
    // Copies of a further run, and whether it leaves the same.
    let again = |tasks: &TaskGraph, graph: &Graph| {
        let inputs = small::inputs(graph, 9);
        let fake = install(&FakeMachine::new(1)).expect("g++ is there");
        let settings = Settings { staging: Staging::Device, ..Settings::default() };
        let made = Devices::new(tasks, &BTreeMap::new(), &seats(&cpus(1), 1), settings);
        let mut devices = made.unwrap_or_else(|e| panic!("{e}"));
        let ty = &tasks.outputs[0].1;
        let outputs = [Mutex::new(Dense::zeros(ty))];
        devices.run(tasks, &inputs, &outputs).unwrap_or_else(|e| panic!("{e}"));
        let first = outputs[0].lock().expect("nobody panics").clone();
        fake.count_anew();
        devices.again().expect("it has run").unwrap_or_else(|e| panic!("{e}: {:?}", fake.report()));
        let copies = fake.counters().copies;
        devices.run(tasks, &inputs, &outputs).unwrap_or_else(|e| panic!("{e}"));
        (copies, first == *outputs[0].lock().expect("nobody panics"))
    };
    let product = graph("x: input f32[24,40]\nw: input f32[40,16]\ny = einsum \"ik,kj->ij\" x w\nreturn y\n");
    // Something else lies where x lay when that is over.
    let graph = graph(
        "x: input f32[64]\ny = einsum f32 (i: 64) map x[i] + 1.0\nz = einsum f32 (i: 64) map y[i] * y[i]\nw = \
                       einsum f32 (i: 64) map z[i] + 2.0\nreturn w\n",
    );
    let options = Options { fuse: false, ..Options::default() };
    let mut tasks = lower(&graph, &by_label(&graph, 1, &[]), &cpus(1), &options).unwrap_or_else(|e| panic!("{e}"));
    plan_memory(&mut tasks);
    let feed = tasks.tasks.iter().find(|t| matches!(t.verb, Verb::Feed { .. })).expect("x").slot;
    let there = tasks.tasks.iter().filter(|t| t.slot == feed).count();
    assert!(there > 1, "nothing else lies where x lay");
    assert_eq!(copies(&tasks, 1), 0, "x is there before all of it, and w is the last");
    let kept = by_label(&product, 1, &[]);
    assert_eq!(again(&lowered(&product, &kept, &cpus(1)), &product), (0, true), "both factors are still there");
    let inputs = small::inputs(&graph, 3);
    let fake = install(&FakeMachine::new(1)).expect("g++ is there");
    let settings = Settings { staging: Staging::Device, ..Settings::default() };
    let made = Devices::new(&tasks, &BTreeMap::new(), &seats(&cpus(1), 1), settings);
    let made = made.unwrap_or_else(|e| panic!("{e}"));
    let mut executor = Executor::on(tasks.clone(), |_| Ok(Box::new(made))).expect("it is verified");
    let expected = run(&graph, &inputs).expect("the reference runs");
    assert!(executor.again().is_none(), "nothing was given");
    for turn in 0..3 {
        let found = executor.run(&inputs).unwrap_or_else(|e| panic!("{e}: {:?}", fake.report()));
        assert_eq!(difference(&outputs(&graph, found.outputs), &expected, 0.0), None, "turn {turn}");
        // Once more, x is brought again, since something else lies there now, and nothing is fetched.
        fake.count_anew();
        let seconds = executor.again().expect("it has run").unwrap_or_else(|e| panic!("{e}: {:?}", fake.report()));
        assert!(seconds > 0.0, "{seconds}");
        let counted = fake.counters();
        assert_eq!((counted.graphs, counted.calls, counted.copies), (1, 1, 1), "{counted:?}");
    }
    assert_eq!(fake.report(), None);
}
