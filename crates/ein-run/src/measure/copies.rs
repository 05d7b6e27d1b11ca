//! Copies from device to device, over the transport of threads.

use super::fit::{Line, fit, median};
use super::graphs::{Rows, timed};
use crate::error::RunError;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_task::task::TaskId;

/// How many messages a device sends in a graph.
const MESSAGES: usize = 8;

/// What was measured of copies.
pub(super) struct Copies {
    /// Bytes against the seconds of both threads.
    pub(super) line: Line,
    /// Seconds from the end of a sender's copy until a receiver that waits begins its own.
    pub(super) latency: f64,
}

/// Two devices that send each other messages from 4 KB to 1 MB, all at once; and one message that goes there and
/// back, so that somebody always waits for it.
pub(super) fn copies(runs: usize) -> Result<Copies, RunError> {
    let mut points = Vec::new();
    for kib in [4_usize, 16, 64, 256, 1024] {
        let mut rows = Rows::new(2);
        let ty = TensorType::new(DType::F32, vec![kib * 256]);
        let mut received: Vec<TaskId> = Vec::new();
        for n in 0..2 * MESSAGES {
            let external = rows.parameter(&ty);
            let fed = rows.feed(n % 2, external);
            received.push(rows.transfer(fed, (n + 1) % 2));
        }
        let mut executor = rows.executor()?;
        let (mut sending, mut receiving) = (Vec::new(), Vec::new());
        for events in timed(&mut executor, runs)? {
            for receive in &received {
                let (send, receive) = halves(&events, *receive);
                sending.push(send.1 - send.0);
                receiving.push(receive.1 - receive.0);
            }
        }
        points.push(((kib * 1024) as f64, (median(&sending) + median(&receiving)).max(1e-9)));
    }
    Ok(Copies { line: fit(&points), latency: latency(runs)? })
}

fn latency(runs: usize) -> Result<f64, RunError> {
    let mut rows = Rows::new(2);
    let external = rows.parameter(&TensorType::new(DType::F32, vec![4096]));
    let mut at = rows.feed(0, external);
    let mut received: Vec<TaskId> = Vec::new();
    for n in 0..2 * MESSAGES {
        at = rows.transfer(at, (n + 1) % 2);
        received.push(at);
    }
    let mut executor = rows.executor()?;
    let mut waited = Vec::new();
    for events in timed(&mut executor, runs)? {
        // The first finds the other thread starting.
        waited.extend(received[1..].iter().map(|r| halves(&events, *r)).map(|(send, receive)| receive.0 - send.1));
    }
    Ok(median(&waited).max(0.0))
}

/// Start and end of the send half and of the receive half of a move, by the latter's row.
fn halves(events: &std::collections::BTreeMap<usize, (f64, f64)>, receive: TaskId) -> ((f64, f64), (f64, f64)) {
    // The send half stands before it.
    let at = |n: usize| *events.get(&n).expect("every row of a run has its event");
    (at(receive.index() - 1), at(receive.index()))
}
