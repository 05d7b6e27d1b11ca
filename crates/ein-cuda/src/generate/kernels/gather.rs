//! Elements of a table by their ids. Bits are moved, whatever they mean: as many at once as one instruction can.
//!
//! Every word of the result is written once: the bytes are those of the result, of the slices named, and of the ids.

use super::{blocks, given, launch, operand, row, spec};
use crate::generate::Call;
use crate::generate::launch::THREADS;
use crate::generate::loops::Loops;
use crate::generate::stored::alignment;
use crate::generate::strided::Strided;
use crate::generate::types;
use crate::program::{Arg, Base, FaultCode, Kernel, Program, Target};
use ein_ir::kernel::{Gather, GatherAlong};
use ein_ir::region::Region;
use ein_run::Cause;

/// Positions in the result, the ids and the table.
const OUT: usize = 0;
const IDS: usize = 1;
const TABLE: usize = 2;

/// Slices of a table.
pub(super) fn slices(g: &Gather, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    gather("gather", g.row_label(), g.table[g.axis], call, target)
}

/// Single elements along an axis.
pub(super) fn elements(g: &GatherAlong, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    gather("gather_along", g.ids.len(), g.table[g.axis], call, target)
}

/// What the block's part of the axis, label `v` of `rows`, holds; bits that are all 0 for ids that another answers.
fn gather(what: &str, v: usize, rows: usize, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    let (own, points) = (call.labels.0[v], Region(call.labels.0[..v].to_vec()));
    let result = Strided::result(v, call.labels, &call.result.region)?;
    if points.is_empty() {
        return Ok(Program::default());
    }
    if call.operands.get(1).is_none_or(Option::is_none) {
        return super::idle::program(call, target);
    }
    // The ids of the points; the axis is not theirs.
    let mut one = call.labels.clone();
    one.0[v].hi = one.0[v].lo + 1;
    let ids = operand(call, 1, &one)?;
    // A part of the axis that has no rows answers nothing, but still refuses ids that are wrong.
    let table = if own.is_empty() { None } else { Some(operand(call, 0, call.labels)?) };
    let size = spec(call)?.dtype.bytes();
    let mut steps = vec![result.steps.clone(), ids.steps.clone()];
    steps.push(table.as_ref().map_or(vec![0; v + 1], |t| t.steps.clone()));
    for s in &mut steps {
        s.truncate(v);
    }
    let mut loops = Loops::new(points.shape(), steps).merged();
    let mut along = table.as_ref().map_or(0, |t| t.steps[v]);
    let out_place = call.result.at(0, result.base);
    let table_place = match &table {
        None => out_place,
        Some(t) => given(call, 0)?.at(0, t.base),
    };
    // As wide words as everything is a multiple of.
    let widest = alignment(out_place).min(alignment(table_place)) as usize / size;
    let inner = loops.extents.len().wrapping_sub(1);
    let joined = loops.inner_step(OUT) == 1 && loops.inner_step(TABLE) == 1 && loops.inner_step(IDS) == 0;
    let fits = |n: i64| {
        let steps = [OUT, TABLE].iter().flat_map(|&w| &loops.steps[w][..inner]);
        joined && loops.inner() as i64 % n == 0 && along % n == 0 && steps.into_iter().all(|s| s % n == 0)
    };
    let wide = [16, 8, 4, 2].into_iter().map(|b: usize| b / size).find(|&n| n > 1 && n <= widest && fits(n as i64));
    let wide = wide.unwrap_or(1);
    if wide > 1 {
        loops.extents[inner] /= wide;
        along /= wide as i64;
        for walker in [OUT, TABLE] {
            loops.steps[walker][..inner].iter_mut().for_each(|s| *s /= wide as i64);
        }
    }
    let ids_dtype = given(call, 1)?.dtype(0);
    let counter = loops.counter();
    let (bytes, threads) = (wide * size, THREADS);
    let (count, positions) = (loops.count(), loops.positions("n", "p", counter).replace('\n', "\n        "));
    let (id, code, length) = (types::stored(ids_dtype), FaultCode::Id as i64, own.len());
    let source = format!(
        "extern \"C\" __global__ void __launch_bounds__({threads}) NAME(unsigned char* out, const unsigned char* ids, \
         const unsigned char* table, unsigned char* fault, long long row, long long lo) {{
    typedef ein_Word<{bytes}>::type word;
    for ({counter} n = blockIdx.x * ({counter}){threads} + threadIdx.x; n < {count}; n += gridDim.x * \
         ({counter}){threads}) {{
        {positions}const long long id = (({id}*)ids)[p{IDS}];
        word w = word();
        if (id < 0 || id >= {rows}ll) ein_fault(fault, row, {code}, id, {rows});
        else if (id >= lo && id - lo < {length}ll) w = ((const word*)table)[p{TABLE} + (id - lo) * {along}ll];
        ((word*)out)[p{OUT}] = w;
    }}
}}
"
    );
    let grid = blocks(count, threads, u64::from(target.multiprocessors) * 16);
    let args = vec![
        Arg::Pointer(out_place),
        Arg::Pointer(given(call, 1)?.at(0, ids.base)),
        Arg::Pointer(table_place),
        Arg::Pointer(Base::Fault.at(0)),
        row(call),
        Arg::I64(own.lo as i64),
    ];
    let kernel = Kernel::new(what, &source);
    Ok(Program { steps: vec![launch(kernel, grid, threads, args)?], scratch: 0 })
}
