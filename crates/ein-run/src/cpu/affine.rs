//! The fold of stored affine maps, and the step that it is made of.

use super::fold::{Fold, Number, combine, load};
use super::lanes::{BLOCK, Lane};
use super::piece::{Piece, PieceMut};
use super::state::store;
use ein_ir::dtype::DType;

/// Applies maps (scale, shift) one after the other.
pub(super) fn fold(finish: bool, pieces: &[Piece<'_>], result: &mut PieceMut<'_>) {
    let dtype = pieces[0].form.fields[0].dtype;
    let total = result.region.project(&result.form.fields[0].axes).volume();
    let lane = || Lane::new(dtype);
    let (mut scale, mut shift, mut by, mut more) = (lane(), lane(), lane(), lane());
    let mut at = 0;
    while at < total {
        let n = BLOCK.min(total - at);
        load(pieces[0].elements(0), at, &mut scale, n);
        load(pieces[0].elements(1), at, &mut shift, n);
        for piece in &pieces[1..] {
            load(piece.elements(0), at, &mut by, n);
            load(piece.elements(1), at, &mut more, n);
            apply(&by, &mut shift, &more, n, dtype);
            if !finish {
                combine(Fold::Prod, &mut scale, &by, n, dtype);
            }
        }
        if !finish {
            store(scale.values(n), dtype, result.bytes(0), at);
        }
        let field = usize::from(!finish);
        store(shift.values(n), result.dtype(field), result.bytes(field), at);
        at += n;
    }
}

/// `by * shift + more` in place of `shift`.
fn apply(by: &Lane, shift: &mut Lane, more: &Lane, n: usize, dtype: DType) {
    match (by, shift, more) {
        (Lane::F32(by), Lane::F32(shift), Lane::F32(more)) => step(&by[..n], &mut shift[..n], &more[..n]),
        (Lane::F64(by), Lane::F64(shift), Lane::F64(more)) => step(&by[..n], &mut shift[..n], &more[..n]),
        (by, shift, more) => {
            combine(Fold::Prod, shift, by, n, dtype);
            combine(Fold::Sum, shift, more, n, dtype);
        }
    }
}

fn step<T: Number + Default + PartialEq>(by: &[T], shift: &mut [T], more: &[T]) {
    for ((shift, &by), &more) in shift.iter_mut().zip(by).zip(more) {
        *shift = next(by, *shift, more);
    }
}

/// The state after one of a linear recurrence, `scale * state + shift`; integers wrap. A state of exactly 0 stays 0 under any
/// scale, were that infinite or NaN: products of scales overflow where no state does.
pub(super) fn next<T: Number + Default + PartialEq>(scale: T, state: T, shift: T) -> T {
    let next = T::one(Fold::Sum, T::one(Fold::Prod, scale, state), shift);
    if state == T::default() { shift } else { next }
}
