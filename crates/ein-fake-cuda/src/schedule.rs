//! Work that was given to streams: what has to come before what, and an order of all that is free.
//!
//! A batch is one thing given to a stream, or a launched graph. What comes after a batch comes after all of it, so that
//! order is kept between batches, and within a graph between its nodes.

use crate::clock::{Cost, makespan};
use crate::races::Who;
use crate::work::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Nodes and what has to come before each.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) after: Vec<Vec<usize>>,
    users: Vec<Vec<usize>>,
    /// All that comes before each, as bits.
    before: Vec<Vec<u64>>,
}

impl Plan {
    /// A plan, or nothing if nodes wait for each other in a circle.
    pub(crate) fn new(nodes: Vec<Arc<Node>>, after: Vec<Vec<usize>>) -> Option<Self> {
        let mut users = vec![Vec::new(); nodes.len()];
        for (n, list) in after.iter().enumerate() {
            for &a in list {
                users[a].push(n);
            }
        }
        let words = nodes.len().div_ceil(64);
        let mut before = vec![vec![0u64; words]; nodes.len()];
        let mut left: Vec<usize> = after.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..nodes.len()).filter(|&n| left[n] == 0).collect();
        let mut done = 0;
        while let Some(n) = ready.pop() {
            done += 1;
            let mut own = std::mem::take(&mut before[n]);
            for &a in &after[n] {
                own[a / 64] |= 1 << (a % 64);
                own.iter_mut().zip(&before[a]).for_each(|(o, b)| *o |= b);
            }
            before[n] = own;
            for &u in &users[n] {
                left[u] -= 1;
                if left[u] == 0 {
                    ready.push(u);
                }
            }
        }
        (done == nodes.len()).then_some(Self { nodes, after, users, before })
    }

    /// The nodes that wait for one.
    pub(crate) fn users(&self, node: usize) -> &[usize] {
        &self.users[node]
    }

    fn ordered(&self, a: usize, b: usize) -> bool {
        self.before[b][a / 64] >> (a % 64) & 1 == 1
    }
}

#[derive(Debug)]
struct Batch {
    plan: Arc<Plan>,
    /// When it was given.
    given: u64,
    /// All batches before it, as far as they are kept.
    before: BTreeSet<u64>,
    /// Batches that it directly waits for and that are not done.
    waits: usize,
    followers: Vec<u64>,
    /// Of each node: how many it waits for.
    left: Vec<usize>,
    open: usize,
    /// When the host learnt that it is done.
    known: Option<u64>,
    failed: Option<u32>,
    /// What each node took.
    costs: Vec<Cost>,
    /// Simulated seconds: when it could begin at the earliest.
    begin: f64,
}

/// All work that is not forgotten.
#[derive(Debug)]
pub(crate) struct Schedule {
    batches: BTreeMap<u64, Batch>,
    ready: Vec<Who>,
    next: u64,
    clock: u64,
    random: u64,
    pending: usize,
    /// Simulated seconds at the host.
    now: f64,
    /// When batches were over, in simulated seconds, also of those that are forgotten.
    ends: BTreeMap<u64, f64>,
}

impl Schedule {
    pub(crate) fn new(seed: u64) -> Self {
        let mut new = Self {
            batches: BTreeMap::new(),
            ready: Vec::new(),
            next: 1,
            clock: 1,
            random: 0,
            pending: 0,
            now: 0.0,
            ends: BTreeMap::new(),
        };
        new.reseed(seed);
        new
    }

    pub(crate) fn reseed(&mut self, seed: u64) {
        self.random = (seed ^ 0x9e37_79b9_7f4a_7c15) | 1;
    }

    /// A number below `limit`.
    pub(crate) fn random(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) % limit.max(1) as u64) as usize
    }

    /// Takes work that comes after some batches.
    pub(crate) fn give(&mut self, plan: Arc<Plan>, after: &[u64]) -> u64 {
        let id = self.next;
        self.next += 1;
        let (mut before, mut waits, mut failed) = (BTreeSet::new(), 0, None);
        let direct: BTreeSet<u64> = after.iter().copied().filter(|a| self.batches.contains_key(a)).collect();
        for &a in &direct {
            let batch = self.batches.get_mut(&a).expect("kept");
            before.insert(a);
            before.extend(&batch.before);
            failed = failed.or(batch.failed);
            if batch.open > 0 {
                batch.followers.push(id);
                waits += 1;
            }
        }
        let left: Vec<usize> = plan.after.iter().map(Vec::len).collect();
        let costs = vec![Cost::default(); plan.nodes.len()];
        let begin = self.over(after).max(self.now);
        let open = if failed.is_some() { 0 } else { plan.nodes.len() };
        self.clock += 1;
        let (given, followers, known) = (self.clock, Vec::new(), None);
        let batch = Batch { plan, given, before, waits, followers, left, open, known, failed, costs, begin };
        self.batches.insert(id, batch);
        if open > 0 {
            self.pending += 1;
            if waits == 0 {
                self.begin(id);
            }
        } else if waits > 0 {
            // An empty graph after unfinished work is as long unfinished: it is kept by what it comes after.
            self.batches.get_mut(&id).expect("just made").waits = 0;
        }
        id
    }

    /// When all these, which are done, were over, in simulated seconds.
    pub(crate) fn over(&self, batches: &[u64]) -> f64 {
        let end = |id: &u64| match (self.ends.get(id), self.batches.get(id)) {
            (Some(end), _) => *end,
            // An empty graph, over when what it comes after is.
            (None, Some(batch)) => {
                batch.before.iter().filter_map(|b| self.ends.get(b)).fold(batch.begin, |a, b| a.max(*b))
            }
            (None, None) => 0.0,
        };
        batches.iter().map(end).fold(0.0, f64::max)
    }

    /// Simulated seconds at the host: what it waited for is over.
    pub(crate) fn now(&self) -> f64 {
        self.now
    }

    fn begin(&mut self, id: u64) {
        let batch = &self.batches[&id];
        self.ready.extend((0..batch.left.len()).filter(|&n| batch.left[n] == 0).map(|node| Who { batch: id, node }));
    }

    /// Whether all these are done.
    pub(crate) fn done(&self, batches: &[u64]) -> bool {
        batches.iter().all(|b| self.all_done(*b))
    }

    fn all_done(&self, id: u64) -> bool {
        self.batches
            .get(&id)
            .is_none_or(|b| b.open == 0 && (!b.plan.nodes.is_empty() || b.before.iter().all(|a| self.all_done(*a))))
    }

    /// Something that nothing has to come before any more.
    pub(crate) fn pick(&mut self) -> Option<(Who, Arc<Node>)> {
        if self.ready.is_empty() {
            return None;
        }
        let n = self.random(self.ready.len());
        let who = self.ready.swap_remove(n);
        Some((who, self.batches[&who.batch].plan.nodes[who.node].clone()))
    }

    /// It was done, and takes so long in simulated time.
    pub(crate) fn finish(&mut self, who: Who, cost: Cost) {
        let Some(batch) = self.batches.get_mut(&who.batch) else { return };
        batch.open -= 1;
        batch.costs[who.node] = cost;
        let plan = batch.plan.clone();
        for &u in &plan.users[who.node] {
            batch.left[u] -= 1;
            if batch.left[u] == 0 {
                self.ready.push(Who { batch: who.batch, node: u });
            }
        }
        if batch.open > 0 {
            return;
        }
        self.pending -= 1;
        let end = batch.begin + makespan(&plan, &batch.costs);
        let followers = std::mem::take(&mut batch.followers);
        self.ends.insert(who.batch, end);
        for follower in followers {
            let next = self.batches.get_mut(&follower).expect("not done");
            next.begin = next.begin.max(end);
            next.waits = next.waits.saturating_sub(1);
            if next.waits == 0 && next.open > 0 {
                self.begin(follower);
            }
        }
    }

    /// It failed: so do its graph and all that comes after it.
    pub(crate) fn fail(&mut self, who: Who, code: u32) {
        let mut list = vec![who.batch];
        while let Some(id) = list.pop() {
            let Some(batch) = self.batches.get_mut(&id) else { continue };
            if batch.open > 0 {
                self.pending -= 1;
            }
            batch.open = 0;
            batch.failed = Some(code);
            self.ends.entry(id).or_insert(batch.begin);
            list.append(&mut batch.followers);
        }
        self.ready.retain(|w| self.batches.get(&w.batch).is_some_and(|b| b.open > 0));
    }

    /// What made one of these fail.
    pub(crate) fn failure(&self, batches: &[u64]) -> Option<u32> {
        batches.iter().find_map(|b| self.batches.get(b).and_then(|b| b.failed))
    }

    /// The host waited for these: what it gives from now on comes after them. Whether nothing is kept any more.
    pub(crate) fn known(&mut self, batches: &[u64]) -> bool {
        self.clock += 1;
        self.now = self.over(batches).max(self.now);
        let now = self.clock;
        let mut all: BTreeSet<u64> = batches.iter().copied().collect();
        for b in batches {
            all.extend(self.batches.get(b).into_iter().flat_map(|b| &b.before));
        }
        for b in all {
            if let Some(batch) = self.batches.get_mut(&b) {
                batch.known = batch.known.or(Some(now));
            }
        }
        // What everything that is left was given after is ordered before it anyway.
        let oldest = self.batches.values().filter(|b| b.open > 0).map(|b| b.given).min().unwrap_or(u64::MAX);
        self.batches.retain(|_, b| b.open > 0 || b.known.is_none_or(|k| k > oldest));
        self.batches.is_empty()
    }

    /// Whether `a`, which ran, has to be before `b`.
    pub(crate) fn ordered(&self, a: Who, b: Who) -> bool {
        let (Some(first), Some(second)) = (self.batches.get(&a.batch), self.batches.get(&b.batch)) else { return true };
        if a.batch == b.batch {
            return first.plan.ordered(a.node, b.node);
        }
        second.before.contains(&a.batch) || first.known.is_some_and(|k| k < second.given)
    }

    /// What a node is called.
    pub(crate) fn name(&self, who: Who) -> String {
        let batch = self.batches.get(&who.batch);
        batch.map_or_else(|| "something that is done".into(), |b| b.plan.nodes[who.node].to_string())
    }

    /// All that was given and is kept.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.batches.keys().copied().collect()
    }

    /// Gives up everything.
    pub(crate) fn clear(&mut self) {
        self.batches.clear();
        self.ready.clear();
        self.pending = 0;
        self.ends.clear();
    }
}
