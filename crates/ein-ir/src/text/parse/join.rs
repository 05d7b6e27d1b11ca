//! From text to a join: an expression and the operands it reads.

use std::collections::BTreeMap;

use super::elsewhere;
use super::{Parser, Wrong, bounded};
use crate::dtype::DType;
use crate::einsum::{Access, Affine, Label};
use crate::expr::{Binary, Expr, ExprError, Literal, Row, RowId, Unary};
use crate::graph::TensorId;
use crate::text::lexer::Kind;
use crate::text::nearest::{hint, hint_or};
use crate::text::print::default_float;
use crate::text::{COMPARISON, Notation, SIGN, notation};

/// What a join reads and does.
pub(super) struct Join {
    pub inputs: Vec<TensorId>,
    pub accesses: Vec<Access>,
    pub expr: Expr,
}

/// How a conversion is written.
const CAST: &str = "`cast` takes a type and a value, as in `cast<f32>(x[i])`";

/// Brackets and signs nested deeper are refused, so that no text exhausts the stack.
const NESTING: usize = 64;

struct Scope<'p> {
    labels: &'p [Label],
    einsum: DType,
    /// Whether operands are listed, and so not numbered as they are read.
    listed: bool,
    /// Whether tensors stand alone, without indices.
    bare: bool,
    lets: BTreeMap<String, RowId>,
    join: Join,
    depth: usize,
}

impl<'p> Scope<'p> {
    fn new(labels: &'p [Label], einsum: DType, bare: bool) -> Self {
        let join = Join { inputs: vec![], accesses: vec![], expr: Expr::new() };
        Self { labels, einsum, listed: false, bare, lets: BTreeMap::new(), join, depth: 0 }
    }
}

impl Parser {
    /// `value` or `{ of …; let …; value }`; `bare` where tensors stand alone.
    pub(super) fn join(&mut self, labels: &[Label], einsum: DType, bare: bool) -> Result<Join, Wrong> {
        let mut scope = Scope::new(labels, einsum, bare);
        let block = self.takes("{");
        if block {
            self.bindings(&mut scope)?;
        }
        let at = self.here();
        let value = self.value(&mut scope)?;
        if block {
            self.sign("}")?;
        }
        if value + 1 != scope.join.expr.rows().len() {
            return Err(Wrong::new(at, "the value is named before rows that it does not use; leave those out"));
        }
        Ok(scope.join)
    }

    fn bindings(&mut self, scope: &mut Scope) -> Result<(), Wrong> {
        if !scope.bare && self.takes_word("of") {
            scope.listed = true;
            loop {
                let tensor = self.operand()?;
                let (access, places) = self.access(scope.labels)?;
                self.places.axes.push(places);
                scope.join.inputs.push(tensor);
                scope.join.accesses.push(access);
                if self.takes(";") {
                    break;
                }
                if !self.takes(",") {
                    return self.expected("`,` or `;`");
                }
            }
        }
        while self.takes_word("let") {
            let at = self.here();
            let name = self.name("a name")?;
            self.sign("=")?;
            let row = self.value(scope)?;
            self.sign(";")?;
            if scope.lets.insert(name.clone(), row).is_some() {
                return Err(Wrong::new(at, format!("`{name}` is named twice")));
            }
        }
        Ok(())
    }

    /// The indices in brackets behind a tensor, and where each stands.
    fn access(&mut self, labels: &[Label]) -> Result<(Access, Vec<usize>), Wrong> {
        self.sign("[")?;
        let mut places = Vec::new();
        let axes = self.items("]", |p| {
            places.push(p.here());
            p.affine(labels)
        })?;
        Ok((Access { axes }, places))
    }

    fn affine(&mut self, labels: &[Label]) -> Result<Affine, Wrong> {
        let mut index = Affine::default();
        // The largest index that the terms can give, so that no later sum overflows.
        let mut reach = 0i128;
        let mut negative = self.takes("-");
        let start = self.here();
        loop {
            let at = self.here();
            let mut size = 1;
            let mut named = true;
            if let Kind::Integer(n) = *self.peek() {
                self.at += 1;
                size = i128::from(n);
                named = self.takes("*");
            }
            let value = if negative { -size } else { size };
            bounded(value, at)?;
            if named {
                let label = self.label(labels)?;
                reach += size * (labels[label].extent.max(1) as i128);
                index.terms.push((label, value as i64));
            } else {
                reach += size;
                index.offset += value as i64;
            }
            bounded(reach, start)?;
            negative = if self.takes("+") {
                false
            } else if self.takes("-") {
                true
            } else {
                return Ok(index);
            };
        }
    }

    fn label(&mut self, labels: &[Label]) -> Result<usize, Wrong> {
        let at = self.here();
        let name = self.name("a label or a number")?;
        labels.iter().position(|l| l.name == name).ok_or_else(|| {
            let all: Vec<&str> = labels.iter().map(|l| l.name.as_str()).collect();
            let meant = hint(&name, all.iter().copied());
            Wrong::new(at, format!("there is no label `{name}` among [{}]{meant}", all.join(", ")))
        })
    }

    fn value(&mut self, scope: &mut Scope) -> Result<RowId, Wrong> {
        if scope.depth >= NESTING {
            return self.wrong(format!("more than {NESTING} levels of brackets; name a part with `let`"));
        }
        scope.depth += 1;
        let row = self.infix(scope, 1);
        scope.depth -= 1;
        row
    }

    /// A chain of signs between values that bind at least as tight as `level`.
    fn infix(&mut self, scope: &mut Scope, level: u8) -> Result<RowId, Wrong> {
        if level >= SIGN {
            return self.prefix(scope);
        }
        let mut left = self.infix(scope, level + 1)?;
        loop {
            let at = self.here();
            let Some((function, turned)) = self.infix_sign(level) else { return Ok(left) };
            let right = self.infix(scope, level + 1)?;
            let (a, b) = if turned { (right, left) } else { (left, right) };
            left = scope.join.expr.binary(function, a, b).map_err(|e| scope.mistyped(at, &e))?;
            if level == COMPARISON {
                let again = self.here();
                if self.infix_sign(level).is_some() {
                    return Err(Wrong::new(again, "comparisons do not chain; join two of them with `&&`"));
                }
                return Ok(left);
            }
        }
    }

    /// The function of the next sign if it is of this level, and whether its arguments change places.
    fn infix_sign(&mut self, level: u8) -> Option<(Binary, bool)> {
        let Kind::Sign(sign) = *self.peek() else { return None };
        let (sign, turned) = match sign {
            ">" => ("<", true),
            ">=" => ("<=", true),
            other => (other, false),
        };
        let function = Binary::ALL.into_iter().find(|&f| notation(f) == Notation::Infix(sign, level))?;
        self.at += 1;
        Some((function, turned))
    }

    fn prefix(&mut self, scope: &mut Scope) -> Result<RowId, Wrong> {
        let at = self.here();
        let function = match self.peek() {
            Kind::Sign("-") => Unary::Neg,
            Kind::Sign("!") => Unary::Not,
            _ => return self.primary(scope),
        };
        let number = match &self.tokens[self.at + 1].kind {
            Kind::Integer(_) | Kind::Float(_) => true,
            Kind::Word(w) => w == "inf" || w == "nan",
            _ => false,
        };
        if function == Unary::Neg && number {
            return self.literal(scope);
        }
        if scope.depth >= NESTING {
            return self.wrong(format!("more than {NESTING} signs and brackets; name a part with `let`"));
        }
        self.at += 1;
        scope.depth += 1;
        let row = self.prefix(scope);
        scope.depth -= 1;
        let row = row?;
        scope.join.expr.unary(function, row).map_err(|e| scope.mistyped(at, &e))
    }

    fn primary(&mut self, scope: &mut Scope) -> Result<RowId, Wrong> {
        let at = self.here();
        match self.peek().clone() {
            Kind::Integer(_) | Kind::Float(_) => self.literal(scope),
            Kind::Sign("(") => {
                self.at += 1;
                let row = self.value(scope)?;
                self.sign(")")?;
                Ok(row)
            }
            Kind::Sign("$") => {
                self.at += 1;
                let n = self.size()?;
                if n >= scope.join.inputs.len() {
                    return Err(Wrong::new(at, format!("there is no operand {n}; list operands with `of`")));
                }
                Ok(scope.operand(self, n))
            }
            Kind::Word(w) if matches!(w.as_str(), "inf" | "nan" | "bits") => self.literal(scope),
            Kind::Word(w) if w == "true" || w == "false" => {
                self.at += 1;
                Ok(scope.join.expr.constant(Literal::Int(i64::from(w == "true")), DType::Bool))
            }
            Kind::Word(w) | Kind::Quoted(w) => match self.tokens[self.at + 1].kind {
                Kind::Sign("[") => self.read(scope),
                Kind::Sign("(") => {
                    self.at += 1;
                    self.call(scope, &w, at)
                }
                Kind::Sign("<") if w == "cast" && !scope.lets.contains_key("cast") => self.cast(scope),
                _ => self.bare(scope, &w, at),
            },
            _ => self.expected("a value"),
        }
    }

    /// A name that nothing follows: of a row, or of a tensor where those stand alone.
    fn bare(&mut self, scope: &mut Scope, name: &str, at: usize) -> Result<RowId, Wrong> {
        self.at += 1;
        if let Some(&row) = scope.lets.get(name) {
            return Ok(row);
        }
        if scope.bare {
            let tensor = self.find(name, at)?;
            let access = self.aligned(tensor, scope.labels);
            return self.reads(scope, tensor, access, vec![], at);
        }
        let message = if self.graph.find(name).is_some() {
            format!("a tensor is read at indices, as in `{name}[…]`, one for each axis")
        } else {
            let all = scope.lets.keys().map(String::as_str).chain(self.names.iter().map(String::as_str));
            let meant = hint_or(name, all, &format!("a tensor is read as `{name}[…]`"));
            format!("`{name}` is not named by a `let`{meant}")
        };
        Err(Wrong::new(at, message))
    }

    /// `tensor[indices]`.
    fn read(&mut self, scope: &mut Scope) -> Result<RowId, Wrong> {
        let at = self.here();
        let tensor = self.tensor()?;
        if scope.bare {
            let why = "in `map` a tensor stands alone, without indices; with them, write `einsum f32 (i: 4) map x[i]`";
            return Err(Wrong::new(self.here(), why));
        }
        let (access, places) = self.access(scope.labels)?;
        self.reads(scope, tensor, access, places, at)
    }

    /// A row that reads a tensor: as an operand that is known, or as a new one.
    fn reads(
        &mut self,
        scope: &mut Scope,
        tensor: TensorId,
        access: Access,
        places: Vec<usize>,
        at: usize,
    ) -> Result<RowId, Wrong> {
        let join = &mut scope.join;
        let known = (0..join.inputs.len()).find(|&n| join.inputs[n] == tensor && join.accesses[n] == access);
        let n = match known {
            Some(n) => n,
            None if scope.listed => {
                return Err(Wrong::new(at, "this read is not among those listed with `of`"));
            }
            None => {
                self.places.operands.push(at);
                self.places.axes.push(places);
                join.inputs.push(tensor);
                join.accesses.push(access);
                join.inputs.len() - 1
            }
        };
        Ok(scope.operand(self, n))
    }

    fn literal(&mut self, scope: &mut Scope) -> Result<RowId, Wrong> {
        let number = self.at + usize::from(self.peek() == &Kind::Sign("-"));
        let (value, default) = if matches!(self.tokens[number].kind, Kind::Integer(_)) {
            (Literal::Int(self.integer()?), DType::I64)
        } else {
            (Literal::Float(self.float()?), default_float(scope.einsum))
        };
        let dtype = if self.takes(":") { self.dtype()? } else { default };
        Ok(scope.join.expr.constant(value, dtype))
    }

    /// `cast<type>(value)`. Comparisons do not chain, so that it cannot be anything else.
    fn cast(&mut self, scope: &mut Scope) -> Result<RowId, Wrong> {
        let at = self.here();
        let kinds: Vec<&Kind> = self.tokens[self.at + 2..].iter().take(2).map(|t| &t.kind).collect();
        if !matches!(kinds.as_slice(), [Kind::Word(_), Kind::Sign(">")]) {
            return Err(Wrong::new(at, CAST));
        }
        self.at += 2;
        let dtype = self.dtype()?;
        self.sign(">")?;
        self.sign("(")?;
        let row = self.value(scope)?;
        self.sign(")")?;
        Ok(scope.join.expr.cast(row, dtype))
    }

    /// What follows the name of a function.
    fn call(&mut self, scope: &mut Scope, function: &str, at: usize) -> Result<RowId, Wrong> {
        self.sign("(")?;
        if function == "index" {
            let label = self.label(scope.labels)?;
            self.sign(")")?;
            return Ok(scope.join.expr.index(label));
        }
        let arguments = self.items(")", |p| p.value(scope))?;
        let unary = Unary::parse(function);
        let binary = Binary::ALL.into_iter().find(|&f| matches!(notation(f), Notation::Call(name) if name == function));
        let wants = |n: usize| {
            let found = arguments.len();
            Err(Wrong::new(at, format!("`{function}` takes {n} values, not {found}")))
        };
        let expr = &mut scope.join.expr;
        let made = match (unary, binary, arguments.as_slice()) {
            (Some(f), _, &[a]) => expr.unary(f, a),
            (Some(_), ..) => return wants(1),
            (_, Some(f), &[a, b]) => expr.binary(f, a, b),
            (_, Some(_), _) => return wants(2),
            _ if function != "select" => {
                return Err(Wrong::new(at, self.no_function(function)));
            }
            (_, _, &[c, a, b]) => expr.select(c, a, b),
            _ => return wants(3),
        };
        made.map_err(|e| scope.mistyped(at, &e))
    }
}

impl Parser {
    fn no_function(&self, name: &str) -> String {
        if name == "cast" {
            return CAST.into();
        }
        let binary = Binary::ALL.into_iter().filter_map(|f| match notation(f) {
            Notation::Call(name) => Some(name),
            Notation::Infix(..) => None,
        });
        let all: Vec<&str> =
            Unary::ALL.map(Unary::name).into_iter().chain(binary).chain(["select", "cast", "index"]).collect();
        let meant = match elsewhere::of(&elsewhere::FUNCTIONS, name) {
            Some(here) => format!("; it is {here}"),
            None if self.graph.find(name).is_some() => format!("; the tensor is read as `{name}[…]`"),
            None => hint_or(name, all.iter().copied(), &format!("there are {}", all.join(", "))),
        };
        format!("there is no function `{name}`{meant}")
    }
}

impl Scope<'_> {
    fn operand(&mut self, parser: &Parser, n: usize) -> RowId {
        let dtype = parser.graph.ty(self.join.inputs[n]).dtype;
        self.join.expr.push_operand(n, dtype)
    }

    /// Why a function does not take its arguments, and what would work.
    fn mistyped(&self, at: usize, error: &ExprError) -> Wrong {
        let message = match error {
            ExprError::Mixed { operation, left, right } => {
                let rows = self.join.expr.rows();
                // The row just before is the one that was read last.
                let number = rows.last().filter(|(row, dtype)| matches!(row, Row::Const(_)) && dtype == right);
                let written = match number {
                    Some((Row::Const(Literal::Int(n)), _)) if left.is_float() => Some(format!("{n}.0")),
                    Some((Row::Const(Literal::Int(n)), _)) => Some(n.to_string()),
                    Some((Row::Const(Literal::Float(bits)), _)) if left.is_float() => {
                        Some(format!("{:?}", f64::from_bits(*bits)))
                    }
                    _ => None,
                };
                let default = if left.is_float() { default_float(self.einsum) } else { DType::I64 };
                let typed = if *left == default { String::new() } else { format!(":{left}") };
                let fix = written.map_or("cast one of them".into(), |n| format!("write the number as `{n}{typed}`"));
                format!("`{operation}` takes two values of one type, not {left} and {right}; {fix}")
            }
            ExprError::Undefined { operation, dtype } => match operation.as_str() {
                "select" => format!("`select` chooses by a bool, not by {dtype}; compare, as in `x[i] > 0.0`"),
                "not" | "and" | "or" => {
                    format!("`{operation}` is of bools, not of {dtype}; compare, as in `x[i] > 0.0`")
                }
                _ if *dtype == DType::Bool => {
                    format!("{error}; use `&&`, `||` and `!`, or `cast<i64>(…)`")
                }
                _ if dtype.is_float() => format!("{error}; it is of integers"),
                _ => format!("{error}; `cast<f32>(…)` makes a float of it"),
            },
            ExprError::Forward { .. } => error.to_string(),
        };
        Wrong::new(at, message)
    }
}
