//! What happened when: the same type for a simulated and a measured run.

use crate::machine::DeviceId;
use crate::units::Seconds;
use serde_json::{Value, json};
use std::collections::BTreeSet;

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

impl Lane {
    /// Every lane, in display order.
    pub const ALL: [Lane; 3] = [Self::Compute, Self::Send, Self::Receive];

    /// The name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }
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

    /// How long a lane of a device was busy; overlapping transfers count once.
    pub fn busy(&self, device: DeviceId, lane: Lane) -> Seconds {
        let (mut total, mut until) = (0.0, 0.0_f64);
        let of = self.events.iter().filter(|e| e.device == device && e.lane == lane);
        let mut spans: Vec<(f64, f64)> = of.map(|e| (e.start.0, e.end.0)).collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (start, end) in spans {
            total += (end - start.max(until)).max(0.0);
            until = until.max(end);
        }
        Seconds(total)
    }

    /// The trace event format of Chrome and Perfetto: one process a device, one thread a lane, times in µs.
    /// Transfers of one device that overlap get threads of their own, since a viewer nests what overlaps.
    pub fn to_chrome_json(&self) -> String {
        let source = if self.simulated { "simulated" } else { "measured" };
        let mut rows: Vec<Value> = Vec::new();
        let devices: BTreeSet<DeviceId> = self.events.iter().map(|e| e.device).collect();
        for d in devices {
            let process = format!("device {} ({source})", d.0);
            rows.push(json!({"ph": "M", "name": "process_name", "pid": d.0, "tid": 0, "args": {"name": process}}));
            rows.push(
                json!({"ph": "M", "name": "process_sort_index", "pid": d.0, "tid": 0, "args": {"sort_index": d.0}}),
            );
            for (n, lane) in Lane::ALL.into_iter().enumerate() {
                // When each thread of the lane is free.
                let mut free: Vec<f64> = Vec::new();
                for e in self.events.iter().filter(|e| e.device == d && e.lane == lane) {
                    let row = free.iter().position(|until| *until <= e.start.0).unwrap_or(free.len());
                    let tid = n * 1000 + row;
                    if row == free.len() {
                        free.push(0.0);
                        let name = if row == 0 { lane.name().into() } else { format!("{} {}", lane.name(), row + 1) };
                        rows.push(
                            json!({"ph": "M", "name": "thread_name", "pid": d.0, "tid": tid, "args": {"name": name}}),
                        );
                        rows.push(json!({"ph": "M", "name": "thread_sort_index", "pid": d.0, "tid": tid, "args": {"sort_index": tid}}));
                    }
                    free[row] = e.end.0;
                    let (start, length) = (e.start.0 * 1e6, (e.end.0 - e.start.0) * 1e6);
                    rows.push(json!({
                        "ph": "X", "name": e.name, "cat": lane.name(), "pid": d.0, "tid": tid,
                        "ts": start, "dur": length, "args": {"task": e.task},
                    }));
                }
            }
        }
        json!({"traceEvents": rows, "displayTimeUnit": "ns", "otherData": {"source": source}}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(task: u32, device: u16, lane: Lane, start: f64, end: f64) -> Event {
        let name = format!("task \"{task}\"");
        Event { task, device: DeviceId(device), lane, name, start: Seconds(start), end: Seconds(end) }
    }

    fn timeline() -> Timeline {
        let events = vec![
            event(0, 0, Lane::Compute, 0.0, 2e-6),
            event(1, 0, Lane::Send, 2e-6, 5e-6),
            event(2, 0, Lane::Send, 3e-6, 4e-6),
            event(3, 1, Lane::Receive, 2e-6, 6e-6),
            event(4, 0, Lane::Send, 5e-6, 6e-6),
        ];
        Timeline { simulated: true, events }
    }

    #[test]
    fn busy_time_counts_overlap_once() {
        let check = |device: u16, lane: Lane, expected: f64| {
            let found = timeline().busy(DeviceId(device), lane).0;
            assert!((found - expected).abs() < 1e-15, "{found}");
        };
        check(0, Lane::Compute, 2e-6);
        check(0, Lane::Send, 4e-6);
        check(1, Lane::Receive, 4e-6);
        check(1, Lane::Send, 0.0);
    }

    #[test]
    fn the_chrome_trace_parses_and_holds_every_event() {
        let trace: Value = serde_json::from_str(&timeline().to_chrome_json()).unwrap();
        assert_eq!(trace["otherData"]["source"], "simulated");
        let rows = trace["traceEvents"].as_array().unwrap();
        let check = |task: u64, pid: u64, tid: u64, start: f64, length: f64| {
            let row = rows.iter().find(|r| r["ph"] == "X" && r["args"]["task"] == task).unwrap();
            assert_eq!((row["pid"].as_u64(), row["tid"].as_u64()), (Some(pid), Some(tid)), "task {task}");
            let (ts, dur) = (row["ts"].as_f64().unwrap(), row["dur"].as_f64().unwrap());
            assert!((ts - start).abs() < 1e-9 && (dur - length).abs() < 1e-9, "task {task}: {ts} {dur}");
            assert_eq!(row["name"], format!("task \"{task}\""));
        };
        check(0, 0, 0, 0.0, 2.0);
        check(1, 0, 1000, 2.0, 3.0);
        check(2, 0, 1001, 3.0, 1.0);
        check(3, 1, 2000, 2.0, 4.0);
        check(4, 0, 1000, 5.0, 1.0);
        let names = rows.iter().filter(|r| r["name"] == "process_name");
        let names: Vec<&str> = names.filter_map(|r| r["args"]["name"].as_str()).collect();
        assert_eq!(names, ["device 0 (simulated)", "device 1 (simulated)"]);
        assert_eq!(rows.iter().filter(|r| r["ph"] == "X").count(), 5);
    }
}
