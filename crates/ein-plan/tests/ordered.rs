//! Exchanges of a monoid that is ordered: partials are folded in the order of the axis, whatever the numbers of their
//! blocks are, and only neighbours with each other.

mod common;

use common::*;
use ein_ir::dtype::DType;
use ein_ir::monoid::Monoid;
use ein_ir::region::{Interval, Region};
use ein_plan::synthesis::{Aim, naive, synthesize_for};
use ein_task::check::{CheckError, Fault, check, check_rendezvous};
use ein_task::exchange::{Exchange, Need, Program, Step};
use ein_task::machine::{DeviceId, Machine};
use ein_task::relation::{Held, Relation};
use ein_task::traffic::{count, traffic};
use std::collections::BTreeMap;

fn affine(shape: &[usize], blocks: Vec<Held>, places: Vec<Interval>) -> Relation {
    Relation { places, ..relation_of(shape, Monoid::Affine, DType::F32, blocks) }
}

/// A random question: what a random decomposition of a label space leaves whose last label is folded in order, in a
/// random order of blocks; some are replicated. Needs are boxes of every kind.
fn question(random: &mut Random, devices: usize) -> Exchange {
    let rank = random.below(3);
    let shape: Vec<usize> = (0..rank).map(|_| 1 + random.below(6)).collect();
    let labels = Region::whole(&[&shape[..], &[1 + random.below(9)]].concat());
    let count = 1 + random.below(2 * devices);
    let mut cuts = recursive(random, labels, count);
    for n in (1..cuts.len()).rev() {
        cuts.swap(n, random.below(n + 1));
    }
    let some = |random: &mut Random, most: usize| (0..=random.below(most)).map(|_| d(random.below(devices))).collect();
    let axes: Vec<usize> = (0..rank).collect();
    let blocks = cuts.iter().map(|c| Held { region: c.project(&axes), devices: some(random, 2) }).collect();
    let places = cuts.iter().map(|c| c.0[rank]).collect();
    let whole = Region::whole(&shape);
    let any = |random: &mut Random| {
        let interval = |&n: &usize| {
            let lo = random.below(n);
            Interval::new(lo, lo + 1 + random.below(n - lo))
        };
        Region(shape.iter().map(interval).collect())
    };
    let needs = match random.below(4) {
        0 => (0..devices).map(|n| Need { device: d(n), region: whole.clone() }).collect(),
        1 => {
            let parts = recursive(random, whole, devices);
            parts.into_iter().map(|region| Need { device: d(random.below(devices)), region }).collect()
        }
        2 => vec![Need { device: d(random.below(devices)), region: whole }],
        _ => (0..=random.below(6)).map(|_| Need { device: d(random.below(devices)), region: any(random) }).collect(),
    };
    Exchange { have: affine(&shape, blocks, places), needs }
}

fn machines(p: usize) -> Vec<Machine> {
    vec![switch(p, 100e9, 1e-6), cube(1e-6), cliques(p.div_ceil(2), 100e9, 10e9, 0.0), pairs(p), ring(p.max(2))]
}

/// A map, its scale and shift modulo a prime.
type Map = (i64, i64);

const PRIME: i64 = 1_000_003;

/// `next` applied to what `first` gives.
fn after(first: Map, next: Map) -> Map {
    (first.0 * next.0 % PRIME, (next.0 * first.1 + next.1) % PRIME)
}

fn map(block: usize, point: &[usize]) -> Map {
    let of = |salt: usize| 2 + datum(block + salt, point).rem_euclid(PRIME - 2);
    (of(0), of(1000))
}

/// What a device holds after a step: for every point a map.
type Maps = (DeviceId, BTreeMap<Vec<usize>, Map>);

/// Executes a program without looking at anything but steps and data.
fn execute(exchange: &Exchange, program: &Program) -> Vec<Maps> {
    let mut stored: Vec<Maps> = Vec::new();
    for step in &program.steps {
        let next = match step {
            Step::Load { block, device } => {
                let all = points(&exchange.have.blocks[*block].region).into_iter();
                (*device, all.map(|p| (p.clone(), map(*block, &p))).collect())
            }
            Step::Cut { piece, region } => {
                let (device, maps) = &stored[*piece];
                (*device, points(region).into_iter().map(|p| (p.clone(), maps[&p])).collect())
            }
            Step::Move { piece, to } => (*to, stored[*piece].1.clone()),
            Step::Fold { pieces } => {
                let mut all = stored[pieces[0]].clone();
                for &p in &pieces[1..] {
                    all.1.iter_mut().for_each(|(point, map)| *map = after(*map, stored[p].1[point]));
                }
                all
            }
            Step::Paste { pieces, .. } => {
                let maps = pieces.iter().flat_map(|&p| stored[p].1.clone()).collect();
                (stored[pieces[0]].0, maps)
            }
        };
        stored.push(next);
    }
    program.yields.iter().map(|&p| stored[p].clone()).collect()
}

/// What a need must hold: of every point the maps of all blocks that contain it, in the order of their places.
fn expected(exchange: &Exchange, need: &Need) -> Maps {
    let have = &exchange.have;
    let value = |p: &Vec<usize>| {
        let at = Region(p.iter().map(|&x| Interval::new(x, x + 1)).collect());
        let mut blocks = have.partials(&at);
        blocks.sort_by_key(|&b| (have.places[b].lo, have.places[b].hi));
        blocks.into_iter().map(|b| map(b, p)).reduce(after).expect("a block")
    };
    (need.device, points(&need.region).into_iter().map(|p| (p.clone(), value(&p))).collect())
}

fn right(exchange: &Exchange, program: &Program) -> bool {
    execute(exchange, program).iter().zip(&exchange.needs).all(|(got, need)| *got == expected(exchange, need))
}

#[test]
fn random_questions_keep_the_order() {
    let (mut folds, mut runs) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let p = 1 + random.below(8);
        let exchange = question(&mut random, p);
        for machine in machines(p) {
            let crude = naive(&exchange, &machine).unwrap();
            check(&exchange, &crude, &machine).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{crude}"));
            assert!(right(&exchange, &crude), "seed {seed}\n{crude}");
            for aim in [Aim::Seconds, Aim::Bytes, Aim::Buffers] {
                let program = synthesize_for(&exchange, &machine, aim).unwrap();
                let at = || format!("seed {seed} on {} for {aim:?}\n{}\n{program}", machine.name, exchange.have);
                let pieces = check(&exchange, &program, &machine).unwrap_or_else(|e| panic!("{e}: {}", at()));
                check_rendezvous(&program, &pieces, &machine).unwrap_or_else(|e| panic!("{e}: {}", at()));
                assert!(right(&exchange, &program), "{}", at());
                let (ours, theirs) = (traffic(&exchange, &program, &machine), count(&exchange, &crude, &machine));
                assert!(ours.seconds.0 >= ours.bound.total().0 * 0.999_999, "below its bound: {}", at());
                match aim {
                    Aim::Bytes => assert!(ours.bytes_total <= theirs.bytes_total, "{}", at()),
                    Aim::Seconds => assert!(ours.seconds.0 <= theirs.seconds.0, "{}", at()),
                    Aim::Buffers => {}
                }
                for (step, piece) in program.steps.iter().zip(&pieces) {
                    let Step::Fold { .. } = step else { continue };
                    folds += 1;
                    runs += usize::from(!piece.finished);
                }
            }
        }
    }
    // Some runs are folded on the way.
    assert!(folds > 2000 && runs > 100, "{folds} folds, {runs} of runs");
}

/// Whatever is done to one step: what the checker accepts still gives the right numbers.
#[test]
fn no_mutant_that_breaks_the_order_survives() {
    let (mut refused, mut apart) = (0, 0);
    for seed in 0..120 {
        let mut random = Random::new(5000 + seed);
        let p = 2 + random.below(5);
        let exchange = question(&mut random, p);
        let all = machines(p);
        let machine = &all[seed as usize % all.len()];
        let programs = [synthesize_for(&exchange, machine, Aim::Seconds), naive(&exchange, machine)];
        for program in programs.into_iter().map(Result::unwrap).filter(|p| p.steps.len() < 80) {
            let mut judge = |mutant: &Program| match check(&exchange, mutant, machine) {
                Ok(_) => assert!(right(&exchange, mutant), "accepted: {}\n{mutant}", exchange.have),
                Err(error) => {
                    refused += 1;
                    let fault = |error: &CheckError| matches!(error, CheckError::Step { fault: Fault::Apart(..), .. });
                    apart += usize::from(fault(&error));
                }
            };
            for row in 0..program.steps.len() {
                let mut change = |f: &dyn Fn(&mut Step)| {
                    let mut mutant = program.clone();
                    f(&mut mutant.steps[row]);
                    judge(&mutant);
                };
                match &program.steps[row] {
                    Step::Fold { pieces } => {
                        let of = |step: &mut Step, f: &dyn Fn(&mut Vec<usize>)| match step {
                            Step::Fold { pieces } => f(pieces),
                            other => panic!("not a fold: {other}"),
                        };
                        for a in 0..pieces.len() {
                            change(&|s| of(s, &|p| _ = p.remove(a)));
                            (0..a).for_each(|b| change(&|s| of(s, &|p| p.swap(a, b))));
                            (0..row).for_each(|other| change(&|s| of(s, &|p| p[a] = other)));
                        }
                        change(&|s| of(s, &|p| p.reverse()));
                        change(&|s| of(s, &|p| p.rotate_left(1)));
                    }
                    Step::Load { device, .. } => {
                        for block in 0..exchange.have.blocks.len() {
                            change(&|s| *s = Step::Load { block, device: *device });
                        }
                    }
                    Step::Cut { .. } | Step::Move { .. } | Step::Paste { .. } => {}
                }
            }
        }
    }
    assert!(refused > 5000 && apart > 500, "{refused} refused, {apart} of them for the order");
}

/// Blocks 0 to 3 are the parts 2, 0, 3 and 1 of the axis, at the devices of their numbers.
fn four() -> Exchange {
    let blocks = (0..4).map(|b| held(&[(0, 4)], &[b])).collect();
    let places = [(4, 6), (0, 2), (6, 9), (2, 4)].map(|(lo, hi)| Interval::new(lo, hi)).to_vec();
    Exchange { have: affine(&[4], blocks, places), needs: needs(&[held(&[(0, 4)], &[0])]) }
}

/// The checker's word on a fold at device 0 of what is loaded there: `ok`, or what is wrong.
fn verdict(exchange: &Exchange, folds: &str) -> String {
    let machine = switch(4, 1e9, 0.0);
    let loads = "%0 = load b0 at d0\n%1 = load b1 at d1\n%2 = load b2 at d2\n%3 = load b3 at d3\n%4 = move %1 -> d0\n\
                 %5 = move %2 -> d0\n%6 = move %3 -> d0\n";
    let program = Program::parse(&format!("{loads}{folds}")).unwrap();
    check(exchange, &program, &machine).map_or_else(|e| e.to_string(), |_| "ok".into())
}

#[test]
fn only_neighbours_are_folded() {
    let rows = [
        ("%7 = fold %4 %6 %0 %5\nyield %7", "ok"),
        ("%7 = fold %4 %6\n%8 = fold %0 %5\n%9 = fold %7 %8\nyield %9", "ok"),
        ("%7 = fold %6 %0\n%8 = fold %4 %7 %5\nyield %8", "ok"),
        // In the order of the numbers.
        (
            "%7 = fold %0 %4 %5 %6\nyield %7",
            "%7 = fold %0 %4 %5 %6: not one right behind the other along the folded axis",
        ),
        ("%7 = fold %6 %4 %0 %5\nyield %7", "%7 = fold %6 %4 %0 %5: not one right behind the other"),
        // A gap, and the gap filled.
        ("%7 = fold %4 %0\n%8 = fold %7 %6 %5\nyield %8", "%7 = fold %4 %0: not one right behind the other"),
        ("%7 = fold %4 %6\n%8 = fold %7 %5\nyield %8", "%8 = fold %7 %5: not one right behind the other"),
        // Runs that are swapped.
        (
            "%7 = fold %4 %6\n%8 = fold %0 %5\n%9 = fold %8 %7\nyield %9",
            "%9 = fold %8 %7: not one right behind the other",
        ),
        ("%7 = fold %4 %6\nyield %7", "not finished"),
    ];
    for (folds, expected) in rows {
        let found = verdict(&four(), folds);
        assert!(found.contains(expected) && (expected == "ok") == (found == "ok"), "{folds}\n{found}");
    }
    // Where nobody knows the order nothing is folded.
    let mut exchange = four();
    exchange.have.places.clear();
    assert!(verdict(&exchange, rows[0].0).contains("where along the folded axis is partial 1"));
}

/// On a ring whose neighbours hold neighbouring parts, runs are folded on the way; where they do not, what is no neighbour
/// travels beside.
#[test]
fn trees_go_over_runs() {
    let p = 8;
    let machine = ring(p);
    let bytes = |order: &[usize]| {
        let place = |n: usize| order.iter().position(|&d| d == n).expect("a permutation");
        let blocks = (0..p).map(|b| held(&[(0, 1 << 20)], &[b])).collect();
        let places = (0..p).map(|b| Interval::new(place(b), place(b) + 1)).collect();
        let exchange =
            Exchange { have: affine(&[1 << 20], blocks, places), needs: needs(&[held(&[(0, 1 << 20)], &[0])]) };
        let program = synthesize_for(&exchange, &machine, Aim::Bytes).unwrap();
        check(&exchange, &program, &machine).unwrap_or_else(|e| panic!("{e}\n{program}"));
        count(&exchange, &program, &machine).bytes_total.0
    };
    let (along, across) = (bytes(&[4, 5, 6, 7, 0, 1, 2, 3]), bytes(&[0, 4, 1, 5, 2, 6, 3, 7]));
    // Seven maps of 8 MiB, each over one link: 4 to 7 come from one side, 1 to 3 from the other.
    assert_eq!(along, 7 * (8 << 20));
    assert!(across > along, "{across}");
}
