//! `Sum`: maps that are linear in the partials, without a constant term.

use super::{Answer, is_unsigned, walk, whole, widens};
use crate::dtype::DType;
use crate::expr::{Binary, Expr, Row, RowId, Unary};
use crate::scalar::literal;

/// What is known of a row.
#[derive(Clone, Copy)]
enum Part {
    /// Nothing of the partials is in it. Of a constant, its value.
    Finished(Option<f64>),
    /// Linear in the partials. Exact where only a sign or a place changes, or integers are added and multiplied.
    Linear { exact: bool },
}

use Part::{Finished, Linear};

const CONSTANT: &str = "adds what is not pending, once for every partial";
const TWO: &str = "multiplies two pending sums: every partial of one would have to meet every partial of the other";

/// Whether `map` is linear.
pub(super) fn answer(map: &Expr, pending: &[usize]) -> Answer {
    match walk(map, |this, part| rule(map, pending, this, part)) {
        Ok(Linear { exact }) => Answer::of(exact),
        Ok(Finished(Some(0.0))) => Answer::Exactly,
        Ok(Finished(_)) => whole("the map".into(), "gives what is not pending, once for every partial".into()),
        Err(refusal) => Answer::No(refusal),
    }
}

/// Whether `map` is linear in one operand and keeps NaN and its type: attention divides by its sum at the end, which
/// may give NaN, and the other fields have types of their own.
pub(super) fn of_one(map: &Expr, pending: &[usize]) -> Answer {
    let mut read = map.rows().iter().filter_map(|&(row, _)| match row {
        Row::Operand(n) if pending.contains(&n) => Some(n),
        _ => None,
    });
    let first = read.next();
    if read.any(|n| Some(n) != first) {
        return whole("the map".into(), "reads two pending operands, each to be divided by a sum of its own".into());
    }
    let strict = |this: RowId, part: &dyn Fn(RowId) -> Part| match map.rows()[this].0 {
        Row::Select(_, a, b)
            if matches!((part(a), part(b)), (Linear { .. }, Finished(_)) | (Finished(_), Linear { .. })) =>
        {
            Err("leaves out what may be NaN when it is finished".into())
        }
        Row::Cast(a) if matches!(part(a), Linear { .. }) => {
            Err("changes the type of one field, and the others keep theirs".into())
        }
        _ => rule(map, pending, this, part),
    };
    match walk(map, strict) {
        Ok(Linear { exact }) => Answer::of(exact),
        Ok(Finished(_)) => whole("the map".into(), "gives what is not pending".into()),
        Err(refusal) => Answer::No(refusal),
    }
}

fn rule(map: &Expr, pending: &[usize], this: RowId, part: &dyn Fn(RowId) -> Part) -> Result<Part, String> {
    let (row, dtype) = map.rows()[this];
    match row {
        Row::Operand(n) if pending.contains(&n) => Ok(Linear { exact: true }),
        Row::Operand(_) | Row::Index(_) => Ok(Finished(None)),
        Row::Const(value) => Ok(Finished(Some(literal(value, dtype).to_f64()))),
        Row::Unary(function, a) => match part(a) {
            Finished(_) => Ok(Finished(None)),
            linear @ Linear { .. } => match function {
                Unary::Neg => Ok(linear),
                Unary::Abs if is_unsigned(dtype) => Ok(linear),
                _ => Err("is not linear".into()),
            },
        },
        Row::Binary(function, a, b) => binary(function, part(a), part(b), map.dtype_of(a)),
        Row::Select(condition, a, b) => match (part(condition), part(a), part(b)) {
            (Linear { .. }, ..) => Err("chooses by a sum that is pending".into()),
            (_, Linear { exact: a }, Linear { exact: b }) => Ok(Linear { exact: a && b }),
            (_, linear @ Linear { .. }, Finished(Some(0.0))) | (_, Finished(Some(0.0)), linear @ Linear { .. }) => {
                Ok(linear)
            }
            (_, Linear { .. }, _) | (_, _, Linear { .. }) => Err(CONSTANT.into()),
            (_, Finished(_), Finished(_)) => Ok(Finished(None)),
        },
        Row::Cast(a) => match part(a) {
            Finished(value) => Ok(Finished(value.filter(|v| *v == 0.0))),
            Linear { .. } if widens(map.dtype_of(a), dtype) => Ok(Linear { exact: false }),
            Linear { .. } => Err("rounds or wraps every partial, not their sum".into()),
        },
    }
}

/// A function of two rows of type `dtype`.
fn binary(function: Binary, a: Part, b: Part, dtype: DType) -> Result<Part, String> {
    // Integers wrap around, so that their sums and products are exact.
    let ring = !dtype.is_float();
    match (a, b) {
        (Finished(_), Finished(_)) => Ok(Finished(None)),
        (Linear { .. }, Linear { .. }) => match function {
            Binary::Add | Binary::Sub => Ok(Linear { exact: ring }),
            Binary::Mul => Err(TWO.into()),
            _ => Err("is not linear".into()),
        },
        (Linear { exact }, Finished(value)) => match function {
            Binary::Add | Binary::Sub if value == Some(0.0) => Ok(a),
            Binary::Add | Binary::Sub => Err(CONSTANT.into()),
            Binary::Mul => scaled(value, exact && ring),
            Binary::Div if !ring => scaled(value.map(f64::recip), false),
            Binary::Shl => Ok(a),
            _ => Err("is not linear".into()),
        },
        (Finished(value), Linear { exact }) => match function {
            Binary::Add | Binary::Sub if value == Some(0.0) => Ok(b),
            Binary::Add | Binary::Sub => Err(CONSTANT.into()),
            Binary::Mul => scaled(value, exact && ring),
            _ => Err("is not linear".into()),
        },
    }
}

/// A product with what is finished; with its value if that is known.
fn scaled(by: Option<f64>, exact: bool) -> Result<Part, String> {
    match by {
        Some(by) if !by.is_finite() => Err("makes NaN of partials of two signs, by an infinite factor".into()),
        _ => Ok(Linear { exact }),
    }
}
