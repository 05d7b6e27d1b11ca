//! Plans drawn from the search's candidates: how much worse they are, and what foretells their simulated time.

use super::Arguments;
use super::question::Question;
use crate::report::{Section, each};
use crate::statistics::pearson;
use ein_run::measure::median;

const MACHINE: &str = "8xa100";
const SETTINGS: [&str; 5] = ["1x4096", "8x1024", "32x128", "packed=2750+1810+1290+930+690+440+282", "1x131072"];
/// How many plans are drawn.
const DRAWS: u64 = 200;
/// How much worse the median must be, and how well our cost must foretell.
const WORSE: f64 = 2.0;
const CORRELATION: f64 = 0.9;

/// The section.
pub fn section(arguments: &Arguments) -> Section {
    let mut section = Section::new("Plans drawn from the candidates (simulated)");
    let settings: Vec<String> = SETTINGS.iter().map(|s| format!("llama-7b-block:{s}")).collect();
    let mut settings: Vec<&String> = settings.iter().filter(|w| arguments.wants(w, MACHINE)).collect();
    settings.truncate(if arguments.quick { 1 } else { SETTINGS.len() });
    let mut questions: Vec<Question> = Vec::new();
    for workload in &settings {
        // What hides behind computation is not counted, on neither side.
        let ours = Question { no_overlap: true, ..Question::new(workload, MACHINE) };
        questions.extend([Question { draws: DRAWS, ..ours.clone() }, ours]);
    }
    // Nothing of one drawn plan is known from another, so that each takes about a second.
    let limit = |question: &Question| arguments.limit * if question.draws > 0 { 5.0 } else { 1.0 };
    let mut answers = each(&questions, |question| question.ask(limit(question))).into_iter();
    let mut table = Vec::new();
    for workload in settings {
        let (Some(drawn), Some(ours)) = (answers.next(), answers.next()) else { break };
        let (ours, drawn) = match (ours, drawn) {
            (Ok(ours), Ok(drawn)) => (ours.number("/report/simulated_seconds"), drawn),
            (Err(reason), _) | (_, Err(reason)) => {
                section.verdict(format!("`{workload}`"), "is planned", reason, false);
                continue;
            }
        };
        let draws = drawn.list("/draws");
        let pairs = |key: &str| -> Vec<(f64, f64)> {
            draws.iter().filter_map(|d| Some((d[key].as_f64()?, d["simulated"].as_f64()?))).collect()
        };
        let simulated: Vec<f64> = draws.iter().filter_map(|d| d["simulated"].as_f64()).collect();
        let worse = median(&simulated) / ours;
        let (by_cost, by_bytes) = (pearson(&pairs("cost")), pearson(&pairs("bytes")));
        let what = format!("`{workload}`");
        section.verdict(&what, format!("median ≥ {WORSE}× ours"), format!("{worse:.2}×"), worse >= WORSE);
        let found = format!("{by_cost:.3}, bytes {by_bytes:.3}");
        let passed = by_cost >= CORRELATION && by_cost > by_bytes;
        section.verdict(&what, format!("r of cost ≥ {CORRELATION} and above that of bytes"), found, passed);
        let least = simulated.iter().copied().fold(f64::INFINITY, f64::min) / ours;
        table.push(vec![what, simulated.len().to_string(), format!("{least:.3}"), format!("{worse:.3}")]);
    }
    section.table(&["block on `8xa100`", "drawn plans that fit", "best ÷ ours", "median ÷ ours"], &table);
    section.say("`bytes` is all bytes over links, which is what is left of a proxy that counts what is moved; all times are simulated, none measured.");
    section
}
