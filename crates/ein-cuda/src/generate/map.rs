//! Maps: an expression at every point, and its value stored. Copies are maps of what they copy.
//!
//! Bytes: each operand is read once (again where it is repeated, then out of a cache), the result is written once.
//! Threads that lie side by side work on elements that do in the result; each moves 16 bytes of the smallest
//! element at a time where memory is contiguous and aligned. An operand that is contiguous along another loop than the
//! result goes through shared memory in squares, so that reads and writes are both of whole lines.

use super::body::{Body, Operand, Reader, Side, grouped};
use super::launch::{Arguments, THREADS};
use super::loops::Loops;
use super::stored::Stored;
use super::strided::Strided;
use super::types::{store, stored};
use crate::program::{Place, Step};
use ein_ir::dtype::DType;
use ein_ir::expr::Row;
use ein_run::Cause;
use std::fmt::Write;

/// Points along either side of a square, where a thread moves one at a time.
const SQUARE: usize = 32;

/// Bytes of elements of which a thread moves two at a time, so that a warp moves lines of 128 bytes.
const SHORT: usize = 2;

/// Where the values of a map go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The element of the first point.
    pub(crate) place: Place,
    /// Its type.
    pub(crate) dtype: DType,
    /// How far an index of every label moves it, in elements.
    pub(crate) steps: Vec<i64>,
}

/// The step that stores the value of `body`, converted to the result's type, at every point of its labels, which are the
/// axes of the result.
pub(crate) fn map(body: &Body, result: &Stored) -> Result<Option<Step>, Cause> {
    let out = Strided::result(body.labels.rank(), &body.labels, &result.field(0))?;
    to(body, &Target { place: result.at(0, out.base), dtype: result.dtype(0), steps: out.steps })
}

/// The step that stores the value of `body`, converted, at every point of its labels. `None` where there is none.
pub(crate) fn to(body: &Body, target: &Target) -> Result<Option<Step>, Cause> {
    if body.labels.is_empty() {
        return Ok(None);
    }
    let mut body = body.clone();
    body.cast(target.dtype);
    let (place, dtype) = (target.place, target.dtype);
    if let Some(copy) = plain_copy(&body, target) {
        return Ok(Some(copy));
    }
    let mut arguments = Arguments::default();
    let pointer = arguments.written(place, dtype);
    let reader = body.reader(&mut arguments);
    let mut steps = body.walkers();
    steps.push(target.steps.clone());
    let mut elements = reader.elements();
    elements.push(Some((place, dtype)));
    let loops = Loops::new(body.labels.shape(), steps).merged();
    let map = Map { body: &body, reader, loops, elements, pointer, dtype };
    match map.turned() {
        Some(turned) => map.squares(arguments, &turned).map(Some),
        None => map.straight(arguments).map(Some),
    }
}

/// The copy of consecutive bytes that a map is, if it is one.
fn plain_copy(body: &Body, target: &Target) -> Option<Step> {
    let (Row::Operand(k), _) = body.rows[body.value] else { return None };
    let Operand::Memory(m) = &body.operands[k] else { return None };
    let loops = Loops::new(body.labels.shape(), vec![m.steps.clone(), target.steps.clone()]).merged();
    let straight = loops.extents.is_empty() || (loops.extents.len() == 1 && loops.steps == [[1], [1]]);
    let bytes = loops.count() * m.dtype.bytes() as u64;
    (straight && m.dtype == target.dtype).then_some(Step::Copy { from: m.place, to: target.place, bytes })
}

struct Map<'a> {
    body: &'a Body,
    reader: Reader<'a>,
    /// Walkers are those of the body, and the result.
    loops: Loops,
    elements: Vec<Option<(Place, DType)>>,
    /// To the result.
    pointer: String,
    dtype: DType,
}

/// How squares lie: along the innermost loop and another.
struct Turned {
    /// The other.
    across: usize,
    /// Walkers that are contiguous along it.
    walkers: Vec<usize>,
    /// Elements that a thread moves at a time.
    lanes: usize,
}

impl Map<'_> {
    fn own(&self) -> usize {
        self.elements.len() - 1
    }

    /// What is stored of the value: its element in memory.
    fn element(&self, side: &Side) -> String {
        let value = format!("r{}", self.body.value);
        match self.body.rows[self.body.value].0 {
            // Bits stay what they are.
            Row::Operand(k) => {
                let walker = self.reader.walker(k);
                if side.steps[walker] == 0 { format!("x{k}") } else { format!("x{k}[v]") }
            }
            Row::Const(_) | Row::Index(_) | Row::Unary(..) | Row::Binary(..) | Row::Select(..) | Row::Cast(_) => {
                store(self.dtype, &value)
            }
        }
    }

    /// Statements for the lanes of `side`, with the walkers at `at<walker>`.
    fn point(&self, side: &Side) -> String {
        self.point_of(side, &[], &|w: usize| format!("at{w}"))
    }

    /// Statements for the lanes of `side`, with the walkers at `at(walker)`; those of `there` are loaded.
    fn point_of(&self, side: &Side, there: &[usize], at: &dyn Fn(usize) -> String) -> String {
        let own = self.own();
        let loads = self.reader.loads(side, "x", there, at);
        let rows = self.reader.rows(side, "x", None, at, &|_| unreachable!("nothing comes before a map"));
        let (ty, lanes, element, pointer) = (stored(self.dtype), side.lanes, self.element(side), &self.pointer);
        let put = match lanes {
            1 => format!("{pointer}[{}] = y[0];\n", at(own)),
            _ => format!("ein_store<{}>({pointer} + {}, y);\n", side.words[own], at(own)),
        };
        format!(
            "{loads}{ty} y[{lanes}];\n#pragma unroll\nfor (int v = 0; v < {lanes}; v++) {{\n{rows}y[v] = \
             {element};\n}}\n{put}"
        )
    }

    /// A thread for every few points that lie side by side.
    fn straight(&self, arguments: Arguments) -> Result<Step, Cause> {
        let (loops, elements) = (&self.loops, &self.elements);
        let most = 16;
        let contiguous = loops.inner_step(self.own()) == 1;
        let side = Side::along(loops, elements, if contiguous { most } else { 1 });
        // All in one loop whose length is odd: the rest goes one by one.
        let whole = Side::along(&Loops { extents: vec![most], ..loops.clone() }, elements, most);
        let ragged =
            contiguous && loops.extents.len() == 1 && whole.lanes > side.lanes && loops.inner() > 2 * whole.lanes;
        let side = if ragged { whole } else { side };
        let groups = grouped(loops, side.lanes);
        let (counter, count) = (loops.counter(), groups.count());
        let mut text = format!(
            "const {counter} n = ({counter})blockIdx.x * {THREADS} + threadIdx.x;\nif (n < {count}) {{\n{}{}}}\n",
            groups.positions("n", "at", counter),
            self.point(&side)
        );
        if ragged {
            let (first, left) = (count as usize * side.lanes, loops.inner() % side.lanes);
            let one = Side::of(loops, elements, 1);
            let _ = write!(
                text,
                "if (n < {left}) {{\nconst {counter} m = {first} + n;\n{}{}}}\n",
                loops.positions("m", "at", counter),
                self.point(&one)
            );
        }
        arguments.launch("map", &text, [count.div_ceil(u64::from(THREADS)), 1], THREADS)
    }

    /// Whether some operand is contiguous along another loop than the result is.
    fn turned(&self) -> Option<Turned> {
        let (loops, own) = (&self.loops, self.own());
        let (last, across) = (loops.extents.len().checked_sub(1)?, loops.extents.len().checked_sub(1)?);
        if loops.inner_step(own) != 1 || loops.extents[last] < SQUARE / 2 {
            return None;
        }
        let in_memory = |w: &usize| self.elements[*w].is_some() && loops.inner_step(*w).abs() > 1;
        let along =
            |l: usize| (0..own).filter(in_memory).filter(|&w| loops.steps[w][l].abs() == 1).collect::<Vec<usize>>();
        let across = (0..across).find(|&l| loops.extents[l] >= SQUARE / 2 && !along(l).is_empty())?;
        let walkers = along(across);
        let sizes = |w: &usize| self.elements[*w].map_or(0, |(_, d)| d.bytes());
        let short = walkers.iter().chain([&own]).all(|w| sizes(w) <= SHORT);
        let enough = |l: usize| loops.extents[l] > SQUARE && loops.extents[l].is_multiple_of(2);
        let lanes = if short && enough(last) && enough(across) { 2 } else { 1 };
        let bytes: usize = walkers.iter().map(sizes).sum();
        let square = SQUARE * lanes;
        (bytes * square * (square + 1) <= 40 << 10).then_some(Turned { across, walkers, lanes })
    }

    /// A block for every square: what is turned is read along its own memory, everything else along the result's. A line of
    /// a square is a warp's.
    fn squares(&self, arguments: Arguments, turned: &Turned) -> Result<Step, Cause> {
        let (loops, last, across, lanes) = (&self.loops, self.loops.extents.len() - 1, turned.across, turned.lanes);
        let (wide, high) = (loops.extents[last], loops.extents[across]);
        let square = SQUARE * lanes;
        let (columns, rows) = (wide.div_ceil(square), high.div_ceil(square));
        let rest: Vec<usize> = (0..loops.extents.len()).filter(|&l| l != last && l != across).collect();
        // The same with what is turned innermost, for how wide its words are.
        let along = loops.ordered(&[rest.as_slice(), &[last, across]].concat());
        let along = Side::of(&along, &self.elements, lanes);
        let rest = loops.ordered(&rest);
        let counter = loops.counter();
        let by = THREADS as usize / SQUARE;
        let rounds = square / by;
        let mut text = format!(
            "const int lane = threadIdx.x % {SQUARE} * {lanes}, line = threadIdx.x / {SQUARE};\nconst {counter} square = \
             blockIdx.x;\nconst {counter} column = square % {columns} * {square}, row = square / {columns} % {rows} * \
             {square};\nconst {counter} n = square / {};\n{}",
            columns * rows,
            rest.positions("n", "rest", counter)
        );
        let place = |w: usize| {
            format!("rest{w} + i * ({counter}){} + j * ({counter}){}", loops.steps[w][across], loops.steps[w][last])
        };
        let pointers = self.reader.pointers();
        for &w in &turned.walkers {
            let (k, ty) = (pointers[w].0, self.elements[w].map_or("", |(_, d)| stored(d)));
            let element = format!("{}[{} + v * ({counter}){}]", pointers[w].1, place(w), loops.steps[w][across]);
            // Words of several elements, or one after the other.
            let read = match (loops.steps[w][across], lanes) {
                (1, 2..) => format!("ein_load<{}>(w, {} + ({}));\n", along.words[w], pointers[w].1, place(w)),
                _ => format!("#pragma unroll\nfor (int v = 0; v < {lanes}; v++) w[v] = {element};\n"),
            };
            let _ = write!(
                text,
                "__shared__ {ty} turned{k}[{square}][{}];\n#pragma unroll\nfor (int k = 0; k < {rounds}; k++) {{\nconst \
                 {counter} i = row + lane, j = column + line + k * {by};\nif (i < {high} && j < {wide}) {{\n{ty} \
                 w[{lanes}];\n{read}#pragma unroll\nfor (int v = 0; v < {lanes}; v++) turned{k}[line + k * {by}][lane + v] \
                 = w[v];\n}}\n}}\n",
                square + 1,
            );
        }
        text += "__syncthreads();\n";
        let side = Side::of(loops, &self.elements, lanes);
        let mut loads = String::new();
        for &w in &turned.walkers {
            let (k, ty) = (pointers[w].0, self.elements[w].map_or("", |(_, d)| stored(d)));
            let _ = write!(
                loads,
                "{ty} x{k}[{lanes}];\n#pragma unroll\nfor (int v = 0; v < {lanes}; v++) x{k}[v] = turned{k}[lane + v][line + \
                 k * {by}];\n"
            );
        }
        let at = |w: usize| format!("({})", place(w));
        let _ = write!(
            text,
            "#pragma unroll\nfor (int k = 0; k < {rounds}; k++) {{\nconst {counter} i = row + line + k * {by}, j = column \
             + lane;\nif (i < {high} && j < {wide}) {{\n{loads}{}}}\n}}\n",
            self.point_of(&side, &turned.walkers, &at)
        );
        let blocks = (columns * rows) as u64 * rest.count();
        arguments.launch("map_turned", &text, [blocks, 1], THREADS)
    }
}
