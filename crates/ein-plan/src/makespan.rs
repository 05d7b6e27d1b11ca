//! The least simulated time.
//!
//! What a plan takes when exchanges run beside what is computed is no sum of prices, so no table of the search can hold
//! it. But what an exchange can hide behind is mostly the row that it feeds or the one that feeds it. So the search is
//! asked as always, and then as if a part of what those compute hid as many seconds of the exchange; each answer is
//! lowered, cut for overlap and simulated, and the quickest stays.

use crate::answers::Answers;
use crate::deadline::Deadline;
use crate::error::PlanError;
use crate::fit::{Decided, searched};
use crate::options::Options;
use crate::overlap::Overlap;
use crate::plan::overlapped;
use ein_ir::graph::Graph;
use ein_task::machine::Machine;

/// Seconds of an exchange that a second of computing before or after it is taken to hide.
const HIDING: [f64; 3] = [0.0, 0.5, 1.0];

/// Where less than this share of the serial cost is exchanges, there is nothing to hide.
const NOTHING: f64 = 1e-3;

/// The quickest of what the search finds, however much of exchanges is taken to hide, with its cuts for overlap. Of equally quick ones
/// the cheapest by serial cost stays. Nothing bounds the makespan but what bounds any plan.
pub(crate) fn quickest(
    graph: &Graph,
    machine: &Machine,
    options: &Options,
    deadline: Deadline,
) -> Result<(Decided, Overlap), PlanError> {
    let mut best: Option<(Decided, Overlap)> = None;
    let mut seen = Vec::new();
    let mut rounds = 0;
    let mut stopped = false;
    // What one search had answered the next need not ask again.
    let mut answers = None;
    for hiding in HIDING {
        if best.is_some() && deadline.is_over() {
            stopped = true;
            break;
        }
        let known = answers.take().unwrap_or_else(|| Answers::of(options));
        let mut decided = match searched(graph, machine, options, deadline, hiding, known) {
            // What there is by now is a plan.
            Err(PlanError::TimeLimit { .. }) if best.is_some() => {
                stopped = true;
                break;
            }
            // Which plans are lowered depends on what hides, so one search may find what fits and another not.
            Err(PlanError::DoesNotFit { .. }) if best.is_some() => continue,
            other => other?,
        };
        rounds += decided.effort.rounds;
        stopped |= decided.effort.stopped;
        decided.bound = 0.0;
        let keep = |decided: &mut Decided| {
            let same = decided.options.exchange == options.exchange;
            same.then(|| std::mem::replace(&mut decided.known, Answers::of(options)))
        };
        if seen.contains(&decided.choice) {
            answers = keep(&mut decided);
            continue;
        }
        seen.push(decided.choice.clone());
        let asked = Options { overlap: options.overlap && !deadline.is_over(), ..decided.options.clone() };
        let Decided { choice, tasks, effort, known, .. } = &mut decided;
        let found = overlapped(graph, machine, &asked, choice, tasks, effort.patterns, known)?;
        let hideable = decided.price.seconds.0 - decided.price.compute.0;
        answers = keep(&mut decided);
        let nothing = hideable <= NOTHING * decided.price.seconds.0;
        if best.as_ref().is_none_or(|(_, b)| found.simulated_seconds.0 < b.simulated_seconds.0) {
            best = Some((decided, found));
        }
        if nothing {
            break;
        }
    }
    let (mut decided, found) = best.expect("the first search gives a plan or an error");
    decided.effort.rounds = rounds;
    decided.effort.stopped = stopped;
    Ok((decided, found))
}
