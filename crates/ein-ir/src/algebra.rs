//! The algebra of pending results: which maps may be applied to partials instead of to what they fold to.
//!
//! A map `f` *commutes* with a monoid when `f(a ⊕ b)` is `f(a) ⊕ f(b)` for all partials. Every monoid declares its
//! maps as a rule over the rows of an expression; what no rule allows must wait for the fold.
//!
//! | monoid | maps that commute |
//! |---|---|
//! | `Sum` | linear ones, without a constant term |
//! | `Max`, `Min` | those that never fall, and give NaN for NaN only |
//! | `Prod` | multiplicative ones |
//! | `Once` | those that keep "nothing", the bits that are all 0 |
//! | `Top` of values | as `Max`, the same at every place of the order |
//! | `Attend` | linear ones of one operand, applied to the field `acc` |
//! | `Moments`, `SoftMax`, `Top` of indices | none but the identity: a field is no element of the value |
//!
//! Integers wrap around, so that sums and products of them obey ring algebra exactly and no order survives `x + 1`.

#[cfg(test)]
mod draw;
mod linear;
mod monotone;
mod multiplicative;
mod once;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::expr::{Expr, Literal, Row, RowId};
use crate::monoid::Monoid;
use crate::reference::plain;
use crate::scalar::{Scalar, literal};
use crate::view::View;

/// Whether a map commutes with a monoid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The same value, whatever partials and finished operands hold. All NaN are one value here, and so are zeros of
    /// both signs, which no fold keeps apart (`Once` does, and is exact to the bit).
    Exactly,
    /// The same number up to rounding, so long as nothing overflows and what is finished is finite (a quotient by 0 is
    /// not): infinite, a factor or a summand makes NaN of partials of two signs.
    Numerically,
    /// Not the same.
    No(Refusal),
}

/// The row of a map that does not commute, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The row; `None` where the map as a whole is at fault.
    pub row: Option<RowId>,
    /// The row's function, or what the map is.
    pub function: String,
    /// Why, as the end of a sentence.
    pub why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.function)?;
        if let Some(row) = self.row {
            write!(f, " (row {row})")?;
        }
        write!(f, " {}", self.why)
    }
}

impl Answer {
    /// Whether the map may be applied to partials.
    pub fn is_yes(&self) -> bool {
        match self {
            Self::Exactly | Self::Numerically => true,
            Self::No(_) => false,
        }
    }

    fn of(exact: bool) -> Self {
        if exact { Self::Exactly } else { Self::Numerically }
    }
}

/// Whether `map` commutes with `monoid` when the operands listed in `pending` are partials and the others finished.
///
/// Of a monoid of several fields the map is applied to the field that has all axes: `acc`, or the values of `Top`.
pub fn commutes(monoid: Monoid, map: &Expr, pending: &[usize]) -> Answer {
    if let Some((Row::Operand(n), _)) = map.rows().last()
        && pending.contains(n)
    {
        return Answer::Exactly;
    }
    match monoid {
        Monoid::Sum => linear::answer(map, pending),
        Monoid::Attend => linear::of_one(map, pending),
        Monoid::Max | Monoid::Min => monotone::answer(monoid, map, pending),
        Monoid::Top(top) => monotone::at_every_place(top, map, pending),
        Monoid::Prod => multiplicative::answer(map, pending),
        Monoid::Once => once::answer(map, pending),
        Monoid::Moments | Monoid::SoftMax | Monoid::Affine => {
            let fields: Vec<&str> = monoid.pending(map.dtype(), 1, false).fields.iter().map(|f| f.name).collect();
            let why = format!("is a map of the value, but a partial is stored as {}", fields.join(", "));
            whole(function_of(map, map.rows().len() - 1), why)
        }
    }
}

/// Whether an einsum commutes with `monoid` when the operands listed in `pending` are partials: its join must, and
/// what it folds itself, it must fold by the same monoid. The result's partials are then folded by it too.
pub fn einsum_commutes(monoid: Monoid, einsum: &Einsum, pending: &[usize]) -> Answer {
    if !monoid.is_plain() {
        return whole("einsum".into(), format!("reads values, but a partial of {monoid} is not stored as one"));
    }
    if einsum.folds() && einsum.monoid != monoid {
        return whole(einsum.monoid.name().into(), format!("is not the fold that is pending, which is {monoid}"));
    }
    let mut map = einsum.join.clone();
    map.cast(map.rows().len() - 1, einsum.dtype);
    match commutes(monoid, &map, pending) {
        // The order in which floats are added up changes.
        Answer::Exactly
            if einsum.folds() && einsum.dtype.is_float() && matches!(monoid, Monoid::Sum | Monoid::Prod) =>
        {
            Answer::Numerically
        }
        answer => answer,
    }
}

/// Whether a view commutes with `monoid`: elements keep their values, so it does where what it fills in folds to itself.
pub fn view_commutes(monoid: Monoid, view: &View, dtype: DType) -> Answer {
    if !monoid.is_plain() {
        return whole(view.name().into(), format!("moves elements, but a partial of {monoid} is not stored as such"));
    }
    if let View::Pad { value, .. } = *view {
        let fill = literal(Literal::Float(value), dtype);
        if !same(plain(monoid, fill, fill, dtype), fill) {
            let why = format!("fills in {}, once for every partial of a {monoid}", f64::from_bits(value));
            return whole(view.name().into(), why);
        }
    }
    Answer::Exactly
}

/// Equal as [`Answer::Exactly`] says.
fn same(a: Scalar, b: Scalar) -> bool {
    match (a, b) {
        (Scalar::F(a), Scalar::F(b)) => a == b || (a.is_nan() && b.is_nan()),
        (a, b) => a == b,
    }
}

fn whole(function: String, why: String) -> Answer {
    Answer::No(Refusal { row: None, function, why })
}

/// The function of a row, as messages name it.
fn function_of(map: &Expr, row: RowId) -> String {
    match map.rows()[row] {
        (Row::Operand(n), _) => format!("operand {n}"),
        (Row::Const(_), _) => "constant".into(),
        (Row::Index(_), _) => "index".into(),
        (Row::Unary(function, _), _) => function.name().into(),
        (Row::Binary(function, ..), _) => format!("{function:?}").to_lowercase(),
        (Row::Select(..), _) => "select".into(),
        (Row::Cast(from), to) => format!("cast {} to {to}", map.dtype_of(from)),
    }
}

/// Which pending operands a row reads. Partials of one operand stand in a row, so that any two rows of it go together;
/// of two operands they need not lie in the same partial.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    None,
    One(usize),
    /// One of several, which one the finished operands say.
    EitherOf,
    Both,
}

impl Reads {
    /// Of a row that takes both of two.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, reads) | (reads, Self::None) => reads,
            (Self::One(a), Self::One(b)) if a == b => self,
            (Self::One(_) | Self::EitherOf | Self::Both, Self::One(_) | Self::EitherOf | Self::Both) => Self::Both,
        }
    }

    /// Of a row that takes one of two.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, reads) | (reads, Self::None) => reads,
            (Self::Both, _) | (_, Self::Both) => Self::Both,
            (Self::One(a), Self::One(b)) if a == b => self,
            (Self::One(_) | Self::EitherOf, Self::One(_) | Self::EitherOf) => Self::EitherOf,
        }
    }
}

/// What a rule knows of every row of a map, in order: `of` gives it for one row, or why there is nothing to say. A row
/// over one that is refused is refused for the same reason; the answer is that of the last row.
fn walk<K: Copy>(map: &Expr, of: impl Fn(RowId, &dyn Fn(RowId) -> K) -> Result<K, String>) -> Result<K, Refusal> {
    let mut known: Vec<Result<K, Refusal>> = Vec::with_capacity(map.rows().len());
    for (this, &(row, _)) in map.rows().iter().enumerate() {
        let refused = arguments(row).into_iter().flatten().find_map(|a| known[a].as_ref().err().cloned());
        known.push(match refused {
            Some(refusal) => Err(refusal),
            None => of(this, &|a| *known[a].as_ref().expect("an argument that is not refused")).map_err(|why| {
                let function = function_of(map, this);
                Refusal { row: Some(this), function, why }
            }),
        });
    }
    known.pop().expect("an expression has a row")
}

fn arguments(row: Row) -> [Option<RowId>; 3] {
    match row {
        Row::Operand(_) | Row::Const(_) | Row::Index(_) => [None; 3],
        Row::Unary(_, a) | Row::Cast(a) => [Some(a), None, None],
        Row::Binary(_, a, b) => [Some(a), Some(b), None],
        Row::Select(a, b, c) => [Some(a), Some(b), Some(c)],
    }
}

/// Whether every value of a float type is one of another.
fn widens(from: DType, to: DType) -> bool {
    match from {
        DType::BF16 | DType::F16 => matches!(to, DType::F32 | DType::F64),
        DType::F32 => to == DType::F64,
        DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => false,
    }
}

/// Whether a row of unsigned integers is its own size.
fn is_unsigned(dtype: DType) -> bool {
    match dtype {
        DType::U8 | DType::Bool => true,
        DType::F64 | DType::F32 | DType::BF16 | DType::F16 | DType::I64 | DType::I32 => false,
    }
}
