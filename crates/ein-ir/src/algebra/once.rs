//! `Once`: maps that keep "nothing". Where one partial holds an element and the others hold nothing, the map of it is
//! held by that one, and by the others nothing again, if the map of nothing is nothing.

use super::{Answer, Reads, is_unsigned, walk, whole};
use crate::dtype::DType;
use crate::expr::{Binary, Expr, Row, RowId};
use crate::scalar::{Scalar, binary, literal, unary};

/// What is known of a row.
#[derive(Clone, Copy)]
struct Value {
    /// Its value where every pending operand holds nothing; `None` where that depends on finished ones.
    at_nothing: Option<Scalar>,
    reads: Reads,
    /// Whether it gives nothing for nothing, or does not read what is pending: bits that are equal stay so under "or".
    commutes: bool,
}

impl Value {
    fn new(reads: Reads, at_nothing: Option<Scalar>) -> Self {
        let commutes = match reads {
            Reads::None => true,
            Reads::One(_) | Reads::EitherOf => at_nothing.is_some_and(is_nothing),
            Reads::Both => false,
        };
        Self { at_nothing, reads, commutes }
    }
}

/// Whether `map` gives nothing for nothing, whatever the finished operands hold.
pub(super) fn answer(map: &Expr, pending: &[usize]) -> Answer {
    match walk(map, |this, value| Ok(rule(map, pending, this, value))) {
        Ok(Value { commutes: true, .. }) => Answer::Exactly,
        Ok(Value { reads: Reads::Both, .. }) => {
            whole("the map".into(), "takes two that are pending, which different partials may hold".into())
        }
        Ok(Value { at_nothing: Some(value), .. }) => {
            let found = match value {
                Scalar::F(v) => format!("{v:?}"),
                Scalar::I(v) => v.to_string(),
            };
            whole("the map".into(), format!("gives {found} where a partial holds nothing, which is stored as 0"))
        }
        Ok(_) => whole("the map".into(), "may give more than 0 where a partial holds nothing".into()),
        Err(refusal) => Answer::No(refusal),
    }
}

/// Whether all bits are 0.
fn is_nothing(value: Scalar) -> bool {
    match value {
        Scalar::F(v) => v.to_bits() == 0,
        Scalar::I(v) => v == 0,
    }
}

fn rule(map: &Expr, pending: &[usize], this: RowId, value: &dyn Fn(RowId) -> Value) -> Value {
    let (row, dtype) = map.rows()[this];
    match row {
        Row::Operand(n) if pending.contains(&n) => Value::new(Reads::One(n), Some(Scalar::I(0).cast(dtype))),
        Row::Operand(_) | Row::Index(_) => Value::new(Reads::None, None),
        Row::Const(constant) => Value::new(Reads::None, Some(literal(constant, dtype))),
        Row::Unary(function, a) => Value::new(value(a).reads, value(a).at_nothing.map(|a| unary(function, a, dtype))),
        Row::Cast(a) => Value::new(value(a).reads, value(a).at_nothing.map(|a| a.cast(dtype))),
        Row::Select(condition, a, b) => {
            let (condition, a, b) = (value(condition), value(a), value(b));
            if condition.reads != Reads::None {
                let reads = condition.reads.and(a.reads).and(b.reads);
                let chosen = |yes: Scalar| if yes.to_i64() != 0 { a.at_nothing } else { b.at_nothing };
                return Value::new(reads, condition.at_nothing.and_then(chosen));
            }
            let equal = a.at_nothing.filter(|v| is_nothing(*v) && b.at_nothing.is_some_and(is_nothing));
            Value { commutes: a.commutes && b.commutes, ..Value::new(a.reads.or(b.reads), equal) }
        }
        Row::Binary(function, a, b) => {
            let (of, a, b) = (map.dtype_of(a), value(a), value(b));
            let found = match (a.at_nothing, b.at_nothing) {
                (Some(a), Some(b)) => Some(binary(function, a, b, of)),
                (a, b) => absorbs(function, a, b, of).then(|| Scalar::I(0).cast(dtype)),
            };
            Value::new(a.reads.and(b.reads), found)
        }
    }
}

/// Whether a function of integers is 0 because one argument is, whatever the other.
fn absorbs(function: Binary, a: Option<Scalar>, b: Option<Scalar>, dtype: DType) -> bool {
    let zero = |v: Option<Scalar>| v == Some(Scalar::I(0));
    match function {
        // A quotient by 0 is 0, too.
        Binary::Mul | Binary::BitAnd | Binary::And | Binary::Div | Binary::Rem | Binary::Fmod => zero(a) || zero(b),
        Binary::Shl | Binary::Shr => zero(a),
        Binary::Min => is_unsigned(dtype) && (zero(a) || zero(b)),
        // Nothing is less than 0.
        Binary::Lt => is_unsigned(dtype) && zero(b),
        Binary::Add
        | Binary::Sub
        | Binary::Pow
        | Binary::Max
        | Binary::Atan2
        | Binary::Copysign
        | Binary::Le
        | Binary::Eq
        | Binary::Ne
        | Binary::Or
        | Binary::BitOr
        | Binary::BitXor => false,
    }
}
