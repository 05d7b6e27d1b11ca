//! The machine as the synthesiser asks about it: links by ends, and cheapest ways under prices.

use ein_task::machine::{DeviceId, DeviceSet, Machine};
use std::cell::OnceCell;

/// No link, or no next device.
const NONE: u32 = u32::MAX;

/// A machine with its links by their ends.
pub(super) struct Net<'a> {
    pub(super) machine: &'a Machine,
    pub(super) devices: usize,
    /// Position of the link between two devices.
    link: Vec<u32>,
    /// Devices that fold.
    pub(super) workers: DeviceSet,
    /// Whether all devices are linked directly and equally fast, and share nothing but their own ports.
    pub(super) uniform: bool,
    /// Seconds that a byte takes on every resource.
    pub(super) slowness: Vec<f64>,
    /// Seconds before the first byte arrives, over the quickest link.
    pub(super) least_latency: f64,
    mirrored: OnceCell<Machine>,
}

impl<'a> Net<'a> {
    pub(super) fn new(machine: &'a Machine) -> Self {
        let devices = machine.len();
        let mut link = vec![NONE; devices * devices];
        for (n, l) in machine.links.iter().enumerate() {
            link[l.from.index() * devices + l.to.index()] = n as u32;
        }
        let least_latency = machine.links.iter().map(|l| l.latency.0).fold(f64::INFINITY, f64::min);
        Self {
            machine,
            devices,
            link,
            workers: machine.workers(),
            uniform: crate::ports::Ports::uniform(machine),
            slowness: machine.resources.iter().map(|r| 1.0 / r.bandwidth).collect(),
            least_latency: if least_latency.is_finite() { least_latency } else { 0.0 },
            mirrored: OnceCell::new(),
        }
    }

    /// The machine with every link turned round, at its own position.
    pub(super) fn mirrored(&self) -> &Machine {
        self.mirrored.get_or_init(|| {
            let mut machine = self.machine.clone();
            machine.links.iter_mut().for_each(|l| std::mem::swap(&mut l.from, &mut l.to));
            machine
        })
    }

    /// Position of the direct link from one device to another.
    pub(super) fn linked(&self, from: DeviceId, to: DeviceId) -> Option<usize> {
        let n = self.link[from.index() * self.devices + to.index()];
        (n != NONE).then_some(n as usize)
    }

    /// Seconds that `bytes` take on every link when nothing else moves, latency included.
    pub(super) fn alone(&self, bytes: f64) -> Vec<f64> {
        let width = |l: &ein_task::machine::Link| l.resources.iter().map(|&r| self.slowness[r]).fold(0.0, f64::max);
        self.machine.links.iter().map(|l| l.latency.0 + bytes * width(l)).collect()
    }
}

/// Cheapest ways between all devices under a cost for every link.
pub(super) struct Ways {
    devices: usize,
    cost: Vec<f64>,
    /// The first device on the way.
    next: Vec<u32>,
    /// Links of the way.
    moves: Vec<u32>,
    /// Whether the rest of the way is one link, even where a detour is cheaper.
    short: bool,
}

impl Ways {
    fn direct(net: &Net, cost: &[f64]) -> Self {
        let n = net.devices;
        let mut ways = Self {
            devices: n,
            cost: vec![f64::INFINITY; n * n],
            next: vec![NONE; n * n],
            moves: vec![1; n * n],
            short: false,
        };
        for d in 0..n {
            (ways.cost[d * n + d], ways.moves[d * n + d]) = (0.0, 0);
        }
        for (link, &c) in net.machine.links.iter().zip(cost) {
            let at = link.from.index() * n + link.to.index();
            (ways.cost[at], ways.next[at]) = (c, link.to.0 as u32);
        }
        ways
    }

    /// Ways under `cost`, one figure a link, none negative. Ties go to fewer links where costs are positive.
    pub(super) fn new(net: &Net, cost: &[f64]) -> Self {
        let n = net.devices;
        let mut ways = Self::direct(net, cost);
        for middle in 0..n {
            for from in 0..n {
                let first = ways.cost[from * n + middle];
                if first == f64::INFINITY || from == middle {
                    continue;
                }
                for to in 0..n {
                    let total = first + ways.cost[middle * n + to];
                    // Not better by rounding only.
                    if total < ways.cost[from * n + to] * (1.0 - 1e-12) {
                        ways.cost[from * n + to] = total;
                        ways.next[from * n + to] = ways.next[from * n + middle];
                        ways.moves[from * n + to] = ways.moves[from * n + middle] + ways.moves[middle * n + to];
                    }
                }
            }
        }
        ways
    }

    /// Cheapest ways of two links at most.
    pub(super) fn short(net: &Net, cost: &[f64]) -> Self {
        let n = net.devices;
        let mut ways = Self::direct(net, cost);
        let one = ways.cost.clone();
        for from in 0..n {
            for to in (0..n).filter(|&to| to != from) {
                for middle in (0..n).filter(|&middle| middle != from && middle != to) {
                    let total = one[from * n + middle] + one[middle * n + to];
                    if total < ways.cost[from * n + to] * (1.0 - 1e-12) {
                        ways.cost[from * n + to] = total;
                        ways.next[from * n + to] = middle as u32;
                        ways.moves[from * n + to] = 2;
                    }
                }
            }
        }
        ways.short = true;
        ways
    }

    /// What the way costs; infinite if there is none.
    pub(super) fn cost(&self, from: DeviceId, to: DeviceId) -> f64 {
        self.cost[from.index() * self.devices + to.index()]
    }

    /// How many devices there are.
    pub(super) fn devices(&self) -> usize {
        self.devices
    }

    /// Links of the way; there must be one.
    pub(super) fn moves(&self, from: DeviceId, to: DeviceId) -> usize {
        self.moves[from.index() * self.devices + to.index()] as usize
    }

    /// The devices of the way, both ends included; there must be one.
    pub(super) fn path(&self, from: DeviceId, to: DeviceId) -> Vec<DeviceId> {
        let mut path = vec![from];
        let mut at = from;
        while at != to {
            at = if self.short && at != from {
                to
            } else {
                DeviceId(self.next[at.index() * self.devices + to.index()] as u16)
            };
            path.push(at);
        }
        path
    }

    /// The device of a set that is cheapest to reach `to` from; the lowest of equals.
    pub(super) fn nearest(&self, set: DeviceSet, to: DeviceId) -> Option<DeviceId> {
        set.iter().min_by(|&a, &b| self.cost(a, to).total_cmp(&self.cost(b, to)).then(a.cmp(&b)))
    }
}
