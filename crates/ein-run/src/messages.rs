//! Devices that see nothing of each other but messages: one thread each, on its own rows in any order its dependencies
//! allow.

use crate::backend::Backend;
use crate::cpu::boxes;
use crate::device::{Device, Memory};
use crate::error::{Cause, RunError};
use crate::executor::Order;
use crate::failure::{Failure, panic_cause};
use crate::load::{allocate, load};
use crate::schedule::Schedule;
use crate::source::{ParameterSource, bytes_of, bytes_of_mut};
use crate::trace::Mark;
use crate::transport::{Arrival, News, Transport};
use ein_ir::dense::Dense;
use ein_task::machine::DeviceId;
use ein_task::task::{TaskGraph, TaskId, Verb};
use ein_task::units::Bytes;
use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The devices, joined by a transport.
pub(crate) struct Workers {
    order: Order,
    schedule: Schedule,
    ends: Vec<Worker>,
}

/// One device with its end of the transport.
struct Worker {
    device: Box<dyn Device>,
    transport: Box<dyn Transport>,
    /// What each of its tasks still waits for in this run; indexed as the graph's tasks.
    waits: Vec<u32>,
    ready: Ready,
    /// A message whose elements do not lie side by side, before it is sent.
    packed: Vec<u8>,
    /// Whether messages are sent only once their receivers have room.
    granting: bool,
    marks: Vec<Mark>,
}

impl Workers {
    /// Devices with their ends of one transport: arenas made, parameters loaded.
    pub(crate) fn new(
        graph: &TaskGraph,
        parameters: &dyn ParameterSource,
        devices: Vec<Box<dyn Device>>,
        ends: Vec<Box<dyn Transport>>,
    ) -> Result<Self, RunError> {
        let schedule = Schedule::new(graph);
        let worker = |(device, transport)| Worker {
            device,
            transport,
            waits: Vec::new(),
            packed: Vec::new(),
            ready: Ready::new(Order::Listed, 0),
            granting: false,
            marks: Vec::new(),
        };
        let mut workers: Vec<Worker> = devices.into_iter().zip(ends).map(worker).collect();
        let mut devices: Vec<&mut dyn Memory> = workers.iter_mut().map(|w| &mut *w.device as _).collect();
        allocate(graph, &mut devices, &|_, device, bytes| device.allocate(bytes))?;
        load(graph, &schedule.resident, parameters, devices)?;
        for (n, worker) in workers.iter_mut().enumerate() {
            worker.device.loaded(graph, DeviceId(n as u16));
        }
        Ok(Self { order: Order::Listed, schedule, ends: workers })
    }
}

impl Backend for Workers {
    /// The threads live as long as the run: they borrow the inputs without a copy, and nothing outlives a failure.
    fn run(
        &mut self,
        graph: &TaskGraph,
        inputs: &BTreeMap<String, Dense>,
        outputs: &[Mutex<Dense>],
    ) -> Result<(), RunError> {
        for worker in &mut self.ends {
            worker.transport.reset();
        }
        let order = self.order;
        let shared = &Shared { graph, schedule: &self.schedule, inputs, outputs, start: Instant::now() };
        let results: Vec<Result<(), Failure>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .ends
                .iter_mut()
                .enumerate()
                .map(|(n, worker)| scope.spawn(move || worker.run(shared, n, order)))
                .collect();
            let panicked = |p: Box<dyn Any + Send>| Failure { task: 0, cause: panic_cause(&*p) };
            threads.into_iter().map(|t| t.join().unwrap_or_else(|p| Err(panicked(p)))).collect()
        });
        let failure = results.into_iter().filter_map(Result::err).min_by_key(Failure::rank);
        failure.map_or(Ok(()), |failure| Err(failure.error(graph)))
    }

    fn marks(&self) -> Vec<Mark> {
        self.ends.iter().flat_map(|w| w.marks.iter().copied()).collect()
    }

    fn set_order(&mut self, order: Order) {
        self.order = order;
    }
}

/// What all threads of a run read.
struct Shared<'a> {
    graph: &'a TaskGraph,
    schedule: &'a Schedule,
    inputs: &'a BTreeMap<String, Dense>,
    outputs: &'a [Mutex<Dense>],
    start: Instant,
}

impl<'a> Shared<'a> {
    fn given(&self, external: usize) -> Option<&'a Dense> {
        self.inputs.get(&self.graph.externals[external].name)
    }
}

impl Worker {
    /// Executes all rows of device `n`; a failure stops the other devices.
    fn run(&mut self, shared: &Shared<'_>, n: usize, order: Order) -> Result<(), Failure> {
        let mut current = shared.schedule.rows[n].first().map_or(0, |t| t.0);
        // A panic is caught here rather than at the join, so that the others stop at once.
        let caught = catch_unwind(AssertUnwindSafe(|| self.rows(shared, n, order, &mut current)));
        let result = caught.unwrap_or_else(|p| Err(panic_cause(&*p)));
        result.map_err(|cause| {
            // A device that heard nothing lets the others find out too: they wait no longer than it did, and of all
            // that was missed the earliest row names the device that is gone.
            let heard_nothing = matches!(&cause, Cause::Peer { cause, .. } if matches!(**cause, Cause::Silence { .. }));
            if cause != Cause::Stopped && !heard_nothing {
                self.transport.abort();
            }
            Failure { task: current, cause }
        })
    }

    fn rows(&mut self, shared: &Shared<'_>, n: usize, order: Order, current: &mut u32) -> Result<(), Cause> {
        let Shared { graph, schedule, .. } = *shared;
        let rows = &schedule.rows[n];
        self.waits.clone_from(&schedule.waits);
        self.marks.clear();
        self.marks.reserve(rows.len());
        self.ready = Ready::new(order, n);
        self.granting = !self.transport.buffers();
        for &id in rows {
            // Where nothing is buffered a send waits for its receiver too. That is a wait like any other: the
            // device goes on with what is ready, and receives.
            if self.granting && matches!(graph.tasks[id.index()].verb, Verb::Send { .. }) {
                self.waits[id.index()] += 1;
            }
            self.look(graph, id)?;
        }
        let mut left = rows.len();
        while left > 0 {
            while let Some(news) = self.transport.poll(self.ready.is_empty()).map_err(|cause| match cause {
                Cause::Silence { .. } | Cause::Transport { .. } => self.missed(graph, rows, cause, current),
                other => other,
            })? {
                let nobody = |what: String| Cause::Transport { reason: format!("{what} is for nobody") };
                let task = match news {
                    News::Arrived(Arrival { from, tag }) => {
                        let receiver = schedule.receiver.get(tag as usize).copied().flatten();
                        receiver.ok_or_else(|| nobody(format!("message {tag} from {from}")))?
                    }
                    News::Granted(tag) => {
                        let own = rows.binary_search(&TaskId(tag)).is_ok() && self.waits[tag as usize] > 0;
                        own.then_some(TaskId(tag)).ok_or_else(|| nobody(format!("room for message {tag}")))?
                    }
                };
                self.done(graph, task)?;
            }
            let Some(id) = self.ready.pop() else { continue };
            *current = id.0;
            let start = shared.start.elapsed().as_secs_f64();
            self.task(shared, id)?;
            let end = shared.start.elapsed().as_secs_f64();
            self.marks.push(Mark { task: id.0, start, end });
            left -= 1;
            for &next in &schedule.then[id.index()] {
                self.done(graph, next)?;
            }
        }
        Ok(())
    }

    /// One of the things that `task` waits for is done.
    fn done(&mut self, graph: &TaskGraph, task: TaskId) -> Result<(), Cause> {
        self.waits[task.index()] -= 1;
        self.look(graph, task)
    }

    /// Whether a task can go, or be granted its message: a receive that waits for nothing else has room for it.
    fn look(&mut self, graph: &TaskGraph, id: TaskId) -> Result<(), Cause> {
        let task = &graph.tasks[id.index()];
        match (self.waits[id.index()], &task.verb) {
            (0, _) => self.ready.push(graph, id),
            (1, Verb::Receive { from }) if self.granting => {
                let message = Arrival { from: *from, tag: task.reads[0].0 };
                self.transport.grant(message, task.value.bytes().0)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What a device waited for when the transport gave up: its first move of which only the other end is missing.
    fn missed(&self, graph: &TaskGraph, rows: &[TaskId], cause: Cause, current: &mut u32) -> Cause {
        let peer = |id: &&TaskId| match graph.tasks[id.index()].verb {
            Verb::Receive { from } => Some((from, false)),
            Verb::Send { to } if self.granting => Some((to, true)),
            _ => None,
        };
        let waits = |id: &&TaskId| self.waits[id.index()] == 1 && peer(id).is_some();
        let Some(id) = rows.iter().find(waits) else { return cause };
        let Some((peer, sends)) = peer(&id) else { return cause };
        *current = id.0;
        Cause::Peer { peer, sends, cause: Box::new(cause) }
    }

    fn task(&mut self, shared: &Shared<'_>, id: TaskId) -> Result<(), Cause> {
        let graph = shared.graph;
        let task = &graph.tasks[id.index()];
        let read = |n: usize| &graph.tasks[task.reads[n].index()];
        match &task.verb {
            Verb::Feed { external } => {
                // State that is not given again is where it was left.
                let Some(dense) = shared.given(*external) else { return Ok(()) };
                let (whole, region) = (dense.ty().whole(), &task.value.region);
                self.device.put(task.slot, task.value.bytes(), &mut |out| {
                    boxes::copy_region(bytes_of(dense), &whole, out, region, region, dense.dtype().bytes());
                    Ok(())
                })
            }
            Verb::Send { to } => {
                let (from, region, transport, packed) =
                    (read(0), &task.value.region, &mut self.transport, &mut self.packed);
                self.device.get(from.slot, from.value.bytes(), &mut |bytes| {
                    if from.value.region == *region {
                        return transport.send(*to, id.0, bytes);
                    }
                    packed.clear();
                    packed.resize(from.value.form.layout(region).1, 0);
                    boxes::copy_fields(&from.value.form, bytes, &from.value.region, packed, region, region);
                    transport.send(*to, id.0, packed)
                })
            }
            Verb::Receive { from } => {
                let message = Arrival { from: *from, tag: task.reads[0].0 };
                let device = &mut self.device;
                self.transport.receive(message, &mut |bytes| {
                    if bytes.len() as u64 != task.value.bytes().0 {
                        let reason = format!("{} bytes came where {} are due", bytes.len(), task.value.bytes().0);
                        return Err(Cause::Transport { reason });
                    }
                    let (region, form, stored) = (&task.value.region, &task.value.form, task.stored());
                    device.put(task.slot, Bytes(form.layout(stored).1 as u64), &mut |out| {
                        if task.within.is_some() {
                            boxes::copy_fields(form, bytes, region, out, stored, region);
                        } else {
                            out.copy_from_slice(bytes);
                        }
                        Ok(())
                    })
                })
            }
            Verb::Output { output } => {
                let (from, ty) = (read(0), &graph.outputs[*output].1);
                let (whole, region) = (ty.whole(), &task.value.region);
                self.device.get(from.slot, from.value.bytes(), &mut |bytes| {
                    let mut out = shared.outputs[*output].lock().unwrap_or_else(PoisonError::into_inner);
                    let (own, out) = (&from.value.region, bytes_of_mut(&mut out));
                    boxes::copy_region(bytes, own, out, &whole, region, ty.dtype.bytes());
                    Ok(())
                })
            }
            Verb::Kernel { .. }
            | Verb::Fused { .. }
            | Verb::View { .. }
            | Verb::Cut
            | Verb::Fold { .. }
            | Verb::Paste => self.device.execute(graph, id),
        }
    }
}

/// The tasks that wait for nothing.
enum Ready {
    Listed(BinaryHeap<Reverse<(bool, TaskId)>>),
    Random(Vec<TaskId>, u64),
}

impl Ready {
    fn new(order: Order, device: usize) -> Self {
        match order {
            Order::Listed => Self::Listed(BinaryHeap::new()),
            Order::Random(seed) => Self::Random(Vec::new(), seed.wrapping_add(device as u64)),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Listed(heap) => heap.is_empty(),
            Self::Random(list, _) => list.is_empty(),
        }
    }

    fn push(&mut self, graph: &TaskGraph, id: TaskId) {
        match self {
            Self::Listed(heap) => {
                let sends = matches!(graph.tasks[id.index()].verb, Verb::Send { .. });
                heap.push(Reverse((!sends, id)));
            }
            Self::Random(list, _) => list.push(id),
        }
    }

    fn pop(&mut self) -> Option<TaskId> {
        match self {
            Self::Listed(heap) => heap.pop().map(|r| r.0.1),
            Self::Random(list, state) => {
                if list.is_empty() {
                    return None;
                }
                Some(list.swap_remove((splitmix(state) % list.len() as u64) as usize))
            }
        }
    }
}

/// The next number of Steele, Lea and Flood's `SplitMix64` (2014).
pub(crate) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
