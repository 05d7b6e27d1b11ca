//! A bound by prices.
//!
//! Put a price on every byte that crosses a resource. A program whose busiest resource takes `T` seconds moves at
//! most `T` × bandwidth bytes through each, so it pays at most `T` × Σ price × bandwidth. It also pays at least
//! the price of the cheapest answer to every box. Hence `T` ≥ Σ bytes × cheapest answer / Σ price × bandwidth, whatever
//! the prices; good prices are high where an even load would be high, and a few rounds of Frank–Wolfe steps on a
//! smooth maximum find some.

use super::Group;
use super::ascent::{Costs, Ways};
use crate::machine::{DeviceId, DeviceSet, Machine};

/// Rounds of prices at most.
const ROUNDS: usize = 96;
/// Rounds without gain after which none is expected: where cuts are mostly tight, and where something is folded.
const PATIENCE: [usize; 2] = [5, 12];
/// Above this many devices, what a fold costs at least is taken from the devices' cheapest hops alone.
const SMALL: usize = 16;
/// Work that a bound may take, in hops looked at. It ends the rounds early, never a round.
const WORK: usize = 1_500_000;

/// The best bound found, in seconds; rounds end once `least` seconds or what is found is about as much as
/// prices can give.
pub(super) fn bound(groups: &[Group], machine: &Machine, least: f64) -> f64 {
    if groups.is_empty() || machine.resources.is_empty() {
        return 0.0;
    }
    let dual = Dual::new(groups, machine, false);
    let (mut best, mut prices): (f64, Vec<f64>) = (0.0, Vec::new());
    for seed in dual.seeds() {
        let found = dual.bound(&dual.costs(&seed), &seed);
        if prices.is_empty() || found > best {
            (best, prices) = (best.max(found), seed);
        }
    }
    let mut sharpest = prices.clone();
    let mut average = vec![0.0; machine.resources.len()];
    let rounds = ROUNDS.min(WORK / dual.work());
    let patience = PATIENCE[usize::from(groups.iter().any(|g| g.holders.len() > 1))];
    let (mut known, mut gained) = (best.max(least), 0);
    for round in 0..rounds {
        let step = 2.0 / (round as f64 + 2.0);
        let seconds = dual.loads(&dual.costs(&prices));
        average.iter_mut().zip(&seconds).for_each(|(a, s)| *a += step * (s - *a));
        let busiest = average.iter().copied().fold(0.0, f64::max);
        // `busiest` is reached by a mixture of the cheapest answers, so no prices prove more.
        if busiest <= 1.005 * known || round > gained + patience {
            break;
        }
        let sharp = 8.0 + 4.0 * round as f64;
        for (r, price) in prices.iter_mut().enumerate() {
            *price = (sharp * (average[r] / busiest - 1.0)).exp() / machine.resources[r].bandwidth;
        }
        let found = dual.bound(&dual.costs(&prices), &prices);
        if found > best {
            best = found;
            sharpest.clone_from(&prices);
        }
        if best > 1.002 * known {
            (known, gained) = (best, round);
        }
    }
    if dual.folds { best.max(proved(groups, machine, &sharpest)) } else { best }
}

/// The bound in seconds that given prices by the byte prove, one for every resource of the machine.
pub(super) fn proved(groups: &[Group], machine: &Machine, prices: &[f64]) -> f64 {
    let dual = Dual::new(groups, machine, true);
    dual.bound(&dual.costs(prices), prices)
}

/// Prices that [`sharpened`] begins with, and rounds over all steps from each.
const STARTS: usize = 3;
const STEPS: usize = 6;

/// The best bound found by raising and lowering the prices of single resources and of what leads into, or out of, a
/// device. It begins with the given prices and with those of one device's ports.
pub(super) fn sharpened(groups: &[Group], machine: &Machine, starts: &[Vec<f64>]) -> f64 {
    let dual = Dual::new(groups, machine, true);
    let count = machine.resources.len();
    let mut blocks: Vec<Vec<usize>> = (0..count).map(|r| vec![r]).collect();
    let mut starts = starts.to_vec();
    for device in machine.ids() {
        for outward in [false, true] {
            let ends = |l: &&crate::machine::Link| if outward { l.from == device } else { l.to == device };
            let of = |l: &crate::machine::Link| {
                if outward { l.resources.first().copied() } else { l.resources.last().copied() }
            };
            let mut block: Vec<usize> = machine.links.iter().filter(ends).filter_map(of).collect();
            block.sort_unstable();
            block.dedup();
            let mut prices = vec![0.0; count];
            for &r in &block {
                prices[r] = 1.0;
            }
            starts.push(prices);
            blocks.push(block);
        }
    }
    let value = |prices: &[f64]| dual.bound(&dual.costs(prices), prices);
    let mut ranked: Vec<(f64, Vec<f64>)> = starts.into_iter().map(|p| (value(&p), p)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.dedup_by(|a, b| a.0 == b.0);
    let climbed = |(mut best, mut prices): (f64, Vec<f64>)| {
        for _ in 0..STEPS {
            let before = best;
            for block in &blocks {
                let most = prices.iter().copied().fold(0.0, f64::max);
                for step in [0.5, 0.1, -0.1, -0.5] {
                    let mut changed = prices.clone();
                    for &r in block {
                        changed[r] = (changed[r] + step * most).max(0.0);
                    }
                    let found = value(&changed);
                    if found > best {
                        (best, prices) = (found, changed);
                        break;
                    }
                }
            }
            if best < before * 1.001 {
                break;
            }
        }
        best
    };
    ranked.into_iter().take(STARTS).map(climbed).fold(0.0, f64::max)
}

struct Dual<'a> {
    groups: &'a [Group],
    machine: &'a Machine,
    /// Whether any group has several partials or several readers, so that hops backwards are asked for.
    trees: bool,
    /// Whether any group has several partials.
    folds: bool,
    /// Whether what is folded is followed to its readers, which takes longer.
    sharp: bool,
}

impl<'a> Dual<'a> {
    fn new(groups: &'a [Group], machine: &'a Machine, sharp: bool) -> Self {
        let trees = groups.iter().any(|g| g.holders.len() > 1 || g.readers.len() > 1);
        let folds = groups.iter().any(|g| g.holders.len() > 1);
        Self { groups, machine, trees, folds, sharp: sharp && folds && machine.len() <= SMALL }
    }

    /// Hops that a round looks at, roughly.
    fn work(&self) -> usize {
        let n = self.machine.len();
        let of = |g: &Group| match (g.holders.len(), g.readers.len()) {
            (1, 1) => n,
            (1, _) => n * n * g.readers.len(),
            (_, _) if n > SMALL => n * n,
            (m, _) => n * n * n * m,
        };
        n * n * n + self.machine.links.len() + self.groups.iter().map(of).sum::<usize>()
    }

    /// Prices to begin with: alike on everything, on what comes first on every way, on what comes last, and on what
    /// leads to, and from, a device that computes; each by the byte and by the second.
    fn seeds(&self) -> Vec<Vec<f64>> {
        let count = self.machine.resources.len();
        let (mut first, mut last) = (vec![0.0; count], vec![0.0; count]);
        for link in &self.machine.links {
            link.resources.first().into_iter().for_each(|&r| first[r] = 1.0);
            link.resources.last().into_iter().for_each(|&r| last[r] = 1.0);
        }
        let mut all = vec![0.0; count];
        self.machine.links.iter().flat_map(|l| &l.resources).for_each(|&r| all[r] = 1.0);
        // What a device that does not compute passes on has to come to one that does, and from one.
        let workers = self.machine.workers();
        let mut ends = Vec::new();
        if workers.len() < self.machine.len() {
            let (mut into, mut out) = (vec![0.0; count], vec![0.0; count]);
            for link in &self.machine.links {
                link.resources.last().into_iter().filter(|_| workers.contains(link.to)).for_each(|&r| into[r] = 1.0);
                link.resources.first().into_iter().filter(|_| workers.contains(link.from)).for_each(|&r| out[r] = 1.0);
            }
            ends = vec![into, out];
        }
        let by_time = |prices: &[f64]| -> Vec<f64> {
            prices.iter().zip(&self.machine.resources).map(|(p, r)| p / r.bandwidth).collect()
        };
        [all, first, last].into_iter().chain(ends).flat_map(|prices| [by_time(&prices), prices]).collect()
    }

    /// What every hop costs by the byte.
    fn costs(&self, prices: &[f64]) -> Costs {
        let mut costs = Costs::none(self.machine.len());
        for link in &self.machine.links {
            costs.set(link.from, link.to, link.resources.iter().map(|&r| prices[r]).sum());
        }
        costs
    }

    /// The bound in seconds that prices prove.
    fn bound(&self, costs: &Costs, prices: &[f64]) -> f64 {
        let worth: f64 = prices.iter().zip(&self.machine.resources).map(|(p, r)| p * r.bandwidth).sum();
        let ways = costs.ways();
        let hops = Hops::of(costs, self.machine);
        let folds = if self.folds { costs.between(self.machine.workers()) } else { Costs::none(0) };
        let back = if self.trees { costs.reversed() } else { Costs::none(0) };
        let paid: f64 = self.groups.iter().map(|g| self.least(g, costs, &folds, &back, &ways, &hops)).sum();
        if worth > 0.0 && paid.is_finite() { paid / worth } else { 0.0 }
    }

    /// At most what any answer to a group pays.
    fn least(&self, group: &Group, costs: &Costs, folds: &Costs, back: &Costs, ways: &Ways, hops: &Hops) -> f64 {
        let small = self.machine.len() <= SMALL;
        if let [holders] = group.holders[..] {
            // What is finished must come from a holder to every reader. Seen backwards, readers go to a holder.
            return group.any
                * match group.readers.lowest().filter(|_| group.readers.len() == 1) {
                    Some(reader) => ways.nearest(holders, DeviceSet::one(reader)).map_or(0.0, |n| n.0),
                    None if small => {
                        let readers: Vec<DeviceSet> = group.readers.iter().map(DeviceSet::one).collect();
                        back.gathered(&readers, holders)
                    }
                    None => group.readers.iter().map(|r| hops.into[r.index()]).sum(),
                };
        }
        // Some device that computes is the first of those that every partial has reached, folded or not: only there
        // can the value be finished first. All that moved until then led each partial to it and carried no finished value. Every other reader still lacks something then, and
        // what it lacks comes over a hop into it, later.
        let every: f64 = group.readers.iter().map(|r| hops.into[r.index()]).sum();
        let later = |v: DeviceId| {
            let own = if group.readers.contains(v) { hops.into[v.index()] } else { 0.0 };
            group.any * (every - own)
        };
        let (mut least, mut alone) = (f64::INFINITY, vec![f64::INFINITY; self.machine.len()]);
        // A single reader gets what some device finished first, all the way from there.
        let lone = |r: &DeviceId| group.readers.len() == 1 || self.sharp && group.readers.contains(*r);
        let lone: Vec<DeviceId> = group.readers.iter().filter(lone).collect();
        for v in self.machine.workers().iter() {
            // A quick bound often shows that no more has to be asked.
            let quick = group.partial * hopped(group, v, ways, hops);
            let far = |r: &DeviceId| group.any * ways.cost(v, *r);
            let quicker = |r: &DeviceId| quick + far(r) < alone[r.index()];
            let first = quick + later(v) < least && group.readers.len() > 1;
            if !first && !lone.iter().any(quicker) {
                continue;
            }
            let (paid, rest) = if self.machine.len() <= SMALL {
                folds.gathering(&group.holders, DeviceSet::one(v))
            } else {
                (hopped(group, v, ways, hops), Costs::none(0))
            };
            let paid = group.partial * paid;
            for r in &lone {
                alone[r.index()] = alone[r.index()].min(paid + far(r));
            }
            if group.readers.len() > 1 {
                let found = if self.sharp {
                    let (after, before) = (costs.times(group.any), folds.times(group.partial));
                    let led = (paid, rest.times(group.partial));
                    let everyone_computes = self.machine.workers().len() == self.machine.len();
                    after.answered(&before, led, &group.holders, group.readers, v, everyone_computes)
                } else {
                    paid + later(v)
                };
                least = least.min(found);
            }
        }
        // What several readers get costs no less than what each of them does.
        let alone = lone.iter().map(|r| alone[r.index()]).filter(|c| c.is_finite()).fold(0.0, f64::max);
        if least.is_finite() { least.max(alone) } else { alone }
    }

    /// Seconds that an answer which is cheap at these costs keeps every resource busy. Nothing rests on it but
    /// the next prices.
    fn loads(&self, costs: &Costs) -> Vec<f64> {
        let ways = costs.ways();
        let mut bytes = vec![0.0; self.machine.resources.len()];
        let mut load = |from: DeviceId, to: DeviceId, carried: f64| {
            let link = self.machine.link(from, to).expect("hops are links");
            link.resources.iter().for_each(|&r| bytes[r] += carried);
        };
        for group in self.groups {
            if let [holders] = group.holders[..] {
                let mut reached = holders;
                while let Some((_, from, to)) = ways.nearest(reached, group.readers.without(reached)) {
                    for (a, b) in ways.hops(from, to) {
                        load(a, b, group.any);
                        reached = reached.with(b);
                    }
                }
                continue;
            }
            // Of equally cheap places to fold at, each gets the same part.
            let places = self.places(group, &ways);
            let part = 1.0 / places.len() as f64;
            for (v, hops) in places {
                for (a, b) in hops {
                    load(a, b, group.partial * part);
                }
                for reader in group.readers.iter().filter(|r| *r != v) {
                    // The bound counts the cheapest hop into each; the load must be of the same answer.
                    let into = self.machine.links.iter().filter(|l| l.to == reader);
                    let cheapest = into.min_by(|a, b| costs.get(a.from, a.to).total_cmp(&costs.get(b.from, b.to)));
                    if let Some(l) = cheapest {
                        load(l.from, l.to, group.any * part);
                    }
                }
            }
        }
        bytes.iter().zip(&self.machine.resources).map(|(b, r)| b / r.bandwidth).collect()
    }

    /// The cheapest places for a group's partials to meet at, and the hops of a cheap tree to each.
    fn places(&self, group: &Group, ways: &Ways) -> Vec<(DeviceId, Vec<(DeviceId, DeviceId)>)> {
        let tree = |v: DeviceId| {
            let mut reached = DeviceSet::one(v);
            let mut hops = Vec::new();
            let mut missing: Vec<DeviceSet> = group.holders.iter().copied().filter(|h| !h.contains(v)).collect();
            let mut paid = 0.0;
            while !missing.is_empty() {
                let near = missing.iter().filter_map(|h| ways.nearest(*h, reached));
                let (cost, from, to) = near.min_by(|a, b| a.0.total_cmp(&b.0))?;
                paid += cost;
                for hop in ways.hops(from, to) {
                    hops.push(hop);
                    reached = reached.with(hop.0);
                }
                missing.retain(|h| h.intersect(reached).is_empty());
            }
            Some((paid, v, hops))
        };
        let asked = if self.machine.len() <= SMALL { self.machine.workers() } else { group.readers };
        let mut found: Vec<_> = asked.iter().take(SMALL).filter_map(tree).collect();
        let least = found.iter().map(|f| f.0).fold(f64::INFINITY, f64::min);
        found.retain(|f| f.0 <= least * (1.0 + 1e-6));
        found.into_iter().map(|(_, v, hops)| (v, hops)).collect()
    }
}

/// At most what hops cost that lead every partial to `v`, less sharp than by charges, and faster: every device but `v` that alone holds a partial has a hop out of it, and
/// the farthest partial has to come.
fn hopped(group: &Group, v: DeviceId, ways: &Ways, hops: &Hops) -> f64 {
    let goal = DeviceSet::one(v);
    let sole = |h: &DeviceSet| if h.len() == 1 && *h != goal { h.lowest() } else { None };
    let alone: f64 = group.holders.iter().filter_map(sole).map(|d| hops.out[d.index()]).sum();
    let far = group.holders.iter().filter_map(|h| ways.nearest(*h, goal)).map(|n| n.0).fold(0.0, f64::max);
    alone.max(far)
}

/// The cheapest hop into and out of every device; 0 where there is none.
struct Hops {
    into: Vec<f64>,
    out: Vec<f64>,
}

impl Hops {
    fn of(costs: &Costs, machine: &Machine) -> Self {
        let mut hops = Self { into: vec![f64::INFINITY; machine.len()], out: vec![f64::INFINITY; machine.len()] };
        for link in &machine.links {
            let cost = costs.get(link.from, link.to);
            let (into, out) = (&mut hops.into[link.to.index()], &mut hops.out[link.from.index()]);
            (*into, *out) = (into.min(cost), out.min(cost));
        }
        hops.into.iter_mut().chain(&mut hops.out).filter(|c| !c.is_finite()).for_each(|c| *c = 0.0);
        hops
    }
}
