//! A GPU and its primary context.
#![allow(unsafe_code)]

use super::error::{DriverError, check};
use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute, CUresult};
use ein_run::detect::Bus;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// The lowest compute capability, times ten, that kernels are generated for.
const LEAST: u32 = 80;

/// A GPU. Its primary context is made when it is first used, and kept as long as the process lives, like the driver.
#[derive(Debug)]
pub struct Gpu {
    ordinal: i32,
    device: CUdevice,
    name: String,
    bus: Bus,
    memory: u64,
    /// Compute capability times ten.
    capability: u32,
    multiprocessors: u32,
    /// Bytes of shared memory that a block may ask for.
    shared: u32,
    context: OnceLock<Result<Context, DriverError>>,
}

/// A context's handle.
#[derive(Clone, Copy, Debug)]
struct Context(CUcontext);

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Context {}
// SAFETY: as above; calls are serialised by the driver.
unsafe impl Sync for Context {}

impl Gpu {
    /// The GPU of this number.
    pub(super) fn new(ordinal: i32) -> Result<Self, DriverError> {
        let mut device: CUdevice = 0;
        // SAFETY: a place for a device's handle, in all calls below for what they give.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, ordinal) })?;
        let mut name = [0 as c_char; 256];
        // SAFETY: as many bytes as is said; what is written ends in a zero byte.
        check("cuDeviceGetName", unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 256, device) })?;
        name[255] = 0;
        // SAFETY: it ends in a zero byte.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        let mut memory = 0_usize;
        // SAFETY: see above.
        check("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&raw mut memory, device) })?;
        let ask = |attribute| {
            let mut value: c_int = 0;
            // SAFETY: see above.
            check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, device) })?;
            Ok(value as u32)
        };
        let major = ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(Self {
            ordinal,
            device,
            name,
            bus: Bus {
                domain: ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
                bus: ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?,
                device: ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?,
            },
            memory: memory as u64,
            capability: 10 * major + minor,
            multiprocessors: ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared: ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            context: OnceLock::new(),
        })
    }

    /// Whether kernels are generated for it: it says what is wrong if not.
    pub fn check(&self) -> Result<(), DriverError> {
        if self.capability >= LEAST {
            return Ok(());
        }
        let (ordinal, name) = (self.ordinal, self.name.clone());
        Err(DriverError::OldGpu { ordinal, name, capability: self.capability, least: LEAST })
    }

    /// Its number.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it sits.
    pub fn bus(&self) -> Bus {
        self.bus
    }

    /// Bytes of its memory.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Compute capability times ten.
    pub fn capability(&self) -> u32 {
        self.capability
    }

    /// How many multiprocessors it has.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Bytes of shared memory that a block may ask for.
    pub fn shared(&self) -> u32 {
        self.shared
    }

    /// Bytes of memory that are free now.
    pub fn free(&self) -> Result<u64, DriverError> {
        self.bind()?;
        let (mut free, mut total) = (0_usize, 0_usize);
        // SAFETY: two places for sizes.
        check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        Ok(free as u64)
    }

    /// Whether this GPU can be made to reach another's memory.
    pub fn can_reach(&self, other: &Self) -> Result<bool, DriverError> {
        if self.ordinal == other.ordinal {
            return Ok(true);
        }
        let mut can: c_int = 0;
        // SAFETY: a place for an integer.
        let asked = unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, self.device, other.device) };
        check("cuDeviceCanAccessPeer", asked).map(|()| can != 0)
    }

    /// Makes this GPU reach another's memory, if it can: whether it can.
    pub fn reach(&self, other: &Self) -> Result<bool, DriverError> {
        if self.ordinal == other.ordinal || !self.can_reach(other)? {
            return Ok(self.ordinal == other.ordinal);
        }
        let peer = other.context()?;
        self.bind()?;
        // SAFETY: a context that lives as long as the process.
        match unsafe { sys::cuCtxEnablePeerAccess(peer, 0) } {
            CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(true),
            // A GPU has room for so many peers; who finds none is as one that cannot be reached.
            CUresult::CUDA_ERROR_TOO_MANY_PEERS => Ok(false),
            result => check("cuCtxEnablePeerAccess", result).map(|()| true),
        }
    }

    /// Waits for all that was given to the GPU.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.bind()?;
        // SAFETY: the context of this GPU is the thread's.
        check("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })
    }

    /// Makes its context the thread's.
    pub(super) fn bind(&self) -> Result<(), DriverError> {
        let context = self.context()?;
        // SAFETY: a context that lives as long as the process.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context) })
    }

    /// Its primary context.
    pub(super) fn context(&self) -> Result<CUcontext, DriverError> {
        let made = self.context.get_or_init(|| {
            let mut context = null_mut();
            // SAFETY: a place for a handle. It is never released: it lives as long as the process.
            let result = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context, self.device) };
            check("cuDevicePrimaryCtxRetain", result).map(|()| Context(context))
        });
        made.as_ref().map(|c| c.0).map_err(Clone::clone)
    }
}
