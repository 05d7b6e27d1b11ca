//! NVIDIA's driver, as far as it is used here: GPUs, memory, modules, graphs.
//!
//! A thin and safe face of `cudarc`'s bindings, which load the library at run time. The bindings panic where there is
//! none, so that is asked first, in [`Driver::new`]: whoever has one of these types has a library. All files in this
//! folder may have `unsafe` code; nothing else that speaks to a GPU has.
#![allow(unsafe_code)]

mod error;
mod event;
mod gpu;
mod graph;
mod memory;
mod module;
mod passing;
mod products;
mod replay;
mod stream;
mod tensor;
mod traced;

pub use error::DriverError;
pub use event::Event;
pub use gpu::Gpu;
pub use graph::{Builder, KernelCall, Node, Strided, Word};
pub use memory::Memory;
pub use module::{Function, Module};
pub use passing::Passing;
pub use products::{Element, Operands, Problem, Products, Stored};
pub use replay::{Part, Replay};
pub use stream::Stream;
pub use tensor::{TensorMap, tensor_map};
pub use traced::Traced;

use cudarc::driver::sys;
use error::check;
use std::ffi::c_int;
use std::sync::Arc;

/// The lowest version of the driver's interface that is enough: 12.0, the first in which a node of a graph names its
/// context.
const LEAST: i32 = 12000;

/// The driver's library, loaded and begun.
#[derive(Debug)]
pub struct Driver {
    version: i32,
    gpus: Vec<Arc<Gpu>>,
}

impl Driver {
    /// The driver and its GPUs.
    ///
    /// # Errors
    ///
    /// No library, one that is too old, or one that does not answer. That there are no GPUs is no error here.
    pub fn new() -> Result<Self, DriverError> {
        // SAFETY: loads a library, which runs its own initialisers; they are those of the driver.
        if !unsafe { sys::is_culib_present() } {
            return Err(DriverError::NoLibrary);
        }
        let version = version()?;
        if version < LEAST {
            return Err(DriverError::Old { version, least: LEAST });
        }
        // SAFETY: no flags are defined.
        let begun = unsafe { sys::cuInit(0) };
        if begun == sys::CUresult::CUDA_ERROR_NO_DEVICE {
            return Ok(Self { version, gpus: Vec::new() });
        }
        check("cuInit", begun)?;
        let mut count: c_int = 0;
        // SAFETY: a place for an integer.
        check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
        let gpus = (0..count).map(|n| Gpu::new(n).map(Arc::new)).collect::<Result<_, _>>()?;
        Ok(Self { version, gpus })
    }

    /// The version of its interface: 13000 for 13.0.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// The GPUs, in the driver's order.
    pub fn gpus(&self) -> &[Arc<Gpu>] {
        &self.gpus
    }
}

/// The version of the driver's interface, whose library is there.
fn version() -> Result<i32, DriverError> {
    let mut version: c_int = 0;
    // SAFETY: may be called before everything else; a place for an integer.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
    Ok(version)
}
