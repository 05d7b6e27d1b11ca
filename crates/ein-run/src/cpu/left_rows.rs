//! Rows of a left factor that is to be packed: they are read where they are, however many loops lead to them.

use super::gemm::Matrix;
use super::grid::{Grid, place};
use super::lines::{Lines, Name};
use super::packed;
use super::strided::Odometer;
use super::sums::Rows;
use std::ops::Range;

/// Some rows of a product's left factor.
pub(crate) enum LeftRows<'a> {
    /// At one step, as are their elements.
    Matrix(Matrix<'a, f32>),
    /// Wherever the loops of a product lead.
    Loops(Loops<'a>),
}

/// Rows that lie in no one matrix.
pub(crate) struct Loops<'a> {
    grid: &'a Grid,
    /// Elements, and where the factor's first is.
    from: (&'a [f32], i64),
    rows: Range<usize>,
    lines: &'a mut Lines,
}

impl<'a> LeftRows<'a> {
    /// Rows of a product, the first element of whose left factor is at a place of the data. `lines` are for who wants them
    /// side by side.
    pub(super) fn of(grid: &'a Grid, from: (&'a [f32], i64), rows: Range<usize>, lines: &'a mut Lines) -> Self {
        let [starts, inner] = grid.left();
        if let ([row], [column]) = (starts.as_slice(), inner.as_slice()) {
            let at = from.1 + rows.start as i64 * row.1;
            return Self::Matrix(Matrix { data: from.0, at, row: row.1, column: column.1 });
        }
        Self::Loops(Loops { grid, from, rows, lines })
    }

    /// As one matrix: where they are, or copied, unless those of that name are there.
    pub(crate) fn side_by_side(self, name: Option<Name>) -> Matrix<'a, f32> {
        match self {
            Self::Matrix(matrix) => matrix,
            Self::Loops(Loops { grid, from, rows, lines }) => grid.rows_of(from, rows, name, lines),
        }
    }

    /// Where they are, if elements of a row lie side by side and rows one after the other.
    pub(crate) fn in_place(&self) -> Option<Rows<'a, f32>> {
        match self {
            Self::Matrix(matrix) => matrix.rows(),
            Self::Loops(_) => None,
        }
    }

    /// Packs all of them, `m` by `k`, as [`packed::pack_left`] does.
    pub(crate) fn pack(&self, [m, k]: [usize; 2], out: &mut [f32]) {
        match self {
            Self::Matrix(matrix) => packed::pack_left([m, k], *matrix, out),
            Self::Loops(loops) => loops.pack([m, k], out),
        }
    }
}

impl Loops<'_> {
    fn pack(&self, [m, k]: [usize; 2], out: &mut [f32]) {
        let ([starts, inner], (data, base), group) = (self.grid.left(), self.from, packed::group());
        let (Some(&(run, column)), outer) = (inner.last(), &inner[..inner.len() - 1]) else { unreachable!("a loop") };
        let mut loops = Odometer::new(outer.iter().map(|d| d.0));
        for (first, out) in (0..m).step_by(group).zip(out[..m * k].chunks_mut((group * k).max(1))) {
            let rows = group.min(m - first);
            // The indices of the innermost loop of all rows, then those of its next turn.
            for out in out.chunks_exact_mut(run * rows) {
                let turn = loops.at().iter().zip(outer).map(|(&n, d)| n as i64 * d.1).sum::<i64>();
                let at = |row: usize| base + turn + place(&starts, self.rows.start + first + row);
                packed::columns([rows, run], (data, column), at, out);
                loops.step();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::contract::Dim;

    #[test]
    fn rows_are_packed_as_if_they_lay_side_by_side() {
        let dim = |extent: usize, left: i64, right: i64, out: i64| Dim { extent, left, right, out };
        // Batches and rows of [b, h, s, d], inner loops heads and features: of 3 and 2 features, apart or in turn.
        for (heads, features, along) in [(3, 2, true), (5, 150, true), (4, 3, false)] {
            let (batches, tokens, k) = (2, 17, heads * features);
            let (row, element) = if along { (features, 1) } else { (1, tokens) };
            let inner =
                [dim(heads, (tokens * features) as i64, features as i64, 0), dim(features, element as i64, 1, 0)];
            let dims = [
                dim(batches, (heads * tokens * features) as i64, 0, 4 * tokens as i64),
                dim(tokens, row as i64, 0, 4),
                dim(4, 0, k as i64, 1),
            ];
            let grid = Grid::of(&[dims.as_slice(), &inner].concat()).expect("one matrix");
            let data: Vec<f32> = (0..2 + batches * tokens * k).map(|n| n as f32).collect();
            for rows in [0..34, 3..20, 30..31] {
                let (mut lines, mut found) = (Lines::default(), vec![0.0; rows.len() * k]);
                let left = LeftRows::of(&grid, (&data, 2), rows.clone(), &mut lines);
                assert!(matches!(left, LeftRows::Loops(_)));
                left.pack([rows.len(), k], &mut found);
                let mut expected = vec![0.0; rows.len() * k];
                packed::pack_left([rows.len(), k], left.side_by_side(None), &mut expected);
                assert_eq!(found, expected, "{heads} heads of {features}, rows {rows:?}");
            }
        }
    }
}
