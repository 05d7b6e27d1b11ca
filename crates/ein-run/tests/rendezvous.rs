//! Programs over a transport that buffers nothing, and over transports that break.

mod common;

use common::{Build, integers};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::op::InputKind;
use ein_ir::region::Region;
use ein_run::cpu::CpuDevice;
use ein_run::device::Device;
use ein_run::rendezvous::Rendezvous;
use ein_run::transport::{Arrival, Local, News, Tag, Transport};
use ein_run::{Cause, Executor, Order, RunError};
use ein_task::machine::DeviceId;
use ein_task::task::{TaskGraph, TaskId, Verb};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const F: DType = DType::F32;
/// Longer than any wait here that ends well.
const LONG: Duration = Duration::from_secs(20);

fn named(name: &str, dense: Dense) -> BTreeMap<String, Dense> {
    BTreeMap::from([(name.to_owned(), dense)])
}

/// Every device holds a row of `x` and hands it on to the next, `rounds` times: all send at once.
fn hand_on(devices: usize, rounds: usize, columns: usize) -> TaskGraph {
    let mut b = Build::new(devices);
    let x = b.external("x", InputKind::Input, F, &[devices, columns]);
    b.label("handed on");
    let row = |r: usize| Region::of(&[(r, r + 1), (0, columns)]);
    let mut held: Vec<TaskId> = (0..devices).map(|d| b.feed(d as u16, x, row(d))).collect();
    for _ in 0..rounds {
        held = (0..devices).map(|d| b.send(held[(d + devices - 1) % devices], d as u16)).collect();
    }
    b.output("y", F, &[devices, columns], &held);
    b.finish()
}

/// H1: two devices swap, each sending before it receives, and larger rings do; nothing is buffered.
#[test]
fn devices_that_all_send_first() {
    for (devices, rounds, columns) in [(2, 1, 1 << 22), (2, 40, 3), (3, 31, 5), (8, 16, 7)] {
        let graph = hand_on(devices, rounds, columns);
        let mut executor = Executor::unbuffered(graph, &BTreeMap::new(), Some(LONG)).expect("well formed");
        let x = integers(F, &[devices, columns], 5);
        for seed in 0..if columns > 99 { 1 } else { 20 } {
            executor.set_order(if seed == 0 { Order::Listed } else { Order::Random(seed) });
            let run = executor.run(&named("x", x.clone())).unwrap_or_else(|e| panic!("{devices}, seed {seed}: {e}"));
            assert_eq!(run.outputs["y"], x, "what went round {rounds} times of {devices} is where it was");
        }
    }
}

/// Halves go to the other device and back again and again, through few slots: a receive has no room until its
/// slot is free.
#[test]
fn slots_are_used_again_before_messages_come() {
    let (rounds, n) = (12, 64);
    let mut b = Build::new(2);
    let x = b.external("x", InputKind::Input, F, &[2, n]);
    b.label("halves");
    let row = |d: usize| Region::of(&[(d, d + 1), (0, n)]);
    let mut held: Vec<TaskId> = (0..2).map(|d| b.feed(d as u16, x, row(d))).collect();
    for _ in 0..rounds {
        for (d, held) in held.iter_mut().enumerate() {
            let halves = [(0, n / 2), (n / 2, n)].map(|c| Region::of(&[(d, d + 1), c]));
            let parts = halves.map(|half| b.cut(*held, half));
            let there = parts.map(|p| b.send(p, 1 - d as u16));
            let back = there.map(|p| b.send(p, d as u16));
            *held = b.paste(&back, row(d));
        }
    }
    b.output("y", F, &[2, n], &held);
    let graph = b.finish();
    let waiting = |t: &&ein_task::task::Task| matches!(t.verb, Verb::Receive { .. }) && !t.after.is_empty();
    assert!(graph.tasks.iter().filter(waiting).count() > rounds, "slots are used again");
    let mut executor = Executor::unbuffered(graph, &BTreeMap::new(), Some(LONG)).expect("well formed");
    let x = integers(F, &[2, n], 6);
    for seed in 0..30 {
        executor.set_order(Order::Random(seed));
        let run = executor.run(&named("x", x.clone())).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(run.outputs["y"], x, "seed {seed}");
    }
}

/// How a device's end breaks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The device leaves without a word, as a process that is killed.
    Dies,
    /// What it sends is lost.
    Mute,
    /// Its sends fail.
    Refused,
}

/// An end that breaks after some sends.
struct Breaking<T> {
    end: T,
    fault: Option<Fault>,
    sends: usize,
}

impl<T: Transport> Breaking<T> {
    fn broken(&self, fault: Fault) -> bool {
        self.fault == Some(fault) && self.sends == 0
    }
}

impl<T: Transport> Transport for Breaking<T> {
    fn buffers(&self) -> bool {
        self.end.buffers()
    }
    fn grant(&mut self, message: Arrival, bytes: u64) -> Result<(), Cause> {
        if self.broken(Fault::Dies) { Ok(()) } else { self.end.grant(message, bytes) }
    }
    fn send(&mut self, to: DeviceId, tag: Tag, bytes: &[u8]) -> Result<(), Cause> {
        if self.broken(Fault::Refused) {
            return Err(Cause::Transport { reason: "the cable is out".into() });
        }
        if self.broken(Fault::Mute) || self.broken(Fault::Dies) {
            return Ok(());
        }
        self.sends = self.sends.saturating_sub(1);
        self.end.send(to, tag, bytes)
    }
    fn poll(&mut self, wait: bool) -> Result<Option<News>, Cause> {
        if self.broken(Fault::Dies) { Err(Cause::Stopped) } else { self.end.poll(wait) }
    }
    fn receive(&mut self, m: Arrival, take: &mut dyn FnMut(&[u8]) -> Result<(), Cause>) -> Result<(), Cause> {
        self.end.receive(m, take)
    }
    fn abort(&mut self) {
        self.end.abort();
    }
    fn reset(&mut self) {
        self.end.reset();
    }
}

/// Four devices of which device 1 breaks after three sends; nobody waits longer than `limit`.
fn broken<T: Transport + 'static>(ends: Vec<T>, fault: Fault) -> (RunError, Duration) {
    let devices = (0..4).map(|_| Box::new(CpuDevice::default()) as Box<dyn Device>).collect();
    let breaking = |(d, end)| Breaking { end, fault: (d == 1).then_some(fault), sends: 3 };
    let ends = ends.into_iter().enumerate().map(|e| Box::new(breaking(e)) as Box<dyn Transport>).collect();
    let mut executor = Executor::with(hand_on(4, 9, 5), &BTreeMap::new(), devices, ends).expect("well formed");
    let start = Instant::now();
    let error = executor.run(&named("x", integers(F, &[4, 5], 7))).expect_err("device 1 breaks");
    (error, start.elapsed())
}

/// H8: who waits for a device that is gone says for which, and for which tensor, and within the limit.
#[test]
fn a_device_that_is_gone_is_named() {
    let limit = Duration::from_millis(300);
    for fault in [Fault::Dies, Fault::Mute, Fault::Refused] {
        for unbuffered in [false, true] {
            let (error, took) = if unbuffered {
                broken(Rendezvous::ends(4, Some(limit)), fault)
            } else {
                broken(Local::ends_within(4, Some(limit)), fault)
            };
            let text = error.to_string();
            assert!(took < 20 * limit, "{fault:?}: {text} after {took:?}");
            let RunError::Task { device, tensor, cause, .. } = error else { panic!("{text}") };
            assert_eq!(tensor, "handed on", "{text}");
            match (fault, cause) {
                (Fault::Refused, Cause::Transport { reason }) => {
                    assert_eq!((device, reason.as_str()), (DeviceId(1), "the cable is out"));
                }
                (Fault::Dies | Fault::Mute, Cause::Peer { peer, cause, .. }) => {
                    assert_eq!((peer, *cause), (DeviceId(1), Cause::Silence { limit }), "{fault:?}: {text}");
                    assert!(text.contains("waiting for d1 to "), "{text}");
                }
                (_, cause) => panic!("{fault:?}: {cause:?}"),
            }
        }
    }
}
