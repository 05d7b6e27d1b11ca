//! The search against brute force on small graphs: every recursive cut at every position into at most as many boxes
//! as devices, on every assignment of devices, with every tensor left as produced, gathered whole everywhere or at any
//! one device, or held as one of its readers needs it. Nothing here asks the search's own generators.

use crate::answers::Answers;
use crate::choice::{Block, Decomposition};
use crate::exchanges::{covered, hand_out};
use crate::layouts::held_of;
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
use std::collections::{BTreeMap, BTreeSet};

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

/// A graph of up to `operations` products, sums and maps on matrices with extents of 2 to 4.
fn random(seed: u64, operations: usize) -> Graph {
    let random = &mut Random(seed);
    let mut g = Graph::new();
    let extents: Vec<usize> = (0..2).map(|_| 2 + random.below(3)).collect();
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

struct Brute<'a> {
    graph: &'a Graph,
    machine: &'a Machine,
    known: Answers,
    rows: Vec<TensorId>,
    choices: Vec<Vec<Decomposition>>,
    seconds: Vec<Vec<f64>>,
    /// Cost of a tensor by the choices of its producer and readers.
    tensors: BTreeMap<(TensorId, Vec<usize>), f64>,
}

impl Brute<'_> {
    fn cost(&mut self, have: &Relation, needs: &[Need]) -> f64 {
        self.known.answer(&hand_out(have, needs), self.machine).unwrap().traffic.seconds.0
    }

    /// The least cost of a tensor over its homes.
    fn tensor(&mut self, tensor: TensorId, left: Option<&Relation>, lists: &BTreeSet<Vec<Need>>) -> f64 {
        let whole = self.graph.ty(tensor).whole();
        let kind = match self.graph.node(tensor).op {
            Op::Input(kind) => Some(kind),
            _ => None,
        };
        if kind == Some(InputKind::Parameter) {
            return 0.0;
        }
        let mut homes: Vec<Vec<Held>> =
            self.machine.ids().map(|d| vec![Held { region: whole.clone(), devices: DeviceSet::one(d) }]).collect();
        homes.push(vec![Held { region: whole.clone(), devices: self.machine.workers() }]);
        homes.extend(lists.iter().filter_map(|l| held_of(l, &whole)));
        homes.retain(|h| kind.is_none() || h.iter().all(|h| h.devices.len() == 1));
        let mut starts: Vec<(f64, Relation)> = Vec::new();
        for held in &homes {
            let relation = home_relation(self.graph, tensor, held);
            let arrival = match left {
                Some(left) if !covered(left, &[], &held_needs(held)) => self.cost(left, &held_needs(held)),
                _ => 0.0,
            };
            starts.push((arrival, relation));
        }
        let shown = output_sources(self.graph).contains(&tensor);
        starts.extend(left.filter(|l| !shown || l.is_complete()).map(|l| (0.0, l.clone())));
        let mut best = f64::INFINITY;
        for (arrival, have) in starts {
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
            best = best.min(cost);
        }
        best
    }

    fn total(&mut self, at: &[usize]) -> f64 {
        let mut sum: f64 = (0..at.len()).map(|n| self.seconds[n][at[n]]).sum();
        for tensor in self.graph.ids() {
            let own = self.rows.iter().position(|&r| r == tensor);
            let readers: Vec<usize> =
                (0..at.len()).filter(|&n| self.graph.node(self.rows[n]).inputs.contains(&tensor)).collect();
            let key = (tensor, own.iter().chain(&readers).map(|&n| at[n]).collect::<Vec<_>>());
            if !self.tensors.contains_key(&key) {
                let left = own.map(|n| produced(self.graph, tensor, &self.choices[n][at[n]], false));
                let lists = readers
                    .iter()
                    .filter_map(|&n| operand_needs(self.graph, self.rows[n], &self.choices[n][at[n]]).remove(&tensor))
                    .collect();
                let cost = self.tensor(tensor, left.as_ref(), &lists);
                self.tensors.insert(key.clone(), cost);
            }
            sum += self.tensors[&key];
        }
        sum
    }

    fn best(&mut self) -> f64 {
        let sizes: Vec<usize> = self.choices.iter().map(Vec::len).collect();
        let mut at = vec![0; sizes.len()];
        let mut best = f64::INFINITY;
        loop {
            best = best.min(self.total(&at));
            let Some(n) = (0..at.len()).rev().find(|&n| at[n] + 1 < sizes[n]) else { break };
            at[n] += 1;
            at[n + 1..].fill(0);
        }
        best
    }
}

/// The least cost over all choices that brute force knows.
fn brute_force(graph: &Graph, machine: &Machine) -> f64 {
    let rows: Vec<TensorId> = graph.ids().filter(|&id| graph.spec(id).is_some()).collect();
    let choices: Vec<Vec<Decomposition>> =
        rows.iter().map(|&r| decompositions(&graph.spec(r).unwrap().space(), machine.len())).collect();
    let of = |(r, list): (&TensorId, &Vec<Decomposition>)| {
        let spec = graph.spec(*r).unwrap();
        list.iter().map(|d| seconds(&spec, d, machine).0).collect()
    };
    let times = rows.iter().zip(&choices).map(of).collect();
    let known = Answers::of(&Options::default());
    Brute { graph, machine, known, rows, choices, seconds: times, tensors: BTreeMap::new() }.best()
}

/// A machine on which computing takes about as long as moving, so that both ways are worth it. With `unequal`
/// devices the best cuts are uneven.
fn machine(devices: usize, latency: f64, unequal: bool) -> Machine {
    let mut machine = Machine::by_name("8xcpu").unwrap().first(devices).unwrap();
    machine.issue.0 = latency;
    machine.links.iter_mut().for_each(|l| l.latency.0 = latency);
    for (n, d) in machine.devices.iter_mut().enumerate() {
        let rate = if unequal { 1e9 * (n + 2) as f64 } else { 1e9 };
        d.launch.0 = 0.0;
        d.memory_bandwidth = rate;
        d.flops.iter_mut().for_each(|f| f.1 = rate);
    }
    machine
}

#[test]
fn no_choice_is_better() {
    let (mut cut, mut certified) = (0, 0);
    for seed in 0..48 {
        // Small extents, so that all positions can be tried; the wider ones make cutting worth while.
        let (operations, devices) = [(2, 2), (3, 2), (2, 2), (1, 3)][seed as usize % 4];
        let graph = random(seed, operations);
        let machine = machine(devices, if seed % 2 == 0 { 0.0 } else { 1e-9 }, seed % 3 == 0);
        let options = Options::default();
        // Simplification could change what is compared, so brute force gets what the plan got.
        let found = plan(&graph, &machine, &options).unwrap();
        let least = brute_force(&found.graph, &machine);
        let cost = found.report.cost;
        assert!(cost <= least * (1.0 + 1e-9), "seed {seed}: {cost} found, {least} possible");
        assert!(found.report.lower_bound <= least * (1.0 + 1e-9), "seed {seed}");
        certified += usize::from(found.report.gap == 0.0);
        cut += usize::from(found.choice.decompositions.values().any(|d| d.blocks().len() > 1));
    }
    assert!(cut > 40, "only {cut} plans cut anything");
    assert!(certified > 40, "only {certified} plans are proved best");
}
