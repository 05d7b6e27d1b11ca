//! Layouts: where a tensor may be. Relations and lists of needs are interned, so that a table of the search
//! holds numbers, and equal layouts of equal tensors are priced once.

use crate::candidates::even;
use crate::needs::{held_needs, tidy};
use ein_ir::graph::TensorType;
use ein_ir::region::{Region, tiles};
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::relation::{Held, Relation};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An interned relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RelationId(pub u32);

/// An interned list of needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NeedsId(pub u32);

/// Relations and lists of needs by number.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    relations: Vec<Relation>,
    complete: Vec<bool>,
    by_relation: HashMap<Relation, RelationId>,
    needs: Vec<Vec<Need>>,
    by_needs: HashMap<Vec<Need>, NeedsId>,
}

impl Layouts {
    /// The number of a relation.
    pub fn relation(&mut self, relation: Relation) -> RelationId {
        if let Some(&known) = self.by_relation.get(&relation) {
            return known;
        }
        let id = RelationId(self.relations.len() as u32);
        self.complete.push(relation.is_complete());
        self.by_relation.insert(relation.clone(), id);
        self.relations.push(relation);
        id
    }

    /// The number of a list of needs.
    pub fn needs(&mut self, needs: Vec<Need>) -> NeedsId {
        if let Some(&known) = self.by_needs.get(&needs) {
            return known;
        }
        let id = NeedsId(self.needs.len() as u32);
        self.by_needs.insert(needs.clone(), id);
        self.needs.push(needs);
        id
    }

    /// The relation of a number.
    pub fn relation_at(&self, id: RelationId) -> &Relation {
        &self.relations[id.0 as usize]
    }

    /// The needs of a number.
    pub fn needs_at(&self, id: NeedsId) -> &[Need] {
        &self.needs[id.0 as usize]
    }

    /// Whether a relation has no partials.
    pub fn is_complete(&self, id: RelationId) -> bool {
        self.complete[id.0 as usize]
    }
}

/// Blocks from a list of needs, where the distinct boxes tile the tensor.
pub(crate) fn held_of(needs: &[Need], whole: &Region) -> Option<Vec<Held>> {
    let mut boxes: BTreeMap<&Region, DeviceSet> = BTreeMap::new();
    for n in needs {
        let set = boxes.entry(&n.region).or_default();
        *set = set.with(n.device);
    }
    let regions: Vec<Region> = boxes.keys().map(|r| (*r).clone()).collect();
    tiles(&regions, whole)
        .then(|| boxes.into_iter().map(|(region, devices)| Held { region: region.clone(), devices }).collect())
}

/// The home that has what a list of needs asks for where it is needed; nothing if the list does not ask for all of the
/// tensor.
pub(crate) fn home_of(needs: &[Need], whole: &Region) -> Option<Vec<Held>> {
    held_of(needs, whole).or_else(|| {
        let mut left = vec![whole.clone()];
        for need in needs {
            left = left.iter().flat_map(|part| part.subtract(&need.region)).collect();
        }
        left.is_empty().then(|| refined(needs, whole, DeviceId(0)))
    })
}

/// Disjoint blocks that fill the tensor and hold every need at its device. What nobody needs is at `spare`.
pub(crate) fn refined(needs: &[Need], whole: &Region, spare: DeviceId) -> Vec<Held> {
    let mut boxes: BTreeMap<Region, DeviceSet> = BTreeMap::new();
    for n in needs {
        let set = boxes.entry(n.region.clone()).or_default();
        *set = set.with(n.device);
    }
    let mut pieces = vec![Held { region: whole.clone(), devices: DeviceSet::new() }];
    for (region, devices) in &boxes {
        let mut next = Vec::with_capacity(pieces.len() + 1);
        for piece in pieces {
            match piece.region.intersect(region) {
                None => next.push(piece),
                Some(both) => {
                    next.extend(
                        piece.region.subtract(&both).into_iter().map(|region| Held { region, devices: piece.devices }),
                    );
                    next.push(Held { region: both, devices: piece.devices.union(*devices) });
                }
            }
        }
        pieces = next;
    }
    merge(&mut pieces);
    for piece in &mut pieces {
        if piece.devices.is_empty() {
            piece.devices = DeviceSet::one(spare);
        }
    }
    pieces.sort();
    pieces
}

/// Joins blocks of equal holders that together are a box.
fn merge(pieces: &mut Vec<Held>) {
    if pieces.len() > 96 {
        return;
    }
    let mut again = true;
    while again {
        again = false;
        'search: for a in 0..pieces.len() {
            for b in a + 1..pieces.len() {
                if pieces[a].devices == pieces[b].devices
                    && let Some(joined) = joined(&pieces[a].region, &pieces[b].region)
                {
                    pieces[a].region = joined;
                    pieces.remove(b);
                    again = true;
                    break 'search;
                }
            }
        }
    }
}

/// The box that two boxes make up, if they do.
fn joined(a: &Region, b: &Region) -> Option<Region> {
    let differing: Vec<usize> = (0..a.rank()).filter(|&n| a.0[n] != b.0[n]).collect();
    let [axis] = differing[..] else { return None };
    let (x, y) = (a.0[axis], b.0[axis]);
    let mut joined = a.clone();
    if x.hi == y.lo {
        joined.0[axis].hi = y.hi;
    } else if y.hi == x.lo {
        joined.0[axis].lo = y.lo;
    } else {
        return None;
    }
    Some(joined)
}

/// Each block that several devices hold or leave partials of, cut along its longest axis of the first `axes` into
/// one slice each.
pub(crate) fn sliced(blocks: &[Held], axes: usize) -> Vec<Held> {
    blocks.iter().flat_map(|block| slices(block, axes)).collect()
}

fn slices(block: &Held, axes: usize) -> Vec<Held> {
    let devices: Vec<DeviceId> = block.devices.iter().collect();
    // The first of the longest axes; leading ones leave contiguous slices.
    let shape = block.region.shape().into_iter().take(axes);
    let longest = shape.max().unwrap_or(0);
    if devices.len() <= 1 || longest <= 1 {
        let one = devices.first().map_or(DeviceSet::new(), |&d| DeviceSet::one(d));
        return vec![Held { region: block.region.clone(), devices: one }];
    }
    let axis = block.region.shape().iter().position(|&n| n == longest).expect("it is the length of some axis");
    let own = block.region.0[axis];
    even(own.len(), 1, devices.len())
        .into_iter()
        .zip(devices)
        .filter(|(i, _)| !i.is_empty())
        .map(|(i, d)| {
            let mut region = block.region.clone();
            region.0[axis].lo = own.lo + i.lo;
            region.0[axis].hi = own.lo + i.hi;
            Held { region, devices: DeviceSet::one(d) }
        })
        .collect()
}

/// What is asked of the homes of a tensor.
pub(crate) struct Wanted<'a> {
    /// Its type.
    pub ty: &'a TensorType,
    /// Whether its last axis stacks what is folded together and is never cut.
    pub stacked: bool,
    /// The devices that compute.
    pub workers: &'a [DeviceId],
    /// Devices that only store, where it may lie whole.
    pub hosts: &'a [DeviceId],
    /// Distinct relations that its producer may leave; empty for an input.
    pub produced: Vec<&'a Relation>,
    /// Distinct lists of needs of its readers.
    pub needs: Vec<&'a [Need]>,
    /// Whether every element has exactly one holder.
    pub once: bool,
    /// Whether one reader is all there is. Then a home between it and the producer only adds a stop, because
    /// an exchange folds and hands out in one program.
    pub direct: bool,
}

/// A home, and which of the produced relations it is for; `None` if it is for any.
pub(crate) struct Offer {
    pub held: Vec<Held>,
    pub only: Option<usize>,
}

/// Homes worth considering where the tensor is finished, in a fixed order, each once.
pub(crate) fn homes(wanted: &Wanted) -> Vec<Offer> {
    let whole = wanted.ty.whole();
    if whole.is_empty() {
        return vec![Offer { held: Vec::new(), only: None }];
    }
    let everyone: DeviceSet = wanted.workers.iter().copied().collect();
    let mut seen = BTreeSet::new();
    let mut list = Vec::new();
    let mut offer = |mut held: Vec<Held>, only: Option<usize>| {
        held.retain(|h| !h.region.is_empty());
        held.sort();
        let fits = !wanted.once || held.iter().all(|h| h.devices.len() == 1);
        if fits && !seen.contains(&(held.clone(), None)) && seen.insert((held.clone(), only)) {
            list.push(Offer { held, only });
        }
    };
    let mut add = |held: Vec<Held>| offer(held, None);
    let replicated = vec![Held { region: whole.clone(), devices: everyone }];
    add(replicated.clone());
    for &d in wanted.workers.iter().chain(wanted.hosts) {
        add(vec![Held { region: whole.clone(), devices: DeviceSet::one(d) }]);
    }
    if wanted.direct {
        return list;
    }
    let axes = whole.rank() - usize::from(wanted.stacked);
    for axis in 0..axes {
        if whole.0[axis].len() > 1 {
            let parts = even(whole.0[axis].len(), 1, wanted.workers.len());
            let strip = |(i, &d): (ein_ir::region::Interval, &DeviceId)| {
                let mut region = whole.clone();
                region.0[axis] = i;
                Held { region, devices: DeviceSet::one(d) }
            };
            add(parts.into_iter().zip(wanted.workers).map(strip).collect());
        }
    }
    for &needs in &wanted.needs {
        let held = held_of(needs, &whole).unwrap_or_else(|| refined(needs, &whole, wanted.workers[0]));
        if wanted.once {
            add(sliced(&held, axes));
            add(rotated(&held));
        } else {
            add(held);
        }
    }
    for (n, relation) in wanted.produced.iter().enumerate() {
        if relation.is_complete() {
            continue;
        }
        // Folded where partials are: in slices over those who have one, at one of them in turn, at all.
        let left: Vec<Need> = relation
            .blocks
            .iter()
            .flat_map(|b| b.devices.iter().map(|device| Need { device, region: b.region.clone() }))
            .collect();
        let held = held_of(&left, &whole).unwrap_or_else(|| refined(&left, &whole, wanted.workers[0]));
        offer(sliced(&held, axes), Some(n));
        offer(rotated(&held), Some(n));
        offer(held, Some(n));
    }
    list
}

/// Each block at one of its holders, in turn.
fn rotated(held: &[Held]) -> Vec<Held> {
    let mut turn: BTreeMap<DeviceSet, usize> = BTreeMap::new();
    held.iter()
        .map(|h| {
            let devices: Vec<DeviceId> = h.devices.iter().collect();
            let n = turn.entry(h.devices).or_default();
            *n += 1;
            Held { region: h.region.clone(), devices: DeviceSet::one(devices[(*n - 1) % devices.len()]) }
        })
        .collect()
}

/// Largest bytes that one device holds of a home.
pub(crate) fn largest_share(held: &[Held], element: usize) -> f64 {
    let mut bytes: BTreeMap<DeviceId, f64> = BTreeMap::new();
    for h in held {
        for d in h.devices.iter() {
            *bytes.entry(d).or_default() += h.region.volume() as f64 * element as f64;
        }
    }
    bytes.into_values().fold(0.0, f64::max)
}

/// The needs of every block of a home at every holder.
pub(crate) fn needs_of(held: &[Held]) -> Vec<Need> {
    held_needs(held)
}

/// The needs of several readers at once.
pub(crate) fn union(lists: &[&[Need]]) -> Vec<Need> {
    tidy(lists.iter().flat_map(|l| l.iter().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::dtype::DType;

    #[test]
    fn homes_keep_an_axis_whole_that_stacks() {
        let ty = TensorType { shape: vec![6, 4], dtype: DType::F32 };
        let workers: Vec<DeviceId> = (0..4).map(DeviceId).collect();
        let devices: DeviceSet = workers.iter().copied().collect();
        // Everyone reads a row, so that slices of what is read must be cut along the other axis.
        let row = |lo: usize| {
            let mut region = ty.whole();
            (region.0[0].lo, region.0[0].hi) = (lo, lo + 1);
            region
        };
        let needs: Vec<Need> = (0..6)
            .flat_map(|r| devices.iter().map(move |device| (r, device)))
            .map(|(r, device)| Need { device, region: row(r) })
            .collect();
        let wanted = |stacked| Wanted {
            ty: &ty,
            stacked,
            workers: &workers,
            hosts: &[],
            produced: Vec::new(),
            needs: vec![&needs],
            once: true,
            direct: false,
        };
        let cut = |stacked| {
            let last = |h: &Held| h.region.0[1].len() < 4;
            homes(&wanted(stacked)).iter().filter(|offer| offer.held.iter().any(last)).count()
        };
        assert_eq!(cut(true), 0);
        assert!(cut(false) > 0);
    }
}
