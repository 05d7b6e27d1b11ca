//! Ways between memories: each link by itself, then all links at once that share something.

use super::timing::Timing;
use super::{Amount, MeasureError};
use crate::devices::Seat;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_run::measure::graphs::Rows;
use ein_run::measure::{fit, median};
use ein_task::machine::{DeviceId, Link, Machine};
use ein_task::task::TaskId;

/// What was measured of ways.
#[derive(Clone, Debug, PartialEq)]
pub struct Ways {
    /// Of every link of the machine, in its order: bytes per second of copies alone on it.
    pub bandwidth: Vec<f64>,
    /// Of every link: seconds from the end of a copy of no size until what waits for it begins.
    pub latency: Vec<f64>,
    /// Of every resource of the machine: bytes per second of all links at once that load it.
    pub together: Vec<f64>,
    /// Seconds that a copy keeps its way busy beside its bytes.
    pub issue: f64,
}

/// Measures all links of a machine whose devices sit there.
pub(super) fn ways(machine: &Machine, seats: &[Seat], timing: Timing, amount: Amount) -> Result<Ways, MeasureError> {
    let (mut bandwidth, mut starts, mut issues) = (Vec::new(), Vec::new(), Vec::new());
    for link in &machine.links {
        let ends = [link.from, link.to].map(|d| seats[d.index()]);
        let mut points = Vec::new();
        for &bytes in amount.copies() {
            let each = timing.each(&ends, amount.times(), |rows, n| chain(rows, [0, 1], bytes, n))?;
            points.push((bytes as f64, each));
        }
        let line = fit(&points);
        bandwidth.push(1.0 / line.slope);
        starts.push(line.start);
        // Copies that wait for nothing follow one another on the way.
        let least = amount.copies()[0];
        let free = timing.each(&ends, amount.times(), |rows, n| {
            for _ in 0..n {
                chain(rows, [0, 1], least, 1);
            }
        })?;
        issues.push((free - least as f64 * line.slope).max(0.0));
    }
    let issue = median(&issues);
    let latency = starts.iter().map(|start| (start - issue).max(0.0)).collect();
    let mut together = Vec::new();
    for resource in 0..machine.resources.len() {
        let links: Vec<&Link> = machine.links.iter().filter(|l| l.resources.contains(&resource)).collect();
        together.push(at_once(&links, seats, timing, amount)?);
    }
    Ok(Ways { bandwidth, latency, together, issue })
}

/// Bytes per second of copies from one place of a GPU's memory to another: what devices that share it exchange.
pub(super) fn within(seat: Seat, timing: Timing, amount: Amount) -> Result<f64, MeasureError> {
    let mut points = Vec::new();
    for &bytes in amount.copies() {
        let each = timing.each(&[seat; 2], amount.times(), |rows, n| chain(rows, [0, 1], bytes, n))?;
        points.push((bytes as f64, each));
    }
    Ok(1.0 / fit(&points).slope)
}

/// Bytes per second of links that all carry copies at once; 0 of none.
fn at_once(links: &[&Link], seats: &[Seat], timing: Timing, amount: Amount) -> Result<f64, MeasureError> {
    if links.is_empty() {
        return Ok(0.0);
    }
    let mut used: Vec<DeviceId> = links.iter().flat_map(|l| [l.from, l.to]).collect();
    used.sort_unstable();
    used.dedup();
    let place = |d: DeviceId| used.binary_search(&d).expect("one of them");
    let ends: Vec<Seat> = used.iter().map(|d| seats[d.index()]).collect();
    let bytes = amount.together();
    let each = timing.each(&ends, amount.times(), |rows, n| {
        for link in links {
            chain(rows, [place(link.from), place(link.to)], bytes, n);
        }
    })?;
    Ok((links.len() * bytes) as f64 / each)
}

/// So many copies from one device to another, each after the one before.
fn chain(rows: &mut Rows, [from, to]: [usize; 2], bytes: usize, count: usize) {
    let external = rows.parameter(&TensorType::new(DType::U8, vec![bytes]));
    let fed = rows.feed(from, external);
    let mut last: Option<TaskId> = None;
    for _ in 0..count {
        let received = rows.transfer(fed, to);
        if let Some(last) = last {
            rows.wait(received, last);
        }
        last = Some(received);
    }
}
