//! How long synthesis takes, in seconds of the processor, whatever else the host does.

use super::machines::{presets, workers};
use super::questions::{Kind, exchange};
use crate::report::Section;
use ein_plan::exchanges::{Planned, exchanges};
use ein_plan::options::Options;
use ein_plan::plan::plan;
use ein_plan::synthesis::synthesize;
use ein_task::exchange::Exchange;
use ein_task::machine::Machine;
use einsummable::workloads::workload;

/// The blocks whose exchanges are timed.
const BLOCKS: [&str; 3] = ["llama-7b-block:1x4096", "llama-7b-block:8x1024", "llama-7b-block:1x32768"];

/// The section.
pub fn section() -> Section {
    let mut section = Section::new("Synthesis time (measured, processor time of one thread)");
    let mut table = Vec::new();
    for name in ["8xa100", "dgx-1v"] {
        let machine = Machine::by_name(name).expect("a preset");
        let mut found: Vec<Exchange> = Vec::new();
        for block in BLOCKS {
            match planned(block, &machine) {
                Ok(planned) => found.extend(distinct(planned).into_iter().map(|d| d.0)),
                Err(reason) => section.say(&format!("{block} on {name}: {reason}")),
            }
        }
        let mut times: Vec<f64> = found.iter().map(|question| seconds_of(question, &machine)).collect();
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().unwrap_or(0.0);
        let worst = times.last().copied().unwrap_or(0.0);
        let passed = !times.is_empty() && median < 20e-3 && worst < 100e-3;
        let text = format!("{} exchanges: median {:.1} ms, worst {:.1} ms", times.len(), median * 1e3, worst * 1e3);
        section.verdict(
            format!("distinct exchanges of 7B blocks on {name}"),
            "median < 20 ms, worst < 100 ms",
            text,
            passed,
        );
    }
    layers(&mut section);
    for preset in presets().iter().filter(|p| workers(&p.machine).len() > 16) {
        let times = Kind::NAMED.map(|kind| {
            let question = exchange(kind, &workers(&preset.machine), 64 << 20);
            (kind, seconds_of(&question, &preset.machine))
        });
        table.extend(times.map(|(kind, s)| vec![preset.names.join(", "), kind.to_string(), format!("{s:.3} s")]));
        let worst = times.iter().map(|t| t.1).fold(0.0, f64::max);
        let what = format!("named questions of 64 MB on {}", preset.names.join(", "));
        section.verdict(what, "< 2 s each", format!("worst {worst:.3} s"), worst < 2.0);
    }
    section.table(&["machine", "question", "synthesis"], &table);
    section
}

/// Eighty equal layers ask the questions of one.
fn layers(section: &mut Section) {
    const LAYERS: usize = 80;
    let (what, machine) = ("llama-70b:1x1024", Machine::by_name("8xa100-80").expect("a preset"));
    let bar = "the questions of one layer, and of the two ends";
    match planned(what, &machine) {
        Ok(planned) => {
            let count = planned.len();
            let distinct = distinct(planned);
            // A question of the layers is asked by nearly all of them; the ends may have a few of their own.
            let rare = distinct.iter().filter(|d| d.1 < LAYERS - 2).count();
            let found = format!("{count} exchanges, {} distinct, {rare} of them not in every layer", distinct.len());
            section.verdict(format!("{LAYERS} layers of {what}"), bar, found, distinct.len() <= count / LAYERS + 6);
        }
        Err(reason) => section.verdict(format!("{LAYERS} layers of {what}"), bar, reason, false),
    }
}

/// The exchanges of a workload's plan.
fn planned(what: &str, machine: &Machine) -> Result<Vec<Planned>, String> {
    let graph = workload(what).map_err(|e| e.to_string())?;
    let options = Options::default();
    let plan = plan(&graph, machine, &options).map_err(|e| e.to_string())?;
    exchanges(&plan.graph, &plan.choice, &options, machine).map_err(|e| e.to_string())
}

/// Distinct questions, and how often each is asked.
fn distinct(planned: Vec<Planned>) -> Vec<(Exchange, usize)> {
    let mut found: Vec<(Exchange, usize)> = Vec::new();
    for p in planned {
        match found.iter_mut().find(|f| f.0 == p.exchange) {
            Some(same) => same.1 += 1,
            None => found.push((p.exchange, 1)),
        }
    }
    found
}

/// Seconds of the first synthesis of a question: the mean of several, since the system counts in steps of some
/// milliseconds.
fn seconds_of(question: &Exchange, machine: &Machine) -> f64 {
    const TIMES: u32 = 8;
    let start = processor_seconds();
    for _ in 0..TIMES {
        let program = synthesize(question, machine);
        assert!(program.is_ok(), "{program:?}");
    }
    (processor_seconds() - start) / f64::from(TIMES)
}

/// Seconds that this thread has run (Linux).
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("times are measured on Linux");
    text.split_whitespace().next().and_then(|t| t.parse::<f64>().ok()).expect("nanoseconds come first") * 1e-9
}
