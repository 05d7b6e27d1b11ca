//! Products in `f32` and `f64`, of factors that are widened to them where they are something else.

use super::buffer::Room;
use super::contract::{Dim, Products, Way};
use super::convert;
use super::gemm::{self, Factor, Matrix, MatrixMut};
use super::grid::Grid;
use super::left_rows::LeftRows;
use super::lines::{Lines, Name};
use super::packed;
use super::piece::{Elements, PieceMut};
use super::sinks::{Places, Tiles};
use super::strided::{Odometer, Strided};
use bytemuck::Pod;
use ein_ir::dtype::DType;

/// What products are computed in.
pub(super) trait Wide: Factor + Pod {
    const DTYPE: DType;
    fn slice(from: Elements<'_>) -> Option<&[Self]>;
    fn load(from: Elements<'_>, at: usize, out: &mut [Self]);
    fn store(values: &[Self], dtype: DType, out: &mut [u8]);
    /// Products whose right factor is packed.
    fn packed(
        grid: &Grid,
        left: (&[Self], i64),
        right: &[Self],
        out: (&mut [Self], i64),
        near: (&mut [Room; 2], &mut Lines),
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
        grid: &Grid,
        left: (&[f32], i64),
        right: &[f32],
        (out, at): (&mut [f32], i64),
        ([buffer, tile], lines): (&mut [Room; 2], &mut Lines),
    ) {
        let [m, n, k] = grid.extents();
        let many = packed::block_rows([m, n, k], Name::shared(), grid.packs());
        for first in (0..m).step_by(many) {
            let here = many.min(m - first);
            let name = Name::of(first);
            let left = LeftRows::of(grid, left, first..first + here, lines);
            let mut sink = Tiles { out: &mut *out, places: Places { grid, first, at }, tile: &mut *tile };
            packed::product([here, n, k], left, right, name, &mut sink, buffer);
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
    fn packed(_: &Grid, _: (&[f64], i64), _: &[f64], _: (&mut [f64], i64), _: (&mut [Room; 2], &mut Lines)) {
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

pub(super) fn multiply<T: Wide>(
    way: &Way,
    extents: &[usize],
    a: (Elements<'_>, &Strided),
    b: (Elements<'_>, &Strided),
    (into, result): (i64, &mut PieceMut<'_>),
    scratch: &mut Vec<Vec<T>>,
    (near, lines): (&mut [Room; 2], &mut Lines),
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
        Way::Packed(grid, swapped) => {
            let ((a, a_base), (b, b_base)) =
                if *swapped { ((b, b_base), (a, a_base)) } else { ((a, a_base), (b, b_base)) };
            let right = &b[grid.packed_from(b_base)..];
            T::packed(grid, (a, a_base), right, (out, into), (near, lines));
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
    let turns = |dims: &[Dim]| Odometer::new(dims.iter().map(|d| d.extent));
    let (mut free, mut folded) = (turns(&p.free), turns(&p.folded));
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
