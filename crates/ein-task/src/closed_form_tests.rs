//! Transfers whose time a formula gives: a table of machine, transfers and seconds.

use crate::flow::{Transfer, makespan, run};
use crate::machine::{DeviceId, Machine};

/// A list of transfers in the making.
struct List(Machine, Vec<Transfer>);

impl List {
    fn new(machine: &Machine) -> Self {
        Self(machine.clone(), Vec::new())
    }

    /// Adds a transfer; gives its number.
    fn add(&mut self, from: usize, to: usize, bytes: f64, after: &[u32]) -> u32 {
        let ends = (DeviceId(from as u16), DeviceId(to as u16));
        let link = self.0.links.iter().position(|l| (l.from, l.to) == ends).expect("the test names links that exist");
        self.1.push(Transfer { link, bytes: bytes as u64, after: after.to_vec() });
        self.1.len() as u32 - 1
    }

    fn with(mut self, transfers: &[(usize, usize, f64)]) -> Self {
        for &(from, to, bytes) in transfers {
            self.add(from, to, bytes, &[]);
        }
        self
    }
}

/// Devices under one switch of 100 GB/s, or joined by cables of 100 GB/s; 2 us of latency.
fn machine(devices: usize, joined: &str, issue: &str, more: &str) -> Machine {
    let pairs: Vec<String> =
        (0..devices).flat_map(|a| (0..a).map(move |b| format!("[\"gpu{b}\", \"gpu{a}\"]"))).collect();
    let joined = match joined {
        "switch" => "[[switches]]\nname = \"s\"\ndevices = [\"gpu\"]\nport = \"100 GB/s\"".to_owned(),
        _ => format!("[[cables]]\npairs = [{}]\nbandwidth = \"100 GB/s\"", pairs.join(", ")),
    };
    let text = format!(
        "name = \"m\"\nissue = \"{issue}\"\n[[devices]]\nname = \"gpu\"\ncount = {devices}\nkind = \"gpu\"\n\
         memory = \"40 GB\"\nmemory_bandwidth = \"1 TB/s\"\nflops = {{ f32 = \"10 TFLOP/s\" }}\n{more}\n\
         {joined}\nlatency = \"2 us\"\n"
    );
    Machine::parse(&text).expect("a machine")
}

/// Every device to every other, farther ones later.
fn all_to_all(machine: &Machine, bytes: f64) -> List {
    let (mut list, p) = (List::new(machine), machine.len());
    for step in 1..p {
        for from in 0..p {
            list.add(from, (from + step) % p, bytes, &[]);
        }
    }
    list
}

/// `pieces` of `bytes` from device 0 over 1, 2, … to device `hops`.
fn pipeline(machine: &Machine, hops: usize, pieces: usize, bytes: f64) -> List {
    let mut list = List::new(machine);
    for _ in 0..pieces {
        let mut before: Vec<u32> = Vec::new();
        for hop in 0..hops {
            before = vec![list.add(hop, hop + 1, bytes, &before)];
        }
    }
    list
}

/// A ring's all-reduce of `bytes`: each step sends what the step before brought, after folding it.
fn ring(machine: &Machine, bytes: f64) -> List {
    let (mut list, p) = (List::new(machine), machine.len());
    let mut before: Vec<Option<u32>> = vec![None; p];
    for _ in 0..2 * (p - 1) {
        let sent: Vec<u32> = (0..p).map(|d| list.add(d, (d + 1) % p, bytes / p as f64, before[d].as_slice())).collect();
        before = (0..p).map(|d| Some(sent[(d + p - 1) % p])).collect();
    }
    list
}

const MB: f64 = 1e6;
const BANDWIDTH: f64 = 100e9;
const LATENCY: f64 = 2e-6;
const ISSUE: f64 = 1e-6;

fn table() -> Vec<(String, List, f64)> {
    let switch = |p: usize| machine(p, "switch", "1 us", "");
    let cables = |p: usize| machine(p, "cables", "1 us", "");
    let port = MB / BANDWIDTH;
    let mut table = vec![
        ("one transfer".into(), List::new(&switch(2)).with(&[(0, 1, MB)]), ISSUE + port + LATENCY),
        ("nothing to carry".into(), List::new(&switch(2)).with(&[(0, 1, 0.0)]), ISSUE + LATENCY),
    ];
    for k in 1..8 {
        let out: Vec<(usize, usize, f64)> = (1..=k).map(|d| (0, d, MB)).collect();
        let into: Vec<(usize, usize, f64)> = (1..=k).map(|d| (d, 0, MB)).collect();
        let seconds = ISSUE + k as f64 * port + LATENCY;
        table.push((format!("{k} out of one port"), List::new(&switch(8)).with(&out), seconds));
        table.push((format!("{k} into one port"), List::new(&switch(8)).with(&into), seconds));
        let queue = vec![(0, 1, MB); k];
        let seconds = k as f64 * (ISSUE + port) + LATENCY;
        table.push((format!("{k} on one link"), List::new(&switch(8)).with(&queue), seconds));
    }
    for (hops, pieces) in [(1, 1), (1, 8), (3, 1), (3, 4), (7, 16), (7, 64)] {
        let piece = ISSUE + MB / pieces as f64 / BANDWIDTH;
        // Fill: every hop but the first waits for one piece and the latency behind it.
        let seconds = pieces as f64 * piece + (hops - 1) as f64 * (piece + LATENCY) + LATENCY;
        let list = pipeline(&switch(8), hops, pieces, MB / pieces as f64);
        table.push((format!("{pieces} pieces over {hops} hops"), list, seconds));
    }
    for p in [2, 4, 5, 8] {
        let name = |what: &str| format!("{what}, p = {p}");
        table.push((name("all to all on cables"), all_to_all(&cables(p), MB), ISSUE + port + LATENCY));
        let seconds = ISSUE + (p - 1) as f64 * port + LATENCY;
        table.push((name("all to all on a switch"), all_to_all(&switch(p), MB), seconds));
        let step = ISSUE + port / p as f64 + LATENCY;
        table.push((name("ring all-reduce"), ring(&switch(p), MB), 2.0 * (p - 1) as f64 * step));
    }
    // Two switches of four with one uplink: what crosses shares it, what does not is not slower for it.
    let pcie = Machine::by_name("pcie-8").unwrap();
    for k in 1..=4 {
        let mut pairs: Vec<(usize, usize, f64)> = (0..k).map(|d| (d, 4 + d, MB)).collect();
        let seconds = ISSUE + k as f64 * MB / 25e9 + 10e-6;
        table.push((format!("{k} over an uplink"), List::new(&pcie).with(&pairs), seconds));
        pairs.extend((0..k).map(|d| (4 + d, d, MB)));
        table.push((format!("{k} over an uplink, both ways"), List::new(&pcie).with(&pairs), seconds));
    }
    let inside = [(0, 4, MB), (1, 5, MB), (2, 3, 10.0 * MB)];
    table.push(("beside an uplink".into(), List::new(&pcie).with(&inside), ISSUE + 10.0 * MB / 25e9 + 5e-6));
    // Copy engines: two at a time, on cables of their own and out of one port.
    let out: Vec<(usize, usize, f64)> = (1..7).map(|d| (0, d, MB)).collect();
    for (engines, waves) in [(1, 6.0), (2, 3.0), (3, 2.0), (6, 1.0), (9, 1.0)] {
        let more = format!("engines = {engines}");
        let name = |what: &str| format!("six with {engines} engines {what}");
        let list = List::new(&machine(8, "cables", "1 us", &more)).with(&out);
        table.push((name("on cables"), list, waves * (ISSUE + port) + LATENCY));
        let list = List::new(&machine(8, "switch", "1 us", &more)).with(&out);
        table.push((name("out of a port"), list, waves * ISSUE + 6.0 * port + LATENCY));
    }
    table
}

#[test]
fn simulated_times_are_the_formulas() {
    for (name, list, expected) in table() {
        let found = makespan(&list.0, &list.1).0;
        println!("{name}: {:.3} us simulated, {:.3} us by formula", found * 1e6, expected * 1e6);
        assert!((found - expected).abs() <= 1e-9 * expected, "{name}: {found} is not {expected}");
    }
}

#[test]
fn shares_are_max_min_and_not_in_proportion() {
    // The port into 2 is 30 GB/s wide, all others 100. What 0 and 3 send there gets 15 each, which leaves 85 for
    // what 0 sends to 1; in proportion to the number of flows it would get 50.
    let mut narrow = machine(4, "switch", "0 us", "");
    let into = narrow.resources.iter().position(|r| r.name.contains("gpu2") && r.name.contains("in")).unwrap();
    narrow.resources[into].bandwidth = 30e9;
    let list = List::new(&narrow).with(&[(0, 1, MB), (0, 2, MB), (3, 2, MB)]);
    let found: Vec<f64> = run(&narrow, &list.1).iter().map(|s| s.sent).collect();
    for (found, expected) in found.iter().zip([MB / 85e9, MB / 15e9, MB / 15e9]) {
        assert!((found - expected).abs() <= 1e-9 * expected, "{found} is not {expected}");
    }
}

#[test]
fn engines_take_what_is_ready_in_list_order() {
    let one = machine(4, "cables", "0 us", "engines = 1");
    let mut list = List::new(&one).with(&[(1, 0, 2.0 * MB)]);
    list.add(0, 3, MB, &[0]);
    list.add(0, 2, MB, &[]);
    list.add(0, 1, 2.0 * MB, &[]);
    list.add(0, 2, MB, &[]);
    let found: Vec<f64> = run(&one, &list.1).iter().map(|s| (s.start * 1e9).round() / 1e3).collect();
    // 1 is not ready until 22; 2 goes at 0, 3 at 10, and at 30 the earliest in the list is 1.
    assert_eq!(found, [0.0, 30.0, 0.0, 10.0, 40.0]);
}
