//! Products that the library of matrix products does, and what follows them as one more kernel.
//!
//! Bytes: the library's. A map that its epilogue does ([`epilogue`]) adds those of what
//! is added. Where another map follows, the product is written and read once more; it goes to the row's own slot
//! if type and shape are the result's, so that it needs no memory. A factor of a large product whose strides are those of
//! no matrix is read and written once more, into one.

use super::body::{Body, Memory, Operand};
use super::contract::Contraction;
use super::copy::copy;
use super::ending::After;
use super::epilogue;
use super::hoist;
use super::loops::Loops;
use super::map::Target;
use super::stored::{Stored, alignment};
use super::strided::Strided;
use crate::program::{Base, Epilogue, Matmul, Matrix, Place, Program, Step};
use ein_ir::dtype::DType;
use ein_ir::expr::Row;
use ein_ir::monoid::Form;
use ein_ir::region::{Region, strides};
use ein_run::Cause;

/// Products for one block, of which each is a batch, that are always worth their calls.
const FEW: u64 = 32;

/// Products at most, if each is large.
const MANY: u64 = 1024;

/// Multiplications at least of a product whose factors are worth a copy.
const PACKED: u64 = 1 << 24;

/// Rows and columns at least: so often an element that was copied is used.
const USES: u64 = 16;

/// Bytes of such copies at most: they are memory that plans do not know of.
const COPIED: u64 = 256 << 20;

/// The library's own limits: products of one call, and extents and steps from one row to the next.
const BATCH: u64 = 1 << 15;
const EXTENT: u64 = (1 << 31) - 1;

/// Multiplications that take longer in any kernel without tensor cores than a call.
const LARGE: u64 = 1 << 25;

/// Adds the steps of a block whose result has the labels `out`; `false` where the library does not do it.
pub(crate) fn push(
    c: &Contraction<'_>,
    after: After<'_>,
    out: &Region,
    result: &Stored,
    program: &mut Program,
) -> Result<bool, Cause> {
    let Some(types) = types(c, result.dtype(0), &after) else { return Ok(false) };
    let (between, wanted) = types;
    let plain = matches!(after, After::Pending | After::Finished(_));
    let same = between == result.dtype(0);
    // A map of the same axes reads an element where it writes one.
    let in_place = same
        && match after {
            After::Pending | After::Finished(_) => true,
            After::Map(_, body) => body.labels == *out,
        };
    let scratch = program.scratch.next_multiple_of(256);
    let product = if in_place {
        result.clone()
    } else {
        let form = Form::finished(between, c.rank);
        Stored::new(out.clone(), form, Base::Scratch.at(scratch))
    };
    let after_product = if in_place { scratch } else { (scratch + product.bytes()).next_multiple_of(256) };
    let done = |add: Option<&Memory>| match calls(c, out, &product, add)? {
        Some(found) => Ok(Some((found, Packs::default()))),
        None => packed(c, out, &product, after_product, add),
    };
    if let After::Map(_, body) = after
        && in_place
        && let Some((calls, packs)) = stored(c, body, done)?
    {
        if !packs.steps.is_empty() {
            program.scratch = packs.end;
            program.steps.extend(packs.steps);
        }
        program.steps.extend(calls.into_iter().map(Step::Matmul));
        return Ok(true);
    }
    let Some((Calls { calls, .. }, packs)) = done(None)? else { return Ok(false) };
    if !in_place {
        program.scratch = scratch + product.bytes();
    }
    if !packs.steps.is_empty() {
        program.scratch = packs.end;
        program.steps.extend(packs.steps);
    }
    program.steps.extend(calls.into_iter().map(Step::Matmul));
    if plain && in_place {
        return Ok(true);
    }
    let tail = match after {
        After::Map(_, body) => body.clone(),
        After::Pending | After::Finished(_) => Body {
            rows: vec![(Row::Operand(0), between)],
            value: 0,
            operands: vec![Operand::Given(0)],
            labels: out.clone(),
        },
    };
    let mut tail = reading(&tail, &product, c.rank);
    if let After::Finished(dtype) = after {
        tail.cast(dtype);
    }
    debug_assert_eq!(between, wanted, "a map is given what it asks for");
    hoist::push(program, &tail, result)?;
    Ok(true)
}

/// The products with all of a map in their epilogues, where the library does that; `done` gives the products that add a
/// matrix.
fn stored(
    c: &Contraction<'_>,
    body: &Body,
    done: impl Fn(Option<&Memory>) -> Result<Option<Done>, Cause>,
) -> Result<Option<(Vec<Matmul>, Packs)>, Cause> {
    let (dtype, Some(sum)) = (body.dtype(), epilogue::sum(body)) else { return Ok(None) };
    let same = sum.terms.iter().all(|m| m.dtype == dtype);
    // Each term as the one kind or the other: a vector where it can be.
    let (vectors, matrices): (Vec<&Memory>, Vec<&Memory>) = sum.terms.iter().partition(|m| is_vector(m, c));
    // It adds no vector to f64 and knows no function of it.
    let plain = vectors.is_empty() && !sum.gelu;
    if !same || vectors.len() > 1 || matrices.len() > 1 || !(plain || dtype != DType::F64) {
        return Ok(None);
    }
    let Some((found, packs)) = done(matrices.first().copied())? else { return Ok(None) };
    let bias = match (vectors.first(), found.calls.as_slice()) {
        (None, _) => None,
        // It may read 16 bytes at once.
        (Some(m), [call])
            if !found.swapped && call.batch == 1 && call.n == c.volume(&c.columns) && alignment(m.place) == 16 =>
        {
            Some(m.place)
        }
        (Some(_), _) => return Ok(None),
    };
    let with = |m: Matmul| Matmul { epilogue: Epilogue { bias, gelu: sum.gelu, ..m.epilogue }, ..m };
    Ok(Some((found.calls.into_iter().map(with).collect(), packs)))
}

/// The type that the library leaves, and the one that is asked for: what follows may convert.
fn types(c: &Contraction<'_>, own: DType, after: &After<'_>) -> Option<(DType, DType)> {
    let from = c.left.dtype;
    if from != c.right.dtype || !from.is_float() {
        return None;
    }
    let wanted = match after {
        After::Pending => own,
        After::Finished(dtype) | After::Map(dtype, _) => *dtype,
    };
    let gives = |d: DType| d == from || (d == DType::F32 && from != DType::F64);
    if gives(wanted) {
        return Some((wanted, wanted));
    }
    // Left in f32 and rounded once, by who stores it.
    let wide = c.state.dtype;
    (gives(wide) && !matches!(after, After::Map(..))).then_some((wide, wide))
}

/// A body that reads what it is given out of memory, where its first `rank` labels are axes of it.
pub(crate) fn reading(body: &Body, before: &Stored, rank: usize) -> Body {
    let mut body = body.clone();
    let own = strides(&before.region.shape());
    for operand in &mut body.operands {
        if let Operand::Given(n) = operand {
            // A further axis, of stacked fields, is none of the labels.
            let mut steps: Vec<i64> = own[..rank].iter().map(|&s| s as i64).collect();
            steps.resize(body.labels.rank(), 0);
            let place = before.at(0, *n as i64);
            *operand = Operand::Memory(Memory { place, dtype: before.dtype(0), steps });
        }
    }
    body
}

/// One loop of a group as a side of matrices, the others as batches.
struct Side {
    extent: u64,
    /// Steps of left, right, result and what is added.
    steps: [i64; 4],
}

/// Takes the loop that a matrix runs along out of a group.
fn side(loops: &mut Loops, prefer: impl Fn(&[i64; 4]) -> bool) -> Side {
    let steps = |loops: &Loops, l: usize| [0, 1, 2, 3].map(|w| loops.steps[w][l]);
    let all = 0..loops.extents.len();
    let best = all.max_by_key(|&l| (prefer(&steps(loops, l)), loops.extents[l]));
    let Some(l) = best else { return Side { extent: 1, steps: [0; 4] } };
    let found = Side { extent: loops.extents[l] as u64, steps: steps(loops, l) };
    loops.remove(l);
    found
}

/// The products that a block is.
struct Calls {
    calls: Vec<Matmul>,
    /// Whether they are of the transposes.
    swapped: bool,
}

/// The products that a block is, if strides are those of matrices, with what is added to them.
fn calls(c: &Contraction<'_>, out: &Region, product: &Stored, add: Option<&Memory>) -> Result<Option<Calls>, Cause> {
    let own = Strided::result(c.rank, out, &product.region)?;
    // Without anything that is added, the result again.
    let walkers = [own.steps.clone(), add.map_or_else(|| own.steps.clone(), |m| m.steps.clone())];
    let (mut rows, mut columns) = (c.loops(&c.rows, &walkers), c.loops(&c.columns, &walkers));
    let mut inner = c.loops(&c.inner, &walkers);
    let k = side(&mut inner, |s| s[..2].contains(&1));
    if !inner.extents.is_empty() {
        return Ok(None);
    }
    // The result's rows are consecutive in memory; where its columns are, the product is that of the transposes.
    let swapped = columns.steps[2].iter().all(|&s| s != 1) && rows.steps[2].contains(&1);
    let (mut left, mut right) = (c.left, c.right);
    let mut order = [0, 1];
    if swapped {
        std::mem::swap(&mut rows, &mut columns);
        std::mem::swap(&mut left, &mut right);
        order = [1, 0];
    }
    let n = side(&mut columns, |s| s[2] == 1);
    let m = side(&mut rows, |_| true);
    let size = left.dtype.bytes() as i64;
    let matrix = |rows: u64, columns: u64, row: i64, column: i64| -> Option<(u64, bool)> {
        let fits = |inner: i64, outer: i64, length: u64, count: u64| {
            let least = length.max(1) as i64;
            let stride = if count == 1 { least } else { outer };
            ((inner == 1 || length == 1) && stride >= least).then_some(stride as u64)
        };
        let straight = fits(column, row, columns, rows).map(|s| (s, false));
        straight.or_else(|| fits(row, column, rows, columns).map(|s| (s, true)))
    };
    let [l, r] = order;
    let (a, b) =
        (matrix(m.extent, k.extent, m.steps[l], k.steps[l]), matrix(k.extent, n.extent, k.steps[r], n.steps[r]));
    let whole = |w: usize| matrix(m.extent, n.extent, m.steps[w], n.steps[w]);
    let (Some(a), Some(b), Some((stride, false)), Some((added, false))) = (a, b, whole(2), whole(3)) else {
        return Ok(None);
    };
    if m.extent * n.extent * k.extent < 1 << 12
        || [m.extent, n.extent, k.extent, a.0, b.0, stride, added].iter().any(|&extent| extent > EXTENT)
    {
        return Ok(None);
    }
    // What is left are batches: one of the library's, the others one call each.
    let mut rest = c.loops(&c.batch, &walkers);
    for loops in [rows, columns] {
        rest.extents.extend(loops.extents);
        rest.steps.iter_mut().zip(loops.steps).for_each(|(all, more)| all.extend(more));
    }
    if rest.steps.iter().flatten().any(|&s| s < 0) {
        return Ok(None);
    }
    let batch = side(&mut rest, |_| true);
    let each = batch.extent * m.extent * n.extent * k.extent;
    if rest.count() * batch.extent.div_ceil(BATCH) > if each >= LARGE { MANY } else { FEW } {
        return Ok(None);
    }
    let at =
        |place: Place, elements: i64, size: i64| Place { offset: place.offset + (elements * size) as u64, ..place };
    let mut calls = Vec::new();
    for number in 0..rest.count() {
        let (mut number, mut offsets) = (number as usize, [0i64; 4]);
        for loop_ in (0..rest.extents.len()).rev() {
            let index = (number % rest.extents[loop_]) as i64;
            number /= rest.extents[loop_];
            offsets.iter_mut().zip(&rest.steps).for_each(|(o, s)| *o += index * s[loop_]);
        }
        let one = |place, dtype, (stride, transposed): (u64, bool), step: i64| Matrix {
            place,
            dtype,
            stride,
            batch_stride: if batch.extent == 1 { 0 } else { step as u64 },
            transposed,
        };
        for first in (0..batch.extent).step_by(BATCH as usize) {
            let begin = |w: usize| offsets[w] + first as i64 * batch.steps[w];
            let place = product.at(0, own.base + begin(2));
            let add = add.map(|m| {
                let place = at(m.place, begin(3), m.dtype.bytes() as i64);
                one(place, m.dtype, (added, false), batch.steps[3])
            });
            calls.push(Matmul {
                a: one(at(left.place, begin(l), size), left.dtype, a, batch.steps[l]),
                b: one(at(right.place, begin(r), size), right.dtype, b, batch.steps[r]),
                c: one(place, product.dtype(0), (stride, false), batch.steps[2]),
                m: m.extent,
                n: n.extent,
                k: k.extent,
                batch: BATCH.min(batch.extent - first),
                epilogue: Epilogue { add, ..Epilogue::NONE },
            });
        }
    }
    Ok(Some(Calls { calls, swapped }))
}

/// Products, and the copies that they read.
type Done = (Calls, Packs);

/// Copies of factors in scratch memory.
#[derive(Default)]
struct Packs {
    steps: Vec<Step>,
    /// Where the scratch memory that they take ends.
    end: u64,
}

/// The products of a large block of which one factor, or both, are first copied so that they are matrices: a copy moves
/// each element twice, where a product uses it hundreds of times.
fn packed(
    c: &Contraction<'_>,
    out: &Region,
    product: &Stored,
    at: u64,
    add: Option<&Memory>,
) -> Result<Option<Done>, Cause> {
    let all = [&c.batch, &c.rows, &c.columns, &c.inner].map(|labels| c.volume(labels));
    if all.iter().product::<u64>() < PACKED || all[1].min(all[2]) < USES || c.left.dtype != c.right.dtype {
        return Ok(None);
    }
    // The smaller one alone is best.
    let smaller = all[1] <= all[2];
    for [left, right] in [[smaller, !smaller], [!smaller, smaller], [true, true]] {
        // What stays says in which order the labels are summed over.
        let mut inner = c.inner.clone();
        let kept = if left { c.right } else { c.left };
        inner.sort_by_key(|&l| std::cmp::Reverse(kept.steps[l].unsigned_abs()));
        let mut packs = Packs { steps: Vec::new(), end: at };
        let mut pack = |memory: &Memory, side: &[usize]| -> Result<Memory, Cause> {
            let labels: Vec<usize> = [&c.batch, side, &inner].concat();
            let shape: Vec<usize> = labels.iter().map(|&l| c.extents[l]).collect();
            let own: Vec<i64> = strides(&shape).into_iter().map(|s| s as i64).collect();
            let place = Base::Scratch.at(packs.end);
            packs.end =
                (packs.end + (shape.iter().product::<usize>() * memory.dtype.bytes()) as u64).next_multiple_of(256);
            let from = Memory { steps: labels.iter().map(|&l| memory.steps[l]).collect(), ..memory.clone() };
            let target = Target { place, dtype: memory.dtype, steps: own.clone() };
            packs.steps.extend(copy(from, Region::whole(&shape), &target)?);
            let mut steps = vec![0; memory.steps.len()];
            labels.iter().zip(own).for_each(|(&l, step)| steps[l] = step);
            Ok(Memory { place, dtype: memory.dtype, steps })
        };
        let one = if left { pack(c.left, &c.rows)? } else { c.left.clone() };
        let other = if right { pack(c.right, &c.columns)? } else { c.right.clone() };
        let again = Contraction {
            left: &one,
            right: &other,
            inner,
            extents: c.extents.clone(),
            batch: c.batch.clone(),
            rows: c.rows.clone(),
            columns: c.columns.clone(),
            ..*c
        };
        if packs.end - at > COPIED {
            continue;
        }
        if let Some(calls) = calls(&again, out, product, add)? {
            return Ok(Some((calls, packs)));
        }
    }
    Ok(None)
}

/// Whether an operand of a map is a vector along the product's columns: consecutive along the labels that they are, and
/// still along all others.
fn is_vector(m: &Memory, c: &Contraction<'_>) -> bool {
    let mut expected = 1;
    for l in (0..c.rank).rev().filter(|&l| c.extents[l] > 1) {
        let column = c.columns.contains(&l);
        if m.steps[l] != if column { expected } else { 0 } {
            return false;
        }
        expected *= if column { c.extents[l] as i64 } else { 1 };
    }
    true
}
