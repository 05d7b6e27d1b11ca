//! From an exchange question to a program.
//!
//! 1. *Bundles*: the boxes of one signature (who holds each partial, who reads) are one bundle.
//! 2. *Shapes*: direct, one owner, sliced owners, ring, halving, two levels: each a scheme, that is shares of every
//!    bundle on routes.
//! 3. *Packing*: where none of them loads the links near the bound, shares move to cheaper routes until the
//!    busiest resource is within a per cent of it or nothing helps.
//! 4. *Schedule*: the shares become boxes, cut in pieces that follow each other along deep routes, and their moves
//!    get an order. The best few by a closed form are simulated, and the quickest is kept.
//! 5. *Steps*: the schedule becomes the rows of a program. The checker has the last word.

mod bundle;
mod compose;
mod emit;
mod naive;
mod net;
mod packing;
mod route;
mod schedule;
mod seeds;

use ein_ir::region::Region;
use ein_task::bounds::{self, Bound};
use ein_task::exchange::{Exchange, Program};
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use net::{Net, Ways};
use packing::{Effort, pack};
use route::{Scheme, Score};
use schedule::{Order, Schedule, schedule};
use seeds::Seeds;
use std::rc::Rc;

pub use naive::naive;

/// Why there is no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SynthesisError {
    /// A need holds no point; such needs are to be left out of the question.
    #[error("need {need} at {device} is the empty box {region}")]
    EmptyNeed {
        /// Its position.
        need: usize,
        /// Its device.
        device: DeviceId,
        /// Its box.
        region: Region,
    },
    /// A need lies outside the tensor.
    #[error("need {need} at {device} is {region}, which is not inside the tensor's {whole}")]
    Outside {
        /// Its position.
        need: usize,
        /// Its device.
        device: DeviceId,
        /// Its box.
        region: Region,
        /// The tensor.
        whole: Region,
    },
    /// A device that the machine does not have.
    #[error("{device} is named, but the machine `{machine}` has {devices} devices")]
    NoDevice {
        /// The device.
        device: DeviceId,
        /// The machine's name.
        machine: String,
        /// How many it has.
        devices: usize,
    },
    /// A box that is needed and that no block contains.
    #[error("{region} is needed at {readers}, but no block contains it")]
    Missing {
        /// The box.
        region: Region,
        /// Who needs it.
        readers: DeviceSet,
    },
    /// No links lead there.
    #[error("no links lead from {from} to {to}")]
    Unreachable {
        /// Where the data is.
        from: DeviceSet,
        /// Where it is needed.
        to: DeviceId,
    },
}

/// What makes one program better than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Aim {
    /// Simulated time.
    #[default]
    Seconds,
    /// Bytes over links; ties by time.
    Bytes,
}

/// The program of least time found.
pub fn synthesize(exchange: &Exchange, machine: &Machine) -> Result<Program, SynthesisError> {
    synthesize_for(exchange, machine, Aim::Seconds)
}

/// The best program found.
pub fn synthesize_for(exchange: &Exchange, machine: &Machine, aim: Aim) -> Result<Program, SynthesisError> {
    admit(exchange, machine)?;
    let net = Net::new(machine);
    let separate = Rc::new(bundle::separate(exchange)?);
    let largest = separate.iter().map(|b| b.bytes.max(b.pending)).max().unwrap_or(0);
    let ways = Ways::new(&net, &net.alone(largest as f64));
    let question = Question { net: &net, exchange, ways: &ways };
    let direct = Seeds { net: &net, bundles: separate, ways: &ways, at_reader: true }
        .direct()
        .ok_or_else(|| question.unreachable())?;
    let (scheme, schedule) = match aim {
        Aim::Seconds => question.quickest(direct)?,
        Aim::Bytes => question.smallest(direct)?,
    };
    let program = emit::emit(&net, exchange, &scheme, &schedule);
    debug_assert_eq!(
        ein_task::check::check(exchange, &program, machine)
            .and_then(|pieces| ein_task::check::check_rendezvous(&program, &pieces, machine)),
        Ok(()),
        "{program}"
    );
    Ok(program)
}

/// The bound of a question, with the prices at which packing comes to rest tried too: sharper where data goes far,
/// and dearer to find, than [`bounds::bound`] alone, which proves it all the same.
pub fn bound(exchange: &Exchange, machine: &Machine) -> Result<Bound, SynthesisError> {
    admit(exchange, machine)?;
    let atoms = exchange.atoms();
    let mut bound = bounds::bound(exchange, &atoms, machine);
    let net = Net::new(machine);
    let bundles = Rc::new(bundle::shared(exchange, exchange.atoms())?);
    if net.devices > MOST_PACKED || bundles.is_empty() {
        return Ok(bound);
    }
    let largest = bundles.iter().map(|b| b.bytes.max(b.pending)).max().unwrap_or(0);
    let ways = Ways::new(&net, &net.alone(largest as f64));
    let seeds = Seeds { net: &net, bundles, ways: &ways, at_reader: true };
    if let Some(start) = seeds.whole(true) {
        for prices in packing::prices(&net, &start, &Effort { rounds: 200, enough: 0.0 }) {
            let proved = bounds::proved(exchange, &atoms, machine, &prices);
            bound.fold = ein_task::units::Seconds(bound.fold.0.max(proved.0));
        }
    }
    Ok(bound)
}

/// A question with what every candidate is made from.
struct Question<'a> {
    net: &'a Net<'a>,
    exchange: &'a Exchange,
    ways: &'a Ways,
}

/// Moves beyond which a candidate is not cut into more pieces, on machines of a few dozen devices at most.
const MOST_MOVES: usize = 8000;
/// Seconds from which a candidate may have twice as many.
const LONG: f64 = 1e-3;
/// Hops beyond which known shapes are not laid out.
const MOST_HOPS: usize = 20_000;
/// Devices beyond which schemes are not packed.
const MOST_PACKED: usize = 16;
/// How far above the bound is near enough.
const NEAR: f64 = 1.01;

impl Question<'_> {
    fn simple(&self, scheme: &Scheme) -> Schedule {
        schedule(self.net, self.exchange, scheme, &vec![1; scheme.legs.len()], Order::Deep)
    }

    /// The scheme and schedule of least simulated time.
    fn quickest(&self, direct: Scheme) -> Result<(Scheme, Schedule), SynthesisError> {
        let issue = self.net.machine.issue.0;
        let score = direct.score(self.net);
        let simple = self.simple(&direct);
        if score.depth == 0 {
            return Ok((direct, simple));
        }
        let atoms = self.exchange.atoms();
        let bound = bounds::bound(self.exchange, &atoms, self.net.machine);
        let least = bound.total().0;
        let near =
            |seconds: f64| seconds <= NEAR * least + issue || seconds <= least + issue + 0.01 * self.net.least_latency;
        if score.depth <= 1 && near(simple.seconds(self.net)) {
            return Ok((direct, simple));
        }
        let bundles = Rc::new(bundle::shared(self.exchange, atoms)?);
        let mut candidates = vec![(score, direct.clone())];
        let single = bundles.iter().any(|b| b.readers.len() == 1 && !b.finished);
        let variants: &[bool] = if single { &[true, false] } else { &[true] };
        for &at_reader in variants {
            let seeds = Seeds { net: self.net, bundles: Rc::clone(&bundles), ways: self.ways, at_reader };
            let owned = |b: &bundle::Bundle| seeds.owners(b).len() * (b.readers.len() + b.holders.len());
            if bundles.iter().map(owned).sum::<usize>() <= MOST_HOPS {
                self.seeded(&seeds, &mut candidates);
            }
        }
        candidates.sort_by(|a, b| a.0.load.total_cmp(&b.0.load).then(a.0.depth.cmp(&b.0.depth)));
        let bandwidth = bound.bandwidth().0;
        if candidates[0].0.load > NEAR * bandwidth && self.net.devices <= MOST_PACKED {
            let effort = Effort { rounds: 120, enough: 1.003 * bandwidth };
            let start = if Rc::ptr_eq(&candidates[0].1.bundles, &bundles) { Some(&candidates[0].1) } else { None };
            let seeds = Seeds { net: self.net, bundles: Rc::clone(&bundles), ways: self.ways, at_reader: true };
            let start = start.cloned().or_else(|| seeds.whole(true)).unwrap_or_else(|| candidates[0].1.clone());
            let packed = pack(self.net, &start, &effort);
            candidates.push((packed.score(self.net), packed));
            if let Some(composed) = compose::composed(&seeds, effort.rounds) {
                candidates.push((composed.score(self.net), composed));
            }
        }
        Ok(self.simulated(candidates, NEAR * least))
    }

    /// Adds the known shapes.
    fn seeded(&self, seeds: &Seeds, candidates: &mut Vec<(Score, Scheme)>) {
        let mut add = |scheme: Option<Scheme>| {
            if let Some(scheme) = scheme {
                candidates.push((scheme.score(self.net), scheme));
            }
        };
        if seeds.bundles.iter().any(|b| b.readers.len() > 1 || !b.finished) {
            add(seeds.whole(false));
            add(seeds.sliced(false));
            if let Some(ring) = seeds::ring(self.net) {
                add(seeds.ring(&ring));
            }
            add(seeds.halving());
            for fan in [2, 4, 8] {
                add(seeds.fans(fan));
            }
            if !self.net.uniform {
                add(seeds.whole(true));
                add(seeds.sliced(true));
            }
        }
        if let Some(groups) = seeds::groups(self.net) {
            add(seeds.two_level(&groups, false));
            add(seeds.two_level(&groups, true));
        }
    }

    /// Simulates the candidates that a closed form likes best and keeps the quickest; `enough` seconds are enough.
    fn simulated(&self, candidates: Vec<(Score, Scheme)>, enough: f64) -> (Scheme, Schedule) {
        let mut ranked: Vec<(f64, usize, usize, f64)> = Vec::new();
        for (n, (score, _)) in candidates.iter().enumerate() {
            let most_moves = MOST_MOVES.max(200 * self.net.devices);
            let most_moves = if score.load > LONG { 2 * most_moves } else { most_moves };
            let mut lag = f64::INFINITY;
            let mut moves = 0;
            loop {
                let estimate = score.estimate(self.net, lag);
                if estimate.moves > moves && (moves == 0 || estimate.moves <= most_moves) {
                    // Of programs about as quick the one with fewer moves.
                    let seconds = estimate.seconds * (1.0 + 1e-6 * estimate.moves as f64);
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
        let mut best: Option<(f64, usize, Schedule)> = None;
        let mut tried: Vec<usize> = Vec::new();
        for &(estimate, _, n, lag) in &ranked {
            let of_same = tried.iter().filter(|t| **t == n).count();
            if of_same >= 2 || tried.len() >= 6 || best.as_ref().is_some_and(|b| estimate >= b.0 || b.0 <= enough) {
                continue;
            }
            tried.push(n);
            let score = &candidates[n].0;
            let mut consider = |made: Schedule| {
                let seconds = made.seconds(self.net);
                let moves = |made: &Schedule| 1.0 + 1e-6 * made.transfers.len() as f64;
                if best.as_ref().is_none_or(|b| seconds * moves(&made) < b.0 * moves(&b.2)) {
                    best = Some((seconds, n, made));
                }
                seconds
            };
            let wanted = score.pieces(lag);
            let first = consider(schedule(self.net, self.exchange, &candidates[n].1, &wanted, Order::Deep));
            if score.depth > 1 && first > NEAR * (score.load + score.latency) {
                consider(
                    schedule(self.net, self.exchange, &candidates[n].1, &wanted, Order::Early).justified(self.net),
                );
            }
        }
        let (_, n, made) = best.expect("there is at least one candidate");
        (candidates[n].1.clone(), made)
    }

    /// The scheme of fewest bytes over links.
    fn smallest(&self, direct: Scheme) -> Result<(Scheme, Schedule), SynthesisError> {
        // A hop costs what it carries, whatever the link; of equals the quicker.
        let bundles = Rc::new(bundle::shared(self.exchange, self.exchange.atoms())?);
        let alone = self.net.alone(1.0);
        let slowest = alone.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let cost: Vec<f64> = alone.iter().map(|s| 1.0 + 1e-3 * s / slowest).collect();
        let hops = Ways::new(self.net, &cost);
        let seeds = Seeds { net: self.net, bundles, ways: &hops, at_reader: true };
        let mut best = (direct.score(self.net), direct);
        for scheme in [seeds.whole(true), seeds.sliced(true), seeds.sliced(false)].into_iter().flatten() {
            let score = scheme.score(self.net);
            let key = |s: &Score| (s.bytes.round(), s.estimate(self.net, f64::INFINITY).seconds);
            if key(&score) < key(&best.0) {
                best = (score, scheme);
            }
        }
        let made = self.simple(&best.1);
        Ok((best.1, made))
    }

    /// The first need that no links lead to.
    fn unreachable(&self) -> SynthesisError {
        for bundle in bundle::separate(self.exchange).into_iter().flatten() {
            for holders in &bundle.holders {
                for reader in bundle.readers.iter() {
                    if !holders.iter().any(|h| self.ways.cost(h, reader).is_finite()) {
                        return SynthesisError::Unreachable { from: *holders, to: reader };
                    }
                }
            }
        }
        unreachable!("every reader can be reached from a holder of each partial")
    }
}

/// Refuses questions that have no answer on any links.
fn admit(exchange: &Exchange, machine: &Machine) -> Result<(), SynthesisError> {
    let known = |device: DeviceId| {
        let fault = || SynthesisError::NoDevice { device, machine: machine.name.clone(), devices: machine.len() };
        if device.index() < machine.len() { Ok(()) } else { Err(fault()) }
    };
    for (need, n) in exchange.needs.iter().enumerate() {
        let (device, region) = (n.device, n.region.clone());
        known(device)?;
        if region.rank() != exchange.have.whole.rank() || !exchange.have.whole.contains(&region) {
            return Err(SynthesisError::Outside { need, device, region, whole: exchange.have.whole.clone() });
        }
        if region.is_empty() {
            return Err(SynthesisError::EmptyNeed { need, device, region });
        }
    }
    exchange.have.blocks.iter().flat_map(|b| b.devices.iter()).try_for_each(known)
}
