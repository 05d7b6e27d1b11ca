//! Copies from device to device: from one arena to another, by whichever thread comes to it.

use super::fit::{Line, fit, median};
use super::graphs::{Rows, Spans, timed};
use crate::error::RunError;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_ir::region::Region;
use ein_task::task::TaskId;

/// How many messages a device sends in a graph: as many as make so many bytes, but no fewer and no more than these.
const MESSAGES: usize = 8;
const MOST: usize = 512;
const ROUND: usize = 8 << 20;

/// What was measured of copies.
pub(super) struct Copies {
    /// Bytes against seconds.
    pub(super) line: Line,
    /// Seconds from the end of a copy until what waits for it begins.
    pub(super) latency: f64,
}

/// Two devices that send each other messages from 4 KB to 1 MB, all at once, over more memory than is near a processor: in
/// plans, too, what is sent was made by another thread, or long ago. Every other message is columns of a matrix.
/// And one message that goes there and back, so that somebody always waits for it.
pub(super) fn copies(runs: usize) -> Result<Copies, RunError> {
    let mut points = Vec::new();
    for kib in [4_usize, 16, 64, 256, 1024] {
        let mut rows = Rows::new(2);
        let mut received: Vec<TaskId> = Vec::new();
        for n in 0..2 * (ROUND / (kib << 10)).clamp(MESSAGES, MOST) {
            let strided = n / 2 % 2 == 1;
            let columns = if strided { 512 } else { 256 };
            let external = rows.parameter(&TensorType::new(DType::F32, vec![kib, columns]));
            let fed = rows.feed(n % 2, external);
            received.push(rows.transfer_box(fed, Region::of(&[(0, kib), (0, 256)]), (n + 1) % 2));
        }
        let mut executor = rows.executor()?;
        let mut copying = Vec::new();
        for events in timed(&mut executor, runs)? {
            copying.extend(received.iter().map(|&row| at(&events, row)).map(|(start, end)| end - start));
        }
        points.push(((kib * 1024) as f64, median(&copying).max(1e-9)));
    }
    Ok(Copies { line: fit(&points), latency: latency(runs)? })
}

fn latency(runs: usize) -> Result<f64, RunError> {
    let mut rows = Rows::new(2);
    let external = rows.parameter(&TensorType::new(DType::F32, vec![4096]));
    let mut held = rows.feed(0, external);
    let mut received: Vec<TaskId> = Vec::new();
    for n in 0..2 * MESSAGES {
        held = rows.transfer(held, (n + 1) % 2);
        received.push(held);
    }
    let mut executor = rows.executor()?;
    let mut waited = Vec::new();
    for events in timed(&mut executor, runs)? {
        waited.extend(received.windows(2).map(|pair| at(&events, pair[1]).0 - at(&events, pair[0]).1));
    }
    Ok(median(&waited).max(0.0))
}

/// Start and end of a row.
fn at(events: &Spans, row: TaskId) -> (f64, f64) {
    *events.get(&row.index()).expect("every row of a run has its event")
}
