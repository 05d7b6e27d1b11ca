//! What binds: a device's links together, and the links from one half of a machine to the other.

use super::{number, span};
use crate::machine::{DeviceId, DeviceSet, Link, Machine};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The most devices for which every way to halve them is looked at; more are halved in the middle of the list.
const HALVED: usize = 12;

/// Writes what each device sends and receives when all its links are in use at once, and what crosses between
/// halves of the devices that compute.
pub(super) fn write(machine: &Machine, out: &mut String) {
    let workers = machine.workers();
    if workers.len() < 2 {
        return;
    }
    let _ = writeln!(out, "\nat most, all links in use at once and sharing fairly");
    let mut alike: BTreeMap<(u64, u64), DeviceSet> = BTreeMap::new();
    for d in workers.iter() {
        let sent = together(machine, &|l| l.from == d);
        let received = together(machine, &|l| l.to == d);
        let set = alike.entry((sent.to_bits(), received.to_bits())).or_default();
        *set = set.with(d);
    }
    let mut rows: Vec<_> = alike.into_iter().collect();
    rows.sort_by_key(|(_, devices)| devices.lowest());
    for ((sent, received), devices) in rows {
        let each = if devices.len() > 1 { "each of " } else { "" };
        let ways = ways(f64::from_bits(sent), f64::from_bits(received), "sent", "received");
        let _ = writeln!(out, "  {each}{}: {ways}", span(machine, devices));
    }
    let (half, there, back) = narrowest(machine);
    let rest = workers.without(half);
    let ways = ways(there, back, "there", "back");
    let _ = writeln!(out, "  between {} and {}: {ways}", span(machine, half), span(machine, rest));
}

fn ways(a: f64, b: f64, first: &str, second: &str) -> String {
    let (a, b) = (number(a / 1e9), number(b / 1e9));
    if a == b { format!("{a} GB/s each way") } else { format!("{a} GB/s {first}, {b} GB/s {second}") }
}

/// The half of the devices that compute with the narrowest way to the other half: it, and bytes per second there and
/// back. It holds the first device; of equal ones the first in order.
fn narrowest(machine: &Machine) -> (DeviceSet, f64, f64) {
    let workers: Vec<DeviceId> = machine.workers().iter().collect();
    let size = workers.len() / 2;
    let middle: DeviceSet = workers[..size].iter().copied().collect();
    let mut best = (middle, crossing(machine, middle, false), crossing(machine, middle, true));
    if workers.len() > HALVED {
        return best;
    }
    for bits in 0_u32..1 << workers.len() {
        // Halves of equal size come twice, once from either side.
        let twice = workers.len() == 2 * size && bits & 1 == 0;
        if bits.count_ones() as usize != size || twice {
            continue;
        }
        let half: DeviceSet = (0..workers.len()).filter(|n| bits >> n & 1 == 1).map(|n| workers[n]).collect();
        let (there, back) = (crossing(machine, half, false), crossing(machine, half, true));
        if there.min(back) < best.1.min(best.2) * (1.0 - 1e-9) {
            best = (half, there, back);
        }
    }
    best
}

/// Bytes per second out of a half, or with `back` into it. A host relays, so it may stand on either side.
fn crossing(machine: &Machine, half: DeviceSet, back: bool) -> f64 {
    let rest = machine.workers().without(half);
    let (from, to) = if back { (rest, half) } else { (half, rest) };
    let hosts: DeviceSet = machine.ids().collect::<DeviceSet>().without(machine.workers());
    let near = together(machine, &|l| from.contains(l.from) && to.union(hosts).contains(l.to));
    let far = together(machine, &|l| from.union(hosts).contains(l.from) && to.contains(l.to));
    near.min(far)
}

/// Bytes per second of some links, all in use at once: the narrowest share of a resource settles those that load it,
/// then the next.
fn together(machine: &Machine, chosen: &dyn Fn(&Link) -> bool) -> f64 {
    let links: Vec<&Link> = machine.links.iter().filter(|l| chosen(l)).collect();
    let mut left: Vec<f64> = machine.resources.iter().map(|r| r.bandwidth).collect();
    let mut users = vec![0_usize; left.len()];
    for &r in links.iter().flat_map(|l| &l.resources) {
        users[r] += 1;
    }
    let mut open = links;
    let mut total = 0.0;
    while !open.is_empty() {
        let share = |r: usize| left[r] / users[r] as f64;
        let loaded = (0..left.len()).filter(|&r| users[r] > 0);
        let Some(narrow) = loaded.min_by(|&a, &b| share(a).total_cmp(&share(b))) else { break };
        let rate = share(narrow);
        let (settled, others): (Vec<&Link>, Vec<&Link>) = open.into_iter().partition(|l| l.resources.contains(&narrow));
        for &r in settled.iter().flat_map(|l| &l.resources) {
            left[r] = (left[r] - rate).max(0.0);
            users[r] -= 1;
        }
        total += rate * settled.len() as f64;
        open = others;
    }
    total
}
