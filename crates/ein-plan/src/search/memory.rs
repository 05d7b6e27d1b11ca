//! What memory there is, what plans hold of it, and what a byte costs.

use super::classes::share;
use super::{DEARER, Found, Room, Search, Share};
use crate::choice::{Choice, Decomposition, Home};
use crate::elimination::Solution;
use crate::needs::operand_needs_of;
use crate::options::Objective;
use ein_ir::graph::TensorId;
use ein_task::machine::{DeviceId, DeviceSet};
use std::collections::{BTreeMap, BTreeSet};

impl Search<'_> {
    /// What a choice of this cost costs with all the memory that there is, at the multiplier.
    pub fn with_memory(&self, cost: f64) -> f64 {
        let count = self.workers.len() as f64;
        let mean = (self.available() - self.worked_on()) / count;
        cost + self.multiplier * mean.max(0.0) * (1.0 + self.uneven * count)
    }

    /// A bound on the cost of every choice whose memory fits: what memory costs at the multiplier is at most
    /// the multiplier times what there is.
    pub fn bound_without_memory(&self, found: &Found) -> f64 {
        let bound = found.bound - self.with_memory(0.0);
        match self.options.objective {
            Objective::Time | Objective::Makespan => bound,
            // Without the seconds that break ties.
            Objective::Bytes => (bound - 0.5).ceil().max(0.0),
            Objective::Memory => 0.0,
        }
    }

    /// Bytes that the devices together hold beside what is resident, each while it computes its part of the row that
    /// reads and makes most: every element read is read somewhere, every element made is made somewhere.
    pub(super) fn worked_on(&self) -> f64 {
        let of = |(&id, (_, sources)): (&TensorId, &(usize, Vec<TensorId>))| {
            let Some(spec) = self.graph.spec(id) else { return 0.0 };
            let whole = Decomposition::whole(&spec.space(), DeviceSet::one(self.workers[0]));
            let needs = operand_needs_of(self.graph, id, &spec, &whole);
            let read = |source: &TensorId| {
                if self.sources[self.tensors[source].0].resident {
                    return 0.0;
                }
                // Boxes may overlap: of several the largest is certain.
                let boxes = needs.get(source).into_iter().flatten().map(|n| n.region.volume());
                (boxes.max().unwrap_or(0) * self.graph.ty(*source).dtype.bytes()) as f64
            };
            self.graph.ty(id).bytes() as f64 + sources.iter().map(read).sum::<f64>()
        };
        self.rows.iter().map(of).fold(0.0, f64::max)
    }

    /// Whether what is resident and read fits on all devices together, held once.
    pub fn may_fit(&self) -> bool {
        let read = |class: &usize, readers: &[TensorId]| self.sources[*class].resident && !readers.is_empty();
        let held = self.tensors.iter().filter(|(_, (class, readers))| read(class, readers));
        let bytes: f64 = held.map(|(id, _)| self.graph.ty(*id).bytes() as f64).sum();
        let hosts: f64 = self.hosts.iter().map(|d| self.machine.devices[d.index()].memory.0 as f64).sum();
        bytes <= self.available() + hosts
    }

    /// Bytes of all devices that compute.
    pub(super) fn available(&self) -> f64 {
        self.workers.iter().map(|&d| self.limit_of(d)).sum()
    }

    /// Bytes that a device may use.
    pub(super) fn limit_of(&self, device: DeviceId) -> f64 {
        let own = self.machine.devices[device.index()].memory.0;
        self.options.memory.map_or(own, |m| m.0.min(own)) as f64
    }

    /// What the fullest device holds of what is resident under a choice, and what is left of the device that has least left
    /// beside it: below 0, the choice does not fit, whatever else is held.
    pub fn resident(&self, choice: &Choice) -> Room {
        let mut held: BTreeMap<DeviceId, f64> = self.workers.iter().map(|&d| (d, 0.0)).collect();
        for (id, (class, _)) in &self.tensors {
            let own = &self.sources[*class];
            let Some(Home::At(blocks)) = choice.homes.get(id).filter(|_| own.resident) else { continue };
            for block in blocks {
                let bytes = (block.region.volume() * own.element) as f64;
                for device in block.devices.iter() {
                    held.entry(device).and_modify(|sum| *sum += bytes);
                }
            }
        }
        let left = held.iter().map(|(&d, held)| self.limit_of(d) - held).fold(f64::INFINITY, f64::min);
        Room { fullest: held.into_values().fold(0.0, f64::max), left }
    }

    /// Makes what is held for a time of tensors of these names, and of those like them, cost more; of none, nothing more
    /// than of others.
    pub fn hold_less(&mut self, names: &[String]) {
        if names.is_empty() {
            self.dearer.clear();
        }
        let named = |id: &TensorId| names.contains(&self.graph.node(*id).name);
        let classes: BTreeSet<usize> = self.tensors.iter().filter(|(id, _)| named(id)).map(|(_, (c, _))| *c).collect();
        for class in classes {
            *self.dearer.entry(class).or_insert(1.0) *= DEARER;
        }
    }

    /// What a byte of a class that is held for a time costs.
    pub(super) fn held_price(&self, class: usize) -> f64 {
        self.multiplier * self.held * self.dearer.get(&class).copied().unwrap_or(1.0)
    }

    /// About what a device holds beside what is resident.
    pub fn worked_on_by_one(&self) -> f64 {
        self.worked_on() / self.workers.len() as f64
    }

    /// The bytes that a home counts for.
    pub(super) fn counted(&self, share: Share) -> f64 {
        share.mean + self.uneven * share.largest
    }

    /// The bytes that the homes of a choice count for.
    pub fn counted_of(&self, choice: &Choice) -> f64 {
        let of = |(id, (class, _)): (&TensorId, &(usize, Vec<TensorId>))| {
            let own = &self.sources[*class];
            let Some(Home::At(held)) = choice.homes.get(id).filter(|_| own.resident) else { return 0.0 };
            self.counted(share(held, own.element, &self.workers))
        };
        self.tensors.iter().map(of).sum()
    }

    /// The bytes that an assignment's homes count for.
    pub(super) fn memory(&self, solution: &Solution) -> f64 {
        let of = |(id, (class, readers)): (&TensorId, &(usize, Vec<TensorId>))| {
            let own = &self.sources[*class];
            if !own.resident {
                return 0.0;
            }
            if let Some(&home) = self.home_variable.get(id) {
                return own.states.get(solution.values[home]).map_or(0.0, |s| self.counted(s.share));
            }
            // Where memory costs nothing, none is counted.
            let lists = self.asked(*class, readers, &solution.values).filter(|_| self.multiplier > 0.0);
            lists.map(|(_, list)| self.counted(own.own_homes[&list])).sum()
        };
        self.tensors.iter().map(of).sum()
    }
}
