//! Streams.
#![allow(unsafe_code)]

use super::Gpu;
use super::error::{DriverError, check};
use cudarc::driver::sys::{self, CUstream};
use std::ptr::null_mut;
use std::sync::Arc;

/// A stream of a GPU: what is given to it happens in order, and beside other streams.
#[derive(Debug)]
pub struct Stream {
    gpu: Arc<Gpu>,
    stream: CUstream,
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; calls are serialised by the driver.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new one.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self, DriverError> {
        gpu.bind()?;
        let mut stream = null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a place for a handle; the GPU's context is the thread's.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&raw mut stream, flags) })?;
        Ok(Self { gpu: gpu.clone(), stream })
    }

    /// Its GPU.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Waits for all that was given to it.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: the stream lives.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    pub(super) fn handle(&self) -> CUstream {
        self.stream
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: nobody uses it any more; what is left in it still happens.
            unsafe { sys::cuStreamDestroy_v2(self.stream) };
        }
    }
}
