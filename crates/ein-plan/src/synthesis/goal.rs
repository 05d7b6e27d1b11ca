//! What a question asks for, box by box, and the facts that every draft uses.

use super::SynthesisError;
use ein_ir::region::Region;
use ein_task::exchange::{Atom, Exchange};
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::traffic::{bytes_of, port};

/// A box that devices must get, and the blocks it is folded from.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub(super) region: Region,
    pub(super) blocks: Vec<usize>,
    pub(super) finished: bool,
    pub(super) readers: DeviceSet,
}

/// The question with what every draft asks of it.
pub(super) struct Net<'a> {
    pub(super) exchange: &'a Exchange,
    pub(super) machine: &'a Machine,
    pub(super) finished: Vec<bool>,
    /// Position of the link between two devices, if there is one.
    pub(super) link: Vec<Option<u32>>,
    /// Devices that fold.
    pub(super) workers: DeviceSet,
    /// Whether all devices are linked directly and equally fast.
    pub(super) uniform: bool,
    pub(super) least_latency: f64,
    /// Bytes per second of the fastest link.
    pub(super) fastest: f64,
}

impl<'a> Net<'a> {
    pub(super) fn new(exchange: &'a Exchange, machine: &'a Machine) -> Self {
        let devices = machine.len();
        let mut link = vec![None; devices * devices];
        let (mut slow, mut fast, mut least_latency) = (f64::INFINITY, 0.0f64, f64::INFINITY);
        for (n, l) in machine.links.iter().enumerate() {
            link[l.from.index() * devices + l.to.index()] = Some(n as u32);
            let width = l.resources.iter().map(|&r| machine.resources[r].bandwidth).fold(f64::INFINITY, f64::min);
            (slow, fast) = (slow.min(width), fast.max(width));
            least_latency = least_latency.min(l.latency.0);
        }
        let uniform = machine.links.len() == devices * devices.saturating_sub(1) && slow >= 0.999 * fast;
        let finished = (0..exchange.have.blocks.len()).map(|b| exchange.have.is_finished(b)).collect();
        Self { exchange, machine, finished, link, workers: machine.workers(), uniform, least_latency, fastest: fast }
    }

    pub(super) fn holders(&self, block: usize) -> DeviceSet {
        self.exchange.have.blocks[block].devices
    }

    pub(super) fn block(&self, block: usize) -> &'a Region {
        &self.exchange.have.blocks[block].region
    }

    pub(super) fn linked(&self, from: DeviceId, to: DeviceId) -> Option<usize> {
        self.link[from.index() * self.machine.len() + to.index()].map(|n| n as usize)
    }

    /// For every device on its own, what it must get: of finished blocks one box per need, so that each
    /// is one move.
    pub(super) fn direct_goals(&self) -> Result<Vec<Goal>, SynthesisError> {
        let mut needs: Vec<(DeviceId, usize, &Region)> = Vec::with_capacity(self.exchange.needs.len());
        needs.extend(self.exchange.needs.iter().map(|n| (n.device, n.region.volume(), &n.region)));
        needs.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(b.2)));
        let mut goals = Vec::new();
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
                self.goals_of(&part, device, &mut goals)?;
            }
        }
        // Round n serves the devices n places on, so that no two senders meet at one receiver.
        let devices = self.machine.len();
        goals.sort_by_key(|g: &Goal| {
            let reader = g.readers.lowest().map_or(0, DeviceId::index);
            let holder = self.holders(g.blocks[0]).lowest().map_or(0, DeviceId::index);
            ((reader + devices - holder) % devices, reader)
        });
        Ok(goals)
    }

    fn goals_of(&self, part: &Region, device: DeviceId, goals: &mut Vec<Goal>) -> Result<(), SynthesisError> {
        let readers = DeviceSet::one(device);
        let mut covered = 0;
        for (b, _) in self.finished.iter().enumerate().filter(|f| *f.1) {
            let volume = self.block(b).overlap(part);
            covered += volume;
            if volume > 0
                && !self.holders(b).contains(device)
                && let Some(region) = self.block(b).intersect(part)
            {
                goals.push(Goal { region, blocks: vec![b], finished: true, readers });
            }
        }
        if covered < part.volume() {
            let atoms = self.exchange.atoms_of(part, &[(part, device)]);
            if let Some(atom) = atoms.iter().find(|a| a.blocks.is_empty()) {
                return Err(SynthesisError::Missing { region: atom.region.clone(), readers });
            }
            goals.extend(self.bundles(atoms).into_iter().filter(|g| !g.finished));
        }
        Ok(())
    }

    /// Seconds in which the device that lacks most can receive it.
    pub(super) fn receive_bound(&self, direct: &[Goal]) -> f64 {
        let mut lacks = vec![0; self.machine.len()];
        for goal in direct {
            let reader = goal.readers.lowest().map_or(0, DeviceId::index);
            let pending = || bytes_of(self.exchange, &goal.region, false);
            let local = |&b: &usize| self.holders(b).intersect(goal.readers).len() == 1;
            if goal.finished {
                lacks[reader] += bytes_of(self.exchange, &goal.region, true);
            } else if !goal.blocks.iter().all(local) {
                lacks[reader] += bytes_of(self.exchange, &goal.region, true).min(pending());
            }
        }
        let most = (0..lacks.len()).max_by_key(|&d| (lacks[d], d)).filter(|&d| lacks[d] > 0);
        most.map_or(0.0, |d| lacks[d] as f64 / port(self.machine, DeviceId(d as u16), false))
    }

    /// Atoms as goals, without readers that hold the finished box.
    pub(super) fn bundles(&self, atoms: Vec<Atom>) -> Vec<Goal> {
        let goal = |atom: Atom| {
            let finished = atom.blocks.len() == 1 && self.finished[atom.blocks[0]];
            let local = if finished { self.holders(atom.blocks[0]) } else { DeviceSet::new() };
            let readers = atom.readers.iter().filter(|&d| !local.contains(d)).collect();
            Goal { region: atom.region, blocks: atom.blocks, finished, readers }
        };
        atoms.into_iter().map(goal).filter(|g| !g.readers.is_empty()).collect()
    }

    /// Devices among which a box is cut so that each folds or forwards a slice.
    pub(super) fn owners(&self, goal: &Goal) -> DeviceSet {
        let readers = goal.readers.intersect(self.workers);
        if goal.finished {
            return readers;
        }
        let holders = goal.blocks.iter().fold(DeviceSet::new(), |all, &b| all.union(self.holders(b)));
        let holders = holders.intersect(self.workers);
        let both = holders.intersect(readers);
        if goal.readers.len() > 1 && !both.is_empty() {
            both
        } else if holders.is_empty() {
            readers
        } else {
            holders.union(both)
        }
    }

    /// Up to `count` boxes of about equal size that fill `region`; cut along an axis that every pending
    /// field has, so that no field crosses twice.
    pub(super) fn slices(&self, region: &Region, finished: bool, count: usize) -> Vec<Region> {
        let mut axes: Vec<usize> = (0..region.rank()).collect();
        if !finished {
            axes.retain(|a| self.exchange.have.pending.fields.iter().all(|f| f.axes.contains(a)));
        }
        let mut slices = Vec::with_capacity(count);
        slice(region.clone(), &axes, count, &mut slices);
        slices
    }
}

fn slice(region: Region, axes: &[usize], count: usize, slices: &mut Vec<Region>) {
    let long = axes.iter().find(|&&a| region.0[a].len() >= count);
    let axis = long.or_else(|| axes.iter().max_by_key(|&&a| (region.0[a].len(), usize::MAX - a)));
    match axis {
        Some(&axis) if count > 1 && region.0[axis].len() > 1 => {
            let (own, lower) = (region.0[axis], count / 2);
            let at = (own.len() * lower / count).max(1);
            let (low, high) = region.split(axis, own.lo + at);
            slice(low, axes, lower, slices);
            slice(high, axes, count - lower, slices);
        }
        _ => slices.push(region),
    }
}
