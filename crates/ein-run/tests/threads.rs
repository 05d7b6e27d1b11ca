//! Virtual devices on threads that they share: the same bits on any number of them, state that stays, outputs in place.

mod common;

use common::{Build, integers};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::Einsum;
use ein_ir::graph::TensorType;
use ein_ir::kernel::{Gather, Kernel};
use ein_ir::monoid::Monoid;
use ein_ir::op::{InputKind, Op};
use ein_ir::region::Region;
use ein_run::{Cause, Executor, Order, RunError};
use ein_task::task::{TaskGraph, TaskId};
use std::collections::BTreeMap;

const F: DType = DType::F32;

fn named(name: &str, dense: &Dense) -> BTreeMap<String, Dense> {
    BTreeMap::from([(name.to_owned(), dense.clone())])
}

/// `y = x w` whose inner label is cut over the devices, so many times on each: partials go to the first, which folds them.
fn folded(devices: usize, times: usize) -> TaskGraph {
    let (m, n, each) = (5, 7, 3);
    let k = devices * each * times;
    let op = Op::Einsum(Einsum::contraction("ik,kj->ij", &[&[m, k], &[k, n]], F).expect("well formed"));
    let mut b = Build::new(devices);
    let x = b.external("x", InputKind::Input, F, &[m, k]);
    let w = b.external("w", InputKind::Parameter, F, &[k, n]);
    let ty = |shape: &[usize]| TensorType::new(F, shape);
    let mul = b.op("mul", op, &[ty(&[m, k]), ty(&[k, n])], ty(&[m, n]));
    let mut partials = Vec::new();
    for part in 0..devices * times {
        let (device, inner) = ((part % devices) as u16, (part * each, (part + 1) * each));
        let left = b.feed(device, x, Region::of(&[(0, m), inner]));
        let right = b.feed(device, w, Region::of(&[inner, (0, n)]));
        let partial = b.kernel(device, mul, Region::of(&[(0, m), (0, n), inner]), false, &[left, right]);
        partials.push(if device == 0 { partial } else { b.send(partial, 0) });
    }
    let done = b.fold(Monoid::Sum, true, &partials, F);
    b.output("y", F, &[m, n], &[done]);
    b.finish()
}

#[test]
fn threads_change_no_bit() {
    for (devices, times) in [(1, 13), (2, 1), (3, 4), (8, 3)] {
        let k = devices * 3 * times;
        let tenths = |dense: Dense| {
            Dense::from_f64(F, dense.shape.clone(), &dense.to_f64().iter().map(|v| v / 10.0).collect::<Vec<_>>())
        };
        let (x, w) = (tenths(integers(F, &[5, k], 1)), tenths(integers(F, &[k, 7], 2)));
        let mut expected = None;
        for threads in [0, 1, 2, 3, 8] {
            let mut executor =
                Executor::with_threads(folded(devices, times), &named("w", &w), threads).expect("well formed");
            for seed in 0..12 {
                executor.set_order(if seed % 3 == 0 { Order::Listed } else { Order::Random(seed) });
                let found = executor.run(&named("x", &x)).expect("it runs").outputs;
                let expected = expected.get_or_insert_with(|| found.clone());
                assert_eq!(&found, expected, "{devices} devices, {threads} threads, seed {seed}");
            }
        }
    }
}

/// Many short runs: threads fall asleep between them and in them, and nobody is forgotten.
#[test]
fn runs_follow_each_other() {
    let (x, w) = (integers(F, &[5, 12], 1), integers(F, &[12, 7], 2));
    let mut executor = Executor::with_threads(folded(4, 1), &named("w", &w), 3).expect("well formed");
    let (inputs, mut outputs) = (named("x", &x), BTreeMap::new());
    let first = executor.run(&inputs).expect("it runs").outputs;
    for n in 0..600 {
        if n % 100 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        executor.run_into(&inputs, &mut outputs).expect("it runs");
        assert_eq!(outputs, first);
    }
}

/// Devices with one kernel each that waits for nothing but its own feed: no step makes another ready that it does not go
/// on with itself, and threads that sleep must still hear of the other devices' kernels.
#[test]
fn threads_share_devices_that_have_nothing_to_do_with_each_other() {
    // One number each, which no threads share.
    let (devices, each, k, n) = (2, 1, 1 << 19, 1);
    let m = devices * each;
    let op = Op::Einsum(Einsum::contraction("ik,kj->ij", &[&[m, k], &[k, n]], F).expect("well formed"));
    let mut b = Build::new(devices);
    let x = b.external("x", InputKind::Input, F, &[m, k]);
    let w = b.external("w", InputKind::Parameter, F, &[k, n]);
    let ty = |shape: &[usize]| TensorType::new(F, shape);
    let mul = b.op("mul", op, &[ty(&[m, k]), ty(&[k, n])], ty(&[m, n]));
    let kernels: Vec<TaskId> = (0..devices)
        .map(|d| {
            let rows = (d * each, (d + 1) * each);
            let left = b.feed(d as u16, x, Region::of(&[rows, (0, k)]));
            let right = b.feed(d as u16, w, Region::of(&[(0, k), (0, n)]));
            b.kernel(d as u16, mul, Region::of(&[rows, (0, n), (0, k)]), true, &[left, right])
        })
        .collect();
    b.output("y", F, &[m, n], &kernels);
    let w = integers(F, &[k, n], 2);
    let mut executor = Executor::with_threads(b.finish(), &named("w", &w), 2).expect("well formed");
    let inputs = named("x", &integers(F, &[m, k], 1));
    // How soon a thread wakes up is the host's affair: one run of many is enough.
    let overlap = |_: usize| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let timeline = executor.run(&inputs).expect("it runs").timeline;
        let times = |task: TaskId| {
            let event = timeline.events.iter().find(|e| e.task as usize == task.index()).expect("it ran");
            (event.start.0, event.end.0)
        };
        let (first, second) = (times(kernels[0]), times(kernels[1]));
        first.0 < second.1 && second.0 < first.1
    };
    assert!((0..100).any(overlap), "one thread does the kernels of both devices, one after the other");
}

#[test]
fn outputs_are_written_where_they_are() {
    let (x, w) = (integers(F, &[5, 6], 1), integers(F, &[6, 7], 2));
    let mut executor = Executor::with_threads(folded(2, 1), &named("w", &w), 2).expect("well formed");
    let expected = executor.run(&named("x", &x)).expect("it runs").outputs["y"].clone();
    // One of another type or shape is replaced; others that are there are none of ours.
    let mut outputs = BTreeMap::from([("y".to_owned(), Dense::i64([3], vec![1, 2, 3])), ("z".to_owned(), x.clone())]);
    executor.run_into(&named("x", &x), &mut outputs).expect("it runs");
    assert_eq!((&outputs["y"], &outputs["z"]), (&expected, &x));
    let address = |outputs: &BTreeMap<String, Dense>| match &outputs["y"].data {
        ein_ir::dense::Data::F32(values) => values.as_ptr(),
        other => panic!("{other:?}"),
    };
    let before = address(&outputs);
    for value in [0.0, 2.0] {
        let x = Dense::f32([5, 6], vec![value; 30]);
        executor.run_into(&named("x", &x), &mut outputs).expect("it runs");
        assert_eq!(address(&outputs), before, "it is the caller's memory");
    }
    executor.run_into(&named("x", &x), &mut outputs).expect("it runs");
    assert_eq!(outputs["y"], expected);
    // What is refused touches nothing.
    assert!(executor.run_into(&BTreeMap::new(), &mut outputs).is_err());
    assert_eq!(outputs["y"], expected);
}

#[test]
fn state_stays_until_it_is_given_again() {
    for unbuffered in [false, true] {
        let mut b = Build::new(2);
        let state = b.external("s", InputKind::State, F, &[2, 3]);
        let x = b.external("x", InputKind::Input, F, &[2, 3]);
        let row = |d: usize| Region::of(&[(d, d + 1), (0, 3)]);
        let held: Vec<TaskId> = (0..2).map(|d| b.feed(d as u16, state, row(d))).collect();
        let fed: Vec<TaskId> = (0..2).map(|d| b.feed(d as u16, x, row(d))).collect();
        let swapped: Vec<TaskId> = (0..2).map(|d| b.send(held[1 - d], d as u16)).collect();
        b.output("s", F, &[2, 3], &swapped);
        b.output("x", F, &[2, 3], &fed);
        let graph = b.finish();
        let none = BTreeMap::new();
        let made = if unbuffered { Executor::unbuffered(graph, &none, None) } else { Executor::new(graph, &none) };
        let mut executor = made.expect("well formed");
        let (one, two, x) = (integers(F, &[2, 3], 1), integers(F, &[2, 3], 2), integers(F, &[2, 3], 3));
        let missing = executor.run(&named("x", &x)).expect_err("state is given once");
        assert!(matches!(missing, RunError::MissingInput { ref name, .. } if name == "s"), "{missing}");
        for (given, expected) in [(Some(&one), &one), (None, &one), (None, &one), (Some(&two), &two), (None, &two)] {
            let mut inputs = named("x", &x);
            inputs.extend(given.map(|s| ("s".to_owned(), s.clone())));
            let outputs = executor.run(&inputs).expect("it runs").outputs;
            assert_eq!((&outputs["s"], &outputs["x"]), (expected, &x), "unbuffered: {unbuffered}");
        }
        assert!(executor.run(&named("s", &one)).is_err(), "inputs are given every time");
    }
}

/// Many rows that fail, each on its thread: one of them is told, and the next run is as good as the first.
#[test]
fn one_of_many_failures_is_told() {
    let (rows, columns) = (4, 2);
    let mut b = Build::new(3);
    let ids = b.external("ids", InputKind::Input, DType::I64, &[3]);
    let table = b.external("table", InputKind::Parameter, F, &[rows, columns]);
    let op = Op::Kernel(Kernel::Gather(Gather::rows(rows, columns, &[3], F)));
    let types = [TensorType::new(F, [rows, columns]), TensorType::new(DType::I64, [3])];
    let gather = b.op("look up", op, &types, TensorType::new(F, [3, columns]));
    let mut parts = Vec::new();
    for d in 0..3 {
        let table = b.feed(d as u16, table, Region::whole(&[rows, columns]));
        let id = b.feed(d as u16, ids, Region::of(&[(d, d + 1)]));
        let block = Region::of(&[(d, d + 1), (0, columns), (0, rows)]);
        parts.push(b.kernel(d as u16, gather, block, true, &[table, id]));
    }
    b.output("y", F, &[3, columns], &parts);
    let table = integers(F, &[rows, columns], 1);
    let mut executor = Executor::with_threads(b.finish(), &named("table", &table), 3).expect("well formed");
    for bad in [vec![9, 9, 9], vec![0, 9, 9], vec![0, 1, -9]] {
        let told = executor.run(&named("ids", &Dense::i64([3], bad))).expect_err("ids are outside");
        let RunError::Task { cause: Cause::Id { operation, .. }, .. } = &told else { panic!("{told}") };
        assert_eq!(operation, "look up");
        let run = executor.run(&named("ids", &Dense::i64([3], vec![2, 0, 1]))).expect("ids are inside");
        let values = table.to_f64();
        let expected: Vec<f64> =
            [2, 0, 1].into_iter().flat_map(|r| values[r * columns..][..columns].to_vec()).collect();
        assert_eq!(run.outputs["y"].to_f64(), expected);
    }
}
