//! What goes from one device's memory to another's.

use super::making::Making;
use super::{Block, Sites, Work};
use crate::copies::{Lines, Pitch, of_value};
use ein_task::task::{TaskGraph, TaskId, Verb};

/// The receiving halves that need not be done: a fold alone reads what they bring, and can read it where it is. It is
/// folded as it arrives, and nothing is written in between.
pub(super) fn readable(graph: &TaskGraph, sites: &Sites) -> Vec<TaskId> {
    let readers = graph.readers();
    let fits = |id: TaskId| {
        let task = graph.task(id);
        let [reader] = readers[id.index()][..] else { return false };
        let source = graph.task(graph.task(task.reads[0]).reads[0]);
        matches!(task.verb, Verb::Receive { .. })
            && matches!(graph.task(reader).verb, Verb::Fold { .. })
            && task.within.is_none()
            && source.within.is_none()
            && source.value == task.value
            && sites.reaches(task.device.index(), source.device.index())
    };
    graph
        .rows()
        .map(|(id, _)| id)
        .filter(|id| matches!(graph.task(*id).verb, Verb::Receive { .. }) && fits(*id))
        .collect()
}

impl Making<'_> {
    /// A move: out of the value that is sent, to where it is received.
    pub(super) fn receive(&mut self, id: TaskId, waits: &[usize]) -> Vec<usize> {
        let task = self.graph.task(id);
        let source = self.graph.task(self.graph.task(task.reads[0]).reads[0]);
        let (from, to) = (source.device.index(), task.device.index());
        let begin = [source, task].map(|t| t.slot.offset);
        let copies = of_value(&task.value.form, source.stored(), task.stored(), &task.value.region);
        let copies = copies.into_iter().map(|lines| shifted(lines, begin));
        if self.sites.reaches(to, from) || self.sites.reaches(from, to) || self.sites.devices[to].host {
            // Who reaches the other's memory copies; of both the reader.
            let by = if self.sites.devices[to].host || !self.sites.reaches(to, from) { from } else { to };
            let by = if self.sites.devices[by].host { to } else { by };
            let (from, to) = (Block::Device(from), Block::Device(to));
            return copies.map(|lines| self.push(Some(id), by, Work::Copy { from, to, lines }, waits)).collect();
        }
        // Through the host's memory, where it lies packed.
        let relay = |lines: Lines| {
            let at = self.host(lines.bytes());
            let packed = Pitch { offset: at, pitch: lines.width, lines: lines.lines };
            let (out, back) = (Lines { to: packed, ..lines }, Lines { from: packed, ..lines });
            let (from, host, to_block) = (Block::Device(from), Block::Host, Block::Device(to));
            let first = self.push(Some(id), source.device.index(), Work::Copy { from, to: host, lines: out }, waits);
            self.push(Some(id), to, Work::Copy { from: host, to: to_block, lines: back }, &[first])
        };
        copies.map(relay).collect()
    }
}

/// Lines of values as lines of the blocks in which the values begin so many bytes in.
fn shifted(lines: Lines, [from, to]: [u64; 2]) -> Lines {
    let at = |p: Pitch, by: u64| Pitch { offset: p.offset + by, ..p };
    Lines { from: at(lines.from, from), to: at(lines.to, to), ..lines }
}
