//! Candidates on trial: which are simulated, cut how finely and in which order.

use super::route::{Scheme, Score};
use super::schedule::Order;
use super::{NEAR, Question, Recipe};

/// Moves beyond which a candidate is not cut into more pieces, in all and by the device: the larger of both.
pub(super) const MOST_MOVES: usize = 8000;
const MOST_MOVES_EACH: usize = 300;
/// Seconds from which a candidate may have twice as many.
const LONG: f64 = 1e-3;
/// Moves that are simulated for a question at most, in all and by the device, but for the first candidate.
const MOST_SIMULATED: usize = 40_000;
const MOST_SIMULATED_EACH: usize = 1200;
/// What simulating anything costs, in moves.
const TO_SIMULATE: usize = 200;
/// How far above what was simulated an estimate may be and still be tried.
const SLACK: f64 = 0.2;

/// Moves of a candidate that is simulated even if its estimate is much above the best, and how much.
const FEW: usize = 1000;
const MUCH: f64 = 0.4;

/// The best of what was simulated.
struct Tried {
    /// [`Question::dear`] seconds.
    seconds: f64,
    candidate: usize,
    pieces: Vec<usize>,
    order: Order,
}

/// Candidates being simulated.
struct Trials<'a> {
    question: &'a Question<'a>,
    candidates: &'a [(Score, Scheme)],
    /// Moves that may still be simulated.
    left: usize,
    best: Option<Tried>,
}

impl Trials<'_> {
    fn seconds(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |b| b.seconds)
    }

    /// Simulates a candidate with pieces of one lag, in the order that was better for it or, if `known` has none yet,
    /// in both.
    fn try_orders(&mut self, candidate: usize, lag: f64, known: &mut Option<Order>) {
        if let Some(order) = *known {
            self.try_one(candidate, lag, order);
            return;
        }
        let score = &self.candidates[candidate].0;
        let mut least = f64::INFINITY;
        for order in [Order::Deep, Order::Justified] {
            let Some(seconds) = self.try_one(candidate, lag, order) else { return };
            if seconds < least {
                (least, *known) = (seconds, Some(order));
            }
            if score.depth <= 1 || seconds <= NEAR * (score.load + score.latency) {
                return;
            }
        }
    }

    /// The seconds of a candidate, unless that would be too much to simulate.
    fn try_one(&mut self, candidate: usize, lag: f64, order: Order) -> Option<f64> {
        let (score, scheme) = &self.candidates[candidate];
        let moves = score.estimate(self.question.net, lag).moves;
        if self.best.is_some() && moves + TO_SIMULATE > self.left {
            return None;
        }
        self.left = self.left.saturating_sub(moves + TO_SIMULATE);
        let pieces = score.pieces(lag);
        let (seconds, moves) = self.question.simulate(scheme, &pieces, order);
        let dear = self.question.dear(seconds, moves);
        if dear < self.seconds() {
            self.best = Some(Tried { seconds: dear, candidate, pieces, order });
        }
        Some(seconds)
    }
}

/// Simulates the candidates that a closed form likes best and keeps the quickest; `enough` seconds are enough.
pub(super) fn quickest(question: &Question, mut candidates: Vec<(Score, Scheme)>, enough: f64) -> Recipe {
    let mut trials = Trials {
        question,
        candidates: &candidates,
        left: MOST_SIMULATED.max(MOST_SIMULATED_EACH * question.net.devices),
        best: None,
    };
    let mut tried = vec![0usize; candidates.len()];
    let mut orders = vec![None; candidates.len()];
    // Whatever the closed form says of it: the direct one, which is the first.
    let longest = candidates[0].0.longest();
    for lag in [f64::INFINITY, longest / 2.0, longest / 4.0] {
        if lag > 0.0 {
            trials.try_one(0, lag, Order::Deep);
        }
    }
    for (estimate, moves, n, lag) in question.ranked(&candidates) {
        let best = trials.seconds();
        if best <= enough {
            break;
        }
        // The closed form may be too high, too; the load never is.
        let slack = if moves <= FEW { MUCH } else { SLACK };
        if tried[n] < 2 && estimate < (1.0 + slack) * best && candidates[n].0.load < best {
            tried[n] += 1;
            trials.try_orders(n, lag, &mut orders[n]);
        }
    }
    let best = trials.best.expect("there is at least one candidate");
    question.recipe(candidates.swap_remove(best.candidate).1, best.pieces, best.order)
}

impl Question<'_> {
    /// Seconds, a little more for every move of a device: of programs about as quick the one with fewer is better.
    fn dear(&self, seconds: f64, moves: usize) -> f64 {
        seconds * (1.0 + 8e-6 * moves as f64 / self.net.devices as f64)
    }

    /// Candidates with the longest lag of their pieces, those first that should be quickest.
    fn ranked(&self, candidates: &[(Score, Scheme)]) -> Vec<(f64, usize, usize, f64)> {
        let mut ranked: Vec<(f64, usize, usize, f64)> = Vec::new();
        for (n, (score, _)) in candidates.iter().enumerate() {
            let most_moves = self.most_moves(score);
            let mut lag = f64::INFINITY;
            let mut moves = 0;
            loop {
                let estimate = score.estimate(self.net, lag);
                if estimate.moves > moves && (moves == 0 || estimate.moves <= most_moves) {
                    // Of programs about as quick the one with fewer moves.
                    let seconds = self.dear(estimate.seconds, estimate.moves);
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

    /// How many moves a candidate may be cut into.
    fn most_moves(&self, score: &Score) -> usize {
        let most = MOST_MOVES.max(MOST_MOVES_EACH * self.net.devices);
        if score.load > LONG { 2 * most } else { most }
    }
}
