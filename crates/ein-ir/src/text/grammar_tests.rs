//! The grammar that is printed is the one that is parsed: a recogniser that knows nothing but the grammar agrees with
//! the parser.

use super::lexer::{Kind, lex};
use super::{GRAMMAR, RESERVED, parse};
use crate::kernel::Kernel;
use std::collections::{BTreeMap, BTreeSet};

/// The right side of a rule.
#[derive(Clone, Debug)]
enum Rule {
    Literal(String),
    Name(String),
    Sequence(Vec<Rule>),
    Either(Vec<Rule>),
    Maybe(Box<Rule>),
    Any(Box<Rule>),
}

/// Reads the notation of the grammar.
struct Reader {
    tokens: Vec<String>,
    at: usize,
}

impl Reader {
    fn new(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while let Some(c) = rest.chars().next() {
            let length = match c {
                _ if rest.starts_with("(*") => rest.find("*)").expect("the comment is closed") + 2,
                '"' | '\'' => rest[1..].find(c).expect("the quote is closed") + 2,
                c if c.is_alphabetic() => rest.find(|c: char| !c.is_alphanumeric()).expect("a rule ends"),
                c => c.len_utf8(),
            };
            if !rest.starts_with("(*") {
                tokens.push(rest[..length].to_string());
            }
            rest = rest[length..].trim_start();
        }
        Self { tokens, at: 0 }
    }

    fn next(&mut self) -> String {
        self.at += 1;
        self.tokens[self.at - 1].clone()
    }

    fn rules(mut self) -> BTreeMap<String, Rule> {
        let mut rules = BTreeMap::new();
        while self.at < self.tokens.len() {
            let name = self.next();
            assert_eq!(self.next(), "=", "after {name}");
            let rule = self.either();
            assert_eq!(self.next(), ";", "after {name}");
            assert!(rules.insert(name.clone(), rule).is_none(), "{name} is there twice");
        }
        rules
    }

    fn either(&mut self) -> Rule {
        let mut all = vec![self.sequence()];
        while self.tokens[self.at] == "|" {
            self.at += 1;
            all.push(self.sequence());
        }
        Rule::Either(all)
    }

    fn sequence(&mut self) -> Rule {
        let mut all = Vec::new();
        loop {
            let token = self.tokens[self.at].clone();
            if [";", "|", "}", "]", ")"].contains(&token.as_str()) {
                return Rule::Sequence(all);
            }
            self.at += 1;
            let (inside, close) = match token.as_str() {
                "{" => (Rule::Any(Box::new(self.either())), "}"),
                "[" => (Rule::Maybe(Box::new(self.either())), "]"),
                "(" => (self.either(), ")"),
                quoted if quoted.starts_with(['"', '\'']) => {
                    all.push(Rule::Literal(quoted[1..quoted.len() - 1].to_string()));
                    continue;
                }
                name => {
                    all.push(Rule::Name(name.to_string()));
                    continue;
                }
            };
            assert_eq!(self.next(), close);
            all.push(inside);
        }
    }
}

/// Where parts of a text may end that start at a token.
struct Recogniser<'g> {
    rules: &'g BTreeMap<String, Rule>,
    tokens: Vec<Kind>,
    known: BTreeMap<(String, usize), BTreeSet<usize>>,
}

impl Recogniser<'_> {
    fn ends(&mut self, rule: &Rule, at: usize) -> BTreeSet<usize> {
        match rule {
            Rule::Literal(text) => {
                let found = match self.tokens.get(at) {
                    Some(Kind::Word(w)) => w == text,
                    Some(Kind::Sign(s)) => s == text,
                    _ => false,
                };
                found.then_some(at + 1).into_iter().collect()
            }
            Rule::Name(name) => self.named(name, at),
            Rule::Sequence(all) => {
                let mut ends = BTreeSet::from([at]);
                for rule in all {
                    ends = ends.iter().flat_map(|&end| self.ends(rule, end)).collect();
                }
                ends
            }
            Rule::Either(all) => all.iter().flat_map(|rule| self.ends(rule, at)).collect(),
            Rule::Maybe(rule) => {
                let mut ends = self.ends(rule, at);
                ends.insert(at);
                ends
            }
            Rule::Any(rule) => {
                let mut ends = BTreeSet::from([at]);
                let mut open = vec![at];
                while let Some(from) = open.pop() {
                    open.extend(self.ends(rule, from).into_iter().filter(|end| ends.insert(*end)));
                }
                ends
            }
        }
    }

    fn named(&mut self, name: &str, at: usize) -> BTreeSet<usize> {
        let token = match (name, self.tokens.get(at)) {
            ("newline" | "size" | "float" | "word" | "string" | "kernel", None) => false,
            // The grammar does not list the kernels, of which each says its own name.
            ("kernel", Some(kind)) => matches!(kind, Kind::Word(w) if Kernel::NAMES.contains(&w.as_str())),
            ("newline", Some(kind)) => kind == &Kind::Newline,
            ("size", Some(kind)) => matches!(kind, Kind::Integer(_)),
            ("float", Some(kind)) => matches!(kind, Kind::Float(_)),
            ("word", Some(kind)) => matches!(kind, Kind::Word(w) if !RESERVED.contains(&w.as_str())),
            ("string", Some(kind)) => matches!(kind, Kind::Quoted(_)),
            _ => {
                let key = (name.to_string(), at);
                if let Some(known) = self.known.get(&key) {
                    return known.clone();
                }
                let rule = self.rules.get(name).unwrap_or_else(|| panic!("there is no rule {name}"));
                let ends = self.ends(rule, at);
                self.known.insert(key, ends.clone());
                return ends;
            }
        };
        token.then_some(at + 1).into_iter().collect()
    }
}

/// The rules of [`GRAMMAR`].
pub(super) struct Grammar(BTreeMap<String, Rule>);

impl Grammar {
    pub(super) fn new() -> Self {
        Self(Reader::new(GRAMMAR).rules())
    }

    /// Whether the grammar knows a text; `None` where it is not made of tokens.
    pub(super) fn knows(&self, text: &str) -> Option<bool> {
        let tokens: Vec<Kind> =
            lex(text).ok()?.tokens.into_iter().map(|t| t.kind).filter(|k| *k != Kind::End).collect();
        let count = tokens.len();
        let mut recogniser = Recogniser { rules: &self.0, tokens, known: BTreeMap::new() };
        Some(recogniser.named("graph", 0).contains(&count))
    }
}

/// Every name on the right side of a rule.
fn each_name(rule: &Rule, known: &dyn Fn(&str)) {
    match rule {
        Rule::Literal(_) => {}
        Rule::Name(name) => known(name),
        Rule::Sequence(all) | Rule::Either(all) => all.iter().for_each(|r| each_name(r, known)),
        Rule::Maybe(rule) | Rule::Any(rule) => each_name(rule, known),
    }
}

#[test]
fn every_name_has_a_rule() {
    let rules = Reader::new(GRAMMAR).rules();
    let tokens = ["letter", "digit", "any", "hex"];
    for rule in rules.values() {
        each_name(rule, &|name| assert!(rules.contains_key(name) || tokens.contains(&name), "{name}"));
    }
}

/// What the tables of the code hold, the grammar says.
#[test]
fn the_words_are_those_of_the_code() {
    use crate::dtype::DType;
    use crate::expr::{Binary, Unary};
    use crate::monoid::Monoid;
    use crate::text::{Notation, notation};
    let rules = Reader::new(GRAMMAR).rules();
    let words = |name: &str| -> BTreeSet<String> {
        let Rule::Either(all) = &rules[name] else { panic!("{name} is a choice") };
        let word = |rule: &Rule| match rule {
            Rule::Sequence(one) => match one.as_slice() {
                [Rule::Literal(word)] => word.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        all.iter().map(word).collect()
    };
    let set = |all: &mut dyn Iterator<Item = &str>| -> BTreeSet<String> { all.map(String::from).collect() };
    assert_eq!(words("dtype"), set(&mut DType::ALL.iter().map(|d| d.name())));
    assert_eq!(words("unary"), set(&mut Unary::ALL.iter().map(|f| f.name())));
    let calls = Binary::ALL.iter().filter_map(|&f| match notation(f) {
        Notation::Call(name) => Some(name),
        Notation::Infix(..) => None,
    });
    assert_eq!(words("binary"), set(&mut calls.into_iter()));
    assert_eq!(words("fold"), set(&mut Monoid::OF_EINSUMS.iter().map(|m| m.name()).chain(["map"])));
    let signs = Binary::ALL.iter().filter_map(|&f| match notation(f) {
        Notation::Infix(sign, _) => Some(sign),
        Notation::Call(_) => None,
    });
    for sign in signs {
        let text = format!("y = map true {sign} false");
        assert_eq!(Grammar::new().knows(&text), Some(true), "{sign}");
    }
}

#[test]
fn texts_that_are_right_are_known() {
    let grammar = Grammar::new();
    for text in [super::tests::CANONICAL, super::tests::CANONICAL_2] {
        for statement in parse(text).map(|g| super::print(&g)).expect("it is right").lines().filter(|l| !l.is_empty()) {
            // A block is more than one line, and known as a whole.
            if !statement.ends_with('{') && !statement.starts_with([' ', '}']) {
                assert_eq!(grammar.knows(statement), Some(true), "{statement}");
            }
        }
        assert_eq!(grammar.knows(text), Some(true));
    }
    for text in
        ["", "\n\n", "# only a comment", "y = map x", "y = einsum f32 (i, j | k) sum { let a = x[-i + 2*k]; a }"]
    {
        assert_eq!(grammar.knows(text), Some(true), "{text}");
    }
    for text in
        ["y", "y = map", "return", "x: input f32", "y = einsum f32 (i) map x[i", "y = map a < b < c", "y = x = z"]
    {
        assert_eq!(grammar.knows(text), Some(false), "{text}");
    }
}
