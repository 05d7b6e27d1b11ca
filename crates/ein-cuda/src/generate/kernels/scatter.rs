//! Elements folded into the places that ids name, always in the order of the elements: no atomics on values.
//!
//! Three kernels: the first and the last element of every place (atomics on integers, whose order does not matter); of
//! every element the next one of the same place, looked for by a warp; and for every element of the result the fold
//! along its list, by one thread. The bytes are those of the elements and of the result; the search reads, for every
//! element but the last of its place, the ids up to the next: as many as there are places, on the average of ids drawn
//! at random, 32 at a time. A list is walked one element after the other: few places of many elements are slow.

use super::{blocks, given, launch, operand, row};
use crate::generate::Call;
use crate::generate::launch::THREADS;
use crate::generate::loops::Loops;
use crate::generate::stored::alignment;
use crate::generate::strided::Strided;
use crate::generate::types;
use crate::program::{Arg, Base, FaultCode, Kernel, Program, Step, Target};
use ein_ir::dtype::DType;
use ein_ir::kernel::{Scatter, ScatterAlong};
use ein_ir::monoid::Monoid;
use ein_ir::region::{Region, strides};
use ein_run::Cause;
use std::sync::Arc;

/// Slices of a tensor into rows.
pub(super) fn slices(s: &Scatter, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    Scattered { axis: s.axis, rows: s.rows, monoid: s.monoid, dtype: s.dtype, along: false }.program(call, target)
}

/// Single elements along an axis.
pub(super) fn elements(s: &ScatterAlong, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    Scattered { axis: s.axis, rows: s.rows, monoid: s.monoid, dtype: s.dtype, along: true }.program(call, target)
}

/// What both have in common. Labels are those of the result, of which `axis` is v, then n.
struct Scattered {
    axis: usize,
    rows: usize,
    monoid: Monoid,
    dtype: DType,
    /// Whether every line along the axis has ids of its own.
    along: bool,
}

/// The ids of a block: lines of `length`, each with `own` places.
struct Lines {
    /// Over the lines; walkers: the first id, the line's number.
    loops: Loops,
    length: usize,
    own: usize,
    /// From one id of a line to the next.
    step: i64,
    /// The type of ids in memory.
    id: &'static str,
}

impl Scattered {
    fn program(&self, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
        let rank = call.labels.rank() - 1;
        let (places, taken) = (call.labels.0[self.axis], call.labels.0[rank]);
        // Nothing is folded; or nothing is left but to refuse wrong ids, which a block with elements does.
        if call.labels.is_empty() || call.operands.iter().take(2).any(Option::is_none) {
            return super::idle::program(call, target);
        }
        let (x, ids) = (operand(call, 0, call.labels)?, operand(call, 1, call.labels)?);
        let result = Strided::result(rank, call.labels, &call.result.region)?;
        // Lines of ids: over every axis but v where these have their own, else one.
        let others: Vec<usize> = (0..rank).filter(|&l| self.along && l != self.axis).collect();
        let extents: Vec<usize> = others.iter().map(|&l| call.labels.0[l].len()).collect();
        let numbers: Vec<i64> = strides(&extents).iter().map(|&s| s as i64).collect();
        let starts = others.iter().map(|&l| ids.steps[l]).collect();
        let lines = Lines {
            loops: Loops::new(extents, vec![starts, numbers.clone()]),
            length: taken.len(),
            own: places.len(),
            step: ids.steps[rank],
            id: types::stored(given(call, 1)?.dtype(0)),
        };
        let (count, heads) = (lines.loops.count() * lines.length as u64, lines.loops.count() * lines.own as u64);
        if lines.length >= 1 << 31 {
            return Err(Cause::malformed(format!(
                "`{}` scatters {} elements in one line",
                call.row.name, lines.length
            )));
        }
        // First and last of every place, then the next of every element.
        let field = (heads * 4).next_multiple_of(16);
        let scratch = [0, field, 2 * field].map(|at| Base::Scratch.at(at));
        let [first, last, next] = scratch.map(Arg::Pointer);
        let ids_at = Arg::Pointer(given(call, 1)?.at(0, ids.base));
        let lo = Arg::I64(places.lo as i64);
        let grid = |n: u64| blocks(n, THREADS, u64::from(target.multiprocessors) * 16);
        let mut steps = vec![Step::Zero { at: scratch[0], bytes: scratch[2].offset }];
        let fault = Arg::Pointer(Base::Fault.at(0));
        let args = vec![ids_at, first, last, fault, row(call), lo];
        steps.push(launch(self.ends(&lines), grid(count), THREADS, args)?);
        let args = vec![ids_at, last, next, lo];
        steps.push(launch(Self::followers(&lines), grid(count * 32), THREADS, args)?);
        let mut numbered = vec![0; rank];
        others.iter().zip(&numbers).for_each(|(&l, &n)| numbered[l] = n);
        let lists = [numbered.iter().map(|n| n * lines.own as i64).collect::<Vec<_>>(), numbered];
        let (fold, points) = self.fold(call, &lines, [&result, &x], lists)?;
        let args = vec![
            Arg::Pointer(call.result.at(0, result.base)),
            Arg::Pointer(given(call, 0)?.at(0, x.base)),
            first,
            next,
        ];
        steps.push(launch(fold, grid(points), THREADS, args)?);
        Ok(Program { steps, scratch: scratch[2].offset + count * 4 })
    }

    /// Of every place, the first element (its distance from the end) and the last (its number, from 1), 0 where there
    /// is none.
    fn ends(&self, lines: &Lines) -> Arc<Kernel> {
        let Lines { length, own, step, id, .. } = lines;
        let (rows, code, count) = (self.rows, FaultCode::Id as i64, lines.loops.count() * *length as u64);
        let positions = lines.loops.positions("line", "p", "long long").replace('\n', "\n        ");
        Kernel::new(
            "scatter_ends",
            &format!(
                "extern \"C\" __global__ void __launch_bounds__({THREADS}) NAME(const unsigned char* ids, unsigned char* \
                 first, unsigned char* last, unsigned char* fault, long long row, long long lo) {{
    for (long long n = blockIdx.x * {THREADS}ll + threadIdx.x; n < {count}ll; n += gridDim.x * {THREADS}ll) {{
        const int at = (int)(n % {length});
        const long long line = n / {length};
        {positions}const long long id = ((const {id}*)ids)[p0 + at * {step}ll];
        if (id < 0 || id >= {rows}ll) {{
            ein_fault(fault, row, {code}, id, {rows});
            continue;
        }}
        if (id < lo || id - lo >= {own}ll) continue;
        atomicMax((int*)first + p1 * {own}ll + (id - lo), {length} - at);
        atomicMax((int*)last + p1 * {own}ll + (id - lo), at + 1);
    }}
}}
"
            ),
        )
    }

    /// Of every element, the next one of the same place, -1 where there is none.
    fn followers(lines: &Lines) -> Arc<Kernel> {
        let Lines { length, own, step, id, .. } = lines;
        let count = lines.loops.count() * *length as u64;
        let positions = lines.loops.positions("line", "p", "long long").replace('\n', "\n        ");
        let warps = THREADS / 32;
        Kernel::new(
            "scatter_next",
            &format!(
                "extern \"C\" __global__ void __launch_bounds__({THREADS}) NAME(const unsigned char* ids, const unsigned \
                 char* last, unsigned char* next, long long lo) {{
    const int lane = threadIdx.x & 31;
    for (long long n = blockIdx.x * {warps}ll + (threadIdx.x >> 5); n < {count}ll; n += gridDim.x * {warps}ll) {{
        const int at = (int)(n % {length});
        const long long line = n / {length};
        {positions}const {id}* own = (const {id}*)ids + p0;
        const long long id = own[at * {step}ll];
        int found = -1;
        if (id >= lo && id - lo < {own}ll && ((const int*)last)[p1 * {own}ll + (id - lo)] > at + 1)
            for (int from = at + 1; found < 0; from += 32) {{
                const bool same = from + lane < {length} && own[(from + lane) * {step}ll] == id;
                const unsigned all = __ballot_sync(0xffffffffu, same);
                if (all) found = from + __ffs((int)all) - 1;
            }}
        if (lane == 0) ((int*)next)[n] = found;
    }}
}}
"
            ),
        )
    }

    /// Every element of the result, along the list of its place; and how many threads have something to do.
    fn fold(
        &self,
        call: &Call<'_>,
        lines: &Lines,
        [result, x]: [&Strided; 2],
        [heads, numbers]: [Vec<i64>; 2],
    ) -> Result<(Arc<Kernel>, u64), Cause> {
        let rank = call.labels.rank() - 1;
        let out = Region(call.labels.0[..rank].to_vec());
        let from = (0..rank).map(|l| if l == self.axis { 0 } else { x.steps[l] }).collect();
        // Walkers: result, elements, the place's head, the line's number.
        let mut places = heads;
        places[self.axis] = 1;
        let to = result.steps[..rank].to_vec();
        let mut loops = Loops::new(out.shape(), vec![to, from, places, numbers]).merged();
        let along = x.steps[rank];
        // Several elements of a slice by one thread, as one word.
        let stored = call.result.dtype(0);
        let size = self.dtype.bytes().max(stored.bytes());
        let aligned = alignment(call.result.at(0, result.base)).min(alignment(given(call, 0)?.at(0, x.base)));
        let inner = loops.extents.len().wrapping_sub(1);
        let joined = [1, 1, 0, 0].iter().enumerate().all(|(w, &s)| loops.inner_step(w) == s) && loops.inner() > 1;
        let fits = |n: i64| {
            let steps = loops.steps[..2].iter().flat_map(|s| &s[..inner]);
            joined && loops.inner() as i64 % n == 0 && along % n == 0 && steps.into_iter().all(|s| s % n == 0)
        };
        let few = [8, 4, 2].into_iter().find(|&n: &usize| (n * size) as u64 <= aligned && fits(n as i64));
        let few = few.unwrap_or(1);
        if few > 1 {
            loops.extents[inner] /= few;
            loops.steps[..2].iter_mut().for_each(|s| s[inner] *= few as i64);
        }
        let fold = match self.monoid {
            Monoid::Sum => "ein_Sum",
            Monoid::Prod => "ein_Prod",
            Monoid::Max => "ein_Max",
            Monoid::Min => "ein_Min",
            Monoid::Moments | Monoid::SoftMax | Monoid::Attend | Monoid::Once | Monoid::Top(_) | Monoid::Affine => {
                return Err(Cause::malformed(format!("`{}` folds by {}", call.row.name, self.monoid)));
            }
        };
        let (element, value, bytes) = (types::stored(self.dtype), types::value(self.dtype), few * self.dtype.bytes());
        // Partials of 16-bit floats may be kept in f32.
        let (result, result_bytes) = (types::stored(stored), few * stored.bytes());
        let (load, store) = (types::load(self.dtype, "w[i]"), types::store(stored, "acc[i].value"));
        let (count, length) = (loops.count(), lines.length);
        let counter = loops.counter();
        let positions = loops.positions("n", "p", counter).replace('\n', "\n        ");
        let source = format!(
            "extern \"C\" __global__ void __launch_bounds__({THREADS}) NAME(unsigned char* out, const unsigned char* x, \
             const unsigned char* first, const unsigned char* next) {{
    for ({counter} n = blockIdx.x * ({counter}){THREADS} + threadIdx.x; n < {count}; n += gridDim.x * \
             ({counter}){THREADS}) {{
        {positions}{element} w[{few}];
        {result} to[{few}];
        {fold}<{value}> acc[{few}];
#pragma unroll
        for (int i = 0; i < {few}; i++) acc[i] = {fold}<{value}>::none();
        const int head = ((const int*)first)[p2];
        for (int at = head == 0 ? -1 : {length} - head; at >= 0; at = ((const int*)next)[p3 * {length}ll + at]) {{
            ein_load<{bytes}>(w, (const {element}*)x + p1 + at * {along}ll);
#pragma unroll
            for (int i = 0; i < {few}; i++) acc[i].push({load});
        }}
#pragma unroll
        for (int i = 0; i < {few}; i++) to[i] = {store};
        ein_store<{result_bytes}>(({result}*)out + p0, to);
    }}
}}
"
        );
        Ok((Kernel::new("scatter_fold", &source), count))
    }
}
