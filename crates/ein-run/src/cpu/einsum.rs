//! Einsums of any join: blocks of the expression's values, then the fold.
//!
//! Two ways to fold, chosen by how the operands lie in memory. *Columns*: lanes are results, and one
//! folded index after the other is added to all of them. *Rows*: lanes are the folded indices of one
//! result, reduced at the end. Either way the order is fixed by the block's shape.

use super::constants::Constants;
use super::fold;
use super::hoist::hoist;
use super::lanes::{Axis, BLOCK, Lane, Lanes, Values, ValuesMut, shift};
use super::piece::{Elements, Piece, PieceMut};
use super::rows::cast;
use super::state::{State, store};
use super::strided::{Few, Odometer, Strided};
use crate::error::Cause;
use bytemuck::cast_slice_mut;
use ein_ir::dtype::DType;
use ein_ir::einsum::Einsum;
use ein_ir::expr::{Binary, Row};
use ein_ir::monoid::Monoid;
use ein_ir::region::Region;

/// A last axis of this many points is walked in blocks that end where it ends, so that operands and the result are
/// read and written where they are.
const LONG: usize = 256;

/// Evaluates a block of an einsum into `result`, whose region is the block's, or for what folds nothing may hold it.
/// `constants` are those of the einsum, if any were made.
pub(crate) fn einsum(
    e: &Einsum,
    labels: &Region,
    operands: &[Option<Piece<'_>>],
    result: &mut PieceMut<'_>,
    finish: bool,
    name: &str,
    constants: Option<&Constants>,
) -> Result<(), Cause> {
    let outputs: usize = labels.0[..e.rank].iter().map(|i| i.len()).product();
    let expected = if e.monoid.is_plain() || (finish && e.folds()) || !e.folds() { 1 } else { fold::fields(e.monoid) };
    if result.fields() != expected {
        return Err(Cause::malformed(format!("`{name}` is stored in {} fields, not {expected}", result.fields())));
    }
    if outputs == 0 {
        return Ok(());
    }
    if !Monoid::OF_EINSUMS.contains(&e.monoid) && e.folds() {
        return Err(Cause::Arithmetic { operation: name.into(), reason: "an einsum cannot fold by `attend`".into() });
    }
    let acc = e.dtype.accumulator();
    let state = State::new(if e.folds() { e.monoid } else { Monoid::Sum }, acc, finish);
    if labels.is_empty() {
        let mut state = state;
        let mut at = 0;
        while at < outputs {
            let n = BLOCK.min(outputs - at);
            state.start(n, 0);
            state.store(n, result, at);
            at += n;
        }
        return Ok(());
    }
    // It outlives the lists of what is read.
    let hoisted;
    let mut pieces: Few<Elements<'_>> = Few::new();
    let mut strided: Few<Strided> = Few::new();
    for (n, access) in e.accesses.iter().enumerate() {
        let piece = operands.get(n).copied().flatten();
        let piece = piece.ok_or_else(|| Cause::malformed(format!("operand {n} of `{name}` is not given")))?;
        piece.dtype()?;
        strided.push(Strided::operand(&access.axes, labels, piece.region)?);
        pieces.push(piece.elements(0));
    }
    let mut join = e.join.rows();
    if let Some(constants) = constants {
        join = &constants.join;
        for operand in constants.operands(labels) {
            let (table, steps) = operand?;
            pieces.push(table.elements());
            strided.push(steps);
        }
    }
    hoisted = hoist(join, labels, &pieces, &strided);
    if let Some(hoisted) = &hoisted {
        join = &hoisted.join;
        for (table, steps) in &hoisted.tables {
            pieces.push(table.elements());
            strided.push(Strided { base: 0, steps: steps.clone() });
        }
    }
    let into = Strided::result(e.rank, labels, result.region)?;
    let base: Few<i64> = strided.iter().map(|s| s.base).collect();
    let reads_index = |l: usize| join.iter().any(|r| r.0 == Row::Index(l));
    // The result's steps come last.
    let axis = |l: usize| Axis {
        extent: labels.0[l].len(),
        steps: strided.iter().map(|s| s.steps[l]).chain([into.steps[l]]).collect(),
        label: reads_index(l).then_some((l, labels.0[l].lo as i64)),
    };
    let free = merged((0..e.rank).map(axis).collect());
    let folded = merged((e.rank..labels.rank()).map(axis).collect());
    let product = matches!(e.join.rows().last(), Some((Row::Binary(Binary::Mul, ..), _)));
    let exact = if e.folds() {
        e.monoid == Monoid::Sum && e.dtype.is_float() && e.join.dtype().is_float() && product
    } else {
        // It is rounded as it is stored, and only then.
        matches!(e.dtype, DType::BF16 | DType::F16) && result.dtype(0) == e.dtype && e.join.dtype() == e.dtype
    };
    let target = if e.folds() { acc } else { e.dtype };
    let indices = Few::from_elem(0, labels.rank());
    let mut job = Job { join, exact, target, pieces: &pieces, base, indices, state };
    if !e.folds() {
        job.map(free, into.base, result);
    } else if by_rows(&free, &folded) {
        job.rows(&free, folded, result);
    } else {
        job.columns(free, &folded, result);
    }
    Ok(())
}

/// Drops axes of one point and joins neighbours that walk on as one, unless their index is read.
fn merged(mut axes: Few<Axis>) -> Few<Axis> {
    axes.retain(|a| a.extent != 1 || a.label.is_some());
    let mut at = axes.len();
    while at > 1 {
        at -= 1;
        let (outer, inner) = (&axes[at - 1], &axes[at]);
        let walks_on = outer.steps.iter().zip(&inner.steps).all(|(o, i)| *o == i * inner.extent as i64);
        if walks_on && outer.label.is_none() && inner.label.is_none() {
            let inner = axes.remove(at);
            axes[at - 1] = Axis { extent: axes[at - 1].extent * inner.extent, ..inner };
        }
    }
    axes
}

/// Whether lanes should be folded indices: where the operands are contiguous along them, or results few.
fn by_rows(free: &[Axis], folded: &[Axis]) -> bool {
    let volume = |axes: &[Axis]| axes.iter().map(|a| a.extent).product::<usize>();
    let (outputs, points) = (volume(free), volume(folded));
    if points < 16 || outputs >= BLOCK && points < 64 {
        return false;
    }
    if outputs < 16 {
        return true;
    }
    let contiguous = |axes: &[Axis]| axes.last().map_or(0, |a| a.steps.iter().filter(|s| **s == 1).count());
    contiguous(folded) >= contiguous(free)
}

/// One block's work.
struct Job<'a> {
    /// The einsum's join, or what is left of it beside tables.
    join: &'a [(Row, DType)],
    exact: bool,
    target: DType,
    pieces: &'a [Elements<'a>],
    base: Few<i64>,
    /// Indices of labels that are no lane axis, where read.
    indices: Few<i64>,
    state: State,
}

impl<'a> Job<'a> {
    fn lanes(&self, axes: Few<Axis>) -> Lanes<'a> {
        Lanes::new(self.join, self.exact, self.pieces, axes)
    }

    /// The steps of every operand over some axes.
    fn steps(&self, axes: &[Axis]) -> Few<Few<i64>> {
        (0..self.pieces.len()).map(|k| axes.iter().map(|a| a.steps[k]).collect()).collect()
    }

    fn set_indices(&mut self, axes: &[Axis], at: &[usize]) {
        for (axis, &n) in axes.iter().zip(at) {
            if let Some((label, first)) = axis.label {
                self.indices[label] = first + n as i64;
            }
        }
    }

    /// Nothing is folded: lanes are results, and stored as they are. (Added to a sum of nothing, -0 would become 0.)
    fn map(&mut self, free: Few<Axis>, into: i64, result: &mut PieceMut<'_>) {
        let long = free.last().is_some_and(|a| a.extent >= LONG);
        let step = free.last().map_or(1, |a| a.steps[self.pieces.len()]);
        let dtype = result.dtype(0);
        let mut lanes = self.lanes(free);
        let mut value = Lane::new(self.target);
        let same = self.same();
        let out = result.bytes(0);
        let mut left = lanes.volume();
        while left > 0 {
            let n = BLOCK.min(if long { lanes.left() } else { left });
            left -= n;
            lanes.advance(n);
            let at = into + lanes.offset(self.pieces.len());
            if same && step == 1 && lanes.is_line() {
                let range = at as usize..at as usize + n;
                let place = match (self.target, dtype) {
                    (DType::F32, DType::F32) => Some(ValuesMut::F32(&mut cast_slice_mut(out)[range])),
                    (DType::F64, DType::F64) => Some(ValuesMut::F64(&mut cast_slice_mut(out)[range])),
                    (DType::I64, DType::I64) => Some(ValuesMut::Int(&mut cast_slice_mut(out)[range])),
                    _ => None,
                };
                if let Some(place) = place {
                    lanes.evaluate_into(&self.base, &self.indices, place);
                    continue;
                }
            }
            if same {
                lanes.evaluate(&self.base, &self.indices);
            } else {
                cast(lanes.evaluate(&self.base, &self.indices), value.values_mut(n), self.target);
            }
            for (at, from) in lanes.places(self.pieces.len()) {
                let values = if same { lanes.value(&self.base) } else { value.values(n) };
                store_steps(values, from, dtype, out, into + at, step);
            }
        }
    }

    /// Lanes are results.
    fn columns(&mut self, free: Few<Axis>, folded: &[Axis], result: &mut PieceMut<'_>) {
        let mut lanes = self.lanes(free);
        let outputs = lanes.volume();
        let steps = self.steps(folded);
        let points: usize = folded.iter().map(|a| a.extent).product();
        let mut base = self.base.clone();
        let mut value = Lane::new(self.target);
        let same = self.same();
        let mut at = 0;
        while at < outputs {
            let n = BLOCK.min(outputs - at);
            lanes.advance(n);
            self.state.start(n, points);
            for pass in 0..self.state.passes() {
                let mut odometer = Odometer::new(folded.iter().map(|a| a.extent));
                loop {
                    shift(&self.base, &steps, odometer.at(), &mut base);
                    self.set_indices(folded, odometer.at());
                    let join = lanes.evaluate(&base, &self.indices);
                    if same {
                        self.state.add(pass, join, n);
                    } else {
                        cast(join, value.values_mut(n), self.target);
                        self.state.add(pass, value.values(n), n);
                    }
                    if !odometer.step() {
                        break;
                    }
                }
                self.state.end(pass, n, points);
            }
            self.state.store(n, result, at);
            at += n;
        }
    }

    /// Lanes are the folded indices of one result.
    fn rows(&mut self, free: &[Axis], folded: Few<Axis>, result: &mut PieceMut<'_>) {
        let mut lanes = self.lanes(folded);
        let points = lanes.volume();
        let steps = self.steps(free);
        let mut outer = Odometer::new(free.iter().map(|a| a.extent));
        let mut base = self.base.clone();
        let mut value = Lane::new(self.target);
        let mut row = self.state.fresh();
        let same = self.same();
        let (mut at, mut n) = (0, 0);
        let outputs: usize = free.iter().map(|a| a.extent).product();
        self.state.start(BLOCK.min(outputs), points);
        loop {
            shift(&self.base, &steps, outer.at(), &mut base);
            self.set_indices(free, outer.at());
            row.start(1, points);
            for pass in 0..row.passes() {
                row.wide_start(pass);
                let mut left = points;
                while left > 0 {
                    let here = BLOCK.min(left);
                    lanes.advance(here);
                    let join = lanes.evaluate(&base, &self.indices);
                    if same {
                        row.wide_add(pass, join, here);
                    } else {
                        cast(join, value.values_mut(here), self.target);
                        row.wide_add(pass, value.values(here), here);
                    }
                    left -= here;
                }
                row.wide_end(pass);
                row.end(pass, 1, points);
            }
            self.state.take(n, &row);
            n += 1;
            let more = outer.step();
            if n == BLOCK || !more {
                self.state.store(n, result, at);
                at += n;
                n = 0;
                self.state.start(BLOCK.min(outputs - at), points);
            }
            if !more {
                return;
            }
        }
    }

    /// Whether the join's lanes can be folded as they are.
    fn same(&self) -> bool {
        let dtype = self.join[self.join.len() - 1].1;
        let join = if self.exact { dtype.accumulator() } else { dtype };
        dtype == self.target || join == self.target || (self.target == DType::F32 && join.accumulator() == DType::F32)
    }
}

/// Stores a range of values as a type, `step` elements apart.
fn store_steps(values: Values<'_>, range: std::ops::Range<usize>, dtype: DType, out: &mut [u8], at: i64, step: i64) {
    let part = |n: usize, m: usize| match values {
        Values::F32(v) => Values::F32(&v[n..m]),
        Values::F64(v) => Values::F64(&v[n..m]),
        Values::Int(v) => Values::Int(&v[n..m]),
    };
    if step == 1 {
        return store(part(range.start, range.end), dtype, out, at as usize);
    }
    for (n, to) in range.zip(0..) {
        store(part(n, n + 1), dtype, out, (at + to * step) as usize);
    }
}
