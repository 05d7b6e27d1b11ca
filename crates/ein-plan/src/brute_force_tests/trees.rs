//! Brute force on up to four devices, for graphs in which every result and every input is read once.
//!
//! What is below a tensor then matters only by the relation that its producer leaves, and what is above only by the boxes
//! that its one reader needs. So the least cost is found from the leaves up: of a row, for each relation that it can leave,
//! over all its decompositions; of a reader's list of needs, over all relations of the tensor. Three things make that
//! quick and change no result:
//!
//! * where devices are alike, so are choices that differ by their names: of these one is tried, and the relation that meets
//!   a list of needs under every renaming;
//! * a device that lacks bytes has to receive them: no exchange takes less, and where that is already too much, the
//!   exchange is not answered;
//! * what costs more than the plan to be judged is dropped, by the same bounds.

use super::{Brute, Kind, Random, machine, tilings};
use crate::answers::Answers;
use crate::choice::{Block, Choice, Decomposition};
use crate::needs::{operand_needs, produced};
use crate::options::Options;
use crate::plan::plan;
use crate::price::{price, seconds};
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::op::{InputKind, Op};
use ein_ir::region::{Region, points};
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::relation::{Held, Relation};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A graph of `operations` products, sums and maps on matrices with extents of 2 to `largest`, each result read once.
pub(super) fn tree(seed: u64, operations: usize, largest: usize) -> Graph {
    let mut random = Random(seed);
    let mut g = Graph::new();
    let extents: Vec<usize> = (0..3).map(|_| 2 + random.below(largest - 1)).collect();
    let mut extent = |random: &mut Random| extents[random.below(extents.len())];
    let rank = if random.below(4) == 0 { 1 } else { 2 };
    let shape: Vec<usize> = (0..rank).map(|_| extent(&mut random)).collect();
    let out = grow(&mut g, &mut random, &mut extent, operations, &shape);
    g.output("out", out).unwrap();
    g
}

/// A tensor of this shape, made by so many operations.
fn grow(
    g: &mut Graph,
    random: &mut Random,
    extent: &mut impl FnMut(&mut Random) -> usize,
    operations: usize,
    shape: &[usize],
) -> TensorId {
    let name = format!("t{}", g.nodes().len());
    if operations == 0 {
        let kind = if random.below(3) == 0 { InputKind::Parameter } else { InputKind::Input };
        return g.input(&name, kind, TensorType::new(DType::F32, shape)).unwrap();
    }
    let k = extent(random);
    let (text, shapes): (&str, Vec<Vec<usize>>) = match (shape, random.below(6)) {
        (&[a, b], 0 | 1) => ("ik,kj->ij", vec![vec![a, k], vec![k, b]]),
        (&[a, b], 2) => ("ki,kj->ij", vec![vec![k, a], vec![k, b]]),
        (&[a, b], 3) => ("ij,ij->ij", vec![vec![a, b]; 2]),
        (&[a, b], 4) => ("ij,j->ij", vec![vec![a, b], vec![b]]),
        (&[a, b], _) => ("ji->ij", vec![vec![b, a]]),
        (&[a], 0) => ("ij->i", vec![vec![a, k]]),
        (&[a], 1) => ("ji->i", vec![vec![k, a]]),
        (&[a], 2 | 3) => ("ij,j->i", vec![vec![a, k], vec![k]]),
        (&[a], _) => ("i,i->i", vec![vec![a]; 2]),
        _ => unreachable!("vectors and matrices"),
    };
    let below = operations - 1;
    let first = if shapes.len() == 1 { below } else { random.below(below + 1) };
    let of = [first, below - first];
    let operands: Vec<TensorId> = shapes.iter().zip(of).map(|(s, n)| grow(g, random, extent, n, s)).collect();
    let name = format!("t{}", g.nodes().len());
    g.contraction(&name, text, &operands).unwrap()
}

/// Renamings of devices under which a machine is the same.
fn renamings(devices: usize, unequal: bool) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..devices {
        let longer = |p: Vec<usize>| {
            let rest: Vec<usize> = (0..devices).filter(|d| !p.contains(d)).collect();
            rest.into_iter().map(move |d| p.iter().copied().chain([d]).collect())
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all.truncate(if unequal { 1 } else { all.len() });
    assert!((0..devices).eq(all[0].iter().copied()), "the first renames nothing");
    all
}

fn renamed_blocks(blocks: &[Held], to: &[usize]) -> Vec<Held> {
    let devices = |set: DeviceSet| set.iter().map(|d| DeviceId(to[d.index()] as u16)).collect();
    let mut all: Vec<Held> =
        blocks.iter().map(|b| Held { region: b.region.clone(), devices: devices(b.devices) }).collect();
    all.sort();
    all
}

fn renamed_needs(needs: &[Need], to: &[usize]) -> Vec<Need> {
    let mut all: Vec<Need> = needs
        .iter()
        .map(|n| Need { device: DeviceId(to[n.device.index()] as u16), region: n.region.clone() })
        .collect();
    all.sort();
    all
}

/// Every assignment of devices to so many boxes, of those that are alike up to a renaming one.
fn assignments(boxes: usize, devices: usize, alike: bool) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..boxes {
        let longer = |p: Vec<usize>| {
            let used = p.iter().max().map_or(0, |m| m + 1);
            let next = if alike { devices.min(used + 1) } else { devices };
            (0..next).map(move |d| p.iter().copied().chain([d]).collect())
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// Which elements of a tensor each device has, or needs.
type Masks = [u64; 4];

fn mask(whole: &Region, has: impl Fn(&Region) -> bool) -> u64 {
    let element = |point: Vec<usize>| Region::of(&point.iter().map(|&x| (x, x + 1)).collect::<Vec<_>>());
    points(whole).enumerate().filter(|(_, p)| has(&element(p.clone()))).map(|(n, _)| 1 << n).sum()
}

/// What each device has in full without receiving anything.
fn had(whole: &Region, blocks: &[Held]) -> Masks {
    let at = |device: usize| {
        let device = DeviceId(device as u16);
        mask(whole, |e| blocks.iter().filter(|b| b.region.contains(e)).all(|b| b.devices.contains(device)))
    };
    [0, 1, 2, 3].map(at)
}

fn needed(whole: &Region, needs: &[Need]) -> Masks {
    let at = |device: usize| mask(whole, |e| needs.iter().any(|n| n.device.index() == device && n.region.contains(e)));
    [0, 1, 2, 3].map(at)
}

/// A tensor that a row makes: what can be left of it, and what its one reader can need. All of these are the first of
/// those that are alike.
#[derive(Default)]
struct Tensor {
    lefts: BTreeMap<Vec<Held>, usize>,
    lists: BTreeMap<Vec<Need>, usize>,
    /// Of every relation its renamings, and what devices have then.
    renamed: Vec<Vec<(Vec<Held>, Masks)>>,
    needed: Vec<Masks>,
}

/// What a decomposition leaves, and what it needs of each source.
type Ends = (usize, Vec<(TensorId, usize)>);

/// The quickest of the decompositions of a row that leave and need the same, up to a renaming.
struct Entry {
    seconds: f64,
    left: usize,
    needs: Vec<(TensorId, usize)>,
    blocks: Decomposition,
}

impl Entry {
    /// With what its operands cost.
    fn all(&self, asked: &Asked) -> f64 {
        self.seconds + self.needs.iter().map(|&(s, n)| asked[&s][n]).sum::<f64>()
    }
}

/// What every list of needs of every source costs, all below it included.
type Asked = BTreeMap<TensorId, Vec<f64>>;

struct Trees<'a> {
    brute: Brute<'a>,
    renamings: Vec<Vec<usize>>,
    tensors: BTreeMap<TensorId, Tensor>,
    rows: Vec<(TensorId, Vec<Entry>)>,
    /// Seconds that a byte takes at least to arrive, and a move without its bytes.
    byte: f64,
    latency: f64,
}

fn number<T: Ord>(known: &mut BTreeMap<T, usize>, of: T) -> usize {
    let next = known.len();
    *known.entry(of).or_insert(next)
}

impl<'a> Trees<'a> {
    fn new(graph: &'a Graph, machine: &'a Machine, unequal: bool) -> Self {
        let renamings = renamings(machine.len(), unequal);
        // All that a device receives crosses one resource.
        let port = |d: DeviceId| {
            let mut into = machine.links.iter().filter(|l| l.to == d);
            let mut shared = into.next().expect("others").resources.clone();
            into.for_each(|l| shared.retain(|r| l.resources.contains(r)));
            shared.iter().map(|&r| machine.resources[r].bandwidth).reduce(f64::min).expect("a port")
        };
        let byte = 1.0 / machine.ids().map(port).reduce(f64::max).expect("a device");
        let latency = machine.links.iter().map(|l| l.latency.0).reduce(f64::min).expect("a link");
        let brute = Brute { graph, machine, known: Answers::of(&Options::default()), moves: HashMap::new() };
        let mut trees = Self { brute, renamings, tensors: BTreeMap::new(), rows: Vec::new(), byte, latency };
        for row in graph.ids().filter(|&id| graph.spec(id).is_some()) {
            trees.row(row);
        }
        for (&id, tensor) in &mut trees.tensors {
            let whole = graph.ty(id).whole();
            let mut lefts: Vec<_> = tensor.lefts.iter().map(|(l, &n)| (n, l)).collect();
            lefts.sort();
            let renamed = |left: &Vec<Held>| {
                let all: BTreeSet<Vec<Held>> = trees.renamings.iter().map(|to| renamed_blocks(left, to)).collect();
                all.into_iter().map(|l| (had(&whole, &l), l)).map(|(had, l)| (l, had)).collect()
            };
            tensor.renamed = lefts.into_iter().map(|(_, left)| renamed(left)).collect();
            let mut lists: Vec<_> = tensor.lists.iter().map(|(l, &n)| (n, l)).collect();
            lists.sort();
            tensor.needed = lists.into_iter().map(|(_, list)| needed(&whole, list)).collect();
        }
        trees
    }

    /// All decompositions of a row, told apart by what they leave and need.
    fn row(&mut self, row: TensorId) {
        let (graph, machine) = (self.brute.graph, self.brute.machine);
        let spec = graph.spec(row).unwrap();
        let space = spec.space();
        let mut entries: BTreeMap<Ends, (f64, Decomposition)> = BTreeMap::new();
        for tiling in tilings(&space, machine.len()) {
            for at in assignments(tiling.len(), machine.len(), self.renamings.len() > 1) {
                let block = |(region, &d): (&Region, &usize)| Block {
                    region: region.clone(),
                    devices: DeviceSet::one(DeviceId(d as u16)),
                };
                let d = Decomposition::new(&space, tiling.iter().zip(&at).map(block).collect()).unwrap();
                let left = produced(graph, row, &d, false).blocks;
                let left = self.renamings.iter().map(|to| renamed_blocks(&left, to)).min().unwrap();
                let left = number(&mut self.tensors.entry(row).or_default().lefts, left);
                let needs = operand_needs(graph, row, &d).into_iter().map(|(source, list)| {
                    let list = self.renamings.iter().map(|to| renamed_needs(&list, to)).min().unwrap();
                    (source, number(&mut self.tensors.entry(source).or_default().lists, list))
                });
                let needs: Vec<(TensorId, usize)> = needs.collect();
                let cost = seconds(&spec, &d, machine).0;
                let known = entries.entry((left, needs)).or_insert_with(|| (cost, d.clone()));
                if cost < known.0 {
                    *known = (cost, d);
                }
            }
        }
        let entry = |((left, needs), (seconds, blocks))| Entry { seconds, left, needs, blocks };
        self.rows.push((row, entries.into_iter().map(entry).collect()));
    }

    /// What no exchange beats from these elements to those.
    fn bound(&self, had: &Masks, needed: &Masks) -> f64 {
        let lacking = (0..4).map(|d| (needed[d] & !had[d]).count_ones()).max().unwrap_or(0);
        if lacking == 0 { 0.0 } else { self.latency + 4.0 * f64::from(lacking) * self.byte }
    }

    /// For every list of a tensor's reader, the least of what its relations cost so far and what then moves, at least.
    fn up(&self, tensor: &Tensor, costs: &[f64]) -> Vec<f64> {
        let order = order(costs);
        let least = |needed: &Masks| {
            let mut best = f64::INFINITY;
            for &left in order.iter().take_while(|&&l| l < costs.len()) {
                if costs[left] >= best {
                    break;
                }
                for (_, had) in &tensor.renamed[left] {
                    best = best.min(costs[left] + self.bound(had, needed));
                }
            }
            best
        };
        tensor.needed.iter().map(least).collect()
    }

    /// The other way round: for every relation, the least over what the reader needs.
    fn down(&self, tensor: &Tensor, costs: &[f64]) -> Vec<f64> {
        let order = order(costs);
        let least = |renamed: &Vec<(Vec<Held>, Masks)>| {
            let mut best = f64::INFINITY;
            for &list in &order {
                if costs[list] >= best {
                    break;
                }
                for (_, had) in renamed {
                    best = best.min(costs[list] + self.bound(had, &tensor.needed[list]));
                }
            }
            best
        };
        tensor.renamed.iter().map(least).collect()
    }

    /// The least cost of all choices that cost less than `limit`, and a choice that does; infinite if there is none.
    fn least(mut self, limit: f64) -> (f64, Option<Choice>) {
        let graph = self.brute.graph;
        let is_input = |id: TensorId| matches!(graph.node(id).op, Op::Input(_));
        // What arrives costs the same whatever is done with the rest.
        let mut asked = Asked::new();
        let inputs: Vec<TensorId> = self.tensors.keys().copied().filter(|&t| is_input(t)).collect();
        for input in inputs {
            let lists: BTreeMap<usize, Vec<Need>> =
                self.tensors[&input].lists.iter().map(|(l, &n)| (n, l.clone())).collect();
            let costs =
                lists.into_values().map(|list| self.brute.tensor(input, None, &BTreeSet::from([list])).0).collect();
            asked.insert(input, costs);
        }
        let exact = asked.clone();
        // Bounds from the leaves up, then from the output down: what all the rest costs at least.
        for (row, entries) in &self.rows {
            let tensor = &self.tensors[row];
            asked.insert(*row, self.up(tensor, &left_costs(tensor, entries, &asked)));
        }
        let mut rest = Asked::new();
        for (row, entries) in self.rows.iter().rev() {
            let tensor = &self.tensors[row];
            let above = match rest.get(row) {
                Some(lists) => self.down(tensor, lists),
                None => vec![0.0; tensor.lefts.len()],
            };
            for entry in entries {
                let all = above[entry.left] + entry.all(&asked);
                for &(source, list) in &entry.needs {
                    let lists = self.tensors[&source].lists.len();
                    let of = rest.entry(source).or_insert_with(|| vec![f64::INFINITY; lists]);
                    of[list] = of[list].min(all - asked[&source][list]);
                }
            }
        }
        // The same with exchanges answered, where what they belong to is not dearer than the limit.
        let mut asked = exact;
        let rows = std::mem::take(&mut self.rows);
        let last = rows.len() - 1;
        for (n, (row, entries)) in rows.iter().enumerate() {
            let costs = left_costs(&self.tensors[row], entries, &asked);
            if n == last {
                let (least, left) = self.shown(*row, &costs, limit);
                self.rows = rows;
                let choice = left.map(|left| self.choice(&asked, left));
                return (least, choice);
            }
            let budget = rest[row].iter().map(|r| limit - r).collect();
            let found = self.answered(*row, &costs, budget);
            asked.insert(*row, found);
        }
        unreachable!("the last row is the output")
    }

    /// [`Trees::up`] with exchanges answered; infinite where it is not below the list's budget.
    fn answered(&mut self, row: TensorId, costs: &[f64], budget: Vec<f64>) -> Vec<f64> {
        let tensor = self.tensors.remove(&row).unwrap();
        let mut lists: Vec<_> = tensor.lists.iter().map(|(l, &n)| (n, l)).collect();
        lists.sort();
        let order = order(costs);
        let mut found = Vec::new();
        for ((n, list), budget) in lists.into_iter().zip(budget) {
            let mut best = budget;
            for &left in &order {
                if costs[left] >= best {
                    break;
                }
                for (blocks, had) in &tensor.renamed[left] {
                    if costs[left] + self.bound(had, &tensor.needed[n]) < best {
                        let made = self.relation(row, blocks);
                        let (cost, _) = self.brute.tensor(row, Some(&made), &BTreeSet::from([list.clone()]));
                        best = best.min(costs[left] + cost);
                    }
                }
            }
            found.push(if best < budget { best } else { f64::INFINITY });
        }
        self.tensors.insert(row, tensor);
        found
    }

    /// The least cost with the output in the caller's hands, and what the last row leaves then.
    fn shown(&mut self, row: TensorId, costs: &[f64], limit: f64) -> (f64, Option<Vec<Held>>) {
        let lefts: Vec<(usize, Vec<Held>)> =
            self.tensors[&row].lefts.iter().map(|(l, &n)| (n, l.clone())).filter(|l| costs[l.0] < limit).collect();
        let mut best = (f64::INFINITY, None);
        for (n, blocks) in lefts {
            if costs[n] < best.0 {
                let made = self.relation(row, &blocks);
                let all = costs[n] + self.brute.tensor(row, Some(&made), &BTreeSet::new()).0;
                if all < best.0 {
                    best = (all, Some(blocks));
                }
            }
        }
        best
    }

    /// The choice whose last row leaves these blocks and that costs the least, from the last row down.
    fn choice(&mut self, asked: &Asked, last: Vec<Held>) -> Choice {
        let mut choice = Choice { decompositions: BTreeMap::new(), homes: BTreeMap::new() };
        let graph = self.brute.graph;
        let rows = std::mem::take(&mut self.rows);
        let mut wanted = vec![(rows.last().unwrap().0, last, None)];
        while let Some((row, left, list)) = wanted.pop() {
            let entries = &rows.iter().find(|r| r.0 == row).unwrap().1;
            let alike = self.renamings.iter().map(|to| renamed_blocks(&left, to)).min().unwrap();
            let number = self.tensors[&row].lefts[&alike];
            let own = entries.iter().filter(|e| e.left == number);
            let entry = own.min_by(|a, b| a.all(asked).total_cmp(&b.all(asked))).unwrap();
            let named = |to: &Vec<usize>| {
                let devices = |set: DeviceSet| set.iter().map(|d| DeviceId(to[d.index()] as u16)).collect();
                let blocks = entry.blocks.blocks().iter();
                let blocks = blocks.map(|b| Block { region: b.region.clone(), devices: devices(b.devices) }).collect();
                Decomposition::new(&graph.spec(row).unwrap().space(), blocks).unwrap()
            };
            let leaves = |d: &Decomposition| renamed_blocks(&produced(graph, row, d, false).blocks, &self.renamings[0]);
            let d = self.renamings.iter().map(named).find(|d| leaves(d) == left).unwrap();
            let made = self.relation(row, &left);
            choice.homes.insert(row, self.brute.tensor(row, Some(&made), &list.into_iter().collect()).1);
            for (source, needs) in operand_needs(graph, row, &d) {
                if let Op::Input(_) = graph.node(source).op {
                    choice.homes.insert(source, self.brute.tensor(source, None, &BTreeSet::from([needs])).1);
                    continue;
                }
                let number = entry.needs.iter().find(|n| n.0 == source).unwrap().1;
                let below = &rows.iter().find(|r| r.0 == source).unwrap().1;
                let costs = left_costs(&self.tensors[&source], below, asked);
                let list = BTreeSet::from([needs.clone()]);
                let lefts: Vec<(f64, Vec<Held>)> = (self.tensors[&source].renamed.iter().zip(&costs))
                    .flat_map(|(renamed, &cost)| renamed.iter().map(move |(blocks, _)| (cost, blocks.clone())))
                    .filter(|l| l.0 <= asked[&source][number])
                    .collect();
                let so = lefts.into_iter().find(|(cost, blocks)| {
                    let made = self.relation(source, blocks);
                    let all = cost + self.brute.tensor(source, Some(&made), &list).0;
                    all <= asked[&source][number] * (1.0 + 1e-12)
                });
                wanted.push((source, so.unwrap().1, Some(needs)));
            }
            choice.decompositions.insert(row, d);
        }
        choice
    }

    fn relation(&self, row: TensorId, blocks: &[Held]) -> Relation {
        let graph = self.brute.graph;
        let space = graph.spec(row).unwrap().space();
        let one = Block { region: space.clone(), devices: DeviceSet::one(DeviceId(0)) };
        let whole = produced(graph, row, &Decomposition::new(&space, vec![one]).unwrap(), false);
        Relation { blocks: blocks.to_vec(), ..whole }
    }
}

/// Positions from the least on.
fn order(costs: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.len()).filter(|&n| costs[n].is_finite()).collect();
    order.sort_by(|&a, &b| costs[a].total_cmp(&costs[b]));
    order
}

/// The least cost of every relation that a row can leave, all that it needs included.
fn left_costs(tensor: &Tensor, entries: &[Entry], asked: &Asked) -> Vec<f64> {
    let mut costs = vec![f64::INFINITY; tensor.lefts.len()];
    for entry in entries {
        costs[entry.left] = costs[entry.left].min(entry.all(asked));
    }
    costs
}

/// Graphs of so many operations on so many devices, with extents to so much; in what devices differ; seeds, the first and
/// how many.
type Case = (usize, usize, usize, Kind, (u64, u64));

/// Compares plans with brute force: how many there are, and of those that cost more what they are and how many times as much.
fn compare(cases: &[Case]) -> (usize, Vec<(String, f64)>) {
    let (mut same, mut all, mut lost) = (0, 0, Vec::new());
    for &(operations, devices, largest, kind, (first, count)) in cases {
        let (begun, before) = (std::time::Instant::now(), lost.len());
        let mut planning = 0.0;
        for seed in first..first + count {
            let graph = tree(seed, operations, largest);
            let machine = machine(devices, if seed % 2 == 0 { 0.0 } else { 1e-9 }, kind);
            let found = plan(&graph, &machine, &Options::default()).unwrap();
            planning += found.report.planning_seconds.0;
            let (cost, bound) = (found.report.cost, found.report.lower_bound);
            let what = format!("{operations} operations on {devices} devices, extents to {largest}, seed {seed}");
            let (least, choice) = Trees::new(&found.graph, &machine, kind != Kind::Alike).least(cost * (1.0 + 1e-6));
            if let Some(choice) = &choice {
                // The counting page says the same of it.
                let priced = price(&found.graph, choice, &machine, &Options::default()).unwrap().seconds.0;
                assert!((priced - least).abs() <= 1e-9 * least, "{what}: {priced:e} priced, {least:e} possible");
            }
            if cost > least * (1.0 + 1e-9) {
                lost.push((what, cost / least));
            } else {
                assert!(bound <= least * (1.0 + 1e-9), "{what}: {bound:e} proved, {least:e} possible");
                same += usize::from(cost >= least * (1.0 - 1e-9));
            }
            all += 1;
        }
        let (seconds, worst) = (begun.elapsed().as_secs_f64(), lost[before..].iter().map(|l| l.1).fold(1.0, f64::max));
        eprintln!(
            "{operations} operations, {devices} devices, {kind:?}, extents to {largest}: {} of {count} cost more, at most {worst:.3}; {seconds:.1} s, planning {planning:.1}",
            lost.len() - before,
        );
    }
    // Where brute force finds nothing as cheap, the plan computes something twice or has more boxes than devices.
    let compared = same + lost.len();
    assert!(3 * compared > all, "only {compared} of {all} plans are no better than the choices of brute force");
    (all, lost)
}

#[test]
fn no_choice_for_one_operation_is_better() {
    let (_, lost) =
        compare(&[(1, 2, 4, Kind::Rates, (0, 6)), (1, 3, 4, Kind::Alike, (0, 8)), (1, 4, 2, Kind::Alike, (400, 8))]);
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn no_choices_for_several_operations_are_better() {
    let (_, lost) = compare(&[
        (3, 3, 3, Kind::Alike, (100, 10)),
        (6, 3, 2, Kind::Alike, (200, 10)),
        (6, 3, 3, Kind::Alike, (2110, 2)),
        (6, 3, 4, Kind::Alike, (2200, 10)),
        (2, 3, 3, Kind::Rates, (300, 6)),
        (4, 3, 3, Kind::Links, (350, 4)),
    ]);
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn no_choices_on_four_devices_are_better() {
    let (_, lost) = compare(&[
        (1, 4, 3, Kind::Alike, (400, 4)),
        (3, 4, 2, Kind::Alike, (500, 6)),
        (6, 4, 2, Kind::Alike, (2400, 4)),
        (3, 4, 3, Kind::Alike, (2500, 3)),
        (2, 4, 2, Kind::Rates, (4300, 2)),
    ]);
    assert!(lost.is_empty(), "{lost:#?}");
}

/// The same of more and larger graphs, in minutes, to be read.
#[test]
#[ignore = "takes minutes"]
fn many_graphs() {
    let (all, lost) = compare(&[
        (1, 3, 4, Kind::Alike, (1000, 40)),
        (6, 3, 2, Kind::Alike, (2000, 60)),
        (6, 3, 3, Kind::Alike, (2100, 60)),
        (6, 3, 4, Kind::Alike, (2200, 60)),
        (4, 3, 6, Kind::Alike, (2300, 20)),
        (3, 3, 3, Kind::Rates, (3000, 30)),
        (2, 3, 4, Kind::Rates, (3100, 20)),
        (6, 3, 3, Kind::Rates, (3200, 30)),
        (6, 3, 3, Kind::Links, (3300, 30)),
    ]);
    eprintln!("of {all}: {lost:#?}");
}

/// On four devices.
#[test]
#[ignore = "takes minutes"]
fn many_graphs_on_four_devices() {
    let (all, lost) = compare(&[
        (1, 4, 3, Kind::Alike, (1500, 40)),
        (1, 4, 4, Kind::Alike, (1600, 10)),
        (6, 4, 2, Kind::Alike, (2400, 60)),
        (3, 4, 3, Kind::Alike, (2500, 20)),
        (2, 4, 4, Kind::Alike, (2600, 10)),
        (4, 4, 3, Kind::Alike, (4000, 20)),
        (5, 4, 3, Kind::Alike, (4100, 20)),
        (6, 4, 3, Kind::Alike, (4200, 20)),
        (4, 4, 2, Kind::Rates, (4300, 20)),
        (4, 4, 2, Kind::Links, (4400, 20)),
    ]);
    eprintln!("of {all}: {lost:#?}");
}

/// On four devices with larger extents.
#[test]
#[ignore = "takes many minutes"]
fn many_larger_graphs_on_four_devices() {
    let (all, lost) = compare(&[
        (4, 4, 4, Kind::Alike, (5000, 10)),
        (5, 4, 4, Kind::Alike, (5100, 10)),
        (6, 4, 4, Kind::Alike, (5200, 10)),
        (3, 4, 3, Kind::Rates, (5300, 10)),
        (3, 4, 3, Kind::Links, (5400, 10)),
    ]);
    eprintln!("of {all}: {lost:#?}");
}
