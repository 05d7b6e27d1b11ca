//! Plans that fit: a price on memory, found where the plans on either side of it fit and do not, and mixtures of the two.
//!
//! Memory couples all layers of a model. A price on every resident byte takes the coupling apart (Everett, 1963): at
//! each price the search is exact, and what it finds lies on the lower convex hull of (bytes, cost). Between two
//! neighbours on the hull lies what decides some layers as the one plan does and the rest as the other.

mod walk;

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
    /// Whether a quicker choice was found that does not fit.
    pub tight: bool,
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
/// the row it feeds, or the one that feeds it, computes count for little. `known` are exchanges that were answered before, in
/// the style asked for.
pub(crate) fn searched(
    graph: &Graph,
    machine: &Machine,
    options: &Options,
    deadline: Deadline,
    hiding: f64,
    known: Answers,
) -> Result<Decided, PlanError> {
    if options.offload {
        // What fits without the host needs none of it: of the prices of memory nearly all send everything there.
        match searched(graph, machine, &Options { offload: false, ..options.clone() }, deadline, hiding, known) {
            Ok(mut without) => {
                without.options.offload = true;
                // For the least memory, what is sent from the host may leave less to hold.
                let with = match options.objective {
                    Objective::Time | Objective::Makespan | Objective::Bytes => return Ok(without),
                    Objective::Memory => {
                        searched_from_host(graph, machine, options, deadline, hiding, Answers::of(options))
                    }
                };
                let memory = |d: &Decided| fullest(&d.tasks, machine);
                return Ok(with.ok().filter(|with| memory(with) < memory(&without)).unwrap_or(without));
            }
            Err(PlanError::DoesNotFit { .. }) => {
                return searched_from_host(graph, machine, options, deadline, hiding, Answers::of(options));
            }
            Err(other) => return Err(other),
        }
    }
    searched_from_host(graph, machine, options, deadline, hiding, known)
}

/// [`searched`], with the homes at hosts that the options allow.
fn searched_from_host(
    graph: &Graph,
    machine: &Machine,
    options: &Options,
    deadline: Deadline,
    hiding: f64,
    known: Answers,
) -> Result<Decided, PlanError> {
    let all = |known| searched_among(graph, machine, options, Richness::of(machine), deadline, hiding, known);
    if options.time_limit.is_none() {
        return all(known);
    }
    let first = searched_among(graph, machine, options, Richness::little(), deadline, hiding, known);
    let mut decided = match (first, all(Answers::of(options))) {
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
    mut known: Answers,
) -> Result<Decided, PlanError> {
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
    let late = match fitting.look_further(&mut free) {
        Err(late @ PlanError::TimeLimit { .. }) => Some(late),
        other => other.map(|()| None)?,
    };
    let held = fitting.search.resident(&free.found.choice);
    // What cannot fit needs no bound and is not lowered: a price of memory proves more.
    let fits = (held.left >= 0.0 || options.objective == Objective::Memory) && {
        if late.is_none() {
            free = fitting.prove(free, f64::INFINITY, true)?;
        }
        fitting.lowered(&free.found.choice, free.cost)?.is_some_and(|room| room.left >= 0.0)
    };
    let further = match (late, options.objective) {
        // There is nothing to search with any more: what was found before is the plan, if it fits.
        (Some(late), _) => Err(late),
        (None, Objective::Memory) => fitting.least_memory(&free, held),
        (None, _) if !fits => fitting.walk(&free, held),
        (None, _) => Ok(()),
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
            Ok(Decided {
                options: asked,
                choice,
                tasks,
                price,
                bound,
                tight: !fits || options.objective == Objective::Memory,
                effort,
                known,
            })
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

/// Most rows of a graph that is lowered once more with exchanges that store less, although another plan fits.
const FEW: usize = 200;

/// How often what is held at the peak of a small graph becomes dearer.
const PEAKS: usize = 6;

/// Most rows of a graph of which all ways to hold less are tried, although some plan fits.
const TINY: usize = 8;

/// A bound is near enough to a plan that fits at this share of its cost: with what memory has to be held in lumps for, a
/// thousandth is hardly to be had.
const NEAR: f64 = 9e-4;

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
        self.search.apart = false;
        let found = self.search.solve()?;
        let rounds = self.effort.rounds + found.effort.rounds;
        let stopped = self.effort.stopped | found.effort.stopped;
        self.effort = Effort { rounds, stopped, ..found.effort.clone() };
        Ok(Attempt { cost: self.search.cost_of(&found), found })
    }

    /// Looks for something cheaper than the last attempt among what the search does not know yet. Where time ends it, the last
    /// attempt is still the best there is, and the search is of no more use.
    fn look_further(&mut self, last: &mut Attempt) -> Result<(), PlanError> {
        if !self.search.look_further(last.cost)? {
            return Ok(());
        }
        let again = self.attempt(0.0)?;
        if again.cost <= last.cost {
            *last = again;
        } else {
            // Ended early, it may have found less; what it proved, and that it was ended, holds.
            last.found.bound = again.found.bound.min(last.found.cost);
            last.found.effort = again.found.effort;
        }
        Ok(())
    }

    /// The last attempt with a bound, which need not be above `enough`; or something better, if that is asked for.
    fn prove(&mut self, last: Attempt, enough: f64, better: bool) -> Result<Attempt, PlanError> {
        let before = last.found.effort.rounds;
        let enough = self.search.with_memory(enough);
        let found = self.search.prove(last.found, enough, better)?;
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
        // What is found on the way is not lowered.
        self.prove(last, enough, false)?;
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
        self.dearer_and_dearer(self.first(free, held))
    }

    /// Lowers what is found as memory becomes dearer and dearer.
    fn dearer_and_dearer(&mut self, first: f64) -> Result<(), PlanError> {
        for step in 0..8 {
            let tried = self.attempt_uneven(first * 8f64.powi(step), HARDLY)?;
            let tried = self.prove(tried, f64::INFINITY, true)?;
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
                    self.try_held(first * 8f64.powi(step), held, uneven)?;
                    if self.options.objective == Objective::Memory {
                        break;
                    }
                    // Of a tiny graph all are tried: the cheapest plan that fits may be none of the hull's.
                    if self.best.is_some() && self.rows() > TINY {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Lowers what the search finds where what is held for a time costs `held` of what a resident byte does, if it does not
    /// fit with leaner exchanges, too.
    fn try_held(&mut self, price: f64, held: f64, uneven: f64) -> Result<(), PlanError> {
        self.search.held = held;
        let tried = self.attempt_uneven(price, uneven);
        self.search.held = 0.0;
        let choice = tried?.found.choice;
        let cost = price_with(self.graph, &choice, self.machine, self.options, self.search.answers())?;
        if self.lowered_anyway(&choice, cost.of(self.options.objective))?.left < 0.0 {
            self.lowered_lean(&choice)?;
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        self.graph.ids().filter(|&id| self.graph.spec(id).is_some()).count()
    }
}
