//! Cases as text: a graph with its inputs, what must come out, and what may move.
//!
//! A file holds sections. Each is a graph in text form whose comments say the rest:
//!
//! ```text
//! #= A1 what it shows                     a section starts, with its id
//! #> x = 0..12                            the elements of an input or an output, in order:
//! #> y = 5.5 3*1 nan -inf                 a range of integers, numbers, or a number repeated
//! #! within 1e-6                          tolerance, times the larger of 1 and the largest magnitude; else 0
//! #! refused TEXT                         the graph is refused with this text
//! #! fails TEXT                           every run fails with this text
//! #! searched moves 0                     bytes of the searched plan that minimises bytes
//! #! hold x 0                             a plan by hand: input `x` in strips along axis 0,
//! #! cut y i                              the label `i` of row `y` cut; what is not named is whole everywhere
//! #! on 2 4                               on this many devices; else on 1 to 8
//! #! moves 0                              bytes that this plan moves
//! ```
//!
//! Inputs without elements given get integers from 0. Outputs without elements are compared with the
//! reference only.

use crate::choices::{by_label, held};
use ein_ir::dense::Dense;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::Op;
use ein_ir::reference::run;
use ein_ir::text;
use ein_plan::choice::Choice;
use std::collections::BTreeMap;

/// One section.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Its id and what it shows.
    pub name: String,
    /// The text, comments included.
    pub text: String,
    elements: BTreeMap<String, Vec<f64>>,
    /// Tolerance.
    pub within: f64,
    /// The graph is refused with this text.
    pub refused: Option<String>,
    /// Every run fails with this text.
    pub fails: Option<String>,
    /// Bytes of the searched plan.
    pub searched_moves: Option<u64>,
    /// Inputs in strips: name and axis.
    pub hold: Vec<(String, usize)>,
    /// Rows cut: name and label.
    pub cut: Vec<(String, String)>,
    /// Devices of the plan by hand.
    pub on: Vec<usize>,
    /// Bytes of the plan by hand.
    pub moves: Option<u64>,
}

impl Case {
    /// Whether a plan by hand is given.
    pub fn by_hand(&self) -> bool {
        !self.hold.is_empty() || !self.cut.is_empty()
    }

    /// The plan by hand, on so many devices.
    pub fn choice(&self, graph: &Graph, devices: usize) -> Choice {
        let find = |name: &str| graph.find(name).unwrap_or_else(|| panic!("{}: there is no `{name}`", self.name));
        for (row, label) in &self.cut {
            let spec = graph.spec(find(row)).expect("a row that computes");
            assert!(spec.labels.iter().any(|l| l.name == *label), "{}: `{row}` has no label `{label}`", self.name);
        }
        let labels: Vec<(&str, &str)> = self.cut.iter().map(|(r, l)| (r.as_str(), l.as_str())).collect();
        let mut choice = by_label(graph, devices, &labels);
        for (input, axis) in &self.hold {
            choice.homes.insert(find(input), held(graph, find(input), *axis, devices));
        }
        choice
    }

    /// The graph.
    pub fn graph(&self) -> Graph {
        let graph = text::parse(&self.text).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        for name in self.elements.keys() {
            let known = graph.outputs().iter().any(|(n, _)| n == name) || graph.find(name).is_some();
            assert!(known, "{}: there is no `{name}`", self.name);
        }
        graph
    }

    /// The inputs by name.
    pub fn inputs(&self, graph: &Graph) -> BTreeMap<String, Dense> {
        let inputs = graph.nodes().iter().filter(|n| matches!(n.op, Op::Input(_)));
        inputs
            .map(|n| {
                let given = self.elements.get(&n.name).cloned();
                let values = given.unwrap_or_else(|| (0..n.ty.elements()).map(|v| v as f64).collect());
                (n.name.clone(), self.dense(&n.name, graph, graph.find(&n.name).expect("a row"), &values))
            })
            .collect()
    }

    /// The outputs by name: as given, else the reference's, which must agree with what is given.
    pub fn expected(&self, graph: &Graph) -> BTreeMap<String, Dense> {
        let mut expected = run(graph, &self.inputs(graph)).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        for (name, tensor) in graph.outputs() {
            if let Some(values) = self.elements.get(name) {
                let given = self.dense(name, graph, *tensor, values);
                let off = crate::same::one_difference(&expected[name], &given, self.within);
                assert_eq!(off, None, "{}: the reference's `{name}`", self.name);
                expected.insert(name.clone(), given);
            }
        }
        expected
    }

    fn dense(&self, name: &str, graph: &Graph, tensor: TensorId, values: &[f64]) -> Dense {
        let ty = graph.ty(tensor);
        assert_eq!(values.len(), ty.elements(), "{}: elements of `{name}`, which is {ty}", self.name);
        Dense::from_f64(ty.dtype, ty.shape.clone(), values)
    }
}

/// The sections of a file.
pub fn parse(file: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in file.lines() {
        if let Some(name) = line.strip_prefix("#= ") {
            cases.push(Case { name: name.to_owned(), on: (1..=8).collect(), ..Case::default() });
        }
        let Some(case) = cases.last_mut() else { continue };
        case.text.push_str(line);
        case.text.push('\n');
        if let Some(elements) = line.strip_prefix("#> ") {
            let (name, list) = elements.split_once('=').unwrap_or_else(|| panic!("{line}"));
            let values = list.split_whitespace().flat_map(values).collect();
            assert_eq!(case.elements.insert(name.trim().to_owned(), values), None, "{line}");
        }
        if let Some(directive) = line.strip_prefix("#! ") {
            directed(case, directive);
        }
    }
    cases
}

fn values(word: &str) -> Vec<f64> {
    let number = |text: &str| text.parse::<f64>().unwrap_or_else(|e| panic!("`{word}`: {e}"));
    if let Some((low, high)) = word.split_once("..") {
        (number(low) as i64..number(high) as i64).map(|v| v as f64).collect()
    } else if let Some((times, value)) = word.split_once('*') {
        vec![number(value); number(times) as usize]
    } else {
        vec![number(word)]
    }
}

fn directed(case: &mut Case, directive: &str) {
    let words: Vec<&str> = directive.split_whitespace().collect();
    let rest = |words: usize| directive.splitn(words + 1, ' ').nth(words).map(str::to_owned);
    let number = |text: &str| text.parse().unwrap_or_else(|e| panic!("{}: `{directive}`: {e}", case.name));
    match words[..] {
        ["within", tolerance] => case.within = tolerance.parse().expect("a number"),
        ["refused", ..] => case.refused = rest(1),
        ["fails", ..] => case.fails = rest(1),
        ["searched", "moves", bytes] => case.searched_moves = Some(number(bytes) as u64),
        ["hold", input, axis] => case.hold.push((input.to_owned(), number(axis))),
        ["cut", row, label] => case.cut.push((row.to_owned(), label.to_owned())),
        ["on", ref counts @ ..] => case.on = counts.iter().map(|c| number(c)).collect(),
        ["moves", bytes] => case.moves = Some(number(bytes) as u64),
        _ => panic!("{}: `{directive}` is no directive", case.name),
    }
}
