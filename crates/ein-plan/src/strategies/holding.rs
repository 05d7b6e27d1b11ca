//! Where a tensor that comes in is held.

use super::cut::{Strips, even, parts, strip_of};
use crate::choice::{Choice, Home};
use crate::needs::{operand_needs, tidy};
use crate::options::{Options, Placement};
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::{InputKind, Op};
use ein_ir::region::{Interval, Region};
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::relation::Held;
use std::collections::BTreeMap;

/// A tensor in strips of one axis.
pub(super) fn strips(shape: &[usize], axis: usize, strips: &Strips, workers: &[DeviceId]) -> Vec<Held> {
    let parts = parts(strips, shape[axis], workers);
    parts.into_iter().map(|(interval, devices)| Held { region: strip_of(shape, axis, interval), devices }).collect()
}

/// A tensor where it is needed and nowhere else: disjoint blocks; what nobody needs is on `spare`.
pub(super) fn as_needed(whole: &Region, needs: Vec<Need>, spare: DeviceId) -> Vec<Held> {
    let mut blocks = vec![Held { region: whole.clone(), devices: DeviceSet::new() }];
    for need in tidy(needs) {
        let mut next = Vec::with_capacity(blocks.len());
        for block in blocks {
            let Some(both) = block.region.intersect(&need.region) else {
                next.push(block);
                continue;
            };
            let rest = block.region.subtract(&both);
            next.extend(rest.into_iter().map(|region| Held { region, devices: block.devices }));
            next.push(Held { region: both, devices: block.devices.with(need.device) });
        }
        blocks = next;
    }
    for block in &mut blocks {
        if block.devices.is_empty() {
            block.devices = DeviceSet::one(spare);
        }
    }
    blocks.sort_unstable();
    blocks
}

/// The same blocks, each in equal parts of its longest axis at its devices, so that every element is held once.
pub(super) fn once(blocks: &[Held]) -> Vec<Held> {
    let mut held = Vec::new();
    for block in blocks {
        let devices: Vec<DeviceId> = block.devices.iter().collect();
        let longest = (0..block.region.rank()).rev().max_by_key(|&a| block.region.0[a].len());
        match longest {
            Some(axis) if !block.region.is_empty() => {
                let own = block.region.0[axis];
                let parts = even(own.len(), devices.len()).into_iter().zip(&devices).filter(|(i, _)| !i.is_empty());
                held.extend(parts.map(|(i, &device)| {
                    let mut region = block.region.clone();
                    region.0[axis] = Interval::new(own.lo + i.lo, own.lo + i.hi);
                    Held { region, devices: DeviceSet::one(device) }
                }));
            }
            _ => held.push(Held { region: block.region.clone(), devices: DeviceSet::one(devices[0]) }),
        }
    }
    held
}

/// Where the caller wants an input of kind `Input`; `None` if that is anywhere.
pub(super) fn asked(whole: &Region, place: Placement, workers: &[DeviceId]) -> Option<Vec<Held>> {
    let at = |devices| Some(vec![Held { region: whole.clone(), devices }]);
    match place {
        Placement::Anywhere => None,
        Placement::Replicated => at(workers.iter().copied().collect()),
        Placement::Device(device) => at(DeviceSet::one(device)),
    }
}

/// Decides where what comes in is held, from what the rows of a choice need: parameters and state at all who need them,
/// inputs once, in equal parts at those.
pub(super) fn from_needs(graph: &Graph, choice: &mut Choice, options: &Options, workers: &[DeviceId]) {
    let mut needs = needs(graph, choice);
    for id in graph.ids() {
        let Op::Input(kind) = graph.node(id).op else { continue };
        let whole = graph.ty(id).whole();
        let needed = as_needed(&whole, needs.remove(&id).unwrap_or_default(), workers[0]);
        let held = match kind {
            InputKind::Parameter | InputKind::State => needed,
            InputKind::Input => asked(&whole, options.inputs, workers).unwrap_or_else(|| once(&needed)),
        };
        choice.homes.insert(id, Home::At(held));
    }
}

/// What the rows of a choice need of every source.
pub(super) fn needs(graph: &Graph, choice: &Choice) -> BTreeMap<TensorId, Vec<Need>> {
    let mut needs: BTreeMap<TensorId, Vec<Need>> = BTreeMap::new();
    for (&reader, decomposition) in &choice.decompositions {
        for (source, list) in operand_needs(graph, reader, decomposition) {
            needs.entry(source).or_default().extend(list);
        }
    }
    needs
}
