//! What a run does, made ready once: for every row, where it reads and writes, and who waits for it.

use crate::cpu::Prepared;
use crate::cpu::boxes::{BoxCopy, FieldsCopy};
use crate::cpu::constants::Tables;
use crate::cpu::packing::Packing;
use crate::error::Cause;
use crate::failure::Failure;
use crate::lent::{Place, Span};
use crate::replicas::Replicas;
use crate::schedule::is_resident;
use ein_ir::op::InputKind;
use ein_task::machine::{Device, Machine};
use ein_task::price::{fused_seconds, kernel_seconds, local_seconds, touch_seconds};
use ein_task::task::{Task, TaskGraph, TaskId, Verb};
use ein_task::units::Seconds;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// The steps of a run. Both halves of a move are one: it copies from one arena to the other, as if no message were
/// buffered, which the task graph was verified for.
pub(crate) struct Steps {
    /// Those after which most remains to be done come first.
    pub(crate) all: Vec<Step>,
    /// What steps read, one after the other.
    reads: Vec<Place>,
    /// The steps that wait for each step, one after the other.
    then: Vec<u32>,
    /// The most values that one reads.
    pub(crate) most_reads: usize,
    /// How many pastes something is received for where they want it.
    pub(crate) pastes: usize,
    /// The rows that are done once, before any run: feeds of parameters.
    pub(crate) resident: Vec<TaskId>,
    /// Which parameters are packed after they are loaded.
    pub(crate) packing: Packing,
    /// Which parameters are the same memory.
    pub(crate) replicas: Replicas,
    /// The externals that are read where the caller has them: their places are of devices behind the graph's, in this order.
    pub(crate) borrowed: Vec<usize>,
}

/// One row, or both halves of a move.
pub(crate) struct Step {
    /// The row; of a move, the receiving half.
    pub(crate) task: u32,
    pub(crate) does: Does,
    /// What it writes.
    pub(crate) own: Place,
    reads: Range<usize>,
    /// How many steps it waits for.
    pub(crate) waits: u32,
    then: Range<usize>,
}

/// What a step does.
pub(crate) enum Does {
    /// Computes.
    Compute(Box<Prepared>),
    /// Nothing: who reads the part of an external reads it where the caller has it.
    Borrow,
    /// Brings in its part of an external; nothing where that is state and not given again.
    Feed {
        /// Position among the externals.
        external: usize,
        /// From the whole to its part.
        copy: BoxCopy,
    },
    /// Copies from another device's arena.
    Move {
        /// The sending half.
        send: u32,
        /// From the value there to the one here; `None` where they are the same bytes.
        copy: Option<FieldsCopy>,
        /// The paste into whose memory it is received, of [`Steps::pastes`] many.
        paste: Option<usize>,
    },
    /// Hands its part of an output to the caller.
    Output {
        /// Position among the outputs.
        output: usize,
        /// From its part to the whole.
        copy: BoxCopy,
    },
}

impl Steps {
    /// The steps of a graph that has been verified.
    pub(crate) fn new(graph: &TaskGraph) -> Result<Self, Failure> {
        let resident: Vec<TaskId> = graph.rows().filter(|(_, t)| is_resident(graph, t)).map(|(id, _)| id).collect();
        // Of every row the row that stands for it: of both halves of a move the receiving one.
        let mut stands: Vec<usize> = (0..graph.tasks.len()).collect();
        for (id, task) in graph.rows() {
            if let Verb::Receive { .. } = task.verb {
                stands[task.reads[0].index()] = id.index();
            }
        }
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); graph.tasks.len()];
        for (id, task) in graph.rows().filter(|(_, t)| !is_resident(graph, t)) {
            let own = stands[id.index()];
            let waits = task.reads.iter().chain(&task.after).filter(|t| !is_resident(graph, graph.task(**t)));
            before[own].extend(waits.map(|t| stands[t.index()]).filter(|&t| t != own));
        }
        for before in &mut before {
            before.sort_unstable();
            before.dedup();
        }
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); graph.tasks.len()];
        for (row, before) in before.iter().enumerate() {
            for &b in before {
                after[b].push(row);
            }
        }
        let lengths = lengths(graph, &before, &after);
        let mut rows: Vec<usize> = graph
            .rows()
            .filter(|(id, t)| stands[id.index()] == id.index() && !is_resident(graph, t))
            .map(|r| r.0.index())
            .collect();
        rows.sort_by(|&a, &b| lengths[b].total_cmp(&lengths[a]).then(a.cmp(&b)));
        let mut place = vec![0; graph.tasks.len()];
        for (n, &row) in rows.iter().enumerate() {
            place[row] = n as u32;
        }
        let packing = Packing::of(graph);
        let replicas = Replicas::of(graph, &resident, &packing);
        let mut steps = Self {
            all: Vec::new(),
            reads: Vec::new(),
            then: Vec::new(),
            most_reads: 0,
            pastes: 0,
            resident,
            packing,
            replicas,
            borrowed: Vec::new(),
        };
        let (mut pastes, mut tables) = (BTreeMap::new(), Tables::default());
        for row in rows {
            // What is received for a paste is read by it alone.
            let within = matches!(graph.tasks[row].verb, Verb::Receive { .. }) && graph.tasks[row].within.is_some();
            let owner = after[row].iter().find(|&&a| within && reads(graph, a, row));
            let paste = owner.map(|&owner| {
                let count = pastes.len();
                *pastes.entry(owner).or_insert(count)
            });
            let step =
                steps.step(graph, row, paste, &mut tables).map_err(|cause| Failure { task: row as u32, cause })?;
            let from = steps.then.len();
            steps.then.extend(after[row].iter().map(|&a| place[a]));
            let (waits, then) = (before[row].len() as u32, from..steps.then.len());
            steps.all.push(Step { waits, then, ..step });
        }
        steps.pastes = pastes.len();
        Ok(steps)
    }

    /// What a step reads.
    pub(crate) fn reads(&self, step: &Step) -> &[Place] {
        &self.reads[step.reads.clone()]
    }

    /// The steps that wait for a step.
    pub(crate) fn then(&self, step: &Step) -> &[u32] {
        &self.then[step.then.clone()]
    }

    /// The position of an external among those that are borrowed.
    fn borrow(&mut self, external: usize) -> usize {
        self.borrowed.iter().position(|&e| e == external).unwrap_or_else(|| {
            self.borrowed.push(external);
            self.borrowed.len() - 1
        })
    }

    fn step(
        &mut self,
        graph: &TaskGraph,
        row: usize,
        paste: Option<usize>,
        tables: &mut Tables,
    ) -> Result<Step, Cause> {
        let task = &graph.tasks[row];
        let place = |task: &Task| {
            let (offset, bytes) = (task.slot.offset as usize, task.value.form.layout(task.stored()).1);
            Place { device: task.device.index(), span: Span { offset, bytes } }
        };
        let mut reader = task;
        let does = match &task.verb {
            Verb::Feed { .. } if borrowed(graph, task).is_some() => Does::Borrow,
            Verb::Feed { external } => Does::Feed { external: *external, copy: copied(graph, *external, task) },
            Verb::Output { output } => {
                let ty = &graph.outputs[*output].1;
                let (from, region) = (&graph.task(task.reads[0]).value.region, &task.value.region);
                Does::Output { output: *output, copy: BoxCopy::new(from, &ty.whole(), region, ty.dtype.bytes()) }
            }
            Verb::Receive { .. } => {
                let send = task.reads[0];
                reader = graph.task(send);
                let (source, region, stored) =
                    (&graph.task(reader.reads[0]).value.region, &task.value.region, task.stored());
                let same = source == region && stored == region;
                let copy = (!same).then(|| FieldsCopy::new(&task.value.form, source, stored, region));
                Does::Move { send: send.0, copy, paste }
            }
            Verb::Send { .. } => return Err(Cause::malformed("nobody receives what is sent")),
            Verb::Kernel { .. }
            | Verb::Fused { .. }
            | Verb::View { .. }
            | Verb::Cut
            | Verb::Fold { .. }
            | Verb::Paste => {
                let prepared = Prepared::new(graph, TaskId(row as u32), &self.packing, tables)?;
                Does::Compute(Box::new(prepared))
            }
        };
        let from = self.reads.len();
        for &read in reader.reads.iter().filter(|r| graph.task(**r).within.is_none()) {
            let source = graph.task(self.replicas.home(read));
            let read = match borrowed(graph, source) {
                Some((external, span)) => Place { device: graph.devices + self.borrow(external), span },
                None => place(source),
            };
            self.reads.push(read);
        }
        self.most_reads = self.most_reads.max(self.reads.len() - from);
        Ok(Step { task: row as u32, does, own: place(task), reads: from..self.reads.len(), waits: 0, then: 0..0 })
    }
}

/// The copy of a feed's part of an external.
fn copied(graph: &TaskGraph, external: usize, feed: &Task) -> BoxCopy {
    let (ty, region) = (&graph.externals[external].ty, &feed.value.region);
    BoxCopy::new(&ty.whole(), region, region, ty.dtype.bytes())
}

/// The external that a row feeds and which bytes of it, where it need not be copied: it is no state, which lives in the
/// arena, and the bytes lie in the caller's tensor as they would there.
fn borrowed(graph: &TaskGraph, feed: &Task) -> Option<(usize, Span)> {
    let Verb::Feed { external } = feed.verb else { return None };
    let from = &graph.externals[external];
    let offset = copied(graph, external, feed).line()? * from.ty.dtype.bytes();
    let bytes = feed.value.region.volume() * from.ty.dtype.bytes();
    // A value that is padded is moved with what it is padded with.
    let whole = feed.value.form.layout(&feed.value.region).1 == bytes && feed.within.is_none();
    (from.kind == InputKind::Input && whole).then_some((external, Span { offset, bytes }))
}

/// Whether row `reader` reads row `read`.
fn reads(graph: &TaskGraph, reader: usize, read: usize) -> bool {
    graph.tasks[reader].reads.contains(&TaskId(read as u32))
}

/// Seconds from the beginning of every row to the end of the last that waits for it, directly or not, as the price list
/// has them: an order, no promise.
fn lengths(graph: &TaskGraph, before: &[Vec<usize>], after: &[Vec<usize>]) -> Vec<f64> {
    let machine = Machine::by_name("1xcpu").expect("it ships");
    let device = &machine.devices[0];
    let mut open: Vec<usize> = after.iter().map(Vec::len).collect();
    let mut ready: Vec<usize> = (0..open.len()).filter(|&n| open[n] == 0).collect();
    let mut lengths = vec![0.0; open.len()];
    while let Some(row) = ready.pop() {
        let rest = after[row].iter().map(|&a| lengths[a]).fold(0.0, f64::max);
        lengths[row] = rest + seconds(graph, device, row);
        for &b in &before[row] {
            open[b] -= 1;
            if open[b] == 0 {
                ready.push(b);
            }
        }
    }
    lengths
}

fn seconds(graph: &TaskGraph, device: &Device, row: usize) -> f64 {
    let task = &graph.tasks[row];
    let bytes = task.value.bytes().0 as f64;
    let seconds = match &task.verb {
        Verb::Kernel { op, labels, .. } => match &graph.ops[*op].spec {
            Some(spec) => kernel_seconds(device, spec, labels),
            None => touch_seconds(device, bytes),
        },
        Verb::Fused { stages } => {
            let stages: Option<Vec<_>> =
                stages.iter().map(|s| Some((graph.ops[s.op].spec.as_ref()?, &s.labels))).collect();
            stages.map_or(touch_seconds(device, bytes), |stages| fused_seconds(device, &stages))
        }
        Verb::Fold { .. } => touch_seconds(device, (task.reads.len() + 1) as f64 * bytes),
        Verb::View { .. } if task.reads.iter().any(|&r| graph.task(r).within.is_some()) => Seconds(0.0),
        Verb::Feed { .. } | Verb::View { .. } | Verb::Cut | Verb::Receive { .. } | Verb::Paste => {
            local_seconds(device, bytes)
        }
        Verb::Output { output } => {
            let element = graph.outputs[*output].1.dtype.bytes();
            local_seconds(device, (task.value.region.volume() * element) as f64)
        }
        Verb::Send { .. } => local_seconds(device, 0.0),
    };
    seconds.0
}

/// An order of steps: the place of each.
pub(crate) fn drawn(steps: usize, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut keyed: Vec<(u64, u32)> = (0..steps as u32).map(|n| (crate::messages::splitmix(&mut state), n)).collect();
    keyed.sort_unstable_by_key(|&(key, n)| Reverse((key, n)));
    let mut places = vec![0; steps];
    for (place, (_, n)) in keyed.into_iter().enumerate() {
        places[n as usize] = place as u32;
    }
    places
}
