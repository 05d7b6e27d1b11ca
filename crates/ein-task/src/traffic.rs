//! What an exchange program costs, by the counting page, and the least that any program could.

use crate::bounds::{Bound, bound};
use crate::exchange::{Exchange, Program, Step};
use crate::machine::{DeviceId, Machine};
use crate::units::{Bytes, Seconds};
use ein_ir::region::Region;
use std::collections::BTreeMap;

/// The price of an exchange program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// The busiest resource's time, plus the latency of the longest chain of moves, plus what issuing
    /// transfers costs the link with the most of them.
    pub seconds: Seconds,
    /// The busiest resource's time alone; where moves are copies by threads, that of the threads if it is longer.
    pub busiest: Seconds,
    /// The latency of the longest chain of moves alone.
    pub latency: Seconds,
    /// Over all link crossings; a relay counts at each hop.
    pub bytes_total: Bytes,
    /// Without the hops into devices that only pass the data on.
    pub bytes_delivered: Bytes,
    /// What every device sends, relays included.
    pub sent: Vec<Bytes>,
    /// What every device receives, relays included.
    pub received: Vec<Bytes>,
    /// Moves on the longest chain.
    pub depth: usize,
    /// All moves.
    pub moves: usize,
    /// What no program can beat.
    pub bound: Bound,
}

/// Counts a program that the checker accepts, and the bound of its question.
pub fn traffic(exchange: &Exchange, program: &Program, machine: &Machine) -> Traffic {
    let bound = bound(exchange, &exchange.atoms(), machine);
    Traffic { bound, ..count(exchange, program, machine) }
}

/// Counts a program that the checker accepts; leaves the bound at zero.
pub fn count(exchange: &Exchange, program: &Program, machine: &Machine) -> Traffic {
    let devices = machine.len();
    let mut ledger = Ledger::new(machine);
    let mut pieces: Vec<Counted> = Vec::with_capacity(program.steps.len());
    let mut crossings = Vec::new();
    for (row, step) in program.steps.iter().enumerate() {
        let piece = match step {
            Step::Load { block, device } => {
                let region = &exchange.have.blocks[*block].region;
                let finished = exchange.have.is_finished(*block);
                Counted { region, device: *device, partials: 1, finished, ready: Chain::default() }
            }
            Step::Cut { piece, region } => Counted { region, ..pieces[*piece] },
            Step::Move { piece, to } => {
                let moved = &pieces[*piece];
                let bytes = bytes_of(exchange, moved.region, moved.finished);
                let link = machine.link(moved.device, *to).expect("the checker saw a link");
                let ready = ledger.cross(machine, link, bytes, moved.ready);
                crossings.push((row, bytes));
                Counted { device: *to, ready, ..*moved }
            }
            Step::Fold { pieces: folded } => {
                let first = pieces[folded[0]];
                let partials = folded.iter().map(|&p| pieces[p].partials).sum();
                let finished = partials == exchange.have.partials(first.region).len();
                Counted { partials, finished, ready: latest(folded, &pieces), ..first }
            }
            Step::Paste { pieces: pasted, region } => {
                Counted { region, ready: latest(pasted, &pieces), ..pieces[pasted[0]] }
            }
        };
        pieces.push(piece);
    }
    let used = used(program);
    let delivered = crossings.iter().filter(|c| used[c.0]).map(|c| Bytes(c.1)).sum();
    Traffic {
        seconds: ledger.seconds(machine),
        busiest: Seconds(ledger.load(machine)),
        latency: Seconds(ledger.latency),
        bytes_total: crossings.iter().map(|c| Bytes(c.1)).sum(),
        bytes_delivered: delivered,
        sent: (0..devices).map(|d| Bytes(ledger.sent[d])).collect(),
        received: (0..devices).map(|d| Bytes(ledger.received[d])).collect(),
        depth: ledger.depth,
        moves: crossings.len(),
        bound: Bound::default(),
    }
}

/// Bytes that a move of `region` carries.
pub fn bytes_of(exchange: &Exchange, region: &Region, finished: bool) -> u64 {
    let form = if finished { &exchange.have.finished } else { &exchange.have.pending };
    form.bytes(region) as u64
}

#[derive(Clone, Copy)]
struct Counted<'a> {
    region: &'a Region,
    device: DeviceId,
    partials: usize,
    finished: bool,
    ready: Chain,
}

/// A chain of moves: how many, and their latencies.
#[derive(Clone, Copy, Default)]
struct Chain {
    moves: usize,
    latency: f64,
}

impl Chain {
    /// The longer of two by each measure.
    fn max(self, other: Self) -> Self {
        Self { moves: self.moves.max(other.moves), latency: self.latency.max(other.latency) }
    }
}

fn latest(rows: &[usize], pieces: &[Counted]) -> Chain {
    rows.iter().map(|&p| pieces[p].ready).fold(Chain::default(), Chain::max)
}

/// Which rows are read where they are, and not only passed on.
fn used(program: &Program) -> Vec<bool> {
    let mut used = vec![false; program.steps.len()];
    for &p in &program.yields {
        used[p] = true;
    }
    for (row, step) in program.steps.iter().enumerate().rev() {
        match step {
            Step::Load { .. } | Step::Move { .. } => {}
            Step::Cut { piece, .. } => used[*piece] |= used[row],
            Step::Paste { pieces, .. } => pieces.iter().for_each(|&p| used[p] |= used[row]),
            Step::Fold { pieces } => pieces.iter().for_each(|&p| used[p] = true),
        }
    }
    used
}

/// Running totals of the moves of a program.
struct Ledger {
    /// Bytes that every resource carries.
    busy: Vec<f64>,
    /// Seconds that every device copies what it sends and receives, being a thread.
    copying: Vec<f64>,
    /// Bytes that every device sends.
    sent: Vec<u64>,
    /// Bytes that every device receives.
    received: Vec<u64>,
    /// Moves over every link.
    issued: BTreeMap<(DeviceId, DeviceId), usize>,
    /// The longest chain's latency.
    latency: f64,
    /// Moves on the longest chain.
    depth: usize,
}

impl Ledger {
    /// Nothing moved yet.
    fn new(machine: &Machine) -> Self {
        let devices = machine.len();
        Self {
            busy: vec![0.0; machine.resources.len()],
            copying: vec![0.0; devices],
            sent: vec![0; devices],
            received: vec![0; devices],
            issued: BTreeMap::new(),
            latency: 0.0,
            depth: 0,
        }
    }

    /// Moves `bytes` over a link once what they depend on is there.
    fn cross(&mut self, machine: &Machine, link: &crate::machine::Link, bytes: u64, after: Chain) -> Chain {
        for &r in &link.resources {
            self.busy[r] += bytes as f64;
        }
        if machine.copies_by_thread(link.from, link.to) {
            // Half of it in the one's arena, half in the other's.
            let half = 0.5 * bytes as f64 / machine.bandwidth(link);
            self.copying[link.from.index()] += half;
            self.copying[link.to.index()] += half;
        }
        self.sent[link.from.index()] += bytes;
        self.received[link.to.index()] += bytes;
        *self.issued.entry((link.from, link.to)).or_default() += 1;
        let chain = Chain { moves: after.moves + 1, latency: after.latency + link.latency.0 };
        self.latency = self.latency.max(chain.latency);
        self.depth = self.depth.max(chain.moves);
        chain
    }

    /// Time of the busiest resource, or of the threads that copy if it is longer.
    fn load(&self, machine: &Machine) -> f64 {
        let seconds =
            |(bytes, r): (&f64, &crate::machine::Resource)| if *bytes > 0.0 { bytes / r.bandwidth } else { 0.0 };
        let copied = machine.together(&self.copying).0;
        self.busy.iter().zip(&machine.resources).map(seconds).fold(copied, f64::max)
    }

    /// The price so far.
    fn seconds(&self, machine: &Machine) -> Seconds {
        let issued = self.issued.values().copied().max().unwrap_or(0);
        Seconds(self.load(machine) + self.latency + issued as f64 * machine.issue.0)
    }
}
