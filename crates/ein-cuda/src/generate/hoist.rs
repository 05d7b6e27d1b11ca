//! Costly parts of an expression that do not change along every label: computed once for each value of the labels that
//! they depend on, into scratch memory, and read from there by all others.
//!
//! The angles of a rotation depend on position and feature, not on batch and head: computed at every point, sines and
//! cosines would take longer than memory does.

use super::body::{Body, Memory, Operand};
use super::map::{self, Target, map};
use super::stored::Stored;
use crate::program::{Base, Program};
use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Row, Unary};
use ein_ir::region::{Region, strides};
use ein_run::Cause;

/// A value must be read this often, or it is not worth its kernel.
const USES: usize = 8;

/// Nor is it where there are fewer points than this: a kernel more takes as long as a hundred instructions for each.
const POINTS: usize = 1 << 20;

/// Adds the steps that store the value of a map at every point of the result.
pub(crate) fn push(program: &mut Program, body: &Body, result: &Stored) -> Result<(), Cause> {
    let body = hoisted(body.clone(), program)?;
    program.steps.extend(map(&body, result)?);
    Ok(())
}

/// The body with its costly parts in tables, whose steps are added.
fn hoisted(mut body: Body, program: &mut Program) -> Result<Body, Cause> {
    let tables = found(&body);
    if tables.is_empty() {
        return Ok(body);
    }
    for (row, labels) in tables {
        let table = part(&body, row, &labels);
        let shape = table.labels.shape();
        let own: Vec<i64> = strides(&shape).into_iter().map(|s| s as i64).collect();
        let dtype = body.rows[row].1;
        let at = program.scratch.next_multiple_of(256);
        program.scratch = at + (table.labels.volume() * dtype.bytes()) as u64;
        let place = Base::Scratch.at(at);
        program.steps.extend(map::to(&table, &Target { place, dtype, steps: own.clone() })?);
        let mut steps = vec![0; body.labels.rank()];
        labels.iter().zip(own).for_each(|(&l, step)| steps[l] = step);
        body.operands.push(Operand::Memory(Memory { place, dtype, steps }));
        body.rows[row] = (Row::Operand(body.operands.len() - 1), dtype);
    }
    let all: Vec<usize> = (0..body.labels.rank()).collect();
    Ok(part(&body, body.value, &all))
}

/// The rows that are to be tables, ascending, with the labels that each depends on.
fn found(body: &Body) -> Vec<(usize, Vec<usize>)> {
    let extents = body.labels.shape();
    let total = body.labels.volume();
    if total < POINTS {
        return Vec::new();
    }
    let rank = extents.len();
    let mut depends: Vec<Vec<bool>> = Vec::new();
    let mut dear: Vec<bool> = Vec::new();
    for (row, dtype) in &body.rows {
        let own = |l: usize| match row {
            Row::Operand(k) => match &body.operands[*k] {
                Operand::Memory(m) => m.steps[l] != 0 && extents[l] > 1,
                Operand::Given(_) => true,
            },
            Row::Index(label) => *label == l && extents[l] > 1,
            Row::Const(_) | Row::Unary(..) | Row::Binary(..) | Row::Select(..) | Row::Cast(_) => {
                row.arguments().iter().any(|&a| depends[a][l])
            }
        };
        let labels = (0..rank).map(own).collect();
        dear.push(costs(row, *dtype) || row.arguments().iter().any(|&a| dear[a]));
        depends.push(labels);
    }
    let labels = |row: usize| (0..rank).filter(|&l| depends[row][l]).collect::<Vec<usize>>();
    let worth = |row: usize| {
        let labels = labels(row);
        let points: usize = labels.iter().map(|&l| extents[l]).product();
        dear[row] && !labels.is_empty() && points * USES <= total
    };
    let worth: Vec<bool> = (0..body.rows.len()).map(worth).collect();
    // Of what is worth a table, that which something else reads.
    let read = |row: usize| {
        let by = |user: usize| !worth[user] && body.rows[user].0.arguments().contains(&row);
        row == body.value || (row..body.rows.len()).any(by)
    };
    (0..body.rows.len()).filter(|&row| worth[row] && read(row)).map(|row| (row, labels(row))).collect()
}

/// Whether a function takes so many instructions that memory waits for it.
fn costs(row: &Row, dtype: DType) -> bool {
    match row {
        Row::Unary(function, _) => match function {
            Unary::Exp
            | Unary::Exp2
            | Unary::Expm1
            | Unary::Log
            | Unary::Log2
            | Unary::Log10
            | Unary::Log1p
            | Unary::Sigmoid
            | Unary::Tanh
            | Unary::Sqrt
            | Unary::Rsqrt
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::Trunc
            | Unary::Neg
            | Unary::Abs
            | Unary::Not => false,
            Unary::Sin
            | Unary::Cos
            | Unary::Tan
            | Unary::Asin
            | Unary::Acos
            | Unary::Atan
            | Unary::Sinh
            | Unary::Cosh
            | Unary::Asinh
            | Unary::Acosh
            | Unary::Atanh
            | Unary::Erf
            | Unary::Erfc
            | Unary::Erfinv => true,
        },
        Row::Binary(function, ..) => dtype.is_float() && matches!(function, Binary::Pow | Binary::Atan2),
        Row::Operand(_) | Row::Const(_) | Row::Index(_) | Row::Select(..) | Row::Cast(_) => false,
    }
}

/// The part of a body that a row is, over the labels that it depends on, with the operands that it reads.
fn part(body: &Body, row: usize, labels: &[usize]) -> Body {
    let mut needed = vec![false; body.rows.len()];
    needed[row] = true;
    for n in (0..=row).rev() {
        if needed[n] {
            body.rows[n].0.arguments().into_iter().for_each(|a| needed[a] = true);
        }
    }
    let mut part = Body {
        rows: Vec::new(),
        value: 0,
        operands: Vec::new(),
        labels: Region(labels.iter().map(|&l| body.labels.0[l]).collect()),
    };
    let mut places = vec![0; body.rows.len()];
    for n in (0..=row).filter(|&n| needed[n]) {
        let (own, dtype) = body.rows[n];
        let at = |r: usize| places[r];
        let own = match own {
            Row::Operand(k) => {
                let operand = match &body.operands[k] {
                    Operand::Memory(m) => {
                        Operand::Memory(Memory { steps: labels.iter().map(|&l| m.steps[l]).collect(), ..m.clone() })
                    }
                    given @ Operand::Given(_) => given.clone(),
                };
                let known = part.operands.iter().position(|o| *o == operand);
                Row::Operand(known.unwrap_or_else(|| {
                    part.operands.push(operand);
                    part.operands.len() - 1
                }))
            }
            // An index that does not vary is that of the block's first point.
            Row::Index(l) => match labels.iter().position(|&own| own == l) {
                Some(place) => Row::Index(place),
                None => Row::Const(ein_ir::expr::Literal::Int(body.labels.0[l].lo as i64)),
            },
            Row::Const(_) => own,
            Row::Unary(function, x) => Row::Unary(function, at(x)),
            Row::Binary(function, a, b) => Row::Binary(function, at(a), at(b)),
            Row::Select(c, yes, no) => Row::Select(at(c), at(yes), at(no)),
            Row::Cast(x) => Row::Cast(at(x)),
        };
        part.rows.push((own, dtype));
        places[n] = part.rows.len() - 1;
    }
    part.value = part.rows.len() - 1;
    part
}
