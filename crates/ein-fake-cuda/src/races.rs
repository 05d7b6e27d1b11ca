//! Who touched which memory last, so that what is not ordered shows.

use std::collections::BTreeMap;
use std::ops::Range;

/// A node of a batch of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) batch: u64,
    pub(crate) node: usize,
}

/// A conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Race {
    pub(crate) earlier: Who,
    pub(crate) earlier_writes: bool,
    pub(crate) range: Range<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    end: u64,
    writer: Option<Who>,
    readers: Vec<Who>,
}

/// Segments of addresses by their begin; what is in none was not touched.
#[derive(Debug, Default)]
pub(crate) struct History {
    segments: BTreeMap<u64, Segment>,
}

impl History {
    /// Forgets all: everything before was waited for.
    pub(crate) fn clear(&mut self) {
        self.segments.clear();
    }

    /// Forgets a range, which is given back.
    pub(crate) fn forget(&mut self, range: &Range<u64>) {
        self.cut(range.start);
        self.cut(range.end);
        let keys: Vec<u64> = self.segments.range(range.clone()).map(|(k, _)| *k).collect();
        for key in keys {
            self.segments.remove(&key);
        }
    }

    /// Notes that `who` reads or writes a range; `before(a)` says whether `a` is ordered before it.
    pub(crate) fn touch(
        &mut self,
        who: Who,
        writes: bool,
        range: &Range<u64>,
        before: &mut dyn FnMut(Who) -> bool,
    ) -> Option<Race> {
        if range.is_empty() {
            return None;
        }
        self.cut(range.start);
        self.cut(range.end);
        let mut race = None;
        let mut gaps = Vec::new();
        let mut at = range.start;
        for (&start, segment) in self.segments.range_mut(range.clone()) {
            if start > at {
                gaps.push(at..start);
            }
            at = segment.end;
            let mut conflict = |earlier: Who, earlier_writes: bool| {
                if race.is_none() && earlier != who && !before(earlier) {
                    race = Some(Race { earlier, earlier_writes, range: start..segment.end });
                }
            };
            if let Some(writer) = segment.writer {
                conflict(writer, true);
            }
            if writes {
                for &reader in &segment.readers {
                    conflict(reader, false);
                }
                segment.writer = Some(who);
                segment.readers.clear();
            } else if !segment.readers.contains(&who) {
                // Who is before this one is before everybody that has to come after this one.
                segment.readers.retain(|&r| !before(r));
                segment.readers.push(who);
            }
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        for gap in gaps {
            let (writer, readers) = if writes { (Some(who), Vec::new()) } else { (None, vec![who]) };
            self.segments.insert(gap.start, Segment { end: gap.end, writer, readers });
        }
        race
    }

    /// Makes a segment begin at an address that is inside one.
    fn cut(&mut self, at: u64) {
        let Some((_, segment)) = self.segments.range_mut(..at).next_back() else { return };
        if segment.end > at {
            let rest = segment.clone();
            segment.end = at;
            self.segments.insert(at, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn who(node: usize) -> Who {
        Who { batch: 0, node }
    }

    #[test]
    fn conflicts_are_found_where_nothing_orders() {
        let mut history = History::default();
        let none = &mut |_: Who| false;
        assert_eq!(history.touch(who(0), true, &(0..10), none), None);
        assert_eq!(history.touch(who(0), false, &(0..10), none), None);
        assert_eq!(history.touch(who(1), false, &(10..20), none), None);
        assert_eq!(history.touch(who(2), false, &(12..14), none), None);
        let race = history.touch(who(3), true, &(13..30), none).unwrap();
        assert_eq!((race.earlier, race.earlier_writes, race.range), (who(1), false, 13..14));
        let race = history.touch(who(4), false, &(5..6), none).unwrap();
        assert_eq!((race.earlier, race.earlier_writes, race.range), (who(0), true, 5..6));
        assert_eq!(history.touch(who(5), true, &(0..30), &mut |_| true), None);
        history.forget(&(3..7));
        assert_eq!(history.touch(who(6), true, &(3..7), none), None);
        assert!(history.touch(who(7), true, &(7..8), none).is_some());
    }
}
