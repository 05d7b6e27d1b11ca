//! The programs that people write by hand for questions that have a name: what ours must never be slower than.

mod halving;
mod levels;
mod ring;
mod tree;

use super::machines::{Wiring, workers};
use super::questions::Kind;
use super::writer::{Writer, slices};
use ein_ir::region::Interval;
use ein_task::exchange::{Exchange, Program};
use ein_task::machine::{DeviceId, Machine};

/// A program by its common name.
#[derive(Clone, Debug)]
pub struct Rival {
    /// Which, and in how many pieces.
    pub name: String,
    /// The program.
    pub program: Program,
}

/// A named question, and what all who answer it by hand use.
pub(crate) struct Setting<'a> {
    kind: Kind,
    exchange: &'a Exchange,
    machine: &'a Machine,
    devices: Vec<DeviceId>,
    rows: Interval,
    columns: Interval,
}

impl<'a> Setting<'a> {
    fn new(kind: Kind, exchange: &'a Exchange, machine: &'a Machine) -> Self {
        let whole = &exchange.have.whole;
        let (rows, columns) = (whole.0[0], whole.0[1]);
        Self { kind, exchange, machine, devices: workers(machine), rows, columns }
    }

    fn writer(&self) -> Writer<'a> {
        Writer::new(self.exchange, self.machine)
    }

    /// How many devices take part.
    fn count(&self) -> usize {
        self.devices.len()
    }

    /// The rows of a device's strip.
    fn strip(&self, position: usize) -> Interval {
        let (count, rows) = (self.count(), self.rows);
        Interval::new(rows.lo + rows.len() * position / count, rows.lo + rows.len() * (position + 1) / count)
    }

    /// The columns of a device's strip of axis 1.
    fn column(&self, position: usize) -> Interval {
        let (count, all) = (self.count(), self.columns);
        Interval::new(all.lo + all.len() * position / count, all.lo + all.len() * (position + 1) / count)
    }

    /// The rows of the strips of several devices.
    fn strips(&self, positions: std::ops::Range<usize>) -> Interval {
        Interval::new(self.strip(positions.start).lo, self.strip(positions.end - 1).hi)
    }

    /// Numbers of pieces worth trying, of what a device sends at a time.
    fn pieces(&self, most: usize) -> Vec<usize> {
        const LEAST: u64 = 64 << 10;
        let bytes = 4 * (self.rows.len() * self.columns.len()) as u64 / self.count() as u64;
        let mut counts: Vec<usize> = [1, 4, 16].into_iter().filter(|&k| k == 1 || bytes / k as u64 >= LEAST).collect();
        counts.retain(|&k| k <= most);
        counts
    }
}

/// Every program by hand that answers a named question. Where a device has no strip there is the direct one only.
pub fn rivals(kind: Kind, exchange: &Exchange, machine: &Machine) -> Vec<Rival> {
    let setting = Setting::new(kind, exchange, machine);
    let mut found = vec![Rival { name: "direct".into(), program: direct(exchange, machine) }];
    let count = setting.count();
    if matches!(kind, Kind::Relayout { .. }) || setting.rows.len() < count || setting.columns.len() < count {
        return found;
    }
    // Many devices: the simulation of many small pieces takes long.
    let most = if count > 32 { 1 } else { 16 };
    for pieces in setting.pieces(most) {
        let mut add = |name: &str, program: Option<Program>| {
            if let Some(program) = program {
                let name = if pieces == 1 { name.to_string() } else { format!("{name}, {pieces} pieces") };
                found.push(Rival { name, program });
            }
        };
        for (name, lanes) in ring::lanes(&setting) {
            add(&name, ring::program(&setting, &lanes, pieces));
        }
        add("binomial tree", tree::program(&setting, pieces));
        add("halving and doubling", halving::program(&setting, pieces));
        if let Wiring::TwoLevel(groups) = Wiring::of(machine) {
            add("hierarchical", levels::program(&setting, &groups, pieces));
        }
    }
    found
}

/// Calls `stage` for every stage and piece, so that a piece is in its next stage while the one behind it is in
/// this: the diagonal order in which a pipeline works.
fn waves(stages: usize, pieces: usize, mut stage: impl FnMut(usize, usize)) {
    for wave in 0..stages + pieces {
        for s in (0..stages).rev() {
            if wave >= s && wave - s < pieces {
                stage(s, wave - s);
            }
        }
    }
}

/// At most `count` intervals that fill the columns.
fn pieces_of(columns: Interval, count: usize) -> Vec<Interval> {
    slices(columns, count)
}

/// Every reader gets each partial of its boxes from the nearest holder and folds for itself. Round n serves the
/// readers n places on, so that senders do not meet.
pub fn direct(exchange: &Exchange, machine: &Machine) -> Program {
    let mut writer = Writer::new(exchange, machine);
    let blocks = &exchange.have.blocks;
    let mut asked = Vec::new();
    for (n, need) in exchange.needs.iter().enumerate() {
        let local = |b: usize| blocks[b].devices.contains(need.device) && exchange.have.is_finished(b);
        for atom in exchange.atoms_of(&need.region, &[(&need.region, need.device)]) {
            if let &[only] = atom.blocks.as_slice()
                && local(only)
            {
                continue;
            }
            asked.push((n, atom));
        }
    }
    let mut got: Vec<Vec<usize>> = vec![Vec::new(); asked.len()];
    let mut sends = Vec::new();
    for (n, (need, atom)) in asked.iter().enumerate() {
        let reader = exchange.needs[*need].device;
        for &block in &atom.blocks {
            let distance = |d: DeviceId| machine.path(d, reader).map_or(usize::MAX, |way| way.len());
            let holders = blocks[block].devices.iter();
            let round = |d: DeviceId| (reader.index() + machine.len() - d.index()) % machine.len();
            let holder = holders.min_by_key(|&d| (distance(d), round(d))).expect("a block has a holder");
            sends.push((round(holder), reader, n, block, holder));
        }
    }
    sends.sort_unstable();
    for (_, reader, n, block, holder) in sends {
        let part = writer.part(block, holder, &asked[n].1.region);
        got[n].push(writer.send(part, reader));
    }
    for (n, (_, atom)) in asked.iter().enumerate() {
        let finished = matches!(atom.blocks[..], [only] if exchange.have.is_finished(only));
        if !finished {
            writer.fold(std::mem::take(&mut got[n]));
        }
    }
    writer.program()
}
