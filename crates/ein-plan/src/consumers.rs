//! Who reads a tensor, and through which views.

use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::Op;

/// An operation, or an output of the graph, that reads a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// The operation; `None` for an output.
    pub operation: Option<TensorId>,
    /// Its name.
    pub name: String,
    /// The views between, the one next to the tensor first.
    pub views: Vec<TensorId>,
}

/// The readers of a tensor that compute, and the outputs, in the order of the graph. One that reads the tensor along
/// several ways is listed for each.
pub fn consumers(graph: &Graph, tensor: TensorId) -> Vec<Consumer> {
    // The ways from the tensor to each row, the tensor itself being reached by no view.
    let mut ways: Vec<Vec<Vec<TensorId>>> = vec![Vec::new(); graph.nodes().len()];
    ways[tensor.index()].push(Vec::new());
    let mut found = Vec::new();
    for id in graph.ids().filter(|id| id.index() > tensor.index()) {
        let node = graph.node(id);
        let mut read: Vec<TensorId> = node.inputs.clone();
        read.sort_unstable();
        read.dedup();
        let reached: Vec<Vec<TensorId>> = read.iter().flat_map(|i| ways[i.index()].clone()).collect();
        match node.op {
            Op::View(_) => {
                let through = |mut way: Vec<TensorId>| {
                    way.push(id);
                    way
                };
                ways[id.index()] = reached.into_iter().map(through).collect();
            }
            Op::Einsum(_) | Op::Kernel(_) | Op::Input(_) => {
                let reader = |views| Consumer { operation: Some(id), name: node.name.clone(), views };
                found.extend(reached.into_iter().map(reader));
            }
        }
    }
    for (name, id) in graph.outputs() {
        let reader =
            |views: &Vec<TensorId>| Consumer { operation: None, name: format!("output {name}"), views: views.clone() };
        found.extend(ways[id.index()].iter().map(reader));
    }
    found
}

/// For every tensor the operations that read it, behind views or not, each once, in the order of the graph.
pub(crate) fn readers(graph: &Graph) -> Vec<Vec<TensorId>> {
    let mut readers: Vec<Vec<TensorId>> = vec![Vec::new(); graph.nodes().len()];
    // What is behind every row: views show what their operands show.
    let mut shown: Vec<Vec<TensorId>> = Vec::with_capacity(readers.len());
    for id in graph.ids() {
        let node = graph.node(id);
        let mut read: Vec<TensorId> = node.inputs.iter().flat_map(|i| shown[i.index()].iter().copied()).collect();
        read.sort_unstable();
        read.dedup();
        if matches!(node.op, Op::View(_)) {
            shown.push(read);
        } else {
            for tensor in &read {
                readers[tensor.index()].push(id);
            }
            shown.push(vec![id]);
        }
    }
    readers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_through_views_and_outputs() {
        let graph = ein_ir::text::parse(
            "x: input f32[2, 3]\nt = permute x [1, 0]\nr = reshape t [6]\ny = einsum f32 (i: 6) map r[i] + 1.0\n\
             z = einsum f32 (i: 2, j: 3) map x[i, j] * t[j, i]\nreturn y\nreturn z\nreturn seen = t\n",
        )
        .unwrap_or_else(|e| panic!("{e}"));
        let x = graph.find("x").expect("it is there");
        let names =
            |views: &[TensorId]| views.iter().map(|&v| graph.node(v).name.clone()).collect::<Vec<_>>().join(" ");
        let told: Vec<String> =
            consumers(&graph, x).iter().map(|c| format!("{} <{}>", c.name, names(&c.views))).collect();
        assert_eq!(told, ["y <t r>", "z <>", "z <t>", "output seen <t>"]);
        let read = readers(&graph);
        assert_eq!(names(&read[x.index()]), "y z");
        assert_eq!(read.iter().map(Vec::len).sum::<usize>(), 2);
    }
}
