//! Results that are made again before they are read late, instead of being held.
//!
//! What a map makes of tensors that are there anyway takes its bytes for as long as somebody will read it. Where memory does
//! not suffice, another graph may: in it such a map stands once more, before the first of its late readers. It is planned as
//! any graph is, and has its price.

use crate::consumers::readers;
use crate::needs::{output_sources, sources};
use ein_ir::graph::{Graph, GraphError, TensorId};
use ein_ir::op::{InputKind, Op};
use std::collections::{BTreeMap, BTreeSet};

/// So many contractions between two readers of a tensor make the second one late.
const LATE: usize = 2;

/// The graph with all maps made again that are worth it: of what they read, less must be held for that than they make. Nothing
/// if there are none.
pub(crate) fn again(graph: &Graph) -> Option<Graph> {
    let cuts = cuts(graph);
    if cuts.is_empty() {
        return None;
    }
    let mut writer = Writer { graph, cuts, all: Graph::new(), first: Vec::new(), second: BTreeMap::new() };
    for id in graph.ids() {
        let node = graph.node(id);
        let row = match node.op {
            Op::Input(_) | Op::View(_) => writer.row(id, &node.name, &node.inputs, None),
            Op::Einsum(_) | Op::Kernel(_) => writer.row(id, &node.name, &node.inputs, Some(id)),
        };
        writer.first.push(row);
    }
    let Writer { mut all, first, .. } = writer;
    for (name, id) in graph.outputs() {
        sound(all.output(name, first[id.index()]));
    }
    Some(all)
}

/// The maps that are made again, each with its first late reader.
fn cuts(graph: &Graph) -> BTreeMap<TensorId, TensorId> {
    let read = readers(graph);
    let shown = output_sources(graph);
    let is_contraction = |id: TensorId| graph.spec(id).is_some_and(|s| s.work.contraction);
    let contractions: Vec<usize> = graph.ids().filter(|&id| is_contraction(id)).map(TensorId::index).collect();
    let between = |a: TensorId, b: TensorId| {
        let until = |id: TensorId| contractions.partition_point(|&c| c < id.index());
        until(b).saturating_sub(until(a) + usize::from(is_contraction(a)))
    };
    let mut cuts = BTreeMap::new();
    for id in graph.ids() {
        let Op::Einsum(einsum) = &graph.node(id).op else { continue };
        let spec = graph.spec(id).expect("an einsum has a spec");
        if spec.work.contraction || einsum.rank < einsum.labels.len() || shown.contains(&id) {
            continue;
        }
        let pairs = read[id.index()].windows(2);
        let Some(late) = pairs.filter(|w| between(w[0], w[1]) >= LATE).map(|w| w[1]).next() else { continue };
        // What it reads is held until then anyway, or held for this.
        let held = |source: &TensorId| match graph.node(*source).op {
            Op::Input(InputKind::Parameter | InputKind::State) => true,
            _ => shown.contains(source) || read[source.index()].last().is_some_and(|last| *last >= late),
        };
        let behind: BTreeSet<TensorId> = graph.node(id).inputs.iter().flat_map(|&i| sources(graph, i)).collect();
        let more: u64 = behind.iter().filter(|s| !held(s)).map(|&s| graph.ty(s).bytes()).sum();
        if more < graph.ty(id).bytes() {
            cuts.insert(id, late);
        }
    }
    cuts
}

/// The graph as it is written.
struct Writer<'a> {
    graph: &'a Graph,
    cuts: BTreeMap<TensorId, TensorId>,
    all: Graph,
    /// The place of every row.
    first: Vec<TensorId>,
    /// The places of what is made again, and of views of it.
    second: BTreeMap<TensorId, TensorId>,
}

impl Writer<'_> {
    /// Writes a row. If it computes, it reads what was made again before it.
    fn row(&mut self, id: TensorId, name: &str, inputs: &[TensorId], reader: Option<TensorId>) -> TensorId {
        let mut operands = Vec::with_capacity(inputs.len());
        for &input in inputs {
            operands.push(match reader {
                Some(reader) => self.operand(input, reader),
                None => self.first[input.index()],
            });
        }
        self.push(id, name, &operands)
    }

    fn push(&mut self, id: TensorId, name: &str, operands: &[TensorId]) -> TensorId {
        let node = self.graph.node(id);
        sound(match &node.op {
            Op::Input(kind) => self.all.input(name, *kind, node.ty.clone()),
            Op::Einsum(einsum) => self.all.einsum(name, einsum.clone(), operands),
            Op::View(view) => self.all.view(name, view.clone(), operands),
            Op::Kernel(kernel) => self.all.kernel(name, kernel.clone(), operands),
        })
    }

    /// The place of what a row at `reader` reads.
    fn operand(&mut self, id: TensorId, reader: TensorId) -> TensorId {
        let late = |source: &TensorId| self.cuts.get(source).is_some_and(|late| *late <= reader);
        if !sources(self.graph, id).iter().any(late) {
            return self.first[id.index()];
        }
        if let Some(&known) = self.second.get(&id) {
            return known;
        }
        let inputs = self.graph.node(id).inputs.clone();
        let operands: Vec<TensorId> = inputs.iter().map(|&input| self.operand(input, reader)).collect();
        let mut name = format!("{}.again", self.graph.node(id).name);
        while self.graph.find(&name).is_some() {
            name.push('_');
        }
        let place = self.push(id, &name, &operands);
        self.second.insert(id, place);
        place
    }
}

/// A row that was sound is so beside another of its kind.
fn sound<T>(row: Result<T, GraphError>) -> T {
    row.unwrap_or_else(|e| panic!("a sound row is sound under another name: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let graph = ein_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let names = |g: Graph| g.nodes().iter().map(|n| n.name.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(again(&graph).map(names).as_deref(), expected);
    }

    const HEAD: &str = "x: input f32[8, 8]\nw: param f32[8, 8]\n";

    fn product(name: &str, of: &str) -> String {
        format!("{name} = einsum f32 (i: 8, j: 8 | k: 8) sum {of}[i, k] * w[k, j]\n")
    }

    /// A map of what is held anyway is made again, its view too; what its own operand would be held for is not.
    #[test]
    fn maps_with_late_readers_are_made_again() {
        let three = product("a", "h") + &product("b", "a") + &product("c", "b");
        let map = "h = einsum f32 (i: 8, j: 8) map x[i, j] + 1.0\n";
        let late = "t = permute h [1, 0]\ny = einsum f32 (i: 8, j: 8 | k: 8) sum t[i, k] * c[k, j]\nreturn y\n";
        let both = "z = einsum f32 (i: 8, j: 8 | k: 8) sum x[i, k] * y[k, j]\n";
        check(&format!("{HEAD}{map}{three}{late}"), None);
        let held = late.replace("return y\n", &format!("{both}return z\n"));
        check(&format!("{HEAD}{map}{three}{held}"), Some("x w h a b c t h.again t.again y z"));
        // Of a result nothing is made again.
        check(&format!("{HEAD}{map}{three}{held}return h\n"), None);
    }
}
