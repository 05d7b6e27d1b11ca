//! Products of which one factor has few rows: the other is read once, in words of 16 bytes.
//!
//! Bytes: the large factor once, from memory; the small one again for each of its rows, out of the first cache. A warp
//! for every row of the large factor, both being contiguous along what is summed.

use super::body::{Side, grouped};
use super::contract::Contraction;
use super::ending::{After, Ending};
use super::launch::{Arguments, THREADS};
use super::stored::Stored;
use super::types::{load, stored, value};
use crate::program::{Program, Target};
use ein_ir::region::Region;
use ein_run::Cause;
use std::fmt::Write;

/// The most rows of the small factor.
pub(crate) const MOST: u64 = 8;

/// Adds the step of a block whose result has the labels `out`; `false` where a map of more labels follows.
pub(crate) fn push(
    c: &Contraction<'_>,
    after: After<'_>,
    out: &Region,
    result: &Stored,
    target: &Target,
    program: &mut Program,
) -> Result<bool, Cause> {
    let ends = Ending::new(c.state, after, out, result)?;
    if ends.labels.rank() != out.rank() {
        return Ok(false);
    }
    let few_rows = c.volume(&c.rows) <= MOST;
    let (few, many) = if few_rows { (&c.rows, &c.columns) } else { (&c.columns, &c.rows) };
    let (small, large) = if few_rows { (c.left, c.right) } else { (c.right, c.left) };
    let (s, l) = if few_rows { (0, 1) } else { (1, 0) };
    let walkers = ends.walkers();
    let outer = c.loops(&[c.batch.as_slice(), many].concat(), &walkers);
    let (few, inner) = (c.loops(few, &walkers), c.loops(&c.inner, &walkers));
    let mut arguments = Arguments::default();
    let names = [small, large].map(|m| arguments.typed(m.place, &format!("const {}", stored(m.dtype))));
    let bound = ends.bind(&mut arguments);
    // How both walk, that of the few rows too, decides how long words are.
    let mut both = outer.clone();
    for more in [&few, &inner] {
        both.extents.extend(&more.extents);
        both.steps.iter_mut().zip(&more.steps).for_each(|(all, own)| all.extend(own));
    }
    let both = super::loops::Loops::new(both.extents, vec![both.steps[s].clone(), both.steps[l].clone()]);
    let elements = [small, large].map(|m| Some((m.place, m.dtype)));
    let side = Side::along(&both, &elements, 8);
    let (lanes, count) = (side.lanes, few.count() as usize);
    let groups = grouped(&inner, lanes);
    let (outputs, points) = (outer.count(), groups.count());
    let wide = outer.wide() || inner.wide() || both.wide();
    let counter = if wide { "long long" } else { "int" };
    let (ty, state) = (value(c.state.dtype), c.state.joins());
    let cast = |m: &super::body::Memory, x: &str| format!("({ty}){}", load(m.dtype, x));
    // More threads for a row where there are few rows.
    let enough = u64::from(target.multiprocessors) * 1024;
    let mut folding = 32u32;
    while folding < THREADS && outputs * u64::from(folding) < enough && u64::from(folding) * 4 < points {
        folding *= 2;
    }
    let results = THREADS / folding;
    let mut text = format!(
        "const int t = threadIdx.x, rank = t % {folding};\nconst {counter} o = ({counter})blockIdx.x * {results} + t / \
         {folding};\n{state} g[{count}];\n#pragma unroll\nfor (int i = 0; i < {count}; i++) g[i] = {state}::none();\nif (o < \
         {outputs}) {{\n{}#pragma unroll 4\nfor ({counter} f = rank; f < {points}; f += {folding}) {{\n{}{} w[{lanes}];\n\
         ein_load<{}>(w, {} + (out{l} + in{l}));\n",
        outer.positions("o", "out", counter),
        groups.positions("f", "in", counter),
        stored(large.dtype),
        side.words[1],
        names[1],
    );
    // Offsets of the few rows, of all walkers, known here.
    let offset = |row: usize, walker: usize| {
        let (mut row, mut sum) = (row, 0);
        for l in (0..few.extents.len()).rev() {
            sum += (row % few.extents[l]) as i64 * few.steps[walker][l];
            row /= few.extents[l];
        }
        sum
    };
    for row in 0..count {
        let _ = write!(
            text,
            "{{\n{} x[{lanes}];\nein_load<{}>(x, {} + (out{s} + in{s} + {}));\n#pragma unroll\nfor (int v = 0; v < \
             {lanes}; v++) ein_push(g[{row}], {}, {});\n}}\n",
            stored(small.dtype),
            side.words[0],
            names[0],
            offset(row, s),
            cast(small, "x[v]"),
            cast(large, "w[v]")
        );
    }
    let _ = write!(
        text,
        "}}\n}}\n__shared__ {state} warps[{count}][{}];\n#pragma unroll\nfor (int i = 0; i < {count}; i++) ein_block(g[i], \
         {folding}, rank, t, warps[i]);\nif (rank == 0 && o < {outputs}) {{\n{}",
        THREADS / 32,
        outer.positions("o", "out", counter)
    );
    for row in 0..count {
        let at = |w: usize| format!("(out{} + {})", w + 2, offset(row, w + 2));
        let _ = write!(text, "{{\n{}}}\n", bound.store(&format!("g[{row}]"), &at));
    }
    text += "}\n";
    let blocks = outputs.div_ceil(u64::from(results));
    program.steps.push(arguments.launch("thin", &text, [blocks, 1], THREADS)?);
    Ok(true)
}
