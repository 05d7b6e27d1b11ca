//! Tensors as the driver describes them to copies of boxes.
#![allow(unsafe_code)]

use super::error::{DriverError, check};
use super::{Element, Gpu};
use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave, CUtensorMapL2promotion,
    CUtensorMapSwizzle,
};
use std::ffi::c_void;

/// A tensor's description, which kernels are given as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorMap(CUtensorMap);

/// Describes a tensor of four axes that lies on a GPU: `extents` along each axis, that of consecutive values
/// first, `steps` in bytes along the others, and the `boxes` that are copied, of lines of at most 128 bytes, swizzled. What lies
/// outside of the tensor is 0.
///
/// # Errors
///
/// A GPU or a driver that has no such copies (before Hopper, before 12.0), or a tensor that they do not take.
pub fn tensor_map(
    gpu: &Gpu,
    element: Element,
    address: u64,
    extents: [u64; 4],
    steps: [u64; 3],
    boxes: [u32; 4],
) -> Result<TensorMap, DriverError> {
    gpu.bind()?;
    let dtype = match element {
        Element::F64 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        Element::F32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Element::BF16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Element::F16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    };
    let every = [1; 4];
    let mut map = CUtensorMap { opaque: [0; 16] };
    // SAFETY: a place for a description, and arrays of as many values as there are axes. The tensor is not touched.
    let made = unsafe {
        sys::cuTensorMapEncodeTiled(
            &raw mut map,
            dtype,
            4,
            address as *mut c_void,
            extents.as_ptr(),
            steps.as_ptr(),
            boxes.as_ptr(),
            every.as_ptr(),
            CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    check("cuTensorMapEncodeTiled", made)?;
    Ok(TensorMap(map))
}
