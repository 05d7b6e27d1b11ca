//! The search: one variable for the decomposition of every row that computes, one for the home of every
//! tensor that is made; tables for computing, for going home and for each reader.
//!
//! Rows and tensors of equal structure share their domains and tables, so that eighty equal layers cost what
//! one does. Exchanges are priced by a bound first; those of the best assignment are then synthesised, and the
//! tables solved again, until the best assignment holds no bound.

use crate::answers::Answers;
use crate::candidates::{Richness, candidates};
use crate::choice::{Choice, Decomposition, Home};
use crate::costs::Costs;
use crate::elimination::{Model, Solution, Table};
use crate::error::PlanError;
use crate::layouts::{Layouts, NeedsId, Offer, RelationId, Wanted, homes, largest_share, needs_of, refined, union};
use crate::needs::{home_relation, operand_needs_of, output_needs, output_sources, produced_of, stacked};
use crate::options::{Objective, Options, Placement};
use crate::price::seconds;
use crate::report::Effort;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::op::{InputKind, Op};
use ein_ir::spec::Spec;
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::relation::Held;
use std::collections::{BTreeMap, BTreeSet, HashMap};

mod sharing;
mod tables;

/// Rows of equal structure.
struct OpClass {
    decompositions: Vec<Decomposition>,
    /// Seconds of each.
    seconds: Vec<f64>,
    /// What each leaves.
    produced: Vec<RelationId>,
    /// For every source slot, what each needs.
    needs: Vec<Vec<Option<NeedsId>>>,
}

impl OpClass {
    /// Drops what cannot fit: a device needs operands and result at once. Where nothing fits, the least stays.
    fn keep_fitting(&mut self, working: &[f64], limit: f64) {
        let least = working.iter().copied().fold(f64::INFINITY, f64::min);
        let keep: Vec<usize> = (0..working.len()).filter(|&n| working[n] <= limit.max(least)).collect();
        let pick = |n: &usize| self.decompositions[*n].clone();
        self.decompositions = keep.iter().map(pick).collect();
        self.seconds = keep.iter().map(|&n| self.seconds[n]).collect();
        self.produced = keep.iter().map(|&n| self.produced[n]).collect();
        for slot in &mut self.needs {
            *slot = keep.iter().map(|&n| slot[n]).collect();
        }
    }
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
    states: Vec<State>,
    /// Distinct lists of needs of its readers.
    lists: Vec<NeedsId>,
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

    /// The part that each reader pays at least, if not all of them share one list.
    fn part(&self) -> f64 {
        1.0 / (self.count().max(2) - 1) as f64
    }

    /// Lists that all readers share, as further values of the home in the relaxed model.
    fn shared_lists(&self) -> Vec<NeedsId> {
        if self.is_held_once() { self.lists.clone() } else { Vec::new() }
    }
}

/// What makes two tensors equal to the search: producer, kind, type, readers, whether it is an output.
type TensorKey = (Option<usize>, Option<InputKind>, TensorType, Vec<(usize, usize)>, bool);

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
    /// Bytes that count as memory: the mean share of a device, and a little of the largest.
    bytes: f64,
}

/// What the search found.
pub(crate) struct Found {
    pub choice: Choice,
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
    workers: Vec<DeviceId>,
    layouts: Layouts,
    costs: Costs<'a>,
    ops: Vec<OpClass>,
    sources: Vec<SourceClass>,
    /// Class and sources of every computing row.
    rows: BTreeMap<TensorId, (usize, Vec<TensorId>)>,
    /// Class and readers of every source.
    tensors: BTreeMap<TensorId, (usize, Vec<TensorId>)>,
    tables: BTreeMap<(usize, usize), Table>,
    model: Model,
    /// Variables of rows and of homes.
    row_variable: BTreeMap<TensorId, usize>,
    home_variable: BTreeMap<TensorId, usize>,
    /// What a resident byte costs.
    pub multiplier: f64,
    /// No row may need more than this at once on a device.
    limit: f64,
}

/// How much the largest share of a device counts beside the mean one, so that even homes are preferred.
const UNEVEN: f64 = 0.01;

/// Most entries of a table that is minimised exactly.
const BUDGET: usize = 50_000_000;

/// Rounds after which bounds in the best assignment are accepted (and reported as a gap).
const ROUNDS: usize = 40;

impl<'a> Search<'a> {
    /// Generates candidates and layouts for every class of rows and tensors.
    pub fn new(
        graph: &'a Graph,
        machine: &'a Machine,
        options: &'a Options,
        known: &'a mut Answers,
        richness: Richness,
    ) -> Self {
        let workers: Vec<DeviceId> = machine.workers().iter().collect();
        let most = workers.iter().map(|d| machine.devices[d.index()].memory.0).max().unwrap_or(0);
        let limit = options.memory.map_or(most, |m| m.0.min(most));
        let mut search = Self {
            graph,
            machine,
            options,
            workers,
            layouts: Layouts::default(),
            costs: Costs::new(machine, known),
            ops: Vec::new(),
            sources: Vec::new(),
            rows: BTreeMap::new(),
            tensors: BTreeMap::new(),
            tables: BTreeMap::new(),
            model: Model::default(),
            row_variable: BTreeMap::new(),
            home_variable: BTreeMap::new(),
            multiplier: 0.0,
            limit: limit as f64,
        };
        search.classify_rows(richness);
        search.classify_tensors();
        search
    }

    fn classify_rows(&mut self, richness: Richness) {
        // Tables grow with the product of the candidates of neighbours: every cut of every row is for one row, or
        // for two devices, where there are few.
        let rows = self.graph.ids().filter(|&id| self.graph.spec(id).is_some()).count();
        let richness = Richness { tiny: richness.tiny && (rows == 1 || self.workers.len() <= 2), ..richness };
        let mut known: HashMap<String, usize> = HashMap::new();
        for id in self.graph.ids() {
            let Some(spec) = self.graph.spec(id) else { continue };
            let (key, sources) = structure(self.graph, id, &spec);
            let class = known.get(&key).copied().unwrap_or_else(|| {
                let class = self.op_class(id, &spec, &sources, richness);
                self.ops.push(class);
                known.insert(key, self.ops.len() - 1);
                self.ops.len() - 1
            });
            self.rows.insert(id, (class, sources));
        }
    }

    fn op_class(&mut self, id: TensorId, spec: &Spec, sources: &[TensorId], richness: Richness) -> OpClass {
        let mut list = candidates(spec, self.machine, richness);
        if self.options.objective == Objective::Bytes && self.options.balance && spec.work.contraction {
            // Where nothing is balanced, the most balanced there is.
            let least = list.iter().map(|c| c.balance / c.snapping).fold(f64::INFINITY, f64::min);
            let any = list.iter().any(crate::candidates::Candidate::is_balanced);
            list.retain(|c| if any { c.is_balanced() } else { c.balance / c.snapping <= least + 1e-9 });
        }
        let mut class = OpClass {
            decompositions: Vec::new(),
            seconds: Vec::new(),
            produced: Vec::new(),
            needs: vec![Vec::new(); sources.len()],
        };
        let mut working_sets = Vec::new();
        let mut places: HashMap<(RelationId, Vec<Option<NeedsId>>), usize> = HashMap::new();
        for candidate in list {
            let decomposition = candidate.decomposition;
            let left = produced_of(self.graph, id, spec, &decomposition, self.options.wide_partials);
            let mut working: BTreeMap<DeviceId, f64> = BTreeMap::new();
            for b in &left.blocks {
                for d in b.devices.iter() {
                    *working.entry(d).or_default() += left.pending.bytes(&b.region) as f64;
                }
            }
            let mut lists = operand_needs_of(self.graph, id, spec, &decomposition);
            let needs: Vec<Option<NeedsId>> = sources
                .iter()
                .map(|s| {
                    let list = lists.remove(s).filter(|l| !l.is_empty())?;
                    let element = self.graph.ty(*s).dtype.bytes() as f64;
                    for n in &list {
                        *working.entry(n.device).or_default() += n.region.volume() as f64 * element;
                    }
                    Some(self.layouts.needs(list))
                })
                .collect();
            let produced = self.layouts.relation(left);
            let time = seconds(spec, &decomposition, self.machine).0;
            if !time.is_finite() {
                continue;
            }
            let at = *places.entry((produced, needs.clone())).or_insert(class.seconds.len());
            if at < class.seconds.len() {
                if time < class.seconds[at] {
                    class.seconds[at] = time;
                    class.decompositions[at] = decomposition;
                }
                continue;
            }
            class.decompositions.push(decomposition);
            class.seconds.push(time);
            class.produced.push(produced);
            class.needs.iter_mut().zip(needs).for_each(|(slot, n)| slot.push(n));
            working_sets.push(working.into_values().fold(0.0, f64::max));
        }
        class.keep_fitting(&working_sets, self.limit);
        class
    }

    fn classify_tensors(&mut self) {
        let shown = output_sources(self.graph);
        let wanted = output_needs(self.graph, self.options, self.machine);
        let mut readers: BTreeMap<TensorId, Vec<(TensorId, usize)>> = BTreeMap::new();
        for (&row, (_, sources)) in &self.rows {
            for (slot, &source) in sources.iter().enumerate() {
                readers.entry(source).or_default().push((row, slot));
            }
        }
        let mut known: HashMap<TensorKey, usize> = HashMap::new();
        for id in self.graph.ids() {
            let node = self.graph.node(id);
            let (producer, kind) = match node.op {
                Op::View(_) => continue,
                Op::Input(kind) => (None, Some(kind)),
                Op::Einsum(_) | Op::Kernel(_) => (Some(self.rows[&id].0), None),
            };
            let read = readers.remove(&id).unwrap_or_default();
            let classes: Vec<(usize, usize)> = read.iter().map(|(r, slot)| (self.rows[r].0, *slot)).collect();
            let key = (producer, kind, node.ty.clone(), classes.clone(), shown.contains(&id));
            let class = known.get(&key).copied().unwrap_or_else(|| {
                let class = self.source_class(id, producer, kind, classes, shown.contains(&id), wanted.get(&id));
                self.sources.push(class);
                known.insert(key, self.sources.len() - 1);
                self.sources.len() - 1
            });
            self.tensors.insert(id, (class, read.into_iter().map(|r| r.0).collect()));
        }
    }

    fn source_class(
        &mut self,
        id: TensorId,
        producer: Option<usize>,
        kind: Option<InputKind>,
        readers: Vec<(usize, usize)>,
        shown: bool,
        wanted: Option<&Vec<Need>>,
    ) -> SourceClass {
        let ty = self.graph.ty(id).clone();
        let resident = matches!(kind, Some(InputKind::Parameter | InputKind::State));
        let produced: BTreeSet<RelationId> =
            producer.into_iter().flat_map(|c| self.ops[c].produced.iter().copied()).collect();
        let read: BTreeSet<NeedsId> =
            readers.iter().flat_map(|&(c, slot)| self.ops[c].needs[slot].iter().flatten().copied()).collect();
        let outputs = wanted.map(|w| self.layouts.needs(w.clone()));
        let whole = |devices: DeviceSet| vec![Held { region: ty.whole(), devices }];
        let placed = match (kind, self.options.inputs) {
            (Some(InputKind::Input), Placement::Replicated) => Some(whole(self.machine.workers())),
            (Some(InputKind::Input), Placement::Device(d)) => Some(whole(DeviceSet::one(d))),
            _ => None,
        };
        let held = match placed {
            Some(held) => vec![Offer { held, only: None }],
            None => homes(&Wanted {
                ty: &ty,
                stacked: stacked(self.graph, id).is_some(),
                workers: &self.workers,
                produced: produced.iter().map(|&r| self.layouts.relation_at(r)).collect(),
                needs: read.iter().chain(&outputs).map(|&n| self.layouts.needs_at(n)).collect(),
                once: kind == Some(InputKind::Input),
                direct: producer.is_some() && !shown && readers.len() == 1,
            }),
        };
        let element = ty.dtype.bytes();
        let mut states = Vec::new();
        for &relation in &produced {
            let left = self.layouts.relation_at(relation);
            let open = shown && self.options.outputs == Placement::Anywhere && !self.layouts.is_complete(relation);
            if open {
                continue;
            }
            let bytes = counted(&left.blocks, element, self.workers.len());
            states.push(State { held: None, relation, needs: None, only: Some(relation), extra: None, bytes });
        }
        let produced: Vec<RelationId> = produced.into_iter().collect();
        for Offer { held, only } in held {
            let only = only.map(|n| produced[n]);
            let relation = self.layouts.relation(home_relation(self.graph, id, &held));
            // A home that some candidate leaves by itself is that candidate's `as produced`.
            let needs = self.layouts.needs(needs_of(&held));
            let bytes = counted(&held, element, self.workers.len());
            states.push(State { held: Some(held), relation, needs: Some(needs), only, extra: None, bytes });
        }
        if kind == Some(InputKind::Input) && readers.len() > 1 {
            self.share_hand_outs(&mut states, &read);
        }
        let lists = read.into_iter().chain(outputs).collect::<BTreeSet<_>>().into_iter().collect();
        SourceClass { producer, readers, outputs, resident, element, states, lists }
    }

    /// What answers its exchange questions.
    pub fn answers(&mut self) -> &mut Answers {
        self.costs.answers()
    }

    /// Finds the best choice at the current multiplier.
    ///
    /// Each reader of a tensor pays for what it needs, although readers of equal needs will share. With many readers
    /// that may be too much. So a second model, in which any list may be shared, gives the bound, and says which
    /// shared lists the first should know of.
    pub fn solve(&mut self) -> Result<Found, PlanError> {
        let mut found = self.solve_exactly()?;
        // Where prices would not settle, the relaxed model is solved once, for its bound.
        let settled = found.effort.rounds < ROUNDS;
        for _ in 0..3 {
            if !self.has_crowds() {
                break;
            }
            // Prices that rise here cannot make the best assignment worse: it holds exact ones only.
            let mut relaxed;
            let mut rounds = 0;
            loop {
                self.build(true);
                relaxed = self.model.solve(BUDGET);
                rounds += 1;
                if !settled
                    || rounds == ROUNDS
                    || relaxed.bound >= found.cost * (1.0 - 1e-9)
                    || !self.settle(&relaxed)?
                {
                    break;
                }
            }
            found.effort.rounds += rounds;
            found.bound = found.bound.min(relaxed.bound);
            if !settled || found.bound >= found.cost * (1.0 - 1e-9) || !self.add_shared(&relaxed) {
                break;
            }
            let rounds = found.effort.rounds;
            let better = self.solve_exactly()?;
            if better.cost < found.cost {
                found = better;
            }
            found.effort.rounds += rounds;
        }
        Ok(found)
    }

    /// Solves the model in which every reader pays, until the best assignment holds exact prices.
    fn solve_exactly(&mut self) -> Result<Found, PlanError> {
        let mut rounds = 0;
        let mut best: Option<Solution> = None;
        self.build(false);
        loop {
            rounds += 1;
            let mut solution = self.model.solve(BUDGET);
            if solution.cost > solution.bound * (1.0 + 1e-9) {
                self.model.polish(&mut solution.values);
                solution.cost = self.model.cost(&solution.values);
            }
            let changed = self.settle(&solution)?;
            let (bound, largest) = (solution.bound, solution.largest);
            if changed {
                // What the assignment costs now that all its prices are exact.
                self.build(false);
                solution.cost = self.model.cost(&solution.values);
            }
            if best.as_ref().is_none_or(|b| solution.cost < b.cost) {
                best = Some(solution);
            }
            if let Some(best) = best.take_if(|_| !changed || rounds == ROUNDS) {
                return Ok(Found {
                    memory: self.memory(&best),
                    choice: self.choice(&best),
                    cost: best.cost,
                    bound: bound.min(best.cost),
                    effort: Effort {
                        rounds,
                        largest_table: largest,
                        patterns: self.costs.patterns(),
                        row_classes: self.ops.len(),
                        tensor_classes: self.sources.len(),
                        candidates: self.ops.iter().map(|c| c.seconds.len()).sum(),
                    },
                });
            }
        }
    }

    /// What a found choice costs without its memory.
    pub fn cost_of(&self, found: &Found) -> f64 {
        found.cost - self.multiplier * found.memory
    }

    /// A bound on the cost of every choice whose memory fits: what memory costs at the multiplier is at most
    /// the multiplier times what there is.
    pub fn bound_without_memory(&self, found: &Found) -> f64 {
        let limit = |d: &DeviceId| {
            let own = self.machine.devices[d.index()].memory.0;
            self.options.memory.map_or(own, |m| m.0.min(own)) as f64
        };
        let mean = self.workers.iter().map(limit).sum::<f64>() / self.workers.len() as f64;
        let bound = found.bound - self.multiplier * mean * (1.0 + UNEVEN * self.workers.len() as f64);
        match self.options.objective {
            Objective::Time => bound,
            // Without the seconds that break ties.
            Objective::Bytes => (bound - 0.5).ceil().max(0.0),
            Objective::Memory => 0.0,
        }
    }

    /// The bytes that an assignment's homes count for.
    fn memory(&self, solution: &Solution) -> f64 {
        let of = |(id, v): (&TensorId, &usize)| {
            let own = &self.sources[self.tensors[id].0];
            let state = own.states.get(solution.values[*v]).filter(|_| own.resident);
            state.map_or(0.0, |s| s.bytes)
        };
        self.home_variable.iter().map(of).sum()
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
            for (n, reader) in readers.iter().enumerate() {
                let (c, slot) = own.readers[n];
                let needs = self.ops[c].needs[slot][solution.values[self.row_variable[reader]]];
                if let Some(needs) = needs {
                    used.entry((state.relation, needs)).or_insert((*id, *class, Some(n)));
                }
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
                for (n, reader) in readers.iter().enumerate() {
                    let (c, slot) = own.readers[n];
                    let value = solution.values[self.row_variable[reader]];
                    lists.extend(self.ops[c].needs[slot][value].map(|n| self.layouts.needs_at(n)));
                }
                lists.extend(own.outputs.map(|n| self.layouts.needs_at(n)));
                Home::At(refined(&union(&lists), &self.graph.ty(id).whole(), self.workers[0]))
            };
            choice.homes.insert(id, home);
        }
        choice
    }
}

/// Bytes that blocks count for as memory.
fn counted(blocks: &[Held], element: usize, workers: usize) -> f64 {
    let all: usize = blocks.iter().map(|h| h.region.volume() * h.devices.len()).sum();
    (all * element) as f64 / workers as f64 + UNEVEN * largest_share(blocks, element)
}

/// Whether every need lies inside a box of a list at its own device.
fn delivers(layouts: &Layouts, list: NeedsId, needs: NeedsId) -> bool {
    let list = layouts.needs_at(list);
    let inside = |n: &Need| list.iter().any(|d| d.device == n.device && d.region.contains(&n.region));
    layouts.needs_at(needs).iter().all(inside)
}

/// What makes two rows equal to the search, and the sources a row reads in the order in which it meets them.
fn structure(graph: &Graph, id: TensorId, spec: &Spec) -> (String, Vec<TensorId>) {
    let mut nameless = spec.clone();
    nameless.labels.iter_mut().for_each(|l| l.name.clear());
    let mut key = format!("{nameless:?}{:?}", graph.ty(id));
    let mut sources = Vec::new();
    for &operand in &graph.node(id).inputs {
        behind(graph, operand, &mut sources, &mut key);
    }
    (key, sources)
}

/// Writes the views between a row and its sources.
fn behind(graph: &Graph, tensor: TensorId, sources: &mut Vec<TensorId>, key: &mut String) {
    let node = graph.node(tensor);
    match &node.op {
        Op::View(view) => {
            key.push_str(&format!("({view:?}"));
            for &input in &node.inputs {
                behind(graph, input, sources, key);
            }
            key.push(')');
        }
        Op::Input(_) | Op::Einsum(_) | Op::Kernel(_) => {
            let at = sources.iter().position(|s| *s == tensor).unwrap_or_else(|| {
                sources.push(tensor);
                sources.len() - 1
            });
            key.push_str(&format!("[{at}:{:?}]", node.ty));
        }
    }
}
