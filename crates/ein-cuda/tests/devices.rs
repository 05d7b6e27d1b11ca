//! Devices on fake GPUs: exchanges, as many GPUs as devices or fewer, with and without access to one another.

#[path = "../../ein-run/tests/common/mod.rs"]
mod common;

use common::{Build, integers};
use ein_cuda::devices::{Devices, Seat, Settings};
use ein_cuda::generate;
use ein_cuda::gpus::{Gpus, GpusError, Selection};
use ein_cuda::program::{Step, Target};
use ein_fake_cuda::{FakeMachine, Fault, install};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorType};
use ein_ir::monoid::Monoid;
use ein_ir::op::InputKind;
use ein_ir::region::Region;
use ein_run::Executor;
use ein_task::task::{OpRow, TaskGraph, TaskId, Verb};
use std::collections::BTreeMap;

const F: DType = DType::F32;

/// A product whose sum is cut in three, folded in halves; and columns of a factor, which are received where they are
/// wanted and do not lie side by side there.
fn product() -> TaskGraph {
    let mut graph = Graph::new();
    let [x, w] = [("x", InputKind::Input, [5, 6]), ("w", InputKind::Parameter, [6, 4])]
        .map(|(name, kind, shape)| graph.input(name, kind, TensorType::new(F, shape)).expect("an input"));
    let y = graph.contraction("y", "ik,kj->ij", &[x, w]).expect("a product");
    let mut b = Build::new(3);
    b.0.ops.push(OpRow::of(&graph, y));
    let [x, w] = [("x", InputKind::Input, [5, 6]), ("w", InputKind::Parameter, [6, 4])]
        .map(|(name, kind, shape)| b.external(name, kind, F, &shape));
    let mut feeds = Vec::new();
    let partials = [(0, 2), (2, 3), (3, 6)].map(|k| {
        let device = feeds.len() as u16;
        let factors = [b.feed(device, x, Region::of(&[(0, 5), k])), b.feed(device, w, Region::of(&[k, (0, 4)]))];
        feeds.push(factors[0]);
        b.kernel(device, 0, Region::of(&[(0, 5), (0, 4), k]), false, &factors)
    });
    let mut parts = Vec::new();
    for (device, rows) in [(0, (0, 2)), (1, (2, 5))] {
        let piece = |(n, &partial): (usize, &TaskId)| {
            let cut = b.cut(partial, Region::of(&[rows, (0, 4)]));
            if n == device { cut } else { b.send(cut, device as u16) }
        };
        let pieces: Vec<TaskId> = partials.iter().enumerate().map(piece).collect();
        parts.push(b.fold(Monoid::Sum, true, &pieces, F));
    }
    b.output("y", F, &[5, 4], &parts);
    let columns = b.send(feeds[2], 1);
    let pasted = b.paste(&[feeds[1], columns], Region::of(&[(0, 5), (2, 6)]));
    b.output("z", F, &[5, 6], &[feeds[0], pasted]);
    b.0.leave_in_place();
    b.finish()
}

#[test]
fn exchanges_are_right_on_any_gpus() {
    let graph = product();
    let (x, w) = (integers(F, &[5, 6], 2), integers(F, &[6, 4], 1));
    let at = |of: &Dense, i: usize, j: usize| of.get(i * of.shape[1] + j);
    let element = |n: usize| (0..6).map(|k| at(&x, n / 4, k) * at(&w, k, n % 4)).sum::<f64>();
    let expected: Vec<f64> = (0..20).map(element).collect();
    let machines = [
        (FakeMachine::new(3), [0, 1, 2]),
        (FakeMachine::new(3).apart(0, 1).apart(1, 2), [0, 1, 2]),
        (FakeMachine::new(2), [0, 1, 0]),
        (FakeMachine::new(1), [0, 0, 0]),
    ];
    for (machine, gpus) in machines {
        let fake = install(&machine).expect("g++ is there");
        let seats = gpus.map(Seat::Gpu);
        let parameters = BTreeMap::from([("w".to_owned(), w.clone())]);
        let made = Executor::on(graph.clone(), |graph| {
            Ok(Box::new(Devices::new(graph, &parameters, &seats, Settings::default())?))
        });
        let mut executor = made.unwrap_or_else(|e| panic!("{gpus:?}: {e}: {:?}", fake.report()));
        let inputs: BTreeMap<String, Dense> = BTreeMap::from([("x".to_owned(), x.clone())]);
        for _ in 0..2 {
            let run = executor.run(&inputs).unwrap_or_else(|e| panic!("{gpus:?}: {e}: {:?}", fake.report()));
            assert_eq!(run.outputs["y"].to_f64(), expected, "{gpus:?}");
            assert_eq!(run.outputs["z"], x, "{gpus:?}");
        }
        drop(executor);
        assert_eq!(fake.report(), None, "{gpus:?}");
        assert_eq!((0..machine.gpus).map(|g| fake.used(g)).sum::<u64>(), 0, "{gpus:?}: memory is given back");
    }
}

#[test]
fn a_traced_run_tells_when_every_row_was() {
    let graph = product();
    let (x, w) = (integers(F, &[5, 6], 2), integers(F, &[6, 4], 1));
    for gpus in [[0, 1, 1], [0, 0, 0]] {
        let fake = install(&FakeMachine::new(2).apart(0, 1)).expect("g++ is there");
        let seats = gpus.map(Seat::Gpu);
        let parameters = BTreeMap::from([("w".to_owned(), w.clone())]);
        let run = |traced: bool| {
            let settings = Settings { traced, ..Settings::default() };
            let made =
                Executor::on(graph.clone(), |graph| Ok(Box::new(Devices::new(graph, &parameters, &seats, settings)?)));
            let mut executor = made.unwrap_or_else(|e| panic!("{gpus:?}: {e}: {:?}", fake.report()));
            let inputs: BTreeMap<String, Dense> = BTreeMap::from([("x".to_owned(), x.clone())]);
            executor.run(&inputs).unwrap_or_else(|e| panic!("{gpus:?}: {e}: {:?}", fake.report()))
        };
        let (plain, traced) = (run(false), run(true));
        assert_eq!(plain.outputs, traced.outputs, "{gpus:?}");
        assert!(plain.timeline.events.is_empty(), "nobody asked");
        for (id, task) in graph.rows() {
            let resident = graph.fed(id).is_some_and(|e| e.kind == InputKind::Parameter);
            let moves = matches!(task.verb, Verb::Send { .. } | Verb::Receive { .. });
            let count = traced.timeline.events.iter().filter(|e| e.task == id.0).count();
            // What folds read where it is, is not moved.
            assert!(count == usize::from(!resident) || moves && count == 0, "{gpus:?}: {id}: {count} events");
        }
        assert!(traced.timeline.events.iter().all(|e| e.start.0 <= e.end.0), "{gpus:?}");
    }
}

#[test]
fn without_the_library_products_are_generated() {
    let mut graph = Graph::new();
    let [a, b] =
        ["a", "b"].map(|name| graph.input(name, InputKind::Input, TensorType::new(F, [40, 40])).expect("an input"));
    let y = graph.contraction("y", "ik,kj->ij", &[a, b]).expect("a product");
    let mut build = Build::new(1);
    build.0.ops.push(OpRow::of(&graph, y));
    let feeds = ["a", "b"].map(|name| {
        let external = build.external(name, InputKind::Input, F, &[40, 40]);
        build.feed(0, external, Region::whole(&[40, 40]))
    });
    let product = build.kernel(0, 0, Region::whole(&[40, 40, 40]), true, &feeds);
    let tasks = build.finish();
    for library in [true, false] {
        let target = Target { library, ..Target::A100 };
        let program =
            generate::program(&tasks, product, &generate::Orders::default(), &target).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(program.steps.iter().any(|s| matches!(s, Step::Matmul(_))), library);
        assert!(!program.steps.is_empty());
    }
}

#[test]
fn gpus_that_are_not_there_are_refused() {
    let _fake = install(&FakeMachine::new(2)).expect("g++ is there");
    let all = Gpus::new(Selection::All).expect("two GPUs");
    assert_eq!(all.seats[..2], [Seat::Gpu(0), Seat::Gpu(1)]);
    let asked = 100_000_000_000_000_000;
    assert_eq!(Gpus::new(Selection::First(asked)), Err(GpusError::TooFew { asked, count: 2 }));
    assert_eq!(Gpus::new(Selection::These(&[0, 2])), Err(GpusError::Unknown { ordinal: 2, count: 2 }));
}

#[test]
fn old_gpus_are_refused_by_name() {
    let machine = FakeMachine { capability: (7, 0), ..FakeMachine::new(1) };
    let _fake = install(&machine).expect("g++ is there");
    let parameters = BTreeMap::from([("w".to_owned(), integers(F, &[6, 4], 1))]);
    let made = Devices::new(&product(), &parameters, &[Seat::Gpu(0); 3], Settings::default());
    let refused = [
        Gpus::new(Selection::All).map(drop).expect_err("it is too old").to_string(),
        made.map(drop).expect_err("it is too old").to_string(),
    ];
    for refused in refused {
        for part in ["cuda:0 is a Fake GPU", "compute capability 7.0", "8.0 is needed", "1xcpu", "ein simulate"] {
            assert!(refused.contains(part), "{refused}: {part}");
        }
    }
}

/// Products whose second factors are states: two on each of two devices.
fn remembering() -> TaskGraph {
    let mut graph = Graph::new();
    let ty = TensorType::new(F, [40, 40]);
    let x = graph.input("x", InputKind::Input, ty.clone()).expect("an input");
    let s = graph.input("s", InputKind::State, ty).expect("a state");
    let y = graph.contraction("y", "ik,kj->ij", &[x, s]).expect("a product");
    let mut b = Build::new(2);
    b.0.ops.push(OpRow::of(&graph, y));
    let x = b.external("x", InputKind::Input, F, &[40, 40]);
    let states = ["s", "t"].map(|name| b.external(name, InputKind::State, F, &[40, 40]));
    for (n, name) in ["y", "z"].into_iter().enumerate() {
        let parts = [(0, (0, 30)), (1, (30, 40))].map(|(device, columns)| {
            let x = b.feed(device, x, Region::whole(&[40, 40]));
            let s = b.feed(device, states[n], Region::of(&[(0, 40), columns]));
            b.kernel(device, 0, Region::of(&[(0, 40), columns, (0, 40)]), true, &[x, s])
        });
        b.output(name, F, &[40, 40], &parts);
    }
    b.finish()
}

#[test]
fn states_are_written_on_their_gpus_and_waited_for_once() {
    let graph = remembering();
    let [x, s, t] = [2, 3, 1].map(|most| integers(F, &[40, 40], most));
    let times = |s: &Dense| -> Vec<f64> {
        let at = |of: &Dense, i: usize, j: usize| of.get(i * 40 + j);
        (0..1600).map(|n| (0..40).map(|k| at(&x, n / 40, k) * at(s, k, n % 40)).sum()).collect()
    };
    for gpus in [[0, 1], [0, 0]] {
        let fake = install(&FakeMachine::new(2).apart(0, 1)).expect("g++ is there");
        let made = Executor::on(graph.clone(), |graph| {
            Ok(Box::new(Devices::new(graph, &BTreeMap::new(), &gpus.map(Seat::Gpu), Settings::default())?))
        });
        let mut executor = made.unwrap_or_else(|e| panic!("{gpus:?}: {e}: {:?}", fake.report()));
        fake.count_anew();
        let given = [("x", &x), ("s", &s), ("t", &t)].map(|(name, value)| (name.to_owned(), value.clone()));
        let inputs = BTreeMap::from(given);
        // Another thread, which has no context yet, runs it, and one more gives it back.
        let run = std::thread::scope(|scope| scope.spawn(|| executor.run(&inputs)).join().expect("it ends"));
        let run = run.unwrap_or_else(|e| panic!("{gpus:?}: {e}: {:?}", fake.report()));
        assert_eq!([run.outputs["y"].to_f64(), run.outputs["z"].to_f64()], [times(&s), times(&t)], "{gpus:?}");
        let used = gpus.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
        assert_eq!(fake.counters().synchronizations, used + 1, "{gpus:?}: once for each GPU, and for the run");
        assert!(fake.counters().products > 0, "the library multiplies");
        std::thread::scope(|scope| scope.spawn(move || drop(executor)).join().expect("it ends"));
        assert_eq!(fake.report(), None, "{gpus:?}");
    }
}

#[test]
fn memory_that_is_not_there_is_named() {
    let graph = remembering();
    let arena = graph.arenas[0].0;
    let device = format!("device d0 cannot allocate its arena of {arena} bytes and ");
    // Two devices' memory is made before the host's.
    for (before, parts) in [
        (0, [device.as_str(), "bytes of scratch memory"]),
        (2, ["the host has no room for", "bytes of pinned memory for"]),
    ] {
        let fake = install(&FakeMachine::new(1)).expect("g++ is there");
        fake.fail(Fault::Alloc(before));
        let made = Devices::new(&graph, &BTreeMap::new(), &[Seat::Gpu(0); 2], Settings::default());
        let refused = made.map(drop).expect_err("there is no room").to_string();
        for part in parts {
            assert!(refused.contains(part), "{refused}: {part}");
        }
    }
}

/// What the library thinks best is asked once for each shape, layout and alignment, however many products are of it.
#[test]
fn the_best_way_to_multiply_is_asked_for_once() {
    let ty = |n: usize| TensorType::new(F, [64, n]);
    let mut graph = Graph::new();
    let x = graph.input("x", InputKind::Input, ty(64)).expect("an input");
    let mut b = Build::new(2);
    let external = b.external("x", InputKind::Input, F, &[64, 64]);
    for (n, columns) in [64, 128].into_iter().enumerate() {
        let w = graph.input(&format!("w{n}"), InputKind::Input, ty(columns)).expect("an input");
        let y = graph.contraction(&format!("y{n}"), "ik,kj->ij", &[x, w]).expect("a product");
        b.0.ops.push(OpRow::of(&graph, y));
        let w = b.external(&format!("w{n}"), InputKind::Input, F, &[64, columns]);
        for device in [0, 0, 0, 1, 1] {
            let factors =
                [b.feed(device, external, Region::whole(&[64, 64])), b.feed(device, w, Region::whole(&[64, columns]))];
            let product = b.kernel(device, n, Region::whole(&[64, columns, 64]), true, &factors);
            b.output(&format!("z{}", b.0.outputs.len()), F, &[64, columns], &[product]);
        }
    }
    let tasks = b.finish();
    let inputs = [("x", 64), ("w0", 64), ("w1", 128)].map(|(name, n)| (name.to_owned(), integers(F, &[64, n], 2)));
    for (gpus, asked) in [([0, 0], 2), ([0, 1], 4)] {
        let fake = install(&FakeMachine::new(2)).expect("g++ is there");
        let made = Executor::on(tasks.clone(), |graph| {
            Ok(Box::new(Devices::new(graph, &BTreeMap::new(), &gpus.map(Seat::Gpu), Settings::default())?))
        });
        let mut executor = made.unwrap_or_else(|e| panic!("{gpus:?}: {e}: {:?}", fake.report()));
        executor.run(&BTreeMap::from(inputs.clone())).unwrap_or_else(|e| panic!("{e}: {:?}", fake.report()));
        assert_eq!((fake.counters().products, fake.counters().heuristics), (10, asked), "{gpus:?}");
    }
}
