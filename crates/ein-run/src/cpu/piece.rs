//! Values in memory, seen by their fields.

use crate::error::Cause;
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use ein_ir::dtype::DType;
use ein_ir::monoid::{Field, Form};
use ein_ir::region::Region;
use half::{bf16, f16};
use std::ops::Range;

/// A value to read.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) region: &'a Region,
    pub(crate) form: &'a Form,
    all: &'a [u8],
    /// Whether it is stored in panels, as [`super::packing`] says, which only products can read.
    pub(crate) packed: bool,
}

/// A value to write.
pub(crate) struct PieceMut<'a> {
    pub(crate) region: &'a Region,
    pub(crate) form: &'a Form,
    all: &'a mut [u8],
}

/// Elements to read, by their type.
#[derive(Clone, Copy)]
pub(crate) enum Elements<'a> {
    F64(&'a [f64]),
    F32(&'a [f32]),
    BF16(&'a [bf16]),
    F16(&'a [f16]),
    I64(&'a [i64]),
    I32(&'a [i32]),
    /// `U8` and `Bool`.
    U8(&'a [u8]),
}

/// Where a field lies in a value, as [`Form::layout`] has it.
fn span(form: &Form, region: &Region, field: usize) -> Range<usize> {
    let bytes = |f: &Field| f.axes.iter().map(|&a| region.0[a].len()).product::<usize>() * f.dtype.bytes();
    let start = form.fields[..field].iter().map(|f| bytes(f).next_multiple_of(8)).sum();
    start..start + bytes(&form.fields[field])
}

impl<'a> Piece<'a> {
    pub(crate) fn new(region: &'a Region, form: &'a Form, all: &'a [u8]) -> Self {
        Self { region, form, all, packed: false }
    }

    /// The same, stored in panels or not.
    pub(crate) fn packed(self, packed: bool) -> Self {
        Self { packed, ..self }
    }

    /// The bytes of a field.
    pub(crate) fn bytes(&self, field: usize) -> &'a [u8] {
        &self.all[span(self.form, self.region, field)]
    }

    /// The elements of a field.
    pub(crate) fn elements(&self, field: usize) -> Elements<'a> {
        let bytes = self.bytes(field);
        match self.form.fields[field].dtype {
            DType::F64 => Elements::F64(cast_slice(bytes)),
            DType::F32 => Elements::F32(cast_slice(bytes)),
            DType::BF16 => Elements::BF16(cast_slice(bytes)),
            DType::F16 => Elements::F16(cast_slice(bytes)),
            DType::I64 => Elements::I64(cast_slice(bytes)),
            DType::I32 => Elements::I32(cast_slice(bytes)),
            DType::U8 | DType::Bool => Elements::U8(bytes),
        }
    }

    /// The type of the one field of a finished value.
    pub(crate) fn dtype(&self) -> Result<DType, Cause> {
        match self.form.fields.as_slice() {
            [field] => Ok(field.dtype),
            fields => Err(Cause::malformed(format!("an operand of {} fields is not finished", fields.len()))),
        }
    }
}

impl<'a> PieceMut<'a> {
    pub(crate) fn new(region: &'a Region, form: &'a Form, all: &'a mut [u8]) -> Self {
        Self { region, form, all }
    }

    /// The bytes of a field.
    pub(crate) fn bytes(&mut self, field: usize) -> &mut [u8] {
        &mut self.all[span(self.form, self.region, field)]
    }

    /// The type of a field.
    pub(crate) fn dtype(&self, field: usize) -> DType {
        self.form.fields[field].dtype
    }

    /// Number of fields.
    pub(crate) fn fields(&self) -> usize {
        self.form.fields.len()
    }

    /// The elements of a field of type `T`.
    pub(crate) fn slice<T: Pod>(&mut self, field: usize) -> &mut [T] {
        cast_slice_mut(self.bytes(field))
    }
}
