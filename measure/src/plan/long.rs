//! One sequence of 131,072 tokens: heads are cut inside attention, tokens outside.

use super::Arguments;
use super::question::Question;
use crate::report::Section;
use serde_json::Value;

const WORKLOAD: &str = "llama-7b-block:1x131072";
const MACHINE: &str = "8xa100-ideal";
const TOKENS: u64 = 131_072;
const MOST: f64 = 0.5e9;

/// The section.
pub fn section(arguments: &Arguments) -> Section {
    let mut section = Section::new("A sequence of 131,072 tokens");
    if !arguments.wants(WORKLOAD, MACHINE) {
        return section;
    }
    let question = Question::new(WORKLOAD, MACHINE);
    let answer = match question.ask(arguments.limit) {
        Ok(answer) => answer,
        Err(reason) => {
            section.verdict(format!("`{WORKLOAD}`"), "is planned", reason, false);
            return section;
        }
    };
    let sent = answer.largest("/report/bytes_per_device/sent");
    section.verdict("sent by a device", "≤ 0.5 GB", format!("{:.3} GB", sent / 1e9), sent <= MOST);
    let (mut heads, mut tokens) = (true, true);
    let mut table = Vec::new();
    for row in answer.list("/cuts") {
        let cut = row["cut"].as_array().map_or(&[][..], Vec::as_slice);
        match row["kind"].as_str() {
            Some("attention") => heads &= cut.iter().all(|c| c["label"] == "h") && !cut.is_empty(),
            Some("product") => tokens &= cut.iter().all(|c| c["extent"] == TOKENS) && !cut.is_empty(),
            _ => {}
        }
        let shown = |c: &Value| format!("{}: {} in {}", c["label"].as_str().unwrap_or(""), c["extent"], c["parts"]);
        let shown: Vec<String> = cut.iter().map(shown).collect();
        table.push(vec![row["row"].as_str().unwrap_or("").into(), shown.join(", ")]);
    }
    let yes = |b: bool| if b { "yes" } else { "no" };
    section.verdict("attention is cut on", "heads alone", yes(heads), heads);
    section.verdict("products are cut on", "tokens alone", yes(tokens), tokens);
    section.table(&["row", "cut"], &table);
    section
}
