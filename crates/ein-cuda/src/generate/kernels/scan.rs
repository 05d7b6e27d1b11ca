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
    let lines = Lines::of(&loops, length, from);
    let (state, value) = state(s);
    let (element, given_as) = (types::stored(s.dtype), if s.function.gives_index() { DType::I64 } else { s.dtype });
    let load = match s.dtype {
        DType::Bool => "p[at] != 0".into(),
        _ => types::load(s.dtype, "p[at]"),
    };
    let store = narrowed(given_as, "v");
    let (given_type, counter) = (types::stored(given_as), loops.counter());
    let positions = loops.positions("n", "p", counter).replace('\n', "\n        ");
    let [number, step, run, ends] = lines.text(&state, length, counter);
    let (threads, count) = (lines.threads, lines.count);
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
    for ({counter} n = {number}; n < {count}; n += gridDim.x * {step}) {{
        {positions}const NAME_line line{{({given_type}*)out + p0, (const {element}*)x + p1}};
        {run};
    }}
}}
"
    );
    let args = vec![Arg::Pointer(call.result.at(0, result.base)), Arg::Pointer(given(call, 0)?.at(0, x.base))];
    let kernel = Kernel::new("scan", &source);
    Ok(Program { steps: vec![launch(kernel, lines.grid(target), threads, args)?], scratch: 0 })
}

/// The C type that elements are folded in.
pub(super) fn folded_in(dtype: DType) -> &'static str {
    if dtype.is_float() { "double" } else { "long long" }
}

/// The element in memory of a value of that type.
pub(super) fn narrowed(dtype: DType, v: &str) -> String {
    match dtype {
        // Sums of integers are taken in 64 bits and wrap; bools are 0 or 1.
        DType::I32 | DType::U8 | DType::Bool => format!("({})({v})", types::stored(dtype)),
        DType::BF16 | DType::F16 => types::store(dtype, &format!("(float){v}")),
        DType::F64 | DType::F32 | DType::I64 => types::store(dtype, &format!("({}){v}", types::stored(dtype))),
    }
}

/// How lines are run along: how many there are, and whether each has a thread or a block, whose threads these are.
pub(super) struct Lines {
    /// How many.
    pub(super) count: u64,
    /// Whether each has a thread.
    pub(super) threaded: bool,
    /// Threads of a block.
    pub(super) threads: u32,
}

impl Lines {
    /// Lines of some length, given by the loops over where they start; the second operand is the one that is read, whose
    /// step along a line is `from`.
    pub(super) fn of(loops: &Loops, length: usize, from: i64) -> Self {
        let count = loops.count();
        // Neighbours read together: a thread each.
        let own = loops.inner_step(1) == 1 && loops.inner() >= 32 && from != 1;
        let threaded = length <= 1 || (own && (count >= MANY || length < 128));
        // A short line needs no whole block of threads.
        let some = length.div_ceil(EACH).next_multiple_of(32).min(THREADS as usize) as u32;
        Self { count, threaded, threads: if threaded { THREADS } else { some } }
    }

    /// The number of a thread's first line, by how much it goes up, and the statements that run along `line`; of blocks
    /// also what they share, all by a state of this type and a counter of that.
    pub(super) fn text(&self, state: &str, length: usize, counter: &str) -> [String; 4] {
        let threads = self.threads;
        if self.threaded {
            let first = format!("blockIdx.x * ({counter}){threads} + threadIdx.x");
            let run = format!("ein_scan_thread<{state}>(line, {length}ll)");
            [first, format!("({counter}){threads}"), run, String::new()]
        } else {
            let run = format!("ein_scan_block<{state}, {threads}, {EACH}>(line, {length}ll, ends)");
            let ends = format!("__shared__ {state} ends[{}];", threads / 32);
            [format!("({counter})blockIdx.x"), format!("({counter})1"), run, ends]
        }
    }

    /// Blocks of the grid.
    pub(super) fn grid(&self, target: &Target) -> u64 {
        let most = u64::from(target.multiprocessors) * 16;
        if self.threaded { blocks(self.count, self.threads, most) } else { self.count.min(most) }
    }
}

/// The state of a function, and the C type that its elements are folded in.
fn state(s: &Scan) -> (String, &'static str) {
    let value = folded_in(s.dtype);
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
