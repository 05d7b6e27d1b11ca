//! Fewer rows that say the same: what a front door writes becomes what the planner can cut.
//!
//! A model written in `PyTorch` is full of views: a projection to `[b, s, n]` seen as `[b, s, h, d]`, its axes
//! exchanged, attention, and back. A planner that sees the projection's `n` cannot know that it may be cut by
//! heads; one that sees `h` and `d` can. So views go where labels are:
//!
//! 1. *merge*: views of views become one, views that change nothing none (`views::merge`);
//! 2. *push*: a view that is the only reader of an einsum becomes labels of that einsum (`views::push`);
//! 3. *fold*: a view that an einsum reads becomes indices of that einsum, with a folded label in place of every
//!    axis that the view merges (`views::fold`);
//! 4. *spread*: a result that is only read at `64*h + d` gets the axes `h` and `d` (`views::spread`);
//! 5. *align*: a result that only a map reads has its axes in the map's order (`views::align`);
//! 6. *fuse*: a map with one reader becomes part of it, if that is a map or a reduction (`maps::fuse`);
//! 7. rows that nobody reads are dropped; inputs stay.
//!
//! What stays apart: contractions from the maps around them, for a contraction is known by its plain product; and
//! statistics from what is done with them, for that would forbid to cut the row. Results are the same: folded
//! labels are replaced by labels in the same order, and a fused value is rounded as its tensor was. (One thing is
//! rounded less: a product that goes straight into a sum is then added up exactly, as in a contraction.)

mod index;
mod labels;
mod maps;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
mod views;

use crate::graph::{Graph, Node, TensorId};
use crate::op::Op;

/// A graph with the same inputs and outputs and the same results, and with as few views and maps as the rules of
/// this module leave. Deterministic, and idempotent: every rule is applied until none changes anything.
pub fn simplify(graph: &Graph) -> Graph {
    let mut rows = Rows { nodes: graph.nodes().to_vec(), outputs: graph.outputs().to_vec() };
    loop {
        let rules = [views::merge, views::push, views::fold, views::spread, views::align, maps::fuse];
        let changes = rules.map(|rule| rule(&mut rows));
        if !changes.contains(&true) {
            return rows.graph();
        }
    }
}

/// The rows while they are rewritten. A row reads earlier rows only; its name and its type are its own.
struct Rows {
    nodes: Vec<Node>,
    outputs: Vec<(String, TensorId)>,
}

/// Who reads a row.
#[derive(Clone, Default)]
struct Readers {
    /// `(row, operand)`, in order.
    reads: Vec<(usize, usize)>,
    /// Whether it is a result of the graph.
    output: bool,
}

impl Readers {
    /// The row and operand that alone read it.
    fn only(&self) -> Option<(usize, usize)> {
        match (self.reads.as_slice(), self.output) {
            ([one], false) => Some(*one),
            _ => None,
        }
    }
}

impl Rows {
    /// Whether each row leads to an output.
    fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.nodes.len()];
        self.outputs.iter().for_each(|(_, id)| live[id.index()] = true);
        for n in (0..self.nodes.len()).rev() {
            if live[n] {
                self.nodes[n].inputs.iter().for_each(|i| live[i.index()] = true);
            }
        }
        live
    }

    /// The readers of every row, rows that lead nowhere left out.
    fn readers(&self) -> Vec<Readers> {
        let mut readers = vec![Readers::default(); self.nodes.len()];
        self.outputs.iter().for_each(|(_, id)| readers[id.index()].output = true);
        for (n, live) in self.live().into_iter().enumerate() {
            for (operand, input) in self.nodes[n].inputs.iter().enumerate().filter(|_| live) {
                readers[input.index()].reads.push((n, operand));
            }
        }
        readers
    }

    fn shape(&self, id: TensorId) -> &[usize] {
        &self.nodes[id.index()].ty.shape
    }

    /// The live rows and all inputs as a graph.
    fn graph(self) -> Graph {
        let live = self.live();
        let mut graph = Graph::new();
        let mut place = vec![TensorId(0); self.nodes.len()];
        for (n, node) in self.nodes.into_iter().enumerate() {
            if !live[n] && !matches!(node.op, Op::Input(_)) {
                continue;
            }
            let inputs: Vec<TensorId> = node.inputs.iter().map(|i| place[i.index()]).collect();
            let row = match node.op {
                Op::Input(kind) => graph.input(&node.name, kind, node.ty),
                Op::Einsum(einsum) => graph.einsum(&node.name, einsum, &inputs),
                Op::View(view) => graph.view(&node.name, view, &inputs),
                Op::Kernel(kernel) => graph.kernel(&node.name, kernel, &inputs),
            };
            place[n] = row.unwrap_or_else(|e| panic!("a rewrite of a sound row is sound: {e}"));
        }
        for (name, id) in &self.outputs {
            graph.output(name, place[id.index()]).expect("the names were different before");
        }
        graph
    }
}
