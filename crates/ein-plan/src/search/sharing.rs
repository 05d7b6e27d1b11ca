//! Deliveries that several readers of a tensor share: what the relaxed model asks for becomes a home.

use super::{Search, State, share};
use crate::elimination::Solution;
use crate::layouts::{NeedsId, needs_of, refined, union};
use ein_ir::graph::TensorId;
use ein_task::relation::Relation;
use std::collections::{BTreeMap, BTreeSet};

/// Homes of one kind, and lists of one price from each, that are split together, at most.
const ALIKE: usize = 64;

/// Homes that have so many states are not split any more.
const MANY: usize = 4096;

impl Search<'_> {
    /// For every list of needs, the home from which handing it out is cheapest, with that hand-out shared.
    pub(super) fn share_hand_outs(&mut self, states: &mut Vec<State>, lists: &BTreeSet<NeedsId>) {
        let objective = self.options.objective;
        let homes = states.len();
        for &list in lists {
            let costs = &mut self.costs;
            let mut price = |n: usize| costs.price(&self.layouts, states[n].relation, list).scalar(objective);
            let prices: Vec<f64> = (0..homes).map(&mut price).collect();
            let best = (0..homes).min_by(|&a, &b| prices[a].total_cmp(&prices[b])).expect("a tensor has a home");
            if prices[best] > 0.0 {
                let State { held, relation, needs, only, share, .. } = states[best].clone();
                states.push(State { held, relation, needs, only, extra: Some(list), share });
            }
        }
    }

    /// Whether any tensor has so many readers that some may share what others do not need.
    pub(super) fn has_crowds(&self) -> bool {
        self.tensors.values().any(|(class, _)| self.has_variable(*class) && self.sources[*class].is_crowded())
    }

    /// Where an assignment of the relaxed model has all readers of a tensor share a list.
    pub(super) fn shared_by(&self, solution: &Solution) -> Vec<(TensorId, NeedsId)> {
        let of = |(id, v): (&TensorId, &usize)| {
            let own = &self.sources[self.tensors[id].0];
            let n = solution.values[*v].checked_sub(own.states.len())?;
            Some((*id, own.lists[n]))
        };
        self.home_variable.iter().filter_map(of).collect()
    }

    /// The home of an input from which handing out `list` is cheapest, and the price.
    pub(super) fn best_home(&mut self, class: usize, list: NeedsId) -> (usize, f64) {
        let (costs, layouts, objective) = (&mut self.costs, &self.layouts, self.options.objective);
        let mut best = (0, f64::INFINITY);
        for (n, state) in self.sources[class].states.iter().enumerate().filter(|s| s.1.extra.is_none()) {
            let cost = costs.price(layouts, state.relation, list).scalar(objective);
            if cost < best.1 {
                best = (n, cost);
            }
        }
        best
    }

    /// Lets, of the readers of every class of tensors, the one that pays most in an assignment of the relaxed model pay
    /// in full, and the others nothing of what it may ask for too; of three readers only at `first`. Whether any is another
    /// than before.
    pub(super) fn choose_principals(&mut self, values: &[usize], first: bool) -> bool {
        let objective = self.options.objective;
        let mut paid: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (id, (class, readers)) in &self.tensors {
            let Some(home) = self.home_variable.get(id) else { continue };
            let own = &self.sources[*class];
            let Some(state) = own.states.get(values[*home]) else { continue };
            if !own.is_crowded() || own.is_split() && !first {
                continue;
            }
            let asked = self.asked(*class, readers, values).chain(own.outputs.map(|list| (readers.len(), list)));
            let asked: Vec<(usize, NeedsId)> = asked.collect();
            let sums = paid.entry(*class).or_insert_with(|| vec![0.0; readers.len() + 1]);
            for (n, list) in asked {
                if state.extra != Some(list) {
                    sums[n] += self.costs.price(&self.layouts, state.relation, list).scalar(objective);
                }
            }
        }
        let mut changed = false;
        for (class, sums) in paid {
            let most = (0..sums.len()).rev().max_by(|&a, &b| sums[a].total_cmp(&sums[b])).filter(|&n| sums[n] > 0.0);
            let own = &self.sources[class];
            if most.is_none() || most == own.principal.as_ref().map(|p| p.0) {
                continue;
            }
            let lists = |n: usize| match own.readers.get(n) {
                Some(&(c, slot)) => self.ops[c].needs[slot].iter().flatten().copied().collect(),
                None => own.outputs.into_iter().collect(),
            };
            let principal = most.map(|n| (n, lists(n)));
            self.sources[class].principal = principal;
            changed = true;
        }
        changed
    }

    /// Gives tensors of three readers states in which a list is shared of which some readers pay less than its price in an
    /// assignment of the relaxed model, so that they cannot any more. Whether any is new.
    pub(super) fn split(&mut self, values: &[usize]) -> bool {
        let objective = self.options.objective;
        let mut lacking: BTreeSet<(usize, usize, NeedsId)> = BTreeSet::new();
        for (id, (class, readers)) in &self.tensors {
            let Some(home) = self.home_variable.get(id) else { continue };
            let own = &self.sources[*class];
            let at = values[*home];
            let Some(state) = own.states.get(at).filter(|s| own.is_split() && s.extra.is_none()) else { continue };
            let asked = self.asked(*class, readers, values).chain(own.outputs.map(|list| (readers.len(), list)));
            let mut paid: BTreeMap<NeedsId, f64> = BTreeMap::new();
            asked.for_each(|(n, list)| *paid.entry(list).or_default() += own.part(at, list, n));
            for (list, _) in paid.into_iter().filter(|(_, part)| *part < 1.0) {
                if self.costs.price(&self.layouts, state.relation, list).scalar(objective) > 0.0 {
                    lacking.insert((*class, at, list));
                }
            }
        }
        let mut alike = lacking.clone();
        for &(class, at, list) in &lacking {
            alike.extend(self.alike(class, at, list).into_iter().map(|(at, list)| (class, at, list)));
        }
        alike.retain(|(class, ..)| self.sources[*class].states.len() < MANY);
        for &(class, at, list) in &alike {
            let own = &mut self.sources[class];
            own.split.insert((at, list));
            own.states.push(State { extra: Some(list), ..own.states[at].clone() });
        }
        !alike.is_empty()
    }

    /// Homes in blocks as large as those of a home, and lists that cost as much from there as a list does from it: likely the
    /// same under other names of devices, which an assignment would turn to next. Of those that are not split yet.
    fn alike(&mut self, class: usize, at: usize, list: NeedsId) -> Vec<(usize, NeedsId)> {
        let objective = self.options.objective;
        let own = &self.sources[class];
        let sizes = |at: usize| {
            let blocks = &self.layouts.relation_at(own.states[at].relation).blocks;
            let mut sizes: Vec<(Vec<usize>, usize)> =
                blocks.iter().map(|b| (b.region.shape(), b.devices.len())).collect();
            sizes.sort_unstable();
            sizes
        };
        let (own_sizes, costs) = (sizes(at), &mut self.costs);
        let mut price = |at: usize, list| costs.price(&self.layouts, own.states[at].relation, list).scalar(objective);
        let own_price = price(at, list);
        let plain = (0..own.states.len()).filter(|&home| own.states[home].extra.is_none());
        let homes: Vec<usize> = plain.filter(|&home| sizes(home) == own_sizes).take(ALIKE).collect();
        let mut found = Vec::new();
        for home in homes {
            let same = own.lists.iter().filter(|l| !own.split.contains(&(home, **l)) && price(home, **l) == own_price);
            found.extend(same.take(ALIKE).map(|&list| (home, list)));
        }
        found
    }

    /// Gives tensors states in which a list that an assignment of the relaxed model asks for is shared. Whether any
    /// is new.
    pub(super) fn add_shared(&mut self, solution: &Solution) -> bool {
        let mut offers: BTreeSet<(usize, usize, NeedsId)> = BTreeSet::new();
        for (id, list) in self.shared_by(solution) {
            let class = self.tensors[&id].0;
            offers.insert((class, self.best_home(class, list).0, list));
        }
        for (id, (class, readers)) in &self.tensors {
            let own = &self.sources[*class];
            let Some(home) = self.home_variable.get(id).filter(|_| own.is_crowded() && !own.is_split()) else {
                continue;
            };
            let state = solution.values[*home];
            if state < own.states.len() {
                offers.extend(self.asked(*class, readers, &solution.values).map(|(_, list)| (*class, state, list)));
            }
        }
        let mut added = false;
        for (class, state, list) in offers {
            let own = &self.sources[class];
            let state = own.states[state].clone();
            let state = if own.is_held_once() {
                State { extra: Some(list), ..state }
            } else if self.layouts.is_complete(state.relation) {
                // A home that has what is left and what is needed; going there moves the latter once.
                let relation = self.layouts.relation_at(state.relation).clone();
                let lists = union(&[&needs_of(&relation.blocks), self.layouts.needs_at(list)]);
                let held = refined(&lists, &relation.whole, self.workers[0]);
                let share = share(&held, own.element, &self.workers);
                let needs = Some(self.layouts.needs(needs_of(&held)));
                let relation = self.layouts.relation(Relation { blocks: held.clone(), ..relation });
                State { held: Some(held), relation, needs, only: None, extra: None, share }
            } else {
                continue;
            };
            let own = &mut self.sources[class];
            if !own.states.iter().any(|s| s.held == state.held && s.extra == state.extra) {
                own.states.push(state);
                added = true;
            }
        }
        added
    }
}
