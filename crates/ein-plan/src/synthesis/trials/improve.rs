//! What is done with the best of the trials, and with a few others: their moves are put in a better order, they are packed
//! again with what was late taken for slower, and they are cut otherwise.

use super::super::MOST_PACKED;
use super::super::cut::{Cuts, Sizes};
use super::super::packing::{Effort, TURNS, Taste, repack};
use super::super::schedule::Order;
use super::{FAR, GAIN, MOST_SIMULATED, Trials, Tried};
use ein_task::flow::run;

/// How far above what cannot be beaten the best is packed again, and how much a late end counts.
const MISSED: f64 = 1.03;
const FEEDBACK: f64 = 0.5;
/// Moves that are simulated to put those of the best in a better order.
const POLISH: usize = 8_000;
/// How much less than the best's the load of another candidate is for it to be put in order again and again.
const LESS: f64 = 0.97;
/// How many times as hard the best is tried where it is far from what cannot be beaten.
const HARDER: usize = 5;
/// How many other candidates are then put in order again and again.
const OTHERS: usize = 3;
/// How much longer than the quickest what was packed again may take for it to be packed once more.
const HOPE: f64 = 1.3;
/// How many times as long pieces are tried where each takes time to issue.
const COARSER: [f64; 3] = [1.6, 2.5, 4.0];
/// Moves that are simulated for that.
const THRIFT: usize = 80_000;

impl Trials<'_> {
    /// The quickest few of other candidates that load ports less than `best`, or of all if it is far from what cannot be
    /// beaten: they may only be in a bad order.
    fn others(&self, best: &Tried, enough: f64) -> Vec<Tried> {
        let load = |t: &Tried| self.candidates[t.candidate].0.load;
        let (far, missed) = (best.seconds > FAR * enough, best.seconds > MISSED * enough);
        let worth = |t: &&Tried| t.candidate != best.candidate && (far || missed && load(t) < LESS * load(best));
        let mut others: Vec<Tried> = self.each.values().filter(worth).cloned().collect();
        others.sort_by(|a, b| a.seconds.total_cmp(&b.seconds).then(a.candidate.cmp(&b.candidate)));
        others.truncate(OTHERS);
        others
    }

    /// Packs the best again, and others that load ports less.
    pub(super) fn repack(&mut self, enough: f64) {
        let Some(best) = self.best().cloned() else { return };
        if self.question.net.devices > MOST_PACKED || best.seconds <= MISSED * enough {
            return;
        }
        let load = |t: &Tried| self.candidates[t.candidate].0.load;
        let mut others = self.others(&best, enough);
        others.retain(|t| load(t) < LESS * load(&best));
        if !others.is_empty() {
            self.left = self.left.max(MOST_SIMULATED);
        }
        let times = if best.seconds > FAR * enough || !others.is_empty() { HARDER } else { 1 };
        for base in std::iter::once(best).chain(others) {
            self.repacked(&base, times, enough);
        }
    }

    /// Packs a candidate again and again, each time with what was done last taken for slower than it is: what shares a
    /// port gets equal parts of it and not what the shares of its routes ask for, and what comes late keeps others waiting.
    fn repacked(&mut self, base: &Tried, times: usize, enough: f64) {
        let question = self.question;
        let net = question.net;
        let (score, scheme) = &self.candidates[base.candidate];
        // Where latency is most of it, packing gains nothing.
        if score.depth <= 1 || score.load <= score.latency {
            return;
        }
        let (lag, order) = (base.lag, base.order);
        let mut scheme = scheme.clone();
        let mut slower = vec![1.0; net.slowness.len()];
        let mut made = self.scheduled(base.candidate, &base.cuts, order);
        let mut spans = run(net.machine, &made.transfers);
        let (mut first, mut before) = (f64::INFINITY, f64::INFINITY);
        for round in 0..times {
            let mut ends = vec![0.0f64; slower.len()];
            for (span, transfer) in spans.iter().zip(&made.transfers) {
                for &r in &net.machine.links[transfer.link].resources {
                    ends[r] = ends[r].max(span.sent);
                }
            }
            let last = ends.iter().copied().fold(0.0, f64::max);
            for (slower, end) in slower.iter_mut().zip(ends) {
                *slower *= (end / last).max(0.5).powf(FEEDBACK);
            }
            let effort = Effort { rounds: 60, turns: TURNS, enough: 0.0, taste: Taste::default() };
            scheme = repack(net, &scheme, &effort, &slower);
            let score = scheme.score(net);
            let (candidate, load) = (self.candidates.len(), score.load);
            self.candidates.push((score, scheme.clone()));
            let Some(counts) = self.afforded(candidate, lag) else { return };
            let cuts = Cuts::sized(counts, base.cuts.sizes[0]);
            made = self.scheduled(candidate, &cuts, order);
            spans = run(net.machine, &made.transfers);
            let seconds = spans.iter().map(|s| s.arrived).fold(0.0, f64::max);
            self.known.insert((candidate, cuts.clone(), order), (seconds, made.transfers.len()));
            self.note(candidate, lag, cuts, order, seconds, made.transfers.len());
            // Once it gets worse it goes on doing so.
            if seconds > before || self.seconds() <= MISSED * enough {
                return;
            }
            // It gains about as much in a round as in those before, and never gets below its load.
            let hoped = if round == 0 {
                first = seconds;
                seconds / HOPE
            } else {
                let gain = (before - seconds).max((first - seconds) / round as f64);
                (seconds - gain * (times - round - 1) as f64).max(load)
            };
            if hoped > self.seconds() {
                return;
            }
            before = seconds;
        }
    }

    /// Puts the moves of the best in order again and again, as long as that gains something; of a few other candidates, too,
    /// where the best is far from what cannot be beaten.
    pub(super) fn polish(&mut self, enough: f64) {
        let Some(best) = self.best().cloned() else { return };
        let far = best.seconds > FAR * enough;
        let mut all = vec![best];
        all.extend(self.others(&all[0], enough));
        let hard = far || all.len() > 1;
        for (n, tried) in all.into_iter().enumerate() {
            // Where many are put in order again one late order is enough.
            if (n == 0 || !far) && tried.seconds > MISSED * enough && tried.depth > 1 && tried.moves <= POLISH {
                self.try_one(tried.candidate, tried.lag, Order::Late(1));
            }
            let known = self.each.get(&tried.candidate).cloned().unwrap_or(tried);
            let found = self.polished(known, enough, if hard { HARDER * POLISH } else { POLISH });
            self.keep(found);
        }
    }

    fn polished(&mut self, mut best: Tried, enough: f64, mut left: usize) -> Tried {
        if self.candidates[best.candidate].0.depth <= 1 {
            return best;
        }
        let net = self.question.net;
        let (mut order, mut last) = (best.order, best.seconds);
        let mut made = None;
        while best.seconds > enough
            && left >= 2 * best.moves
            && let Some(again) = order.again()
        {
            left -= 2 * best.moves;
            let before = made.unwrap_or_else(|| self.scheduled(best.candidate, &best.cuts, order));
            let after = before.justified(net);
            let seconds = self.question.dear(after.seconds(net), after.transfers.len());
            if seconds < best.seconds {
                (best.seconds, best.order) = (seconds, again);
            }
            if seconds > GAIN * last {
                break;
            }
            (order, last, made) = (again, seconds, Some(after));
        }
        best
    }

    /// Tries the best with pieces a little larger and smaller.
    pub(super) fn vary(&mut self) {
        let Some(best) = self.best().cloned() else { return };
        let longest = self.candidates[best.candidate].0.longest();
        for times in [0.6, 0.8, 1.25, 1.6] {
            let lag = times * if best.lag.is_finite() { best.lag } else { longest };
            self.try_one(best.candidate, lag, best.order);
        }
    }

    /// Tries the best with fewer pieces, and with pieces of other sizes, where each takes time to issue.
    pub(super) fn thrifty(&mut self, enough: f64) {
        let Some(best) = self.best().filter(|b| b.lag.is_finite() && b.seconds > enough).cloned() else { return };
        if self.question.net.machine.issue.0 == 0.0 || best.depth <= 1 {
            return;
        }
        let (candidate, order) = (best.candidate, best.order);
        self.left = THRIFT;
        let mut last = best.seconds;
        for times in COARSER {
            self.try_one(candidate, times * best.lag, order);
            let seconds = self.each[&candidate].seconds;
            if seconds >= last {
                break;
            }
            last = seconds;
        }
        let lag = self.each[&candidate].lag;
        for sizes in [Sizes::Falling, Sizes::Humped, Sizes::Staggered] {
            for times in [1.0, 2.0] {
                self.try_sizes(candidate, times * lag, sizes, order);
            }
        }
    }
}
