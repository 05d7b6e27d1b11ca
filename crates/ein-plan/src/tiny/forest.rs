//! The cheapest decisions where every result is read by one row, from the inputs up: exact up to the programs found for
//! names of devices.
//!
//! What is below a tensor then matters by what its row leaves of it alone, and what is above by what its reader needs. Of a
//! row the least cost is found for each side that it can leave, over all its decompositions; of a reader's list, over all that
//! the row can leave. What a side is called under other names of devices is taken to cost the same, so that one of them stands for all,
//! and meets the other side under every name. Bounds come first, up and down; what with the least of everything else is not
//! below the limit is dropped, and only what is left is answered.

use super::cuts::{Entry, Row};
use super::sides::{ELEMENTS, Had, Masks, Side};
use super::{Budget, Graphs, Kind, Move, Proposal, Sources};
use crate::answers::{AnswerError, Answers};
use crate::exchanges::{covered, hand_out};
use crate::layouts::{Wanted, homes, needs_of};
use crate::needs::{home_relation, stacked};
use ein_ir::graph::TensorId;
use ein_task::exchange::Need;
use ein_task::machine::DeviceId;
use ein_task::relation::{Held, Relation};
use std::collections::BTreeMap;

/// For every tensor, what each list of its reader costs, all below it included.
type Asked = BTreeMap<TensorId, Vec<f64>>;

/// What a tensor may be left as, under every name that differs.
type Turned = Vec<Vec<(Side, Had)>>;

pub(super) struct Forest<'a> {
    pub of: Graphs<'a>,
    pub known: &'a mut Answers,
    pub tensors: Sources,
    /// In the order of the graph.
    pub rows: Vec<Row>,
    turned: BTreeMap<TensorId, Turned>,
    needed: BTreeMap<TensorId, Vec<Masks>>,
    budget: &'a mut Budget,
}

/// Why a search ends without an answer: there is too much to look at or too little time, or an exchange has no program.
enum Stop {
    Enough,
    Unanswered,
}

impl From<AnswerError> for Stop {
    fn from(_: AnswerError) -> Self {
        Self::Unanswered
    }
}

/// What is chosen of a made tensor for each list of its reader.
type Chosen = BTreeMap<TensorId, Vec<Option<Side>>>;

impl<'a> Forest<'a> {
    /// Nothing if there are too many names of sides for the budget.
    pub fn new(
        of: Graphs<'a>,
        known: &'a mut Answers,
        tensors: Sources,
        rows: Vec<Row>,
        budget: &'a mut Budget,
    ) -> Option<Self> {
        let mut turned = BTreeMap::new();
        let mut needed = BTreeMap::new();
        for (&id, tensor) in &tensors {
            budget.spend(tensor.lefts.len() * of.names.len() + tensor.lists.len())?;
            let under = |n: usize| {
                let mut all: Vec<Side> = of.names.iter().map(|to| tensor.lefts.at(n).renamed(*to)).collect();
                all.sort_unstable();
                all.dedup();
                all.into_iter().map(|side| (side, Had::of(tensor.boxes.masks(&side)))).collect()
            };
            turned.insert(id, (0..tensor.lefts.len()).map(under).collect());
            let masks = |n: usize| tensor.boxes.masks(tensor.lists.at(n));
            needed.insert(id, (0..tensor.lists.len()).map(masks).collect());
        }
        Some(Self { of, known, tensors, rows, turned, needed, budget })
    }

    /// What costs the least, if that is less than `limit`.
    pub fn least(&mut self, limit: f64) -> Option<Proposal> {
        self.try_least(limit).ok().flatten()
    }

    fn try_least(&mut self, limit: f64) -> Result<Option<Proposal>, Stop> {
        let mut asked = Asked::new();
        for (&id, tensor) in &self.tensors {
            let lists = || self.needed[&id].iter();
            match tensor.kind {
                Kind::Made => continue,
                Kind::Resident => asked.insert(id, vec![0.0; tensor.lists.len()]),
                Kind::Arriving => {
                    let least = |m: &Masks| self.of.speed.least_from_anywhere(m, tensor.element);
                    asked.insert(id, lists().map(least).collect())
                }
            };
        }
        let Some(rest) = self.bounds(&mut asked, limit)? else { return Ok(None) };
        let arriving: Vec<TensorId> = self.of_kind(Kind::Arriving);
        for id in arriving {
            let budgets: Vec<f64> = rest[&id].iter().map(|rest| limit - rest).collect();
            let exact = self.arriving(id, &budgets)?;
            asked.insert(id, exact);
        }
        let Some(rest) = self.bounds(&mut asked, limit)? else { return Ok(None) };
        self.exact(asked, &rest, limit)
    }

    fn of_kind(&self, kind: Kind) -> Vec<TensorId> {
        self.tensors.iter().filter(|t| t.1.kind == kind).map(|t| *t.0).collect()
    }

    fn is_read(&self, id: TensorId) -> bool {
        self.tensors[&id].lists.len() > 0
    }

    /// Bounds from the inputs, of which `asked` says what lists cost, up, and then down: for every list, what all but what is
    /// below it costs at least where it is asked for. Drops entries that belong to nothing below the limit; nothing if that
    /// is all.
    fn bounds(&mut self, asked: &mut Asked, limit: f64) -> Result<Option<Asked>, Stop> {
        let mut least: BTreeMap<TensorId, f64> = BTreeMap::new();
        let mut costs: BTreeMap<TensorId, Vec<f64>> = BTreeMap::new();
        for n in 0..self.rows.len() {
            let id = self.rows[n].id;
            let own = self.left_costs(n, asked);
            if self.is_read(id) {
                let up = self.up(id, &own)?;
                asked.insert(id, up);
            } else {
                least.insert(id, own.iter().copied().fold(f64::INFINITY, f64::min));
            }
            costs.insert(id, own);
        }
        let all: f64 = least.values().sum();
        if all >= limit {
            return Ok(None);
        }
        let mut rest: Asked = self.tensors.iter().map(|(&id, t)| (id, vec![f64::INFINITY; t.lists.len()])).collect();
        for n in (0..self.rows.len()).rev() {
            let id = self.rows[n].id;
            let above = match least.get(&id) {
                Some(own) => vec![all - own; costs[&id].len()],
                None => self.down(id, &costs[&id], &rest[&id], limit)?,
            };
            let row = &mut self.rows[n];
            row.entries.retain(|e| above[e.left] + all_of(e, &row.sources, asked) < limit);
            for entry in &row.entries {
                let all = above[entry.left] + all_of(entry, &row.sources, asked);
                for (source, &list) in row.sources.iter().zip(&entry.needs) {
                    let of = rest.get_mut(source).expect("every source is known");
                    of[list] = of[list].min(all - asked[source][list]);
                }
            }
        }
        Ok(Some(rest))
    }

    /// The least cost of every side that a row can leave, all that it needs included.
    fn left_costs(&self, row: usize, asked: &Asked) -> Vec<f64> {
        let row = &self.rows[row];
        let mut costs = vec![f64::INFINITY; self.tensors[&row.id].lefts.len()];
        for entry in &row.entries {
            let all = all_of(entry, &row.sources, asked);
            costs[entry.left] = costs[entry.left].min(all);
        }
        costs
    }

    /// For every list of a tensor's reader, the least of what the sides that there may be cost, and of what then moves.
    fn up(&mut self, id: TensorId, costs: &[f64]) -> Result<Vec<f64>, Stop> {
        let (order, turned, element) = (order(costs), &self.turned[&id], self.tensors[&id].element);
        let mut up = Vec::with_capacity(self.needed[&id].len());
        for needed in &self.needed[&id] {
            let mut looked = 1;
            let mut best = f64::INFINITY;
            for &left in order.iter().take_while(|&&l| costs[l] < f64::INFINITY) {
                if costs[left] >= best {
                    break;
                }
                looked += turned[left].len();
                for (_, had) in &turned[left] {
                    best = best.min(costs[left] + self.of.speed.least(had, needed, element));
                }
            }
            self.budget.spend(looked).ok_or(Stop::Enough)?;
            up.push(best);
        }
        Ok(up)
    }

    /// The other way round: for every side, the least over the lists.
    fn down(&mut self, id: TensorId, costs: &[f64], rest: &[f64], limit: f64) -> Result<Vec<f64>, Stop> {
        let (order, needed, element) = (order(rest), &self.needed[&id], self.tensors[&id].element);
        let mut down = Vec::with_capacity(costs.len());
        for (n, under) in self.turned[&id].iter().enumerate() {
            let mut looked = 1;
            // Whatever is above the limit is all the same.
            let mut best = limit - costs[n];
            for &list in &order {
                if rest[list] >= best {
                    break;
                }
                looked += under.len();
                for (_, had) in under {
                    best = best.min(rest[list] + self.of.speed.least(had, &needed[list], element));
                }
            }
            self.budget.spend(looked).ok_or(Stop::Enough)?;
            down.push(best);
        }
        Ok(down)
    }

    /// What lists of a tensor that arrives cost; infinite where that is not below the list's budget.
    fn arriving(&mut self, id: TensorId, budgets: &[f64]) -> Result<Vec<f64>, Stop> {
        let mut costs = Vec::with_capacity(budgets.len());
        for (list, &budget) in budgets.iter().enumerate() {
            let least = self.of.speed.least_from_anywhere(&self.needed[&id][list], self.tensors[&id].element);
            let side = *self.tensors[&id].lists.at(list);
            let best = if least < budget { self.best_home(id, &side, least)?.0 } else { budget };
            costs.push(if best < budget { best } else { f64::INFINITY });
        }
        Ok(costs)
    }

    /// Seconds of handing a list out from the best home, which is the one; `least` is a bound.
    fn best_home(&mut self, id: TensorId, list: &Side, least: f64) -> Result<(f64, Vec<Held>), Stop> {
        let needs = self.tensors[&id].boxes.needs(list);
        let mut best = (f64::INFINITY, Vec::new());
        for held in self.homes(id, &[], &needs, true) {
            let seconds = self.moved(&home_relation(self.of.graph, id, &held), &needs)?;
            debug_assert!(seconds >= least * (1.0 - 1e-9), "{seconds:e} is below {least:e}");
            if seconds < best.0 {
                best = (seconds, held);
            }
            if best.0 <= least * (1.0 + 1e-9) {
                break;
            }
        }
        Ok(best)
    }

    /// Homes that the search knows for a tensor.
    fn homes(&self, id: TensorId, produced: &[&Relation], needs: &[Need], once: bool) -> Vec<Vec<Held>> {
        let workers: Vec<DeviceId> = self.of.machine.workers().iter().collect();
        let direct = !produced.is_empty() && !needs.is_empty();
        let wanted = Wanted {
            ty: self.of.graph.ty(id),
            stacked: stacked(self.of.graph, id).is_some(),
            workers: &workers,
            hosts: &[],
            produced: produced.to_vec(),
            needs: if needs.is_empty() { Vec::new() } else { vec![needs] },
            once,
            direct,
        };
        homes(&wanted).into_iter().map(|offer| offer.held).collect()
    }

    /// Seconds of handing something out.
    fn moved(&mut self, have: &Relation, needs: &[Need]) -> Result<f64, Stop> {
        if covered(have, &[], needs) {
            return Ok(0.0);
        }
        self.budget.spend(ANSWER).ok_or(Stop::Enough)?;
        Ok(self.known.answer(&hand_out(have, needs), self.of.machine)?.traffic.seconds.0)
    }

    /// What a row leaves, from one side.
    fn relation(&self, id: TensorId, side: &Side) -> Relation {
        let graph = self.of.graph;
        let mut relation = home_relation(graph, id, &self.tensors[&id].boxes.held(side));
        if !relation.is_complete()
            && let Some(spec) = graph.spec(id)
        {
            let ty = graph.ty(id);
            relation.monoid = spec.monoid;
            relation.pending = spec.monoid.pending(ty.dtype, ty.shape.len(), self.of.options.wide_partials);
        }
        relation
    }

    /// Seconds from what a row leaves to what its reader needs, or to the caller if there is none: directly, or by a home
    /// between, which is the other. Only what is less than `below` is worth looking for.
    fn served(
        &mut self,
        id: TensorId,
        side: &Side,
        needs: Option<&Vec<Need>>,
        below: f64,
    ) -> Result<(f64, Option<Vec<Held>>), Stop> {
        let have = self.relation(id, side);
        let mut best = match needs {
            Some(needs) => (self.moved(&have, needs)?, None),
            None if have.is_complete() => return Ok((0.0, None)),
            None => (f64::INFINITY, None),
        };
        let element = self.tensors[&id].element;
        let all = u64::MAX >> (ELEMENTS - self.of.graph.ty(id).elements());
        let had = Had::of(self.tensors[&id].boxes.masks(side));
        for held in self.homes(id, &[&have], needs.map_or(&[], Vec::as_slice), false) {
            if let (Some(_), [Held { devices, .. }]) = (needs, &held[..]) {
                // A home where the tensor is whole.
                let mut whole = Masks::default();
                devices.iter().for_each(|d| whole[d.index()] = all);
                if self.of.speed.least(&had, &whole, element) >= best.0.min(below) {
                    continue;
                }
            }
            let arrives = self.moved(&have, &needs_of(&held))?;
            if arrives < best.0.min(below) {
                let leaves = match needs {
                    Some(needs) => self.moved(&home_relation(self.of.graph, id, &held), needs)?,
                    None => 0.0,
                };
                if arrives + leaves < best.0 {
                    best = (arrives + leaves, Some(held));
                }
            }
        }
        Ok(best)
    }

    /// The same as the bounds with exchanges answered, where what they belong to is below the limit.
    fn exact(&mut self, mut asked: Asked, rest: &Asked, limit: f64) -> Result<Option<Proposal>, Stop> {
        let mut chosen = Chosen::new();
        let mut roots: Vec<(TensorId, Side)> = Vec::new();
        let mut cost = 0.0;
        for n in 0..self.rows.len() {
            let id = self.rows[n].id;
            let costs = self.left_costs(n, &asked);
            if self.is_read(id) {
                let (found, by) = self.exact_up(id, &costs, &rest[&id], limit)?;
                asked.insert(id, found);
                chosen.insert(id, by);
                continue;
            }
            let Some((least, side)) = self.shown(id, &costs, limit)? else { return Ok(None) };
            cost += least;
            roots.push((id, side));
        }
        if cost < limit { self.decided(&asked, &chosen, roots).map(Some) } else { Ok(None) }
    }

    /// [`Forest::up`] with exchanges answered, and by which side; infinite where it is not below the limit with the rest.
    fn exact_up(
        &mut self,
        id: TensorId,
        costs: &[f64],
        rest: &[f64],
        limit: f64,
    ) -> Result<(Vec<f64>, Vec<Option<Side>>), Stop> {
        let element = self.tensors[&id].element;
        let order = order(costs);
        let (mut found, mut chosen) = (Vec::new(), Vec::new());
        for (list, rest) in rest.iter().enumerate() {
            let budget = limit - rest;
            let needed = self.needed[&id][list];
            let mut near: Vec<(f64, f64, Side)> = Vec::new();
            let mut looked = 1;
            for &left in order.iter().take_while(|&&l| costs[l] < budget) {
                looked += self.turned[&id][left].len();
                for (side, had) in &self.turned[&id][left] {
                    let least = self.of.speed.least(had, &needed, element);
                    if costs[left] + least < budget {
                        near.push((costs[left] + least, costs[left], *side));
                    }
                }
            }
            self.budget.spend(looked).ok_or(Stop::Enough)?;
            near.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
            let (mut best, mut by) = (budget, None);
            let needs = self.tensors[&id].boxes.needs(self.tensors[&id].lists.at(list));
            for (least, cost, side) in near {
                if least >= best {
                    break;
                }
                let moved = self.served(id, &side, Some(&needs), best - cost)?.0;
                debug_assert!(cost + moved >= least * (1.0 - 1e-9), "{moved:e} is below {:e}", least - cost);
                let all = cost + moved;
                if all < best {
                    (best, by) = (all, Some(side));
                }
            }
            found.push(if by.is_some() { best } else { f64::INFINITY });
            chosen.push(by);
        }
        Ok((found, chosen))
    }

    /// The least cost below the limit of a tensor that nothing reads, with it in the caller's hands, and what its row leaves.
    fn shown(&mut self, id: TensorId, costs: &[f64], limit: f64) -> Result<Option<(f64, Side)>, Stop> {
        let mut best: Option<(f64, Side)> = None;
        for left in order(costs) {
            let below = best.map_or(limit, |b| b.0);
            if costs[left] >= below {
                break;
            }
            let side = *self.tensors[&id].lefts.at(left);
            let all = costs[left] + self.served(id, &side, None, below - costs[left])?.0;
            if all < below {
                best = Some((all, side));
            }
        }
        Ok(best)
    }

    /// The decisions behind what was chosen, from the last rows down.
    fn decided(&mut self, asked: &Asked, chosen: &Chosen, roots: Vec<(TensorId, Side)>) -> Result<Proposal, Stop> {
        let mut decided = Proposal { decompositions: BTreeMap::new(), moves: Vec::new() };
        let mut wanted: Vec<(TensorId, Side, Option<Side>)> = roots.into_iter().map(|(id, s)| (id, s, None)).collect();
        while let Some((id, side, list)) = wanted.pop() {
            let list = list.map(|list| self.tensors[&id].boxes.needs(&list));
            let home = self.served(id, &side, list.as_ref(), f64::INFINITY)?.1;
            if let Some(held) = &home {
                decided.moves.push(Move { tensor: id, from: None, needs: needs_of(held) });
            }
            decided.moves.extend(list.map(|needs| Move { tensor: id, from: home, needs }));
            let n = self.row_of(id);
            let row = &self.rows[n];
            let first = side.first(&self.of.names);
            let own = row.entries.iter().filter(|e| *self.tensors[&id].lefts.at(e.left) == first);
            let all = |e: &Entry| all_of(e, &row.sources, asked);
            let entry = own.min_by(|a, b| all(a).total_cmp(&all(b))).expect("some entry leaves it");
            let (left, needs) = row.sides(entry, &self.tensors).expect("it was an entry");
            let to = *self.of.names.iter().find(|to| left.renamed(**to) == side).expect("it is one of its names");
            decided.decompositions.insert(id, row.decomposition(entry, to));
            let lists: Vec<(TensorId, Side, usize)> = (row.sources.iter().zip(needs).zip(&entry.needs))
                .map(|((source, list), number)| (*source, list.renamed(to), *number))
                .collect();
            for (source, list, number) in lists {
                if let Some(by) = chosen.get(&source).and_then(|by| by[number]) {
                    let first = self.tensors[&source].lists.at(number);
                    let so =
                        self.of.names.iter().find(|so| first.renamed(**so) == list).expect("it is one of its names");
                    let by = by.renamed(*so);
                    let costs = self.left_costs(self.row_of(source), asked);
                    let by = self.as_good(source, &costs, &list, asked[&source][number], by)?;
                    wanted.push((source, by, Some(list)));
                } else if self.tensors[&source].kind == Kind::Arriving {
                    let from = Some(self.best_home(source, &list, 0.0)?.1);
                    let needs = self.tensors[&source].boxes.needs(&list);
                    decided.moves.push(Move { tensor: source, from, needs });
                }
            }
        }
        Ok(decided)
    }

    fn row_of(&self, id: TensorId) -> usize {
        self.rows.iter().position(|r| r.id == id).expect("what is made has a row")
    }

    /// A side from which this list costs no more than was found of the first of its names. The program found for an exchange
    /// may depend on names a little, so that `by`, which became that, is asked first and not taken for granted.
    fn as_good(&mut self, id: TensorId, costs: &[f64], list: &Side, found: f64, by: Side) -> Result<Side, Stop> {
        let tensor = &self.tensors[&id];
        let (needs, needed) = (tensor.boxes.needs(list), tensor.boxes.masks(list));
        let mut near = Vec::new();
        for left in order(costs) {
            for (side, had) in &self.turned[&id][left] {
                if costs[left] + self.of.speed.least(had, &needed, tensor.element) <= found * (1.0 + 1e-12) {
                    near.push((costs[left], *side));
                }
            }
        }
        near.sort_by_key(|n| n.1 != by);
        for (cost, side) in near {
            if cost + self.served(id, &side, Some(&needs), f64::INFINITY)?.0 <= found * (1.0 + 1e-12) {
                return Ok(side);
            }
        }
        Ok(by)
    }
}

/// What answering an exchange counts for beside looking at a bound.
const ANSWER: usize = 2000;

/// What an entry costs with all below it.
fn all_of(entry: &Entry, sources: &[TensorId], asked: &Asked) -> f64 {
    entry.seconds + sources.iter().zip(&entry.needs).map(|(s, &n)| asked[s][n]).sum::<f64>()
}

/// Positions from the least on.
fn order(costs: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.len()).filter(|&n| costs[n].is_finite()).collect();
    order.sort_by(|&a, &b| costs[a].total_cmp(&costs[b]));
    order
}
