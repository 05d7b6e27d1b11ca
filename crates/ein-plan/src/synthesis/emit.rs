//! From a schedule to the steps of a program.

use super::bundle::Bundle;
use super::cut::Piece;
use super::net::Net;
use super::route::{Leg, Route, Scheme};
use super::schedule::Schedule;
use ein_ir::region::Region;
use ein_task::exchange::{Exchange, PieceId, Program, Step};
use ein_task::machine::DeviceId;
use std::collections::{BTreeMap, HashMap};

/// A program in the making.
struct Draft<'a> {
    exchange: &'a Exchange,
    finished: Vec<bool>,
    steps: Vec<Step>,
    at: Vec<DeviceId>,
    /// Whether a step leaves the finished value.
    done: Vec<bool>,
    loads: BTreeMap<(usize, DeviceId), PieceId>,
    /// Looked up, never iterated.
    cuts: HashMap<(PieceId, Region), PieceId>,
    /// What readers got, by device.
    delivered: Vec<Vec<(Region, PieceId)>>,
}

/// Partials that are in one piece, and the step that leaves it.
type Together = (Vec<usize>, PieceId);

/// One piece of a scheme while its moves are made.
#[derive(Clone, Default)]
struct State {
    /// Partials that came together, by fold and device: which, and in what step.
    inbox: BTreeMap<(usize, DeviceId), Vec<Together>>,
    /// What was folded, if there are several folds: where, of which steps, and what that left.
    folded: Vec<(DeviceId, Vec<PieceId>, Together)>,
    /// The finished value, by device.
    have: BTreeMap<DeviceId, PieceId>,
}

/// The program of a schedule.
pub(super) fn emit(net: &Net, exchange: &Exchange, scheme: &Scheme, schedule: &Schedule) -> Program {
    let mut draft = Draft {
        exchange,
        finished: (0..exchange.have.blocks.len()).map(|b| exchange.have.is_finished(b)).collect(),
        steps: Vec::with_capacity(4 * schedule.travels.len() + exchange.needs.len()),
        at: Vec::new(),
        done: Vec::new(),
        loads: BTreeMap::new(),
        cuts: HashMap::new(),
        delivered: vec![Vec::new(); net.devices],
    };
    let mut states = vec![State::default(); schedule.pieces.len()];
    let mut left = vec![0usize; schedule.pieces.len()];
    schedule.travels.iter().for_each(|t| left[t.piece] += 1);
    // What does not travel is ready from the start.
    for n in (0..left.len()).filter(|&n| left[n] == 0) {
        draft.deliver(scheme, &schedule.pieces[n], &mut states[n]);
    }
    for travel in &schedule.travels {
        let piece = &schedule.pieces[travel.piece];
        let leg = &scheme.legs[piece.leg];
        let bundle = &scheme.bundles[leg.bundle];
        let state = &mut states[travel.piece];
        let crossing = &schedule.routes[piece.leg][travel.crossing];
        let (from, to) = crossing.hop;
        let at = (bundle, piece.part, &piece.region);
        if let Some(&n) = crossing.folds.first() {
            let own = if net.workers.contains(from) {
                draft.folded(at, &leg.route, n, from, state)
            } else {
                draft.together(at, &leg.route, n, from, state)
            };
            for (partials, id) in own {
                let moved = draft.moved(id, to);
                for &n in &crossing.folds {
                    state.inbox.entry((n, to)).or_default().push((partials.clone(), moved));
                }
            }
        } else {
            let id = draft.value(at, leg, from, state);
            let moved = draft.moved(id, to);
            state.have.insert(to, moved);
        }
        // Readers fold as soon as they can: what they folded need not be kept.
        left[travel.piece] -= 1;
        if left[travel.piece] == 0 {
            draft.deliver(scheme, piece, &mut states[travel.piece]);
        }
    }
    draft.program()
}

/// A bundle, which of its parts, and a box of that.
type At<'a> = (&'a Bundle, usize, &'a Region);

impl Draft<'_> {
    /// Notes what a piece's readers have once all its moves are made.
    fn deliver(&mut self, scheme: &Scheme, piece: &Piece, state: &mut State) {
        let leg = &scheme.legs[piece.leg];
        let bundle = &scheme.bundles[leg.bundle];
        for reader in bundle.readers.iter() {
            let id = self.value((bundle, piece.part, &piece.region), leg, reader, state);
            self.delivered[reader.index()].push((piece.region.clone(), id));
        }
    }

    /// The partials that a device has for a route's `n`-th fold: its own and what arrived, or what it made of
    /// some of these for another fold.
    fn together(
        &mut self,
        (bundle, part, region): At,
        route: &Route,
        n: usize,
        device: DeviceId,
        state: &mut State,
    ) -> Vec<Together> {
        let mut pieces = state.inbox.remove(&(n, device)).unwrap_or_default();
        for (partial, &supplier) in route.folds[n].from.iter().enumerate() {
            if supplier == device {
                let block = bundle.parts[part].blocks[partial];
                pieces.push((vec![block], self.part(block, device, region)));
            }
        }
        for (at, of, made) in &state.folded {
            if *at == device && of.iter().all(|id| pieces.iter().any(|p| p.1 == *id)) {
                pieces.retain(|p| !of.contains(&p.1));
                pieces.push(made.clone());
            }
        }
        pieces
    }

    /// The same, folded: as one, unless an order is to be kept and some are missing between others.
    fn folded(&mut self, at: At, route: &Route, n: usize, device: DeviceId, state: &mut State) -> Vec<Together> {
        let mut pieces = self.together(at, route, n, device, state);
        let have = &self.exchange.have;
        pieces.sort_unstable_by_key(|p| have.rank(p.0[0]));
        let joins = |a: &Together, b: &Together| have.joins(a.0[a.0.len() - 1], b.0[0]);
        let runs: Vec<Vec<Together>> =
            if at.0.ordered { pieces.chunk_by(joins).map(<[_]>::to_vec).collect() } else { vec![pieces] };
        let mut folded = Vec::with_capacity(runs.len());
        for run in runs {
            let of: Vec<PieceId> = run.iter().map(|p| p.1).collect();
            let made = self.fold(run, at.0.holders.len());
            if route.folds.len() > 1 && of != [made.1] {
                state.folded.push((device, of, made.clone()));
            }
            folded.push(made);
        }
        folded
    }

    /// The finished value of a piece at a device that has it or is where it is folded.
    fn value(&mut self, at: At, leg: &Leg, device: DeviceId, state: &mut State) -> PieceId {
        if let Some(&id) = state.have.get(&device) {
            return id;
        }
        let (bundle, part, region) = at;
        let id = match leg.route.folds.iter().position(|f| f.root == device) {
            Some(n) => match self.folded(at, &leg.route, n, device, state)[..] {
                [(_, id)] => id,
                _ => unreachable!("all partials come to the root, and together they are one run"),
            },
            None => self.part(bundle.parts[part].blocks[0], device, region),
        };
        state.have.insert(device, id);
        id
    }

    /// Folds pieces of one box on one device, in this order, of which `all` partials are to come together. A single piece of
    /// too few partials is left as it is, and so is one that came finished.
    fn fold(&mut self, mut pieces: Vec<Together>, all: usize) -> Together {
        if pieces.len() == 1 && (pieces[0].0.len() < all || self.done[pieces[0].1]) {
            return pieces.swap_remove(0);
        }
        let ids: Vec<PieceId> = pieces.iter().map(|p| p.1).collect();
        let mut partials: Vec<usize> = pieces.into_iter().flat_map(|p| p.0).collect();
        partials.sort_unstable_by_key(|&b| self.exchange.have.rank(b));
        let device = self.at[ids[0]];
        let done = partials.len() == all;
        (partials, self.push(Step::Fold { pieces: ids }, device, done))
    }

    /// A box of a block at one of its holders.
    fn part(&mut self, block: usize, device: DeviceId, region: &Region) -> PieceId {
        let load = if let Some(&load) = self.loads.get(&(block, device)) {
            load
        } else {
            let load = self.push(Step::Load { block, device }, device, self.finished[block]);
            self.loads.insert((block, device), load);
            load
        };
        if *region == self.exchange.have.blocks[block].region { load } else { self.cut(load, region) }
    }

    fn cut(&mut self, piece: PieceId, region: &Region) -> PieceId {
        if let Some(&cut) = self.cuts.get(&(piece, region.clone())) {
            return cut;
        }
        let cut = self.push(Step::Cut { piece, region: region.clone() }, self.at[piece], self.done[piece]);
        self.cuts.insert((piece, region.clone()), cut);
        cut
    }

    fn moved(&mut self, piece: PieceId, to: DeviceId) -> PieceId {
        self.push(Step::Move { piece, to }, to, self.done[piece])
    }

    fn push(&mut self, step: Step, at: DeviceId, done: bool) -> PieceId {
        self.steps.push(step);
        self.at.push(at);
        self.done.push(done);
        self.steps.len() - 1
    }

    /// Pastes what every need is made of, and leaves out what nothing reads.
    fn program(mut self) -> Program {
        let needs = &self.exchange.needs;
        let mut yields: Vec<PieceId> = Vec::with_capacity(needs.len());
        let mut answered: BTreeMap<(DeviceId, &Region), PieceId> = BTreeMap::new();
        for need in needs {
            let yielded = match answered.get(&(need.device, &need.region)) {
                Some(&piece) => piece,
                None => self.assemble(need.device, &need.region),
            };
            answered.insert((need.device, &need.region), yielded);
            yields.push(yielded);
        }
        swept(Program { steps: self.steps, yields })
    }

    fn assemble(&mut self, device: DeviceId, need: &Region) -> PieceId {
        let mut parts: Vec<(Region, PieceId)> = Vec::new();
        for b in 0..self.finished.len() {
            let held = &self.exchange.have.blocks[b];
            if self.finished[b]
                && held.devices.contains(device)
                && let Some(both) = held.region.intersect(need)
            {
                let piece = self.part(b, device, &both);
                parts.push((both, piece));
            }
        }
        let delivered = std::mem::take(&mut self.delivered[device.index()]);
        for (region, piece) in &delivered {
            if let Some(both) = region.intersect(need) {
                let piece = if both == *region { *piece } else { self.cut(*piece, &both) };
                parts.push((both, piece));
            }
        }
        self.delivered[device.index()] = delivered;
        if parts.len() == 1 {
            return parts[0].1;
        }
        parts.sort_unstable();
        let pieces: Vec<PieceId> = parts.into_iter().map(|p| p.1).collect();
        self.push(Step::Paste { pieces, region: need.clone() }, device, true)
    }
}

/// The program without the steps that no yield depends on.
fn swept(program: Program) -> Program {
    let Program { mut steps, mut yields } = program;
    let mut live = vec![false; steps.len()];
    for &p in &yields {
        live[p] = true;
    }
    for row in (0..steps.len()).rev() {
        if live[row] {
            for &mut p in reads(&mut steps[row]) {
                live[p] = true;
            }
        }
    }
    if live.iter().all(|&l| l) {
        return Program { steps, yields };
    }
    let mut renumbered = vec![0; live.len()];
    for row in 1..live.len() {
        renumbered[row] = renumbered[row - 1] + usize::from(live[row - 1]);
    }
    let mut alive = live.iter();
    steps.retain(|_| alive.next() == Some(&true));
    steps.iter_mut().flat_map(reads).chain(&mut yields).for_each(|p| *p = renumbered[*p]);
    Program { steps, yields }
}

/// The pieces that a step names.
fn reads(step: &mut Step) -> &mut [PieceId] {
    match step {
        Step::Load { .. } => &mut [],
        Step::Cut { piece, .. } | Step::Move { piece, .. } => std::slice::from_mut(piece),
        Step::Fold { pieces } | Step::Paste { pieces, .. } => pieces,
    }
}
