//! Random exchange questions: programs compute the right numbers, and broken ones are refused.

mod common;

use common::*;
use ein_plan::synthesis::{Aim, synthesize, synthesize_for};
use ein_task::check::{check, check_rendezvous};
use ein_task::exchange::{Exchange, PieceId, Program, Step};
use ein_task::machine::Machine;
use ein_task::traffic::{count, traffic};

fn machines(p: usize) -> Vec<Machine> {
    let mut all = vec![
        switch(p, 100e9, 1e-6),
        switch(p, 100e9, 0.0),
        cube(1e-6),
        cliques(p.div_ceil(2), 100e9, 10e9, 0.0),
        pairs(p),
        ring(p.max(2)),
    ];
    all[0].issue = ein_task::units::Seconds(1e-7);
    all
}

fn right(exchange: &Exchange, program: &Program) {
    for (got, need) in execute(exchange, program).iter().zip(&exchange.needs) {
        assert_eq!(*got, expected(exchange, need), "{}\n{program}", exchange.have);
    }
}

#[test]
fn random_questions() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let p = 1 + random.below(6);
        let exchange = question(&mut random, p);
        for machine in machines(p) {
            let crude = naive(&exchange, &machine);
            check(&exchange, &crude, &machine).unwrap_or_else(|e| panic!("{e}\n{crude}"));
            for aim in [Aim::Seconds, Aim::Bytes] {
                let program = synthesize_for(&exchange, &machine, aim).unwrap();
                let pieces = check(&exchange, &program, &machine).unwrap_or_else(|e| panic!("{e}\n{program}"));
                check_rendezvous(&program, &pieces, &machine).unwrap();
                right(&exchange, &program);
                assert_eq!(Program::parse(&program.annotated(&pieces)).as_ref(), Ok(&program));
                assert_eq!(synthesize_for(&exchange, &machine, aim).as_ref(), Ok(&program), "not repeatable");
                let (ours, theirs) = (traffic(&exchange, &program, &machine), count(&exchange, &crude, &machine));
                let at = format!(
                    "seed {seed} on {} for {aim:?}\n{}\n{program}\n{crude}\n{ours:?}\n{theirs:?}",
                    machine.name, exchange.have
                );
                assert!(ours.seconds.0 >= ours.bound.total().0 * 0.999_999, "below its bound: {at}");
                match aim {
                    Aim::Bytes => assert!(ours.bytes_total <= theirs.bytes_total, "{at}"),
                    Aim::Seconds => assert!(ours.seconds.0 <= theirs.seconds.0 * 1.002, "{at}"),
                }
            }
        }
    }
}

/// Every way to spoil one step. `true` marks those that no rule may let pass.
fn corruptions(exchange: &Exchange, program: &Program, machine: &Machine) -> Vec<(Program, bool)> {
    let mut spoiled = Vec::new();
    let mut add = |change: &dyn Fn(&mut Program), never: bool| {
        let mut copy = program.clone();
        change(&mut copy);
        if copy != *program {
            spoiled.push((copy, never));
        }
    };
    for row in 0..program.steps.len() {
        let inputs = inputs(&program.steps[row]);
        add(&|p| dropped(p, row, None), false);
        for &input in &inputs {
            add(&|p| dropped(p, row, Some(input)), false);
        }
        for n in 0..inputs.len() {
            add(&|p| *inputs_mut(&mut p.steps[row])[n] = row, true);
            for other in 0..row {
                add(&|p| *inputs_mut(&mut p.steps[row])[n] = other, false);
            }
        }
        match &program.steps[row] {
            Step::Load { .. } => {
                for b in 0..=exchange.have.blocks.len() {
                    let change = |p: &mut Program| {
                        if let Step::Load { block, .. } = &mut p.steps[row] {
                            *block = b;
                        }
                    };
                    add(&change, b == exchange.have.blocks.len());
                }
                for to in 0..=machine.len() {
                    let change = |p: &mut Program| {
                        if let Step::Load { device, .. } = &mut p.steps[row] {
                            *device = d(to);
                        }
                    };
                    add(&change, to == machine.len());
                }
            }
            Step::Move { .. } => {
                for far in 0..=machine.len() {
                    let change = |p: &mut Program| {
                        if let Step::Move { to, .. } = &mut p.steps[row] {
                            *to = d(far);
                        }
                    };
                    add(&change, far == machine.len());
                }
            }
            Step::Cut { region, .. } | Step::Paste { region, .. } => {
                let paste = matches!(program.steps[row], Step::Paste { .. });
                for axis in 0..region.rank() {
                    for (low, high) in [(1, 0), (0, 1), (usize::MAX, 0), (0, usize::MAX)] {
                        let change = |p: &mut Program| {
                            if let Step::Cut { region, .. } | Step::Paste { region, .. } = &mut p.steps[row] {
                                let i = &mut region.0[axis];
                                (i.lo, i.hi) = (i.lo.wrapping_add(low), i.hi.wrapping_add(high));
                            }
                        };
                        add(&change, paste);
                    }
                }
            }
            Step::Fold { .. } => {}
        }
        if let Step::Fold { pieces } | Step::Paste { pieces, .. } = &program.steps[row] {
            let fold = matches!(program.steps[row], Step::Fold { .. });
            let list = |p: &mut Program, change: &dyn Fn(&mut Vec<PieceId>)| {
                if let Step::Fold { pieces } | Step::Paste { pieces, .. } = &mut p.steps[row] {
                    change(pieces);
                }
            };
            for n in 0..pieces.len() {
                add(&|p| list(p, &|v| v.insert(n, v[n])), true);
                add(&|p| list(p, &|v| without(v, n)), true);
                if n > 0 {
                    add(&|p| list(p, &|v| v.swap(n - 1, n)), fold);
                }
            }
        }
    }
    for n in 0..program.yields.len() {
        for other in 0..n {
            add(&|p| p.yields.swap(n, other), exchange.needs[n] != exchange.needs[other]);
        }
        add(&|p| without(&mut p.yields, n), true);
        add(&|p| p.yields[n] = p.steps.len(), true);
    }
    spoiled
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

/// What is accepted must compute the right numbers, whatever was changed; much must not be accepted at all.
#[test]
fn corrupted_steps_are_refused() {
    let (mut refused, mut harmless) = (0, 0);
    for seed in 0..120 {
        let mut random = Random::new(1000 + seed);
        let p = 2 + random.below(4);
        let exchange = question(&mut random, p);
        let machines = machines(p);
        let machine = &machines[seed as usize % machines.len()];
        for program in [synthesize(&exchange, machine).unwrap(), naive(&exchange, machine)] {
            if program.steps.len() > 60 {
                continue;
            }
            check(&exchange, &program, machine).unwrap();
            for (spoiled, never) in corruptions(&exchange, &program, machine) {
                if check(&exchange, &spoiled, machine).is_err() {
                    refused += 1;
                    continue;
                }
                assert!(!never, "{}\n{program}\n{spoiled}", exchange.have);
                right(&exchange, &spoiled);
                harmless += 1;
            }
        }
    }
    println!("{refused} refused, {harmless} harmless");
    assert!(refused > 10_000 && harmless < refused / 10, "{refused} refused, {harmless} harmless");
}
