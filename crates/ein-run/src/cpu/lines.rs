//! Left factors that several parts of one product read: what a thread made of one for a part, it has for the next.
//!
//! Parts that are columns of a result multiply the same left factor. It is put in order once by every thread that does some
//! of them, not once for every part.

use super::buffer::Room;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which rows of a left factor, of all that this process ever multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    run: u64,
    first: usize,
}

/// A time in which a row of a task graph is done, part by part.
#[derive(Clone, Copy)]
pub(crate) struct Run(u64);

thread_local! {
    /// The run of the part that this thread does, if its parts read one left factor; 0 if not.
    static RUN: Cell<u64> = const { Cell::new(0) };
}

impl Run {
    /// One that there was not before.
    pub(crate) fn new() -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(1);
        Self(RUNS.fetch_add(1, Ordering::Relaxed))
    }

    /// Does a part of it.
    pub(crate) fn part<T>(self, part: impl FnOnce() -> T) -> T {
        struct Before(u64);
        impl Drop for Before {
            fn drop(&mut self) {
                RUN.set(self.0);
            }
        }
        let _before = Before(RUN.replace(self.0));
        part()
    }
}

impl Name {
    /// Of the left factor's rows from `first` on, on this thread; `None` where no other part reads them.
    pub(crate) fn of(first: usize) -> Option<Self> {
        let run = RUN.get();
        (run != 0).then_some(Self { run, first })
    }

    /// Whether other parts read the left factors of this thread.
    pub(crate) fn shared() -> bool {
        RUN.get() != 0
    }
}

/// Rows that were copied side by side, and which they are.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) data: Room,
    pub(crate) name: Option<Name>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_one_run() {
        let (first, second) = (Run::new(), Run::new());
        let names = first.part(|| [Name::of(0), Name::of(7), second.part(|| Name::of(0)), Name::of(0)]);
        assert_eq!(names[0], names[3]);
        assert!(names.iter().all(Option::is_some) && names[0] != names[1] && names[0] != names[2]);
        assert!(Name::of(0).is_none() && !Name::shared());
    }
}
