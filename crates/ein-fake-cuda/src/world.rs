//! All that the fake driver knows, and how what was given to it happens.

use crate::arena_ffi::{Arena, GPUS};
use crate::graph::{Capture, Graph};
use crate::machine::{Check, Counters, FakeMachine, Fault, Side};
use crate::races::{History, Who};
use crate::schedule::{Plan, Schedule};
use crate::shim::shadow::{Shadow, Touched};
use crate::shim::{self, Instrument};
use crate::work::{Kernel, Node, Work};
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
    /// Microseconds since the start, at the record.
    pub(crate) time: u64,
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
    shadow: Option<Shadow>,
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
    history: History,
    pub(crate) counters: Counters,
    pub(crate) faults: Vec<Fault>,
    pub(crate) report: Option<String>,
    pub(crate) clock: std::time::Instant,
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
            clock: std::time::Instant::now(),
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

    /// Lets things happen until all these have, and tells what made them fail.
    pub(crate) fn wait(&mut self, batches: &[u64]) -> Done<()> {
        while !self.schedule.done(batches) {
            let Some((who, node)) = self.schedule.pick() else { break };
            match self.happen(who, &node) {
                Ok(()) => self.schedule.finish(who),
                Err(code) => {
                    let mut dead = self.schedule.fail(who, code.0);
                    dead.insert(node.gpu);
                    for gpu in dead {
                        self.gpus[gpu].dead.get_or_insert(code);
                    }
                }
            }
        }
        let failure = self.schedule.failure(batches);
        if self.schedule.known(batches) {
            self.history.clear();
        }
        failure.map_or(Ok(()), |c| Err(Code(c)))
    }

    fn happen(&mut self, who: Who, node: &Node) -> Done<()> {
        self.alive(node.gpu)?;
        let works = !matches!(node.work, Work::Nothing | Work::Call(..));
        let gpu = node.gpu;
        let lost = works
            && self.strikes(|f| match f {
                Fault::Lost { gpu: of, after } if *of == gpu => Some(after),
                _ => None,
            });
        if lost {
            self.gpus[gpu].dead = Some(UNAVAILABLE);
            self.tell(format!("GPU {gpu} is lost at {node}"));
            return Err(UNAVAILABLE);
        }
        match &node.work {
            Work::Kernel(kernel) => return self.kernel(who, node, kernel),
            Work::Copy(c) if c.bytes() > 0 => {
                self.counters.copies += 1;
                let side = |at| self.arena.side(at).unwrap_or(Side::Host);
                *self.counters.copied.entry((side(c.from.at), side(c.to.at))).or_default() += c.bytes();
            }
            Work::Given { bytes, to } => {
                self.counters.copies += 1;
                let to = self.arena.side(*to).unwrap_or(Side::Host);
                *self.counters.copied.entry((Side::Host, to)).or_default() += bytes.len() as u64;
            }
            Work::Set { .. } => self.counters.sets += 1,
            Work::Product(_) => self.counters.products += 1,
            _ => {}
        }
        let [read, written] = node.work.touches();
        if self.machine.check >= Check::Bounds {
            self.bounds(node, &read, &written)?;
        }
        node.work.run();
        if self.machine.check == Check::Races {
            let touched = Touched { read, written };
            if matches!(node.work, Work::Product(_)) {
                self.reach(node.gpu, &touched);
            }
            self.races(who, node, &touched)?;
        }
        Ok(())
    }

    fn bounds(&mut self, node: &Node, read: &[Range<u64>], written: &[Range<u64>]) -> Done<()> {
        for range in read.iter().chain(written) {
            if !self.arena.has(range.start) {
                continue; // Memory of the host that the driver does not know.
            }
            let (at, bytes) = (range.start, range.end - range.start);
            let side = match self.arena.find(at, bytes) {
                Ok(block) => block.side,
                Err(text) => {
                    self.tell(format!("{node}: {text}"));
                    return Err(ILLEGAL_ADDRESS);
                }
            };
            let by_name = matches!(&node.work, Work::Copy(c) if c.peer);
            if let Side::Gpu(owner) = side
                && !by_name
                && !self.reaches(node.gpu, owner)
            {
                self.tell(format!(
                    "{node}: {bytes} bytes at {at:#x} are of GPU {owner}, which GPU {} has no access to",
                    node.gpu
                ));
                return Err(PEER_NOT_ENABLED);
            }
        }
        Ok(())
    }

    fn reaches(&self, gpu: usize, owner: usize) -> bool {
        gpu == owner || self.gpus[gpu].peers.contains(&owner)
    }

    /// Counts what a GPU touched of others' memory.
    fn reach(&mut self, gpu: usize, touched: &Touched) {
        for (written, ranges) in [(false, &touched.read), (true, &touched.written)] {
            for range in ranges {
                let Some(side) = self.arena.side(range.start) else { continue };
                if side != Side::Gpu(gpu) {
                    let key = if written { (Side::Gpu(gpu), side) } else { (side, Side::Gpu(gpu)) };
                    *self.counters.reached.entry(key).or_default() += range.end - range.start;
                }
            }
        }
    }

    fn races(&mut self, who: Who, node: &Node, touched: &Touched) -> Done<()> {
        let schedule = &self.schedule;
        let mut before = |a: Who| schedule.ordered(a, who);
        for (writes, ranges) in [(false, &touched.read), (true, &touched.written)] {
            for range in ranges.iter().filter(|r| self.arena.has(r.start)) {
                let Some(race) = self.history.touch(who, writes, range, &mut before) else { continue };
                let place = self.arena.block(race.range.start).map_or_else(String::new, |b| {
                    format!(
                        ", byte {} of the {} bytes at {:#x} of {:?}",
                        race.range.start - b.at,
                        b.bytes,
                        b.at,
                        b.side
                    )
                });
                let text = format!(
                    "race: {node} {} {} bytes at {:#x}{place}, which {} {}; nothing orders the two",
                    if writes { "writes" } else { "reads" },
                    race.range.end - race.range.start,
                    race.range.start,
                    schedule.name(race.earlier),
                    if race.earlier_writes { "writes" } else { "reads" },
                );
                self.tell(text);
                return Err(ILLEGAL_STATE);
            }
        }
        Ok(())
    }

    fn kernel(&mut self, who: Who, node: &Node, kernel: &Kernel) -> Done<()> {
        self.counters.kernels += 1;
        if self.strikes(|f| if let Fault::Launch(left) = f { Some(left) } else { None }) {
            self.tell(format!("{node} fails, as it was told to"));
            return Err(LAUNCH_FAILED);
        }
        let checked = self.machine.check;
        let hidden: Vec<Side> = if checked == Check::None {
            Vec::new()
        } else {
            let apart = (0..self.machine.gpus).filter(|&g| !self.reaches(node.gpu, g));
            apart.map(Side::Gpu).filter(|s| self.arena.used(*s) > 0).collect()
        };
        if checked == Check::Races && self.shadow.is_none() {
            match self.arena.watch() {
                Ok(shadow) => self.shadow = Some(shadow),
                Err(text) => {
                    self.tell(text);
                    return Err(OUT_OF_MEMORY);
                }
            }
        }
        self.arena.hide(&hidden, true);
        let seed = self.schedule.random(usize::MAX) as u64;
        let Kernel { module, name, grid, block, shared, args } = kernel;
        let ran = module.launch_bytes(name, *grid, *block, *shared, args, seed);
        self.arena.hide(&hidden, false);
        let touched = match &self.shadow {
            Some(shadow) if checked == Check::Races => shadow.take(),
            _ => Touched::default(),
        };
        if let Err(text) = ran {
            let address = text.rsplit_once("at 0x").and_then(|(_, a)| u64::from_str_radix(a, 16).ok());
            let (place, code) = match address.filter(|&a| text.contains("not allocated") && self.arena.has(a)) {
                Some(a) if self.arena.find(a, 1).is_ok() => (
                    format!(" ({}, which GPU {} has no access to)", self.arena.describe(a), node.gpu),
                    PEER_NOT_ENABLED,
                ),
                Some(a) => (format!(" ({})", self.arena.describe(a)), ILLEGAL_ADDRESS),
                None if text.contains("not allocated") => (String::new(), ILLEGAL_ADDRESS),
                None => (String::new(), LAUNCH_FAILED),
            };
            self.tell(format!("{node}: {text}{place}"));
            return Err(code);
        }
        if checked == Check::Races {
            self.bounds(node, &touched.read, &touched.written)?;
            self.reach(node.gpu, &touched);
            self.races(who, node, &touched)?;
        }
        Ok(())
    }

    /// Memory is given back: what it was used for is done, or it is used after that.
    pub(crate) fn forget(&mut self, range: &Range<u64>) {
        self.history.forget(range);
    }
}
