//! A lower bound on the cost of leading several sets of devices to a common place.

use crate::machine::{DeviceId, DeviceSet};

/// What of the dearest hop that a reader needs is next to nothing.
const NOTHING: f64 = 0.1;

/// What a hop costs from every device to every device; infinite where there is no link.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    devices: usize,
    of: Vec<f64>,
}

impl Costs {
    /// No link at all.
    pub(super) fn none(devices: usize) -> Self {
        Self { devices, of: vec![f64::INFINITY; devices * devices] }
    }

    pub(super) fn get(&self, from: DeviceId, to: DeviceId) -> f64 {
        self.of[from.index() * self.devices + to.index()]
    }

    pub(super) fn set(&mut self, from: DeviceId, to: DeviceId, cost: f64) {
        self.of[from.index() * self.devices + to.index()] = cost;
    }

    /// The same hops, backwards.
    pub(super) fn reversed(&self) -> Self {
        let mut back = Self::none(self.devices);
        for from in 0..self.devices {
            for to in 0..self.devices {
                back.of[to * self.devices + from] = self.of[from * self.devices + to];
            }
        }
        back
    }

    /// Hops between devices that compute only, straight or by way of one that does not. Such a one folds nothing,
    /// so what comes to it from two devices leaves it as two, and no tree of folds has a branch there. What it holds
    /// itself still leaves it.
    pub(super) fn between(&self, workers: DeviceSet) -> Self {
        let everyone = DeviceSet::first(self.devices);
        let mut direct = self.clone();
        for by in everyone.without(workers).iter() {
            for from in everyone.iter() {
                for to in everyone.iter().filter(|&to| to != from) {
                    let through = self.get(from, by) + direct.get(by, to);
                    if through < direct.get(from, to) {
                        direct.set(from, to, through);
                    }
                }
            }
        }
        for idle in everyone.without(workers).iter() {
            everyone.iter().for_each(|from| direct.set(from, idle, f64::INFINITY));
        }
        direct
    }

    /// At most what hops cost that lead from some device of every set of `starts` to some device of `goal`,
    /// hops being shared where they can be.
    ///
    /// Such hops leave every set of devices that holds all of a start and none of the goal. Charge each of a
    /// series of such sets something, never more in sum over the sets that a hop leaves than the hop costs: then
    /// the hops cost at least the sum of the charges. The series is the dual ascent of Wong (1984): starts grow along
    /// hops that are used up; the smallest is charged what the cheapest hop out of it has left.
    pub(super) fn gathered(&self, starts: &[DeviceSet], goal: DeviceSet) -> f64 {
        self.gathering(starts, goal).0
    }

    /// [`Self::gathered`], and of what every hop costs the part that was not charged.
    pub(super) fn gathering(&self, starts: &[DeviceSet], goal: DeviceSet) -> (f64, Costs) {
        self.gathering_to(starts, &[goal])
    }

    /// [`Self::gathering`] where every start is led to each of several goals.
    fn gathering_to(&self, starts: &[DeviceSet], goals: &[DeviceSet]) -> (f64, Costs) {
        let everyone = DeviceSet::first(self.devices);
        let mut left = self.of.clone();
        let row = |a: DeviceId| a.index() * self.devices;
        // Where hops lead that have nothing left.
        let mut free: Vec<DeviceSet> = vec![DeviceSet::new(); self.devices];
        for (a, free) in free.iter_mut().enumerate() {
            *free = everyone.iter().filter(|b| left[a * self.devices + b.index()] <= 0.0).collect();
        }
        let of = |&goal: &DeviceSet| starts.iter().map(move |&s| (s, goal));
        let mut grown: Vec<(DeviceSet, DeviceSet)> = goals.iter().flat_map(of).collect();
        for g in &mut grown {
            g.0 = closed(g.0, &free);
        }
        grown.retain(|g| g.0.intersect(g.1).is_empty());
        let mut charged = 0.0;
        while let Some(n) = (0..grown.len()).min_by_key(|&n| grown[n].0.len()) {
            let (set, goal) = grown[n];
            let again = closed(set, &free);
            if again != set {
                // Others have used up hops out of it.
                grown[n].0 = again;
                if !again.intersect(goal).is_empty() {
                    grown.remove(n);
                }
                continue;
            }
            let rest = everyone.without(again);
            let hops = |a: DeviceId| rest.iter().map(move |b| row(a) + b.index());
            let cheapest = again.iter().flat_map(hops).map(|hop| left[hop]).fold(f64::INFINITY, f64::min);
            if !cheapest.is_finite() {
                return (f64::INFINITY, self.clone());
            }
            charged += cheapest;
            for a in again.iter() {
                for b in rest.iter() {
                    let hop = &mut left[row(a) + b.index()];
                    *hop -= cheapest;
                    if *hop <= 0.0 {
                        free[a.index()] = free[a.index()].with(b);
                    }
                }
            }
        }
        (charged, Costs { devices: self.devices, of: left })
    }

    /// The same hops, each so many times as dear.
    pub(super) fn times(&self, times: f64) -> Costs {
        Costs { devices: self.devices, of: self.of.iter().map(|c| c * times).collect() }
    }

    /// At most what an answer costs of which `first` is the first device to have something of every partial of
    /// `holders`, `paid` of it being for leading them there: of what hops cost before, `rest` is not charged for that
    /// yet. `self` is what a hop costs after, `before` what it costs before.
    ///
    /// Where a reader is reached from others by hops that cost next to nothing it seems to get the value for
    /// nothing. But then either they together still lack some partial when `first` lacks none, and a hop into all
    /// of them comes after; or they do not, and every partial was led to them, too, before. Both are charged, and the
    /// cheaper is what counts. Not where some device passes on without computing: a hop of `before` is then two, and the
    /// first may be the same on the way to both.
    pub(super) fn answered(
        &self,
        before: &Costs,
        (paid, rest): (f64, Costs),
        holders: &[DeviceSet],
        readers: DeviceSet,
        first: DeviceId,
        everyone_computes: bool,
    ) -> f64 {
        let joined = if everyone_computes { self.joined(readers, first) } else { Vec::new() };
        let mut least = paid + self.clone().finished(rest, holders, readers, first, &joined);
        for &goal in &joined {
            let (paid, rest) = before.gathering_to(holders, &[DeviceSet::one(first), goal]);
            least = least.min(paid + self.clone().finished(rest, holders, readers, first, &[]));
        }
        least
    }

    /// Sets without `first`, no two of which meet: a reader, and others from which it is reached by hops that cost
    /// next to nothing.
    fn joined(&self, readers: DeviceSet, first: DeviceId) -> Vec<DeviceSet> {
        let everyone = DeviceSet::first(self.devices);
        let into = |r: DeviceId| everyone.iter().map(|a| self.get(a, r)).fold(f64::INFINITY, f64::min);
        let dear = readers.iter().map(into).filter(|c| c.is_finite()).fold(0.0, f64::max);
        let mut joined: Vec<DeviceSet> = Vec::new();
        for reader in readers.iter() {
            let mut set = DeviceSet::one(reader);
            loop {
                let cheap = |a: &DeviceId| set.iter().any(|b| self.get(*a, b) <= NOTHING * dear);
                let grown = everyone.without(set).iter().filter(cheap).fold(set, DeviceSet::with);
                if grown == set {
                    break;
                }
                set = grown;
            }
            let apart = joined.iter().all(|j| j.intersect(set).is_empty());
            if set.len() > 1 && !set.contains(first) && apart {
                joined.push(set);
            }
        }
        joined
    }

    /// At most what hops cost that finish a value at `readers` after `first` could finish it, or that prepare for it before:
    /// `self` is what a hop costs after, `before` what of a hop before is not charged yet for leading the
    /// partials of `holders` to `first`.
    ///
    /// Until then every other reader lacks something, so that a hop into it comes after; and so do the devices of
    /// every set in `lacking` together. And into every set of devices
    /// with a reader and with no holder of some partial leads a hop, before or after. Sets are charged as in
    /// [`Self::gathered`], single readers first: what is charged to a reader alone, or to what lacks something, only
    /// hops after pay, the rest both do.
    fn finished(
        mut self,
        mut before: Costs,
        holders: &[DeviceSet],
        readers: DeviceSet,
        first: DeviceId,
        lacking: &[DeviceSet],
    ) -> f64 {
        let everyone = DeviceSet::first(self.devices);
        let others = readers.without(DeviceSet::one(first));
        let mut charged = 0.0;
        for set in others.iter().map(DeviceSet::one).chain(lacking.iter().copied()) {
            let into = || everyone.without(set).iter().flat_map(move |a| set.iter().map(move |b| (a, b)));
            let cheapest = into().map(|(a, b)| self.get(a, b)).fold(f64::INFINITY, f64::min);
            if cheapest.is_finite() {
                charged += cheapest;
                for (a, b) in into() {
                    self.set(a, b, self.get(a, b) - cheapest);
                }
            }
        }
        let mut grown: Vec<DeviceSet> = others.iter().map(DeviceSet::one).collect();
        while let Some(n) = (0..grown.len()).min_by_key(|&n| grown[n].len()) {
            let set = grown[n];
            let rest = everyone.without(set);
            let (mut cheapest, mut free) = (f64::INFINITY, DeviceSet::new());
            for a in rest.iter() {
                for b in set.iter() {
                    let cost = self.get(a, b).min(before.get(a, b));
                    cheapest = cheapest.min(cost);
                    if cost <= 0.0 {
                        free = free.with(a);
                    }
                }
            }
            let lacks = holders.iter().any(|h| h.intersect(set).is_empty());
            if set.contains(first) || !lacks || !cheapest.is_finite() {
                grown.remove(n);
            } else if !free.is_empty() {
                grown[n] = set.union(free);
            } else {
                charged += cheapest;
                for a in rest.iter() {
                    for b in set.iter() {
                        self.set(a, b, self.get(a, b) - cheapest);
                        before.set(a, b, before.get(a, b) - cheapest);
                    }
                }
            }
        }
        charged
    }

    /// The cheapest ways between any two devices.
    pub(super) fn ways(&self) -> Ways {
        let n = self.devices;
        let mut cost = self.of.clone();
        let mut next: Vec<u16> = (0..n * n).map(|pair| (pair % n) as u16).collect();
        for d in 0..n {
            cost[d * n + d] = 0.0;
        }
        for by in 0..n {
            for from in 0..n {
                let first = cost[from * n + by];
                if !first.is_finite() {
                    continue;
                }
                for to in 0..n {
                    if first + cost[by * n + to] < cost[from * n + to] {
                        cost[from * n + to] = first + cost[by * n + to];
                        next[from * n + to] = next[from * n + by];
                    }
                }
            }
        }
        Ways { devices: n, cost, next }
    }
}

/// `set` and where free hops lead from it.
fn closed(set: DeviceSet, free: &[DeviceSet]) -> DeviceSet {
    let (mut grown, mut fresh) = (set, set);
    while !fresh.is_empty() {
        let next = fresh.iter().fold(DeviceSet::new(), |all, a| all.union(free[a.index()]));
        fresh = next.without(grown);
        grown = grown.union(fresh);
    }
    grown
}

/// The cheapest ways between devices.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    devices: usize,
    cost: Vec<f64>,
    next: Vec<u16>,
}

impl Ways {
    pub(super) fn cost(&self, from: DeviceId, to: DeviceId) -> f64 {
        self.cost[from.index() * self.devices + to.index()]
    }

    /// The cheapest pair of a device of one set and a device of the other, with its cost, if there is a way.
    pub(super) fn nearest(&self, from: DeviceSet, to: DeviceSet) -> Option<(f64, DeviceId, DeviceId)> {
        let pairs = from.iter().flat_map(|a| to.iter().map(move |b| (self.cost(a, b), a, b)));
        pairs.filter(|p| p.0.is_finite()).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The hops of the cheapest way.
    pub(super) fn hops(&self, from: DeviceId, to: DeviceId) -> impl Iterator<Item = (DeviceId, DeviceId)> + '_ {
        let mut at = from;
        std::iter::from_fn(move || {
            let next = DeviceId(self.next[at.index() * self.devices + to.index()]);
            let hop = (at, next);
            (at != to).then(|| {
                at = next;
                hop
            })
        })
    }
}

#[cfg(test)]
#[path = "ascent_tests.rs"]
mod tests;
