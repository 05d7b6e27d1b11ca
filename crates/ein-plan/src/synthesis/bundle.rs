//! What a question asks for: boxes of one signature as one bundle.

use super::SynthesisError;
use super::net::{Net, Ways};
use ein_ir::region::Region;
use ein_task::exchange::{Atom, Exchange};
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::traffic::bytes_of;
use std::collections::BTreeMap;

/// A box, and the blocks that it is folded from or, if finished, the one that contains it.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) region: Region,
    pub(super) blocks: Vec<usize>,
}

/// Boxes whose partials are held by the same devices and that the same devices read.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    pub(super) parts: Vec<Part>,
    /// The holders of every partial, in folding order where that is to be kept, else sorted; one entry if finished.
    pub(super) holders: Vec<DeviceSet>,
    /// Devices that lack it; never empty.
    pub(super) readers: DeviceSet,
    pub(super) finished: bool,
    /// Whether partials are folded in their order, and only neighbours with each other.
    pub(super) ordered: bool,
    /// Bytes of a partial of all parts.
    pub(super) pending: u64,
    /// Bytes of the finished value of all parts.
    pub(super) bytes: u64,
}

/// What a bundle is to the search: everything but where its boxes lie.
pub(super) type Signature = (bool, bool, Vec<DeviceSet>, DeviceSet, u64, u64, usize);

impl Bundle {
    pub(super) fn signature(&self) -> Signature {
        (self.finished, self.ordered, self.holders.clone(), self.readers, self.pending, self.bytes, self.parts.len())
    }

    /// Devices that hold something of it.
    pub(super) fn holding(&self) -> DeviceSet {
        self.holders.iter().fold(DeviceSet::new(), |all, h| all.union(*h))
    }
}

/// The quickest ways for the largest of some bundles when nothing else moves.
pub(super) fn idle_ways(net: &Net, bundles: &[Bundle]) -> Ways {
    let largest = bundles.iter().map(|b| b.bytes.max(b.pending)).max().unwrap_or(0);
    Ways::new(net, &net.alone(largest as f64))
}

/// Bundles of atoms: what several devices read is one bundle, so that they can share moves.
pub(super) fn shared(exchange: &Exchange, atoms: Vec<Atom>) -> Result<Vec<Bundle>, SynthesisError> {
    let mut grouped = Grouped::new(exchange);
    for atom in atoms {
        grouped.add(Part { region: atom.region, blocks: atom.blocks }, atom.readers)?;
    }
    Ok(grouped.bundles())
}

/// Bundles for every reader on its own: of finished blocks one box per need, so that each is one move.
pub(super) fn separate(exchange: &Exchange) -> Result<Vec<Bundle>, SynthesisError> {
    let mut grouped = Grouped::new(exchange);
    let mut needs: Vec<(DeviceId, usize, &Region)> =
        exchange.needs.iter().map(|n| (n.device, n.region.volume(), &n.region)).collect();
    needs.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(b.2)));
    let mut asked: Vec<&Region> = Vec::new();
    let mut last = None;
    for (device, _, region) in needs {
        if last.replace(device) != Some(device) {
            asked.clear();
        }
        let mut parts = vec![region.clone()];
        for earlier in asked.iter().filter(|e| e.overlap(region) > 0) {
            parts = parts.iter().flat_map(|p| p.subtract(earlier)).collect();
        }
        asked.push(region);
        for part in parts {
            grouped.add_for(&part, device)?;
        }
    }
    Ok(grouped.bundles())
}

/// Parts by signature.
struct Grouped<'a> {
    exchange: &'a Exchange,
    finished: Vec<bool>,
    groups: BTreeMap<(bool, Vec<DeviceSet>, DeviceSet), Vec<Part>>,
}

impl<'a> Grouped<'a> {
    fn new(exchange: &'a Exchange) -> Self {
        let finished = (0..exchange.have.blocks.len()).map(|b| exchange.have.is_finished(b)).collect();
        Self { exchange, finished, groups: BTreeMap::new() }
    }

    fn add(&mut self, mut part: Part, readers: DeviceSet) -> Result<(), SynthesisError> {
        if part.blocks.is_empty() {
            return Err(SynthesisError::Missing { region: part.region, readers });
        }
        // Where the order is free, boxes that differ only in which partial is which are alike.
        if !self.exchange.have.monoid.is_ordered() {
            part.blocks.sort_unstable_by_key(|&b| (self.exchange.have.blocks[b].devices, b));
        }
        let finished = matches!(part.blocks[..], [b] if self.finished[b]);
        let holders: Vec<DeviceSet> = part.blocks.iter().map(|&b| self.exchange.have.blocks[b].devices).collect();
        let readers = if finished { readers.without(holders[0]) } else { readers };
        if !readers.is_empty() {
            self.groups.entry((finished, holders, readers)).or_default().push(part);
        }
        Ok(())
    }

    fn add_for(&mut self, part: &Region, device: DeviceId) -> Result<(), SynthesisError> {
        let readers = DeviceSet::one(device);
        let mut covered = 0;
        for b in (0..self.finished.len()).filter(|&b| self.finished[b]) {
            if let Some(region) = self.exchange.have.blocks[b].region.intersect(part) {
                covered += region.volume();
                let part = Part { region, blocks: vec![b] };
                // Boxes of finished blocks are groups of their own blocks.
                let (finished, holders) = (true, vec![self.exchange.have.blocks[b].devices]);
                if !holders[0].contains(device) {
                    self.groups.entry((finished, holders, readers)).or_default().push(part);
                }
            }
        }
        if covered < part.volume() {
            for atom in self.exchange.atoms_of(part, &[(part, device)]) {
                if !matches!(atom.blocks[..], [b] if self.finished[b]) {
                    self.add(Part { region: atom.region, blocks: atom.blocks }, readers)?;
                }
            }
        }
        Ok(())
    }

    fn bundles(self) -> Vec<Bundle> {
        let exchange = self.exchange;
        let bundle = |((finished, holders, readers), parts): ((bool, Vec<DeviceSet>, DeviceSet), Vec<Part>)| {
            let sum = |form: bool| parts.iter().map(|p| bytes_of(exchange, &p.region, form)).sum();
            let ordered = exchange.have.monoid.is_ordered();
            Bundle { pending: sum(false), bytes: sum(true), parts, holders, readers, finished, ordered }
        };
        self.groups.into_iter().map(bundle).collect()
    }
}
