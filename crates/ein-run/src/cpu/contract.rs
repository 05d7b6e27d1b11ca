//! Contractions as matrix products: which labels are rows, columns and the inner extent, and which are
//! looped over.

use super::buffer::{NearRegion, Room};
use super::gathered::{Gathered, gathered};
use super::gemm::Matrix;
use super::grid::Grid;
use super::left_rows::LeftRows;
use super::lines::{Lines, Name};
use super::packed;
use super::piece::{Elements, Piece, PieceMut};
use super::short::{self, Right};
use super::sinks::{Places, Rounded, Tiles, Use, Used};
use super::strided::{Few, Odometer, Strided, shape};
use super::widen::multiply;
use super::{Scratch, tiles};
use crate::error::Cause;
use bytemuck::cast_slice;
use ein_ir::dtype::DType;
use ein_ir::einsum::Einsum;
use ein_ir::expr::{Binary, Expr, Row};
use ein_ir::monoid::Monoid;
use ein_ir::region::{Interval, Region};

/// Fewer multiplications in one product than this are done faster without one.
const SMALL: usize = 256;

/// One loop: how far it moves the left factor, the right factor and the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dim {
    pub extent: usize,
    pub left: i64,
    pub right: i64,
    pub out: i64,
}

impl Dim {
    /// The result's step. An extent of 1 has none; any that tells elements apart will do.
    pub(super) fn step(self) -> i64 {
        if self.extent == 1 { 1 } else { self.out }
    }

    /// The same with the factors in each other's places.
    pub(super) fn swap(self) -> Self {
        Self { left: self.right, right: self.left, ..self }
    }
}

/// A contraction as products of matrices in nested loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Products {
    pub(super) m: Dim,
    pub(super) n: Dim,
    pub(super) k: Dim,
    /// Loops over different results.
    pub(super) free: Few<Dim>,
    /// Loops that add to one result.
    pub(super) folded: Few<Dim>,
}

/// Products in place, of gathered matrices, or with a packed right factor.
pub(super) enum Way {
    InPlace(Products),
    Gathered(Gathered),
    /// Whether the packed factor is the first operand, and with it rows and columns have changed places.
    Packed(Grid, bool),
}

/// A contraction seen as loops.
struct Loops {
    /// What is multiplied in.
    wide: DType,
    dims: Few<Dim>,
    /// Where the operands begin.
    operands: [Strided; 2],
    /// Where the result begins.
    into: i64,
}

/// A block of an einsum as loops over a sum of products; `None` where it is none.
fn loops(e: &Einsum, labels: &Region, operands: [&Region; 2], result: &Region) -> Result<Option<Loops>, Cause> {
    if !e.folds() || e.monoid != Monoid::Sum || !e.dtype.is_float() || labels.is_empty() {
        return Ok(None);
    }
    let (Some(wide), [left, right]) = (factors(&e.join), e.accesses.as_slice()) else { return Ok(None) };
    if wide != e.dtype.accumulator() {
        return Ok(None);
    }
    let a = Strided::operand(&left.axes, labels, operands[0])?;
    let b = Strided::operand(&right.axes, labels, operands[1])?;
    let out = Strided::result(e.rank, labels, result)?;
    let dims: Few<Dim> = (0..labels.rank())
        .map(|l| Dim { extent: labels.0[l].len(), left: a.steps[l], right: b.steps[l], out: out.steps[l] })
        .collect();
    Ok(Some(Loops { wide, dims, operands: [a, b], into: out.base }))
}

impl Loops {
    /// The products as one, factor `n` of two being the right one.
    fn grid(&self, n: usize) -> Option<Grid> {
        if n == 1 { Grid::of(&self.dims) } else { Grid::of(&self.dims.iter().map(|d| d.swap()).collect::<Few<_>>()) }
    }
}

/// How a block reads an operand that is to be packed: the matrix that fills the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Constant {
    /// Inner extent and columns.
    pub(crate) extents: [usize; 2],
    /// Steps along them.
    pub(crate) steps: [i64; 2],
    /// Of the elements: `f32`, or `bf16` where they are in tiles.
    pub(crate) dtype: DType,
}

/// The matrix that operand `n` of a block is, where the block is products with it as the one factor that does not
/// change, nothing of it is left out, and elements of its type, the other factor's being `other`, are packed here.
pub(crate) fn packable(
    e: &Einsum,
    labels: &Region,
    operands: [&Region; 2],
    result: &Region,
    n: usize,
    [dtype, other]: [DType; 2],
) -> Option<Constant> {
    let loops = loops(e, labels, operands, result).ok()??;
    // Not worth it where a product is not.
    classify(&loops.dims)?;
    let grid = loops.grid(n)?;
    let [_, columns, depth] = grid.extents();
    let extents = [depth, columns];
    let whole = depth * columns == operands[n].volume() && loops.operands[n].base == 0;
    let kind = match (dtype, other) {
        (DType::F32, _) => true,
        (DType::BF16, DType::BF16) => short::fills(extents) && tiles::multiply_halves(),
        _ => false,
    };
    (whole && kind).then(|| Constant { extents, steps: grid.right_steps(), dtype })
}

/// Does a block of an einsum by matrix products, or returns `false` where it is not one.
pub(crate) fn contract(
    e: &Einsum,
    labels: &Region,
    operands: &[Option<Piece<'_>>],
    result: &mut PieceMut<'_>,
    scratch: &mut Scratch,
) -> Result<bool, Cause> {
    let [Some(left), Some(right)] = operands else { return Ok(false) };
    if result.fields() != 1 || !result.dtype(0).is_float() {
        return Ok(false);
    }
    let Some(loops) = loops(e, labels, [left.region, right.region], result.region)? else { return Ok(false) };
    let way = if left.packed || right.packed {
        let grid = loops.grid(usize::from(right.packed));
        Way::Packed(grid.ok_or_else(|| Cause::malformed("a part of a packed factor is no matrix"))?, left.packed)
    } else {
        let Some(products) = classify(&loops.dims) else { return Ok(false) };
        let count: usize = products.free.iter().chain(&products.folded).map(|d| d.extent).product();
        let size = products.m.extent * products.n.extent * products.k.extent;
        gathered(&loops.dims, count, size).map_or(Way::InPlace(products), Way::Gathered)
    };
    let Loops { wide, operands: [a, b], into, .. } = loops;
    left.dtype()?;
    right.dtype()?;
    let Scratch { near, lines, .. } = scratch;
    let tile = &mut near[1];
    if wide == DType::F32 && in_tiles(&way, [left, right], [a.base, b.base], (into, result), (tile, &mut *lines)) {
        return Ok(true);
    }
    let (a, b) = ((left.elements(0), &a), (right.elements(0), &b));
    let extents = shape(&labels.0);
    if wide == DType::F64 {
        multiply::<f64>(&way, &extents, a, b, (into, result), &mut scratch.f64, (near, lines));
    } else {
        multiply::<f32>(&way, &extents, a, b, (into, result), &mut scratch.f32, (near, lines));
    }
    Ok(true)
}

/// Products of `bf16` as they are; `false` where they are something else.
fn in_tiles(
    way: &Way,
    [left, right]: [&Piece<'_>; 2],
    [a_base, b_base]: [i64; 2],
    (into, result): (i64, &mut PieceMut<'_>),
    (tile, lines): (&mut Room, &mut Lines),
) -> bool {
    let (Elements::BF16(a), Elements::BF16(b)) = (left.elements(0), right.elements(0)) else { return false };
    let (a, b) = ((cast_slice::<_, u16>(a), a_base), (cast_slice::<_, u16>(b), b_base));
    if !tiles::multiply_halves() {
        return false;
    }
    match way {
        Way::Packed(grid, swapped) => {
            let (a, b) = if *swapped { (b, a) } else { (a, b) };
            let right = Right::Tiles(&b.0[grid.packed_from(b.1)..]);
            grid_in_tiles(grid, a, right, (into, result), (tile, lines));
            true
        }
        Way::InPlace(p) if p.folded.is_empty() && short::worth([p.m.extent, p.n.extent, p.k.extent]) => {
            // Columns of the result lie side by side, if they can.
            let turned = p.n.step() != 1 && p.m.step() == 1;
            let (p, a, b) = if turned { (p.clone().swap(), b, a) } else { (p.clone(), a, b) };
            let grid = Grid::one([p.m, p.n, p.k]);
            let mut free = Odometer::new(p.free.iter().map(|d| d.extent));
            loop {
                let (mut left, mut right, mut into) = (a.1, b.1, into);
                for (d, &at) in p.free.iter().zip(free.at()) {
                    left += d.left * at as i64;
                    right += d.right * at as i64;
                    into += d.out * at as i64;
                }
                let right = Right::Matrix(Matrix { data: b.0, at: right, row: p.k.right, column: p.n.right });
                grid_in_tiles(&grid, (a.0, left), right, (into, &mut *result), (&mut *tile, &mut *lines));
                if !free.step() {
                    return true;
                }
            }
        }
        Way::InPlace(_) | Way::Gathered(_) => false,
    }
}

/// One product of `bf16` in tile registers, which there are.
fn grid_in_tiles(
    grid: &Grid,
    left: (&[u16], i64),
    right: Right<'_>,
    (at, result): (i64, &mut PieceMut<'_>),
    (tile, lines): (&mut Room, &mut Lines),
) {
    let [m, n, k] = grid.extents();
    // A right factor that is no weight has loops of its own around it.
    let shared = Name::shared() && matches!(right, Right::Tiles(_));
    let many = short::rows(m, k, shared);
    for first in (0..m).step_by(many) {
        let here = many.min(m - first);
        let name = Name::of(first).filter(|_| shared);
        let left = grid.rows_of(left, first..first + here, name, lines);
        let places = Places { grid, first, at };
        let done = if result.dtype(0) == DType::F32 {
            short::product(
                [here, n, k],
                left,
                right,
                name,
                &mut Tiles { out: result.slice(0), places, tile: &mut *tile },
            )
        } else {
            let dtype = result.dtype(0);
            let mut sink = Rounded { out: result.bytes(0), dtype, places, tile: &mut *tile };
            short::product([here, n, k], left, right, name, &mut sink)
        };
        assert!(done, "there are tile registers");
    }
}

/// Whether an einsum is a sum of products.
pub(crate) fn is_product(e: &Einsum) -> bool {
    e.folds() && e.monoid == Monoid::Sum && e.accesses.len() == 2 && factors(&e.join).is_some()
}

/// Hands out the tiles of a finished block that is one product with a packed factor, row by row; `false` where it is not.
pub(crate) fn each_tile(
    e: &Einsum,
    labels: &Region,
    operands: &[Option<Piece<'_>>],
    (near, lines): (&mut [Room; 2], &mut Lines),
    each: &mut dyn Use,
) -> Result<bool, Cause> {
    let [Some(left), Some(right)] = operands else { return Ok(false) };
    let whole = NearRegion::of(labels.0[..e.rank].iter().copied());
    if left.packed == right.packed || !matches!(e.dtype, DType::F32 | DType::BF16) {
        return Ok(false);
    }
    let Some(loops) = loops(e, labels, [left.region, right.region], &whole)? else { return Ok(false) };
    let Some(grid) = loops.grid(usize::from(right.packed)) else { return Ok(false) };
    let [a, b] = loops.operands.map(|strided| strided.base);
    let (factor, at, packed, base) = if right.packed { (left, a, right, b) } else { (right, b, left, a) };
    let [m, n, k] = grid.extents();
    let volume = |part: &[Interval]| part.iter().map(|i| i.len()).product::<usize>();
    let lead = (0..e.rank).find(|&lead| volume(&whole.0[..lead]) == m && volume(&whole.0[lead..]) == n);
    let Some(lead) = lead.filter(|_| grid.in_rows()) else { return Ok(false) };
    let (from, split) = (grid.packed_from(base), e.rank == lead + 1);
    let [buffer, tile] = near;
    match (factor.elements(0), packed.elements(0)) {
        (Elements::F32(a), Elements::F32(b)) if e.dtype == DType::F32 => {
            let many = packed::block_rows([m, n, k], Name::shared(), grid.packs());
            for first in (0..m).step_by(many) {
                let here = many.min(m - first);
                let name = Name::of(first);
                let left = LeftRows::of(&grid, (a, at), first..first + here, lines);
                let rounded = false;
                let mut sink = Used { first, width: n, lead, split, tile, rounded, each: &mut *each, fault: Ok(()) };
                packed::product([here, n, k], left, &b[from..], name, &mut sink, buffer);
                sink.fault?;
            }
        }
        (Elements::BF16(a), Elements::BF16(b)) if tiles::multiply_halves() => {
            let many = short::rows(m, k, Name::shared());
            let right = Right::Tiles(&cast_slice(b)[from..]);
            for first in (0..m).step_by(many) {
                let here = many.min(m - first);
                let name = Name::of(first);
                let left = grid.rows_of((cast_slice::<_, u16>(a), at), first..first + here, name, lines);
                let rounded = e.dtype == DType::BF16;
                let mut sink = Used { first, width: n, lead, split, tile, rounded, each: &mut *each, fault: Ok(()) };
                short::product([here, n, k], left, right, name, &mut sink);
                sink.fault?;
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Whether an expression is the exact product of operands 0 and 1, and the type it is computed in. 16-bit
/// operands may be widened first: their products are exact in `f32`.
fn factors(join: &Expr) -> Option<DType> {
    let rows = join.rows();
    let (&(Row::Binary(Binary::Mul, x, y), dtype), _) = rows.split_last()? else { return None };
    let factor = |row: usize| match rows[row] {
        (Row::Operand(n), t) if t.is_float() => Some(n),
        (Row::Cast(inner), DType::F32) => match rows[inner] {
            (Row::Operand(n), DType::BF16 | DType::F16 | DType::F32) => Some(n),
            _ => None,
        },
        _ => None,
    };
    let both = (factor(x)?, factor(y)?);
    (both == (0, 1) || both == (1, 0)).then_some(dtype.accumulator())
}

impl Products {
    /// The same with the factors in each other's places.
    fn swap(self) -> Self {
        let all = |dims: Few<Dim>| dims.into_iter().map(Dim::swap).collect();
        Self { m: self.n.swap(), n: self.m.swap(), k: self.k.swap(), free: all(self.free), folded: all(self.folded) }
    }
}

/// Finds the matrices; `None` where a product is not worth its call.
fn classify(dims: &[Dim]) -> Option<Products> {
    let (mut m, mut n, mut k, mut free) = (Few::new(), Few::new(), Few::new(), Few::new());
    for &d in dims.iter().filter(|d| d.extent != 1) {
        match (d.out != 0, d.left != 0, d.right != 0) {
            (false, _, _) => k.push(d),
            (true, true, false) => m.push(d),
            (true, false, true) => n.push(d),
            (true, true, true) | (true, false, false) => free.push(d),
        }
    }
    let one = Dim { extent: 1, left: 0, right: 0, out: 0 };
    let largest = |dims: &mut Few<Dim>| {
        merge(dims);
        let best = (0..dims.len()).max_by_key(|&n| (dims[n].extent, std::cmp::Reverse(n)));
        best.map_or(one, |n| dims.remove(n))
    };
    let (m_dim, n_dim, k_dim) = (largest(&mut m), largest(&mut n), largest(&mut k));
    let loops: usize = [&m, &n, &k, &free].into_iter().flatten().map(|d| d.extent).product();
    let size = m_dim.extent * n_dim.extent * k_dim.extent;
    if (m_dim.extent == 1 && n_dim.extent == 1) || (size < SMALL && loops > 1) {
        return None;
    }
    free.extend(m);
    free.extend(n);
    Some(Products { m: m_dim, n: n_dim, k: k_dim, free, folded: k })
}

/// Joins dimensions that walk on as one in all three matrices.
pub(super) fn merge(dims: &mut Few<Dim>) {
    let joins = |o: &Dim, i: &Dim| {
        let rounds = i.extent as i64;
        o.left == i.left * rounds && o.right == i.right * rounds && o.out == i.out * rounds
    };
    let pair = |dims: &[Dim]| {
        let mut all = (0..dims.len()).flat_map(|o| (0..dims.len()).map(move |i| (o, i)));
        all.find(|&(o, i)| o != i && joins(&dims[o], &dims[i]))
    };
    while let Some((o, i)) = pair(dims) {
        dims[o] = Dim { extent: dims[o].extent * dims[i].extent, ..dims[i] };
        dims.remove(i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The extents of m, n, k and the numbers of free and folding loops of a contraction.
    fn sizes(spec: &str, shapes: &[&[usize]]) -> Option<([usize; 3], usize, usize)> {
        let e = Einsum::contraction(spec, shapes, DType::F32).expect("well formed");
        let space = e.space();
        let of = |n: usize| {
            Strided::operand(&e.accesses[n].axes, &space, &Region::whole(shapes[n])).expect("inside its tensor")
        };
        let (a, b, out) = (of(0), of(1), Strided::result(e.rank, &space, &space).expect("inside"));
        let dim = |l: usize| Dim { extent: e.labels[l].extent, left: a.steps[l], right: b.steps[l], out: out.steps[l] };
        let p = classify(&(0..e.labels.len()).map(dim).collect::<Vec<_>>())?;
        Some(([p.m.extent, p.n.extent, p.k.extent], p.free.len(), p.folded.len()))
    }

    #[test]
    fn labels_become_rows_columns_and_inner() {
        for (spec, shapes, expected) in [
            ("ik,kj->ij", [&[8, 9][..], &[9, 10]], Some(([8, 10, 9], 0, 0))),
            ("ki,jk->ji", [&[9, 8], &[10, 9]], Some(([8, 10, 9], 0, 0))),
            ("bsk,nk->bsn", [&[4, 8, 16], &[5, 16]], Some(([32, 5, 16], 0, 0))),
            ("bsk,bnk->bsn", [&[4, 8, 16], &[4, 5, 16]], Some(([8, 5, 16], 1, 0))),
            ("bshd,hdn->bsn", [&[2, 8, 4, 16], &[4, 16, 7]], Some(([16, 7, 64], 0, 0))),
            ("bhsd,hdn->bsn", [&[2, 4, 8, 16], &[4, 16, 7]], Some(([8, 7, 16], 1, 1))),
            ("k,kn->n", [&[32], &[32, 16]], Some(([1, 16, 32], 0, 0))),
            ("bk,bk->b", [&[9, 32], &[9, 32]], None),
            ("bij,bjk->bik", [&[99, 2, 2], &[99, 2, 2]], None),
        ] {
            assert_eq!(sizes(spec, &shapes), expected, "{spec}");
        }
    }
}
