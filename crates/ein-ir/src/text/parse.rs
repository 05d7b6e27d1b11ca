//! From text to a graph: statements.

use super::lexer::{Kind, Token, lex};
use super::nearest::hint;
use super::{ParseError, RESERVED};
use crate::dtype::DType;
use crate::graph::{Graph, GraphError, TensorId, TensorType};
use crate::op::InputKind;
use places::Places;

mod einsum;
mod elementwise;
mod elsewhere;
mod join;
mod operation;
mod places;

/// The graph that a text says.
pub fn parse(text: &str) -> Result<Graph, ParseError> {
    let lexed = lex(text).map_err(|(at, why)| locate_lexed(text, at, why))?;
    let mut parser = Parser {
        tokens: lexed.tokens,
        open: lexed.open,
        at: 0,
        graph: Graph::new(),
        places: Places::default(),
        names: Vec::new(),
    };
    loop {
        while parser.peek() == &Kind::Newline {
            parser.at += 1;
        }
        if parser.peek() == &Kind::End {
            return Ok(parser.graph);
        }
        parser.places = Places::new(parser.here());
        parser.statement().map_err(|wrong| locate(text, parser.explained(text, wrong)))?;
    }
}

/// No element count, and no index, may be larger: it leaves room for every later sum in 64 bits.
const LIMIT: i128 = 1 << 56;

/// What is wrong, and at which byte.
struct Wrong {
    at: usize,
    message: String,
    refused: Option<GraphError>,
}

impl Wrong {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), refused: None }
    }
}

/// The error of a text that is not made of tokens.
pub(super) fn locate_lexed(text: &str, at: usize, why: String) -> ParseError {
    locate(text, Wrong::new(at, why))
}

fn locate(text: &str, wrong: Wrong) -> ParseError {
    let at = wrong.at;
    let line_start = text[..at].rfind('\n').map_or(0, |n| n + 1);
    let line_end = text[at..].find('\n').map_or(text.len(), |n| at + n);
    ParseError {
        line: line_of(text, at),
        column: text[line_start..at].chars().count() + 1,
        message: wrong.message,
        source_line: text[line_start..line_end].trim_end_matches('\r').into(),
        refused: wrong.refused,
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

struct Parser {
    tokens: Vec<Token>,
    /// Brackets that nothing closes.
    open: Vec<usize>,
    at: usize,
    graph: Graph,
    /// Where the parts of the statement stand.
    places: Places,
    /// Tensors above, for hints.
    names: Vec<String>,
}

impl Parser {
    fn peek(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    /// The token after the next one.
    fn peek_second(&self) -> &Kind {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
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

    /// As [`Self::expected`], where one of some words belongs.
    fn expected_word<'w, T>(&self, what: &str, words: impl IntoIterator<Item = &'w str>) -> Result<T, Wrong> {
        let meant = if let Kind::Word(w) | Kind::Quoted(w) = self.peek() { hint(w, words) } else { String::new() };
        self.wrong(format!("expected {what}, found {}{meant}", self.peek().show()))
    }

    /// Adds which bracket is never closed: a statement then goes on where another one was meant to begin.
    fn explained(&self, text: &str, mut wrong: Wrong) -> Wrong {
        let token = self.tokens.iter().find(|t| t.at >= wrong.at).unwrap_or(&self.tokens[self.tokens.len() - 1]);
        if let Some(open) = token.inside.filter(|open| self.open.contains(open))
            && let bracket = &self.tokens[open]
            && line_of(text, bracket.at) < line_of(text, wrong.at)
        {
            let line = line_of(text, bracket.at);
            wrong.message.push_str(&format!("; the {} of line {line} is never closed", bracket.kind.show()));
        }
        wrong
    }

    /// What the graph refused, at the part of the statement that it names.
    fn refused<T>(&self, result: Result<T, GraphError>) -> Result<T, Wrong> {
        result.map_err(|error| Wrong { at: self.places.of(&error), message: error.to_string(), refused: Some(error) })
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
        if self.takes_word(word) { Ok(()) } else { self.expected_word(&format!("`{word}`"), [word]) }
    }

    fn name(&mut self, what: &str) -> Result<String, Wrong> {
        match self.peek().clone() {
            Kind::Word(w) if RESERVED.contains(&w.as_str()) => {
                self.wrong(format!("`{w}` is a word of the language; as a name it stands in quotes: \"{w}\""))
            }
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
        self.find(&name, at)
    }

    fn find(&self, name: &str, at: usize) -> Result<TensorId, Wrong> {
        self.graph.find(name).ok_or_else(|| {
            let meant = hint(name, self.names.iter().map(String::as_str));
            Wrong::new(at, format!("there is no tensor `{name}` above{meant}"))
        })
    }

    /// A tensor that is an operand.
    fn operand(&mut self) -> Result<TensorId, Wrong> {
        self.places.operands.push(self.here());
        self.tensor()
    }

    fn operands(&mut self) -> Result<Vec<TensorId>, Wrong> {
        self.sign("(")?;
        self.items(")", Self::operand)
    }

    fn dtype(&mut self) -> Result<DType, Wrong> {
        if let Kind::Word(w) = self.peek()
            && let Some(dtype) = DType::parse(w)
        {
            self.at += 1;
            return Ok(dtype);
        }
        if let Kind::Word(w) = self.peek()
            && let Some(meant) = elsewhere::of(&elsewhere::TYPES, w)
        {
            return self.wrong(format!("expected an element type, found `{w}`; it is {meant}"));
        }
        let all = DType::ALL.map(DType::name);
        self.expected_word(&format!("an element type ({})", all.join(", ")), all)
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

    /// A list, whose items' places are kept.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, Wrong>) -> Result<Vec<T>, Wrong> {
        self.places.list = Some(self.here());
        self.sign("[")?;
        self.items("]", |p| {
            p.places.items.push(p.here());
            item(p)
        })
    }

    /// A shape, whose elements can be counted.
    fn shape(&mut self) -> Result<Vec<usize>, Wrong> {
        let at = self.here();
        let shape = self.list(Self::size)?;
        countable(&shape, at)?;
        Ok(shape)
    }

    fn statement(&mut self) -> Result<(), Wrong> {
        let named = matches!(self.peek_second(), Kind::Sign(":" | "="));
        if !named && self.takes_word("return") {
            self.output()?;
        } else {
            if self.peek() == &Kind::Sign("/") {
                return self.wrong("expected a statement, found `/`; a comment starts with `#`");
            }
            let name = self.name("a statement: `name: kind type`, `name = operation` or `return name`")?;
            if self.takes(":") {
                self.input(&name)?;
            } else if self.takes("=") {
                let id = self.operation(&name)?;
                countable(&self.graph.ty(id).shape, self.places.operation)?;
            } else {
                let meant = hint(&name, ["return"]);
                return self
                    .expected("`:` and the kind of an input, or `=` and an operation")
                    .map_err(|wrong: Wrong| Wrong { message: wrong.message + &meant, ..wrong });
            }
            self.names.push(name);
        }
        match self.peek() {
            Kind::Newline | Kind::End => Ok(()),
            _ => self.expected("the end of the line"),
        }
    }

    fn output(&mut self) -> Result<(), Wrong> {
        let at = self.here();
        self.places.name = at;
        let name = self.name("the name of a tensor or an output")?;
        let tensor = if self.takes("=") { self.tensor()? } else { self.find(&name, at)? };
        let made = self.graph.output(&name, tensor);
        self.refused(made)
    }

    fn input(&mut self, name: &str) -> Result<(), Wrong> {
        const KINDS: [(&str, InputKind); 3] =
            [("param", InputKind::Parameter), ("input", InputKind::Input), ("state", InputKind::State)];
        let found = KINDS.iter().find(|(word, _)| matches!(self.peek(), Kind::Word(w) if w == word));
        let Some(&(_, kind)) = found else {
            if self.peek() == &Kind::Sign("=") {
                return self.wrong(format!("expected the kind of an input, found `=`; an operation is `{name} = …`"));
            }
            return self.expected_word("`param`, `input` or `state`", KINDS.map(|k| k.0));
        };
        self.at += 1;
        let dtype = self.dtype()?;
        let shape = self.shape()?;
        let made = self.graph.input(name, kind, TensorType::new(dtype, shape));
        self.refused(made).map(drop)
    }
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
