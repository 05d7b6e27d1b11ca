//! Packing: shares of every bundle on routes so that the busiest resource is least busy.
//!
//! Links are priced by load. A bundle that has a cheaper route than the dearest of those it uses moves part of
//! its share there, as much as lowers a smoothed maximum of the loads (pairwise Frank–Wolfe steps, one bundle at
//! a time, on the potential of multiplicative weights; Garg and Könemann 1998 price links in the same way).
//! Routes are found by [`Ways`] under the prices, folds with every possible first complete device.

use super::bundle::Bundle;
use super::net::{Net, Ways};
use super::route::{Growth, Hop, InTree, Leg, Route, Scheme, fold_tree, hand_tree};
use ein_task::machine::{DeviceSet, Link};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A route in use.
struct Column {
    route: Rc<Route>,
    share: f64,
    /// Seconds on each resource it loads, if the whole bundle went this way.
    load: Vec<(usize, f64)>,
    depth: usize,
}

struct Packing<'a> {
    net: &'a Net<'a>,
    short: bool,
    shallow: bool,
    deepest: usize,
    /// Seconds that a byte takes on every resource, as the [`Taste`] has it.
    slowness: Vec<f64>,
    bundles: &'a [Bundle],
    columns: Vec<Vec<Column>>,
    busy: Vec<f64>,
    /// `exp(sharpness · (busy / scale - 1))` of every resource.
    price: Vec<f64>,
    sharpness: f64,
    scale: f64,
}

/// How sharp prices are at first.
const FIRST: f64 = 30.0;

/// Bundles that a round improves at least, as a rule.
pub(super) const TURNS: usize = 36;

/// How hard to try.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Rounds over all bundles.
    pub(super) rounds: usize,
    /// Bundles that a round improves at least.
    pub(super) turns: usize,
    /// Seconds of the busiest resource that are good enough.
    pub(super) enough: f64,
    /// Which routes are taken.
    pub(super) taste: Taste,
}

/// Which routes packing takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taste {
    /// Ways of two links at most from one device of a tree to the next.
    pub(super) short: bool,
    /// Few moves even where that costs load.
    pub(super) shallow: bool,
    /// Moves on the longest chain of a tree at most, where there is a way of so few.
    pub(super) most: Option<u8>,
    /// How much of links to devices that do not compute is left free. Transfers that share a port get equal parts of
    /// it and not what the shares of their routes ask for, so what is full comes in bursts.
    pub(super) spare: Spare,
}

impl Taste {
    /// How deep trees may grow to begin with.
    pub(super) fn growth(self) -> Growth {
        Growth { most: self.most.map_or(usize::MAX, usize::from), ..Growth::FREE }
    }
}

/// How much of links to devices that do not compute is left free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Spare {
    /// They are used as any other.
    #[default]
    None,
    /// They are taken for a fifth slower than they are.
    Some,
    /// They are not used where there is another way.
    All,
}

/// Improves a scheme.
pub(super) fn pack(net: &Net, start: &Scheme, effort: &Effort) -> Scheme {
    packed(Packing::new(net, start, effort.taste, &vec![1.0; net.slowness.len()]), start, effort)
}

/// Improves a scheme for a machine whose resources are so many times slower than they are.
pub(super) fn repack(net: &Net, start: &Scheme, effort: &Effort, slower: &[f64]) -> Scheme {
    packed(Packing::new(net, start, effort.taste, slower), start, effort)
}

fn packed(mut packing: Packing, start: &Scheme, effort: &Effort) -> Scheme {
    packing.settle(effort);
    packing.thin(effort);
    let mut legs = Vec::new();
    for (bundle, columns) in packing.columns.iter().enumerate() {
        legs.extend(columns.iter().map(|c| Leg { bundle, share: c.share, route: Rc::clone(&c.route) }));
    }
    Scheme::new(Rc::clone(&start.bundles), legs)
}

/// Prices by the byte of every resource at which packing comes to rest, from blunt to sharp: what a bound can be
/// proved with.
pub(super) fn prices(net: &Net, start: &Scheme, effort: &Effort) -> Vec<Vec<f64>> {
    let mut packing = Packing::new(net, start, effort.taste, &vec![1.0; net.slowness.len()]);
    packing.settle(effort);
    let most = packing.most();
    let at = |sharpness: f64| {
        let of = |(busy, slowness): (&f64, &f64)| {
            if most > 0.0 { (sharpness * (busy / most - 1.0)).exp() * slowness } else { 0.0 }
        };
        packing.busy.iter().zip(&net.slowness).map(of).collect()
    };
    [25.0, 50.0, 100.0, 200.0, 400.0, 800.0].map(at).to_vec()
}

impl<'a> Packing<'a> {
    fn new(net: &'a Net<'a>, start: &'a Scheme, taste: Taste, slower: &[f64]) -> Self {
        let resources = net.slowness.len();
        let mut slowness: Vec<f64> = net.slowness.iter().zip(slower).map(|(s, times)| s * times).collect();
        let slower = match taste.spare {
            Spare::None => 1.0,
            Spare::Some => 1.2,
            Spare::All => 1e6,
        };
        if slower > 1.0 {
            let relayed = |l: &&Link| !net.workers.contains(l.from) || !net.workers.contains(l.to);
            let shared: BTreeSet<usize> =
                net.machine.links.iter().filter(relayed).flat_map(|l| l.resources.iter().copied()).collect();
            for r in shared {
                slowness[r] *= slower;
            }
        }
        let mut packing = Self {
            net,
            short: taste.short,
            shallow: taste.shallow,
            deepest: taste.growth().most,
            slowness,
            bundles: &start.bundles,
            columns: start.bundles.iter().map(|_| Vec::new()).collect(),
            busy: vec![0.0; resources],
            price: vec![0.0; resources],
            sharpness: 0.0,
            scale: 1.0,
        };
        for leg in &start.legs {
            packing.add(leg.bundle, Rc::clone(&leg.route), leg.share);
        }
        packing
    }

    /// Uses a route for a share; the position of its column.
    fn add(&mut self, bundle: usize, route: Rc<Route>, share: f64) -> usize {
        if let Some(n) = self.columns[bundle].iter().position(|c| c.route == route) {
            self.columns[bundle][n].share += share;
            for &(r, seconds) in &self.columns[bundle][n].load {
                self.busy[r] += seconds * share;
            }
            return n;
        }
        let mut load: Vec<(usize, f64)> = Vec::new();
        let mut depth = 0;
        for c in route.crossings(self.net, &self.bundles[bundle]) {
            depth = depth.max(c.level);
            for &r in &self.net.machine.links[c.link].resources {
                let seconds = c.bytes(&self.bundles[bundle]) * self.slowness[r];
                match load.iter_mut().find(|l| l.0 == r) {
                    Some(l) => l.1 += seconds,
                    None => load.push((r, seconds)),
                }
            }
        }
        for &(r, seconds) in &load {
            self.busy[r] += seconds * share;
        }
        self.columns[bundle].push(Column { route, share, load, depth });
        self.columns[bundle].len() - 1
    }

    fn most(&self) -> f64 {
        self.busy.iter().copied().fold(0.0, f64::max)
    }

    fn settle(&mut self, effort: &Effort) {
        let mut sharpness: f64 = FIRST;
        let mut last = f64::INFINITY;
        for round in 0..effort.rounds {
            let most = self.most();
            if most <= effort.enough {
                return;
            }
            // Sharper once the blunter potential has nothing more to give.
            if most > 0.997 * last {
                if sharpness > 400.0 {
                    return;
                }
                sharpness *= 1.3;
            }
            last = most;
            self.reprice(sharpness, most);
            let (mut moved, mut still) = (false, 0);
            // A round is about as long for few bundles as for many.
            for turn in 0..(effort.turns / self.bundles.len()).max(1) {
                let before = moved;
                moved = false;
                for bundle in 0..self.bundles.len() {
                    moved |= self.improve(bundle, (round + turn) % 2 == 0 || self.columns[bundle].len() < 2);
                }
                still = if moved { 0 } else { still + 1 };
                moved |= before;
                // Neither known routes nor new ones are better: nor are they next time.
                if still == 2 {
                    break;
                }
            }
            if !moved && sharpness > 400.0 {
                return;
            }
        }
    }

    fn reprice(&mut self, sharpness: f64, scale: f64) {
        (self.sharpness, self.scale) = (sharpness, scale);
        for (price, busy) in self.price.iter_mut().zip(&self.busy) {
            *price = (sharpness * (busy / scale - 1.0)).exp();
        }
    }

    /// Moves share of a bundle from its dearest route to a cheaper one; with `search`, to the cheapest there is.
    fn improve(&mut self, bundle: usize, search: bool) -> bool {
        if search && let Some(route) = self.cheapest(bundle) {
            self.add(bundle, Rc::new(route), 0.0);
        }
        let cost = |c: &Column| c.load.iter().map(|&(r, s)| self.price[r] * s).sum::<f64>();
        let costs: Vec<f64> = self.columns[bundle].iter().map(cost).collect();
        let used = (0..costs.len()).filter(|&n| self.columns[bundle][n].share > 0.0);
        let Some(dear) = used.max_by(|&a, &b| costs[a].total_cmp(&costs[b]).then(b.cmp(&a))) else { return false };
        let Some(cheap) = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b]).then(a.cmp(&b))) else {
            return false;
        };
        if costs[cheap] >= costs[dear] * (1.0 - 1e-3) {
            self.columns[bundle].retain(|c| c.share > 0.0);
            return false;
        }
        // What a unit of share moved does to every resource.
        let mut change: Vec<(usize, f64)> = self.columns[bundle][cheap].load.clone();
        for &(r, s) in &self.columns[bundle][dear].load {
            match change.iter_mut().find(|c| c.0 == r) {
                Some(c) => c.1 -= s,
                None => change.push((r, -s)),
            }
        }
        let whole = self.columns[bundle][dear].share;
        let moved = self.best_part(&change, whole);
        self.columns[bundle][cheap].share += moved;
        let rest = self.columns[bundle][dear].share - moved;
        self.columns[bundle][dear].share = if rest < 1e-9 { 0.0 } else { rest };
        for (r, d) in change {
            self.busy[r] = (self.busy[r] + moved * d).max(0.0);
            self.price[r] = (self.sharpness * (self.busy[r] / self.scale - 1.0)).exp();
        }
        self.columns[bundle].retain(|c| c.share > 0.0);
        moved > 1e-6 * whole
    }

    /// How much of a share to move so that the potential is least, where moving all of it does `change` to resources.
    fn best_part(&self, change: &[(usize, f64)], whole: f64) -> f64 {
        let steepness = self.sharpness / self.scale;
        // What grows and what shrinks, as logarithms: both are nearly straight lines. Their distance and its slope.
        let distance = |moved: f64| {
            let (mut up, mut up_slope, mut down, mut down_slope) = (0.0, 0.0, 0.0, 0.0);
            for &(r, d) in change {
                let steep = d * self.price[r] * (steepness * moved * d).exp();
                if d > 0.0 {
                    up += steep;
                    up_slope += d * steep;
                } else {
                    down -= steep;
                    down_slope -= d * steep;
                }
            }
            (up.ln() - down.ln(), steepness * (up_slope / up - down_slope / down))
        };
        let (mut low, mut high, mut moved) = (0.0, whole, 0.0);
        // Newton's method, between what is known to be too little and too much.
        for _ in 0..24 {
            let (first, second) = distance(moved);
            if first <= 0.0 {
                low = moved;
            } else {
                high = moved;
            }
            let next = moved - first / second;
            if next >= whole && low == moved && high == whole {
                let (last, _) = distance(whole);
                if last <= 0.0 {
                    return whole;
                }
            }
            let next = if next > low && next < high { next } else { 0.5 * (low + high) };
            if (next - moved).abs() <= 1e-8 * whole {
                return next;
            }
            moved = next;
        }
        moved
    }

    /// The cheapest route found under the prices.
    fn cheapest(&self, bundle: usize) -> Option<Route> {
        let bundle = &self.bundles[bundle];
        let of = |l: &Link| l.resources.iter().map(|&r| self.price[r] * self.slowness[r]).sum::<f64>();
        let mut cost: Vec<f64> = self.net.machine.links.iter().map(of).collect();
        // Among equals the one with fewer hops, and few hops are worth a little.
        // As prices sharpen, less and less, since what is left to gain may need long ways.
        let weight = if self.shallow { 2.0 } else { FIRST / self.sharpness };
        let mean = cost.iter().sum::<f64>() / cost.len().max(1) as f64 * weight;
        let growth = Growth { lag: 0.5 * mean, most: self.deepest };
        let hop = 0.2 * mean + f64::MIN_POSITIVE;
        for c in &mut cost {
            *c += hop;
        }
        let ways = if self.short { Ways::short(self.net, &cost) } else { Ways::new(self.net, &cost) };
        if bundle.finished {
            return Some(Route {
                folds: vec![],
                hands: hand_tree(&ways, bundle.holders[0], bundle.readers, growth)?.0,
            });
        }
        let (pending, finished) = (bundle.pending as f64, bundle.bytes as f64);
        // Whatever a route looks like, every reader that does not fold all of it gets it over a link of its own.
        let mut into = vec![f64::INFINITY; self.net.devices];
        for (link, cost) in self.net.machine.links.iter().zip(&cost) {
            into[link.to.index()] = into[link.to.index()].min(*cost);
        }
        let every: f64 = bundle.readers.iter().map(|r| into[r.index()]).sum();
        let mut best: Option<(f64, InTree, Vec<Hop>)> = None;
        let roots = bundle.holding().union(bundle.readers).intersect(self.net.workers);
        for root in roots.iter() {
            let handed = every - if bundle.readers.contains(root) { into[root.index()] } else { 0.0 };
            let worth = best.as_ref().map_or(f64::INFINITY, |b| (b.0 - finished * handed) / pending);
            let up = fold_tree(&ways, self.net.workers, root, &bundle.holders, growth, worth);
            let Some((fold, up)) = up else { continue };
            let Some((hands, down)) = hand_tree(&ways, DeviceSet::one(root), bundle.readers, growth) else { continue };
            let total = up * pending + down * finished;
            if best.as_ref().is_none_or(|b| total < b.0 * (1.0 - 1e-12)) {
                best = Some((total, fold, hands));
            }
        }
        best.map(|(_, fold, hands)| Route { folds: vec![fold.fold()], hands })
    }

    /// Drops routes with little on them and moves their shares to those that stay.
    fn thin(&mut self, effort: &Effort) {
        for least in [0.01, 0.025] {
            for bundle in 0..self.bundles.len() {
                let largest = self.columns[bundle].iter().map(|c| c.share).fold(0.0, f64::max);
                let drop = |c: &Column| c.share < least * largest.max(least) && c.share < largest;
                let gone: f64 = self.columns[bundle].iter().filter(|c| drop(c)).map(|c| c.share).sum();
                if gone == 0.0 {
                    continue;
                }
                let busy = &mut self.busy;
                self.columns[bundle].retain(|c| {
                    if drop(c) {
                        c.load.iter().for_each(|&(r, s)| busy[r] -= s * c.share);
                    }
                    !drop(c)
                });
                for c in &mut self.columns[bundle] {
                    let more = c.share / (1.0 - gone) - c.share;
                    c.share += more;
                    c.load.iter().for_each(|&(r, s)| self.busy[r] += s * more);
                }
            }
            for _ in 0..12 {
                let most = self.most();
                if most <= effort.enough {
                    break;
                }
                self.reprice(300.0, most);
                let mut moved = false;
                for bundle in 0..self.bundles.len() {
                    moved |= self.improve(bundle, false);
                }
                if !moved {
                    break;
                }
            }
        }
        for columns in &mut self.columns {
            columns.sort_by(|a, b| a.depth.cmp(&b.depth).then_with(|| a.route.cmp(&b.route)));
        }
    }
}
