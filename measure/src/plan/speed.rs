//! How long planning takes, and how much memory: each plan in a process of its own.

use super::Arguments;
use super::question::{Answer, Question};
use crate::report::Section;
use ein_plan::cache::Cache;
use ein_plan::options::Options;
use ein_task::machine::Machine;
use einsummable::workloads::workload;
use std::time::Instant;

/// One question, and what is asked of its plan.
struct Row {
    what: &'static str,
    workload: &'static str,
    machine: &'static str,
    memory: Option<&'static str>,
    /// The most seconds; none where only the figure is of interest.
    seconds: Option<f64>,
    /// The largest gap.
    gap: Option<f64>,
    /// Whether the bar of peak memory holds.
    lean: bool,
}

/// The most bytes of a planning process.
const PEAK: f64 = 200.0 * 1048576.0;

const fn row(what: &'static str, workload: &'static str, machine: &'static str, seconds: Option<f64>) -> Row {
    Row { what, workload, machine, memory: None, seconds, gap: None, lean: true }
}

const ROWS: [Row; 9] = [
    row("LLaMA-3-8B, whole model", "llama-3-8b:1x4096", "8xa100", Some(1.0)),
    Row {
        memory: Some("10000GB"),
        gap: Some(0.0),
        ..row("70B, 80 layers, memory that does not bind", "llama-70b:8x1024", "8xa100-ideal", Some(2.0))
    },
    Row {
        memory: Some("80GB"),
        gap: Some(1e-3),
        ..row("70B, 80 layers, 80 GB", "llama-70b:8x1024", "8xa100-ideal", Some(2.0))
    },
    Row {
        memory: Some("40GB"),
        gap: Some(1e-3),
        ..row("70B, 80 layers, 40 GB", "llama-70b:8x1024", "8xa100-ideal", Some(2.0))
    },
    row("a chain of 1,000", "operations:1000", "8xa100", None),
    row("a chain of 5,000", "operations:5000", "8xa100", Some(1.0)),
    row("a chain of 10,000", "operations:10000", "8xa100", None),
    Row { lean: false, ..row("70B block, two servers", "llama-70b-block:8x1024", "2x8xa100", Some(10.0)) },
    Row { lean: false, ..row("70B block, 72 devices", "llama-70b-block:8x1024", "nvl72", Some(60.0)) },
];

/// The section.
pub fn section(arguments: &Arguments) -> Section {
    let mut section = Section::new("Planning time and memory (measured, best of up to three where short)");
    let mut table = Vec::new();
    let mut chains: Vec<(&str, f64)> = Vec::new();
    for row in ROWS.iter().filter(|r| arguments.wants(r.workload, r.machine)) {
        if arguments.quick && row.workload == "operations:10000" {
            continue;
        }
        let question = Question { memory: row.memory.map(Into::into), ..Question::new(row.workload, row.machine) };
        let asked = best(&question, arguments.limit);
        let name = format!("{} (`{}` on `{}`)", row.what, row.workload, row.machine);
        let answer = match asked {
            Ok(answer) => answer,
            Err(reason) => {
                section.verdict(name, "is planned", reason, false);
                continue;
            }
        };
        let (seconds, peak) = (answer.number("/report/planning_seconds"), answer.number("/peak_memory"));
        let gap = answer.number("/report/gap");
        if row.workload.starts_with("operations") {
            chains.push((row.workload, seconds));
        }
        if let Some(most) = row.seconds {
            section.verdict(&name, format!("< {most} s"), format!("{seconds:.3} s"), seconds < most);
        }
        if row.lean {
            section.verdict(format!("{}: peak memory", row.what), "< 200 MiB", mebibytes(peak), peak < PEAK);
        }
        if let Some(most) = row.gap {
            let bar = if most > 0.0 { format!("≤ {:.1} %", 100.0 * most) } else { "0".into() };
            section.verdict(format!("{}: gap", row.what), bar, format!("{:.4} %", 100.0 * gap), gap <= most);
        }
        table.push(vec![
            name,
            format!("{seconds:.3}"),
            mebibytes(peak),
            answer.number("/report/effort/rounds").to_string(),
            answer.number("/report/effort/patterns").to_string(),
            format!("{:.4} %", 100.0 * gap),
            format!("{:.6}", answer.number("/report/cost")),
        ]);
    }
    let time = |name: &str| chains.iter().find(|c| c.0 == name).map(|c| c.1);
    if let (Some(short), Some(long)) = (time("operations:1000"), time("operations:10000")) {
        let ratio = long / 10.0 / short;
        section.verdict("an operation of 10,000 against one of 1,000", "≤ 1.5×", format!("{ratio:.2}×"), ratio <= 1.5);
    }
    if arguments.workload.is_empty() && arguments.machine.is_empty() {
        let (first, again) = asked_again();
        let figure = format!("{:.3} ms (the first time {first:.2} s)", again * 1e3);
        section.verdict("70B, 80 layers, asked again in the process", "< 1 ms", figure, again < 1e-3);
    }
    let head = ["plan", "seconds", "peak of the process", "rounds", "patterns", "gap", "cost, s"];
    section.table(&head, &table);
    section
}

/// Seconds that a cache takes to answer a question the first time, and the median of nine times after.
fn asked_again() -> (f64, f64) {
    let graph = workload("llama-70b:8x1024").expect("it is a workload");
    let machine = Machine::by_name("8xa100-80").expect("it ships");
    let (cache, options) = (Cache::default(), Options::default());
    let mut seconds: Vec<f64> = (0..10)
        .map(|_| {
            let start = Instant::now();
            let _answer = cache.plan(&graph, &machine, &options).expect("it fits");
            start.elapsed().as_secs_f64()
        })
        .collect();
    let first = seconds.remove(0);
    seconds.sort_by(f64::total_cmp);
    (first, seconds[4])
}

/// The quickest of up to three answers to a question that takes a short time.
fn best(question: &Question, limit: f64) -> Result<Answer, String> {
    const SHORT: f64 = 3.0;
    let seconds = |a: &Answer| a.number("/report/planning_seconds");
    let mut best = question.ask(limit)?;
    for _ in 0..2 {
        if seconds(&best) > SHORT {
            break;
        }
        let next = question.ask(limit)?;
        if seconds(&next) < seconds(&best) {
            best = next;
        }
    }
    Ok(best)
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.0} MiB", bytes / 1048576.0)
}
