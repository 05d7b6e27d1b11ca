//! All that the fake driver knows, and how what was given to it happens.

use crate::arena_ffi::{Arena, GPUS};
use crate::graph::{Capture, Graph};
use crate::machine::{Check, Counters, FakeMachine, Fault};
use crate::races::History;
use crate::schedule::{Plan, Schedule};
use crate::shim::shadow::Shadow;
use crate::shim::{self, Instrument};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A code of the driver's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u32);

pub(crate) const INVALID_VALUE: Code = Code(1);
pub(crate) const OUT_OF_MEMORY: Code = Code(2);
pub(crate) const NOT_INITIALIZED: Code = Code(3);
pub(crate) const UNAVAILABLE: Code = Code(46);
pub(crate) const NO_DEVICE: Code = Code(100);
pub(crate) const INVALID_DEVICE: Code = Code(101);
pub(crate) const INVALID_IMAGE: Code = Code(200);
pub(crate) const INVALID_CONTEXT: Code = Code(201);
pub(crate) const PEER_UNSUPPORTED: Code = Code(217);
pub(crate) const INVALID_HANDLE: Code = Code(400);
pub(crate) const ILLEGAL_STATE: Code = Code(401);
pub(crate) const NOT_FOUND: Code = Code(500);
pub(crate) const NOT_READY: Code = Code(600);
pub(crate) const ILLEGAL_ADDRESS: Code = Code(700);
pub(crate) const PEER_ALREADY: Code = Code(704);
pub(crate) const PEER_NOT_ENABLED: Code = Code(705);
pub(crate) const LAUNCH_FAILED: Code = Code(719);
pub(crate) const CAPTURE_UNSUPPORTED: Code = Code(900);
pub(crate) const CAPTURE_INVALIDATED: Code = Code(901);
pub(crate) const CAPTURE_UNMATCHED: Code = Code(903);
pub(crate) const CAPTURE_UNJOINED: Code = Code(904);
pub(crate) const CAPTURE_ISOLATION: Code = Code(905);
pub(crate) const CAPTURE_IMPLICIT: Code = Code(906);
pub(crate) const CAPTURED_EVENT: Code = Code(907);
pub(crate) const WRONG_THREAD: Code = Code(908);

pub(crate) type Done<T> = Result<T, Code>;

#[derive(Debug, Default)]
pub(crate) struct Gpu {
    pub(crate) peers: BTreeSet<usize>,
    pub(crate) dead: Option<Code>,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) gpu: usize,
    pub(crate) blocking: bool,
    /// What the next thing comes after.
    pub(crate) after: Vec<u64>,
    pub(crate) capture: Option<u64>,
    pub(crate) captured: Vec<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) gpu: usize,
    pub(crate) timing: bool,
    pub(crate) recorded: bool,
    pub(crate) after: Vec<u64>,
    /// Simulated seconds at the host when it was recorded.
    pub(crate) since: f64,
    pub(crate) captured: Option<(u64, Vec<usize>)>,
}

#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) gpu: usize,
    pub(crate) module: Arc<shim::Module>,
}

#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) module: usize,
    pub(crate) gpu: usize,
    pub(crate) code: Arc<shim::Module>,
    pub(crate) name: String,
    pub(crate) dynamic: u32,
}

#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) plan: Arc<Plan>,
    pub(crate) last: Vec<u64>,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) machine: FakeMachine,
    pub(crate) started: bool,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) arena: Arena,
    pub(crate) shadow: Option<Shadow>,
    pub(crate) handles: usize,
    pub(crate) streams: BTreeMap<usize, Stream>,
    pub(crate) events: BTreeMap<usize, Event>,
    pub(crate) modules: BTreeMap<usize, Loaded>,
    pub(crate) functions: BTreeMap<usize, Function>,
    pub(crate) graphs: BTreeMap<usize, Graph>,
    /// Of each node's handle: its graph and its place.
    pub(crate) nodes: BTreeMap<usize, (usize, usize)>,
    pub(crate) execs: BTreeMap<usize, Exec>,
    pub(crate) captures: BTreeMap<u64, Capture>,
    pub(crate) schedule: Schedule,
    pub(crate) history: History,
    pub(crate) counters: Counters,
    pub(crate) faults: Vec<Fault>,
    pub(crate) report: Option<String>,
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

/// The world, if there is one.
pub(crate) fn world() -> MutexGuard<'static, Option<World>> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something in the world, and gives the code of the driver's interface.
pub(crate) fn with(act: impl FnOnce(&mut World) -> Done<()>) -> u32 {
    let mut world = world();
    let Some(world) = world.as_mut() else { return NOT_INITIALIZED.0 };
    act(world).map_or_else(|c| c.0, |()| 0)
}

/// The handle of a GPU's context, and that of its own stream.
pub(crate) fn context_of(gpu: usize) -> usize {
    0x1000 + 16 * gpu
}

pub(crate) fn own_stream(gpu: usize) -> usize {
    0x2000 + 16 * gpu
}

impl World {
    pub(crate) fn new(machine: FakeMachine) -> Self {
        let own = |gpu| Stream { gpu, blocking: true, after: Vec::new(), capture: None, captured: Vec::new() };
        Self {
            schedule: Schedule::new(machine.seed),
            machine,
            started: false,
            gpus: (0..GPUS).map(|_| Gpu::default()).collect(),
            arena: Arena::new(),
            shadow: None,
            handles: 0x10000,
            streams: (0..GPUS).map(|gpu| (own_stream(gpu), own(gpu))).collect(),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            graphs: BTreeMap::new(),
            nodes: BTreeMap::new(),
            execs: BTreeMap::new(),
            captures: BTreeMap::new(),
            history: History::default(),
            counters: Counters::default(),
            faults: Vec::new(),
            report: None,
        }
    }

    /// Another machine, with all handles and memory that are still held.
    pub(crate) fn reset(&mut self, machine: FakeMachine) {
        self.schedule.clear();
        self.schedule.reseed(machine.seed);
        self.history.clear();
        self.machine = machine;
        self.gpus = (0..GPUS).map(|_| Gpu::default()).collect();
        self.counters = Counters::default();
        self.faults.clear();
        self.report = None;
        self.captures.clear();
        for stream in self.streams.values_mut() {
            stream.capture = None;
            stream.captured.clear();
            stream.after.clear();
        }
    }

    pub(crate) fn handle(&mut self) -> usize {
        self.handles += 16;
        self.handles
    }

    pub(crate) fn instrument(&self) -> Instrument {
        if self.machine.check == Check::Races { Instrument::Accesses } else { Instrument::Nothing }
    }

    /// Keeps what is wrong; the first report stays.
    pub(crate) fn tell(&mut self, text: String) {
        self.report.get_or_insert(text);
    }

    /// Keeps which rule a call breaks; the code that it ends with.
    pub(crate) fn refuse(&mut self, what: &str, rule: &str) -> Code {
        self.tell(format!("{what}: {rule}"));
        INVALID_VALUE
    }

    /// Whether a GPU is there and alive.
    pub(crate) fn alive(&self, gpu: usize) -> Done<()> {
        if gpu >= self.machine.gpus {
            return Err(INVALID_DEVICE);
        }
        self.gpus[gpu].dead.map_or(Ok(()), Err)
    }

    /// Whether it is the turn of a fault that `is` finds the number of.
    pub(crate) fn strikes(&mut self, is: impl Fn(&mut Fault) -> Option<&mut u64>) -> bool {
        let mut struck = None;
        for (n, fault) in self.faults.iter_mut().enumerate() {
            if let Some(left) = is(fault) {
                if *left == 0 {
                    struck = Some(n);
                    break;
                }
                *left -= 1;
            }
        }
        struck.map(|n| self.faults.remove(n)).is_some()
    }

    /// Memory is given back: what it was used for is done, or it is used after that.
    pub(crate) fn forget(&mut self, range: &Range<u64>) {
        self.history.forget(range);
    }
}
