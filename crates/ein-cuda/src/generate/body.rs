//! What is computed at every point of a block: an expression, and where its operands are.

use super::expression::statements;
use super::launch::Arguments;
use super::loops::Loops;
use super::stored::{Stored, alignment};
use super::strided::Strided;
use super::types::{load, stored};
use crate::program::Place;
use ein_ir::dtype::DType;
use ein_ir::einsum::Einsum;
use ein_ir::expr::{Binary, Row};
use ein_ir::region::Region;
use ein_run::Cause;
use std::fmt::Write;

/// Where an operand is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// In memory.
    Memory(Memory),
    /// It is the finished element of this number of what was computed before.
    Given(usize),
}

/// An operand in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The element of the block's first point.
    pub(crate) place: Place,
    /// Its type.
    pub(crate) dtype: DType,
    /// How far an index of every label moves it, in elements.
    pub(crate) steps: Vec<i64>,
}

/// An expression of some operands over a block of labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    /// The rows of the expression.
    pub(crate) rows: Vec<(Row, DType)>,
    /// Which row is the value.
    pub(crate) value: usize,
    /// The operands that the rows name.
    pub(crate) operands: Vec<Operand>,
    /// The block.
    pub(crate) labels: Region,
}

impl Body {
    /// The join of an einsum; `source` says where an operand is.
    pub(crate) fn of(e: &Einsum, labels: &Region, source: &dyn Fn(usize) -> Option<From>) -> Result<Self, Cause> {
        let mut body = Self { rows: Vec::new(), value: 0, operands: Vec::new(), labels: labels.clone() };
        let mut places: Vec<Option<usize>> = vec![None; e.accesses.len()];
        for &(row, dtype) in e.join.rows() {
            let row = match row {
                Row::Operand(k) => {
                    let place = match places[k] {
                        Some(place) => place,
                        None => body.operand(e, k, source)?,
                    };
                    places[k] = Some(place);
                    Row::Operand(place)
                }
                Row::Const(_) | Row::Index(_) | Row::Unary(..) | Row::Binary(..) | Row::Select(..) | Row::Cast(_) => {
                    row
                }
            };
            body.rows.push((row, dtype));
        }
        body.value = body.rows.len() - 1;
        Ok(body)
    }

    fn operand(&mut self, e: &Einsum, k: usize, source: &dyn Fn(usize) -> Option<From>) -> Result<usize, Cause> {
        let axes = &e.accesses[k].axes;
        let operand = match source(k) {
            Some(From::Value(value)) => {
                let s = match value.order {
                    Some(_) => Strided::stepped(axes, &self.labels, &value.region, &value.steps())?,
                    None => Strided::operand(axes, &self.labels, &value.field(0))?,
                };
                Operand::Memory(Memory { place: value.at(0, s.base), dtype: value.dtype(0), steps: s.steps })
            }
            Some(From::Before { rank }) => {
                // Fields that were stacked are told apart by a constant last index.
                Operand::Given(axes.get(rank).map_or(0, |a| a.offset as usize))
            }
            None => return Err(Cause::malformed(format!("operand {k} of an einsum is not given"))),
        };
        let known = self.operands.iter().position(|o| *o == operand);
        Ok(known.unwrap_or_else(|| {
            self.operands.push(operand);
            self.operands.len() - 1
        }))
    }

    /// The body that computes this one and then `next`, which is given its value, rounded to `dtype`, and whose first
    /// labels are this one's.
    pub(crate) fn then(mut self, next: &Self, dtype: DType) -> Self {
        self.cast(dtype);
        let before = self.value;
        self.labels = next.labels.clone();
        let rank = self.labels.rank();
        for operand in &mut self.operands {
            if let Operand::Memory(m) = operand {
                m.steps.resize(rank, 0);
            }
        }
        let mut places = Vec::new();
        for &(row, dtype) in &next.rows {
            let at = |r: usize| places[r];
            let row = match row {
                Row::Operand(k) => match &next.operands[k] {
                    Operand::Given(_) => {
                        places.push(before);
                        continue;
                    }
                    memory @ Operand::Memory(_) => {
                        let known = self.operands.iter().position(|o| o == memory);
                        Row::Operand(known.unwrap_or_else(|| {
                            self.operands.push(memory.clone());
                            self.operands.len() - 1
                        }))
                    }
                },
                Row::Const(_) | Row::Index(_) => row,
                Row::Unary(function, x) => Row::Unary(function, at(x)),
                Row::Binary(function, a, b) => Row::Binary(function, at(a), at(b)),
                Row::Select(c, yes, no) => Row::Select(at(c), at(yes), at(no)),
                Row::Cast(x) => Row::Cast(at(x)),
            };
            self.rows.push((row, dtype));
            places.push(self.rows.len() - 1);
        }
        self.value = places[next.value];
        self
    }

    /// Converts the value.
    pub(crate) fn cast(&mut self, dtype: DType) {
        if self.dtype() != dtype {
            self.rows.push((Row::Cast(self.value), dtype));
            self.value = self.rows.len() - 1;
        }
    }

    /// The type of the value.
    pub(crate) fn dtype(&self) -> DType {
        self.rows[self.value].1
    }

    /// The factors, where the value is a product of two rows of floats.
    pub(crate) fn product(&self) -> Option<[usize; 2]> {
        match self.rows[self.value] {
            (Row::Binary(Binary::Mul, a, b), dtype) if dtype.is_float() => Some([a, b]),
            _ => None,
        }
    }

    /// The labels whose indices the expression uses, ascending.
    fn indices(&self) -> Vec<usize> {
        let mut labels: Vec<usize> =
            self.rows.iter().filter_map(|(r, _)| if let Row::Index(l) = r { Some(*l) } else { None }).collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    /// The steps along all labels of everything that walks: the operands in memory in order, then the indices.
    pub(crate) fn walkers(&self) -> Vec<Vec<i64>> {
        let memory =
            self.operands.iter().filter_map(|o| if let Operand::Memory(m) = o { Some(m.steps.clone()) } else { None });
        let one = |l: usize| (0..self.labels.rank()).map(|n| i64::from(n == l)).collect();
        memory.chain(self.indices().into_iter().map(one)).collect()
    }

    /// Declares the pointers to the operands and the first indices as parameters.
    pub(crate) fn reader<'a>(&'a self, arguments: &mut Arguments) -> Reader<'a> {
        let operand = |o: &Operand| match o {
            Operand::Memory(m) => Some(arguments.typed(m.place, &format!("const {}", stored(m.dtype)))),
            Operand::Given(_) => None,
        };
        let pointers = self.operands.iter().map(operand).collect();
        let indices = self.indices();
        let firsts = indices.iter().map(|&l| arguments.number(self.labels.0[l].lo as i64)).collect();
        Reader { body: self, pointers, indices, firsts }
    }
}

/// Where an operand of an einsum is.
pub(crate) enum From {
    /// In memory.
    Value(Stored),
    /// It is what was computed before, of so many axes without the one of stacked fields.
    Before {
        /// The axes.
        rank: usize,
    },
}

/// A body whose operands have names in a kernel.
pub(crate) struct Reader<'a> {
    body: &'a Body,
    /// For operands in memory.
    pointers: Vec<Option<String>>,
    indices: Vec<usize>,
    firsts: Vec<String>,
}

/// Points that lie side by side along one loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// How many.
    pub(crate) lanes: usize,
    /// For every walker, its step from one to the next.
    pub(crate) steps: Vec<i64>,
    /// For every walker of step 1, bytes of the words it moves.
    pub(crate) words: Vec<u64>,
}

impl Reader<'_> {
    /// The number of the walker that is operand `k`, which is in memory.
    pub(crate) fn walker(&self, k: usize) -> usize {
        self.pointers[..k].iter().filter(|p| p.is_some()).count()
    }

    /// For every walker in memory, its operand and the name of its pointer.
    pub(crate) fn pointers(&self) -> Vec<(usize, &str)> {
        let all = self.pointers.iter().enumerate();
        all.filter_map(|(k, p)| p.as_deref().map(|p| (k, p))).collect()
    }

    /// Sizes of the operands' elements and how they are aligned, in the order of the walkers; indices have none.
    pub(crate) fn elements(&self) -> Vec<Option<(Place, DType)>> {
        let memory = self.body.operands.iter().filter_map(|o| match o {
            Operand::Memory(m) => Some(Some((m.place, m.dtype))),
            Operand::Given(_) => None,
        });
        memory.chain(self.indices.iter().map(|_| None)).collect()
    }

    /// Statements that load, where walker `w` is at `at(w)`, the elements of the lanes of `side`, as `<prefix><operand>`, but
    /// for the walkers of `there`.
    pub(crate) fn loads(&self, side: &Side, prefix: &str, there: &[usize], at: &dyn Fn(usize) -> String) -> String {
        let mut text = String::new();
        let mut walker = 0;
        for (k, (operand, pointer)) in self.body.operands.iter().zip(&self.pointers).enumerate() {
            let (Operand::Memory(m), Some(pointer)) = (operand, pointer) else { continue };
            if there.contains(&walker) {
                walker += 1;
                continue;
            }
            let (ty, here, step, lanes) = (stored(m.dtype), at(walker), side.steps[walker], side.lanes);
            let _ = match step {
                0 => writeln!(text, "const {ty} {prefix}{k} = {pointer}[{here}];"),
                _ if lanes == 1 => writeln!(text, "const {ty} {prefix}{k}[1] = {{{pointer}[{here}]}};"),
                1 => {
                    let word = side.words[walker];
                    writeln!(text, "{ty} {prefix}{k}[{lanes}];\nein_load<{word}>({prefix}{k}, {pointer} + {here});")
                }
                step => writeln!(
                    text,
                    "{ty} {prefix}{k}[{lanes}];\n#pragma unroll\nfor (int v = 0; v < {lanes}; v++) {prefix}{k}[v] = \
                     {pointer}[{here} + v * {step}];"
                ),
            };
            walker += 1;
        }
        text
    }

    /// Statements that evaluate the rows, but not the one in `skip`, in lane `v`; `given` are finished elements of what
    /// comes before.
    pub(crate) fn rows(
        &self,
        side: &Side,
        prefix: &str,
        skip: Option<usize>,
        at: &dyn Fn(usize) -> String,
        given: &dyn Fn(usize) -> String,
    ) -> String {
        let walker = self.walker(self.pointers.len());
        let operand = |k: usize| match &self.body.operands[k] {
            Operand::Given(n) => given(*n),
            Operand::Memory(m) if side.steps[self.walker(k)] == 0 => load(m.dtype, &format!("{prefix}{k}")),
            Operand::Memory(m) => load(m.dtype, &format!("{prefix}{k}[v]")),
        };
        let index = |l: usize| {
            let n = self.indices.binary_search(&l).expect("an index that walks");
            let (first, here, step) = (&self.firsts[n], at(walker + n), side.steps[walker + n]);
            match step {
                0 => format!("{first} + {here}"),
                step => format!("{first} + {here} + v * {step}"),
            }
        };
        statements(&self.body.rows, skip, &operand, &index)
    }
}

impl Side {
    /// Lanes along the innermost of some loops, as many as words of 16 bytes make useful. `walkers` are the elements that
    /// move along, `None` for indices; `most` is the greatest number.
    pub(crate) fn along(loops: &Loops, walkers: &[Option<(Place, DType)>], most: usize) -> Self {
        let moving = |w: &usize| loops.inner_step(*w) == 1;
        let sizes: Vec<usize> =
            (0..walkers.len()).filter(moving).filter_map(|w| walkers[w].map(|(_, d)| d.bytes())).collect();
        let (least, largest) = (sizes.iter().min().copied(), sizes.iter().max().copied().unwrap_or(1));
        let wanted = least.map_or(1, |s| 16 / s).min(32 / largest).min(most).max(1);
        let mut lanes = 1;
        while lanes * 2 <= wanted && loops.inner().is_multiple_of(lanes * 2) {
            lanes *= 2;
        }
        Self::of(loops, walkers, lanes)
    }

    /// So many lanes along the innermost of some loops.
    pub(crate) fn of(loops: &Loops, walkers: &[Option<(Place, DType)>], lanes: usize) -> Self {
        let steps: Vec<i64> = (0..walkers.len()).map(|w| loops.inner_step(w)).collect();
        let word = |w: usize| {
            let Some((place, dtype)) = walkers[w] else { return 1 };
            let size = dtype.bytes() as u64;
            // Where a word begins: any number of steps in the other loops, and of lanes in this.
            let outer = loops.steps[w].split_last().map_or(&[][..], |(_, outer)| outer);
            let bytes = outer.iter().map(|s| s.unsigned_abs() * size).chain([lanes as u64 * size]);
            bytes.fold(alignment(place), |all, b| if b == 0 { all } else { all.min(1 << b.trailing_zeros().min(4)) })
        };
        Self { lanes, words: (0..walkers.len()).map(word).collect(), steps }
    }
}

/// Loops whose innermost one goes on by `lanes` at a time.
pub(crate) fn grouped(loops: &Loops, lanes: usize) -> Loops {
    let mut loops = loops.clone();
    if let Some(inner) = loops.extents.last_mut() {
        *inner /= lanes;
        loops.steps.iter_mut().filter_map(|s| s.last_mut()).for_each(|s| *s *= lanes as i64);
    }
    loops
}
