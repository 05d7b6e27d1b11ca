//! Running folds along an axis, floats in `f64`: a long sum in `f32` would lose its tail.
//!
//! Where there are many lines side by side in memory, each has a thread, and warps read what lies together. Elsewhere each
//! has a block, which passes what it has so far from one part of the line to the next. Either way every element is read
//! and written once.

use super::{blocks, given, launch, operand};
use crate::generate::Call;
use crate::generate::launch::THREADS;
use crate::generate::loops::Loops;
use crate::generate::strided::Strided;
use crate::generate::types;
use crate::program::{Arg, Kernel, Program, Target};
use ein_ir::dtype::DType;
use ein_ir::kernel::{Scan, ScanFunction};
use ein_run::Cause;

/// Elements side by side that a thread of a block takes.
const EACH: usize = 4;
/// So many lines fill a device with a thread each.
const MANY: u64 = 8192;

/// Every line of the block along the axis.
pub(super) fn program(s: &Scan, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    if call.labels.is_empty() {
        return Ok(Program::default());
    }
    let rank = s.shape.len();
    let (x, result) = (operand(call, 0, call.labels)?, Strided::result(rank, call.labels, &call.result.region)?);
    let length = call.labels.0[s.axis].len();
    let mut loops = Loops::new(call.labels.shape(), vec![result.steps.clone(), x.steps.clone()]);
    loops.remove(s.axis);
    let loops = loops.merged();
    let (to, from) = (result.steps[s.axis], x.steps[s.axis]);
    let lines = loops.count();
    // Neighbours read together: a thread each.
    let own = loops.inner_step(1) == 1 && loops.inner() >= 32 && from != 1;
    let threaded = length == 1 || (own && (lines >= MANY || length < 128));
    let (state, value) = state(s);
    let (element, given_as) = (types::stored(s.dtype), if s.function.gives_index() { DType::I64 } else { s.dtype });
    let load = match s.dtype {
        DType::Bool => "p[at] != 0".into(),
        _ => types::load(s.dtype, "p[at]"),
    };
    let store = match given_as {
        // Sums of integers are taken in 64 bits and wrap; bools are 0 or 1.
        DType::I32 | DType::U8 | DType::Bool => format!("({})(v)", types::stored(given_as)),
        DType::BF16 | DType::F16 => types::store(given_as, "(float)v"),
        DType::F64 | DType::F32 | DType::I64 => types::store(given_as, &format!("({})v", types::stored(given_as))),
    };
    let (given_type, counter) = (types::stored(given_as), loops.counter());
    let positions = loops.positions("n", "p", counter).replace('\n', "\n        ");
    let (threads, number, step, run) = if threaded {
        (THREADS, format!("blockIdx.x * ({counter}){THREADS} + threadIdx.x"), format!("({counter}){THREADS}"), {
            format!("ein_scan_thread<{state}>(line, {length}ll)")
        })
    } else {
        // A short line needs no whole block of threads.
        let threads = length.div_ceil(EACH).next_multiple_of(32).min(THREADS as usize) as u32;
        (threads, format!("({counter})blockIdx.x"), format!("({counter})1"), {
            format!("ein_scan_block<{state}, {threads}, {EACH}>(line, {length}ll, ends)")
        })
    };
    let ends = if threaded { String::new() } else { format!("__shared__ {state} ends[{}];", threads / 32) };
    let source = format!(
        "struct NAME_line {{
    {given_type}* to;
    const {element}* from;
    __device__ __forceinline__ {value} read(long long n) const {{
        const {element}* p = from;
        const long long at = n * {from}ll;
        return ({value})({load});
    }}
    template <typename V> __device__ __forceinline__ void write(long long n, V v) const {{ to[n * {to}ll] = {store}; }}
}};
extern \"C\" __global__ void __launch_bounds__({threads}) NAME(unsigned char* out, const unsigned char* x) {{
    {ends}
    for ({counter} n = {number}; n < {lines}; n += gridDim.x * {step}) {{
        {positions}const NAME_line line{{({given_type}*)out + p0, (const {element}*)x + p1}};
        {run};
    }}
}}
"
    );
    let most = u64::from(target.multiprocessors) * 16;
    let grid = if threaded { blocks(lines, THREADS, most) } else { lines.min(most) };
    let args = vec![Arg::Pointer(call.result.at(0, result.base)), Arg::Pointer(given(call, 0)?.at(0, x.base))];
    let kernel = Kernel::new("scan", &source);
    Ok(Program { steps: vec![launch(kernel, grid, threads, args)?], scratch: 0 })
}

/// The state of a function, and the C type that its elements are folded in.
fn state(s: &Scan) -> (String, &'static str) {
    let value = if s.dtype.is_float() { "double" } else { "long long" };
    let state = match s.function {
        ScanFunction::Sum => format!("ein_RunSum<{value}>"),
        ScanFunction::Prod => format!("ein_RunProd<{value}>"),
        ScanFunction::Max => format!("ein_RunMax<{value}>"),
        ScanFunction::Min => format!("ein_RunMin<{value}>"),
        ScanFunction::LogSumExp => "ein_RunLogSum<double>".into(),
        ScanFunction::MaxIndex => format!("ein_RunPlace<{value}, true>"),
        ScanFunction::MinIndex => format!("ein_RunPlace<{value}, false>"),
    };
    (state, value)
}
