//! Contractions as matrix products: which labels are rows, columns and the inner extent, and which are
//! looped over.

use super::gathered::{Gathered, gathered};
use super::gemm::{self, Factor, Matrix, MatrixMut};
use super::packed::{self, Sink};
use super::piece::{Elements, Piece, PieceMut};
use super::short::{self, Right};
use super::strided::{Odometer, Strided};
use super::{Scratch, convert, tiles};
use crate::error::Cause;
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use ein_ir::dtype::DType;
use ein_ir::einsum::Einsum;
use ein_ir::expr::{Binary, Expr, Row};
use ein_ir::monoid::Monoid;
use ein_ir::region::{Interval, Region};
use std::ops::Range;

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
    fn step(self) -> i64 {
        if self.extent == 1 { 1 } else { self.out }
    }
}

/// A contraction as products of matrices in nested loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Products {
    m: Dim,
    n: Dim,
    k: Dim,
    /// Loops over different results.
    free: Vec<Dim>,
    /// Loops that add to one result.
    folded: Vec<Dim>,
}

/// Products in place, of gathered matrices, or with a packed right factor.
enum Way {
    InPlace(Products),
    Gathered(Gathered),
    /// Whether the packed factor is the first operand, and with it rows and columns have changed places.
    Packed(Products, bool),
}

/// A contraction seen as loops.
struct Loops {
    /// What is multiplied in.
    wide: DType,
    dims: Vec<Dim>,
    products: Products,
    /// Where the operands begin.
    operands: [Strided; 2],
    /// Where the result begins.
    into: i64,
}

/// A block of an einsum as matrix products; `None` where it is not one.
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
    let dims: Vec<Dim> = (0..labels.rank())
        .map(|l| Dim { extent: labels.0[l].len(), left: a.steps[l], right: b.steps[l], out: out.steps[l] })
        .collect();
    Ok(classify(&dims).map(|products| Loops { wide, dims, products, operands: [a, b], into: out.base }))
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
    let Loops { products, operands: strided, .. } = loops(e, labels, operands, result).ok()??;
    let p = if n == 0 { products.swap() } else { products };
    let apart = p.folded.is_empty() && p.free.iter().all(|d| d.right == 0);
    let whole = p.k.extent * p.n.extent == operands[n].volume() && strided[n].base == 0;
    let extents = [p.k.extent, p.n.extent];
    let kind = match (dtype, other) {
        (DType::F32, _) => true,
        (DType::BF16, DType::BF16) => short::fills(extents) && tiles::available(),
        _ => false,
    };
    (apart && whole && kind).then_some(Constant { extents, steps: [p.k.right, p.n.right], dtype })
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
    let Some(Loops { wide, dims, products, operands: [a, b], into }) =
        loops(e, labels, [left.region, right.region], result.region)?
    else {
        return Ok(false);
    };
    let loops: usize = products.free.iter().chain(&products.folded).map(|d| d.extent).product();
    let size = products.m.extent * products.n.extent * products.k.extent;
    let way = if left.packed || right.packed {
        Way::Packed(if left.packed { products.swap() } else { products }, left.packed)
    } else {
        gathered(&dims, loops, size).map_or(Way::InPlace(products), Way::Gathered)
    };
    left.dtype()?;
    right.dtype()?;
    if wide == DType::F32 && in_tiles(&way, [left, right], [a.base, b.base], (into, result), &mut scratch.near[1]) {
        return Ok(true);
    }
    let (a, b) = ((left.elements(0), &a), (right.elements(0), &b));
    let extents = labels.shape();
    if wide == DType::F64 {
        multiply::<f64>(&way, &extents, a, b, (into, result), &mut scratch.f64);
    } else {
        multiply::<f32>(&way, &extents, a, b, (into, result), &mut scratch.f32);
    }
    Ok(true)
}

/// Products of `bf16` in tile registers; `false` where they are something else.
fn in_tiles(
    way: &Way,
    [left, right]: [&Piece<'_>; 2],
    [a_base, b_base]: [i64; 2],
    (into, result): (i64, &mut PieceMut<'_>),
    tile: &mut Vec<f32>,
) -> bool {
    let (Elements::BF16(a), Elements::BF16(b)) = (left.elements(0), right.elements(0)) else { return false };
    let (a, b) = ((cast_slice::<_, u16>(a), a_base), (cast_slice::<_, u16>(b), b_base));
    let (p, a, b, packed) = match way {
        Way::Packed(p, false) => (p.clone(), a, b, true),
        Way::Packed(p, true) => (p.clone(), b, a, true),
        Way::InPlace(p) if p.folded.is_empty() && short::worth([p.m.extent, p.n.extent, p.k.extent]) => {
            // Columns of the result lie side by side, if they can.
            if p.n.step() != 1 && p.m.step() == 1 { (p.clone().swap(), b, a, false) } else { (p.clone(), a, b, false) }
        }
        Way::InPlace(_) | Way::Gathered(_) => return false,
    };
    if !tiles::available() {
        return false;
    }
    let (m, n, k) = (p.m.extent, p.n.extent, p.k.extent);
    let many = short::rows(m, k);
    let mut free = Odometer::new(p.free.iter().map(|d| d.extent).collect());
    loop {
        let (mut left, mut right, mut into) = (a.1, b.1, into);
        for (d, &at) in p.free.iter().zip(free.at()) {
            left += d.left * at as i64;
            right += d.right * at as i64;
            into += d.out * at as i64;
        }
        let right = if packed {
            Right::Tiles(&b.0[p.packed_from(right)..])
        } else {
            Right::Matrix(Matrix { data: b.0, at: right, row: p.k.right, column: p.n.right })
        };
        for first in (0..m).step_by(many) {
            let at = left + first as i64 * p.m.left;
            let left = Matrix { data: a.0, at, row: p.m.left, column: p.k.left };
            let (at, steps) = (into + first as i64 * p.m.out, [p.m.step(), p.n.step()]);
            let extents = [many.min(m - first), n, k];
            let done = if result.dtype(0) == DType::F32 {
                short::product(extents, left, right, &mut Tiles { out: result.slice(0), at, steps, tile })
            } else {
                let dtype = result.dtype(0);
                let mut sink = Rounded { out: result.bytes(0), dtype, at, steps, tile };
                short::product(extents, left, right, &mut sink)
            };
            assert!(done, "there are tile registers");
        }
        if !free.step() {
            return true;
        }
    }
}

/// Whether an einsum is a sum of products.
pub(crate) fn is_product(e: &Einsum) -> bool {
    e.folds() && e.monoid == Monoid::Sum && e.accesses.len() == 2 && factors(&e.join).is_some()
}

/// Who uses a product's tiles while they are near.
pub(crate) trait Use {
    /// Rows and columns of the product, whose rows are the first `lead` labels of the result and whose columns are the
    /// others; of several labels of columns there are all. Values are of the product's type.
    fn tile(&mut self, rows: Range<usize>, lead: usize, columns: Range<usize>, values: &[u8]) -> Result<(), Cause>;
}

/// Hands out the tiles of a finished block that is one product with a packed factor, row by row; `false` where it is not.
pub(crate) fn each_tile(
    e: &Einsum,
    labels: &Region,
    operands: &[Option<Piece<'_>>],
    near: &mut [Vec<f32>; 2],
    each: &mut dyn Use,
) -> Result<bool, Cause> {
    let [Some(left), Some(right)] = operands else { return Ok(false) };
    let whole = Region(labels.0[..e.rank].to_vec());
    if left.packed == right.packed || !matches!(e.dtype, DType::F32 | DType::BF16) {
        return Ok(false);
    }
    let Some(Loops { products, operands: strided, .. }) = loops(e, labels, [left.region, right.region], &whole)? else {
        return Ok(false);
    };
    let (factor, strided, packed, base, p) = if right.packed {
        (left, &strided[0], right, strided[1].base, products)
    } else {
        (right, &strided[1], left, strided[0].base, products.swap())
    };
    let (m, n, k) = (p.m.extent, p.n.extent, p.k.extent);
    let in_rows = (m == 1 || p.m.out == n as i64) && (n == 1 || p.n.out == 1);
    let volume = |part: &[Interval]| part.iter().map(|i| i.len()).product::<usize>();
    let lead = (0..e.rank).find(|&lead| volume(&whole.0[..lead]) == m && volume(&whole.0[lead..]) == n);
    let Some(lead) = lead.filter(|_| in_rows && p.free.is_empty() && p.folded.is_empty()) else { return Ok(false) };
    let (from, split) = (p.packed_from(base), e.rank == lead + 1);
    let [buffer, tile] = near;
    let left = |first: usize| (strided.base + first as i64 * p.m.left, p.m.left, p.k.left);
    match (factor.elements(0), packed.elements(0)) {
        (Elements::F32(a), Elements::F32(b)) if e.dtype == DType::F32 => {
            let many = packed::block_rows([m, n, k]);
            for first in (0..m).step_by(many) {
                let (at, row, column) = left(first);
                let left = Matrix { data: a, at, row, column };
                let rounded = None;
                let mut sink = Used { first, width: n, lead, split, tile, rounded, each: &mut *each, fault: Ok(()) };
                packed::product([many.min(m - first), n, k], left, &b[from..], &mut sink, buffer);
                sink.fault?;
            }
        }
        (Elements::BF16(a), Elements::BF16(b)) if tiles::available() => {
            let many = short::rows(m, k);
            let right = Right::Tiles(&cast_slice(b)[from..]);
            for first in (0..m).step_by(many) {
                let (at, row, column) = left(first);
                let left = Matrix { data: cast_slice(a), at, row, column };
                let rounded = (e.dtype == DType::BF16).then_some(&mut *buffer);
                let mut sink = Used { first, width: n, lead, split, tile, rounded, each: &mut *each, fault: Ok(()) };
                short::product([many.min(m - first), n, k], left, right, &mut sink);
                sink.fault?;
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Tiles on their way to who uses them.
struct Used<'a> {
    first: usize,
    width: usize,
    lead: usize,
    /// Whether some columns may go alone.
    split: bool,
    tile: &'a mut Vec<f32>,
    /// Where a tile is put as `bf16`, if that is the product's type.
    rounded: Option<&'a mut Vec<f32>>,
    each: &'a mut dyn Use,
    fault: Result<(), Cause>,
}

impl Sink for Used<'_> {
    fn tile(&mut self, rows: Range<usize>, columns: Range<usize>) -> (&mut [f32], usize) {
        let (from, apart) = if self.split { (0, columns.len()) } else { (columns.start, self.width) };
        let size = rows.len() * apart;
        if self.tile.len() < size {
            self.tile.resize(size, 0.0);
        }
        (&mut self.tile[from..size], apart)
    }

    fn done(&mut self, rows: Range<usize>, columns: Range<usize>) {
        if self.fault.is_err() || (!self.split && columns.end < self.width) {
            return;
        }
        let columns = if self.split { columns } else { 0..self.width };
        let size = rows.len() * columns.len();
        let rows = self.first + rows.start..self.first + rows.end;
        let values = if let Some(rounded) = &mut self.rounded {
            rounded.resize(rounded.len().max(size.div_ceil(2)), 0.0);
            let out = &mut cast_slice_mut(rounded)[..2 * size];
            convert::from_f32(&self.tile[..size], DType::BF16, out, 0);
            &*out
        } else {
            cast_slice(&self.tile[..size])
        };
        self.fault = self.each.tile(rows, self.lead, columns, values);
    }
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
    /// Where the first column of the right factor, whose first element would be at `base`, is in the packed one: it begins
    /// a panel.
    fn packed_from(&self, base: i64) -> usize {
        if base == 0 { 0 } else { (base / self.n.right) as usize * self.k.extent }
    }

    /// The same with the factors in each other's places.
    fn swap(self) -> Self {
        let one = |d: Dim| Dim { left: d.right, right: d.left, ..d };
        let all = |dims: Vec<Dim>| dims.into_iter().map(one).collect();
        Self { m: one(self.n), n: one(self.m), k: one(self.k), free: all(self.free), folded: all(self.folded) }
    }
}

/// Finds the matrices; `None` where a product is not worth its call.
fn classify(dims: &[Dim]) -> Option<Products> {
    let (mut m, mut n, mut k, mut free) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for &d in dims.iter().filter(|d| d.extent != 1) {
        match (d.out != 0, d.left != 0, d.right != 0) {
            (false, _, _) => k.push(d),
            (true, true, false) => m.push(d),
            (true, false, true) => n.push(d),
            (true, true, true) | (true, false, false) => free.push(d),
        }
    }
    let one = Dim { extent: 1, left: 0, right: 0, out: 0 };
    let largest = |dims: &mut Vec<Dim>| {
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
fn merge(dims: &mut Vec<Dim>) {
    let joins = |o: &Dim, i: &Dim| {
        let rounds = i.extent as i64;
        o.left == i.left * rounds && o.right == i.right * rounds && o.out == i.out * rounds
    };
    let pair = |dims: &Vec<Dim>| {
        let all = (0..dims.len()).flat_map(|o| (0..dims.len()).map(move |i| (o, i)));
        all.into_iter().find(|&(o, i)| o != i && joins(&dims[o], &dims[i]))
    };
    while let Some((o, i)) = pair(dims) {
        dims[o] = Dim { extent: dims[o].extent * dims[i].extent, ..dims[i] };
        dims.remove(i);
    }
}

/// What products are computed in.
pub(super) trait Wide: Factor + Pod {
    const DTYPE: DType;
    fn slice(from: Elements<'_>) -> Option<&[Self]>;
    fn load(from: Elements<'_>, at: usize, out: &mut [Self]);
    fn store(values: &[Self], dtype: DType, out: &mut [u8]);
    /// Products whose right factor is packed.
    fn packed(
        p: &Products,
        left: (&[Self], i64),
        right: &[Self],
        out: (&mut [Self], i64),
        buffers: [&mut Vec<Self>; 2],
    );
}

impl Wide for f32 {
    const DTYPE: DType = DType::F32;
    fn slice(from: Elements<'_>) -> Option<&[Self]> {
        if let Elements::F32(v) = from { Some(v) } else { None }
    }
    fn load(from: Elements<'_>, at: usize, out: &mut [Self]) {
        convert::to_f32(from, at, out);
    }
    fn store(values: &[Self], dtype: DType, out: &mut [u8]) {
        convert::from_f32(values, dtype, out, 0);
    }
    fn packed(
        p: &Products,
        (a, a_base): (&[f32], i64),
        right: &[f32],
        (out, into): (&mut [f32], i64),
        [buffer, tile]: [&mut Vec<f32>; 2],
    ) {
        let (m, n, k) = (p.m.extent, p.n.extent, p.k.extent);
        let rows = packed::block_rows([m, n, k]);
        let mut free = Odometer::new(p.free.iter().map(|d| d.extent).collect());
        loop {
            let (mut from, mut into) = (a_base, into);
            for (d, &at) in p.free.iter().zip(free.at()) {
                from += d.left * at as i64;
                into += d.out * at as i64;
            }
            for first in (0..m).step_by(rows) {
                let here = rows.min(m - first);
                let at = from + first as i64 * p.m.left;
                let left = Matrix { data: a, at, row: p.m.left, column: p.k.left };
                let mut sink = Tiles {
                    out: &mut *out,
                    at: into + first as i64 * p.m.out,
                    steps: [p.m.step(), p.n.step()],
                    tile: &mut *tile,
                };
                packed::product([here, n, k], left, right, &mut sink, buffer);
            }
            if !free.step() {
                return;
            }
        }
    }
}

impl Wide for f64 {
    const DTYPE: DType = DType::F64;
    fn slice(from: Elements<'_>) -> Option<&[Self]> {
        if let Elements::F64(v) = from { Some(v) } else { None }
    }
    fn load(from: Elements<'_>, at: usize, out: &mut [Self]) {
        convert::to_f64(from, at, out);
    }
    fn store(values: &[Self], dtype: DType, out: &mut [u8]) {
        convert::from_f64(values, dtype, out, 0);
    }
    fn packed(_: &Products, _: (&[f64], i64), _: &[f64], _: (&mut [f64], i64), _: [&mut Vec<f64>; 2]) {
        unreachable!("only `f32` is packed")
    }
}

/// An operand in the type it is multiplied in, and the position of its first element.
fn widened<'a, T: Wide>(
    (elements, strided): (Elements<'a>, &Strided),
    extents: &[usize],
    buffer: &'a mut Vec<T>,
) -> (&'a [T], i64) {
    if let Some(v) = T::slice(elements) {
        return (v, strided.base);
    }
    let (lo, hi) = strided.reach(extents);
    buffer.clear();
    buffer.resize((hi - lo + 1) as usize, T::default());
    T::load(elements, lo as usize, buffer);
    (buffer, strided.base - lo)
}

fn multiply<T: Wide>(
    way: &Way,
    extents: &[usize],
    a: (Elements<'_>, &Strided),
    b: (Elements<'_>, &Strided),
    (into, result): (i64, &mut PieceMut<'_>),
    scratch: &mut Vec<Vec<T>>,
) {
    scratch.resize_with(scratch.len().max(5), Vec::new);
    let [left, right, out, rows, columns, ..] = scratch.as_mut_slice() else { unreachable!("five buffers") };
    let (a, a_base) = widened(a, extents, left);
    let (b, b_base) = widened(b, extents, right);
    let dtype = result.dtype(0);
    let mut fill = |out: &mut [T]| match way {
        Way::InPlace(products) => nest(products, (a, a_base), (b, b_base), (out, into)),
        Way::Gathered(products) => {
            products.multiply((a, a_base), (b, b_base), (out, into), [&mut *rows, &mut *columns]);
        }
        Way::Packed(p, false) => {
            T::packed(p, (a, a_base), &b[p.packed_from(b_base)..], (out, into), [&mut *rows, &mut *columns]);
        }
        Way::Packed(p, true) => {
            T::packed(p, (b, b_base), &a[p.packed_from(a_base)..], (out, into), [&mut *rows, &mut *columns]);
        }
    };
    if dtype == T::DTYPE {
        fill(result.slice(0));
    } else {
        out.clear();
        out.resize(result.region.volume(), T::default());
        fill(out);
        T::store(out, dtype, result.bytes(0));
    }
}

fn nest<T: Wide>(p: &Products, (a, a_base): (&[T], i64), (b, b_base): (&[T], i64), (out, base): (&mut [T], i64)) {
    let extents = |dims: &[Dim]| dims.iter().map(|d| d.extent).collect::<Vec<_>>();
    let mut free = Odometer::new(extents(&p.free));
    let mut folded = Odometer::new(extents(&p.folded));
    loop {
        let (mut left, mut right, mut into) = (a_base, b_base, base);
        for (d, &n) in p.free.iter().zip(free.at()) {
            left += d.left * n as i64;
            right += d.right * n as i64;
            into += d.out * n as i64;
        }
        let mut add = false;
        loop {
            let (mut l, mut r) = (left, right);
            for (d, &n) in p.folded.iter().zip(folded.at()) {
                l += d.left * n as i64;
                r += d.right * n as i64;
            }
            let left = Matrix { data: a, at: l, row: p.m.left, column: p.k.left };
            let right = Matrix { data: b, at: r, row: p.k.right, column: p.n.right };
            let mut product = MatrixMut { data: &mut *out, at: into, row: p.m.step(), column: p.n.step() };
            gemm::product([p.m.extent, p.n.extent, p.k.extent], left, right, &mut product, add);
            add = true;
            if !folded.step() {
                break;
            }
        }
        if !free.step() {
            return;
        }
    }
}

/// Tiles of a product with a packed factor: in the result where its columns lie side by side, else on their way there.
struct Tiles<'a> {
    out: &'a mut [f32],
    at: i64,
    steps: [i64; 2],
    tile: &'a mut Vec<f32>,
}

impl Sink for Tiles<'_> {
    fn tile(&mut self, rows: Range<usize>, columns: Range<usize>) -> (&mut [f32], usize) {
        let [row, column] = self.steps;
        if column == 1 && row > 0 {
            let at = self.at + rows.start as i64 * row + columns.start as i64;
            return (&mut self.out[at as usize..], row as usize);
        }
        let size = rows.len() * columns.len();
        if self.tile.len() < size {
            self.tile.resize(size, 0.0);
        }
        (&mut self.tile[..size], columns.len())
    }

    fn done(&mut self, rows: Range<usize>, columns: Range<usize>) {
        let [row, column] = self.steps;
        if column == 1 && row > 0 {
            return;
        }
        for (r, values) in rows.zip(self.tile.chunks(columns.len())) {
            for (c, &value) in columns.clone().zip(values) {
                self.out[(self.at + r as i64 * row + c as i64 * column) as usize] = value;
            }
        }
    }
}

/// Tiles that are rounded to the result's type.
struct Rounded<'a> {
    out: &'a mut [u8],
    dtype: DType,
    at: i64,
    steps: [i64; 2],
    tile: &'a mut Vec<f32>,
}

impl Sink for Rounded<'_> {
    fn tile(&mut self, rows: Range<usize>, columns: Range<usize>) -> (&mut [f32], usize) {
        let size = rows.len() * columns.len();
        self.tile.resize(self.tile.len().max(size), 0.0);
        (&mut self.tile[..size], columns.len())
    }

    fn done(&mut self, rows: Range<usize>, columns: Range<usize>) {
        let [row, column] = self.steps;
        for (r, values) in rows.zip(self.tile.chunks(columns.len())) {
            let at = self.at + r as i64 * row + columns.start as i64 * column;
            if column == 1 {
                convert::from_f32(values, self.dtype, self.out, at as usize);
                continue;
            }
            for (c, value) in values.iter().enumerate() {
                let at = at + c as i64 * column;
                convert::from_f32(std::slice::from_ref(value), self.dtype, self.out, at as usize);
            }
        }
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
