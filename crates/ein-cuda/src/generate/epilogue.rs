//! Which maps of a product the library of products does as it stores it.
//!
//! It adds a matrix of the result's extents and a vector along the columns, and then applies the Gaussian error linear
//! unit by its hyperbolic tangent. A product, a bias, an activation and a residual are one launch then: what is between
//! them is neither written nor read, which would be two or three times the bytes of the result.

use super::body::{Body, Memory, Operand};
use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Literal, Row, Unary};
use ein_ir::scalar::{self, Scalar};
use std::f64::consts::PI;

/// A map that an epilogue may be: `f(given + the terms)`.
pub(super) struct Sum<'a> {
    /// What is added besides, in memory and of the type of the sum.
    pub(super) terms: Vec<&'a Memory>,
    /// Whether `f` is the Gaussian error linear unit by its hyperbolic tangent, rather than nothing.
    pub(super) gelu: bool,
}

/// What a map of the given first element is, if it is a sum and perhaps the activation of it, all in one type.
pub(super) fn sum(body: &Body) -> Option<Sum<'_>> {
    let dtype = body.dtype();
    let found = |row: usize| terms(body, row, dtype).filter(|t| t.given == 1);
    if let Some(all) = found(body.value) {
        return Some(Sum { terms: all.terms, gelu: false });
    }
    // The outermost sum that all of the value goes through.
    let (row, all) = (0..body.rows.len()).rev().find_map(|row| Some((row, found(row)?)))?;
    is_gelu(body, row).then_some(Sum { terms: all.terms, gelu: true })
}

struct Terms<'a> {
    /// How often the given element is among them.
    given: usize,
    terms: Vec<&'a Memory>,
}

/// The terms of a sum in `dtype`.
fn terms(body: &Body, row: usize, dtype: DType) -> Option<Terms<'_>> {
    match body.rows[row] {
        (_, own) if own != dtype => None,
        (Row::Operand(k), _) => match &body.operands[k] {
            Operand::Given(0) => Some(Terms { given: 1, terms: Vec::new() }),
            Operand::Given(_) => None,
            Operand::Memory(m) => Some(Terms { given: 0, terms: vec![m] }),
        },
        (Row::Binary(Binary::Add, a, b), _) => {
            let (mut all, more) = (terms(body, a, dtype)?, terms(body, b, dtype)?);
            all.given += more.given;
            all.terms.extend(more.terms);
            Some(all)
        }
        (Row::Const(_) | Row::Index(_) | Row::Unary(..) | Row::Binary(..) | Row::Select(..) | Row::Cast(_), _) => None,
    }
}

/// Whether the value is the Gaussian error linear unit, by its hyperbolic tangent, of row `of`, and depends on nothing
/// else. There are many ways to write it, so it is compared at points: what is made of these functions alone and agrees
/// there is that function. The one by the error function is some 1e-4 away.
fn is_gelu(body: &Body, of: usize) -> bool {
    let exact = |x: f64| 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh());
    (-40..=40).all(|n| {
        let x = f64::from(n) * 0.147;
        at(body, of, x).is_some_and(|v| (v - exact(x)).abs() <= 1e-6 * (1.0 + x.abs()))
    })
}

/// The value, in f64, where row `of` is `x`; none where it depends on something else or on other functions.
fn at(body: &Body, of: usize, x: f64) -> Option<f64> {
    let mut values: Vec<Option<f64>> = Vec::new();
    for (n, (row, dtype)) in body.rows.iter().enumerate() {
        let v = |r: usize| values[r];
        if n == of || *row == body.rows[of].0 {
            values.push(Some(x));
            continue;
        }
        let value = match *row {
            Row::Const(Literal::Float(bits)) => Some(f64::from_bits(bits)),
            Row::Const(Literal::Int(v)) => Some(v as f64),
            Row::Cast(x) if dtype.is_float() => v(x),
            Row::Unary(function, x) => match function {
                Unary::Tanh | Unary::Exp | Unary::Exp2 | Unary::Sigmoid | Unary::Neg => {
                    v(x).map(|x| scalar::unary(function, Scalar::F(x), DType::F64).to_f64())
                }
                _ => None,
            },
            Row::Binary(function, a, b) => match function {
                Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Pow => {
                    let both = v(a).zip(v(b));
                    both.map(|(a, b)| scalar::binary(function, Scalar::F(a), Scalar::F(b), DType::F64).to_f64())
                }
                _ => None,
            },
            Row::Operand(_) | Row::Index(_) | Row::Select(..) | Row::Cast(_) => None,
        };
        values.push(value);
    }
    values[body.value]
}
