//! Answers to exchange questions, each found and checked once.
//!
//! The price and the lowering both ask here, so that what is priced is what is done. A question that was asked
//! before is answered from memory. So is one that differs from an earlier one only in which device does what, as far as
//! those may change places on the machine: it is asked under canonical names, and the answer is renamed.

use crate::options::{ExchangeStyle, Objective, Options};
use crate::pattern::mix;
use crate::symmetry::{Symmetry, turns};
use crate::synthesis::{Aim, Memory, SynthesisError, naive};
use ein_task::check::{CheckError, Piece, check, check_rendezvous};
use ein_task::exchange::{Exchange, Program, Step};
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::relation::Relation;
use ein_task::traffic::{Traffic, traffic};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A program that has passed the checker, what each of its steps leaves, and what it costs.
#[derive(Debug)]
pub struct Answer {
    /// The program.
    pub program: Program,
    /// What each step leaves.
    pub pieces: Vec<Piece>,
    /// What it costs by the counting page.
    pub traffic: Traffic,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AnswerError {
    /// There is no program.
    #[error(transparent)]
    Synthesis(#[from] SynthesisError),
    /// The checker refused the program.
    #[error(transparent)]
    Unsound(#[from] CheckError),
}

/// Questions already answered on one machine. Looked up, never iterated.
#[derive(Debug, Default)]
pub struct Answers {
    aim: Aim,
    style: ExchangeStyle,
    known: HashMap<Exchange, Rc<Answer>>,
    /// Which devices are interchangeable; found out when first asked.
    symmetry: Option<Rc<Symmetry>>,
    /// Symmetries beside those; found out when first asked.
    turns: Vec<Vec<DeviceId>>,
    memory: Memory,
}

/// What makes one program better than another under an objective.
pub fn aim(objective: Objective) -> Aim {
    match objective {
        Objective::Time | Objective::Makespan | Objective::Memory => Aim::Seconds,
        Objective::Bytes => Aim::Bytes,
    }
}

impl Answers {
    /// Nothing answered yet; programs will be those that the options ask for.
    pub fn of(options: &Options) -> Self {
        Self { aim: aim(options.objective), style: options.exchange, ..Self::default() }
    }

    /// The answer to a question. No program leaves here unchecked. All questions must be about one machine.
    pub fn answer(&mut self, exchange: &Exchange, machine: &Machine) -> Result<Rc<Answer>, AnswerError> {
        if let Some(known) = self.known.get(exchange) {
            return Ok(Rc::clone(known));
        }
        let program = match self.style {
            ExchangeStyle::Naive => naive(exchange, machine)?,
            ExchangeStyle::Synthesized => self.synthesized(exchange, machine, self.aim)?,
            ExchangeStyle::Lean => self.synthesized(exchange, machine, Aim::Buffers)?,
        };
        let pieces = check(exchange, &program, machine)?;
        check_rendezvous(&program, &pieces, machine)?;
        let traffic = traffic(exchange, &program, machine);
        let answer = Rc::new(Answer { program, pieces, traffic });
        self.known.insert(exchange.clone(), Rc::clone(&answer));
        Ok(answer)
    }

    /// How many programs were searched for, rather than taken from memory or renamed.
    pub fn searched(&self) -> usize {
        self.memory.searched()
    }

    /// Which devices of the machine that all questions are about are interchangeable.
    pub(crate) fn symmetry(&mut self, machine: &Machine) -> Rc<Symmetry> {
        Rc::clone(self.symmetry.get_or_insert_with(|| Rc::new(Symmetry::of(machine))))
    }

    fn synthesized(&mut self, exchange: &Exchange, machine: &Machine, aim: Aim) -> Result<Program, SynthesisError> {
        let symmetry = self.symmetry(machine);
        if self.turns.is_empty() {
            self.turns = turns(machine, &symmetry);
        }
        let names = Names::of(exchange, &symmetry).turned(exchange, &self.turns);
        let renamed = names.exchange(exchange);
        let program = self.memory.synthesize(&renamed, machine, aim)?;
        Ok(names.back(program))
    }
}

/// Canonical names of a machine's devices.
struct Names {
    canonical: Vec<DeviceId>,
    actual: Vec<DeviceId>,
}

impl Names {
    /// Devices in the order of what they do in a question: what they hold and need, then what those do whom they
    /// share that with. Equal descriptions keep the order of the numbers, so that some questions which are alike
    /// are not found to be; none that differ are taken for alike.
    fn of(exchange: &Exchange, symmetry: &Symmetry) -> Self {
        // Boxes by size alone: where in the tensor they lie decides nothing but which of them overlap.
        let mut needs: BTreeMap<_, DeviceSet> = BTreeMap::new();
        for n in &exchange.needs {
            let set = needs.entry(&n.region).or_default();
            *set = set.with(n.device);
        }
        let needs: Vec<_> = needs.into_iter().collect();
        let mut name = symmetry.kinds().to_vec();
        for round in 0..3 {
            let group = |set: DeviceSet| symmetry.sum(set, &name);
            let mut next: Vec<u64> = name.iter().map(|n| mix(n.wrapping_add(round))).collect();
            for (b, block) in exchange.have.blocks.iter().enumerate() {
                let mut what = mix(block.region.volume() as u64) ^ mix(group(block.devices));
                // Whoever holds the parts of an axis in its order is alike whatever the devices' numbers are.
                if let Some(place) = exchange.have.places.get(b) {
                    what ^= mix(place.lo as u64 ^ 0x5bd1_e995).rotate_left(23);
                }
                let mut met = DeviceSet::new();
                for (region, readers) in &needs {
                    let both = region.overlap(&block.region) as u64;
                    if both > 0 {
                        what = what.wrapping_add(mix(mix(both) ^ mix(group(*readers)).rotate_left(9)));
                        met = met.union(*readers);
                    }
                }
                for d in block.devices.iter() {
                    let own = mix(what.wrapping_add(symmetry.beside(d, met)));
                    next[d.index()] = next[d.index()].wrapping_add(own);
                }
            }
            for (region, readers) in &needs {
                let mut what = mix(region.volume() as u64).rotate_left(3) ^ mix(group(*readers));
                let mut met = DeviceSet::new();
                for block in &exchange.have.blocks {
                    let both = region.overlap(&block.region) as u64;
                    if both > 0 {
                        what = what.wrapping_add(mix(mix(both) ^ mix(group(block.devices)).rotate_left(17)));
                        met = met.union(block.devices);
                    }
                }
                for d in readers.iter() {
                    let own = mix(what.wrapping_add(77 + (symmetry.beside(d, met) << 32)));
                    next[d.index()] = next[d.index()].wrapping_add(own);
                }
            }
            name = next;
        }
        let mut canonical = symmetry.places().to_vec();
        let mut actual = canonical.clone();
        for (d, place) in symmetry.arranged(&name).into_iter().zip(symmetry.places()) {
            canonical[d.index()] = *place;
            actual[place.index()] = d;
        }
        Self { canonical, actual }
    }

    /// Of the names that these symmetries lead to, those under which the devices of blocks and needs come first in order.
    /// Blocks go by their boxes, and partials of one box, unless their order is to be kept, by who holds them: two questions
    /// that differ in the order of their blocks get the same names.
    fn turned(self, exchange: &Exchange, turns: &[Vec<DeviceId>]) -> Self {
        if turns.len() < 2 {
            return self;
        }
        let Relation { blocks, monoid, .. } = &exchange.have;
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_by(|&a, &b| {
            let place = |b| if monoid.is_ordered() { exchange.have.rank(b) } else { (0, 0, 0) };
            blocks[a].region.cmp(&blocks[b].region).then_with(|| place(a).cmp(&place(b)))
        });
        let name = |turn: &[DeviceId], d: DeviceId| turn[self.canonical[d.index()].index()];
        let named = |turn: &&Vec<DeviceId>| {
            let held = |set: DeviceSet| -> DeviceSet { set.iter().map(|d| name(turn, d)).collect() };
            let mut have: Vec<DeviceSet> = order.iter().map(|&b| held(blocks[b].devices)).collect();
            if !monoid.is_ordered() {
                let mut at = 0;
                for same in order.chunk_by(|&a, &b| blocks[a].region == blocks[b].region) {
                    have[at..at + same.len()].sort_unstable();
                    at += same.len();
                }
            }
            let needs: Vec<DeviceId> = exchange.needs.iter().map(|n| name(turn, n.device)).collect();
            (have, needs)
        };
        let Some(turn) = turns.iter().min_by_key(named) else { return self };
        let canonical: Vec<DeviceId> = self.canonical.iter().map(|d| turn[d.index()]).collect();
        let mut actual = canonical.clone();
        for (d, name) in canonical.iter().enumerate() {
            actual[name.index()] = DeviceId(d as u16);
        }
        Self { canonical, actual }
    }

    fn exchange(&self, exchange: &Exchange) -> Exchange {
        let mut renamed = exchange.clone();
        for block in &mut renamed.have.blocks {
            block.devices = block.devices.iter().map(|d| self.canonical[d.index()]).collect();
        }
        renamed.needs.iter_mut().for_each(|n| n.device = self.canonical[n.device.index()]);
        renamed
    }

    fn back(&self, mut program: Program) -> Program {
        for step in &mut program.steps {
            match step {
                Step::Load { device, .. } => *device = self.actual[device.index()],
                Step::Move { to, .. } => *to = self.actual[to.index()],
                Step::Cut { .. } | Step::Fold { .. } | Step::Paste { .. } => {}
            }
        }
        program
    }
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
