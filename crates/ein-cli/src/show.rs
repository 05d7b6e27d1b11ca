//! What is printed.

use crate::failure::Failure;
use ein_plan::cache::Origin;
use ein_plan::plan::Plan;
use ein_plan::report::{Report, StrategyReport};
use ein_task::units::{Bytes, Seconds};
use serde_json::Value;
use std::fmt::Write as _;

/// The report as JSON, and whether the plan was known: the seconds of planning are then those it once took.
pub fn report_json(report: &Report, origin: Origin) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(report).map_err(Failure::run)?;
    value["cached"] = (origin != Origin::Planned).into();
    Ok(value)
}

/// Strategies as JSON: an object by name.
pub fn strategies_json(strategies: &[StrategyReport]) -> Result<Value, Failure> {
    let mut all = serde_json::Map::new();
    for s in strategies {
        let mut value = serde_json::to_value(s).map_err(Failure::run)?;
        if let Some(fields) = value.as_object_mut() {
            fields.remove("strategy");
            fields.retain(|_, v| !v.is_null());
        }
        all.insert(s.strategy.clone(), value);
    }
    Ok(Value::Object(all))
}

/// A cost in its unit.
pub fn cost(value: f64, unit: &str) -> String {
    if unit == "s" { Seconds(value).to_string() } else { Bytes(value as u64).to_string() }
}

/// The figures of a plan.
pub fn report(r: &Report, origin: Origin) -> String {
    let mut text = String::new();
    let peak = r.peak_memory_per_device[..r.devices].iter().max().copied().unwrap_or_default();
    let sent = r.bytes_per_device.sent.iter().max().copied().unwrap_or_default();
    let strategy = r.strategy.as_ref().map_or(String::new(), |s| format!(", fixed strategy {s}"));
    let _ = writeln!(text, "  machine      {} ({} devices), objective {}{strategy}", r.machine, r.devices, r.objective);
    let _ = writeln!(
        text,
        "  cost         {}; lower bound {}, gap {:.2} %; bound on any plan at all {}, gap {:.0} %",
        cost(r.cost, &r.cost_unit),
        cost(r.lower_bound, &r.cost_unit),
        100.0 * r.gap,
        cost(r.lower_bound_absolute, &r.cost_unit),
        100.0 * r.gap_absolute
    );
    let _ = writeln!(text, "  time         {} serial, {} simulated with overlap", r.seconds, r.simulated_seconds);
    for line in r.overlap.lines() {
        let _ = writeln!(text, "  overlap      {line}");
    }
    if r.exchanges == "lean" {
        let _ = writeln!(text, "  exchanges    store as little at once as they can: the quickest do not fit");
    }
    let _ = writeln!(text, "  moved        {} in all, at most {sent} sent by a device", r.bytes_total);
    let _ = writeln!(text, "  memory       at most {peak} a device; largest share of work {:.2} × mean", r.balance);
    let hosts = Bytes(r.peak_memory_per_device[r.devices..].iter().map(|b| b.0).sum());
    if hosts.0 > 0 {
        let _ =
            writeln!(text, "  host         keeps {hosts} of what is resident, sent to where it is read in every run");
    }
    if r.effort.stopped {
        let _ = writeln!(text, "  search       ended by the time limit: more time may find better");
    }
    let known = match origin {
        Origin::Planned => "",
        Origin::Process | Origin::Store => "; known from then: --no-cache plans afresh",
    };
    let _ = writeln!(text, "  planned in   {} ({} operations){known}", r.planning_seconds, r.operations);
    let _ = writeln!(text, "  assuming     inputs {}; outputs {}", r.assumptions.inputs, r.assumptions.outputs);
    text
}

/// What each device sends, receives and holds; devices in a row that do the same are one line.
pub fn devices(plan: &Plan) -> String {
    let r = &plan.report;
    let figures = |d: usize| (r.bytes_per_device.sent[d], r.bytes_per_device.received[d], r.peak_memory_per_device[d]);
    let names: Vec<&str> = plan.machine.devices.iter().map(|d| d.name.as_str()).collect();
    let mut text = format!("  {:<16} {:>11} {:>11} {:>11}\n", "device", "sent", "received", "memory");
    let ids: Vec<usize> = (0..names.len()).collect();
    for run in ids.chunk_by(|&a, &b| figures(a) == figures(b)) {
        let (first, last) = (names[run[0]], names[run[run.len() - 1]]);
        let name = if run.len() == 1 { first.to_string() } else { format!("{first} to {last}") };
        let (sent, received, memory) = figures(run[0]);
        let (sent, received, memory) = (sent.to_string(), received.to_string(), memory.to_string());
        let _ = writeln!(text, "  {name:<16} {sent:>11} {received:>11} {memory:>11}");
    }
    text
}

/// Ours beside every fixed strategy.
pub fn strategies(ours: &Report, strategies: &[StrategyReport]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "  {:<16} {:>11} {:>11} {:>11} {:>11}", "plan", "serial", "simulated", "moved", "memory");
    let peak = |bytes: &[Bytes]| bytes.iter().max().copied().unwrap_or_default().to_string();
    let mut row = |name: &str, serial: Seconds, simulated: Seconds, moved: Bytes, memory: String, remark: &str| {
        let (a, b, c) = (serial.to_string(), simulated.to_string(), moved.to_string());
        let _ = writeln!(text, "  {name:<16} {a:>11} {b:>11} {c:>11} {memory:>11}{remark}");
    };
    let memory = peak(&ours.peak_memory_per_device);
    row("ours", ours.seconds, ours.simulated_seconds, ours.bytes_total, memory, "");
    let mut refused = String::new();
    for s in strategies {
        if let Some(reason) = &s.refused {
            let _ = writeln!(refused, "  {:<16} refused: {reason}", s.strategy);
            continue;
        }
        let mut remark = String::new();
        if s.fits == Some(false) {
            remark.push_str("  does not fit");
        }
        if s.balanced == Some(false) {
            remark.push_str("  not balanced");
        }
        row(
            &s.strategy,
            s.seconds.unwrap_or_default(),
            s.simulated_seconds.unwrap_or_default(),
            s.bytes_total.unwrap_or_default(),
            peak(s.peak_memory_per_device.as_deref().unwrap_or_default()),
            &remark,
        );
    }
    text + &refused
}

/// A text on one line: control characters as escapes.
pub fn escaped(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// The start of a text, enough to know it by.
pub fn excerpt(text: &str) -> String {
    const MOST: usize = 80;
    let start: String = text.chars().take(MOST).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    escaped(&start) + more
}
