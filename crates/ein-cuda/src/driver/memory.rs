//! Blocks of memory, of a GPU or of the host, that the driver knows.
#![allow(unsafe_code)]

use super::error::{DriverError, check};
use super::{Gpu, Stream};
use cudarc::driver::sys;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// A block of memory: of a GPU, or pinned memory of the host, which all GPUs reach.
#[derive(Debug)]
pub struct Memory {
    gpu: Arc<Gpu>,
    address: u64,
    bytes: u64,
    /// Where the host sees it, if it is its own.
    host: Option<NonNull<u8>>,
}

// SAFETY: a block is a place, freed by any thread; who may read and write it is settled by `&` and `&mut`.
unsafe impl Send for Memory {}
// SAFETY: through `&Memory` nothing is written.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory of a GPU: its contents are what they happen to be.
    pub fn of_gpu(gpu: &Arc<Gpu>, bytes: u64) -> Result<Self, DriverError> {
        gpu.bind()?;
        let mut address = 0;
        if bytes > 0 {
            // SAFETY: a place for an address; the GPU's context is the thread's.
            check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes as usize) })?;
        }
        Ok(Self { gpu: gpu.clone(), address, bytes, host: None })
    }

    /// Pinned memory of the host, all zeros, that every GPU reaches by the same address; what it is for is said where
    /// there is none.
    pub fn of_host(gpu: &Arc<Gpu>, bytes: u64, purpose: &'static str) -> Result<Self, DriverError> {
        gpu.bind()?;
        let mut host: *mut c_void = null_mut();
        if bytes > 0 {
            let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
            // SAFETY: a place for a pointer; the flags are two of those that are defined.
            let made = check("cuMemHostAlloc", unsafe { sys::cuMemHostAlloc(&raw mut host, bytes as usize, flags) });
            made.map_err(|e| if e.is_memory() { DriverError::Pinned { bytes, purpose } } else { e })?;
            // SAFETY: as many bytes are there, and nobody else knows them yet. What is lent later is initialised so.
            unsafe { host.cast::<u8>().write_bytes(0, bytes as usize) };
        }
        // With unified addresses, which every GPU has that this driver knows, GPUs use the host's own address.
        Ok(Self { gpu: gpu.clone(), address: host as u64, bytes, host: NonNull::new(host.cast()) })
    }

    /// The GPU that it is of, or by which it was made.
    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The address, as GPUs know it, of some of its bytes.
    pub fn address(&self, offset: u64, bytes: u64) -> Result<u64, DriverError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(self.address + offset),
            _ => Err(DriverError::Outside { offset, bytes, size: self.bytes }),
        }
    }

    /// The bytes of the host's memory; none of a GPU's.
    pub fn host(&self) -> &[u8] {
        match self.host {
            // SAFETY: as many bytes are there, initialised, as long as this lives. GPUs write them only while a
            // graph runs, which borrows this from others: see `Replay`.
            Some(host) => unsafe { std::slice::from_raw_parts(host.as_ptr(), self.bytes as usize) },
            None => &[],
        }
    }

    /// The bytes of the host's memory, to be written; none of a GPU's.
    pub fn host_mut(&mut self) -> &mut [u8] {
        match self.host {
            // SAFETY: as above; `&mut self` shows that nobody else has them.
            Some(host) => unsafe { std::slice::from_raw_parts_mut(host.as_ptr(), self.bytes as usize) },
            None => &mut [],
        }
    }

    /// Begins to copy bytes from here to a part of another block, or from there to here. One of the two is pinned memory of
    /// the host, and the stream is of the GPU of the other. Both are left alone until the stream is waited for.
    pub(super) fn begin(
        &mut self,
        way: Way,
        offset: u64,
        staging: &mut Self,
        part: Range<usize>,
        stream: &Stream,
    ) -> Result<(), DriverError> {
        let bytes = part.len();
        let own = self.address(offset, bytes as u64)?;
        let other = staging.address(part.start as u64, bytes as u64)?;
        if bytes == 0 {
            return Ok(());
        }
        let (from, to) = match way {
            Way::Here => (other, own),
            Way::There => (own, other),
        };
        if self.host.is_some() {
            // SAFETY: both ranges were compared with their blocks, of which there are two, and both are the host's.
            unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
            return Ok(());
        }
        debug_assert_eq!(self.gpu.ordinal(), stream.gpu().ordinal(), "a stream of the memory's own GPU");
        self.gpu.bind()?;
        match way {
            Way::Here => {
                // SAFETY: both ranges were compared with their blocks, and live until the copy is waited for.
                let begun = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from as *const c_void, bytes, stream.handle()) };
                check("cuMemcpyHtoDAsync", begun)
            }
            Way::There => {
                // SAFETY: as above.
                let begun = unsafe { sys::cuMemcpyDtoHAsync_v2(to as *mut c_void, from, bytes, stream.handle()) };
                check("cuMemcpyDtoHAsync", begun)
            }
        }
    }
}

/// Which way bytes go between a block and pinned memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Into the block.
    Here,
    /// Out of it.
    There,
}

impl Drop for Memory {
    /// What the driver says of it is of no use any more: a GPU that was lost has lost its memory too.
    fn drop(&mut self) {
        if self.address == 0 || self.gpu.bind().is_err() {
            return;
        }
        match self.host {
            // SAFETY: it was made by the call that belongs to this one, and nobody uses it any more.
            Some(host) => unsafe { sys::cuMemFreeHost(host.as_ptr().cast()) },
            // SAFETY: as above.
            None => unsafe { sys::cuMemFree_v2(self.address) },
        };
    }
}
