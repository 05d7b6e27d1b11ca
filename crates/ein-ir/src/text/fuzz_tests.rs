//! What is printed comes back, however it is laid out; what is spoiled is a graph or an error with a place.
//!
//! `EIN_TEST_SEEDS` sets how much is drawn.

use super::grammar_tests::Grammar;
use super::lexer::lex;
use super::random_graphs::random_graph;
use super::tests::{CANONICAL, CANONICAL_2, round};
use super::{ParseError, format, parse, print};
use crate::op::Op;
use crate::random::{Random, seeds};
use std::collections::BTreeMap;

/// Examples that people read.
const LANGUAGE: &str = include_str!("../../../../docs/language.md");

/// Texts to start from: the examples of the document and what tests print.
fn texts() -> Vec<String> {
    let examples = LANGUAGE.split("```ein\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    examples.chain([CANONICAL, CANONICAL_2]).map(String::from).collect()
}

/// What is laid out means the same, and is laid out the same again.
fn check_layout(text: &str) {
    let graph = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let laid_out = format(text).unwrap_or_else(|e| panic!("{e}"));
    let again = parse(&laid_out).unwrap_or_else(|e| panic!("{e}\nin\n{laid_out}\nof\n{text}"));
    assert_eq!(again, graph, "{laid_out}\nof\n{text}");
    assert_eq!(format(&laid_out).as_deref(), Ok(laid_out.as_str()), "of\n{text}");
    assert_eq!(comments(&laid_out), comments(text), "{laid_out}\nof\n{text}");
}

/// Comments of a text, in any order.
fn comments(text: &str) -> Vec<String> {
    let lexed = lex(text).expect("it is made of tokens");
    let mut all: Vec<String> = lexed.comments.iter().map(|&(a, b)| text[a..b].trim_end().to_string()).collect();
    all.sort();
    all
}

/// A place that is in the text, and a message that shows it.
fn check_error(text: &str, error: &ParseError) {
    let lines: Vec<&str> = text.split('\n').collect();
    assert!((1..=lines.len()).contains(&error.line), "{error}");
    let line = lines[error.line - 1].trim_end_matches('\r');
    assert_eq!(error.source_line, line, "{error}");
    assert!((1..=lines[error.line - 1].chars().count() + 1).contains(&error.column), "{error}");
    let shown = error.to_string();
    assert!(shown.ends_with('^') && !error.message.is_empty(), "{shown}");
}

/// A text that may be wrong: a graph that comes back and a layout, or an error with a place.
fn check_any(grammar: &Grammar, text: &str) -> bool {
    match parse(text) {
        Ok(graph) => {
            round(&graph);
            check_layout(text);
            assert_eq!(grammar.knows(text), Some(true), "{text}");
            true
        }
        Err(error) => {
            check_error(text, &error);
            // What the grammar knows is refused for its meaning.
            let structure = error.message.starts_with("expected");
            assert!(!structure || grammar.knows(text) != Some(true), "{text}\n{error}");
            assert_eq!(format(text), Err(error));
            false
        }
    }
}

#[test]
fn random_graphs_come_back() {
    let grammar = Grammar::new();
    let mut drawn: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..seeds(3000) {
        let graph = random_graph(&mut Random(seed as u64));
        for node in graph.nodes() {
            let name = match &node.op {
                Op::Input(_) => "input",
                Op::Einsum(_) => "einsum",
                Op::View(view) => view.name(),
                Op::Kernel(kernel) => kernel.name(),
            };
            *drawn.entry(name).or_default() += 1;
        }
        round(&graph);
        let text = print(&graph);
        check_layout(&text);
        if seed % 8 == 0 {
            assert_eq!(grammar.knows(&text), Some(true), "{text}");
        }
    }
    let expected = [
        "input",
        "einsum",
        "reshape",
        "permute",
        "slice",
        "broadcast",
        "concat",
        "pad",
        "roll",
        "attention",
        "gather",
        "gather_along",
        "scatter",
        "scatter_along",
        "top",
        "scan",
        "recurrence",
        "last_state",
    ];
    for name in expected {
        assert!(drawn.get(name).is_some_and(|n| *n > 30), "{name} is drawn too seldom: {drawn:?}");
    }
}

/// Spaces, breaks and comments wherever they may stand change nothing.
#[test]
fn any_layout_means_the_same() {
    let texts = texts();
    for seed in 0..seeds(1500) {
        let mut random = Random(seed as u64);
        let text = if seed % 2 == 0 { print(&random_graph(&mut random)) } else { random.of(&texts) };
        let lexed = lex(&text).expect("it is made of tokens");
        let mut loose = String::new();
        let mut inside = 0;
        for pair in lexed.tokens.windows(2) {
            let token = &text[pair[0].at..pair[0].end];
            loose.push_str(token);
            match token {
                "(" | "[" | "{" => inside += 1,
                ")" | "]" | "}" => inside -= 1,
                _ => {}
            }
            // What may not grow together is kept apart.
            let apart = text[pair[0].end..pair[1].at].chars().any(char::is_whitespace);
            let space = random.of(&[" ", "\t", "   ", "\r\n", " # é \"(\n", "\n\n\n", "", "\n# ]\n \n"]);
            let breaks = space.contains('\n');
            let allowed = if breaks { inside > 0 || token == "\n" } else { true };
            match (allowed, apart) {
                (true, true) if !space.is_empty() => loose.push_str(space),
                (true, false) if token != "\n" || breaks => loose.push_str(space),
                (_, true) => loose.push(' '),
                (_, false) => {}
            }
        }
        assert_eq!(parse(&loose), parse(&text), "{loose}");
        check_layout(&loose);
    }
}

/// Pieces that are put into texts: tokens of every kind, and what is no token.
const PIECES: [&str; 58] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ";",
    ",",
    "-",
    "$",
    "\"",
    "\\",
    "#",
    "\n",
    "\r\n",
    "0",
    "99999999999999999999",
    "1e999",
    "1e-999",
    "72057594037927936",
    "9223372036854775808",
    "let ",
    "of ",
    "einsum ",
    "map ",
    "|",
    "||",
    "é",
    "\u{2028}",
    "\u{feff}",
    "\0",
    " = ",
    ": ",
    "x",
    "y",
    "index",
    "cast<",
    "cast<f32>(x)",
    "-1",
    "slice x ",
    "concat(x, x) axis ",
    "return ",
    "bits(",
    "\t",
    "::",
    "0.",
    ".",
    "0.5",
    "true",
    "nan",
    "!",
    "<<",
    ">=",
    "f32[",
    "param",
    "k 2 ",
    "causal window 1",
    "1.0:f64",
];

/// No text makes the parser or the formatter panic.
#[test]
fn mutated_texts_do_not_panic() {
    let grammar = Grammar::new();
    let texts = texts();
    let (mut accepted, all) = (0, seeds(20000));
    for seed in 0..all {
        let mut random = Random(seed as u64);
        let source = if seed % 3 == 0 { print(&random_graph(&mut random)) } else { random.of(&texts) };
        let text =
            if seed % 2 == 0 { mutate_letters(&mut random, &source) } else { mutate_tokens(&mut random, &source) };
        accepted += usize::from(check_any(&grammar, &text));
    }
    assert!(accepted > all / 50, "only {accepted} mutations were accepted");
}

fn mutate_letters(random: &mut Random, text: &str) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(3) {
        let at = random.below(text.len() + 1);
        let until = (at + random.below(6)).min(text.len());
        match random.below(4) {
            0 => drop(text.drain(at..until)),
            1 => drop(text.splice(at..at, random.of(&PIECES).chars())),
            2 => drop(text.splice(at..until, random.of(&PIECES).chars())),
            _ if text.is_empty() => {}
            _ => {
                let from = random.below(text.len());
                let copy: Vec<char> = text[from..(from + random.below(20)).min(text.len())].to_vec();
                drop(text.splice(at..at, copy));
            }
        }
    }
    text.into_iter().collect()
}

/// Tokens left out, doubled, put in, or changed for another of the text.
fn mutate_tokens(random: &mut Random, text: &str) -> String {
    let lexed = lex(text).expect("it is made of tokens");
    let written = |n: usize| &text[lexed.tokens[n].at..lexed.tokens[n].end];
    let mut tokens: Vec<&str> = (0..lexed.tokens.len()).map(written).collect();
    for _ in 0..=random.below(2) {
        let at = random.below(tokens.len());
        match random.below(5) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[at]),
            2 => tokens.insert(at, random.of(&PIECES)),
            3 => tokens[at] = random.of(&PIECES),
            _ => tokens[at] = tokens[random.below(tokens.len())],
        }
        if tokens.is_empty() {
            tokens.push("");
        }
    }
    tokens.join(" ")
}

/// What nobody writes, and programs do.
#[test]
fn odd_texts() {
    let grammar = Grammar::new();
    let long = "a".repeat(100_000);
    let odd = [
        String::new(),
        "\n".into(),
        "\r\n\r\n".into(),
        "\u{feff}".into(),
        "\u{feff}# only a comment".into(),
        "#".into(),
        "# \0".into(),
        "\0".into(),
        " ".repeat(100_000),
        "#\n".repeat(10_000),
        "(".repeat(100_000),
        ")".repeat(100_000),
        "{[(".repeat(1_000),
        "\"".into(),
        format!("{long}: input f32[2]\nreturn {long}"),
        format!("\"{long}\": input f32[2]\nreturn \"{long}\""),
        format!("x: input f32[{}]", "1, ".repeat(10_000) + "1"),
        format!("x: input f32[{}]", "9".repeat(10_000)),
        format!("x: input f32[]\ny = map {}1.0", "x + ".repeat(5_000)),
        format!("x: input f32[]\ny = map {}x", "-".repeat(60)),
        format!("x: input f32[]\ny = map {}x{}", "(".repeat(60), ")".repeat(60)),
        format!("x: input f32[]\ny = map {}x{}", "exp(".repeat(60), ")".repeat(60)),
        format!("x: input f32[]\ny = map {}x{}", "exp(".repeat(70), ")".repeat(70)),
        format!("x: input f32[]\ny = map 0.{}", "1".repeat(10_000)),
        format!("x: input f32[]\ny = map 1e{}", "9".repeat(10_000)),
        "x: input f32[0, 72057594037927936]".into(),
        "x: input f32[0, 72057594037927936, 2]".into(),
        "x: input f32[2]\r\nreturn x\r\n".into(),
        "x: input f32[2]\rreturn x".into(),
        "\tx\t:\tinput\tf32\t[\t2\t]\t".into(),
        "\"\\u{110000}\": input f32[2]".into(),
        "\"\\u{d800}\": input f32[2]".into(),
        "\"\\u{}\": input f32[2]".into(),
        "\"\\".into(),
        "x: input f32[2]\ny = slice x [0:-9223372036854775808:-1]".into(),
        "x: input f32[2]\ny = slice x [0:2:9223372036854775807]".into(),
        "x: input f32[2]\ny = einsum f32 (i: 72057594037927936) map x[0*i]".into(),
        "x: input f32[2]\ny = einsum f32 (i: 2) map x[9223372036854775807*i]".into(),
        "x: input f32[2]\ny = einsum f32 (i: 2) map x[72057594037927936 - 72057594037927936]".into(),
        "x: input f32[2]\ny = pad x [72057594037927936:72057594037927936] value 0.0".into(),
        "x: input f32[2]\ny = top(x) k 72057594037927935".into(),
        "x: input f32[2]\nids: input i64[2]\ny = scatter(x, ids) rows 72057594037927935".into(),
    ];
    let accepted = odd.iter().filter(|text| check_any(&grammar, text)).count();
    assert!(accepted > 12, "{accepted} are graphs");
}
