//! The simulator: when everything of a task graph happens on a machine.
//!
//! * A device computes one task at a time: kernels, views, cuts, folds and pastes, priced by
//!   [`crate::price`]. Of the tasks that are ready, the one with the longest way to the end goes first, then
//!   the lowest number. Tasks that take no time do not queue.
//! * Feeding and handing out take no time: parameters are resident.
//! * A transfer may start when its send half's reads are done and the memory of its receive half is free.
//!   A link carries one transfer at a time, in the order above; the transfers of different links
//!   run side by side. A transfer holds its link for [`Machine::issue`] and then for its bytes, at the rate
//!   that max–min fair sharing of the resources gives; then the send half is done. The receive half is done
//!   the link's latency later: latency does not hold the link.
//!
//! Same graph and machine, same timeline.

use crate::machine::{DeviceId, Machine};
use crate::price;
use crate::task::{Task, TaskGraph, Verb};
use crate::timeline::{Event, Lane, Timeline};
use crate::units::Seconds;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Runs `graph` on `machine`.
pub fn simulate(graph: &TaskGraph, machine: &Machine) -> Timeline {
    let mut run = Run::new(graph, machine);
    run.start_sources();
    run.go();
    let mut events = run.events;
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
        Verb::View { .. } | Verb::Cut | Verb::Paste => price::local_seconds(device, bytes()),
        Verb::Fold { .. } => price::touch_seconds(device, (task.reads.len() + 1) as f64 * bytes()),
        Verb::Feed { .. } | Verb::Send { .. } | Verb::Receive { .. } | Verb::Output { .. } => Seconds(0.0),
    }
}

/// What ends at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// The task's time on the compute queue is over.
    Computed(usize),
    /// The send half's issue is over: bytes start to flow.
    Issued(usize),
    /// The receive half has its last byte.
    Arrived(usize),
}

/// A ready task in a queue: longest way to the end first, then the lowest number.
type Ready = Reverse<(Reverse<u64>, usize)>;

struct Flow {
    send: usize,
    link: usize,
    left: f64,
    rate: f64,
}

struct Run<'a> {
    graph: &'a TaskGraph,
    machine: &'a Machine,
    seconds: Vec<f64>,
    /// The receive half of a send half.
    other_half: Vec<usize>,
    /// The link of a send half.
    link: Vec<usize>,
    /// Tasks to wait for; for a receive half those whose memory it takes over.
    waits: Vec<usize>,
    readers: Readers,
    way: Vec<u64>,
    now: f64,
    /// By time; times are not negative, so their bits are in order.
    moments: BinaryHeap<Reverse<(u64, Moment)>>,
    compute: Vec<BinaryHeap<Ready>>,
    computing: Vec<bool>,
    queues: Vec<BinaryHeap<Ready>>,
    carrying: Vec<bool>,
    /// Queues that got something or came free.
    touched: BTreeSet<usize>,
    touched_links: BTreeSet<usize>,
    flows: Vec<Flow>,
    started: Vec<f64>,
    done: Vec<bool>,
    /// Send halves whose transfer has been put in its link's queue.
    queued: Vec<bool>,
    events: Vec<Event>,
    sharing: Sharing,
}

/// Who waits for whom, as one list with the start of each task's part.
struct Readers {
    starts: Vec<usize>,
    tasks: Vec<u32>,
}

impl Readers {
    fn new(count: usize, edges: &[(u32, u32)]) -> Self {
        let mut starts = vec![0; count + 1];
        for &(from, _) in edges {
            starts[from as usize + 1] += 1;
        }
        for n in 0..count {
            starts[n + 1] += starts[n];
        }
        let (mut at, mut tasks) = (starts.clone(), vec![0; edges.len()]);
        for &(from, to) in edges {
            tasks[at[from as usize]] = to;
            at[from as usize] += 1;
        }
        Self { starts, tasks }
    }

    fn of(&self, task: usize) -> std::ops::Range<usize> {
        self.starts[task]..self.starts[task + 1]
    }
}

const NONE: usize = usize::MAX;

impl<'a> Run<'a> {
    fn new(graph: &'a TaskGraph, machine: &'a Machine) -> Self {
        let tasks = &graph.tasks;
        let count = tasks.len();
        let mut other_half = vec![NONE; count];
        let mut link = vec![NONE; count];
        let mut edges = Vec::new();
        let numbers: BTreeMap<(DeviceId, DeviceId), usize> =
            machine.links.iter().enumerate().map(|(n, l)| ((l.from, l.to), n)).collect();
        for (n, task) in tasks.iter().enumerate() {
            if let Verb::Receive { from } = task.verb {
                let send = task.reads[0].index();
                other_half[send] = n;
                let found = numbers.get(&(from, task.device));
                link[send] = *found.expect("a program moves along links only: the checker refuses others");
                edges.extend(task.after.iter().map(|a| (a.0, n as u32)));
            } else {
                edges.extend(task.reads.iter().chain(&task.after).map(|r| (r.0, n as u32)));
            }
        }
        let mut waits = vec![0; count];
        for &(_, to) in &edges {
            waits[to as usize] += 1;
        }
        let seconds: Vec<f64> = tasks.iter().map(|t| compute_seconds(graph, machine, t).0).collect();
        let readers = Readers::new(count, &edges);
        let devices = machine.len();
        let mut run = Self {
            graph,
            machine,
            seconds,
            other_half,
            link,
            waits,
            readers,
            way: Vec::new(),
            now: 0.0,
            moments: BinaryHeap::new(),
            compute: vec![BinaryHeap::new(); devices],
            computing: vec![false; devices],
            queues: vec![BinaryHeap::new(); machine.links.len()],
            carrying: vec![false; machine.links.len()],
            touched: BTreeSet::new(),
            touched_links: BTreeSet::new(),
            flows: Vec::new(),
            started: vec![0.0; count],
            done: vec![false; count],
            queued: vec![false; count],
            events: Vec::new(),
            sharing: Sharing::new(machine.resources.len()),
        };
        run.way = run.ways();
        run
    }

    /// From the start of each task to the end of the graph if nothing had to queue, in picoseconds: whole
    /// numbers, so that equal ways compare as equal however they were added up.
    fn ways(&self) -> Vec<u64> {
        let whole = |seconds: f64| (seconds * 1e12).round() as u64;
        let mut way: Vec<u64> = vec![0; self.graph.tasks.len()];
        for n in (0..way.len()).rev() {
            let rest = self.readers.tasks[self.readers.of(n)].iter().map(|&r| way[r as usize]).max().unwrap_or(0);
            way[n] = whole(self.seconds[n]).saturating_add(rest);
            if self.other_half[n] != NONE {
                let link = &self.machine.links[self.link[n]];
                let alone = self.machine.transfer_seconds(link, self.transfer_bytes(n)).0;
                way[n] = way[n].max(whole(alone).saturating_add(way[self.other_half[n]]));
            }
        }
        way
    }

    fn transfer_bytes(&self, send: usize) -> f64 {
        let value = &self.graph.tasks[self.other_half[send]].value;
        value.form.bytes(&value.region) as f64
    }

    fn start_sources(&mut self) {
        let ready: Vec<usize> = (0..self.waits.len()).filter(|&n| self.waits[n] == 0).collect();
        let mut done: Vec<usize> = ready.into_iter().filter(|&n| !self.enqueue(n)).collect();
        done.reverse();
        self.finish(done);
    }

    fn go(&mut self) {
        loop {
            self.start_queued();
            self.sharing.rates(self.machine, &mut self.flows);
            let next_moment = self.moments.peek().map(|Reverse((bits, _))| f64::from_bits(*bits));
            let next_flow = self.flows.iter().map(|f| self.now + f.left / f.rate).min_by(f64::total_cmp);
            let next = match (next_moment, next_flow) {
                (Some(a), Some(b)) => a.min(b),
                (Some(a), None) => a,
                (None, Some(b)) => b,
                (None, None) if self.start_stalled() => continue,
                (None, None) => break,
            };
            self.advance(next);
            while let Some(&Reverse((bits, moment))) = self.moments.peek() {
                if f64::from_bits(bits) > self.now {
                    break;
                }
                self.moments.pop();
                self.happen(moment);
            }
        }
        debug_assert!(self.done.iter().all(|d| *d), "a task waits for one that waits for it");
    }

    /// Only transfers are left, and each waits for memory that another one has to free: a real receiver
    /// would have to put one aside. Starts the first, if there is one.
    fn start_stalled(&mut self) -> bool {
        let stalled = |&n: &usize| self.other_half[n] != NONE && self.waits[n] == 0 && !self.queued[n];
        let first = (0..self.waits.len()).find(stalled);
        if let Some(send) = first {
            self.queue_transfer(send);
        }
        first.is_some()
    }

    /// Moves time on; flows that end by then, give or take rounding, are sent.
    fn advance(&mut self, next: f64) {
        let step = next - self.now;
        // Equal transfers must end together although their rates differ in the last bit.
        let slack = next * 1e-12;
        self.now = next;
        let flows = std::mem::take(&mut self.flows);
        let mut ended = Vec::new();
        for mut flow in flows {
            if flow.left <= flow.rate * (step + slack) {
                ended.push(flow);
            } else {
                flow.left -= flow.rate * step;
                self.flows.push(flow);
            }
        }
        for flow in ended {
            self.sent(flow.send, flow.link);
        }
    }

    fn sent(&mut self, send: usize, link: usize) {
        self.carrying[link] = false;
        self.touched_links.insert(link);
        let receive = self.other_half[send];
        self.event(send, Lane::Send);
        self.started[receive] = self.started[send];
        self.at(self.now + self.machine.links[link].latency.0, Moment::Arrived(receive));
        self.finish(vec![send]);
    }

    fn happen(&mut self, moment: Moment) {
        match moment {
            Moment::Computed(task) => {
                let device = self.graph.tasks[task].device.index();
                self.computing[device] = false;
                self.touched.insert(device);
                self.event(task, Lane::Compute);
                self.finish(vec![task]);
            }
            Moment::Issued(send) => {
                let left = self.transfer_bytes(send);
                self.flows.push(Flow { send, link: self.link[send], left, rate: 0.0 });
            }
            Moment::Arrived(receive) => {
                self.event(receive, Lane::Receive);
                self.finish(vec![receive]);
            }
        }
    }

    fn at(&mut self, time: f64, moment: Moment) {
        self.moments.push(Reverse((time.to_bits(), moment)));
    }

    /// Marks tasks done and tells those that wait for them, and goes on with what takes no time.
    fn finish(&mut self, mut finished: Vec<usize>) {
        while let Some(task) = finished.pop() {
            self.done[task] = true;
            for n in self.readers.of(task) {
                let reader = self.readers.tasks[n] as usize;
                self.waits[reader] -= 1;
                if self.waits[reader] == 0 && !self.enqueue(reader) {
                    finished.push(reader);
                }
            }
        }
    }

    /// Puts a task that waits for nothing more in its queue; false if it takes no time and is done.
    fn enqueue(&mut self, task: usize) -> bool {
        match &self.graph.tasks[task].verb {
            Verb::Send { .. } => {
                let receive = self.other_half[task];
                assert!(receive != NONE, "task {task} sends and nobody receives");
                if self.waits[receive] == 0 && !self.queued[task] {
                    self.queue_transfer(task);
                }
                true
            }
            Verb::Receive { .. } => {
                let send = self.graph.tasks[task].reads[0].index();
                if self.waits[send] == 0 && !self.queued[send] {
                    self.queue_transfer(send);
                }
                true
            }
            _ if self.seconds[task] == 0.0 => false,
            _ => {
                let device = self.graph.tasks[task].device.index();
                self.compute[device].push(Reverse((Reverse(self.way[task]), task)));
                self.touched.insert(device);
                true
            }
        }
    }

    fn queue_transfer(&mut self, send: usize) {
        self.queued[send] = true;
        self.queues[self.link[send]].push(Reverse((Reverse(self.way[send]), send)));
        self.touched_links.insert(self.link[send]);
    }

    /// Starts what the free devices and links have in their queues.
    fn start_queued(&mut self) {
        for device in std::mem::take(&mut self.touched) {
            if self.computing[device] {
                continue;
            }
            if let Some(Reverse((_, task))) = self.compute[device].pop() {
                self.computing[device] = true;
                self.started[task] = self.now;
                self.at(self.now + self.seconds[task], Moment::Computed(task));
            }
        }
        for link in std::mem::take(&mut self.touched_links) {
            if self.carrying[link] {
                continue;
            }
            if let Some(Reverse((_, send))) = self.queues[link].pop() {
                self.carrying[link] = true;
                self.started[send] = self.now;
                self.at(self.now + self.machine.issue.0, Moment::Issued(send));
            }
        }
        // Transfers whose issue takes no time flow from now on.
        while let Some(&Reverse((bits, moment @ Moment::Issued(_)))) = self.moments.peek() {
            if f64::from_bits(bits) > self.now {
                break;
            }
            self.moments.pop();
            self.happen(moment);
        }
    }

    fn event(&mut self, task: usize, lane: Lane) {
        let row = &self.graph.tasks[task];
        let (start, end) = (Seconds(self.started[task]), Seconds(self.now));
        let name = name(self.graph, row);
        self.events.push(Event { task: task as u32, device: row.device, lane, name, start, end });
    }
}

/// The verb and the tensor, as timelines show a task.
pub fn name(graph: &TaskGraph, task: &Task) -> String {
    let tensor = graph.labels.get(task.label as usize).map_or("", String::as_str);
    let to = |verb: &str, way: &str, device: DeviceId| format!("{verb} {tensor} {way} {device}");
    match &task.verb {
        Verb::Kernel { op, .. } => graph.ops[*op].name.clone(),
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

/// Max–min fair sharing by progressive filling; the lists are kept between calls.
struct Sharing {
    /// Flows on each resource.
    flows: Vec<Vec<usize>>,
    left: Vec<f64>,
    users: Vec<usize>,
    used: Vec<usize>,
    /// The flows that the rates were computed for.
    last: Vec<usize>,
}

impl Sharing {
    fn new(resources: usize) -> Self {
        Self {
            flows: vec![Vec::new(); resources],
            left: vec![0.0; resources],
            users: vec![0; resources],
            used: Vec::new(),
            last: Vec::new(),
        }
    }

    /// Sets every flow's rate: the narrowest resource, per flow still without a rate, settles its flows.
    fn rates(&mut self, machine: &Machine, flows: &mut [Flow]) {
        if flows.iter().map(|f| f.send).eq(self.last.iter().copied()) {
            return;
        }
        self.last = flows.iter().map(|f| f.send).collect();
        for r in self.used.drain(..) {
            self.flows[r].clear();
        }
        for (n, flow) in flows.iter_mut().enumerate() {
            flow.rate = 0.0;
            for &r in &machine.links[flow.link].resources {
                if self.flows[r].is_empty() {
                    self.used.push(r);
                    self.left[r] = machine.resources[r].bandwidth;
                }
                self.flows[r].push(n);
            }
        }
        for &r in &self.used {
            self.users[r] = self.flows[r].len();
        }
        loop {
            let share = |r: usize| self.left[r] / self.users[r] as f64;
            let open = self.used.iter().copied().filter(|&r| self.users[r] > 0);
            let Some(narrowest) = open.min_by(|&a, &b| share(a).total_cmp(&share(b))) else { return };
            let rate = share(narrowest);
            for n in 0..self.flows[narrowest].len() {
                let flow = &mut flows[self.flows[narrowest][n]];
                if flow.rate > 0.0 {
                    continue;
                }
                flow.rate = rate;
                for &r in &machine.links[flow.link].resources {
                    // Rounding must not leave a resource below nothing, nor a later flow without a rate.
                    self.left[r] = (self.left[r] - rate).max(machine.resources[r].bandwidth * 1e-15);
                    self.users[r] -= 1;
                }
            }
        }
    }
}
