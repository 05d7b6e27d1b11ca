//! Memory for kernels, at whose ends they are stopped.

// Pages are mapped so that what lies before and behind cannot be touched.
#![allow(unsafe_code)]

use bytemuck::{NoUninit, Pod};
use std::ffi::{c_int, c_long, c_void};
use thiserror::Error;

unsafe extern "C" {
    fn mmap(at: *mut c_void, bytes: usize, access: c_int, flags: c_int, file: c_int, offset: c_long) -> *mut c_void;
    fn mprotect(at: *mut c_void, bytes: usize, access: c_int) -> c_int;
    fn munmap(at: *mut c_void, bytes: usize) -> c_int;
}

const PAGE: usize = 4096;
const ALIGNMENT: usize = 256;
const CANARY: u8 = 0xa5;

/// What was found wrong with memory after launches.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// Somebody wrote behind the end.
    #[error("byte {at} of {bytes} bytes of memory was written")]
    Behind {
        /// Where.
        at: usize,
        /// How many there are.
        bytes: usize,
    },
}

impl From<MemoryError> for String {
    fn from(e: MemoryError) -> Self {
        e.to_string()
    }
}

/// Zeroed memory, aligned to 256 bytes as that of a GPU. Its end is as close to a page that cannot be touched as the
/// alignment permits; what is between is checked when it is read.
#[derive(Debug)]
pub struct Memory {
    map: *mut u8,
    mapped: usize,
    at: *mut u8,
    bytes: usize,
}

// SAFETY: it is plain memory that it owns.
unsafe impl Send for Memory {}

impl Memory {
    /// So many bytes, all 0.
    pub fn new(bytes: usize) -> Self {
        let room = bytes.max(1).next_multiple_of(ALIGNMENT);
        let inner = room.next_multiple_of(PAGE);
        let mapped = inner + 2 * PAGE;
        // SAFETY: new pages, private and without a file; nothing is overwritten. The two ends are made untouchable.
        let map = unsafe {
            let map = mmap(std::ptr::null_mut(), mapped, 3, 0x22, -1, 0).cast::<u8>();
            assert!(map as isize != -1, "no memory of {bytes} bytes");
            mprotect(map.cast(), PAGE, 0);
            mprotect(map.add(PAGE + inner).cast(), PAGE, 0);
            map
        };
        // SAFETY: within the pages; what is behind the bytes is ours and readable up to `room`.
        let at = unsafe {
            let at = map.add(PAGE + inner - room);
            at.add(bytes).write_bytes(CANARY, room - bytes);
            at
        };
        Self { map, mapped, at, bytes }
    }

    /// A copy of values.
    pub fn of<T: NoUninit>(values: &[T]) -> Self {
        let memory = Self::new(size_of_val(values));
        memory.write(values);
        memory
    }

    /// Its address, for a kernel.
    pub fn address(&self) -> u64 {
        self.at as u64
    }

    /// How many bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets its first bytes.
    pub fn write<T: NoUninit>(&self, values: &[T]) {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        assert!(bytes.len() <= self.bytes, "{} bytes into {}", bytes.len(), self.bytes);
        // SAFETY: as many bytes are ours, and kernels run only within calls.
        unsafe { self.at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    /// All of it, as values.
    ///
    /// # Errors
    ///
    /// If somebody wrote behind its end.
    pub fn read<T: Pod>(&self) -> Result<Vec<T>, MemoryError> {
        let room = self.bytes.max(1).next_multiple_of(ALIGNMENT);
        // SAFETY: as many bytes are ours and set, and kernels run only within calls.
        let all = unsafe { std::slice::from_raw_parts(self.at, room) };
        if let Some(at) = all[self.bytes..].iter().position(|&b| b != CANARY) {
            return Err(MemoryError::Behind { at: self.bytes + at, bytes: self.bytes });
        }
        Ok(bytemuck::pod_collect_to_vec(&all[..self.bytes / size_of::<T>() * size_of::<T>()]))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: these pages were mapped by `new` for this alone.
        unsafe {
            munmap(self.map.cast(), self.mapped);
        }
    }
}
