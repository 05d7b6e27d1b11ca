//! Slices folded into the rows that ids name.

use super::Call;
use super::block::{Value, fold_of, values};
use super::ids::Ids;
use crate::cpu::buffer::Buffer;
use crate::cpu::piece::PieceMut;
use crate::cpu::strided::Few;
use crate::error::Cause;
use ein_ir::dtype::DType;
use ein_ir::kernel::Scatter;

/// The rows of the block, from its part of the slices in their order.
pub(crate) fn scatter(s: &Scatter, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    match s.dtype {
        DType::F64 => typed::<f64>(s, call, result),
        DType::F32 | DType::BF16 | DType::F16 => typed::<f32>(s, call, result),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => typed::<i64>(s, call, result),
    }
}

fn typed<T: Value>(s: &Scatter, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    let rank = s.source.len();
    let out = &call.labels.0[..rank];
    let (rows, taken) = (out[s.axis], call.labels.0[rank]);
    let fold = fold_of(s.monoid).ok_or_else(|| Cause::malformed(format!("`{}` folds by {}", call.name, s.monoid)))?;
    let mut acc = Buffer::of(T::identity(fold, s.dtype), out.iter().map(|i| i.len()).product());
    if !call.labels.is_empty() {
        let mut needs: Few<_> = Few::from_slice(out);
        needs[s.axis] = taken;
        let source: Buffer<T> = values(call.operand(0, &needs)?, &needs);
        let ids = Ids::new(call.operand(1, &[taken])?, s.rows, call.name);
        let slice: usize = out[s.axis + 1..].iter().map(|i| i.len()).product();
        let lead: usize = out[..s.axis].iter().map(|i| i.len()).product();
        for n in 0..taken.len() {
            let row = ids.at(&[taken.lo + n])?;
            if row < rows.lo || row >= rows.hi {
                continue;
            }
            for first in 0..lead {
                let from = &source[(first * taken.len() + n) * slice..][..slice];
                T::fold(fold, &mut acc[(first * rows.len() + row - rows.lo) * slice..][..slice], from);
            }
        }
    }
    T::write(&acc, result.dtype(0), result.bytes(0), 0);
    Ok(())
}
