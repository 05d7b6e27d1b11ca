//! What the search decides: a decomposition for every operation and a home for every tensor.

use ein_ir::graph::TensorId;
use ein_ir::region::{Region, tiles};
use ein_task::machine::DeviceSet;
use ein_task::relation::Held;
use std::collections::BTreeMap;

/// A region of an operation's label space and the devices that compute it, each for itself. More than
/// one device means that the work is repeated instead of its result being moved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block {
    /// The region, in label space.
    pub region: Region,
    /// The devices; not empty.
    pub devices: DeviceSet,
}

/// Blocks that tile an operation's label space, in the order in which partials are folded.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Decomposition {
    blocks: Vec<Block>,
}

impl Decomposition {
    /// The decomposition with these blocks, if they tile `space` and each has a device. Blocks that are
    /// empty are dropped.
    pub fn new(space: &Region, blocks: Vec<Block>) -> Option<Self> {
        let blocks: Vec<Block> = blocks.into_iter().filter(|b| !b.region.is_empty()).collect();
        let regions: Vec<Region> = blocks.iter().map(|b| b.region.clone()).collect();
        (tiles(&regions, space) && blocks.iter().all(|b| !b.devices.is_empty())).then_some(Self { blocks })
    }

    /// The whole space as one block on `devices`.
    pub fn whole(space: &Region, devices: DeviceSet) -> Self {
        Self { blocks: vec![Block { region: space.clone(), devices }] }
    }

    /// The blocks.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }
}

/// Where a tensor lives between its producer and its readers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Home {
    /// As the producer leaves it, partials and all: readers are served from there directly, each of their
    /// boxes folded on the way.
    AsProduced,
    /// Finished, in these disjoint blocks that fill the tensor; readers are served from here.
    At(Vec<Held>),
}

/// A complete set of decisions for a graph, before lowering.
///
/// Views have no entry. A tensor that no operation but only views read is served through them: needs are
/// always stated in the coordinates of the *source*, the tensor that an input or a computing row made.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Choice {
    /// For every row that computes.
    pub decompositions: BTreeMap<TensorId, Decomposition>,
    /// For every source: inputs of the graph and rows that compute. An input is always `At`.
    pub homes: BTreeMap<TensorId, Home>,
}
