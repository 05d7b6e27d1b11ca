//! The kernels: one file for each of `ein_ir::kernel`, and the one place that knows them all.

mod attention;
mod block;
pub(crate) mod flash;
mod gather;
mod gather_along;
mod ids;
mod recurrence;
mod scan;
mod scatter;
mod scatter_along;
mod top;

use super::Scratch;
use super::piece::{Piece, PieceMut};
use crate::error::Cause;
use ein_ir::kernel::Kernel;
use ein_ir::region::{Interval, Region};

/// What a kernel is called with.
pub(crate) struct Call<'a> {
    /// The block.
    pub labels: &'a Region,
    /// What there is of every operand; it may be more than is read, and nothing where nothing is.
    pub operands: &'a [Option<Piece<'a>>],
    /// Whether the finished value is stored, rather than the monoid's fields.
    pub finish: bool,
    /// The row's name, for messages.
    pub name: &'a str,
}

impl<'a> Call<'a> {
    /// Operand `n`, which must hold `needs`.
    pub(crate) fn operand(&self, n: usize, needs: &[Interval]) -> Result<Piece<'a>, Cause> {
        let piece = self.operands.get(n).copied().flatten();
        let piece = piece.ok_or_else(|| Cause::malformed(format!("operand {n} of `{}` is not given", self.name)))?;
        piece.dtype()?;
        let holds = || piece.region.0.iter().zip(needs).all(|(own, all)| own.contains(*all));
        if piece.region.rank() != needs.len() || !(needs.iter().any(|i| i.is_empty()) || holds()) {
            let needs = Region(needs.to_vec());
            let reason = format!("operand {n} of `{}` is stored as {}, {needs} is read", self.name, piece.region);
            return Err(Cause::malformed(reason));
        }
        Ok(piece)
    }
}

/// Evaluates a block of a kernel into `result`.
pub(crate) fn kernel(
    kernel: &Kernel,
    call: &Call<'_>,
    result: &mut PieceMut<'_>,
    scratch: &mut Scratch,
) -> Result<(), Cause> {
    match kernel {
        Kernel::Attention(a) => attention::attention(a, call, result, scratch),
        Kernel::Gather(g) => gather::gather(g, call, result),
        Kernel::GatherAlong(g) => gather_along::gather_along(g, call, result),
        Kernel::Scatter(s) => scatter::scatter(s, call, result),
        Kernel::ScatterAlong(s) => scatter_along::scatter_along(s, call, result),
        Kernel::TopK(t) => top::top(t, call, result),
        Kernel::Scan(s) => scan::scan(s, call, result),
        Kernel::Recurrence(r) => recurrence::states(r, call, result),
        Kernel::LastState(s) => recurrence::last(s, call, result),
    }
}
