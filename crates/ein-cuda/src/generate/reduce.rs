//! Reductions: values at the points of some labels folded over others.
//!
//! Bytes: the operands are read once, the result is written once. Threads that lie side by side read what does: some
//! threads fold one result where memory is contiguous along what is folded, with words of 16 bytes; else each thread
//! folds another result. Where there are few results and much to fold, blocks fold a part each into scratch memory, and
//! a second kernel joins the parts. All orders are fixed by the sizes alone.
//!
//! Maps of the finished result may follow in the same kernel ([`After::Map`](super::ending::After::Map)). Where they have more labels than the
//! result, as a norm has, the threads that folded a row go on to write it: it is read again while it is near.

use super::body::{Body, Operand, Reader, Side, grouped};
use super::ending::{After, Ending};
use super::launch::{Arguments, THREADS};
use super::loops::Loops;
use super::state::State;
use super::stored::Stored;
use super::types::{store, stored, value};
use crate::program::{Base, Program, Target};
use ein_ir::dtype::DType;
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
    /// Whether the threads that fold one result lie side by side in a block.
    along: bool,
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
    /// Over results; walkers are those of the map that follows and the result.
    ends: Loops,
    /// Over what is folded; walkers are those of the body.
    inner: Loops,
    /// Over further labels of the map that follows; walkers are its and the result.
    more: Loops,
    shape: Shape,
    side: Side,
    counter: &'static str,
}

impl Reduce<'_> {
    /// Whether threads along what is folded share a result, so that maps of more labels may follow at once.
    pub(crate) fn along(&self) -> bool {
        self.primary().is_none_or(|steps| {
            let one = |range: std::ops::Range<usize>| {
                range.into_iter().any(|l| steps[l].abs() == 1 && self.body.labels.0[l].len() > 1)
            };
            one(self.rank..steps.len()) || !one(0..self.rank)
        })
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
        let mut arguments = Arguments::default();
        let reader = self.body.reader(&mut arguments);
        let plan = self.plan(&ends, &reader, target);
        let (outputs, parts) = (plan.outer.count(), plan.shape.parts);
        let blocks = outputs.div_ceil(u64::from(plan.shape.results));
        let head = heading(&plan, outputs);
        let folded = self.folded(&plan, &reader);
        let joined = joined(self.state, plan.shape);
        if parts == 1 {
            let tail = tail(self.state, &plan, &mut arguments, &ends);
            let text = format!("{head}{folded}{joined}{tail}");
            program.steps.push(arguments.launch("reduce", &text, [blocks, 1], plan.shape.threads())?);
            return Ok(());
        }
        let state = self.state.joins();
        let at = program.scratch.next_multiple_of(16);
        program.scratch = at + parts * outputs * self.state.bytes();
        let scratch = arguments.typed(Base::Scratch.at(at), &state);
        let put = format!("if (rank == 0 && o < {outputs}) {scratch}[blockIdx.y * (long long){outputs} + o] = s;\n");
        let text = format!("{head}{folded}{joined}{put}");
        program.steps.push(arguments.launch("reduce_part", &text, [blocks, parts], plan.shape.threads())?);
        // A warp for each result joins its parts.
        let shape = Shape { along: true, folding: 32, results: THREADS / 32, parts: 1 };
        let plan = Plan { shape, ..plan };
        let mut arguments = Arguments::default();
        let scratch = arguments.typed(Base::Scratch.at(at), &format!("const {state}"));
        let joined = self::joined(self.state, shape);
        let tail = tail(self.state, &plan, &mut arguments, &ends);
        let head = heading(&plan, outputs);
        let text = format!(
            "{head}{state} s = {state}::none();\nif (o < {outputs})\nfor (int f = rank; f < {parts}; f += 32) \
             s.join({scratch}[f * (long long){outputs} + o]);\n{joined}{tail}"
        );
        let blocks = outputs.div_ceil(u64::from(shape.results));
        program.steps.push(arguments.launch("reduce_join", &text, [blocks, 1], shape.threads())?);
        Ok(())
    }

    fn plan(&self, ends: &Ending<'_>, reader: &Reader<'_>, target: &Target) -> Plan {
        let along = self.along();
        let walkers = self.body.walkers();
        let count = walkers.len();
        let extents = self.body.labels.shape();
        let (rank, all) = (self.rank, extents.len());
        let mut out_steps: Vec<Vec<i64>> = walkers.iter().map(|s| s[..rank].to_vec()).collect();
        let end_steps = ends.walkers();
        out_steps.extend(end_steps.iter().map(|s| s[..rank].to_vec()));
        let outer = Loops::new(extents[..rank].to_vec(), out_steps);
        let in_steps = walkers.iter().map(|s| s[rank..].to_vec()).collect();
        let inner = Loops::new(extents[rank..].to_vec(), in_steps);
        let by_memory = |range: std::ops::Range<usize>| {
            let mut order: Vec<usize> = (0..range.len()).collect();
            if let Some(steps) = self.primary() {
                order.sort_by_key(|&l| std::cmp::Reverse(steps[range.start + l].unsigned_abs()));
            }
            order
        };
        let inner = inner.ordered(&by_memory(rank..all)).merged();
        let outer = if along { outer } else { outer.ordered(&by_memory(0..rank)) }.merged();
        let ends_loops = Loops::new(outer.extents.clone(), outer.steps[count..].to_vec());
        let outer = Loops::new(outer.extents, outer.steps[..count].to_vec());
        let more_steps = end_steps.iter().map(|s| s[rank..].to_vec()).collect();
        let more = Loops::new(ends.labels.0[rank..].iter().map(|i| i.len()).collect(), more_steps).merged();
        let elements = reader.elements();
        let both = chained(&outer, &inner);
        let side = if inner.extents.is_empty() || !along {
            Side::of(&inner, &elements, 1)
        } else {
            Side::along(&both, &elements, 8)
        };
        let groups = grouped(&inner, side.lanes).count();
        let shape = shape(along, outer.count(), groups, more.count(), target);
        let far = |l: &Loops| (0..l.steps.len()).map(|w| l.reach(w)).max().unwrap_or(0);
        let far = far(&both).max(far(&chained(&ends_loops, &more)));
        let counts = outer.count().max(inner.count()).max(more.count());
        let wide = far.max(counts) >= (1 << 31) - (1 << 24);
        let counter = if wide { "long long" } else { "int" };
        Plan { outer, ends: ends_loops, inner, more, shape, side, counter }
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
            let c = value(self.state.dtype);
            let product = (self.state.monoid == ein_ir::monoid::Monoid::Sum && self.state.dtype.is_float())
                .then(|| self.body.product())
                .flatten();
            let skip = product.map(|_| self.body.value);
            let take = match product {
                Some([a, b]) if self.body.dtype() == DType::F64 && self.state.dtype != DType::F64 => {
                    format!("g.push(({c})(r{a} * r{b}));\n")
                }
                Some([a, b]) => format!("ein_push(g, ({c})r{a}, ({c})r{b});\n"),
                None => {
                    let cast =
                        super::types::cast(self.body.dtype(), self.state.dtype, &format!("r{}", self.body.value));
                    format!("g.push({cast});\n")
                }
            };
            let part = points.div_ceil(shape.parts);
            let bounds = if shape.parts == 1 {
                format!("const {counter} first = 0, last = {points};\n")
            } else {
                format!(
                    "const {counter} first = ({counter})blockIdx.y * {part};\nconst {counter} last = first + {part} < \
                     {points} ? first + {part} : {points};\n"
                )
            };
            let lanes = side.lanes;
            let _ = write!(
                text,
                "if (o < {outputs}) {{\n{}{bounds}#pragma unroll 4\nfor ({counter} f = first + rank; f < last; f \
                 += {}) {{\n{}{}#pragma unroll\nfor (int v = 0; v < {lanes}; v++) {{\n{}{take}}}\n}}\n}}\n",
                outer.positions("o", "out", counter),
                shape.folding,
                groups.positions("f", "in", counter),
                reader.loads(side, "x", &at),
                reader.rows(side, "x", skip, &at, &|_| unreachable!("nothing comes before a fold")),
            );
        }
        let _ = writeln!(text, "{state} s = g.done();");
        text
    }
}

/// Statements that end the fold `s`.
fn tail(state: State, plan: &Plan, arguments: &mut Arguments, ends: &Ending<'_>) -> String {
    let (outputs, shape) = (plan.outer.count(), plan.shape);
    let bound = ends.bind(arguments);
    let positions = plan.ends.positions("o", "out", plan.counter);
    let (Some(body), Some(reader), true) = (&ends.body, &bound.reader, plan.more.count() > 1) else {
        let put = bound.store("s", &|w| format!("out{w}"));
        return format!("if (rank == 0 && o < {outputs}) {{\n{positions}{put}}}\n");
    };
    // The threads that folded a result write what follows from it.
    let (elements, last) = (bound.elements(), plan.ends.steps.len() - 1);
    let own = elements[last].map_or(DType::F32, |e| e.1);
    let side = if plan.more.inner_step(last) == 1 {
        Side::along(&chained(&plan.ends, &plan.more), &elements, 8)
    } else {
        Side::of(&plan.more, &elements, 1)
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
    let groups = grouped(&plan.more, lanes);
    let put = match lanes {
        1 => format!("{}[{}] = y[0];\n", bound.target(), at(last)),
        _ => format!("ein_store<{}>({} + {}, y);\n", side.words[last], bound.target(), at(last)),
    };
    let _ = write!(
        text,
        "if (o < {outputs}) {{\n{positions}{}for ({} m = {first}; m < {}; m += {}) {{\n{}{}{} y[{lanes}];\n#pragma \
         unroll\nfor (int v = 0; v < {lanes}; v++) {{\n{}y[v] = {};\n}}\n{put}}}\n}}\n",
        bound.finished("s"),
        plan.counter,
        groups.count(),
        shape.folding,
        groups.positions("m", "more", plan.counter),
        reader.loads(&side, "z", &at),
        stored(own),
        reader.rows(&side, "z", None, &at, &|n| format!("e{n}")),
        store(own, &format!("r{}", body.value)),
    );
    text
}

/// Loops in loops, of the same walkers.
fn chained(outer: &Loops, inner: &Loops) -> Loops {
    let steps = outer.steps.iter().zip(&inner.steps).map(|(a, b)| [a.as_slice(), b].concat()).collect();
    Loops::new([outer.extents.as_slice(), &inner.extents].concat(), steps)
}

/// How many threads fold a result, and how many blocks: `points` are groups of elements that a thread takes at once,
/// `more` what is written for each result.
fn shape(along: bool, outputs: u64, points: u64, more: u64, target: &Target) -> Shape {
    // Half of the threads that a device holds.
    let enough = u64::from(target.multiprocessors) * 1024;
    let mut folding = 1u64;
    if along {
        let work = points.max(more / 4);
        let each = if more > 1 { 4 } else { 8 };
        while folding < 1024
            && folding < work
            && (folding < 32 || outputs * folding < enough || (more > 1 && folding * each < work))
        {
            folding *= 2;
        }
    } else {
        while folding < 32 && folding * 4 <= points && outputs * folding < enough {
            folding *= 2;
        }
    }
    let results = (u64::from(THREADS) / folding).max(1);
    let threads = outputs.div_ceil(results) * results * folding;
    let parts = (enough / threads).min(points / (folding * 8)).clamp(1, 256);
    Shape { along, folding: folding as u32, results: results as u32, parts }
}

/// Statements that say who a thread is: `rank` among those that fold the result `o`, which is `slot` of the block.
fn heading(plan: &Plan, outputs: u64) -> String {
    let Shape { along, folding, results, .. } = plan.shape;
    let who = match (along, folding, results) {
        (_, 1, _) => "const int rank = 0, slot = t;\n".into(),
        (_, _, 1) => "const int rank = t, slot = 0;\n".into(),
        (true, ..) => format!("const int rank = t % {folding}, slot = t / {folding};\n"),
        (false, ..) => format!("const int rank = t / {results}, slot = t % {results};\n"),
    };
    let _ = outputs;
    format!("const int t = threadIdx.x;\n{who}const {0} o = ({0})blockIdx.x * {results} + slot;\n", plan.counter)
}

/// Statements that join the folds `s` of the threads of one result, in that of rank 0.
fn joined(state: State, shape: Shape) -> String {
    let (ty, folding, results) = (state.joins(), shape.folding, shape.results);
    match (shape.along, folding) {
        (_, 1) => String::new(),
        (true, 2..=32) => format!("ein_block(s, {folding}, rank, t, ({ty}*)0);\n"),
        (true, _) => {
            format!(
                "__shared__ {ty} warps[{}];\nein_block(s, {folding}, rank, t, warps);\n",
                shape.threads().div_ceil(32)
            )
        }
        (false, _) => format!(
            "__shared__ {ty} slices[{}];\nslices[t] = s;\n__syncthreads();\nif (rank == 0)\nfor (int k = 1; k < \
             {folding}; k++) s.join(slices[k * {results} + slot]);\n",
            shape.threads()
        ),
    }
}
