//! `Max`, `Min` and `Top`: maps that never fall.
//!
//! Such a map of the largest is the largest of the maps. NaN wins over anything, so that the map must give NaN for
//! NaN, and for nothing else that may lose: the logarithm of a maximum is refused where a partial may be negative.

use super::{Answer, Reads, is_unsigned, walk, whole};
use crate::dtype::DType;
use crate::expr::{Binary, Expr, Row, RowId, Unary};
use crate::monoid::{Monoid, Top};
use crate::scalar::{literal, round};

/// How a row follows the partials, finished operands held fixed.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Not at all.
    Flat,
    /// It commutes with the monoid.
    Rising,
    /// Its negative does.
    Falling,
}

/// What is known of a row.
#[derive(Clone, Copy)]
struct Curve {
    way: Way,
    reads: Reads,
    /// Whether it is monotone to the last bit, and for any value of finished operands.
    exact: bool,
    /// Between which values it lies when it is not NaN.
    range: (f64, f64),
    /// The value of a constant.
    constant: Option<f64>,
}

use Way::{Falling, Flat, Rising};

const ANYTHING: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
const WRAPS: &str = "wraps around, so that a larger integer may give a smaller one";
const BENDS: &str = "neither rises nor falls everywhere";

/// Whether `map` never falls.
pub(super) fn answer(monoid: Monoid, map: &Expr, pending: &[usize]) -> Answer {
    match walk(map, |this, curve| rule(monoid, map, pending, this, curve)) {
        Ok(Curve { way: Rising | Flat, exact, .. }) => Answer::of(exact),
        Ok(Curve { way: Falling, .. }) => {
            let other = if monoid == Monoid::Min { "largest" } else { "smallest" };
            whole("the map".into(), format!("falls: it needs the {other} of the partials, not their {}", monoid.name()))
        }
        Err(refusal) => Answer::No(refusal),
    }
}

/// Whether `map` never falls and is the same for every entry of a sorted order, in which merging moves entries about.
pub(super) fn at_every_place(top: Top, map: &Expr, pending: &[usize]) -> Answer {
    let refuse = |why: &str| whole("the map".into(), why.into());
    if top.indices {
        return refuse("is one of indices, by which equal elements are put in order");
    }
    if map.dtype() != top.of {
        return refuse("changes the type by which elements are put in order");
    }
    let differs = |row: &Row| match row {
        Row::Operand(n) => !pending.contains(n),
        Row::Index(_) => true,
        Row::Const(_) | Row::Unary(..) | Row::Binary(..) | Row::Select(..) | Row::Cast(_) => false,
    };
    if map.rows().iter().any(|(row, _)| differs(row)) {
        return refuse("differs from place to place in the order, and merging moves elements from place to place");
    }
    let mut operands = map.rows().iter().filter_map(|r| if let Row::Operand(n) = r.0 { Some(n) } else { None });
    let first = operands.next();
    if operands.any(|n| Some(n) != first) {
        return refuse("reads two pending operands, whose orders differ");
    }
    // Whether the largest or the smallest come first, NaN is larger than anything.
    answer(Monoid::Max, map, pending)
}

fn rule(
    monoid: Monoid,
    map: &Expr,
    pending: &[usize],
    this: RowId,
    curve: &dyn Fn(RowId) -> Curve,
) -> Result<Curve, String> {
    let (row, dtype) = map.rows()[this];
    let flat = |range| Curve { way: Flat, reads: Reads::None, exact: true, range, constant: None };
    match row {
        Row::Operand(n) if pending.contains(&n) => {
            Ok(Curve { way: Rising, reads: Reads::One(n), ..flat(range_of(dtype)) })
        }
        Row::Operand(_) => Ok(flat(range_of(dtype))),
        Row::Index(_) => Ok(flat((0.0, f64::INFINITY))),
        Row::Const(value) => {
            let value = literal(value, dtype).to_f64();
            let range = if value.is_nan() { ANYTHING } else { (value, value) };
            Ok(Curve { constant: Some(value), ..flat(range) })
        }
        Row::Unary(function, a) => {
            let a = curve(a);
            let range = image(function, a.range, dtype);
            if a.way == Flat {
                return Ok(flat(range));
            }
            let (way, exact) = unary(monoid, function, a, dtype)?;
            Ok(Curve { way: after(way, a.way), exact: exact && a.exact, range, constant: None, ..a })
        }
        Row::Binary(function, a, b) => binary(monoid, function, curve(a), curve(b), map.dtype_of(a)),
        Row::Select(condition, a, b) => {
            if curve(condition).way != Flat {
                return Err("chooses by what is pending".into());
            }
            let (a, b) = (curve(a), curve(b));
            let way = together(a.way, b.way).ok_or("rises in one case and falls in the other")?;
            let reads = a.reads.or(b.reads);
            let range = (a.range.0.min(b.range.0), a.range.1.max(b.range.1));
            Ok(Curve { way, reads, exact: a.exact && b.exact, range, constant: None })
        }
        Row::Cast(a) => cast(monoid, curve(a), map.dtype_of(a), dtype),
    }
}

/// The values of a type.
fn range_of(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F64 | DType::F32 | DType::BF16 | DType::F16 | DType::I64 | DType::I32 => ANYTHING,
        DType::U8 => (0.0, 255.0),
        DType::Bool => (0.0, 1.0),
    }
}

fn turned(way: Way) -> Way {
    match way {
        Flat => Flat,
        Rising => Falling,
        Falling => Rising,
    }
}

/// The way of a function that goes `outer` over a row that goes `inner`.
fn after(outer: Way, inner: Way) -> Way {
    match outer {
        Flat => Flat,
        Rising => inner,
        Falling => turned(inner),
    }
}

/// The way of a row that rises with each of two.
fn together(a: Way, b: Way) -> Option<Way> {
    match (a, b) {
        (Flat, way) | (way, Flat) => Some(way),
        _ => (a == b).then_some(a),
    }
}

/// How a function goes over what is known of its argument, and whether to the last bit.
///
/// Where a function is NaN of what lies on one side of a bound, that is right if the fold goes to that side: NaN wins,
/// and the map of the fold is NaN just when the map of one of the partials is.
fn unary(monoid: Monoid, function: Unary, x: Curve, dtype: DType) -> Result<(Way, bool), String> {
    let (lo, hi) = x.range;
    let goes_down = (monoid == Monoid::Min) == (x.way == Rising);
    let inside = |from: f64, to: f64, way: Way, exact: bool| {
        if lo < from && !goes_down {
            return Err(format!("is NaN below {from}, and the partial that is kept may be above"));
        }
        if hi > to && goes_down {
            return Err(format!("is NaN above {to}, and the partial that is kept may be below"));
        }
        Ok((way, exact))
    };
    match function {
        Unary::Exp | Unary::Exp2 | Unary::Expm1 | Unary::Sinh | Unary::Tanh | Unary::Asinh | Unary::Atan => {
            Ok((Rising, false))
        }
        Unary::Erf | Unary::Sigmoid => Ok((Rising, false)),
        Unary::Erfc => Ok((Falling, false)),
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => Ok((Rising, true)),
        Unary::Sqrt => inside(0.0, f64::INFINITY, Rising, true),
        Unary::Log | Unary::Log2 | Unary::Log10 => inside(0.0, f64::INFINITY, Rising, false),
        Unary::Log1p => inside(-1.0, f64::INFINITY, Rising, false),
        Unary::Acosh => inside(1.0, f64::INFINITY, Rising, false),
        Unary::Asin | Unary::Atanh | Unary::Erfinv => inside(-1.0, 1.0, Rising, false),
        Unary::Acos => inside(-1.0, 1.0, Falling, false),
        // Of zeros of both signs it is infinite with both signs.
        Unary::Rsqrt if lo > 0.0 => Ok((Falling, false)),
        Unary::Rsqrt => Err("is NaN or infinite of what is not positive".into()),
        Unary::Abs | Unary::Cosh if lo >= 0.0 => Ok((Rising, function == Unary::Abs)),
        // The least integer has no opposite.
        Unary::Abs | Unary::Cosh if hi <= 0.0 && dtype.is_float() => Ok((Falling, function == Unary::Abs)),
        Unary::Neg if !dtype.is_float() => Err(WRAPS.into()),
        Unary::Neg | Unary::Not => Ok((Falling, true)),
        Unary::Abs | Unary::Cosh | Unary::Sin | Unary::Cos | Unary::Tan => Err(BENDS.into()),
    }
}

/// Between which values a function lies over a range.
fn image(function: Unary, (lo, hi): (f64, f64), dtype: DType) -> (f64, f64) {
    if !dtype.is_float() {
        return range_of(dtype);
    }
    match function {
        Unary::Exp | Unary::Exp2 | Unary::Sqrt | Unary::Rsqrt | Unary::Acosh => (0.0, f64::INFINITY),
        Unary::Cosh => (1.0, f64::INFINITY),
        Unary::Sigmoid => (0.0, 1.0),
        Unary::Tanh | Unary::Erf => (if lo >= 0.0 { 0.0 } else { -1.0 }, if hi <= 0.0 { 0.0 } else { 1.0 }),
        Unary::Sin | Unary::Cos => (-1.0, 1.0),
        Unary::Erfc => (0.0, 2.0),
        Unary::Abs => (if lo >= 0.0 { lo } else { 0.0 }, lo.abs().max(hi.abs())),
        Unary::Neg => (-hi, -lo),
        Unary::Log | Unary::Log2 | Unary::Log10 if lo >= 1.0 => (0.0, f64::INFINITY),
        Unary::Log1p | Unary::Asinh | Unary::Sinh | Unary::Atan if lo >= 0.0 => (0.0, f64::INFINITY),
        Unary::Expm1 => (if lo >= 0.0 { 0.0 } else { -1.0 }, f64::INFINITY),
        Unary::Floor => (round(lo.floor(), dtype), round(hi.floor(), dtype)),
        Unary::Ceil => (round(lo.ceil(), dtype), round(hi.ceil(), dtype)),
        Unary::Round => (round(lo.round_ties_even(), dtype), round(hi.round_ties_even(), dtype)),
        Unary::Trunc => (round(lo.trunc(), dtype), round(hi.trunc(), dtype)),
        Unary::Log
        | Unary::Log2
        | Unary::Log10
        | Unary::Log1p
        | Unary::Tan
        | Unary::Asin
        | Unary::Acos
        | Unary::Atan
        | Unary::Sinh
        | Unary::Asinh
        | Unary::Atanh
        | Unary::Erfinv
        | Unary::Not => ANYTHING,
    }
}

/// A function of two rows of type `dtype`.
fn binary(monoid: Monoid, function: Binary, a: Curve, b: Curve, dtype: DType) -> Result<Curve, String> {
    let range = joint(function, a.range, b.range, dtype);
    let made = |way, exact| {
        Ok(Curve { way, reads: a.reads.and(b.reads), exact: exact && a.exact && b.exact, range, constant: None })
    };
    let disagree = "rises with one side and falls with the other";
    let both = a.way != Flat && b.way != Flat;
    // Rows of one operand go up and down together.
    let one = matches!(a.reads, Reads::One(_)) && a.reads == b.reads;
    let float = dtype.is_float();
    if a.way == Flat && b.way == Flat {
        return made(Flat, true);
    }
    match function {
        Binary::Max | Binary::Min | Binary::And | Binary::Or => {
            let way = together(a.way, b.way).ok_or(disagree)?;
            if both && !one {
                let larger = matches!(function, Binary::Max | Binary::Or);
                if (larger == (monoid == Monoid::Max)) != (way == Rising) {
                    return Err(format!("takes the {} of two that are pending, each from a partial of its own", {
                        if larger { "larger" } else { "smaller" }
                    }));
                }
                return made(way, true);
            }
            made(way, true)
        }
        Binary::Add | Binary::Sub if float => {
            let b_way = if function == Binary::Sub { turned(b.way) } else { b.way };
            let way = together(a.way, b_way).ok_or(disagree)?;
            if both && !one {
                return Err("adds two that are pending: their largest need not lie in one partial".into());
            }
            let constant = if a.way == Flat { a.constant } else { b.constant };
            if constant.is_some_and(|c| !c.is_finite()) {
                return Err("is NaN of an infinite partial of the other sign".into());
            }
            made(way, constant.is_some())
        }
        Binary::Mul | Binary::Div if float && !both && (b.way == Flat || function == Binary::Mul) => {
            let (way, factor) = if b.way == Flat { (a.way, b.constant) } else { (b.way, a.constant) };
            let factor = factor.ok_or("turns a maximum into a minimum where the factor is negative")?;
            if !factor.is_finite() || factor == 0.0 {
                return Err("is NaN of an infinite partial or of 0".into());
            }
            made(if factor > 0.0 { way } else { turned(way) }, true)
        }
        // What is divided by is of one sign, and not 0.
        Binary::Div if float && a.way == Flat && (b.range.0 > 0.0 || b.range.1 < 0.0) => match a.constant {
            Some(c) if c.is_finite() && c != 0.0 => made(if c > 0.0 { turned(b.way) } else { b.way }, true),
            _ => Err("turns a maximum into a minimum where what is divided is positive".into()),
        },
        // A quotient by 0 is 0; the least integer by -1 wraps around.
        Binary::Div if !float && b.way == Flat => match b.range {
            (lo, _) if lo >= 0.0 => made(a.way, true),
            _ => Err("turns a maximum into a minimum where the divisor is negative".into()),
        },
        Binary::Shr if b.way == Flat => made(a.way, true),
        Binary::Lt | Binary::Le => {
            let way = together(turned(a.way), b.way).ok_or(disagree)?;
            if both && !one {
                return Err("compares two that are pending, each from a partial of its own".into());
            }
            // Of NaN it is false, which wins where all have to be true.
            if float && (monoid == Monoid::Min) != (way == Rising) {
                return Err("is false of NaN, which the fold passes on, and may be true of what is not kept".into());
            }
            made(way, true)
        }
        Binary::Add | Binary::Sub | Binary::Mul | Binary::Shl if !float => Err(WRAPS.into()),
        Binary::Add
        | Binary::Sub
        | Binary::Mul
        | Binary::Div
        | Binary::Rem
        | Binary::Fmod
        | Binary::Pow
        | Binary::Atan2
        | Binary::Copysign
        | Binary::Eq
        | Binary::Ne
        | Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::Shl
        | Binary::Shr => Err(BENDS.into()),
    }
}

/// Between which values a function of two lies.
fn joint(function: Binary, a: (f64, f64), b: (f64, f64), dtype: DType) -> (f64, f64) {
    match function {
        Binary::Max => (a.0.max(b.0), a.1.max(b.1)),
        Binary::Min => (a.0.min(b.0), a.1.min(b.1)),
        Binary::Add if dtype.is_float() => {
            let bound = |x: f64, y: f64, none: f64| if (x + y).is_nan() { none } else { round(x + y, dtype) };
            (bound(a.0, b.0, ANYTHING.0), bound(a.1, b.1, ANYTHING.1))
        }
        Binary::Mul | Binary::Div if dtype.is_float() && a.0 >= 0.0 && b.0 >= 0.0 => (0.0, f64::INFINITY),
        Binary::Lt | Binary::Le | Binary::Eq | Binary::Ne | Binary::And | Binary::Or => (0.0, 1.0),
        Binary::Add
        | Binary::Sub
        | Binary::Mul
        | Binary::Div
        | Binary::Rem
        | Binary::Fmod
        | Binary::Pow
        | Binary::Atan2
        | Binary::Copysign
        | Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::Shl
        | Binary::Shr => range_of(dtype),
    }
}

/// A conversion: rounding keeps the order, wrapping does not, and a NaN that becomes a number is lost.
fn cast(monoid: Monoid, a: Curve, from: DType, to: DType) -> Result<Curve, String> {
    let range = match (from.is_float(), to.is_float()) {
        (_, true) => (round(a.range.0, to), round(a.range.1, to)),
        (false, false) if is_unsigned(from) && !is_unsigned(to) => a.range,
        (_, false) => range_of(to),
    };
    let constant = a.constant.filter(|_| to.is_float()).map(|c| round(c, to));
    if a.way == Flat {
        return Ok(Curve { range, constant, ..a });
    }
    let keeps = match from {
        // NaN becomes 0, which wins where it is the smallest there is.
        DType::F64 | DType::F32 | DType::BF16 | DType::F16 if to == DType::U8 => {
            (monoid == Monoid::Min) == (a.way == Rising)
        }
        DType::F64 | DType::F32 | DType::BF16 | DType::F16 | DType::I64 => to.is_float(),
        DType::I32 => to.is_float() || to == DType::I64,
        DType::U8 | DType::Bool => true,
    };
    if keeps {
        return Ok(Curve { range, constant: None, ..a });
    }
    Err(if from.is_float() { "makes a number of NaN, which the fold passes on".into() } else { WRAPS.to_string() })
}
