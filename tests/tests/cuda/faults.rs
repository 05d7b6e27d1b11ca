//! What fails is said: which device, which tensor, why.

use crate::on_fakes::{computed, executor, given, seats};
use ein_cuda::devices::Seat;
use ein_fake_cuda::{FakeMachine, Fault, install};
use ein_ir::graph::Graph;
use ein_plan::lower::lower;
use ein_plan::options::Options;
use ein_run::{Cause, RunError};
use ein_task::machine::DeviceId;
use ein_task::memory::plan_memory;
use ein_task::task::TaskGraph;
use ein_tests::choices::by_label;
use ein_tests::computed::Values;
use ein_tests::plans::{cpus, graph};
use ein_tests::small;

/// A product on three devices.
fn product() -> (Graph, TaskGraph, Values) {
    product_of(4)
}

fn product_of(k: usize) -> (Graph, TaskGraph, Values) {
    let graph = graph(&format!(
        "x: input f32[6,{k}]\nw: param f32[{k},5]\ny = einsum f32 (i: 6, j: 5 | k: {k}) sum x[i,k] * w[k,j]\nreturn y\n",
    ));
    let tasks = lower(&graph, &by_label(&graph, 3, &[("y", "i")]), &cpus(3), &Options::default());
    let mut tasks = tasks.unwrap_or_else(|e| panic!("{e}"));
    plan_memory(&mut tasks);
    let inputs = small::inputs(&graph, 6);
    (graph, tasks, inputs)
}

/// Why nothing is made ready on such GPUs.
fn refusal(machine: &FakeMachine, fault: Option<Fault>) -> RunError {
    // Kernels that nothing else has, so that none was compiled and kept before.
    let (graph, tasks, inputs) = if fault == Some(Fault::Compile(0)) { product_of(29) } else { product() };
    let fake = install(machine).expect("g++ is there");
    if let Some(fault) = fault {
        fake.fail(fault);
    }
    match executor(&tasks, &given(&graph, &tasks, &inputs, true), &seats(&cpus(3), 3)) {
        Ok(_) => panic!("{machine:?} {fault:?}: it is made"),
        Err(e) => e,
    }
}

#[test]
fn without_a_device_it_is_said_what_is_missing() {
    let says = |machine: &FakeMachine, fault: Option<Fault>, what: &[&str]| {
        let said = refusal(machine, fault).to_string();
        for what in what {
            assert!(said.contains(what), "`{what}` is not in: {said}");
        }
    };
    says(&FakeMachine { driver: 11080, ..FakeMachine::new(3) }, None, &["CUDA 11.8", "12.0", "newer driver"]);
    says(&FakeMachine::new(2), None, &["no GPU 2", "knows 2"]);
    says(&FakeMachine::new(3), Some(Fault::Compile(0)), &["NVRTC"]);
}

#[test]
fn want_of_memory_names_the_device_and_the_bytes() {
    // Device 1's arena is the second allocation.
    let error = refusal(&FakeMachine::new(3), Some(Fault::Alloc(1)));
    let RunError::Memory { device, bytes, scratch: _ } = error else { panic!("{error}") };
    let (_, tasks, _) = product();
    assert_eq!(device, DeviceId(1));
    assert_eq!(bytes, tasks.arenas[1].0);
}

/// Each GPU has a stream to run on, made in the order of devices, and two before those while parameters are loaded.
#[test]
fn a_stream_that_is_not_made_names_its_device() {
    for (after, device) in [(0, 0), (1, 1), (2, 2), (5, 1)] {
        let error = refusal(&FakeMachine::new(3), Some(Fault::Stream(after)));
        let RunError::Device { device: found, reason } = &error else { panic!("{after}: {error}") };
        assert_eq!(*found, DeviceId(device), "{after}: {error}");
        assert!(reason.contains("cuStreamCreate"), "{error}");
    }
}

#[test]
fn a_lost_device_is_named_and_nothing_is_run_any_more() {
    let (graph, tasks, inputs) = product();
    for fault in [Fault::Lost { gpu: 2, after: 0 }, Fault::Launch(1)] {
        let fake = install(&FakeMachine::new(3)).expect("g++ is there");
        let made = executor(&tasks, &given(&graph, &tasks, &inputs, true), &seats(&cpus(3), 3));
        let mut executor = made.unwrap_or_else(|e| panic!("{e}"));
        let inputs = given(&graph, &tasks, &inputs, false);
        executor.run(&inputs).unwrap_or_else(|e| panic!("{e}: {:?}", fake.report()));
        fake.fail(fault);
        let error = executor.run(&inputs).expect_err("it fails");
        let RunError::Device { device, reason } = &error else { panic!("{error}") };
        assert!(reason.contains(&format!("cuda:{} no longer answer", device.0)), "{fault:?}: {error}");
        assert!(matches!(fault, Fault::Launch(_)) || *device == DeviceId(2), "{error}");
        fake.count_anew();
        let again = executor.run(&inputs).expect_err("it stays failed");
        assert!(matches!(again, RunError::Device { .. }), "{again}");
        assert_eq!(fake.counters().graphs, 0, "{fault:?}");
        drop(executor);
        // Others are made as if nothing had been.
        fake.heal();
        let found = computed(
            &graph,
            &tasks,
            &{ inputs.clone().into_iter().chain(given(&graph, &tasks, &product().2, true)).collect() },
            &seats(&cpus(3), 3),
        );
        assert!(found.is_ok(), "{fault:?}: {found:?}");
    }
}

#[test]
fn an_id_that_names_no_row_is_an_error_of_its_row() {
    let graph = graph("t: param f32[7,3]\nids: input i64[4]\ny = gather(t, ids)\nreturn y\n");
    let tasks = lower(&graph, &by_label(&graph, 2, &[]), &cpus(2), &Options::default());
    let mut tasks = tasks.unwrap_or_else(|e| panic!("{e}"));
    plan_memory(&mut tasks);
    let mut inputs = small::inputs(&graph, 1);
    let fake = install(&FakeMachine::new(1)).expect("g++ is there");
    let made = executor(&tasks, &given(&graph, &tasks, &inputs, true), &[Seat::Gpu(0), Seat::Gpu(0)]);
    let mut executor = made.unwrap_or_else(|e| panic!("{e}"));
    for (id, good) in [(7, false), (6, true), (-1, false), (0, true)] {
        inputs.insert("ids".into(), ein_ir::dense::Dense::i64([4], vec![1, 2, id, 3]));
        let run = executor.run(&given(&graph, &tasks, &inputs, false));
        match run {
            Ok(_) => assert!(good, "{id}"),
            Err(RunError::Task { cause: Cause::Id { id: found, rows, operation }, tensor, .. }) => {
                assert_eq!((found, rows, operation.as_str(), tensor.as_str(), good), (id, 7, "y", "y", false));
            }
            Err(e) => panic!("{id}: {e}: {:?}", fake.report()),
        }
    }
}
