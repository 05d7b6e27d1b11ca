//! Fused rows: a first operation, and maps of its result that are applied while it is near.
//!
//! Maps that follow one another are one map. What comes before them is made in parts: tiles of a product with a packed
//! factor as they come out of the registers, else some rows at a time, so that statistics and the map that reads them
//! pass over memory once.

use super::buffer::NearRegion;
use super::constants::{Constants, Tables};
use super::contract;
use super::einsum::einsum;
use super::parts::cut;
use super::piece::{Piece, PieceMut};
use super::sinks::Use;
use super::strided::Few;
use super::{Scratch, kernel};
use crate::error::Cause;
use ein_ir::dtype::DType;
use ein_ir::einsum::Einsum;
use ein_ir::expr::{Expr, Row};
use ein_ir::monoid::Form;
use ein_ir::op::Op;
use ein_ir::region::{Interval, Region};
use ein_task::task::{OpRow, Source, Stage, TaskGraph};
use std::ops::Range;

/// Bytes of the part that is made at once, at least one row: it stays in the second cache, beside the factors of a product.
const NEAR: usize = 1 << 17;

/// All stages but the first as one map; or all, where the first is a map too.
pub(crate) struct Tail {
    map: Einsum,
    constants: Option<Constants>,
    /// Where the map's operands are.
    sources: Vec<Source>,
    /// The block of every stage.
    pub(crate) labels: Vec<Region>,
    /// How what the first stage leaves is stored: as it is, and as a tile of a product.
    between: [Form; 2],
}

/// A fused row.
pub(crate) struct Fused<'a> {
    /// The first stage's operation.
    pub(crate) head: &'a OpRow,
    pub(crate) stages: &'a [Stage],
    /// The block of every stage.
    pub(crate) labels: &'a [Region],
    pub(crate) tail: &'a Tail,
}

/// A map that folds nothing, and where its operands are.
fn of<'a>(graph: &'a TaskGraph, stage: &Stage) -> Result<(&'a Einsum, Vec<Source>), Cause> {
    let row = &graph.ops[stage.op];
    let Op::Einsum(e) = &row.op else { return Err(Cause::malformed(format!("`{}` is no map", row.name))) };
    let sources: Option<Vec<Source>> = stage.operands.iter().copied().collect();
    let sources = sources.ok_or_else(|| Cause::malformed(format!("an operand of `{}` is not given", row.name)))?;
    if e.folds() { Err(Cause::malformed(format!("`{}` folds", row.name))) } else { Ok((e, sources)) }
}

/// Two maps as one: `second` reads the value of `first`, whose labels are its own first ones.
fn composed(first: &(Einsum, Vec<Source>), second: &(&Einsum, Vec<Source>)) -> (Einsum, Vec<Source>) {
    let (mut accesses, mut sources) = (first.0.accesses.clone(), first.1.clone());
    let mut join = Expr::new();
    let mut places = Vec::new();
    for &row in first.0.join.rows() {
        places.push(push(&mut join, row, &places));
    }
    // What is between them is rounded as if it were stored.
    let value = join.cast(*places.last().expect("an expression has a row"), first.0.dtype);
    let mut places = Vec::new();
    for &(row, dtype) in second.0.join.rows() {
        let place = match row {
            Row::Operand(k) if second.1[k] == Source::Previous => value,
            Row::Operand(k) => {
                let known =
                    (0..sources.len()).find(|&n| sources[n] == second.1[k] && accesses[n] == second.0.accesses[k]);
                let operand = known.unwrap_or_else(|| {
                    sources.push(second.1[k]);
                    accesses.push(second.0.accesses[k].clone());
                    sources.len() - 1
                });
                join.push_operand(operand, dtype)
            }
            _ => push(&mut join, (row, dtype), &places),
        };
        places.push(place);
    }
    // The last row is the value; an expression that is just what it reads has it further up.
    let last = *places.last().expect("an expression has a row");
    if last + 1 != join.rows().len() {
        let again = join.rows()[last];
        let own: Vec<usize> = (0..join.rows().len()).collect();
        push(&mut join, again, &own);
    }
    (Einsum { accesses, join, ..second.0.clone() }, sources)
}

impl Tail {
    /// Of the stages of a fused row.
    pub(crate) fn new(graph: &TaskGraph, stages: &[Stage], tables: &mut Tables) -> Result<Self, Cause> {
        let head = &graph.ops[stages[0].op];
        let from = usize::from(!is_map(head));
        let (first, sources) = of(graph, &stages[from])?;
        let mut tail = (first.clone(), sources);
        for stage in &stages[from + 1..] {
            tail = composed(&tail, &of(graph, stage)?);
        }
        let (map, sources) = tail;
        let labels = &stages[stages.len() - 1].labels;
        let constants = Constants::of(&map.join, map.accesses.len(), labels, tables);
        let rank = head.result.shape.len();
        let between = [head.result.dtype, DType::F32].map(|dtype| Form::finished(dtype, rank));
        let labels = stages.iter().map(|s| s.labels.clone()).collect();
        Ok(Self { map, constants, sources, labels, between })
    }
}

impl Fused<'_> {
    /// Evaluates the row from its reads into `result`.
    pub(crate) fn run(
        &self,
        reads: &[Piece<'_>],
        result: &mut PieceMut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), Cause> {
        let last = &self.labels[self.labels.len() - 1];
        if is_map(self.head) {
            return self.map(last, None, reads, result);
        }
        let first = &self.stages[0];
        let read = |source: &Option<Source>| match source {
            Some(Source::Read(n)) => Some(reads[*n]),
            Some(Source::Previous) | None => None,
        };
        let operands: Few<Option<Piece<'_>>> = first.operands.iter().map(read).collect();
        let rank = self.head.spec.as_ref().map_or(0, |s| s.rank);
        if let Op::Einsum(e) = &self.head.op {
            let mut applied = Applied { fused: self, labels: last, rank, reads, result: &mut *result };
            let near = (&mut scratch.near, &mut scratch.lines);
            if contract::each_tile(e, &self.labels[0], &operands, near, &mut applied)? {
                return Ok(());
            }
        }
        // A product that is not packed packs its factors in every call: it is made whole. Of one that is, rows are.
        let product = match &self.head.op {
            Op::Einsum(e) if contract::is_product(e) => {
                let packed = e.accesses.iter().zip(&operands).find(|(_, piece)| piece.is_some_and(|p| p.packed));
                Some(packed.is_some_and(|(access, _)| !access.depends_on(0)))
            }
            _ => None,
        };
        // A label that is not to be cut, as that of a running fold, is not cut here either.
        let free = self.head.spec.iter().flat_map(|s| &s.labels[..rank]).take_while(|&l| cut(l) == Some(1)).count();
        let most = product.map_or(last.rank().saturating_sub(1), usize::from);
        let leading = free.min(most);
        let row: usize = last.0[leading..].iter().map(|i| i.len()).product();
        let rows = (NEAR / (row * self.tail.map.dtype.bytes()).max(1)).max(1);
        let total: usize = last.0[..leading].iter().map(|i| i.len()).product();
        let mut at = 0;
        while at < total {
            let here = rows.min(total - at);
            for part in boxes(&last.0[..leading], at..at + here) {
                self.part(&part, &operands, reads, result, scratch)?;
            }
            at += here;
        }
        Ok(())
    }

    /// The rows of some leading labels: the first stage into scratch memory, then the map.
    fn part(
        &self,
        leading: &[Interval],
        operands: &[Option<Piece<'_>>],
        reads: &[Piece<'_>],
        result: &mut PieceMut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), Cause> {
        let restricted = |labels: &Region| NearRegion::of(leading.iter().chain(&labels.0[leading.len()..]).copied());
        let last = &self.labels[self.labels.len() - 1];
        let labels = restricted(&self.labels[0]);
        let spec = self.head.spec.as_ref().ok_or_else(|| Cause::malformed("the first stage does not compute"))?;
        let form = &self.tail.between[0];
        let stacked = spec.stacked.map(|n| Interval::new(0, n));
        let region = NearRegion::of(labels.0[..spec.rank].iter().copied().chain(stacked));
        let size = region.volume() * form.fields[0].dtype.bytes();
        let product = matches!(&self.head.op, Op::Einsum(e) if contract::is_product(e));
        let mut memory = std::mem::take(scratch.between(product));
        let bytes: &mut [u8] = memory.of(size);
        let mut piece = PieceMut::new(&region, form, &mut *bytes);
        let done = kernel(self.head, None, &labels, true, operands, &mut piece, scratch).and_then(|()| {
            let between = Piece::new(&region, form, bytes);
            self.map(&restricted(last), Some(between), reads, result)
        });
        *scratch.between(product) = memory;
        done
    }

    /// The map on a box of its labels, `between` being what the first stage left of it.
    fn map(
        &self,
        labels: &Region,
        between: Option<Piece<'_>>,
        reads: &[Piece<'_>],
        result: &mut PieceMut<'_>,
    ) -> Result<(), Cause> {
        let operand = |source: &Source| match source {
            Source::Read(n) => Some(reads[*n]),
            Source::Previous => between,
        };
        let operands: Few<Option<Piece<'_>>> = self.tail.sources.iter().map(operand).collect();
        einsum(&self.tail.map, labels, &operands, result, true, &self.head.name, self.tail.constants.as_ref())
    }
}

/// Writes a row of another expression, its arguments at their places.
fn push(out: &mut Expr, (row, dtype): (Row, DType), places: &[usize]) -> usize {
    let typed = "it was well typed where it came from";
    match row {
        Row::Operand(k) => out.push_operand(k, dtype),
        Row::Const(value) => out.constant(value, dtype),
        Row::Index(label) => out.index(label),
        Row::Unary(function, a) => out.unary(function, places[a]).expect(typed),
        Row::Binary(function, a, b) => out.binary(function, places[a], places[b]).expect(typed),
        Row::Select(c, yes, no) => out.select(places[c], places[yes], places[no]).expect(typed),
        Row::Cast(a) => out.cast(places[a], dtype),
    }
}

fn is_map(row: &OpRow) -> bool {
    matches!(&row.op, Op::Einsum(e) if !e.folds())
}

/// The boxes that the points of a range make, in row-major order of the labels: few, and together just those.
fn boxes(labels: &[Interval], range: Range<usize>) -> Few<Few<Interval>> {
    let mut found = Few::new();
    add_boxes(labels, range, &mut Few::new(), &mut found);
    found
}

/// The same, behind the outer indices `before`.
fn add_boxes(labels: &[Interval], range: Range<usize>, before: &mut Few<Interval>, found: &mut Few<Few<Interval>>) {
    if range.is_empty() {
        return;
    }
    let Some((outer, inner)) = labels.split_first() else { return found.push(before.clone()) };
    let size: usize = inner.iter().map(|i| i.len()).product();
    let (first, last) = (range.start / size, (range.end - 1) / size);
    let one = |n: usize, before: &mut Few<Interval>, found: &mut Few<Few<Interval>>| {
        let base = n * size;
        let part = range.start.max(base) - base..range.end.min(base + size) - base;
        before.push(Interval::new(outer.lo + n, outer.lo + n + 1));
        add_boxes(inner, part, before, found);
        before.pop();
    };
    // Indices of the outermost label that have all their points go together.
    let whole_from = if range.start == first * size { first } else { first + 1 };
    let whole_to = if range.end == (last + 1) * size { last + 1 } else { last };
    if whole_from > first {
        one(first, before, found);
    }
    if whole_from < whole_to {
        let all = Interval::new(outer.lo + whole_from, outer.lo + whole_to);
        found.push(before.iter().chain([&all]).chain(inner).copied().collect());
    }
    if whole_to <= last && (last > first || whole_from == first) {
        one(last, before, found);
    }
}

/// Where tiles of a product go: through the map into the result.
struct Applied<'a, 'b, 'c> {
    fused: &'a Fused<'a>,
    labels: &'a Region,
    rank: usize,
    reads: &'a [Piece<'b>],
    result: &'a mut PieceMut<'c>,
}

impl Use for Applied<'_, '_, '_> {
    fn tile(&mut self, rows: Range<usize>, lead: usize, columns: Range<usize>, values: &[f32]) -> Result<(), Cause> {
        let mut trailing: Few<Interval> = Few::from_slice(&self.labels.0[lead..]);
        if self.rank == lead + 1 {
            let first = trailing[0].lo;
            trailing[0] = Interval::new(first + columns.start, first + columns.end);
        }
        let width: usize = trailing[..self.rank - lead].iter().map(|i| i.len()).product();
        let form = &self.fused.tail.between[1];
        let mut at = 0;
        for part in boxes(&self.labels.0[..lead], rows) {
            let labels = NearRegion::of(part.iter().chain(&trailing).copied());
            let region = NearRegion::of(labels.0[..self.rank].iter().copied());
            let size = part.iter().map(|i| i.len()).product::<usize>() * width;
            let between = Some(Piece::new(&region, form, bytemuck::cast_slice(&values[at..at + size])));
            at += size;
            self.fused.map(&labels, between, self.reads, self.result)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_few_boxes_in_order() {
        for extents in [vec![], vec![5], vec![3, 4], vec![2, 3, 4], vec![1, 1, 7], vec![4, 1, 3]] {
            let labels: Vec<Interval> = extents.iter().map(|&e| Interval::new(10, 10 + e)).collect();
            let total: usize = extents.iter().product();
            let all: Vec<Vec<usize>> = ein_ir::region::points(&Region(labels.clone())).collect();
            for lo in 0..=total {
                for hi in lo..=total {
                    let found = boxes(&labels, lo..hi);
                    let points: Vec<Vec<usize>> = found
                        .iter()
                        .flat_map(|b| ein_ir::region::points(&Region(b.to_vec())).collect::<Vec<_>>())
                        .collect();
                    assert_eq!(points, all[lo..hi], "{extents:?} {lo}..{hi}");
                    assert!(found.len() < 2 * extents.len().max(1), "{extents:?} {lo}..{hi}: {found:?}");
                }
            }
        }
    }
}
