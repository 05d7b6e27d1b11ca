//! Who touched which memory last, so that what is not ordered shows.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// A node of a batch of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) batch: u64,
    pub(crate) node: usize,
}

/// How memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// By an atomic: others of that kind may do so at the same time.
    Atomic,
}

impl Access {
    fn conflicts(self, other: Self) -> bool {
        self != other || self == Self::Write
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Atomic => "changes by an atomic",
        })
    }
}

/// A conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Race {
    pub(crate) earlier: Who,
    pub(crate) access: Access,
    pub(crate) range: Range<u64>,
}

/// Memory and who touched it: since the last who wrote it, if anybody did, who is first here.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    end: u64,
    touched: Vec<(Who, Access)>,
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

    /// Notes that `who` touches a range; `before(a)` says whether `a` is ordered before it.
    pub(crate) fn touch(
        &mut self,
        who: Who,
        access: Access,
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
            let conflict = segment.touched.iter().find(|&&(earlier, other)| {
                race.is_none() && earlier != who && access.conflicts(other) && !before(earlier)
            });
            if let Some(&(earlier, access)) = conflict {
                race = Some(Race { earlier, access, range: start..segment.end });
            }
            if access == Access::Write {
                segment.touched.clear();
            } else {
                // Who is before this one and did the same is before everybody that has to come after this one.
                segment.touched.retain(|&(w, a)| a != access || w != who && !before(w));
            }
            segment.touched.push((who, access));
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        for gap in gaps {
            self.segments.insert(gap.start, Segment { end: gap.end, touched: vec![(who, access)] });
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
        assert_eq!(history.touch(who(0), Access::Write, &(0..10), none), None);
        assert_eq!(history.touch(who(0), Access::Read, &(0..10), none), None);
        assert_eq!(history.touch(who(1), Access::Read, &(10..20), none), None);
        assert_eq!(history.touch(who(2), Access::Read, &(12..14), none), None);
        let race = history.touch(who(3), Access::Write, &(13..30), none).unwrap();
        assert_eq!((race.earlier, race.access, race.range), (who(1), Access::Read, 13..14));
        let race = history.touch(who(4), Access::Read, &(5..6), none).unwrap();
        assert_eq!((race.earlier, race.access, race.range), (who(0), Access::Write, 5..6));
        assert_eq!(history.touch(who(5), Access::Write, &(0..30), &mut |_| true), None);
        history.forget(&(3..7));
        assert_eq!(history.touch(who(6), Access::Write, &(3..7), none), None);
        assert!(history.touch(who(7), Access::Write, &(7..8), none).is_some());
        assert_eq!(history.touch(who(8), Access::Atomic, &(40..44), none), None);
        assert_eq!(history.touch(who(9), Access::Atomic, &(40..44), none), None);
        let race = history.touch(who(10), Access::Read, &(43..44), none).unwrap();
        assert_eq!((race.earlier, race.access), (who(8), Access::Atomic));
    }
}
