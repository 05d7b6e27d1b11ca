//! What happened when: the same type for a simulated and a measured run.

use crate::machine::DeviceId;
use crate::units::Seconds;

/// Which unit of a device was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Kernels, views, cuts, folds and pastes.
    Compute,
    /// Outgoing moves.
    Send,
    /// Incoming moves.
    Receive,
}

/// One task's execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The task's number.
    pub task: u32,
    /// Where.
    pub device: DeviceId,
    /// On which unit.
    pub lane: Lane,
    /// The verb and tensor, for display.
    pub name: String,
    /// Start, from the beginning of the run.
    pub start: Seconds,
    /// End.
    pub end: Seconds,
}

/// A run, simulated or measured.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Timeline {
    /// Whether a simulator made it. Displays must say so.
    pub simulated: bool,
    /// The events, by start, then task.
    pub events: Vec<Event>,
}

impl Timeline {
    /// End of the last event.
    pub fn makespan(&self) -> Seconds {
        Seconds(self.events.iter().map(|e| e.end.0).fold(0.0, f64::max))
    }
}
