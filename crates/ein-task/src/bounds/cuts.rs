//! Cuts of a machine: sets of devices, and what can leave them in a second.

use super::Group;
use crate::machine::{DeviceId, DeviceSet, Machine};
use std::collections::BTreeSet;

/// Machines of no more devices have all their cuts looked at.
const ALL: usize = 10;
/// Of larger ones, the most sets of several devices that are joined in pairs.
const PAIRED: usize = 24;
/// And the most sets that a question adds: its holders, and who does not read.
const ASKED: usize = 24;

/// What bounds need to know of a machine, whatever the question.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// Sets, and the most bytes a second that leave them.
    outward: Vec<(DeviceSet, f64)>,
    /// Sets of which something on the way out is something on the way in: the most that cross in either direction.
    both: Vec<(DeviceSet, f64)>,
    /// Sets with the most that cross out of them and into them together.
    apart: Vec<(DeviceSet, f64)>,
    devices: usize,
    /// Fewest moves between two devices, `usize::MAX` where there is no way.
    moves: Vec<usize>,
    /// Least latency between two devices.
    latency: Vec<f64>,
}

impl Cuts {
    /// The cuts of a machine: of all sets of devices on small machines, else of single devices, of those that
    /// share a resource, of those that fast links connect, of pairs of such sets, and of all the others.
    pub fn of(machine: &Machine) -> Self {
        let everyone = DeviceSet::first(machine.len());
        let mut sets: BTreeSet<DeviceSet> = BTreeSet::new();
        if machine.len() <= ALL {
            let set = |bits: u32| -> DeviceSet { machine.ids().filter(|d| bits >> d.0 & 1 == 1).collect() };
            sets.extend((0..1u32 << machine.len()).map(set));
        } else {
            let groups = groups(machine);
            let several: Vec<DeviceSet> = groups.iter().copied().filter(|g| g.len() > 1).take(PAIRED).collect();
            for (n, one) in several.iter().enumerate() {
                sets.extend(several[..n].iter().map(|other| one.union(*other)));
            }
            sets.extend(groups);
            sets.extend(machine.ids().map(DeviceSet::one));
            let others: Vec<DeviceSet> = sets.iter().map(|s| everyone.without(*s)).collect();
            sets.extend(others);
        }
        sets.retain(|s| !s.is_empty() && *s != everyone);
        let outward: Vec<(DeviceSet, f64)> = sets.iter().map(|&s| (s, capacity(machine, s))).collect();
        let both = sets.iter().filter(|s| s.contains(DeviceId(0))).filter_map(|&s| Some((s, both_ways(machine, s)?)));
        let both: Vec<(DeviceSet, f64)> = both.collect();
        let of = |list: &[(DeviceSet, f64)], s: DeviceSet| list.iter().find(|known| known.0 == s).map(|known| known.1);
        let together = |&(s, out): &(DeviceSet, f64)| {
            let back = of(&outward, everyone.without(s))?;
            Some((s, of(&both, s).unwrap_or(out + back)))
        };
        let apart = outward.iter().filter(|s| s.0.contains(DeviceId(0))).filter_map(together).collect();
        let (moves, latency) = distances(machine);
        Self { outward, both, apart, devices: machine.len(), moves, latency }
    }

    /// How many sets of devices are looked at, whatever the question.
    pub fn count(&self) -> usize {
        self.outward.len()
    }

    /// Fewest moves from one device to another; `usize::MAX` where there is no way.
    pub fn moves(&self, from: DeviceId, to: DeviceId) -> usize {
        self.moves[from.index() * self.devices + to.index()]
    }

    /// Least latency from any of `from` to `to`, in seconds; infinite where there is no way.
    pub fn least_latency(&self, from: DeviceSet, to: DeviceId) -> f64 {
        let of = |d: DeviceId| self.latency[d.index() * self.devices + to.index()];
        from.iter().map(of).fold(f64::INFINITY, f64::min)
    }

    /// Seconds of the busiest cut around one device, and of the busiest other one.
    pub(super) fn busiest(&self, groups: &[Group], machine: &Machine) -> (f64, f64) {
        let everyone = DeviceSet::first(self.devices);
        let (mut port, mut cut): (f64, f64) = (0.0, 0.0);
        let mut consider = |set: DeviceSet, bytes: f64, capacity: f64| {
            let seconds = if bytes > 0.0 { bytes / capacity } else { 0.0 };
            let single = set.len() == 1 || set.len() + 1 == self.devices;
            let slot = if single { &mut port } else { &mut cut };
            *slot = slot.max(seconds);
        };
        for &(set, capacity) in &self.outward {
            consider(set, leaving(groups, set), capacity);
        }
        for &(set, capacity) in &self.both {
            consider(set, leaving(groups, set) + leaving(groups, everyone.without(set)), capacity);
        }
        let grows = |g: &&Group| g.holders.len() > 1 && g.readers.len() > 1 && g.partial > g.any;
        let folded: Vec<&Group> = groups.iter().filter(grows).collect();
        if !folded.is_empty() {
            for &(set, capacity) in &self.apart {
                let rest = everyone.without(set);
                let unfinished = unfinished(&folded, set, rest);
                if unfinished > 0.0 {
                    consider(set, leaving(groups, set) + leaving(groups, rest) + unfinished, capacity);
                }
            }
        }
        if self.devices > ALL {
            for set in asked(groups, everyone) {
                consider(set, leaving(groups, set), capacity(machine, set));
            }
        }
        (port, cut)
    }
}

/// Bytes that must leave `set`: a box crosses if somebody outside reads it and only the set has some partial of it.
/// It crosses at least once, as it is or folded with others.
fn leaving(groups: &[Group], set: DeviceSet) -> f64 {
    let crosses =
        |g: &&Group| !g.readers.without(set).is_empty() && g.holders.iter().any(|h| h.without(set).is_empty());
    groups.iter().filter(crosses).map(|g| g.any).sum()
}

/// Bytes beyond [`leaving`] that must cross between two sets, in one direction or the other: of a box of which each set
/// alone has some partial and some device reads. A partial of each crosses to the other side. Of the devices that compute one is the first that
/// every partial has reached; what had come to its side by then was not finished, for only there can the value be
/// finished first. So one of the two crossings is that of a partial.
fn unfinished(folded: &[&Group], set: DeviceSet, rest: DeviceSet) -> f64 {
    let needs = |g: &Group, from: DeviceSet, to: DeviceSet| {
        !g.readers.intersect(to).is_empty() && g.holders.iter().any(|h| h.without(from).is_empty())
    };
    let both = folded.iter().filter(|g| needs(g, set, rest) && needs(g, rest, set));
    both.map(|g| g.partial - g.any).sum()
}

/// Sets that a question suggests: who holds a partial, who holds anything, and who does not read a box.
fn asked(groups: &[Group], everyone: DeviceSet) -> BTreeSet<DeviceSet> {
    let mut sets = BTreeSet::new();
    let all = groups.iter().flat_map(|g| &g.holders).fold(DeviceSet::new(), |a, &h| a.union(h));
    sets.insert(all);
    for group in groups {
        if sets.len() >= ASKED {
            break;
        }
        sets.extend(group.holders.iter().take(ASKED).copied());
        sets.insert(everyone.without(group.readers));
    }
    sets.retain(|s| s.len() > 1 && s.len() + 1 < everyone.len());
    sets
}

/// Sets of devices that belong together: those behind a resource, before it, and those that links of at
/// least some speed connect.
fn groups(machine: &Machine) -> BTreeSet<DeviceSet> {
    let mut groups = BTreeSet::new();
    let mut before = vec![DeviceSet::new(); machine.resources.len()];
    let mut behind = before.clone();
    for link in &machine.links {
        for &r in &link.resources {
            before[r] = before[r].with(link.from);
            behind[r] = behind[r].with(link.to);
        }
    }
    groups.extend(before);
    groups.extend(behind);
    let mut speeds: Vec<f64> = machine.links.iter().map(|l| machine.bandwidth(l)).collect();
    speeds.sort_by(f64::total_cmp);
    speeds.dedup();
    for speed in speeds {
        let mut component: Vec<usize> = (0..machine.len()).collect();
        for link in machine.links.iter().filter(|l| machine.bandwidth(l) >= speed) {
            let (a, b) = (component[link.from.index()], component[link.to.index()]);
            component.iter_mut().filter(|c| **c == a.max(b)).for_each(|c| *c = a.min(b));
        }
        for root in 0..machine.len() {
            groups.insert(machine.ids().filter(|d| component[d.index()] == root).collect());
        }
    }
    groups
}

/// Bytes a second that can leave a set of devices.
pub(super) fn capacity(machine: &Machine, set: DeviceSet) -> f64 {
    let crossing = machine.links.iter().filter(|l| set.contains(l.from) && !set.contains(l.to));
    narrowest(machine, crossing.map(|l| l.resources.as_slice()))
}

/// Bytes a second that can cross in either direction, if a resource lies on ways out and on ways in. Otherwise
/// the two directions say all that both together could.
fn both_ways(machine: &Machine, set: DeviceSet) -> Option<f64> {
    let across = |l: &&crate::machine::Link| set.contains(l.from) != set.contains(l.to);
    let of = |out: bool| {
        let links = machine.links.iter().filter(across).filter(move |l| set.contains(l.from) == out);
        links.flat_map(|l| l.resources.iter().copied()).collect::<BTreeSet<usize>>()
    };
    if of(true).is_disjoint(&of(false)) {
        return None;
    }
    Some(narrowest(machine, machine.links.iter().filter(across).map(|l| l.resources.as_slice())))
}

/// The least bandwidth of resources that together lie on every one of these ways. A transfer loads all
/// resources of its way, so no more than that gets through in a second. The ways are laid out as a network of
/// resources in series, of which the narrowest cut is found by flow; its cut also hits ways that do not exist,
/// which can only make it too large.
fn narrowest<'a>(machine: &Machine, ways: impl Iterator<Item = &'a [usize]>) -> f64 {
    let mut net = Network::default();
    let mut place = vec![usize::MAX; machine.resources.len()];
    let mut used = Vec::new();
    let mut joins = BTreeSet::new();
    for way in ways {
        let mut last = SOURCE;
        for &r in way {
            if place[r] == usize::MAX {
                place[r] = 2 + 2 * used.len();
                used.push(r);
                net.edge(place[r], place[r] + 1, machine.resources[r].bandwidth);
            }
            joins.insert((last, place[r]));
            last = place[r] + 1;
        }
        joins.insert((last, SINK));
    }
    for (from, to) in joins {
        net.edge(from, to, f64::INFINITY);
    }
    net.fill();
    let reached = net.reached();
    let hit = used.iter().filter(|&&r| reached[place[r]] && !reached[place[r] + 1]);
    hit.map(|&r| machine.resources[r].bandwidth).sum()
}

const SOURCE: usize = 0;
const SINK: usize = 1;

/// A network of capacities. An edge and its reverse are neighbours in the list.
#[derive(Default)]
struct Network {
    to: Vec<usize>,
    left: Vec<f64>,
    at: Vec<Vec<usize>>,
    /// The largest capacity there is; a billionth of it is a rounding error.
    widest: f64,
}

impl Network {
    fn edge(&mut self, from: usize, to: usize, capacity: f64) {
        self.at.resize_with(self.at.len().max(from.max(to) + 1), Vec::new);
        if capacity.is_finite() {
            self.widest = self.widest.max(capacity);
        }
        for (a, b, c) in [(from, to, capacity), (to, from, 0.0)] {
            self.at[a].push(self.to.len());
            self.to.push(b);
            self.left.push(c);
        }
    }

    /// Sends as much as gets through, along shortest ways.
    fn fill(&mut self) {
        while let Some(way) = self.way() {
            let width = way.iter().map(|&e| self.left[e]).fold(f64::INFINITY, f64::min);
            for e in way {
                self.left[e] -= width;
                self.left[e ^ 1] += width;
            }
        }
    }

    /// A shortest way from source to sink with capacity left.
    fn way(&self) -> Option<Vec<usize>> {
        let by = self.search();
        let mut way = Vec::new();
        let mut node = SINK;
        while node != SOURCE {
            let edge = *by.get(node)?.as_ref()?;
            way.push(edge);
            node = self.to[edge ^ 1];
        }
        Some(way)
    }

    fn reached(&self) -> Vec<bool> {
        let by = self.search();
        by.iter().enumerate().map(|(n, e)| n == SOURCE || e.is_some()).collect()
    }

    /// By which edge every node is first reached from the source.
    fn search(&self) -> Vec<Option<usize>> {
        let mut by = vec![None; self.at.len()];
        let mut queue = vec![SOURCE];
        let mut next = 0;
        while let Some(&node) = queue.get(next).filter(|n| **n < self.at.len()) {
            next += 1;
            for &e in &self.at[node] {
                let to = self.to[e];
                if self.left[e] > 1e-9 * self.widest && to != SOURCE && by[to].is_none() {
                    by[to] = Some(e);
                    queue.push(to);
                }
            }
        }
        by
    }
}

/// Fewest moves and least latency between any two devices.
fn distances(machine: &Machine) -> (Vec<usize>, Vec<f64>) {
    let n = machine.len();
    let mut moves = vec![usize::MAX; n * n];
    let mut latency = vec![f64::INFINITY; n * n];
    for link in &machine.links {
        let pair = link.from.index() * n + link.to.index();
        moves[pair] = 1;
        latency[pair] = link.latency.0;
    }
    for d in 0..n {
        moves[d * n + d] = 0;
        latency[d * n + d] = 0.0;
    }
    for by in 0..n {
        for from in 0..n {
            for to in 0..n {
                let (a, b) = (from * n + by, by * n + to);
                moves[from * n + to] = moves[from * n + to].min(moves[a].saturating_add(moves[b]));
                latency[from * n + to] = latency[from * n + to].min(latency[a] + latency[b]);
            }
        }
    }
    (moves, latency)
}
