//! Transfers against closed forms.

use crate::flow::{Span, Transfer, makespan, run};
use crate::machine::{DeviceId, Machine};
use crate::units::Seconds;
use std::time::Instant;

/// A transfer by device numbers, in kilobytes, behind earlier ones.
fn transfer(machine: &Machine, from: u16, to: u16, kilobytes: u64, after: &[u32]) -> Transfer {
    let ends = (DeviceId(from), DeviceId(to));
    let link = machine.links.iter().position(|l| (l.from, l.to) == ends).expect("the test names links that exist");
    Transfer { link, bytes: kilobytes * 1000, after: after.to_vec() }
}

/// Devices behind one switch, with ports of 100 GB/s.
fn switch(devices: usize, latency: &str, issue: &str) -> Machine {
    let text = format!(
        "name = \"switch\"\nissue = \"{issue}\"\n[[devices]]\nname = \"gpu\"\ncount = {devices}\nkind = \"gpu\"\n\
         memory = \"40 GB\"\nmemory_bandwidth = \"1 TB/s\"\nflops = {{ f32 = \"10 TFLOP/s\" }}\n\
         [[switches]]\nname = \"s\"\ndevices = [\"gpu\"]\nport = \"100 GB/s\"\nlatency = \"{latency}\"\n"
    );
    Machine::parse(&text).expect("a machine")
}

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs()
}

/// Ends of transfers, in microseconds.
fn check(machine: &Machine, list: &[(u16, u16, u64, &[u32])], expected: &[f64]) {
    let list: Vec<Transfer> = list.iter().map(|t| transfer(machine, t.0, t.1, t.2, t.3)).collect();
    let spans = run(machine, &list);
    let found: Vec<f64> = spans.iter().map(|s| s.arrived * 1e6).collect();
    assert!(found.iter().zip(expected).all(|(f, e)| close(*f, *e)), "{found:?} is not {expected:?}");
    assert_eq!(found.len(), expected.len());
    assert!(spans.iter().all(|s| s.start <= s.sent && s.sent <= s.arrived), "{spans:?}");
}

#[test]
fn the_list_is_the_schedule_of_a_link() {
    let s = switch(4, "3 us", "1 us");
    // One: issue, bytes, latency. Two on a link: the second when the first is sent, not when it is there.
    check(&s, &[(0, 1, 1000, &[])], &[14.0]);
    check(&s, &[(0, 1, 1000, &[]), (0, 1, 500, &[])], &[14.0, 20.0]);
    // Of two that become ready at once, the earlier in the list; one that is not ready is passed.
    check(&s, &[(2, 0, 1000, &[]), (0, 1, 1000, &[0]), (0, 1, 500, &[0])], &[14.0, 28.0, 34.0]);
    check(&s, &[(2, 0, 1000, &[]), (0, 1, 1000, &[0]), (0, 1, 2000, &[])], &[14.0, 35.0, 24.0]);
    // Nothing to carry is still a message.
    check(&s, &[(0, 1, 0, &[]), (1, 2, 0, &[0]), (0, 1, 0, &[])], &[4.0, 8.0, 5.0]);
    check(&switch(4, "0 us", "0 us"), &[(0, 1, 0, &[]), (1, 2, 100, &[0]), (0, 1, 0, &[])], &[0.0, 1.0, 0.0]);
}

#[test]
fn ports_are_shared_max_min_fairly() {
    let s = switch(4, "0 us", "0 us");
    check(&s, &[(0, 1, 1000, &[]), (0, 2, 1000, &[]), (0, 3, 1000, &[])], &[30.0, 30.0, 30.0]);
    // 0 and 3 both send to 2: a half each until 20; then 3 has 9 MB left and the port alone.
    check(&s, &[(0, 1, 1000, &[]), (0, 2, 1000, &[]), (3, 2, 10_000, &[])], &[20.0, 20.0, 110.0]);
    // Three into one port, one of whose senders sends elsewhere too: a third each, and that one gets two thirds.
    let list: &[(u16, u16, u64, &[u32])] =
        &[(0, 3, 1000, &[]), (1, 3, 1000, &[]), (2, 3, 1000, &[]), (0, 1, 2000, &[])];
    check(&s, list, &[30.0, 30.0, 30.0, 30.0]);
}

#[test]
fn equal_times_are_one_moment() {
    // Eight sources, each to seven others, in three waves: all of a wave end together although the sums of their
    // times are made in different ways.
    let s = switch(8, "1 us", "0.1 us");
    let mut list = Vec::new();
    for wave in 0..3u32 {
        for from in 0..8u16 {
            for d in 1..8u16 {
                let before: Vec<u32> = (0..56).map(|n| 56 * (wave.max(1) - 1) + n).collect();
                let after = if wave == 0 { &[][..] } else { &before };
                list.push(transfer(&s, from, (from + d) % 8, 333, after));
            }
        }
    }
    let spans = run(&s, &list);
    for (wave, spans) in spans.chunks(56).enumerate() {
        assert!(spans.iter().all(|s| *s == spans[0]), "{wave}");
        assert!(close(spans[0].arrived, (wave + 1) as f64 * (0.1e-6 + 1e-6 + 7.0 * 333e3 / 100e9)), "{spans:?}");
    }
    assert_eq!(makespan(&s, &list), Seconds(spans[167].arrived));
    assert_eq!(makespan(&s, &[]), Seconds(0.0));
}

/// Draws, for tests that want a mess: small whole numbers, each seed its own sequence.
fn draws(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    }
}

/// A drawn list: `chained` of ten transfers wait for earlier ones.
fn drawn(machine: &Machine, count: usize, chained: u64, seed: u64) -> Vec<Transfer> {
    let mut draw = draws(seed);
    let mut list: Vec<Transfer> = Vec::new();
    for n in 0..count {
        let link = draw(machine.links.len() as u64) as usize;
        let mut after = Vec::new();
        if n > 0 && draw(10) < chained {
            after.push(draw(n as u64) as u32);
        }
        list.push(Transfer { link, bytes: 1000 * (1 + draw(1000)), after });
    }
    list
}

#[test]
fn no_resource_carries_more_than_it_can() {
    for (name, seed) in [("8xa100", 1), ("dgx-1v", 2), ("pcie-8", 3), ("2x8xa100", 4), ("unequal", 5)] {
        let machine = Machine::by_name(name).unwrap();
        let list = drawn(&machine, 300, 7, seed);
        let spans = run(&machine, &list);
        let total: f64 = spans.iter().map(|s| s.arrived).fold(0.0, f64::max);
        for (r, resource) in machine.resources.iter().enumerate() {
            let loads = |t: &&Transfer| machine.links[t.link].resources.contains(&r);
            let bytes: f64 = list.iter().filter(loads).map(|t| t.bytes as f64).sum();
            assert!(bytes <= resource.bandwidth * total * (1.0 + 1e-9), "{name}: {}", resource.name);
        }
        for (n, (transfer, span)) in list.iter().zip(&spans).enumerate() {
            let link = &machine.links[transfer.link];
            let alone = machine.transfer_seconds(link, transfer.bytes as f64).0;
            assert!(span.arrived - span.start >= alone * (1.0 - 1e-9), "{name}: transfer {n}");
            assert!(transfer.after.iter().all(|&a| spans[a as usize].arrived <= span.start), "{name}: transfer {n}");
            let apart = |o: &Span| o.sent <= span.start || span.sent <= o.start;
            let same = (0..n).filter(|&o| list[o].link == transfer.link);
            assert!(same.map(|o| &spans[o]).all(apart), "{name}: transfer {n} shares its link");
        }
    }
}

#[test]
#[ignore = "prints times; run it by name in a release build"]
fn speed() {
    let time = |what: &str, machine: &Machine, list: &[Transfer]| {
        let (start, mut least) = (Instant::now(), f64::INFINITY);
        while least.is_infinite() || start.elapsed().as_secs_f64() < 0.3 {
            let begun = Instant::now();
            assert!(makespan(machine, list).0 > 0.0);
            least = least.min(begun.elapsed().as_secs_f64());
        }
        println!("{what}: {:.3} ms", least * 1e3);
    };
    let switch = Machine::by_name("8xa100").unwrap();
    time("p = 8 on a switch, 1,000 drawn, chained", &switch, &drawn(&switch, 1000, 5, 1));
    time("p = 8 on a switch, 1,000 drawn, all at once", &switch, &drawn(&switch, 1000, 0, 1));
    let cube = Machine::by_name("dgx-1v").unwrap();
    time("dgx-1v, 1,000 drawn, chained", &cube, &drawn(&cube, 1000, 5, 1));
    let two = Machine::by_name("2x8xa100").unwrap();
    time("2x8xa100, 1,000 drawn, chained", &two, &drawn(&two, 1000, 5, 1));
    let rack = Machine::by_name("nvl72").unwrap();
    time("p = 72, 10,000 drawn, all at once", &rack, &drawn(&rack, 10_000, 0, 1));
    time("p = 72, 10,000 drawn, chained", &rack, &drawn(&rack, 10_000, 5, 1));
    let two: Vec<Transfer> =
        (0..2 * rack.links.len()).map(|n| Transfer { link: n / 2, bytes: 1000, after: vec![] }).collect();
    time("p = 72, all to all twice", &rack, &two);
}
