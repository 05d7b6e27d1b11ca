//! Bytes of one small block, against what modules compiled by XLA move for the best strategy that it can be told.

use super::Arguments;
use super::question::{Answer, Question};
use crate::report::{Section, each};

const MACHINE: &str = "8xa100-ideal";

/// One comparison.
struct Row {
    what: &'static str,
    workload: &'static str,
    machine: &'static str,
    /// The placement.
    placed: Placed,
    /// The most megabytes that a device sends.
    bar: Option<f64>,
}

/// Where things are held, as nearly as it can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placed {
    /// `x` and the result once, where the plan likes; memory does not bind.
    Whole,
    /// `x` and the result whole on every device, which has the memory that a strategy with every weight cut takes.
    Cut,
    /// `x` and the result once; the memory of four groups of two with their part of the batch, and weights cut in two.
    Mixed,
}

const ROWS: [Row; 9] = [
    Row {
        what: "whole weights",
        workload: "d1024:1x512,8,8",
        machine: MACHINE,
        placed: Placed::Whole,
        bar: Some(0.92),
    },
    Row { what: "cut weights", workload: "d1024:1x512,8,8", machine: MACHINE, placed: Placed::Cut, bar: Some(7.34) },
    Row { what: "whole weights", workload: "d1024:8x128,8,8", machine: MACHINE, placed: Placed::Whole, bar: Some(0.0) },
    Row { what: "cut weights", workload: "d1024:8x128,8,8", machine: MACHINE, placed: Placed::Cut, bar: None },
    Row {
        what: "batch in 4, weights in 2",
        workload: "d1024:8x128,8,8",
        machine: MACHINE,
        placed: Placed::Mixed,
        bar: Some(2.10),
    },
    Row { what: "3 devices", workload: "d1024:1x512,8,8", machine: "8xa100-ideal:3", placed: Placed::Whole, bar: None },
    Row { what: "6 devices", workload: "d1024:1x512,8,8", machine: "8xa100-ideal:6", placed: Placed::Whole, bar: None },
    Row { what: "4 heads of keys", workload: "d1024:1x512,16,4", machine: MACHINE, placed: Placed::Whole, bar: None },
    Row {
        what: "4 heads of keys, cut",
        workload: "d1024:1x512,16,4",
        machine: MACHINE,
        placed: Placed::Cut,
        bar: None,
    },
];

/// The section.
pub fn section(arguments: &Arguments) -> Section {
    let mut section = Section::new("A block of 1,024 features in f32, bytes objective (counted)");
    let rows: Vec<&Row> = ROWS.iter().filter(|r| arguments.wants(r.workload, r.machine)).collect();
    let found = each(&rows, |row| asked(row, arguments.limit));
    let mut table = Vec::new();
    for (row, answer) in rows.iter().zip(found) {
        let what = format!("`{}`, {}", row.workload, row.what);
        let (found, sent) = match answer {
            Ok(answer) => {
                let sent = answer.largest("/report/bytes_per_device/sent") / 1e6;
                (format!("{sent:.3} MB"), sent)
            }
            Err(reason) => (reason, f64::INFINITY),
        };
        match row.bar {
            // Bars are given to two digits behind the point.
            Some(bar) => section.verdict(what, format!("≤ {bar:.2} MB"), found, sent <= bar + 0.005),
            None => table.push(vec![what, found]),
        }
    }
    section.table(&["sent by a device, no bar", "found"], &table);
    section.say(
        "Where inputs, outputs and weights are held cannot be asked for exactly yet. Whole weights: `x` and the result are held \
         once, where the plan likes, and memory does not bind. Cut weights: `x` and the result are whole on every device, and \
         a device has the memory that Megatron's cuts take. Mixed: as whole weights, but with the memory of data over 4 groups, tensor inside.",
    );
    section
}

fn asked(row: &Row, limit: f64) -> Result<Answer, String> {
    let free = Question { objective: "bytes".into(), no_overlap: true, ..Question::new(row.workload, row.machine) };
    match row.placed {
        Placed::Whole => free.ask(limit),
        Placed::Cut => {
            let held = Question { inputs: "replicated".into(), outputs: "replicated".into(), ..free };
            held.with_memory_of("tensor", limit)?.ask(limit)
        }
        Placed::Mixed => free.with_memory_of("data-4-tensor-2", limit)?.ask(limit),
    }
}
