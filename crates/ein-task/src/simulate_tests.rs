//! The simulator against closed forms.

use crate::machine::{Device, DeviceId, DeviceKind, Link, Machine, Resource};
use crate::rates::{Products, Turns};
use crate::simulate::simulate;
use crate::task::{OpRow, Slot, Task, TaskGraph, TaskId, Value, Verb};
use crate::timeline::{Lane, Timeline};
use crate::units::{Bytes, Seconds};
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Einsum, Label};
use ein_ir::expr::Expr;
use ein_ir::graph::TensorType;
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::Op;
use ein_ir::region::Region;

/// Builds task graphs of byte vectors.
struct Build(TaskGraph);

impl Build {
    fn new(devices: usize) -> Self {
        Self(TaskGraph { devices, labels: vec!["x".into()], ..TaskGraph::default() })
    }

    fn task(&mut self, device: usize, verb: Verb, reads: &[TaskId], bytes: usize) -> TaskId {
        let value = Value { region: Region::whole(&[bytes]), form: Form::finished(DType::U8, 1) };
        let (device, reads, after) = (DeviceId(device as u16), reads.to_vec(), vec![]);
        self.0.tasks.push(Task { device, verb, reads, after, value, within: None, slot: Slot::default(), label: 0 });
        TaskId(self.0.tasks.len() as u32 - 1)
    }

    fn feed(&mut self, device: usize, bytes: usize) -> TaskId {
        self.task(device, Verb::Feed { external: 0 }, &[], bytes)
    }

    /// A map that reads and writes `bytes` each: `2 bytes / memory_bandwidth + launch`.
    fn map(&mut self, device: usize, reads: &[TaskId], bytes: usize) -> TaskId {
        let einsum = Einsum {
            labels: vec![Label::new("i", bytes)],
            rank: 1,
            accesses: vec![Access::labels(&[0])],
            join: Expr::operand(DType::U8),
            monoid: Monoid::Sum,
            dtype: DType::U8,
        };
        let ty = TensorType::new(DType::U8, [bytes]);
        let spec = Op::Einsum(einsum.clone()).spec(&[DType::U8]);
        let name = format!("map{}", self.0.ops.len());
        self.0.ops.push(OpRow { name, op: Op::Einsum(einsum), operands: vec![ty.clone()], spec, result: ty });
        let (op, labels) = (self.0.ops.len() - 1, Region::whole(&[bytes]));
        self.task(device, Verb::Kernel { op, labels, finish: true, operands: vec![Some(0)] }, reads, bytes)
    }

    /// A move: the receive half.
    fn to(&mut self, device: usize, piece: TaskId) -> TaskId {
        let Task { device: from, value, .. } = self.0.tasks[piece.index()].clone();
        let bytes = value.region.volume();
        let send = self.task(from.index(), Verb::Send { to: DeviceId(device as u16) }, &[piece], 0);
        self.task(device, Verb::Receive { from }, &[send], bytes)
    }
}

/// Devices of 1 TB/s memory behind a switch.
fn machine(devices: usize, port: f64, latency: f64, issue: f64, launch: f64) -> Machine {
    let device = |n: usize| Device {
        name: format!("gpu{n}"),
        kind: DeviceKind::Gpu,
        memory: Bytes(1 << 40),
        flops: vec![(DType::F32, 1e12)],
        memory_bandwidth: 1e12,
        launch: Seconds(launch),
        free_elementwise: false,
        elements: None,
        under_softmax: None,
        prefers: Vec::new(),
        products: Products::default(),
        engines: None,
    };
    let mut links = Vec::new();
    for from in 0..devices {
        for to in (0..devices).filter(|t| *t != from) {
            let resources = vec![from, devices + to];
            links.push(Link {
                from: DeviceId(from as u16),
                to: DeviceId(to as u16),
                resources,
                latency: Seconds(latency),
            });
        }
    }
    let resource = |n: usize| Resource { name: format!("port{n}"), bandwidth: port };
    Machine {
        name: "test".into(),
        devices: (0..devices).map(device).collect(),
        resources: (0..2 * devices).map(resource).collect(),
        links,
        issue: Seconds(issue),
        processors: None,
        turns: Turns::default(),
    }
}

fn check(graph: &Build, machine: &Machine, expected: f64) -> Timeline {
    let timeline = simulate(&graph.0, machine);
    let found = timeline.makespan().0;
    assert!((found - expected).abs() <= 1e-9 * expected, "{found} is not {expected}");
    assert!(timeline.simulated);
    let order = timeline.events.windows(2).all(|e| (e[0].start.0, e[0].task) <= (e[1].start.0, e[1].task));
    assert!(order, "events are by start, then task");
    timeline
}

#[test]
fn one_transfer_takes_issue_latency_and_bytes() {
    let mut b = Build::new(2);
    let piece = b.feed(0, 1_000_000);
    b.to(1, piece);
    let timeline = check(&b, &machine(2, 1e11, 3e-6, 1e-6, 0.0), 1e-6 + 1e-5 + 3e-6);
    let lanes: Vec<(Lane, u16)> = timeline.events.iter().map(|e| (e.lane, e.device.0)).collect();
    assert_eq!(lanes, [(Lane::Send, 0), (Lane::Receive, 1)]);
    // The send half is done when the bytes are out; the receive half waits for the latency too.
    assert!((timeline.events[0].end.0 - 1.1e-5).abs() < 1e-15);
    assert_eq!(timeline.events[1].name, "receive x from d0");
}

#[test]
fn transfers_out_of_one_port_share_it() {
    for k in 1..8 {
        let mut b = Build::new(8);
        let piece = b.feed(0, 1_000_000);
        for d in 1..=k {
            b.to(d, piece);
        }
        let timeline = check(&b, &machine(8, 1e11, 0.0, 0.0, 0.0), k as f64 * 1e-5);
        assert!(timeline.events.iter().all(|e| (e.end.0 - k as f64 * 1e-5).abs() < 1e-15));
    }
    // Into one port likewise; and transfers on one link go one after the other, latency overlapped.
    let mut b = Build::new(4);
    for d in 1..4 {
        let piece = b.feed(d, 1_000_000);
        b.to(0, piece);
    }
    check(&b, &machine(4, 1e11, 1e-6, 0.0, 0.0), 3e-5 + 1e-6);
    let mut b = Build::new(2);
    for _ in 0..5 {
        let piece = b.feed(0, 1_000_000);
        b.to(1, piece);
    }
    check(&b, &machine(2, 1e11, 3e-6, 1e-6, 0.0), 5.0 * 1.1e-5 + 3e-6);
}

#[test]
fn shares_are_max_min_fair() {
    // 0 sends to 1 and to 2; 3 sends to 2 as well, ten times as much. Port 0.out and 2.in each carry two: all at half
    // rate until both small ones end at 20 us; the large one has 9 MB left, alone.
    let mut b = Build::new(4);
    let small = b.feed(0, 1_000_000);
    b.to(1, small);
    b.to(2, small);
    let large = b.feed(3, 10_000_000);
    b.to(2, large);
    check(&b, &machine(4, 1e11, 0.0, 0.0, 0.0), 2e-5 + 9e-5);
    // 2.in is three times narrower than the others: 0>2 and 3>2 get a sixth, 0>1 the other five sixths of 0.out.
    let mut narrow = machine(4, 1.2e11, 0.0, 0.0, 0.0);
    narrow.resources[4 + 2].bandwidth = 4e10;
    let timeline = check(&b, &narrow, 11e6 / 4e10);
    let first = timeline.events.iter().find(|e| e.task == 1).unwrap();
    assert!((first.end.0 - 1e6 / 1e11).abs() < 1e-15, "{}", first.end.0);
}

#[test]
fn a_strip_exchange_of_a_gigabyte_takes_what_the_ports_need() {
    let mut b = Build::new(8);
    for from in 0..8 {
        for d in 1..8 {
            let piece = b.feed(from, 1_000_000_000 / 64);
            b.to((from + d) % 8, piece);
        }
    }
    let ideal = Machine::by_name("8xa100-ideal").unwrap();
    let timeline = check(&b, &ideal, 7.0 / 64.0 * 1e9 / 300e9);
    assert_eq!(format!("{:.3} ms", timeline.makespan().0 * 1e3), "0.365 ms");
}

#[test]
fn kernels_of_a_device_queue_and_overlap_with_transfers() {
    let real = machine(2, 1e11, 0.0, 0.0, 2e-6);
    // Two dependent maps of 1 MB: 2 MB / 1 TB/s + 2 us each.
    let mut b = Build::new(2);
    let first = b.map(0, &[], 1_000_000);
    b.map(0, &[first], 1_000_000);
    check(&b, &real, 2.0 * 4e-6);
    // Two that are independent queue on one device, and do not on two.
    let mut b = Build::new(2);
    b.map(0, &[], 1_000_000);
    b.map(0, &[], 1_000_000);
    check(&b, &real, 8e-6);
    let mut b = Build::new(2);
    b.map(0, &[], 1_000_000);
    b.map(1, &[], 1_000_000);
    check(&b, &real, 4e-6);
    // A transfer of 10 us runs beside a map of 12 us on the same device; then a map that needs both.
    let mut b = Build::new(2);
    let piece = b.feed(0, 1_000_000);
    let there = b.to(1, piece);
    b.map(0, &[], 5_000_000);
    let beside_there = b.map(1, &[], 5_000_000);
    b.map(1, &[there, beside_there], 1_000_000);
    let timeline = check(&b, &real, 12e-6 + 4e-6);
    assert_eq!(timeline.busy(DeviceId(0), Lane::Compute), Seconds(12e-6));
    // Received 0.5 MB (5 us), then worked on; what is longest goes first: the map whose result must travel.
    let mut b = Build::new(2);
    b.map(0, &[], 1_000_000);
    let early = b.map(0, &[], 1_000_000);
    b.to(1, early);
    check(&b, &real, 4e-6 + 10e-6);
}

#[test]
fn what_feeds_a_busy_link_goes_first() {
    // Two maps of 1 µs each feed a transfer of 4 µs on one link; two maps of 3 and 4 µs feed one another. Behind each of the
    // first two there is less than behind the third, but both have to cross the link: 1 µs, then 8 µs of transfers.
    let machine = machine(2, 1.25e11, 0.0, 0.0, 0.0);
    let mut g = Build::new(2);
    let x = g.feed(0, 500_000);
    let y = g.feed(0, 1_500_000);
    let third = g.map(0, &[y], 1_500_000);
    g.map(0, &[third], 2_000_000);
    for _ in 0..2 {
        let made = g.map(0, &[x], 500_000);
        g.to(1, made);
    }
    check(&g, &machine, 9e-6);
}

#[test]
fn copies_and_folds_take_their_time() {
    let real = machine(1, 1e11, 0.0, 0.0, 1e-6);
    let mut b = Build::new(1);
    let piece = b.feed(0, 4_000_000);
    let cut = b.task(0, Verb::Cut, &[piece], 1_000_000);
    let fold = b.task(0, Verb::Fold { monoid: Monoid::Sum, finish: true }, &[cut, cut, cut], 1_000_000);
    let paste = b.task(0, Verb::Paste, &[fold, fold], 2_000_000);
    b.task(0, Verb::Output { output: 0 }, &[paste], 2_000_000);
    check(&b, &real, (2e-6 + 1e-6) + (4e-6 + 1e-6) + (4e-6 + 1e-6));
}

#[test]
fn a_transfer_waits_for_the_memory_it_lands_in() {
    let real = machine(2, 1e11, 0.0, 0.0, 0.0);
    let mut b = Build::new(2);
    let piece = b.feed(0, 1_000_000);
    let user = b.map(1, &[], 5_000_000);
    let there = b.to(1, piece);
    b.0.tasks[there.index()].after = vec![user];
    check(&b, &real, 10e-6 + 10e-6);
    // Two swaps, each into memory that the other one's send half must leave first: one has to be put aside.
    let mut b = Build::new(2);
    let (left, right) = (b.feed(0, 1_000_000), b.feed(1, 1_000_000));
    let (to_right, to_left) = (b.to(1, left), b.to(0, right));
    b.0.tasks[to_right.index()].after = vec![TaskId(4)];
    b.0.tasks[to_left.index()].after = vec![TaskId(2)];
    check(&b, &real, 20e-6);
}

#[test]
fn many_tasks_simulate_fast_and_the_same_way_twice() {
    let mut b = Build::new(8);
    let mut last: Vec<TaskId> = (0..8).map(|d| b.feed(d, 10_000)).collect();
    while b.0.tasks.len() < 50_000 {
        let mapped: Vec<TaskId> = (0..8).map(|d| b.map(d, &[last[d]], 10_000)).collect();
        for d in 0..8 {
            let mut reads = vec![mapped[d]];
            for from in 1..8 {
                reads.push(b.to(d, mapped[(d + from) % 8]));
            }
            last[d] = b.task(d, Verb::Fold { monoid: Monoid::Sum, finish: true }, &reads, 10_000);
        }
    }
    let machine = Machine::by_name("8xh100").unwrap();
    let start = std::time::Instant::now();
    let timeline = simulate(&b.0, &machine);
    // About half a second unloaded, in a debug build; the bound only catches a quadratic slip.
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    assert_eq!(timeline, simulate(&b.0, &machine));
    assert_eq!(timeline.events.len(), b.0.tasks.len() - 8);
    println!("{} tasks in {:?}", b.0.tasks.len(), start.elapsed());
}

#[test]
fn transfers_hide_behind_blocks() {
    // Blocks on device 0, each of which is sent when it is done: the longer of both, with the first of the one or
    // the last of the other beside it.
    for (blocks, kilobytes) in [(1, 1000), (4, 1000), (4, 10_000), (16, 100)] {
        let mut real = machine(2, 1e11, 0.0, 0.0, 2e-6);
        let (work, carried) = (2.0 * kilobytes as f64 * 1e3 / 1e12 + 2e-6, kilobytes as f64 * 1e3 / 1e11);
        let mut b = Build::new(2);
        for _ in 0..blocks {
            let done = b.map(0, &[], kilobytes * 1000);
            b.to(1, done);
        }
        let longer = work.max(carried) * blocks as f64;
        check(&b, &real, longer + work.min(carried));
        // A link ten thousand times as wide hides nothing: what is left is the work.
        real.resources.iter_mut().for_each(|r| r.bandwidth *= 1e4);
        check(&b, &real, blocks as f64 * work + carried / 1e4);
    }
}

/// Devices that are threads which share processors.
fn threads(devices: usize, processors: u32) -> Machine {
    let mut machine = machine(devices, 1e11, 3e-6, 1e-6, 2e-6);
    machine.devices.iter_mut().for_each(|d| d.kind = DeviceKind::Cpu);
    machine.processors = Some(processors);
    machine
}

#[test]
fn threads_share_processors() {
    // A map of 1 MB takes 4 us alone.
    for (devices, processors) in [(1, 1), (2, 2), (3, 2), (4, 1), (8, 2), (2, 8)] {
        let mut b = Build::new(devices);
        for d in 0..devices {
            b.map(d, &[], 1_000_000);
            b.map(d, &[], 1_000_000);
        }
        let slower = (devices as f64 / f64::from(processors)).max(1.0);
        check(&b, &threads(devices, processors), 8e-6 * slower);
    }
    // 4 us and 12 us on one processor: both at half speed until the short one is done at 8 us.
    let mut b = Build::new(2);
    b.map(0, &[], 1_000_000);
    b.map(1, &[], 5_000_000);
    let timeline = check(&b, &threads(2, 1), 16e-6);
    assert!((timeline.events[0].end.0 - 8e-6).abs() < 1e-15);
}

#[test]
fn threads_copy_out_and_in() {
    // One after the other by the sender, each half of 10 us with the issue before; the last one's other half at its
    // receiver, the latency later.
    for receivers in 1..5 {
        let mut b = Build::new(5);
        let piece = b.map(0, &[], 1_000_000);
        for d in 1..=receivers {
            b.to(d, piece);
        }
        check(&b, &threads(5, 8), 4e-6 + receivers as f64 * 6e-6 + 3e-6 + 5e-6);
    }
    // The receiver is at work for 24 us and copies afterwards; what is sent goes before what is worked on.
    let mut b = Build::new(2);
    let piece = b.map(0, &[], 1_000_000);
    b.map(0, &[piece], 1_000_000);
    b.map(1, &[], 11_000_000);
    b.to(1, piece);
    let timeline = check(&b, &threads(2, 2), 24e-6 + 5e-6);
    let ends: Vec<f64> = timeline.events.iter().map(|e| (e.end.0 * 1e9).round() / 1e3).collect();
    assert_eq!(ends, [4.0, 24.0, 10.0, 14.0, 29.0]);
    // What is fed and handed out is copied: 2 MB at 1 TB/s and 2 us each.
    let mut b = Build::new(1);
    b.0.externals.push(crate::task::External {
        name: "x".into(),
        kind: ein_ir::op::InputKind::Input,
        ty: TensorType::new(DType::U8, [1_000_000]),
    });
    let piece = b.feed(0, 1_000_000);
    b.task(0, Verb::Output { output: 0 }, &[piece], 1_000_000);
    check(&b, &threads(1, 1), 2.0 * 4e-6);
}
