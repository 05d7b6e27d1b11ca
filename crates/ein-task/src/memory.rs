//! The memory plan: from lifetimes to slots in one arena per device.
//!
//! A value lives from its task to the last of its readers. A slot that is used again makes its new task wait
//! for the readers of the old value, so every order that the graph allows is right.

use crate::ancestors::Ancestors;
use crate::machine::{DeviceId, DeviceKind, Machine};
use crate::task::{Slot, TaskGraph, TaskId};
use crate::units::Bytes;
use ein_ir::region::Region;
use std::collections::{BTreeMap, BTreeSet};

/// Alignment of slots.
pub const ALIGN: u64 = 64;

/// How many tensors an error lists.
const LISTED: usize = 5;

/// A device's memory does not suffice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name} ({device}) needs {needed} but has {available}; the largest tensors at its peak are {list}; {smallest} on \
     every device would do",
    list = largest.iter().map(|(t, b)| format!("`{t}` ({b})")).collect::<Vec<_>>().join(", ")
)]
pub struct NotEnough {
    /// The device that lacks most.
    pub device: DeviceId,
    /// Its name.
    pub name: String,
    /// Bytes of its arena.
    pub needed: Bytes,
    /// Bytes it may use.
    pub available: Bytes,
    /// The largest tensors that live there when most bytes are live, largest first.
    pub largest: Vec<(String, Bytes)>,
    /// The least memory per device that suffices for this plan on all devices.
    pub smallest: Bytes,
}

/// Gives every value a slot, adds the waits that reuse needs, and sets the arenas. Parameters and state come
/// first and keep their slots from run to run.
pub fn plan_memory(graph: &mut TaskGraph) {
    plan(graph, None, None);
}

/// [`plan_memory`] of task graphs that are run in turn in the same arenas: parameters and states of equal names and regions
/// have equal slots in all of them, and where a graph lacks one its slot is left alone.
pub fn plan_memory_together(graphs: &mut [TaskGraph]) {
    let devices = graphs.iter().map(|g| g.devices).max().unwrap_or(0);
    let mut residents: Vec<Resident> = vec![Resident::default(); devices];
    for graph in &*graphs {
        for (id, task) in graph.rows() {
            let Some(external) = graph.fed(id).filter(|e| e.is_resident()) else { continue };
            let Resident { slots, end } = &mut residents[task.device.index()];
            let bytes = slot_bytes(graph, id.index());
            slots.entry((external.name.clone(), task.value.region.clone())).or_insert_with(|| {
                *end += bytes;
                Slot { offset: *end - bytes, bytes }
            });
        }
    }
    for graph in graphs {
        plan(graph, None, Some(&residents));
    }
}

/// Where a device keeps what is resident in several graphs.
#[derive(Clone, Default)]
struct Resident {
    /// By name and region.
    slots: BTreeMap<(String, Region), Slot>,
    end: u64,
}

/// [`plan_memory`] where memory is not scarce: a slot is used again only where its new task starts after the readers
/// of the old value anyway, as long as the device's memory, or a limit below it, suffices. So reuse makes
/// nothing wait, and arenas are larger.
pub fn plan_memory_apart(graph: &mut TaskGraph, machine: &Machine, limit: Option<Bytes>) {
    let room = |d: usize| available(machine, limit, d).0;
    let rooms: Vec<u64> = (0..graph.devices).map(room).collect();
    plan(graph, Some(&rooms), None);
}

fn plan(graph: &mut TaskGraph, rooms: Option<&[u64]>, residents: Option<&[Resident]>) {
    let readers = graph.readers();
    for task in &mut graph.tasks {
        task.after.clear();
        task.slot = Slot::default();
    }
    let devices = graph.devices;
    let device = |d: usize| plan_device(graph, d, &readers, rooms.map(|r| r[d]), residents.map(|r| &r[d]));
    graph.arenas = (0..devices).map(device).collect();
}

/// Plans one device: nothing of another is in its arena.
fn plan_device(
    graph: &mut TaskGraph,
    d: usize,
    readers: &[Vec<TaskId>],
    room: Option<u64>,
    resident: Option<&Resident>,
) -> Bytes {
    let device = DeviceId(d as u16);
    let own: Vec<TaskId> = graph.rows().filter(|(_, t)| t.device == device).map(|(id, _)| id).collect();
    let ancestors = room.map(|room| (room, Ancestors::of(graph, device)));
    let mut arena = Arena::default();
    // Rows whose memory is there before them, because something else is left in it: what to wait for.
    let mut early: BTreeMap<TaskId, BTreeSet<TaskId>> = BTreeMap::new();
    for &id in &own {
        let Some(external) = graph.fed(id).filter(|e| e.is_resident()) else { continue };
        let common = resident.map(|r| r.slots[&(external.name.clone(), graph.task(id).value.region.clone())]);
        let slot = common.unwrap_or_else(|| arena.extend(slot_bytes(graph, id.index())));
        graph.tasks[id.index()].slot = slot;
    }
    arena.end = arena.end.max(resident.map_or(0, |r| r.end));
    for &id in &own {
        let n = id.index();
        let bytes = slot_bytes(graph, n);
        if !is_resident(graph, id) && bytes > 0 {
            let owner = owner(graph, readers, id);
            if let Some(guards) = early.get(&owner).cloned() {
                graph.tasks[n].slot = graph.tasks[owner.index()].slot;
                graph.tasks[n].after = waits(graph, id, guards);
            } else {
                let writers = writers(graph, owner);
                let apart = ancestors.as_ref().and_then(|(room, ancestors)| {
                    arena.place_apart(bytes, *room, |guard| writers.iter().all(|w| ancestors.is_before(guard, *w)))
                });
                let (slot, guards) = apart.unwrap_or_else(|| arena.place(bytes));
                graph.tasks[n].slot = slot;
                graph.tasks[n].after = waits(graph, id, guards.clone());
                if owner != id {
                    graph.tasks[owner.index()].slot = slot;
                    early.insert(owner, guards);
                }
            }
        }
        // What nobody reads any more is free from here on, what nobody will ever read at once.
        let mut over: BTreeSet<usize> = BTreeSet::new();
        if readers[n].is_empty() {
            over.insert(n);
        }
        let last_of = |read: &&TaskId| readers[read.index()].last() == Some(&id);
        over.extend(graph.tasks[n].reads.iter().filter(last_of).map(|r| r.index()));
        for v in over {
            let slot = graph.tasks[v].slot;
            if graph.tasks[v].within.is_none()
                && graph.tasks[v].device == device
                && !is_resident(graph, TaskId(v as u32))
                && slot.bytes > 0
            {
                let guards = if readers[v].is_empty() { vec![TaskId(v as u32)] } else { readers[v].clone() };
                arena.release(slot, guards);
            }
        }
    }
    Bytes(arena.end)
}

/// The most bytes that live at once on every device when its tasks run in row order: no plan needs less.
pub fn peak(graph: &TaskGraph) -> Vec<Bytes> {
    (0..graph.devices).map(|d| live_peak(graph, DeviceId(d as u16)).0).collect()
}

/// Checks a planned graph against the machine's memory and a limit below it.
pub fn check_capacity(graph: &TaskGraph, machine: &Machine, limit: Option<Bytes>) -> Result<(), NotEnough> {
    let available = |d: usize| available(machine, limit, d);
    let lacking = |d: usize| graph.arenas[d].0.saturating_sub(available(d).0);
    let worst = (0..graph.arenas.len()).rev().max_by_key(|&d| lacking(d)).filter(|&d| lacking(d) > 0);
    let Some(d) = worst else { return Ok(()) };
    let device = DeviceId(d as u16);
    let (_, live) = live_peak(graph, device);
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for id in live {
        *by_name.entry(graph.label(id)).or_default() += slot_bytes(graph, id.index());
    }
    let mut largest: Vec<(String, Bytes)> = by_name.into_iter().map(|(n, b)| (n.to_string(), Bytes(b))).collect();
    largest.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    largest.truncate(LISTED);
    Err(NotEnough {
        device,
        name: machine.devices.get(d).map_or("a device that the machine lacks", |d| &d.name).to_string(),
        needed: graph.arenas[d],
        available: available(d),
        largest,
        smallest: fullest(graph, machine),
    })
}

/// Bytes left beside the arena of the device that computes and has least left: below 0 where one lacks some.
pub fn left(graph: &TaskGraph, machine: &Machine, limit: Option<Bytes>) -> i64 {
    let left = |d: DeviceId| available(machine, limit, d.index()).0 as i64 - graph.arenas[d.index()].0 as i64;
    machine.workers().iter().filter(|d| d.index() < graph.arenas.len()).map(left).min().unwrap_or_default()
}

/// The largest arena of the devices that compute.
pub fn fullest(graph: &TaskGraph, machine: &Machine) -> Bytes {
    let workers = machine.workers();
    let computing = graph.arenas.iter().enumerate().filter(|(d, _)| workers.contains(DeviceId(*d as u16)));
    computing.map(|(_, &bytes)| bytes).max().unwrap_or_default()
}

/// What a device may use. A limit is one on devices that compute, not on a host's memory.
fn available(machine: &Machine, limit: Option<Bytes>, device: usize) -> Bytes {
    let Some(device) = machine.devices.get(device) else { return Bytes(0) };
    let limit = limit.filter(|_| device.kind != DeviceKind::Host);
    limit.map_or(device.memory, |limit| limit.min(device.memory))
}

fn is_resident(graph: &TaskGraph, id: TaskId) -> bool {
    graph.fed(id).is_some_and(crate::task::External::is_resident)
}

/// Bytes of the slot of a task's value, or of what that is written into.
fn slot_bytes(graph: &TaskGraph, n: usize) -> u64 {
    let task = &graph.tasks[n];
    (task.value.form.layout(task.stored()).1 as u64).next_multiple_of(ALIGN)
}

/// The row in whose memory a row leaves its value in the end: itself, or its only reader, or that one's.
pub(crate) fn owner(graph: &TaskGraph, readers: &[Vec<TaskId>], mut id: TaskId) -> TaskId {
    while graph.task(id).within.is_some() {
        let [reader] = readers[id.index()][..] else { break };
        id = reader;
    }
    id
}

/// The tasks that write into the memory of one: itself, and what is left within it.
fn writers(graph: &TaskGraph, id: TaskId) -> Vec<TaskId> {
    let mut found = vec![id];
    let mut next = 0;
    while let Some(&writer) = found.get(next) {
        found.extend(graph.task(writer).reads.iter().filter(|r| graph.task(**r).within.is_some()));
        next += 1;
    }
    found
}

/// The most live bytes of a device in row order, and what lives then.
fn live_peak(graph: &TaskGraph, device: DeviceId) -> (Bytes, Vec<TaskId>) {
    let mut last: Vec<usize> = (0..graph.tasks.len()).collect();
    let mut first: Vec<usize> = (0..graph.tasks.len()).collect();
    for (id, task) in graph.rows() {
        for read in &task.reads {
            last[read.index()] = id.index();
        }
        let within = task.reads.iter().filter(|r| graph.task(**r).within.is_some());
        if let Some(writer) = within.map(|r| first[r.index()]).min() {
            first[id.index()] = writer;
        }
    }
    // Values by the row from which on they live; what is left in another's memory is part of that.
    let own = |id: &TaskId| graph.task(*id).device == device && graph.task(*id).within.is_none();
    let mut begin: BTreeMap<usize, Vec<TaskId>> = BTreeMap::new();
    let mut live: BTreeSet<TaskId> = BTreeSet::new();
    for id in graph.rows().map(|(id, _)| id).filter(own) {
        if is_resident(graph, id) {
            live.insert(id);
        } else {
            begin.entry(first[id.index()]).or_default().push(id);
        }
    }
    let resident = live.clone();
    let sum = |ids: &mut dyn Iterator<Item = TaskId>| ids.map(|v| slot_bytes(graph, v.index())).sum::<u64>();
    let mut now: u64 = sum(&mut live.iter().copied());
    let (mut most, mut at_most) = (now, None);
    for (id, task) in graph.rows().filter(|(_, t)| t.device == device) {
        now += sum(&mut begin.get(&id.index()).into_iter().flatten().copied());
        if now > most {
            (most, at_most) = (now, Some(id));
        }
        let mut over: BTreeSet<TaskId> = task.reads.iter().copied().filter(|r| last[r.index()] == id.index()).collect();
        if last[id.index()] == id.index() {
            over.insert(id);
        }
        over.retain(|v| own(v) && !resident.contains(v));
        now -= sum(&mut over.into_iter());
    }
    if let Some(at) = at_most {
        let lives = |id: &TaskId| own(id) && first[id.index()] <= at.index() && last[id.index()] >= at.index();
        live.extend(graph.rows().map(|(id, _)| id).filter(lives));
    }
    (Bytes(most), live.into_iter().collect())
}

/// The guards that `task` does not wait for anyway, because it or another guard reads them.
fn waits(graph: &TaskGraph, task: TaskId, guards: BTreeSet<TaskId>) -> Vec<TaskId> {
    let reads = &graph.task(task).reads;
    let implied: BTreeSet<TaskId> = reads
        .iter()
        .chain(&guards)
        .flat_map(|&t| graph.task(t).reads.iter().chain(&graph.task(t).after))
        .chain(reads)
        .copied()
        .collect();
    guards.into_iter().filter(|g| !implied.contains(g)).collect()
}

/// A device's arena while slots are given out.
#[derive(Default)]
struct Arena {
    end: u64,
    /// Free ranges: offset to bytes; no two touch.
    free: BTreeMap<u64, u64>,
    /// What last was in free ranges: offset to (bytes, the tasks to wait for); disjoint.
    ghosts: BTreeMap<u64, (u64, Vec<TaskId>)>,
}

impl Arena {
    /// A slot at the end.
    fn extend(&mut self, bytes: u64) -> Slot {
        let offset = self.end;
        self.end += bytes;
        Slot { offset, bytes }
    }

    /// The smallest free range that fits, the first of equals; else at the end, from the free range there.
    fn place(&mut self, bytes: u64) -> (Slot, BTreeSet<TaskId>) {
        let fit = self.free.iter().filter(|f| *f.1 >= bytes).min_by_key(|f| *f.1).map(|(&o, &b)| (o, b));
        let slot = if let Some((offset, room)) = fit {
            self.free.remove(&offset);
            if room > bytes {
                self.free.insert(offset + bytes, room - bytes);
            }
            Slot { offset, bytes }
        } else {
            let tail = self.free.iter().next_back().map(|(&o, &b)| (o, b)).filter(|(o, b)| o + b == self.end);
            if let Some((offset, _)) = tail {
                self.free.remove(&offset);
                self.end = offset;
            }
            self.extend(bytes)
        };
        (slot, self.wake(slot))
    }

    /// The smallest free range with room between what is not `over`, the first of equals; else at the end, if that is
    /// within `room`.
    fn place_apart(
        &mut self,
        bytes: u64,
        room: u64,
        over: impl Fn(TaskId) -> bool,
    ) -> Option<(Slot, BTreeSet<TaskId>)> {
        let within = |(&offset, &length): (&u64, &u64)| {
            let mut at = offset;
            for (&ghost, (bytes_there, tasks)) in self.ghosts.range(offset..offset + length) {
                if ghost - at.min(ghost) >= bytes {
                    break;
                }
                if !tasks.iter().all(|&t| over(t)) {
                    at = ghost + bytes_there;
                }
            }
            (at + bytes <= offset + length).then_some((length, at, offset))
        };
        let Some((length, at, offset)) = self.free.iter().filter(|f| *f.1 >= bytes).filter_map(within).min() else {
            return (self.end + bytes <= room).then(|| (self.extend(bytes), BTreeSet::new()));
        };
        self.free.remove(&offset);
        if at > offset {
            self.free.insert(offset, at - offset);
        }
        if at + bytes < offset + length {
            self.free.insert(at + bytes, offset + length - at - bytes);
        }
        let slot = Slot { offset: at, bytes };
        Some((slot, self.wake(slot)))
    }

    /// Takes the ghosts out of a range, leaving what lies beside it.
    fn wake(&mut self, slot: Slot) -> BTreeSet<TaskId> {
        let (lo, hi) = (slot.offset, slot.offset + slot.bytes);
        let mut hit: Vec<u64> = self.ghosts.range(lo..hi).map(|g| *g.0).collect();
        hit.extend(self.ghosts.range(..lo).next_back().filter(|(o, g)| *o + g.0 > lo).map(|g| *g.0));
        let mut guards = BTreeSet::new();
        for offset in hit {
            let (bytes, tasks) = self.ghosts.remove(&offset).expect("found above");
            guards.extend(&tasks);
            if offset < lo {
                self.ghosts.insert(offset, (lo - offset, tasks.clone()));
            }
            if offset + bytes > hi {
                self.ghosts.insert(hi, (offset + bytes - hi, tasks));
            }
        }
        guards
    }

    fn release(&mut self, slot: Slot, guards: Vec<TaskId>) {
        self.ghosts.insert(slot.offset, (slot.bytes, guards));
        let (mut offset, mut bytes) = (slot.offset, slot.bytes);
        if let Some((&before, &room)) = self.free.range(..offset).next_back()
            && before + room == offset
        {
            self.free.remove(&before);
            (offset, bytes) = (before, bytes + room);
        }
        if let Some(room) = self.free.remove(&(offset + bytes)) {
            bytes += room;
        }
        self.free.insert(offset, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task_text::{parse, print};

    /// Rows of `u8` vectors on one device: `feed N`, `paste N reads ...`, `output reads ...`.
    fn graph(rows: &str) -> TaskGraph {
        let head = "devices 1\nexternal 0 parameter \"w\" u8[64]\nexternal 1 input \"x\" u8[64]\n\
                    output 0 \"y\" u8[64]\nlabel 0 \"a\"\nlabel 1 \"b\"\n";
        parse(&format!("{head}{rows}"), &[]).expect("the rows are right")
    }

    fn check(rows: &str, slots: &[&str], arena: u64) {
        let mut graph = graph(rows);
        plan_memory(&mut graph);
        let line = |t: &crate::task::Task| {
            let after: Vec<String> = t.after.iter().map(ToString::to_string).collect();
            format!("{}+{} {}", t.slot.offset, t.slot.bytes, after.join(" ")).trim().to_string()
        };
        assert_eq!(graph.tasks.iter().map(line).collect::<Vec<_>>(), slots, "{rows}");
        assert_eq!(graph.arenas, [Bytes(arena)], "{rows}");
        let again = parse(&print(&graph), &[]).expect("it was printed");
        assert_eq!(again, graph);
    }

    /// Two devices: what is received for a paste lies in its slot from the first piece on, which is used for nothing
    /// else meanwhile, and every piece waits for what was there before.
    #[test]
    fn pieces_are_received_in_place() {
        let text = "devices 2\nexternal 0 input \"x\" u8[128]\nlabel 0 \"a\"\n\
                    t0 d0 feed x0 -> [0:128] u8 of 0\nt1 d0 cut reads t0 -> [0:64] u8 of 0\n\
                    t2 d1 feed x0 -> [0:64] u8 of 0\nt3 d1 send d0 reads t2 -> [0:32] nothing of 0\n\
                    t4 d0 receive d1 reads t3 -> [0:32] u8 of 0\nt5 d0 cut reads t1 -> [0:8] u8 of 0\n\
                    t6 d1 send d0 reads t2 -> [32:64] nothing of 0\nt7 d0 receive d1 reads t6 -> [32:64] u8 of 0\n\
                    t8 d0 cut reads t1 -> [8:16] u8 of 0\nt9 d0 paste reads t4 t7 -> [0:64] u8 of 0\n\
                    t10 d0 paste reads t9 -> [0:64] u8 of 0";
        let mut graph = parse(text, &[]).expect("the rows are right");
        graph.leave_in_place();
        plan_memory(&mut graph);
        let slots: Vec<u64> =
            graph.rows().filter(|(_, t)| t.device == DeviceId(0)).map(|(_, t)| t.slot.offset).collect();
        // x | its half | - the pieces where x was, beside them the cuts | the last paste where the half was.
        let after = |n: usize| graph.tasks[n].after.clone();
        assert_eq!((graph.tasks[4].slot, graph.tasks[7].slot), (graph.tasks[9].slot, graph.tasks[9].slot), "{slots:?}");
        assert_eq!(slots, [0, 128, 0, 64, 0, 64, 0, 64], "{}", print(&graph));
        assert_eq!((after(4), after(7), after(9)), (vec![TaskId(1)], vec![TaskId(1)], vec![]), "{}", print(&graph));
        assert_eq!(peak(&graph)[0], Bytes(192));
        assert_eq!(graph.arenas[0], Bytes(192));
        assert_eq!(crate::verify::verify(&graph), Ok(()));
        assert_eq!(parse(&print(&graph), &[]).expect("it was printed"), graph);
        // A piece that does not wait for what was there would be received on top of it.
        let mut hasty = graph.clone();
        hasty.tasks[7].after.clear();
        let error = crate::verify::verify(&hasty).expect_err("t7 does not wait").to_string();
        assert!(error.contains("t7") && error.contains("reuses memory of t0"), "{error}");
        // Where what was there has no room to wait for, pieces get room of their own.
        let machine = crate::machine::Machine::by_name("2xcpu").expect("it ships");
        plan_memory_apart(&mut graph, &machine, None);
        assert!(graph.tasks.iter().all(|t| t.after.is_empty()), "{}", print(&graph));
        assert_eq!(graph.tasks[7].slot, graph.tasks[9].slot);
    }

    /// What a reshape alone reads, and shows as it lies, is left in its memory, through a paste and what is received for it.
    #[test]
    fn reshapes_are_left_in_place() {
        let mut g = ein_ir::graph::Graph::new();
        let ty = ein_ir::graph::TensorType::new(ein_ir::dtype::DType::U8, [64]);
        let x = g.input("x", ein_ir::op::InputKind::Input, ty).expect("a name");
        let square = g.view("v", ein_ir::view::View::Reshape { shape: vec![8, 8] }, &[x]).expect("64 elements");
        let ops = [crate::task::OpRow::of(&g, square)];
        let text = |view: &str| {
            format!(
                "devices 2\nexternal 0 input \"x\" u8[64]\nop 0 \"v\"\noutput 0 \"y\" u8[8,8]\nlabel 0 \"a\"\n\
                 t0 d0 feed x0 -> [0:32] u8 of 0\nt1 d1 feed x0 -> [32:64] u8 of 0\n\
                 t2 d1 send d0 reads t1 -> [32:64] nothing of 0\nt3 d0 receive d1 reads t2 -> [32:64] u8 of 0\n\
                 t4 d0 paste reads t0 t3 -> [0:64] u8 of 0\n{view}"
            )
        };
        let left = |view: &str| {
            let mut graph = parse(&text(view), &ops).expect("the rows are right");
            graph.leave_in_place();
            plan_memory(&mut graph);
            assert_eq!(parse(&print(&graph), &ops).expect("it was printed"), graph);
            graph
        };
        let whole = "t5 d0 view op0 inputs 0 reads t4 -> [0:8,0:8] u8 of 0\n\
                     t6 d0 output o0 reads t5 -> [0:8,0:8] nothing of 0";
        let graph = left(whole);
        assert_eq!(crate::verify::verify(&graph), Ok(()));
        let within = |n: usize| graph.tasks[n].within.as_ref().map(ToString::to_string);
        assert_eq!([3, 4, 5].map(within), [Some("[0:64]".into()), Some("[0:8,0:8]".into()), None]);
        assert_eq!((graph.tasks[3].slot, graph.tasks[4].slot), (graph.tasks[5].slot, graph.tasks[5].slot));
        assert_eq!((graph.arenas[0], peak(&graph)[0]), (Bytes(128), Bytes(128)), "{}", print(&graph));
        // In another place nothing would be shown.
        let mut elsewhere = graph.clone();
        elsewhere.tasks[5].slot = elsewhere.tasks[0].slot;
        let error = crate::verify::verify(&elsewhere).expect_err("t4 is not where t5 is").to_string();
        assert!(error.contains("t4") && error.contains("nor a reshape of all of it"), "{error}");
        // What comes in, or is received, for a reshape is brought where that is; a parameter has a slot of its own for good.
        let brought = |kind: &str| {
            let text = format!(
                "devices 2\nexternal 0 {kind} \"x\" u8[64]\nop 0 \"v\"\noutput 0 \"y\" u8[8,8]\nlabel 0 \"a\"\n\
                 t0 d0 feed x0 -> [0:64] u8 of 0\nt1 d0 view op0 inputs 0 reads t0 -> [0:8,0:8] u8 of 0\n\
                 t2 d1 feed x0 -> [0:64] u8 of 0\nt3 d1 send d0 reads t2 -> [0:32] nothing of 0\n\
                 t4 d0 receive d1 reads t3 -> [0:32] u8 of 0\nt5 d0 view op0 inputs 0 reads t4 -> [0:4,0:8] u8 of 0\n\
                 t6 d0 output o0 reads t1 -> [0:8,0:8] nothing of 0\nt7 d0 cut reads t5 -> [0:1,0:8] u8 of 0"
            );
            let mut graph = parse(&text, &ops).expect("the rows are right");
            graph.leave_in_place();
            plan_memory(&mut graph);
            assert_eq!(crate::verify::verify(&graph), Ok(()), "{kind}");
            graph
        };
        let graph = brought("input");
        let [feed, receive] = [0, 4].map(|n| &graph.tasks[n]);
        assert_eq!((feed.slot, receive.slot), (graph.tasks[1].slot, graph.tasks[5].slot), "{}", print(&graph));
        assert_eq!(
            (receive.within.as_ref(), receive.stored()),
            (Some(&graph.tasks[5].value.region), &receive.value.region)
        );
        assert_eq!(graph.arenas[0], Bytes(128), "{}", print(&graph));
        for kind in ["parameter", "state"] {
            let graph = brought(kind);
            assert_eq!(graph.tasks[0].within, None, "{kind}");
            assert_ne!(graph.tasks[0].slot, graph.tasks[1].slot, "{kind}");
        }
        // Of what is shown in part, or has another reader, a copy is made.
        for apart in [
            "t5 d0 view op0 inputs 0 reads t4 -> [0:4,0:8] u8 of 0",
            "t5 d0 view op0 inputs 0 reads t4 -> [0:8,0:8] u8 of 0\nt6 d0 cut reads t4 -> [0:9] u8 of 0",
        ] {
            let graph = left(apart);
            assert_eq!(graph.tasks[4].within, None, "{apart}");
            assert_ne!(graph.tasks[4].slot.offset, graph.tasks[5].slot.offset, "{apart}");
        }
    }

    #[test]
    fn slots() {
        // A chain needs two slots; the third value waits for the reader of the first, which it reads.
        check(
            "t0 d0 feed x1 -> [0:64] u8 of 0\nt1 d0 paste reads t0 -> [0:64] u8 of 0\n\
             t2 d0 paste reads t1 -> [0:64] u8 of 0\nt3 d0 output o0 reads t2 -> [0:64] nothing of 0",
            &["0+64", "64+64", "0+64", "0+0"],
            128,
        );
        // Parameters come first and stay, wherever their row is.
        check(
            "t0 d0 feed x1 -> [0:9] u8 of 0\nt1 d0 paste reads t0 -> [0:9] u8 of 0\n\
             t2 d0 feed x0 -> [0:64] u8 of 0\nt3 d0 paste reads t2 -> [0:64] u8 of 0\n\
             t4 d0 output o0 reads t3 -> [0:64] nothing of 0",
            &["64+64", "128+64", "0+64", "64+64 t1", "0+0"],
            192,
        );
        // A value nobody reads is free at once, but its writer must be done; two small make room for a large.
        check(
            "t0 d0 feed x1 -> [0:64] u8 of 0\nt1 d0 feed x1 -> [0:64] u8 of 0\n\
             t2 d0 paste -> [0:128] u8 of 1\nt3 d0 paste reads t2 -> [0:8] u8 of 1",
            &["0+64", "0+64 t0", "0+128 t1", "128+64"],
            192,
        );
        // The smallest hole that fits is taken.
        check(
            "t0 d0 paste -> [0:128] u8 of 0\nt1 d0 paste -> [0:64] u8 of 0\nt2 d0 paste -> [0:64] u8 of 0\n\
             t3 d0 paste -> [0:64] u8 of 0\n\
             t4 d0 output o0 reads t0 t2 -> [0:64] nothing of 0\nt5 d0 paste -> [0:64] u8 of 0\n\
             t6 d0 output o0 reads t1 t3 -> [0:64] nothing of 0\nt7 d0 output o0 reads t5 -> [0:64] nothing of 0",
            &["0+128", "128+64", "192+64", "256+64", "0+0", "192+64 t4", "0+0", "0+0"],
            320,
        );
    }

    #[test]
    fn apart() {
        let check = |rows: &str, room: u64, slots: &[&str]| {
            let mut graph = graph(rows);
            let machine = crate::machine::Machine::by_name("2xcpu").expect("it ships");
            plan_memory_apart(&mut graph, &machine, Some(Bytes(room)));
            let line = |t: &crate::task::Task| {
                let after: Vec<String> = t.after.iter().map(ToString::to_string).collect();
                format!("{}+{} {}", t.slot.offset, t.slot.bytes, after.join(" ")).trim().to_string()
            };
            assert_eq!(graph.tasks.iter().map(line).collect::<Vec<_>>(), slots, "{rows}");
        };
        // A chain uses again what its own past left.
        let chain = "t0 d0 feed x1 -> [0:64] u8 of 0\nt1 d0 paste reads t0 -> [0:64] u8 of 0\n\
                     t2 d0 paste reads t1 -> [0:64] u8 of 0\nt3 d0 output o0 reads t2 -> [0:64] nothing of 0";
        check(chain, 1000, &["0+64", "64+64", "0+64", "0+0"]);
        // What is over without t3 knowing is left alone while there is room, and waited for when there is none. t5
        // knows that both are over and takes the place of both.
        let two = "t0 d0 paste -> [0:64] u8 of 0\nt1 d0 paste reads t0 -> [0:64] u8 of 0\n\
                   t2 d0 output o0 reads t1 -> [0:64] nothing of 0\nt3 d0 paste -> [0:64] u8 of 0\n\
                   t4 d0 paste reads t3 t2 -> [0:8] u8 of 0\nt5 d0 paste reads t4 -> [0:128] u8 of 0";
        check(two, 1000, &["0+64", "64+64", "0+0", "128+64", "0+64", "64+128"]);
        check(two, 128, &["0+64", "64+64", "0+0", "0+64 t1", "64+64", "128+128"]);
    }

    #[test]
    fn not_enough_names_the_largest_and_what_would_do() {
        let mut graph = graph(
            "t0 d0 feed x0 -> [0:64] u8 of 0\nt1 d0 paste reads t0 -> [0:128] u8 of 1\n\
             t2 d0 paste reads t1 -> [0:64] u8 of 1",
        );
        plan_memory(&mut graph);
        assert_eq!(peak(&graph), [Bytes(256)]);
        let machine = crate::machine::Machine::by_name("2xcpu").expect("it ships");
        assert_eq!(check_capacity(&graph, &machine, None), Ok(()));
        assert_eq!(check_capacity(&graph, &machine, Some(Bytes(256))), Ok(()));
        let lacks = check_capacity(&graph, &machine, Some(Bytes(200))).expect_err("64 + 192 bytes live");
        assert_eq!((lacks.needed, lacks.available, lacks.smallest), (Bytes(256), Bytes(200), Bytes(256)));
        assert_eq!(lacks.largest, [("b".to_string(), Bytes(192)), ("a".to_string(), Bytes(64))]);
        let message = lacks.to_string();
        assert!(message.contains("`b` (192 B)") && message.contains("256 B on every device would do"), "{message}");
    }
}
