//! Known shapes as schemes: direct, one owner, sliced owners, ring, halving, two levels. They are candidates of
//! their own, and where packing starts from.

mod levels;

use super::bundle::Bundle;
use super::net::{Net, Ways};
use super::route::{Fold, Growth, Hop, Leg, Route, Scheme, fold_star, fold_tree, hand_star, hand_tree, join, pruned};
use ein_task::machine::{DeviceId, DeviceSet};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The bundles to answer and the ways there are when nothing moves yet.
pub(super) struct Seeds<'a> {
    pub(super) net: &'a Net<'a>,
    pub(super) bundles: Rc<Vec<Bundle>>,
    pub(super) ways: &'a Ways,
    /// Whether partials for one reader are folded at the reader, rather than in slices at all who hold some.
    pub(super) at_reader: bool,
    /// How deep trees grow.
    pub(super) growth: Growth,
}

impl Seeds<'_> {
    /// Every bundle by the routes that `of` gives, in equal shares; `None` if there is none for some bundle.
    fn scheme(&self, mut of: impl FnMut(&Bundle) -> Option<Vec<Route>>) -> Option<Scheme> {
        let mut legs = Vec::new();
        for (n, bundle) in self.bundles.iter().enumerate() {
            let routes = of(bundle)?;
            let share = 1.0 / routes.len() as f64;
            legs.extend(routes.into_iter().map(|route| Leg { bundle: n, share, route: Rc::new(route) }));
        }
        Some(Scheme::new(Rc::clone(&self.bundles), legs))
    }

    /// Every reader gets each partial and folds for itself; of several holders the least loaded gives.
    pub(super) fn direct(&self) -> Option<Scheme> {
        let mut busy = vec![0.0f64; self.net.slowness.len()];
        let mut free = vec![0.0; self.net.machine.links.len()];
        self.scheme(|bundle| {
            let mut folds = Vec::new();
            let mut hands = Vec::new();
            if bundle.finished {
                for reader in bundle.readers.iter() {
                    let mut path = self.least_loaded(bundle, reader, &busy)?;
                    if path.len() > 2 {
                        path = self.around(path[0], reader, bundle.bytes as f64, &free)?;
                    }
                    let mut at = 0.0;
                    for hop in path.windows(2) {
                        let link = self.net.linked(hop[0], hop[1])?;
                        (free[link], at) = self.carried(link, bundle.bytes as f64, f64::max(at, free[link]));
                    }
                    join(&path, &mut bundle.holders[0].clone(), &mut hands);
                    self.add(&path, bundle.bytes as f64, &mut busy);
                }
            } else {
                for reader in bundle.readers.iter() {
                    if self.net.workers.contains(reader) {
                        folds.push(fold_star(self.ways, reader, &bundle.holders)?);
                    } else {
                        // A device that does not compute gets the value from one that does.
                        let worker = bundle.holding().intersect(self.net.workers).lowest()?;
                        folds.push(fold_star(self.ways, worker, &bundle.holders)?);
                        hands.extend(hand_star(self.ways, DeviceSet::one(worker), DeviceSet::one(reader))?);
                    }
                }
            }
            Some(vec![Route { folds, hands }])
        })
    }

    /// The way by which a value arrives first where links carry others until they are `free` (Dijkstra 1959).
    fn around(&self, from: DeviceId, to: DeviceId, bytes: f64, free: &[f64]) -> Option<Vec<DeviceId>> {
        let mut arrives = vec![f64::INFINITY; self.net.devices];
        let mut before = vec![from; self.net.devices];
        let mut open: Vec<DeviceId> = self.net.machine.ids().collect();
        arrives[from.index()] = 0.0;
        let nearest = |arrives: &[f64], open: &[DeviceId]| {
            let at = |n: usize| arrives[open[n].index()];
            (0..open.len()).filter(|&n| at(n).is_finite()).min_by(|&a, &b| at(a).total_cmp(&at(b)).then(a.cmp(&b)))
        };
        while let Some(n) = nearest(&arrives, &open) {
            let device = open.remove(n);
            for &next in &open {
                let Some(link) = self.net.linked(device, next) else { continue };
                let (_, arrived) = self.carried(link, bytes, arrives[device.index()].max(free[link]));
                // Not sooner by rounding only.
                if arrived < arrives[next.index()] * (1.0 - 1e-9) {
                    (arrives[next.index()], before[next.index()]) = (arrived, device);
                }
            }
        }
        let mut path = vec![to];
        while path[0] != from {
            let last = before[path[0].index()];
            if !arrives[path[0].index()].is_finite() {
                return None;
            }
            path.insert(0, last);
        }
        Some(path)
    }

    /// When a link is free again that carries so many bytes from a moment on, and when these arrive.
    fn carried(&self, link: usize, bytes: f64, from: f64) -> (f64, f64) {
        let machine = self.net.machine;
        let link = &machine.links[link];
        let sent = from + machine.issue.0 + bytes / machine.bandwidth(link);
        (sent, sent + link.latency.0)
    }

    /// The way from the holder that keeps the busiest resource least busy.
    fn least_loaded(&self, bundle: &Bundle, reader: DeviceId, busy: &[f64]) -> Option<Vec<DeviceId>> {
        let cost = |from: DeviceId| {
            let links = self.ways.path(from, reader);
            let most = links.windows(2).flat_map(|hop| {
                let link = self.net.linked(hop[0], hop[1]).expect("a way is made of links");
                self.net.machine.links[link].resources.iter()
            });
            let most = most.map(|&r| busy[r] + bundle.bytes as f64 * self.net.slowness[r]).fold(0.0, f64::max);
            (links.len(), most)
        };
        let reach = bundle.holders[0].iter().filter(|&h| self.ways.cost(h, reader).is_finite());
        let best = reach
            .map(|h| (cost(h), h))
            .min_by(|a, b| a.0.0.cmp(&b.0.0).then(a.0.1.total_cmp(&b.0.1)).then(a.1.cmp(&b.1)))?;
        Some(self.ways.path(best.1, reader))
    }

    fn add(&self, path: &[DeviceId], bytes: f64, busy: &mut [f64]) {
        for hop in path.windows(2) {
            let link = self.net.linked(hop[0], hop[1]).expect("a way is made of links");
            for &r in &self.net.machine.links[link].resources {
                busy[r] += bytes * self.net.slowness[r];
            }
        }
    }

    /// One owner folds a box, or has it, and hands it out; `trees` may relay and fold on the way.
    pub(super) fn whole(&self, trees: bool) -> Option<Scheme> {
        let mut received = vec![0u64; self.net.devices];
        self.scheme(|bundle| {
            if bundle.finished {
                return Some(vec![Route { folds: vec![], hands: self.hands(trees, bundle.holders[0], bundle)? }]);
            }
            let owner = self.owners(bundle).iter().min_by_key(|d| (received[d.index()], *d))?;
            received[owner.index()] += bundle.pending;
            Some(vec![self.owned(trees, owner, bundle)?])
        })
    }

    /// Every bundle in equal slices, each folded, or first received, by an owner of its own.
    pub(super) fn sliced(&self, trees: bool) -> Option<Scheme> {
        self.scheme(|bundle| {
            if bundle.finished && bundle.readers.len() == 1 {
                return Some(vec![Route { folds: vec![], hands: self.hands(trees, bundle.holders[0], bundle)? }]);
            }
            let owners: Vec<DeviceId> = self.owners(bundle).iter().collect();
            let holders: Vec<DeviceId> = bundle.holding().iter().collect();
            let slice = |(n, &owner): (usize, &DeviceId)| {
                if !bundle.finished {
                    return self.owned(trees, owner, bundle);
                }
                // The holders take turns in giving slices away.
                let giver = holders[n * holders.len() / owners.len().max(1) % holders.len()];
                let mut hands = hand_star(self.ways, DeviceSet::one(giver), DeviceSet::one(owner))?;
                let have = hands.iter().fold(DeviceSet::one(owner), |have, h| have.with(h.1));
                let rest = bundle.readers.without(have);
                hands.extend(if trees {
                    hand_tree(self.ways, have, rest, self.growth)?.0
                } else {
                    self.handed(owner, have, rest)?
                });
                Some(Route { folds: vec![], hands })
            };
            owners.iter().enumerate().map(slice).collect()
        })
    }

    /// Moves from `owner` to `readers` by its own links.
    fn handed(&self, owner: DeviceId, mut have: DeviceSet, readers: DeviceSet) -> Option<Vec<Hop>> {
        let mut hops = Vec::new();
        for reader in readers.iter() {
            if !self.ways.cost(owner, reader).is_finite() {
                return None;
            }
            join(&self.ways.path(owner, reader), &mut have, &mut hops);
        }
        Some(hops)
    }

    fn hands(&self, trees: bool, starts: DeviceSet, bundle: &Bundle) -> Option<Vec<Hop>> {
        if trees {
            Some(hand_tree(self.ways, starts, bundle.readers, self.growth)?.0)
        } else {
            hand_star(self.ways, starts, bundle.readers)
        }
    }

    fn owned(&self, trees: bool, owner: DeviceId, bundle: &Bundle) -> Option<Route> {
        let fold = if trees {
            fold_tree(self.ways, self.net.workers, owner, &bundle.holders, self.growth, f64::INFINITY)?.0.fold()
        } else {
            fold_star(self.ways, owner, &bundle.holders)?
        };
        let hands = self.hands(trees, DeviceSet::one(owner), bundle)?;
        Some(Route { folds: vec![fold], hands })
    }

    /// Devices among which a bundle is sliced: readers that hold a partial, or else holders; readers if finished.
    pub(super) fn owners(&self, bundle: &Bundle) -> DeviceSet {
        let readers = bundle.readers.intersect(self.net.workers);
        if bundle.finished {
            return if readers.is_empty() { bundle.readers } else { readers };
        }
        let holders = bundle.holding().intersect(self.net.workers);
        let both = holders.intersect(readers);
        let at_reader = self.at_reader && readers.len() == 1 && bundle.readers.len() == 1;
        if readers.len() > 1 && !both.is_empty() {
            both
        } else if at_reader || holders.is_empty() {
            readers
        } else {
            holders
        }
    }

    /// Along rings through all devices that compute: folds and hand-outs go from neighbour to neighbour. Every
    /// ring takes its share.
    pub(super) fn rings(&self, rings: &[(Vec<DeviceId>, f64)]) -> Option<Scheme> {
        let whole: f64 = rings.iter().map(|r| r.1).sum();
        let mut legs = Vec::new();
        for (ring, share) in rings {
            let mut own = self.ring(ring)?.legs;
            for leg in &mut own {
                leg.share *= share / whole;
            }
            legs.extend(own);
        }
        legs.sort_by_key(|l| l.bundle);
        (!legs.is_empty()).then(|| Scheme::new(Rc::clone(&self.bundles), legs))
    }

    fn ring(&self, ring: &[DeviceId]) -> Option<Scheme> {
        let size = ring.len();
        let place = |d: DeviceId| ring.iter().position(|r| *r == d);
        let links = (0..size).all(|n| self.net.linked(ring[n], ring[(n + 1) % size]).is_some());
        if size < 3 || !links {
            return None;
        }
        let hands = |starts: DeviceSet, readers: DeviceSet| {
            let mut hops = Vec::new();
            let start = ring.iter().position(|&d| starts.contains(d))?;
            let mut open: Vec<Hop> = Vec::new();
            for n in start..start + size {
                let (from, to) = (ring[n % size], ring[(n + 1) % size]);
                if starts.contains(to) {
                    open.clear();
                    continue;
                }
                open.push((from, to));
                if readers.contains(to) {
                    hops.append(&mut open);
                }
            }
            readers.iter().all(|r| place(r).is_some()).then_some(hops)
        };
        self.scheme(|bundle| {
            if bundle.finished {
                return Some(vec![Route { folds: vec![], hands: hands(bundle.holders[0], bundle.readers)? }]);
            }
            let owned = |owner: DeviceId| {
                let root = place(owner)?;
                let behind = |d: DeviceId| place(d).map(|n| (root + size - n) % size);
                let from: Vec<DeviceId> =
                    bundle.holders.iter().map(|h| h.iter().min_by_key(|&d| behind(d))).collect::<Option<_>>()?;
                let furthest = from.iter().map(|&d| behind(d)).collect::<Option<Vec<_>>>()?.into_iter().max()?;
                let at = |back: usize| ring[(root + size - back) % size];
                let sends = (1..=furthest).rev().map(|back| (at(back), at(back - 1))).collect();
                let fold = Fold { root: owner, from, sends };
                Some(Route { folds: vec![fold], hands: hands(DeviceSet::one(owner), bundle.readers)? })
            };
            self.owners(bundle).iter().map(owned).collect()
        })
    }

    /// Every finished value in `fan` slices, each handed out along a tree in which a device sends to `fan` others; a
    /// device sends in one of the trees only, so that no port carries much more than the value once (Castro and
    /// others 2003). Fewer moves than slices for all readers. What one device alone reads is folded along such trees.
    pub(super) fn fans(&self, fan: usize) -> Option<Scheme> {
        self.scheme(|bundle| {
            if !bundle.finished {
                return self.folding_fans(fan, bundle);
            }
            if bundle.readers.len() <= fan {
                let hands = self.hands(false, bundle.holders[0], bundle)?;
                return Some(vec![Route { folds: vec![], hands }]);
            }
            let readers: Vec<DeviceId> = bundle.readers.iter().collect();
            let holders: Vec<DeviceId> = bundle.holders[0].iter().collect();
            let tree = |slice: usize| {
                let mut have = bundle.holders[0];
                let mut hops = Vec::new();
                for (from, to) in fanned(&readers, holders[slice % holders.len()], fan, slice) {
                    if !self.ways.cost(from, to).is_finite() {
                        return None;
                    }
                    join(&self.ways.path(from, to), &mut have, &mut hops);
                }
                Some(Route { folds: vec![], hands: hops })
            };
            (0..fan).map(tree).collect()
        })
    }

    /// Partials for one reader, in slices along trees in which a device folds what `fan` others send; `None` where some
    /// are not linked.
    fn folding_fans(&self, fan: usize, bundle: &Bundle) -> Option<Vec<Route>> {
        let root = bundle.readers.lowest().filter(|&r| bundle.readers.len() == 1 && self.net.workers.contains(r))?;
        let give = |h: &DeviceSet| if h.contains(root) { Some(root) } else { h.lowest() };
        let from: Vec<DeviceId> = bundle.holders.iter().map(give).collect::<Option<_>>()?;
        let givers: DeviceSet = from.iter().copied().filter(|&d| d != root).collect();
        let givers: Vec<DeviceId> = givers.iter().collect();
        let tree = |slice: usize| {
            let hops = fanned(&givers, root, fan, slice);
            let sends: Vec<Hop> = hops.into_iter().rev().map(|(a, b)| (b, a)).collect();
            let passed = |&(a, b): &Hop| self.net.linked(a, b).is_some() && self.net.workers.contains(a);
            let fold = Fold { root, from: from.clone(), sends };
            fold.sends.iter().all(passed).then(|| Route { folds: vec![fold], hands: vec![] })
        };
        (0..fan.min(givers.len()).max(1)).map(tree).collect()
    }

    /// Recursive halving and doubling: binomial trees over the positions of the devices that compute, which
    /// must be a power of two.
    pub(super) fn halving(&self) -> Option<Scheme> {
        let devices: Vec<DeviceId> = self.net.workers.iter().collect();
        let size = devices.len();
        if size < 4 || !size.is_power_of_two() {
            return None;
        }
        let place = |d: DeviceId| devices.iter().position(|w| *w == d);
        // From `root` outwards, the longest jumps first; only what leads to a reader.
        let hands = |root: DeviceId, readers: DeviceSet, ascending: bool| {
            let mut have = DeviceSet::one(root);
            let mut hops = Vec::new();
            let bits: Vec<u32> = (0..size.trailing_zeros()).collect();
            let order: Vec<u32> = if ascending { bits } else { bits.into_iter().rev().collect() };
            for (n, &bit) in order.iter().enumerate() {
                // Whoever is reached through `to` differs from it in the bits still to come only.
                let later: usize = order[n + 1..].iter().map(|b| 1 << b).sum();
                let now: Vec<DeviceId> = have.iter().collect();
                for from in now {
                    let to = place(from)? ^ (1 << bit);
                    let leads = readers.iter().any(|r| place(r).is_some_and(|p| (p ^ to) & !later == 0));
                    if leads && !have.contains(devices[to]) {
                        join(&self.ways.path(from, devices[to]), &mut have, &mut hops);
                    }
                }
            }
            let reached = readers.without(DeviceSet::one(root)).iter().all(|r| have.contains(r));
            reached.then(|| pruned(hops, readers))
        };
        let finite = devices.iter().all(|&a| devices.iter().all(|&b| self.ways.cost(a, b).is_finite()));
        if !finite {
            return None;
        }
        self.scheme(|bundle| {
            if bundle.finished {
                let holders: Vec<DeviceId> = bundle.holders[0].iter().collect();
                let slices = if bundle.readers.len() == 1 { 1 } else { holders.len() };
                let root = |n: usize| Some(Route { folds: vec![], hands: hands(holders[n], bundle.readers, false)? });
                return (0..slices).map(root).collect();
            }
            let owned = |owner: DeviceId| {
                let from: Vec<DeviceId> = bundle
                    .holders
                    .iter()
                    .map(|h| if h.contains(owner) { Some(owner) } else { h.lowest() })
                    .collect::<Option<_>>()?;
                let suppliers: DeviceSet = from.iter().copied().collect();
                let out = hands(owner, suppliers, true)?;
                let sends: Vec<Hop> = out.into_iter().rev().map(|(a, b)| (b, a)).collect();
                let linked = sends.iter().all(|&(a, b)| self.net.linked(a, b).is_some());
                let fold = Fold { root: owner, from, sends };
                linked.then_some(Route { folds: vec![fold], hands: hands(owner, bundle.readers, true)? })
            };
            self.owners(bundle).iter().map(owned).collect()
        })
    }
}

/// The moves of a tree from `root` to others in which each of those that send does to `fan`. Those that send in slice
/// `slice`, others than in the next, come first, so that the tree is shallow.
fn fanned(others: &[DeviceId], root: DeviceId, fan: usize, slice: usize) -> Vec<Hop> {
    let (inner, outer): (Vec<usize>, Vec<usize>) = (0..others.len()).partition(|n| n % fan == slice);
    let order: Vec<DeviceId> = inner.into_iter().chain(outer).map(|n| others[n]).collect();
    let above = |n: usize| if n == 0 { root } else { order[(n - 1) / fan] };
    (0..order.len()).map(|n| (above(n), order[n])).collect()
}

/// Rings through all devices that compute over direct links, both ways round, with the width of each: first the
/// widest there is, then what is left beside it. On links that share ports only the first is disjoint.
pub(super) fn rings(net: &Net) -> Vec<(Vec<DeviceId>, f64)> {
    let devices: Vec<DeviceId> = net.workers.iter().collect();
    let n = devices.len();
    if n < 3 {
        return Vec::new();
    }
    let full =
        |a: DeviceId, b: DeviceId| net.linked(a, b).map_or(0.0, |l| net.machine.bandwidth(&net.machine.links[l]));
    let mut width: BTreeMap<(DeviceId, DeviceId), f64> = BTreeMap::new();
    for &a in &devices {
        for &b in devices.iter().filter(|b| **b != a) {
            width.insert((a, b), full(a, b));
        }
    }
    let widest = width.values().copied().fold(0.0, f64::max);
    let natural = (0..n).all(|k| width[&(devices[k], devices[(k + 1) % n])] == widest);
    if natural && width.values().all(|w| *w > 0.0) || n > 16 {
        return vec![(devices, widest)];
    }
    let mut rings: Vec<(Vec<DeviceId>, f64)> = Vec::new();
    while rings.len() < 4 {
        let mut widths: Vec<f64> = width.values().copied().filter(|w| *w > 0.01 * widest).collect();
        widths.sort_by(|a, b| b.total_cmp(a));
        widths.dedup();
        let found = widths.iter().find_map(|&least| {
            let mut path = vec![devices[0]];
            let wide = |a: DeviceId, b: DeviceId| width[&(a, b)] >= least && width[&(b, a)] >= least;
            extend(&devices, &mut path, &wide, &mut 20_000).then_some((path, least))
        });
        let Some((path, least)) = found else { break };
        for k in 0..n {
            let (a, b) = (path[k], path[(k + 1) % n]);
            for pair in [(a, b), (b, a)] {
                *width.get_mut(&pair).expect("a pair of devices") -= least;
            }
        }
        let back = path.iter().rev().copied().collect();
        rings.push((path, least));
        rings.push((back, least));
    }
    rings
}

fn extend(
    all: &[DeviceId],
    path: &mut Vec<DeviceId>,
    wide: &dyn Fn(DeviceId, DeviceId) -> bool,
    steps: &mut usize,
) -> bool {
    if *steps == 0 {
        return false;
    }
    *steps -= 1;
    let last = path[path.len() - 1];
    if path.len() == all.len() {
        return wide(last, path[0]);
    }
    for &next in all {
        if !path.contains(&next) && wide(last, next) {
            path.push(next);
            if extend(all, path, wide, steps) {
                return true;
            }
            path.pop();
        }
    }
    false
}
