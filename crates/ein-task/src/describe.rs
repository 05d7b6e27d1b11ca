//! A machine as text for people.

use crate::machine::{Device, DeviceId, Machine};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Devices with memory and rates, the direct links in GB/s (one line if all are alike, else a matrix), and
/// what several links share.
pub fn describe(machine: &Machine) -> String {
    let mut out = String::new();
    let count = machine.len();
    let plural = if count == 1 { "" } else { "s" };
    // Writing to a string cannot fail.
    let processors = machine.processors.map_or(String::new(), |n| format!(", {n} processors shared"));
    let _ = writeln!(out, "machine {}: {count} device{plural}, issue {}{processors}", machine.name, machine.issue);
    devices(machine, &mut out);
    if count > 1 {
        links(machine, &mut out);
        shared(machine, &mut out);
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
        let stem = d.name.trim_end_matches(|c: char| c.is_ascii_digit());
        let start = d.name[stem.len()..].parse::<usize>().unwrap_or(0);
        let counted = run.len() > 2 && run.iter().zip(start..).all(|(r, n)| r.name == format!("{stem}{n}"));
        let names = if counted {
            format!("{} to {}", d.name, run[run.len() - 1].name)
        } else {
            run.iter().map(|r| r.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let rates: Vec<String> = d.flops.iter().map(|(t, f)| format!("{t} {}", number(f / 1e12))).collect();
        let rates = if rates.is_empty() { "no arithmetic".into() } else { format!("TFLOP/s {}", rates.join(", ")) };
        let (memory, bandwidth) = (d.memory, number(d.memory_bandwidth / 1e9));
        let free = if d.free_elementwise { ", element-wise work free" } else { "" };
        let engines = d.engines.map_or(String::new(), |n| format!(", copy engines {n}"));
        let _ = writeln!(
            out,
            "  {ids} {names} ({}): {memory} at {bandwidth} GB/s, {rates}, launch {}{free}{engines}",
            d.kind, d.launch
        );
        first = last + 1;
    }
}

fn links(machine: &Machine, out: &mut String) {
    let cell = |from: DeviceId, to: DeviceId| match machine.link(from, to) {
        _ if from == to => "-".into(),
        Some(link) => number(machine.bandwidth(link) / 1e9),
        None => ".".into(),
    };
    let rows: Vec<Vec<String>> = machine.ids().map(|from| machine.ids().map(|to| cell(from, to)).collect()).collect();
    let mut off_diagonal = rows.iter().flatten().filter(|c| *c != "-");
    let one = off_diagonal.next().cloned().unwrap_or_default();
    if off_diagonal.all(|c| *c == one) {
        let _ = writeln!(out, "\ndirect links: all pairs, {one} GB/s");
        return;
    }
    let _ = writeln!(out, "\ndirect links, GB/s from row to column (. none: relayed)");
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

/// Resources that several links load, those of equal bandwidth and use on one line.
fn shared(machine: &Machine, out: &mut String) {
    let mut users: Vec<usize> = vec![0; machine.resources.len()];
    for &r in machine.links.iter().flat_map(|l| &l.resources) {
        users[r] += 1;
    }
    let mut lines: BTreeMap<(String, usize), Vec<&str>> = BTreeMap::new();
    for (r, n) in machine.resources.iter().zip(users).filter(|(_, n)| *n > 1) {
        lines.entry((number(r.bandwidth / 1e9), n)).or_default().push(&r.name);
    }
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nshared by several links");
    for ((bandwidth, n), mut names) in lines {
        names.sort_unstable();
        let more = names.len().saturating_sub(16);
        names.truncate(16);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let _ = writeln!(out, "  {bandwidth} GB/s for {n} links each: {}{more}", names.join(" "));
    }
}

/// At most three digits after the point, none that say nothing.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}
