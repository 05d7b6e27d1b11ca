//! Maps: an expression at every point, and its value stored.
//!
//! Bytes: each operand is read once (again where it is repeated, then out of a cache), the result is written once.
//! Threads that lie side by side work on elements that do in the result; each moves 16 bytes of the smallest
//! element at a time where memory is contiguous and aligned.

use super::body::{Body, Side, grouped};
use super::launch::{Arguments, THREADS};
use super::loops::Loops;
use super::stored::Stored;
use super::strided::Strided;
use super::types::{store, stored};
use crate::program::Step;
use ein_run::Cause;
use std::fmt::Write;

/// The step that stores the value of `body`, converted to the result's type, at every point of its labels. The labels
/// are the axes of the result.
pub(crate) fn map(body: &Body, result: &Stored) -> Result<Option<Step>, Cause> {
    if body.labels.is_empty() {
        return Ok(None);
    }
    let dtype = result.dtype(0);
    let mut body = body.clone();
    body.cast(dtype);
    let out = Strided::result(body.labels.rank(), &body.labels, &result.field(0))?;
    let mut arguments = Arguments::default();
    let place = result.at(0, out.base);
    let target = arguments.written(place, dtype);
    let reader = body.reader(&mut arguments);
    let mut steps = body.walkers();
    steps.push(out.steps);
    let mut elements = reader.elements();
    elements.push(Some((place, dtype)));
    let own = elements.len() - 1;
    let loops = Loops::new(body.labels.shape(), steps).merged();
    let side =
        if loops.inner_step(own) == 1 { Side::along(&loops, &elements, 8) } else { Side::of(&loops, &elements, 1) };
    // All in one loop whose length is odd: the rest goes one by one.
    let whole = Side::along(&Loops { extents: vec![8], ..loops.clone() }, &elements, 8);
    let ragged = loops.extents.len() == 1 && whole.lanes > side.lanes && loops.inner() > 2 * whole.lanes;
    let side = if ragged { whole } else { side };
    let point = |side: &Side| {
        let at = |w: usize| format!("at{w}");
        let loads = reader.loads(side, "x", &at);
        let rows = reader.rows(side, "x", None, &at, &|_| unreachable!("nothing comes before a map"));
        let (ty, lanes, value) = (stored(dtype), side.lanes, store(dtype, &format!("r{}", body.value)));
        let word = side.words[own];
        let put = if lanes == 1 {
            format!("{target}[at{own}] = y[0];\n")
        } else {
            format!("ein_store<{word}>({target} + at{own}, y);\n")
        };
        format!(
            "{loads}{ty} y[{lanes}];\n#pragma unroll\nfor (int v = 0; v < {lanes}; v++) {{\n{rows}y[v] = \
             {value};\n}}\n{put}"
        )
    };
    let groups = grouped(&loops, side.lanes);
    let (counter, count) = (loops.counter(), groups.count());
    let mut text = format!(
        "const {counter} n = ({counter})blockIdx.x * {THREADS} + threadIdx.x;\nif (n < {count}) {{\n{}{}}}\n",
        groups.positions("n", "at", counter),
        point(&side)
    );
    if ragged {
        let (first, left) = (count as usize * side.lanes, loops.inner() % side.lanes);
        let one = Side::of(&loops, &elements, 1);
        let _ = write!(
            text,
            "if (n < {left}) {{\nconst {counter} m = {first} + n;\n{}{}}}\n",
            loops.positions("m", "at", counter),
            point(&one)
        );
    }
    arguments.launch("map", &text, [count.div_ceil(u64::from(THREADS)), 1], THREADS).map(Some)
}
