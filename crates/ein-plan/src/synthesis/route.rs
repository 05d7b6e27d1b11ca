//! Routes: how a bundle gets from its holders to its readers, and what that loads.

use super::bundle::Bundle;
use super::net::{Net, Ways};
use ein_task::machine::{DeviceId, DeviceSet};
use std::cell::OnceCell;
use std::collections::BTreeMap;
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
    /// None for a finished bundle. More than one where readers fold for themselves. What goes over one hop in two
    /// of them, the same partials in the same way, goes once.
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
    /// The crossings of every leg's route, once they were asked for.
    crossings: OnceCell<Rc<Vec<Vec<Crossing>>>>,
}

/// One link crossing of a route.
#[derive(Clone, Debug)]
pub(super) struct Crossing {
    pub(super) hop: Hop,
    pub(super) link: usize,
    /// The folds that it serves, increasing; none for a hand-out.
    pub(super) folds: Vec<usize>,
    /// Whether the finished value crosses rather than partials.
    pub(super) complete: bool,
    /// How many partials cross side by side: more than one where a device that does not compute passes them on, or has
    /// some that are not neighbours in an order which is to be kept.
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
    /// Which partials, where that matters: those of an ordered bundle.
    which: Vec<usize>,
    after: Vec<usize>,
}

/// Into how many runs of neighbours some numbers fall.
fn runs(which: &mut [usize]) -> usize {
    which.sort_unstable();
    1 + which.windows(2).filter(|w| w[0] + 1 != w[1]).count()
}

impl Route {
    /// The route's link crossings, in an order in which they can happen.
    pub(super) fn crossings(&self, net: &Net, bundle: &Bundle) -> Vec<Crossing> {
        let mut walk = Walk { net, crossings: Vec::with_capacity(2 * net.devices), over: BTreeMap::new() };
        let mut have: Vec<Vec<usize>> = vec![Vec::new(); net.devices];
        for (n, fold) in self.folds.iter().enumerate() {
            let mut at = vec![There::default(); net.devices];
            for (n, &d) in fold.from.iter().enumerate() {
                at[d.index()].pieces += 1;
                at[d.index()].partials += 1;
                if bundle.ordered {
                    at[d.index()].which.push(n);
                }
            }
            for &hop in &fold.sends {
                let mut sent = std::mem::take(&mut at[hop.0.index()]);
                if net.workers.contains(hop.0) {
                    sent.pieces = if bundle.ordered { runs(&mut sent.which) } else { 1 };
                }
                let complete = net.workers.contains(hop.0) && sent.partials == bundle.holders.len();
                let crossing = match self.shared(&walk, n, hop, &sent.after) {
                    Some(shared) => shared,
                    None => walk.cross(hop, complete, sent.pieces, sent.after),
                };
                walk.crossings[crossing].folds.push(n);
                if self.folds.len() > 1 {
                    walk.over.entry(hop).or_default().push(crossing);
                }
                let there = &mut at[hop.1.index()];
                there.pieces += sent.pieces;
                there.partials += sent.partials;
                there.which.append(&mut sent.which);
                there.after.push(crossing);
            }
            have[fold.root.index()] = std::mem::take(&mut at[fold.root.index()].after);
        }
        for &hop in &self.hands {
            let after = have[hop.0.index()].clone();
            let crossing = walk.cross(hop, true, 1, after);
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

    /// The crossing of an earlier fold by which fold `n` gets what `hop` brings it: of what arrives by the same
    /// crossings, with the same partials of the sender's own.
    fn shared(&self, walk: &Walk, n: usize, hop: Hop, after: &[usize]) -> Option<usize> {
        let own = |a: usize, b: usize| {
            self.folds[a].from.iter().zip(&self.folds[b].from).all(|(&a, &b)| (a == hop.0) == (b == hop.0))
        };
        let same = |&c: &usize| {
            let known = &walk.crossings[c];
            let after = known.after.len() == after.len() && known.after.iter().all(|b| after.contains(b));
            after && own(known.folds[0], n)
        };
        walk.over.get(&hop)?.iter().copied().find(same)
    }
}

struct Walk<'a> {
    net: &'a Net<'a>,
    crossings: Vec<Crossing>,
    /// Those of folds by hop, where there are several folds.
    over: BTreeMap<Hop, Vec<usize>>,
}

impl Walk<'_> {
    fn cross(&mut self, hop: Hop, complete: bool, pieces: usize, after: Vec<usize>) -> usize {
        let link = self.net.linked(hop.0, hop.1).expect("moves go over links");
        let level = 1 + after.iter().map(|&n| self.crossings[n].level).max().unwrap_or(0);
        let before = after.iter().map(|&n| self.crossings[n].latency).fold(0.0, f64::max);
        let latency = before + self.net.machine.links[link].latency.0;
        let folds = Vec::new();
        self.crossings.push(Crossing { hop, link, folds, complete, pieces, after, level, behind: 0, latency });
        self.crossings.len() - 1
    }
}

/// What a leg costs by itself.
#[derive(Clone, Debug, PartialEq)]
struct Load {
    /// Bytes of the leg's share.
    bytes: f64,
    /// Boxes that it is made of at least.
    boxes: usize,
    /// Seconds that a byte takes along its longest chain, each move alone on its link, but for the last.
    chain: f64,
    /// Seconds that a byte takes on its slowest link.
    slowest: f64,
    /// Latency of the longest chain, in seconds.
    latency: f64,
    /// The links of its moves.
    links: Vec<usize>,
}

/// What a scheme costs, before sizes and order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Score {
    /// Seconds of the busiest resource.
    pub(super) load: f64,
    /// The same if all moves of one level had to end before any of the next began.
    pub(super) staged: f64,
    /// Latency of the longest chain.
    pub(super) latency: f64,
    /// Moves on the longest chain.
    pub(super) depth: usize,
    /// Bytes over all link crossings.
    pub(super) bytes: f64,
    legs: Vec<Load>,
}

/// How long a scheme takes when cut in pieces, by a closed form, and how many moves that makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) seconds: f64,
    pub(super) moves: usize,
}

impl Score {
    /// The most seconds that a leg which is not cut keeps the devices at its end waiting.
    pub(super) fn longest(&self) -> f64 {
        self.legs.iter().map(|l| l.chain * l.bytes).fold(0.0, f64::max)
    }

    /// Into how many pieces every leg is cut if none may keep the end of its way waiting for more than `lag`
    /// seconds: more for slow links and long ways than for quick ones. What is not passed on keeps nobody waiting at
    /// its end, but others on its link, which carries one transfer at a time.
    pub(super) fn pieces(&self, lag: f64) -> Vec<usize> {
        let of = |l: &Load| {
            let finest = (l.bytes / LEAST_PIECE).floor().max(1.0);
            let held = l.chain.max(if self.depth > 1 { l.slowest / BLOCKED } else { 0.0 });
            (held * l.bytes / lag).ceil().min(finest).max(1.0) as usize
        };
        self.legs.iter().map(of).collect()
    }

    /// Into how many pieces every leg is cut if each takes about so many seconds on the leg's slowest link: fewer than by
    /// [`Self::pieces`] of what is little and goes far. What is not passed on is cut a quarter as finely.
    pub(super) fn alike(&self, seconds: f64) -> Vec<usize> {
        let of = |l: &Load| {
            let finest = (l.bytes / LEAST_PIECE).floor().max(1.0);
            let held = if l.chain > 0.0 { l.slowest } else { l.slowest / BLOCKED };
            (held * l.bytes / seconds).ceil().min(finest).max(1.0) as usize
        };
        self.legs.iter().map(of).collect()
    }

    /// What it takes at best, cut like that: no less than the busiest resource and the latency of a move behind it,
    /// and no less than a piece alone on its way. Where every link has something to send from the beginning, as in a
    /// ring, it takes about that.
    pub(super) fn hopeful(&self, net: &Net, lag: f64) -> f64 {
        let alone = |(leg, pieces): (&Load, usize)| leg.latency + leg.chain * leg.bytes / pieces.max(leg.boxes) as f64;
        let longest = self.legs.iter().zip(self.pieces(lag)).map(alone).fold(0.0, f64::max);
        longest.max(self.load + net.least_latency)
    }

    /// The estimate with legs in pieces of at most `lag` seconds that follow each other: the busiest resource, and
    /// until it is busy something between the time of a piece alone on its way and that of a piece of every leg, level
    /// by level.
    pub(super) fn estimate(&self, net: &Net, lag: f64) -> Estimate {
        let mut crowds = vec![0usize; net.machine.links.len()];
        let (mut moves, mut fill, mut most) = (0, 0.0f64, 1);
        for (leg, pieces) in self.legs.iter().zip(self.pieces(lag)) {
            let pieces = pieces.max(leg.boxes);
            leg.links.iter().for_each(|&l| crowds[l] += pieces);
            moves += pieces * leg.links.len();
            fill = fill.max(leg.chain * leg.bytes / pieces as f64);
            most = most.max(pieces);
        }
        let staged = (self.staged - self.load).max(0.0) / most as f64;
        let crowd = crowds.into_iter().max().unwrap_or(0) as f64;
        // The first is too little where many legs set out from one port at once, the second too much where they are
        // of many kinds.
        let fill = if fill < staged { fill.powf(0.25) * staged.powf(0.75) } else { staged };
        let seconds = self.load + fill + self.latency + net.machine.issue.0 * crowd;
        Estimate { seconds, moves }
    }
}

/// How many times the time that may be waited for a piece at the end of its way a piece may hold its link.
const BLOCKED: f64 = 4.0;
/// Bytes below which pieces are not cut further.
const LEAST_PIECE: f64 = 8192.0;

impl Scheme {
    pub(super) fn new(bundles: Rc<Vec<Bundle>>, legs: Vec<Leg>) -> Self {
        Self { bundles, legs, crossings: OnceCell::new() }
    }

    /// The crossings of every leg's route.
    pub(super) fn crossings(&self, net: &Net) -> &Rc<Vec<Vec<Crossing>>> {
        let of = |leg: &Leg| leg.route.crossings(net, &self.bundles[leg.bundle]);
        self.crossings.get_or_init(|| Rc::new(self.legs.iter().map(of).collect()))
    }

    pub(super) fn score(&self, net: &Net) -> Score {
        let resources = net.slowness.len();
        let mut busy = vec![0.0; resources];
        let mut stages: Vec<Vec<f64>> = Vec::new();
        let mut score = Score::default();
        for (leg, crossings) in self.legs.iter().zip(self.crossings(net).iter()) {
            let bundle = &self.bundles[leg.bundle];
            let own = leg.share * if bundle.finished { bundle.bytes } else { bundle.pending } as f64;
            let mut ends = vec![0.0f64; crossings.len()];
            let (mut chain, mut most, mut latency) = (0.0f64, 0.0f64, 0.0f64);
            for (n, c) in crossings.iter().enumerate() {
                let bytes = c.bytes(bundle) * leg.share;
                let link = &net.machine.links[c.link];
                let slowest = link.resources.iter().map(|&r| net.slowness[r]).fold(0.0, f64::max);
                let before = c.after.iter().map(|&b| ends[b]).fold(0.0, f64::max);
                // What its last move takes is part of the load.
                chain = chain.max(before);
                most = most.max(slowest * bytes / own.max(1.0));
                ends[n] = before + slowest * bytes / own.max(1.0);
                while stages.len() < c.level {
                    stages.push(vec![0.0; resources]);
                }
                for &r in &link.resources {
                    busy[r] += bytes * net.slowness[r];
                    stages[c.level - 1][r] += bytes * net.slowness[r];
                }
                score.bytes += bytes;
                latency = latency.max(c.latency);
                score.depth = score.depth.max(c.level);
            }
            // A leg crosses at least one box; a whole bundle all of its parts.
            score.latency = score.latency.max(latency);
            let boxes = ((bundle.parts.len() as f64 * leg.share).ceil() as usize).max(1);
            let links = crossings.iter().map(|c| c.link).collect();
            score.legs.push(Load { bytes: own, boxes, chain, slowest: most, latency, links });
        }
        let most = |loads: &[f64]| loads.iter().copied().fold(0.0, f64::max);
        score.load = most(&busy);
        score.staged = stages.iter().map(|s| most(s)).sum();
        score
    }
}

/// How deep trees grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    /// What joining a device costs more for every move that it is from the tree's start.
    pub(super) lag: f64,
    /// Moves from the tree's start to what joins, where there is a way of so few.
    pub(super) most: usize,
}

impl Growth {
    /// As deep as is cheap.
    pub(super) const FREE: Self = Self { lag: 0.0, most: usize::MAX };
}

/// The cheapest forest found that brings a value from `starts` to `readers`: the nearest reader is joined to
/// what is there already, again and again (Takahashi and Matsuyama 1980). `None` if a reader cannot be reached. The
/// cost is without what depth costs.
pub(super) fn hand_tree(ways: &Ways, starts: DeviceSet, readers: DeviceSet, growth: Growth) -> Option<(Vec<Hop>, f64)> {
    let mut left = readers.without(starts);
    let (mut hops, mut cost) = (Vec::new(), 0.0);
    let mut have: Vec<Reached> = starts.iter().map(Reached::start).collect();
    let mut front = Front::new(ways, growth, false);
    while !left.is_empty() {
        let (price, start, next) = front.nearest(&have, left)?;
        cost += price;
        let before = have.len();
        grow(&ways.path(start, next), &mut have, |_, _| 0.0, |a, b| hops.push((a, b)));
        left = left.without(have[before..].iter().map(|h| h.device).collect());
    }
    Some((hops, cost))
}

/// A device of a tree in the making.
struct Reached {
    device: DeviceId,
    /// Moves from the tree's start.
    depth: usize,
    /// What it costs on top to join here: the rest of the way to a device that folds, over which what joins goes
    /// beside what is there.
    beside: f64,
}

impl Reached {
    fn start(device: DeviceId) -> Self {
        Self { device, depth: 0, beside: 0.0 }
    }
}

/// For every device the end of a tree that it would join at.
struct Front<'a> {
    ways: &'a Ways,
    growth: Growth,
    /// Whether ways lead to the tree rather than from it.
    upwards: bool,
    best: Vec<Option<Joint>>,
    /// How many of the tree's devices were looked at.
    seen: usize,
}

/// Where a device would join a tree.
#[derive(Clone, Copy)]
struct Joint {
    /// Moves beyond those it may be from the tree's start: what is too deep comes last.
    beyond: usize,
    /// The cost with what depth costs.
    total: f64,
    cost: f64,
    end: DeviceId,
}

impl<'a> Front<'a> {
    fn new(ways: &'a Ways, growth: Growth, upwards: bool) -> Self {
        Self { ways, growth, upwards, best: vec![None; ways.devices()], seen: 0 }
    }

    /// Of `outside`, the device nearest to a tree that has only grown since it was asked before: cost, tree's end,
    /// device.
    fn nearest(&mut self, tree: &[Reached], outside: DeviceSet) -> Option<(f64, DeviceId, DeviceId)> {
        for end in &tree[self.seen..] {
            for (d, best) in self.best.iter_mut().enumerate() {
                let device = DeviceId(d as u16);
                let (from, to) = if self.upwards { (device, end.device) } else { (end.device, device) };
                let cost = self.ways.cost(from, to) + end.beside;
                let total = cost + end.depth as f64 * self.growth.lag;
                let beyond = (end.depth + self.ways.moves(from, to)).saturating_sub(self.growth.most);
                if total.is_finite() && best.is_none_or(|b| (beyond, total) < (b.beyond, b.total)) {
                    *best = Some(Joint { beyond, total, cost, end: end.device });
                }
            }
        }
        self.seen = tree.len();
        let mut nearest: Option<(Joint, DeviceId)> = None;
        for device in outside.iter() {
            let Some(joint) = self.best[device.index()] else { continue };
            if nearest.is_none_or(|(n, _)| (joint.beyond, joint.total) < (n.beyond, n.total)) {
                nearest = Some((joint, device));
            }
        }
        nearest.map(|(joint, device)| (joint.cost, joint.end, device))
    }
}

/// Adds a path that begins in a tree, behind the last of its devices that is in the tree; `beside` says what a device
/// costs that joins behind another which costs so much itself.
fn grow(
    path: &[DeviceId],
    tree: &mut Vec<Reached>,
    beside: impl Fn(&Reached, DeviceId) -> f64,
    mut add: impl FnMut(DeviceId, DeviceId),
) {
    let place = |tree: &[Reached], d: DeviceId| tree.iter().position(|t| t.device == d);
    let start = path.iter().rposition(|&d| place(tree, d).is_some()).unwrap_or(0);
    for hop in path[start..].windows(2) {
        let Some(before) = place(tree, hop[0]).map(|n| &tree[n]) else { return };
        let next = Reached { device: hop[1], depth: before.depth + 1, beside: beside(before, hop[1]) };
        add(hop[0], hop[1]);
        tree.push(next);
    }
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

/// The moves without those that lead to no reader.
pub(super) fn pruned(mut hops: Vec<Hop>, readers: DeviceSet) -> Vec<Hop> {
    let mut wanted = readers;
    for n in (0..hops.len()).rev() {
        let (from, to) = hops[n];
        if wanted.contains(to) {
            wanted = wanted.with(from);
        } else {
            hops.remove(n);
        }
    }
    hops
}

/// Adds a path's moves behind the last of its devices that has the value.
pub(super) fn join(path: &[DeviceId], have: &mut DeviceSet, hops: &mut Vec<Hop>) {
    let start = path.iter().rposition(|&d| have.contains(d)).unwrap_or(0);
    for hop in path[start..].windows(2) {
        hops.push((hop[0], hop[1]));
        *have = have.with(hop[1]);
    }
}

/// The cheapest in-tree found that brings one of each of `holders` to `root`, where only `workers` fold, with its cost;
/// `None` where that would be more than `worth`.
pub(super) fn fold_tree(
    ways: &Ways,
    workers: DeviceSet,
    root: DeviceId,
    holders: &[DeviceSet],
    growth: Growth,
    worth: f64,
) -> Option<(InTree, f64)> {
    let mut from: Vec<Option<DeviceId>> = vec![None; holders.len()];
    let mut parent: Vec<(DeviceId, Option<DeviceId>)> = vec![(root, None)];
    let mut tree = vec![Reached::start(root)];
    let mut cost = 0.0;
    // Whoever joins the tree gives what it joins for: a device that gave nothing would send nothing.
    let mut joined = root;
    let mut front = Front::new(ways, growth, true);
    loop {
        let within: DeviceSet = tree.iter().map(|t| t.device).collect();
        for (supplier, h) in from.iter_mut().zip(holders) {
            if supplier.is_none() {
                *supplier = if h.contains(joined) { Some(joined) } else { h.intersect(within).lowest() };
            }
        }
        let open = (0..holders.len()).filter(|&n| from[n].is_none());
        let open = open.fold(DeviceSet::new(), |all, n| all.union(holders[n]));
        if open.is_empty() {
            break;
        }
        let (price, end, start) = front.nearest(&tree, open)?;
        cost += price;
        if cost > worth {
            return None;
        }
        let mut path = ways.path(start, end);
        path.reverse();
        let beside = |above: &Reached, below: DeviceId| {
            if workers.contains(below) { 0.0 } else { above.beside + ways.cost(below, above.device) }
        };
        grow(&path, &mut tree, beside, |above, below| parent.push((below, Some(above))));
        joined = start;
    }
    let from = from.into_iter().map(|d| d.expect("every partial has a supplier")).collect();
    Some((InTree { from, parent }, cost))
}

/// An in-tree by its devices' parents, the root first.
pub(super) struct InTree {
    from: Vec<DeviceId>,
    parent: Vec<(DeviceId, Option<DeviceId>)>,
}

impl InTree {
    /// As moves.
    pub(super) fn fold(self) -> Fold {
        Fold { root: self.parent[0].0, from: self.from, sends: leaves_first(&self.parent) }
    }
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
pub(super) fn climb(path: &[DeviceId], within: &mut DeviceSet, parent: &mut Vec<(DeviceId, Option<DeviceId>)>) {
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
