//! Nodes, row by row.

use super::moves;
use super::{ALIGN, Address, Block, FAULT, LANES, Node, Nodes, Passage, Programs, Sites, Staged, Staging, Value, Work};
use crate::copies::Lines;
use crate::program::{Arg, Base, Matmul, Place, Program, Step};
use crate::rows::{Rows, is_resident};
use ein_ir::op::InputKind;
use ein_run::cpu::boxes::BoxCopy;
use ein_run::{Cause, RunError};
use ein_task::task::{Slot, TaskGraph, TaskId, Verb};
use std::collections::BTreeMap;
use std::ops::Range;

/// A product with few blocks is done in parts that are summed: so many, each of which has f32 for every element.
const PARTS: u64 = 16;

/// Nodes that are being made.
pub(super) struct Making<'a> {
    pub(super) graph: &'a TaskGraph,
    pub(super) sites: &'a Sites,
    rows: &'a Rows,
    pub(super) nodes: Nodes,
    /// The programs of rows that compute and are not made yet.
    programs: Vec<Option<Program>>,
    /// For every row, the nodes after which it is done.
    ends: Vec<Vec<usize>>,
    devices: Vec<Device>,
}

/// What a device has besides its arena.
#[derive(Clone, Debug)]
struct Device {
    /// Where the fault records are, and the rows that have one, each its own: so that rows which may report at once need
    /// not wait for one another.
    fault: u64,
    records: BTreeMap<TaskId, u64>,
    /// Where scratch memory begins, and how many bytes each lane has: as many as the row that needs most, and as the next.
    scratch: u64,
    lanes: [u64; LANES],
    /// The last node of the row that used each lane before, and whose turn it is.
    users: [Option<usize>; LANES],
    turn: usize,
    /// The node that clears the fault records, and those that may write them.
    cleared: Option<usize>,
    reporting: Vec<usize>,
}

impl Device {
    /// Makes room for a row with so much scratch memory.
    fn needs(&mut self, mut bytes: u64) {
        for lane in &mut self.lanes {
            (*lane, bytes) = ((*lane).max(bytes), bytes.min(*lane));
        }
    }

    /// The lane for a row with so much scratch memory: the one whose turn it is, or the first that is large enough.
    fn lane(&self, bytes: u64) -> usize {
        if bytes <= self.lanes[self.turn] { self.turn } else { 0 }
    }
}

impl<'a> Making<'a> {
    pub(super) fn new(
        graph: &'a TaskGraph,
        sites: &'a Sites,
        rows: &'a Rows,
        programs: Programs<'_>,
    ) -> Result<Self, RunError> {
        let device = |bytes: &ein_task::units::Bytes| {
            let (fault, records, reporting) = (bytes.0.next_multiple_of(ALIGN), BTreeMap::new(), Vec::new());
            Device {
                fault,
                records,
                scratch: 0,
                lanes: [0; LANES],
                users: [None; LANES],
                turn: 0,
                cleared: None,
                reporting,
            }
        };
        let mut devices: Vec<Device> = graph.arenas.iter().map(device).collect();
        let mut all = vec![None; graph.tasks.len()];
        for &id in &rows.order {
            let task = graph.task(id);
            let computes = match &task.verb {
                Verb::Feed { .. } | Verb::Output { .. } | Verb::Receive { .. } | Verb::Send { .. } => false,
                Verb::Kernel { .. }
                | Verb::Fused { .. }
                | Verb::View { .. }
                | Verb::Cut
                | Verb::Fold { .. }
                | Verb::Paste => true,
            };
            if computes {
                let target = &sites.devices[task.device.index()].target;
                let program = programs(graph, id, target).map_err(|cause| RunError::task(graph, id.0, cause))?;
                let device = &mut devices[task.device.index()];
                device.needs(scratch(&program, sites.workspace).1);
                if program.steps.iter().any(reports) {
                    let before = device.records.len() as u64;
                    device.records.insert(id, before);
                }
                all[id.index()] = Some(program);
            }
        }
        for device in &mut devices {
            device.scratch = (device.fault + FAULT * device.records.len() as u64).next_multiple_of(ALIGN);
        }
        let nodes = Nodes {
            devices: devices.iter().map(|d| d.scratch + d.lanes.iter().sum::<u64>()).collect(),
            in_place: graph.rows().map(|(id, _)| id).filter(|id| rows.is_in_place(graph, *id)).collect(),
            ..Nodes::default()
        };
        Ok(Self { graph, sites, rows, nodes, programs: all, ends: vec![Vec::new(); graph.tasks.len()], devices })
    }

    /// Adds the nodes of a row.
    pub(super) fn row(&mut self, id: TaskId) -> Result<(), Cause> {
        let before = &self.rows.before[id.index()];
        let mut waits: Vec<usize> = before.iter().flat_map(|b| self.ends[b.index()].iter().copied()).collect();
        waits.sort_unstable();
        waits.dedup();
        let graph = self.graph;
        let ends = match (self.programs[id.index()].take(), &graph.task(id).verb) {
            (Some(program), _) => self.program(id, program, &waits),
            (None, Verb::Feed { external }) => self.feed(id, *external, &waits),
            (None, Verb::Output { output }) => self.output(id, *output, &waits),
            (None, Verb::Receive { .. }) => self.receive(id, &waits)?,
            (
                None,
                Verb::Send { .. }
                | Verb::Kernel { .. }
                | Verb::Fused { .. }
                | Verb::View { .. }
                | Verb::Cut
                | Verb::Fold { .. }
                | Verb::Paste,
            ) => return Err(Cause::malformed("nobody receives what is sent")),
        };
        // What has nothing to do is done when what it waits for is.
        self.ends[id.index()] = if ends.is_empty() { waits } else { ends };
        Ok(())
    }

    /// Adds what fetches the fault records, and hands all nodes over.
    pub(super) fn finish(mut self) -> Nodes {
        for device in 0..self.devices.len() {
            let Device { fault, reporting, records, .. } = &self.devices[device];
            let (fault, reporting, bytes) = (*fault, reporting.clone(), FAULT * records.len() as u64);
            if bytes > 0 {
                let at = self.host(bytes);
                let records = (at..at + bytes).step_by(FAULT as usize).map(|at| at as usize..(at + FAULT) as usize);
                self.nodes.faults.extend(records);
                if self.is_staged(device) {
                    let at = at as usize..(at + bytes) as usize;
                    self.nodes.downloads.push(Staged { device, offset: fault, at });
                    continue;
                }
                let (from, lines) = (Block::Device(device), Lines::plain(fault, at, bytes));
                self.push(None, device, Work::Copy { from, to: Block::Host, lines }, &reporting);
            }
        }
        self.nodes
    }

    fn feed(&mut self, id: TaskId, external: usize, waits: &[usize]) -> Vec<usize> {
        let task = self.graph.task(id);
        let (kind, ty) = (self.graph.externals[external].kind, &self.graph.externals[external].ty);
        let (region, element) = (&task.value.region, ty.dtype.bytes());
        if kind == InputKind::Parameter || region.is_empty() {
            return Vec::new();
        }
        let bytes = (region.volume() * element) as u64;
        let at = self.host(bytes);
        let copy = BoxCopy::new(&ty.whole(), region, region, element);
        let passage = Passage { tensor: external, row: id, copy, at: at as usize..(at + bytes) as usize };
        if is_resident(self.graph, task) {
            self.nodes.states.push(passage);
            return Vec::new();
        }
        let device = task.device.index();
        if self.is_staged(device) && !self.others(device, task.slot, |other| other < id) {
            let staged = Staged { device, offset: task.slot.offset, at: passage.at.clone() };
            if self.others(device, task.slot, |other| other > id) {
                self.nodes.overwritten.push(staged.clone());
            }
            self.nodes.uploads.push(staged);
            self.nodes.inputs.push(passage);
            return Vec::new();
        }
        let (place, staged) = self.staged(device, &passage.at);
        self.nodes.inputs.push(passage);
        self.nodes.uploads.extend(staged);
        let (to, lines) = (Block::Device(device), Lines::plain(place.offset, task.slot.offset, bytes));
        vec![self.push(Some(id), device, Work::Copy { from: place.block, to, lines }, waits)]
    }

    /// Rows of the first axis are consecutive, so whole ones are fetched, and what is wanted of them is handed out.
    fn output(&mut self, id: TaskId, output: usize, waits: &[usize]) -> Vec<usize> {
        let task = self.graph.task(id);
        let read = self.graph.task(task.reads[0]);
        let (ty, region) = (&self.graph.outputs[output].1, &task.value.region);
        let element = ty.dtype.bytes();
        if region.is_empty() {
            return Vec::new();
        }
        let (mut band, mut above) = (read.value.region.clone(), 0);
        if let (Some(rows), Some(wanted)) = (band.0.first_mut(), region.0.first()) {
            above = wanted.lo - rows.lo;
            *rows = *wanted;
            above *= band.volume() / wanted.len();
        }
        let bytes = (band.volume() * element) as u64;
        let at = self.host(bytes);
        let copy = BoxCopy::new(&band, &ty.whole(), region, element);
        let passage = Passage { tensor: output, row: id, copy, at: at as usize..(at + bytes) as usize };
        let device = task.device.index();
        let begin = read.slot.offset + (above * element) as u64;
        if self.is_staged(device) && !self.others(device, read.slot, |other| other > id) {
            self.nodes.downloads.push(Staged { device, offset: begin, at: passage.at.clone() });
            self.nodes.outputs.push(passage);
            return Vec::new();
        }
        let (place, staged) = self.staged(device, &passage.at);
        self.nodes.outputs.push(passage);
        self.nodes.downloads.extend(staged);
        let (from, lines) = (Block::Device(device), Lines::plain(begin, place.offset, bytes));
        vec![self.push(Some(id), device, Work::Copy { from, to: place.block, lines }, waits)]
    }

    /// The steps of a row that computes, one after the other.
    fn program(&mut self, id: TaskId, program: Program, waits: &[usize]) -> Vec<usize> {
        let device = self.graph.task(id).device.index();
        let (begin, bytes) = scratch(&program, self.sites.workspace);
        let own = &mut self.devices[device];
        let (mut waits, lane) = (waits.to_vec(), own.lane(bytes));
        if bytes > 0 {
            own.turn = (lane + 1) % LANES;
            waits.extend(own.users[lane]);
        }
        let mut last = None;
        for step in program.steps {
            let reports = reports(&step);
            let work = self.work(id, step, lane, begin);
            let mut after = last.map_or_else(|| waits.clone(), |last| vec![last]);
            if reports {
                after.push(self.cleared(device));
            }
            let node = self.push(Some(id), device, work, &after);
            if reports {
                self.devices[device].reporting.push(node);
            }
            last = Some(node);
        }
        if bytes > 0 && last.is_some() {
            self.devices[device].users[lane] = last;
        }
        last.into_iter().collect()
    }

    /// A step, with its addresses.
    pub(super) fn work(&self, id: TaskId, step: Step, lane: usize, workspace: u64) -> Work {
        let at = |place: Place| self.address(id, place, lane);
        match step {
            Step::Launch(launch) => {
                let value = |arg: &Arg| match *arg {
                    Arg::Pointer(place) => Value::Address(at(place)),
                    Arg::I64(v) => Value::I64(v),
                    Arg::I32(v) => Value::I32(v),
                    Arg::F32(v) => Value::F32(v),
                    Arg::Map(map) => Value::Map(map, at(map.place)),
                };
                let args = launch.args.iter().map(value).collect();
                let (grid, block, shared) = (launch.grid, launch.block, launch.shared);
                Work::Kernel { kernel: launch.kernel, grid, block, shared, args }
            }
            Step::Matmul(matmul) => {
                let bias = matmul.epilogue.bias.map(at);
                let add = matmul.epilogue.add.map(|m| at(m.place));
                let (workspace, bytes) =
                    (at(Base::Scratch.at(workspace)), workspace_bytes(&matmul, self.sites.workspace));
                Work::Matmul {
                    at: [matmul.a, matmul.b, matmul.c].map(|m| at(m.place)),
                    add,
                    bias,
                    workspace,
                    bytes,
                    matmul: Box::new(matmul),
                }
            }
            Step::Copy { from, to, bytes } => {
                let (from, to) = (at(from), at(to));
                Work::Copy { from: from.block, to: to.block, lines: Lines::plain(from.offset, to.offset, bytes) }
            }
            Step::Zero { at: place, bytes } => Work::Zero { at: at(place), bytes },
        }
    }

    /// Where a row's place is.
    fn address(&self, id: TaskId, place: Place, lane: usize) -> Address {
        let task = self.graph.task(id);
        let own = &self.devices[task.device.index()];
        let (device, begin) = match place.base {
            Base::Own => (task.device, task.slot.offset),
            Base::Read(n) => {
                let mut read = self.graph.task(task.reads[n]);
                let mut offset = 0;
                if self.rows.is_in_place(self.graph, task.reads[n]) {
                    offset = moves::begin(self.graph, task.reads[n]).unwrap_or(0);
                    read = self.graph.task(read.reads[0]);
                }
                // What a sending half reads is what its move reads.
                if let Verb::Send { .. } = read.verb {
                    read = self.graph.task(read.reads[0]);
                }
                (read.device, read.slot.offset + offset)
            }
            Base::Scratch => (task.device, own.scratch + own.lanes[..lane].iter().sum::<u64>()),
            Base::Fault => (task.device, own.fault + FAULT * own.records[&id]),
        };
        Address { block: Block::Device(device.index()), offset: begin + place.offset }
    }

    /// The node that clears a device's fault records.
    fn cleared(&mut self, device: usize) -> usize {
        if let Some(node) = self.devices[device].cleared {
            return node;
        }
        let at = Address { block: Block::Device(device), offset: self.devices[device].fault };
        let bytes = FAULT * self.devices[device].records.len() as u64;
        let node = self.push(None, device, Work::Zero { at, bytes }, &[]);
        self.devices[device].cleared = Some(node);
        node
    }

    /// Adds a node that the GPU of a device does.
    pub(super) fn push(&mut self, row: Option<TaskId>, device: usize, work: Work, after: &[usize]) -> usize {
        let mut after = after.to_vec();
        after.sort_unstable();
        after.dedup();
        self.nodes.all.push(Node { row, gpu: self.sites.devices[device].gpu, work, after });
        self.nodes.all.len() - 1
    }

    /// Whether what a device takes in and gives out is staged in its memory.
    fn is_staged(&self, device: usize) -> bool {
        self.sites.staging == Staging::Device && !self.sites.devices[device].host
    }

    /// Whether one of some rows of a device leaves something in a slot. A row that uses a slot after another waits for the
    /// readers of what was there, and rows look back only: it stands behind them.
    fn others(&self, device: usize, slot: Slot, some: impl Fn(TaskId) -> bool) -> bool {
        let meets = |own: Slot| own.offset < slot.offset + slot.bytes && slot.offset < own.offset + own.bytes;
        let mut rows = self.graph.rows().filter(|(id, task)| task.device.index() == device && some(*id));
        rows.any(|(_, task)| meets(task.slot))
    }

    /// Where a run finds or leaves what lies at `at` in the host's memory before it or after: there, or in room of its own
    /// in the device's memory.
    fn staged(&mut self, device: usize, at: &Range<usize>) -> (Address, Option<Staged>) {
        if !self.is_staged(device) {
            return (Address { block: Block::Host, offset: at.start as u64 }, None);
        }
        let offset = self.nodes.devices[device];
        self.nodes.devices[device] = (offset + at.len() as u64).next_multiple_of(ALIGN);
        (Address { block: Block::Device(device), offset }, Some(Staged { device, offset, at: at.clone() }))
    }

    /// Room in the host's memory.
    pub(super) fn host(&mut self, bytes: u64) -> u64 {
        let at = self.nodes.host;
        self.nodes.host = (at + bytes).next_multiple_of(ALIGN);
        at
    }
}

/// Where a row's workspace for products begins in its scratch memory, and bytes of all of it; a product gets at most `most`.
fn scratch(program: &Program, most: u64) -> (u64, u64) {
    let products = program.steps.iter().filter_map(|step| match step {
        Step::Matmul(m) => Some(workspace_bytes(m, most)),
        Step::Launch(_) | Step::Copy { .. } | Step::Zero { .. } => None,
    });
    let begin = program.scratch.next_multiple_of(ALIGN);
    (begin, (begin + products.max().unwrap_or(0)).next_multiple_of(ALIGN))
}

/// Bytes that the library may use for a product, at most so many.
fn workspace_bytes(m: &Matmul, most: u64) -> u64 {
    let most = most / ALIGN * ALIGN;
    let parts = [m.m, m.n, m.batch].iter().fold(4 * PARTS, |bytes, extent| bytes.saturating_mul(*extent));
    parts.min(most).next_multiple_of(ALIGN)
}

/// Whether a step may report a fault.
fn reports(step: &Step) -> bool {
    match step {
        Step::Launch(l) => l.args.iter().any(|arg| matches!(arg, Arg::Pointer(place) if place.base == Base::Fault)),
        Step::Matmul(_) | Step::Copy { .. } | Step::Zero { .. } => false,
    }
}
