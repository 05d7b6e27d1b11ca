//! Conversions between element types, a run at a time.
// Loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use super::piece::Elements;
use bytemuck::{cast_slice, cast_slice_mut};
use ein_ir::dtype::DType;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Something that can be used once. A closure that takes it is no `FnMut`, and so is called as it stands
/// and not through a function that the compiler may decline to inline.
pub(crate) struct Once;

/// Runs a loop with the widest instructions this machine has. What the loop calls must be inlined.
macro_rules! wide {
    ($body:block) => {{
        let once = $crate::cpu::convert::Once;
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                let _taken: $crate::cpu::convert::Once = once;
                $body
            },
        )
    }};
}
pub(crate) use wide;

/// `x` rounded to the nearest `bf16`, ties to even, as an `f32`; a NaN stays one.
#[inline(always)]
pub(crate) fn round_bf16(x: f32) -> f32 {
    f32::from_bits(u32::from(bits_bf16(x)) << 16)
}

/// [`round_bf16`] of every element.
pub(crate) fn round_all(values: &mut [f32]) {
    wide!({
        for v in values.iter_mut() {
            *v = round_bf16(*v);
        }
    });
}

#[inline(always)]
fn bits_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if x.is_nan() { quiet } else { rounded }) as u16
}

/// The elements `[at, at + out.len())` as `f32`. Integers round.
pub(crate) fn to_f32(from: Elements<'_>, at: usize, out: &mut [f32]) {
    let n = out.len();
    match from {
        Elements::F32(v) => out.copy_from_slice(&v[at..at + n]),
        Elements::BF16(v) => {
            let v: &[u16] = cast_slice(&v[at..at + n]);
            wide!({
                for (o, &x) in out.iter_mut().zip(v) {
                    *o = f32::from_bits(u32::from(x) << 16);
                }
            });
        }
        Elements::F16(v) => v[at..at + n].convert_to_f32_slice(out),
        Elements::F64(v) => out.iter_mut().zip(&v[at..]).for_each(|(o, &x)| *o = x as f32),
        Elements::I64(v) => out.iter_mut().zip(&v[at..]).for_each(|(o, &x)| *o = x as f32),
        Elements::I32(v) => out.iter_mut().zip(&v[at..]).for_each(|(o, &x)| *o = x as f32),
        Elements::U8(v) => out.iter_mut().zip(&v[at..]).for_each(|(o, &x)| *o = f32::from(x)),
    }
}

/// The elements `[at, at + out.len())` as `f64`.
pub(crate) fn to_f64(from: Elements<'_>, at: usize, out: &mut [f64]) {
    match from {
        Elements::F64(v) => out.copy_from_slice(&v[at..at + out.len()]),
        Elements::F32(v) => out.iter_mut().zip(&v[at..]).for_each(|(o, &x)| *o = f64::from(x)),
        Elements::BF16(v) => out.iter_mut().zip(&v[at..]).for_each(|(o, &x)| *o = x.to_f64()),
        Elements::F16(v) => out.iter_mut().zip(&v[at..]).for_each(|(o, &x)| *o = x.to_f64()),
        Elements::I64(v) => out.iter_mut().zip(&v[at..]).for_each(|(o, &x)| *o = x as f64),
        Elements::I32(v) => out.iter_mut().zip(&v[at..]).for_each(|(o, &x)| *o = f64::from(x)),
        Elements::U8(v) => out.iter_mut().zip(&v[at..]).for_each(|(o, &x)| *o = f64::from(x)),
    }
}

/// Stores `values` as type `dtype` from element `at` of `out` on. Floats become integers by truncation
/// with saturation, NaN gives 0; bool is `!= 0`.
pub(crate) fn from_f32(values: &[f32], dtype: DType, out: &mut [u8], at: usize) {
    let n = values.len();
    match dtype {
        DType::F32 => cast_slice_mut::<u8, f32>(out)[at..at + n].copy_from_slice(values),
        DType::BF16 => {
            let out = &mut cast_slice_mut::<u8, u16>(out)[at..at + n];
            wide!({
                for (o, &x) in out.iter_mut().zip(values) {
                    *o = bits_bf16(x);
                }
            });
        }
        DType::F16 => cast_slice_mut::<u8, f16>(out)[at..at + n].convert_from_f32_slice(values),
        DType::F64 => store(out, at, values.iter().map(|&x| f64::from(x))),
        DType::I64 => store(out, at, values.iter().map(|&x| x as i64)),
        DType::I32 => store(out, at, values.iter().map(|&x| x as i32)),
        DType::U8 => store(out, at, values.iter().map(|&x| x as u8)),
        DType::Bool => store(out, at, values.iter().map(|&x| u8::from(x != 0.0))),
    }
}

/// As [`from_f32`].
pub(crate) fn from_f64(values: &[f64], dtype: DType, out: &mut [u8], at: usize) {
    let n = values.len();
    match dtype {
        DType::F64 => cast_slice_mut::<u8, f64>(out)[at..at + n].copy_from_slice(values),
        DType::F32 => store(out, at, values.iter().map(|&x| x as f32)),
        DType::BF16 => store(out, at, values.iter().map(|&x| bf16::from_f64(x))),
        DType::F16 => store(out, at, values.iter().map(|&x| f16::from_f64(x))),
        DType::I64 => store(out, at, values.iter().map(|&x| x as i64)),
        DType::I32 => store(out, at, values.iter().map(|&x| x as i32)),
        DType::U8 => store(out, at, values.iter().map(|&x| x as u8)),
        DType::Bool => store(out, at, values.iter().map(|&x| u8::from(x != 0.0))),
    }
}

/// As [`from_f32`]; integers become narrower ones by wrapping.
pub(crate) fn from_i64(values: &[i64], dtype: DType, out: &mut [u8], at: usize) {
    let n = values.len();
    match dtype {
        DType::I64 => cast_slice_mut::<u8, i64>(out)[at..at + n].copy_from_slice(values),
        DType::I32 => store(out, at, values.iter().map(|&x| x as i32)),
        DType::U8 => store(out, at, values.iter().map(|&x| x as u8)),
        DType::Bool => store(out, at, values.iter().map(|&x| u8::from(x != 0))),
        DType::F64 => store(out, at, values.iter().map(|&x| x as f64)),
        DType::F32 => store(out, at, values.iter().map(|&x| x as f32)),
        DType::BF16 => store(out, at, values.iter().map(|&x| bf16::from_f64(x as f64))),
        DType::F16 => store(out, at, values.iter().map(|&x| f16::from_f64(x as f64))),
    }
}

fn store<T: bytemuck::Pod>(out: &mut [u8], at: usize, values: impl Iterator<Item = T>) {
    cast_slice_mut::<u8, T>(out)[at..].iter_mut().zip(values).for_each(|(o, x)| *o = x);
}
