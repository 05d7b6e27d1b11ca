//! Transfers over links, timed: the whole of an exchange program's time when local work costs nothing.
//!
//! A link carries one transfer at a time. Of the transfers of a link that are ready, the one that stands earliest
//! in the list goes first: the list is the schedule. A later one that is ready may pass an earlier one that is not.
//! Links run side by side and share their resources max–min fairly. A transfer holds its link for
//! [`Machine::issue`], then for its bytes; it arrives the latency after it is sent, and latency does not hold the
//! link. A transfer of no bytes takes issue and latency. Same list and machine, same times.

use crate::machine::Machine;
use crate::network::{Network, Passed};
use crate::units::Seconds;

pub use crate::network::Span;

/// One transfer over a direct link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Position in [`Machine::links`].
    pub link: usize,
    /// Bytes.
    pub bytes: u64,
    /// Earlier transfers of the list that must have arrived.
    pub after: Vec<u32>,
}

/// When each transfer of a list happens.
pub fn run(machine: &Machine, transfers: &[Transfer]) -> Vec<Span> {
    let mut network = Network::new(machine);
    let mut waits: Vec<u32> = Vec::with_capacity(transfers.len());
    let mut edges = Vec::new();
    for (n, transfer) in transfers.iter().enumerate() {
        network.add(transfer.link, transfer.bytes);
        waits.push(transfer.after.len() as u32);
        for &earlier in &transfer.after {
            debug_assert!((earlier as usize) < n, "transfer {n} waits for {earlier}, which is not earlier");
            edges.push((earlier, n as u32));
        }
    }
    let readers = Readers::new(transfers.len(), &edges);
    for (n, _) in waits.iter().enumerate().filter(|w| *w.1 == 0) {
        network.ready(n as u32, 0);
    }
    let (mut now, mut passed) = (0.0, Vec::new());
    network.start(now, &mut passed);
    loop {
        for event in passed.drain(..) {
            let Passed::Arrived(arrived) = event else { continue };
            for &reader in readers.of(arrived as usize) {
                waits[reader as usize] -= 1;
                if waits[reader as usize] == 0 {
                    network.ready(reader, 0);
                }
            }
        }
        network.start(now, &mut passed);
        if passed.is_empty() {
            let Some(next) = network.next(now) else { break };
            now = next;
            network.advance(now, &mut passed);
        }
    }
    (0..transfers.len()).map(|n| network.span(n as u32)).collect()
}

/// When the last transfer of a list arrives.
pub fn makespan(machine: &Machine, transfers: &[Transfer]) -> Seconds {
    Seconds(run(machine, transfers).iter().map(|s| s.arrived).fold(0.0, f64::max))
}

/// Who waits for whom, as one list with the start of each row's part.
pub(crate) struct Readers {
    starts: Vec<u32>,
    rows: Vec<u32>,
}

impl Readers {
    /// From pairs of (row, reader) among `count` rows.
    pub(crate) fn new(count: usize, edges: &[(u32, u32)]) -> Self {
        let mut starts = vec![0; count + 1];
        for &(from, _) in edges {
            starts[from as usize + 1] += 1;
        }
        for n in 0..count {
            starts[n + 1] += starts[n];
        }
        let (mut at, mut rows) = (starts.clone(), vec![0; edges.len()]);
        for &(from, to) in edges {
            rows[at[from as usize] as usize] = to;
            at[from as usize] += 1;
        }
        Self { starts, rows }
    }

    /// The readers of a row.
    pub(crate) fn of(&self, row: usize) -> &[u32] {
        &self.rows[self.starts[row] as usize..self.starts[row + 1] as usize]
    }
}
