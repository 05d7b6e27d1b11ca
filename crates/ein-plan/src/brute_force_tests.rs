//! The search against brute force on small graphs: every recursive cut at every position into at most as many boxes
//! as devices, on every assignment of devices, with every tensor left as produced, gathered whole everywhere or at any
//! one device, or held as one of its readers needs it. Nothing here asks the search's own generators.

mod trees;

use crate::answers::Answers;
use crate::choice::{Block, Decomposition, Home};
use crate::exchanges::{covered, hand_out};
use crate::layouts::{held_of, refined};
use crate::needs::{held_needs, home_relation, operand_needs, output_sources, produced};
use crate::options::Options;
use crate::plan::plan;
use crate::price::seconds;
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::op::{InputKind, Op};
use ein_ir::region::Region;
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::relation::{Held, Relation};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A plain seeded generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 16) as usize % n
    }
}

/// A graph of up to `operations` products, sums and maps on matrices with extents of 2 to `largest`.
fn random(seed: u64, operations: usize, largest: usize) -> Graph {
    let random = &mut Random(seed);
    let mut g = Graph::new();
    let extents: Vec<usize> = (0..2).map(|_| 2 + random.below(largest - 1)).collect();
    let mut pool: Vec<TensorId> = Vec::new();
    for n in 0..2 {
        let shape: Vec<usize> = (0..2).map(|_| extents[random.below(2)]).collect();
        let kind = if random.below(3) == 0 { InputKind::Parameter } else { InputKind::Input };
        pool.push(g.input(&format!("x{n}"), kind, TensorType::new(DType::F32, shape)).unwrap());
    }
    for n in 0..=random.below(operations) {
        let name = format!("op{n}");
        let a = pool[random.below(pool.len())];
        let b = pool[random.below(pool.len())];
        let (x, y) = (g.ty(a).shape.clone(), g.ty(b).shape.clone());
        let out = match (x.len(), y.len()) {
            (2, 2) if random.below(3) > 0 && x[1] == y[0] => g.contraction(&name, "ij,jk->ik", &[a, b]),
            (2, 2) if x == y => g.contraction(&name, "ij,ij->ij", &[a, b]),
            (2, 2) if x[0] == y[0] => g.contraction(&name, "ij,ik->jk", &[a, b]),
            (2, 1) if x[1] == y[0] => g.contraction(&name, "ij,j->i", &[a, b]),
            (2, _) if random.below(2) == 0 => g.contraction(&name, "ij->j", &[a]),
            (2, _) => g.contraction(&name, "ij->ji", &[a]),
            _ => g.contraction(&name, "i->i", &[a]),
        };
        pool.push(out.unwrap());
    }
    let last = *pool.last().unwrap();
    g.output("out", last).unwrap();
    g
}

/// Every way to cut a space recursively into at most `most` boxes.
fn tilings(space: &Region, most: usize) -> BTreeSet<Vec<Region>> {
    let mut all = BTreeSet::from([vec![space.clone()]]);
    if most > 1 {
        for axis in 0..space.rank() {
            for at in space.0[axis].lo + 1..space.0[axis].hi {
                let (low, high) = space.split(axis, at);
                for first in 1..most {
                    for a in tilings(&low, first) {
                        for b in tilings(&high, most - first) {
                            let mut both: Vec<Region> = a.iter().chain(&b).cloned().collect();
                            both.sort();
                            all.insert(both);
                        }
                    }
                }
            }
        }
    }
    all
}

fn decompositions(space: &Region, devices: usize) -> Vec<Decomposition> {
    let mut all = Vec::new();
    for tiling in tilings(space, devices) {
        for code in 0..devices.pow(tiling.len() as u32) {
            let mut code = code;
            let blocks = tiling.iter().map(|region| {
                let device = DeviceId((code % devices) as u16);
                code /= devices;
                Block { region: region.clone(), devices: DeviceSet::one(device) }
            });
            all.push(Decomposition::new(space, blocks.collect()).unwrap());
        }
    }
    all
}

/// Sums of tables over choices, minimised one row after the other: every choice of every row is tried with every one of
/// those it has a table with.
struct Tables {
    sizes: Vec<usize>,
    /// Rows in increasing order, and an entry for each of their choices, the last row's fastest.
    tables: Vec<(Vec<usize>, Vec<f64>)>,
}

impl Tables {
    fn entry((scope, data): &(Vec<usize>, Vec<f64>), sizes: &[usize], at: &[usize]) -> f64 {
        data[scope.iter().fold(0, |n, &row| n * sizes[row] + at[row])]
    }

    fn least(mut self) -> f64 {
        let mut left: Vec<usize> = (0..self.sizes.len()).collect();
        let scope_of = |row: usize, tables: &[(Vec<usize>, Vec<f64>)]| -> BTreeSet<usize> {
            tables.iter().filter(|t| t.0.contains(&row)).flat_map(|t| t.0.iter().copied()).collect()
        };
        let mut sum = 0.0;
        while !left.is_empty() {
            let entries = |&row: &usize| -> usize {
                scope_of(row, &self.tables).iter().map(|&r| self.sizes[r]).product::<usize>()
            };
            let row = left.iter().copied().min_by_key(entries).unwrap();
            left.retain(|&r| r != row);
            let scope: Vec<usize> = scope_of(row, &self.tables).into_iter().filter(|&r| r != row).collect();
            let (own, rest) = self.tables.into_iter().partition(|t| t.0.contains(&row));
            self.tables = rest;
            let mut data = Vec::new();
            let mut at = vec![0; self.sizes.len()];
            'all: loop {
                let total = |x: usize, at: &mut Vec<usize>| -> f64 {
                    at[row] = x;
                    let own: &Vec<(Vec<usize>, Vec<f64>)> = &own;
                    own.iter().map(|t| Self::entry(t, &self.sizes, at)).sum()
                };
                data.push((0..self.sizes[row]).map(|x| total(x, &mut at)).fold(f64::INFINITY, f64::min));
                for &r in scope.iter().rev() {
                    at[r] += 1;
                    if at[r] < self.sizes[r] {
                        continue 'all;
                    }
                    at[r] = 0;
                }
                break;
            }
            if scope.is_empty() { sum += data[0] } else { self.tables.push((scope, data)) }
        }
        sum
    }
}

struct Brute<'a> {
    graph: &'a Graph,
    machine: &'a Machine,
    known: Answers,
    /// What moves have been found to cost.
    moves: HashMap<(Relation, Vec<Need>), f64>,
}

impl Brute<'_> {
    fn cost(&mut self, have: &Relation, needs: &[Need]) -> f64 {
        let key = (have.clone(), needs.to_vec());
        if let Some(&known) = self.moves.get(&key) {
            return known;
        }
        let cost = self.known.answer(&hand_out(have, needs), self.machine).unwrap().traffic.seconds.0;
        self.moves.insert(key, cost);
        cost
    }

    /// The least cost of a tensor over its homes, and the home.
    fn tensor(&mut self, tensor: TensorId, left: Option<&Relation>, lists: &BTreeSet<Vec<Need>>) -> (f64, Home) {
        let whole = self.graph.ty(tensor).whole();
        let kind = match self.graph.node(tensor).op {
            Op::Input(kind) => Some(kind),
            _ => None,
        };
        if kind == Some(InputKind::Parameter) {
            let all: Vec<Need> = lists.iter().flatten().cloned().collect();
            return (0.0, Home::At(refined(&all, &whole, DeviceId(0))));
        }
        let mut homes: Vec<Vec<Held>> =
            self.machine.ids().map(|d| vec![Held { region: whole.clone(), devices: DeviceSet::one(d) }]).collect();
        homes.push(vec![Held { region: whole.clone(), devices: self.machine.workers() }]);
        homes.extend(lists.iter().filter_map(|l| held_of(l, &whole)));
        homes.retain(|h| kind.is_none() || h.iter().all(|h| h.devices.len() == 1));
        let mut starts: Vec<(f64, Relation, Home)> = Vec::new();
        for held in homes {
            let relation = home_relation(self.graph, tensor, &held);
            let arrival = match left {
                Some(left) if !covered(left, &[], &held_needs(&held)) => self.cost(left, &held_needs(&held)),
                _ => 0.0,
            };
            starts.push((arrival, relation, Home::At(held)));
        }
        let shown = output_sources(self.graph).contains(&tensor);
        starts.extend(left.filter(|l| !shown || l.is_complete()).map(|l| (0.0, l.clone(), Home::AsProduced)));
        let mut best = (f64::INFINITY, Home::AsProduced);
        for (arrival, have, home) in starts {
            let mut order: Vec<&Vec<Need>> = lists.iter().collect();
            order.sort_by(|a, b| crate::exchanges::serving_order(a, b));
            let mut delivered: Vec<&[Need]> = Vec::new();
            let mut cost = arrival;
            for list in order {
                if !covered(&have, &delivered, list) {
                    cost += self.cost(&have, list);
                    delivered.push(list);
                }
            }
            if cost < best.0 {
                best = (cost, home);
            }
        }
        best
    }
}

/// Numbers for what occurs, in the order in which it does.
fn numbered<T: Clone + Ord>(all: &[T]) -> (Vec<T>, Vec<usize>) {
    let mut known: BTreeMap<T, usize> = BTreeMap::new();
    let mut distinct = Vec::new();
    let numbers = all.iter().map(|one| {
        *known.entry(one.clone()).or_insert_with(|| {
            distinct.push(one.clone());
            distinct.len() - 1
        })
    });
    let numbers = numbers.collect();
    (distinct, numbers)
}

/// The least cost over all choices that brute force knows.
fn brute_force(graph: &Graph, machine: &Machine) -> f64 {
    let rows: Vec<TensorId> = graph.ids().filter(|&id| graph.spec(id).is_some()).collect();
    let choices: Vec<Vec<Decomposition>> =
        rows.iter().map(|&r| decompositions(&graph.spec(r).unwrap().space(), machine.len())).collect();
    let mut tables = Tables { sizes: choices.iter().map(Vec::len).collect(), tables: Vec::new() };
    for (n, row) in rows.iter().enumerate() {
        let spec = graph.spec(*row).unwrap();
        tables.tables.push((vec![n], choices[n].iter().map(|d| seconds(&spec, d, machine).0).collect()));
    }
    let known = Answers::of(&Options::default());
    let mut brute = Brute { graph, machine, known, moves: HashMap::new() };
    for tensor in graph.ids() {
        let own = rows.iter().position(|&r| r == tensor);
        let reads = |n: &usize| graph.node(rows[*n]).inputs.contains(&tensor);
        let readers: Vec<usize> = (0..rows.len()).filter(reads).collect();
        let scope: Vec<usize> = own.into_iter().chain(readers.iter().copied()).collect();
        if scope.is_empty() {
            continue;
        }
        // Choices that leave and need the same are one.
        let left = own.map(|n| {
            let left: Vec<Relation> = choices[n].iter().map(|d| produced(graph, tensor, d, false)).collect();
            let (mut distinct, mut numbers): (Vec<Relation>, Vec<usize>) = (Vec::new(), Vec::new());
            for relation in left {
                let at = distinct.iter().position(|r| *r == relation).unwrap_or(distinct.len());
                if at == distinct.len() {
                    distinct.push(relation);
                }
                numbers.push(at);
            }
            (distinct, numbers)
        });
        let lists: Vec<(Vec<Vec<Need>>, Vec<usize>)> = readers
            .iter()
            .map(|&n| {
                let needs = |d| operand_needs(graph, rows[n], d).remove(&tensor).unwrap_or_default();
                numbered(&choices[n].iter().map(needs).collect::<Vec<_>>())
            })
            .collect();
        let mut found: HashMap<Vec<usize>, f64> = HashMap::new();
        let mut data = Vec::new();
        let mut at = vec![0; scope.len()];
        'all: loop {
            let first = usize::from(own.is_some());
            let mut key: Vec<usize> = left.iter().map(|l| l.1[at[0]]).collect();
            key.extend(lists.iter().zip(&at[first..]).map(|(l, &x)| l.1[x]));
            let cost = found.get(&key).copied().unwrap_or_else(|| {
                let made = left.as_ref().map(|l| &l.0[key[0]]);
                let asked = lists.iter().zip(&key[first..]).map(|(l, &x)| l.0[x].clone());
                let (cost, _) = brute.tensor(tensor, made, &asked.filter(|l| !l.is_empty()).collect());
                found.insert(key, cost);
                cost
            });
            data.push(cost);
            for n in (0..scope.len()).rev() {
                at[n] += 1;
                if at[n] < tables.sizes[scope[n]] {
                    continue 'all;
                }
                at[n] = 0;
            }
            break;
        }
        tables.tables.push((scope, data));
    }
    tables.least()
}

/// What devices of a machine differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Alike,
    /// In how quickly they compute, so that the best cuts are uneven.
    Rates,
    /// In how quickly they send and receive.
    Links,
}

/// A machine on which computing takes about as long as moving, so that both ways are worth it.
fn machine(devices: usize, latency: f64, kind: Kind) -> Machine {
    let mut machine = Machine::by_name("8xcpu").unwrap().first(devices).unwrap();
    machine.issue.0 = latency;
    machine.links.iter_mut().for_each(|l| l.latency.0 = latency);
    for (n, d) in machine.devices.iter_mut().enumerate() {
        let rate = if kind == Kind::Rates { 1e9 * (n + 2) as f64 } else { 1e9 };
        d.launch.0 = 0.0;
        d.memory_bandwidth = rate;
        d.flops.iter_mut().for_each(|f| f.1 = rate);
    }
    for (n, r) in machine.resources.iter_mut().enumerate().filter(|_| kind == Kind::Links) {
        r.bandwidth *= 1.0 + (n % 3) as f64 / 2.0;
    }
    machine
}

#[test]
fn no_choice_is_better() {
    // Operations at most, devices, the largest extent, and seeds: what brute force has time for.
    let cases = [(6, 2, 3, (0, 1, 16)), (3, 2, 4, (1000, 1, 12)), (1, 3, 4, (3, 4, 12))];
    let (mut cut, mut certified, mut all) = (0, 0, 0);
    for (operations, devices, largest, (first, step, count)) in cases {
        for seed in (0..count).map(|n| first + step * n) {
            let graph = random(seed, operations, largest);
            let kind = [Kind::Rates, Kind::Alike, Kind::Alike][seed as usize % 3];
            let machine = machine(devices, if seed % 2 == 0 { 0.0 } else { 1e-9 }, kind);
            // Simplification could change what is compared, so brute force gets what the plan got.
            let found = plan(&graph, &machine, &Options::default()).unwrap();
            let least = brute_force(&found.graph, &machine);
            let (cost, bound) = (found.report.cost, found.report.lower_bound);
            let what = format!("{operations} operations on {devices} devices, seed {seed}");
            assert!(cost <= least * (1.0 + 1e-9), "{what}: {cost} found, {least} possible");
            assert!(bound <= least * (1.0 + 1e-9), "{what}: {bound} proved, {least} possible");
            certified += usize::from(found.report.gap == 0.0);
            cut += usize::from(found.choice.decompositions.values().any(|d| d.blocks().len() > 1));
            all += 1;
        }
    }
    assert!(10 * cut > 8 * all, "only {cut} of {all} plans cut anything");
    assert!(10 * certified > 8 * all, "only {certified} of {all} plans are proved best");
}
