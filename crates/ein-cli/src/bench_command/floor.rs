//! What no run of a computation can beat: its operations at the arithmetic, its bytes at the bandwidth that this host
//! was measured to reach.

use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::InputKind;
use ein_run::measure::peak;
#[cfg(feature = "cuda")]
use ein_task::machine::Machine;

/// The floor of a computation on so many threads.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    /// Arithmetic operations of products and attention, of all of them if there are none.
    pub operations: f64,
    /// Bytes of what comes in and goes out, each once.
    pub bytes: f64,
    /// Operations per second in the type that is multiplied.
    pub peak: f64,
    /// Bytes per second out of memory as large as `bytes`.
    pub bandwidth: f64,
    /// Where these two are from.
    pub source: &'static str,
}

impl Floor {
    /// Counts a graph and measures this host.
    pub fn measure(graph: &Graph, threads: usize) -> Self {
        let (operations, bytes) = (operations(graph), bytes(graph));
        let bandwidth = peak::bandwidth(threads, bytes as usize);
        Self { operations, bytes, peak: peak::operations(threads, multiplied(graph)), bandwidth, source: "measured" }
    }

    /// Counts a graph, and takes the machine's figures.
    #[cfg(feature = "cuda")]
    pub fn of_machine(graph: &Graph, machine: &Machine) -> Self {
        let dtype = multiplied(graph);
        let workers = || machine.workers().iter().map(|d| &machine.devices[d.index()]);
        Self {
            operations: operations(graph),
            bytes: bytes(graph),
            peak: workers().map(|d| d.rate(dtype)).sum(),
            bandwidth: workers().map(|d| d.memory_bandwidth).sum(),
            source: "the machine's",
        }
    }

    /// Seconds of whichever binds: a run may do both at once.
    pub fn seconds(&self) -> f64 {
        (self.operations / self.peak).max(self.bytes / self.bandwidth)
    }
}

/// The type that the first of a graph's products multiplies.
fn multiplied(graph: &Graph) -> DType {
    let multiplies = |id: &TensorId| graph.spec(*id).is_some_and(|s| s.work.contraction);
    let first = (0..graph.nodes().len()).map(|n| TensorId(n as u32)).find(multiplies);
    let operand = first.and_then(|id| graph.node(id).inputs.first().copied());
    operand.map_or(DType::F32, |id| graph.ty(id).dtype)
}

/// Operations of a graph as its specs count them: of products and attention, unless there are none.
fn operations(graph: &Graph) -> f64 {
    let ids = (0..graph.nodes().len()).map(|n| TensorId(n as u32));
    let specs: Vec<_> = ids.filter_map(|id| graph.spec(id)).collect();
    let sum = |all: bool| {
        let counted = specs.iter().filter(|s| all || s.work.contraction);
        counted.map(|s| s.operations(&s.space())).sum::<f64>()
    };
    if specs.iter().any(|s| s.work.contraction) { sum(false) } else { sum(true) }
}

/// Bytes of inputs, state, parameters and outputs. Of a table that is read by index only rows are needed: it counts as
/// what is read of it.
fn bytes(graph: &Graph) -> f64 {
    let inputs = [InputKind::Input, InputKind::State, InputKind::Parameter];
    let whole = inputs.iter().flat_map(|&kind| graph.inputs(kind)).map(|id| {
        let reads = graph.nodes().iter().enumerate().filter(|(_, n)| n.inputs.contains(&id));
        let by_index = |(at, node): (usize, &ein_ir::graph::Node)| {
            let spec = graph.spec(TensorId(at as u32))?;
            let operand = node.inputs.iter().position(|&input| input == id)?;
            let result = graph.ty(TensorId(at as u32)).bytes();
            spec.operands[operand].by_index.then_some(result)
        };
        let rows: Option<u64> = reads.map(by_index).sum();
        rows.map_or(graph.ty(id).bytes(), |rows| rows.min(graph.ty(id).bytes())) as f64
    });
    let out = graph.outputs().iter().map(|&(_, id)| graph.ty(id).bytes() as f64);
    whole.chain(out).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use einsummable::workloads::workload;

    #[test]
    fn operations_and_bytes_are_counted_once() {
        let check = |text: &str, expected: (f64, f64)| {
            let graph = workload(text).expect("a workload");
            assert_eq!((operations(&graph), bytes(&graph)), expected, "{text}");
        };
        check("gemm:4,5,6", (240.0, 4.0 * (24.0 + 30.0 + 20.0)));
        check("chain:power,8", (3.0 * 1024.0, 4.0 * 128.0));
        // 4 × size operations for each pair of a query and a key that it sees: 6 of 3 by 3.
        check("attention:1x3,2,2,4,causal", (2.0 * 6.0 * 16.0, 4.0 * 4.0 * 24.0));
    }
}
