//! Contractions as matrix products: which labels are rows, columns and the inner extent, and which are
//! looped over.

use super::gathered::{Gathered, gathered};
use super::gemm::{self, Factor, Matrix, MatrixMut};
use super::piece::{Elements, Piece, PieceMut};
use super::strided::{Odometer, Strided};
use super::{Scratch, convert};
use crate::error::Cause;
use bytemuck::Pod;
use ein_ir::dtype::DType;
use ein_ir::einsum::Einsum;
use ein_ir::expr::{Binary, Expr, Row};
use ein_ir::monoid::Monoid;
use ein_ir::region::Region;

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

/// A contraction as products of matrices in nested loops.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Products {
    m: Dim,
    n: Dim,
    k: Dim,
    /// Loops over different results.
    free: Vec<Dim>,
    /// Loops that add to one result.
    folded: Vec<Dim>,
}

/// Products in place, or of gathered matrices.
enum Way {
    InPlace(Products),
    Gathered(Gathered),
}

/// Does a block of an einsum by matrix products, or returns `false` where it is not one.
pub(crate) fn contract(
    e: &Einsum,
    labels: &Region,
    operands: &[Option<Piece<'_>>],
    result: &mut PieceMut<'_>,
    scratch: &mut Scratch,
) -> Result<bool, Cause> {
    if !e.folds() || e.monoid != Monoid::Sum || !e.dtype.is_float() || labels.is_empty() || result.fields() != 1 {
        return Ok(false);
    }
    let (Some(wide), [left_access, right_access]) = (factors(&e.join), e.accesses.as_slice()) else {
        return Ok(false);
    };
    if wide != e.dtype.accumulator() || !result.dtype(0).is_float() {
        return Ok(false);
    }
    let [Some(left), Some(right)] = operands else { return Ok(false) };
    let a = Strided::operand(&left_access.axes, labels, left.region)?;
    let b = Strided::operand(&right_access.axes, labels, right.region)?;
    let out = Strided::result(e.rank, labels);
    let dims: Vec<Dim> = (0..labels.rank())
        .map(|l| Dim { extent: labels.0[l].len(), left: a.steps[l], right: b.steps[l], out: out.steps[l] })
        .collect();
    let Some(products) = classify(&dims) else { return Ok(false) };
    let loops: usize = products.free.iter().chain(&products.folded).map(|d| d.extent).product();
    let size = products.m.extent * products.n.extent * products.k.extent;
    let way = gathered(&dims, loops, size).map_or(Way::InPlace(products), Way::Gathered);
    left.dtype()?;
    right.dtype()?;
    let (a, b) = ((left.elements(0), &a), (right.elements(0), &b));
    let extents = labels.shape();
    if wide == DType::F64 {
        multiply::<f64>(&way, &extents, a, b, result, &mut scratch.f64);
    } else {
        multiply::<f32>(&way, &extents, a, b, result, &mut scratch.f32);
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
    result: &mut PieceMut<'_>,
    scratch: &mut Vec<Vec<T>>,
) {
    scratch.resize_with(scratch.len().max(5), Vec::new);
    let [left, right, out, rows, columns, ..] = scratch.as_mut_slice() else { unreachable!("five buffers") };
    let (a, a_base) = widened(a, extents, left);
    let (b, b_base) = widened(b, extents, right);
    let dtype = result.dtype(0);
    let mut fill = |out: &mut [T]| match way {
        Way::InPlace(products) => nest(products, (a, a_base), (b, b_base), out),
        Way::Gathered(products) => products.multiply((a, a_base), (b, b_base), out, [&mut *rows, &mut *columns]),
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

fn nest<T: Wide>(p: &Products, (a, a_base): (&[T], i64), (b, b_base): (&[T], i64), out: &mut [T]) {
    let extents = |dims: &[Dim]| dims.iter().map(|d| d.extent).collect::<Vec<_>>();
    let mut free = Odometer::new(extents(&p.free));
    let mut folded = Odometer::new(extents(&p.folded));
    // An extent of 1 has no step; any that tells elements apart will do.
    let step = |d: Dim| if d.extent == 1 { 1 } else { d.out };
    loop {
        let (mut left, mut right, mut into) = (a_base, b_base, 0);
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
            let mut product = MatrixMut { data: &mut *out, at: into, row: step(p.m), column: step(p.n) };
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
        let (a, b, out) = (of(0), of(1), Strided::result(e.rank, &space));
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
