//! Tiny networks in just the memory that a fixed strategy takes: the search must not be slower than it there.

use super::Arguments;
use super::graphs::graph;
use super::question::place;
use crate::report::{Section, each};
use ein_ir::graph::Graph;
use ein_plan::options::Options;
use ein_plan::plan::{compare, plan};
use ein_plan::report::StrategyReport;
use ein_task::machine::Machine;
use ein_task::units::Bytes;

const MACHINES: [&str; 3] = ["8xa100:4", "dgx-1v:3", "pcie-8:4"];
/// Features in and out, hidden features, rows.
const WIDE: [usize; 4] = [8, 24, 64, 96];
const HIDDEN: [usize; 4] = [16, 48, 128, 160];
const ROWS: [usize; 3] = [4, 20, 64];
/// What differs by less is equal.
const ROUNDING: f64 = 1e-9;
/// How much slower is listed, in any case.
const MUCH: f64 = 1.05;

/// A fixed strategy, and the plan in its memory.
struct Row {
    what: String,
    /// Seconds and bytes, of ours over the strategy's; none where we have no plan.
    ours: Option<(f64, f64)>,
    why: String,
}

/// The section.
pub fn section(arguments: &Arguments) -> Section {
    let mut section = Section::new("Tiny networks in the memory of each fixed strategy");
    let mut asked: Vec<(String, &str)> = Vec::new();
    for machine in MACHINES {
        for (wide, hidden) in WIDE.iter().flat_map(|w| HIDDEN.iter().map(move |h| (w, h))) {
            asked.extend(ROWS.iter().map(|rows| (format!("ffnn:{wide},{hidden},{wide},{rows}"), machine)));
        }
    }
    asked.retain(|(workload, machine)| arguments.wants(workload, machine));
    asked.truncate(if arguments.quick { 12 } else { asked.len() });
    if asked.is_empty() {
        return section;
    }
    let rows = each(&asked, |(workload, machine)| rows(workload, machine));
    let (faults, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(Result::is_err);
    for fault in faults.into_iter().filter_map(Result::err) {
        section.verdict("networks", "are planned", fault, false);
    }
    let rows: Vec<Row> = rows.into_iter().flatten().flatten().collect();
    let all = rows.len();
    let count = |is: &dyn Fn(&Row) -> bool| rows.iter().filter(|r| is(r)).count();
    let slower = |by: f64| move |r: &Row| r.ours.is_none_or(|o| o.0 > by);
    let (slow, much) = (count(&slower(1.0 + ROUNDING)), count(&slower(MUCH)));
    let worst = rows.iter().filter_map(|r| r.ours).map(|o| o.0).fold(0.0, f64::max);
    let found = format!("{slow} of {all}, at most {worst:.4} of the strategy's seconds");
    section.verdict("slower than the strategy, or refused", "0", found, slow == 0);
    section.verdict("by more than a twentieth, or refused", "0", format!("{much}"), much == 0);
    let more = count(&|r| r.ours.is_some_and(|o| o.1 > 1.0 + ROUNDING));
    section.say(&format!("{more} of them move more bytes, which is not what was asked."));
    let row = |r: &Row| {
        let figures = r.ours.map_or_else(Default::default, |o| [o.0, o.1].map(|x| format!("{x:.4}")));
        [vec![r.what.clone()], figures.to_vec(), vec![r.why.clone()]].concat()
    };
    let listed: Vec<Vec<String>> =
        rows.iter().filter(|r| arguments.rows || slower(1.0 + ROUNDING)(r)).map(row).collect();
    section.table(&["network, machine, strategy", "seconds ÷ its", "bytes ÷ its", "refused"], &listed);
    section
}

/// All strategies that apply to a network, and our plan in the memory of each.
fn rows(workload: &str, machine: &str) -> Result<Vec<Row>, String> {
    let (graph, place) = (graph(workload)?, place(machine)?);
    let options = Options { overlap: false, ..Options::default() };
    let strategies = compare(&graph, &place, &options);
    Ok(strategies.iter().filter_map(|s| row(&graph, &place, &options, s, &format!("{workload} {machine}"))).collect())
}

fn row(graph: &Graph, machine: &Machine, options: &Options, strategy: &StrategyReport, what: &str) -> Option<Row> {
    let (seconds, bytes) = (strategy.seconds?.0, strategy.bytes_total?.0);
    let most = strategy.peak_memory_per_device.as_ref()?.iter().map(|b| b.0).max()?;
    let mut small = machine.clone();
    small.devices.iter_mut().for_each(|d| d.memory = Bytes(most));
    let what = format!("{what} {}", strategy.strategy);
    Some(match plan(graph, &small, options) {
        Ok(plan) => {
            let moved = match (plan.report.bytes_total.0, bytes) {
                (0, 0) => 1.0,
                (ours, its) => ours as f64 / its as f64,
            };
            Row { what, ours: Some((plan.report.seconds.0 / seconds, moved)), why: String::new() }
        }
        Err(reason) => Row { what, ours: None, why: reason.to_string().lines().next().unwrap_or("").to_owned() },
    })
}
