//! From text to a graph: statements.

use super::ParseError;
use super::lexer::{Kind, Token, lex};
use crate::dtype::DType;
use crate::einsum::{Einsum, Label};
use crate::graph::{Graph, GraphError, TensorId, TensorType};
use crate::kernel::{Kernel, Settings, Written};
use crate::monoid::Monoid;
use crate::op::InputKind;
use crate::view::View;

mod join;

/// The graph that a text says.
pub fn parse(text: &str) -> Result<Graph, ParseError> {
    let tokens = lex(text).map_err(|(at, why)| locate(text, at, Wrong::new(at, why)))?;
    let mut parser = Parser { tokens, at: 0, graph: Graph::new() };
    loop {
        while parser.peek() == &Kind::Newline {
            parser.at += 1;
        }
        if parser.peek() == &Kind::End {
            return Ok(parser.graph);
        }
        let start = parser.here();
        parser.statement().map_err(|wrong| locate(text, start, wrong))?;
    }
}

/// No element count, and no index, may be larger: it leaves room for every later sum in 64 bits.
const LIMIT: i128 = 1 << 56;

/// What is wrong, and at which byte; the start of the statement when only the graph knows.
struct Wrong {
    at: Option<usize>,
    message: String,
    refused: Option<GraphError>,
}

impl Wrong {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at: Some(at), message: message.into(), refused: None }
    }
}

impl From<GraphError> for Wrong {
    fn from(error: GraphError) -> Self {
        Self { at: None, message: error.to_string(), refused: Some(error) }
    }
}

fn locate(text: &str, start: usize, wrong: Wrong) -> ParseError {
    let at = wrong.at.unwrap_or(start);
    let line_start = text[..at].rfind('\n').map_or(0, |n| n + 1);
    let line_end = text[at..].find('\n').map_or(text.len(), |n| at + n);
    ParseError {
        line: text[..at].matches('\n').count() + 1,
        column: text[line_start..at].chars().count() + 1,
        message: wrong.message,
        source_line: text[line_start..line_end].trim_end_matches('\r').into(),
        refused: wrong.refused,
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    graph: Graph,
}

impl Parser {
    fn peek(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    /// The byte where the next token starts.
    fn here(&self) -> usize {
        self.tokens[self.at].at
    }

    /// The next token; the last one, `End`, is never passed.
    fn next(&mut self) -> Kind {
        let kind = self.peek().clone();
        if kind != Kind::End {
            self.at += 1;
        }
        kind
    }

    fn wrong<T>(&self, message: impl Into<String>) -> Result<T, Wrong> {
        Err(Wrong::new(self.here(), message))
    }

    fn expected<T>(&self, what: &str) -> Result<T, Wrong> {
        self.wrong(format!("expected {what}, found {}", self.peek().show()))
    }

    /// Whether the next token is this sign; passes it if so.
    fn takes(&mut self, sign: &'static str) -> bool {
        let found = self.peek() == &Kind::Sign(sign);
        self.at += usize::from(found);
        found
    }

    fn sign(&mut self, sign: &'static str) -> Result<(), Wrong> {
        if self.takes(sign) { Ok(()) } else { self.expected(&format!("`{sign}`")) }
    }

    /// Whether the next token is this word; passes it if so.
    fn takes_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Kind::Word(w) if w == word);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str) -> Result<(), Wrong> {
        if self.takes_word(word) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    fn name(&mut self, what: &str) -> Result<String, Wrong> {
        match self.peek().clone() {
            Kind::Word(w) | Kind::Quoted(w) => {
                self.at += 1;
                Ok(w)
            }
            _ => self.expected(what),
        }
    }

    /// A tensor that stands above.
    fn tensor(&mut self) -> Result<TensorId, Wrong> {
        let at = self.here();
        let name = self.name("the name of a tensor")?;
        self.graph.find(&name).ok_or_else(|| Wrong::new(at, format!("there is no tensor `{name}` above")))
    }

    fn tensors(&mut self) -> Result<Vec<TensorId>, Wrong> {
        self.sign("(")?;
        self.items(")", Self::tensor)
    }

    fn dtype(&mut self) -> Result<DType, Wrong> {
        if let Kind::Word(w) = self.peek()
            && let Some(dtype) = DType::parse(w)
        {
            self.at += 1;
            return Ok(dtype);
        }
        let all: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
        self.expected(&format!("an element type ({})", all.join(", ")))
    }

    /// Items with commas between up to a closing sign; the opening one is passed already.
    fn items<T>(
        &mut self,
        close: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<T, Wrong>,
    ) -> Result<Vec<T>, Wrong> {
        let mut items = Vec::new();
        if self.takes(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.takes(close) {
                return Ok(items);
            }
            if !self.takes(",") {
                return self.expected(&format!("`,` or `{close}`"));
            }
        }
    }

    /// A size: not negative, and not so large that sums of sizes overflow.
    fn size(&mut self) -> Result<usize, Wrong> {
        match *self.peek() {
            Kind::Integer(n) if i128::from(n) <= LIMIT => {
                self.at += 1;
                Ok(n as usize)
            }
            Kind::Integer(n) => self.wrong(format!("{n} is beyond the largest size, {LIMIT}")),
            _ => self.expected("a size"),
        }
    }

    /// An integer with its sign.
    fn integer(&mut self) -> Result<i64, Wrong> {
        let at = self.here();
        let negative = self.takes("-");
        match *self.peek() {
            Kind::Integer(n) => {
                self.at += 1;
                let value = if negative { -i128::from(n) } else { i128::from(n) };
                i64::try_from(value).map_err(|_| Wrong::new(at, format!("{value} does not fit in 64 bits")))
            }
            _ => self.expected("an integer"),
        }
    }

    /// A float with its sign, by its bits.
    fn float(&mut self) -> Result<u64, Wrong> {
        if self.takes_word("bits") {
            self.sign("(")?;
            let Kind::Integer(bits) = *self.peek() else { return self.expected("the bits of a float") };
            self.at += 1;
            self.sign(")")?;
            return Ok(bits);
        }
        let negative = self.takes("-");
        let size = match self.peek() {
            Kind::Integer(n) => *n as f64,
            Kind::Float(x) => *x,
            Kind::Word(w) if w == "inf" => f64::INFINITY,
            Kind::Word(w) if w == "nan" => f64::NAN,
            _ => return self.expected("a number"),
        };
        self.at += 1;
        Ok(if negative { -size } else { size }.to_bits())
    }

    fn list(&mut self) -> Result<Vec<usize>, Wrong> {
        self.sign("[")?;
        self.items("]", Self::size)
    }

    /// A shape, whose elements can be counted.
    fn shape(&mut self) -> Result<Vec<usize>, Wrong> {
        let at = self.here();
        let shape = self.list()?;
        countable(&shape, at)?;
        Ok(shape)
    }

    fn statement(&mut self) -> Result<(), Wrong> {
        if self.takes_word("return") {
            self.output()?;
        } else {
            let name = self.name("a statement")?;
            if self.takes(":") {
                self.input(&name)?;
            } else if self.takes("=") {
                let id = self.operation(&name)?;
                countable(&self.graph.ty(id).shape, self.here())?;
            } else {
                return self.expected("`:` and the kind of an input, or `=` and an operation");
            }
        }
        match self.peek() {
            Kind::Newline | Kind::End => Ok(()),
            _ => self.expected("the end of the line"),
        }
    }

    fn output(&mut self) -> Result<(), Wrong> {
        let at = self.here();
        let name = self.name("the name of a tensor or an output")?;
        let tensor = if self.takes("=") {
            self.tensor()?
        } else {
            self.graph.find(&name).ok_or_else(|| Wrong::new(at, format!("there is no tensor `{name}` above")))?
        };
        Ok(self.graph.output(&name, tensor)?)
    }

    fn input(&mut self, name: &str) -> Result<(), Wrong> {
        let kind = match self.peek() {
            Kind::Word(w) if w == "param" => InputKind::Parameter,
            Kind::Word(w) if w == "input" => InputKind::Input,
            Kind::Word(w) if w == "state" => InputKind::State,
            _ => return self.expected("`param`, `input` or `state`"),
        };
        self.at += 1;
        let dtype = self.dtype()?;
        let shape = self.shape()?;
        self.graph.input(name, kind, TensorType::new(dtype, shape))?;
        Ok(())
    }

    fn operation(&mut self, name: &str) -> Result<TensorId, Wrong> {
        let at = self.here();
        let Kind::Word(operation) = self.next() else {
            return Err(Wrong::new(at, format!("expected an operation: {}", operations())));
        };
        match operation.as_str() {
            "einsum" => self.einsum(name),
            "concat" => {
                let parts = self.tensors()?;
                self.word("axis")?;
                let axis = self.size()?;
                let total = parts.iter().filter_map(|&p| self.graph.ty(p).shape.get(axis)).map(|&n| n as i128).sum();
                bounded(total, at)?;
                Ok(self.graph.view(name, View::Concat { axis }, &parts)?)
            }
            "reshape" | "permute" | "slice" | "broadcast" | "pad" | "roll" => {
                let input = self.tensor()?;
                let view = self.view(&operation)?;
                Ok(self.graph.view(name, view, &[input])?)
            }
            kernel if Kernel::NAMES.contains(&kernel) => self.kernel(name, kernel, at),
            _ => Err(Wrong::new(at, format!("there is no operation `{operation}`; there are {}", operations()))),
        }
    }

    /// What follows the tensor of a view.
    fn view(&mut self, operation: &str) -> Result<View, Wrong> {
        Ok(match operation {
            "reshape" => View::Reshape { shape: self.shape()? },
            "broadcast" => View::Broadcast { shape: self.shape()? },
            "permute" => View::Permute { axes: self.list()? },
            "roll" => View::Roll { shifts: self.list()? },
            "pad" => {
                self.sign("[")?;
                let margins = self.items("]", |p| {
                    let before = p.size()?;
                    p.sign(":")?;
                    Ok((before, p.size()?))
                })?;
                self.word("value")?;
                let value = self.float()?;
                let (before, after) = margins.into_iter().unzip();
                View::Pad { before, after, value }
            }
            _ => {
                self.sign("[")?;
                let ranges = self.items("]", Self::range)?;
                View::Slice {
                    starts: ranges.iter().map(|r| r.0).collect(),
                    steps: ranges.iter().map(|r| r.1).collect(),
                    shape: ranges.iter().map(|r| r.2).collect(),
                }
            }
        })
    }

    /// Start, step and number of indices of `start:stop:step`.
    fn range(&mut self) -> Result<(usize, i64, usize), Wrong> {
        let at = self.here();
        let start = self.size()?;
        self.sign(":")?;
        let stop = self.integer()?;
        let step = if self.takes(":") { self.integer()? } else { 1 };
        let (from, to, by) = (start as i128, i128::from(stop), i128::from(step));
        bounded(from.abs() + to.abs() + by.abs(), at)?;
        if by == 0 {
            return Err(Wrong::new(at, "a step of 0 never reaches the stop"));
        }
        let count = if by > 0 { (to - from + by - 1).div_euclid(by) } else { (from - to - by - 1).div_euclid(-by) };
        Ok((start, step, count.max(0) as usize))
    }

    /// The operands and settings of a kernel.
    fn kernel(&mut self, name: &str, operation: &str, at: usize) -> Result<TensorId, Wrong> {
        let operands = self.tensors()?;
        let mut written = Vec::new();
        let mut places = Vec::new();
        while let Kind::Word(word) = self.peek().clone() {
            places.push((word.clone(), self.here()));
            self.at += 1;
            let value = match self.peek() {
                Kind::Integer(n) => {
                    let n = *n;
                    self.at += 1;
                    Written::Integer(n)
                }
                Kind::Float(_) | Kind::Sign("-") => Written::Float(self.float()?),
                Kind::Word(w) if matches!(w.as_str(), "inf" | "nan" | "bits") => Written::Float(self.float()?),
                _ => Written::Nothing,
            };
            written.push((word, value));
        }
        let types: Vec<TensorType> = operands.iter().map(|&o| self.graph.ty(o).clone()).collect();
        let mut settings = Settings::new(written);
        let kernel = Kernel::read(operation, &types.iter().collect::<Vec<_>>(), &mut settings)
            .map_err(|reason| Wrong::new(at, reason))?;
        if let Some((word, reason)) = settings.left(operation) {
            // Of a word that is given twice the second was left.
            let at = places.iter().rfind(|(w, _)| w == word).map_or(at, |p| p.1);
            return Err(Wrong::new(at, reason));
        }
        if kernel.fault().is_none() {
            countable(&kernel.signature().result.shape, at)?;
        }
        Ok(self.graph.kernel(name, kernel, &operands)?)
    }

    fn einsum(&mut self, name: &str) -> Result<TensorId, Wrong> {
        if let Kind::Quoted(spec) = self.peek().clone() {
            return self.contraction(name, &spec);
        }
        let dtype = self.dtype()?;
        let at = self.here();
        let (labels, rank) = self.labels()?;
        countable(&labels.iter().map(|l| l.extent).collect::<Vec<_>>(), at)?;
        let monoid = self.monoid(labels.len() > rank)?;
        let join = self.join(&labels, dtype)?;
        let einsum = Einsum { labels, rank, accesses: join.accesses, join: join.expr, monoid, dtype };
        Ok(self.graph.einsum(name, einsum, &join.inputs)?)
    }

    fn contraction(&mut self, name: &str, spec: &str) -> Result<TensorId, Wrong> {
        let at = self.here();
        self.at += 1;
        let mut operands = Vec::new();
        while !matches!(self.peek(), Kind::Newline | Kind::End) {
            operands.push(self.tensor()?);
        }
        if operands.iter().any(|&o| self.graph.ty(o).dtype == DType::Bool) {
            return Err(Wrong::new(at, "a contraction multiplies, which is not defined for bool; cast first"));
        }
        Ok(self.graph.contraction(name, spec, &operands)?)
    }

    /// The labels, and how many of them are the result's.
    fn labels(&mut self) -> Result<(Vec<Label>, usize), Wrong> {
        self.sign("(")?;
        let mut labels = Vec::new();
        let mut rank = None;
        loop {
            if self.takes(")") {
                let rank = rank.unwrap_or(labels.len());
                return Ok((labels, rank));
            }
            if rank.is_none() && self.takes("|") {
                rank = Some(labels.len());
                continue;
            }
            if !labels.is_empty() && rank != Some(labels.len()) {
                self.sign(",")?;
            }
            let name = self.name("a label")?;
            self.sign(":")?;
            labels.push(Label::new(name, self.size()?));
        }
    }

    fn monoid(&mut self, folds: bool) -> Result<Monoid, Wrong> {
        if self.takes_word("map") {
            self.at -= usize::from(folds);
            return if folds { self.wrong("`map` folds nothing, but labels stand after `|`") } else { Ok(Monoid::Sum) };
        }
        if let Kind::Word(w) = self.peek()
            && let Some(monoid) = Monoid::OF_EINSUMS.into_iter().find(|m| m.name() == w)
        {
            self.at += 1;
            return Ok(monoid);
        }
        self.expected("how to fold: map, sum, max, min, prod, moments or softmax")
    }
}

/// The words that start an operation.
fn operations() -> String {
    let all: Vec<&str> = ["einsum", "reshape", "permute", "slice", "broadcast", "concat", "pad", "roll"]
        .into_iter()
        .chain(Kernel::NAMES.iter().copied())
        .collect();
    let (last, rest) = all.split_last().expect("there are operations");
    format!("{} and {last}", rest.join(", "))
}

fn bounded(value: i128, at: usize) -> Result<(), Wrong> {
    if value.abs() <= LIMIT {
        Ok(())
    } else {
        Err(Wrong::new(at, format!("{value} is beyond the largest size, {LIMIT}")))
    }
}

/// Refuses shapes whose elements cannot be counted in 64 bits, an axis of extent 0 or not.
fn countable(shape: &[usize], at: usize) -> Result<(), Wrong> {
    let count = shape.iter().try_fold(1i128, |n, &e| Some(n * (e.max(1) as i128)).filter(|&n| n <= LIMIT));
    match count {
        Some(_) => Ok(()),
        None => Err(Wrong::new(at, format!("{shape:?} has more than {LIMIT} elements"))),
    }
}
