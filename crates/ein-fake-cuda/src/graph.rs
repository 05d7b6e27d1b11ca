//! Graphs: built node by node, or captured from streams.

use crate::schedule::Plan;
use crate::work::{Node, Work};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::ThreadId;

/// A graph that is being built.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Part>,
}

/// A node of it.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) what: What,
    pub(crate) after: Vec<usize>,
}

/// What it is.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Node(Arc<Node>),
    Graph(Graph),
}

/// Streams whose work becomes nodes.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) graph: Graph,
    pub(crate) origin: usize,
    pub(crate) streams: BTreeSet<usize>,
    pub(crate) mode: u32,
    pub(crate) thread: ThreadId,
    pub(crate) invalid: bool,
}

impl Graph {
    pub(crate) fn add(&mut self, what: What, after: &[usize]) -> usize {
        let after: BTreeSet<usize> = after.iter().copied().collect();
        self.nodes.push(Part { what, after: after.into_iter().collect() });
        self.nodes.len() - 1
    }

    /// A plan without graphs inside, or nothing if nodes wait for each other in a circle.
    pub(crate) fn plan(&self) -> Option<Plan> {
        let (mut nodes, mut after) = (Vec::new(), Vec::new());
        self.flatten(&[], &mut nodes, &mut after);
        Plan::new(nodes, after)
    }

    /// Appends its nodes, all after `begin`; the place where each node's followers begin.
    fn flatten(&self, begin: &[usize], nodes: &mut Vec<Arc<Node>>, after: &mut Vec<Vec<usize>>) -> Vec<usize> {
        let nothing = || Arc::new(Node { gpu: 0, work: Work::Nothing });
        // Each node's first place: known before edges are written, since edges may be added later to earlier nodes.
        let mut ends = vec![0; self.nodes.len()];
        let mut begins = vec![0; self.nodes.len()];
        for (n, part) in self.nodes.iter().enumerate() {
            begins[n] = nodes.len();
            match &part.what {
                What::Node(node) => {
                    nodes.push(node.clone());
                    after.push(begin.to_vec());
                    ends[n] = begins[n];
                }
                What::Graph(graph) => {
                    nodes.push(nothing());
                    after.push(begin.to_vec());
                    let inner = graph.flatten(&[begins[n]], nodes, after);
                    nodes.push(nothing());
                    after.push(inner);
                    after.last_mut().expect("just added").push(begins[n]);
                    ends[n] = nodes.len() - 1;
                }
            }
        }
        for (n, part) in self.nodes.iter().enumerate() {
            after[begins[n]].extend(part.after.iter().map(|&a| ends[a]));
        }
        ends
    }

    /// Whether everything comes before (or is) one of these.
    pub(crate) fn reaches_all(&self, of: &[usize], wanted: &[usize]) -> bool {
        let mut seen = vec![false; self.nodes.len()];
        let mut list = of.to_vec();
        while let Some(n) = list.pop() {
            if !std::mem::replace(&mut seen[n], true) {
                list.extend(&self.nodes[n].after);
            }
        }
        wanted.iter().all(|&n| seen[n])
    }
}
