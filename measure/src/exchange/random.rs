//! Random questions: are the programs right, and how near do they come to the bound?

use super::interpret::right;
use super::judge::{Judged, Least, judge, least, least_of_all, reason, synthesized};
use super::machines::{bare, cable, cliques, workers};
use crate::random::Random;
use crate::report::{Section, each, micros, size};
use ein_ir::dtype::DType;
use ein_ir::monoid::{Form, Monoid};
use ein_ir::region::{Interval, Region};
use ein_task::exchange::{Exchange, Need};
use ein_task::machine::{DeviceId, DeviceSet, Link, Machine, Resource};
use ein_task::relation::{Held, Relation};
use ein_task::units::Seconds;

/// The tensors' sizes: a question is drawn once and scaled to each. The last is held against the bars.
const SIZES: [u64; 3] = [64 << 10, 1 << 20, 64 << 20];

/// A question at one size.
struct Row {
    draw: u64,
    machine: Machine,
    size: u64,
    /// Whether partials are folded in an order.
    ordered: bool,
    /// Ours, or what was wrong.
    ours: Result<Judged, String>,
    least: Least,
}

impl Row {
    /// Ours over the bound with the latency of the shallowest answer; 1 if nothing has to move.
    fn ratio(&self) -> f64 {
        let least = self.least.total();
        self.ours.as_ref().map_or(f64::INFINITY, |o| if least > 0.0 { o.seconds / least } else { 1.0 + o.seconds })
    }
}

/// How far above the bound a program of the largest size is for the bound to be sharpened.
const FAR: f64 = 1.2;

/// How far above the bound the worst may be.
const WORST: f64 = 1.35;

/// A machine and a question, by a seed and a number.
type Drawn = fn(u64, u64) -> (Machine, Exchange);

/// The section: `count` questions of a seed.
pub fn section(seed: u64, count: u64) -> Section {
    section_of(&format!("{count} random questions of seed {seed}"), seed, count, drawn)
}

/// The section of questions whose monoid is ordered. The bound knows nothing of the order, so that times have no bar.
pub fn ordered_section(seed: u64, count: u64) -> Section {
    section_of(&format!("{count} random questions of seed {seed}, folded in an order"), seed, count, drawn_ordered)
}

fn section_of(title: &str, seed: u64, count: u64, drawn: Drawn) -> Section {
    let draws: Vec<u64> = (0..count).collect();
    let rows: Vec<Row> = each(&draws, |&draw| measured(seed, draw, drawn)).into_iter().flatten().collect();
    let ordered = rows.iter().any(|r| r.ordered);
    let mut section = Section::new(&format!("{title}, at three sizes (simulated)"));
    let wrong: Vec<&Row> = rows.iter().filter(|r| r.ours.is_err()).collect();
    section.verdict(
        "programs",
        "accepted by both checks, numbers equal to the dense fold",
        format!("{} of {}", rows.len() - wrong.len(), rows.len()),
        wrong.is_empty(),
    );
    for bytes in SIZES {
        let mut ratios: Vec<f64> = rows
            .iter()
            .filter(|r| r.size == bytes && r.least.bandwidth > 0.0 && r.ours.is_ok())
            .map(Row::ratio)
            .collect();
        ratios.sort_by(f64::total_cmp);
        let mean = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
        let worst = ratios.last().copied().unwrap_or(1.0);
        let tenth = ratios.get(ratios.len() * 9 / 10).copied().unwrap_or(1.0);
        let above = ratios.iter().filter(|r| **r > WORST).count();
        let found = format!("mean {mean:.3}, nine of ten within {tenth:.3}, worst {worst:.3}, {above} above {WORST}");
        let what = format!("time ÷ (bandwidth bound + depth × latency) at {}", size(bytes));
        if bytes == SIZES[SIZES.len() - 1] && !ordered {
            section.verdict(what, "≤ 1.10 on average, ≤ 1.35 at worst", found, mean <= 1.10 && worst <= WORST);
        } else {
            section.say(&format!("{what}: {found}."));
        }
    }
    let mut large: Vec<&Row> = rows.iter().filter(|r| r.size == SIZES[SIZES.len() - 1]).collect();
    large.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    section.say("The worst (simulated); of those more than a fifth above the bound, a sharper one was looked for:");
    let line = |r: &&Row| {
        let why = r.ours.as_ref().map_or_else(Clone::clone, |o| reason(o, &r.least));
        let seconds = r.ours.as_ref().map_or(String::new(), |o| micros(o.seconds));
        let bound = format!("{} + {}", micros(r.least.bandwidth), micros(r.least.latency));
        vec![r.draw.to_string(), r.machine.name.clone(), seconds, bound, format!("{:.3}", r.ratio()), why]
    };
    let head = ["draw", "machine", "time", "bound + latency", "ratio", "why"];
    section.table(&head, &large.iter().take(10).map(line).collect::<Vec<_>>());
    for row in wrong.iter().take(5) {
        let fault = row.ours.as_ref().err().map_or("", |e| e);
        section.say(&format!("Draw {} on {}, {}: {fault}", row.draw, row.machine.name, size(row.size)));
    }
    section
}

/// One draw in words: the machine's links, and at each size the question, its figures and the program.
pub fn shown(seed: u64, draw: u64) -> String {
    let (machine, _) = drawn(seed, draw);
    let mut text = format!("Draw {draw} of seed {seed} on {}, issue {}\n", machine.name, micros(machine.issue.0));
    for link in &machine.links {
        let resource = |&r: &usize| &machine.resources[r];
        let shares = link.resources.iter().map(resource).map(|r| format!("{} {:.1} GB/s", r.name, r.bandwidth / 1e9));
        let shares = shares.collect::<Vec<_>>().join(", ");
        text.push_str(&format!("  {} → {}: {shares}, {}\n", link.from, link.to, micros(link.latency.0)));
    }
    for row in measured(seed, draw, drawn) {
        let question = scaled(&drawn(seed, draw).1, row.size);
        let needs: Vec<String> = question.needs.iter().map(|n| format!("{}@{}", n.region, n.device)).collect();
        text.push_str(&format!("{}: {} have {}\n", size(row.size), question.have.monoid, question.have));
        text.push_str(&format!("  need {}\n", needs.join(" ")));
        match &row.ours {
            Ok(ours) => text.push_str(&format!("  {}, {}\n", micros(ours.seconds), reason(ours, &row.least))),
            Err(fault) => text.push_str(&format!("  {fault}\n")),
        }
        if let Ok(program) = synthesized(&question, &machine)
            && program.steps.len() < 200
        {
            text.push_str(&program.to_string());
        }
    }
    text
}

fn measured(seed: u64, draw: u64, drawn: Drawn) -> Vec<Row> {
    let (machine, question) = drawn(seed, draw);
    let at = |&bytes: &u64| {
        let question = scaled(&question, bytes);
        let ours = synthesized(&question, &machine);
        let ours = ours.and_then(|program| {
            let judged = judge(&question, &program, &machine)?;
            right(&question, &program)?;
            Ok(judged)
        });
        let ordered = question.have.monoid.is_ordered();
        let least = least(&question, &machine);
        let mut row = Row { draw, machine: machine.clone(), size: bytes, ordered, ours, least };
        if bytes == SIZES[SIZES.len() - 1] && row.ratio() > FAR {
            row.least = least_of_all(&question, &machine);
        }
        row
    };
    SIZES.iter().map(at).collect()
}

/// Question number `draw` of a seed and its machine; extents of a few points.
pub fn drawn(seed: u64, draw: u64) -> (Machine, Exchange) {
    let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(draw));
    let machine = machine(&mut random);
    let question = question(&mut random, &workers(&machine));
    (machine, question)
}

/// The same of a monoid that is ordered: what a decomposition with a folded label leaves, its blocks in any order.
pub fn drawn_ordered(seed: u64, draw: u64) -> (Machine, Exchange) {
    let mut random = Random::new(seed.wrapping_mul(2_000_003).wrapping_add(draw));
    let machine = machine(&mut random);
    let devices = workers(&machine);
    let shape: Vec<usize> = (0..=random.below(3)).map(|_| 4 + random.below(13)).collect();
    let whole = Region::whole(&shape);
    let labels = Region([&whole.0[..], &[Interval::new(0, 2 + random.below(2 * devices.len()))]].concat());
    // The folded label alone is cut, or any.
    let most = 2 + random.below(2 * devices.len());
    let mut parts = if random.once_in(2) {
        let folded = Region(vec![labels.0[shape.len()]]);
        cuts(&mut random, folded, most).into_iter().map(|c| Region([&whole.0[..], &c.0[..]].concat())).collect()
    } else {
        cuts(&mut random, labels, most)
    };
    for n in (1..parts.len()).rev() {
        parts.swap(n, random.below(n + 1));
    }
    let places = parts.iter().map(|p| p.0[shape.len()]).collect();
    let region = |part: &Region| Region(part.0[..shape.len()].to_vec());
    let replicas = 1 + random.below(2);
    let held = |p: &Region| Held { region: region(p), devices: some(&mut random, &devices, replicas) };
    let blocks = parts.iter().map(held).collect();
    let needs = needs(&mut random, &devices, &whole);
    let monoid = Monoid::Affine;
    let (pending, finished) = (monoid.pending(DType::F32, shape.len(), false), Form::finished(DType::F32, shape.len()));
    (machine, Exchange { have: Relation { whole, monoid, pending, finished, blocks, places }, needs })
}

/// The question with every extent multiplied so that the tensor has at least `bytes`.
pub fn scaled(question: &Exchange, bytes: u64) -> Exchange {
    let have = &question.have;
    // An axis that stacks fields keeps its extent.
    let fixed = usize::from(have.monoid.stacked().is_some());
    let axes = have.whole.rank() - fixed;
    let mut factors = vec![1; have.whole.rank()];
    let mut axis = 0;
    while axes > 0 && scaled_bytes(have, &factors) < bytes {
        factors[axis % axes] *= 2;
        axis += 1;
    }
    let of = |region: &Region| {
        let interval = |(i, f): (&Interval, &usize)| Interval::new(i.lo * f, i.hi * f);
        Region(region.0.iter().zip(&factors).map(interval).collect())
    };
    let blocks = have.blocks.iter().map(|b| Held { region: of(&b.region), devices: b.devices }).collect();
    let needs = question.needs.iter().map(|n| Need { device: n.device, region: of(&n.region) }).collect();
    Exchange { have: Relation { whole: of(&have.whole), blocks, ..have.clone() }, needs }
}

fn scaled_bytes(have: &Relation, factors: &[usize]) -> u64 {
    have.finished.bytes(&have.whole) as u64 * factors.iter().product::<usize>() as u64
}

fn machine(random: &mut Random) -> Machine {
    match random.below(6) {
        0 | 1 => preset(random),
        2 => ring(random),
        3 => {
            let (fast, slow) = (1e11, *random.of(&[5e9, 1e10, 2.5e10]));
            cliques(2 + random.below(3), fast, slow, 2e-6)
        }
        _ => network(random),
    }
}

/// Some of a preset's devices, in any order.
fn preset(random: &mut Random) -> Machine {
    let names = ["8xa100", "8xh100", "dgx-1v", "pcie-4", "pcie-8", "nvl72", "2x8xa100", "unequal", "8xcpu"];
    loop {
        let machine = Machine::by_name(names[random.below(names.len())]).expect("a preset");
        let mut rest = workers(&machine);
        let count = 2 + random.below(rest.len().min(9) - 1);
        let chosen: Vec<DeviceId> = (0..count).map(|_| rest.remove(random.below(rest.len()))).collect();
        // Some GPUs of a cube are not connected without the others and the host.
        if let Ok(mut machine) = machine.select(&chosen) {
            machine.issue = Seconds(if random.once_in(2) { 1e-6 } else { 0.0 });
            return machine;
        }
    }
}

/// Cables of unequal widths in a ring.
fn ring(random: &mut Random) -> Machine {
    let count = 3 + random.below(7);
    let mut machine = bare("ring", count);
    for a in 0..count {
        cable(&mut machine, a, (a + 1) % count, 1e10 * (1 + random.below(5)) as f64, 2e-6);
    }
    machine
}

/// A tree of cables with a few more, a switch over some devices, and perhaps a second one with an uplink between.
fn network(random: &mut Random) -> Machine {
    let count = 3 + random.below(7);
    let mut machine = bare("network", count);
    let width = |random: &mut Random| *random.of(&[1e10, 2.5e10, 5e10, 1e11, 3e11]);
    let latency = |random: &mut Random| *random.of(&[1e-6, 3e-6, 8e-6]);
    let first = random.below(count);
    let second = random.below(count - first);
    switch(random, &mut machine, 0..first);
    switch(random, &mut machine, first..first + second);
    if random.once_in(2) && first > 0 && second > 0 {
        uplink(random, &mut machine, 0..first, first..first + second);
    }
    for b in 1..count {
        let a = random.below(b);
        linked(&mut machine, a, b, width(random), latency(random));
    }
    for _ in 0..random.below(count) {
        let (a, b) = (random.below(count), random.below(count));
        if a != b {
            linked(&mut machine, a, b, width(random), latency(random));
        }
    }
    machine
}

/// A cable where there is no link yet.
fn linked(machine: &mut Machine, a: usize, b: usize, width: f64, latency: f64) {
    if machine.link(DeviceId(a as u16), DeviceId(b as u16)).is_none() {
        cable(machine, a, b, width, latency);
    }
}

fn resource(machine: &mut Machine, name: String, bandwidth: f64) -> usize {
    machine.resources.push(Resource { name, bandwidth });
    machine.resources.len() - 1
}

fn link(machine: &mut Machine, from: usize, to: usize, resources: Vec<usize>, latency: f64) {
    let (from, to) = (DeviceId(from as u16), DeviceId(to as u16));
    machine.links.push(Link { from, to, resources, latency: Seconds(latency) });
}

fn switch(random: &mut Random, machine: &mut Machine, devices: std::ops::Range<usize>) {
    let width = *random.of(&[2.5e10, 1e11, 3e11]);
    let ports = |machine: &mut Machine, way: &str| -> Vec<usize> {
        devices.clone().map(|d| resource(machine, format!("gpu{d}.{way}"), width)).collect()
    };
    let (out, into) = (ports(machine, "out"), ports(machine, "in"));
    for a in devices.clone() {
        for b in devices.clone().filter(|&b| b != a) {
            link(machine, a, b, vec![out[a - devices.start], into[b - devices.start]], 2e-6);
        }
    }
}

/// Joins two switches: all that crosses shares one resource each way, besides the ports.
fn uplink(random: &mut Random, machine: &mut Machine, one: std::ops::Range<usize>, two: std::ops::Range<usize>) {
    let width = *random.of(&[2.5e10, 5e10]);
    let port = |machine: &Machine, name: String| machine.resources.iter().position(|r| r.name == name);
    for (from, to) in [(one.clone(), two.clone()), (two, one)] {
        let shared = resource(machine, format!("uplink{}", from.start), width);
        for a in from {
            for b in to.clone() {
                let ports = [port(machine, format!("gpu{a}.out")), port(machine, format!("gpu{b}.in"))];
                let resources = ports.into_iter().flatten().chain([shared]).collect();
                link(machine, a, b, resources, 4e-6);
            }
        }
    }
}

/// Cuts a region at random places, along random axes, into at most `count` boxes.
fn cuts(random: &mut Random, region: Region, count: usize) -> Vec<Region> {
    let axes: Vec<usize> = (0..region.rank()).filter(|&a| region.0[a].len() > 1).collect();
    if count < 2 || axes.is_empty() {
        return vec![region];
    }
    let axis = *random.of(&axes);
    let at = region.0[axis].lo + 1 + random.below(region.0[axis].len() - 1);
    let (low, high) = region.split(axis, at);
    let lower = 1 + random.below(count - 1);
    let mut parts = cuts(random, low, lower);
    parts.extend(cuts(random, high, count - lower));
    parts
}

/// One to `most` of the devices.
fn some(random: &mut Random, devices: &[DeviceId], most: usize) -> DeviceSet {
    (0..=random.below(most)).map(|_| *random.of(devices)).collect()
}

fn question(random: &mut Random, devices: &[DeviceId]) -> Exchange {
    let rank = 1 + random.below(3);
    let monoids = [
        (Monoid::Sum, DType::F32),
        (Monoid::Sum, DType::BF16),
        (Monoid::Max, DType::F32),
        (Monoid::Min, DType::BF16),
        (Monoid::Prod, DType::F32),
        (Monoid::Attend, DType::BF16),
        (Monoid::Moments, DType::F32),
    ];
    let (mut monoid, dtype) = *random.of(&monoids);
    if rank == 1 && (monoid == Monoid::Moments || monoid == Monoid::Attend) {
        monoid = Monoid::Sum;
    }
    let mut shape: Vec<usize> = (0..rank).map(|_| 4 + random.below(13)).collect();
    if let Some(fields) = monoid.stacked() {
        shape[rank - 1] = fields;
    }
    // Axes that stay whole are put back behind the cuts; `free` ones may be cut.
    let free = if monoid.stacked().is_some() { rank - 1 } else { rank };
    let whole = Region::whole(&shape);
    let widen = |part: &Region| Region([&part.0[..free], &whole.0[free..]].concat());
    let space = Region(whole.0[..free].to_vec());
    let blocks = blocks(random, devices, &space).into_iter();
    let blocks = blocks.map(|b| Held { region: widen(&b.region), devices: b.devices }).collect();
    let needs = needs(random, devices, &space).into_iter();
    let needs = needs.map(|n| Need { device: n.device, region: widen(&n.region) }).collect();
    let (pending, finished) = (monoid.pending(dtype, rank, random.once_in(2)), Form::finished(dtype, rank));
    Exchange { have: Relation { whole, monoid, pending, finished, blocks, places: Vec::new() }, needs }
}

fn blocks(random: &mut Random, devices: &[DeviceId], space: &Region) -> Vec<Held> {
    let count = devices.len();
    match random.below(5) {
        // Boxes, some of them replicated.
        0 | 1 => {
            let (most, replicas) = (1 + random.below(2 * count), 1 + random.below(3));
            let parts = cuts(random, space.clone(), most).into_iter();
            parts.map(|region| Held { region, devices: some(random, devices, replicas) }).collect()
        }
        // What a decomposition with a folded label leaves.
        2 => {
            let labels = Region([&space.0[..], &[Interval::new(0, 2 + random.below(4))]].concat());
            let (most, replicas) = (2 + random.below(2 * count), 1 + random.below(2));
            let parts = cuts(random, labels, most).into_iter();
            let region = |part: Region| Region(part.0[..space.rank()].to_vec());
            parts.map(|part| Held { region: region(part), devices: some(random, devices, replicas) }).collect()
        }
        // Groups of partials, each with devices of its own.
        3 => {
            let groups = 1 + random.below(3);
            let mut held = Vec::new();
            for region in cuts(random, space.clone(), groups) {
                for _ in 0..=random.below(count) {
                    held.push(Held { region: region.clone(), devices: some(random, devices, 1) });
                }
            }
            held
        }
        // A partial everywhere.
        _ => devices.iter().map(|&d| Held { region: space.clone(), devices: DeviceSet::one(d) }).collect(),
    }
}

fn needs(random: &mut Random, devices: &[DeviceId], space: &Region) -> Vec<Need> {
    let count = devices.len();
    match random.below(5) {
        // The whole at some or all.
        0 => {
            let readers =
                if random.once_in(2) { devices.iter().copied().collect() } else { some(random, devices, count) };
            readers.iter().map(|device| Need { device, region: space.clone() }).collect()
        }
        // Boxes, each at one.
        1 => {
            let parts = cuts(random, space.clone(), count).into_iter();
            parts.map(|region| Need { device: *random.of(devices), region }).collect()
        }
        // Boxes, each at several.
        2 => {
            let mut needs = Vec::new();
            for region in cuts(random, space.clone(), count) {
                let readers = some(random, devices, count);
                needs.extend(readers.iter().map(|device| Need { device, region: region.clone() }));
            }
            needs
        }
        // Strips with margins.
        3 => {
            let axis = random.below(space.rank());
            let extent = space.0[axis].len();
            let margin = random.below(3);
            let mut needs = Vec::new();
            for (n, &device) in devices.iter().enumerate() {
                let (lo, hi) = (extent * n / count, extent * (n + 1) / count);
                let mut region = space.clone();
                region.0[axis] = Interval::new(lo.saturating_sub(margin), (hi + margin).min(extent));
                if !region.is_empty() {
                    needs.push(Need { device, region });
                }
            }
            needs
        }
        // Any boxes, overlapping as they may.
        _ => {
            let interval = |random: &mut Random, i: &Interval| {
                let lo = random.below(i.hi);
                Interval::new(lo, lo + 1 + random.below(i.hi - lo))
            };
            let any = |random: &mut Random| Region(space.0.iter().map(|i| interval(random, i)).collect());
            (0..=random.below(8)).map(|_| Need { device: *random.of(devices), region: any(random) }).collect()
        }
    }
}
