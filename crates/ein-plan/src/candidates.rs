//! The decompositions that the search may choose from, generated from an operation's spec alone.

use crate::choice::{Block, Decomposition};
use crate::recursive::{is_movable, least_faces, recursive, recursive_weighted};
use ein_ir::region::{Interval, Region};
use ein_ir::spec::{Role, Rule, Spec};
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use std::collections::BTreeSet;
use strips::{both_ends, merged, paired, shared_rest};

mod strips;

/// One way to decompose an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The blocks.
    pub decomposition: Decomposition,
    /// The largest device's operations over the mean of all workers; repeated work counts everywhere.
    pub balance: f64,
    /// How much of `balance` is owed to whole numbers alone: 17 rows on 8 devices are at best 3 to 2.125.
    pub snapping: f64,
}

impl Candidate {
    /// Whether every device does at most 1.02 of its share, whole numbers permitting.
    pub fn is_balanced(&self) -> bool {
        self.balance <= 1.02 * self.snapping + 1e-9
    }
}

/// How much to generate, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Richness {
    /// The most candidates of one operation.
    pub most: usize,
    /// The most recursive cuts of a contraction among them; 0 for none.
    pub recursive: usize,
    /// Whether to try every cut position where the space is tiny.
    pub tiny: bool,
    /// How many queries some row of the graph has that see keys up to their own only; 0 if none has. Where they are cut
    /// in pairs of strips from both ends, rows beside it may have to follow.
    pub causal: usize,
}

impl Richness {
    /// What a search of seconds affords: tables grow with the square of the candidates, so many devices get
    /// fewer.
    pub fn of(machine: &Machine) -> Self {
        let most = match machine.workers().len() {
            0..=8 => 400,
            9..=16 => 160,
            _ => 96,
        };
        Self { most, recursive: 16, tiny: true, causal: 0 }
    }

    /// What some tenths of a second afford, for a first plan where time is limited.
    pub fn little() -> Self {
        Self { most: 24, recursive: 2, tiny: false, causal: 0 }
    }
}

/// Of more devices than these a few grids are all that a search of seconds affords.
const MANY: usize = 16;

/// One way to cut one axis: the intervals of every part.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AxisCut {
    /// The label, or `None` for repetition: every part is everything.
    label: Option<usize>,
    parts: Vec<Vec<Interval>>,
}

/// The candidates of an operation, in a fixed order, each decomposition once.
pub fn candidates(spec: &Spec, machine: &Machine, richness: Richness) -> Vec<Candidate> {
    let workers: Vec<DeviceId> = machine.workers().iter().collect();
    let mut found = Found { spec, workers: &workers, seen: BTreeSet::new(), list: Vec::new(), most: richness.most };
    let space = spec.space();
    if space.is_empty() {
        // Nothing to compute where the result is empty; a fold over nothing is one block.
        found.push(whole(&space, DeviceSet::one(workers[0])));
        found.push(whole(&space, workers.iter().copied().collect()));
        return found.list;
    }
    found.push(whole(&space, workers.iter().copied().collect()));
    let p = workers.len();
    for &d in workers.iter().take(if p <= 16 { p } else { 1 }) {
        found.push(whole(&space, DeviceSet::one(d)));
    }
    let placed = |blocks: Vec<Region>| -> Vec<Block> {
        let place = |(region, &d): (Region, &DeviceId)| Block { region, devices: DeviceSet::one(d) };
        blocks.into_iter().zip(&workers).map(place).collect()
    };
    // Of many devices grids alone fill the list.
    if p <= MANY {
        paired(spec, richness.causal, &workers, &mut found);
        merged(spec, &workers, &mut found);
        shared_rest(spec, &workers, &mut found);
    }
    if spec.work.contraction && richness.recursive > 0 && 8 < p && p <= MANY && is_movable(spec) {
        found.push(placed(least_faces(spec, p)));
    }
    let mut counts: Vec<usize> = (2..=p).filter(|n| p.is_multiple_of(*n) || n.is_power_of_two()).collect();
    counts.reverse();
    for count in counts {
        grids(spec, count, count == p, &mut found);
    }
    weighted(spec, machine, &workers, richness, &mut found);
    // Positions multiply where shape is not enough to know a block by.
    let room = found.list.len() < found.most;
    if room && spec.work.contraction && richness.recursive > 0 && p <= if is_movable(spec) { 16 } else { 8 } {
        let most = if p <= 8 { richness.recursive } else { richness.recursive.min(8) };
        for blocks in recursive(spec, p, most) {
            found.push(placed(blocks));
        }
    }
    if richness.tiny && p <= 4 {
        tiny(spec, &workers, &mut found);
    }
    found.list
}

fn whole(space: &Region, devices: DeviceSet) -> Vec<Block> {
    vec![Block { region: space.clone(), devices }]
}

/// What has been generated so far.
struct Found<'a> {
    spec: &'a Spec,
    workers: &'a [DeviceId],
    seen: BTreeSet<Vec<Block>>,
    list: Vec<Candidate>,
    most: usize,
}

impl Found<'_> {
    fn push(&mut self, blocks: Vec<Block>) {
        if self.list.len() >= self.most {
            return;
        }
        let space = self.spec.space();
        // An empty space has no block that is not empty, yet a fold over nothing has a result.
        let decomposition = if space.is_empty() {
            let devices = blocks.iter().fold(DeviceSet::new(), |set, b| set.union(b.devices));
            Some(Decomposition::whole(&space, devices))
        } else {
            Decomposition::new(&space, blocks)
        };
        let Some(decomposition) = decomposition else { return };
        let mut sorted = decomposition.blocks().to_vec();
        sorted.sort();
        if self.seen.insert(sorted) {
            let balance = balance(self.spec, &decomposition, self.workers);
            let snapping = snapping(self.spec, &decomposition, self.workers.len());
            self.list.push(Candidate { decomposition, balance, snapping });
        }
    }
}

/// The largest device's operations over the mean of the workers.
pub fn balance(spec: &Spec, decomposition: &Decomposition, workers: &[DeviceId]) -> f64 {
    let most = workers.iter().map(|d| d.index() + 1).max().unwrap_or(1);
    let mut work = vec![0.0; most];
    for b in decomposition.blocks() {
        let operations = spec.points(&b.region);
        for d in b.devices.iter().filter(|d| d.index() < most) {
            work[d.index()] += operations;
        }
    }
    let mean = spec.points(&spec.space()) / workers.len() as f64;
    if mean > 0.0 { work.into_iter().fold(0.0, f64::max) / mean } else { 1.0 }
}

/// The balance that the most equal cut in whole numbers has, for a decomposition that cuts as this one does:
/// 28 heads over 8 devices are 4 to 3.5.
pub fn snapping(spec: &Spec, decomposition: &Decomposition, workers: usize) -> f64 {
    let blocks = decomposition.blocks();
    let mut snapping = 1.0;
    for (l, own) in spec.labels.iter().enumerate() {
        let mut starts: Vec<usize> = blocks.iter().map(|b| b.region.0[l].lo).collect();
        starts.sort_unstable();
        starts.dedup();
        let (units, parts) = (own.extent.div_ceil(quantum(&own.rule)), starts.len());
        // A cut in more parts than devices is not one that a grid with whole numbers is owed for.
        if parts > 1 && parts <= workers && units >= parts {
            snapping *= units.div_ceil(parts) as f64 * parts as f64 / units as f64;
        }
    }
    snapping
}

/// Whether a label may be cut at all.
pub(crate) fn is_cuttable(role: Role) -> bool {
    match role {
        Role::Free | Role::Fold | Role::Window => true,
        Role::Whole => false,
    }
}

/// The quantum of a label's rule.
pub(crate) fn quantum(rule: &Rule) -> usize {
    match rule {
        Rule::Any => 1,
        Rule::MultipleOf(q) => (*q).max(1),
    }
}

/// Parts of a label that could each be a block.
fn units(spec: &Spec, label: usize) -> usize {
    spec.labels[label].extent.div_ceil(quantum(&spec.labels[label].rule))
}

/// `extent` in `parts` runs as equal as multiples of `quantum` allow, larger ones first.
pub fn even(extent: usize, quantum: usize, parts: usize) -> Vec<Interval> {
    let units = extent.div_ceil(quantum);
    let (each, more) = (units / parts, units % parts);
    let mut lo = 0;
    (0..parts)
        .map(|n| {
            let hi = lo + each + usize::from(n < more);
            let interval = Interval::new((lo * quantum).min(extent), (hi * quantum).min(extent));
            lo = hi;
            interval
        })
        .collect()
}

/// All grids of `count` devices: factors over labels and repetition, in every order of the devices' digits.
fn grids(spec: &Spec, count: usize, repeat: bool, found: &mut Found) {
    let labels: Vec<usize> =
        (0..spec.labels.len()).filter(|&l| is_cuttable(spec.labels[l].role)).filter(|&l| units(spec, l) > 1).collect();
    // Blocks that differ in the taps of a window read nearly the same, and leave partials: not where other labels
    // make as many blocks.
    let taps = |l: usize| spec.labels[l].role == Role::Window && l >= spec.rank;
    let others: Vec<usize> = labels.iter().copied().filter(|&l| !taps(l)).collect();
    let enough = others.iter().map(|&l| units(spec, l)).fold(1, usize::saturating_mul) >= count;
    let labels = if enough { others } else { labels };
    let slots = labels.len() + usize::from(repeat);
    let mut all = factorisations(count, slots);
    // Where there are more than are kept, those that cut one axis come first.
    if count <= MANY {
        all.sort_by_key(|factors| factors.iter().filter(|&&f| f > 1).count() > 1);
    }
    for factors in all {
        let mut options: Vec<Vec<AxisCut>> = Vec::new();
        let mut fits = true;
        for (slot, &parts) in factors.iter().enumerate().filter(|f| *f.1 > 1) {
            match labels.get(slot) {
                Some(&l) => {
                    let cuts = axis_cuts(spec, l, parts);
                    fits &= !cuts.is_empty();
                    options.push(cuts);
                }
                None => {
                    options.push(vec![AxisCut { label: None, parts: vec![vec![]; parts] }]);
                }
            }
        }
        if !fits || options.iter().all(|o| o[0].label.is_none()) {
            continue;
        }
        for cuts in product(&options) {
            for order in orders(cuts.len(), count) {
                found.push(grid(spec, &cuts, &order, found.workers));
            }
        }
    }
}

/// The blocks of a grid. `order[n]` is the axis of the n-th most significant digit of a device's number.
fn grid(spec: &Spec, cuts: &[AxisCut], order: &[usize], workers: &[DeviceId]) -> Vec<Block> {
    let mut stride = vec![1; cuts.len()];
    let mut at = 1;
    for &axis in order.iter().rev() {
        stride[axis] = at;
        at *= cuts[axis].parts.len();
    }
    let mut blocks = vec![(spec.space(), vec![0usize])];
    for (axis, cut) in cuts.iter().enumerate() {
        let mut next = Vec::new();
        for (region, devices) in &blocks {
            match cut.label {
                None => {
                    let step = stride[axis];
                    let all = (0..cut.parts.len()).flat_map(|n| devices.iter().map(move |d| d + n * step));
                    next.push((region.clone(), all.collect::<Vec<_>>()));
                }
                Some(label) => {
                    for (n, part) in cut.parts.iter().enumerate() {
                        for &interval in part {
                            let mut region = region.clone();
                            region.0[label] = interval;
                            next.push((region, devices.iter().map(|d| d + n * stride[axis]).collect()));
                        }
                    }
                }
            }
        }
        blocks = next;
    }
    blocks
        .into_iter()
        .map(|(region, devices)| Block { region, devices: devices.into_iter().map(|d| workers[d]).collect() })
        .collect()
}

/// Ways to cut one label in `parts`: evenly, and in pairs from both ends where later queries see more keys.
fn axis_cuts(spec: &Spec, label: usize, parts: usize) -> Vec<AxisCut> {
    let own = &spec.labels[label];
    let q = quantum(&own.rule);
    let units = own.extent.div_ceil(q);
    if units < parts {
        return Vec::new();
    }
    let strips = even(own.extent, q, parts);
    let mut cuts = vec![AxisCut { label: Some(label), parts: strips.into_iter().map(|i| vec![i]).collect() }];
    let is_query = spec.work.band.is_some_and(|band| band.query == label);
    if is_query && units >= 2 * parts {
        cuts.push(both_ends(spec, label, parts));
    }
    cuts
}

/// All ways to write `count` as an ordered product of `slots` factors.
fn factorisations(count: usize, slots: usize) -> Vec<Vec<usize>> {
    if slots == 0 {
        return if count == 1 { vec![vec![]] } else { vec![] };
    }
    let mut all = Vec::new();
    for first in (1..=count).rev().filter(|f| count.is_multiple_of(*f)) {
        for mut rest in factorisations(count / first, slots - 1) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

/// Orders of the digits: all of them for up to three axes, else the listed, the reverse and the rotations.
fn orders(axes: usize, count: usize) -> Vec<Vec<usize>> {
    if axes <= 2 || (axes == 3 && count <= 16) {
        return permutations(axes);
    }
    let mut all: Vec<Vec<usize>> =
        (0..axes).map(|shift| (0..axes).map(|n| (n + shift) % axes).collect::<Vec<_>>()).collect();
    all.push((0..axes).rev().collect());
    all
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for shorter in permutations(n - 1) {
        for at in (0..=shorter.len()).rev() {
            let mut longer = shorter.clone();
            longer.insert(at, n - 1);
            all.push(longer);
        }
    }
    all
}

fn product<T: Clone>(options: &[Vec<T>]) -> Vec<Vec<T>> {
    options.iter().fold(vec![vec![]], |done, next| {
        done.iter().flat_map(|d| next.iter().map(move |n| d.iter().cloned().chain([n.clone()]).collect())).collect()
    })
}

/// Cuts of one label, and recursive cuts, in proportion to the devices' rates, where those differ.
fn weighted(spec: &Spec, machine: &Machine, workers: &[DeviceId], richness: Richness, found: &mut Found) {
    let of = |d: &DeviceId| {
        let device = &machine.devices[d.index()];
        if spec.work.contraction { device.rate(spec.work.dtype) } else { device.memory_bandwidth }
    };
    let rates: Vec<f64> = workers.iter().map(of).collect();
    let total: f64 = rates.iter().sum();
    if rates.iter().all(|r| (r - rates[0]).abs() <= 1e-9 * rates[0].abs()) || total <= 0.0 {
        return;
    }
    for (l, own) in spec.labels.iter().enumerate().filter(|l| is_cuttable(l.1.role)) {
        let q = quantum(&own.rule);
        let units = own.extent.div_ceil(q);
        let (mut at, mut sum) = (0, 0.0);
        let mut blocks = Vec::new();
        for (d, rate) in workers.iter().zip(&rates) {
            sum += rate;
            let hi = ((sum / total * units as f64).round() as usize * q).min(own.extent);
            let mut region = spec.space();
            region.0[l] = Interval::new(at, hi);
            blocks.push(Block { region, devices: DeviceSet::one(*d) });
            at = hi;
        }
        found.push(blocks);
    }
    if workers.len() <= 8 && is_movable(spec) {
        for blocks in recursive_weighted(spec, &rates, richness.recursive) {
            let placed = blocks.into_iter().zip(workers);
            found.push(placed.map(|(region, &d)| Block { region, devices: DeviceSet::one(d) }).collect());
        }
    }
}

/// Every recursive cut into at most as many boxes as devices, at every position, on every assignment of
/// devices, where the space is tiny; of four devices on one of those that differ by names.
fn tiny(spec: &Spec, workers: &[DeviceId], found: &mut Found) {
    if spec.space().volume() > 64 {
        return;
    }
    let mut tilings = BTreeSet::new();
    cut_further(spec, &[spec.space()], workers.len(), &mut tilings);
    let p = workers.len();
    let every: usize = tilings.iter().map(|t| p.pow(t.len() as u32)).sum();
    // Of four devices those that differ by their names only are one: every next box is at a device that has one, or at the
    // next that has none.
    let alike = p > 3;
    if every > if alike { 100_000 } else { 2000 } {
        return;
    }
    found.most = found.most.max(8000);
    for tiling in tilings {
        let mut all: Vec<Vec<usize>> = vec![Vec::new()];
        for _ in &tiling {
            let used = |at: &Vec<usize>| at.iter().max().map_or(0, |d| d + 1);
            let at =
                |d: usize| all.iter().filter(move |at| !alike || d <= used(at)).map(move |at| [&at[..], &[d]].concat());
            all = (0..p).flat_map(at).collect();
        }
        for at in all {
            let block =
                |(region, d): (&Region, usize)| Block { region: region.clone(), devices: DeviceSet::one(workers[d]) };
            found.push(tiling.iter().zip(at).map(block).collect());
        }
    }
}

fn cut_further(spec: &Spec, boxes: &[Region], most: usize, tilings: &mut BTreeSet<Vec<Region>>) {
    let mut sorted = boxes.to_vec();
    sorted.sort();
    if !tilings.insert(sorted) || boxes.len() == most {
        return;
    }
    for n in 0..boxes.len() {
        for (l, own) in spec.labels.iter().enumerate().filter(|l| is_cuttable(l.1.role)) {
            let i = boxes[n].0[l];
            for at in (i.lo + 1..i.hi).filter(|at| at.is_multiple_of(quantum(&own.rule))) {
                let (low, high) = boxes[n].split(l, at);
                let mut next = boxes.to_vec();
                next[n] = low;
                next.push(high);
                cut_further(spec, &next, most, tilings);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::dtype::DType;
    use ein_ir::graph::{Graph, TensorType};
    use ein_ir::op::InputKind;

    fn product(batch: usize, tokens: usize) -> Spec {
        let mut g = Graph::new();
        let x = g.input("x", InputKind::Input, TensorType::new(DType::F32, [batch, tokens, 32])).unwrap();
        let w = g.input("w", InputKind::Parameter, TensorType::new(DType::F32, [32, 16])).unwrap();
        let y = g.contraction("y", "bsk,kn->bsn", &[x, w]).unwrap();
        g.spec(y).unwrap()
    }

    /// Eight sequences of 1,024 tokens on seven devices: cut as one, shares are equal but for a token.
    #[test]
    fn neighbouring_labels_are_cut_as_one() {
        let machine = Machine::by_name("8xa100").unwrap().first(7).unwrap();
        let richness = Richness { recursive: 0, ..Richness::of(&machine) };
        let found = candidates(&product(8, 1024), &machine, richness);
        let several = |c: &&Candidate| c.decomposition.blocks().len() > 7;
        let several: Vec<&Candidate> = found.iter().filter(several).collect();
        // Tokens of sequences and features of tokens in runs, and each of three labels whole but for a rest that is cut
        // along one of the others.
        assert_eq!(several.len(), 2 + 6);
        assert!(several[..2].iter().all(|c| c.balance < 1.001), "{several:?}");
        assert_eq!(several.iter().filter(|c| c.balance < 1.001).count(), 5, "{several:?}");
    }

    /// Beside a causal row, strips of both ends are one device's.
    #[test]
    fn pairs_of_strips_are_for_rows_beside_causal_ones() {
        let machine = Machine::by_name("8xa100").unwrap().first(4).unwrap();
        let count = |causal| {
            let richness = Richness { causal, ..Richness::of(&machine) };
            let found = candidates(&product(8, 64), &machine, richness);
            let ends = |c: &Candidate| {
                let own = c.decomposition.blocks().iter().filter(|b| b.devices.contains(DeviceId(0)));
                own.map(|b| (b.region.0[1].lo, b.region.0[1].hi)).collect::<Vec<_>>() == [(0, 8), (56, 64)]
            };
            found.iter().filter(|c| ends(c)).count()
        };
        assert_eq!((count(0), count(64)), (0, 1));
    }
}
