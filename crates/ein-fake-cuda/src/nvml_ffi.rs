//! `libnvidia-ml.so.1`.

// C functions with pointers from the caller: places for what is asked, by the functions' contracts.
#![allow(unsafe_code, non_snake_case)]

use crate::stubs_ffi::{Symbol, symbols};

pub(crate) fn symbols() -> Vec<Symbol> {
    symbols![nvmlInit_v2]
}

extern "C" fn nvmlInit_v2() -> u32 {
    9
}
