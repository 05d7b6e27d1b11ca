//! Blocks that read nothing: the result is the monoid's identity.

use super::{blocks, launch};
use crate::generate::Call;
use crate::generate::launch::THREADS;
use crate::program::{Arg, Kernel, Program, Step, Target};
use ein_ir::dtype::DType;
use ein_ir::reference::identity;
use ein_ir::scalar::Scalar;
use ein_run::Cause;
use half::{bf16, f16};

/// Fills the result with what no element at all gives.
pub(super) fn program(call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    let monoid = super::spec(call)?.monoid;
    let mut program = Program::default();
    for (n, field) in call.result.form.fields.iter().enumerate() {
        let count = call.result.field(n).volume() as u64;
        if count == 0 {
            continue;
        }
        // A finished value of several fields, of which none holds anything, is 0.
        let finished = call.finish && !monoid.is_plain();
        let value = if finished { Scalar::I(0).cast(field.dtype) } else { identity(monoid, field.name, field.dtype) };
        program.steps.push(fill(call.result.at(n, 0), field.dtype, value, count, target)?);
    }
    Ok(program)
}

/// Sets `count` elements to a value.
fn fill(at: crate::program::Place, dtype: DType, value: Scalar, count: u64, target: &Target) -> Result<Step, Cause> {
    let bits = bits(dtype, value);
    if bits == 0 {
        return Ok(Step::Zero { at, bytes: count * dtype.bytes() as u64 });
    }
    let word = ["unsigned char", "unsigned short", "unsigned", "ein_u64"][dtype.bytes().ilog2() as usize];
    let source = format!(
        "extern \"C\" __global__ void __launch_bounds__({THREADS}) NAME(unsigned char* out, long long value, long long \
         count) {{
    for (long long n = blockIdx.x * {THREADS}ll + threadIdx.x; n < count; n += gridDim.x * {THREADS}ll)
        (({word}*)out)[n] = ({word})value;
}}
"
    );
    let grid = blocks(count, THREADS, u64::from(target.multiprocessors) * 8);
    let args = vec![Arg::Pointer(at), Arg::I64(bits.cast_signed()), Arg::I64(count as i64)];
    launch(Kernel::new("fill", &source), grid, THREADS, args)
}

/// A value's bits in memory.
fn bits(dtype: DType, value: Scalar) -> u64 {
    match dtype {
        DType::F64 => value.to_f64().to_bits(),
        DType::F32 => (value.to_f64() as f32).to_bits().into(),
        DType::BF16 => bf16::from_f64(value.to_f64()).to_bits().into(),
        DType::F16 => f16::from_f64(value.to_f64()).to_bits().into(),
        DType::I64 => value.to_i64().cast_unsigned(),
        DType::I32 => (value.to_i64() as i32).cast_unsigned().into(),
        DType::U8 | DType::Bool => value.to_i64() as u64 & 0xff,
    }
}
