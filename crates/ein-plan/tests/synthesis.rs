//! Known answers of exchange synthesis.

mod common;

use common::*;
use ein_plan::synthesis::synthesize;
use ein_task::check::{check as accept, check_rendezvous};
use ein_task::exchange::{Exchange, Program, Step};
use ein_task::machine::Machine;
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
    assert!(counted.seconds.0 >= counted.bound.0 * 0.999_999, "{counted:?}");
    (program, counted)
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
    println!("{} {}", counted.seconds, counted.bound);
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
