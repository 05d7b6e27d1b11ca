//! Elements folded into the places that indices along one axis name.

use super::Call;
use super::block::{Value, each_point, fold_of, lines, values};
use super::ids::Ids;
use crate::cpu::buffer::Buffer;
use crate::cpu::fold::Fold;
use crate::cpu::piece::PieceMut;
use crate::cpu::strided::{Few, shape, strides};
use crate::error::Cause;
use ein_ir::dtype::DType;
use ein_ir::kernel::ScatterAlong;
use ein_ir::region::offset;

/// The places of the block, from its part of the elements in their order.
pub(crate) fn scatter_along(s: &ScatterAlong, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    match s.dtype {
        DType::F64 => typed::<f64>(s, call, result),
        DType::F32 | DType::BF16 | DType::F16 => typed::<f32>(s, call, result),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => typed::<i64>(s, call, result),
    }
}

fn typed<T: Value>(s: &ScatterAlong, call: &Call<'_>, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    let rank = s.source.len();
    let out = &call.labels.0[..rank];
    let rows = out[s.axis];
    let fold = fold_of(s.monoid).ok_or_else(|| Cause::malformed(format!("`{}` folds by {}", call.name, s.monoid)))?;
    let mut acc = Buffer::of(T::identity(fold, s.dtype), out.iter().map(|i| i.len()).product());
    if !call.labels.is_empty() {
        let mut needs: Few<_> = Few::from_slice(out);
        needs[s.axis] = call.labels.0[rank];
        let source: Buffer<T> = values(call.operand(0, &needs)?, &needs);
        let ids = Ids::new(call.operand(1, &needs)?, s.rows, call.name);
        let steps = strides(&shape(out));
        let (starts, length) = lines(&needs);
        // Along a line the place in the result follows the line, unless the line is the axis.
        let along = if s.axis + 1 == rank { 0 } else { steps[rank - 1] };
        let mut taken = Buffer::of(0, length);
        let mut lines = source.chunks_exact(length);
        each_point(&starts, |point| {
            let values = lines.next().unwrap_or_default();
            let first = ids.place(point);
            point[s.axis] = rows.lo;
            let base = offset(point, out, &steps);
            ids.rows(first, &mut taken)?;
            let step = steps[s.axis];
            // How values are folded is known before the loop.
            macro_rules! each {
                ($fold:expr) => {
                    for (n, (&row, &value)) in taken.iter().zip(values).enumerate() {
                        if row >= rows.lo && row < rows.hi {
                            let place = &mut acc[base + n * along + (row - rows.lo) * step];
                            *place = T::one($fold, *place, value);
                        }
                    }
                };
            }
            match fold {
                Fold::Sum => each!(Fold::Sum),
                Fold::Max => each!(Fold::Max),
                Fold::Min => each!(Fold::Min),
                Fold::Prod => each!(Fold::Prod),
            }
            Ok(())
        })?;
    }
    T::write(&acc, result.dtype(0), result.bytes(0), 0);
    Ok(())
}
