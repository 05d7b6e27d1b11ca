//! Plans drawn from the search's candidates, for statistics of what plans cost.

use super::holding;
use crate::candidates::{Richness, candidates};
use crate::choice::{Choice, Home};
use crate::needs::{output_sources, produced};
use crate::options::Options;
use ein_ir::graph::Graph;
use ein_ir::op::Op;
use ein_task::machine::{DeviceId, Machine};

/// For every row any candidate, all alike likely; its result stays as it was made, or goes to where it is needed.
pub(super) fn choice(seed: u64, graph: &Graph, machine: &Machine, options: &Options) -> Choice {
    let workers: Vec<DeviceId> = machine.workers().iter().collect();
    let mut random = Random(seed);
    let mut choice = Choice::default();
    for id in graph.ids() {
        let (Op::Einsum(_) | Op::Kernel(_)) = graph.node(id).op else { continue };
        let spec = graph.spec(id).expect("a row that computes has a spec");
        let mut all = candidates(&spec, machine, Richness::of(machine));
        let drawn = all.swap_remove(random.below(all.len()));
        choice.decompositions.insert(id, drawn.decomposition);
    }
    let shown = output_sources(graph);
    let mut needs = holding::needs(graph, &choice);
    let rows: Vec<_> = choice.decompositions.keys().copied().collect();
    for id in rows {
        let whole = graph.ty(id).whole();
        // An output that nobody reads is needed on some device.
        let spare = workers[random.below(workers.len())];
        let needed = holding::as_needed(&whole, needs.remove(&id).unwrap_or_default(), spare);
        let pending = !produced(graph, id, &choice.decompositions[&id], options.wide_partials).is_complete();
        let moves = random.below(2) == 0 || (pending && shown.contains(&id));
        choice.homes.insert(id, if moves && !whole.is_empty() { Home::At(needed) } else { Home::AsProduced });
    }
    holding::from_needs(graph, &mut choice, options, &workers);
    choice
}

/// splitmix64: the same seed, the same numbers.
struct Random(u64);

impl Random {
    /// A number below `n`, which is not 0.
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}
