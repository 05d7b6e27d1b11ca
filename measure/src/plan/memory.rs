//! A model whose weights fill the memory of the devices.

use super::Arguments;
use super::question::Question;
use crate::report::Section;

const WORKLOAD: &str = "llama-70b:1x4096";

/// The section.
pub fn section(arguments: &Arguments) -> Section {
    let mut section = Section::new("138 GB of weights on devices of 40 GB");
    let rows =
        [("8xa100", false, true), ("8xa100:4", false, true), ("8xa100:3", false, false), ("8xa100-host:3", true, true)];
    for (machine, offload, fits) in rows {
        if !arguments.wants(WORKLOAD, machine) {
            continue;
        }
        let answer = Question { offload, ..Question::new(WORKLOAD, machine) }.ask(arguments.limit);
        let what = format!("`{WORKLOAD}` on `{machine}`{}", if offload { " and its host" } else { "" });
        match (answer, fits) {
            (Ok(answer), _) => {
                let peaks = answer.list("/report/peak_memory_per_device");
                let peaks: Vec<String> =
                    peaks.iter().map(|p| format!("{:.2}", p.as_f64().unwrap_or(f64::NAN) / 1e9)).collect();
                let found =
                    format!("peaks of {} GB, {:.1} s", peaks.join(", "), answer.number("/report/planning_seconds"));
                section.verdict(what, if fits { "fits" } else { "is refused, or offloads" }, found, fits);
            }
            (Err(reason), true) => section.verdict(what, "fits", reason, false),
            (Err(reason), false) => {
                let named = reason.contains("no plan fits");
                section.verdict(what, "is refused with what would do", reason, named);
            }
        }
    }
    section
}
