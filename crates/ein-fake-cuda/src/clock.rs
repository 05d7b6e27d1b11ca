//! Simulated seconds: what everything that happens would take, and when it would be over.
//!
//! A kernel or a product has its GPU for itself, a copy the way out of one memory and the way into the other. What was
//! given as one, a graph for instance, begins when all that it comes after is over; within it whatever is ready first
//! goes first. Seconds follow from what is done alone, never from the order in which the fakes happen to do it.

use crate::machine::{Side, Speeds};
use crate::schedule::Plan;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What only one at a time may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// A GPU's multiprocessors.
    Compute(usize),
    /// The way out of a memory to others.
    Out(Side),
    /// The way into a memory from others.
    In(Side),
    /// The engine that copies within a memory.
    Within(Side),
}

/// What a node takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Seconds for which it uses what it uses.
    pub(crate) busy: f64,
    /// Seconds after that until it is over for what waits for it.
    pub(crate) after: f64,
    pub(crate) uses: Vec<Use>,
}

impl Speeds {
    /// Of a copy.
    pub(crate) fn copy(&self, from: Side, to: Side, bytes: u64) -> Cost {
        let bytes = bytes as f64;
        if from == to {
            return Cost { busy: self.launch + 2.0 * bytes / self.memory, after: 0.0, uses: vec![Use::Within(from)] };
        }
        let busy = self.launch + bytes / self.way(from, to);
        Cost { busy, after: self.latency, uses: vec![Use::Out(from), Use::In(to)] }
    }

    /// Of what a GPU computes, by the seconds that it takes beside its launch.
    pub(crate) fn computed(&self, gpu: usize, seconds: f64) -> Cost {
        let busy = self.launch + seconds * self.slower.get(&gpu).copied().unwrap_or(1.0);
        Cost { busy, after: 0.0, uses: vec![Use::Compute(gpu)] }
    }

    /// Bytes per second of copies from one memory to another.
    pub(crate) fn way(&self, from: Side, to: Side) -> f64 {
        self.ways.get(&(from, to)).copied().unwrap_or(self.copies)
    }
}

/// Seconds from the begin of a plan to its end.
pub(crate) fn makespan(plan: &Plan, costs: &[Cost]) -> f64 {
    let mut left: Vec<usize> = plan.after.iter().map(Vec::len).collect();
    let mut ready_at = vec![0.0_f64; costs.len()];
    // Seconds are not negative, so their bits have their order.
    let mut ready: BinaryHeap<Reverse<(u64, usize)>> =
        left.iter().enumerate().filter(|(_, left)| **left == 0).map(|(n, _)| Reverse((0, n))).collect();
    let (mut free, mut end): (BTreeMap<Use, f64>, f64) = (BTreeMap::new(), 0.0);
    while let Some(Reverse((_, n))) = ready.pop() {
        let Cost { busy, after, uses } = &costs[n];
        let start = uses.iter().filter_map(|u| free.get(u).copied()).fold(ready_at[n], f64::max);
        free.extend(uses.iter().map(|u| (*u, start + busy)));
        let over = start + busy + after;
        end = end.max(over);
        for &user in plan.users(n) {
            ready_at[user] = ready_at[user].max(over);
            left[user] -= 1;
            if left[user] == 0 {
                ready.push(Reverse((ready_at[user].to_bits(), user)));
            }
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{Node, Work};
    use std::sync::Arc;

    fn check(after: &[&[usize]], costs: &[Cost], expected: f64) {
        let nodes = after.iter().map(|_| Arc::new(Node { gpu: 0, work: Work::Nothing })).collect();
        let plan = Plan::new(nodes, after.iter().map(|a| a.to_vec()).collect()).expect("no circle");
        assert!((makespan(&plan, costs) - expected).abs() < 1e-12, "{} is not {expected}", makespan(&plan, costs));
    }

    #[test]
    fn ways_are_used_by_one_at_a_time_and_latencies_by_nobody() {
        let gpus = [0, 1, 2].map(Side::Gpu);
        let speeds = Speeds { launch: 1.0, latency: 0.5, copies: 10.0, memory: 100.0, ..Speeds::default() };
        let of = |a: usize, b: usize| speeds.copy(gpus[a], gpus[b], 20);
        assert_eq!((of(0, 1).busy, of(0, 1).after), (3.0, 0.5));
        assert_eq!(of(1, 1).busy, 1.4);
        check(&[], &[], 0.0);
        check(&[&[]], &[of(0, 1)], 3.5);
        // Two out of one memory, one after the other; two that have nothing in common, at once; a chain.
        check(&[&[], &[]], &[of(0, 1), of(0, 2)], 6.5);
        check(&[&[], &[]], &[of(0, 1), of(2, 0)], 3.5);
        check(&[&[], &[0]], &[of(0, 1), of(1, 2)], 7.0);
        // What computes is not in the way of what is copied, and a slower GPU takes longer.
        let slow = Speeds { slower: BTreeMap::from([(1, 2.0)]), ..speeds.clone() };
        check(&[&[], &[], &[0]], &[slow.computed(0, 2.0), slow.computed(1, 2.0), of(0, 1)], 6.5);
    }
}
