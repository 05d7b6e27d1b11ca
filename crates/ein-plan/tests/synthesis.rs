//! Known answers of exchange synthesis.

mod common;

use common::*;
use ein_plan::synthesis::synthesize;
use ein_task::check::{check as accept, check_rendezvous};
use ein_task::exchange::{Exchange, Program, Step};
use ein_task::flow;
use ein_task::machine::Machine;
use ein_task::program_time::transfers;
use ein_task::relation::Held;
use ein_task::traffic::{Traffic, traffic};

/// Synthesises, checks, prints and reads back, and counts.
fn answer(exchange: &Exchange, machine: &Machine) -> (Program, Traffic) {
    let program = synthesize(exchange, machine).unwrap();
    let pieces = accept(exchange, &program, machine).unwrap_or_else(|e| panic!("{e}\n{program}"));
    check_rendezvous(&program, &pieces, machine).unwrap();
    assert_eq!(Program::parse(&program.to_string()).as_ref(), Ok(&program));
    assert_eq!(Program::parse(&program.annotated(&pieces)).as_ref(), Ok(&program));
    let counted = traffic(exchange, &program, machine);
    assert!(counted.seconds.0 >= counted.bound.total().0 * 0.999_999, "{counted:?}");
    (program, counted)
}

/// When the last move arrives, local work being free.
fn simulated(exchange: &Exchange, program: &Program, machine: &Machine) -> f64 {
    let spans = flow::run(machine, &transfers(exchange, program, machine));
    spans.iter().map(|s| s.arrived).fold(0.0, f64::max)
}

/// What, devices, have, need, largest sent, depth.
type Row = (&'static str, usize, Vec<Held>, Vec<Held>, u64, usize);

fn all(p: usize) -> Vec<usize> {
    (0..p).collect()
}

fn partials(shape: &[usize], p: usize) -> Vec<Held> {
    let whole: Vec<(usize, usize)> = shape.iter().map(|&n| (0, n)).collect();
    (0..p).map(|n| held(&whole, &[n])).collect()
}

#[test]
fn bytes_per_device() {
    const S: u64 = 8 * 7 * 5 * 3 * 4096 * 4;
    let shape = [8 * 7 * 5 * 3, 4096];
    let whole = |devices: &[usize]| vec![held(&[(0, shape[0]), (0, shape[1])], devices)];
    let rows = |p: usize| strips(&shape, 0, &all(p));
    let columns = |p: usize| strips(&shape, 1, &all(p));
    let cases: Vec<Row> = vec![
        ("all-reduce", 8, partials(&shape, 8), whole(&all(8)), 2 * S * 7 / 8, 2),
        ("all-reduce of 3", 3, partials(&shape, 3), whole(&all(3)), 2 * S * 2 / 3, 2),
        ("reduce-scatter", 8, partials(&shape, 8), rows(8), S * 7 / 8, 1),
        ("all-gather", 8, rows(8), whole(&all(8)), S * 7 / 8, 1),
        ("all-to-all", 8, rows(8), columns(8), S / 8 * 7 / 8, 1),
        ("scatter", 8, whole(&[0]), rows(8), S * 7 / 8, 1),
        ("gather", 8, rows(8), whole(&[0]), S / 8, 1),
        ("broadcast", 8, whole(&[0]), whole(&all(8)), S, 2),
        ("replicated", 8, whole(&all(8)), rows(8), 0, 0),
        ("same", 7, rows(7), rows(7), 0, 0),
    ];
    for (what, p, have, need, sent, depth) in cases {
        let exchange = Exchange { have: relation(&shape, have), needs: needs(&need) };
        let (program, counted) = answer(&exchange, &switch(p, 300e9, 3e-6));
        let most = counted.sent.iter().map(|b| b.0).max().unwrap();
        assert_eq!((most, counted.depth), (sent, depth), "{what}\n{counted:?}\n{program}");
        assert_eq!(counted.bytes_total, counted.sent.iter().copied().sum(), "{what}");
    }
}

/// More bytes than 32 bits count, through synthesis, the checker, the counting page and the simulator. Nothing is allocated.
#[test]
fn bytes_beyond_four_gigabytes_are_exact() {
    const ROWS: usize = 8 * 196_609;
    const COLUMNS: usize = 4097;
    const S: u64 = (ROWS * COLUMNS * 4) as u64;
    assert_eq!(S, 25_776_226_336);
    let shape = [ROWS, COLUMNS];
    let whole = |devices: &[usize]| vec![held(&[(0, ROWS), (0, COLUMNS)], devices)];
    let rows = || strips(&shape, 0, &all(8));
    let cases: Vec<Row> = vec![
        ("all-gather", 8, rows(), whole(&all(8)), 7 * S, 1),
        ("reduce-scatter", 8, partials(&shape, 8), rows(), 7 * S, 1),
        ("all-reduce", 8, partials(&shape, 8), whole(&all(8)), 14 * S, 2),
        ("one to one", 2, whole(&[0]), whole(&[1]), S, 1),
    ];
    for (what, p, have, need, total, depth) in cases {
        let exchange = Exchange { have: relation(&shape, have), needs: needs(&need) };
        let machine = switch(p, 300e9, 3e-6);
        let (program, counted) = answer(&exchange, &machine);
        assert_eq!((counted.bytes_total.0, counted.depth), (total, depth), "{what}\n{program}");
        let moved: u64 = transfers(&exchange, &program, &machine).iter().map(|t| t.bytes).sum();
        assert_eq!(moved, total, "{what}");
        let busiest = counted.sent.iter().zip(&counted.received).map(|(s, r)| s.0.max(r.0)).max().unwrap();
        let seconds = simulated(&exchange, &program, &machine);
        assert!(seconds >= busiest as f64 / 300e9, "{what}: {seconds} s for {busiest} bytes");
        if what == "one to one" {
            let expected = S as f64 / 300e9 + 3e-6;
            assert!((seconds - expected).abs() < 1e-9 * expected, "{seconds} s, not {expected}");
        }
    }
    // Relays, folds on the way and unequal shares: what is moved is still counted to the byte.
    let exchange = Exchange { have: relation(&shape, partials(&shape, 8)), needs: needs(&whole(&all(8))) };
    let machine = Machine::by_name("dgx-1v").unwrap();
    let (program, counted) = answer(&exchange, &machine);
    let moved: u64 = transfers(&exchange, &program, &machine).iter().map(|t| t.bytes).sum();
    assert_eq!(counted.bytes_total.0, moved);
    assert!(moved >= 14 * S, "{moved} bytes are too few for eight devices");
}

#[test]
fn small_all_reduce_is_direct() {
    for (elements, depth) in [(4096, 1), (16 * 4096, 2), (1 << 20, 2)] {
        let exchange = Exchange {
            have: relation(&[elements], partials(&[elements], 8)),
            needs: needs(&[held(&[(0, elements)], &all(8))]),
        };
        let (_, counted) = answer(&exchange, &switch(8, 300e9, 3e-6));
        assert_eq!(counted.depth, depth, "{elements}: {counted:?}");
    }
}

#[test]
fn strip_to_strip() {
    let shape = [16_000, 15_625];
    let exchange =
        Exchange { have: relation(&shape, strips(&shape, 0, &all(8))), needs: needs(&strips(&shape, 1, &all(8))) };
    let (_, counted) = answer(&exchange, &switch(8, 300e9, 0.0));
    let seconds = counted.seconds.0;
    assert!((seconds - 0.365e-3).abs() < 0.001e-3, "{seconds}");
    assert_eq!(counted.bytes_total, counted.bytes_delivered);
    assert_eq!(counted.depth, 1);
    let (_, counted) = answer(&exchange, &cube(0.0));
    assert!(counted.seconds.0 < 2.5e-3, "{}", counted.seconds);
    assert!(counted.bytes_total > counted.bytes_delivered);
}

#[test]
fn slow_link_is_crossed_once() {
    let elements = 1 << 22;
    let machine = cliques(4, 100e9, 10e9, 1e-6);
    let exchange = Exchange {
        have: relation(&[elements], partials(&[elements], 8)),
        needs: needs(&[held(&[(0, elements)], &all(8))]),
    };
    let (program, counted) = answer(&exchange, &machine);
    let pieces = accept(&exchange, &program, &machine).unwrap();
    let crossing = |row: usize| match &program.steps[row] {
        Step::Move { piece, to } => (pieces[*piece].device.index() < 4) != (to.index() < 4),
        _ => false,
    };
    let crossed: usize = (0..program.steps.len()).filter(|&r| crossing(r)).map(|r| 4 * pieces[r].region.volume()).sum();
    assert_eq!(crossed, 2 * 4 * elements, "{counted:?}");
}

/// Every group folds a slice at a device of its own, these send each other what they have, and each hands out in its
/// group. By hand, a slice s = S/4 in four pieces: 3s over the ports and s over the adapters, the first and the last
/// piece of what crosses alone on its way, so 2 · 3(s/4)/300e9 + s/25e9 + 2 · 3 µs + 8 µs.
#[test]
fn groups_fold_for_themselves() {
    let elements = 1 << 16;
    let machine = nodes(2, 4, (300e9, 3e-6), (25e9, 8e-6));
    let exchange = Exchange {
        have: relation(&[elements], partials(&[elements], 8)),
        needs: needs(&[held(&[(0, elements)], &all(8))]),
    };
    let (program, counted) = answer(&exchange, &machine);
    let slice = elements as f64;
    let (took, by_hand) = (simulated(&exchange, &program, &machine), 1.5 * slice / 300e9 + slice / 25e9 + 14e-6);
    assert_eq!(counted.depth, 3, "{counted:?}");
    assert!(took <= by_hand, "{took} by hand {by_hand}\n{program}");
    let pieces = accept(&exchange, &program, &machine).unwrap();
    let (mut crossed, mut moves) = ([0, 0], std::collections::BTreeSet::new());
    for (row, step) in program.steps.iter().enumerate() {
        let Step::Move { piece, to } = step else { continue };
        let sent = &pieces[*piece];
        if (sent.device.index() < 4) != (to.index() < 4) {
            crossed[to.index() / 4] += sent.region.volume();
        }
        assert!(
            moves.insert((sent.region.clone(), sent.partials.clone(), sent.device, *to)),
            "%{row} again\n{program}"
        );
    }
    assert_eq!(crossed, [elements, elements]);
}

/// A gather: strips of s from the other group come over all adapters of the reader's and go on inside, by hand in four
/// pieces in s/25e9 + 8(s/4)/300e9 + 11 µs. Over the reader's own adapter they would take 8s/25e9.
#[test]
fn lone_readers_are_reached_by_rail() {
    let elements = 1 << 18;
    let machine = nodes(2, 8, (300e9, 3e-6), (25e9, 8e-6));
    let strips = strips(&[elements], 0, &all(16));
    let exchange = Exchange { have: relation(&[elements], strips), needs: needs(&[held(&[(0, elements)], &[0])]) };
    let (program, _) = answer(&exchange, &machine);
    let strip = elements as f64 / 4.0;
    let (took, by_hand) = (simulated(&exchange, &program, &machine), strip / 25e9 + 2.0 * strip / 300e9 + 11e-6);
    assert!(took <= by_hand, "{took} by hand {by_hand}");
}

/// Neighbours in two groups exchange a strip's margin over all adapters. Over their own two it would take s/25e9.
#[test]
fn margins_cross_by_rail() {
    let (elements, margin) = (1 << 24, 1 << 17);
    let machine = nodes(2, 8, (300e9, 3e-6), (25e9, 8e-6));
    let strips = strips(&[elements], 0, &all(16));
    let wider = |h: &Held| {
        let i = h.region.0[0];
        held(&[(i.lo.saturating_sub(margin), (i.hi + margin).min(elements))], &[h.devices.lowest().unwrap().index()])
    };
    let wanted: Vec<Held> = strips.iter().map(wider).collect();
    let exchange = Exchange { have: relation(&[elements], strips), needs: needs(&wanted) };
    let (program, _) = answer(&exchange, &machine);
    let (took, s) = (simulated(&exchange, &program, &machine), 4.0 * margin as f64);
    assert!(took <= 0.6 * s / 25e9 + 14e-6, "{took} for {s} bytes");
}

/// What a link passes on goes between the pieces of what ends there: relayouts on the cube mesh, whose links are full
/// of both, come near to the bound.
#[test]
fn long_transfers_keep_no_link_from_what_is_passed_on() {
    let machine = Machine::by_name("dgx-1v").unwrap();
    let shape = [7 * 8 * 96, 2048];
    for (from, to) in [(7, 8), (6, 7)] {
        let (have, need) = (strips(&shape, 0, &all(from)), strips(&shape, 0, &all(to)));
        let exchange = Exchange { have: relation(&shape, have), needs: needs(&need) };
        let machine = Machine { issue: ein_task::units::Seconds(0.0), ..machine.clone() };
        let (program, _) = answer(&exchange, &machine);
        let bound = ein_plan::synthesis::bound(&exchange, &machine).unwrap().bandwidth().0;
        let took = simulated(&exchange, &program, &machine);
        assert!(took <= 1.1 * bound + 16e-6, "{from} to {to}: {took}, bound {bound}");
    }
}

/// Where moves take time to issue, what is passed on is cut so that neither the pieces on their way nor their number
/// cost much: a gibibyte from five devices to six, and back, over a cube mesh whose links are all full.
#[test]
fn every_leg_is_cut_as_finely_as_it_should_be() {
    let machine = Machine::by_name("dgx-1v").unwrap();
    let machine = Machine { issue: ein_task::units::Seconds(1e-6), ..machine };
    let shape = [1 << 14, 1 << 14];
    for (from, to) in [(5, 6), (6, 5)] {
        let (have, need) = (strips(&shape, 0, &all(from)), strips(&shape, 0, &all(to)));
        let exchange = Exchange { have: relation(&shape, have), needs: needs(&need) };
        let (program, _) = answer(&exchange, &machine);
        let bound = ein_plan::synthesis::bound(&exchange, &machine).unwrap().bandwidth().0;
        let took = simulated(&exchange, &program, &machine);
        assert!(took <= 1.1 * bound + 2.0 * 9e-6, "{from} to {to}: {took}, bound {bound}");
    }
}

/// Where there is no link, a value takes the way by which it arrives first beside what else the links carry: two ways of
/// two links from one device to another are taken when both are free, and none waits for the other.
#[test]
fn relays_that_are_free_are_taken() {
    let machine = Machine::by_name("dgx-1v").unwrap();
    let machine = Machine { issue: ein_task::units::Seconds(1e-6), ..machine };
    for rows in [64, 128] {
        let shape = [rows, rows];
        let (have, need) = (strips(&shape, 0, &all(7)), strips(&shape, 0, &all(2)));
        let exchange = Exchange { have: relation(&shape, have), needs: needs(&need) };
        let (program, counted) = answer(&exchange, &machine);
        // 4 to 1 by way of 0, whose second link is the slowest of all that are needed.
        let bytes = shape[0].div_ceil(7) as f64 * (shape[1] * 4) as f64;
        let direct = 2.0 * (1e-6 + 3e-6) + bytes / 50e9 + bytes / 25e9;
        let took = simulated(&exchange, &program, &machine);
        assert!(took <= direct * 1.001, "{rows}: {took} and by hand {direct}, depth {}", counted.depth);
    }
}

/// A host passes partials on one by one, beside the links between devices that fold: it takes its part of a fold for
/// single readers.
#[test]
fn hosts_carry_part_of_a_fold() {
    let machine = Machine::by_name("8xa100-host").unwrap();
    let machine = Machine { issue: ein_task::units::Seconds(0.0), ..machine };
    let shape = [8 * 4096, 2048];
    let exchange = Exchange { have: relation(&shape, partials(&shape, 8)), needs: needs(&strips(&shape, 0, &all(8))) };
    let (program, _) = answer(&exchange, &machine);
    let direct = 7.0 / 8.0 * (shape[0] * shape[1] * 4) as f64 / 300e9;
    let took = simulated(&exchange, &program, &machine);
    assert!(took < 0.99 * direct, "{took} and directly {direct}");
}

#[test]
fn few_bytes_and_few_moves() {
    let halo = |shape: &[usize], p: usize, width: usize| {
        let mut strips = strips(shape, 0, &all(p));
        for strip in &mut strips {
            let i = &mut strip.region.0[0];
            (i.lo, i.hi) = (i.lo.saturating_sub(width), (i.hi + width).min(shape[0]));
        }
        strips
    };
    // 10 rows over 8 are 1,1,1,2,1,1,1,2: with two on each side the devices lack 2,3,4,4,4,4,4,2 of them.
    // 15 rows over 3 end at 5,10,15 and over 5 at 3,6,9,12,15: the five lack 0,2,3,3,3, the three 2,4,5.
    let cases = [
        ("halo of one row", strips(&[16, 8], 0, &all(4)), halo(&[16, 8], 4, 1), [16, 8], 4, 6 * 8 * 4, 6),
        ("halo across two neighbours", strips(&[10, 1], 0, &all(8)), halo(&[10, 1], 8, 2), [10, 1], 8, 27 * 4, 24),
        ("3 to 5", strips(&[15, 7], 0, &all(3)), strips(&[15, 7], 0, &all(5)), [15, 7], 5, 11 * 7 * 4, 5),
        ("5 to 3", strips(&[15, 7], 0, &all(5)), strips(&[15, 7], 0, &all(3)), [15, 7], 5, 11 * 7 * 4, 5),
        (
            "two needs of one device share",
            strips(&[8, 2], 0, &[0]),
            vec![held(&[(0, 6), (0, 2)], &[1]), held(&[(2, 8), (0, 2)], &[1]), held(&[(3, 4), (0, 1)], &[1])],
            [8, 2],
            2,
            8 * 2 * 4,
            2,
        ),
        (
            "partials of one device leave it folded",
            vec![held(&[(0, 4), (0, 4)], &[0]), held(&[(0, 4), (0, 4)], &[0]), held(&[(0, 4), (0, 4)], &[1])],
            vec![held(&[(0, 4), (0, 4)], &[1])],
            [4, 4],
            2,
            16 * 4,
            1,
        ),
        (
            "replicated partials are taken from the reader",
            vec![held(&[(0, 4), (0, 4)], &[0, 1]), held(&[(0, 4), (0, 4)], &[1, 2])],
            vec![held(&[(0, 4), (0, 4)], &[1])],
            [4, 4],
            3,
            0,
            0,
        ),
    ];
    for (what, have, need, shape, p, bytes, moves) in cases {
        let exchange = Exchange { have: relation(&shape, have), needs: needs(&need) };
        let (program, counted) = answer(&exchange, &switch(p, 300e9, 3e-6));
        assert_eq!((counted.bytes_total.0, counted.moves), (bytes, moves), "{what}\n{program}");
    }
}

#[test]
fn absent_links_are_not_used() {
    // 0-1 and 2-3 are linked, 1-2 is not: across, everything goes through the host. `answer` has the
    // checker refuse an absent link.
    let machine = pairs(4);
    for (have, need) in [
        (strips(&[8, 8], 0, &all(4)), strips(&[8, 8], 1, &all(4))),
        (partials(&[8, 8], 4), vec![held(&[(0, 8), (0, 8)], &all(4))]),
        (partials(&[8, 8], 4), vec![held(&[(0, 8), (0, 8)], &[4])]),
        (vec![held(&[(0, 8), (0, 8)], &[1])], vec![held(&[(0, 8), (0, 8)], &[2])]),
    ] {
        let exchange = Exchange { have: relation(&[8, 8], have), needs: needs(&need) };
        let (program, _) = answer(&exchange, &machine);
        let pieces = accept(&exchange, &program, &machine).unwrap();
        for (step, piece) in program.steps.iter().zip(&pieces) {
            assert!(
                !(matches!(step, Step::Fold { .. }) && piece.device.0 == 4),
                "the host does not compute\n{program}"
            );
        }
    }
}

#[test]
fn questions_without_an_answer() {
    let islands = || {
        let mut machine = bare("islands", 4, false);
        cable(&mut machine, 0, 1, 1e9, 0.0);
        cable(&mut machine, 2, 3, 1e9, 0.0);
        machine
    };
    let cases = [
        (vec![held(&[(0, 4)], &[0])], held(&[(2, 2)], &[1]), "need 0 at d1 is the empty box [2:2]"),
        (
            vec![held(&[(0, 4)], &[0])],
            held(&[(2, 5)], &[1]),
            "need 0 at d1 is [2:5], which is not inside the tensor's [0:4]",
        ),
        (vec![held(&[(0, 4)], &[0])], held(&[(2, 4)], &[5]), "d5 is named, but the machine `islands` has 4 devices"),
        (vec![held(&[(0, 3)], &[0])], held(&[(2, 4)], &[1]), "[3:4] is needed at {1}, but no block contains it"),
        (vec![held(&[(0, 4)], &[0, 1])], held(&[(2, 4)], &[2]), "no links lead from {0,1} to d2"),
        (partials(&[4], 2), held(&[(2, 4)], &[2]), "no links lead from {0} to d2"),
    ];
    for (have, need, expected) in cases {
        let exchange = Exchange { have: relation(&[4], have), needs: needs(&[need]) };
        assert_eq!(synthesize(&exchange, &islands()).unwrap_err().to_string(), expected);
    }
}

/// Seconds that this thread has run, whatever else the host does (Linux).
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0) * 1e-9
}

/// Synthesis is called tens of thousands of times by a search: time it in release with `--ignored`.
#[test]
#[ignore = "a measurement"]
fn speed() {
    let shape = [4096, 4096];
    for p in [4, 8, 16] {
        for (what, have, need) in [
            ("strips", strips(&shape, 0, &all(p)), strips(&shape, 1, &all(p))),
            ("same", strips(&shape, 0, &all(p)), strips(&shape, 0, &all(p))),
            ("all-gather", strips(&shape, 0, &all(p)), vec![held(&[(0, 4096), (0, 4096)], &all(p))]),
            ("all-reduce", partials(&shape, p), vec![held(&[(0, 4096), (0, 4096)], &all(p))]),
            ("reduce-scatter", partials(&shape, p), strips(&shape, 0, &all(p))),
        ] {
            let exchange = Exchange { have: relation(&shape, have), needs: needs(&need) };
            let machine = switch(p, 300e9, 3e-6);
            let start = processor_seconds();
            for _ in 0..1000 {
                std::hint::black_box(synthesize(&exchange, &machine).unwrap());
            }
            println!("{p} devices, {what}: {:.1} µs", (processor_seconds() - start) * 1e3);
        }
    }
}
