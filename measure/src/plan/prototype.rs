//! Whole models on devices of round figures, against known ways priced from first principles, and against what has been
//! found before.

use super::Arguments;
use super::first_principles::{MODELS, Sizes};
use super::question::Question;
use crate::report::{Section, each};

const MACHINE: &str = "8xa100-ideal";
const SETTINGS: [(usize, usize); 7] = [(1, 4096), (8, 1024), (8, 4096), (1, 1024), (1, STEP), (8, STEP), (64, STEP)];
/// Instead of a count of tokens: one token behind [`PAST`] that are kept.
const STEP: usize = 0;
const PAST: usize = 4096;

/// The setting as workloads write it.
fn written((batch, tokens): (usize, usize)) -> String {
    if tokens == STEP { format!("decode={batch}x{PAST}") } else { format!("{batch}x{tokens}") }
}
const MEMORIES: [usize; 2] = [80, 40];

/// What has been found before.
struct Found {
    model: &'static str,
    /// Batch and tokens.
    setting: (usize, usize),
    devices: usize,
    gigabytes: usize,
    /// Milliseconds a layer.
    figure: f64,
}

const fn found(model: &'static str, setting: (usize, usize), devices: usize, gigabytes: usize, figure: f64) -> Found {
    Found { model, setting, devices, gigabytes, figure }
}

const FOUND: [Found; 18] = [
    found("llama-7b", (1, 4096), 8, 80, 0.769),
    found("llama-7b", (1, 4096), 8, 40, 0.769),
    found("llama-7b", (8, 1024), 8, 80, 1.356),
    found("llama-7b", (8, 1024), 8, 40, 1.356),
    found("llama-7b", (1, 1024), 8, 80, 0.194),
    found("llama-7b", (1, 1024), 8, 40, 0.194),
    found("llama-70b", (8, 1024), 8, 80, 5.80),
    found("llama-70b", (8, 1024), 8, 40, 6.14),
    found("llama-70b", (1, 4096), 8, 80, 3.03),
    found("llama-70b", (1, 4096), 8, 40, 3.17),
    found("llama-70b", (1, 1024), 8, 80, 0.743),
    found("llama-65b", (1, 4096), 8, 80, 2.93),
    found("llama-65b", (1, 4096), 8, 40, 3.09),
    found("llama-7b", (1, 4096), 3, 80, 2.03),
    found("llama-7b", (1, 4096), 5, 80, 1.24),
    found("llama-7b", (1, 4096), 6, 80, 1.04),
    found("llama-7b", (1, 4096), 7, 80, 0.89),
    found("llama-7b", (8, 1024), 7, 80, 1.60),
];

/// A model to plan, with what it is held to.
struct Row {
    model: &'static str,
    sizes: Sizes,
    setting: (usize, usize),
    devices: usize,
    memory: usize,
}

/// The section.
pub fn section(arguments: &Arguments) -> Section {
    let mut section = Section::new("Milliseconds a layer of whole models on `8xa100-ideal` (priced)");
    let rows = rows(arguments);
    let answers = each(&rows, |row| {
        let machine = if row.devices == 8 { MACHINE.into() } else { format!("{MACHINE}:{}", row.devices) };
        let question = Question::new(&format!("{}:{}", row.model, written(row.setting)), &machine);
        Question { memory: Some(format!("{}GB", row.memory)), no_overlap: true, ..question }.ask(arguments.limit)
    });
    let mut table = Vec::new();
    for (row, answer) in rows.iter().zip(answers) {
        let (batch, tokens) = row.setting;
        let what = format!("`{}:{}`, {} × {} GB", row.model, written(row.setting), row.devices, row.memory);
        let behind = if tokens == STEP { (PAST, 1) } else { (0, tokens) };
        let known = row.sizes.best(batch, behind, row.devices, row.memory as f64 * 1e9);
        let bar = bar(row);
        let asked = [
            known.as_ref().map(|k| format!("≤ {:.4} ({})", k.seconds * 1e3, k.name)),
            bar.map(|b| format!("≤ {b} (found before)")),
        ];
        let asked: Vec<String> = asked.into_iter().flatten().collect();
        let answer = match answer {
            Ok(answer) => answer,
            // Where no known way fits either, keys and values are too many.
            Err(reason) if asked.is_empty() => {
                section.verdict(what, "no known way fits", reason.chars().take(80).collect::<String>(), true);
                continue;
            }
            Err(reason) => {
                section.verdict(what, asked.join("; "), reason, false);
                continue;
            }
        };
        let layer = answer.number("/layers") * 1e3 / row.sizes.layers;
        // What is given to three digits may be half of the last one more.
        let passed = known.is_none_or(|k| layer <= k.seconds * 1e3 * (1.0 + 1e-6))
            && bar.is_none_or(|b| layer <= b + half_digit(b));
        section.verdict(&what, asked.join("; "), format!("{layer:.4}"), passed);
        let whole = answer.number("/report/cost") * 1e3 / row.sizes.layers;
        table.push(vec![
            what,
            format!("{layer:.4}"),
            format!("{whole:.4}"),
            format!("{:.4} %", answer.number("/report/gap") * 100.0),
            format!("{:.1}", answer.largest("/report/peak_memory_per_device") / 1e9),
            format!("{:.1}", answer.number("/report/planning_seconds")),
        ]);
    }
    let head = ["model", "a layer, ms", "with embedding and head, ms", "gap", "fullest device, GB", "planned in, s"];
    section.table(&head, &table);
    section.say(
        "The whole model is planned, and must fit, with its keys and values not kept. A layer's figure is that of the rows of all \
         layers and of the exchanges of what they make, divided by their number.",
    );
    section
}

/// Half of the last digit of a figure given to two or three digits behind the point.
fn half_digit(figure: f64) -> f64 {
    let thousandths = (figure * 1000.0).round() as i64;
    if thousandths % 10 == 0 { 0.005 } else { 0.0005 }
}

/// What has been found before of a row.
fn bar(row: &Row) -> Option<f64> {
    let same =
        |f: &&Found| (f.model, f.setting, f.devices, f.gigabytes) == (row.model, row.setting, row.devices, row.memory);
    FOUND.iter().find(same).map(|f| f.figure)
}

fn rows(arguments: &Arguments) -> Vec<Row> {
    let mut rows = Vec::new();
    for (model, sizes) in MODELS {
        for memory in MEMORIES {
            for setting in SETTINGS {
                rows.push(Row { model, sizes, setting, devices: 8, memory });
            }
        }
        let fewer = FOUND.iter().filter(|f| f.model == model && f.devices != 8);
        rows.extend(fewer.map(|f| Row { model, sizes, setting: f.setting, devices: f.devices, memory: f.gigabytes }));
    }
    rows.retain(|r| {
        let machine = if r.devices == 8 { MACHINE.into() } else { format!("{MACHINE}:{}", r.devices) };
        arguments.wants(&format!("{}:{}", r.model, written(r.setting)), &machine)
            && (!arguments.quick || bar(r).is_some())
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_may_be_half_a_digit_more() {
        assert_eq!([0.769, 5.80, 1.24, 0.194].map(half_digit), [0.0005, 0.005, 0.005, 0.0005]);
    }
}
