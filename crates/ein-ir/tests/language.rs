//! `docs/language.md` is true: its examples are read, laid out and run, its messages are what is said, and its grammar is
//! the grammar.

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Unary};
use ein_ir::graph::{Graph, TensorType};
use ein_ir::kernel::Kernel;
use ein_ir::monoid::Monoid;
use ein_ir::op::Op;
use ein_ir::reference::run;
use ein_ir::text::{GRAMMAR, format, parse, print};
use std::collections::BTreeMap;

const DOCUMENT: &str = include_str!("../../../docs/language.md");

/// Code blocks in order: their line, their kind and their text.
fn blocks() -> Vec<(usize, String, String)> {
    let mut blocks: Vec<(usize, String, String)> = Vec::new();
    let mut open = false;
    for (n, line) in DOCUMENT.lines().enumerate() {
        if let Some(kind) = line.strip_prefix("```") {
            open = !open;
            if open {
                blocks.push((n + 1, kind.to_string(), String::new()));
            }
        } else if open {
            let text = &mut blocks.last_mut().expect("it is open").2;
            text.push_str(line);
            text.push('\n');
        }
    }
    assert!(!open, "the last block is not closed");
    blocks
}

/// What the comments `#> name = values` of a text state.
fn stated(text: &str) -> BTreeMap<String, Vec<f64>> {
    let lines = text.lines().filter_map(|l| l.strip_prefix("#> "));
    let pair = |line: &str| {
        let (name, values) = line.split_once(" = ").unwrap_or_else(|| panic!("{line}"));
        let values = values.split_whitespace().map(|v| v.parse().unwrap_or_else(|e| panic!("{line}: {e}")));
        (name.trim_matches('"').to_string(), values.collect())
    };
    lines.map(pair).collect()
}

fn dense(ty: &TensorType, values: &[f64]) -> Dense {
    assert_eq!(values.len(), ty.elements(), "{ty}");
    Dense::from_f64(ty.dtype, ty.shape.clone(), values)
}

/// Runs a graph and compares what comes out with what is stated of every output.
fn check_values(at: usize, graph: &Graph, stated: &BTreeMap<String, Vec<f64>>) {
    let counted = |ty: &TensorType| (0..ty.elements()).map(|n| n as f64).collect::<Vec<f64>>();
    let inputs = graph.nodes().iter().filter(|n| matches!(n.op, Op::Input(_))).map(|n| {
        let values = stated.get(&n.name).cloned().unwrap_or_else(|| counted(&n.ty));
        (n.name.clone(), dense(&n.ty, &values))
    });
    let inputs: BTreeMap<String, Dense> = inputs.collect();
    let found = run(graph, &inputs).unwrap_or_else(|e| panic!("line {at}: {e}"));
    for (name, id) in graph.outputs() {
        let expected = stated.get(name).unwrap_or_else(|| panic!("line {at}: nothing is stated of `{name}`"));
        let off = found[name].max_abs_difference(&dense(graph.ty(*id), expected));
        assert!(off <= 1e-5, "line {at}: `{name}` is {:?}, not {expected:?}", found[name].to_f64());
    }
    for name in stated.keys() {
        let known = graph.find(name).is_some() || found.contains_key(name);
        assert!(known, "line {at}: there is no `{name}`");
    }
}

#[test]
fn examples_are_read_laid_out_and_run() {
    let mut run = 0;
    for (at, kind, text) in blocks() {
        if kind != "ein" {
            continue;
        }
        let graph = parse(&text).unwrap_or_else(|e| panic!("the example of line {at}, {e}"));
        assert_eq!(parse(&print(&graph)).as_ref(), Ok(&graph), "line {at}");
        assert_eq!(format(&text).as_deref(), Ok(text.as_str()), "the example of line {at} is not laid out");
        check_values(at, &graph, &stated(&text));
        run += 1;
    }
    assert!(run > 20, "only {run} examples");
}

#[test]
fn messages_are_what_is_said() {
    let blocks = blocks();
    let mut wrong = 0;
    for (n, (at, kind, text)) in blocks.iter().enumerate() {
        if kind == "ein-wrong" {
            let said = parse(text).expect_err("it is wrong").to_string() + "\n";
            assert_eq!(said, blocks[n + 1].2, "line {at}");
            wrong += 1;
        }
    }
    assert_eq!(wrong, 2);
}

#[test]
fn the_grammar_is_the_grammar() {
    let grammars: Vec<String> = blocks().into_iter().filter(|b| b.1 == "ebnf").map(|b| b.2).collect();
    assert_eq!(grammars, [GRAMMAR]);
}

/// Every kernel has a chapter; every function, fold and type is named.
#[test]
fn nothing_is_left_out() {
    for kernel in Kernel::NAMES {
        let heading = format!("\n### `{kernel}`\n");
        assert!(DOCUMENT.contains(&heading), "docs/language.md has no chapter `{kernel}`");
    }
    let functions = Unary::ALL.map(|f| f.name().to_string());
    let binary = Binary::ALL.map(|f| format!("{f:?}").to_lowercase());
    let called = ["max", "min", "pow", "fmod", "atan2", "copysign"];
    let folds = Monoid::OF_EINSUMS.map(|m| m.name().to_string());
    let types = DType::ALL.map(|d| d.name().to_string());
    for word in functions.iter().chain(&folds).chain(&types) {
        let named = [format!("`{word}`"), format!("`{word}(")];
        assert!(named.iter().any(|n| DOCUMENT.contains(n)), "docs/language.md does not name `{word}`");
    }
    for word in called {
        assert!(binary.iter().any(|b| b == word) && DOCUMENT.contains(&format!("{word}(a, b)")), "{word}");
    }
}
