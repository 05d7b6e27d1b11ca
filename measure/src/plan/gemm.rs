//! Elements moved by one product whose operands and result are held once each, where the plan likes.

use super::Arguments;
use super::question::Question;
use crate::report::{Section, each};

/// Devices, all linked alike: the first of these.
const MACHINE: &str = "nvl72";
/// The side of the cube, and elements moved over its square on 2, 3, … 16 devices.
const SIDE: usize = 8192;
const CUBE: [f64; 15] = [1.0, 1.667, 2.0, 2.4, 2.667, 2.858, 3.0, 3.334, 3.6, 3.819, 4.0, 4.231, 4.429, 4.6, 4.75];
/// How much more whole numbers may cost.
const SNAPPING: f64 = 1.02;

/// The section.
pub fn section(arguments: &Arguments) -> Section {
    let mut section = Section::new("Elements moved by single products, bytes objective (counted)");
    let cube = format!("gemm:{SIDE},{SIDE},{SIDE}");
    let square = (SIDE * SIDE) as f64;
    // Workload, devices, the most elements, what they are shown over, with its name.
    let mut rows: Vec<(String, usize, f64, f64)> = Vec::new();
    for (n, bar) in CUBE.iter().enumerate() {
        rows.push((cube.clone(), n + 2, bar * SNAPPING * square, square));
    }
    // Half of the last digit that is given.
    for (devices, millions) in [(7, 214.5), (5, 162.5), (3, 104.5)] {
        rows.push(("gemm:16384,14336,4096".into(), devices, millions * 1e6, 1e6));
    }
    // Cutting the longest label alone: the operand without it goes to all others.
    let (m, n, k) = (128.0, 14336.0, 4096.0);
    for devices in [3, 5, 7] {
        let bar = (devices as f64 - 1.0) * m * k;
        rows.push((format!("gemm:{m},{n},{k}"), devices, bar * SNAPPING, 1e6));
    }
    rows.push((format!("gemm:{m},{n},{k}"), 8, 3.4085e6, 1e6));
    rows.retain(|r| arguments.wants(&r.0, &format!("{MACHINE}:{}", r.1)));
    if arguments.quick {
        rows.retain(|r| r.1 <= 8);
    }
    let found = each(&rows, |(workload, devices, _, _)| {
        let machine = format!("{MACHINE}:{devices}");
        let question = Question { objective: "bytes".into(), no_overlap: true, ..Question::new(workload, &machine) };
        question.ask(arguments.limit)
    });
    for ((workload, devices, bar, over), answer) in rows.iter().zip(found) {
        let unit = if *over == square { "N²" } else { "M" };
        let (what, bar_text) = (format!("`{workload}` on {devices}"), format!("≤ {:.4} {unit}", bar / over));
        match answer {
            Ok(answer) => {
                let elements = answer.number("/report/bytes_total") / 4.0;
                let shown =
                    format!("{:.4} {unit}, {:.2} s", elements / over, answer.number("/report/planning_seconds"));
                section.verdict(what, bar_text, shown, elements <= *bar);
            }
            Err(reason) => section.verdict(what, bar_text, reason, false),
        }
    }
    section.say(
        "Bars of the cube include 2 % for whole numbers; those of the 1-D cut are (p − 1) · 128 · 4096, with the same.",
    );
    section
}
