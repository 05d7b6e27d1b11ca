//! Products on grids of devices: both axes of the result cut, and in three dimensions the label that is summed over, too.

use super::{Refusal, cut, holding, reads_label};
use crate::choice::{Block, Choice, Decomposition, Home};
use crate::needs::produced;
use crate::options::{Options, Strategy};
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::Op;
use ein_ir::spec::{Role, Spec};
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::relation::Held;
use std::collections::BTreeMap;

/// Every row as a grid of its own.
pub(super) fn choice(
    strategy: Strategy,
    graph: &Graph,
    options: &Options,
    workers: &[DeviceId],
) -> Result<Choice, Refusal> {
    let mut choice = Choice::default();
    for id in graph.ids() {
        let node = graph.node(id);
        let (Op::Einsum(_) | Op::Kernel(_)) = node.op else { continue };
        let spec = graph.spec(id).expect("a row that computes has a spec");
        let Some(labels) = labels(&spec) else {
            let reason =
                format!("`{}` is not the product of two matrices; grids cut graphs of such products alone", node.name);
            return Err(Refusal { strategy, reason });
        };
        let sizes: Vec<f64> = node.inputs.iter().map(|&i| graph.ty(i).elements() as f64).collect();
        let sizes = [sizes[0], sizes[1], node.ty.elements() as f64];
        let Some(parts) = parts(strategy, &spec, labels, sizes, workers.len()) else {
            let reason = format!("`{}` is too small to be cut in {} parts", node.name, workers.len());
            return Err(Refusal { strategy, reason });
        };
        choice.decompositions.insert(id, blocks(&spec, labels, parts, workers));
        let home = if parts[2] == 1 { Home::AsProduced } else { Home::At(summed(graph, id, &choice)) };
        choice.homes.insert(id, home);
    }
    if choice.decompositions.is_empty() {
        return Err(Refusal { strategy, reason: "the graph has no product".into() });
    }
    holding::from_needs(graph, &mut choice, options, workers);
    Ok(choice)
}

/// The rows of a product, its columns, and what it sums over: of each kind the longest label.
fn labels(spec: &Spec) -> Option<[usize; 3]> {
    let [a, b] = spec.operands.as_slice() else { return None };
    if !spec.work.contraction {
        return None;
    }
    let reads = |axes: &[ein_ir::spec::AxisMap], label| axes.iter().any(|map| reads_label(map, label));
    let longest = |role: Role, first: bool, second: bool| {
        let own = |&l: &usize| spec.labels[l].role == role && reads(&a.axes, l) == first && reads(&b.axes, l) == second;
        (0..spec.labels.len()).filter(own).max_by_key(|&l| (spec.labels[l].extent, std::cmp::Reverse(l)))
    };
    Some([longest(Role::Free, true, false)?, longest(Role::Free, false, true)?, longest(Role::Fold, true, true)?])
}

/// In how many parts the three labels are cut, so that least moves: each block of an operand goes to all that differ in the
/// label that it lacks, and so do partials of the result the other way.
fn parts(strategy: Strategy, spec: &Spec, labels: [usize; 3], sizes: [f64; 3], devices: usize) -> Option<[usize; 3]> {
    let fits = |parts: &[usize; 3]| labels.iter().zip(parts).all(|(&l, &n)| spec.labels[l].extent >= n);
    let flat = |parts: &[usize; 3]| strategy == Strategy::Grid3d || parts[2] == 1;
    let [first, second, result] = sizes;
    let moved =
        |[m, n, k]: &[usize; 3]| first * (*n as f64 - 1.0) + second * (*m as f64 - 1.0) + result * (*k as f64 - 1.0);
    let divisors = |of: usize| (1..=of).filter(move |d| of.is_multiple_of(*d));
    let all = divisors(devices).flat_map(|m| divisors(devices / m).map(move |n| [m, n, devices / m / n]));
    all.filter(fits).filter(flat).min_by(|a, b| moved(a).total_cmp(&moved(b)))
}

fn blocks(spec: &Spec, labels: [usize; 3], parts: [usize; 3], workers: &[DeviceId]) -> Decomposition {
    let space = spec.space();
    let [rows, columns, sums] = [0, 1, 2].map(|n| cut::even_label(spec, labels[n], parts[n]));
    let mut blocks = Vec::new();
    let mut devices = workers.iter();
    for row in &rows {
        for column in &columns {
            for sum in &sums {
                let mut region = space.clone();
                for (label, interval) in labels.into_iter().zip([row, column, sum]) {
                    region.0[label] = *interval;
                }
                let device = *devices.next().expect("as many blocks as devices");
                blocks.push(Block { region, devices: DeviceSet::one(device) });
            }
        }
    }
    Decomposition::new(&space, blocks).expect("a grid tiles")
}

/// Every block of a result in equal parts at the devices that hold partials of it.
fn summed(graph: &Graph, id: TensorId, choice: &Choice) -> Vec<Held> {
    let mut holders: BTreeMap<_, DeviceSet> = BTreeMap::new();
    for block in produced(graph, id, &choice.decompositions[&id], false).blocks {
        let set = holders.entry(block.region).or_default();
        *set = set.union(block.devices);
    }
    let blocks: Vec<Held> = holders.into_iter().map(|(region, devices)| Held { region, devices }).collect();
    holding::once(&blocks)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::fixed;
    use super::super::strategies_tests::{machine, show};
    use super::*;
    use crate::exchanges::exchanges;
    use crate::synthesis::{Aim, synthesize_for};
    use ein_ir::dtype::DType;
    use ein_ir::graph::TensorType;
    use ein_ir::op::InputKind;
    use ein_task::traffic::traffic;

    /// The product of two matrices that are held once.
    pub fn product(m: usize, n: usize, k: usize) -> Graph {
        let mut gemm = Graph::new();
        let mut input = |name: &str, shape: [usize; 2]| {
            gemm.input(name, InputKind::Input, TensorType::new(DType::F32, shape)).unwrap()
        };
        let (a, b) = (input("a", [m, k]), input("b", [k, n]));
        let c = gemm.contraction("c", "mk,kn->mn", &[a, b]).unwrap();
        gemm.output("c", c).unwrap();
        gemm
    }

    #[test]
    fn grids_have_the_shape_that_moves_least() {
        let graph = product(64, 32, 64);
        let check = |strategy: Strategy, devices: usize, expected: &str| {
            let choice = fixed(strategy, &graph, &machine(devices), &Options::default()).unwrap();
            assert_eq!(show(&graph, &choice, "c"), expected, "{} on {devices}", strategy.name());
        };
        check(Strategy::Grid2d, 4, "m,n[0:32,0:16@{0} 0:32,16:32@{1} 32:64,0:16@{2} 32:64,16:32@{3}]");
        check(Strategy::Grid2d, 3, "m[0:22@{0} 22:43@{1} 43:64@{2}]");
        let four = "m,k[0:32,0:32@{0} 0:32,32:64@{1} 32:64,0:32@{2} 32:64,32:64@{3}]";
        check(Strategy::Grid3d, 4, &format!("{four} home 0[0:16@{{0}} 16:32@{{1}} 32:48@{{2}} 48:64@{{3}}]"));
        let parts = |strategy: Strategy, graph: &Graph| {
            let choice = fixed(strategy, graph, &machine(8), &Options::default()).unwrap();
            let machine = machine(8);
            let crossing = exchanges(graph, &choice, &Options::default(), &machine).unwrap().into_iter().map(|p| {
                let program = synthesize_for(&p.exchange, &machine, Aim::Bytes).unwrap();
                traffic(&p.exchange, &program, &machine).bytes_total.0
            });
            crossing.sum::<u64>() / 4
        };
        // A cube on eight devices: 2 × 2 × 2 moves each matrix once, 4 × 2 the operands four times in all.
        assert_eq!(parts(Strategy::Grid3d, &product(32, 32, 32)), 3 * 32 * 32);
        assert_eq!(parts(Strategy::Grid2d, &product(32, 32, 32)), 4 * 32 * 32);
        assert_eq!(parts(Strategy::Grid3d, &product(8, 512, 8)), 7 * 8 * 8);
    }
}
