//! The bars that take seconds: fast machines, few sizes, a hundred random questions. `cargo xtask measure exchange`
//! holds all of them.

use ein_measure::exchange::machines::{Preset, presets};
use ein_measure::exchange::named::row;
use ein_measure::exchange::questions::Kind;
use ein_measure::exchange::{random, small};

fn preset(name: &str) -> Preset {
    presets().into_iter().find(|p| p.names.iter().any(|n| n == name)).expect("a preset")
}

#[test]
fn named_questions_reach_the_bound() {
    for name in ["8xa100", "8xcpu"] {
        let preset = preset(name);
        let relayouts = [(1, 2), (3, 8), (7, 5)].map(|(from, to)| Kind::Relayout { from, to });
        for kind in Kind::NAMED.into_iter().chain(relayouts) {
            for size in [1 << 14, 1 << 26, 1 << 30] {
                let row = row(&preset, kind, size, 0.0);
                let ours = row.ours.as_ref().unwrap_or_else(|e| panic!("{kind} of {size} on {name}: {e}"));
                let granted = row.granted();
                assert!(size < 1 << 26 || ours.seconds <= granted, "{kind} of {size} on {name}: {ours:?} {granted}");
                // The whole measurement allows a tenth of a per cent; the few rows here hold two.
                assert!(ours.seconds <= 1.02 * row.rival.1, "{kind} of {size} on {name}: {ours:?} {:?}", row.rival);
            }
        }
    }
}

#[test]
fn small_messages_go_in_one_step() {
    let section = small::small_messages();
    assert!(!section.verdicts.is_empty() && section.passed(), "{}", section.markdown());
}

#[test]
fn random_questions_are_answered_right() {
    let section = random::section(1, 100);
    assert!(section.verdicts[0].passed, "{}", section.markdown());
}
