//! Why a decomposition: what the row costs by it, and the best other one.
//!
//! The other decompositions are the search's candidates. Each is priced where its row stands: the other rows keep their
//! blocks, operands are handed out from where they are, and the result may live where it does, stay as it is produced, or be
//! as its readers want it; parameters and state that this row alone reads lie as it wants them, where that fits. What was
//! chosen is priced in the same way. So a runner-up says what this row alone would lose; rows that would have to change
//! together may lose less, and that is what the search compares.

use super::describe;
use crate::answers::Answers;
use crate::candidates::{Richness, candidates};
use crate::choice::{Decomposition, Home};
use crate::error::PlanError;
use crate::exchanges::{covered, hand_outs, wanted};
use crate::layouts::refined;
use crate::needs::{held_needs, home_relation, operand_needs_of, output_sources, produced_of};
use crate::options::{Objective, Placement};
use crate::plan::Plan;
use crate::price::seconds;
use ein_ir::graph::TensorId;
use ein_ir::op::{InputKind, Op};
use ein_ir::spec::Spec;
use ein_task::bounds;
use ein_task::exchange::{Exchange, Need};
use ein_task::machine::{DeviceId, Machine};
use ein_task::price::kernel_parts;
use ein_task::relation::Relation;
use ein_task::units::{Bytes, Seconds};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// What an operation's slowest device spends, and its exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Split {
    /// Arithmetic of the slowest device. Of this and `memory` the larger counts; on devices that are threads, both.
    pub compute: Seconds,
    /// Its bytes to and from memory.
    pub memory: Seconds,
    /// Exchanges of finished tensors that bring it its operands or its result home.
    #[serde(rename = "move")]
    pub moved: Seconds,
    /// Exchanges that fold partials on the way: of its operands, or its own.
    pub fold: Seconds,
}

/// The best other decomposition of an operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunnerUp {
    /// How it cuts the label space.
    pub decomposition: String,
    /// What it cuts, in words.
    pub words: String,
    /// Where the result would live.
    pub home: String,
    /// By how much more seconds it takes, the row and the exchanges around it. Less than nothing where the objective or the
    /// memory asked for another one.
    pub worse_seconds: Seconds,
    /// The same in per cent of what the chosen one takes.
    pub worse_percent: f64,
    /// How many bytes more it moves.
    pub more_bytes: i64,
    /// How many bytes more of parameters and state the device keeps that gains most.
    pub more_memory: i64,
}

/// Candidates with a home that are bounded by all that their exchanges prove, in the order of what ports prove.
const BOUNDED: usize = 96;
/// Of these, how many have their exchanges synthesised, in the order of their bounds.
const TRIED: usize = 24;

/// Seconds and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    seconds: f64,
    bytes: f64,
}

impl Cost {
    fn of(self, objective: Objective) -> (f64, f64) {
        match objective {
            Objective::Time | Objective::Makespan | Objective::Memory => (self.seconds, self.bytes),
            Objective::Bytes => (self.bytes, self.seconds),
        }
    }

    fn add(&mut self, seconds: f64, bytes: f64) {
        self.seconds += seconds;
        self.bytes += bytes;
    }
}

type Lists = BTreeMap<Vec<Need>, BTreeSet<TensorId>>;

/// Finds runner-ups. Rows that stand alike have the same.
pub(super) struct Rivals<'a> {
    plan: &'a Plan,
    wanted: BTreeMap<TensorId, Lists>,
    shown: BTreeSet<TensorId>,
    ports: Ports,
    known: HashMap<u64, Option<RunnerUp>>,
}

impl<'a> Rivals<'a> {
    pub fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            wanted: wanted(&plan.graph, &plan.choice, &plan.options, &plan.machine),
            shown: output_sources(&plan.graph),
            ports: Ports::of(&plan.machine),
            known: HashMap::new(),
        }
    }

    /// The runner-up of a row; `None` where there is no other candidate.
    pub fn of(&mut self, id: TensorId, spec: &Spec, answers: &mut Answers) -> Result<Option<RunnerUp>, PlanError> {
        let place = self.place(id, spec);
        let key = place.key(self.plan, spec);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let found = self.find(id, spec, &place, answers)?;
        self.known.insert(key, found.clone());
        Ok(found)
    }

    fn find(
        &self,
        id: TensorId,
        spec: &Spec,
        place: &Place,
        answers: &mut Answers,
    ) -> Result<Option<RunnerUp>, PlanError> {
        let plan = self.plan;
        let chosen = &plan.choice.decompositions[&id];
        let objective = plan.options.objective;
        let mut rivals = Vec::new();
        for candidate in candidates(spec, &plan.machine, Richness::of(&plan.machine)) {
            let unbalanced = objective == Objective::Bytes && plan.options.balance && spec.work.contraction;
            if candidate.decomposition == *chosen || (unbalanced && !candidate.is_balanced()) {
                continue;
            }
            let case = self.case(id, spec, place, &candidate.decomposition, true);
            if !case.computing.is_finite() || !self.fits(&case) {
                continue;
            }
            for (home, exchanges) in self.homes(id, place, &case) {
                let mut bound = Cost { seconds: case.computing, bytes: 0.0 };
                for exchange in case.exchanges.iter().chain(&exchanges) {
                    let (seconds, bytes) = self.ports.bound(exchange);
                    bound.add(seconds, bytes);
                }
                rivals.push((bound.of(objective), candidate.decomposition.clone(), home, case.clone(), exchanges));
            }
        }
        // Equal bounds keep the order of the candidates.
        rivals.sort_by(|a, b| a.0.0.total_cmp(&b.0.0).then(a.0.1.total_cmp(&b.0.1)));
        rivals.truncate(BOUNDED);
        for (bound, _, _, case, exchanges) in &mut rivals {
            let mut proved = Cost { seconds: case.computing, bytes: 0.0 };
            for exchange in case.exchanges.iter().chain(&*exchanges) {
                let (_, bytes) = self.ports.bound(exchange);
                proved.add(bounds::bound(exchange, &exchange.atoms(), &plan.machine).total().0, bytes);
            }
            let proved = proved.of(objective);
            *bound = (bound.0.max(proved.0), bound.1.max(proved.1));
        }
        rivals.sort_by(|a, b| a.0.0.total_cmp(&b.0.0).then(a.0.1.total_cmp(&b.0.1)));
        let mut best: Option<(Cost, Decomposition, Home, i64)> = None;
        for (bound, decomposition, home, case, exchanges) in rivals.into_iter().take(TRIED) {
            if best.as_ref().is_some_and(|b| b.0.of(objective) <= bound) {
                break;
            }
            let cost = self.exactly(id, &case, &exchanges, answers)?;
            if best.as_ref().is_none_or(|b| cost.of(objective) < b.0.of(objective)) {
                let more = case.kept.iter().copied().max().unwrap_or(0);
                best = Some((cost, decomposition, home, more));
            }
        }
        let Some((cost, decomposition, home, more_memory)) = best else { return Ok(None) };
        let case = self.case(id, spec, place, chosen, false);
        let exchanges = self.going(place, &case, &plan.choice.homes[&id]);
        let own = self.exactly(id, &case, &exchanges, answers)?;
        let worse = cost.seconds - own.seconds;
        Ok(Some(RunnerUp {
            decomposition: describe::cuts(spec, &decomposition),
            words: describe::words(spec, &decomposition),
            home: describe::home(Some(&home)),
            worse_seconds: Seconds(worse),
            worse_percent: if own.seconds > 0.0 { 100.0 * worse / own.seconds } else { 0.0 },
            more_bytes: cost.bytes as i64 - own.bytes as i64,
            more_memory,
        }))
    }

    /// What surrounds a row.
    fn place(&self, id: TensorId, spec: &Spec) -> Place {
        let plan = self.plan;
        let mut sources = BTreeMap::new();
        for (source, own) in operand_needs_of(&plan.graph, id, spec, &plan.choice.decompositions[&id]) {
            let mut lists = self.wanted.get(&source).cloned().unwrap_or_default();
            if let Some(readers) = lists.get_mut(&own) {
                readers.remove(&id);
                // An output that is wanted somewhere has a list without readers, too.
                let output = self.shown.contains(&source) && plan.options.outputs != Placement::Anywhere;
                if readers.is_empty() && !output {
                    lists.remove(&own);
                }
            }
            let have = match &plan.choice.homes[&source] {
                Home::At(held) => home_relation(&plan.graph, source, held),
                Home::AsProduced => self.left(source),
            };
            sources.insert(source, (have, lists));
        }
        Place { id, sources, readers: self.wanted.get(&id).cloned().unwrap_or_default() }
    }

    fn left(&self, source: TensorId) -> Relation {
        match (self.plan.graph.spec(source), self.plan.choice.decompositions.get(&source)) {
            (Some(spec), Some(own)) => {
                produced_of(&self.plan.graph, source, &spec, own, self.plan.options.wide_partials)
            }
            _ => home_relation(&self.plan.graph, source, &[]),
        }
    }

    /// What a decomposition asks of the place of its row, but for where its result goes.
    /// Where `free`, resident operands of this row alone lie as it wants them.
    fn case(&self, id: TensorId, spec: &Spec, place: &Place, decomposition: &Decomposition, free: bool) -> Case {
        let plan = self.plan;
        let mut needs = operand_needs_of(&plan.graph, id, spec, decomposition);
        let mut exchanges = Vec::new();
        let mut kept = vec![0_i64; plan.machine.len()];
        for (&source, (have, others)) in &place.sources {
            if free && others.is_empty() && self.is_resident(source) {
                let element = plan.graph.ty(source).dtype.bytes();
                for need in needs.remove(&source).unwrap_or_default() {
                    kept[need.device.index()] += (need.region.volume() * element) as i64;
                }
                for block in &have.blocks {
                    let bytes = (block.region.volume() * element) as i64;
                    block.devices.iter().for_each(|d| kept[d.index()] -= bytes);
                }
                continue;
            }
            let before = hand_outs(source, have, others);
            let mut lists = others.clone();
            if let Some(own) = needs.remove(&source) {
                lists.entry(own).or_default().insert(id);
            }
            // What others are handed anyway costs this row nothing.
            let after = hand_outs(source, have, &lists).into_iter().map(|p| p.exchange);
            exchanges.extend(after.filter(|e| before.iter().all(|b| b.exchange != *e)));
        }
        Case {
            computing: seconds(spec, decomposition, &plan.machine).0,
            exchanges,
            kept,
            left: produced_of(&plan.graph, id, spec, decomposition, plan.options.wide_partials),
        }
    }

    fn is_resident(&self, source: TensorId) -> bool {
        match self.plan.graph.node(source).op {
            Op::Input(InputKind::Parameter | InputKind::State) => true,
            Op::Input(InputKind::Input) | Op::Einsum(_) | Op::View(_) | Op::Kernel(_) => false,
        }
    }

    /// Whether every device has room for what it would keep more.
    fn fits(&self, case: &Case) -> bool {
        let plan = self.plan;
        case.kept.iter().zip(&plan.tasks.arenas).zip(&plan.machine.devices).all(|((&more, arena), device)| {
            let room = plan.options.memory.map_or(device.memory.0, |limit| limit.0.min(device.memory.0));
            more <= 0 || arena.0.saturating_add_signed(more) <= room
        })
    }

    /// Where the result might live, and the exchanges that follow.
    fn homes(&self, id: TensorId, place: &Place, case: &Case) -> Vec<(Home, Vec<Exchange>)> {
        let whole = self.plan.graph.ty(id).whole();
        let spare = self.plan.machine.workers().lowest();
        let mut homes = vec![self.plan.choice.homes[&id].clone(), Home::AsProduced];
        homes.extend(spare.into_iter().flat_map(|spare| {
            place.readers.keys().take(2).map(|list| Home::At(refined(list, &whole, spare))).collect::<Vec<_>>()
        }));
        let open = self.shown.contains(&id) && self.plan.options.outputs == Placement::Anywhere;
        let mut found: Vec<(Home, Vec<Exchange>)> = Vec::new();
        for home in homes {
            let pending = home == Home::AsProduced && open && !case.left.is_complete();
            if !pending && found.iter().all(|f| f.0 != home) {
                let exchanges = self.going(place, case, &home);
                found.push((home, exchanges));
            }
        }
        found
    }

    /// The exchanges of the result: to a home and from there to the readers.
    fn going(&self, place: &Place, case: &Case, home: &Home) -> Vec<Exchange> {
        let mut exchanges = Vec::new();
        let have = match home {
            Home::AsProduced => case.left.clone(),
            Home::At(held) => {
                let needs = held_needs(held);
                if !covered(&case.left, &[], &needs) {
                    exchanges.push(Exchange { have: case.left.clone(), needs });
                }
                home_relation(&self.plan.graph, place.id, held)
            }
        };
        exchanges.extend(hand_outs(place.id, &have, &place.readers).into_iter().map(|p| p.exchange));
        exchanges
    }

    fn exactly(
        &self,
        id: TensorId,
        case: &Case,
        exchanges: &[Exchange],
        answers: &mut Answers,
    ) -> Result<Cost, PlanError> {
        let mut cost = Cost { seconds: case.computing, bytes: 0.0 };
        for exchange in case.exchanges.iter().chain(exchanges) {
            let answer = answers.answer(exchange, &self.plan.machine).map_err(|e| PlanError::Exchange {
                tensor: self.plan.graph.node(id).name.clone(),
                reason: e.to_string(),
            })?;
            cost.add(answer.traffic.seconds.0, answer.traffic.bytes_total.0 as f64);
        }
        Ok(cost)
    }
}

/// What surrounds a row: where its operands are and who else is handed what of them, and who reads its result.
struct Place {
    id: TensorId,
    sources: BTreeMap<TensorId, (Relation, Lists)>,
    readers: Lists,
}

impl Place {
    /// Equal for rows that stand alike: only names and numbers of rows are left out.
    fn key(&self, plan: &Plan, spec: &Spec) -> u64 {
        let mut hasher = DefaultHasher::new();
        spec.hash(&mut hasher);
        plan.choice.decompositions[&self.id].hash(&mut hasher);
        plan.choice.homes[&self.id].hash(&mut hasher);
        hash_lists(&self.readers, &mut hasher);
        for (have, lists) in self.sources.values() {
            have.hash(&mut hasher);
            hash_lists(lists, &mut hasher);
        }
        let sources: Vec<TensorId> = self.sources.keys().copied().collect();
        let mut open: Vec<TensorId> = plan.graph.node(self.id).inputs.clone();
        while let Some(id) = open.pop() {
            let node = plan.graph.node(id);
            match &node.op {
                Op::View(view) => {
                    view.hash(&mut hasher);
                    open.extend(&node.inputs);
                }
                Op::Input(_) | Op::Einsum(_) | Op::Kernel(_) => {
                    (sources.iter().position(|&s| s == id), &node.ty).hash(&mut hasher);
                }
            }
        }
        hasher.finish()
    }
}

fn hash_lists(lists: &Lists, hasher: &mut DefaultHasher) {
    for list in lists.keys() {
        list.hash(hasher);
    }
}

/// What a decomposition costs before its result goes anywhere, and what it leaves.
#[derive(Clone)]
struct Case {
    computing: f64,
    exchanges: Vec<Exchange>,
    /// Resident bytes of each device beyond those it keeps now.
    kept: Vec<i64>,
    left: Relation,
}

/// What comes into each device at most, to bound exchanges by what their readers lack.
struct Ports {
    bandwidth: Vec<f64>,
    latency: f64,
}

impl Ports {
    fn of(machine: &Machine) -> Self {
        let into = |device: DeviceId| {
            let links = || machine.links.iter().filter(move |l| l.to == device);
            let together: f64 = links().map(|l| machine.bandwidth(l)).sum();
            let all = |r: &usize| links().all(|l| l.resources.contains(r));
            let shared = links().next().into_iter().flat_map(|l| l.resources.iter().filter(|r| all(r)));
            shared.map(|&r| machine.resources[r].bandwidth).fold(together, f64::min)
        };
        let latency = machine.links.iter().map(|l| l.latency.0).fold(f64::INFINITY, f64::min) + machine.issue.0;
        Self { bandwidth: machine.ids().map(into).collect(), latency }
    }

    /// No program of the exchange takes less seconds or moves fewer bytes.
    fn bound(&self, exchange: &Exchange) -> (f64, f64) {
        let have = &exchange.have;
        let mut lacking = vec![0.0; self.bandwidth.len()];
        for need in &exchange.needs {
            // Of disjoint blocks those that are elsewhere must come; of blocks that overlap at least what nothing here covers.
            let here = have.blocks.iter().filter(|b| b.devices.contains(need.device));
            let covered: usize = here.map(|b| b.region.overlap(&need.region)).sum();
            let missing = need.region.volume().saturating_sub(covered) as f64;
            let element = have.finished.bytes(&need.region) as f64 / need.region.volume().max(1) as f64;
            lacking[need.device.index()] += missing * element;
        }
        let bytes: f64 = lacking.iter().sum();
        let slowest = lacking.iter().zip(&self.bandwidth).map(|(bytes, rate)| bytes / rate).fold(0.0, f64::max);
        (if bytes > 0.0 { slowest + self.latency } else { 0.0 }, bytes)
    }
}

/// The slowest device of a decomposition: its arithmetic and its bytes, each with its part of the time in which other
/// devices have the processors.
pub(super) fn slowest(spec: &Spec, decomposition: &Decomposition, machine: &Machine) -> Split {
    let mut each = vec![(0.0, 0.0, 0.0); machine.len()];
    for block in decomposition.blocks() {
        for device in block.devices.iter() {
            let parts = kernel_parts(&machine.devices[device.index()], spec, &block.region);
            let own = &mut each[device.index()];
            *own = (own.0 + parts.seconds.0, own.1 + parts.compute.0, own.2 + parts.memory.0);
        }
    }
    let all: Vec<f64> = each.iter().map(|e| e.0).collect();
    let (longest, compute, memory) = each.into_iter().fold((0.0, 0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
    let turns = if longest > 0.0 { machine.together(&all).0 / longest } else { 1.0 };
    Split { compute: Seconds(turns * compute), memory: Seconds(turns * memory), ..Split::default() }
}

/// Bytes with a sign, for people.
pub(super) fn signed(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "+" };
    format!("{sign}{}", Bytes(bytes.unsigned_abs()))
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;
