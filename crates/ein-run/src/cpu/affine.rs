//! The fold of stored affine maps.

use super::fold::{Fold, combine, load};
use super::lanes::{BLOCK, Lane};
use super::piece::{Piece, PieceMut};
use super::state::store;

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
            combine(Fold::Prod, &mut shift, &by, n, dtype);
            combine(Fold::Sum, &mut shift, &more, n, dtype);
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
