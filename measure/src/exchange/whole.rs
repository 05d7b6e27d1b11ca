//! Whole plans on the cube mesh, with our exchange programs and with naive ones.

use crate::report::{Section, each, micros};
use ein_plan::lower::lower;
use ein_plan::options::{ExchangeStyle, Options};
use ein_plan::plan::plan;
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::simulate::simulate;
use einsummable::workloads::workload;

/// Blocks whose mean gain has a bar, in the type that this machine computes fast, and in `f32`.
const BLOCKS: [&str; 4] = [
    "llama-7b-block:1x4096",
    "llama-7b-block:8x1024",
    "llama-7b-block:packed=2750+1810+1290+930+690+440+282",
    "llama-7b-block:1x32768",
];
const CHAIN: &str = "chain:bushy,8192";

/// One workload: seconds simulated, naive and ours.
struct Row {
    what: String,
    /// Both with the decomposition of our plan.
    same: (f64, f64),
    /// Each with its own best plan.
    own: (f64, f64),
}

/// The section.
pub fn section() -> Section {
    let mut section = Section::new("Whole plans on dgx-1v, synthesised against naive exchange (simulated)");
    let machine = Machine::by_name("dgx-1v").expect("a preset");
    let mut asked: Vec<String> = Vec::new();
    for dtype in ["f16", "f32"] {
        asked.extend(BLOCKS.iter().chain([&CHAIN]).map(|w| format!("{w},{dtype}")));
    }
    let rows = each(&asked, |what| row(what, &machine));
    let mut table = Vec::new();
    for dtype in ["f16", "f32"] {
        let of = |row: &&Result<Row, String>| row.as_ref().is_ok_and(|r| r.what.ends_with(dtype));
        let rows: Vec<&Row> = rows.iter().filter(of).filter_map(|r| r.as_ref().ok()).collect();
        let blocks: Vec<&&Row> = rows.iter().filter(|r| r.what.starts_with("llama")).collect();
        let gain = |pair: (f64, f64)| 1.0 - pair.1 / pair.0;
        let mean = |of: fn(&Row) -> (f64, f64)| {
            100.0 * blocks.iter().map(|r| gain(of(r))).sum::<f64>() / blocks.len().max(1) as f64
        };
        let (same, own) = (mean(|r| r.same), mean(|r| r.own));
        let found = format!("{same:.1} % with our decomposition; {own:.1} % each with its own plan");
        let passed = blocks.len() == BLOCKS.len() && same >= 5.6;
        section.verdict(format!("7B blocks in {dtype}: mean time saved"), "≥ 5.6 %", found, passed);
        for chain in rows.iter().filter(|r| r.what.starts_with("chain")) {
            let (same, own) = (chain.same.0 / chain.same.1, chain.own.0 / chain.own.1);
            let found = format!("{same:.2}× with our decomposition; {own:.2}× each with its own plan");
            section.verdict(format!("{CHAIN} in {dtype}"), "≥ 1.41×", found, same >= 1.41);
        }
    }
    for row in &rows {
        match row {
            Ok(r) => table.push(vec![
                r.what.clone(),
                micros(r.same.0),
                micros(r.same.1),
                format!("{:.3}", r.same.0 / r.same.1),
                micros(r.own.0),
                micros(r.own.1),
                format!("{:.3}", r.own.0 / r.own.1),
            ]),
            Err(fault) => section.verdict("workload", "is planned", fault.clone(), false),
        }
    }
    let head = ["workload", "naive", "ours", "naive ÷ ours", "naive, its own plan", "ours", "naive ÷ ours"];
    section.table(&head, &table);
    section
}

fn row(what: &str, machine: &Machine) -> Result<Row, String> {
    let fault = |e: String| format!("{what}: {e}");
    let graph = workload(what).map_err(|e| fault(e.to_string()))?;
    // Exchanges alone: what hides behind computation is not counted, on neither side.
    let options = Options { overlap: false, ..Options::default() };
    let naive = Options { exchange: ExchangeStyle::Naive, ..options.clone() };
    let ours = plan(&graph, machine, &options).map_err(|e| fault(e.to_string()))?;
    let mut tasks = lower(&ours.graph, &ours.choice, machine, &naive).map_err(|e| fault(e.to_string()))?;
    plan_memory(&mut tasks);
    let same = simulate(&tasks, machine).makespan().0;
    let theirs = plan(&graph, machine, &naive).map_err(|e| fault(e.to_string()))?;
    let (own, seconds) = (theirs.report.simulated_seconds.0, ours.report.simulated_seconds.0);
    Ok(Row { what: what.into(), same: (same, seconds), own: (own, seconds) })
}
