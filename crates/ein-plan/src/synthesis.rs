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
mod cut;
mod emit;
mod naive;
mod net;
mod packing;
mod route;
mod schedule;
mod seeds;
mod trials;

use bundle::Bundle;
use cut::Cuts;
use ein_ir::region::Region;
use ein_task::bounds::{self, Bound};
use ein_task::buffers::peak_buffers;
use ein_task::check::check;
use ein_task::exchange::{Atom, Exchange, Program};
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::traffic::count;
use ein_task::units::Seconds;
use net::{Net, Ways};
use packing::{Effort, Spare, TURNS, Taste, pack};
use route::{Growth, Leg, Scheme, Score};
use schedule::{Order, schedule};
use seeds::Seeds;
use std::collections::HashMap;
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
    /// What the fullest device must store at once, steps being done in row order; ties by time.
    Buffers,
}

/// The program of least time found.
pub fn synthesize(exchange: &Exchange, machine: &Machine) -> Result<Program, SynthesisError> {
    synthesize_for(exchange, machine, Aim::Seconds)
}

/// The best program found.
pub fn synthesize_for(exchange: &Exchange, machine: &Machine, aim: Aim) -> Result<Program, SynthesisError> {
    Memory::default().synthesize(exchange, machine, aim)
}

/// How questions were answered, by what they are up to where in a tensor their boxes lie: equal ones are put to
/// steps anew and not searched again. For one machine. Looked up, never iterated.
#[derive(Debug, Default)]
pub struct Memory(HashMap<Signature, Recipe>);

/// What a question is to the search.
type Signature = (Aim, Vec<bundle::Signature>, Vec<bundle::Signature>);

/// Which way everything goes and in which order, without boxes.
#[derive(Clone, Debug)]
struct Recipe {
    /// Whether every reader is served by itself.
    separate: bool,
    legs: Vec<Leg>,
    /// How each leg is cut into pieces.
    cuts: Cuts,
    order: Order,
}

impl Memory {
    /// The program for a question, searched for if no like question was asked before.
    pub fn synthesize(&mut self, exchange: &Exchange, machine: &Machine, aim: Aim) -> Result<Program, SynthesisError> {
        admit(exchange, machine)?;
        let net = Net::new(machine);
        let atoms = exchange.atoms();
        let separate = Rc::new(bundle::separate(exchange)?);
        let shared = Rc::new(bundle::shared(exchange, atoms.clone())?);
        let of = |bundles: &[Bundle]| bundles.iter().map(Bundle::signature).collect();
        let signature = (aim, of(&separate), of(&shared));
        let recipe = if let Some(known) = self.0.get(&signature) {
            known.clone()
        } else {
            let ways = bundle::idle_ways(&net, &separate);
            let question = Question { net: &net, exchange, ways: &ways, atoms, separate: &separate, shared: &shared };
            let found = question.answer(aim)?;
            self.0.insert(signature, found.clone());
            found
        };
        let bundles = if recipe.separate { separate } else { shared };
        let scheme = Scheme::new(bundles, recipe.legs);
        let schedule = schedule(&net, exchange, &scheme, &recipe.cuts, recipe.order);
        let program = emit::emit(&net, exchange, &scheme, &schedule);
        debug_assert_eq!(
            check(exchange, &program, machine)
                .and_then(|pieces| ein_task::check::check_rendezvous(&program, &pieces, machine)),
            Ok(()),
            "{program}"
        );
        // What is folded in order in runs is moved in more pieces than candidates are compared by.
        if aim == Aim::Seconds
            && exchange.have.monoid.is_ordered()
            && let Ok(plain) = naive(exchange, machine)
            && count(exchange, &plain, machine).seconds < count(exchange, &program, machine).seconds
        {
            return Ok(plain);
        }
        Ok(program)
    }

    /// How many questions were searched.
    pub fn searched(&self) -> usize {
        self.0.len()
    }
}

/// The bound of a question, with the prices at which packing comes to rest tried too: sharper where data goes far,
/// and dearer to find, than [`bounds::bound`] alone, which proves it all the same.
pub fn bound(exchange: &Exchange, machine: &Machine) -> Result<Bound, SynthesisError> {
    let (mut bound, atoms, prices) = bound_and_prices(exchange, machine)?;
    for prices in prices {
        let proved = bounds::proved(exchange, &atoms, machine, &prices);
        bound.fold = Seconds(bound.fold.0.max(proved.0));
    }
    Ok(bound)
}

/// [`bound`], where it is worth a second or more to find better prices.
pub fn sharpest_bound(exchange: &Exchange, machine: &Machine) -> Result<Bound, SynthesisError> {
    let (mut bound, atoms, prices) = bound_and_prices(exchange, machine)?;
    let sharpened = bounds::sharpened(exchange, &atoms, machine, &prices);
    bound.fold = Seconds(bound.fold.0.max(sharpened.0));
    Ok(bound)
}

/// Tastes for where all others came to rest too far from the bound: somewhere else there may be a way out.
fn further_tastes(tried: &[(Start, Taste)]) -> Vec<(Start, Taste)> {
    let all = [Start::Plain, Start::Shape, Start::Halves].into_iter();
    let all = all.flat_map(|from| [false, true].map(|short| (from, Taste { short, ..Taste::default() })));
    all.filter(|choice| !tried.contains(choice)).collect()
}

/// Prices of a machine's resources, for each atom.
type Prices = Vec<Vec<f64>>;

/// The bound without packing, and prices at which packing comes to rest.
fn bound_and_prices(exchange: &Exchange, machine: &Machine) -> Result<(Bound, Vec<Atom>, Prices), SynthesisError> {
    admit(exchange, machine)?;
    let atoms = exchange.atoms();
    let bound = bounds::bound(exchange, &atoms, machine);
    let net = Net::new(machine);
    let bundles = Rc::new(bundle::shared(exchange, atoms.clone())?);
    if net.devices > MOST_PACKED || bundles.is_empty() {
        return Ok((bound, atoms, Vec::new()));
    }
    let ways = bundle::idle_ways(&net, &bundles);
    let seeds = Seeds { net: &net, bundles, ways: &ways, at_reader: true, growth: Growth::FREE };
    let effort = Effort { rounds: 200, turns: 2 * TURNS, enough: 0.0, taste: Taste::default() };
    let mut prices = seeds.whole(true).map_or(Vec::new(), |start| packing::prices(&net, &start, &effort));
    if seeds.bundles.iter().any(|b| !b.finished) {
        prices.extend(compose::prices(&seeds, &effort));
    }
    Ok((bound, atoms, prices))
}

/// Where packing starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// The known shape that keeps the busiest resource least busy: it can be a place that packing does not leave.
    Shape,
    /// The plainest trees.
    Plain,
    /// Folds and hand-outs each for itself.
    Halves,
}

/// A question with what every candidate is made from.
struct Question<'a> {
    net: &'a Net<'a>,
    exchange: &'a Exchange,
    ways: &'a Ways,
    atoms: Vec<Atom>,
    separate: &'a Rc<Vec<Bundle>>,
    shared: &'a Rc<Vec<Bundle>>,
}

/// Hops beyond which known shapes are not laid out.
const MOST_HOPS: usize = 20_000;
/// Devices beyond which schemes are not packed.
const MOST_PACKED: usize = 16;
/// How far above the bound the load of known shapes is near enough not to pack.
const NEAR: f64 = 1.01;
/// How far above the bound the load of packed schemes is too far.
const FAR: f64 = 1.1;
/// How far above what cannot be beaten a simulated time is too far.
const MISSED: f64 = 1.2;
/// Latencies of the longest chain up to which the bandwidth bound leaves no time for deep trees.
const SHORT: f64 = 30.0;
/// How far above what cannot be beaten a simulated time is near enough to try nothing more.
const CLOSE: f64 = 1.0008;
impl Question<'_> {
    fn answer(&self, aim: Aim) -> Result<Recipe, SynthesisError> {
        let direct = self.seeds(self.separate, true).direct().ok_or_else(|| self.unreachable())?;
        Ok(match aim {
            Aim::Seconds => self.quickest(direct),
            Aim::Bytes => self.smallest(direct),
            Aim::Buffers => self.leanest(direct),
        })
    }

    fn seeds<'a>(&'a self, bundles: &Rc<Vec<Bundle>>, at_reader: bool) -> Seeds<'a> {
        Seeds { net: self.net, bundles: Rc::clone(bundles), ways: self.ways, at_reader, growth: Growth::FREE }
    }

    fn recipe(&self, scheme: Scheme, cuts: Cuts, order: Order) -> Recipe {
        Recipe { separate: Rc::ptr_eq(&scheme.bundles, self.separate), legs: scheme.legs, cuts, order }
    }

    /// A scheme as it is, not cut into pieces.
    fn plain(&self, scheme: Scheme) -> Recipe {
        let whole = Cuts::even(vec![1; scheme.legs.len()]);
        self.recipe(scheme, whole, Order::Deep)
    }

    /// The scheme and schedule of least simulated time.
    fn quickest(&self, direct: Scheme) -> Recipe {
        let issue = self.net.machine.issue.0;
        let score = direct.score(self.net);
        if score.depth == 0 {
            return self.plain(direct);
        }
        let bound = bounds::bound(self.exchange, &self.atoms, self.net.machine);
        let bandwidth = bound.bandwidth().0;
        let near = |seconds: f64| {
            // Where latencies differ, what comes last may take a quick link.
            let small =
                bandwidth < bound.latency.0 && seconds <= bound.total().0 + issue + 1e-3 * self.net.least_latency;
            small || seconds <= CLOSE * bandwidth + self.net.least_latency + issue
        };
        if score.depth <= 1 {
            let whole = Cuts::even(vec![1; direct.legs.len()]);
            if near(schedule(self.net, self.exchange, &direct, &whole, Order::Deep).seconds(self.net)) {
                return self.plain(direct);
            }
        }
        let mut candidates = vec![(score, direct)];
        let passed_on = self.shared.iter().any(|b| b.readers.len() > 1 || !b.finished);
        let all = if passed_on { seeds::rings(self.net) } else { Vec::new() };
        let rings = if all.len() > 1 { self.seeds(self.shared, true).rings(&all) } else { None };
        let tried = 1 + usize::from(rings.is_some());
        candidates.extend(rings.map(|rings| (rings.score(self.net), rings)));
        let single = self.shared.iter().any(|b| b.readers.len() == 1 && !b.finished);
        let variants: &[bool] = if single { &[true, false] } else { &[true] };
        for &at_reader in variants {
            let seeds = self.seeds(self.shared, at_reader);
            let owned = |b: &Bundle| seeds.owners(b).len() * (b.readers.len() + b.holders.len());
            if self.shared.iter().map(owned).sum::<usize>() <= MOST_HOPS {
                self.seeded(&seeds, &mut candidates);
            }
        }
        let order = |a: &Score, b: &Score| a.load.total_cmp(&b.load).then(a.depth.cmp(&b.depth));
        let (best, shape) = candidates.iter().min_by(|a, b| order(&a.0, &b.0)).expect("there is the direct one");
        let packs = best.load > NEAR * bandwidth && self.net.devices <= MOST_PACKED;
        let shape = Some(shape).filter(|s| Rc::ptr_eq(&s.bundles, self.shared)).cloned();
        let effort = Effort { rounds: 120, turns: TURNS, enough: 1.003 * bandwidth, taste: Taste::default() };
        let tastes = if packs { self.tastes(shape.is_some(), bandwidth < SHORT * bound.latency.0) } else { Vec::new() };
        let packed = |&(from, taste): &(Start, Taste)| self.packed(from, shape.as_ref(), &Effort { taste, ..effort });
        candidates.extend(tastes.iter().filter_map(packed));
        let load = candidates.iter().map(|c| c.0.load).fold(f64::INFINITY, f64::min);
        let stuck = packs && load > FAR * bandwidth;
        let more = if stuck { further_tastes(&tastes) } else { Vec::new() };
        let patient = Effort { rounds: 2 * effort.rounds, ..effort };
        candidates.extend(
            more.iter().filter_map(|&(from, taste)| self.packed(from, shape.as_ref(), &Effort { taste, ..patient })),
        );
        candidates.extend(self.seeds(self.shared, true).peers().map(|peers| (peers.score(self.net), peers)));
        // No byte flows before it is issued.
        let issued = bound.depth as f64 * issue;
        let enough = CLOSE * (bound.latency.0 + issued).max(bandwidth + self.net.least_latency + issue);
        let first = trials::quickest(self, candidates, tried, enough);
        if !packs || first.seconds <= MISSED * (bandwidth + bound.latency.0 + issued) {
            return first.recipe;
        }
        // Trees that are not deep may do better in fact if not on paper: little waits for little.
        let flat = self.flat_tastes(bound.depth);
        let candidates: Vec<(Score, Scheme)> = flat.iter().filter_map(packed).collect();
        if candidates.is_empty() {
            return first.recipe;
        }
        first.or(trials::quickest(self, candidates, 1, enough), self.as_quick()).recipe
    }

    /// A packed scheme, and what it costs.
    fn packed(&self, from: Start, shape: Option<&Scheme>, effort: &Effort) -> Option<(Score, Scheme)> {
        let seeds = Seeds { growth: effort.taste.growth(), ..self.seeds(self.shared, true) };
        let packed = match from {
            Start::Shape => shape.map(|start| pack(self.net, start, effort)),
            Start::Plain => seeds.whole(true).map(|start| pack(self.net, &start, effort)),
            Start::Halves => compose::composed(&seeds, &Effort { enough: 0.0, ..*effort }),
        };
        packed.map(|packed| (packed.score(self.net), packed))
    }

    /// Tastes for trees that are little deeper than the longest of the shortest ways, which is `depth` moves.
    fn flat_tastes(&self, depth: usize) -> Vec<(Start, Taste)> {
        if self.shared.iter().all(|b| b.finished && b.readers.len() == 1) {
            return Vec::new();
        }
        let spare = if self.net.workers.len() < self.net.devices { Spare::All } else { Spare::None };
        let flat = |more: usize, spare: Spare| Taste {
            short: true,
            most: u8::try_from(depth + more).ok(),
            spare,
            ..Taste::default()
        };
        let mut tastes = [0, 1, 2].map(|more| (Start::Plain, flat(more, spare))).to_vec();
        if self.shared.iter().any(|b| !b.finished) {
            tastes.extend([0, 1].map(|more| (Start::Halves, flat(more, Spare::None))));
        }
        tastes
    }

    /// From where to pack, and with which taste. Where trees are wanted packing takes long, so there are fewer.
    /// Where there is `little` to move few moves are worth some load.
    fn tastes(&self, shaped: bool, little: bool) -> Vec<(Start, Taste)> {
        let relays = self.net.workers.len() < self.net.devices;
        let spared = |spare: Spare| if relays { spare } else { Spare::None };
        let taste = |short: bool, spare: Spare| Taste { short, spare: spared(spare), ..Taste::default() };
        let (long, short) = (taste(false, Spare::None), taste(true, Spare::Some));
        let folded = self.shared.iter().any(|b| !b.finished);
        let mut tastes = match (folded, shaped, relays) {
            (true, true, false) => vec![(Start::Shape, short), (Start::Halves, long), (Start::Halves, short)],
            (true, true, true) => vec![(Start::Shape, short), (Start::Halves, taste(true, Spare::None))],
            (true, false, _) => {
                vec![(Start::Plain, long), (Start::Plain, short), (Start::Halves, taste(true, Spare::None))]
            }
            (false, true, false) => vec![(Start::Shape, long), (Start::Shape, short), (Start::Plain, long)],
            (false, true, true) => {
                vec![(Start::Shape, long), (Start::Shape, short), (Start::Plain, taste(true, Spare::None))]
            }
            (false, false, false) => vec![(Start::Plain, long), (Start::Plain, short)],
            (false, false, true) => vec![
                (Start::Plain, long),
                (Start::Plain, short),
                (Start::Plain, taste(true, Spare::None)),
                (Start::Plain, taste(false, Spare::Some)),
            ],
        };
        if relays {
            tastes.push((if shaped { Start::Shape } else { Start::Plain }, taste(true, Spare::All)));
        }
        if little {
            let shallow = Taste { shallow: true, short: true, ..Taste::default() };
            tastes.push((if shaped { Start::Shape } else { Start::Plain }, shallow));
            if shaped && !folded {
                tastes.push((Start::Plain, shallow));
            }
        }
        tastes
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
            let rings = seeds::rings(self.net);
            if let Some(first) = rings.first() {
                add(seeds.rings(std::slice::from_ref(first)));
            }
            for some in [2, 4] {
                if rings.len() >= some {
                    add(seeds.rings(&rings[..some]));
                }
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
        seeds.levels().into_iter().for_each(add);
    }

    /// The scheme of fewest bytes over links.
    fn smallest(&self, direct: Scheme) -> Recipe {
        // A hop costs what it carries, whatever the link; of equals the quicker.
        let alone = self.net.alone(1.0);
        let slowest = alone.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let cost: Vec<f64> = alone.iter().map(|s| 1.0 + 1e-3 * s / slowest).collect();
        let hops = Ways::new(self.net, &cost);
        let seeds = Seeds { ways: &hops, ..self.seeds(self.shared, true) };
        let mut best = (direct.score(self.net), direct);
        for scheme in [seeds.whole(true), seeds.sliced(true), seeds.sliced(false)].into_iter().flatten() {
            let score = scheme.score(self.net);
            let key = |s: &Score| (s.bytes.round(), s.estimate(self.net, f64::INFINITY).seconds);
            if key(&score) < key(&best.0) {
                best = (score, scheme);
            }
        }
        self.plain(best.1)
    }

    /// Of the quickest program and of known shapes whose pieces go one after the other, what stores least at once.
    fn leanest(&self, direct: Scheme) -> Recipe {
        let mut candidates = vec![(direct.score(self.net), direct.clone())];
        let seeds = self.seeds(self.shared, true);
        let owned = |b: &Bundle| seeds.owners(b).len() * (b.readers.len() + b.holders.len());
        if self.shared.iter().map(owned).sum::<usize>() <= MOST_HOPS / 8 {
            self.seeded(&seeds, &mut candidates);
        }
        let mut best = self.quickest(direct);
        let mut least = self.stored(&best);
        for (score, scheme) in candidates {
            for count in [1, 4, 16, 64] {
                if count > 1 && score.estimate(self.net, f64::INFINITY).moves * count > trials::MOST_MOVES {
                    break;
                }
                let recipe = self.recipe(scheme.clone(), Cuts::even(vec![count; scheme.legs.len()]), Order::Piecewise);
                let stored = self.stored(&recipe);
                if stored < least {
                    (best, least) = (recipe, stored);
                }
            }
        }
        best
    }

    /// The most bytes that any device stores at once, and the seconds of a program.
    fn stored(&self, recipe: &Recipe) -> (u64, f64) {
        let bundles = Rc::clone(if recipe.separate { self.separate } else { self.shared });
        let scheme = Scheme::new(bundles, recipe.legs.clone());
        let made = schedule(self.net, self.exchange, &scheme, &recipe.cuts, recipe.order);
        let program = emit::emit(self.net, self.exchange, &scheme, &made);
        let Ok(pieces) = check(self.exchange, &program, self.net.machine) else { return (u64::MAX, f64::INFINITY) };
        let peak = peak_buffers(self.exchange, &program, &pieces).into_iter().max().unwrap_or_default();
        (peak.0, made.seconds(self.net))
    }

    /// The first need that no links lead to.
    fn unreachable(&self) -> SynthesisError {
        for bundle in self.separate.iter() {
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
