//! Descriptions of tensors.

// C functions with pointers from the caller: arrays as long as is said, by the functions' contracts.
#![allow(unsafe_code, non_snake_case)]

use super::gpu_ffi::{current, put};
use crate::stubs_ffi::{Symbol, symbols};
use crate::tensor_map::TensorMap;
use crate::world::{INVALID_VALUE, with};

pub(super) fn symbols() -> Vec<Symbol> {
    symbols![cuTensorMapEncodeTiled]
}

/// What the place of a description begins at a multiple of.
const ALIGNMENT: usize = 64;

extern "C" fn cuTensorMapEncodeTiled(
    out: *mut [u64; 16],
    dtype: u32,
    rank: u32,
    address: u64,
    extents: *const u64,
    steps: *const u64,
    boxes: *const u32,
    every: *const u32,
    interleave: u32,
    swizzle: u32,
    _promotion: u32,
    fill: u32,
) -> u32 {
    with(|w| {
        current(w)?;
        if extents.is_null() || boxes.is_null() || every.is_null() || steps.is_null() && rank > 1 {
            return Err(INVALID_VALUE);
        }
        if !(out as usize).is_multiple_of(ALIGNMENT) {
            return Err(w.refuse("a tensor map", "its place begins at a multiple of 64 bytes"));
        }
        // No more is read than any tensor may have: with more axes it is refused below.
        let rank = (rank as usize).min(6);
        // SAFETY: arrays of as many values as there are axes, of steps one less.
        let map = unsafe {
            let steps = if rank > 1 { std::slice::from_raw_parts(steps, rank - 1).to_vec() } else { Vec::new() };
            TensorMap {
                dtype,
                address,
                extents: std::slice::from_raw_parts(extents, rank).to_vec(),
                steps,
                boxes: std::slice::from_raw_parts(boxes, rank).to_vec(),
                every: std::slice::from_raw_parts(every, rank).to_vec(),
                interleave,
                swizzle,
                fill,
            }
        };
        match map.encode(w.machine.capability) {
            Ok(words) => put(out, words),
            Err(text) => Err(w.refuse("a tensor map", &text)),
        }
    })
}
