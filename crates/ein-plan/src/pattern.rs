//! What an exchange must do, without where in the tensor it does it: atoms grouped by who holds each partial
//! and who reads. Thousands of exchanges between candidate layouts are a few hundred patterns.

use ein_ir::monoid::{Field, Form};
use ein_ir::region::Region;
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, DeviceSet, Link, Machine};
use ein_task::relation::Relation;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The holders of every partial: mostly of one or two.
pub(crate) type Holders = SmallVec<[DeviceSet; 2]>;

/// Data with equal holders and equal readers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Atom {
    /// The holders of every partial; one entry if the data is finished.
    pub holders: Holders,
    /// Devices that need it and do not have it finished.
    pub readers: DeviceSet,
    /// Bytes of a partial.
    pub pending: u64,
    /// Bytes of the finished value.
    pub finished: u64,
}

/// The atoms of an exchange that need work, sorted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct Pattern(pub Vec<Atom>);

/// A pattern's name: equal for equal patterns, and different for different ones but by a chance of one in 2^100.
pub(crate) type Fingerprint = u128;

/// Positions of up to 128 blocks.
type Mask = u128;

const MOST: usize = 128;

/// One axis of a list of boxes: where it is cut, and which boxes cover each run between cuts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Axis(Vec<(usize, Mask)>);

/// Boxes of a relation or of a list of needs, ready to be laid over others.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    /// Interned axes.
    axes: Vec<u32>,
    /// Devices of every box.
    devices: Vec<DeviceSet>,
}

/// Two axes laid over each other: runs with the boxes of either that cover them.
type Overlay = Rc<Vec<(u64, Mask, Mask)>>;

/// Interned axes, and overlays of them.
#[derive(Debug, Default)]
pub(crate) struct Axes {
    all: Vec<Axis>,
    known: FxHashMap<Axis, u32>,
    overlays: FxHashMap<(u32, u32), Overlay>,
}

impl Axes {
    /// The profile of a relation's blocks; `None` if there are too many for the fast way.
    pub fn of_relation(&mut self, relation: &Relation) -> Option<Profile> {
        let boxes: Vec<(&Region, DeviceSet)> = relation.blocks.iter().map(|b| (&b.region, b.devices)).collect();
        self.profile(relation.whole.rank(), &boxes)
    }

    /// The profile of a list of needs, each distinct box once.
    pub fn of_needs(&mut self, needs: &[Need]) -> Option<Profile> {
        let mut boxes: Vec<(&Region, DeviceSet)> = Vec::new();
        for n in needs {
            match boxes.iter_mut().find(|b| b.0 == &n.region) {
                Some(b) => b.1 = b.1.with(n.device),
                None => boxes.push((&n.region, DeviceSet::one(n.device))),
            }
        }
        self.profile(needs.first().map_or(0, |n| n.region.rank()), &boxes)
    }

    fn profile(&mut self, rank: usize, boxes: &[(&Region, DeviceSet)]) -> Option<Profile> {
        if boxes.len() > MOST {
            return None;
        }
        let axes = (0..rank)
            .map(|axis| {
                let mut cuts: Vec<usize> = boxes.iter().flat_map(|b| [b.0.0[axis].lo, b.0.0[axis].hi]).collect();
                cuts.sort_unstable();
                cuts.dedup();
                let covering = |lo: usize| {
                    let inside = boxes.iter().enumerate().filter(|(_, b)| b.0.0[axis].lo <= lo && lo < b.0.0[axis].hi);
                    inside.fold(0, |mask: Mask, (n, _)| mask | 1 << n)
                };
                let axis = Axis(cuts.iter().map(|&lo| (lo, covering(lo))).collect());
                let next = self.all.len() as u32;
                *self.known.entry(axis).or_insert_with_key(|axis| {
                    self.all.push(axis.clone());
                    next
                })
            })
            .collect();
        Some(Profile { axes, devices: boxes.iter().map(|b| b.1).collect() })
    }

    fn overlay(&mut self, a: u32, b: u32) -> Overlay {
        if let Some(known) = self.overlays.get(&(a, b)) {
            return known.clone();
        }
        let (x, y) = (&self.all[a as usize].0, &self.all[b as usize].0);
        let mut cuts: Vec<usize> = x.iter().chain(y).map(|c| c.0).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let at = |axis: &[(usize, Mask)], lo: usize| {
            let n = axis.partition_point(|c| c.0 <= lo);
            if n == 0 { 0 } else { axis[n - 1].1 }
        };
        let mut runs: BTreeMap<(Mask, Mask), u64> = BTreeMap::new();
        for w in cuts.windows(2) {
            let masks = (at(x, w[0]), at(y, w[0]));
            if masks.0 != 0 && masks.1 != 0 {
                // Runs of equal cover are one, wherever they are.
                *runs.entry(masks).or_default() += (w[1] - w[0]) as u64;
            }
        }
        let overlay: Overlay = Rc::new(runs.into_iter().map(|((p, q), n)| (n, p, q)).collect());
        self.overlays.insert((a, b), overlay.clone());
        overlay
    }

    /// The fingerprint of [`Axes::pattern`], which costs less than the pattern.
    pub fn fingerprint(&mut self, relation: &Relation, have: &Profile, needs: &Profile) -> Fingerprint {
        let mut sum = 0;
        self.cells(relation, have, needs, &mut |holders, readers, pending, finished| {
            sum = named(sum, holders, readers, pending, finished);
        });
        sum
    }

    /// What handing out from `have` must do, up to where in the tensor it is.
    pub fn pattern(&mut self, relation: &Relation, have: &Profile, needs: &Profile) -> Pattern {
        let mut atoms = Vec::new();
        self.cells(relation, have, needs, &mut |holders, readers, pending, finished| {
            let mut holders = Holders::from_slice(holders);
            holders.sort_unstable();
            atoms.push(Atom { holders, readers, pending, finished });
        });
        Pattern(merged(atoms))
    }

    /// Calls `found` with holders, readers and bytes of everything that handing out from `have` has to bring.
    fn cells(
        &mut self,
        relation: &Relation,
        have: &Profile,
        needs: &Profile,
        found: &mut impl FnMut(&[DeviceSet], DeviceSet, u64, u64),
    ) {
        // Of an empty tensor nobody has or needs a block; how many axes it has is then not known here.
        if have.devices.is_empty() || needs.devices.is_empty() {
            return;
        }
        let overlays: SmallVec<[Overlay; 6]> =
            have.axes.iter().zip(&needs.axes).map(|(&a, &b)| self.overlay(a, b)).collect();
        let mut lengths: SmallVec<[u64; 6]> = SmallVec::from_elem(0, overlays.len());
        let bytes = |form: &Form, lengths: &[u64]| -> u64 {
            let of = |f: &Field| f.axes.iter().map(|&a| lengths[a]).product::<u64>() * f.dtype.bytes() as u64;
            form.fields.iter().map(of).sum()
        };
        let mut holders = Holders::new();
        // A tensor without axes has one point, which every block and every box that there is covers.
        let every = (first(have.devices.len()), first(needs.devices.len()));
        lay(&overlays, 0, every, &mut lengths, &mut |(blocks, boxes), lengths| {
            let mut readers = ones(boxes).fold(DeviceSet::new(), |set, n| set.union(needs.devices[n]));
            holders.clear();
            holders.extend(ones(blocks).map(|b| have.devices[b]));
            if let [only] = holders[..] {
                readers = readers.without(only);
            }
            let (pending, finished) = (bytes(&relation.pending, lengths), bytes(&relation.finished, lengths));
            if !readers.is_empty() && pending + finished > 0 {
                found(&holders, readers, pending, finished);
            }
        });
    }
}

/// A fingerprint with one more atom: linear in bytes, so that atoms of equal holders and readers add up, in any order.
fn named(sum: Fingerprint, holders: &[DeviceSet], readers: DeviceSet, pending: u64, finished: u64) -> Fingerprint {
    let lane = |seed: u64| {
        let set = |set: DeviceSet| {
            let bits = set.bits();
            mix(bits as u64 ^ mix((bits >> 64) as u64 ^ seed))
        };
        let held = holders.iter().fold(0u64, |sum, h| sum.wrapping_add(mix(set(*h) ^ seed.rotate_left(32))));
        let name = mix(held ^ mix(set(readers).wrapping_add(seed)));
        finished.wrapping_mul(name | 1).wrapping_add(pending.wrapping_mul(mix(name) | 1))
    };
    // Carries between the halves would make the sum depend on its order.
    let low = (sum as u64).wrapping_add(lane(0x9e37_79b9_7f4a_7c15));
    let high = ((sum >> 64) as u64).wrapping_add(lane(0xc2b2_ae3d_27d4_eb4f));
    u128::from(high) << 64 | u128::from(low)
}

/// Atoms in order, those of equal holders and readers as one.
fn merged(mut atoms: Vec<Atom>) -> Vec<Atom> {
    atoms.sort_unstable();
    let mut merged: Vec<Atom> = Vec::with_capacity(atoms.len());
    for atom in atoms {
        match merged.last_mut() {
            Some(last) if last.holders == atom.holders && last.readers == atom.readers => {
                last.pending += atom.pending;
                last.finished += atom.finished;
            }
            _ => merged.push(atom),
        }
    }
    merged
}

/// The mask of the first `n`.
fn first(n: usize) -> Mask {
    if n >= Mask::BITS as usize { Mask::MAX } else { (1 << n) - 1 }
}

fn ones(mut mask: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let n = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        Some(n)
    })
}

fn lay(
    overlays: &[Overlay],
    axis: usize,
    masks: (Mask, Mask),
    lengths: &mut [u64],
    found: &mut impl FnMut((Mask, Mask), &[u64]),
) {
    let Some(overlay) = overlays.get(axis) else {
        found(masks, lengths);
        return;
    };
    for &(length, blocks, boxes) in overlay.iter() {
        let next = (masks.0 & blocks, masks.1 & boxes);
        if next.0 != 0 && next.1 != 0 {
            lengths[axis] = length;
            lay(overlays, axis + 1, next, lengths, found);
        }
    }
}

/// Bandwidths of a machine's devices, for bounds.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    /// Bytes per second out of each device over all its links.
    out: Vec<f64>,
    /// Bytes per second into each device.
    into: Vec<f64>,
    latency: f64,
}

impl Ports {
    /// What each device can send and receive when all its links run at once.
    pub fn of(machine: &Machine) -> Self {
        let n = machine.len();
        let width = |r: usize| machine.resources[r].bandwidth;
        // Of each link its tightest resource, each resource once, and no more than one that all links share.
        let total = |of: &dyn Fn(&Link) -> bool| -> f64 {
            let mut tightest: Vec<usize> = Vec::new();
            let mut shared: Option<Vec<usize>> = None;
            for l in machine.links.iter().filter(|l| of(l)) {
                let slowest = l.resources.iter().copied().min_by(|a, b| width(*a).total_cmp(&width(*b)).then(a.cmp(b)));
                let Some(slowest) = slowest else { return f64::INFINITY };
                tightest.push(slowest);
                match &mut shared {
                    None => shared = Some(l.resources.clone()),
                    Some(shared) => shared.retain(|r| l.resources.contains(r)),
                }
            }
            tightest.sort_unstable();
            tightest.dedup();
            let sum = tightest.iter().map(|&r| width(r)).sum();
            shared.into_iter().flatten().map(width).fold(sum, f64::min)
        };
        let out = (0..n).map(|d| total(&|l: &Link| l.from.index() == d)).collect();
        let into = (0..n).map(|d| total(&|l: &Link| l.to.index() == d)).collect();
        let least = machine.links.iter().map(|l| l.latency.0).fold(f64::INFINITY, f64::min);
        let latency = if least.is_finite() { least } else { 0.0 };
        Self { out, into, latency: latency + machine.issue.0 }
    }

    /// Whether every ordered pair has a link of one latency through ports that are all equally wide and
    /// that no other device shares, so that devices are interchangeable.
    pub fn uniform(machine: &Machine) -> bool {
        let n = machine.len();
        let Some(first) = machine.links.first() else { return n <= 1 };
        // Of every resource: how many links use it, and whether they all come from, or lead to, one device.
        let mut users = vec![(0usize, true, true, first.from, first.to); machine.resources.len()];
        for l in &machine.links {
            for &r in &l.resources {
                let (count, one_from, one_to, from, to) = &mut users[r];
                if *count == 0 {
                    (*from, *to) = (l.from, l.to);
                }
                *count += 1;
                *one_from &= *from == l.from;
                *one_to &= *to == l.to;
            }
        }
        let same_widths = |l: &Link| {
            let width = |r: &usize| machine.resources[*r].bandwidth.to_bits();
            l.resources.len() == first.resources.len()
                && l.resources.iter().map(width).eq(first.resources.iter().map(width))
        };
        let plain = |l: &Link| {
            l.latency == first.latency
                && same_widths(l)
                && l.resources.iter().all(|&r| {
                    let (count, one_from, one_to, ..) = users[r];
                    count == 1 || (count == n - 1 && (one_from || one_to))
                })
        };
        machine.links.len() == n * (n - 1) && machine.links.iter().all(plain) && machine.workers().len() == n
    }

    /// Seconds below which no program for the pattern stays, and bytes it must move.
    pub fn bound(&self, pattern: &Pattern) -> (f64, f64) {
        if pattern.0.is_empty() {
            return (0.0, 0.0);
        }
        let n = self.out.len();
        let (mut sent, mut received) = (vec![0.0; n], vec![0.0; n]);
        let mut bytes = 0.0;
        for atom in &pattern.0 {
            let finished = atom.finished as f64;
            let m = atom.holders.len();
            if m == 1 {
                bytes += finished * atom.readers.len() as f64;
                if let (1, Some(d)) = (atom.holders[0].len(), atom.holders[0].lowest()) {
                    sent[d.index()] += finished;
                }
                for d in atom.readers.iter() {
                    received[d.index()] += finished;
                }
                continue;
            }
            let pending = atom.pending as f64;
            let piece = pending.min(finished);
            // Before the first device is complete, all other partials have come to it; after, every other
            // reader still receives something.
            let mut has = vec![0usize; n];
            atom.holders.iter().flat_map(|h| h.iter()).for_each(|d| has[d.index()] += 1);
            let lacks = |d: DeviceId| m - has[d.index()];
            let lacking = atom.readers.iter().filter(|&r| lacks(r) > 0).count();
            let least = (0..n as u16)
                .map(DeviceId)
                .map(|v| {
                    let others = lacking - usize::from(atom.readers.contains(v) && lacks(v) > 0);
                    lacks(v) as f64 * pending + others as f64 * piece
                })
                .fold(f64::INFINITY, f64::min);
            bytes += least;
            for d in atom.readers.iter().filter(|&d| lacks(d) > 0) {
                received[d.index()] += piece;
            }
            for h in &atom.holders {
                if let (1, Some(d)) = (h.len(), h.lowest())
                    && atom.readers.iter().any(|r| r != d)
                {
                    sent[d.index()] += piece;
                }
            }
        }
        if bytes == 0.0 {
            return (0.0, 0.0);
        }
        let worst = |loads: &[f64], ports: &[f64]| {
            let each = loads.iter().zip(ports).map(|(l, b)| if *l > 0.0 { l / b } else { 0.0 });
            each.fold(0.0, f64::max).max(bytes / ports.iter().sum::<f64>())
        };
        (worst(&sent, &self.out).max(worst(&received, &self.into)) + self.latency, bytes)
    }
}

impl Pattern {
    /// The fingerprint of the pattern with devices renamed by what they do in it, so that patterns which differ in
    /// names only mostly become equal. Right on machines where every device is like every other.
    pub fn renamed(&self) -> Fingerprint {
        // A device is described by the atoms it takes part in, then by the descriptions of those it meets.
        let mut name = [1u64; DeviceSet::MAX];
        let mut used = DeviceSet::new();
        for round in 0..3 {
            let mut next = [0u64; DeviceSet::MAX];
            let group =
                |set: DeviceSet| set.iter().fold(set.len() as u64, |sum, d| sum.wrapping_add(mix(name[d.index()])));
            for a in &self.0 {
                let readers = mix(group(a.readers));
                let holders = a.holders.iter().fold(0u64, |sum, h| sum.wrapping_add(mix(group(*h))));
                let atom = mix(a.pending ^ mix(a.finished) ^ readers.rotate_left(7)).wrapping_add(holders);
                for h in &a.holders {
                    let part = mix(atom ^ mix(group(*h)));
                    h.iter().for_each(|d| next[d.index()] = next[d.index()].wrapping_add(part));
                    used = used.union(*h);
                }
                let part = mix(atom.wrapping_add(77));
                a.readers.iter().for_each(|d| next[d.index()] = next[d.index()].wrapping_add(part));
                used = used.union(a.readers);
            }
            for d in used.iter().map(DeviceId::index) {
                name[d] = mix(next[d].wrapping_add(mix(name[d]) ^ round));
            }
        }
        let mut order: Vec<DeviceId> = used.iter().collect();
        order.sort_by_key(|d| (name[d.index()], *d));
        let mut place = [DeviceId(0); DeviceSet::MAX];
        order.iter().enumerate().for_each(|(n, d)| place[d.index()] = DeviceId(n as u16));
        let renamed = |set: DeviceSet| set.iter().map(|d| place[d.index()]).collect::<DeviceSet>();
        self.0.iter().fold(0, |sum, a| {
            let holders: Holders = a.holders.iter().map(|h| renamed(*h)).collect();
            named(sum, &holders, renamed(a.readers), a.pending, a.finished)
        })
    }
}

/// A fixed mixing of bits (splitmix64's finaliser), the same on every run.
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d049bb133111eb);
    x ^ (x >> 31)
}
