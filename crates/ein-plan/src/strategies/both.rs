//! Two strategies at once: one over groups of devices, one inside every group.

use super::{Refusal, holding, strips};
use crate::choice::{Block, Choice, Decomposition, Home};
use crate::needs::produced;
use crate::options::{Options, Strategy};
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::{InputKind, Op};
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::relation::Held;
use std::collections::BTreeMap;

/// Data over groups, tensor inside them: every block is what a block of the one and a block of the other have in common.
pub(super) fn choice(
    data: usize,
    tensor: usize,
    graph: &Graph,
    options: &Options,
    workers: &[DeviceId],
) -> Result<Choice, Refusal> {
    let strategy = Strategy::DataTensor { data, tensor };
    let refuse = |reason: String| Refusal { strategy, reason };
    if data.checked_mul(tensor) != Some(workers.len()) {
        let devices = workers.len();
        let use_all = Strategy::compared(devices).into_iter().filter(|s| matches!(s, Strategy::DataTensor { .. }));
        let names: Vec<String> = use_all.map(Strategy::name).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        return Err(refuse(format!("there are {devices} devices; of such strategies {names} would use all of them")));
    }
    let numbered = |count: usize| workers[..count].to_vec();
    // Neither decides where inputs are that the caller wants somewhere: that is said of all devices.
    let outer = strips(Strategy::Data, graph, options, numbered(data))
        .map_err(|r| refuse(format!("with each of {data} groups as a device: {}", r.reason)))?;
    let inner = strips(Strategy::Tensor, graph, options, numbered(tensor))
        .map_err(|r| refuse(format!("inside a group of {tensor} devices: {}", r.reason)))?;
    let place: BTreeMap<DeviceId, usize> = workers.iter().enumerate().map(|(n, &d)| (d, n)).collect();
    let both = |groups: DeviceSet, members: DeviceSet| -> DeviceSet {
        let member = |group: DeviceId| members.iter().map(move |m| (group, m));
        groups.iter().flat_map(member).map(|(group, m)| workers[place[&group] * tensor + place[&m]]).collect()
    };
    let mut choice = Choice::default();
    for (&id, outside) in &outer.decompositions {
        let spec = graph.spec(id).expect("a row that computes has a spec");
        choice.decompositions.insert(id, common(&spec.space(), outside, &inner.decompositions[&id], both));
    }
    for (&id, home) in &outer.homes {
        let home = match (home, &inner.homes[&id]) {
            (Home::AsProduced, Home::AsProduced) => Home::AsProduced,
            (Home::At(_) | Home::AsProduced, _) => {
                let (groups, members) = (held(graph, &outer, id), held(graph, &inner, id));
                let pairs = groups.iter().flat_map(|g| members.iter().map(move |m| (g, m)));
                let held = pairs.filter_map(|(g, m)| {
                    Some(Held { region: g.region.intersect(&m.region)?, devices: both(g.devices, m.devices) })
                });
                Home::At(held.collect())
            }
        };
        choice.homes.insert(id, home);
    }
    for id in graph.inputs(InputKind::Input) {
        if let Some(held) = holding::asked(&graph.ty(id).whole(), options.inputs, workers) {
            choice.homes.insert(id, Home::At(held));
        }
    }
    // What has no element is in no part of both.
    for id in graph.ids().filter(|&id| graph.ty(id).elements() == 0) {
        if matches!(graph.node(id).op, Op::Input(_)) {
            let devices = workers.iter().copied().collect();
            choice.homes.insert(id, Home::At(vec![Held { region: graph.ty(id).whole(), devices }]));
        } else if let Some(home) = choice.homes.get_mut(&id) {
            *home = Home::AsProduced;
        }
    }
    Ok(choice)
}

/// The blocks that two decompositions of one space have in common.
fn common(
    space: &ein_ir::region::Region,
    outside: &Decomposition,
    inside: &Decomposition,
    both: impl Fn(DeviceSet, DeviceSet) -> DeviceSet,
) -> Decomposition {
    let mut blocks = Vec::new();
    for a in outside.blocks() {
        for b in inside.blocks() {
            if let Some(region) = a.region.intersect(&b.region) {
                blocks.push(Block { region, devices: both(a.devices, b.devices) });
            }
        }
    }
    match Decomposition::new(space, blocks) {
        Some(common) if !common.blocks().is_empty() => common,
        // An empty space has no block, yet a fold over nothing has a result.
        _ => Decomposition::whole(space, both(outside.blocks()[0].devices, inside.blocks()[0].devices)),
    }
}

/// Where a tensor is: its home, or as its producer leaves it, which a strategy allows only of finished blocks.
fn held(graph: &Graph, choice: &Choice, id: TensorId) -> Vec<Held> {
    match &choice.homes[&id] {
        Home::At(held) => held.clone(),
        Home::AsProduced => produced(graph, id, &choice.decompositions[&id], false).blocks,
    }
}
