//! Sums of products of two operands: how their labels make matrices, and what does them.
//!
//! The library where strides are those of matrices and types go together; a kernel that reads the one factor once where
//! the other has few rows ([`thin`](super::thin)); squares in shared memory for everything else that is large, by tensor
//! cores if it is of 16-bit floats ([`gathered`](super::gathered), [`tile`](super::tile)): windows that overlap, as of
//! convolutions, are not copied first where few read them. What is small is a reduction like any other.

use super::body::{Body, Memory, Operand};
use super::ending::After;
use super::loops::Loops;
use super::state::State;
use super::stored::Stored;
use super::{gathered, library, thin, tile};
use crate::program::{Program, Target};
use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Row};
use ein_ir::monoid::Monoid;
use ein_ir::region::Region;
use ein_run::Cause;

/// A sum of products, its labels told apart.
pub(crate) struct Contraction<'a> {
    /// The factors.
    pub(crate) left: &'a Memory,
    /// The factors.
    pub(crate) right: &'a Memory,
    /// How many labels are the result's.
    pub(crate) rank: usize,
    /// Extents of all labels.
    pub(crate) extents: Vec<usize>,
    /// The labels of both factors and the result.
    pub(crate) batch: Vec<usize>,
    /// The labels of the left factor and the result.
    pub(crate) rows: Vec<usize>,
    /// The labels of the right factor and the result.
    pub(crate) columns: Vec<usize>,
    /// The labels of both factors that are summed over.
    pub(crate) inner: Vec<usize>,
    /// The type that is summed in.
    pub(crate) state: State,
}

impl<'a> Contraction<'a> {
    /// What a body that is folded over all but its first `rank` labels is, if it is a sum of products of two different
    /// operands.
    pub(crate) fn of(body: &'a Body, rank: usize, state: State) -> Option<Self> {
        if state.monoid != Monoid::Sum || body.labels.is_empty() {
            return None;
        }
        let (Row::Binary(Binary::Mul, x, y), dtype) = body.rows[body.value] else { return None };
        let (left, right) = (factor(body, x)?, factor(body, y)?);
        if left == right || dtype.accumulator() != state.dtype {
            return None;
        }
        let extents = body.labels.shape();
        let (mut batch, mut rows, mut columns, mut inner) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for l in (0..extents.len()).filter(|&l| extents[l] > 1) {
            match (l < rank, left.steps[l] != 0, right.steps[l] != 0) {
                (true, true, true) => batch.push(l),
                (true, true, false) => rows.push(l),
                (true, false, true) => columns.push(l),
                (false, true, true) => inner.push(l),
                (_, false, false) | (false, ..) => return None,
            }
        }
        Some(Self { left, right, rank, extents, batch, rows, columns, inner, state })
    }

    /// Points of some labels.
    pub(crate) fn volume(&self, labels: &[usize]) -> u64 {
        labels.iter().map(|&l| self.extents[l] as u64).product()
    }

    /// Loops over some labels; walkers are the left factor, the right one, and some more.
    pub(crate) fn loops(&self, labels: &[usize], more: &[Vec<i64>]) -> Loops {
        let pick = |steps: &Vec<i64>| labels.iter().map(|&l| steps.get(l).copied().unwrap_or(0)).collect();
        let steps = [&self.left.steps, &self.right.steps].into_iter().chain(more).map(pick).collect();
        Loops::new(labels.iter().map(|&l| self.extents[l]).collect(), steps).merged()
    }
}

/// The operand that a row is: as it is, or widened from 16 bits, which loses nothing of a product.
fn factor(body: &Body, row: usize) -> Option<&Memory> {
    let operand = |row: usize| match body.rows[row].0 {
        Row::Operand(k) => match &body.operands[k] {
            Operand::Memory(m) => Some(m),
            Operand::Given(_) => None,
        },
        Row::Const(_) | Row::Index(_) | Row::Unary(..) | Row::Binary(..) | Row::Select(..) | Row::Cast(_) => None,
    };
    match body.rows[row] {
        (Row::Cast(x), DType::F32) if matches!(body.rows[x].1, DType::BF16 | DType::F16) => operand(x),
        _ => operand(row),
    }
}

/// Adds the steps of a sum of products and what follows; `false` where it is better done as a reduction.
pub(crate) fn push(
    contraction: &Contraction<'_>,
    after: After<'_>,
    body: &Body,
    result: &Stored,
    target: &Target,
    program: &mut Program,
) -> Result<bool, Cause> {
    let c = contraction;
    let [rows, columns, inner] = [&c.rows, &c.columns, &c.inner].map(|l| c.volume(l));
    let one = rows * columns * inner;
    if rows * columns == 1 || inner < 8 || one < 1 << 13 {
        return Ok(false);
    }
    let thin = rows.min(columns);
    // One row, and both factors contiguous along what is summed: a reduction reads the other once.
    let along = c.loops(&c.inner, &[]);
    let both = along.extents.len() == 1 && along.steps.iter().all(|s| s[0] == 1);
    if thin == 1 && both {
        return Ok(false);
    }
    let out = Region(body.labels.0[..c.rank].to_vec());
    if thin <= thin::MOST && both && thin::push(c, after, &out, result, target, program)? {
        return Ok(true);
    }
    let better = gathered::is_better(c);
    if target.library && !better && library::push(c, after, &out, result, program)? {
        return Ok(true);
    }
    if gathered::takes(c) && gathered::push(c, after, &out, result, program)? {
        return Ok(true);
    }
    tile::push(c, after, &out, result, program)
}
