//! What goes from one device's memory to another's.

use super::making::Making;
use super::{Address, Block, Sites, Value, Work};
use crate::copies::{Lines, Pitch, of_value};
use crate::generate::{STORING, moved, stores};
use ein_run::Cause;
use ein_task::task::{Task, TaskGraph, TaskId, Verb};

/// Bytes of a line from which on copy engines copy boxes well.
const WIDTH: u64 = 512;
/// Values begin at a multiple of so many bytes, for kernels that read several elements at once.
const ALIGNED: u64 = 16;
/// Most copies of one move.
const COPIES: usize = 4;
/// Most bytes of a move that threads of the sending GPU store, rather than a copy engine, which takes longer to begin than
/// so few bytes take to cross.
const SMALL: u64 = 32 << 10;

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
            && begin(graph, id).is_some()
            && sites.reaches(task.device.index(), source.device.index())
    };
    graph
        .rows()
        .map(|(id, _)| id)
        .filter(|id| matches!(graph.task(*id).verb, Verb::Receive { .. }) && fits(*id))
        .collect()
}

/// Bytes before what is received in the value that it is sent out of, if it lies there as it would here: side by side, and
/// as well aligned as kernels count on.
pub(super) fn begin(graph: &TaskGraph, receive: TaskId) -> Option<u64> {
    let task = graph.task(receive);
    let source = graph.task(graph.task(task.reads[0]).reads[0]);
    if source.value == task.value {
        return Some(0);
    }
    let region = &task.value.region;
    match of_value(&task.value.form, &source.value.region, region, region)[..] {
        [lines] if task.value.form.fields.len() == 1 => {
            let aligned = lines.lines * lines.layers == 1 && lines.from.offset.is_multiple_of(ALIGNED);
            aligned.then_some(lines.from.offset)
        }
        _ => None,
    }
}

impl Making<'_> {
    /// A move: out of the value that is sent, to where it is received.
    pub(super) fn receive(&mut self, id: TaskId, waits: &[usize]) -> Result<Vec<usize>, Cause> {
        let task = self.graph.task(id);
        let source = self.graph.task(self.graph.task(task.reads[0]).reads[0]);
        let (from, to) = (source.device.index(), task.device.index());
        let begin = [source, task].map(|t| t.slot.offset);
        let copies = of_value(&task.value.form, source.stored(), task.stored(), &task.value.region);
        // Who reaches the other's memory does it; of both the one that receives.
        let host = |device: usize| self.sites.devices[device].host;
        let by = [to, from].into_iter().find(|&by| !host(by) && self.sites.reaches(by, from + to - by));
        if let Some(by) = by.or_else(|| (host(from) && host(to)).then_some(to)) {
            if is_scattered(&copies) {
                return self.kernels(id, source, by, waits);
            }
            let stores = |d: usize| !host(d) && self.sites.reaches(d, from + to - d);
            if is_small(&copies) && !host(from) && !host(to) {
                let by = [from, to].into_iter().find(|&d| stores(d)).unwrap_or(by);
                let (from, to) = (Block::Device(from), Block::Device(to));
                let store = |lines| stored(shifted(lines, begin), from, to);
                return Ok(copies.into_iter().map(|lines| self.push(Some(id), by, store(lines), waits)).collect());
            }
            let (from, to) = (Block::Device(from), Block::Device(to));
            let copy = |lines| Work::Copy { from, to, lines: shifted(lines, begin) };
            return Ok(copies.into_iter().map(|lines| self.push(Some(id), by, copy(lines), waits)).collect());
        }
        let copies = copies.into_iter().map(|lines| shifted(lines, begin));
        // Through the host's memory, where it lies packed.
        let relay = |lines: Lines| {
            let at = self.host(lines.bytes());
            let packed = Pitch { offset: at, pitch: lines.width, lines: lines.lines };
            let (out, back) = (Lines { to: packed, ..lines }, Lines { from: packed, ..lines });
            let (from, host, to_block) = (Block::Device(from), Block::Host, Block::Device(to));
            let first = self.push(Some(id), source.device.index(), Work::Copy { from, to: host, lines: out }, waits);
            self.push(Some(id), to, Work::Copy { from: host, to: to_block, lines: back }, &[first])
        };
        Ok(copies.map(relay).collect())
    }

    /// A move by kernels.
    fn kernels(&mut self, id: TaskId, source: &Task, by: usize, waits: &[usize]) -> Result<Vec<usize>, Cause> {
        let program = moved(source, self.graph.task(id))?;
        let mut last: Option<usize> = None;
        for step in program.steps {
            let work = self.work(id, step, 0, 0);
            let after = last.map_or_else(|| waits.to_vec(), |last| vec![last]);
            last = Some(self.push(Some(id), by, work, &after));
        }
        Ok(last.into_iter().collect())
    }
}

/// Whether lines are so short, or copies so many, that a kernel is faster than copy engines.
fn is_scattered(copies: &[Lines]) -> bool {
    copies.len() > COPIES || copies.iter().any(|c| c.lines * c.layers > 1 && c.width < WIDTH)
}

/// Whether there is so little in one piece each that threads are done with it before a copy engine begins.
fn is_small(copies: &[Lines]) -> bool {
    copies.iter().all(|c| c.lines * c.layers == 1) && copies.iter().map(Lines::bytes).sum::<u64>() <= SMALL
}

/// Consecutive bytes, copied by threads: the widest words that both places are multiples of.
fn stored(lines: Lines, from: Block, to: Block) -> Work {
    let (bytes, places) = (lines.width, lines.from.offset | lines.to.offset | lines.width);
    let word = 1 << places.trailing_zeros().min(4);
    let at = |block, offset| Value::Address(Address { block, offset });
    Work::Kernel {
        kernel: stores(word),
        grid: [bytes.div_ceil(word * u64::from(STORING)) as u32, 1, 1],
        block: [STORING, 1, 1],
        shared: 0,
        args: vec![at(to, lines.to.offset), at(from, lines.from.offset), Value::I64((bytes / word) as i64)],
    }
}

/// Lines of values as lines of the blocks in which the values begin so many bytes in.
fn shifted(lines: Lines, [from, to]: [u64; 2]) -> Lines {
    let at = |p: Pitch, by: u64| Pitch { offset: p.offset + by, ..p };
    Lines { from: at(lines.from, from), to: at(lines.to, to), ..lines }
}
