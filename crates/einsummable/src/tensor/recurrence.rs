//! Linear recurrences along an axis.

use super::cumulative::{LONG, length_of_parts};
use super::index::with_fill;
use super::map::{broadcast, map};
use super::promote::{Standing, result_type};
use super::{Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::expr::Binary;
use ein_ir::graph::TensorType;
use ein_ir::kernel::{Kernel, LastState, Recurrence, Scan, ScanFunction};

impl Tensor {
    /// Every state of `h[t] = self[t] * h[t - 1] + b[t]` along an axis, which starts from `initial`, or else from 0: state
    /// space models and gated linear units are made of it. What is multiplied and what is added broadcast to one shape and
    /// one type; `initial` has, or broadcasts to, that shape without the axis. Integers wrap. 16-bit floats
    /// are computed in `F32` or `F64` and rounded at the end. A state of exactly 0 stays 0 under any factor, were that infinite
    /// or NaN. A long axis is computed in parts, of whose factors the products may overflow before a state does.
    pub fn linear_recurrence(&self, b: &Tensor, axis: i64, initial: Option<&Tensor>) -> Tensor {
        Tensor::attempt(|| {
            let operation = "linear_recurrence";
            let (a, b, at, dtype) = prepared(operation, self, b, axis, initial)?;
            if a.shape()[at] < LONG {
                return Ok(whole(operation, &a, &b, at).to(dtype));
            }
            let wide = dtype.accumulator();
            Ok(in_parts(operation, &a.to(wide), &b.to(wide), at)?.to(dtype))
        })
    }

    /// The last state of [`Tensor::linear_recurrence`], without the axis; `initial`, or else 0, where there is none. The axis may
    /// be cut between devices however long it is: what crosses is two numbers for each state.
    pub fn linear_recurrence_last(&self, b: &Tensor, axis: i64, initial: Option<&Tensor>) -> Tensor {
        Tensor::attempt(|| {
            let operation = "linear_recurrence_last";
            let (a, b, at, dtype) = prepared(operation, self, b, axis, initial)?;
            let mut shape = a.shape().to_vec();
            let kernel = Kernel::LastState(LastState { shape: shape.clone(), axis: at, dtype: a.dtype() });
            if let (0, Some(initial)) = (shape.remove(at), initial) {
                return Ok(initial.to(dtype).broadcast_to(&shape));
            }
            Ok(Tensor::row_kernel(operation, kernel, &[&a, &b], TensorType::new(a.dtype(), shape)).to(dtype))
        })
    }
}

/// Both operands in one shape and type, the initial state in what is added first; the axis; and the type of the states. With
/// an initial state 16-bit floats are widened, so that the first state is not rounded before the second is computed.
fn prepared(
    operation: &'static str,
    a: &Tensor,
    b: &Tensor,
    axis: i64,
    initial: Option<&Tensor>,
) -> Result<(Tensor, Tensor, usize, DType), TensorError> {
    let mut shape = broadcast(operation, &[&a.ty()?.shape, &b.ty()?.shape])?;
    let mut types = Vec::new();
    for tensor in [Some(a), Some(b), initial].into_iter().flatten() {
        types.push((tensor.ty()?.dtype, Standing::of(tensor.dim())));
    }
    let dtype = result_type(&types);
    if dtype == DType::Bool {
        let dtypes = types.into_iter().map(|t| t.0).collect();
        let reason = "needs numbers, not bools; convert with `.to`".into();
        return Err(TensorError::Type { operation, dtypes, reason });
    }
    let [mut a, mut b] = [a, b].map(|x| x.to(dtype).broadcast_to(&shape));
    let at = b.axis(operation, axis)?;
    let extent = shape.remove(at);
    if let Some(initial) = initial
        && extent > 0
    {
        let axis = at as i64;
        let wide = dtype.accumulator();
        (a, b) = (a.to(wide), b.to(wide));
        let state = initial.to(dtype).to(wide).broadcast_to(&shape).unsqueeze(axis);
        let [scale, shift] = [&a, &b].map(|x| x.narrow(axis, 0, 1));
        let first = step(operation, &scale, &state, &shift)?;
        b = Tensor::cat(&[&first, &b.narrow(axis, 1, extent - 1)], axis);
    }
    Ok((a, b, at, dtype))
}

/// `scale * state + shift`. A state of exactly 0 stays 0 under any scale, as in the kernels: a part's product of factors may be
/// infinite or NaN where every state is a number.
fn step(operation: &'static str, scale: &Tensor, state: &Tensor, shift: &Tensor) -> Result<Tensor, TensorError> {
    let dtype = shift.dtype();
    map(operation, &[scale, state, shift], |e, rows| {
        let &[scale, state, shift] = rows else { unreachable!("three operands") };
        let scaled = e.binary(Binary::Mul, scale, state)?;
        let next = e.binary(Binary::Add, scaled, shift)?;
        if !dtype.is_float() {
            return Ok(next);
        }
        let zero = e.float(0.0, dtype);
        let none = e.binary(Binary::Eq, state, zero)?;
        e.select(none, shift, next)
    })
}

/// One kernel, for which the axis is whole.
fn whole(operation: &'static str, a: &Tensor, b: &Tensor, at: usize) -> Tensor {
    let kernel = Kernel::Recurrence(Recurrence { shape: b.shape().to_vec(), axis: at, dtype: b.dtype() });
    Tensor::row_kernel(operation, kernel, &[a, b], TensorType::new(b.dtype(), b.shape()))
}

/// A long axis as parts of equal length: each starts from 0 by itself, the last states of the parts are a recurrence of
/// their own, scaled by the products of the parts, and every part takes the state before it, scaled by the product so far.
/// Parts may lie on different devices; what crosses is the states between them and the products.
fn in_parts(operation: &'static str, a: &Tensor, b: &Tensor, at: usize) -> Result<Tensor, TensorError> {
    let extent = b.shape()[at];
    let length = length_of_parts(extent);
    let parts = extent.div_ceil(length);
    let axis = at as i64;
    let mut shape: Vec<i64> = b.shape().iter().map(|&n| n as i64).collect();
    shape[at] = (parts * length) as i64;
    let filled = shape.clone();
    shape.splice(at..=at, [parts as i64, length as i64]);
    // What is filled in behind the last element keeps the state.
    let cut = |x: &Tensor, value: f64| -> Result<Tensor, TensorError> {
        Ok(with_fill(x, operation, at, [0, parts * length - extent], value)?.reshape(&shape))
    };
    let (a, b) = (cut(a, 1.0)?, cut(b, 0.0)?);
    let scan = Scan { shape: a.shape().to_vec(), axis: at + 1, function: ScanFunction::Prod, dtype: a.dtype() };
    let ty = TensorType::new(a.dtype(), a.shape());
    let products = Tensor::row_kernel(operation, Kernel::Scan(scan), &[&a], ty);
    let local = whole(operation, &a, &b, at + 1);
    let last = |x: &Tensor| x.select(axis + 1, -1);
    let ends = whole(operation, &last(&products), &last(&local), at);
    let before = with_fill(&ends, operation, at, [1, 0], 0.0)?.narrow(axis, 0, parts).unsqueeze(axis + 1);
    let joined = step(operation, &products, &before, &local)?;
    Ok(joined.reshape(&filled).narrow(axis, 0, extent))
}
