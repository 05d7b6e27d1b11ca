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
use crate::search::{Found, HARDLY, SOMEWHAT, Search};
use ein_ir::graph::Graph;
use ein_task::machine::Machine;
use ein_task::memory::{NotEnough, check_capacity, fullest, plan_memory};
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
        bound: 0.0,
        effort: Effort::default(),
    };
    let free = fitting.attempt(0.0, true)?;
    let (fits, peak) = fitting.lowered(&free.found.choice, free.cost)?;
    let further = match options.objective {
        Objective::Memory => fitting.least_memory(&free, peak),
        _ if !fits => fitting.walk(free, peak),
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

/// Most mixtures of two plans that are lowered.
const MIXTURES: usize = 6;

/// Most rows of a graph that is lowered once more with exchanges that store less, although another plan fits.
const FEW: usize = 200;

/// A price at which what the plan that ignores memory takes of a device costs a tenth of that plan. It does not depend
/// on how much there is, so that what is said to be enough is. A plan that moves nothing has no price to compare with:
/// a byte held is then worth a tenth of one moved.
fn first(free: &Attempt, peak: f64, objective: Objective) -> f64 {
    let cost = if objective == Objective::Bytes && free.cost < 1.0 { peak } else { free.cost };
    0.1 * cost.max(1e-9) / peak.max(1.0)
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
    bound: f64,
    effort: Effort,
}

impl Fitting<'_> {
    /// Finds the best choice at a price of a byte; with `bounded` its bound too.
    fn attempt(&mut self, multiplier: f64, bounded: bool) -> Result<Attempt, PlanError> {
        self.search.multiplier = multiplier;
        self.search.uneven = if bounded { HARDLY } else { SOMEWHAT };
        let found = self.search.solve(bounded)?;
        let rounds = self.effort.rounds + found.effort.rounds;
        let stopped = self.effort.stopped | found.effort.stopped;
        self.effort = Effort { rounds, stopped, ..found.effort.clone() };
        if bounded {
            self.bound = self.bound.max(self.search.bound_without_memory(&found));
        }
        Ok(Attempt { cost: self.search.cost_of(&found), found })
    }

    /// Lowers a choice, and keeps it if it fits and none before was cheaper. Whether it fits with the exchanges
    /// asked for, and the bytes of its fullest device with them.
    fn lowered(&mut self, choice: &Choice, cost: f64) -> Result<(bool, f64), PlanError> {
        let Self { graph, machine, options, .. } = *self;
        let tasks = tasks(graph, choice, machine, options, self.search.answers())?;
        let peak = fullest(&tasks, machine).0 as f64;
        match check_capacity(&tasks, machine, options.memory) {
            Ok(()) => {
                let cost = if options.objective == Objective::Memory { peak } else { cost };
                self.keep(cost, choice, tasks, options.clone());
                Ok((true, peak))
            }
            Err(lacking) => {
                keep_less(&mut self.lack, lacking);
                Ok((false, peak))
            }
        }
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
            Err(lacking) => keep_less(&mut self.lack, lacking),
        }
        Ok(())
    }

    fn keep(&mut self, cost: f64, choice: &Choice, tasks: TaskGraph, options: Options) {
        if self.best.as_ref().is_none_or(|b| cost < b.cost) {
            self.best = Some(Best { cost, choice: choice.clone(), tasks, options });
        }
    }

    /// Raises the price of memory as long as that may make the fullest device hold less.
    fn least_memory(&mut self, free: &Attempt, peak: f64) -> Result<(), PlanError> {
        for step in 0..8 {
            let tried = self.attempt(first(free, peak, self.options.objective) * 8f64.powi(step), true)?;
            if !self.lowered(&tried.found.choice, tried.cost)?.0 {
                self.lowered_lean(&tried.found.choice)?;
            }
        }
        Ok(())
    }

    /// Walks the hull of (bytes, cost) to the two neighbours of which one should fit and the other not, then mixes them.
    fn walk(&mut self, free: Attempt, peak: f64) -> Result<(), PlanError> {
        let first = first(&free, peak, self.options.objective);
        // The free plan once more, with homes for what is resident.
        let mut cheap = self.attempt(first * 1e-6, false)?;
        let available = self.lack.as_ref().map_or(0, |l| l.available.0) as f64;
        // One more plan says what would do.
        if !self.search.may_fit() {
            let tried = self.attempt(first * 4096.0, false)?;
            self.lowered(&tried.found.choice, tried.cost)?;
            return Ok(());
        }
        let mut choices = vec![free.found.choice];
        // Prices that the search finds hardly worth paying, then any.
        let mut dear = None;
        for factor in [8.0, 64.0, 4096.0, 262_144.0, 1.0, 512.0, 32_768.0] {
            let tried = self.attempt(first * factor, false)?;
            let (fits, peak) = self.lowered(&tried.found.choice, tried.cost)?;
            choices.push(tried.found.choice.clone());
            if fits {
                dear = Some((tried, peak));
                break;
            }
        }
        if let Some((mut dear, mut peak)) = dear {
            let mut price = 0.0;
            for _ in 0..STEPS {
                price = (dear.cost - cheap.cost) / (cheap.found.memory - dear.found.memory);
                if !price.is_finite() || price <= 0.0 {
                    break;
                }
                let next = self.attempt(price, false)?;
                let with_memory = |a: &Attempt| a.cost + price * a.found.memory;
                let last = with_memory(&next) >= with_memory(&cheap) * (1.0 - 1e-9);
                let between = dear.found.memory < next.found.memory && next.found.memory < cheap.found.memory;
                if between {
                    // What a device holds beside its part of what is resident is about what it is of the one that fits.
                    let may_fit = next.found.memory + (peak - dear.found.memory) <= available;
                    let own = if may_fit { Some(self.lowered(&next.found.choice, next.cost)?) } else { None };
                    match own {
                        Some((true, own)) => (dear, peak) = (next, own),
                        Some((false, _)) | None => cheap = next,
                    }
                }
                if last {
                    break;
                }
            }
            if price.is_finite() && price > 0.0 {
                self.attempt(price, true)?;
                self.search.uneven = SOMEWHAT;
                self.mix(&cheap, &dear, peak, available)?;
            }
        }
        // What is slower than others because it stores less at once may still be quicker than what else fits.
        if self.best.is_none() || self.rows() <= FEW {
            choices.dedup();
            for choice in &choices {
                self.lowered_lean(choice)?;
            }
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        self.graph.ids().filter(|&id| self.graph.spec(id).is_some()).count()
    }

    /// Decides a run of tensors as one plan does and the rest as another, so that as little as fits is decided as the
    /// dearer one does, whose fullest device holds `peak`.
    fn mix(&mut self, cheap: &Attempt, dear: &Attempt, peak: f64, available: f64) -> Result<(), PlanError> {
        let (a, b) = (&cheap.found.values, &dear.found.values);
        let mixtures = self.search.mixtures(a, b);
        // Mixtures that hold nearly as much are looked at together, because where the two meet costs more or less.
        let near = 0.03 * (cheap.found.memory - dear.found.memory);
        let mut limit = dear.found.memory + available - peak;
        for _ in 0..MIXTURES {
            let most = mixtures.iter().map(|m| m.bytes).filter(|&m| m <= limit).fold(f64::NEG_INFINITY, f64::max);
            let fitting = mixtures.iter().filter(|m| m.bytes <= limit && m.bytes >= most - near);
            let Some(mixture) = fitting.min_by(|a, b| a.cost.total_cmp(&b.cost)) else { break };
            let Some(mixed) = self.search.mixed(a, b, mixture)? else { break };
            let (fits, own) = self.lowered(&mixed.choice, mixed.cost)?;
            if fits {
                break;
            }
            // Where devices hold unequal parts, the fullest one gains more than the mean.
            let slope = (own - peak) / (mixture.bytes - dear.found.memory);
            let even = mixture.bytes - (own - available).max(1.0);
            let by_slope = dear.found.memory + (available - peak) / slope;
            limit = if slope > 1.0 { by_slope.min(mixture.bytes - 1.0) } else { even };
        }
        Ok(())
    }
}
