//! Which exchanges a choice implies. The price and the lowering both ask here, so they cannot differ.
//!
//! Of every source tensor: one exchange to its home where the producer leaves it otherwise, then one hand-out
//! per distinct list of needs among its readers that what is already there does not cover.

use crate::choice::{Choice, Home};
use crate::needs::{
    held_needs, home_relation, operand_needs, output_needs, output_sources, produced, stacked, working_blocks,
};
use crate::options::{Options, Placement};
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::Op;
use ein_ir::region::{Region, tiles};
use ein_task::exchange::{Exchange, Need};
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::relation::{Held, Relation};
use std::collections::{BTreeMap, BTreeSet};

/// Which of a tensor's exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// From the producer to the home.
    ToHome,
    /// From the home, or from the producer where that is the home, to readers.
    HandOut,
}

/// One exchange that a choice implies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The source tensor.
    pub tensor: TensorId,
    /// To its home or from it.
    pub stage: Stage,
    /// The question.
    pub exchange: Exchange,
    /// The rows that read what it delivers, in order; none if it is for an output only, or goes home.
    pub readers: Vec<TensorId>,
}

/// Why a choice is not one for this graph and machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// A row that computes has no decomposition.
    #[error("`{name}` has no decomposition; every row that computes needs one")]
    NoDecomposition {
        /// The row.
        name: String,
    },
    /// The blocks are not those of this row.
    #[error("the blocks of `{name}` do not tile its label space {space}")]
    Blocks {
        /// The row.
        name: String,
        /// Its label space.
        space: Region,
    },
    /// A source has no home.
    #[error("`{name}` has no home; every input and every row that computes needs one")]
    NoHome {
        /// The source.
        name: String,
    },
    /// An input has no producer to leave it anywhere.
    #[error("input `{name}` has no producer: say at which devices its blocks are held")]
    Input {
        /// The input.
        name: String,
    },
    /// A home does not hold all of the tensor, or some of it twice.
    #[error("the home of `{name}` does not fill {whole} with disjoint blocks, each with a holder")]
    Home {
        /// The source.
        name: String,
        /// The tensor's whole region.
        whole: Region,
    },
    /// A home that cuts the axis which finishing adds.
    #[error("the home of `{name}` cuts its last axis; it stacks fields that are folded together and stays whole")]
    Stacked {
        /// The source.
        name: String,
    },
    /// A device that the machine lacks.
    #[error("`{name}` uses device {device}, but the machine has {devices} devices")]
    Device {
        /// The row.
        name: String,
        /// The device.
        device: DeviceId,
        /// How many there are.
        devices: usize,
    },
    /// An output that is left as partials.
    #[error("output `{name}` is left as partials; give it a home where they are folded")]
    PendingOutput {
        /// The source behind the output.
        name: String,
    },
}

/// The question of handing `needs` out from `have`.
pub fn hand_out(have: &Relation, needs: &[Need]) -> Exchange {
    Exchange { have: have.clone(), needs: needs.to_vec() }
}

/// Whether every need lies inside one finished block of `have`, or one box of a list already delivered, at its
/// own device, so that nothing has to be done.
pub fn covered(have: &Relation, delivered: &[&[Need]], needs: &[Need]) -> bool {
    needs.iter().all(|n| covered_at(have, n) || delivered.iter().any(|list| delivers(list, n)))
}

fn covered_at(have: &Relation, need: &Need) -> bool {
    have.blocks
        .iter()
        .enumerate()
        .any(|(b, h)| h.devices.contains(need.device) && h.region.contains(&need.region) && have.is_finished(b))
}

fn delivers(list: &[Need], need: &Need) -> bool {
    list.iter().any(|d| d.device == need.device && d.region.contains(&need.region))
}

/// The order in which a tensor's distinct lists of needs are served: the largest first, because it may cover
/// others; then by value.
pub fn serving_order(a: &[Need], b: &[Need]) -> std::cmp::Ordering {
    let volume = |list: &[Need]| list.iter().map(|n| n.region.volume()).sum::<usize>();
    volume(b).cmp(&volume(a)).then_with(|| a.cmp(b))
}

/// All exchanges of a choice, in graph order; of one tensor, in the order in which they are done.
pub fn exchanges(
    graph: &Graph,
    choice: &Choice,
    options: &Options,
    machine: &Machine,
) -> Result<Vec<Planned>, ChoiceError> {
    validate(graph, choice, machine)?;
    let wanted = wanted(graph, choice, options, machine);
    let shown = output_sources(graph);
    let mut planned = Vec::new();
    for tensor in graph.ids() {
        let left = match graph.node(tensor).op {
            Op::View(_) => continue,
            Op::Input(_) => None,
            Op::Einsum(_) | Op::Kernel(_) => {
                Some(produced(graph, tensor, &choice.decompositions[&tensor], options.wide_partials))
            }
        };
        let have = match (&choice.homes[&tensor], left) {
            (Home::At(held), None) => home_relation(graph, tensor, held),
            (Home::At(held), Some(left)) => {
                let needs = held_needs(held);
                if !covered(&left, &[], &needs) {
                    let exchange = Exchange { have: left, needs };
                    planned.push(Planned { tensor, stage: Stage::ToHome, exchange, readers: Vec::new() });
                }
                home_relation(graph, tensor, held)
            }
            (Home::AsProduced, Some(left)) => {
                if shown.contains(&tensor) && options.outputs == Placement::Anywhere && !left.is_complete() {
                    return Err(ChoiceError::PendingOutput { name: graph.node(tensor).name.clone() });
                }
                left
            }
            (Home::AsProduced, None) => unreachable!("validated: inputs are held somewhere"),
        };
        if let Some(lists) = wanted.get(&tensor) {
            planned.extend(hand_outs(tensor, &have, lists));
        }
    }
    Ok(planned)
}

/// The uncovered lists, each as one hand-out that names every reader which relies on it.
pub(crate) fn hand_outs(
    tensor: TensorId,
    have: &Relation,
    lists: &BTreeMap<Vec<Need>, BTreeSet<TensorId>>,
) -> Vec<Planned> {
    let mut order: Vec<(&Vec<Need>, &BTreeSet<TensorId>)> = lists.iter().collect();
    order.sort_by(|a, b| serving_order(a.0, b.0));
    let mut served: Vec<(&Vec<Need>, BTreeSet<TensorId>)> = Vec::new();
    for (list, readers) in order {
        let rest: Vec<&Need> = list.iter().filter(|n| !covered_at(have, n)).collect();
        let by: Option<BTreeSet<usize>> = rest.iter().map(|n| served.iter().position(|s| delivers(s.0, n))).collect();
        match by {
            Some(by) => by.into_iter().for_each(|s| served[s].1.extend(readers)),
            None => served.push((list, readers.clone())),
        }
    }
    served
        .into_iter()
        .map(|(list, readers)| Planned {
            tensor,
            stage: Stage::HandOut,
            exchange: hand_out(have, list),
            readers: readers.into_iter().collect(),
        })
        .collect()
}

/// For every source, its distinct lists of needs and who has them.
pub(crate) type Wanted = BTreeMap<TensorId, BTreeMap<Vec<Need>, BTreeSet<TensorId>>>;

/// For every source, its distinct lists of needs and who has them (nobody for an output).
pub(crate) fn wanted(graph: &Graph, choice: &Choice, options: &Options, machine: &Machine) -> Wanted {
    let mut wanted = Wanted::new();
    for reader in graph.ids() {
        let Some(decomposition) = choice.decompositions.get(&reader) else { continue };
        for (source, needs) in operand_needs(graph, reader, decomposition) {
            wanted.entry(source).or_default().entry(needs).or_default().insert(reader);
        }
    }
    for (source, needs) in output_needs(graph, options, machine) {
        wanted.entry(source).or_default().entry(needs).or_default();
    }
    wanted
}

/// Checks that the choice decides about every row of this graph, with devices that exist.
pub fn validate(graph: &Graph, choice: &Choice, machine: &Machine) -> Result<(), ChoiceError> {
    let real = DeviceSet::first(machine.len());
    for tensor in graph.ids() {
        let node = graph.node(tensor);
        let name = || node.name.clone();
        let known = |devices: DeviceSet| match devices.iter().find(|&d| !real.contains(d)) {
            Some(device) => Err(ChoiceError::Device { name: name(), device, devices: machine.len() }),
            None => Ok(()),
        };
        let input = match node.op {
            Op::View(_) => continue,
            Op::Input(_) => true,
            Op::Einsum(_) | Op::Kernel(_) => false,
        };
        if let Some(spec) = graph.spec(tensor) {
            let Some(decomposition) = choice.decompositions.get(&tensor) else {
                return Err(ChoiceError::NoDecomposition { name: name() });
            };
            let regions: Vec<Region> = decomposition.blocks().iter().map(|b| b.region.clone()).collect();
            let space = spec.space();
            let unanswered = working_blocks(&spec, decomposition).is_empty() && node.ty.elements() > 0;
            if unanswered || regions.iter().any(|r| r.rank() != space.rank()) || !tiles(&regions, &space) {
                return Err(ChoiceError::Blocks { name: name(), space });
            }
            decomposition.blocks().iter().try_for_each(|b| known(b.devices))?;
        }
        match choice.homes.get(&tensor) {
            None => return Err(ChoiceError::NoHome { name: name() }),
            Some(Home::AsProduced) if input => return Err(ChoiceError::Input { name: name() }),
            Some(Home::AsProduced) => {}
            Some(Home::At(held)) => {
                let held: Vec<&Held> = held.iter().filter(|h| !h.region.is_empty()).collect();
                let regions: Vec<Region> = held.iter().map(|h| h.region.clone()).collect();
                let whole = node.ty.whole();
                let fits = regions.iter().all(|r| r.rank() == whole.rank()) && tiles(&regions, &whole);
                if !fits || held.iter().any(|h| h.devices.is_empty()) {
                    return Err(ChoiceError::Home { name: name(), whole });
                }
                if let Some(extent) = stacked(graph, tensor)
                    && regions.iter().any(|r| r.0.last().is_some_and(|i| i.len() != extent))
                {
                    return Err(ChoiceError::Stacked { name: name() });
                }
                held.iter().try_for_each(|h| known(h.devices))?;
            }
        }
    }
    Ok(())
}
