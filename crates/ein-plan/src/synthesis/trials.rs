//! Candidates on trial: which are simulated, cut how finely and in which order.

mod fit;
mod improve;

use super::cut::{Cuts, Piece, Sizes, cut};
use super::route::{Scheme, Score};
use super::schedule::{Order, Schedule, ordered};
use super::{NEAR, Question, Recipe};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Moves beyond which a candidate is not cut into more pieces, in all and by the device: the larger of both.
pub(super) const MOST_MOVES: usize = 8000;
const MOST_MOVES_EACH: usize = 560;
/// The same of machines with more devices than a server has, whose trees are deep.
const MOST_MOVES_OF_MANY: usize = 1650;
const MANY: usize = 17;
/// Seconds from which a candidate may have twice as many.
const LONG: f64 = 1e-3;
/// Moves that are simulated for a question at most, in all and by the device, but for the first candidate.
const MOST_SIMULATED: usize = 40_000;
const MOST_SIMULATED_EACH: usize = 4000;
/// Moves that may be simulated for what is tried last whatever was simulated before.
const KEPT: usize = 10_000;
/// What simulating anything costs, in moves.
const TO_SIMULATE: usize = 200;
/// How far above what was simulated an estimate may be and still be tried.
const SLACK: f64 = 0.2;

/// Moves of a candidate that is simulated even if its estimate is much above the best, and how much.
const FEW: usize = 1000;
const MUCH: f64 = 0.4;

/// Of those that could be quicker than the best by so much at best, how many are tried whatever their estimate is, and
/// the moves of each.
const HOPEFUL: usize = 3;
const MUCH_QUICKER: f64 = 0.99;
const SMALL: usize = 2500;

/// How much longer than the quickest a candidate may take whose moves wait for fewer others: what a plan's exchanges are
/// priced at counts the latency of every move of the longest chain.
const AS_QUICK: f64 = 1.01;
/// The same where all that moves comes from one device and goes to one: programs by hand are to be no quicker.
const AS_QUICK_STRAIGHT: f64 = 1.001;
/// How much longer than the quickest what a less deep candidate needs at least may be for it to be cut more finely, too.
const CONTENDS: f64 = 1.01;
/// How many less deep candidates than the best that could be as quick are cut more finely.
const CONTENDERS: usize = 2;

/// How much sooner than with coarser pieces a candidate should end to be cut more finely.
const FINER: f64 = 0.99;
/// How far above what cannot be beaten the best is so far that it is tried harder.
const FAR: f64 = 1.1;
/// The least that a further try has to gain for there to be another.
const GAIN: f64 = 0.998;

/// What was simulated.
#[derive(Clone)]
struct Tried {
    /// [`Question::dear`] seconds.
    seconds: f64,
    candidate: usize,
    /// Moves on its longest chain.
    depth: usize,
    moves: usize,
    lag: f64,
    cuts: Cuts,
    order: Order,
}

/// Candidates being simulated.
struct Trials<'a> {
    question: &'a Question<'a>,
    candidates: Vec<(Score, Scheme)>,
    /// Moves that may still be simulated.
    left: usize,
    /// The quickest of every candidate.
    each: BTreeMap<usize, Tried>,
    /// Seconds and moves of all that was simulated.
    known: BTreeMap<(usize, Cuts, Order), (f64, usize)>,
    /// The pieces made last.
    pieces: Option<(usize, Cuts, Rc<Vec<Piece>>)>,
}

impl Trials<'_> {
    /// Seconds of the quickest.
    fn seconds(&self) -> f64 {
        self.each.values().map(|t| t.seconds).fold(f64::INFINITY, f64::min)
    }

    /// Of those about as quick as the quickest the least deep, and of these the quickest.
    fn best(&self) -> Option<&Tried> {
        let most = self.question.as_quick() * self.seconds();
        let order = |a: &&Tried, b: &&Tried| a.depth.cmp(&b.depth).then(a.seconds.total_cmp(&b.seconds));
        self.each.values().filter(|t| t.seconds <= most).min_by(order)
    }

    /// Keeps what is quicker than what is known of its candidate.
    fn keep(&mut self, tried: Tried) {
        if self.each.get(&tried.candidate).is_none_or(|known| tried.seconds < known.seconds) {
            self.each.insert(tried.candidate, tried);
        }
    }

    /// Simulates a candidate with pieces of one lag, in the order that was better for it or, if `known` has none yet,
    /// in both.
    fn try_orders(&mut self, candidate: usize, lag: f64, known: &mut Option<Order>) {
        if let Some(order) = *known {
            self.try_one(candidate, lag, order);
            return;
        }
        let score = &self.candidates[candidate].0;
        let (depth, near) = (score.depth, NEAR * (score.load + score.latency));
        let few = score.estimate(self.question.net, lag).moves <= SMALL;
        let mut least = f64::INFINITY;
        for order in [Order::Deep, Order::Justified(1), Order::Justified(0)] {
            if order == Order::Justified(0) && !few {
                return;
            }
            let Some(seconds) = self.try_one(candidate, lag, order) else { return };
            if seconds < least {
                (least, *known) = (seconds, Some(order));
            }
            if depth <= 1 || seconds <= near && order != Order::Justified(1) {
                return;
            }
        }
    }

    /// The seconds of a candidate, unless that would be too much to simulate.
    fn try_one(&mut self, candidate: usize, lag: f64, order: Order) -> Option<f64> {
        self.try_sizes(candidate, lag, Sizes::Even, order)
    }

    fn try_sizes(&mut self, candidate: usize, lag: f64, sizes: Sizes, order: Order) -> Option<f64> {
        let cuts = Cuts::sized(self.afforded(candidate, lag)?, sizes);
        let key = (candidate, cuts, order);
        let known = self.known.get(&key).copied();
        let (seconds, moves) = known.unwrap_or_else(|| {
            let made = self.scheduled(candidate, &key.1, order);
            (made.seconds(self.question.net), made.transfers.len())
        });
        self.known.insert(key.clone(), (seconds, moves));
        self.note(candidate, lag, key.1, order, seconds, moves);
        Some(seconds)
    }

    /// Takes what it costs to simulate a candidate from what may be; how it is cut, or `None` if there is too little left.
    fn afforded(&mut self, candidate: usize, lag: f64) -> Option<Vec<usize>> {
        let score = &self.candidates[candidate].0;
        let cost = score.estimate(self.question.net, lag).moves + TO_SIMULATE;
        if !self.each.is_empty() && cost > self.left {
            return None;
        }
        self.left = self.left.saturating_sub(cost);
        Some(score.pieces(lag))
    }

    fn note(&mut self, candidate: usize, lag: f64, cuts: Cuts, order: Order, seconds: f64, moves: usize) {
        let depth = self.candidates[candidate].0.depth;
        self.keep(Tried { seconds: self.question.dear(seconds, moves), candidate, depth, moves, lag, cuts, order });
    }

    fn scheduled(&mut self, candidate: usize, cuts: &Cuts, order: Order) -> Schedule {
        let Question { net, exchange, .. } = *self.question;
        let scheme = &self.candidates[candidate].1;
        let pieces = match &self.pieces {
            Some((n, known, pieces)) if *n == candidate && known == cuts => Rc::clone(pieces),
            _ => cut(exchange, scheme, cuts),
        };
        let made = ordered(net, exchange, scheme, &pieces, order);
        self.pieces = Some((candidate, cuts.clone(), pieces));
        made
    }

    /// Cuts the best into finer pieces as long as that gains something, and those that are less deep and could be as quick
    /// until they are.
    fn refine(&mut self, enough: f64) {
        let Some(best) = self.best() else { return };
        let (candidate, depth) = (best.candidate, best.depth);
        self.refined(candidate, enough);
        let net = self.question.net;
        let contends = |n: &usize| {
            let score = &self.candidates[*n].0;
            score.depth < depth && score.load + net.least_latency <= CONTENDS * self.seconds()
        };
        let known = |n: usize| {
            let estimate = || self.candidates[n].0.estimate(net, f64::INFINITY).seconds;
            self.each.get(&n).map_or_else(estimate, |t| t.seconds)
        };
        let mut less: Vec<usize> = (0..self.candidates.len()).filter(contends).collect();
        less.sort_by(|&a, &b| known(a).total_cmp(&known(b)).then(a.cmp(&b)));
        for candidate in less.into_iter().take(CONTENDERS) {
            if !self.each.contains_key(&candidate) {
                self.try_one(candidate, f64::INFINITY, Order::Deep);
            }
            self.refined(candidate, enough.max(self.question.as_quick() * self.seconds()));
        }
    }

    fn refined(&mut self, candidate: usize, enough: f64) {
        while let Some(known) = self.each.get(&candidate)
            && known.seconds > enough
        {
            let (order, seconds) = (known.order, known.seconds);
            let score = &self.candidates[candidate].0;
            let lag = if known.lag.is_finite() { known.lag } else { score.longest() };
            let fits = |lag: &f64| {
                let moves = score.estimate(self.question.net, *lag).moves;
                score.depth > 1 && moves <= self.question.most_moves(score)
            };
            let Some(lag) = [0.5, 0.72].map(|times| times * lag).into_iter().find(fits) else { return };
            // Trees over many devices are cut into many pieces or not at all.
            if self.question.net.devices >= MANY {
                self.left = self.left.max(self.question.most_moves(score) + TO_SIMULATE);
            }
            if self.try_one(candidate, lag, order).is_none() || self.each[&candidate].seconds > GAIN * seconds {
                return;
            }
        }
    }

    /// Tries what the closed form thinks too little of: of the candidates with few moves those that could be much quicker
    /// than the best if nothing had to wait.
    fn hopeful(&mut self, tried: &BTreeSet<(usize, Vec<usize>)>) {
        let mut hopeful: Vec<(f64, usize, f64)> = Vec::new();
        for (n, (score, _)) in self.candidates.iter().enumerate() {
            let (mut lag, mut moves) = (score.longest(), 0);
            while score.depth > 1 && lag > 1e-3 * score.load {
                let estimate = score.estimate(self.question.net, lag);
                if estimate.moves > SMALL {
                    break;
                }
                let best = score.hopeful(self.question.net, lag);
                if estimate.moves > moves
                    && best < MUCH_QUICKER * self.seconds()
                    && !tried.contains(&(n, score.pieces(lag)))
                {
                    hopeful.push((best, n, lag));
                }
                (moves, lag) = (estimate.moves, lag / 2.0);
            }
        }
        hopeful.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.2.total_cmp(&a.2)).then(a.1.cmp(&b.1)));
        let mut orders = vec![None; self.candidates.len()];
        for (best, n, lag) in hopeful.into_iter().take(HOPEFUL) {
            if best < MUCH_QUICKER * self.seconds() {
                self.try_orders(n, lag, &mut orders[n]);
            }
        }
    }
}

/// What trials found.
pub(super) struct Found {
    /// [`Question::dear`] seconds.
    pub(super) seconds: f64,
    depth: usize,
    pub(super) recipe: Recipe,
}

impl Found {
    /// The quicker of two, or the less deep if the one takes no more than `as_quick` times as long as the other.
    pub(super) fn or(self, other: Found, as_quick: f64) -> Found {
        let least = self.seconds.min(other.seconds);
        let key = |f: &Found| (if f.seconds <= as_quick * least { f.depth } else { usize::MAX }, f.seconds);
        let ((own, seconds), (others, theirs)) = (key(&self), key(&other));
        if own.cmp(&others).then(seconds.total_cmp(&theirs)).is_le() { self } else { other }
    }
}

/// Simulates the first `always` candidates, and those that a closed form likes best, and keeps the quickest or one about
/// as quick that is less deep; `enough` seconds are enough.
pub(super) fn quickest(question: &Question, candidates: Vec<(Score, Scheme)>, always: usize, enough: f64) -> Found {
    // Several shapes and packings are often one and the same.
    let mut distinct: Vec<(Score, Scheme)> = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        if !distinct.iter().any(|known| known.0 == candidate.0) {
            distinct.push(candidate);
        }
    }
    let candidates = distinct;
    let mut trials = Trials {
        question,
        candidates,
        left: MOST_SIMULATED.max(MOST_SIMULATED_EACH * question.net.devices),
        each: BTreeMap::new(),
        known: BTreeMap::new(),
        pieces: None,
    };
    let mut tried = vec![0usize; trials.candidates.len()];
    let mut orders = vec![None; trials.candidates.len()];
    let mut known = BTreeSet::new();
    for n in 0..always.min(trials.candidates.len()) {
        let longest = trials.candidates[n].0.longest();
        for lag in [f64::INFINITY, longest / 2.0, longest / 4.0] {
            if lag > 0.0 {
                trials.try_one(n, lag, Order::Deep);
            }
        }
    }
    for (estimate, moves, n, lag) in question.ranked(&trials.candidates) {
        let best = trials.seconds();
        let depth = trials.best().map_or(usize::MAX, |b| b.depth);
        // Who is as quick and less deep is better all the same.
        if best <= enough && (depth <= 1 || trials.candidates[n].0.depth >= depth) {
            continue;
        }
        // The closed form may be too high, too; the load never is.
        let slack = if moves <= FEW { MUCH } else { SLACK };
        if tried[n] < 2 && estimate < (1.0 + slack) * best && trials.candidates[n].0.load < best {
            tried[n] += 1;
            known.insert((n, trials.candidates[n].0.pieces(lag)));
            trials.try_orders(n, lag, &mut orders[n]);
        }
    }
    if trials.seconds() > enough {
        if trials.seconds() > FAR * enough {
            trials.left += MOST_SIMULATED;
        }
        trials.left = trials.left.max(KEPT);
        trials.hopeful(&known);
        trials.left = trials.left.max(question.most_moves_alike() + TO_SIMULATE);
        trials.refine(enough);
        if trials.seconds() > FAR * enough {
            trials.left = trials.left.max(MOST_SIMULATED);
            trials.vary();
        }
        trials.polish(enough);
        let before = trials.seconds();
        trials.repack(enough);
        if trials.seconds() < before {
            trials.polish(enough);
        }
        let before = trials.seconds();
        trials.thrifty(enough);
        if trials.seconds() < GAIN * before {
            trials.polish(enough);
        }
        trials.fit(enough);
    } else {
        trials.refine(enough);
    }
    let Tried { seconds, candidate, depth, cuts, order, .. } =
        trials.best().cloned().expect("there is at least one candidate");
    Found { seconds, depth, recipe: question.recipe(trials.candidates.swap_remove(candidate).1, cuts, order) }
}

impl Question<'_> {
    /// How many times as long as the quickest a less deep candidate may take.
    pub(super) fn as_quick(&self) -> f64 {
        let straight = self.shared.iter().all(|b| b.finished && b.readers.len() == 1);
        if straight { AS_QUICK_STRAIGHT } else { AS_QUICK }
    }

    /// Seconds, a little more for every move of a device: of programs about as quick the one with fewer is better.
    fn dear(&self, seconds: f64, moves: usize) -> f64 {
        seconds * (1.0 + 4e-6 * moves as f64 / self.net.devices as f64)
    }

    /// Candidates with the longest lag of their pieces, those first that should be quickest.
    fn ranked(&self, candidates: &[(Score, Scheme)]) -> Vec<(f64, usize, usize, f64)> {
        let mut ranked: Vec<(f64, usize, usize, f64)> = Vec::new();
        for (n, (score, _)) in candidates.iter().enumerate() {
            let most_moves = self.most_moves(score);
            let mut lag = f64::INFINITY;
            let mut moves = 0;
            let mut coarser = f64::INFINITY;
            loop {
                let estimate = score.estimate(self.net, lag);
                // Finer pieces only where they should gain something.
                let gains = estimate.seconds < FINER * coarser;
                if estimate.moves > moves && (moves == 0 || gains && estimate.moves <= most_moves) {
                    coarser = estimate.seconds;
                    // Of programs about as quick the one with fewer moves.
                    let seconds = estimate.seconds * (1.0 + 8e-6 * estimate.moves as f64 / self.net.devices as f64);
                    ranked.push((seconds, estimate.moves, n, lag));
                    moves = estimate.moves;
                }
                lag = if lag.is_finite() { lag / 2.0 } else { score.longest() / 2.0 };
                if score.depth <= 1 || estimate.moves > most_moves || lag < 1e-3 * score.load {
                    break;
                }
            }
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        ranked
    }

    /// How many moves a candidate that takes no long time may be cut into.
    fn most_moves_alike(&self) -> usize {
        let each = if self.net.devices < MANY { MOST_MOVES_EACH } else { MOST_MOVES_OF_MANY };
        MOST_MOVES.max(each * self.net.devices)
    }

    /// How many moves a candidate may be cut into.
    fn most_moves(&self, score: &Score) -> usize {
        let most = self.most_moves_alike();
        if score.load > LONG && most == MOST_MOVES { 2 * most } else { most }
    }
}
