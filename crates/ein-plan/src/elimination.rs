//! Minimising a sum of tables over discrete variables, exactly, by eliminating one variable after another.
//!
//! Equal tables are one table: what has been eliminated once in one layer of a model is looked up in
//! the next. Where a clique would outgrow the budget, its tables are minimised apart (mini-buckets), which
//! keeps the result a lower bound and makes the assignment only a good one.

use crate::deadline::Deadline;
use few::few_sums;
use least::Walked;
use order::Orders;
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::rc::Rc;

mod few;
mod least;
mod order;

/// A table over the domains of its variables, row-major, equal only to itself.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    id: usize,
    data: Rc<Vec<f64>>,
}

/// A table on variables, in increasing order.
#[derive(Clone, Debug)]
struct Factor {
    scope: Vec<usize>,
    table: Table,
}

/// Variables with their domain sizes, and the factors between them.
#[derive(Debug, Default)]
pub(crate) struct Model {
    sizes: Vec<usize>,
    factors: Vec<Factor>,
    tables: usize,
    memo: Memo,
    /// How often the model was solved.
    solved: usize,
    kept: FxHashMap<(usize, usize), Table>,
    /// Orders that were found for other numbers.
    orders: Orders,
}

/// From tables with their local scopes and sizes, the eliminated one last, to the result and the solve that used it last.
type Memo = FxHashMap<(Vec<(usize, Vec<usize>)>, Vec<usize>), (Table, usize)>;

/// What elimination found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Solution {
    /// A value for every variable.
    pub values: Vec<usize>,
    /// The sum at these values.
    pub cost: f64,
    /// No assignment costs less.
    pub bound: f64,
    /// Entries of the largest table that was minimised.
    pub largest: usize,
}

/// See [`Model::solve_until`].
const LARGE: usize = 20;

impl Model {
    /// Adds a variable with values `0..size`.
    pub fn variable(&mut self, size: usize) -> usize {
        assert!(size > 0, "a variable needs a value");
        self.sizes.push(size);
        self.sizes.len() - 1
    }

    /// Forgets variables and factors, but not what eliminating known tables gave.
    pub fn clear(&mut self) {
        self.sizes.clear();
        self.factors.clear();
    }

    /// Forgets all tables but the model's own, and what eliminating others gave.
    pub fn forget_others(&mut self) {
        let mut known: FxHashSet<usize> = self.factors.iter().map(|f| f.table.id).collect();
        self.kept.retain(|_, table| known.contains(&table.id));
        // What was made of others has a higher number than they.
        let mut made: Vec<_> = self.memo.iter().map(|(key, (table, _))| (table.id, &key.0)).collect();
        made.sort_unstable_by_key(|m| m.0);
        for (id, from) in made {
            if from.iter().all(|(id, _)| known.contains(id)) {
                known.insert(id);
            }
        }
        self.memo.retain(|_, (table, _)| known.contains(&table.id));
    }

    /// The table of this key: the one it was before if the numbers are.
    pub fn keep(&mut self, key: (usize, usize), data: Vec<f64>) -> Table {
        if let Some(known) = self.kept.get(&key).filter(|t| *t.data == data) {
            return known.clone();
        }
        let table = self.table(data);
        self.kept.insert(key, table.clone());
        table
    }

    /// A table; factors that share it are known to be equal.
    pub fn table(&mut self, data: Vec<f64>) -> Table {
        self.tables += 1;
        Table { id: self.tables - 1, data: Rc::new(data) }
    }

    /// Adds the factor `table` on `scope`, which is in increasing order.
    pub fn factor(&mut self, scope: &[usize], table: &Table) {
        assert!(scope.windows(2).all(|w| w[0] < w[1]), "a scope is in increasing order");
        let entries: usize = scope.iter().map(|&v| self.sizes[v]).product();
        assert_eq!(entries, table.data.len(), "a table has an entry for every assignment of its scope");
        self.factors.push(Factor { scope: scope.to_vec(), table: table.clone() });
    }

    /// The sum at `values`.
    pub fn cost(&self, values: &[usize]) -> f64 {
        self.factors.iter().map(|f| f.table.data[index(&f.scope, &self.sizes, values)]).sum()
    }

    /// The sums on the way from one assignment to another, with the first 0, 1, 2, ... variables of `order` changed.
    pub fn sweep(&self, order: &[usize], from: &[usize], to: &[usize]) -> Vec<f64> {
        let mut of: Vec<Vec<usize>> = vec![Vec::new(); self.sizes.len()];
        for (n, f) in self.factors.iter().enumerate() {
            f.scope.iter().for_each(|&v| of[v].push(n));
        }
        let mut values = from.to_vec();
        let entry = |n: usize, values: &[usize]| {
            let f = &self.factors[n];
            f.table.data[index(&f.scope, &self.sizes, values)]
        };
        // Entries that forbid are counted apart, for they cannot be taken away again.
        let mut sum = 0.0;
        let mut forbidden = 0usize;
        for n in 0..self.factors.len() {
            let x = entry(n, &values);
            if x.is_finite() { sum += x } else { forbidden += 1 }
        }
        let mut sums = vec![if forbidden > 0 { f64::INFINITY } else { sum }];
        for &v in order {
            for &n in &of[v] {
                let x = entry(n, &values);
                if x.is_finite() { sum -= x } else { forbidden -= 1 }
            }
            values[v] = to[v];
            for &n in &of[v] {
                let x = entry(n, &values);
                if x.is_finite() { sum += x } else { forbidden += 1 }
            }
            sums.push(if forbidden > 0 { f64::INFINITY } else { sum });
        }
        sums
    }

    /// [`Model::solve_until`] the end.
    #[cfg(test)]
    pub fn solve(&mut self, budget: usize) -> Solution {
        self.solve_until(budget, Deadline::default()).expect("there is no deadline")
    }

    /// Minimises, with no table of more than `budget` entries but for a few larger ones: as much as [`LARGE`] budgets
    /// of them in all, where one clique is all that an exact answer lacks. Nothing if the deadline comes first.
    pub fn solve_until(&mut self, budget: usize, deadline: Deadline) -> Option<Solution> {
        self.solved += 1;
        let count = self.sizes.len();
        let mut live: Vec<Option<Factor>> = self.factors.iter().cloned().map(Some).collect();
        let mut at: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); count];
        for (n, f) in self.factors.iter().enumerate() {
            for &v in &f.scope {
                at[v].insert(n);
            }
        }
        let mut constant: f64 = self.factors.iter().filter(|f| f.scope.is_empty()).map(|f| f.table.data[0]).sum();
        let weight = |v: usize, at: &[BTreeSet<usize>], live: &[Option<Factor>], sizes: &[usize]| -> u64 {
            let clique = clique(v, &at[v], live);
            clique.iter().fold(1u64, |w, &u| w.saturating_mul(sizes[u] as u64))
        };
        let mut queue: BTreeSet<(u64, usize)> = (0..count).map(|v| (weight(v, &at, &live, &self.sizes), v)).collect();
        let mut weights: Vec<u64> = vec![0; count];
        for &(w, v) in &queue {
            weights[v] = w;
        }
        let mut done: Vec<(usize, Vec<Factor>)> = Vec::new();
        let mut largest = 0;
        let mut spare = budget.saturating_mul(LARGE);
        let mut order = self.orders.best(&self.sizes, &self.factors, budget).map(<[usize]>::to_vec).map(Vec::into_iter);
        while let Some(v) = order.as_mut().map_or_else(|| queue.pop_first().map(|(_, v)| v), Iterator::next) {
            if deadline.is_over() {
                return None;
            }
            let listed = std::mem::take(&mut at[v]);
            let bucket: Vec<Factor> = listed.iter().map(|&n| live[n].take().expect("listed while live")).collect();
            let touched: BTreeSet<usize> =
                bucket.iter().flat_map(|f| f.scope.iter().copied()).filter(|&u| u != v).collect();
            for (n, f) in listed.iter().zip(&bucket) {
                for &u in f.scope.iter().filter(|&&u| u != v) {
                    at[u].remove(n);
                }
            }
            for group in groups(&bucket, &self.sizes, budget.max(spare)) {
                let members: Vec<&Factor> = group.iter().map(|&n| &bucket[n]).collect();
                let (scope, table, entries) = self.eliminate(v, &members);
                largest = largest.max(entries);
                if entries > budget {
                    spare = spare.saturating_sub(entries);
                }
                if scope.is_empty() {
                    constant += table.data[0];
                } else {
                    for &u in &scope {
                        at[u].insert(live.len());
                    }
                    live.push(Some(Factor { scope, table }));
                }
            }
            if bucket.is_empty() {
                largest = largest.max(self.sizes[v]);
            }
            done.push((v, bucket));
            for u in touched.into_iter().filter(|_| order.is_none()) {
                queue.remove(&(weights[u], u));
                weights[u] = weight(u, &at, &live, &self.sizes);
                queue.insert((weights[u], u));
            }
        }
        let mut values = vec![0; count];
        for (v, bucket) in done.iter().rev() {
            values[*v] = self.best(*v, bucket, &values);
        }
        // What neither this solve nor the last one used is of prices that are gone.
        let solved = self.solved;
        self.memo.retain(|_, (_, used)| *used + 1 >= solved);
        Some(Solution { cost: self.cost(&values), values, bound: constant, largest })
    }

    /// Improves `values` one variable at a time until none improves.
    pub fn polish(&self, values: &mut [usize]) {
        let all: Vec<usize> = (0..self.sizes.len()).collect();
        self.polish_some(&all, values);
    }

    /// [`Model::polish`] of these variables only.
    pub fn polish_some(&self, some: &[usize], values: &mut [usize]) {
        let mut of: Vec<Vec<Factor>> = vec![Vec::new(); self.sizes.len()];
        for f in &self.factors {
            for &v in &f.scope {
                of[v].push(f.clone());
            }
        }
        for _ in 0..20 {
            let mut changed = false;
            for &v in some {
                let at = |x: usize| self.at(v, x, &of[v], values);
                let best = self.best(v, &of[v], values);
                if at(best) < at(values[v]) * (1.0 - 1e-12) - 1e-30 {
                    values[v] = best;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
    }

    /// The first value of `v` with the least sum of `factors`, the others fixed.
    fn best(&self, v: usize, factors: &[Factor], values: &[usize]) -> usize {
        let (mut best, mut least) = (0, f64::INFINITY);
        for x in 0..self.sizes[v] {
            let sum = self.at(v, x, factors, values);
            if sum < least {
                (best, least) = (x, sum);
            }
        }
        best
    }

    fn at(&self, v: usize, x: usize, factors: &[Factor], values: &[usize]) -> f64 {
        let entry = |f: &Factor| {
            let mut at = 0;
            for &u in &f.scope {
                at = at * self.sizes[u] + if u == v { x } else { values[u] };
            }
            f.table.data[at]
        };
        factors.iter().map(entry).sum()
    }

    /// The least sum of `factors` over `v`, as a table over their other variables.
    fn eliminate(&mut self, v: usize, factors: &[&Factor]) -> (Vec<usize>, Table, usize) {
        let scope: Vec<usize> = factors
            .iter()
            .flat_map(|f| f.scope.iter().copied())
            .filter(|&u| u != v)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let local = |u: usize| scope.iter().position(|&s| s == u).unwrap_or(scope.len());
        let key: Vec<(usize, Vec<usize>)> =
            factors.iter().map(|f| (f.table.id, f.scope.iter().map(|&u| local(u)).collect())).collect();
        let mut sizes: Vec<usize> = scope.iter().map(|&u| self.sizes[u]).collect();
        let outer: usize = sizes.iter().product();
        let inner = self.sizes[v];
        sizes.push(inner);
        let key = (key, sizes);
        if let Some((known, used)) = self.memo.get_mut(&key) {
            *used = self.solved;
            return (scope, known.clone(), outer * inner);
        }
        let (key, sizes) = key;
        // Every factor with `v` last, so that the inner loop runs over contiguous rows.
        let last: Vec<Rc<Vec<f64>>> = factors
            .iter()
            .map(|f| {
                let at = f.scope.iter().position(|&u| u == v).expect("the bucket's factors hold the variable");
                v_last(&f.table.data, &f.scope, at, &self.sizes)
            })
            .collect();
        let walked: Vec<Walked> = last
            .iter()
            .zip(factors)
            .map(|(data, f)| Walked {
                strides: strides_without(&f.scope, v, &scope, &self.sizes),
                data: Cow::Borrowed(data),
            })
            .collect();
        let data = few_sums(&walked, &sizes[..scope.len()], inner);
        let table = self.table(data);
        self.memo.insert((key, sizes), (table.clone(), self.solved));
        (scope, table, outer * inner)
    }
}

fn index(scope: &[usize], sizes: &[usize], values: &[usize]) -> usize {
    scope.iter().fold(0, |at, &v| at * sizes[v] + values[v])
}

fn clique(v: usize, at: &BTreeSet<usize>, live: &[Option<Factor>]) -> BTreeSet<usize> {
    let scopes = at.iter().filter_map(|&n| live[n].as_ref()).flat_map(|f| f.scope.iter().copied());
    scopes.chain([v]).collect()
}

/// Bundles the factors of a bucket so that each bundle's clique stays within the budget.
fn groups(bucket: &[Factor], sizes: &[usize], budget: usize) -> Vec<Vec<usize>> {
    let entries = |scope: &BTreeSet<usize>| scope.iter().fold(1usize, |n, &v| n.saturating_mul(sizes[v]));
    let mut groups: Vec<(BTreeSet<usize>, Vec<usize>)> = Vec::new();
    let mut order: Vec<usize> = (0..bucket.len()).collect();
    order.sort_by_key(|&n| (std::cmp::Reverse(bucket[n].table.data.len()), n));
    for n in order {
        let fits = groups.iter_mut().find_map(|g| {
            let union: BTreeSet<usize> = g.0.iter().chain(&bucket[n].scope).copied().collect();
            (entries(&union) <= budget).then_some((g, union))
        });
        match fits {
            Some((group, union)) => {
                group.0 = union;
                group.1.push(n);
            }
            None => groups.push((bucket[n].scope.iter().copied().collect(), vec![n])),
        }
    }
    groups
        .into_iter()
        .map(|mut g| {
            g.1.sort_unstable();
            g.1
        })
        .collect()
}

/// For every variable of `scope`, how far apart its values are in the rows of a factor (0 if it lacks it).
fn strides_without(own: &[usize], v: usize, scope: &[usize], sizes: &[usize]) -> Vec<usize> {
    scope
        .iter()
        .map(|u| {
            own.iter()
                .position(|o| o == u)
                .map_or(0, |at| own[at + 1..].iter().filter(|&&w| w != v).map(|&w| sizes[w]).product::<usize>())
        })
        .collect()
}

/// The table with the variable at position `at` moved to the end.
fn v_last(data: &Rc<Vec<f64>>, scope: &[usize], at: usize, sizes: &[usize]) -> Rc<Vec<f64>> {
    let after: usize = scope[at + 1..].iter().map(|&u| sizes[u]).product();
    if after == 1 {
        return data.clone();
    }
    let own = sizes[scope[at]];
    let mut moved = vec![0.0; data.len()];
    for (from, to) in data.chunks(own * after).zip(moved.chunks_mut(own * after)) {
        for x in 0..own {
            for a in 0..after {
                to[a * own + x] = from[x * after + a];
            }
        }
    }
    Rc::new(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plain linear congruential generator, so that the test needs nothing else.
    pub(super) fn draw(state: &mut u64, below: usize) -> usize {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((*state >> 33) as usize) % below
    }

    fn random(seed: u64) -> Model {
        let state = &mut (seed + 1);
        let mut model = Model::default();
        let count = 2 + draw(state, 5);
        for _ in 0..count {
            model.variable(1 + draw(state, 4));
        }
        for _ in 0..count + 2 {
            let scope: BTreeSet<usize> = (0..=draw(state, 3)).map(|_| draw(state, count)).collect();
            let scope: Vec<usize> = scope.into_iter().collect();
            let entries: usize = scope.iter().map(|&v| model.sizes[v]).product();
            let table = model.table((0..entries).map(|_| draw(state, 20) as f64).collect());
            model.factor(&scope, &table);
        }
        model
    }

    fn least_of_all(model: &Model) -> f64 {
        let total: usize = model.sizes.iter().product();
        let cost = |mut code: usize| {
            let values: Vec<usize> = model
                .sizes
                .iter()
                .map(|s| {
                    let x = code % s;
                    code /= s;
                    x
                })
                .collect();
            model.cost(&values)
        };
        (0..total).map(cost).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn elimination_finds_the_least_sum() {
        for seed in 0..300 {
            let mut model = random(seed);
            let least = least_of_all(&model);
            let found = model.solve(usize::MAX);
            assert_eq!((found.cost, found.bound), (least, least), "seed {seed}");
        }
    }

    #[test]
    fn a_sweep_has_the_sums_on_its_way() {
        for seed in 0..100 {
            let mut model = random(seed);
            // An entry that forbids, so that sums come back from infinity.
            let size = model.sizes[0];
            let forbids = (0..size).map(|x| if x == 0 { f64::INFINITY } else { 0.0 }).collect();
            let table = model.table(forbids);
            model.factor(&[0], &table);
            let count = model.sizes.len();
            let (mut values, to) = (vec![0; count], model.sizes.iter().map(|s| s - 1).collect::<Vec<_>>());
            let order: Vec<usize> = (0..count).rev().collect();
            let mut expected = vec![model.cost(&values)];
            for &v in &order {
                values[v] = to[v];
                expected.push(model.cost(&values));
            }
            assert_eq!(model.sweep(&order, &vec![0; count], &to), expected, "seed {seed}");
        }
    }

    /// What eliminating tables gave that are gone is forgotten, and what stays is still right.
    #[test]
    fn others_are_forgotten() {
        let mut forgotten = 0;
        for seed in 0..100 {
            let mut model = random(seed);
            model.solve(usize::MAX);
            let before = model.memo.len();
            model.forget_others();
            assert_eq!(model.memo.len(), before, "all of it is of the model's tables, seed {seed}");
            let last = model.factors.pop().expect("a model has factors");
            let other = model.table(last.table.data.iter().map(|x| 20.0 - x).collect());
            model.factor(&last.scope, &other);
            model.forget_others();
            assert!(model.memo.len() < before, "seed {seed}");
            forgotten += usize::from(!model.memo.is_empty());
            let least = least_of_all(&model);
            let found = model.solve(usize::MAX);
            assert_eq!((found.cost, found.bound), (least, least), "seed {seed}");
        }
        assert!(forgotten > 50, "what other tables gave stays: {forgotten}");
    }

    #[test]
    fn a_small_budget_still_bounds() {
        for seed in 0..300 {
            let mut model = random(seed);
            let least = least_of_all(&model);
            let found = model.solve(6);
            let mut values = found.values.clone();
            model.polish(&mut values);
            assert!(found.bound <= least && least <= model.cost(&values), "seed {seed}");
            assert!(model.cost(&values) <= found.cost, "seed {seed}");
        }
    }
}
