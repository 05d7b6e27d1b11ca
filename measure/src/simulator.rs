//! The simulator against real runs: the same task graphs simulated on this host's fitted machine, and run on its
//! virtual devices, which are threads.

mod cases;

use crate::running::{seconds, timelines};
use crate::statistics::{median_error, pearson};
use cases::{Asked, Case};
use clap::Args;
use ein_ir::text;
use ein_plan::options::Options;
use ein_plan::plan::{Plan, plan};
use ein_run::measure::{Figures, measure, median};
use ein_task::machine::Machine;
use ein_task::simulate::simulate;
use ein_task::timeline::Timeline;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

/// The most virtual devices of any case.
const DEVICES: usize = 8;
/// The bars: correlation, of times and of their logarithms, and the median of the relative errors.
const CORRELATION: f64 = 0.9;
const ERROR: f64 = 0.15;

/// What is asked.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A machine file from `ein machine measure --devices 8`; measured afresh if not given
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// How often the host is measured and every plan run, in turns, since the host's speed drifts
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Runs of each plan in a round that count, after three that do not
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Compare every kind of task, too: seconds simulated and measured, summed over devices
    #[arg(long)]
    verbs: bool,
}

/// One case, simulated and measured.
struct Row {
    case: String,
    devices: usize,
    tasks: usize,
    simulated: f64,
    measured: f64,
}

impl Row {
    fn error(&self) -> f64 {
        self.simulated / self.measured - 1.0
    }
}

/// Compares, prints Markdown, and fails if a bar is missed.
pub fn run(arguments: &Arguments) -> ExitCode {
    match compared(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("simulator: {error}");
            ExitCode::from(2)
        }
    }
}

fn compared(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let given = arguments.machine.as_ref().map(std::fs::read_to_string).transpose()?;
    let mut figures = Vec::new();
    let mut text = given.clone().unwrap_or_default();
    if given.is_none() {
        figures.push(measure(DEVICES, 9)?);
        text = figures[0].file(DEVICES, SystemTime::now())?;
    }
    let machine = Machine::parse(&text)?;
    let (mut plans, mut refused) = (Vec::new(), Vec::new());
    for case in cases::all().into_iter().filter(|c| c.name().contains(&arguments.only)) {
        match planned(&case, &machine)? {
            Ok(plan) => plans.push((case, plan, Vec::new())),
            Err(reason) => refused.push(format!("{}: {reason}", case.name())),
        }
    }
    for round in 0..arguments.rounds {
        if round > 0 && given.is_none() {
            figures.push(measure(DEVICES, 9)?);
        }
        for (_, plan, runs) in &mut plans {
            runs.extend(timelines(plan, arguments.runs.into())?);
        }
    }
    if let Some((first, more)) = figures.split_first() {
        text = Figures::medians(first, more).file(DEVICES, SystemTime::now())?;
    }
    let machine = Machine::parse(&text)?;
    let mut rows = Vec::new();
    for (case, plan, runs) in &plans {
        rows.push(compare(case, plan, &machine.first(case.devices)?, runs, arguments.verbs));
    }
    print!("{}", head(&text));
    print!("{}", table(&rows));
    for line in refused {
        println!("* No plan: {line}");
    }
    Ok(verdict(&rows))
}

/// The plan of a case; the reason where a fixed strategy does not apply.
fn planned(case: &Case, machine: &Machine) -> Result<Result<Plan, String>, Box<dyn Error>> {
    let graph = text::parse(&case.graph).map_err(|e| format!("{}: {e}", case.name()))?;
    let options = match case.asked {
        Asked::Searched => Options::default(),
        Asked::FewestBytes => Options { objective: ein_plan::options::Objective::Bytes, ..Options::default() },
        Asked::Fixed(strategy) => Options { strategy: Some(strategy), ..Options::default() },
    };
    Ok(plan(&graph, &machine.first(case.devices)?, &options).map_err(|e| e.to_string()))
}

/// Simulates a plan on the machine as it was measured in all rounds, and compares its runs.
fn compare(case: &Case, plan: &Plan, machine: &Machine, timelines: &[Timeline], verbs: bool) -> Row {
    let simulated = simulate(&plan.tasks, machine);
    let mut by_verb: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let verb = |task: u32| plan.tasks.tasks[task as usize].verb.name().to_owned();
    for e in timelines.iter().flat_map(|t| &t.events) {
        by_verb.entry(verb(e.task)).or_default().1 += (e.end.0 - e.start.0) / timelines.len() as f64;
    }
    for e in &simulated.events {
        by_verb.entry(verb(e.task)).or_default().0 += e.end.0 - e.start.0;
    }
    let row = Row {
        case: case.name(),
        devices: case.devices,
        tasks: plan.tasks.tasks.len(),
        simulated: simulated.makespan().0,
        measured: median(&seconds(timelines)),
    };
    eprintln!(
        "{:<44} {:>9.3} ms {:>9.3} ms {:>+6.1} %",
        row.case,
        row.simulated * 1e3,
        row.measured * 1e3,
        100.0 * row.error()
    );
    if verbs {
        for (verb, (simulated, measured)) in by_verb {
            eprintln!("    {verb:<10} {:>9.3} ms {:>9.3} ms", simulated * 1e3, measured * 1e3);
        }
    }
    row
}

/// The figures that were fitted, and how busy the host is.
fn head(machine: &str) -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown").to_owned();
    let mut out = format!(
        "\nLoad of the host over the last minute, this run included: {load}. Its machine file begins:\n\n```toml\n"
    );
    for line in machine.lines().take_while(|l| !l.starts_with("[[resources]]") && !l.starts_with("[[switches]]")) {
        let _ = writeln!(out, "{line}");
    }
    out + "```\n"
}

fn table(rows: &[Row]) -> String {
    let mut out = "\n| plan | devices | tasks | simulated | measured | error |\n|---|---|---|---|---|---|\n".to_owned();
    for r in rows {
        let (simulated, measured, error) = (r.simulated * 1e3, r.measured * 1e3, 100.0 * r.error());
        let _ = writeln!(
            out,
            "| {} | {} | {} | {simulated:.3} ms | {measured:.3} ms | {error:+.0} % |",
            r.case, r.devices, r.tasks
        );
    }
    out + "\n"
}

/// Prints the bars; whether all are passed.
fn verdict(rows: &[Row]) -> bool {
    let pairs: Vec<(f64, f64)> = rows.iter().map(|r| (r.simulated, r.measured)).collect();
    let logs: Vec<(f64, f64)> = pairs.iter().map(|p| (p.0.ln(), p.1.ln())).collect();
    let (r, log_r, error) = (pearson(&pairs), pearson(&logs), median_error(&pairs));
    let word = |passed: bool| if passed { "PASS" } else { "FAIL" };
    let enough = rows.len() >= 30;
    println!("| what | bar | found | |\n|---|---|---|---|");
    println!("| plans | 30 | {} | {} |", rows.len(), word(enough));
    println!("| r of times | {CORRELATION} | {r:.3} | {} |", word(r >= CORRELATION));
    println!("| r of their logarithms | {CORRELATION} | {log_r:.3} | {} |", word(log_r >= CORRELATION));
    println!("| median error | {:.0} % | {:.1} % | {} |", 100.0 * ERROR, 100.0 * error, word(error <= ERROR));
    enough && r >= CORRELATION && log_r >= CORRELATION && error <= ERROR
}
