//! The text form of a graph: what people write, what bug reports carry, what tests compare.
//!
//! ```
//! let text = "\
//! x: input f32[8, 16]
//! w: param f32[16, 4]
//! y = einsum f32 (i: 8, j: 4 | k: 16) sum x[i, k] * w[k, j]
//! z = einsum f32 (i: 8, j: 4) map max(y[i, j], 0.0) * cast<f32>(index(j))
//! v = reshape z [32]
//! return out = v
//! ";
//! let graph = ein_ir::text::parse(text).unwrap();
//! assert_eq!(ein_ir::text::print(&graph), text);
//! ```
//!
//! [`parse`] of what [`print()`] gives is the same graph, row for row. (The one exception is a graph whose
//! sizes do not fit: an element count or an index beyond 2⁵⁶ is refused.)
//!
//! `docs/language.md` teaches the language.
//!
//! # Grammar
//!
#![doc = concat!("```text\n", include_str!("text/grammar.ebnf"), "```")]
//!
//! * Any text may be a name in quotes. `return`, `let`, `of`, `true`, `false`, `inf`, `nan`, `bits` need them.
//! * Reads of one tensor at equal indices are one operand; operands are numbered as they first occur. `of`
//!   lists them instead, and `$n` is then operand `n`: for operands that are not read, or twice the same.
//! * A value pushes its rows of the expression in the order of evaluation, left to right and inside out. `let`
//!   names a row, so that it can be used more than once.
//! * A float without a type has the einsum's type if that is a float, else `f32`; an integer is an `i64`.
//!   `bits(…)` is a float by the bits of its `f64`, for a NaN that is not *the* NaN.
//! * `x[]` reads a scalar. A scale that is not given is one over the root of the query's size.

#[cfg(test)]
mod error_tests;
mod format;
#[cfg(test)]
mod fuzz_tests;
#[cfg(test)]
mod grammar_tests;
mod lexer;
mod nearest;
mod parse;
mod print;
#[cfg(test)]
mod random_graphs;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::expr::Binary;
use crate::graph::GraphError;

pub use format::format;
pub use parse::parse;
pub use print::print;

/// Why a text is not a graph, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1. For a graph error, the line of the statement.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong and what would work.
    pub message: String,
    /// The text of the line.
    pub source_line: String,
    /// The graph's own reason, when the text was understood but the graph refused the row.
    pub refused: Option<GraphError>,
}

/// Characters of a line that a message shows.
const SHOWN: usize = 160;

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // Of a very long line, what stands around the fault.
        let column = self.column.saturating_sub(1);
        let skipped = column.saturating_sub(SHOWN / 2);
        let mut shown: String = self.source_line.chars().skip(skipped).take(SHOWN).collect();
        let cut = self.source_line.chars().nth(skipped + SHOWN).is_some();
        if skipped > 0 {
            shown = shown.chars().skip(1).collect();
            shown.insert(0, '…');
        }
        if cut {
            shown.push('…');
        }
        // Tabs are kept in front of the caret, so that it stands right however wide they are shown.
        let before = shown.chars().take(column - skipped);
        let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        writeln!(f, "line {number}, column {}: {}", self.column, self.message)?;
        writeln!(f, "{number} | {shown}")?;
        write!(f, "{margin} | {indent}^")
    }
}

impl std::error::Error for ParseError {}

/// How a function of two arguments is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// Between its arguments; a higher level binds tighter.
    Infix(&'static str, u8),
    /// As a call.
    Call(&'static str),
}

/// The level of comparisons, which do not chain.
const COMPARISON: u8 = 3;
/// The level of a sign.
const SIGN: u8 = 10;
/// The level of what needs no parentheses anywhere.
const PRIMARY: u8 = 11;

fn notation(function: Binary) -> Notation {
    match function {
        Binary::Or => Notation::Infix("||", 1),
        Binary::And => Notation::Infix("&&", 2),
        Binary::Lt => Notation::Infix("<", COMPARISON),
        Binary::Le => Notation::Infix("<=", COMPARISON),
        Binary::Eq => Notation::Infix("==", COMPARISON),
        Binary::Ne => Notation::Infix("!=", COMPARISON),
        Binary::BitOr => Notation::Infix("|", 4),
        Binary::BitXor => Notation::Infix("^", 5),
        Binary::BitAnd => Notation::Infix("&", 6),
        Binary::Shl => Notation::Infix("<<", 7),
        Binary::Shr => Notation::Infix(">>", 7),
        Binary::Add => Notation::Infix("+", 8),
        Binary::Sub => Notation::Infix("-", 8),
        Binary::Mul => Notation::Infix("*", 9),
        Binary::Div => Notation::Infix("/", 9),
        Binary::Rem => Notation::Infix("%", 9),
        Binary::Fmod => Notation::Call("fmod"),
        Binary::Max => Notation::Call("max"),
        Binary::Min => Notation::Call("min"),
        Binary::Pow => Notation::Call("pow"),
        Binary::Atan2 => Notation::Call("atan2"),
        Binary::Copysign => Notation::Call("copysign"),
    }
}

/// The grammar, in EBNF.
pub const GRAMMAR: &str = include_str!("text/grammar.ebnf");

/// Words that a name can only be in quotes.
const RESERVED: [&str; 8] = ["return", "let", "of", "true", "false", "inf", "nan", "bits"];
