//! What instrumented kernels touched.

use super::compile;
use std::ops::Range;

/// A range of addresses, of which every access by instrumented kernels is noted.
#[derive(Debug)]
pub(crate) struct Shadow {
    base: u64,
    take: super::library_ffi::Take,
}

/// What one launch touched: ordered, disjoint ranges of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) read: Vec<Range<u64>>,
    pub(crate) written: Vec<Range<u64>>,
}

impl Shadow {
    /// Watches a range of addresses; the runtime can watch one.
    pub(crate) fn new(base: u64, bytes: u64) -> Result<Self, String> {
        Ok(Self { base, take: compile::runtime()?.watch(base, bytes)? })
    }

    /// What was touched since the last call.
    pub(crate) fn take(&self) -> Touched {
        let mut touched = Touched::default();
        for written in [false, true] {
            let into = if written { &mut touched.written } else { &mut touched.read };
            self.take.call(written, &mut |first, bytes| {
                let range = self.base + first..self.base + first + bytes;
                match into.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => into.push(range),
                }
            });
        }
        touched
    }
}
