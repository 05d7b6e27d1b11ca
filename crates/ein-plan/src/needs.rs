//! What readers need and what producers leave, in the coordinates of source tensors.
//!
//! A *source* is a tensor that an input or a computing row made. Views have no blocks of their own: what a
//! reader needs of a view is stated as boxes of the sources behind it.

use crate::choice::Decomposition;
use crate::options::{Options, Placement};
use ein_ir::graph::{Graph, TensorId};
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::Op;
use ein_ir::region::{Interval, Region};
use ein_ir::spec::Spec;
use ein_task::exchange::Need;
use ein_task::machine::{DeviceSet, Machine};
use ein_task::relation::{Held, Relation};
use std::collections::{BTreeMap, BTreeSet};

/// The boxes of source tensors behind a box of any tensor: sorted, without duplicates and empty boxes.
///
/// The last axis of stacked statistics, which finishing adds, is always needed whole: a pending value does not
/// have it, so nothing could be cut there.
pub fn source_boxes(graph: &Graph, tensor: TensorId, region: &Region) -> Vec<(TensorId, Region)> {
    let mut boxes = Vec::new();
    let mut open = vec![(tensor, region.clone())];
    while let Some((tensor, region)) = open.pop() {
        let node = graph.node(tensor);
        match &node.op {
            _ if region.is_empty() => {}
            Op::View(view) => {
                let shapes: Vec<&[usize]> = node.inputs.iter().map(|&i| graph.ty(i).shape.as_slice()).collect();
                for pull in view.pulls(&shapes, &region) {
                    open.extend(pull.input.map(|n| (node.inputs[n], pull.source)));
                }
            }
            Op::Input(_) | Op::Einsum(_) | Op::Kernel(_) => {
                let mut region = region;
                if let (Some(extent), Some(last)) = (stacked(graph, tensor), region.0.last_mut()) {
                    *last = Interval::new(0, extent);
                }
                boxes.push((tensor, region));
            }
        }
    }
    boxes.sort_unstable();
    boxes.dedup();
    boxes
}

/// The extent of a tensor's last axis if finishing adds it, so that it is never cut.
pub fn stacked(graph: &Graph, tensor: TensorId) -> Option<usize> {
    graph.spec(tensor)?.stacked
}

/// The source tensors behind a tensor; itself if it is one.
pub fn sources(graph: &Graph, tensor: TensorId) -> BTreeSet<TensorId> {
    let mut found = BTreeSet::new();
    let mut open = vec![tensor];
    while let Some(tensor) = open.pop() {
        let node = graph.node(tensor);
        match node.op {
            Op::View(_) => open.extend(&node.inputs),
            Op::Input(_) | Op::Einsum(_) | Op::Kernel(_) => {
                found.insert(tensor);
            }
        }
    }
    found
}

/// For every source that `reader` reads, the boxes that each device needs to do all its blocks: sorted, none
/// inside another of the same device. Empty for inputs and views.
pub fn operand_needs(graph: &Graph, reader: TensorId, decomposition: &Decomposition) -> BTreeMap<TensorId, Vec<Need>> {
    match graph.spec(reader) {
        Some(spec) => operand_needs_of(graph, reader, &spec, decomposition),
        None => BTreeMap::new(),
    }
}

/// [`operand_needs`] of a reader whose spec is at hand.
pub fn operand_needs_of(
    graph: &Graph,
    reader: TensorId,
    spec: &Spec,
    decomposition: &Decomposition,
) -> BTreeMap<TensorId, Vec<Need>> {
    let mut needs: BTreeMap<TensorId, Vec<Need>> = BTreeMap::new();
    for block in decomposition.blocks() {
        for (n, &operand) in graph.node(reader).inputs.iter().enumerate() {
            let region = spec.operand_region(n, &block.region);
            for (source, region) in source_boxes(graph, operand, &region) {
                let at = needs.entry(source).or_default();
                at.extend(block.devices.iter().map(|device| Need { device, region: region.clone() }));
            }
        }
    }
    for list in needs.values_mut() {
        *list = tidy(std::mem::take(list));
    }
    needs
}

/// Sorts needs and drops those that lie inside another of the same device.
pub fn tidy(mut needs: Vec<Need>) -> Vec<Need> {
    needs.sort_unstable();
    needs.dedup();
    let inside = |n: &Need, m: &Need| n != m && n.device == m.device && m.region.contains(&n.region);
    let keep: Vec<bool> = needs.iter().map(|n| !needs.iter().any(|m| inside(n, m))).collect();
    let mut keep = keep.into_iter();
    needs.retain(|_| keep.next().expect("one flag a need"));
    needs
}

/// The sources that the graph's outputs show, through views.
pub fn output_sources(graph: &Graph) -> BTreeSet<TensorId> {
    graph.outputs().iter().flat_map(|&(_, tensor)| sources(graph, tensor)).collect()
}

/// Where the sources behind the outputs must be: whole on the devices that the caller asked for. Nothing when
/// outputs are held anywhere.
///
/// A source is needed whole though an output may show only part of it, because views of outputs are taken by
/// the caller's side.
pub fn output_needs(graph: &Graph, options: &Options, machine: &Machine) -> BTreeMap<TensorId, Vec<Need>> {
    let devices: DeviceSet = match options.outputs {
        Placement::Anywhere => DeviceSet::new(),
        Placement::Replicated => machine.workers(),
        Placement::Device(device) => DeviceSet::one(device),
    };
    let mut needs = BTreeMap::new();
    for source in output_sources(graph) {
        let region = graph.ty(source).whole();
        if !region.is_empty() && !devices.is_empty() {
            needs.insert(source, devices.iter().map(|device| Need { device, region: region.clone() }).collect());
        }
    }
    needs
}

/// The relation that a computing row leaves: the blocks' result regions, in block order.
///
/// Blocks that do no work (keys that no query of theirs may see) leave nothing where another block answers for
/// all their result. Where no block overlaps another nothing is to be folded, and the relation is that of a
/// finished tensor whatever the monoid, so that equal questions are equal values.
pub fn produced(graph: &Graph, tensor: TensorId, decomposition: &Decomposition, wide_partials: bool) -> Relation {
    match graph.spec(tensor) {
        Some(spec) => produced_of(graph, tensor, &spec, decomposition, wide_partials),
        None => home_relation(graph, tensor, &[]),
    }
}

/// [`produced`] of a row whose spec is at hand.
pub fn produced_of(
    graph: &Graph,
    tensor: TensorId,
    spec: &Spec,
    decomposition: &Decomposition,
    wide_partials: bool,
) -> Relation {
    let blocks = working_blocks(spec, decomposition)
        .into_iter()
        .map(|n| &decomposition.blocks()[n])
        .map(|b| Held { region: spec.result_region(&b.region), devices: b.devices })
        .collect();
    let mut relation = home_relation(graph, tensor, &[]);
    relation.blocks = blocks;
    if !relation.is_complete() {
        if spec.monoid.is_ordered() {
            let place = |n: usize| spec.place(&decomposition.blocks()[n].region);
            relation.places = working_blocks(spec, decomposition).into_iter().filter_map(place).collect();
        }
        let ty = graph.ty(tensor);
        relation.monoid = spec.monoid;
        relation.pending = spec.monoid.pending(ty.dtype, ty.shape.len(), wide_partials);
    }
    relation
}

/// Positions of the decomposition's blocks that leave a block of the produced relation, in that order.
pub fn working_blocks(spec: &Spec, decomposition: &Decomposition) -> Vec<usize> {
    let blocks = decomposition.blocks();
    let result = |n: usize| spec.result_region(&blocks[n].region);
    // Only a causal limit leaves a block that is not empty without work.
    let idle = |n: usize| spec.work.band.is_some() && spec.points(&blocks[n].region) == 0.0;
    let mut kept: Vec<usize> = (0..blocks.len()).filter(|&n| !result(n).is_empty()).collect();
    if kept.iter().any(|&n| idle(n)) {
        let busy: Vec<Region> = kept.iter().filter(|&&n| !idle(n)).map(|&n| result(n)).collect();
        kept.retain(|&n| !idle(n) || !busy.iter().any(|b| b.contains(&result(n))));
    }
    kept
}

/// The relation of a finished tensor held in these blocks.
pub fn home_relation(graph: &Graph, tensor: TensorId, held: &[Held]) -> Relation {
    let ty = graph.ty(tensor);
    let form = Form::finished(ty.dtype, ty.shape.len());
    let blocks = held.iter().filter(|h| !h.region.is_empty()).cloned().collect();
    Relation {
        whole: ty.whole(),
        monoid: Monoid::Sum,
        pending: form.clone(),
        finished: form,
        blocks,
        places: Vec::new(),
    }
}

/// Every block of a finished relation at each of its holders, as needs.
pub fn held_needs(held: &[Held]) -> Vec<Need> {
    let mut needs: Vec<Need> = held
        .iter()
        .filter(|h| !h.region.is_empty())
        .flat_map(|h| h.devices.iter().map(|device| Need { device, region: h.region.clone() }))
        .collect();
    needs.sort_unstable();
    needs
}
