//! Runs a task graph: one thread a device, each on its own rows in any order its dependencies allow.

use crate::cpu::CpuDevice;
use crate::cpu::boxes;
use crate::device::Device;
use crate::error::{Cause, RunError};
use crate::load::load;
use crate::rendezvous::Rendezvous;
use crate::schedule::Schedule;
use crate::source::{ParameterSource, bytes_of, bytes_of_mut};
use crate::trace::{self, Mark};
use crate::transport::{Arrival, Local, News, Transport};
use ein_ir::dense::Dense;
use ein_ir::op::InputKind;
use ein_task::machine::DeviceId;
use ein_task::task::{TaskGraph, TaskId, Verb};
use ein_task::timeline::Timeline;
use ein_task::units::Bytes;
use ein_task::verify::verify;
use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Which of the ready tasks a device takes next. Results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// Sends first, so that others can go on; then the task graph's order.
    #[default]
    Listed,
    /// Any, drawn from this seed: for tests that a plan names all its dependencies.
    Random(u64),
}

/// What a run yields.
#[derive(Clone, Debug)]
pub struct Run {
    /// The outputs by name.
    pub outputs: BTreeMap<String, Dense>,
    /// What happened when.
    pub timeline: Timeline,
    /// From the first feed to the last output.
    pub seconds: f64,
}

/// A task graph ready to run: arenas allocated, parameters loaded.
pub struct Executor {
    graph: TaskGraph,
    schedule: Schedule,
    workers: Vec<Worker>,
    order: Order,
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

/// A task that did not succeed.
struct Failure {
    task: u32,
    cause: Cause,
}

impl Executor {
    /// Prepares a task graph for the CPU: every device of it is a thread of this process.
    pub fn new(graph: TaskGraph, parameters: &dyn ParameterSource) -> Result<Self, RunError> {
        let devices = (0..graph.devices).map(|_| Box::new(CpuDevice::default()) as Box<dyn Device>).collect();
        let ends = Local::ends(graph.devices).into_iter().map(|end| Box::new(end) as Box<dyn Transport>).collect();
        Self::with(graph, parameters, devices, ends)
    }

    /// Prepares a task graph for the CPU, its devices joined by a transport that buffers no message. For tests:
    /// it shows that a plan counts on no buffer. `limit` is how long a device waits for news of others.
    pub fn unbuffered(
        graph: TaskGraph,
        parameters: &dyn ParameterSource,
        limit: Option<Duration>,
    ) -> Result<Self, RunError> {
        let devices = (0..graph.devices).map(|_| Box::new(CpuDevice::default()) as Box<dyn Device>).collect();
        let ends = Rendezvous::ends(graph.devices, limit);
        Self::with(
            graph,
            parameters,
            devices,
            ends.into_iter().map(|end| Box::new(end) as Box<dyn Transport>).collect(),
        )
    }

    /// Prepares a task graph for given devices, joined by given ends of one transport.
    pub fn with(
        graph: TaskGraph,
        parameters: &dyn ParameterSource,
        devices: Vec<Box<dyn Device>>,
        ends: Vec<Box<dyn Transport>>,
    ) -> Result<Self, RunError> {
        assert_eq!((devices.len(), ends.len()), (graph.devices, graph.devices), "a device and an end for each");
        verify(&graph)?;
        if graph.arenas.len() != graph.devices {
            return Err(RunError::Unplanned { arenas: graph.arenas.len(), devices: graph.devices });
        }
        let schedule = Schedule::new(&graph);
        let mut workers: Vec<Worker> = devices
            .into_iter()
            .zip(ends)
            .map(|(device, transport)| Worker {
                device,
                transport,
                waits: Vec::new(),
                packed: Vec::new(),
                ready: Ready::new(Order::Listed, 0),
                granting: false,
                marks: Vec::new(),
            })
            .collect();
        allocate(&graph, &mut workers)?;
        load(&graph, &schedule.resident, parameters, workers.iter_mut().map(|w| &mut *w.device as _).collect())?;
        Ok(Self { graph, schedule, workers, order: Order::Listed })
    }

    /// The task graph.
    pub fn graph(&self) -> &TaskGraph {
        &self.graph
    }

    /// Chooses which ready task goes first in later runs.
    pub fn set_order(&mut self, order: Order) {
        self.order = order;
    }

    /// Runs the task graph once.
    ///
    /// The threads live as long as the run: they borrow the inputs without a copy, and nothing outlives a
    /// failure. Starting one takes some tens of microseconds.
    pub fn run(&mut self, inputs: &BTreeMap<String, Dense>) -> Result<Run, RunError> {
        let given = check_inputs(&self.graph, inputs)?;
        let outputs: Vec<Mutex<Dense>> =
            self.graph.outputs.iter().map(|(_, ty)| Mutex::new(Dense::zeros(ty))).collect();
        for worker in &mut self.workers {
            worker.transport.reset();
        }
        let start = Instant::now();
        let (graph, schedule, order) = (&self.graph, &self.schedule, self.order);
        let shared = &Shared { graph, schedule, given, outputs: &outputs, start };
        let results: Vec<Result<(), Failure>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .workers
                .iter_mut()
                .enumerate()
                .map(|(n, worker)| scope.spawn(move || worker.run(shared, n, order)))
                .collect();
            let panicked = |p: Box<dyn Any + Send>| Failure { task: 0, cause: panic_cause(&*p) };
            threads.into_iter().map(|t| t.join().unwrap_or_else(|p| Err(panicked(p)))).collect()
        });
        let seconds = start.elapsed().as_secs_f64();
        if let Some(failure) = results.into_iter().filter_map(Result::err).min_by_key(Failure::rank) {
            let task = &self.graph.tasks[failure.task as usize];
            let tensor = trace::tensor(&self.graph, task).to_owned();
            return Err(RunError::Task { task: failure.task, device: task.device, tensor, cause: failure.cause });
        }
        let marks = self.workers.iter_mut().flat_map(|w| std::mem::take(&mut w.marks)).collect();
        let names = self.graph.outputs.iter().map(|(name, _)| name.clone());
        let values = outputs.into_iter().map(|o| o.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(Run { outputs: names.zip(values).collect(), timeline: trace::timeline(&self.graph, marks), seconds })
    }
}

/// Makes every device's arena: side by side, because all pages of it are touched.
fn allocate(graph: &TaskGraph, workers: &mut [Worker]) -> Result<(), RunError> {
    let make = |n: usize, worker: &mut Worker| {
        let bytes = graph.arenas[n];
        let refused = |_| RunError::Memory { device: DeviceId(n as u16), bytes: bytes.0 };
        worker.device.allocate(bytes).map_err(refused)
    };
    let made: Vec<Result<(), RunError>> = std::thread::scope(|scope| {
        let make = &make;
        let threads: Vec<_> =
            workers.iter_mut().enumerate().map(|(n, worker)| scope.spawn(move || make(n, worker))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
    });
    made.into_iter().collect()
}

/// The given tensor of every external, by position; `None` for parameters.
fn check_inputs<'a>(
    graph: &TaskGraph,
    inputs: &'a BTreeMap<String, Dense>,
) -> Result<Vec<Option<&'a Dense>>, RunError> {
    let wanted = || graph.externals.iter().filter(|e| e.kind != InputKind::Parameter);
    let names = || {
        let list: Vec<String> = wanted().map(|e| format!("`{}` ({})", e.name, e.ty)).collect();
        if list.is_empty() { "none".to_owned() } else { list.join(", ") }
    };
    if let Some(name) = inputs.keys().find(|name| wanted().all(|e| e.name != **name)) {
        return Err(RunError::UnknownInput { name: name.clone(), inputs: names() });
    }
    let given = |e: &ein_task::task::External| {
        if e.kind == InputKind::Parameter {
            return Ok(None);
        }
        let (name, expected) = (e.name.clone(), e.ty.clone());
        match inputs.get(&e.name) {
            None => Err(RunError::MissingInput { name, expected, inputs: names() }),
            Some(dense) if dense.ty() != e.ty => Err(RunError::InputType { name, found: dense.ty(), expected }),
            Some(dense) => Ok(Some(dense)),
        }
    };
    graph.externals.iter().map(given).collect()
}

/// What all threads of a run read.
struct Shared<'a> {
    graph: &'a TaskGraph,
    schedule: &'a Schedule,
    given: Vec<Option<&'a Dense>>,
    outputs: &'a [Mutex<Dense>],
    start: Instant,
}

impl Failure {
    /// The failure to report: one that is not the echo of another, then the earliest task.
    fn rank(&self) -> (bool, u32) {
        (self.cause == Cause::Stopped, self.task)
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
                let dense = shared.given[*external].ok_or_else(|| Cause::malformed("a parameter is loaded once"))?;
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
                    boxes::copy_region(
                        bytes,
                        &from.value.region,
                        bytes_of_mut(&mut out),
                        &whole,
                        region,
                        ty.dtype.bytes(),
                    );
                    Ok(())
                })
            }
            Verb::Kernel { .. } | Verb::View { .. } | Verb::Cut | Verb::Fold { .. } | Verb::Paste => {
                self.device.execute(graph, id)
            }
        }
    }
}

fn panic_cause(payload: &(dyn Any + Send)) -> Cause {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let message = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Cause::Panic { message: message.to_owned() }
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
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
