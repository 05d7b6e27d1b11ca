//! Answers that are known beforehand.

use super::judge::{Judged, judge, least, synthesized};
use super::machines::{cliques, switch, without_hosts, workers};
use super::questions::{Kind, exchange, relation, strips};
use crate::report::{Section, micros};
use ein_task::check::check;
use ein_task::exchange::{Exchange, Need, Program, Step};
use ein_task::machine::Machine;

/// The section.
pub fn section() -> Section {
    let mut section = Section::new("Known answers (simulated)");
    all_reduce(&mut section);
    strip_to_strip(&mut section);
    slow_link(&mut section);
    section
}

fn answer(question: &Exchange, machine: &Machine) -> Result<(Program, Judged), String> {
    let program = synthesized(question, machine)?;
    let judged = judge(question, &program, machine)?;
    Ok((program, judged))
}

/// 2·7/8·S from every device, exactly.
fn all_reduce(section: &mut Section) {
    let machine = switch(8, 300e9, 3e-6);
    for bytes in [1 << 24, 1 << 26, 1 << 30] {
        let question = exchange(Kind::AllReduce, &workers(&machine), bytes);
        let what = format!("8-way all-reduce of {} MB: largest bytes sent", bytes >> 20);
        let expected = 2 * bytes / 8 * 7;
        match answer(&question, &machine) {
            Ok((_, judged)) => {
                let found = format!("{} ({})", judged.sent, micros(judged.seconds));
                section.verdict(what, format!("2·7/8·S = {expected}"), found, judged.sent == expected);
            }
            Err(fault) => section.verdict(what, format!("{expected}"), fault, false),
        }
    }
}

/// 10⁹ bytes from row strips to column strips.
fn strips_of_a_gigabyte(machine: &Machine) -> Exchange {
    let shape = [16_000, 15_625];
    let devices = workers(machine);
    let needs = strips(&shape, 1, &devices)
        .into_iter()
        .map(|h| Need { device: h.devices.lowest().expect("a strip has a holder"), region: h.region });
    Exchange { have: relation(&shape, strips(&shape, 0, &devices)), needs: needs.collect() }
}

fn strip_to_strip(section: &mut Section) {
    // The bar knows no latency; with it the figure is the same plus one.
    let machine = switch(8, 300e9, 0.0);
    let what = "1 GB strip→strip, 8 × 300 GB/s";
    let bar = "0.365 ms, one move deep, nothing relayed";
    match answer(&strips_of_a_gigabyte(&machine), &machine) {
        Ok((_, j)) => {
            let right = (j.seconds - 0.365e-3).abs() < 0.001e-3 && j.depth == 1 && j.moves == 56;
            section.verdict(what, bar, format!("{}, depth {}, {} moves", micros(j.seconds), j.depth, j.moves), right);
        }
        Err(fault) => section.verdict(what, bar, fault, false),
    }
    let with_host = Machine::by_name("dgx-1v").expect("a preset");
    for machine in [without_hosts(&with_host), with_host] {
        let question = strips_of_a_gigabyte(&machine);
        let least = least(&question, &machine);
        let what = format!("the same on {}", machine.name);
        match answer(&question, &machine) {
            Ok((_, j)) => {
                let bound = format!("bandwidth bound {} by {}", micros(least.bandwidth), least.binds);
                let found = format!("{} ({bound}, depth {})", micros(j.seconds), j.depth);
                section.verdict(what, "≤ 1.70 ms", found, j.seconds <= 1.70e-3);
            }
            Err(fault) => section.verdict(what, "≤ 1.70 ms", fault, false),
        }
    }
}

/// Two cliques of four joined by a slow link: an all-reduce of S carries S over it each way.
fn slow_link(section: &mut Section) {
    let machine = cliques(4, 100e9, 10e9, 1e-6);
    let bytes: u64 = 1 << 26;
    let question = exchange(Kind::AllReduce, &workers(&machine), bytes);
    let what = "two 4-cliques, one slow link, all-reduce of 64 MB: bytes over it";
    let bar = format!("2·S = {}", 2 * bytes);
    match answer(&question, &machine) {
        Ok((program, judged)) => {
            let pieces = check(&question, &program, &machine).expect("judged before");
            let left = |n: usize| n < 4;
            let mut ways = [0_u64; 2];
            for (row, step) in program.steps.iter().enumerate() {
                if let Step::Move { piece, to } = step
                    && left(pieces[*piece].device.index()) != left(to.index())
                {
                    ways[usize::from(left(to.index()))] += 4 * pieces[row].region.volume() as u64;
                }
            }
            let found = format!("{} and {} ({})", ways[0], ways[1], micros(judged.seconds));
            section.verdict(what, bar, found, ways == [bytes, bytes]);
        }
        Err(fault) => section.verdict(what, bar, fault, false),
    }
}
