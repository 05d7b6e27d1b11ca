//! What the driver refuses.

use cudarc::driver::sys::{self, CUresult};
use std::ffi::CStr;

/// What went wrong with the driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// There is no driver.
    #[error(
        "NVIDIA's driver is not installed: libcuda.so.1 cannot be loaded. Install the driver, or give the container \
         access to the GPUs; on this host's processors it runs with `--machine 1xcpu`"
    )]
    NoLibrary,
    /// The driver is too old.
    #[error(
        "NVIDIA's driver is for CUDA {}.{}, but {}.{} is needed: install a newer driver",
        .version / 1000, .version % 1000 / 10, .least / 1000, .least % 1000 / 10
    )]
    Old {
        /// The version of its interface.
        version: i32,
        /// The lowest that would do.
        least: i32,
    },
    /// A GPU is too old.
    #[error(
        "cuda:{ordinal} is a {name} of compute capability {}.{}, but {}.{} is needed: use another GPU, run on this \
         host's processors with `--machine 1xcpu`, or try the plan with `ein simulate`",
        .capability / 10, .capability % 10, .least / 10, .least % 10
    )]
    OldGpu {
        /// Its number.
        ordinal: i32,
        /// Its name.
        name: String,
        /// Its compute capability times ten.
        capability: u32,
        /// The lowest that would do.
        least: u32,
    },
    /// The library of matrix products is not there.
    #[error(
        "NVIDIA's library of matrix products is not installed: libcublasLt.so.13 (or .12) cannot be loaded. Install the \
         CUDA toolkit's cuBLAS, or the Python package nvidia-cublas, and name its folder in LD_LIBRARY_PATH"
    )]
    NoProducts,
    /// The library of matrix products refuses.
    #[error("{call}: {reason}")]
    Products {
        /// The function.
        call: &'static str,
        /// The code's name.
        reason: String,
    },
    /// A product is larger than the library's interface can say.
    #[error("a product of matrices has {what} of {value}; the library takes at most {}", i32::MAX)]
    Product {
        /// What of it.
        what: &'static str,
        /// How much that is.
        value: u64,
    },
    /// A call failed.
    #[error("{call}: {name} ({text})")]
    Call {
        /// The function.
        call: &'static str,
        /// The code's name.
        name: String,
        /// What the driver says of it.
        text: String,
        /// Whether it is for want of memory.
        memory: bool,
    },
    /// The host has no room.
    #[error("the host has no room for {bytes} bytes of pinned memory for {purpose}")]
    Pinned {
        /// How many.
        bytes: u64,
        /// What they are for.
        purpose: &'static str,
    },
    /// What is asked for lies outside the memory that it is in.
    #[error("{bytes} bytes at {offset} are outside a block of {size} bytes")]
    Outside {
        /// The first byte asked for.
        offset: u64,
        /// How many.
        bytes: u64,
        /// How many there are.
        size: u64,
    },
}

impl DriverError {
    /// Whether it is for want of memory.
    pub fn is_memory(&self) -> bool {
        matches!(self, Self::Call { memory: true, .. })
    }
}

/// What a call says, as a result.
pub(super) fn check(call: &'static str, result: CUresult) -> Result<(), DriverError> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let said = |ask: unsafe fn(CUresult, *mut *const std::ffi::c_char) -> CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: the place is one for a pointer; it is set to a static string or to null.
        let told = unsafe { ask(result, &raw mut text) } == CUresult::CUDA_SUCCESS && !text.is_null();
        // SAFETY: a string that the driver owns and never frees.
        told.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    let name = said(sys::cuGetErrorName).unwrap_or_else(|| format!("code {}", result as u32));
    let text = said(sys::cuGetErrorString).unwrap_or_else(|| "the driver does not say more".to_owned());
    Err(DriverError::Call { call, name, text, memory: result == CUresult::CUDA_ERROR_OUT_OF_MEMORY })
}
