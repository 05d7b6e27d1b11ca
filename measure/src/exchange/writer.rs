//! Writes exchange programs by hand, step by step. It shares nothing with the synthesiser.

use ein_ir::region::{Interval, Region};
use ein_task::exchange::{Exchange, PieceId, Program, Step};
use ein_task::machine::{DeviceId, Machine};
use std::collections::BTreeMap;

/// What a step leaves.
#[derive(Clone, Debug)]
struct Left {
    region: Region,
    device: DeviceId,
    /// Blocks folded so far, increasing; of a finished piece nothing.
    partials: Vec<usize>,
}

/// A program being written.
pub struct Writer<'a> {
    exchange: &'a Exchange,
    machine: &'a Machine,
    steps: Vec<Step>,
    left: Vec<Left>,
    finished: Vec<bool>,
    loads: BTreeMap<(usize, DeviceId), PieceId>,
    cuts: BTreeMap<(PieceId, Region), PieceId>,
    /// Finished pieces of every device that are not cut from others there.
    whole: Vec<Vec<PieceId>>,
}

impl<'a> Writer<'a> {
    /// An empty program.
    pub fn new(exchange: &'a Exchange, machine: &'a Machine) -> Self {
        let finished = (0..exchange.have.blocks.len()).map(|b| exchange.have.is_finished(b)).collect();
        let whole = vec![Vec::new(); machine.len()];
        Self {
            exchange,
            machine,
            steps: Vec::new(),
            left: Vec::new(),
            finished,
            loads: BTreeMap::new(),
            cuts: BTreeMap::new(),
            whole,
        }
    }

    /// Part of a block at one of its holders.
    pub fn part(&mut self, block: usize, device: DeviceId, region: &Region) -> PieceId {
        let load = if let Some(&load) = self.loads.get(&(block, device)) {
            load
        } else {
            let partials = if self.finished[block] { Vec::new() } else { vec![block] };
            let region = self.exchange.have.blocks[block].region.clone();
            let load = self.push(Step::Load { block, device }, Left { region, device, partials });
            self.loads.insert((block, device), load);
            load
        };
        self.cut(load, region)
    }

    /// A box of a piece.
    pub fn cut(&mut self, piece: PieceId, region: &Region) -> PieceId {
        if self.left[piece].region == *region {
            return piece;
        }
        let key = (piece, region.clone());
        if let Some(&cut) = self.cuts.get(&key) {
            return cut;
        }
        let left = Left { region: region.clone(), ..self.left[piece].clone() };
        let cut = self.push(Step::Cut { piece, region: region.clone() }, left);
        self.cuts.insert(key, cut);
        cut
    }

    /// The piece at another device: directly, or over the way of fewest links where there is no link.
    pub fn send(&mut self, piece: PieceId, to: DeviceId) -> PieceId {
        let from = self.left[piece].device;
        if from == to {
            return piece;
        }
        let way = match self.machine.link(from, to) {
            Some(_) => vec![from, to],
            None => self.machine.path(from, to).expect("machines are connected"),
        };
        way[1..].iter().fold(piece, |piece, &to| {
            let left = Left { device: to, ..self.left[piece].clone() };
            self.push(Step::Move { piece, to }, left)
        })
    }

    /// Pieces of one region and device, combined.
    pub fn fold(&mut self, mut pieces: Vec<PieceId>) -> PieceId {
        pieces.sort_by_key(|&p| self.left[p].partials[0]);
        let first = &self.left[pieces[0]];
        let (region, device) = (first.region.clone(), first.device);
        let mut partials: Vec<usize> = pieces.iter().flat_map(|&p| self.left[p].partials.clone()).collect();
        partials.sort_unstable();
        if partials.len() == self.exchange.have.partials(&region).len() {
            partials.clear();
        }
        self.push(Step::Fold { pieces }, Left { region, device, partials })
    }

    /// Pieces of one device that fill a box.
    pub fn paste(&mut self, pieces: Vec<PieceId>, region: &Region) -> PieceId {
        if let &[only] = pieces.as_slice() {
            return only;
        }
        let left = Left { region: region.clone(), ..self.left[pieces[0]].clone() };
        self.push(Step::Paste { pieces, region: region.clone() }, left)
    }

    /// Where a piece is.
    pub fn at(&self, piece: PieceId) -> DeviceId {
        self.left[piece].device
    }

    /// The program: every need from what its device has finished by now.
    pub fn program(mut self) -> Program {
        let exchange = self.exchange;
        for (block, held) in exchange.have.blocks.iter().enumerate().filter(|(b, _)| exchange.have.is_finished(*b)) {
            for device in held.devices.iter() {
                if exchange.needs.iter().any(|n| n.device == device && n.region.overlap(&held.region) > 0) {
                    self.part(block, device, &held.region);
                }
            }
        }
        let yields = exchange.needs.iter().map(|need| {
            let mut rest = vec![need.region.clone()];
            let mut parts = Vec::new();
            for piece in self.whole[need.device.index()].clone() {
                let region = self.left[piece].region.clone();
                for open in std::mem::take(&mut rest) {
                    match open.intersect(&region) {
                        Some(both) => {
                            parts.push((both.clone(), self.cut(piece, &both)));
                            rest.extend(open.subtract(&both));
                        }
                        None => rest.push(open),
                    }
                }
            }
            assert!(rest.is_empty(), "{rest:?} was not delivered to {}", need.device);
            parts.sort();
            self.paste(parts.into_iter().map(|p| p.1).collect(), &need.region)
        });
        let yields = yields.collect();
        Program { steps: self.steps, yields }
    }

    fn push(&mut self, step: Step, left: Left) -> PieceId {
        let id = self.steps.len();
        let base = !matches!(step, Step::Cut { .. });
        if base && left.partials.is_empty() {
            self.whole[left.device.index()].push(id);
        }
        self.steps.push(step);
        self.left.push(left);
        id
    }
}

/// At most `count` intervals of equal length, give or take one, that fill `interval`.
pub fn slices(interval: Interval, count: usize) -> Vec<Interval> {
    let at = |n: usize| interval.lo + interval.len() * n / count;
    (0..count).map(|n| Interval::new(at(n), at(n + 1))).filter(|i| !i.is_empty()).collect()
}

/// Rows and columns as a region.
pub fn region(rows: Interval, columns: Interval) -> Region {
    Region(vec![rows, columns])
}
