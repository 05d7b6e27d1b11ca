//! Drawn plans run on threads of this host: what foretells how long they take.

use super::Arguments;
use super::graphs::graph;
use crate::report::Section;
use crate::running::{seconds, timelines};
use crate::statistics::pearson;
use ein_plan::options::{Options, Strategy};
use ein_plan::plan::plan;
use ein_run::measure::measure;
use ein_task::machine::Machine;
use std::error::Error;
use std::time::SystemTime;

const WORKLOAD: &str = "d1024:1x512,8,8";
const DEVICES: usize = 4;
const DRAWS: u64 = 60;
/// Of these the quickest counts: what else the host does only adds.
const RUNS: usize = 7;
const CORRELATION: f64 = 0.9;

/// One drawn plan: its cost, what it moves, what the simulator says, and what was measured.
struct Row {
    cost: f64,
    bytes: f64,
    simulated: f64,
    measured: f64,
}

/// The section.
pub fn section(arguments: &Arguments) -> Section {
    let mut section = Section::new("Drawn plans of a block of 1,024 features, f32, on 4 virtual devices (measured)");
    if !arguments.wants(WORKLOAD, "4xcpu") {
        return section;
    }
    let rows = match rows(if arguments.quick { DRAWS / 4 } else { DRAWS }) {
        Ok(rows) => rows,
        Err(fault) => {
            section.verdict(WORKLOAD, "runs", fault.to_string(), false);
            return section;
        }
    };
    let of = |figure: fn(&Row) -> f64| pearson(&rows.iter().map(|r| (figure(r), r.measured)).collect::<Vec<_>>());
    let (cost, bytes, simulated) = (of(|r| r.cost), of(|r| r.bytes), of(|r| r.simulated));
    let found = format!("{cost:.3}, bytes {bytes:.3} ({} plans; simulated seconds {simulated:.3})", rows.len());
    let bar = format!("≥ {CORRELATION} and above that of bytes");
    section.verdict("r of our cost and measured seconds", bar, found, cost >= CORRELATION && cost > bytes);
    let row = |r: &Row| [r.cost, r.simulated, r.measured].map(|s| format!("{:.2}", s * 1e3)).to_vec();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown").to_owned();
    section.say(&format!(
        "Load of the host over the last minute, this run included: {load}. The quickest of {RUNS} runs counts."
    ));
    if arguments.rows {
        section.table(&["cost, ms", "simulated, ms", "measured, ms"], &rows.iter().map(row).collect::<Vec<_>>());
    }
    section
}

fn rows(draws: u64) -> Result<Vec<Row>, Box<dyn Error>> {
    let machine = Machine::parse(&measure(DEVICES, 9)?.file(DEVICES, SystemTime::now())?)?;
    let graph = graph(WORKLOAD)?;
    let mut rows = Vec::new();
    for seed in 0..draws {
        let plan = plan(&graph, &machine, &Options { strategy: Some(Strategy::Random(seed)), ..Options::default() })?;
        let measured = seconds(&timelines(&plan, RUNS)?).into_iter().fold(f64::INFINITY, f64::min);
        let (cost, simulated) = (plan.report.cost, plan.report.simulated_seconds.0);
        eprintln!("  draw {seed}: {:.1} ms, simulated {:.1}, cost {:.1}", measured * 1e3, simulated * 1e3, cost * 1e3);
        rows.push(Row { cost, bytes: plan.report.bytes_total.0 as f64, simulated, measured });
    }
    Ok(rows)
}
