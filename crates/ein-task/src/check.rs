//! The checker of exchange programs: what every piece means, and nothing that is not allowed.
//!
//! It is trusted and the search is not, so it is short and shares no code with it.

use crate::exchange::{Exchange, Need, PieceId, Program, Step};
use crate::machine::{DeviceId, DeviceSet, Machine};
use ein_ir::region::{Region, tiles};
use std::fmt;

/// What a step leaves: which box, of which partials, where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The box, in source coordinates.
    pub region: Region,
    /// The blocks folded into it so far, increasing; empty once it is finished.
    pub partials: Vec<usize>,
    /// Where it lies.
    pub device: DeviceId,
    /// Whether it is the tensor's value there, stored in the finished form.
    pub finished: bool,
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.finished { "finished".to_string() } else { format!("partials {:?}", self.partials) };
        write!(f, "{} at {}, {state}", self.region, self.device)
    }
}

/// The step or the yield that is not allowed, and the rule against it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// A step breaks a rule.
    #[error("step %{row} = {step}: {fault}")]
    Step {
        /// Its number.
        row: usize,
        /// The step.
        step: Step,
        /// The rule it breaks.
        fault: Fault,
    },
    /// A need is not answered.
    #[error("need {need} of {region} at {device}: {fault}", region = .what.region, device = .what.device)]
    Need {
        /// Its position.
        need: usize,
        /// The need.
        what: Need,
        /// The rule broken.
        fault: Fault,
    },
    /// There are more or fewer yields than needs.
    #[error("{needs} needs but {yields} yields")]
    Yields {
        /// Number of needs.
        needs: usize,
        /// Number of yields.
        yields: usize,
    },
    /// With no message buffered, these devices wait for each other for ever.
    #[error("devices wait for each other: {}", waiting.iter().map(|(d, row)| format!("{d} at %{row}")).collect::<Vec<_>>().join(", "))]
    Deadlock {
        /// Every waiting device and the row it waits at.
        waiting: Vec<(DeviceId, usize)>,
    },
}

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A row may name only earlier rows.
    #[error("%{0} is not an earlier step")]
    NotEarlier(PieceId),
    /// The relation has no such block.
    #[error("there is no block {0}")]
    NoBlock(usize),
    /// What is empty is neither loaded nor moved, so that no end waits for it.
    #[error("block {0} is empty")]
    Empty(usize),
    /// The device does not hold the block.
    #[error("block {block} is held by {holders} of the machine's devices")]
    NotHeld {
        /// The block.
        block: usize,
        /// Who holds it.
        holders: DeviceSet,
    },
    /// A cut must lie inside the piece and not be empty.
    #[error("the cut is empty or not inside {0}")]
    NotInside(Piece),
    /// A move needs a direct link.
    #[error("no link from {from} to {to}")]
    NoLink {
        /// Where the piece is.
        from: DeviceId,
        /// Where it should go.
        to: DeviceId,
    },
    /// Folds and pastes need a piece.
    #[error("no pieces")]
    NoPieces,
    /// Folding is arithmetic: a device that only stores and relays does none.
    #[error("{0} does not compute, so nothing is folded there")]
    NoArithmetic(DeviceId),
    /// Pieces must be on one device.
    #[error("not on one device: {0}; {1}")]
    Devices(Piece, Piece),
    /// Folded pieces must have equal regions.
    #[error("regions differ: {0}; {1}")]
    Regions(Piece, Piece),
    /// What one axis stacks is folded together.
    #[error("the last axis stacks what is folded together and must be whole: {0}")]
    Stacked(Piece),
    /// What is finished is not folded again.
    #[error("already finished: {0}")]
    Finished(Piece),
    /// A partial may be folded in once only.
    #[error("partial {0} twice")]
    Twice(usize),
    /// An order that is kept has to be known.
    #[error("where along the folded axis is partial {0}? The monoid is ordered")]
    NoPlace(usize),
    /// What an ordered monoid folds are neighbours, the earlier one first.
    #[error("not one right behind the other along the folded axis: {0}; {1}")]
    Apart(Piece, Piece),
    /// Folding goes by the least partial of each piece, so that a run repeats.
    #[error("not in the order of their least partials: {0}; {1}")]
    Order(Piece, Piece),
    /// Pasted pieces must all be finished, or all of the same partials.
    #[error("neither all finished nor all of equal partials: {0}; {1}")]
    Mixed(Piece, Piece),
    /// Pasted pieces must be disjoint and fill the box.
    #[error("the pieces do not fill the box exactly")]
    NotFilled,
    /// A yield must be the box needed, where it is needed.
    #[error("yields {0}")]
    Elsewhere(Piece),
    /// A yield must be finished.
    #[error("not finished: {0}")]
    Unfinished(Piece),
}

/// The meaning of every step, if all are allowed and every need is answered.
pub fn check(exchange: &Exchange, program: &Program, machine: &Machine) -> Result<Vec<Piece>, CheckError> {
    let mut pieces = Vec::with_capacity(program.steps.len());
    for (row, step) in program.steps.iter().enumerate() {
        let piece = meaning(exchange, machine, &pieces, step);
        pieces.push(piece.map_err(|fault| CheckError::Step { row, step: step.clone(), fault })?);
    }
    let (needs, yields) = (exchange.needs.len(), program.yields.len());
    if needs != yields {
        return Err(CheckError::Yields { needs, yields });
    }
    for (need, (what, &id)) in exchange.needs.iter().zip(&program.yields).enumerate() {
        answers(&pieces, what, id).map_err(|fault| CheckError::Need { need, what: what.clone(), fault })?;
    }
    Ok(pieces)
}

fn meaning(exchange: &Exchange, machine: &Machine, earlier: &[Piece], step: &Step) -> Result<Piece, Fault> {
    let get = |id: &PieceId| earlier.get(*id).ok_or(Fault::NotEarlier(*id));
    match step {
        Step::Load { block, device } => {
            let held = exchange.have.blocks.get(*block).ok_or(Fault::NoBlock(*block))?;
            if device.index() >= machine.len() || !held.devices.iter().any(|d| d == *device) {
                return Err(Fault::NotHeld { block: *block, holders: held.devices });
            }
            if held.region.is_empty() {
                return Err(Fault::Empty(*block));
            }
            let finished = exchange.have.is_finished(*block);
            let partials = if finished { Vec::new() } else { vec![*block] };
            Ok(Piece { region: held.region.clone(), partials, device: *device, finished })
        }
        Step::Cut { piece, region } => {
            let whole = get(piece)?;
            if region.rank() != whole.region.rank() || region.is_empty() || !whole.region.contains(region) {
                return Err(Fault::NotInside(whole.clone()));
            }
            Ok(Piece { region: region.clone(), ..whole.clone() })
        }
        Step::Move { piece, to } => {
            let moved = get(piece)?;
            if moved.device == *to || machine.link(moved.device, *to).is_none() {
                return Err(Fault::NoLink { from: moved.device, to: *to });
            }
            Ok(Piece { device: *to, ..moved.clone() })
        }
        Step::Fold { pieces } => {
            let pieces = pieces.iter().map(get).collect::<Result<Vec<_>, _>>()?;
            let idle = pieces.iter().map(|p| p.device).find(|d| !machine.workers().contains(*d));
            match idle {
                Some(device) => Err(Fault::NoArithmetic(device)),
                None => fold(exchange, &pieces),
            }
        }
        Step::Paste { pieces, region } => {
            let pieces = pieces.iter().map(get).collect::<Result<Vec<_>, _>>()?;
            paste(&pieces, region)
        }
    }
}

/// Where along the folded axis the partials of a piece lie, which are neighbours: a piece begins as one block, and
/// [`fold`] puts only neighbours together.
fn run(exchange: &Exchange, piece: &Piece) -> Result<(usize, usize), Fault> {
    let place = |&b: &usize| exchange.have.places.get(b).ok_or(Fault::NoPlace(b));
    let places = piece.partials.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let (low, high) = (places.iter().map(|p| p.lo).min(), places.iter().map(|p| p.hi).max());
    low.zip(high).ok_or(Fault::NoPieces)
}

/// Partials of a commutative monoid need not be neighbours in the list of blocks to be folded; those of an ordered one must
/// be neighbours along the folded axis, in its order, wherever they stand in the list.
fn fold(exchange: &Exchange, pieces: &[&Piece]) -> Result<Piece, Fault> {
    let first = *pieces.first().ok_or(Fault::NoPieces)?;
    let mut partials = Vec::new();
    for (n, &piece) in pieces.iter().enumerate() {
        if piece.device != first.device {
            return Err(Fault::Devices(first.clone(), piece.clone()));
        }
        if piece.region != first.region {
            return Err(Fault::Regions(first.clone(), piece.clone()));
        }
        if piece.finished {
            return Err(Fault::Finished(piece.clone()));
        }
        if let Some(&twice) = piece.partials.iter().find(|b| partials.contains(*b)) {
            return Err(Fault::Twice(twice));
        }
        if exchange.have.monoid.is_ordered() {
            let own = run(exchange, piece)?;
            if n > 0 && run(exchange, pieces[n - 1])?.1 != own.0 {
                return Err(Fault::Apart(pieces[n - 1].clone(), piece.clone()));
            }
        } else if n > 0 && pieces[n - 1].partials[0] >= piece.partials[0] {
            return Err(Fault::Order(pieces[n - 1].clone(), piece.clone()));
        }
        partials.extend(&piece.partials);
    }
    let whole = &exchange.have.whole;
    let stacks = exchange.have.monoid.stacked().is_some()
        && exchange.have.pending.fields.iter().any(|f| f.axes.len() == whole.rank());
    if stacks && first.region.0.last() != whole.0.last() {
        return Err(Fault::Stacked(first.clone()));
    }
    partials.sort_unstable();
    let blocks = &exchange.have.blocks;
    let finished = partials == exchange.have.partials(&first.region)
        && partials.iter().all(|&b| blocks[b].region.contains(&first.region));
    if finished {
        partials.clear();
    }
    Ok(Piece { region: first.region.clone(), partials, device: first.device, finished })
}

fn paste(pieces: &[&Piece], region: &Region) -> Result<Piece, Fault> {
    let first = *pieces.first().ok_or(Fault::NoPieces)?;
    for &piece in pieces {
        if piece.device != first.device {
            return Err(Fault::Devices(first.clone(), piece.clone()));
        }
        if piece.finished != first.finished || piece.partials != first.partials {
            return Err(Fault::Mixed(first.clone(), piece.clone()));
        }
    }
    let regions: Vec<Region> = pieces.iter().map(|p| p.region.clone()).collect();
    if region.rank() != first.region.rank() || !tiles(&regions, region) {
        return Err(Fault::NotFilled);
    }
    Ok(Piece { region: region.clone(), ..first.clone() })
}

fn answers(pieces: &[Piece], need: &Need, id: PieceId) -> Result<(), Fault> {
    let piece = pieces.get(id).ok_or(Fault::NotEarlier(id))?;
    if piece.device != need.device || piece.region != need.region {
        return Err(Fault::Elsewhere(piece.clone()));
    }
    if !piece.finished {
        return Err(Fault::Unfinished(piece.clone()));
    }
    Ok(())
}

/// Shows that the program ends with no message buffered: every device does its own rows in row order,
/// and both ends of a move wait until the other is there. `pieces` are those that [`check`] returned. Rows name
/// earlier rows only, so this follows from [`check`]; it is done here by meeting, without that argument.
pub fn check_rendezvous(program: &Program, pieces: &[Piece], machine: &Machine) -> Result<(), CheckError> {
    let mut queues = vec![Vec::new(); machine.len()];
    for (row, step) in program.steps.iter().enumerate() {
        queues[pieces[row].device.index()].push(row);
        if let Step::Move { piece, .. } = step {
            queues[pieces[*piece].device.index()].push(row);
        }
    }
    meet(&queues).map_err(|waiting| CheckError::Deadlock { waiting })
}

/// Runs queues of rows. A row that is in two queues is done when it is first in both.
fn meet(queues: &[Vec<usize>]) -> Result<(), Vec<(DeviceId, usize)>> {
    let mut ends = std::collections::BTreeMap::new();
    for &row in queues.iter().flatten() {
        *ends.entry(row).or_insert(0) += 1;
    }
    let mut next = vec![0; queues.len()];
    loop {
        let heads: Vec<Option<usize>> = queues.iter().zip(&next).map(|(q, &n)| q.get(n).copied()).collect();
        let ready = |row: usize| heads.iter().filter(|h| **h == Some(row)).count() == ends[&row];
        let mut moved = false;
        for (device, head) in heads.iter().enumerate() {
            if head.is_some_and(ready) {
                next[device] += 1;
                moved = true;
            }
        }
        if !moved {
            let waiting = heads.iter().enumerate().filter_map(|(d, h)| h.map(|row| (DeviceId(d as u16), row)));
            let waiting: Vec<_> = waiting.collect();
            return if waiting.is_empty() { Ok(()) } else { Err(waiting) };
        }
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
