//! Programs on several devices: the right values, the same bits in any order, and errors that end.

mod common;

use common::{Build, integers};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::graph::TensorType;
use ein_ir::kernel::{Gather, Kernel};
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::{InputKind, Op};
use ein_ir::reference::{self, Operand};
use ein_ir::region::Region;
use ein_ir::view::View;
use ein_run::cpu::CpuDevice;
use ein_run::device::{Device, Memory};
use ein_run::transport::{Local, Transport};
use ein_run::{Cause, Executor, Order, ParameterSource, RunError};
use ein_task::machine::DeviceId;
use ein_task::memory::plan_memory;
use ein_task::task::{Slot, TaskGraph, TaskId, Verb};
use ein_task::units::Bytes;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const F: DType = DType::F32;

fn ty(shape: &[usize]) -> TensorType {
    TensorType::new(F, shape)
}

fn named(tensors: &[(&str, &Dense)]) -> BTreeMap<String, Dense> {
    tensors.iter().map(|(name, dense)| ((*name).to_owned(), (*dense).clone())).collect()
}

/// `y = 2 x` over a matrix.
fn double(rows: usize, columns: usize) -> Op {
    let mut join = Expr::new();
    let x = join.push_operand(0, F);
    let two = join.float(2.0, F);
    join.binary(Binary::Mul, x, two).expect("one type");
    Op::Einsum(Einsum {
        labels: vec![Label::new("i", rows), Label::new("j", columns)],
        rank: 2,
        accesses: vec![Access::labels(&[0, 1])],
        join,
        monoid: Monoid::Sum,
        dtype: F,
    })
}

fn whole(op: &Op, operands: &[&Dense]) -> Dense {
    let spec = op.spec(&vec![F; operands.len()]).expect("it computes");
    let given: Vec<Option<Operand<'_>>> =
        operands.iter().map(|&data| Some(Operand { data, region: Region::whole(&data.shape) })).collect();
    let form = Form::finished(spec.dtype, spec.result_region(&spec.space()).rank());
    reference::block(op, &spec.space(), &given, &form, true).expect("well formed").remove(0)
}

/// `out = transpose(2 (x w))` on two devices: the inner label is cut, partials are folded in halves, and
/// each device finishes its rows. `w` is a parameter.
fn two_devices() -> (TaskGraph, Dense, Dense, Dense) {
    let (m, n, k) = (8, 6, 10);
    let product = Op::Einsum(Einsum::contraction("ik,kj->ij", &[&[m, k], &[k, n]], F).expect("well formed"));
    let mut b = Build::new(2);
    let x = b.external("x", InputKind::Input, F, &[m, k]);
    let w = b.external("w", InputKind::Parameter, F, &[k, n]);
    let mul = b.op("mul", product.clone(), &[ty(&[m, k]), ty(&[k, n])], ty(&[m, n]));
    let dbl = b.op("double", double(m, n), &[ty(&[m, n])], ty(&[m, n]));
    let turn = b.op("turn", Op::View(View::Permute { axes: vec![1, 0] }), &[ty(&[m, n])], ty(&[n, m]));
    b.label("mul");
    let mut partial = Vec::new();
    for (device, (lo, hi)) in [(0, (0, 4)), (1, (4, 10))] {
        let left = b.feed(device, x, Region::of(&[(0, m), (lo, hi)]));
        let right = b.feed(device, w, Region::of(&[(lo, hi), (0, n)]));
        partial.push(b.kernel(device, mul, Region::of(&[(0, m), (0, n), (lo, hi)]), false, &[left, right]));
    }
    let halves = [Region::of(&[(0, 3), (0, n)]), Region::of(&[(3, m), (0, n)])];
    let mut done = Vec::new();
    for (device, half) in halves.iter().enumerate() {
        let own = b.cut(partial[device], half.clone());
        let other = b.cut(partial[1 - device], half.clone());
        let other = b.send(other, device as u16);
        let order = if device == 0 { [own, other] } else { [other, own] };
        let sum = b.fold(Monoid::Sum, true, &order, F);
        let Region(mut labels) = half.clone();
        labels.truncate(2);
        done.push(b.kernel(device as u16, dbl, Region(labels), true, &[sum]));
    }
    // Device 0 puts the whole together, and turns it; device 1 hands out its own half of the unturned.
    let moved = b.send(done[1], 0);
    let all = b.paste(&[done[0], moved], Region::of(&[(0, m), (0, n)]));
    let turned = b.view(turn, &[(0, all)], Region::of(&[(0, n), (0, m)]));
    b.output("turned", F, &[n, m], &[turned]);
    b.output("plain", F, &[m, n], &[done[0], done[1]]);
    let (x, w) = (integers(F, &[m, k], 1), integers(F, &[k, n], 2));
    let expected = whole(&double(m, n), &[&whole(&product, &[&x, &w])]);
    (b.finish(), x, w, expected)
}

#[test]
fn a_program_on_two_devices() {
    let (graph, x, w, expected) = two_devices();
    let mut executor = Executor::new(graph.clone(), &named(&[("w", &w)])).expect("it is well formed");
    let first = executor.run(&named(&[("x", &x)])).expect("it runs");
    assert_eq!(first.outputs["plain"], expected);
    let turned = reference::view(
        &View::Permute { axes: vec![1, 0] },
        &[&[8, 6]],
        &Region::whole(&[6, 8]),
        &[(0, Region::whole(&[8, 6]), &expected)],
    );
    assert_eq!(first.outputs["turned"], turned);
    // Every row but the parameters' feeds happened once, within the run, in the order it began.
    let resident = 2;
    assert_eq!(first.timeline.events.len(), graph.tasks.len() - resident);
    assert!(!first.timeline.simulated);
    assert!(first.timeline.makespan().0 <= first.seconds);
    assert!(first.timeline.events.windows(2).all(|w| w[0].start.0 <= w[1].start.0));
    assert!(first.timeline.events.iter().any(|e| e.name == "kernel mul" && e.device == DeviceId(1)));
}

#[test]
fn any_order_and_any_run_gives_the_same_bits() {
    let (graph, x, w, _) = two_devices();
    let x = Dense::from_f64(F, x.shape.clone(), &x.to_f64().iter().map(|v| v / 7.0).collect::<Vec<_>>());
    let mut executor = Executor::new(graph, &named(&[("w", &w)])).expect("it is well formed");
    let first = executor.run(&named(&[("x", &x)])).expect("it runs").outputs;
    for seed in 0..40 {
        executor.set_order(if seed % 4 == 0 { Order::Listed } else { Order::Random(seed) });
        let again = executor.run(&named(&[("x", &x)])).expect("it runs").outputs;
        assert_eq!(again, first, "seed {seed}");
    }
}

/// Every device doubles what it has and passes it on, `rounds` times.
fn ring(devices: u16, rounds: usize) -> Build {
    let mut b = Build::new(devices as usize);
    let rows = devices as usize;
    let x = b.external("x", InputKind::Input, F, &[rows, 5]);
    let op = b.op("double", double(rows, 5), &[ty(&[rows, 5])], ty(&[rows, 5]));
    b.label("ring");
    let row = |r: usize| Region::of(&[(r, r + 1), (0, 5)]);
    let mut held: Vec<(usize, TaskId)> = (0..rows).map(|d| (d, b.feed(d as u16, x, row(d)))).collect();
    for _ in 0..rounds {
        let doubled: Vec<(usize, TaskId)> =
            held.iter().enumerate().map(|(d, &(r, t))| (r, b.kernel(d as u16, op, row(r), true, &[t]))).collect();
        held = (0..rows)
            .map(|d| {
                let (r, task) = doubled[(d + rows - 1) % rows];
                (r, b.send(task, d as u16))
            })
            .collect();
    }
    let last: Vec<TaskId> = held.iter().map(|h| h.1).collect();
    b.output("y", F, &[rows, 5], &last);
    b
}

#[test]
fn rings_of_devices() {
    for (devices, rounds) in [(2, 1), (3, 9), (7, 20)] {
        let mut executor = Executor::new(ring(devices, rounds).finish(), &BTreeMap::new()).expect("well formed");
        let x = integers(F, &[devices as usize, 5], 3);
        for seed in 0..5 {
            executor.set_order(Order::Random(seed));
            let run = executor.run(&named(&[("x", &x)])).expect("it runs");
            let times = f64::from(1u32 << rounds);
            let expected: Vec<f64> = x.to_f64().iter().map(|v| v * times).collect();
            assert_eq!(run.outputs["y"].to_f64(), expected, "{devices} devices, {rounds} rounds, seed {seed}");
        }
    }
}

#[test]
fn wrong_inputs_are_named_before_anything_runs() {
    let (graph, x, w, _) = two_devices();
    let mut executor = Executor::new(graph.clone(), &named(&[("w", &w)])).expect("well formed");
    let mut refuse = |inputs: &[(&str, &Dense)]| executor.run(&named(inputs)).expect_err("refused").to_string();
    let small = Dense::f32([2, 2], vec![0.0; 4]);
    for (inputs, expected) in [
        (vec![], "input `x` (f32[8, 10]) is not given; the inputs are `x` (f32[8, 10])"),
        (vec![("x", &small)], "input `x` is f32[2, 2], but the computation was compiled for f32[8, 10]"),
        (vec![("x", &x), ("z", &x)], "there is no input `z`; the inputs are `x` (f32[8, 10])"),
        (vec![("x", &x), ("w", &w)], "there is no input `w`; the inputs are `x` (f32[8, 10])"),
    ] {
        assert_eq!(refuse(&inputs), expected);
    }
    let no = |source: &dyn ParameterSource| match Executor::new(graph.clone(), source) {
        Ok(_) => panic!("refused"),
        Err(e) => e.to_string(),
    };
    assert_eq!(no(&BTreeMap::new()), "parameter `w` [0:4,0:6] for d0: it is not given");
    let other = named(&[("w", &small)]);
    assert!(no(&other).contains("it is f32[2, 2], but the computation was compiled for f32[10, 6]"), "{}", no(&other));
}

/// Devices 1 and 2 wait for device 0, which looks up ids.
fn lookup() -> TaskGraph {
    let g = Op::Kernel(Kernel::Gather(Gather::rows(4, 2, &[3], F)));
    let mut b = Build::new(3);
    let table = b.external("table", InputKind::Parameter, F, &[4, 2]);
    let ids = b.external("ids", InputKind::Input, DType::I64, &[3]);
    let types = [ty(&[4, 2]), TensorType::new(DType::I64, [3])];
    let op = b.op("embed", g, &types, ty(&[3, 2]));
    b.label("embedding");
    let t = b.feed(0, table, Region::whole(&[4, 2]));
    let i = b.feed(0, ids, Region::whole(&[3]));
    let rows = b.kernel(0, op, Region::of(&[(0, 3), (0, 2), (0, 4)]), true, &[t, i]);
    let there = b.send(rows, 1);
    let further = b.send(there, 2);
    b.output("rows", F, &[3, 2], &[further]);
    b.finish()
}

#[test]
fn a_bad_id_ends_the_run_everywhere() {
    let table = Dense::f32([4, 2], (0..8).map(|v| v as f32).collect());
    let mut executor = Executor::new(lookup(), &named(&[("table", &table)])).expect("well formed");
    let start = Instant::now();
    for bad in [4, -1] {
        let ids = Dense::i64([3], vec![0, bad, 1]);
        let error = executor.run(&named(&[("ids", &ids)])).expect_err("the id is bad");
        let cause = Cause::Id { operation: "embed".into(), id: bad, rows: 4 };
        let expected = RunError::Task { task: 2, device: DeviceId(0), tensor: "embedding".into(), cause };
        assert_eq!(error, expected);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "the waiting devices stop");
    // The next run is as good as the first.
    let ids = Dense::i64([3], vec![3, 0, 1]);
    let run = executor.run(&named(&[("ids", &ids)])).expect("all ids are good");
    assert_eq!(run.outputs["rows"].to_f64(), [6.0, 7.0, 0.0, 1.0, 2.0, 3.0]);
}

/// A device that panics, or runs out of something, the first time it computes.
struct Faulty(CpuDevice, Option<bool>);

impl Memory for Faulty {
    fn allocate(&mut self, bytes: Bytes) -> Result<(), Cause> {
        self.0.allocate(bytes)
    }
    fn put(&mut self, s: Slot, n: Bytes, fill: &mut dyn FnMut(&mut [u8]) -> Result<(), Cause>) -> Result<(), Cause> {
        self.0.put(s, n, fill)
    }
    fn get(&mut self, s: Slot, n: Bytes, take: &mut dyn FnMut(&[u8]) -> Result<(), Cause>) -> Result<(), Cause> {
        self.0.get(s, n, take)
    }
}

impl Device for Faulty {
    fn execute(&mut self, graph: &TaskGraph, task: TaskId) -> Result<(), Cause> {
        match self.1.take() {
            Some(true) => panic!("a wire came loose"),
            Some(false) => Err(Cause::Device { reason: "out of breath".into() }),
            None => self.0.execute(graph, task),
        }
    }
}

#[test]
fn a_device_that_fails_or_panics_ends_the_run_everywhere() {
    for (panics, cause) in [
        (true, Cause::Panic { message: "a wire came loose".into() }),
        (false, Cause::Device { reason: "out of breath".into() }),
    ] {
        let devices = (0..3)
            .map(|d| Box::new(Faulty(CpuDevice::default(), (d == 1).then_some(panics))) as Box<dyn Device>)
            .collect();
        let ends = Local::ends(3).into_iter().map(|e| Box::new(e) as Box<dyn Transport>).collect();
        let graph = ring(3, 4).finish();
        let mut executor = Executor::with(graph, &BTreeMap::new(), devices, ends).expect("well formed");
        let x = integers(F, &[3, 5], 4);
        let start = Instant::now();
        let error = executor.run(&named(&[("x", &x)])).expect_err("device 1 fails");
        assert!(start.elapsed() < Duration::from_secs(5), "the waiting devices stop");
        let RunError::Task { device, tensor, cause: found, .. } = error else { panic!("{error}") };
        assert_eq!((device, tensor.as_str(), found), (DeviceId(1), "ring", cause));
        let run = executor.run(&named(&[("x", &x)])).expect("it was a passing fault");
        assert_eq!(run.outputs["y"].to_f64(), x.to_f64().iter().map(|v| v * 16.0).collect::<Vec<_>>());
    }
}

#[test]
fn graphs_that_cannot_run_are_refused() {
    let check = |change: &dyn Fn(&mut TaskGraph), expected: &str| {
        let mut b = ring(2, 1);
        plan_memory(&mut b.0);
        change(&mut b.0);
        let error = match Executor::new(b.0, &BTreeMap::new()) {
            Ok(_) => panic!("`{expected}` was not found"),
            Err(e) => e.to_string(),
        };
        assert!(error.contains(expected), "`{error}` does not say `{expected}`");
    };
    let find =
        |g: &TaskGraph, f: &dyn Fn(&Verb) -> bool| g.tasks.iter().position(|t| f(&t.verb)).expect("there is one");
    check(&|g| g.tasks[2].reads = vec![TaskId(1)], "which is on another device");
    check(&|g| g.tasks[2].reads = vec![TaskId(9)], "which is not an earlier row");
    check(&|g| g.arenas[0] = Bytes(0), "inside an arena of 0");
    let huge = "device d1 cannot allocate its arena of 4611686018427387904 bytes: use more devices or a smaller model";
    check(&|g| g.arenas[1] = Bytes(1 << 62), huge);
    check(&|g| g.arenas.clear(), "has no memory plan: it has 0 arenas for 2 devices");
    check(
        &|g| {
            let at = find(g, &|v| matches!(v, Verb::Output { .. }));
            g.tasks.remove(at);
        },
        "the regions in which output `y` leaves do not fill [0:2,0:5]",
    );
}

#[test]
fn nothing_to_compute() {
    // An output that is an input, an empty one, and a device with no rows.
    let mut b = Build::new(2);
    let x = b.external("x", InputKind::Input, F, &[2, 3]);
    let none = b.external("none", InputKind::Input, F, &[0, 3]);
    let one = b.external("one", InputKind::Input, DType::Bool, &[]);
    let feeds = [(x, vec![2, 3]), (none, vec![0, 3]), (one, vec![])].map(|(e, s)| b.feed(1, e, Region::whole(&s)));
    b.output("x", F, &[2, 3], &[feeds[0]]);
    b.output("none", F, &[0, 3], &[feeds[1]]);
    b.output("one", DType::Bool, &[], &[feeds[2]]);
    let inputs = named(&[
        ("x", &integers(F, &[2, 3], 1)),
        ("none", &Dense::f32([0, 3], vec![])),
        ("one", &Dense::from_f64(DType::Bool, [], &[1.0])),
    ]);
    let mut executor = Executor::new(b.finish(), &BTreeMap::new()).expect("well formed");
    assert_eq!(executor.run(&inputs).expect("it runs").outputs, inputs);
}
