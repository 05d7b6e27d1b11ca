//! What a run measured, as the timeline that a simulation also yields.

use ein_task::task::{Task, TaskGraph, Verb};
use ein_task::timeline::{Event, Lane, Timeline};
use ein_task::units::Seconds;

/// When one task ran, from the beginning of the run.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// The row.
    pub task: u32,
    /// When it began, in seconds.
    pub start: f64,
    /// When it ended, in seconds.
    pub end: f64,
}

/// The measured timeline: events by start, then task.
pub(crate) fn timeline(graph: &TaskGraph, mut marks: Vec<Mark>) -> Timeline {
    marks.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.task.cmp(&b.task)));
    let event = |mark: &Mark| {
        let task = &graph.tasks[mark.task as usize];
        Event {
            task: mark.task,
            device: task.device,
            lane: lane(&task.verb),
            name: match &task.verb {
                // A fused row is of several tensors.
                Verb::Fused { .. } => format!("kernel {}", ein_task::simulate::name(graph, task)),
                other => format!("{} {}", verb(other), tensor(graph, task)),
            },
            start: Seconds(mark.start),
            end: Seconds(mark.end),
        }
    };
    Timeline { simulated: false, events: marks.iter().map(event).collect() }
}

/// The tensor that a task belongs to.
pub(crate) fn tensor<'a>(graph: &'a TaskGraph, task: &Task) -> &'a str {
    graph.labels.get(task.label as usize).map_or("?", String::as_str)
}

fn lane(verb: &Verb) -> Lane {
    match verb {
        Verb::Send { .. } | Verb::Output { .. } => Lane::Send,
        Verb::Receive { .. } | Verb::Feed { .. } => Lane::Receive,
        Verb::Kernel { .. } | Verb::Fused { .. } | Verb::View { .. } | Verb::Cut | Verb::Fold { .. } | Verb::Paste => {
            Lane::Compute
        }
    }
}

fn verb(verb: &Verb) -> &'static str {
    match verb {
        Verb::Feed { .. } => "feed",
        Verb::Kernel { .. } | Verb::Fused { .. } => "kernel",
        Verb::View { .. } => "view",
        Verb::Cut => "cut",
        Verb::Send { .. } => "send",
        Verb::Receive { .. } => "receive",
        Verb::Fold { .. } => "fold",
        Verb::Paste => "paste",
        Verb::Output { .. } => "output",
    }
}
