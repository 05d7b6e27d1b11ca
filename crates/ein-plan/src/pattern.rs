//! What an exchange must do, without where in the tensor it does it: atoms grouped by who holds each partial
//! and who reads. Thousands of exchanges between candidate layouts are a few hundred patterns.

use crate::symmetry::Symmetry;
use ein_ir::monoid::{Field, Form};
use ein_ir::region::Region;
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::relation::Relation;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// The holders of every partial: mostly of one or two.
pub(crate) type Holders = SmallVec<[DeviceSet; 2]>;

/// Data with equal holders and equal readers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Atom {
    /// The holders of every partial, sorted unless they are folded in an order; one entry if the data is finished.
    pub holders: Holders,
    /// Whether partials are folded in the order of their holders.
    pub ordered: bool,
    /// Devices that need it and do not have it finished.
    pub readers: DeviceSet,
    /// Bytes of a partial.
    pub pending: u64,
    /// Bytes of the finished value.
    pub finished: u64,
}

impl Atom {
    /// The devices that alone have some partial.
    pub fn alone(&self) -> DeviceSet {
        self.holders.iter().filter(|h| h.len() == 1).fold(DeviceSet::new(), |all, h| all.union(*h))
    }
}

/// The atoms of an exchange that need work, sorted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct Pattern(pub Vec<Atom>);

/// A pattern's name: equal for equal patterns, and different for different ones but by a chance of one in 2^100.
pub(crate) type Fingerprint = u128;

/// Positions of up to [`MOST`] blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Mask(u128, u128);

/// Two blocks for each of as many devices as there may be.
const MOST: usize = 256;

impl Mask {
    fn with(self, n: usize) -> Self {
        if n < 128 { Self(self.0 | 1 << n, self.1) } else { Self(self.0, self.1 | 1 << (n - 128)) }
    }

    /// The first `n`.
    fn first(n: usize) -> Self {
        (0..n).fold(Self::default(), Self::with)
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0, self.1 & other.1)
    }

    fn is_empty(self) -> bool {
        self.0 | self.1 == 0
    }

    fn ones(self) -> impl Iterator<Item = usize> {
        let Self(mut low, mut high) = self;
        std::iter::from_fn(move || {
            let (word, from) = if low != 0 { (&mut low, 0) } else { (&mut high, 128) };
            if *word == 0 {
                return None;
            }
            let n = word.trailing_zeros() as usize;
            *word &= *word - 1;
            Some(from + n)
        })
    }
}

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
    /// What their names add to that of what they hold.
    names: Vec<Lanes>,
}

/// Two axes laid over each other.
#[derive(Debug, Default)]
struct Overlay {
    /// How much is covered as a run of the one and as a run of the other, each the first that is covered so.
    runs: Vec<(u64, u32, u32)>,
    /// The same with the boxes that cover the two, as bits, where the first [`NARROW`] suffice.
    narrow: Vec<NarrowRun>,
}

/// How much is covered by the boxes with these bits of the one axis and of the other.
type NarrowRun = (u64, u64, u64);

/// Boxes whose positions are bits of one word.
const NARROW: usize = 64;

/// The same with the two axes, which say by which boxes.
type Laid<'a> = (&'a [(u64, u32, u32)], &'a Axis, &'a Axis);

/// Two numbers of 64 bits that are mixed apart.
type Lanes = [u64; 2];

/// Interned axes, and overlays of them.
#[derive(Debug, Default)]
pub(crate) struct Axes {
    all: Vec<Axis>,
    /// Of every run of every axis, the first that is covered by the same boxes.
    firsts: Vec<Vec<u32>>,
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
                    inside.fold(Mask::default(), |mask, (n, _)| mask.with(n))
                };
                let axis = Axis(cuts.iter().map(|&lo| (lo, covering(lo))).collect());
                let next = self.all.len() as u32;
                *self.known.entry(axis).or_insert_with_key(|axis| {
                    let mut first: FxHashMap<Mask, u32> = FxHashMap::default();
                    let runs = axis.0.iter().enumerate();
                    self.firsts.push(runs.map(|(n, run)| *first.entry(run.1).or_insert(n as u32)).collect());
                    self.all.push(axis.clone());
                    next
                })
            })
            .collect();
        let devices: Vec<DeviceSet> = boxes.iter().map(|b| b.1).collect();
        let names = devices.iter().map(|&set| holding(set)).collect();
        Some(Profile { axes, devices, names })
    }

    fn lay_over(&mut self, a: u32, b: u32) {
        if self.overlays.contains_key(&(a, b)) {
            return;
        }
        let (x, y) = (&self.all[a as usize].0, &self.all[b as usize].0);
        let mut cuts: Vec<usize> = x.iter().chain(y).map(|c| c.0).collect();
        cuts.sort_unstable();
        cuts.dedup();
        // Runs of equal cover are one, wherever they are.
        let at = |axis: u32, runs: &[(usize, Mask)], lo: usize| {
            let n = runs.partition_point(|c| c.0 <= lo);
            (n > 0 && !runs[n - 1].1.is_empty()).then(|| self.firsts[axis as usize][n - 1])
        };
        let mut runs: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for w in cuts.windows(2) {
            if let Some(both) = at(a, x, w[0]).zip(at(b, y, w[0])) {
                *runs.entry(both).or_default() += (w[1] - w[0]) as u64;
            }
        }
        let runs: Vec<(u64, u32, u32)> = runs.into_iter().map(|((p, q), n)| (n, p, q)).collect();
        let low = |axis: &[(usize, Mask)], run: u32| axis[run as usize].1.0 as u64;
        let narrow = runs.iter().map(|&(n, p, q)| (n, low(x, p), low(y, q))).collect();
        self.overlays.insert((a, b), Overlay { runs, narrow });
    }

    /// Lays all axes of some profiles over those of others, which fingerprints and patterns of any two of them ask for.
    pub fn prepare(&mut self, have: &[&Profile], needs: &[&Profile]) {
        // What nobody has or needs has no axes.
        let rank = have.iter().chain(needs).map(|p| p.axes.len()).max().unwrap_or(0);
        for axis in 0..rank {
            let of = |all: &[&Profile]| all.iter().filter_map(|p| p.axes.get(axis).copied()).collect::<BTreeSet<u32>>();
            let (own, other) = (of(have), of(needs));
            for &a in &own {
                for &b in &other {
                    self.lay_over(a, b);
                }
            }
        }
    }

    /// The fingerprint of [`Axes::pattern`], which costs less than the pattern. Of profiles that were prepared.
    pub fn fingerprint(&self, relation: &Relation, have: &Profile, needs: &Profile) -> Fingerprint {
        let mut sum = [0; 2];
        if relation.monoid.is_ordered() {
            self.cells(relation, have, needs, &mut |holders, readers, pending, finished| {
                let held = in_order(holders.iter().map(|&h| holding(h)));
                add(&mut sum, held, readers, pending, finished);
            });
        } else if have.devices.len() > NARROW || needs.devices.len() > NARROW {
            self.cells(relation, have, needs, &mut |holders, readers, pending, finished| {
                let held = holders.iter().fold([0; 2], |sum, &h| plus(sum, holding(h)));
                add(&mut sum, held, readers, pending, finished);
            });
        } else {
            self.narrow(relation, have, needs, |blocks, readers, pending, finished| {
                let held = ones(blocks).fold([0; 2], |sum, n| plus(sum, have.names[n]));
                add(&mut sum, held, readers, pending, finished);
            });
        }
        whole(sum)
    }

    /// What handing out from `have` must do, up to where in the tensor it is. Of profiles that were prepared.
    pub fn pattern(&self, relation: &Relation, have: &Profile, needs: &Profile) -> Pattern {
        let mut atoms = Vec::new();
        let ordered = relation.monoid.is_ordered();
        let mut add = |mut holders: Holders, readers, pending, finished| {
            if !ordered {
                holders.sort_unstable();
            }
            atoms.push(Atom { holders, ordered, readers, pending, finished });
        };
        if ordered || have.devices.len() > NARROW || needs.devices.len() > NARROW {
            self.cells(relation, have, needs, &mut |holders, readers, pending, finished| {
                add(Holders::from_slice(holders), readers, pending, finished);
            });
        } else {
            self.narrow(relation, have, needs, |blocks, readers, pending, finished| {
                add(ones(blocks).map(|n| have.devices[n]).collect(), readers, pending, finished);
            });
        }
        Pattern(merged(atoms))
    }

    /// [`Axes::cells`] of few boxes: `found` is called with the positions of the blocks, as bits.
    fn narrow(
        &self,
        relation: &Relation,
        have: &Profile,
        needs: &Profile,
        mut found: impl FnMut(u64, DeviceSet, u64, u64),
    ) {
        if have.devices.is_empty() || needs.devices.is_empty() {
            return;
        }
        let overlay = |(&a, &b): (&u32, &u32)| &self.overlays[&(a, b)].narrow[..];
        let overlays: SmallVec<[&[NarrowRun]; 6]> = have.axes.iter().zip(&needs.axes).map(overlay).collect();
        let (pending, finished) =
            (Size::of(&relation.pending, overlays.len()), Size::of(&relation.finished, overlays.len()));
        let every = |n: usize| u64::MAX >> (NARROW - n);
        let mut meet = |(blocks, boxes): (u64, u64), volume: u64, lengths: &[u64]| {
            let mut readers = ones(boxes).fold(DeviceSet::new(), |set, n| set.union(needs.devices[n]));
            if blocks.is_power_of_two() {
                readers = readers.without(have.devices[blocks.trailing_zeros() as usize]);
            }
            if readers.is_empty() {
                return;
            }
            let (pending, finished) = (pending.bytes(volume, lengths), finished.bytes(volume, lengths));
            if pending + finished > 0 {
                found(blocks, readers, pending, finished);
            }
        };
        let mut lengths: SmallVec<[u64; 6]> = SmallVec::from_elem(0, overlays.len());
        lay_narrow(&overlays, 0, (every(have.devices.len()), every(needs.devices.len())), 1, &mut lengths, &mut meet);
    }

    /// Calls `found` with holders, in the order in which they are folded, readers and bytes of everything that handing out
    /// from `have` has to bring.
    fn cells(
        &self,
        relation: &Relation,
        have: &Profile,
        needs: &Profile,
        found: &mut impl FnMut(&[DeviceSet], DeviceSet, u64, u64),
    ) {
        // Of an empty tensor nobody has or needs a block; how many axes it has is then not known here.
        if have.devices.is_empty() || needs.devices.is_empty() {
            return;
        }
        let overlay = |(&a, &b): (&u32, &u32)| -> Laid<'_> {
            (&self.overlays[&(a, b)].runs, &self.all[a as usize], &self.all[b as usize])
        };
        let overlays: SmallVec<[Laid<'_>; 6]> = have.axes.iter().zip(&needs.axes).map(overlay).collect();
        let mut lengths: SmallVec<[u64; 6]> = SmallVec::from_elem(0, overlays.len());
        let mut holders = Holders::new();
        // A tensor without axes has one point, which every block and every box that there is covers.
        let every = (Mask::first(have.devices.len()), Mask::first(needs.devices.len()));
        lay(&overlays, 0, every, &mut lengths, &mut |(blocks, boxes), lengths| {
            let mut readers = boxes.ones().fold(DeviceSet::new(), |set, n| set.union(needs.devices[n]));
            holders.clear();
            if relation.monoid.is_ordered() {
                let mut own: SmallVec<[usize; 8]> = blocks.ones().collect();
                own.sort_unstable_by_key(|&b| relation.rank(b));
                holders.extend(own.into_iter().map(|b| have.devices[b]));
            } else {
                holders.extend(blocks.ones().map(|b| have.devices[b]));
            }
            if let [only] = holders[..] {
                readers = readers.without(only);
            }
            let (pending, finished) = (bytes_of(&relation.pending, lengths), bytes_of(&relation.finished, lengths));
            if !readers.is_empty() && pending + finished > 0 {
                found(&holders, readers, pending, finished);
            }
        });
    }
}

/// The positions of the bits that are set.
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let n = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (n < NARROW).then_some(n)
    })
}

/// Lays the axes from this one on over each other, of what the boxes with these bits cover. `volume` is that of the axes before.
fn lay_narrow(
    overlays: &[&[NarrowRun]],
    axis: usize,
    (blocks, boxes): (u64, u64),
    volume: u64,
    lengths: &mut [u64],
    found: &mut impl FnMut((u64, u64), u64, &[u64]),
) {
    let Some(overlay) = overlays.get(axis) else { return found((blocks, boxes), volume, lengths) };
    for &(length, own, other) in *overlay {
        let next = (blocks & own, boxes & other);
        if next.0 != 0 && next.1 != 0 {
            lengths[axis] = length;
            lay_narrow(overlays, axis + 1, next, volume * length, lengths, found);
        }
    }
}

/// How many bytes a part of a tensor has.
#[derive(Clone, Copy)]
enum Size<'a> {
    /// So many for an element.
    Even(u64),
    /// Fields that lack axes.
    Fields(&'a Form),
}

impl<'a> Size<'a> {
    fn of(form: &'a Form, rank: usize) -> Self {
        match &form.fields[..] {
            [only] if only.axes.iter().copied().eq(0..rank) => Self::Even(only.dtype.bytes() as u64),
            _ => Self::Fields(form),
        }
    }

    /// Of a part of this volume, and of these lengths.
    fn bytes(self, volume: u64, lengths: &[u64]) -> u64 {
        match self {
            Self::Even(bytes) => volume * bytes,
            Self::Fields(form) => bytes_of(form, lengths),
        }
    }
}

fn bytes_of(form: &Form, lengths: &[u64]) -> u64 {
    let of = |f: &Field| f.axes.iter().map(|&a| lengths[a]).product::<u64>() * f.dtype.bytes() as u64;
    form.fields.iter().map(of).sum()
}

const SEEDS: Lanes = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];

/// What holders of a partial add to the name of what they hold.
fn holding(set: DeviceSet) -> Lanes {
    let (low, high) = (set.bits() as u64, (set.bits() >> 64) as u64);
    SEEDS.map(|seed| mix(low.wrapping_add(mix(high ^ seed))))
}

/// What holders in an order add to a name.
fn in_order(holders: impl Iterator<Item = Lanes>) -> Lanes {
    holders.fold([1, 2], |sum, h| [0, 1].map(|n| mix(sum[n].rotate_left(21) ^ h[n])))
}

fn plus(a: Lanes, b: Lanes) -> Lanes {
    [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1])]
}

/// Adds an atom, given by what its holders add to a name, to a fingerprint: linear in bytes, so that atoms of equal holders and
/// readers add up, in any order.
fn add(sum: &mut Lanes, held: Lanes, readers: DeviceSet, pending: u64, finished: u64) {
    let (low, high) = (readers.bits() as u64, (readers.bits() >> 64) as u64);
    for ((sum, held), seed) in sum.iter_mut().zip(held).zip(SEEDS) {
        let read = low.wrapping_mul(seed) ^ high.wrapping_mul(seed.rotate_left(32) | 1).rotate_left(32);
        let name = mix(held.rotate_left(32) ^ read);
        let other = name.rotate_left(32).wrapping_mul(seed);
        *sum = sum.wrapping_add(finished.wrapping_mul(name | 1)).wrapping_add(pending.wrapping_mul(other | 1));
    }
}

fn whole([low, high]: Lanes) -> Fingerprint {
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

fn lay(
    overlays: &[Laid<'_>],
    axis: usize,
    masks: (Mask, Mask),
    lengths: &mut [u64],
    found: &mut impl FnMut((Mask, Mask), &[u64]),
) {
    let Some((overlay, own, other)) = overlays.get(axis) else {
        found(masks, lengths);
        return;
    };
    for &(length, blocks, boxes) in *overlay {
        let next = (masks.0.and(own.0[blocks as usize].1), masks.1.and(other.0[boxes as usize].1));
        if !next.0.is_empty() && !next.1.is_empty() {
            lengths[axis] = length;
            lay(overlays, axis + 1, next, lengths, found);
        }
    }
}

impl Pattern {
    /// The fingerprint of the pattern with devices renamed by what they do in it, as far as they may change places on
    /// the machine, so that patterns which differ in names only mostly become equal.
    pub fn renamed(&self, symmetry: &Symmetry) -> Fingerprint {
        // A device is described by the atoms it takes part in, then by the descriptions of those it meets.
        let mut name = symmetry.kinds().to_vec();
        let mut next = vec![0u64; name.len()];
        let mut held: SmallVec<[u64; 4]> = SmallVec::new();
        for round in 0..3 {
            next.fill(0);
            let mixed: SmallVec<[u64; 16]> = name.iter().map(|n| mix(*n)).collect();
            let group = |set: DeviceSet| symmetry.sum_mixed(set, &mixed);
            for a in &self.0 {
                let readers = mix(group(a.readers));
                held.clear();
                held.extend(a.holders.iter().map(|h| mix(group(*h))));
                let holders = held.iter().fold(0u64, |sum, h| sum.wrapping_add(*h));
                let atom = mix(a.pending ^ mix(a.finished) ^ readers.rotate_left(7)).wrapping_add(holders);
                for (h, held) in a.holders.iter().zip(&held) {
                    let part = atom ^ held;
                    for d in h.iter() {
                        let own = mix(part.wrapping_add(symmetry.beside(d, a.readers)));
                        next[d.index()] = next[d.index()].wrapping_add(own);
                    }
                }
                let part = atom.wrapping_add(77);
                let every = a.holders.iter().fold(DeviceSet::new(), |all, h| all.union(*h));
                for d in a.readers.iter() {
                    let own = mix(part.wrapping_add(symmetry.beside(d, every) << 32));
                    next[d.index()] = next[d.index()].wrapping_add(own);
                }
            }
            for (name, next) in name.iter_mut().zip(&next) {
                *name = mix(next.wrapping_add(mix(*name) ^ round));
            }
        }
        let mut place = [DeviceId(0); DeviceSet::MAX];
        let arranged = symmetry.arranged(&name);
        arranged.iter().zip(symmetry.places()).for_each(|(d, n)| place[d.index()] = *n);
        let renamed = |set: DeviceSet| set.iter().map(|d| place[d.index()]).collect::<DeviceSet>();
        let mut sum = [0; 2];
        for a in &self.0 {
            let names = a.holders.iter().map(|h| holding(renamed(*h)));
            let held = if a.ordered { in_order(names) } else { names.fold([0; 2], plus) };
            add(&mut sum, held, renamed(a.readers), a.pending, a.finished);
        }
        whole(sum)
    }
}

/// A fixed mixing of bits (splitmix64's finaliser), the same on every run.
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d049bb133111eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two blocks of each of 72 devices are few enough for the fast way.
    #[test]
    fn masks_have_room() {
        let all = Mask::first(MOST);
        assert!(all.ones().eq(0..MOST) && Mask::first(0).is_empty());
        assert!(Mask::default().with(127).with(128).with(3).ones().eq([3, 127, 128]));
        assert!(all.and(Mask::default().with(200)).ones().eq([200]));
    }
}
