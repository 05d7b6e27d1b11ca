//! `libcuda.so.1`, as far as it is there.

mod capture_ffi;
mod error_ffi;
mod event_ffi;
mod gpu_ffi;
mod graph_ffi;
mod memory_ffi;
mod module_ffi;
mod stream_ffi;
mod tensor_ffi;

use crate::stubs_ffi::Symbol;

pub(crate) use gpu_ffi::current;
pub(crate) use module_ffi::image;
pub(crate) use stream_ffi::{HostCall, call, find, give};

/// All functions that it has.
pub(crate) fn symbols() -> Vec<Symbol> {
    [
        capture_ffi::symbols(),
        error_ffi::symbols(),
        event_ffi::symbols(),
        gpu_ffi::symbols(),
        graph_ffi::symbols(),
        memory_ffi::symbols(),
        module_ffi::symbols(),
        stream_ffi::symbols(),
        tensor_ffi::symbols(),
    ]
    .concat()
}
