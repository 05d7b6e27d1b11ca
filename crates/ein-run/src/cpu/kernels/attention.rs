//! Attention over blocks of keys, with a running maximum and sum for every query.
//!
//! Dao et al., `FlashAttention` (2022); Milakov and Gimelshein (2018). Scores never leave the cache.

use super::Call;
use super::block::values;
use super::flash::{self, Queries};
use crate::cpu::Scratch;
use crate::cpu::buffer::Buffer;
use crate::cpu::fold::{Fold, Real, WIDE, attended};
use crate::cpu::gemm::{Factor, Matrix, MatrixMut, product};
use crate::cpu::piece::{Elements, Piece, PieceMut};
use crate::cpu::strided::{Few, shape, strides};
use crate::cpu::tiles::multiply_halves;
use crate::error::Cause;
use bytemuck::cast_slice;
use ein_ir::dtype::DType;
use ein_ir::kernel::Attention;
use ein_ir::region::{Interval, Region, offset};
use ein_ir::spec::Band;

/// Queries, or heads of one query, done together.
const ROWS: usize = 64;
/// Fewer queries are done head by head, or heads together.
const FEW: usize = 8;
/// Keys done together.
const KEYS: usize = 128;

/// Evaluates a block of attention into `result`: its (max, sum, acc), or acc / sum when it is finished.
pub(crate) fn attention(
    a: &Attention,
    call: &Call<'_>,
    result: &mut PieceMut<'_>,
    scratch: &mut Scratch,
) -> Result<(), Cause> {
    let expected = if call.finish { 1 } else { 3 };
    if result.fields() != expected {
        return Err(Cause::malformed(format!("attention is stored in {} fields, not {expected}", result.fields())));
    }
    if a.dtype == DType::F64 {
        run::<f64>(a, call, result, &mut scratch.f64)
    } else if many(a, call, result, scratch)? {
        Ok(())
    } else {
        run::<f32>(a, call, result, &mut scratch.f32)
    }
}

/// Attention of many queries that see keys of a band, summed in `f32`; `false` where it is something else.
fn many(a: &Attention, call: &Call<'_>, result: &mut PieceMut<'_>, scratch: &mut Scratch) -> Result<bool, Cause> {
    let [b, h, s, e, t, d] = call.labels.0[..6] else { unreachable!("six labels or seven") };
    let keys = a.band().map_or(t, |band| band.seen(s, t));
    let plain = a.softcap.is_none() && a.packed.is_none() && !a.own;
    if !plain || s.len() < FEW || call.labels.is_empty() || keys.is_empty() {
        return Ok(false);
    }
    scratch.f32.resize_with(scratch.f32.len().max(5), Vec::new);
    let [q_buffer, k_buffer, v_buffer, m_buffer, rows, ..] = scratch.f32.as_mut_slice() else {
        unreachable!("five buffers")
    };
    let kv = Interval::new(h.lo / a.group(), (h.hi - 1) / a.group() + 1);
    let q = call.operand(0, &[b, h, s, d])?;
    let k = call.operand(1, &[b, kv, keys, d])?;
    let v = call.operand(2, &[b, kv, keys, e])?;
    let mask = mask(a, call, [b, h, s, keys], m_buffer)?;
    let given = if let (Some(q), Some(k), Some(v), true) = (halves(&q), halves(&k), halves(&v), multiply_halves()) {
        Given::Half([q, k, v])
    } else {
        Given::Single([tensor(q, q_buffer), tensor(k, k_buffer), tensor(v, v_buffer)])
    };
    let limits = Limits { band: a.band(), offsets: None };
    let mut at = 0;
    for batch in b.lo..b.hi {
        for head in h.lo..h.hi {
            let kv = head / a.group();
            let packed = (head != h.lo && !head.is_multiple_of(a.group()))
                || match &given {
                    Given::Single([_, k, v]) => scratch.flash.head((k, v), [batch, kv], keys, [d, e]),
                    Given::Half([_, k, v]) => scratch.flash.half_head((k, v), [batch, kv], keys, [d, e]),
                };
            if !packed {
                return Ok(false);
            }
            for first in (s.lo..s.hi).step_by(flash::together()) {
                let queries = Interval::new(first, s.hi.min(first + flash::together()));
                let left = match &given {
                    Given::Single([q, ..]) => Queries::Single(q.rows([batch, head, first, d.lo])),
                    Given::Half([q, ..]) => Queries::Half(q.rows([batch, head, first, d.lo])),
                };
                let sizes = [d.len(), e.len()];
                let added = mask.as_ref().map(|mask| mask.of([batch, head, first, keys.lo]));
                let found = scratch.flash.block(left, (queries, added), keys, sizes, a.scale() as f32, &limits);
                let Some(found) = found else { return Ok(false) };
                found.store(e.len(), call.finish, rows);
                if call.finish {
                    f32::store(rows, result.dtype(0), result.bytes(0), at * e.len());
                } else {
                    f32::store(found.tops, result.dtype(0), result.bytes(0), at);
                    f32::store(found.sums, result.dtype(1), result.bytes(1), at);
                    f32::store(rows, result.dtype(2), result.bytes(2), at * e.len());
                }
                at += queries.len();
            }
        }
    }
    Ok(true)
}

/// Queries, keys and values.
enum Given<'a> {
    Single([Tensor<'a, f32>; 3]),
    /// As the bits of `bf16`.
    Half([Tensor<'a, u16>; 3]),
}

/// The bits of an operand in `bf16`.
fn halves<'a>(piece: &Piece<'a>) -> Option<Tensor<'a, u16>> {
    let Elements::BF16(data) = piece.elements(0) else { return None };
    Some(Tensor { data: cast_slice(data), region: piece.region, steps: strides(&shape(&piece.region.0)) })
}

/// An operand of four axes in the type of the computation.
pub(super) struct Tensor<'a, T> {
    pub(super) data: &'a [T],
    region: &'a Region,
    pub(super) steps: Few<usize>,
}

impl<T> Tensor<'_, T> {
    pub(super) fn at(&self, index: [usize; 4]) -> i64 {
        offset(&index, &self.region.0, &self.steps) as i64
    }

    /// The rows of the last two axes from an element on.
    fn rows(&self, from: [usize; 4]) -> Matrix<'_, T> {
        Matrix { data: self.data, at: self.at(from), row: self.steps[2] as i64, column: self.steps[3] as i64 }
    }
}

/// What attention is computed in.
trait Score: Real + Factor {
    fn slice(from: Elements<'_>) -> Option<&[Self]>;
}

impl Score for f32 {
    fn slice(from: Elements<'_>) -> Option<&[Self]> {
        if let Elements::F32(v) = from { Some(v) } else { None }
    }
}

impl Score for f64 {
    fn slice(from: Elements<'_>) -> Option<&[Self]> {
        if let Elements::F64(v) = from { Some(v) } else { None }
    }
}

fn tensor<'a, T: Score>(piece: Piece<'a>, buffer: &'a mut Vec<T>) -> Tensor<'a, T> {
    let elements = piece.elements(0);
    let data = if let Some(v) = T::slice(elements) {
        v
    } else {
        buffer.clear();
        buffer.resize(piece.region.volume(), T::default());
        T::load(elements, 0, buffer);
        buffer
    };
    Tensor { data, region: piece.region, steps: strides(&shape(&piece.region.0)) }
}

/// Keys or values as they are stored, of four axes.
struct Stored<'a, T> {
    elements: Elements<'a>,
    /// In the type of the computation, if they are of it.
    plain: Option<&'a [T]>,
    region: &'a Region,
    steps: Few<usize>,
}

impl<'a, T: Score> Stored<'a, T> {
    fn of(piece: &Piece<'a>) -> Self {
        let elements = piece.elements(0);
        let plain = T::slice(elements);
        Self { elements, plain, region: piece.region, steps: strides(&shape(&piece.region.0)) }
    }

    /// Some features of some keys, which are the rows: where they are, or as the type of the computation in `near`, which
    /// stays in a cache, where all of them would not.
    fn rows<'s>(
        &'s self,
        [batch, head]: [usize; 2],
        keys: Interval,
        features: Interval,
        near: &'s mut Vec<T>,
    ) -> Matrix<'s, T> {
        let at = offset(&[batch, head, keys.lo, features.lo], &self.region.0, &self.steps);
        let (row, column) = (self.steps[2] as i64, self.steps[3] as i64);
        if let Some(data) = self.plain {
            return Matrix { data, at: at as i64, row, column };
        }
        let count = (keys.len() - 1) * self.steps[2] + (features.len() - 1) * self.steps[3] + 1;
        near.resize(near.len().max(count), T::default());
        T::load(self.elements, at, &mut near[..count]);
        Matrix { data: near, at: 0, row, column }
    }
}

/// What is added to scores.
struct Mask<'a, T> {
    tensor: Tensor<'a, T>,
    /// Which of batch, heads, queries and keys it has all of; of the others it has one for all.
    axes: [bool; 4],
}

impl<T> Mask<'_, T> {
    /// What is added to the score of a batch, head, query and key, and to those of the queries and keys after them.
    fn of(&self, index: [usize; 4]) -> Matrix<'_, T> {
        let step = |n: usize| if self.axes[n] { self.tensor.steps[n] as i64 } else { 0 };
        let at = self.tensor.at([0, 1, 2, 3].map(|n| if self.axes[n] { index[n] } else { 0 }));
        Matrix { data: self.tensor.data, at, row: step(2), column: step(3) }
    }
}

/// The mask of a block's batch, heads, queries and keys, if there is one.
fn mask<'a, T: Score>(
    a: &Attention,
    call: &Call<'a>,
    block: [Interval; 4],
    buffer: &'a mut Vec<T>,
) -> Result<Option<Mask<'a, T>>, Cause> {
    let Some(shape) = &a.mask else { return Ok(None) };
    let full = [a.batch, a.heads, a.queries, a.keys];
    let axes = [0, 1, 2, 3].map(|n| shape[n] == full[n]);
    let needs = [0, 1, 2, 3].map(|n| if axes[n] { block[n] } else { Interval::new(0, 1) });
    let tensor = tensor(call.operand(3, &needs)?, buffer);
    Ok(Some(Mask { tensor, axes }))
}

/// Some rows of the result that read the same keys and lie at one stride: queries of a head, or a query of
/// heads that share their keys.
#[derive(Clone, Copy)]
struct Group {
    batch: usize,
    heads: Interval,
    queries: Interval,
}

impl Group {
    fn rows(&self) -> usize {
        self.heads.len() * self.queries.len()
    }

    /// Head and query of a row; one of the two intervals is 1 long.
    fn row(&self, n: usize) -> (usize, usize) {
        (self.heads.lo + n / self.queries.len(), self.queries.lo + n % self.queries.len())
    }
}

fn run<T: Score>(
    a: &Attention,
    call: &Call<'_>,
    result: &mut PieceMut<'_>,
    scratch: &mut Vec<Vec<T>>,
) -> Result<(), Cause> {
    let [b, h, s, e, t, d] = call.labels.0[..6] else { unreachable!("six labels or seven") };
    let wide = e.len();
    let total = b.len() * h.len() * s.len();
    if total == 0 {
        return Ok(());
    }
    scratch.resize_with(scratch.len().max(5), Vec::new);
    let [q_buffer, near, m_buffer, score, acc, ..] = scratch.as_mut_slice() else { unreachable!("five buffers") };
    // What any query of the block sees.
    let keys = a.band().map_or(t, |band| band.seen(s, t));
    let idle = keys.is_empty() || call.labels.is_empty();
    let (mut offsets, mut own) = (None, None);
    let tensors = if idle {
        None
    } else {
        let kv = Interval::new(h.lo / a.group(), (h.hi - 1) / a.group() + 1);
        let q = tensor(call.operand(0, &[b, h, s, d])?, q_buffer);
        let k = Stored::of(&call.operand(1, &[b, kv, keys, d])?);
        let v = Stored::of(&call.operand(2, &[b, kv, keys, e])?);
        let mask = mask(a, call, [b, h, s, keys], m_buffer)?;
        // Of a cut t, the block of the first key reads the queries' own keys.
        if a.own && t.lo == 0 {
            let at = a.own_operand();
            let k = Stored::of(&call.operand(at, &[b, kv, s, d])?);
            own = Some((k, Stored::of(&call.operand(at + 1, &[b, kv, s, e])?)));
        }
        if let Some(n) = a.packed {
            let given: Buffer<i64> =
                values(call.operand(a.offsets_operand(), &[Interval::new(0, n)])?, &[Interval::new(0, n)]);
            offsets = Some(given);
        }
        Some((q, k, v, mask))
    };
    score.clear();
    score.resize(ROWS * KEYS, T::default());
    acc.clear();
    acc.resize(ROWS * wide, T::default());
    let mut tops = [T::default(); ROWS];
    let mut sums = [T::default(); ROWS];
    for group in groups(a, [b, h, s]) {
        let rows = group.rows();
        tops[..rows].fill(T::identity(Fold::Max, a.dtype));
        sums[..rows].fill(T::default());
        acc[..rows * wide].fill(T::default());
        if let Some((q, k, v, mask)) = &tensors {
            let mut seen = a.band().map_or(keys, |band| band.seen(group.queries, keys));
            if let Some(offsets) = &offsets {
                // From where the first query's sequence begins to where the last one's ends.
                let (first, last) = (span(offsets, group.queries.lo), span(offsets, group.queries.hi - 1));
                seen = seen.intersect(Interval::new(first.lo, last.hi));
            }
            let mut lo = seen.lo;
            while lo < seen.hi {
                let part = Interval::new(lo, seen.hi.min(lo + KEYS));
                let mask = mask.as_ref();
                let limits = Limits { band: a.band(), offsets: offsets.as_ref().map(|own| own.as_slice()) };
                step(a, &group, part, (q, k, v, mask), &limits, [d, e], (score, near), &mut tops, &mut sums, acc);
                lo = part.hi;
            }
            if let Some((k, v)) = &own {
                let limits = Limits { band: None, offsets: None };
                // Each query is a group, unless the group is one query.
                for n in 0..group.queries.len() {
                    let query = group.queries.lo + n;
                    let key = Interval::new(query, query + 1);
                    let one = Group { queries: key, ..group };
                    let rows = n..n + one.rows();
                    let (tops, sums) = (&mut tops[rows.clone()], &mut sums[rows.clone()]);
                    let acc = &mut acc[rows.start * wide..rows.end * wide];
                    step(a, &one, key, (q, k, v, None), &limits, [d, e], (score, near), tops, sums, acc);
                }
            }
        }
        let (first_head, first_query) = group.row(0);
        let at = ((group.batch - b.lo) * h.len() + first_head - h.lo) * s.len() + first_query - s.lo;
        if call.finish {
            for (row, sum) in acc.chunks_mut(wide.max(1)).zip(&sums[..rows]) {
                for x in row {
                    *x = attended(*x, *sum);
                }
            }
            T::store(&acc[..rows * wide], result.dtype(0), result.bytes(0), at * wide);
        } else {
            T::store(&tops[..rows], result.dtype(0), result.bytes(0), at);
            T::store(&sums[..rows], result.dtype(1), result.bytes(1), at);
            T::store(&acc[..rows * wide], result.dtype(2), result.bytes(2), at * wide);
        }
    }
    Ok(())
}

/// The positions of the packed sequence that a position lies in.
fn span(offsets: &[i64], position: usize) -> Interval {
    let sequence = Attention::sequence(offsets, position);
    let lo = if sequence == 0 { 0 } else { offsets[sequence - 1].max(0) as usize };
    let hi = offsets.get(sequence).map_or(usize::MAX, |&o| o.max(0) as usize);
    Interval::new(lo, hi)
}

/// Which keys a query sees.
pub(super) struct Limits<'a> {
    band: Option<Band>,
    offsets: Option<&'a [i64]>,
}

impl Limits<'_> {
    pub(super) fn seen(&self, query: usize, keys: Interval) -> Interval {
        let near = self.band.map_or(keys, |band| band.seen(Interval::new(query, query + 1), keys));
        let near = self.offsets.map_or(near, |offsets| near.intersect(span(offsets, query)));
        if near.is_empty() { Interval::new(keys.lo, keys.lo) } else { near }
    }
}

/// The groups of a block's rows, in the result's order.
fn groups(a: &Attention, [b, h, s]: [Interval; 3]) -> impl Iterator<Item = Group> {
    let group = a.group();
    // One query: the heads of a key/value head read its keys once, together.
    let last = move |head: usize| {
        if s.len() == 1 { h.hi.min((head / group + 1) * group).min(head + ROWS) } else { head + 1 }
    };
    let heads = move || std::iter::successors(Some(h.lo), move |&head| Some(last(head))).take_while(move |&n| n < h.hi);
    (b.lo..b.hi).flat_map(move |batch| heads().map(move |head| (batch, Interval::new(head, last(head))))).flat_map(
        move |(batch, heads)| {
            let queries = (s.lo..s.hi).step_by(ROWS).map(move |query| Interval::new(query, s.hi.min(query + ROWS)));
            queries.map(move |queries| Group { batch, heads, queries })
        },
    )
}

type Operands<'a, T> = (&'a Tensor<'a, T>, &'a Stored<'a, T>, &'a Stored<'a, T>, Option<&'a Mask<'a, T>>);

/// Adds some keys to a group's running (max, sum, acc).
fn step<T: Score>(
    a: &Attention,
    group: &Group,
    keys: Interval,
    (q, k, v, mask): Operands<'_, T>,
    limits: &Limits<'_>,
    [d, e]: [Interval; 2],
    (score, near): (&mut [T], &mut Vec<T>),
    tops: &mut [T],
    sums: &mut [T],
    acc: &mut [T],
) {
    let (rows, n, wide) = (group.rows(), keys.len(), e.len());
    let kv = group.heads.lo / a.group();
    let row_step = if group.queries.len() == 1 { q.steps[1] } else { q.steps[2] } as i64;
    let left = Matrix {
        data: q.data,
        at: q.at([group.batch, group.heads.lo, group.queries.lo, d.lo]),
        row: row_step,
        column: q.steps[3] as i64,
    };
    let right = k.rows([group.batch, kv], keys, d, near).turned();
    let mut scores = MatrixMut { data: &mut *score, at: 0, row: KEYS as i64, column: 1 };
    product([rows, n, d.len()], left, right, &mut scores, false);
    let scale = T::from_f64(a.scale());
    let cap = a.softcap.map(f64::from_bits);
    let lowest = T::identity(Fold::Max, a.dtype);
    let mut added = [T::default(); KEYS];
    let mut partial = [T::default(); WIDE];
    let mut hidden = false;
    for row in 0..rows {
        let (head, query) = group.row(row);
        let seen = limits.seen(query, keys);
        let (before, after) = (seen.lo - keys.lo, seen.hi - keys.lo);
        let all = &mut score[row * KEYS..][..n];
        all[..before].fill(T::default());
        all[after..].fill(T::default());
        hidden |= seen.len() < n;
        let own = &mut all[before..after];
        T::scale_all(own, scale);
        if let Some(cap) = cap {
            for x in own.iter_mut() {
                *x = T::from_f64(cap * (Into::<f64>::into(*x) / cap).tanh());
            }
        }
        if let Some(mask) = mask {
            let from = mask.of([group.batch, head, query, seen.lo]);
            let at = from.at as usize;
            if from.column == 1 {
                added[..own.len()].copy_from_slice(&from.data[at..at + own.len()]);
            } else {
                added[..own.len()].fill(from.data[at]);
            }
            T::add_all(own, &added);
            hidden |= own.contains(&lowest);
        }
        if own.is_empty() {
            continue;
        }
        partial.fill(lowest);
        T::wide_fold(Fold::Max, &mut partial, own);
        let top = T::one(Fold::Max, tops[row], T::reduce(Fold::Max, &mut partial));
        T::exps(own, top);
        partial.fill(T::default());
        T::wide_fold(Fold::Sum, &mut partial, own);
        let weight = T::scale(tops[row], top);
        let old = if tops[row] == lowest { T::default() } else { sums[row].times(weight) };
        sums[row] = old.plus(T::reduce(Fold::Sum, &mut partial));
        if top != tops[row] && tops[row] != lowest {
            T::scale_all(&mut acc[row * wide..][..wide], weight);
        }
        tops[row] = top;
    }
    let values = v.rows([group.batch, kv], keys, e, near);
    // A key that a query does not see adds nothing, whatever its value holds: 0 times infinity would.
    let value_row = |key: usize| &values.data[(values.at + key as i64 * values.row) as usize..][..wide];
    let finite = |key: usize| value_row(key).iter().all(|&x| Into::<f64>::into(x).is_finite());
    if !hidden || (0..n).all(finite) {
        let weights = Matrix { data: &*score, at: 0, row: KEYS as i64, column: 1 };
        let mut out = MatrixMut { data: acc, at: 0, row: wide as i64, column: 1 };
        product([rows, wide, n], weights, values, &mut out, true);
        return;
    }
    for row in 0..rows {
        for key in 0..n {
            let weight = score[row * KEYS + key];
            if weight != T::default() {
                let out = &mut acc[row * wide..][..wide];
                out.iter_mut().zip(value_row(key)).for_each(|(o, x)| *o = o.plus(weight.times(*x)));
            }
        }
    }
}
