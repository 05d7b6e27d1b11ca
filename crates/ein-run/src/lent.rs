//! A device's memory while its rows are executed by several threads: a file with `unsafe` code, because rows that run at
//! once borrow parts of one arena, and no borrow of Rust's says that these parts are disjoint.
#![allow(unsafe_code)]

use crate::cpu::arena::Arena;

/// Bytes of an arena: where they begin, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// Bytes of one of the devices' arenas, or of a tensor that the caller lends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) device: usize,
    pub(crate) span: Span,
}

impl Place {
    /// Whether there are bytes that two places have in common.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        let (a, b) = (self.span, other.span);
        self.device == other.device
            && a.bytes > 0
            && b.bytes > 0
            && a.offset < b.offset + b.bytes
            && b.offset < a.offset + a.bytes
    }
}

/// An arena, or a tensor of the caller's that is only read, lent for the time of a run.
pub(crate) struct Lent {
    base: *mut u8,
    bytes: usize,
    /// Whether it is for reading alone.
    read: bool,
}

// SAFETY: it is an address. Whoever follows it promises what `read` and `write` ask for.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl Lent {
    /// The memory of an arena, which nobody else uses as long as this is used.
    pub(crate) fn of(arena: &mut Arena) -> Self {
        let (base, bytes) = arena.raw();
        Self { base, bytes, read: false }
    }

    /// Bytes of the caller's, which nobody writes as long as this is used.
    pub(crate) fn to_read(bytes: &[u8]) -> Self {
        Self { base: bytes.as_ptr().cast_mut(), bytes: bytes.len(), read: true }
    }

    /// Bytes to be read.
    ///
    /// # Safety
    ///
    /// The arena is there and used by nobody else, and nobody writes any of these bytes as long as they are borrowed.
    pub(crate) unsafe fn read<'a>(&self, span: Span) -> &'a [u8] {
        self.check(span);
        // SAFETY: they lie in the arena (checked above), which is initialised; the caller promises the rest.
        unsafe { std::slice::from_raw_parts(self.base.add(span.offset), span.bytes) }
    }

    /// Bytes to be written.
    ///
    /// # Safety
    ///
    /// The arena is there and used by nobody else, and nobody else borrows any of these bytes as long as they are
    /// borrowed.
    pub(crate) unsafe fn write<'a>(&self, span: Span) -> &'a mut [u8] {
        self.check(span);
        assert!(!self.read, "what the caller lends is not written");
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(span.offset), span.bytes) }
    }

    fn check(&self, span: Span) {
        let end = span.offset.checked_add(span.bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "a slot lies in its arena");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_those_of_the_arena() {
        let mut arena = Arena::new(192, &[]).expect("small");
        let lent = Lent::of(&mut arena);
        let span = |offset, bytes| Span { offset, bytes };
        // SAFETY: nobody else uses the arena, and the two spans are disjoint.
        let (a, b) = unsafe { (lent.write(span(64, 2)), lent.read(span(128, 64))) };
        a.copy_from_slice(&[1, 2]);
        assert!(b.iter().all(|&b| b == 0));
        // SAFETY: what was written is no longer borrowed.
        assert_eq!(unsafe { lent.read(span(63, 4)) }, [0, 1, 2, 0]);
    }

    #[test]
    #[should_panic(expected = "not written")]
    fn what_is_lent_to_be_read_is_not_written() {
        let lent = Lent::to_read(&[1, 2, 3]);
        // SAFETY: the bytes are there, and nobody writes them.
        assert_eq!(unsafe { lent.read(Span { offset: 1, bytes: 2 }) }, [2, 3]);
        // SAFETY: it is refused.
        let _ = unsafe { lent.write(Span { offset: 0, bytes: 1 }) };
    }

    #[test]
    fn places_overlap_in_bytes_of_one_arena() {
        let place = |device, offset, bytes| Place { device, span: Span { offset, bytes } };
        let at = place(0, 64, 64);
        assert!(at.overlaps(at) && at.overlaps(place(0, 127, 1)) && at.overlaps(place(0, 0, 65)));
        for other in [place(1, 64, 64), place(0, 128, 64), place(0, 0, 64), place(0, 70, 0)] {
            assert!(!at.overlaps(other) && !other.overlaps(at), "{other:?}");
        }
    }

    #[test]
    #[should_panic(expected = "a slot lies in its arena")]
    fn nothing_outside_is_lent() {
        let mut arena = Arena::new(64, &[]).expect("small");
        // SAFETY: it is refused.
        let _ = unsafe { Lent::of(&mut arena).read(Span { offset: 64, bytes: 1 }) };
    }
}
