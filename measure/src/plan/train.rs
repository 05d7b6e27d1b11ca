//! Bytes sent in one step of training.

use super::Arguments;
use super::question::Question;
use crate::report::{Section, each};

const WORKLOAD: &str = "train:4096,2048,4096,128";
const MACHINE: &str = "8xa100-ideal";
const MOST: f64 = 1.84e6;

/// The section.
pub fn section(arguments: &Arguments) -> Section {
    let mut section = Section::new("One step of training two linear layers, 8 devices (counted)");
    if !arguments.wants(WORKLOAD, MACHINE) {
        return section;
    }
    let answers = each(&["bytes", "time"], |objective| {
        let asked = Question::new(WORKLOAD, MACHINE);
        let asked = Question { objective: (*objective).into(), inputs: "replicated".into(), ..asked };
        asked.with_memory_of("tensor", arguments.limit)?.ask(arguments.limit)
    });
    for (objective, answer) in ["bytes", "time"].iter().zip(answers) {
        let what = format!("sent by a device, objective {objective}");
        let (found, passed) = match answer {
            Ok(answer) => {
                let sent = answer.largest("/report/bytes_per_device/sent");
                let peak = answer.largest("/report/peak_memory_per_device");
                (format!("{:.3} MB ({:.0} MB of memory)", sent / 1e6, peak / 1e6), sent <= MOST)
            }
            Err(reason) => (reason, false),
        };
        section.verdict(what, "≤ 1.84 MB", found, passed);
    }
    section.say(
        "`x` is held whole everywhere. That weights and labels are cut cannot be asked for yet: devices have the memory that \
         Megatron's cuts of them take instead. Gradients stay where they are made; new weights are outputs, held where the \
         plan likes. Data parallel sends 117.5 MB, Megatron's cuts 3.67 MB.",
    );
    section
}
