//! Small messages: one step, and where it stops being best.

use super::judge::synthesized;
use super::machines::{presets, switch, workers};
use super::questions::{Kind, exchange, relation};
use crate::report::{Section, size};
use ein_ir::region::Region;
use ein_task::exchange::{Exchange, Need};
use ein_task::machine::{DeviceSet, Machine};
use ein_task::relation::Held;
use ein_task::traffic::count;

/// The section: the bars, and the crossover of every machine.
pub fn section() -> Section {
    let mut section = small_messages();
    let mut table = Vec::new();
    for preset in presets() {
        let count = workers(&preset.machine).len();
        let found = match crossover(&preset.machine) {
            Some(bytes) => format!("{bytes} B"),
            None => "none between 32 B and 64 MB".into(),
        };
        table.push(vec![preset.names.join(", "), count.to_string(), found]);
    }
    section.say("Largest all-reduce that goes by the fewest moves, by machine (bisection):");
    section.table(&["machine", "devices", "up to"], &table);
    section
}

/// The bars alone.
pub fn small_messages() -> Section {
    let mut section = Section::new("Small messages (simulated)");
    let machine = switch(8, 300e9, 3e-6);
    for bytes in [4 << 10, 16 << 10, 64 << 10] {
        let deep: Vec<String> = Kind::NAMED
            .iter()
            .filter_map(|&kind| {
                let depth = depth(&exchange(kind, &workers(&machine), bytes), &machine);
                (depth != 1).then(|| format!("{kind} takes {depth}"))
            })
            .collect();
        let found = if deep.is_empty() { "one move deep, all eight questions".into() } else { deep.join(", ") };
        let what = format!("{} on 8 × 300 GB/s, 3 µs", size(bytes));
        section.verdict(what, "one-step programs", found, deep.is_empty());
    }
    let formula = 3e-6 * 300e9 / (7.0 * (1.0 - 2.0 / 8.0));
    match crossover(&machine) {
        Some(bytes) => {
            // The formula has two steps one after the other; in pieces they overlap a little, and win a little sooner.
            let near = (0.9..=1.02).contains(&(bytes as f64 / formula));
            section.verdict(
                "8-way all-reduce: one step up to",
                format!("at most {formula:.0} B by formula, at least nine tenths of it"),
                format!("{bytes} B"),
                near,
            );
        }
        None => section.verdict("8-way all-reduce: one step up to", format!("{formula:.0} B"), "no crossover", false),
    }
    section
}

fn depth(question: &Exchange, machine: &Machine) -> usize {
    synthesized(question, machine).map_or(0, |program| count(question, &program, machine).depth)
}

/// An all-reduce of a vector of `f32`.
fn all_reduce(elements: usize, machine: &Machine) -> Exchange {
    let region = Region::whole(&[elements]);
    let devices = workers(machine);
    let held = |&d| Held { region: region.clone(), devices: DeviceSet::one(d) };
    let have = relation(&[elements], devices.iter().map(held).collect());
    Exchange { have, needs: devices.iter().map(|&device| Need { device, region: region.clone() }).collect() }
}

/// The most bytes for which an all-reduce is as shallow as one of 32 bytes.
pub fn crossover(machine: &Machine) -> Option<u64> {
    let depth_of = |elements: usize| depth(&all_reduce(elements, machine), machine);
    let (mut low, mut high) = (8, 16 << 20);
    let shallow = depth_of(low);
    if depth_of(high) <= shallow {
        return None;
    }
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if depth_of(middle) <= shallow { low = middle } else { high = middle }
    }
    Some(4 * low as u64)
}
