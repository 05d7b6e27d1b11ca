//! What a task costs beside its work: thousands of tasks that do next to nothing.

use super::{Arguments, load};
use crate::report::{Section, micros};
use ein_run::Executor;
use ein_run::measure::median;
use ein_task::memory::plan_memory;
use ein_task::task_text::parse;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Instant;

const TASKS: usize = 10_000;
const BAR: f64 = 2e-6;

/// The section.
pub fn section(arguments: &Arguments) -> Section {
    let mut section = Section::new("Time of a task beside its work");
    for (what, devices, rows) in [
        ("one after the other, one device", 1, chain(1, false)),
        ("all at once, one device", 1, wide(1)),
        ("one after the other on each of 8 devices", 8, chain(8, false)),
        ("one after the other, each moved on to the next of 8 devices", 8, chain(8, true)),
        ("all at once, 8 devices", 8, wide(8)),
    ] {
        match seconds(devices, &rows, arguments) {
            Ok(seconds) => section.verdict(what, format!("< {}", micros(BAR)), micros(seconds), seconds < BAR),
            Err(fault) => section.verdict(what, "runs", fault.to_string(), false),
        }
    }
    section.say(&format!(
        "{TASKS} rows that cut, paste or move 16 bytes, {} threads, the median of {} runs, divided by the number of rows.",
        arguments.threads, arguments.runs
    ));
    section.say(&load());
    section
}

/// Rows of which each reads the one before it on its device, or on the device before.
fn chain(devices: usize, moved: bool) -> String {
    let mut rows = String::new();
    let mut last: Vec<usize> = Vec::new();
    let mut n = 0;
    for d in 0..devices {
        let _ = writeln!(rows, "t{n} d{d} feed x0 -> [0:4] f32 of 0");
        last.push(n);
        n += 1;
    }
    while n < TASKS {
        for d in 0..devices {
            if moved {
                let to = (d + 1) % devices;
                let _ = writeln!(rows, "t{n} d{d} send d{to} reads t{} -> [0:4] nothing of 0", last[d]);
                let _ = writeln!(rows, "t{} d{to} receive d{d} reads t{n} -> [0:4] f32 of 0", n + 1);
                last[to] = n + 1;
                n += 2;
            } else {
                let _ = writeln!(rows, "t{n} d{d} paste reads t{} -> [0:4] f32 of 0", last[d]);
                last[d] = n;
                n += 1;
            }
        }
    }
    let _ = writeln!(rows, "t{n} d0 output o0 reads t{} -> [0:4] nothing of 0", last[0]);
    rows
}

/// Rows that wait for a feed alone.
fn wide(devices: usize) -> String {
    let mut rows = String::new();
    for d in 0..devices {
        let _ = writeln!(rows, "t{d} d{d} feed x0 -> [0:4] f32 of 0");
    }
    for n in devices..TASKS {
        let d = n % devices;
        let _ = writeln!(rows, "t{n} d{d} paste reads t{d} -> [0:4] f32 of 0");
    }
    let _ = writeln!(rows, "t{TASKS} d0 output o0 reads t0 -> [0:4] nothing of 0");
    rows
}

/// Seconds of a row.
fn seconds(devices: usize, rows: &str, arguments: &Arguments) -> Result<f64, Box<dyn Error>> {
    let head = format!("devices {devices}\nexternal 0 input \"x\" f32[4]\noutput 0 \"y\" f32[4]\nlabel 0 \"a\"\n");
    let mut graph = parse(&(head + rows), &[])?;
    plan_memory(&mut graph);
    let count = graph.tasks.len() as f64;
    let mut executor = Executor::with_threads(graph, &BTreeMap::new(), arguments.threads)?;
    let inputs = BTreeMap::from([("x".to_owned(), ein_ir::dense::Dense::f32([4], vec![1.0, 2.0, 3.0, 4.0]))]);
    let mut outputs = BTreeMap::new();
    let mut all = Vec::new();
    for run in 0..arguments.runs + 3 {
        let start = Instant::now();
        executor.run_into(&inputs, &mut outputs)?;
        if run >= 3 {
            all.push(start.elapsed().as_secs_f64() / count);
        }
    }
    Ok(median(&all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiny_tasks_run() {
        let arguments = Arguments {
            what: vec![],
            workload: String::new(),
            quick: false,
            report: true,
            python: "python3".into(),
            compare: String::new(),
            threads: 2,
            runs: 1,
            model: "none".into(),
        };
        for (devices, rows) in [(1, wide(1)), (8, chain(8, true)), (3, chain(3, false))] {
            assert!(seconds(devices, &rows, &arguments).expect("it runs") > 0.0);
        }
    }
}
