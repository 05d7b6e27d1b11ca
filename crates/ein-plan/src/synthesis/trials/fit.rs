//! How finely each leg of the best is cut where moves take time to issue: every leg by itself, since what is passed on
//! should come soon, and what holds a link up should be few.

use super::super::MOST_PACKED;
use super::super::cut::{Cuts, Sizes};
use super::super::packing::{Effort, TURNS, Taste, repack};
use super::super::schedule::{Order, Schedule};
use super::{FAR, SMALL, Trials, Tried};
use ein_task::flow::{Span, run};
use std::collections::BTreeSet;

/// How long pieces are that take alike, in geometric means of what a move takes to issue and what the load takes.
const ALIKE: [f64; 3] = [1.0, 1.3, 1.7];
/// How often a candidate is packed again with pieces that take alike.
const ROUNDS: usize = 8;
/// How much slower than it is a resource is taken for at most in a round.
const SLOWER: f64 = 1.5;
/// Latencies of the longest chain from which the load is what takes time.
const LONG: f64 = 30.0;
/// How many of the quickest candidates have their legs cut each by itself.
const FITTED: usize = 3;
/// Moves that are simulated for each of those.
const FITTING: usize = 100_000;
/// The orders in which all this is tried.
const ORDERS: [Order; 2] = [Order::Late(1), Order::Justified(1)];

/// Another way to cut one leg: how many times as many pieces, and how they differ in size.
struct Change {
    leg: usize,
    times: f64,
    sizes: Sizes,
}

impl Trials<'_> {
    /// Where moves take time to issue, and the best is far from what cannot be beaten: tries pieces that take alike, of
    /// the best and of what loads ports least, packs these again, and then cuts single legs of the quickest otherwise.
    pub(super) fn fit(&mut self, enough: f64) {
        let net = self.question.net;
        let Some(best) = self.best().filter(|b| b.lag.is_finite() && b.seconds > FAR * enough).cloned() else { return };
        let score = |n: usize| &self.candidates[n].0;
        let long = score(best.candidate).load > LONG * score(best.candidate).latency;
        let quick = best.moves <= SMALL && net.devices <= MOST_PACKED;
        if net.machine.issue.0 == 0.0 || best.depth <= 1 || !long || !quick {
            return;
        }
        let mut bases = vec![best.candidate];
        let order = |a: &&usize, b: &&usize| score(**a).load.total_cmp(&score(**b).load).then(a.cmp(b));
        bases.extend(self.each.keys().min_by(order).filter(|n| **n != best.candidate));
        for base in bases {
            self.alike(base, best.lag, enough);
        }
        let mut quickest: Vec<Tried> = self.each.values().cloned().collect();
        quickest.sort_by(|a, b| a.seconds.total_cmp(&b.seconds).then(a.candidate.cmp(&b.candidate)));
        for tried in quickest.into_iter().take(FITTED) {
            let fitted = self.fitted(tried, enough);
            self.keep(fitted);
        }
        self.polish(enough);
    }

    /// Cuts a candidate into pieces that take alike, and packs it again and again with every resource taken for as much
    /// slower as what is lost on it before its first byte and in issuing makes it.
    fn alike(&mut self, base: usize, lag: f64, enough: f64) {
        let net = self.question.net;
        let issue = net.machine.issue.0;
        let mut candidate = base;
        let mut slower = vec![1.0; net.slowness.len()];
        for round in 0..ROUNDS {
            let score = &self.candidates[candidate].0;
            let mean = (score.load * issue).sqrt();
            let mut best: Option<(f64, Schedule)> = None;
            for counts in ALIKE.map(|times| score.alike(times * mean)) {
                for order in ORDERS {
                    let cuts = Cuts::even(counts.clone());
                    let made = self.scheduled(candidate, &cuts, order);
                    let seconds = made.seconds(net);
                    self.note(candidate, lag, cuts, order, seconds, made.transfers.len());
                    if best.as_ref().is_none_or(|b| seconds < b.0) {
                        best = Some((seconds, made));
                    }
                }
            }
            let Some((_, made)) = best.filter(|_| round + 1 < ROUNDS && self.seconds() > enough) else { return };
            let lost = self.lost(&made, &run(net.machine, &made.transfers));
            for (slower, lost) in slower.iter_mut().zip(lost) {
                *slower = (*slower * lost.min(SLOWER)).sqrt();
            }
            let effort = Effort { rounds: 120, turns: TURNS, enough: 0.0, taste: Taste::default() };
            let scheme = repack(net, &self.candidates[candidate].1, &effort, &slower);
            candidate = self.candidates.len();
            self.candidates.push((scheme.score(net), scheme));
        }
    }

    /// How many times as long as its bytes take every resource is taken up if what it takes to issue its moves, and the
    /// time before the first, count too.
    fn lost(&self, made: &Schedule, spans: &[Span]) -> Vec<f64> {
        let net = self.question.net;
        let mut first = vec![f64::INFINITY; net.slowness.len()];
        let (mut bytes, mut issuing) = (vec![0.0; first.len()], vec![0.0; first.len()]);
        for (transfer, span) in made.transfers.iter().zip(spans) {
            for &r in &net.machine.links[transfer.link].resources {
                first[r] = first[r].min(span.start);
                bytes[r] += transfer.bytes as f64 * net.slowness[r];
                issuing[r] += net.machine.issue.0;
            }
        }
        let of = |r: usize| if bytes[r] > 0.0 { (bytes[r] + first[r] + issuing[r]) / bytes[r] } else { 1.0 };
        (0..first.len()).map(of).collect()
    }

    /// Cuts single legs otherwise as long as that gains something: more finely, or with less at the end, where the chain
    /// that ends last waits for a piece to come along its way; less finely where it waits for what goes before it.
    fn fitted(&mut self, mut best: Tried, enough: f64) -> Tried {
        let net = self.question.net;
        let mut left = FITTING;
        let mut made = self.scheduled(best.candidate, &best.cuts, best.order);
        let mut known = BTreeSet::from([best.cuts.clone()]);
        'better: while best.seconds > enough {
            for change in changes(&made, &run(net.machine, &made.transfers), &best.cuts) {
                let mut cuts = best.cuts.clone();
                let (count, sizes) = (&mut cuts.counts[change.leg], &mut cuts.sizes[change.leg]);
                let next = (change.times * *count as f64).round() as usize;
                *count = if change.times > 1.0 { next.max(*count + 1) } else { next.max(1) };
                *sizes = change.sizes;
                if !known.insert(cuts.clone()) {
                    continue;
                }
                for order in ORDERS {
                    let next = self.scheduled(best.candidate, &cuts, order);
                    let moves = next.transfers.len();
                    if left < 2 * moves {
                        return best;
                    }
                    left -= 2 * moves;
                    let seconds = self.question.dear(next.seconds(net), moves);
                    if seconds < best.seconds {
                        (best.seconds, best.moves, best.cuts, best.order, made) = (seconds, moves, cuts, order, next);
                        continue 'better;
                    }
                }
            }
            return best;
        }
        best
    }
}

/// What might let the chain of moves that ends last end sooner, the likeliest first.
fn changes(made: &Schedule, spans: &[Span], cuts: &Cuts) -> Vec<Change> {
    let (coming, queued) = made.waits(spans, cuts.counts.len());
    let legs = |waits: &[f64]| {
        let mut legs: Vec<usize> = (0..waits.len()).filter(|&l| waits[l] > 0.0).collect();
        legs.sort_by(|&a, &b| waits[b].total_cmp(&waits[a]).then(a.cmp(&b)));
        legs
    };
    let (coming, queued) = (legs(&coming), legs(&queued));
    let change = |leg: usize, times: f64, sizes: Sizes| Change { leg, times, sizes };
    let finer =
        |&l: &usize| [change(l, 1.3, Sizes::Falling), change(l, 1.5, cuts.sizes[l]), change(l, 1.3, Sizes::Humped)];
    let coarser = |&l: &usize| [change(l, 0.7, cuts.sizes[l]), change(l, 1.0, Sizes::Falling)];
    let much_finer = |&l: &usize| change(l, 2.5, cuts.sizes[l]);
    let ways = coming.iter().flat_map(finer).chain(queued.iter().flat_map(coarser));
    ways.chain(coming.iter().map(much_finer)).collect()
}
