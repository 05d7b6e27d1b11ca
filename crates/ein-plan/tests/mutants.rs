//! The checker against every way to spoil one step.
//!
//! What a spoiled program means is worked out point by point, by what every device holds: an illegal read, a missing
//! link, a partial that is missing or there twice, a need unanswered. The checker must refuse every program of
//! which that is so; what it accepts must be as right as the program was before.

mod common;

use common::*;
use ein_plan::synthesis::{Aim, synthesize_for};
use ein_task::check::{check, check_rendezvous};
use ein_task::exchange::{Exchange, Need, PieceId, Program, Step};
use ein_task::machine::{DeviceId, Machine};
use ein_task::relation::Held;
use std::collections::BTreeMap;

/// What a device holds after a step: for every point the partials in it, and whether it is the finished value.
#[derive(Clone)]
struct Holds {
    device: DeviceId,
    points: BTreeMap<Vec<usize>, Vec<usize>>,
    finished: bool,
}

/// Why a program is wrong, if it is. Looks at points only; shares nothing with the checker.
fn wrong(exchange: &Exchange, program: &Program, machine: &Machine) -> Option<&'static str> {
    let blocks = &exchange.have.blocks;
    let partials = |p: &Vec<usize>| -> Vec<usize> {
        let within = |h: &Held| h.region.0.iter().zip(p).all(|(i, x)| (i.lo..i.hi).contains(x));
        (0..blocks.len()).filter(|&b| within(&blocks[b])).collect()
    };
    let mut held: Vec<Holds> = Vec::new();
    for (row, step) in program.steps.iter().enumerate() {
        if inputs(step).iter().any(|&p| p >= row) {
            return Some("a row that is not earlier");
        }
        held.push(match step {
            Step::Load { block, device } => {
                let Some(own) = blocks.get(*block) else { return Some("no such block") };
                if device.index() >= machine.len() || own.devices.iter().all(|d| d != *device) {
                    return Some("not held there");
                }
                let points: BTreeMap<_, _> = points(&own.region).into_iter().map(|p| (p, vec![*block])).collect();
                let finished = points.keys().all(|p| partials(p) == [*block]);
                Holds { device: *device, points, finished }
            }
            Step::Cut { piece, region } => {
                let from = &held[*piece];
                if region.is_empty() || region.0.iter().any(|i| i.hi > 1000) {
                    return Some("an empty cut, or far outside");
                }
                let cut: Option<BTreeMap<_, _>> =
                    points(region).into_iter().map(|p| from.points.get(&p).map(|b| (p, b.clone()))).collect();
                let Some(points) = cut else { return Some("a cut outside") };
                Holds { points, ..from.clone() }
            }
            Step::Move { piece, to } => {
                if machine.links.iter().all(|l| (l.from, l.to) != (held[*piece].device, *to)) {
                    return Some("no link");
                }
                Holds { device: *to, ..held[*piece].clone() }
            }
            Step::Fold { pieces } => {
                let Some(first) = pieces.first() else { return Some("nothing to fold") };
                let mut all = held[*first].clone();
                for &p in pieces {
                    let part = &held[p];
                    if part.device != all.device || part.finished || !part.points.keys().eq(all.points.keys()) {
                        return Some("a fold of unlike pieces");
                    }
                }
                for &p in &pieces[1..] {
                    all.points.iter_mut().for_each(|(at, b)| b.extend(&held[p].points[at]));
                }
                all.points.values_mut().for_each(|b| b.sort_unstable());
                all.finished = all.points.iter().all(|(p, b)| *b == partials(p));
                all
            }
            Step::Paste { pieces, region } => {
                let Some(first) = pieces.first() else { return Some("nothing to paste") };
                let mut all = Holds { points: BTreeMap::new(), ..held[*first].clone() };
                for &p in pieces {
                    let part = held[p].clone();
                    if part.device != all.device || part.finished != all.finished {
                        return Some("a paste of unlike pieces");
                    }
                    for (at, b) in part.points {
                        if all.points.insert(at, b).is_some() {
                            return Some("a paste of pieces that overlap");
                        }
                    }
                }
                if region.0.iter().any(|i| i.hi > 1000 || i.is_empty()) || !points(region).iter().eq(all.points.keys())
                {
                    return Some("a paste that does not fill its box");
                }
                all
            }
        });
    }
    if program.yields.len() != exchange.needs.len() {
        return Some("a need without a yield");
    }
    for (need, &id) in exchange.needs.iter().zip(&program.yields) {
        let Some(found) = held.get(id) else { return Some("no such row") };
        let whole = points(&need.region).iter().eq(found.points.keys());
        if found.device != need.device || !whole || !found.finished {
            return Some("a need that is not answered");
        }
        if found.points.iter().any(|(p, b)| *b != partials(p)) {
            return Some("a partial that is missing or there twice");
        }
    }
    None
}

/// Every program with one thing changed.
fn mutants(exchange: &Exchange, program: &Program, machine: &Machine) -> Vec<Program> {
    let mut mutants = Vec::new();
    let mut add = |change: &dyn Fn(&mut Program)| {
        let mut copy = program.clone();
        change(&mut copy);
        if copy != *program {
            mutants.push(copy);
        }
    };
    let devices = 0..=machine.len();
    for row in 0..program.steps.len() {
        let reads = inputs(&program.steps[row]);
        // The step is left out; what read it reads another.
        add(&|p| dropped(p, row, None));
        for &input in &reads {
            add(&|p| dropped(p, row, Some(input)));
        }
        // It reads something else, itself and later rows included.
        for n in 0..reads.len() {
            for other in (0..=row).chain([program.steps.len()]) {
                add(&|p| *inputs_mut(&mut p.steps[row])[n] = other);
            }
        }
        match &program.steps[row] {
            Step::Load { .. } => {
                for changed in 0..=exchange.have.blocks.len() {
                    add(&|p| {
                        if let Step::Load { block, .. } = &mut p.steps[row] {
                            *block = changed;
                        }
                    });
                }
                for changed in devices.clone() {
                    add(&|p| {
                        if let Step::Load { device, .. } = &mut p.steps[row] {
                            *device = d(changed);
                        }
                    });
                }
            }
            Step::Move { piece, .. } => {
                for changed in devices.clone() {
                    add(&|p| {
                        if let Step::Move { to, .. } = &mut p.steps[row] {
                            *to = d(changed);
                        }
                    });
                }
                // Not moved, but folded alone.
                add(&|p| p.steps[row] = Step::Fold { pieces: vec![*piece] });
            }
            Step::Cut { region, .. } | Step::Paste { region, .. } => {
                for axis in 0..region.rank() {
                    for (low, high) in
                        [(1, 0), (usize::MAX, 0), (0, 1), (0, usize::MAX), (1, 1), (usize::MAX, usize::MAX)]
                    {
                        add(&|p| {
                            if let Step::Cut { region, .. } | Step::Paste { region, .. } = &mut p.steps[row] {
                                let i = &mut region.0[axis];
                                (i.lo, i.hi) = (i.lo.wrapping_add(low), i.hi.wrapping_add(high));
                            }
                        });
                    }
                }
            }
            Step::Fold { .. } => {}
        }
        if let Step::Fold { pieces } | Step::Paste { pieces, .. } = &program.steps[row] {
            let list = |p: &mut Program, change: &dyn Fn(&mut Vec<PieceId>)| {
                if let Step::Fold { pieces } | Step::Paste { pieces, .. } = &mut p.steps[row] {
                    change(pieces);
                }
            };
            for n in 0..pieces.len() {
                add(&|p| list(p, &|v| v.insert(n, v[n])));
                add(&|p| list(p, &|v| without(v, n)));
                (0..n).for_each(|other| add(&|p| list(p, &|v| v.swap(n, other))));
                for more in 0..row {
                    add(&|p| list(p, &|v| v.insert(n, more)));
                }
            }
            add(&|p| list(p, &Vec::clear));
        }
    }
    for n in 0..program.yields.len() {
        (0..n).for_each(|other| add(&|p| p.yields.swap(n, other)));
        for other in 0..=program.steps.len() {
            add(&|p| p.yields[n] = other);
        }
        add(&|p| without(&mut p.yields, n));
        add(&|p| p.yields.insert(n, p.yields[n]));
    }
    mutants
}

fn without(pieces: &mut Vec<PieceId>, n: usize) {
    pieces.remove(n);
}

fn inputs(step: &Step) -> Vec<PieceId> {
    inputs_mut(&mut step.clone()).into_iter().map(|p| *p).collect()
}

fn inputs_mut(step: &mut Step) -> Vec<&mut PieceId> {
    match step {
        Step::Load { .. } => Vec::new(),
        Step::Cut { piece, .. } | Step::Move { piece, .. } => vec![piece],
        Step::Fold { pieces } | Step::Paste { pieces, .. } => pieces.iter_mut().collect(),
    }
}

/// Takes out a step; what read it reads `instead`, or whatever has its number now.
fn dropped(program: &mut Program, row: usize, instead: Option<PieceId>) {
    program.steps.remove(row);
    let rename = |p: &mut PieceId| {
        if *p == row {
            *p = instead.unwrap_or(row);
        } else if *p > row {
            *p -= 1;
        }
    };
    program.steps.iter_mut().flat_map(inputs_mut).chain(&mut program.yields).for_each(rename);
}

#[derive(Debug, Default)]
struct Count {
    programs: usize,
    refused: usize,
    /// Refused although no point is wrong: the checker asks for more, such as an order of folding.
    strict: usize,
    equivalent: usize,
    why: BTreeMap<&'static str, usize>,
}

fn spoil(exchange: &Exchange, program: &Program, machine: &Machine, count: &mut Count) {
    let context = || format!("{} on {}\n{program}", exchange.have, machine.name);
    assert_eq!(wrong(exchange, program, machine), None, "{}", context());
    let pieces = check(exchange, program, machine).unwrap_or_else(|e| panic!("{e}: {}", context()));
    check_rendezvous(program, &pieces, machine).unwrap_or_else(|e| panic!("{e}: {}", context()));
    count.programs += 1;
    for mutant in mutants(exchange, program, machine) {
        let accepted = check(exchange, &mutant, machine).is_ok();
        match (accepted, wrong(exchange, &mutant, machine)) {
            (false, None) => count.strict += 1,
            (false, Some(why)) => {
                count.refused += 1;
                *count.why.entry(why).or_default() += 1;
            }
            (true, None) => count.equivalent += 1,
            (true, Some(why)) => panic!("accepted: {why}\n{}\n{mutant}", context()),
        }
    }
}

#[test]
fn no_mutant_survives() {
    let mut count = Count::default();
    for seed in 0..60 {
        let mut random = Random::new(1000 + seed);
        let p = 2 + random.below(4);
        let exchange = question(&mut random, p);
        let machines =
            [switch(p, 100e9, 1e-6), cube(1e-6), cliques(p.div_ceil(2), 100e9, 10e9, 0.0), pairs(p), ring(p)];
        let machine = &machines[seed as usize % machines.len()];
        let mut programs: Vec<Program> =
            [Aim::Seconds, Aim::Bytes].map(|aim| synthesize_for(&exchange, machine, aim).unwrap()).into();
        programs.push(naive(&exchange, machine));
        programs.dedup();
        for program in programs.iter().filter(|p| p.steps.len() <= 60) {
            spoil(&exchange, program, machine, &mut count);
        }
    }
    for (exchange, machine, program) in written() {
        spoil(&exchange, &Program::parse(program).unwrap(), &machine, &mut count);
    }
    println!("{count:?}");
    assert!(count.programs > 100 && count.refused > 50_000, "{count:?}");
    // Each kind of wrong was there to be found.
    assert!(count.why.len() >= 12, "{count:?}");
}

/// Programs by hand: a ring that folds as it goes, halving, an owner with a relay, a window.
fn written() -> Vec<(Exchange, Machine, &'static str)> {
    let partials = |n: usize| -> Vec<Held> { (0..n).map(|b| held(&[(0, 4)], &[b])).collect() };
    let all = |devices: usize| -> Vec<Need> { needs(&[held(&[(0, 4)], &(0..devices).collect::<Vec<_>>())]) };
    vec![
        (
            Exchange { have: relation(&[4], partials(2)), needs: all(2) },
            switch(2, 1e9, 0.0),
            "%0 = load b0 at d0\n%1 = load b1 at d1\n%2 = cut %0 [2:4]\n%3 = cut %1 [0:2]\n%4 = move %2 -> d1\n\
             %5 = move %3 -> d0\n%6 = cut %0 [0:2]\n%7 = cut %1 [2:4]\n%8 = fold %6 %5\n%9 = fold %4 %7\n\
             %10 = move %8 -> d1\n%11 = move %9 -> d0\n%12 = paste %8 %11 [0:4]\n%13 = paste %10 %9 [0:4]\nyield %12 %13",
        ),
        (
            Exchange {
                have: relation(&[4], partials(3)),
                needs: needs(&[held(&[(0, 4)], &[2]), held(&[(1, 3)], &[0])]),
            },
            ring(3),
            "%0 = load b0 at d0\n%1 = move %0 -> d1\n%2 = load b1 at d1\n%3 = fold %1 %2\n%4 = move %3 -> d2\n\
             %5 = load b2 at d2\n%6 = fold %4 %5\n%7 = cut %6 [1:3]\n%8 = move %7 -> d0\nyield %6 %8",
        ),
        (
            // Across the host, where nothing is folded.
            Exchange { have: relation(&[4], partials(4)), needs: needs(&[held(&[(0, 4)], &[3])]) },
            pairs(4),
            "%0 = load b0 at d0\n%1 = move %0 -> d1\n%2 = load b1 at d1\n%3 = fold %1 %2\n%4 = move %3 -> d4\n\
             %5 = move %4 -> d3\n%6 = load b2 at d2\n%7 = move %6 -> d3\n%8 = load b3 at d3\n%9 = fold %5 %7 %8\nyield %9",
        ),
        (
            Exchange {
                have: relation(&[9], strips(&[9], 0, &[0, 1, 2])),
                needs: needs(&[held(&[(2, 7)], &[1]), held(&[(0, 4)], &[0]), held(&[(5, 9)], &[2])]),
            },
            switch(3, 1e9, 0.0),
            "%0 = load b0 at d0\n%1 = load b1 at d1\n%2 = load b2 at d2\n%3 = cut %0 [2:3]\n%4 = move %3 -> d1\n\
             %5 = cut %2 [6:7]\n%6 = move %5 -> d1\n%7 = paste %4 %1 %6 [2:7]\n%8 = cut %1 [3:4]\n%9 = move %8 -> d0\n\
             %10 = paste %0 %9 [0:4]\n%11 = cut %1 [5:6]\n%12 = move %11 -> d2\n%13 = paste %12 %2 [5:9]\nyield %7 %10 %13",
        ),
    ]
}
