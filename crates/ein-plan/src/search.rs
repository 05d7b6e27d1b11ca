//! The search: one variable for the decomposition of every row that computes, one for the home of every
//! tensor that is made; tables for computing, for going home and for each reader.
//!
//! Rows and tensors of equal structure share their domains and tables, so that eighty equal layers cost what
//! one does. Exchanges are priced by a bound first; those of the best assignment are then synthesised, and the
//! tables solved again, until the best assignment holds no bound.

use crate::answers::Answers;
use crate::candidates::Richness;
use crate::choice::{Choice, Decomposition, Home};
use crate::costs::Costs;
use crate::deadline::Deadline;
use crate::elimination::{Model, Solution, Table};
use crate::error::PlanError;
use crate::layouts::{Layouts, NeedsId, RelationId, refined, union};
use crate::options::Options;
use crate::report::Effort;
use ein_ir::graph::{Graph, TensorId};
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, Machine};
use ein_task::relation::Held;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

mod classes;
mod further;
mod memory;
mod mix;
mod sharing;
mod tables;

use classes::share;
use tables::Grid;

/// Rows of equal structure.
#[derive(Default)]
struct OpClass {
    decompositions: Vec<Decomposition>,
    /// Seconds of each.
    seconds: Vec<f64>,
    /// What each leaves.
    produced: Vec<RelationId>,
    /// For every source slot, what each needs.
    needs: Vec<Vec<Option<NeedsId>>>,
}

/// Tensors of equal structure: made alike and read alike.
struct SourceClass {
    /// The class that makes it; `None` for an input.
    producer: Option<usize>,
    readers: Vec<(usize, usize)>,
    /// Needs of an output that the caller wants somewhere.
    outputs: Option<NeedsId>,
    /// Whether it stays where it is between runs.
    resident: bool,
    /// Bytes of an element.
    element: usize,
    /// Values of the home variable; none as long as there is no such variable.
    states: Vec<State>,
    /// Of what is resident and read by one row alone, where every list is a home by itself: what of it that home holds.
    own_homes: BTreeMap<NeedsId, Share>,
    /// Distinct lists of needs of its readers.
    lists: Vec<NeedsId>,
    /// In the relaxed model: the reader that pays in full, and what it may ask for.
    principal: Option<(usize, BTreeSet<NeedsId>)>,
    /// Of three readers: states that have one more beside them in which a list is shared, so that in them every reader of it
    /// pays for it in full.
    split: BTreeSet<(usize, NeedsId)>,
}

impl SourceClass {
    /// Whether it arrives each run and is held once. Of such a tensor even what all readers need is no home.
    fn is_held_once(&self) -> bool {
        self.producer.is_none() && !self.resident
    }

    fn count(&self) -> usize {
        self.readers.len() + usize::from(self.outputs.is_some())
    }

    /// Whether readers may share a hand-out other than by a home that has it.
    fn is_crowded(&self) -> bool {
        self.count() > 2 || (self.count() == 2 && self.is_held_once())
    }

    /// Whether a list is shared by all readers, which another home does as well, or by two of three, of which there is but
    /// one list: what a state of its own can say.
    fn is_split(&self) -> bool {
        !self.is_held_once() && self.count() == 3
    }

    /// The part of a price that a reader pays at least in a state; the outputs are the reader behind the last. Of one
    /// hand-out the parts of all who may share it are at most 1, or all of them share it, which another home does as well.
    fn part(&self, state: usize, list: NeedsId, reader: usize) -> f64 {
        if self.is_split() && (self.states[state].extra.is_some() || self.split.contains(&(state, list))) {
            return 1.0;
        }
        match &self.principal {
            Some((principal, _)) if *principal == reader => 1.0,
            Some((_, lists)) if lists.contains(&list) => 0.0,
            Some(_) | None => 1.0 / (self.count().max(2) - 1) as f64,
        }
    }

    /// Lists that all readers share, as further values of the home in the relaxed model.
    fn shared_lists(&self) -> Vec<NeedsId> {
        if self.is_held_once() { self.lists.clone() } else { Vec::new() }
    }
}

/// One value of a home variable.
#[derive(Clone)]
struct State {
    /// `None`: as produced.
    held: Option<Vec<Held>>,
    relation: RelationId,
    /// What going there asks for.
    needs: Option<NeedsId>,
    /// The only relation it is a home for; any if `None`.
    only: Option<RelationId>,
    /// A list that is handed out once for all readers that need exactly it.
    extra: Option<NeedsId>,
    /// Bytes that count as memory.
    share: Share,
}

/// What of a home a device holds, in bytes.
#[derive(Clone, Copy, Debug)]
struct Share {
    mean: f64,
    largest: f64,
}

/// Memory of the devices that compute, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// What the fullest one holds.
    pub fullest: f64,
    /// What is left where least is; below 0 where too much is held.
    pub left: f64,
}

/// An assignment, whichever variables the model has.
#[derive(Clone)]
pub(crate) struct Assigned {
    rows: BTreeMap<TensorId, usize>,
    homes: BTreeMap<TensorId, usize>,
}

/// What the search found.
pub(crate) struct Found {
    pub choice: Choice,
    /// The assignment that the choice stands for.
    pub values: Assigned,
    /// The searched cost, in the objective's unit.
    pub cost: f64,
    /// No choice of candidates costs less.
    pub bound: f64,
    /// Bytes that the multiplier was on.
    pub memory: f64,
    pub effort: Effort,
}

/// A prepared search over one graph.
pub(crate) struct Search<'a> {
    graph: &'a Graph,
    machine: &'a Machine,
    options: &'a Options,
    deadline: Deadline,
    workers: Vec<DeviceId>,
    /// Hosts where what is resident may stay.
    hosts: Vec<DeviceId>,
    layouts: Layouts,
    costs: Costs<'a>,
    ops: Vec<OpClass>,
    sources: Vec<SourceClass>,
    /// Class and sources of every computing row.
    rows: BTreeMap<TensorId, (usize, Vec<TensorId>)>,
    /// Class and readers of every source.
    tensors: BTreeMap<TensorId, (usize, Vec<TensorId>)>,
    tables: BTreeMap<(usize, usize), Table>,
    /// Prices in the tables of readers, and those tables as they last were.
    grids: BTreeMap<(usize, usize), Rc<Grid>>,
    readers: BTreeMap<(usize, usize), (Table, Rc<Grid>, u32)>,
    model: Model,
    /// Variables of rows and of homes.
    row_variable: BTreeMap<TensorId, usize>,
    home_variable: BTreeMap<TensorId, usize>,
    /// What a resident byte costs.
    pub multiplier: f64,
    /// How much the largest share of a device counts as memory beside the mean one, so that even homes are preferred. More
    /// of it finds plans that fit, less of it proves a higher bound.
    pub uneven: f64,
    /// Seconds of an exchange that a second of computing before or after it is taken to hide.
    hiding: f64,
    /// What a byte held for a time costs of what a resident one does, and of some classes of tensors times how much more.
    pub held: f64,
    dearer: BTreeMap<usize, f64>,
    /// No row may need more than this at once on a device.
    limit: f64,
    /// Whether every cut of a tiny graph is worth looking at.
    tiny: bool,
    /// Whether what is resident has a home variable even where it is best off where it is read.
    pub apart: bool,
}

/// How much of the largest share counts where a bound is to be proved, where a plan is to fit, and where hardly any does.
pub(crate) const HARDLY: f64 = 1e-4;
pub(crate) const SOMEWHAT: f64 = 1e-2;
pub(crate) const ALONE: f64 = 1.0;

/// How much dearer what is held at a peak becomes each time.
const DEARER: f64 = 1.5;

/// Most entries of a table that is minimised exactly.
const BUDGET: usize = 50_000_000;

/// By how little of the cost a bound may rise and be none that has risen, and how often in a row. Where memory binds, what
/// it is held in lumps for leaves more of a gap.
const LITTLE: f64 = 1e-6;
const PATIENCE: usize = 4;
const LITTLE_BESIDE_LUMPS: f64 = 2e-5;
const PATIENCE_BESIDE_LUMPS: usize = 2;

/// Rounds after which bounds in the best assignment are accepted (and reported as a gap).
const ROUNDS: usize = 40;

impl<'a> Search<'a> {
    /// Generates candidates and layouts for every class of rows and tensors. Of an exchange, `hiding` times the seconds
    /// that the row it feeds, or the one that feeds it, computes count for little.
    pub fn new(
        graph: &'a Graph,
        machine: &'a Machine,
        options: &'a Options,
        known: &'a mut Answers,
        richness: Richness,
        deadline: Deadline,
        hiding: f64,
    ) -> Result<Self, PlanError> {
        let workers: Vec<DeviceId> = machine.workers().iter().collect();
        let most = workers.iter().map(|d| machine.devices[d.index()].memory.0).max().unwrap_or(0);
        let limit = options.memory.map_or(most, |m| m.0.min(most));
        let mut search = Self {
            graph,
            machine,
            options,
            deadline,
            workers,
            hosts: if options.offload { hosts(machine) } else { Vec::new() },
            layouts: Layouts::default(),
            costs: Costs::new(machine, known),
            ops: Vec::new(),
            sources: Vec::new(),
            rows: BTreeMap::new(),
            tensors: BTreeMap::new(),
            tables: BTreeMap::new(),
            grids: BTreeMap::new(),
            readers: BTreeMap::new(),
            model: Model::default(),
            row_variable: BTreeMap::new(),
            home_variable: BTreeMap::new(),
            multiplier: 0.0,
            uneven: HARDLY,
            hiding,
            held: 0.0,
            dearer: BTreeMap::new(),
            limit: limit as f64,
            tiny: richness.tiny,
            apart: false,
        };
        search.classify_rows(richness)?;
        search.classify_tensors()?;
        Ok(search)
    }

    /// An error once the deadline has passed.
    fn go_on(&self) -> Result<(), PlanError> {
        if self.deadline.is_over() { Err(self.out_of_time()) } else { Ok(()) }
    }

    fn out_of_time(&self) -> PlanError {
        PlanError::TimeLimit { limit: self.options.time_limit.unwrap_or_default() }
    }

    /// What answers its exchange questions.
    pub fn answers(&mut self) -> &mut Answers {
        self.costs.answers()
    }

    /// Finds the best choice at the current multiplier, among those where no more is shared than is known to be worth it,
    /// and with their bound.
    pub fn solve(&mut self) -> Result<Found, PlanError> {
        self.solve_exactly()
    }

    /// Gives what was found last a bound on all choices, or, if `better` is asked for, finds something better on the way. At
    /// `enough` a bound need not be higher.
    ///
    /// Each reader of a tensor pays for what it needs, although readers of equal needs will share. With many readers
    /// that may be too much. So a second model, in which any list may be shared, gives the bound, and says which
    /// shared lists the first should know of. Its readers pay parts of what they share; where that is too little, one of them
    /// is to pay for all, or a list gets a state in which it is shared.
    pub fn prove(&mut self, mut found: Found, enough: f64, better: bool) -> Result<Found, PlanError> {
        if !self.has_crowds() {
            return Ok(found);
        }
        if found.effort.stopped {
            found.bound = 0.0;
            return Ok(found);
        }
        // Where prices would not settle, the relaxed model is solved once, for its bound.
        let settled = found.effort.rounds < ROUNDS;
        let exactly = found.bound;
        let mut proved = f64::NEG_INFINITY;
        let (mut idle, mut first, mut split) = (0, true, false);
        let (little, patience) =
            if self.multiplier > 0.0 { (LITTLE_BESIDE_LUMPS, PATIENCE_BESIDE_LUMPS) } else { (LITTLE, PATIENCE) };
        self.sources.iter_mut().for_each(|own| own.principal = None);
        if !better {
            self.readers.clear();
        }
        for _ in 0..ROUNDS {
            self.build(true);
            if !better {
                // Nothing else is solved any more, and this with more states each time.
                self.model.forget_others();
            }
            let Some(relaxed) = self.model.solve_until(BUDGET, self.deadline) else {
                found.effort.stopped = true;
                break;
            };
            found.effort.rounds += 1;
            idle = if relaxed.bound > proved + little * found.cost { 0 } else { idle + 1 };
            proved = proved.max(relaxed.bound);
            if !settled || idle == patience || proved >= enough.min(found.cost * (1.0 - 1e-9)) {
                break;
            }
            // Prices that rise here cannot make the best assignment worse: it holds exact ones only.
            let mut changed = self.settle(&relaxed)?;
            if !changed || idle > 0 || self.multiplier > 0.0 {
                if self.add_shared(&relaxed) {
                    if better {
                        self.improve(&mut found)?;
                    }
                    (changed, split) = (true, false);
                }
                // Whom another one pays for changes what was proved of the others: that is for once, splitting for good.
                if self.choose_principals(&relaxed.values, first) {
                    changed = true;
                } else if self.split(&relaxed.values) {
                    (changed, split) = (true, true);
                }
                first = false;
            }
            if found.effort.stopped || !changed {
                break;
            }
        }
        if split && better && !found.effort.stopped && proved < found.cost * (1.0 - LITTLE) {
            self.improve(&mut found)?;
        }
        found.bound = exactly.min(proved.max(0.0)).min(found.cost);
        Ok(found)
    }

    /// Solves the model in which every reader pays once more, with the states that it has got meanwhile.
    fn improve(&mut self, found: &mut Found) -> Result<(), PlanError> {
        let better = match self.solve_exactly() {
            Err(PlanError::TimeLimit { .. }) => {
                found.effort.stopped = true;
                return Ok(());
            }
            other => other?,
        };
        let (rounds, stopped) = (found.effort.rounds + better.effort.rounds, better.effort.stopped);
        if better.cost < found.cost {
            *found = better;
        }
        found.effort.rounds = rounds;
        found.effort.stopped |= stopped;
        Ok(())
    }

    /// Solves the model in which every reader pays, until the best assignment holds exact prices.
    fn solve_exactly(&mut self) -> Result<Found, PlanError> {
        let mut rounds = 0;
        let mut best: Option<Solution> = None;
        let mut proved = 0.0;
        self.build(false);
        loop {
            rounds += 1;
            let Some(mut solution) = self.model.solve_until(BUDGET, self.deadline) else {
                let best = best.ok_or_else(|| self.out_of_time())?;
                return Ok(self.found(&best, proved, rounds, true));
            };
            if solution.cost > solution.bound * (1.0 + 1e-9) {
                self.model.polish(&mut solution.values);
                solution.cost = self.model.cost(&solution.values);
            }
            let changed = self.settle(&solution)?;
            proved = solution.bound;
            if changed {
                // What the assignment costs now that all its prices are exact.
                self.build(false);
                solution.cost = self.model.cost(&solution.values);
            }
            if best.as_ref().is_none_or(|b| solution.cost < b.cost) {
                best = Some(solution);
            }
            let over = changed && self.deadline.is_over();
            if let Some(best) = best.take_if(|_| !changed || over || rounds == ROUNDS) {
                return Ok(self.found(&best, proved, rounds, over));
            }
        }
    }

    fn found(&self, best: &Solution, proved: f64, rounds: usize, stopped: bool) -> Found {
        Found {
            memory: self.memory(best),
            choice: self.choice(best),
            cost: best.cost,
            bound: proved.min(best.cost),
            values: self.assigned(&best.values),
            effort: Effort {
                rounds,
                largest_table: best.largest,
                patterns: self.costs.patterns(),
                row_classes: self.ops.len(),
                tensor_classes: self.sources.len(),
                candidates: self.ops.iter().map(|c| c.seconds.len()).sum(),
                stopped,
            },
        }
    }

    /// What a found choice costs without its memory.
    pub fn cost_of(&self, found: &Found) -> f64 {
        found.cost - self.multiplier * found.memory
    }

    /// Makes the prices in an assignment exact, and sharpens those of its neighbours that would now look better; whether
    /// any changed.
    fn settle(&mut self, solution: &Solution) -> Result<bool, PlanError> {
        // The exchange, and those that another home or another candidate would have instead.
        let mut used: BTreeMap<(RelationId, NeedsId), (TensorId, usize, Option<usize>)> = BTreeMap::new();
        for (id, (class, readers)) in &self.tensors {
            let Some(&home) = self.home_variable.get(id) else { continue };
            let own = &self.sources[*class];
            let Some(state) = own.states.get(solution.values[home]) else { continue };
            if let (Some(row), Some(needs)) = (self.row_variable.get(id), state.needs) {
                let producer = &self.ops[own.producer.expect("it is made by a row")];
                used.entry((producer.produced[solution.values[*row]], needs)).or_insert((*id, *class, None));
            }
            for (n, needs) in self.asked(*class, readers, &solution.values) {
                used.entry((state.relation, needs)).or_insert((*id, *class, Some(n)));
            }
            for needs in own.outputs.into_iter().chain(state.extra) {
                used.entry((state.relation, needs)).or_insert((*id, *class, None));
            }
        }
        for (id, list) in self.shared_by(solution) {
            let class = self.tensors[&id].0;
            let best = self.best_home(class, list).0;
            used.entry((self.sources[class].states[best].relation, list)).or_insert((id, class, None));
        }
        let mut changed = false;
        for ((relation, needs), (id, class, reader)) in used {
            if !self.settle_one(relation, needs, id)? {
                continue;
            }
            changed = true;
            if self.workers.len() > 16 {
                continue;
            }
            let own = &self.sources[class];
            let objective = self.options.objective;
            let now = self.costs.price(&self.layouts, relation, needs).scalar(objective);
            let mut near: BTreeSet<(RelationId, NeedsId)> = own.states.iter().map(|s| (s.relation, needs)).collect();
            if let Some(n) = reader {
                let (c, slot) = own.readers[n];
                near.extend(self.ops[c].needs[slot].iter().flatten().map(|&n| (relation, n)));
            } else {
                near.extend(own.states.iter().filter_map(|s| s.needs).map(|n| (relation, n)));
            }
            for (relation, needs) in near {
                let bound = self.costs.price(&self.layouts, relation, needs).scalar(objective);
                if 0.0 < bound && bound < now {
                    self.costs.sharpen(&self.layouts, relation, needs);
                }
            }
        }
        Ok(changed)
    }

    fn settle_one(&mut self, relation: RelationId, needs: NeedsId, id: TensorId) -> Result<bool, PlanError> {
        let name = || self.graph.node(id).name.clone();
        let settled = self.costs.settle(&self.layouts, relation, needs);
        settled.map_err(|e| PlanError::Exchange { tensor: name(), reason: e.to_string() })
    }

    /// What the readers of a tensor of this class ask for in an assignment, each with its number.
    fn asked(&self, class: usize, readers: &[TensorId], values: &[usize]) -> impl Iterator<Item = (usize, NeedsId)> {
        readers.iter().enumerate().filter_map(move |(n, reader)| {
            let (c, slot) = self.sources[class].readers[n];
            Some((n, self.ops[c].needs[slot][values[self.row_variable[reader]]]?))
        })
    }

    /// The values of the variables that the model has, by what they are of.
    fn assigned(&self, values: &[usize]) -> Assigned {
        let of = |variables: &BTreeMap<TensorId, usize>| variables.iter().map(|(&id, &v)| (id, values[v])).collect();
        Assigned { rows: of(&self.row_variable), homes: of(&self.home_variable) }
    }

    /// The choice that an assignment stands for.
    fn choice(&self, solution: &Solution) -> Choice {
        let mut choice = Choice::default();
        for (&id, (class, _)) in &self.rows {
            let own = &self.ops[*class];
            choice.decompositions.insert(id, own.decompositions[solution.values[self.row_variable[&id]]].clone());
        }
        for (&id, (class, readers)) in &self.tensors {
            let own = &self.sources[*class];
            let home = if let Some(&v) = self.home_variable.get(&id) {
                own.states[solution.values[v]].held.clone().map_or(Home::AsProduced, Home::At)
            } else {
                let mut lists: Vec<&[Need]> = Vec::new();
                lists.extend(self.asked(*class, readers, &solution.values).map(|(_, n)| self.layouts.needs_at(n)));
                lists.extend(own.outputs.map(|n| self.layouts.needs_at(n)));
                Home::At(refined(&union(&lists), &self.graph.ty(id).whole(), self.workers[0]))
            };
            choice.homes.insert(id, home);
        }
        choice
    }
}

/// The devices that only store and relay.
pub(crate) fn hosts(machine: &Machine) -> Vec<DeviceId> {
    let workers = machine.workers();
    machine.ids().filter(|&d| !workers.contains(d)).collect()
}

/// Whether every need lies inside a box of a list at its own device.
fn delivers(layouts: &Layouts, list: NeedsId, needs: NeedsId) -> bool {
    let list = layouts.needs_at(list);
    let inside = |n: &Need| list.iter().any(|d| d.device == n.device && d.region.contains(&n.region));
    layouts.needs_at(needs).iter().all(inside)
}
