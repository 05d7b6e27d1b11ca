//! The memory of GPUs that are not there, and the host's pinned memory: one range of addresses, of which only what is
//! allocated can be touched.

// Pages are mapped, protected and written by address.
#![allow(unsafe_code)]

use crate::machine::Side;
use crate::shim::shadow::Shadow;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_long, c_void};
use std::ops::Range;

unsafe extern "C" {
    fn mmap(at: *mut c_void, bytes: usize, access: c_int, flags: c_int, file: c_int, offset: c_long) -> *mut c_void;
    fn mprotect(at: *mut c_void, bytes: usize, access: c_int) -> c_int;
    fn madvise(at: *mut c_void, bytes: usize, advice: c_int) -> c_int;
}

const PAGE: u64 = 4096;
/// As the driver aligns.
const ALIGNMENT: u64 = 256;
/// Addresses of each GPU and of the host.
const REGION: u64 = 8 << 30;
/// The most GPUs.
pub(crate) const GPUS: usize = 16;
/// What is new is filled so: NaN in every format. No more than this of it, for the sake of time.
const POISON: u8 = 0xff;
const POISONED: u64 = 256 << 20;
const RESERVE: c_int = 0x4022;
const DONT_NEED: c_int = 4;

/// All of it.
#[derive(Debug)]
pub(crate) struct Arena {
    base: u64,
    /// By first address.
    live: BTreeMap<u64, Block>,
    /// What was freed and not given out again.
    freed: BTreeMap<u64, Block>,
    next: Vec<u64>,
    used: Vec<u64>,
    /// What was allocated in an earlier round is not counted any more.
    round: u64,
}

/// An allocation.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) side: Side,
    pages: Range<u64>,
    round: u64,
}

impl Arena {
    pub(crate) fn new() -> Self {
        let bytes = REGION * (GPUS as u64 + 1);
        // SAFETY: new pages that cannot be touched yet; nothing is overwritten.
        let map = unsafe { mmap(std::ptr::null_mut(), bytes as usize, 0, RESERVE, -1, 0) };
        assert!(map as isize != -1, "no addresses for the memory of fake GPUs");
        let base = map as u64;
        Self {
            base,
            live: BTreeMap::new(),
            freed: BTreeMap::new(),
            next: (0..=GPUS as u64).map(|r| base + r * REGION + PAGE).collect(),
            used: vec![0; GPUS + 1],
            round: 0,
        }
    }

    /// Has kernels tell what they touch of it.
    pub(crate) fn watch(&self) -> Result<Shadow, String> {
        Shadow::new(self.base, REGION * (GPUS as u64 + 1))
    }

    fn region(side: Side) -> usize {
        match side {
            Side::Host => 0,
            Side::Gpu(n) => n + 1,
        }
    }

    /// Bytes that are allocated there.
    pub(crate) fn used(&self, side: Side) -> u64 {
        self.used[Self::region(side)]
    }

    /// Begins counting anew what is used.
    pub(crate) fn count_anew(&mut self) {
        self.round += 1;
        self.used.fill(0);
    }

    /// New memory, or nothing where there is none.
    pub(crate) fn allocate(&mut self, side: Side, bytes: u64) -> Option<u64> {
        let region = Self::region(side);
        let room = bytes.max(1).next_multiple_of(ALIGNMENT);
        let inner = room.next_multiple_of(PAGE);
        let limit = self.base + (region as u64 + 1) * REGION;
        let mut start = self.next[region];
        if start + inner + PAGE > limit {
            // All addresses were used once: the first gap is taken.
            start = self.base + region as u64 * REGION + PAGE;
            for block in self.live.range(start..limit).map(|(_, b)| b) {
                if block.pages.start >= start + inner + PAGE {
                    break;
                }
                start = block.pages.end + PAGE;
            }
            if start + inner + PAGE > limit {
                return None;
            }
        }
        self.next[region] = self.next[region].max(start + inner + PAGE);
        // What is given out again is no longer what was freed.
        self.freed.retain(|_, b| b.pages.end <= start || b.pages.start >= start + inner);
        // SAFETY: pages of the arena that nobody has.
        let done = unsafe { mprotect(start as *mut c_void, inner as usize, 3) };
        if done != 0 {
            return None;
        }
        // Its end is where the next page cannot be touched.
        let at = start + inner - room;
        if bytes <= POISONED {
            // SAFETY: within the pages that were made touchable.
            unsafe { (at as *mut u8).write_bytes(POISON, room as usize) };
        }
        self.used[region] += bytes;
        self.live.insert(at, Block { at, bytes, side, pages: start..start + inner, round: self.round });
        Some(at)
    }

    /// Gives memory back; whether there was an allocation that begins there.
    pub(crate) fn free(&mut self, at: u64) -> Option<Block> {
        let block = self.live.remove(&at)?;
        let (start, bytes) = (block.pages.start as *mut c_void, (block.pages.end - block.pages.start) as usize);
        // SAFETY: pages that were this allocation's alone.
        unsafe {
            madvise(start, bytes, DONT_NEED);
            mprotect(start, bytes, 0);
        }
        if block.round == self.round {
            self.used[Self::region(block.side)] -= block.bytes;
        }
        self.freed.insert(at, block.clone());
        Some(block)
    }

    /// Whether an address is of this memory at all.
    pub(crate) fn has(&self, at: u64) -> bool {
        (self.base..self.base + REGION * (GPUS as u64 + 1)).contains(&at)
    }

    /// The allocation at an address.
    pub(crate) fn block(&self, at: u64) -> Option<&Block> {
        let (_, block) = self.live.range(..=at).next_back()?;
        (at < block.at + block.bytes.max(1)).then_some(block)
    }

    /// The allocation that has all these bytes, or what is wrong with them.
    pub(crate) fn find(&self, at: u64, bytes: u64) -> Result<&Block, String> {
        let outside = |b: &Block, what: &str| {
            format!(
                "{bytes} bytes at {at:#x}: {what} of {} bytes at {:#x} of {:?} (byte {})",
                b.bytes,
                b.at,
                b.side,
                at - b.at
            )
        };
        if let Some((_, block)) = self.live.range(..=at).next_back()
            && at < block.pages.end
        {
            let fits = at - block.at <= block.bytes && bytes <= block.bytes - (at - block.at);
            return if fits { Ok(block) } else { Err(outside(block, "more than the allocation")) };
        }
        if let Some((_, block)) = self.freed.range(..=at).next_back()
            && at < block.pages.end
        {
            return Err(outside(block, "the allocation was freed:"));
        }
        Err(format!("{bytes} bytes at {at:#x}: there is no allocation"))
    }

    /// A text for an address that a kernel touched and could not.
    pub(crate) fn describe(&self, at: u64) -> String {
        self.find(at, 1).map_or_else(|e| e, |b| format!("{at:#x} is of {:?}", b.side))
    }

    /// Whose memory it is.
    pub(crate) fn side(&self, at: u64) -> Option<Side> {
        let region = at.checked_sub(self.base)? / REGION;
        match region as usize {
            0 => Some(Side::Host),
            n if n <= GPUS => Some(Side::Gpu(n - 1)),
            _ => None,
        }
    }

    /// Makes the memory of some GPUs untouchable, or touchable again.
    pub(crate) fn hide(&self, sides: &[Side], hidden: bool) {
        for block in self.live.values().filter(|b| sides.contains(&b.side)) {
            let bytes = (block.pages.end - block.pages.start) as usize;
            // SAFETY: pages of an allocation; what is in them stays.
            unsafe { mprotect(block.pages.start as *mut c_void, bytes, if hidden { 0 } else { 3 }) };
        }
    }
}

/// Moves bytes between addresses that were checked, or that the caller of the driver vouches for.
pub(crate) fn copy(from: u64, to: u64, bytes: u64) {
    if bytes > 0 {
        // SAFETY: inside allocations, or the host's memory that was handed to the driver. The two may overlap.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes as usize) }
    }
}

/// Sets elements of 1, 2 or 4 bytes at an address that was checked.
pub(crate) fn set(at: u64, value: u32, element: u32, count: u64) {
    let bytes = value.to_le_bytes();
    if element == 1 {
        // SAFETY: inside an allocation.
        unsafe { (at as *mut u8).write_bytes(bytes[0], count as usize) }
        return;
    }
    for n in 0..count * u64::from(element) {
        // SAFETY: inside an allocation.
        unsafe { ((at + n) as *mut u8).write(bytes[(n % u64::from(element)) as usize]) }
    }
}

/// The bytes at an address that was checked.
pub(crate) fn bytes(at: u64, count: u64) -> Vec<u8> {
    let mut out = vec![0u8; count as usize];
    copy(at, out.as_mut_ptr() as u64, count);
    out
}

/// Writes bytes to an address that was checked.
pub(crate) fn write(at: u64, values: &[u8]) {
    copy(values.as_ptr() as u64, at, values.len() as u64);
}
