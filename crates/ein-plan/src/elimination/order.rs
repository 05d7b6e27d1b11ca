//! In which order variables are eliminated.
//!
//! The variable of the smallest clique first is a good order, but one step at a time does not see that equal layers are
//! eliminated once if each is by itself, and eighty times if what was made of the layers before is among their tables. So
//! where much is to be added up, orders are tried on scopes alone, with equal tables counted once: the kind of variable that
//! costs most is put off, until that gains no more.

use super::Factor;
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// Entries from which on another order is looked for.
const MUCH: u64 = 1 << 24;

/// Variables up to which that takes little.
const FEW: usize = 8192;

/// Other orders that are tried.
const TRIES: usize = 6;

/// How many times as large the cliques of variables that are put off seem.
const DELAY: u64 = 4;

/// How far from a variable others count as near it.
const NEAR: usize = 4;

/// An order for domains that are so many times as large at most, or as small, is about as good as one of their own.
const CLOSE: usize = 2;

/// Structures whose orders are remembered.
const KNOWN: usize = 4;

/// Orders of models of known structure.
#[derive(Debug, Default)]
pub(super) struct Orders(Vec<Known>);

/// What determines an order, and the order; `None` where the smallest clique first will do.
#[derive(Debug)]
struct Known {
    sizes: Vec<usize>,
    scopes: Vec<Vec<usize>>,
    order: Option<Vec<usize>>,
}

impl Orders {
    /// The order for these factors; nothing where it's the smallest clique first, which is also what is left where a clique
    /// is above the budget.
    pub fn best(&mut self, sizes: &[usize], factors: &[Factor], budget: usize) -> Option<&[usize]> {
        let near = |(&a, &b): (&usize, &usize)| a <= CLOSE * b && b <= CLOSE * a;
        let equal = |k: &Known| {
            k.sizes.len() == sizes.len()
                && k.sizes.iter().zip(sizes).all(near)
                && k.scopes.len() == factors.len()
                && k.scopes.iter().zip(factors).all(|(s, f)| *s == f.scope)
        };
        let at = self.0.iter().position(equal).unwrap_or_else(|| {
            let order = found(sizes, factors, budget as u64);
            if self.0.len() == KNOWN {
                self.0.remove(0);
            }
            let scopes = factors.iter().map(|f| f.scope.clone()).collect();
            self.0.push(Known { sizes: sizes.to_vec(), scopes, order });
            self.0.len() - 1
        });
        self.0[at].order.as_deref()
    }
}

fn found(sizes: &[usize], factors: &[Factor], budget: u64) -> Option<Vec<usize>> {
    if sizes.len() > FEW {
        return None;
    }
    let mut delay = vec![1; sizes.len()];
    let first = walk(sizes, factors, &delay);
    let mut least = first.entries;
    if least < MUCH || first.largest > budget {
        return None;
    }
    let kinds = kinds(sizes, factors);
    let mut paid = first.paid;
    let mut best = None;
    for _ in 0..TRIES {
        let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
        for (kind, paid) in kinds.iter().zip(&paid) {
            *sums.entry(*kind).or_default() += paid;
        }
        // The first variable of the dearest kind decides between kinds that cost the same: their names say nothing.
        let most = sums.values().copied().max()?;
        let dearest = *kinds.iter().find(|k| sums[*k] == most)?;
        delay.iter_mut().zip(&kinds).filter(|d| *d.1 == dearest).for_each(|(d, _)| *d *= DELAY);
        let tried = walk(sizes, factors, &delay);
        paid = tried.paid;
        if tried.largest <= budget && tried.entries < least {
            (least, best) = (tried.entries, Some(tried.order));
        }
    }
    best
}

/// Names of variables: equal where what is near them is.
fn kinds(sizes: &[usize], factors: &[Factor]) -> Vec<u64> {
    let mut kinds: Vec<u64> = sizes.iter().map(|&s| s as u64).collect();
    for _ in 0..NEAR {
        let mut near: Vec<Vec<(usize, usize, u64)>> = vec![Vec::new(); sizes.len()];
        for f in factors {
            for (at, &v) in f.scope.iter().enumerate() {
                let others = f.scope.iter().filter(|&&u| u != v).map(|&u| kinds[u]);
                near[v].push((f.table.id, at, hash_of(&others.collect::<Vec<_>>())));
            }
        }
        for list in &mut near {
            list.sort_unstable();
        }
        kinds = kinds.iter().zip(&near).map(|pair| hash_of(&pair)).collect();
    }
    kinds
}

fn hash_of<T: Hash>(of: &T) -> u64 {
    let mut hasher = FxHasher::default();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Of a table made by elimination: the tables with their local scopes, and sizes, the eliminated one last.
type Name = (Vec<(usize, Vec<usize>)>, Vec<usize>);

/// An elimination without numbers.
struct Walk {
    order: Vec<usize>,
    /// Entries of all cliques, equal ones once.
    entries: u64,
    /// Of the largest clique.
    largest: u64,
    /// For every variable the entries of its clique, unless an equal one came before.
    paid: Vec<u64>,
}

/// Eliminates the variable of the smallest clique first, as if cliques were so many times as large.
fn walk(sizes: &[usize], factors: &[Factor], delay: &[u64]) -> Walk {
    let count = sizes.len();
    let mut live: Vec<(Vec<usize>, usize)> = factors.iter().map(|f| (f.scope.clone(), f.table.id)).collect();
    let mut at: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); count];
    for (n, (scope, _)) in live.iter().enumerate() {
        for &v in scope {
            at[v].insert(n);
        }
    }
    let mut tables = live.iter().map(|l| l.1 + 1).max().unwrap_or(0);
    let mut known: FxHashMap<Name, usize> = FxHashMap::default();
    let clique = |v: usize, at: &[BTreeSet<usize>], live: &[(Vec<usize>, usize)]| -> Vec<usize> {
        let mut clique: Vec<usize> = at[v].iter().flat_map(|&n| live[n].0.iter().copied()).chain([v]).collect();
        clique.sort_unstable();
        clique.dedup();
        clique
    };
    let product = |vs: &[usize]| vs.iter().fold(1u64, |w, &u| w.saturating_mul(sizes[u] as u64));
    let key = |v: usize, at: &[BTreeSet<usize>], live: &[(Vec<usize>, usize)]| {
        (product(&clique(v, at, live)).saturating_mul(delay[v]), v)
    };
    let mut keys: Vec<(u64, usize)> = (0..count).map(|v| key(v, &at, &live)).collect();
    let mut queue: BTreeSet<(u64, usize)> = keys.iter().copied().collect();
    let mut walk = Walk { order: Vec::with_capacity(count), entries: 0, largest: 0, paid: vec![0; count] };
    while let Some((_, v)) = queue.pop_first() {
        walk.order.push(v);
        let all = clique(v, &at, &live);
        let entries = product(&all);
        let scope: Vec<usize> = all.iter().copied().filter(|&u| u != v).collect();
        let local = |u: usize| scope.iter().position(|&s| s == u).unwrap_or(scope.len());
        let bucket = std::mem::take(&mut at[v]);
        let name = |&n: &usize| (live[n].1, live[n].0.iter().map(|&u| local(u)).collect::<Vec<_>>());
        let named = bucket.iter().map(name).collect();
        let shape = scope.iter().chain([&v]).map(|&u| sizes[u]).collect();
        let table = *known.entry((named, shape)).or_insert_with(|| {
            walk.entries = walk.entries.saturating_add(entries);
            walk.paid[v] = entries;
            tables += 1;
            tables - 1
        });
        walk.largest = walk.largest.max(entries);
        for n in bucket {
            for &u in live[n].0.iter().filter(|&&u| u != v) {
                at[u].remove(&n);
            }
        }
        for &u in &scope {
            at[u].insert(live.len());
        }
        live.push((scope.clone(), table));
        for u in scope {
            queue.remove(&keys[u]);
            keys[u] = key(u, &at, &live);
            queue.insert(keys[u]);
        }
    }
    walk
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elimination::Model;

    /// A chain of equal links between unequal ends, each of two variables more than the chain itself, so that the smallest
    /// clique is at an end.
    fn chain(links: usize) -> Model {
        let mut model = Model::default();
        let number = |n: usize| ((n * 7919 + 13) % 1009) as f64;
        let sizes = [40, 50, 55];
        let tables = [(0, 1), (1, 2), (1, 3), (2, 3)].map(|(a, b)| {
            let size = |n: usize| sizes[n % 3];
            model.table((0..size(a) * size(b)).map(|x| number(x + 17 * a + b)).collect())
        });
        let end = model.table((0..sizes[0]).map(number).collect());
        let mut before = model.variable(sizes[0]);
        model.factor(&[before], &end);
        for _ in 0..links {
            let [a, b, next] = [sizes[1], sizes[2], sizes[0]].map(|s| model.variable(s));
            for ((from, to), table) in [(before, a), (a, b), (a, next), (b, next)].into_iter().zip(&tables) {
                model.factor(&[from, to], table);
            }
            before = next;
        }
        model
    }

    #[test]
    fn another_order_is_no_dearer_and_finds_the_same() {
        let mut others = 0;
        for links in [1, 3, 150, 400] {
            let mut model = chain(links);
            let plain = walk(&model.sizes, &model.factors, &vec![1; model.sizes.len()]);
            let mut sorted = plain.order.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..model.sizes.len()), "each once");
            let found = model.solve(usize::MAX);
            assert_eq!(found.cost, found.bound, "{links}");
            if let Some(order) = model.orders.best(&model.sizes, &model.factors, usize::MAX) {
                let order = order.to_vec();
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..model.sizes.len()), "each once");
                others += usize::from(order != plain.order);
            }
            // The least sum, from one end to the other.
            let at = |f: usize, i: usize, j: usize| {
                let f = &model.factors[f];
                f.table.data[i * model.sizes[f.scope[1]] + j]
            };
            let least = |of: &mut dyn Iterator<Item = f64>| of.fold(f64::INFINITY, f64::min);
            let mut sums: Vec<f64> = model.factors[0].table.data.to_vec();
            for _ in 0..links {
                let from = |a: usize| least(&mut (0..40).map(|x| sums[x] + at(1, x, a)));
                let first: Vec<f64> = (0..50).map(from).collect();
                let over = |a: usize, y: usize| least(&mut (0..55).map(|b| at(2, a, b) + at(4, b, y)));
                let to = |y: usize| least(&mut (0..50).map(|a| first[a] + at(3, a, y) + over(a, y)));
                sums = (0..40).map(to).collect();
            }
            let by_hand = sums.into_iter().fold(f64::INFINITY, f64::min);
            assert_eq!(found.cost, by_hand, "{links}");
        }
        assert!(others > 0, "long chains are worth another order");
    }
}
