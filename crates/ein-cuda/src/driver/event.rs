//! Moments on streams.
#![allow(unsafe_code)]

use super::error::{DriverError, check};
use super::{Gpu, Stream};
use cudarc::driver::sys::{self, CUevent};
use std::ptr::null_mut;
use std::sync::Arc;

/// The version of the driver's interface from which on it tells what is between two moments: 12.8.
const LEAST: i32 = 12080;

/// A moment on a stream of a GPU, and when it was.
#[derive(Debug)]
pub struct Event {
    gpu: Arc<Gpu>,
    event: CUevent,
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Event {}

impl Event {
    /// One that has not been.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self, DriverError> {
        let version = super::version()?;
        if version < LEAST {
            return Err(DriverError::Old { version, least: LEAST });
        }
        gpu.bind()?;
        let mut event = null_mut();
        // SAFETY: a place for a handle; without flags it takes the time.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut event, 0) })?;
        Ok(Self { gpu: gpu.clone(), event })
    }

    /// It is when all that was given to the stream, of the same GPU, has happened.
    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: both live.
        check("cuEventRecord", unsafe { sys::cuEventRecord(self.event, stream.handle()) })
    }

    /// What is given to the stream, of any GPU, from now on happens after it.
    pub fn wait(&self, stream: &Stream) -> Result<(), DriverError> {
        stream.gpu().bind()?;
        // SAFETY: both live; no flags are defined.
        check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(stream.handle(), self.event, 0) })
    }

    /// Seconds from another moment of the same GPU to this one. Both have been.
    pub fn seconds_since(&self, other: &Self) -> Result<f64, DriverError> {
        self.gpu.bind()?;
        let mut milliseconds = 0.0_f32;
        // SAFETY: a place for a number; both live.
        let told = unsafe { sys::cuEventElapsedTime_v2(&raw mut milliseconds, other.event, self.event) };
        check("cuEventElapsedTime", told)?;
        Ok(f64::from(milliseconds) / 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: nobody uses it any more.
            unsafe { sys::cuEventDestroy_v2(self.event) };
        }
    }
}
