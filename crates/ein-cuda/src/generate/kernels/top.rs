//! The first elements along the last axis in sorted order: a block for each row.
//!
//! Up to [`MOST`] are kept in shared memory (16 bytes each: 32 KiB of at most 48) while the row passes by; more, and
//! whole sorts, lie in scratch memory, which a row's block sorts in `log² n` passes.

use super::{given, launch, operand, own_box};
use crate::generate::Call;
use crate::generate::loops::Loops;
use crate::generate::types;
use crate::program::{Arg, Base, Kernel, Program, Target};
use ein_ir::kernel::TopK;
use ein_ir::monoid::Top;
use ein_run::Cause;

/// Threads of a block.
const THREADS: usize = 256;
/// Elements that shared memory holds.
const ROOM: usize = 2048;
/// So many are kept in shared memory: at least as many pass by between two sorts.
const MOST: usize = ROOM / 2;

/// The first k of the block's part of the axis; where it has fewer, entries that stand for nothing.
pub(super) fn program(t: &TopK, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    let (k, of) = (t.top.k, t.top.of);
    if call.labels.is_empty() || k == 0 {
        return super::idle::program(call, target);
    }
    let rank = t.shape.len() - 1;
    let axis = call.labels.0[rank];
    let x = operand(call, 0, call.labels)?;
    let mut loops = Loops::new(call.labels.shape(), vec![x.steps.clone()]);
    loops.remove(rank);
    let loops = loops.merged();
    let (rows, length, step) = (loops.count(), axis.len(), x.steps[rank]);
    // The rows of a field follow each other.
    own_box(call, rank)?;
    let kept = k.min(length);
    let in_shared = kept <= MOST;
    // Room for those kept and for what is looked at between two sorts.
    let room = if in_shared { (2 * kept).max(2 * THREADS).next_power_of_two() } else { length.next_power_of_two() };
    let blocks = rows.min(u64::from(target.multiprocessors) * if in_shared { 8 } else { 1 });
    let (values, indices) = match (call.finish, t.top.indices) {
        (false, _) => (Some(0), Some(1)),
        (true, false) => (Some(0), None),
        (true, true) => (None, Some(0)),
    };
    let element = types::stored(of);
    let wide = if of.is_float() { "double" } else { "long long" };
    let turn = if t.top.largest { "~" } else { "" };
    let load = types::load(of, &format!("from[at * {step}ll]"));
    let mut writes = String::new();
    if values.is_some() {
        writes += &format!(
            "(({element}*)values)[n * {k} + i] = i < {kept} ? from[kept[i].place * {step}ll] : ({element})0;\n            "
        );
    }
    if indices.is_some() {
        let nothing = Top::NOTHING;
        writes += &format!("((long long*)indices)[n * {k} + i] = i < {kept} ? lo + kept[i].place : {nothing}ll;");
    }
    let (room_of, sorted) = if in_shared {
        let sorted = format!("ein_top<{THREADS}, {kept}, {room}>(NAME_row{{from}}, {length}ll, kept, &held)");
        (format!("__shared__ ein_Ranked kept[{room}];\n    __shared__ int held;"), sorted)
    } else {
        let sorted = format!(
            "for (long long i = threadIdx.x; i < {room}ll; i += {THREADS})
            kept[i] = i < {length}ll ? ein_Ranked{{NAME_row{{from}}.key(i), i}} : ein_beyond();
        ein_sort<{THREADS}>(kept, {room}ll)"
        );
        (format!("ein_Ranked* kept = (ein_Ranked*)scratch + blockIdx.x * {room}ll;"), sorted)
    };
    let positions = loops.positions("n", "p", "long long").replace('\n', "\n        ");
    let source = format!(
        "struct NAME_row {{
    const {element}* from;
    __device__ __forceinline__ long long key(long long at) const {{ return {turn}ein_rank(({wide})({load})); }}
}};
extern \"C\" __global__ void __launch_bounds__({THREADS}) NAME(unsigned char* values, unsigned char* indices, const \
         unsigned char* x, unsigned char* scratch, long long lo) {{
    {room_of}
    for (long long n = blockIdx.x; n < {rows}ll; n += gridDim.x) {{
        {positions}const {element}* from = (const {element}*)x + p0;
        {sorted};
        for (int i = threadIdx.x; i < {k}; i += {THREADS}) {{
            {writes}
        }}
        __syncthreads();
    }}
}}
"
    );
    let at = |field: Option<usize>| Arg::Pointer(call.result.at(field.unwrap_or(0), 0));
    let args = vec![
        at(values),
        at(indices),
        Arg::Pointer(given(call, 0)?.at(0, x.base)),
        Arg::Pointer(Base::Scratch.at(0)),
        Arg::I64(axis.lo as i64),
    ];
    let scratch = if in_shared { 0 } else { blocks * room as u64 * 16 };
    let kernel = Kernel::new("top", &source);
    Ok(Program { steps: vec![launch(kernel, blocks, THREADS as u32, args)?], scratch })
}
