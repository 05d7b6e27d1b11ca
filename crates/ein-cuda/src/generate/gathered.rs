//! Products of 16-bit floats of any strides, on tensor cores: factors are gathered in shared memory, as windows that
//! overlap are, without a copy of them in between.
//!
//! Bytes: a block of 128 by 64 results reads its rows and columns, windows as often as they overlap, which caches bear: a
//! copy would write and read them besides. While a block multiplies a step of 32, each thread has the next one's
//! elements in registers. Maps that follow are done before a result is stored.

use super::contract::Contraction;
use super::ending::{After, Ending};
use super::launch::{Arguments, THREADS};
use super::loops::Loops;
use super::stored::Stored;
use super::types::stored;
use crate::program::Program;
use ein_ir::dtype::DType;
use ein_ir::region::Region;
use ein_run::Cause;
use std::fmt::Write;

/// Rows and columns of a block.
const ROWS: u64 = 128;
const COLUMNS: u64 = 64;

/// What is in shared memory at once of what is summed over, and the elements from one row to the next: 16 bytes more than
/// its values, so that eight rows lie in different banks.
const DEEP: u64 = 32;
const PITCH: u64 = DEEP + 8;

/// Columns at most with which a copy of windows for the library takes longer than it saves, by a count of bytes and
/// operations, not measured: of 16-bit floats here, of others in squares of registers.
const FEW: [u64; 2] = [128, 24];

/// Whether one factor is windows that overlap, read by so few rows or columns of the other that a copy of them would be most
/// of the work.
pub(crate) fn is_better(c: &Contraction<'_>) -> bool {
    let overlap = |steps: &[i64], side: &[usize]| {
        let labels: Vec<usize> = [&c.batch, side, &c.inner].concat();
        let span: u64 = labels.iter().map(|&l| steps[l].unsigned_abs() * (c.extents[l] as u64 - 1)).sum::<u64>() + 1;
        c.volume(&labels) > 2 * span
    };
    let few = FEW[usize::from(!takes(c))];
    let [rows, columns] = [&c.rows, &c.columns].map(|labels| c.volume(labels));
    overlap(&c.left.steps, &c.rows) && columns <= few || overlap(&c.right.steps, &c.columns) && rows <= few
}

/// Whether it is of 16-bit floats, summed in f32.
pub(crate) fn takes(c: &Contraction<'_>) -> bool {
    let halves = matches!(c.left.dtype, DType::BF16 | DType::F16) && c.left.dtype == c.right.dtype;
    halves && c.state.dtype == DType::F32
}

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
    let [m, n, k] = [&rows, &columns, &inner].map(Loops::count);
    let mut arguments = Arguments::default();
    let names = [c.left, c.right].map(|m| arguments.typed(m.place, &format!("const {}", stored(m.dtype))));
    let bound = ends.bind(&mut arguments);
    let reach = |w: usize| [&batch, &rows, &columns, &inner].iter().map(|l| l.reach(w)).sum::<u64>();
    let far = (0..walkers.len() + 2).map(reach).max().unwrap_or(0).max(m).max(n).max(k);
    let counter = if far >= (1 << 31) - (1 << 24) { "long long" } else { "int" };
    let tag = if c.left.dtype == DType::BF16 { "ein_BF16" } else { "ein_F16" };
    let (down, across) = (m.div_ceil(ROWS), n.div_ceil(COLUMNS));
    let mut text = format!(
        "__shared__ __align__(16) unsigned short left[{ROWS} * {PITCH}], right[{COLUMNS} * {PITCH}];\nconst int t = threadIdx.x, \
         lane = t & 31, wr = (t >> 5) / 2 * 32, wc = (t >> 5) % 2 * 32;\nconst long long block = blockIdx.x;\nconst {counter} n0 = \
         ({counter})(block % {across}) * {COLUMNS}, m0 = ({counter})(block / {across} % {down}) * {ROWS};\nconst {counter} batch \
         = ({counter})(block / {});\n{}float acc[2][4][4];\n#pragma unroll\nfor (int i = 0; i < 32; i++) acc[i / 16][i / 4 % \
         4][i % 4] = 0.0f;\n",
        across * down,
        batch.positions("batch", "b", counter),
    );
    let sides = [Side::new(0, &rows, &inner, "m0", m), Side::new(1, &columns, &inner, "n0", n)];
    for side in &sides {
        text += &side.declare(counter);
    }
    let _ = writeln!(text, "auto load = [&](const {counter} k0) {{");
    for side in &sides {
        text += &side.load(&inner, &names[side.which], counter, k);
    }
    let _ = write!(text, "}};\nload(0);\nfor ({counter} k0 = 0; k0 < {k}; k0 += {DEEP}) {{\n__syncthreads();\n");
    for side in &sides {
        text += &side.store();
    }
    let _ = write!(
        text,
        "__syncthreads();\nif (k0 + {DEEP} < {k}) load(k0 + {DEEP});\n#pragma unroll\nfor (int d = 0; d < {DEEP}; d += 16) \
         {{\nunsigned a[2][4];\n#pragma unroll\nfor (int i = 0; i < 2; i++) ein_matrices<false>(a[i], left + (wr + i * 16 + (lane \
         & 15)) * {PITCH} + d + (lane >> 4) * 8);\n#pragma unroll\nfor (int j = 0; j < 4; j += 2) {{\nunsigned \
         w[4];\nein_matrices<false>(w, right + (wc + j * 8 + (lane >> 4) * 8 + (lane & 7)) * {PITCH} + d + (lane >> 3 & 1) * \
         8);\nconst unsigned one[2] = {{w[0], w[1]}}, other[2] = {{w[2], w[3]}};\n#pragma unroll\nfor (int i = 0; i < 2; i++) \
         {{\nein_product<{tag}>(acc[i][j], a[i], one);\nein_product<{tag}>(acc[i][j + 1], a[i], other);\n}}\n}}\n}}\n}}\n"
    );
    let at = |w: usize| format!("(b{0} + row{0} + column{0})", w + 2);
    let _ = write!(
        text,
        "#pragma unroll\nfor (int i = 0; i < 4; i++) {{\nconst {counter} row = m0 + wr + i * 8 + (lane >> 2);\nif (row >= {m}) \
         continue;\n{}#pragma unroll\nfor (int j = 0; j < 8; j++) {{\nconst {counter} column = n0 + wc + j / 2 * 8 + (lane & 3) * 2 \
         + j % 2;\nif (column >= {n}) continue;\n{}const {state} s{{acc[i / 2][j / 2][i % 2 * 2 + j % 2]}};\n{}}}\n}}\n",
        rows.positions("row", "row", counter),
        columns.positions("column", "column", counter),
        bound.store("s", &at),
        state = c.state.joins(),
    );
    program.steps.push(arguments.launch("gathered", &text, [across * down * batch.count(), 1], THREADS)?);
    Ok(true)
}

/// How threads gather a factor.
struct Side<'a> {
    which: usize,
    own: &'a Loops,
    first: &'static str,
    extent: u64,
    /// Rows or columns of a block, and elements of a thread.
    count: u64,
    each: u64,
    /// Whether threads that lie side by side read along what is summed over, rather than along rows or columns.
    deep: bool,
}

impl<'a> Side<'a> {
    fn new(which: usize, own: &'a Loops, inner: &Loops, first: &'static str, extent: u64) -> Self {
        let count = if which == 0 { ROWS } else { COLUMNS };
        let [along, down] = [own, inner].map(|l| (l.inner_step(which).abs() == 1).then(|| l.inner()));
        let deep = down.is_some() && down >= along;
        Self { which, own, first, extent, count, each: count * DEEP / u64::from(THREADS), deep }
    }

    /// The row or column and the depth of a thread's element `q`.
    fn places(&self) -> [String; 2] {
        let (count, lines) = (self.count, u64::from(THREADS) / DEEP);
        if self.deep {
            [format!("t / {DEEP} + q * {lines}"), format!("t % {DEEP}")]
        } else {
            [format!("t % {count}"), format!("t / {count} + q * {}", u64::from(THREADS) / count)]
        }
    }

    /// Registers for its elements, and where its rows or columns begin: no number where there are none.
    fn declare(&self, counter: &str) -> String {
        let (w, each, [side, _]) = (self.which, self.each, self.places());
        let starts = if self.deep { each } else { 1 };
        format!(
            "unsigned short x{w}[{each}];\n{counter} at{w}[{starts}];\nbool is{w}[{starts}];\n#pragma unroll\nfor (int q = 0; q < \
             {starts}; q++) {{\nconst {counter} s = {} + {side};\n{}at{w}[q] = b{w} + s{w};\nis{w}[q] = s < {};\n}}\n",
            self.first,
            self.own.positions("s", "s", counter),
            self.extent,
        )
    }

    /// Statements that fetch a step of it.
    fn load(&self, inner: &Loops, name: &str, counter: &str, k: u64) -> String {
        let (w, each, [_, depth]) = (self.which, self.each, self.places());
        let start = if self.deep { "q" } else { "0" };
        format!(
            "#pragma unroll\nfor (int q = 0; q < {each}; q++) {{\nconst {counter} d = k0 + {depth};\nx{w}[q] = 0;\nif (is{w}[{start}] \
             && d < {k}) {{\n{}x{w}[q] = {name}[at{w}[{start}] + d{w}];\n}}\n}}\n",
            inner.positions("d", "d", counter),
        )
    }

    /// Statements that put what was fetched in shared memory.
    fn store(&self) -> String {
        let (w, each, [side, depth]) = (self.which, self.each, self.places());
        let to = ["left", "right"][w];
        format!("#pragma unroll\nfor (int q = 0; q < {each}; q++) {to}[({side}) * {PITCH} + {depth}] = x{w}[q];\n")
    }
}
