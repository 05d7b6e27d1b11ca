//! Evaluates a scalar expression for a block of points at once, row by row.

use super::buffer::Buffer;
use super::convert::to_f32;
use super::piece::Elements;
use super::rows::{binary, cast, select, unary};
use super::strided::{Few, dot};
use ein_ir::dtype::DType;
use ein_ir::expr::{Literal, Row};
use ein_ir::scalar;
use half::f16;

/// Points evaluated at once: lanes of all rows stay in the nearest cache.
pub(crate) const BLOCK: usize = 512;

/// Runs of a block that there is room for at once, at least.
const SEGMENTS: usize = 32;

/// One row's values: 16-bit floats widened to `f32`, integers and bools to `i64`.
#[derive(Clone, Debug)]
pub(crate) enum Lane {
    F32(Buffer<f32>),
    F64(Buffer<f64>),
    Int(Buffer<i64>),
}

impl Lane {
    /// A lane of zeros for values of a type.
    pub(crate) fn new(dtype: DType) -> Self {
        match dtype {
            DType::F64 => Self::F64(Buffer::of(0.0, BLOCK)),
            DType::F32 | DType::BF16 | DType::F16 => Self::F32(Buffer::of(0.0, BLOCK)),
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => Self::Int(Buffer::of(0, BLOCK)),
        }
    }

    /// Whether values of a type are in lanes of this kind.
    fn holds(&self, dtype: DType) -> bool {
        match self {
            Self::F64(_) => dtype == DType::F64,
            Self::F32(_) => dtype.is_float() && dtype != DType::F64,
            Self::Int(_) => !dtype.is_float(),
        }
    }

    /// A lane without memory.
    fn nothing() -> Self {
        Self::Int(Buffer::with_room(0))
    }

    /// The first `n` values.
    pub(crate) fn values(&self, n: usize) -> Values<'_> {
        match self {
            Self::F32(v) => Values::F32(&v[..n]),
            Self::F64(v) => Values::F64(&v[..n]),
            Self::Int(v) => Values::Int(&v[..n]),
        }
    }

    /// The first `n` values, to be written.
    pub(crate) fn values_mut(&mut self, n: usize) -> ValuesMut<'_> {
        match self {
            Self::F32(v) => ValuesMut::F32(&mut v[..n]),
            Self::F64(v) => ValuesMut::F64(&mut v[..n]),
            Self::Int(v) => ValuesMut::Int(&mut v[..n]),
        }
    }
}

/// Values of a block of points: of a lane, or an operand's as they lie in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    Int(&'a [i64]),
}

impl<'a> Values<'a> {
    pub(super) fn ints(self) -> &'a [i64] {
        match self {
            Self::Int(v) => v,
            Self::F32(_) | Self::F64(_) => unreachable!("checked when the row was pushed: an integer"),
        }
    }
}

/// Where values of a block of points go.
#[derive(Debug)]
pub(crate) enum ValuesMut<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
    Int(&'a mut [i64]),
}

/// A loop over a label of the block: its extent, and how far a step moves each operand, and what else there is.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) extent: usize,
    pub(crate) steps: Few<i64>,
    /// The label and its first index, where the expression reads the index.
    pub(crate) label: Option<(usize, i64)>,
}

/// A run of points along the last axis.
pub(super) struct Segment {
    len: usize,
    /// Element of every operand, and of what else the axes have steps for, relative to the block's base.
    offsets: Few<i64>,
    /// Index of every axis.
    at: Few<usize>,
}

/// An expression with memory for its rows.
pub(crate) struct Lanes<'a> {
    rows: Buffer<(Row, DType)>,
    /// Which lane each row's values are in. A lane is used again when the last row that reads it is done.
    places: Buffer<usize>,
    values: Buffer<Lane>,
    operands: &'a [Elements<'a>],
    axes: Few<Axis>,
    /// Where the next block begins: index of every axis, and element of every operand relative to the block's base.
    at: Few<usize>,
    next: Few<i64>,
    segments: Buffer<Segment>,
    used: usize,
    points: usize,
}

impl<'a> Lanes<'a> {
    /// Prepares the rows of an expression over the axes, last fastest. With `exact` the last row, a product, is not rounded to
    /// its 16-bit type.
    pub(crate) fn new(rows: &[(Row, DType)], exact: bool, operands: &'a [Elements<'a>], mut axes: Few<Axis>) -> Self {
        let mut rows = Buffer::collect(rows.len(), rows.iter().copied());
        if exact && let Some((_, dtype)) = rows.last_mut() {
            *dtype = dtype.accumulator();
        }
        if axes.is_empty() {
            // One step more than there are operands: axes may say where results go.
            axes.push(Axis { extent: 1, steps: Few::from_elem(0, operands.len() + 1), label: None });
        }
        let (places, values) = placed(&rows);
        let (at, next) = (Few::from_elem(0, axes.len()), Few::from_elem(0, axes[0].steps.len()));
        Self {
            rows,
            places,
            values,
            operands,
            axes,
            at,
            next,
            segments: Buffer::with_room(SEGMENTS),
            used: 0,
            points: 0,
        }
    }

    /// Number of points of all axes.
    pub(crate) fn volume(&self) -> usize {
        self.axes.iter().map(|a| a.extent).product()
    }

    /// Makes the next `points <= BLOCK` points, in row-major order, the block. After the last it begins anew.
    pub(crate) fn advance(&mut self, points: usize) {
        self.used = 0;
        self.points = points;
        let mut left = points;
        while left > 0 {
            if self.used == self.segments.len() {
                self.segments.push(Segment { len: 0, offsets: Few::new(), at: Few::new() });
            }
            let here = self.left().min(left);
            let segment = &mut self.segments[self.used];
            segment.at.clone_from(&self.at);
            segment.offsets.clone_from(&self.next);
            segment.len = here;
            self.walk(here);
            left -= here;
            self.used += 1;
        }
    }

    /// Walks on along the last axis, by no more points than are left of it.
    fn walk(&mut self, points: usize) {
        let (mut axis, mut by) = (self.axes.len() - 1, points);
        loop {
            let Axis { extent, steps, .. } = &self.axes[axis];
            self.at[axis] += by;
            let over = self.at[axis] == *extent;
            // Where it ends it begins anew, and the axis around it goes on.
            let by_steps = if over { by as i64 - *extent as i64 } else { by as i64 };
            self.next.iter_mut().zip(steps).for_each(|(at, step)| *at += by_steps * step);
            if !over {
                return;
            }
            self.at[axis] = 0;
            if axis == 0 {
                return;
            }
            (axis, by) = (axis - 1, 1);
        }
    }

    /// Evaluates the block with the operands at `base` and the indices `outer` of labels that are no axis.
    pub(crate) fn evaluate(&mut self, base: &[i64], outer: &[i64]) -> Values<'_> {
        let last = self.rows.len() - 1;
        for row in 0..=last {
            if self.is_there(row, base) {
                continue;
            }
            let place = self.places[row];
            let mut lane = std::mem::replace(&mut self.values[place], Lane::nothing());
            self.row(row, base, outer, lane.values_mut(self.points));
            self.values[place] = lane;
        }
        self.done(last, base)
    }

    /// [`Self::evaluate`], the values written to `out`, which is as long as the block and of the value's kind.
    pub(crate) fn evaluate_into(&mut self, base: &[i64], outer: &[i64], out: ValuesMut<'_>) {
        let last = self.rows.len() - 1;
        for row in 0..last {
            if self.is_there(row, base) {
                continue;
            }
            let place = self.places[row];
            let mut lane = std::mem::replace(&mut self.values[place], Lane::nothing());
            self.row(row, base, outer, lane.values_mut(self.points));
            self.values[place] = lane;
        }
        if matches!(self.rows[last].0, Row::Const(_)) || same(&self.rows, last).is_some() {
            cast(self.done(last, base), out, self.rows[last].1);
        } else {
            self.row(last, base, outer, out);
        }
    }

    /// Whether a row's values are there before it is evaluated.
    fn is_there(&self, row: usize, base: &[i64]) -> bool {
        matches!(self.rows[row].0, Row::Const(_)) || same(&self.rows, row).is_some() || self.direct(row, base).is_some()
    }

    /// An operand's values where they lie side by side in memory, in the type that they are computed in.
    fn direct(&self, row: usize, base: &[i64]) -> Option<Values<'a>> {
        let Row::Operand(k) = self.rows[row].0 else { return None };
        if self.used != 1 || self.axes.last().expect("an axis").steps[k] != 1 {
            return None;
        }
        let at = (base[k] + self.segments[0].offsets[k]) as usize;
        match self.operands[k] {
            Elements::F32(v) => Some(Values::F32(&v[at..at + self.points])),
            Elements::F64(v) if self.rows[row].1 == DType::F64 => Some(Values::F64(&v[at..at + self.points])),
            Elements::I64(v) => Some(Values::Int(&v[at..at + self.points])),
            Elements::F64(_) | Elements::BF16(_) | Elements::F16(_) | Elements::I32(_) | Elements::U8(_) => None,
        }
    }

    /// The values of a row that is done.
    fn done(&self, row: usize, base: &[i64]) -> Values<'_> {
        if let Some(other) = same(&self.rows, row) {
            return self.done(other, base);
        }
        self.direct(row, base).unwrap_or_else(|| self.values[self.places[row]].values(self.points))
    }

    /// Evaluates one row, which is no constant.
    fn row(&self, row: usize, base: &[i64], outer: &[i64], out: ValuesMut<'_>) {
        let (what, dtype) = self.rows[row];
        let done = |row: usize| self.done(row, base);
        match what {
            Row::Const(_) => unreachable!("filled once"),
            Row::Operand(k) => {
                let step = self.axes.last().expect("an axis").steps[k];
                let mut out = out;
                let mut at = 0;
                for s in &self.segments[..self.used] {
                    load(self.operands[k], base[k] + s.offsets[k], step, &mut out, at..at + s.len);
                    at += s.len;
                }
            }
            Row::Index(label) => {
                let ValuesMut::Int(out) = out else { unreachable!("an index is an integer") };
                indices(&self.axes, &self.segments[..self.used], label, outer, out);
            }
            Row::Unary(function, x) => unary(function, done(x), out, dtype),
            Row::Binary(function, a, b) => {
                let two = match self.rows[b].0 {
                    Row::Const(Literal::Float(bits)) => f64::from_bits(bits) == 2.0,
                    _ => false,
                };
                binary(function, done(a), done(b), out, dtype, two);
            }
            Row::Select(c, yes, no) => select(done(c).ints(), done(yes), done(no), out),
            Row::Cast(x) => cast(done(x), out, dtype),
        }
    }

    /// Points left before the last axis begins anew.
    pub(crate) fn left(&self) -> usize {
        let last = self.axes.len() - 1;
        self.axes[last].extent - self.at[last]
    }

    /// Whether the block lies along the last axis.
    pub(crate) fn is_line(&self) -> bool {
        self.used == 1
    }

    /// Where the block begins by the steps numbered `k` of the axes.
    pub(crate) fn offset(&self, k: usize) -> i64 {
        self.segments[0].offsets[k]
    }

    /// Where each run of the block's points begins by the steps numbered `k` of the axes, and which points they are.
    pub(crate) fn places(&self, k: usize) -> impl Iterator<Item = (i64, std::ops::Range<usize>)> {
        let mut at = 0;
        self.segments[..self.used].iter().map(move |s| {
            at += s.len;
            (s.offsets[k], at - s.len..at)
        })
    }

    /// The block's values, once they are evaluated.
    pub(crate) fn value(&self, base: &[i64]) -> Values<'_> {
        self.done(self.rows.len() - 1, base)
    }
}

/// The row whose values a row's are: a cast to a type that holds them in the same lane.
fn same(rows: &[(Row, DType)], row: usize) -> Option<usize> {
    let (Row::Cast(from), to) = rows[row] else { return None };
    let dtype = rows[from].1;
    let widened = to == DType::F32 && matches!(dtype, DType::BF16 | DType::F16);
    (widened || to == dtype).then_some(from)
}

/// A lane for every row, constants filled in: equal ones share a lane, and others that are not needed at one time.
fn placed(rows: &[(Row, DType)]) -> (Buffer<usize>, Buffer<Lane>) {
    let mut source: Buffer<usize> = Buffer::collect(rows.len(), 0..);
    let mut last_reader = source.clone();
    for (n, (row, _)) in rows.iter().enumerate() {
        if let Some(other) = same(rows, n) {
            source[n] = source[other];
        }
        row.arguments().into_iter().for_each(|a| last_reader[source[a]] = n);
    }
    let (mut places, mut lanes) = (Buffer::with_room(rows.len()), Buffer::<Lane>::with_room(rows.len()));
    let mut free: Buffer<usize> = Buffer::with_room(rows.len());
    for (n, &(row, dtype)) in rows.iter().enumerate() {
        let known = match row {
            Row::Const(_) => (0..n).find(|&m| rows[m] == (row, dtype)).map(|m| places[m]),
            _ if source[n] < n => Some(places[source[n]]),
            _ => free.iter().position(|&l| lanes[l].holds(dtype)).map(|at| free.swap_remove(at)),
        };
        places.push(known.unwrap_or_else(|| {
            lanes.push(Lane::new(dtype));
            lanes.len() - 1
        }));
        if let Row::Const(value) = row {
            constant(value, dtype, &mut lanes[places[n]]);
        }
        let mut read: Few<usize> = row.arguments().into_iter().map(|a| source[a]).collect();
        read.sort_unstable();
        read.dedup();
        // The last row's values are read when all rows are done.
        let over =
            |&a: &usize| last_reader[a] == n && a != source[rows.len() - 1] && !matches!(rows[a].0, Row::Const(_));
        free.extend(read.into_iter().filter(over).map(|a| places[a]));
    }
    (places, lanes)
}

fn constant(value: Literal, dtype: DType, lane: &mut Lane) {
    let value = scalar::literal(value, dtype);
    match lane {
        Lane::F32(v) => v.fill(value.to_f64() as f32),
        Lane::F64(v) => v.fill(value.to_f64()),
        Lane::Int(v) => v.fill(value.to_i64()),
    }
}

fn indices(axes: &[Axis], segments: &[Segment], label: usize, outer: &[i64], out: &mut [i64]) {
    let Some(axis) = axes.iter().position(|a| a.label.is_some_and(|l| l.0 == label)) else {
        out.fill(outer[label]);
        return;
    };
    let first = axes[axis].label.map_or(0, |l| l.1);
    let mut at = 0;
    for s in segments {
        let start = first + s.at[axis] as i64;
        let run = &mut out[at..at + s.len];
        if axis + 1 == axes.len() {
            run.iter_mut().zip(start..).for_each(|(o, i)| *o = i);
        } else {
            run.fill(start);
        }
        at += s.len;
    }
}

/// Loads elements `at`, `at + step`, … into a range of a lane.
fn load(from: Elements<'_>, at: i64, step: i64, out: &mut ValuesMut<'_>, range: std::ops::Range<usize>) {
    /// Strided, with a conversion of each element.
    fn gather<T: Copy, U: Copy>(v: &[T], at: i64, step: i64, out: &mut [U], f: impl Fn(T) -> U) {
        match step {
            0 => out.fill(f(v[at as usize])),
            1 => out.iter_mut().zip(&v[at as usize..]).for_each(|(o, &x)| *o = f(x)),
            _ => out.iter_mut().enumerate().for_each(|(n, o)| *o = f(v[(at + n as i64 * step) as usize])),
        }
    }
    match (out, from) {
        (ValuesMut::F32(out), from) if step == 1 => to_f32(from, at as usize, &mut out[range]),
        (ValuesMut::F32(out), Elements::F32(v)) => gather(v, at, step, &mut out[range], |x| x),
        (ValuesMut::F32(out), Elements::BF16(v)) => gather(v, at, step, &mut out[range], half::bf16::to_f32),
        (ValuesMut::F32(out), Elements::F16(v)) => gather(v, at, step, &mut out[range], f16::to_f32),
        (ValuesMut::F64(out), Elements::F64(v)) => gather(v, at, step, &mut out[range], |x| x),
        (ValuesMut::Int(out), Elements::I64(v)) => gather(v, at, step, &mut out[range], |x| x),
        (ValuesMut::Int(out), Elements::I32(v)) => gather(v, at, step, &mut out[range], i64::from),
        (ValuesMut::Int(out), Elements::U8(v)) => gather(v, at, step, &mut out[range], i64::from),
        _ => unreachable!("the operand's type is the row's"),
    }
}

/// The base of every operand at a point of loops outside the block.
pub(crate) fn shift(base: &[i64], steps: &[Few<i64>], at: &[usize], out: &mut Few<i64>) {
    out.clear();
    out.extend(base.iter().zip(steps).map(|(b, s)| b + dot(s, at)));
}
