//! Machines of two levels: slices are folded and handed out inside each group and cross between groups once.

use super::super::MOST_HOPS;
use super::super::bundle::Bundle;
use super::super::net::Net;
use super::super::route::{Fold, Hop, Leg, Route, Scheme, climb, join, leaves_first, pruned};
use super::Seeds;
use ein_task::machine::{DeviceId, DeviceSet};
use std::rc::Rc;

/// How data goes from group to group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Across {
    /// On the rail of a slice's owner or of who holds it; a lone reader of a group gets it at once.
    Owner,
    /// The same, but a finished value is first spread over its group, so that all ways between the groups are used.
    Spread,
    /// The same between devices of equal position only, so that a lone reader's port is not what all of it crosses.
    Rails,
    /// Between devices of equal position only. Groups that fold and read a slice send each other what they folded,
    /// and each has an owner; a lone reader is reached by way of its group's device of the rail. Groups must be of
    /// one size.
    Peers,
}

/// The groups of a machine. A rail is the devices of one position in their groups.
struct Levels<'a> {
    seeds: &'a Seeds<'a>,
    groups: &'a [Vec<DeviceId>],
    across: Across,
}

impl Seeds<'_> {
    /// [`Across::Owner`], [`Across::Spread`] and [`Across::Rails`], if the machine has groups.
    pub(in super::super) fn levels(&self) -> [Option<Scheme>; 3] {
        let groups = groups(self.net);
        [Across::Owner, Across::Spread, Across::Rails].map(|across| self.two_level(groups.as_ref()?, across))
    }

    /// [`Across::Peers`], if the machine has groups and that is not too much to lay out. Packing starts from the other
    /// shapes, whose ways are easier to move shares from.
    pub(in super::super) fn peers(&self) -> Option<Scheme> {
        let groups = groups(self.net)?;
        let hops = |b: &Bundle| groups[0].len() * (b.readers.len() + groups.len() * b.holders.len());
        let few = self.bundles.iter().map(hops).sum::<usize>() <= MOST_HOPS;
        few.then(|| self.two_level(&groups, Across::Peers)).flatten()
    }

    /// Every bundle in slices that cross between the devices of equal position in their groups. `None` where that
    /// cannot be, or where [`Across::Peers`] is what [`Across::Owner`] is.
    fn two_level(&self, groups: &[Vec<DeviceId>], across: Across) -> Option<Scheme> {
        let mut all = groups.iter().flatten();
        if !all.all(|&a| groups.iter().flatten().all(|&b| self.ways.cost(a, b).is_finite())) {
            return None;
        }
        let levels = Levels { seeds: self, groups, across };
        let peers = across == Across::Peers;
        if peers && groups.iter().any(|g| g.len() != groups[0].len()) {
            return None;
        }
        let mut crowd = vec![0usize; groups.iter().map(Vec::len).max()?];
        let mut of_its_own = !peers;
        let mut legs = Vec::new();
        for (n, bundle) in self.bundles.iter().enumerate() {
            let folding = if peers { levels.folding(bundle) } else { Vec::new() };
            let routes = if bundle.finished {
                let lone = peers && levels.lone(bundle);
                of_its_own |= lone;
                levels.handed(bundle, lone, &mut crowd)?
            } else if folding.len() > 1 {
                of_its_own = true;
                (0..crowd.len()).map(|rail| levels.folded(bundle, &folding, rail)).collect::<Option<_>>()?
            } else {
                self.owners(bundle).iter().map(|owner| levels.owned(bundle, owner)).collect::<Option<Vec<_>>>()?
            };
            let share = 1.0 / routes.len() as f64;
            legs.extend(routes.into_iter().map(|route| Leg { bundle: n, share, route: Rc::new(route) }));
        }
        of_its_own.then(|| Scheme::new(Rc::clone(&self.bundles), legs))
    }
}

impl Levels<'_> {
    fn group_of(&self, device: DeviceId) -> Option<usize> {
        self.groups.iter().position(|g| g.contains(&device))
    }

    fn position(&self, device: DeviceId) -> Option<usize> {
        self.groups[self.group_of(device)?].iter().position(|d| *d == device)
    }

    /// The device of a rail in a group.
    fn peer(&self, group: usize, rail: usize) -> DeviceId {
        self.groups[group][rail % self.groups[group].len()]
    }

    fn among(&self, group: usize, devices: DeviceSet) -> DeviceSet {
        self.groups[group].iter().copied().filter(|&d| devices.contains(d)).collect()
    }

    /// Groups that hold partials and read the value.
    fn folding(&self, bundle: &Bundle) -> Vec<usize> {
        let both =
            |&g: &usize| !self.among(g, bundle.holding()).is_empty() && !self.among(g, bundle.readers).is_empty();
        (0..self.groups.len()).filter(both).collect()
    }

    /// Whether one device alone reads what another group has.
    fn lone(&self, bundle: &Bundle) -> bool {
        let group = |set: DeviceSet| set.lowest().and_then(|d| self.group_of(d));
        let (one, from) = (bundle.readers.len() == 1, bundle.holders[0].len() == 1);
        one && from && group(bundle.readers) != group(bundle.holders[0])
    }

    /// Whether a finished bundle gains from crossing between the groups on several ways: not if it does not cross.
    fn spreads(&self, bundle: &Bundle) -> bool {
        let has = |set: DeviceSet, g: usize| !self.among(g, set).is_empty();
        self.across == Across::Spread
            || (0..self.groups.len()).any(|g| has(bundle.readers, g) && !has(bundle.holders[0], g))
    }

    /// Whether one device holds a finished bundle and its whole group reads it.
    fn alone(&self, bundle: &Bundle) -> bool {
        let Some(group) = bundle.holders[0].lowest().and_then(|h| self.group_of(h)) else { return false };
        let inside = self.among(group, bundle.readers).len() + 1;
        bundle.holders[0].len() == 1 && inside > 2 && inside == self.groups[group].len()
    }

    /// Routes of a finished bundle. What has a `lone` reader goes on the reader's rail or its holder's, whichever
    /// fewer bundles went on before.
    fn handed(&self, bundle: &Bundle, lone: bool, crowd: &mut [usize]) -> Option<Vec<Route>> {
        let holders: Vec<DeviceId> = bundle.holders[0].iter().collect();
        let rails: Vec<(DeviceId, usize)> = if lone {
            let (own, other) = (self.position(holders[0])?, self.position(bundle.readers.lowest()?)?);
            let rail = if crowd[other] < crowd[own] { other } else { own };
            crowd[rail] += 1;
            vec![(holders[0], rail)]
        } else if matches!(self.across, Across::Spread | Across::Rails) && self.spreads(bundle) {
            let all = (0..crowd.len()).map(|n| (holders[n % holders.len()], n));
            // Who alone has it and sends all of it to its group has no time to hand out a slice of its own.
            let own = holders.first().and_then(|&h| self.position(h)).filter(|_| self.alone(bundle));
            all.filter(|rail| own != Some(rail.1)).collect()
        } else {
            holders.iter().map(|&h| Some((h, self.position(h)?))).collect::<Option<_>>()?
        };
        let route = |(source, rail)| {
            let hands = self.hands(DeviceSet::one(source), source, rail, bundle.readers)?;
            Some(Route { folds: vec![], hands })
        };
        rails.into_iter().map(route).collect()
    }

    /// From `source` by way of the rail's device to that of every other group where none of `have` is, and from
    /// these to the readers.
    fn hands(&self, mut have: DeviceSet, source: DeviceId, rail: usize, readers: DeviceSet) -> Option<Vec<Hop>> {
        let ways = self.seeds.ways;
        let own = self.group_of(source)?;
        let mut hops = Vec::new();
        let via = self.peer(own, rail);
        let starts = have;
        let away = |g: usize| g != own && self.among(g, starts).is_empty() && !self.among(g, readers).is_empty();
        let leaves = (0..self.groups.len()).any(away);
        if via != source && (leaves || self.among(own, readers).len() > 1) {
            join(&ways.path(source, via), &mut have, &mut hops);
        }
        for g in (0..self.groups.len()).filter(|&g| away(g)) {
            let only = self.among(g, readers);
            let direct = matches!(self.across, Across::Owner | Across::Spread) && only.len() == 1;
            let entry = if direct { only.lowest()? } else { self.peer(g, rail) };
            let start = if have.contains(via) { via } else { source };
            join(&ways.path(start, entry), &mut have, &mut hops);
        }
        for g in 0..self.groups.len() {
            for d in self.groups[g].iter().copied().filter(|&d| readers.contains(d)) {
                if have.contains(d) {
                    continue;
                }
                let entry = self.peer(g, rail);
                let start = if have.contains(entry) {
                    entry
                } else {
                    self.groups[g].iter().copied().find(|&d| have.contains(d))?
                };
                join(&ways.path(start, d), &mut have, &mut hops);
            }
        }
        readers.iter().all(|r| have.contains(r)).then(|| pruned(hops, readers))
    }

    /// The route of a slice that is folded at `owner`.
    fn owned(&self, bundle: &Bundle, owner: DeviceId) -> Option<Route> {
        let (own, rail) = (self.group_of(owner)?, self.position(owner)?);
        let supplier = |h: &DeviceSet| {
            let near = h.iter().find(|&d| d == owner).or_else(|| h.iter().find(|&d| self.group_of(d) == Some(own)));
            near.or_else(|| self.of_rail(*h, rail))
        };
        let from = bundle.holders.iter().map(supplier).collect::<Option<_>>()?;
        let fold = self.fold(owner, rail, from)?;
        Some(Route { folds: vec![fold], hands: self.hands(DeviceSet::one(owner), owner, rail, bundle.readers)? })
    }

    /// The route of a slice that every group of `folding` folds for itself at its device of the rail. A partial has
    /// one supplier for all of them, so that what a group folds is the same wherever it goes; but a group that has
    /// all partials needs nothing from the others.
    fn folded(&self, bundle: &Bundle, folding: &[usize], rail: usize) -> Option<Route> {
        let shared: Vec<DeviceId> = bundle.holders.iter().map(|&h| self.of_rail(h, rail)).collect::<Option<_>>()?;
        let fold = |&g: &usize| {
            let inside = |h: &DeviceSet| self.of_rail(self.among(g, *h), rail);
            let within: Option<Vec<DeviceId>> = bundle.holders.iter().map(inside).collect();
            self.fold(self.peer(g, rail), rail, within.unwrap_or_else(|| shared.clone()))
        };
        let folds: Vec<Fold> = folding.iter().map(fold).collect::<Option<_>>()?;
        let owners: DeviceSet = folds.iter().map(|f| f.root).collect();
        let hands = self.hands(owners, folds.first()?.root, rail, bundle.readers)?;
        Some(Route { folds, hands })
    }

    /// Of several devices the first of a rail, or else the first.
    fn of_rail(&self, devices: DeviceSet, rail: usize) -> Option<DeviceId> {
        devices.iter().find(|&d| self.position(d) == Some(rail)).or_else(|| devices.lowest())
    }

    /// The in-tree in which each supplier sends to its group's device of the rail, and that to the owner.
    fn fold(&self, owner: DeviceId, rail: usize, from: Vec<DeviceId>) -> Option<Fold> {
        let (ways, own) = (self.seeds.ways, self.group_of(owner)?);
        let mut parent: Vec<(DeviceId, Option<DeviceId>)> = vec![(owner, None)];
        let mut known = DeviceSet::one(owner);
        for &d in &from {
            let group = self.group_of(d)?;
            let via = if group == own { owner } else { self.peer(group, rail) };
            let mut path = ways.path(d, via);
            // A way that comes through a device again goes on from there.
            for next in ways.path(via, owner).into_iter().skip(1) {
                match path.iter().position(|p| *p == next) {
                    Some(n) => path.truncate(n + 1),
                    None => path.push(next),
                }
            }
            climb(&path, &mut known, &mut parent);
        }
        Some(Fold { root: owner, from, sends: leaves_first(&parent) })
    }
}

/// Groups of devices that are linked to each other as fast as any on the machine; `None` unless there are
/// several groups, each of several devices.
fn groups(net: &Net) -> Option<Vec<Vec<DeviceId>>> {
    let machine = net.machine;
    let inner = |l: &&ein_task::machine::Link| net.workers.contains(l.from) && net.workers.contains(l.to);
    let quality = |l: &ein_task::machine::Link| (machine.bandwidth(l), std::cmp::Reverse(l.resources.len()));
    let best =
        machine.links.iter().filter(inner).map(quality).max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
    let mut group: Vec<usize> = (0..net.devices).collect();
    for l in machine.links.iter().filter(inner).filter(|l| quality(l) == best) {
        let (a, b) = (group[l.from.index()], group[l.to.index()]);
        group.iter_mut().filter(|g| **g == a.max(b)).for_each(|g| *g = a.min(b));
    }
    let mut groups: Vec<Vec<DeviceId>> = Vec::new();
    for name in 0..net.devices {
        let members: Vec<DeviceId> = net.workers.iter().filter(|d| group[d.index()] == name).collect();
        if !members.is_empty() {
            groups.push(members);
        }
    }
    (groups.len() > 1 && groups.iter().all(|g| g.len() > 1)).then_some(groups)
}

#[cfg(test)]
#[path = "levels_tests.rs"]
mod tests;
