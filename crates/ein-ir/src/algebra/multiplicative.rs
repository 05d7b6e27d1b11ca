//! `Prod`: maps that are multiplicative in the partials.

use super::{Answer, is_unsigned, walk, whole, widens};
use crate::dtype::DType;
use crate::expr::{Binary, Expr, Row, RowId, Unary};
use crate::scalar::literal;

/// What is known of a row.
#[derive(Clone, Copy)]
enum Part {
    /// Nothing of the partials is in it. Of a constant, its value.
    Finished(Option<f64>),
    /// A product of powers of the partials.
    Power { exact: bool },
}

use Part::{Finished, Power};

const FACTOR: &str = "multiplies by what is not pending, once for every partial";
const NOT: &str = "is not multiplicative";

/// Whether `map` is multiplicative.
pub(super) fn answer(map: &Expr, pending: &[usize]) -> Answer {
    match walk(map, |this, part| rule(map, pending, this, part)) {
        Ok(Power { exact }) => Answer::of(exact),
        Ok(Finished(Some(0.0 | 1.0))) => Answer::Exactly,
        Ok(Finished(_)) => whole("the map".into(), "gives what is not pending, once for every partial".into()),
        Err(refusal) => Answer::No(refusal),
    }
}

fn rule(map: &Expr, pending: &[usize], this: RowId, part: &dyn Fn(RowId) -> Part) -> Result<Part, String> {
    let (row, dtype) = map.rows()[this];
    match row {
        Row::Operand(n) if pending.contains(&n) => Ok(Power { exact: true }),
        Row::Operand(_) | Row::Index(_) => Ok(Finished(None)),
        Row::Const(value) => Ok(Finished(Some(literal(value, dtype).to_f64()))),
        Row::Unary(function, a) => match part(a) {
            Finished(_) => Ok(Finished(None)),
            power @ Power { .. } => match function {
                // Of signed integers it does not survive that products wrap around.
                Unary::Abs if dtype.is_float() || is_unsigned(dtype) => Ok(power),
                _ => Err(NOT.into()),
            },
        },
        Row::Binary(function, a, b) => binary(function, part(a), part(b), dtype),
        Row::Select(condition, a, b) => match (part(condition), part(a), part(b)) {
            (Power { .. }, ..) => Err("chooses by a product that is pending".into()),
            (_, Power { exact: a }, Power { exact: b }) => Ok(Power { exact: a && b }),
            (_, power @ Power { .. }, Finished(Some(1.0))) | (_, Finished(Some(1.0)), power @ Power { .. }) => {
                Ok(power)
            }
            (_, Power { .. }, _) | (_, _, Power { .. }) => Err(FACTOR.into()),
            (_, Finished(_), Finished(_)) => Ok(Finished(None)),
        },
        Row::Cast(a) => match part(a) {
            Finished(value) => Ok(Finished(value.filter(|v| *v == 1.0))),
            Power { .. } if widens(map.dtype_of(a), dtype) => Ok(Power { exact: false }),
            Power { .. } => Err("rounds or wraps every partial, not their product".into()),
        },
    }
}

/// A function of two rows, with a result of type `dtype`.
fn binary(function: Binary, a: Part, b: Part, dtype: DType) -> Result<Part, String> {
    let float = dtype.is_float();
    match (a, b) {
        (Finished(_), Finished(_)) => Ok(Finished(None)),
        (Power { exact: a }, Power { exact: b }) => match function {
            Binary::Mul => Ok(Power { exact: a && b && !float }),
            Binary::Div if float => Ok(Power { exact: false }),
            _ => Err(NOT.into()),
        },
        (power @ Power { exact }, Finished(value)) => match function {
            Binary::Mul | Binary::Div if value == Some(1.0) => Ok(power),
            Binary::Mul => Err(FACTOR.into()),
            Binary::Div if float => Err(FACTOR.into()),
            // Whole powers; others are NaN of negative numbers, though a product of two may be positive.
            Binary::Pow if float => match value {
                Some(n) if n.is_finite() && n.fract() == 0.0 => Ok(Power { exact: false }),
                _ => Err("is a power that may be NaN of a negative partial".into()),
            },
            // A negative power of an integer is 0 unless that is 1 or -1, and what wraps around may be.
            Binary::Pow if is_unsigned(dtype) || value.is_some_and(|n| n >= 0.0) => Ok(Power { exact }),
            _ => Err(NOT.into()),
        },
        (Finished(value), power @ Power { .. }) => match function {
            Binary::Mul if value == Some(1.0) => Ok(power),
            Binary::Mul => Err(FACTOR.into()),
            Binary::Div if float && value == Some(1.0) => Ok(Power { exact: false }),
            Binary::Div if float => Err(FACTOR.into()),
            _ => Err(NOT.into()),
        },
    }
}
