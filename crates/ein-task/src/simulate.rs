//! The simulator: when everything of a task graph happens on a machine.
//!
//! * A device computes one task at a time: kernels, views, cuts, folds and pastes, priced by
//!   [`crate::price`]; of a paste, what was not received in its place. Of the tasks that are ready, the one with the longest way to the end goes first, then
//!   the lowest number. Tasks that take no time do not queue.
//! * Feeding and handing out take no time: parameters are resident.
//! * A transfer may start when its send half's reads are done and the memory of its receive half is free.
//!   A link carries one transfer at a time; of those that are ready the lowest number goes first, because the row
//!   order of an exchange program is its schedule. (By the longest way instead, makespans of `LLaMA` blocks on `8xa100`,
//!   `dgx-1v` and `pcie-8` under the search and three strategies were equal or differed by -0.3 to +1.9 %.) The transfers
//!   of different links run side by side. A transfer holds its link for [`Machine::issue`] and then for its bytes, at
//!   the rate that max–min fair sharing of the resources gives; then the send half is done. The receive half is done
//!   the link's latency later: latency does not hold the link.
//! * Devices that are threads of one host (see [`Machine::processors`]) do as the executor does: of what is ready
//!   sends go first, then the lowest number; a send half is a copy by the sender's thread, a receive half a copy by
//!   the receiver's, each half of the link's time for the bytes, the issue with the first and the latency between them;
//!   inputs and outputs are copied by their device; and threads share the processors.
//!
//! Same graph and machine, same timeline.

use crate::machine::{DeviceId, DeviceKind, Machine};
use crate::price;
use crate::program_time;
use crate::task::{Task, TaskGraph, Verb};
use crate::timeline::{Event, Lane, Timeline};
use crate::units::Seconds;
use crate::work::{Act, Times, Work};
use ein_ir::op::InputKind;
use std::collections::BTreeMap;

/// Runs `graph` on `machine`.
pub fn simulate(graph: &TaskGraph, machine: &Machine) -> Timeline {
    let model = Model::new(graph, machine);
    let times = model.work().run(machine);
    let mut events: Vec<Event> = (0..times.len()).filter_map(|n| model.event(n, &times)).collect();
    events.sort_by(|a, b| a.start.0.total_cmp(&b.start.0).then(a.task.cmp(&b.task)));
    Timeline { simulated: true, events }
}

/// Seconds that a task holds its device's compute queue.
pub fn compute_seconds(graph: &TaskGraph, machine: &Machine, task: &Task) -> Seconds {
    let device = &machine.devices[task.device.index()];
    let bytes = || task.value.form.bytes(&task.value.region) as f64;
    match &task.verb {
        Verb::Kernel { op, labels, .. } => {
            let spec = graph.ops[*op].spec.as_ref().expect("an operation with a kernel has a spec");
            price::kernel_seconds(device, spec, labels)
        }
        Verb::Fused { stages } => {
            let spec = |op: usize| graph.ops[op].spec.as_ref().expect("an operation with a kernel has a spec");
            let stages: Vec<_> = stages.iter().map(|s| (spec(s.op), &s.labels)).collect();
            price::fused_seconds(device, &stages)
        }
        // What is left in its memory it shows as it lies.
        Verb::View { .. } if task.reads.iter().any(|&r| graph.task(r).within.is_some()) => Seconds(0.0),
        Verb::View { .. } | Verb::Cut => price::local_seconds(device, bytes()),
        Verb::Paste => {
            let there = task.reads.iter().map(|&r| graph.task(r)).filter(|t| t.within.is_none());
            let part = |t: &Task| t.value.region.intersect(&task.value.region).map_or(0, |r| t.value.form.bytes(&r));
            price::local_seconds(device, there.map(part).sum::<usize>() as f64)
        }
        Verb::Fold { .. } => price::touch_seconds(device, (task.reads.len() + 1) as f64 * bytes()),
        Verb::Feed { .. } | Verb::Send { .. } | Verb::Receive { .. } | Verb::Output { .. } => Seconds(0.0),
    }
}

/// A task graph as work on a machine.
struct Model<'a> {
    graph: &'a TaskGraph,
    machine: &'a Machine,
    /// What each task does; a receive half that is not work of a thread does nothing.
    acts: Vec<Act>,
    /// The receive half of a send half.
    other_half: Vec<usize>,
}

const NONE: usize = usize::MAX;

impl<'a> Model<'a> {
    fn new(graph: &'a TaskGraph, machine: &'a Machine) -> Self {
        let mut other_half = vec![NONE; graph.tasks.len()];
        for (n, task) in graph.tasks.iter().enumerate() {
            if let Verb::Receive { .. } = task.verb {
                other_half[task.reads[0].index()] = n;
            }
        }
        let links: BTreeMap<(DeviceId, DeviceId), usize> =
            machine.links.iter().enumerate().map(|(n, l)| ((l.from, l.to), n)).collect();
        let mut model = Self { graph, machine, acts: Vec::new(), other_half };
        model.acts = (0..graph.tasks.len()).map(|n| model.act(n, &links)).collect();
        model
    }

    fn act(&self, n: usize, links: &BTreeMap<(DeviceId, DeviceId), usize>) -> Act {
        let (graph, machine, task) = (self.graph, self.machine, &self.graph.tasks[n]);
        let device = task.device.index();
        let halves = |from, to, bytes| {
            let link = links.get(&(from, to)).expect("a program moves along links only: the checker refuses others");
            program_time::halves(machine, *link, bytes)
        };
        let local = |seconds| Act::Local { device, seconds, latency: 0.0 };
        match task.verb {
            Verb::Send { to } => {
                let receive = self.other_half[n];
                assert!(receive != NONE, "task {n} sends and nobody receives");
                halves(task.device, to, bytes(&graph.tasks[receive])).0
            }
            Verb::Receive { from } => halves(from, task.device, bytes(task)).1.unwrap_or(local(0.0)),
            Verb::Feed { external } if self.is_thread(task.device) => {
                let resident = graph.externals.get(external).is_none_or(|e| e.kind == InputKind::Parameter);
                let bytes = if resident { 0 } else { bytes(task) };
                local(price::local_seconds(&machine.devices[device], bytes as f64).0)
            }
            Verb::Output { .. } if self.is_thread(task.device) => {
                let from = &graph.tasks[task.reads[0].index()].value;
                let bytes = from.form.bytes(&task.value.region);
                local(price::local_seconds(&machine.devices[device], bytes as f64).0)
            }
            _ => local(compute_seconds(graph, machine, task).0),
        }
    }

    fn is_thread(&self, device: DeviceId) -> bool {
        self.machine.processors.is_some() && self.machine.devices[device.index()].kind == DeviceKind::Cpu
    }

    fn work(&self) -> Work {
        let ways = self.ways();
        let mut work = Work::default();
        for (n, act) in self.acts.iter().enumerate() {
            let task = &self.graph.tasks[n];
            let turn = match &task.verb {
                Verb::Send { .. } => 0,
                _ if self.is_thread(task.device) => 1,
                _ => u64::MAX - ways[n],
            };
            let row = work.push(*act, turn);
            let sends = |earlier: usize| matches!(self.graph.tasks[earlier].verb, Verb::Send { .. });
            for read in &task.reads {
                work.after(row, read.0);
            }
            for earlier in &task.after {
                match (&task.verb, self.carried_by(n)) {
                    (Verb::Receive { .. }, Some(send)) => work.lands_after(send as u32, earlier.0),
                    _ if sends(earlier.index()) => work.after_sent(row, earlier.0),
                    _ => work.after(row, earlier.0),
                }
            }
        }
        work
    }

    /// The send half of a receive half that a link carries.
    fn carried_by(&self, receive: usize) -> Option<usize> {
        let send = self.graph.tasks[receive].reads.first()?.index();
        matches!(self.acts[send], Act::Transfer { .. }).then_some(send)
    }

    /// From the start of each task to the end of the graph if only transfers had to queue, each before those of later rows
    /// on what they share, in picoseconds: whole numbers, so that equal ways compare as equal however they were added up.
    ///
    /// Without the queues, what feeds a busy link would come after whatever has more computing behind it, and the link would
    /// begin late.
    fn ways(&self) -> Vec<u64> {
        let whole = |seconds: f64| (seconds * 1e12).round() as u64;
        let mut ways: Vec<u64> = vec![0; self.graph.tasks.len()];
        // The longest way from the start of what crosses each resource next.
        let mut queues: Vec<u64> = vec![0; self.machine.resources.len()];
        for n in (0..ways.len()).rev() {
            let task = &self.graph.tasks[n];
            let own = match self.acts[n] {
                Act::Local { seconds, latency, .. } => whole(seconds + latency),
                Act::Transfer { link, bytes } => {
                    whole(self.machine.transfer_seconds(&self.machine.links[link], bytes as f64).0)
                }
            };
            // Until here it is the longest way of a task that waits for this one.
            ways[n] = ways[n].saturating_add(own);
            if let Act::Transfer { link, bytes } = self.acts[n] {
                let way = ways[n];
                for &resource in &self.machine.links[link].resources {
                    let own = whole(bytes as f64 / self.machine.resources[resource].bandwidth);
                    queues[resource] = queues[resource].saturating_add(own).max(way);
                    ways[n] = ways[n].max(queues[resource]);
                }
            }
            for earlier in task.reads.iter().chain(&task.after) {
                ways[earlier.index()] = ways[earlier.index()].max(ways[n]);
            }
        }
        ways
    }

    /// How a timeline shows a task; tasks that took no time are not shown.
    fn event(&self, n: usize, times: &[Times]) -> Option<Event> {
        let task = &self.graph.tasks[n];
        let Times { start, sent, arrived } = times[n];
        let (lane, start, end) = match (&task.verb, self.acts[n]) {
            (Verb::Send { .. }, _) => (Lane::Send, start, sent),
            (Verb::Receive { .. }, Act::Local { seconds: 0.0, .. }) => {
                (Lane::Receive, times[task.reads[0].index()].start, arrived)
            }
            (Verb::Receive { .. }, _) => (Lane::Receive, start, arrived),
            (_, Act::Local { seconds: 0.0, .. }) => return None,
            _ => (Lane::Compute, start, arrived),
        };
        let name = name(self.graph, task);
        Some(Event { task: n as u32, device: task.device, lane, name, start: Seconds(start), end: Seconds(end) })
    }
}

/// Bytes of what a task leaves, without what aligns them.
fn bytes(task: &Task) -> u64 {
    task.value.form.bytes(&task.value.region) as u64
}

/// The verb and the tensor, as timelines show a task.
pub fn name(graph: &TaskGraph, task: &Task) -> String {
    let tensor = graph.labels.get(task.label as usize).map_or("", String::as_str);
    let to = |verb: &str, way: &str, device: DeviceId| format!("{verb} {tensor} {way} {device}");
    match &task.verb {
        Verb::Kernel { op, .. } => graph.ops[*op].name.clone(),
        Verb::Fused { stages } => {
            let names: Vec<&str> = stages.iter().map(|s| graph.ops[s.op].name.as_str()).collect();
            names.join(" + ")
        }
        Verb::View { op, .. } => format!("view {}", graph.ops[*op].name),
        Verb::Send { to: device } => to("send", "to", *device),
        Verb::Receive { from } => to("receive", "from", *from),
        Verb::Feed { .. } => format!("feed {tensor}"),
        Verb::Cut => format!("cut {tensor}"),
        Verb::Fold { .. } => format!("fold {tensor}"),
        Verb::Paste => format!("paste {tensor}"),
        Verb::Output { .. } => format!("output {tensor}"),
    }
}
