use super::*;
use crate::machine::{Device, DeviceKind, Link, Resource};
use crate::rates::{Products, Turns};
use crate::relation::{Held, Relation};
use crate::traffic::traffic;
use crate::units::{Bytes, Seconds};
use ein_ir::dtype::DType;
use ein_ir::monoid::{Form, Monoid};

/// Three devices; links 0-1 and 1-2, both ways, 1 GB/s and 1 ms each.
fn line() -> Machine {
    let device = |n: u16| Device {
        name: format!("gpu{n}"),
        kind: DeviceKind::Gpu,
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
    let mut machine = Machine {
        name: "line".into(),
        devices: (0..3).map(device).collect(),
        resources: Vec::new(),
        links: Vec::new(),
        issue: Seconds(1e-6),
        processors: None,
        turns: Turns::default(),
    };
    for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
        machine.resources.push(Resource { name: format!("{from}-{to}"), bandwidth: 1e9 });
        let resources = vec![machine.resources.len() - 1];
        machine.links.push(Link { from: DeviceId(from), to: DeviceId(to), resources, latency: Seconds(1e-3) });
    }
    machine
}

/// `[0:4]` finished at 0 and 1; `[4:8]` in three partials, of which the last lacks `[4:6]`.
fn question(needs: &[(u16, usize, usize)]) -> Exchange {
    let held = |lo, hi, devices: &[u16]| Held {
        region: Region::of(&[(lo, hi)]),
        devices: devices.iter().map(|&d| DeviceId(d)).collect(),
    };
    Exchange {
        have: Relation {
            whole: Region::of(&[(0, 8)]),
            monoid: Monoid::Sum,
            pending: Form::finished(DType::F32, 1),
            finished: Form::finished(DType::F32, 1),
            blocks: vec![held(0, 4, &[0, 1]), held(4, 8, &[0]), held(4, 8, &[1]), held(6, 8, &[1])],
            places: Vec::new(),
        },
        needs: needs.iter().map(|&(d, lo, hi)| Need { device: DeviceId(d), region: Region::of(&[(lo, hi)]) }).collect(),
    }
}

/// The checker's message on a program, or `ok`.
fn verdict(needs: &[(u16, usize, usize)], program: &str) -> String {
    let lines: Vec<&str> = program.split(';').map(str::trim).collect();
    let program = Program::parse(&lines.join("\n")).unwrap();
    let exchange = question(needs);
    match check(&exchange, &program, &line()).and_then(|p| check_rendezvous(&program, &p, &line())) {
        Ok(()) => "ok".into(),
        Err(e) => e.to_string(),
    }
}

/// Needs, program, message.
type Row = (&'static [(u16, usize, usize)], String, &'static str);

#[test]
fn rules() {
    let one = "%0 = load b1 at d0; %1 = move %0 -> d1; %2 = load b2 at d1;";
    let rows: Vec<Row> = vec![
        (&[(0, 0, 4)], "%0 = load b0 at d0; yield %0".into(), "ok"),
        (&[(2, 1, 3)], "%0 = load b0 at d1; %1 = cut %0 [1:3]; %2 = move %1 -> d2; yield %2".into(), "ok"),
        (&[(1, 4, 6)], format!("{one} %3 = cut %1 [4:6]; %4 = cut %2 [4:6]; %5 = fold %3 %4; yield %5"), "ok"),
        (
            &[(1, 4, 6)],
            format!("{one} %3 = fold %1 %2; %4 = cut %3 [4:6]; yield %4"),
            "need 0 of [4:6] at d1: not finished: [4:6] at d1, partials [1, 2]",
        ),
        (
            // Two folds of the two parts of [4:8], which different partials cover, pasted once finished.
            &[(1, 4, 8)],
            format!(
                "{one} %3 = cut %1 [4:6]; %4 = cut %2 [4:6]; %5 = fold %3 %4; %6 = cut %1 [6:8]; %7 = cut %2 [6:8]; \
                 %8 = load b3 at d1; %9 = fold %6 %7 %8; %10 = paste %5 %9 [4:8]; yield %10"
            ),
            "ok",
        ),
        (&[], "%0 = load b4 at d0; yield".into(), "step %0 = load b4 at d0: there is no block 4"),
        (
            &[],
            "%0 = load b0 at d2; yield".into(),
            "step %0 = load b0 at d2: block 0 is held by {0,1} of the machine's devices",
        ),
        (
            &[],
            "%0 = load b0 at d99; yield".into(),
            "step %0 = load b0 at d99: block 0 is held by {0,1} of the machine's devices",
        ),
        (&[], "%0 = cut %0 [0:1]; yield".into(), "step %0 = cut %0 [0:1]: %0 is not an earlier step"),
        (
            &[],
            "%0 = load b0 at d0; %1 = cut %0 [2:5]; yield".into(),
            "step %1 = cut %0 [2:5]: the cut is empty or not inside [0:4] at d0, finished",
        ),
        (
            &[],
            "%0 = load b0 at d0; %1 = cut %0 [2:2]; yield".into(),
            "step %1 = cut %0 [2:2]: the cut is empty or not inside [0:4] at d0, finished",
        ),
        (&[], "%0 = load b0 at d0; %1 = move %0 -> d2; yield".into(), "step %1 = move %0 -> d2: no link from d0 to d2"),
        (&[], "%0 = load b0 at d0; %1 = move %0 -> d0; yield".into(), "step %1 = move %0 -> d0: no link from d0 to d0"),
        (
            &[],
            "%0 = load b1 at d0; %1 = load b2 at d1; %2 = fold %0 %1; yield".into(),
            "step %2 = fold %0 %1: not on one device: [4:8] at d0, partials [1]; [4:8] at d1, partials [2]",
        ),
        (
            &[],
            "%0 = load b2 at d1; %1 = load b3 at d1; %2 = fold %0 %1; yield".into(),
            "step %2 = fold %0 %1: regions differ: [4:8] at d1, partials [2]; [6:8] at d1, partials [3]",
        ),
        (
            &[],
            "%0 = load b0 at d0; %1 = fold %0; yield".into(),
            "step %1 = fold %0: already finished: [0:4] at d0, finished",
        ),
        (&[], "%0 = load b1 at d0; %1 = fold %0 %0; yield".into(), "step %1 = fold %0 %0: partial 1 twice"),
        (
            &[],
            format!("{one} %3 = fold %2 %1; yield"),
            "step %3 = fold %2 %1: not in the order of their least partials: [4:8] at d1, partials [2]; [4:8] at d1, partials [1]",
        ),
        (
            &[],
            "%0 = load b0 at d0; %1 = load b1 at d0; %2 = paste %0 %1 [0:8]; yield".into(),
            "step %2 = paste %0 %1 [0:8]: neither all finished nor all of equal partials: [0:4] at d0, finished; [4:8] at d0, partials [1]",
        ),
        (
            &[],
            "%0 = load b0 at d0; %1 = cut %0 [0:2]; %2 = cut %0 [3:4]; %3 = paste %1 %2 [0:4]; yield".into(),
            "step %3 = paste %1 %2 [0:4]: the pieces do not fill the box exactly",
        ),
        (
            &[],
            "%0 = load b0 at d0; %1 = cut %0 [0:2]; %2 = cut %0 [1:3]; %3 = paste %1 %2 [0:4]; yield".into(),
            "step %3 = paste %1 %2 [0:4]: the pieces do not fill the box exactly",
        ),
        (&[(1, 0, 4)], "%0 = load b0 at d0; yield %0".into(), "need 0 of [0:4] at d1: yields [0:4] at d0, finished"),
        (&[(0, 0, 3)], "%0 = load b0 at d0; yield %0".into(), "need 0 of [0:3] at d0: yields [0:4] at d0, finished"),
        (&[(0, 0, 4)], "%0 = load b0 at d0; yield".into(), "1 needs but 0 yields"),
    ];
    for (needs, program, expected) in rows {
        assert_eq!(verdict(needs, &program), expected, "{program}");
    }
}

/// What is empty is no piece, so neither end of a move can wait for it.
#[test]
fn empty_blocks_are_not_loaded() {
    let mut exchange = question(&[]);
    exchange.have.blocks[0].region = Region::of(&[(0, 0)]);
    let program = Program::parse("%0 = load b0 at d0\n%1 = move %0 -> d1\nyield").unwrap();
    let refusal = check(&exchange, &program, &line()).unwrap_err().to_string();
    assert_eq!(refusal, "step %0 = load b0 at d0: block 0 is empty");
}

#[test]
fn devices_that_wait_for_each_other() {
    // Two swaps in row order end; if one device takes its rows in another order, nobody is ever met.
    assert_eq!(meet(&[vec![0, 1, 4], vec![0, 1], vec![]]), Ok(()));
    assert_eq!(meet(&[vec![1, 0], vec![0, 1], vec![5]]), Err(vec![(DeviceId(0), 1), (DeviceId(1), 0)]));
    assert_eq!(
        meet(&[vec![2, 0], vec![0, 1], vec![1, 2]]),
        Err(vec![(DeviceId(0), 2), (DeviceId(1), 0), (DeviceId(2), 1)])
    );
}

#[test]
fn relays_count_at_each_hop_but_are_delivered_once() {
    let program = Program::parse(
        "%0 = load b1 at d0\n%1 = cut %0 [4:6]\n%2 = move %1 -> d1\n%3 = move %2 -> d2\n\
         %4 = load b2 at d1\n%5 = cut %4 [4:6]\n%6 = move %5 -> d2\n%7 = fold %3 %6\nyield %7",
    )
    .unwrap();
    let exchange = question(&[(2, 4, 6)]);
    check(&exchange, &program, &line()).unwrap();
    let counted = traffic(&exchange, &program, &line());
    assert_eq!((counted.bytes_total, counted.bytes_delivered), (Bytes(24), Bytes(16)));
    assert_eq!(counted.sent, [Bytes(8), Bytes(16), Bytes(0)]);
    assert_eq!(counted.received, [Bytes(0), Bytes(8), Bytes(16)]);
    assert_eq!((counted.depth, counted.moves), (2, 3));
    // The link 1-2 carries 16 bytes; two hops of 1 ms; device 1 issues two transfers of 1 µs.
    assert!((counted.seconds.0 - (16e-9 + 2e-3 + 2e-6)).abs() < 1e-12, "{}", counted.seconds);
    // Both partials lie left of the link 1-2, which folded they cross once; that of device 0 has two hops to go.
    assert!((counted.bound.total().0 - (8e-9 + 2e-3)).abs() < 1e-12, "{:?}", counted.bound);
}

#[test]
fn texts_that_are_no_program() {
    for (text, expected) in [
        ("", "line 0: `yield` is missing"),
        ("%0 = load b0 at d0", "line 1: `yield` is missing"),
        ("%1 = load b0 at d0\nyield", "line 1: steps are numbered from %0, one after the other"),
        ("%0 = lift b0\nyield", "line 1: not a step"),
        ("%0 = load b0 at d128\nyield", "line 1: not a step"),
        ("%0 = cut %0 [0:]\nyield", "line 1: not a step"),
        ("load b0 at d0\nyield", "line 1: a step looks like `%0 = load b0 at d1`"),
        ("yield 3", "line 1: `yield` takes pieces such as `%3`"),
        ("yield\n\nyield", "line 3: a step behind `yield`"),
    ] {
        assert_eq!(Program::parse(text).unwrap_err().to_string(), expected, "{text}");
    }
    for text in ["yield\n", "%0 = load b0 at d127\n%1 = cut %0 []\n%2 = paste %0 %1 [0:1,2:3]\nyield %2\n"] {
        assert_eq!(Program::parse(text).unwrap().to_string(), text);
    }
}
