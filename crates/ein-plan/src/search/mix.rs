//! Mixtures of two assignments of one model: up to some tensor the one, from there on the other.

use super::Search;
use crate::choice::Choice;
use crate::elimination::Solution;
use crate::error::PlanError;
use std::collections::BTreeSet;

/// A mixture of two assignments.
pub(crate) struct Mixture {
    /// So many variables, in the order of rows, have the one's values, the rest the other's.
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

/// Rounds in which prices where two assignments meet become exact.
const SETTLED: usize = 4;

impl Search<'_> {
    /// All mixtures of two assignments of the model as it stands.
    pub fn mixtures(&mut self, a: &[usize], b: &[usize]) -> Vec<Mixture> {
        self.build(false);
        let bytes = self.resident_bytes();
        let order = self.order();
        let held = |v: usize, values: &[usize]| bytes[v].get(values[v]).copied().unwrap_or(0.0);
        let mut mixtures = Vec::new();
        for (first, (from, to)) in [(false, (a, b)), (true, (b, a))] {
            let mut sum: f64 = (0..from.len()).map(|v| held(v, from)).sum();
            for (cut, with_memory) in self.model.sweep(&order, from, to).into_iter().enumerate() {
                if with_memory.is_finite() {
                    mixtures.push(Mixture { cut, first, cost: with_memory - self.multiplier * sum, bytes: sum });
                }
                if let Some(&v) = order.get(cut) {
                    sum += held(v, to) - held(v, from);
                }
            }
        }
        mixtures
    }

    /// The choice of a mixture, with exact prices where the two meet and homes of what both read decided anew; nothing
    /// if it is none.
    pub fn mixed(&mut self, a: &[usize], b: &[usize], mixture: &Mixture) -> Result<Option<Mixed>, PlanError> {
        let (from, to) = if mixture.first { (b, a) } else { (a, b) };
        let mut values = from.to_vec();
        self.order()[..mixture.cut].iter().for_each(|&v| values[v] = to[v]);
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
        bytes
    }
}
