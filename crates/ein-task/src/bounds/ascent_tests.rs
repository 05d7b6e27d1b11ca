//! Charges against every answer there is, on a few devices.

use super::*;

type Hop = (DeviceId, DeviceId);

fn one(device: usize) -> DeviceSet {
    DeviceSet::one(DeviceId(device as u16))
}

fn set(devices: &[usize]) -> DeviceSet {
    devices.iter().map(|&d| DeviceId(d as u16)).collect()
}

fn costs(devices: usize, hops: &[(usize, usize, f64)]) -> Costs {
    let mut costs = Costs::none(devices);
    for &(from, to, cost) in hops {
        costs.set(DeviceId(from as u16), DeviceId(to as u16), cost);
    }
    costs
}

/// Where hops lead from a set.
fn reached(from: DeviceSet, hops: &[Hop]) -> DeviceSet {
    hops.iter()
        .fold(from, |all, _| hops.iter().fold(all, |all, &(a, b)| if all.contains(a) { all.with(b) } else { all }))
}

/// What [`Costs::gathering`] and then [`Costs::finished`] charge, a hop costing `partial` times as much before the value
/// is finished at `first` and `any` times as much after.
fn charged(costs: &Costs, partial: f64, any: f64, holders: &[DeviceSet], readers: DeviceSet, first: usize) -> f64 {
    let first = DeviceId(first as u16);
    let (paid, rest) = costs.gathering(holders, DeviceSet::one(first));
    partial * paid + costs.times(any).finished(rest.times(partial), holders, readers, first, &[])
}

/// The same with [`Costs::answered`].
fn answered(costs: &Costs, partial: f64, any: f64, holders: &[DeviceSet], readers: DeviceSet, first: usize) -> f64 {
    let first = DeviceId(first as u16);
    let (paid, rest) = costs.gathering(holders, DeviceSet::one(first));
    let (before, led) = (costs.times(partial), (partial * paid, rest.times(partial)));
    costs.times(any).answered(&before, led, holders, readers, first, true)
}

/// What the cheapest answer costs, found by looking at all of them: what devices have something of changes hop by hop,
/// a hop carries all that its device has something of, and costs `any` times as much if that is everything, else
/// `partial` times as much. Infinite if there is none.
fn cheapest_answer(costs: &Costs, partial: f64, any: f64, holders: &[DeviceSet], readers: DeviceSet) -> f64 {
    let everyone = DeviceSet::first(costs.devices);
    let everything = (1u8 << holders.len()) - 1;
    let has = |d: DeviceId| (0..holders.len()).filter(|&n| holders[n].contains(d)).map(|n| 1 << n).sum::<u8>();
    let start: Vec<u8> = everyone.iter().map(has).collect();
    // Costs are multiples of a quarter.
    let mut open = std::collections::BTreeSet::from([(0u64, start)]);
    let mut closed = std::collections::BTreeSet::new();
    while let Some((paid, state)) = open.pop_first() {
        if readers.iter().all(|r| state[r.index()] == everything) {
            return paid as f64 / 4.0;
        }
        if !closed.insert(state.clone()) {
            continue;
        }
        for a in everyone.iter() {
            for b in everyone.iter().filter(|&b| costs.get(a, b).is_finite()) {
                let mut next = state.clone();
                next[b.index()] |= state[a.index()];
                if next != state {
                    let times = if state[a.index()] == everything { any } else { partial };
                    open.insert((paid + (4.0 * times * costs.get(a, b)) as u64, next));
                }
            }
        }
    }
    f64::INFINITY
}

/// The cheapest hops before and after that lead a device of every one of `holders` to `first` before, lead into every
/// other reader after, and lead every partial to every reader: all choices are looked at.
fn cheapest(costs: &Costs, partial: f64, any: f64, holders: &[DeviceSet], readers: DeviceSet, first: usize) -> f64 {
    let everyone = DeviceSet::first(costs.devices);
    let hops: Vec<Hop> = everyone
        .iter()
        .flat_map(|a| everyone.iter().map(move |b| (a, b)))
        .filter(|&(a, b)| costs.get(a, b).is_finite())
        .collect();
    let chosen =
        |bits: usize| -> Vec<Hop> { (0..hops.len()).filter(|n| bits >> n & 1 == 1).map(|n| hops[n]).collect() };
    let price = |hops: &[Hop]| hops.iter().map(|&(a, b)| costs.get(a, b)).sum::<f64>();
    let others = readers.without(one(first));
    let all: Vec<Vec<Hop>> = (0..1 << hops.len()).map(chosen).collect();
    let mut least = f64::INFINITY;
    for before in &all {
        if holders.iter().any(|&h| reached(h, before).intersect(one(first)).is_empty()) {
            continue;
        }
        for after in &all {
            let paid = partial * price(before) + any * price(after);
            if paid >= least || others.iter().any(|r| !after.iter().any(|hop| hop.1 == r)) {
                continue;
            }
            let both: Vec<Hop> = before.iter().chain(after).copied().collect();
            if holders.iter().all(|&h| readers.without(reached(h, &both)).is_empty()) {
                least = paid;
            }
        }
    }
    least
}

/// A plain seeded generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }
}

/// On a ring of three whose hops cost 1, 2 and 4 and back 8: by hand.
#[test]
fn what_is_charged_is_what_it_costs() {
    let ring = costs(3, &[(0, 1, 1.0), (1, 2, 2.0), (2, 0, 4.0), (1, 0, 8.0)]);
    let partials = [one(0), one(1), one(2)];
    // To 2 go 0 to 1 and 1 to 2; from there 2 to 0 and 0 to 1.
    assert_eq!(charged(&ring, 1.0, 1.0, &partials, set(&[0, 1, 2]), 2), 1.0 + 2.0 + 4.0 + 1.0);
    // Half as much in the end.
    assert_eq!(charged(&ring, 2.0, 1.0, &partials, set(&[0, 1, 2]), 2), 2.0 * (1.0 + 2.0) + 4.0 + 1.0);
    // One reader, and not the first who could have it: what is finished at 2 goes by 0 to 1. A hop into the reader
    // and one into 0, which holds neither of the others' partials.
    assert_eq!(charged(&ring, 1.0, 1.0, &partials, one(1), 2), 1.0 + 2.0 + 1.0 + 4.0);
    // Who has it already costs nothing more.
    assert_eq!(charged(&ring, 1.0, 1.0, &partials, one(2), 2), 3.0);
}

/// Never more than the cheapest answer costs, never less than the cheapest hop into each of the other readers after
/// what leads to the first, and mostly more than that.
#[test]
fn no_answer_costs_less_than_is_charged() {
    let random = &mut Random(7);
    let (mut sharper, mut tight, mut draws) = (0, 0, 0);
    while draws < 60 {
        let devices = 3 + random.below(2) as usize;
        // As many hops as can all be tried, out and in.
        let most = 6;
        let mut hops: Vec<(usize, usize, f64)> = Vec::new();
        while hops.len() < most {
            let (a, b) = (random.below(devices as u64) as usize, random.below(devices as u64) as usize);
            if a != b && !hops.iter().any(|h| (h.0, h.1) == (a, b)) {
                hops.push((a, b, 1.0 + random.below(9) as f64));
            }
        }
        let costs = costs(devices, &hops);
        let mut draw = || -> DeviceSet {
            let bits = 1 + random.below((1 << devices) - 1);
            (0..devices).filter(|d| bits >> d & 1 == 1).map(|d| DeviceId(d as u16)).collect()
        };
        let (holders, readers) = ([draw(), draw()], draw());
        let (partial, any) = (1.0 + random.below(3) as f64, 1.0);
        let first = random.below(devices as u64) as usize;
        let least = cheapest(&costs, partial, any, &holders, readers, first);
        if !least.is_finite() {
            continue;
        }
        draws += 1;
        let found = charged(&costs, partial, any, &holders, readers, first);
        assert!(found <= least * (1.0 + 1e-9), "{hops:?} {holders:?} {readers:?} {first}: {found} of {least}");
        let into = |r: DeviceId| hops.iter().filter(|h| h.1 == r.index()).map(|h| h.2).fold(f64::INFINITY, f64::min);
        let every: f64 = readers.without(one(first)).iter().map(into).sum();
        let simple = partial * costs.gathered(&holders, one(first)) + any * every;
        assert!(found >= simple * (1.0 - 1e-9), "{hops:?} {holders:?} {readers:?} {first}: {found} below {simple}");
        sharper += usize::from(found > simple * (1.0 + 1e-9));
        tight += usize::from(found >= least * (1.0 - 1e-9));
    }
    assert!(sharper >= 5, "more than the simple charge in {sharper} of {draws}");
    assert!(tight >= 40, "all that the cheapest answer costs in {tight} of {draws}");
}

/// Neither the first device that has something of everything nor the order is known beforehand: no answer of any kind costs
/// less than the least that is charged, and where hops cost next to nothing more is charged than without looking
/// at what they join.
#[test]
fn no_answer_costs_less_than_is_charged_whoever_is_first() {
    let random = &mut Random(11);
    let (mut sharper, mut tight, mut draws) = (0, 0, 0);
    while draws < 200 {
        // Three or four that are mostly linked, and one or two on free cables from one of them.
        let (inner, outer) = (3 + random.below(2) as usize, 1 + random.below(2) as usize);
        let devices = inner + outer.min(5 - inner);
        let mut hops: Vec<(usize, usize, f64)> = Vec::new();
        for a in 0..devices {
            for b in (0..devices).filter(|&b| b != a) {
                let cost = [2, 4, 4, 5, 7, 0][random.below(5 + u64::from(a + b == devices)) as usize];
                if a.max(b) < inner && random.below(8) > 0 {
                    hops.push((a, b, cost as f64));
                } else if a == inner - 1 && b >= inner || b == inner - 1 && a >= inner {
                    hops.push((a, b, 0.0));
                }
            }
        }
        let costs = costs(devices, &hops);
        let holders: Vec<DeviceSet> =
            (0..2 + random.below(2)).map(|_| one(random.below(devices as u64) as usize)).collect();
        let everyone = (1 << devices) - 1;
        let bits = if random.below(2) == 0 { everyone } else { 1 + random.below(everyone) };
        let readers: DeviceSet = (0..devices).filter(|d| bits >> d & 1 == 1).map(|d| DeviceId(d as u16)).collect();
        let (partial, any) = (1.0 + random.below(3) as f64 / 2.0, 1.0);
        let least = cheapest_answer(&costs, partial, any, &holders, readers);
        if !least.is_finite() {
            continue;
        }
        draws += 1;
        let over = |of: &dyn Fn(usize) -> f64| (0..devices).map(of).fold(f64::INFINITY, f64::min);
        let found = over(&|first| answered(&costs, partial, any, &holders, readers, first));
        let blunt = over(&|first| charged(&costs, partial, any, &holders, readers, first));
        assert!(found <= least * (1.0 + 1e-9), "{hops:?} {holders:?} {readers:?}: {found} of {least}");
        assert!(found >= blunt * (1.0 - 1e-9), "{hops:?} {holders:?} {readers:?}: {found} below {blunt}");
        sharper += usize::from(found > blunt * (1.0 + 1e-9));
        tight += usize::from(found >= least * (1.0 - 1e-9));
    }
    assert!(sharper >= 10, "more than without what is joined in {sharper} of {draws}");
    assert!(tight >= 100, "all that the cheapest answer costs in {tight} of {draws}");
}

/// A device behind a free cable from another: nobody gets the value back over it without having sent for it.
#[test]
fn what_comes_back_over_a_free_cable_went_there() {
    // 0 to 3 all linked; 4 hangs on 3.
    let mut hops: Vec<(usize, usize, f64)> = vec![(3, 4, 0.0), (4, 3, 0.0)];
    hops.extend((0..4).flat_map(|a| (0..4).filter(move |b| *b != a).map(move |b| (a, b, 1.0))));
    let costs = costs(5, &hops);
    let holders = [one(0), one(1), one(4)];
    let readers = DeviceSet::first(5);
    let over = |of: &dyn Fn(usize) -> f64| (0..5).map(of).fold(f64::INFINITY, f64::min);
    // Two hops bring the partials together at 0, say, three hand the value out.
    assert_eq!(cheapest_answer(&costs, 1.0, 1.0, &holders, readers), 5.0);
    assert_eq!(over(&|first| charged(&costs, 1.0, 1.0, &holders, readers, first)), 4.0);
    assert_eq!(over(&|first| answered(&costs, 1.0, 1.0, &holders, readers, first)), 5.0);
}
