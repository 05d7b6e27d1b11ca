//! Machines, relations and an executor for tests of exchange programs.
#![allow(dead_code)]

use ein_ir::dtype::DType;
use ein_ir::monoid::{Form, Monoid};
use ein_ir::region::Region;
use ein_task::exchange::{Exchange, Need, Program, Step};
use ein_task::machine::{Device, DeviceId, DeviceKind, DeviceSet, Link, Machine, Resource};
use ein_task::rates::{Products, Turns};
use ein_task::relation::{Held, Relation};
use ein_task::units::{Bytes, Seconds};
use std::collections::BTreeMap;

/// A plain seeded generator (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }
}

pub fn d(n: usize) -> DeviceId {
    DeviceId(n as u16)
}

pub fn on(devices: &[usize]) -> DeviceSet {
    devices.iter().map(|&n| d(n)).collect()
}

fn device(name: String, kind: DeviceKind) -> Device {
    Device {
        name,
        kind,
        memory: Bytes(1 << 35),
        flops: vec![(DType::F32, 1e12)],
        memory_bandwidth: 1e12,
        launch: Seconds(0.0),
        free_elementwise: false,
        elements: None,
        under_softmax: None,
        prefers: Vec::new(),
        products: Products::default(),
        engines: None,
    }
}

/// A machine of `gpus` GPUs and, if `host`, the host as the last device, without links.
pub fn bare(name: &str, gpus: usize, host: bool) -> Machine {
    let mut devices: Vec<Device> = (0..gpus).map(|n| device(format!("gpu{n}"), DeviceKind::Gpu)).collect();
    if host {
        devices.push(device("host".into(), DeviceKind::Host));
    }
    Machine {
        name: name.into(),
        devices,
        resources: Vec::new(),
        links: Vec::new(),
        issue: Seconds(0.0),
        processors: None,
        turns: Turns::default(),
    }
}

/// Adds a resource.
pub fn resource(machine: &mut Machine, name: &str, bandwidth: f64) -> usize {
    machine.resources.push(Resource { name: name.into(), bandwidth });
    machine.resources.len() - 1
}

/// Adds a cable of its own for each way.
pub fn cable(machine: &mut Machine, a: usize, b: usize, bandwidth: f64, latency: f64) {
    for (from, to) in [(a, b), (b, a)] {
        let r = resource(machine, &format!("{from}-{to}"), bandwidth);
        machine.links.push(Link { from: d(from), to: d(to), resources: vec![r], latency: Seconds(latency) });
    }
}

/// All linked to all, each with one port out and one port in.
pub fn switch(gpus: usize, bandwidth: f64, latency: f64) -> Machine {
    let mut machine = bare("switch", gpus, false);
    let out: Vec<usize> = (0..gpus).map(|n| resource(&mut machine, &format!("gpu{n}.out"), bandwidth)).collect();
    let into: Vec<usize> = (0..gpus).map(|n| resource(&mut machine, &format!("gpu{n}.in"), bandwidth)).collect();
    for (from, &own) in out.iter().enumerate() {
        for to in (0..gpus).filter(|&to| to != from) {
            let resources = vec![own, into[to]];
            machine.links.push(Link { from: d(from), to: d(to), resources, latency: Seconds(latency) });
        }
    }
    machine
}

/// The hybrid cube mesh of a DGX-1V: single and double cables of 25 GB/s.
pub fn cube(latency: f64) -> Machine {
    let mut machine = bare("cube", 8, false);
    for (a, b) in [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)] {
        cable(&mut machine, a, b, 25e9, latency);
    }
    for (a, b) in [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)] {
        cable(&mut machine, a, b, 50e9, latency);
    }
    machine
}

/// Two cliques of `half` devices each, joined by one slow cable.
pub fn cliques(half: usize, fast: f64, slow: f64, latency: f64) -> Machine {
    let mut machine = bare("cliques", 2 * half, false);
    for base in [0, half] {
        for a in base..base + half {
            for b in a + 1..base + half {
                cable(&mut machine, a, b, fast, latency);
            }
        }
    }
    cable(&mut machine, half - 1, half, slow, latency);
    machine
}

/// `count` groups of `size` devices: all linked to all, inside a group by a port of `inside` and across by an adapter
/// of `across` (bytes per second, seconds), each device one of both for each way.
pub fn nodes(count: usize, size: usize, inside: (f64, f64), across: (f64, f64)) -> Machine {
    let mut machine = bare("nodes", count * size, false);
    let ports: Vec<[usize; 4]> = (0..count * size)
        .map(|n| {
            let ends = [("out", inside.0), ("in", inside.0), ("send", across.0), ("receive", across.0)];
            ends.map(|(end, bandwidth)| resource(&mut machine, &format!("gpu{n}.{end}"), bandwidth))
        })
        .collect();
    for from in 0..count * size {
        for to in (0..count * size).filter(|&to| to != from) {
            let (ends, latency) = if from / size == to / size { ([0, 1], inside.1) } else { ([2, 3], across.1) };
            let resources = vec![ports[from][ends[0]], ports[to][ends[1]]];
            machine.links.push(Link { from: d(from), to: d(to), resources, latency: Seconds(latency) });
        }
    }
    machine
}

/// Pairs 0-1, 2-3, … linked, and every device with the host (the last) over a slow cable.
pub fn pairs(gpus: usize) -> Machine {
    let mut machine = bare("pairs", gpus, true);
    for a in (0..gpus - 1).step_by(2) {
        cable(&mut machine, a, a + 1, 100e9, 2e-6);
    }
    for a in 0..gpus {
        cable(&mut machine, a, gpus, 10e9, 10e-6);
    }
    machine
}

/// A ring with cables of unequal widths.
pub fn ring(gpus: usize) -> Machine {
    let mut machine = bare("ring", gpus, false);
    for a in 0..gpus {
        let b = (a + 1) % gpus;
        if machine.link(d(a), d(b)).is_none() && a != b {
            cable(&mut machine, a, b, 10e9 * (1 + a % 3) as f64, 1e-6);
        }
    }
    machine
}

/// A tensor of f32 whose partials are summed.
pub fn relation(shape: &[usize], blocks: Vec<Held>) -> Relation {
    relation_of(shape, Monoid::Sum, DType::F32, blocks)
}

pub fn relation_of(shape: &[usize], monoid: Monoid, dtype: DType, blocks: Vec<Held>) -> Relation {
    let rank = shape.len();
    Relation {
        whole: Region::whole(shape),
        monoid,
        pending: monoid.pending(dtype, rank, false),
        finished: Form::finished(dtype, rank),
        blocks,
        places: Vec::new(),
    }
}

pub fn held(region: &[(usize, usize)], devices: &[usize]) -> Held {
    Held { region: Region::of(region), devices: on(devices) }
}

/// Equal strips of `axis`, one for each device in `devices`; sizes differ by at most one.
pub fn strips(shape: &[usize], axis: usize, devices: &[usize]) -> Vec<Held> {
    let p = devices.len();
    let cut = |n: usize| shape[axis] * n / p;
    let strip = |n: usize| {
        let mut region = Region::whole(shape);
        (region.0[axis].lo, region.0[axis].hi) = (cut(n), cut(n + 1));
        Held { region, devices: on(&[devices[n]]) }
    };
    (0..p).map(strip).collect()
}

pub fn needs(blocks: &[Held]) -> Vec<Need> {
    let of = |h: &Held| h.devices.iter().map(|device| Need { device, region: h.region.clone() }).collect::<Vec<_>>();
    blocks.iter().flat_map(of).collect()
}

/// The points of a region, row-major.
pub fn points(region: &Region) -> Vec<Vec<usize>> {
    let mut points = vec![Vec::new()];
    for i in &region.0 {
        points = points.iter().flat_map(|p| (i.lo..i.hi).map(|x| [&p[..], &[x]].concat())).collect();
    }
    points
}

/// The value of block `b` at a point: of mixed sign, and different for every block and point.
pub fn datum(b: usize, point: &[usize]) -> i64 {
    let mixed = point.iter().fold(b as i64 + 1, |h, &x| (h * 1_000_003 + x as i64 + 7) % 1_000_000_007);
    mixed - 500_000_000
}

/// What a device holds after a step: where, and the value of every point.
pub type Stored = (DeviceId, BTreeMap<Vec<usize>, i64>);

/// Executes a program on integers, without looking at anything but steps and data; sums partials.
pub fn execute(exchange: &Exchange, program: &Program) -> Vec<Stored> {
    let mut stored: Vec<Stored> = Vec::new();
    for step in &program.steps {
        let next = match step {
            Step::Load { block, device } => {
                let held = &exchange.have.blocks[*block];
                assert!(held.devices.contains(*device));
                (*device, points(&held.region).into_iter().map(|p| (p.clone(), datum(*block, &p))).collect())
            }
            Step::Cut { piece, region } => {
                let (device, values) = &stored[*piece];
                (*device, points(region).into_iter().map(|p| (p.clone(), values[&p])).collect())
            }
            Step::Move { piece, to } => (*to, stored[*piece].1.clone()),
            Step::Fold { pieces } => {
                let mut sum = stored[pieces[0]].clone();
                for &p in &pieces[1..] {
                    assert_eq!(stored[p].0, sum.0);
                    assert_eq!(stored[p].1.len(), sum.1.len());
                    sum.1.iter_mut().for_each(|(point, value)| *value += stored[p].1[point]);
                }
                sum
            }
            Step::Paste { pieces, region } => {
                let mut all = BTreeMap::new();
                for &p in pieces {
                    assert_eq!(stored[p].0, stored[pieces[0]].0);
                    all.extend(stored[p].1.clone());
                }
                assert!(points(region).iter().all(|p| all.contains_key(p)) && all.len() == region.volume());
                (stored[pieces[0]].0, all)
            }
        };
        stored.push(next);
    }
    program.yields.iter().map(|&p| stored[p].clone()).collect()
}

/// What a need must hold: the sum over every block that contains the point.
pub fn expected(exchange: &Exchange, need: &Need) -> Stored {
    let value = |p: &Vec<usize>| {
        let at = Region(p.iter().map(|&x| ein_ir::region::Interval::new(x, x + 1)).collect());
        exchange.have.partials(&at).into_iter().map(|b| datum(b, p)).sum()
    };
    (need.device, points(&need.region).into_iter().map(|p| (p.clone(), value(&p))).collect())
}

/// Cuts a region at random places, along random axes, into at most `count` boxes.
pub fn recursive(random: &mut Random, region: Region, count: usize) -> Vec<Region> {
    let axes: Vec<usize> = (0..region.rank()).filter(|&a| region.0[a].len() > 1).collect();
    if count < 2 || axes.is_empty() {
        return vec![region];
    }
    let axis = axes[random.below(axes.len())];
    let at = region.0[axis].lo + 1 + random.below(region.0[axis].len() - 1);
    let (low, high) = region.split(axis, at);
    let lower = 1 + random.below(count - 1);
    let mut parts = recursive(random, low, lower);
    parts.extend(recursive(random, high, count - lower));
    parts
}

fn some(random: &mut Random, devices: usize, most: usize) -> DeviceSet {
    (0..=random.below(most)).map(|_| d(random.below(devices))).collect()
}

/// A random question on the first `devices` devices: blocks are what a random decomposition of a label
/// space with a folded label leaves, some replicated; needs are boxes of every kind.
pub fn question(random: &mut Random, devices: usize) -> Exchange {
    let rank = random.below(4);
    let mut shape: Vec<usize> = (0..rank).map(|_| 1 + random.below(6)).collect();
    let folded = 1 + random.below(4);
    let label_space = Region::whole(&[&shape[..], &[folded]].concat());
    let count = 1 + random.below(2 * devices);
    let axes: Vec<usize> = (0..rank).collect();
    let blocks = recursive(random, label_space, count).into_iter();
    let mut blocks: Vec<Held> =
        blocks.map(|b| Held { region: b.project(&axes), devices: some(random, devices, 2) }).collect();
    let (monoid, dtype) =
        [(Monoid::Sum, DType::F32), (Monoid::Attend, DType::BF16), (Monoid::Moments, DType::F32)][random.below(3)];
    let monoid = if rank == 0 { Monoid::Sum } else { monoid };
    if monoid == Monoid::Moments {
        shape[rank - 1] = 2;
        // Blocks that differed on that axis only are partials now.
        for b in &mut blocks {
            b.region.0[rank - 1] = ein_ir::region::Interval::new(0, 2);
        }
    }
    let whole = Region::whole(&shape);
    let any = |random: &mut Random| {
        let interval = |n: &usize, random: &mut Random| {
            let lo = random.below(*n);
            ein_ir::region::Interval::new(lo, lo + 1 + random.below(n - lo))
        };
        Region(shape.iter().map(|n| interval(n, random)).collect())
    };
    let kind = random.below(4);
    let needs: Vec<Need> = match kind {
        0 => (0..devices).map(|n| Need { device: d(n), region: whole.clone() }).collect(),
        1 => {
            let parts = recursive(random, whole, devices);
            parts.into_iter().map(|region| Need { device: d(random.below(devices)), region }).collect()
        }
        _ => (0..=random.below(8)).map(|_| Need { device: d(random.below(devices)), region: any(random) }).collect(),
    };
    Exchange { have: relation_of(&shape, monoid, dtype, blocks), needs }
}

/// Every partial of every need from its first holder by the fewest hops, folded by the reader.
pub fn naive(exchange: &Exchange, machine: &Machine) -> Program {
    let mut program = Program::default();
    for need in &exchange.needs {
        let mut parts = Vec::new();
        for atom in exchange.atoms_of(&need.region, &[(&need.region, need.device)]) {
            let mut pieces = Vec::new();
            for &block in &atom.blocks {
                let devices = exchange.have.blocks[block].devices;
                let device = if devices.contains(need.device) { need.device } else { devices.lowest().unwrap() };
                program.steps.push(Step::Load { block, device });
                program.steps.push(Step::Cut { piece: program.steps.len() - 1, region: atom.region.clone() });
                for to in fewest_hops(machine, device, need.device) {
                    program.steps.push(Step::Move { piece: program.steps.len() - 1, to });
                }
                pieces.push(program.steps.len() - 1);
            }
            if !(pieces.len() == 1 && exchange.have.is_finished(atom.blocks[0])) {
                program.steps.push(Step::Fold { pieces });
            }
            parts.push(program.steps.len() - 1);
        }
        program.steps.push(Step::Paste { pieces: parts, region: need.region.clone() });
        program.yields.push(program.steps.len() - 1);
    }
    program
}

fn fewest_hops(machine: &Machine, from: DeviceId, to: DeviceId) -> Vec<DeviceId> {
    let mut seen = DeviceSet::one(from);
    let mut paths = std::collections::VecDeque::from([vec![from]]);
    while let Some(path) = paths.pop_front() {
        let last = path[path.len() - 1];
        if last == to {
            return path[1..].to_vec();
        }
        for far in machine.ids().filter(|&far| machine.link(last, far).is_some()) {
            if !seen.contains(far) {
                seen = seen.with(far);
                paths.push_back([&path[..], &[far]].concat());
            }
        }
    }
    panic!("{} has no way from {from} to {to}", machine.name)
}
