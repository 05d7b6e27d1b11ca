//! Reductions: values at the points of some labels folded over others.
//!
//! Bytes: the operands are read once, the result is written once. Threads that lie side by side read what does: some
//! threads fold one result where memory is contiguous along what is folded, with words of 16 bytes; else each thread
//! folds another result. Where there are few results and much to fold, blocks fold a part each into scratch memory, and
//! a second kernel joins the parts. All orders are fixed by the sizes alone.
//!
//! Maps of the finished result may follow in the same kernel ([`After::Map`](super::ending::After::Map)). Where they have more labels than the
//! result, as a norm has, the threads that folded a row go on to write it: it is read again while it is near.

use super::across;
use super::body::{Body, Operand, Reader, Side, grouped};
use super::ending::{After, Ending};
use super::launch::{Arguments, THREADS};
use super::loops::Loops;
use super::state::State;
use super::stored::Stored;
use super::types::{cast, store, stored, value};
use crate::program::{Base, Program, Step, Target};
use ein_ir::dtype::DType;
use ein_ir::monoid::Monoid;
use ein_ir::region::Region;
use ein_run::Cause;
use std::fmt::Write;

/// A fold of the value of a body over all but its first `rank` labels.
pub(crate) struct Reduce<'a> {
    /// What is folded, of the labels of the result and then the others.
    pub(crate) body: &'a Body,
    /// How many labels are the result's.
    pub(crate) rank: usize,
    /// How.
    pub(crate) state: State,
    /// And then.
    pub(crate) after: After<'a>,
    /// Where it goes.
    pub(crate) result: &'a Stored,
}

/// How threads share the work of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Threads that fold one result in a block.
    folding: u32,
    /// Results of a block.
    results: u32,
    /// Blocks that fold a part of one result each.
    parts: u64,
}

impl Shape {
    fn threads(self) -> u32 {
        self.folding * self.results
    }
}

/// The loops of a reduction.
struct Plan {
    /// Over results; walkers are those of the body.
    outer: Loops,
    /// Over what is folded; walkers are those of the body.
    inner: Loops,
    ends: Ends,
    shape: Shape,
    side: Side,
    counter: &'static str,
}

/// The loops over what is stored.
pub(crate) struct Ends {
    /// Over results; walkers are those of the map that follows and the result.
    pub(crate) outer: Loops,
    /// Over further labels of the map; the same walkers.
    more: Loops,
    /// The type to count in.
    pub(crate) counter: &'static str,
}

impl Reduce<'_> {
    /// Whether threads along what is folded share a result, so that maps of more labels may follow at once.
    fn along(&self) -> bool {
        self.primary().is_none_or(|steps| {
            let one = |range: std::ops::Range<usize>| {
                range.into_iter().any(|l| steps[l].abs() == 1 && self.body.labels.0[l].len() > 1)
            };
            one(self.rank..steps.len()) || !one(0..self.rank)
        })
    }

    /// Whether a map of more labels that follows is better left to a kernel of its own: threads that lie side by side have
    /// different results, so that none has a row to write; or parts of few results are joined by few threads.
    pub(crate) fn ends_apart(&self, target: &Target) -> Result<bool, Cause> {
        let out = Region(self.body.labels.0[..self.rank].to_vec());
        let ends = Ending::new(self.state, self.after, &out, self.result)?;
        if ends.labels.rank() == self.rank || ends.labels.is_empty() {
            return Ok(false);
        }
        let parts = |reader: Reader<'_>| self.plan(&ends, &reader, target).shape.parts;
        Ok(!self.along() || parts(self.body.reader(&mut Arguments::default())) > 1)
    }

    /// The steps of the operand of which most is read.
    fn primary(&self) -> Option<&Vec<i64>> {
        let volume = |steps: &Vec<i64>| {
            let moved = steps.iter().zip(&self.body.labels.0).filter(|(s, _)| **s != 0);
            moved.map(|(_, i)| i.len()).product::<usize>()
        };
        let steps = self.body.operands.iter().filter_map(|o| match o {
            Operand::Memory(m) => Some(&m.steps),
            Operand::Given(_) => None,
        });
        steps.rev().max_by_key(|s| volume(s))
    }

    /// Adds the steps to a program.
    pub(crate) fn push(&self, program: &mut Program, target: &Target) -> Result<(), Cause> {
        let out = Region(self.body.labels.0[..self.rank].to_vec());
        let ends = Ending::new(self.state, self.after, &out, self.result)?;
        if out.is_empty() || ends.labels.is_empty() {
            return Ok(());
        }
        if !self.along() {
            return across::push(self, &ends, target, program);
        }
        let mut arguments = Arguments::default();
        let reader = self.body.reader(&mut arguments);
        let plan = self.plan(&ends, &reader, target);
        let (shape, outputs) = (plan.shape, plan.outer.count());
        let blocks = outputs.div_ceil(u64::from(shape.results));
        let text =
            format!("{}{}{}", heading(shape, plan.counter), self.folded(&plan, &reader), joined(self.state, shape));
        if shape.parts == 1 {
            let tail = tail(self.state, &plan.ends, shape, &mut arguments, &ends);
            program.steps.push(arguments.launch("reduce", &(text + &tail), [blocks, 1], shape.threads())?);
            return Ok(());
        }
        let parts = Parts::new(self.state, outputs, shape.parts, program);
        let scratch = parts.pointer(&mut arguments, "");
        let put = format!("if (rank == 0 && o < {outputs}) {scratch}[blockIdx.y * (long long){outputs} + o] = s;\n");
        program.steps.push(arguments.launch("reduce_part", &(text + &put), [blocks, shape.parts], shape.threads())?);
        program.steps.push(parts.join(&plan.ends, &ends)?);
        Ok(())
    }

    /// Steps of the outer labels' order in which the operand of which most is read has them.
    pub(crate) fn by_memory(&self, range: std::ops::Range<usize>) -> Vec<usize> {
        let mut order: Vec<usize> = (0..range.len()).collect();
        if let Some(steps) = self.primary() {
            order.sort_by_key(|&l| std::cmp::Reverse(steps[range.start + l].unsigned_abs()));
        }
        order
    }

    /// The loops over results and over what is folded, of the body's walkers, and those of what follows. Results are in
    /// the order of `order`.
    pub(crate) fn loops(&self, ends: &Ending<'_>, order: &[usize]) -> (Loops, Loops, Ends) {
        let (walkers, end_steps) = (self.body.walkers(), ends.walkers());
        let (extents, count, rank) = (self.body.labels.shape(), walkers.len(), self.rank);
        let first = |all: &[Vec<i64>]| all.iter().map(|s| s[..rank].to_vec()).collect::<Vec<_>>();
        let last = |all: &[Vec<i64>]| all.iter().map(|s| s[rank..].to_vec()).collect::<Vec<_>>();
        let outer = Loops::new(extents[..rank].to_vec(), [first(&walkers), first(&end_steps)].concat());
        let outer = outer.ordered(order).merged();
        let inner = Loops::new(extents[rank..].to_vec(), last(&walkers));
        let inner = inner.ordered(&self.by_memory(rank..extents.len())).merged();
        let more = Loops::new(ends.labels.0[rank..].iter().map(|i| i.len()).collect(), last(&end_steps)).merged();
        let own = Loops::new(outer.extents.clone(), outer.steps[count..].to_vec());
        let outer = Loops::new(outer.extents, outer.steps[..count].to_vec());
        let far = |l: &Loops| (0..l.steps.len()).map(|w| l.reach(w)).max().unwrap_or(0);
        let far = far(&chained(&outer, &inner)).max(far(&chained(&own, &more)));
        let counts = outer.count().max(inner.count()).max(more.count());
        let wide = far.max(counts) >= (1 << 31) - (1 << 24);
        let counter = if wide { "long long" } else { "int" };
        (outer, inner, Ends { outer: own, more, counter })
    }

    fn plan(&self, ends: &Ending<'_>, reader: &Reader<'_>, target: &Target) -> Plan {
        let order: Vec<usize> = (0..self.rank).collect();
        let (outer, inner, ends) = self.loops(ends, &order);
        let elements = reader.elements();
        let side = if inner.extents.is_empty() {
            Side::of(&inner, &elements, 1)
        } else {
            Side::along(&chained(&outer, &inner), &elements, 8)
        };
        let groups = grouped(&inner, side.lanes).count();
        let shape = shape(outer.count(), groups, ends.more.count(), target);
        let counter = ends.counter;
        Plan { outer, inner, ends, shape, side, counter }
    }

    /// The statement that folds the value of the rows into `g`, and the row that it needs not.
    pub(crate) fn take(&self, g: &str) -> (String, Option<usize>) {
        let (c, value, dtype) = (value(self.state.dtype), self.body.value, self.body.dtype());
        let sums = self.state.monoid == Monoid::Sum && self.state.dtype.is_float();
        match self.body.product().filter(|_| sums) {
            Some([a, b]) if dtype == DType::F64 && self.state.dtype != DType::F64 => {
                (format!("{g}.push(({c})(r{a} * r{b}));\n"), Some(value))
            }
            Some([a, b]) => (format!("ein_push({g}, ({c})r{a}, ({c})r{b});\n"), Some(value)),
            None => (format!("{g}.push({});\n", cast(dtype, self.state.dtype, &format!("r{value}"))), None),
        }
    }

    /// Statements that fold what a thread folds, into `s`.
    fn folded(&self, plan: &Plan, reader: &Reader<'_>) -> String {
        let Plan { outer, inner, shape, side, counter, .. } = plan;
        let (takes, state) = (self.state.takes(), self.state.joins());
        let groups = grouped(inner, side.lanes);
        let (outputs, points) = (outer.count(), groups.count());
        let mut text = format!("{takes} g = {takes}::none();\n");
        if points > 0 {
            let at = |w: usize| format!("(out{w} + in{w})");
            let (take, skip) = self.take("g");
            let bounds = bounds(points, shape.parts, counter);
            let lanes = side.lanes;
            let _ = write!(
                text,
                "if (o < {outputs}) {{\n{}{bounds}#pragma unroll 4\nfor ({counter} f = first + rank; f < last; f \
                 += {}) {{\n{}{}#pragma unroll\nfor (int v = 0; v < {lanes}; v++) {{\n{}{take}}}\n}}\n}}\n",
                outer.positions("o", "out", counter),
                shape.folding,
                groups.positions("f", "in", counter),
                reader.loads(side, "x", &[], &at),
                reader.rows(side, "x", skip, &at, &|_| unreachable!("nothing comes before a fold")),
            );
        }
        let _ = writeln!(text, "{state} s = g.done();");
        text
    }
}

/// Statements that end the fold `s`.
fn tail(state: State, loops: &Ends, shape: Shape, arguments: &mut Arguments, ends: &Ending<'_>) -> String {
    let outputs = loops.outer.count();
    let bound = ends.bind(arguments);
    let positions = loops.outer.positions("o", "out", loops.counter);
    let (Some(body), Some(reader), true) = (&ends.body, &bound.reader, loops.more.count() > 1) else {
        let put = bound.store("s", &|w| format!("out{w}"));
        return format!("if (rank == 0 && o < {outputs}) {{\n{positions}{put}}}\n");
    };
    // The threads that folded a result write what follows from it.
    let (elements, last) = (bound.elements(), loops.outer.steps.len() - 1);
    let own = elements[last].map_or(DType::F32, |e| e.1);
    let side = if loops.more.inner_step(last) == 1 {
        Side::along(&chained(&loops.outer, &loops.more), &elements, 8)
    } else {
        Side::of(&loops.more, &elements, 1)
    };
    let lanes = side.lanes;
    let at = |w: usize| format!("(out{w} + more{w})");
    let mut text = String::new();
    let first = if shape.folding > 1 {
        let _ = write!(
            text,
            "__shared__ {} each[{}];\nif (rank == 0) each[slot] = s;\n__syncthreads();\ns = each[slot];\n",
            state.joins(),
            shape.results
        );
        "rank"
    } else {
        "0"
    };
    let groups = grouped(&loops.more, lanes);
    let put = match lanes {
        1 => format!("{}[{}] = y[0];\n", bound.target(), at(last)),
        _ => format!("ein_store<{}>({} + {}, y);\n", side.words[last], bound.target(), at(last)),
    };
    let _ = write!(
        text,
        "if (o < {outputs}) {{\n{positions}{}for ({} m = {first}; m < {}; m += {}) {{\n{}{}{} y[{lanes}];\n#pragma \
         unroll\nfor (int v = 0; v < {lanes}; v++) {{\n{}y[v] = {};\n}}\n{put}}}\n}}\n",
        bound.finished("s"),
        loops.counter,
        groups.count(),
        shape.folding,
        groups.positions("m", "more", loops.counter),
        reader.loads(&side, "z", &[], &at),
        stored(own),
        reader.rows(&side, "z", None, &at, &|n| format!("e{n}")),
        store(own, &format!("r{}", body.value)),
    );
    text
}

/// Loops in loops, of the same walkers.
pub(crate) fn chained(outer: &Loops, inner: &Loops) -> Loops {
    let steps = outer.steps.iter().zip(&inner.steps).map(|(a, b)| [a.as_slice(), b].concat()).collect();
    Loops::new([outer.extents.as_slice(), &inner.extents].concat(), steps)
}

/// Half of the threads that a device holds: as many do enough at once.
pub(crate) fn enough(target: &Target) -> u64 {
    u64::from(target.multiprocessors) * 1024
}

/// How many threads fold a result, and how many blocks: `points` are groups of elements that a thread takes at once,
/// `more` what is written for each result.
fn shape(outputs: u64, points: u64, more: u64, target: &Target) -> Shape {
    let enough = enough(target);
    let mut folding = 1u64;
    let work = points.max(more / 4);
    while folding < 1024
        && folding < work
        && (folding < 32 || outputs * folding < enough || (more > 1 && folding * 4 < work))
    {
        folding *= 2;
    }
    let results = (u64::from(THREADS) / folding).max(1);
    let threads = outputs.div_ceil(results) * results * folding;
    let parts = (enough / threads).min(points / (folding * 8)).clamp(1, 256);
    Shape { folding: folding as u32, results: results as u32, parts }
}

/// Statements that say which of `points` a block folds, where there are so many blocks for a result.
pub(crate) fn bounds(points: u64, parts: u64, counter: &str) -> String {
    if parts == 1 {
        return format!("const {counter} first = 0, last = {points};\n");
    }
    let part = points.div_ceil(parts);
    format!(
        "const {counter} first = ({counter})blockIdx.y * {part};\nconst {counter} last = first + {part} < {points} ? first \
         + {part} : {points};\n"
    )
}

/// Statements that say who a thread is: `rank` among those that fold the result `o`, which is `slot` of the block.
fn heading(Shape { folding, results, .. }: Shape, counter: &str) -> String {
    format!(
        "const int t = threadIdx.x, rank = t % {folding}, slot = t / {folding};\nconst {counter} o = \
         ({counter})blockIdx.x * {results} + slot;\n"
    )
}

/// Statements that join the folds `s` of the threads of one result, in that of rank 0.
fn joined(state: State, shape: Shape) -> String {
    let (ty, folding) = (state.joins(), shape.folding);
    match folding {
        1 => String::new(),
        2..=32 => format!("ein_block(s, {folding}, rank, t, ({ty}*)0);\n"),
        _ => format!(
            "__shared__ {ty} warps[{}];\nein_block(s, {folding}, rank, t, warps);\n",
            shape.threads().div_ceil(32)
        ),
    }
}

/// Folds of parts of results in scratch memory, all results of one part after the other.
pub(crate) struct Parts {
    state: State,
    outputs: u64,
    count: u64,
    at: u64,
}

impl Parts {
    /// Takes scratch memory of a program.
    pub(crate) fn new(state: State, outputs: u64, count: u64, program: &mut Program) -> Self {
        let at = program.scratch.next_multiple_of(16);
        program.scratch = at + count * outputs * state.bytes();
        Self { state, outputs, count, at }
    }

    /// The name of a pointer to them.
    pub(crate) fn pointer(&self, arguments: &mut Arguments, qualifier: &str) -> String {
        arguments.typed(Base::Scratch.at(self.at), &format!("{qualifier}{}", self.state.joins()))
    }

    /// The step in which a warp for each result joins its parts and ends it.
    pub(crate) fn join(&self, loops: &Ends, ends: &Ending<'_>) -> Result<Step, Cause> {
        let shape = Shape { folding: 32, results: THREADS / 32, parts: 1 };
        let mut arguments = Arguments::default();
        let scratch = self.pointer(&mut arguments, "const ");
        let (state, outputs) = (self.state.joins(), self.outputs);
        let tail = tail(self.state, loops, shape, &mut arguments, ends);
        let text = format!(
            "{}{state} s = {state}::none();\nif (o < {outputs})\nfor (int f = rank; f < {}; f += 32) s.join({scratch}[f * \
             (long long){outputs} + o]);\n{}{tail}",
            heading(shape, loops.counter),
            self.count,
            joined(self.state, shape)
        );
        arguments.launch("reduce_join", &text, [outputs.div_ceil(u64::from(shape.results)), 1], shape.threads())
    }
}
