//! Reductions whose operand is contiguous along the results rather than along what is folded.
//!
//! Bytes: as of every reduction. Threads that lie side by side have results that do, some each, so that they read words
//! of 16 bytes; threads of a block, and blocks, share what is folded.

use super::body::{Side, grouped};
use super::ending::Ending;
use super::launch::{Arguments, THREADS};
use super::reduce::{Ends, Parts, Reduce, bounds, chained, enough};
use crate::program::{Program, Target};
use ein_run::Cause;
use std::fmt::Write;

/// Threads of a block that share a result, at most: enough are left for the results of a whole line of memory.
const SHARING: u64 = 8;

/// Adds the steps of a reduction that ends as `ends` says, with no map of more labels.
pub(crate) fn push(
    reduce: &Reduce<'_>,
    ends: &Ending<'_>,
    target: &Target,
    program: &mut Program,
) -> Result<(), Cause> {
    let mut arguments = Arguments::default();
    let reader = reduce.body.reader(&mut arguments);
    let (outer, inner, loops) = reduce.loops(ends, &reduce.by_memory(0..reduce.rank));
    let elements = reader.elements();
    let side = Side::along(&chained(&inner, &outer), &elements, 4);
    let lanes = side.lanes;
    let groups = grouped(&outer, lanes);
    let (count, points, counter) = (groups.count(), inner.count(), loops.counter);
    let mut sharing = 1;
    while sharing < SHARING && sharing * 4 <= points && count * sharing < enough(target) {
        sharing *= 2;
    }
    let width = u64::from(THREADS) / sharing;
    let blocks = count.div_ceil(width);
    let parts = (enough(target) / (blocks * u64::from(THREADS))).min(points / (sharing * 8)).clamp(1, 256);
    let (takes, state) = (reduce.state.takes(), reduce.state.joins());
    let each = format!("#pragma unroll\nfor (int v = 0; v < {lanes}; v++) ");
    let mut text = format!(
        "const int t = threadIdx.x, rank = t / {width}, slot = t % {width};\nconst {counter} o = ({counter})blockIdx.x * \
         {width} + slot;\n{takes} g[{lanes}];\n{each}g[v] = {takes}::none();\n"
    );
    if points > 0 {
        let at = |w: usize| format!("(out{w} + in{w})");
        let (take, skip) = reduce.take("g[v]");
        let _ = write!(
            text,
            "if (o < {count}) {{\n{}{}#pragma unroll 4\nfor ({counter} f = first + rank; f < last; f += {sharing}) \
             {{\n{}{}{each}{{\n{}{take}}}\n}}\n}}\n",
            groups.positions("o", "out", counter),
            bounds(points, parts, counter),
            inner.positions("f", "in", counter),
            reader.loads(&side, "x", &[], &at),
            reader.rows(&side, "x", skip, &at, &|_| unreachable!("nothing comes before a fold")),
        );
    }
    let _ = write!(text, "{state} s[{lanes}];\n{each}s[v] = g[v].done();\n");
    if sharing > 1 {
        let _ = write!(
            text,
            "__shared__ {state} slices[{lanes}][{THREADS}];\n{each}slices[v][t] = s[v];\n__syncthreads();\nif (rank == \
             0)\nfor (int k = 1; k < {sharing}; k++)\n{each}s[v].join(slices[v][k * {width} + slot]);\n"
        );
    }
    let _ = writeln!(text, "if (rank != 0 || o >= {count}) return;");
    if parts == 1 {
        text += &stored(ends, &loops, lanes, &mut arguments);
        program.steps.push(arguments.launch("reduce_across", &text, [blocks, 1], THREADS)?);
        return Ok(());
    }
    let outputs = outer.count();
    let kept = Parts::new(reduce.state, outputs, parts, program);
    let scratch = kept.pointer(&mut arguments, "");
    let _ = writeln!(text, "{each}{scratch}[blockIdx.y * (long long){outputs} + o * {lanes} + v] = s[v];");
    program.steps.push(arguments.launch("reduce_across_part", &text, [blocks, parts], THREADS)?);
    program.steps.push(kept.join(&loops, ends)?);
    Ok(())
}

/// Statements that end the folds `s` of some results side by side.
fn stored(ends: &Ending<'_>, loops: &Ends, lanes: usize, arguments: &mut Arguments) -> String {
    let bound = ends.bind(arguments);
    let groups = grouped(&loops.outer, lanes);
    let at = |w: usize| format!("(end{w} + v * ({}){})", loops.counter, loops.outer.inner_step(w));
    format!(
        "{}#pragma unroll\nfor (int v = 0; v < {lanes}; v++) {{\n{}}}\n",
        groups.positions("o", "end", loops.counter),
        bound.store("s[v]", &at)
    )
}
