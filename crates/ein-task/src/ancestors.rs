//! Which tasks of a device are surely over when another task starts.

use crate::machine::DeviceId;
use crate::task::{TaskGraph, TaskId};

/// For every task, the tasks of one device that it waits for, directly or not. Reads count, and nothing else: what
/// waits for memory is decided with the help of this.
pub(crate) struct Ancestors {
    /// The place of each task among those of the device.
    places: Vec<Option<usize>>,
    words: usize,
    /// `words` for every task.
    bits: Vec<u64>,
}

impl Ancestors {
    /// Those of `device`.
    pub(crate) fn of(graph: &TaskGraph, device: DeviceId) -> Self {
        let mut count = 0;
        let place = |own: bool, count: &mut usize| {
            own.then(|| {
                *count += 1;
                *count - 1
            })
        };
        let places: Vec<Option<usize>> = graph.tasks.iter().map(|t| place(t.device == device, &mut count)).collect();
        let words = count.div_ceil(64);
        let mut bits = vec![0; words * graph.tasks.len()];
        for (n, task) in graph.tasks.iter().enumerate() {
            let (before, own) = bits.split_at_mut(n * words);
            for read in task.reads.iter().map(|r| r.index()) {
                for (word, from) in own[..words].iter_mut().zip(&before[read * words..]) {
                    *word |= from;
                }
                if let Some(place) = places[read] {
                    own[place / 64] |= 1 << (place % 64);
                }
            }
        }
        Self { places, words, bits }
    }

    /// Whether `earlier`, of the device, is over when `task` starts.
    pub(crate) fn is_before(&self, earlier: TaskId, task: TaskId) -> bool {
        let place = self.places[earlier.index()].expect("a task of the device");
        self.bits[task.index() * self.words + place / 64] >> (place % 64) & 1 == 1
    }
}
