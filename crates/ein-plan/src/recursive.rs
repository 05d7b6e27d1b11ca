//! Recursive cuts with proportional shares: `p` devices become `p1` and `p - p1`, the box is cut along one
//! label in that proportion, and so on. Only cuts that are not beaten in every face volume are kept.

use crate::candidates::{is_cuttable, quantum};
use ein_ir::region::Region;
use ein_ir::spec::{AxisMap, Role, Spec};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Volumes of faces.
type Faces = SmallVec<[f64; 4]>;

/// A tiling of a box, up to where the box is, and what its blocks read and write: one face volume for every operand,
/// then the result's.
struct Tiling {
    cut: Option<Cut>,
    faces: Faces,
    /// Where nothing is cut, of which kind of device the block is.
    kind: usize,
}

/// A label is cut `at` so far from its beginning, and each part is tiled by one of its own tilings.
struct Cut {
    label: usize,
    at: usize,
    low: (Rc<Vec<Tiling>>, usize),
    high: (Rc<Vec<Tiling>>, usize),
}

/// Tilings in one block for each of `parts` devices, at most `most`, least sum of face volumes first.
pub(crate) fn recursive(spec: &Spec, parts: usize, most: usize) -> Vec<Vec<Region>> {
    let movable = is_movable(spec);
    let mut memo = Memo { spec, movable, labels: labels(spec), most, known: FxHashMap::default() };
    let space = spec.space();
    let all = memo.best(&space, parts);
    let blocks = |n: usize| {
        let mut blocks = Vec::with_capacity(parts);
        laid(&all[n], space.clone(), &mut |region, _| blocks.push(region));
        blocks
    };
    (0..all.len()).map(blocks).collect()
}

/// Ways to divide devices of several kinds in two, at most: beyond that shapes multiply.
const DIVISIONS: usize = 32;

/// The same with a block for each device in proportion to its rate, in the order of the devices: they are divided in two
/// in every way, equal ones counted alike, and the box as their rates in all. Nothing where there are too many ways.
pub(crate) fn recursive_weighted(spec: &Spec, rates: &[f64], most: usize) -> Vec<Vec<Region>> {
    let mut kinds: Vec<f64> = rates.to_vec();
    kinds.sort_by(f64::total_cmp);
    kinds.dedup();
    let kind = |rate: &f64| kinds.iter().position(|k| k == rate).expect("it is one of them");
    let of: Vec<usize> = rates.iter().map(kind).collect();
    let counts: Counts = (0..kinds.len()).map(|k| of.iter().filter(|&&o| o == k).count()).collect();
    if counts.iter().map(|n| n + 1).product::<usize>() > DIVISIONS {
        return Vec::new();
    }
    let space = spec.space();
    let whole: f64 = faces(spec, &space).iter().sum();
    let unfair = whole * rates.iter().sum::<f64>() / (space.volume() as f64).powi(2);
    // Of labels that differ in no face one may be cut where the other cannot: of few devices all are tried.
    let cuttable = || (0..spec.labels.len()).filter(|&l| is_cuttable(spec.labels[l].role)).collect();
    let labels = if rates.len() <= 4 { cuttable() } else { labels(spec) };
    let mut memo = Weighted { spec, labels, most, kinds, unfair, known: FxHashMap::default() };
    let all = memo.best(&space, &counts);
    let placed = |tiling: &Tiling| {
        let mut blocks: Vec<Option<Region>> = vec![None; rates.len()];
        laid(tiling, space.clone(), &mut |region, kind| {
            let next = (0..of.len()).find(|&d| of[d] == kind && blocks[d].is_none()).expect("one block a device");
            blocks[next] = Some(region);
        });
        blocks.into_iter().flatten().collect()
    };
    all.iter().map(placed).collect()
}

/// How many devices of each kind.
type Counts = SmallVec<[usize; 4]>;

struct Weighted<'a> {
    spec: &'a Spec,
    labels: Vec<usize>,
    most: usize,
    /// The rate of each kind.
    kinds: Vec<f64>,
    /// What the square of a block's volume over its device's rate counts as, one face more: the sum of these is least where
    /// volumes are in proportion to rates, and is then as much as the faces of the whole.
    unfair: f64,
    known: FxHashMap<(Counts, Region), Rc<Vec<Tiling>>>,
}

impl Weighted<'_> {
    fn rate(&self, counts: &Counts) -> f64 {
        counts.iter().zip(&self.kinds).map(|(&n, rate)| n as f64 * rate).sum()
    }

    /// Tilings of `space` for so many devices.
    fn best(&mut self, space: &Region, counts: &Counts) -> Rc<Vec<Tiling>> {
        let key = (counts.clone(), space.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let all = if counts.iter().sum::<usize>() == 1 {
            let kind = counts.iter().position(|&n| n > 0).expect("one device");
            let mut faces = faces(self.spec, space);
            faces.push(self.unfair * (space.volume() as f64).powi(2) / self.kinds[kind]);
            vec![Tiling { cut: None, faces, kind }]
        } else {
            let mut front = Front::default();
            let share = |first: &Counts| self.rate(first) / self.rate(counts);
            let firsts: Vec<(Counts, f64)> = divisions(counts).into_iter().map(|f| (f.clone(), share(&f))).collect();
            for n in 0..self.labels.len() {
                let label = self.labels[n];
                for (first, share) in &firsts {
                    let Some(at) = position(space, label, quantum(&self.spec.labels[label].rule), *share) else {
                        continue;
                    };
                    let (low, high) = space.split(label, at);
                    let rest: Counts = counts.iter().zip(first).map(|(all, own)| all - own).collect();
                    let (lows, highs) = (self.best(&low, first), self.best(&high, &rest));
                    front.add_pairs(First { label, at: at - space.0[label].lo, lows, highs });
                }
            }
            front.spread(self.most)
        };
        let all = Rc::new(all);
        self.known.insert(key, all.clone());
        all
    }
}

/// The first parts of devices that are divided in two, neither empty.
fn divisions(counts: &Counts) -> Vec<Counts> {
    let mut all = vec![Counts::new()];
    for &n in counts {
        let longer = |p: Counts| (0..=n).map(move |own| p.iter().copied().chain([own]).collect());
        all = all.into_iter().flat_map(longer).collect();
    }
    all.retain(|first| first.iter().any(|&n| n > 0) && first != counts);
    all
}

/// The tiling in one block for each of `parts` devices whose blocks have the least faces in all, as far as boxes of nearly
/// equal shape are best cut alike: every proportion is tried, which the exact way cannot afford for many parts.
pub(crate) fn least_faces(spec: &Spec, parts: usize) -> Vec<Region> {
    let mut thrift = Thrift { spec, labels: labels(spec), known: FxHashMap::default() };
    let space = spec.space();
    thrift.least(parts, &space);
    let mut blocks = Vec::with_capacity(parts);
    thrift.laid(parts, space, &mut blocks);
    blocks
}

/// Parts, and the rounded logarithms of the extents of labels.
type Shape = (usize, SmallVec<[i32; 6]>);

/// The best first cut of boxes of nearly equal shape.
struct Thrift<'a> {
    spec: &'a Spec,
    labels: Vec<usize>,
    /// The faces in all, and the label and the parts of the low side.
    known: FxHashMap<Shape, (f64, Option<(usize, usize)>)>,
}

/// Boxes whose extents differ by less than a tenth are of nearly equal shape.
const STEPS_PER_OCTAVE: f64 = 8.0;

impl Thrift<'_> {
    fn key(&self, parts: usize, space: &Region) -> Shape {
        let rounded = |l: &usize| ((space.0[*l].len() as f64).log2() * STEPS_PER_OCTAVE).round() as i32;
        (parts, self.labels.iter().map(rounded).collect())
    }

    /// The least faces of the blocks of a box in all.
    fn least(&mut self, parts: usize, space: &Region) -> f64 {
        let key = self.key(parts, space);
        if let Some(known) = self.known.get(&key) {
            return known.0;
        }
        let mut best = (f64::INFINITY, None);
        if parts == 1 {
            let read: f64 =
                (0..self.spec.operands.len()).map(|n| self.spec.operand_region(n, space).volume() as f64).sum();
            best.0 = read + self.spec.result_region(space).volume() as f64;
        }
        for n in 0..self.labels.len() {
            let label = self.labels[n];
            for first in parts.div_ceil(2)..parts {
                let Some(at) = self.position(space, label, first, parts) else { continue };
                let (low, high) = space.split(label, at);
                let low = self.least(first, &low);
                if low < best.0 {
                    let faces = low + self.least(parts - first, &high);
                    if faces < best.0 * (1.0 - 1e-9) {
                        best = (faces, Some((label, first)));
                    }
                }
            }
        }
        self.known.insert(key, best);
        best.0
    }

    fn position(&self, space: &Region, label: usize, first: usize, parts: usize) -> Option<usize> {
        position(space, label, quantum(&self.spec.labels[label].rule), first as f64 / parts as f64)
    }

    fn laid(&self, parts: usize, space: Region, blocks: &mut Vec<Region>) {
        let cut = self.known.get(&self.key(parts, &space)).and_then(|k| k.1);
        let at = cut.and_then(|(label, first)| Some((label, first, self.position(&space, label, first, parts)?)));
        let Some((label, first, at)) = at else { return blocks.push(space) };
        let (low, high) = space.split(label, at);
        self.laid(first, low, blocks);
        self.laid(parts - first, high, blocks);
    }
}

/// Gives every block of a tiling of `space` with its kind to `put`.
fn laid(tiling: &Tiling, space: Region, put: &mut impl FnMut(Region, usize)) {
    let Some(cut) = &tiling.cut else { return put(space, tiling.kind) };
    let (low, high) = space.split(cut.label, space.0[cut.label].lo + cut.at);
    laid(&cut.low.0[cut.low.1], low, put);
    laid(&cut.high.0[cut.high.1], high, put);
}

/// What a block reads of every operand, then what it writes.
fn faces(spec: &Spec, block: &Region) -> Faces {
    let operands = (0..spec.operands.len()).map(|n| spec.operand_region(n, block).volume() as f64);
    operands.chain([spec.result_region(block).volume() as f64]).collect()
}

/// Up to so many parts are cut in every proportion, where shape is enough to know a tiling by.
const FREELY: usize = 8;

/// The labels to cut. Of those that the same operands and the result have plainly, cuts differ in no face volume:
/// the one with most room stands for them.
fn labels(spec: &Spec) -> Vec<usize> {
    let mut kept: BTreeMap<(Vec<bool>, usize), usize> = BTreeMap::new();
    for (l, own) in spec.labels.iter().enumerate().filter(|l| is_cuttable(l.1.role)) {
        let mut uses = vec![l < spec.rank];
        let mut plain = true;
        for axis in spec.operands.iter().map(|o| &o.axes) {
            let of = |a: &AxisMap| matches!(a, AxisMap::Affine(a) if a.as_label() == Some(l));
            uses.push(axis.iter().any(of));
            plain &= axis.iter().all(|a| of(a) || !a.depends_on(l));
        }
        let room = |l: usize| spec.labels[l].extent / quantum(&spec.labels[l].rule);
        let apart = if plain && own.role != Role::Window { usize::MAX } else { l };
        let best = kept.entry((uses, apart)).or_insert(l);
        if room(l) > room(*best) {
            *best = l;
        }
    }
    let mut labels: Vec<usize> = kept.into_values().collect();
    labels.sort_unstable();
    labels
}

/// Whether where a block is does not matter for what it reads.
pub(crate) fn is_movable(spec: &Spec) -> bool {
    let plain = |a: &AxisMap| matches!(a, AxisMap::Affine(_));
    spec.operands.iter().all(|o| o.axes.iter().all(plain))
}

struct Memo<'a> {
    spec: &'a Spec,
    movable: bool,
    labels: Vec<usize>,
    most: usize,
    known: FxHashMap<(usize, Region), Rc<Vec<Tiling>>>,
}

impl Memo<'_> {
    /// Tilings of `space`, which may be anywhere: they are kept by shape where that is enough.
    fn best(&mut self, space: &Region, parts: usize) -> Rc<Vec<Tiling>> {
        let spec = self.spec;
        // Causal and shared-head maps depend on the position, affine faces do not: there shape is enough.
        let base = if self.movable { Region::whole(&space.shape()) } else { space.clone() };
        if let Some(known) = self.known.get(&(parts, base.clone())) {
            return known.clone();
        }
        let mut all: Vec<Tiling> = Vec::new();
        let mut front = Front::default();
        if parts == 1 {
            all.push(Tiling { cut: None, faces: faces(spec, &base), kind: 0 });
        } else {
            for n in 0..self.labels.len() {
                let label = self.labels[n];
                let own = &spec.labels[label];
                // The mirrored cut is the same up to device names. Of many parts only halves, or shapes multiply.
                let freely = self.movable && parts <= FREELY;
                let most_first = if freely { parts } else { parts.div_ceil(2) + 1 };
                for first in parts.div_ceil(2)..most_first {
                    let share = first as f64 / parts as f64;
                    let Some(at) = position(&base, label, quantum(&own.rule), share) else { continue };
                    let (low, high) = base.split(label, at);
                    let (lows, highs) = (self.best(&low, first), self.best(&high, parts - first));
                    front.add_pairs(First { label, at: at - base.0[label].lo, lows, highs });
                }
            }
            all = front.spread(self.most);
        }
        let all = Rc::new(all);
        self.known.insert((parts, base), all.clone());
        all
    }
}

/// A first cut, and the tilings of its parts.
struct First {
    label: usize,
    at: usize,
    lows: Rc<Vec<Tiling>>,
    highs: Rc<Vec<Tiling>>,
}

/// Pairs of tilings that no other one beats. Far more are compared than stay, so their faces lie one behind the other.
#[derive(Default)]
struct Front {
    /// How many face volumes a tiling has.
    width: usize,
    faces: Vec<f64>,
    /// Of each the number of its first cut, and of the tilings of both parts.
    pairs: Vec<(usize, usize, usize)>,
    cuts: Vec<First>,
}

impl Front {
    /// Adds every pair of a tiling of the low part and one of the high part that is not beaten.
    fn add_pairs(&mut self, cut: First) {
        self.width = cut.lows.first().map_or(0, |t| t.faces.len());
        let mut faces = Faces::new();
        // Who beat the last pair often beats the next one.
        let mut last = 0;
        for (a, low) in cut.lows.iter().enumerate() {
            for (b, high) in cut.highs.iter().enumerate() {
                faces.clear();
                faces.extend(low.faces.iter().zip(&high.faces).map(|(x, y)| x + y));
                if self.of(last).is_some_and(|own| beats(own, &faces)) {
                    continue;
                }
                if let Some(beaten_by) = self.faces.chunks_exact(self.width).position(|own| beats(own, &faces)) {
                    last = beaten_by;
                    continue;
                }
                self.drop_beaten(&faces);
                self.faces.extend_from_slice(&faces);
                self.pairs.push((self.cuts.len(), a, b));
            }
        }
        self.cuts.push(cut);
    }

    fn of(&self, n: usize) -> Option<&[f64]> {
        self.faces.get(n * self.width..(n + 1) * self.width)
    }

    /// Drops what these faces beat.
    fn drop_beaten(&mut self, faces: &[f64]) {
        let mut kept = 0;
        for n in 0..self.pairs.len() {
            let own = n * self.width..(n + 1) * self.width;
            if !beats(faces, &self.faces[own.clone()]) {
                self.faces.copy_within(own, kept * self.width);
                self.pairs[kept] = self.pairs[n];
                kept += 1;
            }
        }
        self.pairs.truncate(kept);
        self.faces.truncate(kept * self.width);
    }

    /// At most so many: the one with the least sum of faces first, and evenly spread through the rest, because one-sided cuts
    /// matter beside other operations.
    fn spread(&self, most: usize) -> Vec<Tiling> {
        let mut order: Vec<usize> = (0..self.pairs.len()).collect();
        let sums: Vec<f64> = order.iter().filter_map(|&n| self.of(n)).map(|own| own.iter().sum()).collect();
        // Sorting keeps the order of equal ones.
        order.sort_by(|&a, &b| sums[a].total_cmp(&sums[b]));
        let step = (order.len() as f64 / most as f64).max(1.0);
        let kept = (0..order.len().min(most)).map(|n| order[(n as f64 * step) as usize]);
        let tiling = |n: usize| {
            let (cut, low, high) = self.pairs[n];
            let First { label, at, lows, highs } = &self.cuts[cut];
            let cut = Cut { label: *label, at: *at, low: (lows.clone(), low), high: (highs.clone(), high) };
            Tiling { cut: Some(cut), faces: self.of(n).into_iter().flatten().copied().collect(), kind: 0 }
        };
        kept.map(tiling).collect()
    }
}

/// Where to cut label `l` so that the lower part is nearest to `share`, if there is room.
fn position(space: &Region, l: usize, quantum: usize, share: f64) -> Option<usize> {
    let i = space.0[l];
    let at = ((i.lo as f64 + share * i.len() as f64) / quantum as f64).round() as usize * quantum;
    (i.lo < at && at < i.hi).then_some(at)
}

fn beats(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(x, y)| x <= y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::dtype::DType;
    use ein_ir::graph::{Graph, TensorType};
    use ein_ir::op::InputKind;
    use ein_ir::region::tiles;

    fn cube(n: usize) -> Spec {
        let mut g = Graph::new();
        let ty = TensorType::new(DType::F32, [n, n]);
        let a = g.input("a", InputKind::Input, ty.clone()).unwrap();
        let b = g.input("b", InputKind::Input, ty).unwrap();
        let c = g.contraction("c", "ij,jk->ik", &[a, b]).unwrap();
        g.spec(c).unwrap()
    }

    /// What the blocks of a cube's tiling read and write beyond its three faces, in faces.
    fn moved(spec: &Spec, blocks: &[Region]) -> f64 {
        let face = (spec.labels[0].extent * spec.labels[0].extent) as f64;
        let of = |b: &Region| {
            (0..2).map(|n| spec.operand_region(n, b).volume()).sum::<usize>() + spec.result_region(b).volume()
        };
        blocks.iter().map(of).sum::<usize>() as f64 / face - 3.0
    }

    /// The optima over recursive cuts in equal shares, worked out from their recursion.
    #[test]
    fn tilings_of_a_cube_have_the_least_faces() {
        let spec = cube(5040);
        for (parts, least) in [(2, 1.0), (3, 5.0 / 3.0), (5, 2.4), (7, 20.0 / 7.0), (8, 3.0)] {
            let tilings = recursive(&spec, parts, 16);
            let best = tilings.iter().map(|t| moved(&spec, t)).fold(f64::INFINITY, f64::min);
            assert!((best - least).abs() < 1e-3, "{parts}: {best}");
            assert!(tilings.iter().all(|t| t.len() == parts && tiles(t, &spec.space())), "{parts}");
        }
        for (parts, least) in [(9, 10.0 / 3.0), (11, 3.8182), (13, 4.2308), (15, 4.6), (16, 4.75)] {
            let tiling = least_faces(&spec, parts);
            let found = moved(&spec, &tiling);
            assert!((found - least).abs() < 1e-3, "{parts}: {found}");
            assert!(tiling.len() == parts && tiles(&tiling, &spec.space()), "{parts}");
        }
    }

    /// Devices of rates 2, 3 and 4 share three by three points: the first and the last get two columns, of which the first
    /// one's part is a row of three.
    #[test]
    fn unequal_devices_get_boxes_in_proportion() {
        let mut g = Graph::new();
        let ty = TensorType::new(DType::F32, [3, 3]);
        let a = g.input("a", InputKind::Input, ty.clone()).unwrap();
        let b = g.input("b", InputKind::Input, ty).unwrap();
        let c = g.contraction("c", "ij,ij->ij", &[a, b]).unwrap();
        let spec = g.spec(c).unwrap();
        let found = recursive_weighted(&spec, &[2.0, 3.0, 4.0], 16);
        assert!(found.iter().all(|t| t.len() == 3 && tiles(t, &spec.space())), "{found:?}");
        let exact = found.iter().filter(|t| t.iter().map(Region::volume).eq([2, 3, 4]));
        assert!(exact.count() > 0, "{found:?}");
        // Two kinds of two devices each, of a product: equal ones get equal boxes.
        let spec = cube(70);
        let found = recursive_weighted(&spec, &[5.0, 2.0, 2.0, 5.0], 16);
        let volumes = |t: &Vec<Region>| t.iter().map(|b| b.volume() as f64 / 343_000.0 * 14.0).collect::<Vec<_>>();
        let near = |t: &Vec<Region>| volumes(t).iter().zip([5.0, 2.0, 2.0, 5.0]).all(|(v, r)| (v - r).abs() < 1e-9);
        assert!(found.len() > 1 && found.iter().any(near), "{:?}", found.iter().map(volumes).collect::<Vec<_>>());
        // Too many kinds.
        assert!(recursive_weighted(&spec, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 16).is_empty());
    }

    /// Of labels that the same operands have, the one with most room is cut.
    #[test]
    fn labels_that_differ_in_no_face_are_one() {
        let mut g = Graph::new();
        let x = g.input("x", InputKind::Input, TensorType::new(DType::F32, [4, 64, 32])).unwrap();
        let w = g.input("w", InputKind::Parameter, TensorType::new(DType::F32, [32, 16])).unwrap();
        let y = g.contraction("y", "bsk,kn->bsn", &[x, w]).unwrap();
        let spec = g.spec(y).unwrap();
        let names: Vec<&str> = labels(&spec).into_iter().map(|l| spec.labels[l].name.as_str()).collect();
        assert_eq!(names, ["s", "n", "k"]);
    }
}
