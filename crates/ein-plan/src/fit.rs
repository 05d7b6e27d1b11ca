//! Plans that fit: a price on memory, found where the plans on either side of it fit and do not, and mixtures of the two.
//!
//! Memory couples all layers of a model. A price on every resident byte takes the coupling apart (Everett, 1963): at
//! each price the search is exact, and what it finds lies on the lower convex hull of (bytes, cost). Between two
//! neighbours on the hull lies what decides some layers as the one plan does and the rest as the other.

use crate::answers::Answers;
use crate::candidates::Richness;
use crate::choice::Choice;
use crate::deadline::Deadline;
use crate::error::{Live, PlanError};
use crate::lower::lower_with;
use crate::options::{ExchangeStyle, Objective, Options};
use crate::price::{Price, price_with};
use crate::report::Effort;
use crate::search::{ALONE, Found, HARDLY, Room, SOMEWHAT, Search};
use ein_ir::graph::Graph;
use ein_task::machine::Machine;
use ein_task::memory::{NotEnough, check_capacity, fullest, left, plan_memory};
use ein_task::task::TaskGraph;

/// A choice that fits, with its task graph, price and bound.
pub(crate) struct Decided {
    /// What was asked, with the style of exchanges that was needed.
    pub options: Options,
    /// The decisions.
    pub choice: Choice,
    /// Lowered, memory planned.
    pub tasks: TaskGraph,
    /// The counting page.
    pub price: Price,
    /// No choice costs less.
    pub bound: f64,
    /// How much was searched.
    pub effort: Effort,
    /// The exchanges that were answered on the way.
    pub known: Answers,
}

/// What was asked, then the same with exchanges that store less at once.
pub(crate) fn styles(options: &Options) -> Vec<Options> {
    match options.exchange {
        ExchangeStyle::Synthesized => {
            vec![options.clone(), Options { exchange: ExchangeStyle::Lean, ..options.clone() }]
        }
        ExchangeStyle::Lean | ExchangeStyle::Naive => vec![options.clone()],
    }
}

/// The task graph of a choice, its memory planned.
pub(crate) fn tasks(
    graph: &Graph,
    choice: &Choice,
    machine: &Machine,
    options: &Options,
    known: &mut Answers,
) -> Result<TaskGraph, PlanError> {
    let mut tasks = lower_with(graph, choice, machine, options, known)?;
    plan_memory(&mut tasks);
    Ok(tasks)
}

/// Keeps what lacks least.
pub(crate) fn keep_less(lack: &mut Option<NotEnough>, lacking: NotEnough) {
    if lack.as_ref().is_none_or(|l| lacking.smallest < l.smallest) {
        *lack = Some(lacking);
    }
}

pub(crate) fn does_not_fit(lack: &NotEnough) -> PlanError {
    let largest = lack.largest.iter().map(|(t, b)| Live { tensor: t.clone(), bytes: *b });
    PlanError::DoesNotFit {
        limit: lack.available,
        needed: lack.smallest,
        device: lack.name.clone(),
        largest: largest.collect(),
    }
}

/// The objective's value.
pub(crate) fn cost(price: &Price, tasks: &TaskGraph, machine: &Machine, objective: Objective) -> f64 {
    match objective {
        Objective::Time | Objective::Makespan => price.seconds.0,
        Objective::Bytes => price.bytes_total.0 as f64,
        Objective::Memory => fullest(tasks, machine).0 as f64,
    }
}

/// Searches for the cheapest choice that fits. With a time limit, among few candidates first, so that there soon is a plan,
/// and then among all, as far as time allows. Of an exchange, `hiding` times the seconds that
/// the row it feeds, or the one that feeds it, computes count for little.
pub(crate) fn searched(
    graph: &Graph,
    machine: &Machine,
    options: &Options,
    deadline: Deadline,
    hiding: f64,
) -> Result<Decided, PlanError> {
    if options.offload {
        // What fits without the host needs none of it: of the prices of memory nearly all send everything there.
        match searched(graph, machine, &Options { offload: false, ..options.clone() }, deadline, hiding) {
            Ok(mut without) => {
                without.options.offload = true;
                // For the least memory, what is sent from the host may leave less to hold.
                let with = match options.objective {
                    Objective::Time | Objective::Makespan | Objective::Bytes => return Ok(without),
                    Objective::Memory => searched_from_host(graph, machine, options, deadline, hiding),
                };
                let memory = |d: &Decided| fullest(&d.tasks, machine);
                return Ok(with.ok().filter(|with| memory(with) < memory(&without)).unwrap_or(without));
            }
            Err(PlanError::DoesNotFit { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    searched_from_host(graph, machine, options, deadline, hiding)
}

/// [`searched`], with the homes at hosts that the options allow.
fn searched_from_host(
    graph: &Graph,
    machine: &Machine,
    options: &Options,
    deadline: Deadline,
    hiding: f64,
) -> Result<Decided, PlanError> {
    let all = || searched_among(graph, machine, options, Richness::of(machine), deadline, hiding);
    if options.time_limit.is_none() {
        return all();
    }
    let first = searched_among(graph, machine, options, Richness::little(), deadline, hiding);
    let mut decided = match (first, all()) {
        // What fits among all may not have been among the few.
        (Err(PlanError::DoesNotFit { .. } | PlanError::TimeLimit { .. }), all) => return all,
        // The bound of the few bounds nothing else.
        (Ok(first), Err(PlanError::TimeLimit { .. } | PlanError::DoesNotFit { .. })) => Decided { bound: 0.0, ..first },
        (Err(error), _) | (Ok(_), Err(error)) => return Err(error),
        (Ok(first), Ok(all)) => {
            let value = |d: &Decided| cost(&d.price, &d.tasks, machine, options.objective);
            if value(&all) <= value(&first) {
                return Ok(all);
            }
            let effort = Effort { rounds: first.effort.rounds + all.effort.rounds, ..all.effort };
            return Ok(Decided { bound: all.bound, effort, ..first });
        }
    };
    decided.effort.stopped = true;
    Ok(decided)
}

fn searched_among(
    graph: &Graph,
    machine: &Machine,
    options: &Options,
    richness: Richness,
    deadline: Deadline,
    hiding: f64,
) -> Result<Decided, PlanError> {
    let mut known = Answers::of(options);
    let search = Search::new(graph, machine, options, &mut known, richness, deadline, hiding)?;
    // Asked only where the quickest programs do not fit.
    let lean = styles(options).pop().filter(|o| o.exchange != options.exchange);
    let mut fitting = Fitting {
        graph,
        machine,
        options,
        search,
        lean: lean.map(|options| (Answers::of(&options), options)),
        best: None,
        lack: None,
        at_peak: Vec::new(),
        bound: 0.0,
        effort: Effort::default(),
    };
    let mut free = fitting.attempt(0.0)?;
    let held = fitting.search.resident(&free.found.choice);
    // What cannot fit needs no bound and is not lowered: a price of memory proves more.
    let fits = (held.left >= 0.0 || options.objective == Objective::Memory) && {
        free = fitting.prove(free, f64::INFINITY)?;
        fitting.lowered(&free.found.choice, free.cost)?.is_some_and(|room| room.left >= 0.0)
    };
    let further = match options.objective {
        Objective::Memory => fitting.least_memory(&free, held),
        _ if !fits => fitting.walk(&free, held),
        _ => Ok(()),
    };
    match further {
        Err(PlanError::TimeLimit { .. }) if fitting.best.is_some() => fitting.effort.stopped = true,
        other => other?,
    }
    let Fitting { best, lack, bound, effort, .. } = fitting;
    match (best, lack) {
        (Some(Best { choice, tasks, options: asked, .. }), _) => {
            if asked.exchange != options.exchange {
                known = Answers::of(&asked);
            }
            let price = price_with(graph, &choice, machine, &asked, &mut known)?;
            Ok(Decided { options: asked, choice, tasks, price, bound, effort, known })
        }
        (None, Some(lack)) => Err(does_not_fit(&lack)),
        (None, None) => unreachable!("an attempt fits or lacks"),
    }
}

/// The cheapest choice so far that fits.
struct Best {
    cost: f64,
    choice: Choice,
    tasks: TaskGraph,
    options: Options,
}

/// What the search found at a price of memory.
struct Attempt {
    found: Found,
    /// What it costs without its memory.
    cost: f64,
}

/// Most prices of memory that are tried between a plan that fits and one that does not.
const STEPS: usize = 12;

/// Plans that do not fit although they seemed to, at most.
const ERRORS: usize = 3;

/// Most mixtures of two plans that are lowered.
const MIXTURES: usize = 6;

/// Most rows of a graph that is lowered once more with exchanges that store less, although another plan fits.
const FEW: usize = 200;

/// Prices of memory, as multiples of the first: those that the search finds hardly worth paying, then any.
const PRICES: [f64; 7] = [8.0, 64.0, 4096.0, 262_144.0, 1.0, 512.0, 32_768.0];

/// How often what is held at the peak of a small graph becomes dearer.
const PEAKS: usize = 6;

/// How many times what devices must hold beside what is resident they may hold if it is to be hardly more than that.
const ROOMY: f64 = 4.0;

/// A bound is near enough to a plan that fits at this share of its cost: with what memory has to be held in lumps for, a
/// thousandth is hardly to be had.
const NEAR: f64 = 9e-4;

/// How far from the hull of (bytes, cost) its corners that are known may be, as a share of the cost.
const FLAT: f64 = 2e-5;

/// A plan that fits, and the bytes left of the device that has least left.
struct Fits {
    plan: Attempt,
    left: f64,
}

/// A corner of the hull.
struct Corner {
    /// Without its memory.
    cost: f64,
    /// Bytes that count as memory.
    bytes: f64,
    /// The assignment, unless it is one of a model in which what is resident has no home.
    values: Option<Vec<usize>>,
}

impl Corner {
    fn of(attempt: Attempt) -> Self {
        Self { cost: attempt.cost, bytes: attempt.found.memory, values: Some(attempt.found.values) }
    }
}

struct Fitting<'a> {
    graph: &'a Graph,
    machine: &'a Machine,
    options: &'a Options,
    search: Search<'a>,
    /// The same with exchanges that store less at once.
    lean: Option<(Answers, Options)>,
    best: Option<Best>,
    lack: Option<NotEnough>,
    /// What the last plan that did not fit holds when it holds most.
    at_peak: Vec<String>,
    bound: f64,
    effort: Effort,
}

impl Fitting<'_> {
    /// Finds the best choice at a price of a byte.
    fn attempt(&mut self, multiplier: f64) -> Result<Attempt, PlanError> {
        self.attempt_uneven(multiplier, SOMEWHAT)
    }

    fn attempt_uneven(&mut self, multiplier: f64, uneven: f64) -> Result<Attempt, PlanError> {
        self.search.multiplier = multiplier;
        self.search.uneven = uneven;
        let found = self.search.solve()?;
        let rounds = self.effort.rounds + found.effort.rounds;
        let stopped = self.effort.stopped | found.effort.stopped;
        self.effort = Effort { rounds, stopped, ..found.effort.clone() };
        Ok(Attempt { cost: self.search.cost_of(&found), found })
    }

    /// The last attempt with a bound, which need not be above `enough`.
    fn prove(&mut self, last: Attempt, enough: f64) -> Result<Attempt, PlanError> {
        let before = last.found.effort.rounds;
        let enough = self.search.with_memory(enough);
        let found = self.search.prove(last.found, enough)?;
        self.bound = self.bound.max(self.search.bound_without_memory(&found));
        let effort = found.effort.clone();
        let rounds = self.effort.rounds + effort.rounds - before;
        self.effort = Effort { rounds, stopped: self.effort.stopped | effort.stopped, ..effort };
        Ok(Attempt { cost: self.search.cost_of(&found), found })
    }

    /// A bound at this price of a byte on what the best plan that fits can cost, near enough to what was found.
    fn bound_at(&mut self, price: f64) -> Result<(), PlanError> {
        let last = self.attempt_uneven(price, HARDLY)?;
        let enough = self.best.as_ref().map_or(f64::INFINITY, |best| best.cost * (1.0 - NEAR));
        self.prove(last, enough)?;
        Ok(())
    }

    /// A price at which what the plan that ignores memory takes of a device costs a tenth of that plan. It does not depend
    /// on how much there is, so that what is said to be enough is. A plan that moves nothing has no price to compare with:
    /// a byte held is then worth a tenth of one moved.
    fn first(&self, free: &Attempt, held: Room) -> f64 {
        let peak = held.fullest + self.search.worked_on_by_one();
        let nothing = self.options.objective == Objective::Bytes && free.cost < 1.0;
        let cost = if nothing { peak } else { free.cost };
        0.1 * cost.max(1e-9) / peak.max(1.0)
    }

    /// Lowers a choice, and keeps it if it fits and none before was cheaper. What is left of the devices with the exchanges
    /// asked for; nothing, and nothing is lowered, if what is resident is too much already.
    fn lowered(&mut self, choice: &Choice, cost: f64) -> Result<Option<Room>, PlanError> {
        if self.search.resident(choice).left < 0.0 {
            return Ok(None);
        }
        self.lowered_anyway(choice, cost).map(Some)
    }

    /// [`Fitting::lowered`] even of what cannot fit, to say what would do.
    fn lowered_anyway(&mut self, choice: &Choice, cost: f64) -> Result<Room, PlanError> {
        let Self { graph, machine, options, .. } = *self;
        let tasks = tasks(graph, choice, machine, options, self.search.answers())?;
        let peak = fullest(&tasks, machine).0 as f64;
        let room = Room { fullest: peak, left: left(&tasks, machine, options.memory) as f64 };
        match check_capacity(&tasks, machine, options.memory) {
            Ok(()) => {
                let cost = if options.objective == Objective::Memory { peak } else { cost };
                self.keep(cost, choice, tasks, options.clone());
            }
            Err(lacking) => self.keep_less(lacking),
        }
        Ok(room)
    }

    /// Lowers a choice with exchanges that store less at once.
    fn lowered_lean(&mut self, choice: &Choice) -> Result<(), PlanError> {
        let Some((known, options)) = &mut self.lean else { return Ok(()) };
        let tasks = tasks(self.graph, choice, self.machine, options, known)?;
        match check_capacity(&tasks, self.machine, options.memory) {
            Ok(()) => {
                let price = price_with(self.graph, choice, self.machine, options, known)?;
                let (cost, options) = (cost(&price, &tasks, self.machine, options.objective), options.clone());
                self.keep(cost, choice, tasks, options);
            }
            Err(lacking) => self.keep_less(lacking),
        }
        Ok(())
    }

    fn keep_less(&mut self, lacking: NotEnough) {
        self.at_peak = lacking.largest.iter().map(|(name, _)| name.clone()).collect();
        keep_less(&mut self.lack, lacking);
    }

    fn keep(&mut self, cost: f64, choice: &Choice, tasks: TaskGraph, options: Options) {
        if self.best.as_ref().is_none_or(|b| cost < b.cost) {
            self.best = Some(Best { cost, choice: choice.clone(), tasks, options });
        }
    }

    /// Raises the price of memory as long as that may make the fullest device hold less.
    fn least_memory(&mut self, free: &Attempt, held: Room) -> Result<(), PlanError> {
        if self.rows() <= FEW {
            self.least_held(self.first(free, held))?;
        }
        for step in 0..8 {
            let tried = self.attempt_uneven(self.first(free, held) * 8f64.powi(step), HARDLY)?;
            let tried = self.prove(tried, f64::INFINITY)?;
            if self.lowered_anyway(&tried.found.choice, tried.cost)?.left < 0.0 {
                self.lowered_lean(&tried.found.choice)?;
            }
        }
        Ok(())
    }

    /// Where what is resident is not all that there is no room for, what is held for a time costs, too, until something fits:
    /// as much, then, in small graphs, less, because not everything is held at once, or more.
    fn least_held(&mut self, first: f64) -> Result<(), PlanError> {
        let ways = [(1.0, ALONE), (0.25, ALONE), (0.0625, ALONE), (8.0, ALONE), (1.0, SOMEWHAT), (0.5, 8.0 * ALONE)];
        let few = if self.rows() <= FEW { ways.len() } else { 1 };
        for (held, uneven) in ways.into_iter().take(few) {
            for step in 0..7 {
                for again in 0..if few > 1 && step % 2 == 1 { PEAKS } else { 1 } {
                    // Of a plan that does not fit, what it holds when it holds most becomes dearer.
                    let dearer = if again > 0 { std::mem::take(&mut self.at_peak) } else { Vec::new() };
                    self.search.hold_less(&dearer);
                    self.search.held = held;
                    let tried = self.attempt_uneven(first * 8f64.powi(step), uneven);
                    self.search.held = 0.0;
                    let choice = tried?.found.choice;
                    let price = price_with(self.graph, &choice, self.machine, self.options, self.search.answers())?;
                    if self.lowered_anyway(&choice, price.of(self.options.objective))?.left < 0.0 {
                        self.lowered_lean(&choice)?;
                    }
                    if self.options.objective == Objective::Memory {
                        break;
                    }
                    if self.best.is_some() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Finds two neighbours on the hull of (bytes, cost) of which one fits and the other does not, then mixes them.
    fn walk(&mut self, free: &Attempt, held: Room) -> Result<(), PlanError> {
        let first = self.first(free, held);
        // One plan says what would do.
        if !self.search.may_fit() {
            let tried = self.attempt(first * 4096.0)?;
            self.lowered_anyway(&tried.found.choice, tried.cost)?;
            return Ok(());
        }
        let mut choices = vec![(free.found.choice.clone(), free.cost)];
        for factor in PRICES {
            let tried = self.attempt(first * factor)?;
            choices.push((tried.found.choice.clone(), tried.cost));
            let held = self.search.resident(&tried.found.choice);
            // With room enough it surely fits, and only what is cheaper is lowered.
            let beside = ROOMY * self.search.worked_on_by_one();
            let left = if held.left - beside >= held.fullest {
                Some(held.left - beside)
            } else {
                self.lowered(&tried.found.choice, tried.cost)?.map(|room| room.left).filter(|&left| left >= 0.0)
            };
            if let Some(left) = left {
                let bytes = self.search.counted_of(&free.found.choice);
                let cheap = Corner { cost: free.cost, bytes, values: None };
                self.mix_neighbours(cheap, Fits { plan: tried, left }, first)?;
            }
            if self.best.is_some() {
                break;
            }
        }
        // What is slower than others because it stores less at once may still be quicker than what else fits.
        if self.best.is_none() || self.rows() <= FEW {
            choices.dedup();
            for (choice, _) in &choices {
                if self.search.resident(choice).left >= 0.0 {
                    self.lowered_lean(choice)?;
                }
            }
        }
        if self.best.is_none() {
            self.least_held(first)?;
        }
        if self.best.is_none() && self.lack.is_none() {
            for (choice, cost) in &choices {
                self.lowered_anyway(choice, *cost)?;
            }
        }
        if self.best.is_some() && self.bound <= 0.0 {
            self.bound_at(0.0)?;
        }
        Ok(())
    }

    /// Walks the hull from a plan that fits towards one that is cheaper and does not, to two neighbours, and mixes them.
    ///
    /// What a device holds beside its part of what is resident is about what it is of the plan that fits, so only the last
    /// one that seems to fit is lowered; if it does not after all, the walk goes on below it.
    fn mix_neighbours(&mut self, mut cheap: Corner, mut dear: Fits, first: f64) -> Result<(), PlanError> {
        let mut beside = self.search.resident(&dear.plan.found.choice).left - dear.left;
        let mut price = None;
        for _ in 0..ERRORS {
            let (next, last) = self.neighbours(&mut cheap, &dear.plan, beside)?;
            price = last.or(price);
            let Some(next) = next else { break };
            let room = self.lowered(&next.found.choice, next.cost)?;
            if let Some(left) = room.map(|room| room.left).filter(|&left| left >= 0.0) {
                dear = Fits { plan: next, left };
                break;
            }
            beside = room.map_or(beside, |room| self.search.resident(&next.found.choice).left - room.left);
            cheap = Corner::of(next);
        }
        if self.best.is_none() {
            match self.lowered(&dear.plan.found.choice, dear.plan.cost)? {
                Some(room) if room.left >= 0.0 => dear.left = room.left,
                Some(_) | None => return Ok(()),
            }
        }
        if let Some(price) = price {
            self.mix(cheap, &dear, first, price)?;
            self.bound_at(price)?;
        }
        Ok(())
    }

    /// Walks the hull between a plan that does not fit and one that does, of which `beside` bytes are held beside what is
    /// resident: `cheap` becomes the neighbour that does not seem to fit. The one that seems to, if it is another, and the
    /// price of a byte between them, if there is one.
    fn neighbours(
        &mut self,
        cheap: &mut Corner,
        fits: &Attempt,
        beside: f64,
    ) -> Result<(Option<Attempt>, Option<f64>), PlanError> {
        let (mut dear, mut price) = (None, None);
        for _ in 0..STEPS {
            let own: &Attempt = dear.as_ref().unwrap_or(fits);
            let (cost, bytes) = (own.cost, own.found.memory);
            let slope = (cost - cheap.cost) / (cheap.bytes - bytes);
            if !slope.is_finite() || slope <= 0.0 {
                break;
            }
            price = Some(slope);
            let next = self.attempt(slope)?;
            let line = cheap.cost + slope * cheap.bytes;
            let last = next.cost + slope * next.found.memory >= line - FLAT * cost;
            if bytes < next.found.memory && next.found.memory < cheap.bytes {
                if self.search.resident(&next.found.choice).left >= beside {
                    dear = Some(next);
                } else {
                    *cheap = Corner::of(next);
                }
            }
            if last {
                break;
            }
        }
        Ok((dear, price))
    }

    fn rows(&self) -> usize {
        self.graph.ids().filter(|&id| self.graph.spec(id).is_some()).count()
    }

    /// Decides a run of tensors as one plan does and the rest as another, so that as little as fits is decided as the
    /// dearer one does.
    fn mix(&mut self, mut cheap: Corner, dear: &Fits, first: f64, price: f64) -> Result<(), PlanError> {
        let values = if let Some(values) = cheap.values.take() {
            values
        } else {
            // The free plan once more, with homes for what is resident.
            let free = self.attempt(first * 1e-6)?;
            cheap.bytes = free.found.memory;
            free.found.values
        };
        (self.search.multiplier, self.search.uneven) = (price, SOMEWHAT);
        let Fits { plan: dear, left } = dear;
        let (a, b) = (&values, &dear.found.values);
        let mixtures = self.search.mixtures(a, b);
        // Mixtures that hold nearly as much are looked at together, because where the two meet costs more or less.
        let near = 0.03 * (cheap.bytes - dear.found.memory);
        let mut limit = dear.found.memory + left;
        for _ in 0..MIXTURES {
            let most = mixtures.iter().map(|m| m.bytes).filter(|&m| m <= limit).fold(f64::NEG_INFINITY, f64::max);
            let fitting = mixtures.iter().filter(|m| m.bytes <= limit && m.bytes >= most - near);
            let Some(mixture) = fitting.min_by(|a, b| a.cost.total_cmp(&b.cost)) else { break };
            let Some(mixed) = self.search.mixed(a, b, mixture)? else { break };
            let own = self.lowered_anyway(&mixed.choice, mixed.cost)?.left;
            if own >= 0.0 {
                break;
            }
            // Where devices hold unequal parts, the fullest one gains more than the mean.
            let slope = (left - own) / (mixture.bytes - dear.found.memory);
            let even = mixture.bytes + own.min(-1.0);
            let by_slope = dear.found.memory + left / slope;
            limit = if slope > 1.0 { by_slope.min(mixture.bytes - 1.0) } else { even };
        }
        Ok(())
    }
}
