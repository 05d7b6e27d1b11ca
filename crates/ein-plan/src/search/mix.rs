//! Mixtures of two assignments of one model: up to some tensor the one, from there on the other, and in small graphs back
//! again.

use super::{Assigned, Search};
use crate::choice::Choice;
use crate::elimination::Solution;
use crate::error::PlanError;
use crate::layouts::home_of;
use std::collections::BTreeSet;

/// A mixture of two assignments.
pub(crate) struct Mixture {
    /// The variables, in the order of rows, from the first number to before the second have the one's values, the rest the
    /// other's.
    from: usize,
    cut: usize,
    /// Whether the first assignment comes first.
    first: bool,
    /// What it costs without its memory, as far as prices are known.
    pub cost: f64,
    /// Bytes that count as memory.
    pub bytes: f64,
}

/// What a mixture became.
pub(crate) struct Mixed {
    pub choice: Choice,
    /// Without its memory.
    pub cost: f64,
}

/// So many variables are few enough for a mixture from every one of them on.
const SMALL: usize = 200;

/// Rounds in which prices where two assignments meet become exact.
const SETTLED: usize = 4;

impl Search<'_> {
    /// All mixtures of two assignments of the model as it stands.
    pub fn mixtures(&mut self, a: &Assigned, b: &Assigned) -> Vec<Mixture> {
        // Of what is moved to where it is read, both must say where it is.
        self.apart =
            [a, b].iter().any(|of| of.homes.keys().any(|id| !self.sources[self.tensors[id].0].own_homes.is_empty()));
        self.build(false);
        let (a, b) = (&self.values_of(a), &self.values_of(b));
        let bytes = self.resident_bytes();
        let order = self.order();
        let held = |v: usize, values: &[usize]| bytes[v].get(values[v]).copied().unwrap_or(0.0);
        let mut mixtures = Vec::new();
        for (first, (from, to)) in [(false, (a, b)), (true, (b, a))] {
            let all: f64 = (0..from.len()).map(|v| held(v, from)).sum();
            let starts = if order.len() <= SMALL { order.len() } else { 1 };
            for start in 0..starts {
                let mut sum = all;
                for (n, with_memory) in self.model.sweep(&order[start..], from, to).into_iter().enumerate() {
                    let cut = start + n;
                    if with_memory.is_finite() {
                        let cost = with_memory - self.multiplier * sum;
                        mixtures.push(Mixture { from: start, cut, first, cost, bytes: sum });
                    }
                    if let Some(&v) = order.get(cut) {
                        sum += held(v, to) - held(v, from);
                    }
                }
            }
        }
        mixtures
    }

    /// The choice of a mixture, with exact prices where the two meet and homes of what both read decided anew; nothing
    /// if it is none.
    pub fn mixed(&mut self, a: &Assigned, b: &Assigned, mixture: &Mixture) -> Result<Option<Mixed>, PlanError> {
        let (a, b) = (self.values_of(a), self.values_of(b));
        let (mut values, to) = if mixture.first { (b, a) } else { (a, b) };
        self.order()[mixture.from..mixture.cut].iter().for_each(|&v| values[v] = to[v]);
        let mut solution = Solution { values, cost: mixture.cost, bound: 0.0, largest: 0 };
        let common = self.common();
        for _ in 0..SETTLED {
            self.model.polish_some(&common, &mut solution.values);
            if !self.settle(&solution)? {
                break;
            }
            self.build(false);
        }
        solution.cost = self.model.cost(&solution.values);
        let cost = solution.cost - self.multiplier * self.memory(&solution);
        Ok(cost.is_finite().then(|| Mixed { choice: self.choice(&solution), cost }))
    }

    /// The variables in the order of rows, homes of inputs before the first row that reads them.
    fn order(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.row_variable.len() + self.home_variable.len());
        let mut seen = BTreeSet::new();
        for (id, (_, sources)) in &self.rows {
            for input in sources.iter().filter(|s| !self.rows.contains_key(s)) {
                if seen.insert(*input) {
                    order.extend(self.home_variable.get(input));
                }
            }
            order.push(self.row_variable[id]);
            order.extend(self.home_variable.get(id));
        }
        order
    }

    /// Homes of inputs that many rows read: of either plan's homes some of them would be right for some rows only.
    fn common(&self) -> Vec<usize> {
        let inputs = self.home_variable.iter().filter(|(id, _)| !self.rows.contains_key(id));
        inputs.filter(|(id, _)| self.tensors[id].1.len() > 2).map(|(_, &v)| v).collect()
    }

    /// The values of the model's variables in an assignment of a model with as many of them or fewer: what has no home in
    /// that one is where it is read.
    fn values_of(&self, assigned: &Assigned) -> Vec<usize> {
        let mut values = vec![0; self.row_variable.len() + self.home_variable.len()];
        for (id, &v) in &self.row_variable {
            values[v] = assigned.rows[id];
        }
        for (id, &v) in &self.home_variable {
            let (class, readers) = &self.tensors[id];
            values[v] = assigned.homes.get(id).copied().unwrap_or_else(|| {
                let (row, slot) = self.sources[*class].readers[0];
                let list = self.ops[row].needs[slot][assigned.rows[&readers[0]]];
                let held = list.and_then(|list| home_of(self.layouts.needs_at(list), &self.graph.ty(*id).whole()));
                // What is needed is among the homes; what nobody needs may be anywhere.
                self.sources[*class].states.iter().position(|s| s.held == held).unwrap_or(0)
            });
        }
        values
    }

    /// For every variable, the bytes that each of its values counts as memory; nothing where that is none.
    fn resident_bytes(&self) -> Vec<Vec<f64>> {
        let count = self.row_variable.len() + self.home_variable.len();
        let mut bytes = vec![Vec::new(); count];
        for (id, &v) in &self.home_variable {
            let own = &self.sources[self.tensors[id].0];
            if own.resident {
                bytes[v] = own.states.iter().map(|s| self.counted(s.share)).collect();
            }
        }
        for (id, (class, readers)) in &self.tensors {
            let own = &self.sources[*class];
            if !own.resident || self.home_variable.contains_key(id) || self.multiplier == 0.0 {
                continue;
            }
            if let [reader] = readers[..] {
                let more = self.own_home_bytes(*class);
                let held = &mut bytes[self.row_variable[&reader]];
                held.resize(more.len(), 0.0);
                held.iter_mut().zip(more).for_each(|(held, more)| *held += more);
            }
        }
        bytes
    }
}
