//! Which tasks of a device are surely over when another task starts.

use crate::machine::DeviceId;
use crate::task::{TaskGraph, TaskId};

/// Words of bits for every task: what came this many tasks of the device before it, times 64, is known one by one, and
/// of what came earlier only how far everything is over. In a model of layers that is all there is to know, and takes
/// memory that grows with the tasks instead of with their square.
const WORDS: usize = 16;

/// For every task, the tasks of one device that it waits for, directly or not. Reads count, and nothing else: what
/// waits for memory is decided with the help of this.
pub(crate) struct Ancestors {
    /// The place of each task among those of the device that something reads; nothing for the others.
    places: Vec<Option<usize>>,
    /// For every task, the place before which all are over.
    over: Vec<usize>,
    /// For every task, the first word that is known.
    first: Vec<usize>,
    /// [`WORDS`] for every task.
    bits: Vec<u64>,
}

impl Ancestors {
    /// Those of `device`.
    pub(crate) fn of(graph: &TaskGraph, device: DeviceId) -> Self {
        let count = graph.tasks.len();
        let mut read = vec![false; count];
        graph.tasks.iter().flat_map(|t| &t.reads).for_each(|r| read[r.index()] = true);
        let mut own = Self {
            places: vec![None; count],
            over: vec![0; count],
            first: vec![0; count],
            bits: vec![0; WORDS * count],
        };
        let mut place = 0usize;
        for (n, task) in graph.tasks.iter().enumerate() {
            let first = (place / 64 + 1).saturating_sub(WORDS);
            let (before, bits) = own.bits.split_at_mut(n * WORDS);
            let bits = &mut bits[..WORDS];
            let mut over = 0;
            for read in task.reads.iter().map(|r| r.index()) {
                over = over.max(own.over[read]);
                let from = &before[read * WORDS..][..WORDS];
                let gone = (first - own.first[read]).min(WORDS);
                bits.iter_mut().zip(&from[gone..]).for_each(|(word, from)| *word |= from);
                if let Some(place) = own.places[read].filter(|place| place / 64 >= first) {
                    bits[place / 64 - first] |= 1 << (place % 64);
                }
            }
            // What is over without a gap before it need not be known one by one.
            while over < place && over / 64 >= first && bits[over / 64 - first] >> (over % 64) & 1 == 1 {
                over += 1;
            }
            (own.over[n], own.first[n]) = (over, first);
            if task.device == device
                && read[n]
                && !graph.fed(TaskId(n as u32)).is_some_and(crate::task::External::is_resident)
            {
                own.places[n] = Some(place);
                place += 1;
            }
        }
        own
    }

    /// Whether `earlier`, of the device, is surely over when `task` starts. What nothing reads never is, and of what is
    /// long ago it may not be known.
    pub(crate) fn is_before(&self, earlier: TaskId, task: TaskId) -> bool {
        let Some(place) = self.places[earlier.index()] else { return false };
        let (n, first) = (task.index(), self.first[task.index()]);
        let word = |at: usize| self.bits[n * WORDS + at];
        place < self.over[n]
            || (place / 64).checked_sub(first).is_some_and(|at| at < WORDS && word(at) >> (place % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task_text::parse;

    /// Layers of tasks on two devices: the first of each layer reads all of the layer before, the others its first and some.
    /// One task that the last one alone reads comes before them all, if asked for.
    fn layers(count: usize, width: usize, skip: usize, late: bool) -> TaskGraph {
        let row = |n: usize, reads: &[usize]| {
            let reads: Vec<String> = reads.iter().map(|r| format!(" t{r}")).collect();
            let reads = reads.concat();
            let reads = if reads.is_empty() { reads } else { format!(" reads{reads}") };
            format!("t{n} d{} paste{reads} -> [0:64] u8 of 0\n", n % 2)
        };
        let mut rows = String::from("devices 2\nlabel 0 \"a\"\n");
        let start = usize::from(late) * 2;
        (0..start).for_each(|n| rows.push_str(&row(n, &[])));
        let end = start + count * width;
        for n in start..end {
            let (layer, at) = ((n - start) / width, (n - start) % width);
            let before = start + layer.saturating_sub(1) * width;
            let kept = |m: &usize| at == 0 || *m == 0 || (m * 7 + at + layer).is_multiple_of(skip);
            let reads: Vec<usize> = (0..width).filter(|_| layer > 0).filter(kept).map(|m| before + m).collect();
            rows.push_str(&row(n, &reads));
        }
        if late {
            rows.push_str(&row(end, &[0, 1, end - 1]));
        }
        parse(&rows, &[]).unwrap_or_else(|e| panic!("{e}"))
    }

    /// What is said to be over is an ancestor, and where nothing is read long after it every ancestor is known.
    #[test]
    fn ancestors_are_those_of_the_whole_table() {
        for (count, width, skip, late) in [
            (0, 1, 1, true),
            (3, 4, 2, false),
            (700, 6, 3, false),
            (1, 5, 1, false),
            (300, 11, 5, false),
            (700, 6, 3, true),
        ] {
            let graph = layers(count, width, skip, late);
            let tasks = graph.tasks.len();
            let words = tasks.div_ceil(64);
            let mut all = vec![vec![0u64; words]; tasks];
            for n in 0..tasks {
                for r in graph.tasks[n].reads.iter().map(|r| r.index()) {
                    let (before, own) = all.split_at_mut(n);
                    own[0].iter_mut().zip(&before[r]).for_each(|(a, b)| *a |= b);
                    own[0][r / 64] |= 1 << (r % 64);
                }
            }
            let id = |n: usize| TaskId(n as u32);
            for device in [DeviceId(0), DeviceId(1)] {
                let found = Ancestors::of(&graph, device);
                for (n, own) in all.iter().enumerate().step_by(3) {
                    for m in (0..n).filter(|&m| graph.tasks[m].device == device) {
                        let is = own[m / 64] >> (m % 64) & 1 == 1;
                        let said = found.is_before(id(m), id(n));
                        assert!(if late { is || !said } else { is == said }, "{m} before {n} of {tasks}: {is}");
                    }
                }
            }
        }
    }
}
