//! Maps: einsums without folded labels, and how operands of several shapes and types come together in one.

use super::formula::{Formula, Value};
use super::promote::{Standing, result_type};
use super::{Operand, Tensor, TensorError};
use crate::expression::ending;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Expr, ExprError, Literal, RowId};
use ein_ir::monoid::Monoid;

/// The shape that all broadcast to, aligned at the right.
pub(crate) fn broadcast(operation: &'static str, shapes: &[&[usize]]) -> Result<Vec<usize>, TensorError> {
    let mut out: Vec<usize> = Vec::new();
    for shape in shapes {
        let rank = out.len().max(shape.len());
        let at = |s: &[usize], n: usize| if n + s.len() >= rank { s[n + s.len() - rank] } else { 1 };
        let mut next = Vec::with_capacity(rank);
        for n in 0..rank {
            let (l, r) = (at(&out, n), at(shape, n));
            if l != r && l != 1 && r != 1 {
                let (left, right, axis) = (out.clone(), shape.to_vec(), rank - n);
                return Err(TensorError::Broadcast { operation, left, right, axis, l, r });
            }
            next.push(if l == 1 { r } else { l });
        }
        out = next;
    }
    Ok(out)
}

/// How a tensor of shape `shape` is read when it is broadcast to labels `first..` of these extents.
pub(crate) fn aligned(shape: &[usize], labels: &[usize], first: usize) -> Access {
    let lead = labels.len() - shape.len();
    let axes = shape.iter().enumerate().map(|(n, &extent)| {
        if extent == 1 && labels[lead + n] != 1 { Affine::constant(0) } else { Affine::label(first + lead + n) }
    });
    Access { axes: axes.collect() }
}

/// Label names for axes without names of their own.
pub(crate) fn letters(extents: &[usize]) -> Vec<Label> {
    let name = |n: usize| match u8::try_from(n) {
        Ok(n) if n < 26 => char::from(b'a' + n).to_string(),
        _ => format!("x{n}"),
    };
    extents.iter().enumerate().map(|(n, &e)| Label::new(name(n), e)).collect()
}

/// The map that applies the expression which `f` builds from one row per operand, with broadcasting.
pub(crate) fn map(
    method: &'static str,
    operands: &[&Tensor],
    f: impl FnOnce(&mut Expr, &[RowId]) -> Result<RowId, ExprError>,
) -> Result<Tensor, TensorError> {
    let mut shapes: Vec<&[usize]> = Vec::new();
    for tensor in operands {
        shapes.push(&tensor.ty()?.shape);
    }
    let shape = broadcast(method, &shapes)?;
    let accesses = shapes.iter().map(|s| aligned(s, &shape, 0)).collect();
    map_over(method, &shape, accesses, operands, f)
}

/// A map over a given shape with given accesses.
pub(crate) fn map_over(
    method: &'static str,
    shape: &[usize],
    accesses: Vec<Access>,
    operands: &[&Tensor],
    f: impl FnOnce(&mut Expr, &[RowId]) -> Result<RowId, ExprError>,
) -> Result<Tensor, TensorError> {
    let mut e = Expr::new();
    let rows: Vec<RowId> = operands.iter().enumerate().map(|(n, t)| e.push_operand(n, t.dtype())).collect();
    let value = f(&mut e, &rows).map_err(|source| TensorError::Expr { operation: method, source })?;
    Ok(finished(method, shape, accesses, operands, &e, value))
}

/// A number as a row of type `dtype`.
pub(crate) fn number(e: &mut Expr, value: f64, dtype: DType) -> RowId {
    if dtype.is_float() { e.float(value, dtype) } else { e.constant(Literal::Int(value as i64), dtype) }
}

/// What a function takes, and what it does to the types of its operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any type; works in the promoted one.
    Any,
    /// Numbers, not only bools; works in the promoted type.
    Numbers,
    /// Any type; works in the promoted one, integers and bools as `F32`.
    ToFloat,
    /// Floats; works in the promoted type.
    Floats,
    /// Integers and bools; works in the promoted type.
    Bits,
    /// Any type; works in the promoted one and gives a bool.
    Compare,
    /// A bool, which keeps its type, then any types; works in their promoted one.
    Choice,
}

impl Kind {
    /// The type that operands are converted to, and in which the function works: a number keeps its digits and a
    /// function of several steps rounds once, so 16-bit floats are computed in `F32`. What is compared is rounded.
    pub(crate) fn types(self, method: &'static str, operands: &[&Operand]) -> Result<(DType, DType), TensorError> {
        let mut types = Vec::new();
        for operand in operands {
            types.push(match operand {
                Operand::Tensor(t) => (t.ty()?.dtype, Standing::of(t.dim())),
                Operand::Float(_) => (DType::F32, Standing::Number),
                Operand::Int(_) => (DType::I64, Standing::Number),
                Operand::Bool(_) => (DType::Bool, Standing::Number),
            });
        }
        let dtype = result_type(&types);
        let reason = match self {
            Self::Numbers if dtype == DType::Bool => "needs numbers, not bools; convert with `.to`",
            Self::Floats if !dtype.is_float() => "needs floats; convert with `.to`",
            Self::Bits if dtype.is_float() => "needs integers or bools; convert with `.to`",
            Self::ToFloat if !dtype.is_float() => return Ok((DType::F32, DType::F32)),
            // Nothing is computed, and a bool does not change what the others promote to.
            Self::Compare | Self::Choice => return Ok((dtype, dtype)),
            Self::Any | Self::Numbers | Self::Floats | Self::Bits | Self::ToFloat => {
                return Ok((dtype, dtype.accumulator()));
            }
        };
        let dtypes = types.into_iter().filter(|t| t.1 != Standing::Number).map(|t| t.0).collect();
        Err(TensorError::Type { operation: method, dtypes, reason: reason.into() })
    }
}

/// The map of a formula over operands that broadcast.
pub(crate) fn pointwise<const N: usize>(
    method: &'static str,
    kind: Kind,
    operands: [&Operand; N],
    f: impl for<'f> FnOnce([Value<'f>; N]) -> Value<'f>,
) -> Tensor {
    Tensor::attempt(|| {
        let (dtype, inner) = kind.types(method, &operands)?;
        let tensors: Vec<&Tensor> =
            operands.iter().filter_map(|o| if let Operand::Tensor(t) = o { Some(t) } else { None }).collect();
        let mut shapes: Vec<&[usize]> = Vec::new();
        for tensor in &tensors {
            shapes.push(&tensor.ty()?.shape);
        }
        let shape = broadcast(method, &shapes)?;
        let accesses = shapes.iter().map(|s| aligned(s, &shape, 0)).collect();
        written(method, &shape, accesses, &tensors, |formula, rows| {
            let mut rows = rows.iter();
            let mut condition = kind == Kind::Choice;
            let value = |operand: &Operand| match operand {
                Operand::Tensor(_) if std::mem::take(&mut condition) => *rows.next().expect("one row a tensor"),
                Operand::Tensor(_) => rows.next().expect("one row a tensor").cast(inner),
                Operand::Float(v) => formula.number(*v, inner),
                Operand::Int(v) if inner.is_float() => formula.number(*v as f64, inner),
                Operand::Int(v) => formula.constant(Literal::Int(*v), inner),
                Operand::Bool(v) => formula.number(f64::from(*v), inner),
            };
            let result = f(operands.map(value));
            if kind == Kind::Compare { result } else { result.cast(dtype) }
        })
    })
}

/// A map over a given shape with given accesses, written as a formula of one row per operand.
pub(crate) fn written(
    method: &'static str,
    shape: &[usize],
    accesses: Vec<Access>,
    operands: &[&Tensor],
    f: impl for<'f> FnOnce(&'f Formula, &[Value<'f>]) -> Value<'f>,
) -> Result<Tensor, TensorError> {
    let formula = Formula::default();
    let row = {
        let rows: Vec<Value<'_>> = operands.iter().enumerate().map(|(n, t)| formula.operand(n, t.dtype())).collect();
        f(&formula, &rows).row()
    };
    let e = formula.expr().map_err(|source| TensorError::Expr { operation: method, source })?;
    Ok(finished(method, shape, accesses, operands, &e, row))
}

/// The map whose value is a row of an expression.
fn finished(
    method: &'static str,
    shape: &[usize],
    accesses: Vec<Access>,
    operands: &[&Tensor],
    e: &Expr,
    value: RowId,
) -> Tensor {
    let dtype = e.dtype_of(value);
    let join = ending(e, value);
    let einsum = Einsum { labels: letters(shape), rank: shape.len(), accesses, join, monoid: Monoid::Sum, dtype };
    Tensor::row_einsum(method, einsum, operands)
}
