//! A machine as text for people: what its devices are, what joins them, and what binds them.

mod bottlenecks;

use crate::machine::{Device, DeviceId, DeviceKind, DeviceSet, Link, Machine};
use crate::units::Seconds;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// More devices than this have no matrix: how many pairs have which link is said instead.
const MATRIX: usize = 32;

/// Devices with memory and rates; the direct links in GB/s (one line if all are alike, else a matrix) with their
/// latencies; what several links share; what a device and a half of the machine send and receive at most.
pub fn describe(machine: &Machine) -> String {
    let workers = machine.workers().len();
    let hosts = machine.len() - workers;
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let host = if hosts == 0 { String::new() } else { format!(" and {hosts} host{}", plural(hosts)) };
    // Writing to a string cannot fail.
    let processors = machine.processors.map_or(String::new(), |n| format!(" on {n} processors"));
    let mut out = format!(
        "machine {}: {workers} device{}{processors}{host}, {} to issue a transfer\n",
        machine.name,
        plural(workers),
        machine.issue
    );
    devices(machine, &mut out);
    if machine.len() > 1 {
        links(machine, &mut out);
        shared(machine, &mut out);
        bottlenecks::write(machine, &mut out);
    }
    out
}

/// One line for every run of devices that differ in nothing but the name.
fn devices(machine: &Machine, out: &mut String) {
    let like = |a: &Device, b: &Device| *a == Device { name: a.name.clone(), ..b.clone() };
    let _ = writeln!(out, "\ndevices");
    let mut first = 0;
    for run in machine.devices.chunk_by(like) {
        let (d, last) = (&run[0], first + run.len() - 1);
        let ids = if run.len() == 1 { first.to_string() } else { format!("{first}-{last}") };
        let names = span(machine, (first..=last).map(|n| DeviceId(n as u16)).collect());
        let (unit, size) = if d.flops.iter().any(|f| f.1 >= 1e12) { ("TFLOP/s", 1e12) } else { ("GFLOP/s", 1e9) };
        let mut rates: Vec<String> = d.flops.iter().map(|(t, f)| format!("{t} {}", number(f / size))).collect();
        let others = [("under a softmax", d.under_softmax), ("elements", d.elements)];
        rates.extend(others.iter().filter_map(|(what, f)| Some(format!("{what} {}", number((*f)? / size)))));
        let rates = if rates.is_empty() { "no arithmetic".into() } else { format!("{unit} {}", rates.join(", ")) };
        let (memory, bandwidth) = (d.memory, number(d.memory_bandwidth / 1e9));
        let launch = if d.kind == DeviceKind::Host { String::new() } else { format!(", launch {}", d.launch) };
        let free = if d.free_elementwise { ", element-wise work free" } else { "" };
        let engines =
            d.engines.map_or(String::new(), |n| format!(", {n} copy engine{}", if n == 1 { "" } else { "s" }));
        let _ =
            writeln!(out, "  {ids} {names} ({}): {memory} at {bandwidth} GB/s, {rates}{launch}{free}{engines}", d.kind);
        first = last + 1;
    }
}

fn links(machine: &Machine, out: &mut String) {
    let pairs = machine.len() * (machine.len() - 1);
    let mut widths: BTreeMap<String, usize> = BTreeMap::new();
    for link in &machine.links {
        *widths.entry(number(machine.bandwidth(link) / 1e9)).or_default() += 1;
    }
    if let (1, Some((width, &count))) = (widths.len(), widths.first_key_value())
        && count == pairs
    {
        let _ = writeln!(out, "\nlinks: all pairs, {width} GB/s each way; {}", latencies(machine));
        return;
    }
    if machine.len() > MATRIX {
        let kinds: Vec<String> = widths.iter().map(|(width, n)| format!("{n} of {width} GB/s")).collect();
        let _ = writeln!(out, "\nlinks of {pairs} pairs: {}; {}", kinds.join(", "), latencies(machine));
        return;
    }
    let cell = |from: DeviceId, to: DeviceId| match machine.link(from, to) {
        _ if from == to => "-".into(),
        Some(link) => number(machine.bandwidth(link) / 1e9),
        None => ".".into(),
    };
    let rows: Vec<Vec<String>> = machine.ids().map(|from| machine.ids().map(|to| cell(from, to)).collect()).collect();
    let none = if machine.links.len() < pairs { " (. none: over others)" } else { "" };
    let _ = writeln!(out, "\nlinks, GB/s from row to column{none}; {}", latencies(machine));
    let names = machine.devices.iter().map(|d| d.name.len()).max().unwrap_or(0);
    let column = rows.iter().flatten().map(String::len).max().unwrap_or(1).max(3) + 1;
    let line = |name: &str, cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|c| format!("{c:>column$}")).collect();
        format!("  {name:names$} {}", cells.concat())
    };
    let _ = writeln!(out, "{}", line("", machine.ids().map(|d| d.0.to_string()).collect()));
    for (row, d) in rows.into_iter().zip(&machine.devices) {
        let _ = writeln!(out, "{}", line(&d.name, row));
    }
}

/// How long the first byte takes: of all links, or of which.
fn latencies(machine: &Machine) -> String {
    let mut by_time: BTreeMap<u64, Vec<&Link>> = BTreeMap::new();
    for link in &machine.links {
        // Not negative, so the bits are in order.
        by_time.entry(link.latency.0.to_bits()).or_default().push(link);
    }
    let says = by_time.iter().map(|(bits, links)| {
        let time = Seconds(f64::from_bits(*bits));
        if by_time.len() == 1 {
            return format!("{time} before the first byte");
        }
        let ends = |l: &&Link| DeviceSet::one(l.from).with(l.to);
        let common = links.iter().map(ends).reduce(DeviceSet::intersect).unwrap_or_default();
        match common.lowest() {
            Some(d) if links.len() > 2 => format!("{time} with {}", machine.devices[d.index()].name),
            _ => format!("{time} on {} links", links.len()),
        }
    });
    says.collect::<Vec<_>>().join(", ")
}

/// What several links load: ports of single devices, then what lies between groups of them.
fn shared(machine: &Machine, out: &mut String) {
    let mut users: Vec<Vec<&Link>> = vec![Vec::new(); machine.resources.len()];
    for link in &machine.links {
        for &r in &link.resources {
            users[r].push(link);
        }
    }
    // Devices whose ports are alike, by bandwidth and way.
    let mut ports: BTreeMap<(String, &str), DeviceSet> = BTreeMap::new();
    let mut between: BTreeSet<(DeviceSet, DeviceSet, String)> = BTreeSet::new();
    for (resource, links) in machine.resources.iter().zip(&users).filter(|(_, links)| links.len() > 1) {
        let width = number(resource.bandwidth / 1e9);
        let from: DeviceSet = links.iter().map(|l| l.from).collect();
        let to: DeviceSet = links.iter().map(|l| l.to).collect();
        let hosts = from.union(to).without(machine.workers());
        match (from.len(), to.len()) {
            // A switch of several devices on the way to a host is no port of the host.
            (1, _) | (_, 1) if !hosts.is_empty() && links.len() > 1 => {
                let (a, b) = (span(machine, from), span(machine, to));
                between.insert((from, to, format!("{width} GB/s from {a} to {b}")));
            }
            (1, _) => add(&mut ports, (width, "out of"), from),
            (_, 1) => add(&mut ports, (width, "into"), to),
            _ if from == to => drop(between.insert((from, to, format!("{width} GB/s among {}", span(machine, from))))),
            _ => {
                let (a, b) = (span(machine, from), span(machine, to));
                between.insert((from, to, format!("{width} GB/s from {a} to {b}")));
            }
        }
    }
    if ports.is_empty() && between.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nshared by several links");
    for ((width, way), devices) in ports {
        let each = if devices.len() > 1 { "each of " } else { "" };
        let _ = writeln!(out, "  {width} GB/s {way} {each}{}", span(machine, devices));
    }
    for (_, _, line) in between {
        let _ = writeln!(out, "  {line}");
    }
}

fn add(ports: &mut BTreeMap<(String, &'static str), DeviceSet>, key: (String, &'static str), devices: DeviceSet) {
    let all = ports.entry(key).or_default();
    *all = all.union(devices);
}

/// Names of devices, those that are numbered in a row as `gpu0-3`.
pub(crate) fn span(machine: &Machine, devices: DeviceSet) -> String {
    let numbered = |d: DeviceId| {
        let name = machine.devices[d.index()].name.as_str();
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        (stem, name[stem.len()..].parse::<usize>().ok())
    };
    let ids: Vec<DeviceId> = devices.iter().collect();
    let follows = |a: &DeviceId, b: &DeviceId| match (numbered(*a), numbered(*b)) {
        ((s, Some(m)), (t, Some(n))) => s == t && n == m + 1,
        _ => false,
    };
    let runs = ids.chunk_by(follows).map(|run| {
        let first = &machine.devices[run[0].index()].name;
        match (run.len(), numbered(run[run.len() - 1]).1) {
            (2.., Some(last)) => format!("{first}-{last}"),
            _ => first.clone(),
        }
    });
    runs.collect::<Vec<_>>().join(", ")
}

/// At most three digits after the point, none that say nothing.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}
