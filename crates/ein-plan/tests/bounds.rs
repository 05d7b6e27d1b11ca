//! No program is faster than its question's bound: not ours, not those of random routes and owners.

mod common;

use common::*;
use ein_plan::synthesis::{Aim, synthesize_for};
use ein_task::bounds::{Cuts, bound_with};
use ein_task::check::check;
use ein_task::exchange::{Exchange, Program, Step};
use ein_task::machine::{DeviceId, Link, Machine};
use ein_task::traffic::count;
use ein_task::units::Seconds;

/// Links at random, over resources of their own and over shared ones, some of them for both directions. A ring
/// keeps it in one piece; its last device may be a host.
fn drawn(random: &mut Random, devices: usize) -> Machine {
    let host = random.below(3) == 0;
    let mut machine = bare("drawn", if host { devices - 1 } else { devices }, host);
    let shared: Vec<usize> = (0..=random.below(5))
        .map(|n| {
            let width = (1 + random.below(20)) as f64 * 1e9;
            resource(&mut machine, &format!("shared{n}"), width)
        })
        .collect();
    let dense = random.below(4);
    for from in 0..devices {
        for to in (0..devices).filter(|&to| to != from) {
            let ring = (from + 1) % devices == to || (to + 1) % devices == from;
            if !ring && random.below(4) > dense {
                continue;
            }
            let mut resources = Vec::new();
            if random.below(3) > 0 {
                let width = (1 + random.below(20)) as f64 * 1e9;
                resources.push(resource(&mut machine, &format!("{from}-{to}"), width));
            }
            for &r in &shared {
                if resources.is_empty() || random.below(3) == 0 {
                    resources.push(r);
                }
            }
            let latency = Seconds(random.below(9) as f64 * 1e-6);
            machine.links.push(Link { from: d(from), to: d(to), resources, latency });
        }
    }
    machine.check().unwrap();
    machine
}

/// Moves a piece along a random way without circles.
fn wander(random: &mut Random, program: &mut Program, machine: &Machine, from: DeviceId, to: DeviceId) {
    let mut seen = vec![from];
    while seen[seen.len() - 1] != to {
        let at = seen[seen.len() - 1];
        let near: Vec<DeviceId> =
            machine.ids().filter(|&n| machine.link(at, n).is_some() && !seen.contains(&n)).collect();
        let straight = machine.path(at, to).unwrap();
        let open = straight.iter().skip(1).all(|n| !seen.contains(n));
        let next = if near.is_empty() || (open && random.below(2) == 0) {
            straight[1]
        } else {
            near[random.below(near.len())]
        };
        program.steps.push(Step::Move { piece: program.steps.len() - 1, to: next });
        seen.push(next);
    }
}

/// Every box folded at a random place and handed out from there, by random holders and ways.
fn owned(random: &mut Random, exchange: &Exchange, machine: &Machine) -> Program {
    let mut program = Program::default();
    let mut parts = vec![Vec::new(); exchange.needs.len()];
    for atom in exchange.atoms() {
        // Nothing is folded at a host.
        let owner = d(random.below(machine.workers().len()));
        let mut pieces = Vec::new();
        for &block in &atom.blocks {
            let holders: Vec<DeviceId> = exchange.have.blocks[block].devices.iter().collect();
            let device = holders[random.below(holders.len())];
            program.steps.push(Step::Load { block, device });
            program.steps.push(Step::Cut { piece: program.steps.len() - 1, region: atom.region.clone() });
            wander(random, &mut program, machine, device, owner);
            pieces.push(program.steps.len() - 1);
        }
        if !(pieces.len() == 1 && exchange.have.is_finished(atom.blocks[0])) {
            program.steps.push(Step::Fold { pieces });
        }
        let whole = program.steps.len() - 1;
        for (need, part) in exchange.needs.iter().zip(&mut parts) {
            // An atom may lie in several needs of one device.
            if let Some(region) = need.region.intersect(&atom.region) {
                program.steps.push(Step::Cut { piece: whole, region });
                wander(random, &mut program, machine, owner, need.device);
                part.push(program.steps.len() - 1);
            }
        }
    }
    for (need, pieces) in exchange.needs.iter().zip(parts) {
        program.steps.push(Step::Paste { pieces, region: need.region.clone() });
        program.yields.push(program.steps.len() - 1);
    }
    program
}

#[test]
fn no_program_beats_its_bound() {
    let mut over = Vec::new();
    let mut binding = std::collections::BTreeMap::new();
    for seed in 0..260 {
        let mut random = Random::new(31 + seed);
        let devices = if seed % 13 == 0 { 11 + random.below(3) } else { 2 + random.below(6) };
        let machine = drawn(&mut random, devices);
        let cuts = Cuts::of(&machine);
        for _ in 0..2 {
            let exchange = question(&mut random, machine.workers().len());
            let bound = bound_with(&cuts, &exchange, &exchange.atoms(), &machine);
            let mut programs = vec![naive(&exchange, &machine)];
            programs.extend((0..3).map(|_| owned(&mut random, &exchange, &machine)));
            programs.extend([Aim::Seconds, Aim::Bytes].map(|aim| synthesize_for(&exchange, &machine, aim).unwrap()));
            let mut best = f64::INFINITY;
            for program in &programs {
                check(&exchange, program, &machine).unwrap_or_else(|e| panic!("{e}\n{program}"));
                let counted = count(&exchange, program, &machine);
                let at = || format!("seed {seed}: {bound:?}\n{counted:?}\n{machine:?}\n{}\n{program}", exchange.have);
                assert!(counted.busiest.0 >= bound.bandwidth().0 * (1.0 - 1e-9), "{}", at());
                assert!(counted.latency.0 >= bound.latency.0 * (1.0 - 1e-9), "{}", at());
                assert!(counted.depth >= bound.depth, "{}", at());
                best = best.min(counted.busiest.0);
            }
            *binding.entry(bound.binds()).or_insert(0) += 1;
            if bound.bandwidth().0 > 0.0 {
                over.push(best / bound.bandwidth().0);
            }
        }
    }
    over.sort_by(f64::total_cmp);
    let tight = over.iter().filter(|o| **o < 1.001).count();
    println!("{tight} of {} reached, median {:.2}; {binding:?}", over.len(), over[over.len() / 2]);
    // The bounds are not idle: programs reach some of them, and each kind binds somewhere.
    assert!(tight > 60, "{tight} of {}", over.len());
    assert!(["port", "cut", "fold", "none"].iter().all(|kind| binding[kind] > 10), "{binding:?}");
}
