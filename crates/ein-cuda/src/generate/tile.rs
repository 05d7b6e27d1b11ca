//! Products of any types and strides, in squares in shared memory.
//!
//! Bytes: a block of 64 by 64 results reads 64 rows and columns, so each factor is read once for every 64 of the other.
//! Maps that follow are done before a result is stored.

use super::contract::Contraction;
use super::ending::{After, Ending};
use super::launch::{Arguments, THREADS};
use super::stored::Stored;
use super::types::{load, stored, value};
use crate::program::Program;
use ein_ir::region::Region;
use ein_run::Cause;
use std::fmt::Write;

/// Rows and columns of a block.
const SIDE: u64 = 64;

/// What is in shared memory at once of what is summed over.
const DEEP: u64 = 16;

/// Adds the step of a block whose result has the labels `out`; `false` where a map of more labels follows.
pub(crate) fn push(
    c: &Contraction<'_>,
    after: After<'_>,
    out: &Region,
    result: &Stored,
    program: &mut Program,
) -> Result<bool, Cause> {
    let ends = Ending::new(c.state, after, out, result)?;
    if ends.labels.rank() != out.rank() {
        return Ok(false);
    }
    let walkers = ends.walkers();
    let [batch, rows, columns, inner] =
        [&c.batch, &c.rows, &c.columns, &c.inner].map(|labels| c.loops(labels, &walkers));
    let [m, n, k] = [&rows, &columns, &inner].map(super::loops::Loops::count);
    let mut arguments = Arguments::default();
    let names = [c.left, c.right].map(|m| arguments.typed(m.place, &format!("const {}", stored(m.dtype))));
    let bound = ends.bind(&mut arguments);
    let reach = |w: usize| [&batch, &rows, &columns, &inner].iter().map(|l| l.reach(w)).sum::<u64>();
    let far = (0..walkers.len() + 2).map(reach).max().unwrap_or(0).max(m).max(n).max(k);
    let counter = if far >= (1 << 31) - (1 << 24) { "long long" } else { "int" };
    let ty = value(c.state.dtype);
    let (down, across) = (m.div_ceil(SIDE), n.div_ceil(SIDE));
    let each = SIDE * DEEP / u64::from(THREADS);
    let mut text = format!(
        "__shared__ {ty} left[{DEEP}][{0}], right[{DEEP}][{0}];\nconst int t = threadIdx.x, tx = t % 16, ty = t / \
         16;\nconst long long block = blockIdx.x;\nconst {counter} n0 = ({counter})(block % {across}) * {SIDE}, m0 = \
         ({counter})(block / {across} % {down}) * {SIDE};\nconst {counter} batch = ({counter})(block / {1});\n{2}{ty} \
         acc[4][4];\n#pragma unroll\nfor (int i = 0; i < 4; i++)\n#pragma unroll\nfor (int j = 0; j < 4; j++) acc[i][j] = \
         0;\nfor ({counter} k0 = 0; k0 < {k}; k0 += {DEEP}) {{\n",
        SIDE + 4,
        across * down,
        batch.positions("batch", "b", counter),
    );
    for (w, (memory, own, first, extent)) in
        [(c.left, &rows, "m0", m), (c.right, &columns, "n0", n)].into_iter().enumerate()
    {
        // Threads that lie side by side read along what is contiguous.
        let deep = inner.inner_step(w).abs() == 1;
        let (side, depth) = if deep {
            (format!("e / {DEEP}"), format!("e % {DEEP}"))
        } else {
            (format!("e % {SIDE}"), format!("e / {SIDE}"))
        };
        let element = load(memory.dtype, &format!("{}[b{w} + s{w} + d{w}]", names[w]));
        let _ = write!(
            text,
            "#pragma unroll\nfor (int q = 0; q < {each}; q++) {{\nconst int e = t + q * {THREADS}, i = {side}, j = \
             {depth};\nconst {counter} s = {first} + i, d = k0 + j;\n{ty} x = 0;\nif (s < {extent} && d < {k}) \
             {{\n{}{}x = ({ty}){element};\n}}\n{}[j][i] = x;\n}}\n",
            own.positions("s", "s", counter),
            inner.positions("d", "d", counter),
            ["left", "right"][w]
        );
    }
    let _ = write!(
        text,
        "__syncthreads();\n#pragma unroll\nfor (int d = 0; d < {DEEP}; d++) {{\n{ty} x[4], y[4];\n#pragma unroll\nfor (int i \
         = 0; i < 4; i++) {{\nx[i] = left[d][ty * 4 + i];\ny[i] = right[d][tx + i * 16];\n}}\n#pragma unroll\nfor (int i = \
         0; i < 4; i++)\n#pragma unroll\nfor (int j = 0; j < 4; j++) acc[i][j] = ein_mad(x[i], y[j], \
         acc[i][j]);\n}}\n__syncthreads();\n}}\n"
    );
    let at = |w: usize| format!("(b{0} + row{0} + column{0})", w + 2);
    let _ = write!(
        text,
        "#pragma unroll\nfor (int i = 0; i < 4; i++) {{\nconst {counter} row = m0 + ty * 4 + i;\nif (row >= {m}) \
         continue;\n{}#pragma unroll\nfor (int j = 0; j < 4; j++) {{\nconst {counter} column = n0 + tx + j * 16;\nif (column \
         >= {n}) continue;\n{}const {state} s{{acc[i][j]}};\n{}}}\n}}\n",
        rows.positions("row", "row", counter),
        columns.positions("column", "column", counter),
        bound.store("s", &at),
        state = c.state.joins(),
    );
    program.steps.push(arguments.launch("product", &text, [across * down * batch.count(), 1], THREADS)?);
    Ok(true)
}
