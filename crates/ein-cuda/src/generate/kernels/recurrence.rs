//! Linear recurrences along an axis, and their last states, as running folds of maps: floats in `f64`.
//!
//! Every element of both operands is read once; of the last states nothing else is written.

use super::scan::{Lines, folded_in, narrowed};
use super::{given, idle, launch, operand};
use crate::generate::Call;
use crate::generate::loops::Loops;
use crate::generate::strided::Strided;
use crate::generate::types;
use crate::program::{Arg, Kernel, Program, Target};
use ein_ir::dtype::DType;
use ein_ir::kernel::{LastState, Recurrence};
use ein_run::Cause;

/// Every state.
pub(super) fn states(r: &Recurrence, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    if call.labels.is_empty() {
        return Ok(Program::default());
    }
    let result = Strided::result(r.shape.len(), call.labels, &call.result.region)?;
    let to = result.steps[r.axis];
    let write = |dtype| format!("shifts[n * {to}ll] = {};", narrowed(dtype, "v.shift"));
    program("recurrence", call, target, &result, &Along { label: r.axis, dtype: r.dtype, fields: 1 }, write)
}

/// The map that the block's part of the axis is, or what becomes of 0.
pub(super) fn last(s: &LastState, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    if call.labels.is_empty() {
        return idle::program(call, target);
    }
    let rank = s.shape.len() - 1;
    let result = Strided::result(rank, call.labels, &call.result.region)?;
    let last = call.labels.0[rank].len() - 1;
    let write = |dtype| {
        let scale = if call.finish { String::new() } else { format!("*scales = {}; ", narrowed(dtype, "v.scale")) };
        format!("if (n == {last}ll) {{ {scale}*shifts = {}; }}", narrowed(dtype, "v.shift"))
    };
    let fields = if call.finish { 1 } else { 2 };
    program("last_state", call, target, &result, &Along { label: rank, dtype: s.dtype, fields }, write)
}

/// What lines go along: a label, in a type, with so many fields stored.
struct Along {
    label: usize,
    dtype: DType,
    fields: usize,
}

/// Runs along every line. `write` gives statements that store the map `v` of the first `n + 1` elements, in the type of a
/// field: `shifts` points to the last field at the line's start, `scales` to the one before it if there is one.
fn program(
    what: &str,
    call: &Call<'_>,
    target: &Target,
    result: &Strided,
    &Along { label, dtype, fields }: &Along,
    write: impl FnOnce(DType) -> String,
) -> Result<Program, Cause> {
    let (a, b) = (operand(call, 0, call.labels)?, operand(call, 1, call.labels)?);
    let length = call.labels.0[label].len();
    let steps = [result, &a, &b].map(|s| s.steps.clone()).to_vec();
    let mut loops = Loops::new(call.labels.shape(), steps);
    loops.remove(label);
    let loops = loops.merged();
    let lines = Lines::of(&loops, length, a.steps[label]);
    let state = format!("ein_RunAffine<{}>", folded_in(dtype));
    let (element, field) = (types::stored(dtype), call.result.dtype(fields - 1));
    let (stored, store) = (types::stored(field), write(field));
    let counter = loops.counter();
    let positions = loops.positions("n", "p", counter).replace('\n', "\n        ");
    let [number, step, run, ends] = lines.text(&state, length, counter);
    let (threads, count) = (lines.threads, lines.count);
    let load = |x: &str, step: i64| types::load(dtype, &format!("{x}[n * {step}ll]"));
    let (load_a, load_b) = (load("a", a.steps[label]), load("b", b.steps[label]));
    let value = folded_in(dtype);
    let source = format!(
        "struct NAME_line {{
    {stored}* scales;
    {stored}* shifts;
    const {element}* a;
    const {element}* b;
    __device__ __forceinline__ {state} read(long long n) const {{
        return {state}{{({value})({load_a}), ({value})({load_b}), true}};
    }}
    __device__ __forceinline__ void write(long long n, {state} v) const {{ {store} }}
}};
extern \"C\" __global__ void __launch_bounds__({threads}) NAME(unsigned char* scales, unsigned char* shifts, const unsigned \
         char* a, const unsigned char* b) {{
    {ends}
    for ({counter} n = {number}; n < {count}; n += gridDim.x * {step}) {{
        {positions}const NAME_line line{{({stored}*)scales + p0, ({stored}*)shifts + p0, (const {element}*)a + p1, (const \
         {element}*)b + p2}};
        {run};
    }}
}}
"
    );
    let args = vec![
        Arg::Pointer(call.result.at(0, result.base)),
        Arg::Pointer(call.result.at(fields - 1, result.base)),
        Arg::Pointer(given(call, 0)?.at(0, a.base)),
        Arg::Pointer(given(call, 1)?.at(0, b.base)),
    ];
    let kernel = Kernel::new(what, &source);
    Ok(Program { steps: vec![launch(kernel, lines.grid(target), threads, args)?], scratch: 0 })
}
