//! Machine code on a GPU.
#![allow(unsafe_code)]

use super::Gpu;
use super::error::{DriverError, check};
use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute, CUmodule};
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::Arc;

/// What shared memory a block has without asking.
const PLAIN_SHARED: u32 = 48 << 10;

/// Machine code that was loaded.
#[derive(Debug)]
pub struct Module {
    gpu: Arc<Gpu>,
    module: CUmodule,
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// A kernel of a module.
#[derive(Clone, Debug)]
pub struct Function {
    pub(super) module: Arc<Module>,
    pub(super) function: CUfunction,
}

// SAFETY: as of the module, which lives as long.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Module {
    /// Loads an image, as the compiler gave it.
    pub fn load(gpu: &Arc<Gpu>, image: &[u8]) -> Result<Arc<Self>, DriverError> {
        gpu.bind()?;
        // An image tells its own length, but for text, which ends in a zero byte.
        let mut ended = image.to_vec();
        ended.push(0);
        let mut module = null_mut();
        // SAFETY: the image is whole, and is not used after the call.
        check("cuModuleLoadData", unsafe { sys::cuModuleLoadData(&raw mut module, ended.as_ptr().cast()) })?;
        Ok(Arc::new(Self { gpu: gpu.clone(), module }))
    }

    /// The kernel of this name, whose blocks may ask for so many bytes of shared memory.
    pub fn function(self: &Arc<Self>, name: &str, shared: u32) -> Result<Function, DriverError> {
        self.gpu.bind()?;
        let text = CString::new(name).expect("names of kernels have no zero byte");
        let mut function = null_mut();
        // SAFETY: the module lives; the name ends in a zero byte.
        let found = unsafe { sys::cuModuleGetFunction(&raw mut function, self.module, text.as_ptr()) };
        check("cuModuleGetFunction", found)?;
        if shared > PLAIN_SHARED {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: a function of a module that lives.
            let set = unsafe { sys::cuFuncSetAttribute(function, attribute, shared as i32) };
            check("cuFuncSetAttribute", set)?;
        }
        Ok(Function { module: self.clone(), function })
    }
}

impl Function {
    /// The GPU that it is loaded on.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.module.gpu
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: no function of it is left.
            unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}
