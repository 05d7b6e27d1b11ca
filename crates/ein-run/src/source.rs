//! Where parameters come from.

use crate::cpu::boxes;
use ein_ir::dense::{Data, Dense};
use ein_ir::graph::TensorType;
use ein_ir::region::Region;
use std::collections::BTreeMap;

/// Gives boxes of parameters when an executor is made: of each parameter, disjoint ones.
pub trait ParameterSource: Sync {
    /// Writes the elements of `region` of parameter `name`, row-major and little-endian, to `out`.
    fn read(&self, name: &str, ty: &TensorType, region: &Region, out: &mut [u8]) -> Result<(), String>;

    /// Says, before anything is planned or read, why parameter `name` cannot be had in this type. A source that
    /// cannot tell lets it pass; reading it decides then.
    fn check(&self, _name: &str, _ty: &TensorType) -> Result<(), String> {
        Ok(())
    }
}

impl ParameterSource for BTreeMap<String, Dense> {
    fn read(&self, name: &str, ty: &TensorType, region: &Region, out: &mut [u8]) -> Result<(), String> {
        self.check(name, ty)?;
        boxes::copy_region(bytes_of(&self[name]), &ty.whole(), out, region, region, ty.dtype.bytes());
        Ok(())
    }

    fn check(&self, name: &str, ty: &TensorType) -> Result<(), String> {
        let dense = self.get(name).ok_or_else(|| "it is not given".to_owned())?;
        if dense.ty() != *ty {
            return Err(format!("it is {}, but the computation was compiled for {ty}", dense.ty()));
        }
        Ok(())
    }
}

/// The elements of a tensor in storage order.
pub fn bytes_of(dense: &Dense) -> &[u8] {
    use bytemuck::cast_slice;
    match &dense.data {
        Data::F64(v) => cast_slice(v),
        Data::F32(v) => cast_slice(v),
        Data::BF16(v) => cast_slice(v),
        Data::F16(v) => cast_slice(v),
        Data::I64(v) => cast_slice(v),
        Data::I32(v) => cast_slice(v),
        Data::U8(v) | Data::Bool(v) => v,
    }
}

/// The elements of a tensor in storage order, to be written.
pub fn bytes_of_mut(dense: &mut Dense) -> &mut [u8] {
    use bytemuck::cast_slice_mut;
    match &mut dense.data {
        Data::F64(v) => cast_slice_mut(v),
        Data::F32(v) => cast_slice_mut(v),
        Data::BF16(v) => cast_slice_mut(v),
        Data::F16(v) => cast_slice_mut(v),
        Data::I64(v) => cast_slice_mut(v),
        Data::I32(v) => cast_slice_mut(v),
        Data::U8(v) | Data::Bool(v) => v,
    }
}
