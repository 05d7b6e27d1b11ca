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
    /// Read, also by atomics.
    pub(crate) read: Vec<Range<u64>>,
    /// Written, also by atomics.
    pub(crate) written: Vec<Range<u64>>,
    /// Of these, what atomics (and who is protected by one) touched.
    pub(crate) atomic: Vec<Range<u64>>,
}

impl Shadow {
    /// Watches a range of addresses; the runtime can watch one.
    pub(crate) fn new(base: u64, bytes: u64) -> Result<Self, String> {
        Ok(Self { base, take: compile::runtime()?.watch(base, bytes)? })
    }

    /// What was touched since the last call.
    pub(crate) fn take(&self) -> Touched {
        let mut touched = Touched::default();
        let Touched { read, written, atomic } = &mut touched;
        for (what, into) in [(0, read), (1, written), (2, atomic)] {
            self.take.call(what, &mut |first, bytes| {
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

impl Touched {
    /// What was read, what was written, and what atomics touched, which is in neither of the others.
    pub(crate) fn apart(&self) -> [Vec<Range<u64>>; 3] {
        let (read, mut atomic) = split(&self.read, &self.atomic);
        let (written, more) = split(&self.written, &self.atomic);
        atomic.extend(more);
        [read, written, atomic]
    }
}

/// What of ordered ranges is outside, and what inside, of other ordered ranges.
fn split(ranges: &[Range<u64>], of: &[Range<u64>]) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
    let (mut outside, mut inside) = (Vec::new(), Vec::new());
    let mut first = 0;
    for range in ranges {
        let mut at = range.start;
        while first < of.len() && of[first].end <= at {
            first += 1;
        }
        for other in of[first..].iter().take_while(|o| o.start < range.end) {
            if other.start > at {
                outside.push(at..other.start);
            }
            let end = other.end.min(range.end);
            inside.push(at.max(other.start)..end);
            at = end;
        }
        if at < range.end {
            outside.push(at..range.end);
        }
    }
    (outside, inside)
}

#[cfg(test)]
mod tests {
    use super::{Range, split};

    #[test]
    fn ranges_are_split() {
        let of: Vec<Range<u64>> = vec![2..4, 6..7, 20..30];
        let (outside, inside) = split(&[0..5, 6..10, 21..22, 29..40], &of);
        assert_eq!(outside, [0..2, 4..5, 7..10, 30..40]);
        assert_eq!(inside, [2..4, 6..7, 21..22, 29..30]);
    }
}
