//! Questions with a name on every preset: ours against the bound and against the best program by hand.

use super::Arguments;
use super::judge::{Judged, Least, judge, least, least_of_all, reason, shallow, synthesized};
use super::machines::{Preset, Wiring, presets, with_issue, workers};
use super::questions::{Kind, exchange, sizes};
use super::rivals::rivals;
use crate::report::{Section, each, micros, size};
use ein_task::units::Bytes;
use std::collections::BTreeMap;

/// Issue costs of the two tables, in seconds.
pub const ISSUES: [f64; 2] = [0.0, 1e-6];

/// With more devices than this, four sizes and a few relayouts are measured: their simulation takes long.
const MANY: usize = 32;

/// From this many bytes over the busiest port on, time is held against the bound.
const LARGE: u64 = 4_000_000;

/// One question on one machine.
#[derive(Clone, Debug)]
pub struct Row {
    /// The presets.
    pub machine: String,
    /// The question.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// Ours, or what the synthesiser or the checker said.
    pub ours: Result<Judged, String>,
    /// What no program beats, with the latency of the direct program.
    pub least: Least,
    /// Moves and latency of the shallowest program that can reach the bandwidth bound.
    pub shallow: (usize, f64),
    /// Times the bandwidth bound that are granted.
    pub factor: f64,
    /// The best program by hand and its seconds.
    pub rival: (String, f64),
}

impl Row {
    /// Seconds that the bar grants.
    pub fn granted(&self) -> f64 {
        self.factor * self.least.bandwidth + self.shallow.1
    }

    /// Ours, without the latency granted, over the bandwidth bound.
    pub fn over_bound(&self, latency: f64) -> f64 {
        let seconds = self.ours.as_ref().map_or(f64::INFINITY, |o| o.seconds);
        if self.least.bandwidth > 0.0 { (seconds - latency) / self.least.bandwidth } else { 1.0 }
    }

    /// Whether ours takes longer than the bar grants.
    fn missed(&self) -> bool {
        self.over_bound(0.0) * self.least.bandwidth > self.granted() * (1.0 + 1e-9)
    }

    /// Ours over the best by hand.
    pub fn over_rival(&self) -> f64 {
        let seconds = self.ours.as_ref().map_or(f64::INFINITY, |o| o.seconds);
        if seconds == 0.0 { 1.0 } else { seconds / self.rival.1 }
    }

    fn is_large(&self) -> bool {
        self.ours.as_ref().map_or(true, |o| o.port_bytes >= LARGE)
    }
}

/// Measures one question.
pub fn row(preset: &Preset, kind: Kind, size: u64, issue: f64) -> Row {
    let machine = with_issue(&preset.machine, issue);
    let question = exchange(kind, &workers(&machine), size);
    let ours = synthesized(&question, &machine);
    let ours = ours.and_then(|program| judge(&question, &program, &machine));
    let mut best = (String::new(), f64::INFINITY);
    for rival in rivals(kind, &question, &machine) {
        let judged = judge(&question, &rival.program, &machine);
        let judged = judged.unwrap_or_else(|e| panic!("{} for {kind} on {}: {e}", rival.name, machine.name));
        if judged.seconds < best.1 {
            best = (rival.name, judged.seconds);
        }
    }
    let two_levels = matches!(Wiring::of(&machine), Wiring::TwoLevel(_));
    let broadcast = kind == Kind::Broadcast && two_levels;
    let mut row = Row {
        machine: preset.names.join(", "),
        kind,
        size,
        ours,
        least: least(&question, &machine),
        shallow: shallow(kind, &machine),
        factor: if issue > 0.0 || broadcast { 1.10 } else { 1.05 },
        rival: best,
    };
    if row.is_large() && row.missed() {
        row.least = least_of_all(&question, &machine);
    }
    row
}

/// Every question that the options ask for.
pub fn rows(arguments: &Arguments, issue: f64) -> Vec<Row> {
    let mut presets = presets();
    presets.retain(|p| arguments.machine.is_empty() || p.names.iter().any(|n| arguments.machine.contains(n)));
    let given: Vec<u64> =
        arguments.size.iter().filter_map(|s| Bytes::parse(s)).map(|b| b.0.next_power_of_two()).collect();
    let mut asked = Vec::new();
    for preset in &presets {
        let count = workers(&preset.machine).len();
        let few = arguments.quick || count > MANY;
        let mut kinds = Kind::NAMED.to_vec();
        kinds.extend(Kind::relayouts(count.min(9)).into_iter().filter(|k| !few || is_sample(*k)));
        kinds.retain(|k| arguments.question.is_empty() || arguments.question.contains(&k.to_string()));
        let mut sizes = if given.is_empty() { sizes() } else { given.clone() };
        sizes.retain(|s| !few || !given.is_empty() || [1 << 14, 1 << 20, 1 << 26, 1 << 30].contains(s));
        asked.extend(kinds.iter().flat_map(|&k| sizes.iter().map(move |&s| (preset, k, s)).collect::<Vec<_>>()));
    }
    each(&asked, |&(preset, kind, size)| row(preset, kind, size, issue))
}

/// Whether a relayout is among the few that stand for all.
fn is_sample(kind: Kind) -> bool {
    matches!(kind, Kind::Relayout { from, to } if (from * 5 + to * 3) % 11 == 0)
}

/// The table of one issue cost.
pub fn section(arguments: &Arguments, issue: f64) -> Section {
    let rows = rows(arguments, issue);
    let title = format!("Named questions, {} per transfer issued (simulated)", micros(issue));
    let mut section = Section::new(&title);
    let refused: Vec<&Row> = rows.iter().filter(|r| r.ours.is_err()).collect();
    section.verdict(
        "programs",
        "accepted by both checks",
        format!("{} of {}", rows.len() - refused.len(), rows.len()),
        refused.is_empty(),
    );
    let held = |r: &&Row| if issue > 0.0 { r.size >= 1 << 30 } else { r.is_large() };
    let large: Vec<&Row> = rows.iter().filter(held).filter(|r| r.least.bandwidth > 0.0).collect();
    let bad = large.iter().filter(|r| r.missed()).count();
    let worst = large.iter().map(|r| r.over_bound(r.shallow.1)).fold(0.0, f64::max);
    let (what, bar) = if issue > 0.0 {
        ("time at 1 GB", "≤ 1.10 × bandwidth bound + depth × latency")
    } else {
        ("time, busiest port ≥ 4 MB", "≤ 1.05 × bandwidth bound + depth × latency (1.10 for broadcast over two levels)")
    };
    section.verdict(what, bar, format!("{} of {} pass; worst {worst:.3}", large.len() - bad, large.len()), bad == 0);
    let literal = large.iter().filter(|r| r.over_bound(r.least.latency) > r.factor * (1.0 + 1e-9)).count();
    let slower: Vec<&Row> = rows.iter().filter(|r| r.over_rival() > 1.001).collect();
    let worst_rival = rows.iter().map(Row::over_rival).fold(0.0, f64::max);
    section.verdict(
        "against ring, tree, direct, halving, hierarchical",
        "never slower, at any size",
        format!("slower in {} of {}; worst {worst_rival:.3}", slower.len(), rows.len()),
        slower.is_empty(),
    );
    section.say(&format!(
        "Depth is that of the shallowest program that can reach the bandwidth bound; with that of the direct program \
         instead, {literal} of {} would miss the bar.",
        large.len()
    ));
    summary(&mut section, &rows, held);
    worst_rows(&mut section, large);
    worst_rivals(&mut section, slower);
    for row in refused.iter().take(10) {
        section.say(&format!(
            "Refused: {} {} {}: {}",
            row.machine,
            row.kind,
            size(row.size),
            row.ours.as_ref().err().map_or("", |e| e)
        ));
    }
    if arguments.rows {
        all_rows(&mut section, &rows);
    }
    section
}

/// Worst ratio to the bound of every question and machine.
fn summary(section: &mut Section, rows: &[Row], held: impl Fn(&&Row) -> bool) {
    let mut machines: Vec<&str> = Vec::new();
    let mut cells: BTreeMap<(Kind, &str), (f64, f64, f64)> = BTreeMap::new();
    for row in rows {
        if !machines.contains(&row.machine.as_str()) {
            machines.push(&row.machine);
        }
        let kind = if let Kind::Relayout { .. } = row.kind { Kind::Relayout { from: 0, to: 0 } } else { row.kind };
        let cell = cells.entry((kind, &row.machine)).or_insert((0.0, 0.0, 0.0));
        if held(&row) {
            cell.0 = cell.0.max(row.over_bound(row.shallow.1));
        }
        if row.size >= 1 << 30 {
            cell.1 = cell.1.max(row.over_bound(row.shallow.1));
        }
        cell.2 = cell.2.max(row.over_rival());
    }
    let mut head = vec!["question"];
    head.extend(&machines);
    let mut table = Vec::new();
    let mut kinds: Vec<Kind> = cells.keys().map(|k| k.0).collect();
    kinds.dedup();
    for kind in kinds {
        let name = if let Kind::Relayout { .. } = kind { "m→n".to_string() } else { kind.to_string() };
        let mut line = vec![name];
        for machine in &machines {
            line.push(
                cells.get(&(kind, machine)).map_or(String::new(), |c| format!("{:.3} / {:.3} / {:.3}", c.0, c.1, c.2)),
            );
        }
        table.push(line);
    }
    section.say(
        "Worst (time − depth × latency) ÷ bandwidth bound where the bar is held; the same at 1 GB; worst time ÷ best \
         program by hand at any size:",
    );
    section.table(&head, &table);
}

fn worst_rows(section: &mut Section, mut rows: Vec<&Row>) {
    let score = |r: &Row| r.over_bound(0.0) * r.least.bandwidth / r.granted();
    rows.sort_by(|a, b| score(b).total_cmp(&score(a)));
    section.say("The worst against the bound (simulated):");
    let line = |r: &&Row| {
        let (seconds, why) = match &r.ours {
            Ok(ours) => (micros(ours.seconds), reason(ours, &r.least)),
            Err(fault) => (String::new(), fault.clone()),
        };
        let ratio = format!("{:.3}", r.over_bound(r.shallow.1));
        let bound =
            format!("{} + {} × {}", micros(r.least.bandwidth), r.shallow.0, micros(r.shallow.1 / r.shallow.0 as f64));
        vec![r.machine.clone(), r.kind.to_string(), size(r.size), seconds, bound, ratio, why]
    };
    let head = ["machine", "question", "size", "time", "bound + latency", "ratio", "why"];
    section.table(&head, &rows.iter().take(10).map(line).collect::<Vec<_>>());
}

fn worst_rivals(section: &mut Section, mut rows: Vec<&Row>) {
    rows.sort_by(|a, b| b.over_rival().total_cmp(&a.over_rival()));
    if rows.is_empty() {
        return;
    }
    section.say("The worst against programs by hand (simulated):");
    let line = |r: &&Row| {
        let seconds = r.ours.as_ref().map_or(String::new(), |o| micros(o.seconds));
        let ratio = format!("{:.3}", r.over_rival());
        let why = r.ours.as_ref().map_or(String::new(), |o| reason(o, &r.least));
        vec![
            r.machine.clone(),
            r.kind.to_string(),
            size(r.size),
            seconds,
            r.rival.0.clone(),
            micros(r.rival.1),
            ratio,
            why,
        ]
    };
    let head = ["machine", "question", "size", "ours", "best by hand", "its time", "ratio", "why"];
    section.table(&head, &rows.iter().take(10).map(line).collect::<Vec<_>>());
}

fn all_rows(section: &mut Section, rows: &[Row]) {
    let line = |r: &Row| {
        let ours = r.ours.as_ref();
        vec![
            r.machine.clone(),
            r.kind.to_string(),
            size(r.size),
            ours.map_or(String::new(), |o| micros(o.seconds)),
            micros(r.least.bandwidth),
            micros(r.shallow.1),
            format!("{:.3}", r.over_bound(r.shallow.1)),
            format!("{:.3}", ours.map_or(0.0, |o| o.load / r.least.bandwidth)),
            ours.map_or(0, |o| o.depth).to_string(),
            ours.map_or(0, |o| o.moves).to_string(),
            r.rival.0.clone(),
            micros(r.rival.1),
            format!("{:.3}", r.over_rival()),
        ]
    };
    let head = [
        "machine",
        "question",
        "size",
        "ours",
        "bandwidth",
        "latency",
        "ratio",
        "load",
        "depth",
        "moves",
        "best by hand",
        "its time",
        "ours / it",
    ];
    section.table(&head, &rows.iter().map(line).collect::<Vec<_>>());
}
