//! Routes: how a bundle gets from its holders to its readers, and what that loads.

use super::bundle::Bundle;
use super::net::{Net, Ways};
use ein_task::machine::{DeviceId, DeviceSet};
use std::rc::Rc;

/// A move of a route.
pub(super) type Hop = (DeviceId, DeviceId);

/// An in-tree: partials come together at a device. Every device on the way folds what it has, if it computes,
/// and sends once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fold {
    /// Where the value is complete.
    pub(super) root: DeviceId,
    /// Which holder gives each partial.
    pub(super) from: Vec<DeviceId>,
    /// The moves, leaves first.
    pub(super) sends: Vec<Hop>,
}

/// In-trees, and then a forest that hands out from the devices which have the value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Route {
    /// None for a finished bundle. More than one where readers fold for themselves.
    pub(super) folds: Vec<Fold>,
    /// The moves of the finished value, each from a device that has it by then.
    pub(super) hands: Vec<Hop>,
}

/// A share of a bundle on a route.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    pub(super) bundle: usize,
    /// Above 0; the shares of a bundle's legs add up to 1.
    pub(super) share: f64,
    pub(super) route: Rc<Route>,
}

/// A complete answer up to sizes and order: how every bundle travels.
#[derive(Clone)]
pub(super) struct Scheme {
    pub(super) bundles: Rc<Vec<Bundle>>,
    pub(super) legs: Vec<Leg>,
}

/// One link crossing of a route.
#[derive(Clone, Debug)]
pub(super) struct Crossing {
    pub(super) hop: Hop,
    pub(super) link: usize,
    /// The fold it belongs to; none for a hand-out.
    pub(super) fold: Option<usize>,
    /// Whether the finished value crosses rather than partials.
    pub(super) complete: bool,
    /// How many partials cross side by side: more than one where a device that does not compute passes them on.
    pub(super) pieces: usize,
    /// Earlier crossings of the route that must have arrived.
    pub(super) after: Vec<usize>,
    /// Moves on the longest chain that ends with this one.
    pub(super) level: usize,
    /// Moves on the longest chain behind this one.
    pub(super) behind: usize,
    /// Latency of the chain that ends with this one, in seconds.
    pub(super) latency: f64,
}

impl Crossing {
    /// Bytes if all of `bundle` went this way.
    pub(super) fn bytes(&self, bundle: &Bundle) -> f64 {
        (if self.complete { bundle.bytes } else { bundle.pending * self.pieces as u64 }) as f64
    }
}

/// What is at a device while a route is walked.
#[derive(Clone, Default)]
struct There {
    pieces: usize,
    partials: usize,
    after: Vec<usize>,
}

impl Route {
    /// The route's link crossings, in an order in which they can happen.
    pub(super) fn crossings(&self, net: &Net, bundle: &Bundle) -> Vec<Crossing> {
        let mut walk = Walk { net, crossings: Vec::with_capacity(2 * net.devices) };
        let mut have: Vec<Vec<usize>> = vec![Vec::new(); net.devices];
        for (n, fold) in self.folds.iter().enumerate() {
            let mut at = vec![There::default(); net.devices];
            for &d in &fold.from {
                at[d.index()].pieces += 1;
                at[d.index()].partials += 1;
            }
            for &hop in &fold.sends {
                let mut sent = std::mem::take(&mut at[hop.0.index()]);
                if net.workers.contains(hop.0) {
                    sent.pieces = 1;
                }
                let complete = net.workers.contains(hop.0) && sent.partials == bundle.holders.len();
                let crossing = walk.cross(hop, Some(n), complete, sent.pieces, sent.after);
                let there = &mut at[hop.1.index()];
                there.pieces += sent.pieces;
                there.partials += sent.partials;
                there.after.push(crossing);
            }
            have[fold.root.index()] = std::mem::take(&mut at[fold.root.index()].after);
        }
        for &hop in &self.hands {
            let after = have[hop.0.index()].clone();
            let crossing = walk.cross(hop, None, true, 1, after);
            have[hop.1.index()] = vec![crossing];
        }
        for n in (0..walk.crossings.len()).rev() {
            let behind = walk.crossings[n].behind + 1;
            for before in walk.crossings[n].after.clone() {
                walk.crossings[before].behind = walk.crossings[before].behind.max(behind);
            }
        }
        walk.crossings
    }
}

struct Walk<'a> {
    net: &'a Net<'a>,
    crossings: Vec<Crossing>,
}

impl Walk<'_> {
    fn cross(&mut self, hop: Hop, fold: Option<usize>, complete: bool, pieces: usize, after: Vec<usize>) -> usize {
        let link = self.net.linked(hop.0, hop.1).expect("moves go over links");
        let level = 1 + after.iter().map(|&n| self.crossings[n].level).max().unwrap_or(0);
        let before = after.iter().map(|&n| self.crossings[n].latency).fold(0.0, f64::max);
        let latency = before + self.net.machine.links[link].latency.0;
        self.crossings.push(Crossing { hop, link, fold, complete, pieces, after, level, behind: 0, latency });
        self.crossings.len() - 1
    }
}

/// What a scheme costs, before sizes and order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Score {
    /// Seconds of the busiest resource.
    pub(super) load: f64,
    /// The same if all moves of one level had to end before any of the next began.
    pub(super) staged: f64,
    /// Latency of the longest chain.
    pub(super) latency: f64,
    /// Moves on the longest chain.
    pub(super) depth: usize,
    /// Most transfers over one link.
    pub(super) crowd: usize,
    /// Bytes over all link crossings.
    pub(super) bytes: f64,
    /// All moves.
    pub(super) moves: usize,
}

impl Score {
    /// Seconds with every leg cut in `pieces` that follow each other, each costing `issue`.
    pub(super) fn seconds(&self, pieces: usize, issue: f64) -> f64 {
        let fill = (self.staged - self.load).max(0.0) / pieces as f64;
        self.load + fill + self.latency + issue * (self.crowd * pieces) as f64
    }
}

impl Scheme {
    pub(super) fn score(&self, net: &Net) -> Score {
        let resources = net.slowness.len();
        let mut busy = vec![0.0; resources];
        let mut stages: Vec<Vec<f64>> = Vec::new();
        let mut crowds = vec![0; net.machine.links.len()];
        let mut score = Score::default();
        for leg in &self.legs {
            let bundle = &self.bundles[leg.bundle];
            let parts = bundle.parts.len();
            for c in leg.route.crossings(net, bundle) {
                let bytes = c.bytes(bundle) * leg.share;
                while stages.len() < c.level {
                    stages.push(vec![0.0; resources]);
                }
                for &r in &net.machine.links[c.link].resources {
                    busy[r] += bytes * net.slowness[r];
                    stages[c.level - 1][r] += bytes * net.slowness[r];
                }
                // A leg crosses at least one box; a whole bundle all of its parts.
                let boxes = ((parts as f64 * leg.share).ceil() as usize).max(1);
                crowds[c.link] += boxes;
                score.moves += boxes;
                score.bytes += bytes;
                score.latency = score.latency.max(c.latency);
                score.depth = score.depth.max(c.level);
            }
        }
        let most = |loads: &[f64]| loads.iter().copied().fold(0.0, f64::max);
        score.load = most(&busy);
        score.staged = stages.iter().map(|s| most(s)).sum();
        score.crowd = crowds.into_iter().max().unwrap_or(0);
        score
    }
}

/// The cheapest forest found that brings a value from `starts` to `readers`: the nearest reader is joined to
/// what is there already, again and again (Takahashi and Matsuyama 1980). `None` if a reader cannot be reached.
pub(super) fn hand_tree(ways: &Ways, starts: DeviceSet, readers: DeviceSet) -> Option<(Vec<Hop>, f64)> {
    let (mut have, mut left) = (starts, readers.without(starts));
    let (mut hops, mut cost) = (Vec::new(), 0.0);
    while !left.is_empty() {
        let near = |d: DeviceId| ways.nearest(have, d).map_or((f64::INFINITY, d), |s| (ways.cost(s, d), s));
        let next = left.iter().min_by(|&a, &b| near(a).0.total_cmp(&near(b).0).then(a.cmp(&b)))?;
        let (price, start) = near(next);
        if !price.is_finite() {
            return None;
        }
        cost += price;
        join(&ways.path(start, next), &mut have, &mut hops);
        left = left.without(have);
    }
    Some((hops, cost))
}

/// A forest in which every reader is reached from the device of `starts` nearest to it.
pub(super) fn hand_star(ways: &Ways, starts: DeviceSet, readers: DeviceSet) -> Option<Vec<Hop>> {
    let mut have = starts;
    let mut hops = Vec::new();
    for reader in readers.without(starts).iter() {
        let start = ways.nearest(starts, reader).filter(|&s| ways.cost(s, reader).is_finite())?;
        join(&ways.path(start, reader), &mut have, &mut hops);
    }
    Some(hops)
}

/// Adds a path's moves behind the last of its devices that has the value.
pub(super) fn join(path: &[DeviceId], have: &mut DeviceSet, hops: &mut Vec<Hop>) {
    let start = path.iter().rposition(|&d| have.contains(d)).unwrap_or(0);
    for hop in path[start..].windows(2) {
        hops.push((hop[0], hop[1]));
        *have = have.with(hop[1]);
    }
}

/// The cheapest in-tree found that brings one of each of `holders` to `root`.
pub(super) fn fold_tree(ways: &Ways, root: DeviceId, holders: &[DeviceSet]) -> Option<(Fold, f64)> {
    let mut from: Vec<Option<DeviceId>> = vec![None; holders.len()];
    let mut parent: Vec<(DeviceId, Option<DeviceId>)> = vec![(root, None)];
    let mut cost = 0.0;
    let mut within = DeviceSet::one(root);
    loop {
        for (supplier, h) in from.iter_mut().zip(holders) {
            if supplier.is_none() {
                *supplier = h.intersect(within).lowest();
            }
        }
        let open = (0..holders.len()).filter(|&n| from[n].is_none()).flat_map(|n| holders[n].iter());
        let nearest = open
            .flat_map(|d| within.iter().map(move |t| (d, t)))
            .min_by(|a, b| ways.cost(a.0, a.1).total_cmp(&ways.cost(b.0, b.1)).then(a.cmp(b)));
        let Some((start, end)) = nearest else { break };
        let price = ways.cost(start, end);
        if !price.is_finite() {
            return None;
        }
        cost += price;
        climb(&ways.path(start, end), &mut within, &mut parent);
    }
    let from = from.into_iter().map(|d| d.expect("every partial has a supplier")).collect();
    Some((Fold { root, from, sends: leaves_first(&parent) }, cost))
}

/// An in-tree in which every partial goes to `root` by itself from the nearest device; as few devices as
/// possible send.
pub(super) fn fold_star(ways: &Ways, root: DeviceId, holders: &[DeviceSet]) -> Option<Fold> {
    let mut suppliers = DeviceSet::one(root);
    let mut from = Vec::with_capacity(holders.len());
    for h in holders {
        let known = suppliers.intersect(*h);
        let chosen = if h.contains(root) {
            root
        } else if known.is_empty() {
            h.iter().min_by(|&a, &b| ways.cost(a, root).total_cmp(&ways.cost(b, root)).then(a.cmp(&b)))?
        } else {
            known.lowest()?
        };
        suppliers = suppliers.with(chosen);
        from.push(chosen);
    }
    fold_along(ways, root, from)
}

/// The in-tree of the ways from given suppliers to `root`.
fn fold_along(ways: &Ways, root: DeviceId, from: Vec<DeviceId>) -> Option<Fold> {
    let mut within = DeviceSet::one(root);
    let mut parent = vec![(root, None)];
    for &d in &from {
        if !ways.cost(d, root).is_finite() {
            return None;
        }
        if !within.contains(d) {
            climb(&ways.path(d, root), &mut within, &mut parent);
        }
    }
    Some(Fold { root, from, sends: leaves_first(&parent) })
}

/// Adds a path's devices up to the first that is in the tree.
fn climb(path: &[DeviceId], within: &mut DeviceSet, parent: &mut Vec<(DeviceId, Option<DeviceId>)>) {
    for hop in path.windows(2) {
        if within.contains(hop[0]) {
            break;
        }
        parent.push((hop[0], Some(hop[1])));
        *within = within.with(hop[0]);
    }
}

/// The moves of a tree given by parents, those furthest from the root first.
pub(super) fn leaves_first(parent: &[(DeviceId, Option<DeviceId>)]) -> Vec<Hop> {
    let above = |d: DeviceId| parent.iter().find(|p| p.0 == d).and_then(|p| p.1);
    let depth = |mut d: DeviceId| {
        let mut depth = 0usize;
        while let Some(next) = above(d) {
            (d, depth) = (next, depth + 1);
        }
        depth
    };
    let mut hops: Vec<(usize, Hop)> = parent.iter().filter_map(|&(d, up)| Some((depth(d), (d, up?)))).collect();
    hops.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    hops.into_iter().map(|h| h.1).collect()
}
