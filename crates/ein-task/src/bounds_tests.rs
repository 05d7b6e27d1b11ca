use super::*;
use crate::machine::{Device, DeviceKind, Link, Resource};
use crate::rates::{Products, Turns};
use crate::relation::{Held, Relation};
use crate::units::Bytes;
use ein_ir::dtype::DType;
use ein_ir::monoid::Monoid;

/// Devices, of which the last is a host if asked, and no links.
fn bare(devices: usize, host: bool) -> Machine {
    let device = |n: usize| Device {
        name: format!("d{n}"),
        kind: if host && n + 1 == devices { DeviceKind::Host } else { DeviceKind::Gpu },
        memory: Bytes(1 << 30),
        flops: vec![(DType::F32, 1e12)],
        memory_bandwidth: 1e12,
        launch: Seconds(0.0),
        free_elementwise: false,
        elements: None,
        under_softmax: None,
        prefers: Vec::new(),
        products: Products::default(),
        engines: None,
    };
    let devices = (0..devices).map(device).collect();
    Machine {
        name: "drawn".into(),
        devices,
        resources: Vec::new(),
        links: Vec::new(),
        issue: Seconds(0.0),
        processors: None,
        turns: Turns::default(),
    }
}

fn resource(machine: &mut Machine, bandwidth: f64) -> usize {
    let name = format!("r{}", machine.resources.len());
    machine.resources.push(Resource { name, bandwidth });
    machine.resources.len() - 1
}

fn link(machine: &mut Machine, from: usize, to: usize, resources: &[usize]) {
    let (from, to) = (DeviceId(from as u16), DeviceId(to as u16));
    machine.links.push(Link { from, to, resources: resources.to_vec(), latency: Seconds(1e-6) });
}

/// A cable of its own bandwidth each way.
fn cable(machine: &mut Machine, a: usize, b: usize, bandwidth: f64) {
    for (from, to) in [(a, b), (b, a)] {
        let own = resource(machine, bandwidth);
        link(machine, from, to, &[own]);
    }
}

fn switch(p: usize, bandwidth: f64) -> Machine {
    let mut machine = bare(p, false);
    let ports: Vec<usize> = (0..2 * p).map(|_| resource(&mut machine, bandwidth)).collect();
    for from in 0..p {
        for to in (0..p).filter(|&to| to != from) {
            link(&mut machine, from, to, &[ports[from], ports[p + to]]);
        }
    }
    machine
}

/// The first eight devices of the DGX-1V without its host.
fn cube() -> Machine {
    let mut machine = Machine::by_name("dgx-1v").unwrap();
    machine.devices.pop();
    machine.links.retain(|l| l.from.0 < 8 && l.to.0 < 8);
    machine
}

fn cliques(slow: f64) -> Machine {
    let mut machine = bare(8, false);
    for base in [0, 4] {
        for a in 0..4 {
            (0..a).for_each(|b| cable(&mut machine, base + a, base + b, 100e9));
        }
    }
    cable(&mut machine, 3, 4, slow);
    machine
}

fn ring(widths: &[f64]) -> Machine {
    let p = widths.len();
    let mut machine = bare(p, false);
    widths.iter().enumerate().for_each(|(n, &w)| cable(&mut machine, n, (n + 1) % p, w));
    machine
}

type Blocks = Vec<(std::ops::Range<usize>, Vec<usize>)>;

/// A tensor of bytes: its blocks and needs as intervals at devices.
fn question(size: usize, blocks: &Blocks, needs: &Blocks) -> Exchange {
    let region = |r: &std::ops::Range<usize>| Region::of(&[(r.start, r.end)]);
    let set = |devices: &[usize]| devices.iter().map(|&d| DeviceId(d as u16)).collect();
    Exchange {
        have: Relation {
            whole: Region::of(&[(0, size)]),
            monoid: Monoid::Sum,
            pending: Form::finished(DType::U8, 1),
            finished: Form::finished(DType::U8, 1),
            blocks: blocks.iter().map(|(r, d)| Held { region: region(r), devices: set(d) }).collect(),
            places: Vec::new(),
        },
        needs: needs
            .iter()
            .flat_map(|(r, d)| {
                d.iter().map(|&d| crate::exchange::Need { device: DeviceId(d as u16), region: region(r) })
            })
            .collect(),
    }
}

fn of(exchange: &Exchange, machine: &Machine) -> Bound {
    let found = bound(exchange, &exchange.atoms(), machine);
    assert_eq!(found, bound_with(&Cuts::of(machine), exchange, &exchange.atoms(), machine), "not repeatable");
    found
}

const S: usize = 840_000_000;

fn all(p: usize) -> Vec<usize> {
    (0..p).collect()
}

fn partials(p: usize) -> Blocks {
    (0..p).map(|d| (0..S, vec![d])).collect()
}

fn strips(p: usize) -> Blocks {
    (0..p).map(|d| (S / p * d..S / p * (d + 1), vec![d])).collect()
}

/// Strips to strips across them, which in one axis is every p-th part of every strip.
fn across(p: usize) -> Blocks {
    let part = S / p / p;
    (0..p * p).map(|n| (part * n..part * (n + 1), vec![n % p])).collect()
}

#[track_caller]
fn near(found: f64, expected: f64, within: f64, bound: &Bound) {
    assert!(found <= expected * (1.0 + 1e-9), "{found} proves more than the {expected} that suffices: {bound:?}");
    assert!(found >= expected * (1.0 - within), "{found} is short of {expected}: {bound:?}");
}

#[test]
fn known_answers() {
    let s = S as f64;
    let whole = |d: Vec<usize>| vec![(0..S, d)];
    // What, machine, have, need, least seconds, slack of the bound, which binds.
    let unequal = [100e9, 50e9, 100e9, 100e9, 25e9, 100e9];
    let rows: Vec<(&str, Machine, Blocks, Blocks, f64, f64, &str)> = vec![
        ("all-reduce", switch(8, 300e9), partials(8), whole(all(8)), 2.0 * 7.0 / 8.0 * s / 300e9, 0.0, "fold"),
        ("all-reduce of 3", switch(3, 300e9), partials(3), whole(all(3)), 2.0 * 2.0 / 3.0 * s / 300e9, 0.0, "fold"),
        ("reduce-scatter", switch(8, 300e9), partials(8), strips(8), 7.0 / 8.0 * s / 300e9, 0.0, "port"),
        ("all-gather", switch(8, 300e9), strips(8), whole(all(8)), 7.0 / 8.0 * s / 300e9, 0.0, "port"),
        ("broadcast", switch(8, 300e9), whole(vec![0]), whole(all(8)), s / 300e9, 0.0, "port"),
        ("strips across", switch(8, 300e9), strips(8), across(8), 7.0 / 64.0 * s / 300e9, 0.0, "port"),
        // Half of the cube sends a quarter of everything over four links of 150 GB/s in all.
        ("strips across, cube", cube(), strips(8), across(8), s / 4.0 / 150e9, 0.0, "cut"),
        ("all-reduce, cube", cube(), partials(8), whole(all(8)), 2.0 * 7.0 / 8.0 * s / 150e9, 0.002, "fold"),
        ("broadcast, cube", cube(), whole(vec![0]), whole(all(8)), s / 150e9, 0.0, "port"),
        // Each way S crosses the slow link, 2 S in all.
        ("all-reduce, cliques", cliques(10e9), partials(8), whole(all(8)), s / 10e9, 0.0, "cut"),
        ("broadcast, cliques", cliques(10e9), whole(vec![0]), whole(all(8)), s / 10e9, 0.0, "cut"),
        // Both ways round: 25 and 50 GB/s in all; devices 1 and 2 are between 50 and 100, device 4 before 25.
        ("broadcast, ring", ring(&unequal), whole(vec![3]), whole(all(6)), s / 75e9, 0.0, "cut"),
        // Six partials of which five must leave their device in a tree, and back.
        (
            "all-reduce, even ring",
            ring(&[50e9; 6]),
            partials(6),
            whole(all(6)),
            2.0 * 5.0 / 6.0 * s / 100e9,
            0.002,
            "fold",
        ),
        ("nothing", switch(4, 1e9), whole(all(4)), strips(4), 0.0, 0.0, "none"),
    ];
    for (what, machine, have, need, seconds, within, binds) in rows {
        let found = of(&question(S, &have, &need), &machine);
        println!("{what}: {found:?}");
        near(found.bandwidth().0, seconds, within, &found);
        assert_eq!(found.binds(), binds, "{what}: {found:?}");
    }
}

/// What crosses a resource that carries both directions is added up.
#[test]
fn a_cable_for_both_directions() {
    let mut machine = bare(4, false);
    for (a, b) in [(0, 1), (2, 3)] {
        cable(&mut machine, a, b, 100e9);
    }
    let shared = resource(&mut machine, 10e9);
    for (a, b) in [(1, 2), (2, 1)] {
        link(&mut machine, a, b, &[shared]);
    }
    let found = of(&question(S, &partials(4), &vec![(0..S, all(4))]), &machine);
    near(found.bandwidth().0, 2.0 * S as f64 / 10e9, 0.0, &found);
    assert_eq!(found.binds(), "cut");
}

/// A host that only relays has no needs, but what it lets through counts.
#[test]
fn hosts_add_capacity() {
    let mut machine = bare(3, true);
    cable(&mut machine, 0, 1, 30e9);
    cable(&mut machine, 0, 2, 10e9);
    cable(&mut machine, 1, 2, 20e9);
    let found = of(&question(S, &vec![(0..S, vec![0])], &vec![(0..S, vec![1])]), &machine);
    near(found.bandwidth().0, S as f64 / 40e9, 0.0, &found);
    assert_eq!((found.depth, found.latency), (1, Seconds(1e-6)));
}

/// One resource for all: the bound by prices counts every hop.
#[test]
fn a_bus() {
    let mut machine = bare(5, false);
    let bus = resource(&mut machine, 10e9);
    for a in 0..5 {
        (0..5).filter(|&b| b != a).for_each(|b| link(&mut machine, a, b, &[bus]));
    }
    for (have, need, hops) in [
        (vec![(0..S, vec![0])], vec![(0..S, all(5))], 4.0),
        (partials(5), vec![(0..S, vec![2])], 4.0),
        (partials(5), vec![(0..S, all(5))], 8.0),
        (partials(3), vec![(0..S, vec![3, 4])], 4.0),
    ] {
        let found = of(&question(S, &have, &need), &machine);
        near(found.bandwidth().0, hops * S as f64 / 10e9, 0.0, &found);
    }
}

#[test]
fn depth_and_latency_are_those_of_the_longest_way() {
    let machine = ring(&[1e9; 7]);
    let found = of(&question(S, &vec![(0..S / 2, vec![0]), (S / 2..S, vec![0, 2])], &vec![(0..S, vec![3])]), &machine);
    assert_eq!((found.depth, found.latency), (3, Seconds(3e-6)));
    let found = of(&question(S, &partials(7), &vec![(0..S, vec![3])]), &machine);
    assert_eq!((found.depth, found.latency), (3, Seconds(3e-6)));
}

/// A fold in a form of several fields, of which some lack an axis that is cut: a move of both halves carries
/// those fields once, so the bound must not count them for each.
#[test]
fn fields_that_lack_an_axis_are_counted_once() {
    let monoid = Monoid::Attend;
    let region = |lo, hi| Region::of(&[(0, 1000), (lo, hi)]);
    let held = |d: u16| Held { region: region(0, 2), devices: DeviceSet::one(DeviceId(d)) };
    let need = |d: u16, lo, hi| crate::exchange::Need { device: DeviceId(d), region: region(lo, hi) };
    let exchange = Exchange {
        have: Relation {
            whole: region(0, 2),
            monoid,
            // Finished in f64, so that the pending form is no larger and counts.
            pending: monoid.pending(DType::F32, 2, false),
            finished: Form::finished(DType::F64, 2),
            blocks: vec![held(0), held(1)],
            places: Vec::new(),
        },
        needs: vec![need(1, 0, 1), need(2, 1, 2)],
    };
    let mut line = bare(3, false);
    cable(&mut line, 0, 1, 1e9);
    cable(&mut line, 1, 2, 1e9);
    // Device 0 moves the whole box to 1, with max, sum and acc: (1 + 1 + 2) · 1000 · 4 bytes.
    let found = of(&exchange, &line);
    near(found.bandwidth().0, 16_000.0 / 1e9, 0.0, &found);
}

/// The least bandwidth of resources that hit all ways, by trying all sets of resources.
#[test]
fn capacities_are_the_narrowest() {
    let mut state = 7u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let mut strict = 0;
    for _ in 0..300 {
        let p = 2 + below(4);
        let mut machine = bare(p, false);
        let count = 3 + below(6);
        (0..count).for_each(|_| {
            resource(&mut machine, (1 + below(9)) as f64);
        });
        for from in 0..p {
            for to in (0..p).filter(|&to| to != from) {
                // Ways in the order of a series, as out ports, uplinks and in ports have it.
                let mut way: Vec<usize> = (0..=below(3)).map(|_| below(count)).collect();
                way.sort_unstable();
                way.dedup();
                if below(4) > 0 {
                    link(&mut machine, from, to, &way);
                }
            }
        }
        let set: DeviceSet = machine.ids().filter(|_| below(2) == 0).collect();
        let crossing: Vec<&Link> =
            machine.links.iter().filter(|l| set.contains(l.from) && !set.contains(l.to)).collect();
        let hits = |bits: usize| crossing.iter().all(|l| l.resources.iter().any(|r| bits >> r & 1 == 1));
        let width =
            |bits: usize| (0..count).filter(|r| bits >> r & 1 == 1).map(|r| machine.resources[r].bandwidth).sum();
        let least: f64 = (0..1usize << count).filter(|&b| hits(b)).map(width).fold(f64::INFINITY, f64::min);
        let found = cuts::capacity(&machine, set);
        assert!(found >= least - 1e-9, "{found} below {least}: {machine:?}");
        if crossing.iter().all(|l| l.resources.len() <= 1) {
            assert_eq!(found, least);
        }
        strict += usize::from(found > least + 1e-9);
    }
    assert!(strict < 60, "{strict} of 300 are wider than the narrowest");
}

/// At p = 8 a question takes well under a millisecond once the machine's cuts are known.
#[test]
fn every_machine_that_ships_has_bounds() {
    for name in Machine::names().into_iter().filter(|n| *n != "Nxcpu").chain(["8xcpu"]) {
        let machine = Machine::by_name(name).unwrap();
        let p = machine.workers().len();
        let start = std::time::Instant::now();
        let cuts = Cuts::of(&machine);
        println!("{name}: {} cuts in {:?}", cuts.count(), start.elapsed());
        for (what, have, need) in [
            ("all-reduce", partials(p), vec![(0..S, all(p))]),
            ("all-gather", strips(p), vec![(0..S, all(p))]),
            ("across", strips(p), across(p.min(16))),
        ] {
            let exchange = question(S, &have, &need);
            let atoms = exchange.atoms();
            let start = std::time::Instant::now();
            let found = bound_with(&cuts, &exchange, &atoms, &machine);
            println!("  {what}: {:?} {found:?}", start.elapsed());
            assert!(found.bandwidth().0 > 0.0 && found.bandwidth().0.is_finite());
            assert!(found.depth >= 1 && found.latency.0 >= 0.0);
        }
    }
}

/// A sum whose partials are twice as wide as its value, from everyone to everyone over one slow link: one way partials
/// cross, the other way what they make, whichever half of the sum is made where.
#[test]
fn one_way_between_two_sets_partials_cross() {
    let slow = 25e9;
    let machine = cliques(slow);
    let mut asked = question(S, &partials(8), &vec![(0..S, all(8))]);
    asked.have.pending = Form::finished(DType::F32, 1);
    asked.have.finished = Form::finished(DType::BF16, 1);
    let s = S as f64;
    near(of(&asked, &machine).cut.0, (4.0 + 2.0) * s / (2.0 * slow), 0.0, &of(&asked, &machine));
    // Readers on one side only: what crosses may be finished.
    asked.needs.retain(|n| n.device.0 >= 4);
    let found = of(&asked, &machine).bandwidth().0;
    assert!(found < 3.0 * s / slow, "{found}");
    // As wide as its value: as before.
    asked.have.finished = Form::finished(DType::F32, 1);
    near(of(&asked, &machine).cut.0, 4.0 * s / slow, 0.0, &of(&asked, &machine));
}

/// Partials of four that one reads: straight they are four times as many bytes; folded on the way they come a move later.
#[test]
fn what_others_fold_comes_a_move_later() {
    let machine = switch(5, 1e9);
    for (size, expected) in [(1_000_000, 1e-3 + 0.75e-6 + 1e-6), (100, 4e-7 + 1e-6), (0, 0.0)] {
        let have: Blocks = (1..5).map(|d| (0..size, vec![d])).collect();
        let asked = question(size, &have, &vec![(0..size, vec![0])]);
        let found = soonest(&asked, &asked.atoms(), &machine).0;
        assert!((found - expected).abs() <= 1e-9 * expected, "{size}: {found} is not {expected}");
        // One who holds all partials folds them first.
        let asked = question(size, &vec![(0..size, vec![1]), (0..size, vec![1, 2])], &vec![(0..size, vec![0])]);
        let alone = if size > 0 { size as f64 / 1e9 + 1e-6 } else { 0.0 };
        let found = soonest(&asked, &asked.atoms(), &machine).0;
        assert!((found - alone).abs() <= 1e-9 * alone, "{size}: {found} is not {alone}");
    }
}

/// Whatever prices it begins with, the sharpest bound proves no less than the first and no more than what suffices.
#[test]
fn sharper_prices_prove_more_and_not_too_much() {
    let s = S as f64;
    for (machine, suffices) in
        [(switch(4, 1e9), 2.0 * 3.0 / 4.0 * s / 1e9), (ring(&[1e9; 4]), 2.0 * 3.0 / 4.0 * s / 2e9)]
    {
        let asked = question(S, &partials(4), &vec![(0..S, all(4))]);
        let sharpest = sharpened(&asked, &asked.atoms(), &machine, &[]).0;
        assert!(sharpest <= suffices * (1.0 + 1e-9), "{sharpest} proves more than {suffices}, which suffices");
        // Without any prices to begin with it gets this far.
        assert!(sharpest >= 0.5 * suffices, "{sharpest} is far below {suffices}");
    }
}
