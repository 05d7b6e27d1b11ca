//! Folds and hand-outs packed each for itself, then put together.
//!
//! A fold is a hand-out with time running backwards: what the trees of one are on the machine, those of the other
//! are on the machine with every link turned round. Packing both as hand-outs finds better trees than packing them
//! at once, and where folding keeps every port busy and so does handing out, doing one after the other loses nothing.

use super::bundle::{Bundle, idle_ways};
use super::net::Net;
use super::packing::{self, Effort, pack};
use super::route::{Fold, Growth, Leg, Route, Scheme};
use super::seeds::Seeds;
use ein_task::machine::{DeviceId, DeviceSet};
use std::rc::Rc;

/// What one owner does for a bundle: the tree that leads to it, backwards, or from it.
struct Part {
    bundle: usize,
    owner: DeviceId,
    /// Which device gives each partial.
    from: Vec<DeviceId>,
}

/// A question's folds and hand-outs apart, both as hand-outs.
struct Halves {
    /// The owners of all folds in slices; `None` for what is finished.
    parts: Vec<Option<Part>>,
    /// Folds, backwards.
    up: Vec<Bundle>,
    down: Vec<Bundle>,
}

impl Halves {
    fn new(seeds: &Seeds) -> Option<Self> {
        let mut halves = Self { parts: Vec::new(), up: Vec::new(), down: Vec::new() };
        for (n, bundle) in seeds.bundles.iter().enumerate() {
            if bundle.finished {
                halves.parts.push(None);
                halves.down.push(one_way(bundle.holders[0], bundle.readers, bundle.bytes));
                continue;
            }
            let owners = seeds.owners(bundle);
            for owner in owners.iter() {
                let give = |h: &DeviceSet| if h.contains(owner) { Some(owner) } else { h.lowest() };
                let from: Vec<DeviceId> = bundle.holders.iter().map(give).collect::<Option<_>>()?;
                let (own, others) = (DeviceSet::one(owner), from.iter().copied().collect::<DeviceSet>());
                let share = |bytes: u64| bytes / owners.len() as u64;
                halves.up.push(one_way(own, others.without(own), share(bundle.pending)));
                halves.down.push(one_way(own, bundle.readers.without(own), share(bundle.bytes)));
                halves.parts.push(Some(Part { bundle: n, owner, from }));
            }
        }
        Some(halves)
    }
}

/// Every fold in equal slices at its owners, the trees there and from there packed apart; finished bundles packed
/// with the hand-outs. `None` if nothing is folded.
pub(super) fn composed(seeds: &Seeds, effort: &Effort) -> Option<Scheme> {
    if seeds.bundles.iter().all(|b| b.finished) {
        return None;
    }
    let Halves { parts, up, down } = Halves::new(seeds)?;
    let mirrored = Net::new(seeds.net.mirrored());
    let up = packed(&mirrored, up, effort)?;
    let down = packed(seeds.net, down, effort)?;
    Some(joined(seeds, &parts, &up, &down))
}

/// Prices of resources at which the folds, the hand-outs and both together come to rest, packed apart.
pub(super) fn prices(seeds: &Seeds, effort: &Effort) -> Vec<Vec<f64>> {
    let Some(Halves { up, down, .. }) = Halves::new(seeds) else { return Vec::new() };
    let mirrored = Net::new(seeds.net.mirrored());
    let at_rest = |net: &Net, bundles: Vec<Bundle>| {
        plain(net, bundles, Growth::FREE).map_or(Vec::new(), |start| packing::prices(net, &start, effort))
    };
    let (up, down) = (at_rest(&mirrored, up), at_rest(seeds.net, down));
    let sum = |(up, down): (&Vec<f64>, &Vec<f64>)| up.iter().zip(down).map(|(u, d)| u + d).collect();
    let both: Vec<Vec<f64>> = up.iter().zip(&down).map(sum).collect();
    up.into_iter().chain(down).chain(both).collect()
}

/// A finished bundle without boxes, for packing alone.
fn one_way(from: DeviceSet, readers: DeviceSet, bytes: u64) -> Bundle {
    Bundle { parts: Vec::new(), holders: vec![from], readers, finished: true, ordered: false, pending: bytes, bytes }
}

/// Routes with the share that each takes of its bundle.
type Shares = Vec<(f64, Rc<Route>)>;

/// Bundles along their cheapest trees when nothing else moves. `None` if a reader cannot be reached.
fn plain(net: &Net, bundles: Vec<Bundle>, growth: Growth) -> Option<Scheme> {
    let ways = idle_ways(net, &bundles);
    Seeds { net, bundles: Rc::new(bundles), ways: &ways, at_reader: true, growth }.whole(true)
}

fn packed(net: &Net, bundles: Vec<Bundle>, effort: &Effort) -> Option<Vec<Shares>> {
    let mut of = vec![Vec::new(); bundles.len()];
    let start = plain(net, bundles, effort.taste.growth())?;
    pack(net, &start, effort).legs.into_iter().for_each(|l| of[l.bundle].push((l.share, l.route)));
    Some(of)
}

/// Lays the trees to an owner and the trees from it side by side: a leg for every stretch of the slice on which
/// neither changes.
fn joined(seeds: &Seeds, parts: &[Option<Part>], up: &[Shares], down: &[Shares]) -> Scheme {
    let mut legs = Vec::new();
    let mut folded = 0;
    let mut finished = seeds.bundles.iter().enumerate().filter(|b| b.1.finished).map(|b| b.0);
    for (part, down) in parts.iter().zip(down) {
        let Some(part) = part else {
            let bundle = finished.next().expect("one hand-out for each finished bundle");
            legs.extend(down.iter().map(|(share, route)| Leg { bundle, share: *share, route: Rc::clone(route) }));
            continue;
        };
        let up = &up[folded];
        folded += 1;
        let slice = 1.0 / parts.iter().flatten().filter(|p| p.bundle == part.bundle).count() as f64;
        let (mut u, mut d) = (0, 0);
        let (mut end_u, mut end_d, mut at) = (up[0].0, down[0].0, 0.0);
        loop {
            let end = f64::min(end_u, end_d);
            if end - at > 1e-6 {
                let sends = up[u].1.hands.iter().rev().map(|&(a, b)| (b, a)).collect();
                let fold = Fold { root: part.owner, from: part.from.clone(), sends };
                let route = Route { folds: vec![fold], hands: down[d].1.hands.clone() };
                legs.push(Leg { bundle: part.bundle, share: (end - at) * slice, route: Rc::new(route) });
                at = end;
            }
            let (next_u, next_d) = (end_u <= end, end_d <= end);
            if next_u && u + 1 < up.len() {
                u += 1;
                end_u += up[u].0;
            } else if next_d && d + 1 < down.len() {
                d += 1;
                end_d += down[d].0;
            } else {
                break;
            }
        }
    }
    legs.sort_by_key(|l| l.bundle);
    normalise(&mut legs);
    Scheme::new(Rc::clone(&seeds.bundles), legs)
}

/// Makes the shares of every bundle add up to 1 in spite of rounding.
fn normalise(legs: &mut [Leg]) {
    for of_one in legs.chunk_by_mut(|a, b| a.bundle == b.bundle) {
        let sum: f64 = of_one.iter().map(|l| l.share).sum();
        for leg in of_one {
            leg.share /= sum;
        }
    }
}
