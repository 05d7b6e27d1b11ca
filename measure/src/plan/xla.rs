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
    /// Whether `x` and the result are whole on every device, and a device has no more memory than a fixed strategy that cuts
    /// every weight takes.
    cut: bool,
    /// The most megabytes that a device sends.
    bar: Option<f64>,
}

const ROWS: [Row; 8] = [
    Row { what: "whole weights", workload: "d1024:1x512,8,8", machine: MACHINE, cut: false, bar: Some(0.92) },
    Row { what: "cut weights", workload: "d1024:1x512,8,8", machine: MACHINE, cut: true, bar: Some(7.34) },
    Row { what: "whole weights", workload: "d1024:8x128,8,8", machine: MACHINE, cut: false, bar: Some(0.0) },
    Row { what: "cut weights", workload: "d1024:8x128,8,8", machine: MACHINE, cut: true, bar: None },
    Row { what: "3 devices", workload: "d1024:1x512,8,8", machine: "8xa100-ideal:3", cut: false, bar: None },
    Row { what: "6 devices", workload: "d1024:1x512,8,8", machine: "8xa100-ideal:6", cut: false, bar: None },
    Row { what: "4 heads of keys", workload: "d1024:1x512,16,4", machine: MACHINE, cut: false, bar: None },
    Row { what: "4 heads of keys, cut", workload: "d1024:1x512,16,4", machine: MACHINE, cut: true, bar: None },
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
         a device has the memory that Megatron's cuts take. The mixed placement (batch over 4, weights over 2: 2.10 MB) cannot be said.",
    );
    section
}

fn asked(row: &Row, limit: f64) -> Result<Answer, String> {
    let free = Question { objective: "bytes".into(), no_overlap: true, ..Question::new(row.workload, row.machine) };
    if !row.cut {
        return free.ask(limit);
    }
    Question { inputs: "replicated".into(), outputs: "replicated".into(), ..free }
        .with_memory_of("tensor", limit)?
        .ask(limit)
}
