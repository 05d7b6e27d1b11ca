//! A device's memory: one allocation, in which every value has its slot.

use crate::error::Cause;
use crate::pages::large;
use ein_task::task::Slot;
use std::ops::Range;

/// Slots begin at multiples of this many bytes, in memory too.
pub const ALIGNMENT: usize = 64;

/// One block of memory that begins at a multiple of [`ALIGNMENT`].
#[derive(Default)]
pub struct Arena {
    words: Vec<u64>,
    /// Words before the first aligned one.
    skip: usize,
    bytes: usize,
}

impl Arena {
    /// Zeroed memory; an error where there is not enough. All pages are touched now rather than in a run, but for some
    /// parts, in order, that nothing is stored in: they take addresses and no memory.
    pub fn new(bytes: u64, unused: &[Range<u64>]) -> Result<Self, Cause> {
        let reason = || Cause::Device { reason: format!("there is no memory of {bytes} bytes") };
        let bytes = usize::try_from(bytes).map_err(|_| reason())?;
        let count = bytes.div_ceil(8).checked_add(ALIGNMENT / 8).ok_or_else(reason)?;
        // The system gives pages when they are written first.
        let mut words: Vec<u64> = bytemuck::allocation::try_zeroed_vec(count).map_err(|()| reason())?;
        large(&mut words);
        let skip = words.as_ptr().align_offset(ALIGNMENT);
        let mut arena = Self { words, skip, bytes };
        let mut from = 0;
        for part in unused {
            arena.touch(from, part.start as usize);
            from = part.end as usize;
        }
        arena.touch(from, bytes);
        Ok(arena)
    }

    /// Writes to all pages of bytes that nothing is stored in yet.
    fn touch(&mut self, from: usize, to: usize) {
        const PAGE: usize = 4096;
        for byte in self.all()[from..to].iter_mut().step_by(PAGE) {
            // Not known to be what is there, or it would not be written.
            *byte = std::hint::black_box(0);
        }
    }

    /// The bytes of a slot, to be read.
    pub fn get(&self, slot: Slot, bytes: usize) -> &[u8] {
        let all: &[u8] = bytemuck::cast_slice(&self.words[self.skip..]);
        &all[..self.bytes][slot.offset as usize..][..bytes]
    }

    /// The bytes of a slot, to be written.
    pub fn get_mut(&mut self, slot: Slot, bytes: usize) -> &mut [u8] {
        &mut self.all()[slot.offset as usize..][..bytes]
    }

    /// The bytes of one slot to be written and of others to be read, none of which overlap it.
    pub fn lend(&mut self, write: (Slot, usize), reads: &[(Slot, usize)]) -> Result<(&mut [u8], Vec<&[u8]>), Cause> {
        let (at, bytes) = (write.0.offset as usize, write.1);
        let (below, rest) = self.all().split_at_mut(at);
        let (own, above) = rest.split_at_mut(bytes);
        let (below, above) = (&*below, &*above);
        let lend = |&(slot, len): &(Slot, usize)| {
            let offset = slot.offset as usize;
            if len == 0 {
                Ok(&below[..0])
            } else if offset + len <= at {
                Ok(&below[offset..offset + len])
            } else if offset >= at + bytes {
                Ok(&above[offset - at - bytes..][..len])
            } else {
                let reason = format!("the result at byte {at} overlaps the value it reads at byte {offset}");
                Err(Cause::Malformed { reason })
            }
        };
        let reads = reads.iter().map(lend).collect::<Result<Vec<_>, _>>()?;
        Ok((own, reads))
    }

    /// Where its bytes begin, and how many there are.
    pub(crate) fn raw(&mut self) -> (*mut u8, usize) {
        let all = self.all();
        (all.as_mut_ptr(), all.len())
    }

    fn all(&mut self) -> &mut [u8] {
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words[self.skip..]);
        &mut all[..self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(offset: u64) -> Slot {
        Slot { offset, bytes: 64 }
    }

    #[test]
    fn slots_are_aligned_and_lent_apart() {
        let mut arena = Arena::new(192, &[]).expect("small");
        assert_eq!(arena.get(slot(64), 8).as_ptr().align_offset(ALIGNMENT), 0);
        arena.get_mut(slot(0), 1)[0] = 1;
        arena.get_mut(slot(128), 1)[0] = 3;
        let (own, reads) = arena.lend((slot(64), 64), &[(slot(128), 1), (slot(0), 1), (slot(64), 0)]).expect("apart");
        assert_eq!((own.len(), reads), (64, vec![&[3u8][..], &[1], &[]]));
        let error = arena.lend((slot(64), 65), &[(slot(128), 1)]).expect_err("they overlap");
        assert!(error.to_string().contains("overlaps"), "{error}");
    }

    #[test]
    fn too_much_memory_is_an_error() {
        assert!(Arena::new(u64::MAX / 2, &[]).is_err());
    }
}
