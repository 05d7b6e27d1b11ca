//! The pipeline: from a graph, a machine and what the caller asks to a task graph with its figures.

use crate::answers::Answers;
use crate::bounds;
use crate::choice::Choice;
use crate::deadline::Deadline;
use crate::error::PlanError;
use crate::fit::{Decided, cost, does_not_fit, keep_less, searched, styles, tasks};
use crate::makespan::quickest;
use crate::options::{ExchangeStyle, Objective, Options, Placement, Strategy};
use crate::overlap::{Overlap, overlap};
use crate::price::price_with;
use crate::recompute;
use crate::report::{Assumptions, Effort, PerDevice, Report, StrategyReport};
use crate::search::hosts;
use crate::strategies::fixed;
use ein_ir::graph::Graph;
use ein_ir::op::Op;
use ein_ir::simplify::simplify;
use ein_task::machine::Machine;
use ein_task::memory::{check_capacity, fullest};
use ein_task::task::TaskGraph;
use ein_task::units::{Bytes, Seconds};
use std::time::Instant;

/// A plan: what was decided, the task graph that does it, and its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The graph that was planned: the given one, simplified.
    pub graph: Graph,
    /// The machine.
    pub machine: Machine,
    /// What was asked, with the style of exchanges that was needed to fit.
    pub options: Options,
    /// The decisions.
    pub choice: Choice,
    /// What every device does, with memory planned.
    pub tasks: TaskGraph,
    /// The figures.
    pub report: Report,
}

/// Plans a graph.
pub fn plan(graph: &Graph, machine: &Machine, options: &Options) -> Result<Plan, PlanError> {
    let start = Instant::now();
    let deadline = Deadline::after(options.time_limit);
    admit(machine, options)?;
    let mut graph = simplify(graph);
    let (decided, overlap) = if options.objective == Objective::Makespan && options.strategy.is_none() {
        let ask = |graph: &Graph| quickest(graph, machine, options, deadline);
        let quicker =
            |(_, a): &(Decided, Overlap), (_, b): &(Decided, Overlap)| b.simulated_seconds.0 < a.simulated_seconds.0;
        made_again(&mut graph, ask, |(decided, _)| decided.tight, quicker)?.0
    } else {
        let mut decided = decide_again(&mut graph, machine, options, deadline)?;
        let Decided { options: asked, choice, tasks, known, effort, .. } = &mut decided;
        // Cuts that nobody has time to try are none to try.
        let asked_now = Options { overlap: asked.overlap && !deadline.is_over(), ..asked.clone() };
        let overlap = overlapped(&graph, machine, &asked_now, choice, tasks, effort.patterns, known)?;
        (decided, overlap)
    };
    let mut report = report(&graph, machine, options, &decided, overlap);
    report.planning_seconds = Seconds(start.elapsed().as_secs_f64());
    let Decided { options, choice, tasks, .. } = decided;
    let options = Options { time_limit: None, ..options };
    Ok(Plan { graph, machine: machine.clone(), options, choice, tasks, report })
}

/// Decides a graph, and where memory binds also one in which maps are made again that else would be held: the cheaper one
/// stays, with a bound on both.
fn decide_again(
    graph: &mut Graph,
    machine: &Machine,
    options: &Options,
    deadline: Deadline,
) -> Result<Decided, PlanError> {
    let ask = |graph: &Graph| decide(graph, machine, options, deadline);
    if options.strategy.is_some() {
        return ask(graph);
    }
    let value = |d: &Decided| cost(&d.price, &d.tasks, machine, options.objective);
    let (mut decided, other) = made_again(graph, ask, |d| d.tight, |a, b| value(b) < value(a))?;
    decided.bound = other.map_or(decided.bound, |other| decided.bound.min(other.bound));
    Ok(decided)
}

/// What is answered of a graph, and where memory is too little or `tight`, also of one in which maps are made again (see
/// [`recompute`]), which becomes the graph where its answer is better or the only one. The better answer, and the other one.
fn made_again<T>(
    graph: &mut Graph,
    ask: impl Fn(&Graph) -> Result<T, PlanError>,
    tight: impl Fn(&T) -> bool,
    better: impl Fn(&T, &T) -> bool,
) -> Result<(T, Option<T>), PlanError> {
    let first = ask(graph);
    if !first.as_ref().map_or_else(does_not, tight) {
        return Ok((first?, None));
    }
    let Some(other) = recompute::again(graph) else { return Ok((first?, None)) };
    match (first, ask(&other)) {
        (first, Err(_)) => Ok((first?, None)),
        (Ok(first), Ok(second)) if !better(&first, &second) => Ok((first, Some(second))),
        (first, Ok(second)) => {
            *graph = other;
            Ok((second, first.ok()))
        }
    }
}

/// Whether a refusal says that there is too little memory.
fn does_not(refusal: &PlanError) -> bool {
    matches!(refusal, PlanError::DoesNotFit { .. })
}

/// By the fixed strategy that is asked for, or by the search.
pub(crate) fn decide(
    graph: &Graph,
    machine: &Machine,
    options: &Options,
    deadline: Deadline,
) -> Result<Decided, PlanError> {
    match options.strategy {
        Some(strategy) => forced(graph, machine, options, strategy),
        None => searched(graph, machine, options, deadline, 0.0, Answers::of(options)),
    }
}

/// Every fixed strategy on the same price list, in listing order.
pub fn compare(graph: &Graph, machine: &Machine, options: &Options) -> Vec<StrategyReport> {
    let graph = simplify(graph);
    let all = Strategy::compared(machine.workers().len());
    all.into_iter().map(|strategy| compared(&graph, machine, options, strategy)).collect()
}

fn compared(graph: &Graph, machine: &Machine, options: &Options, strategy: Strategy) -> StrategyReport {
    let mut report = StrategyReport {
        strategy: strategy.name(),
        refused: None,
        cost: None,
        seconds: None,
        simulated_seconds: None,
        bytes_total: None,
        bytes_per_device: None,
        peak_memory_per_device: None,
        fits: None,
        balanced: None,
        balance: None,
    };
    let priced = admit(machine, options).and_then(|()| {
        let choice = fixed(strategy, graph, machine, options)?;
        let mut known = Answers::of(options);
        let price = price_with(graph, &choice, machine, options, &mut known)?;
        let mut tasks = tasks(graph, &choice, machine, options, &mut known)?;
        let overlap = overlapped(graph, machine, options, &choice, &mut tasks, 0, &mut known)?;
        Ok((price, tasks, overlap))
    });
    match priced {
        Err(PlanError::Strategy(refusal)) => report.refused = Some(refusal.reason),
        Err(other) => report.refused = Some(other.to_string()),
        Ok((price, tasks, overlap)) => {
            report.cost = Some(match options.objective {
                Objective::Makespan => overlap.simulated_seconds.0,
                objective => cost(&price, &tasks, machine, objective),
            });
            report.seconds = Some(price.seconds);
            report.simulated_seconds = Some(overlap.simulated_seconds);
            report.bytes_total = Some(price.bytes_total);
            report.fits = Some(check_capacity(&tasks, machine, options.memory).is_ok());
            report.balanced = Some(price.balanced);
            report.balance = Some(price.balance);
            report.bytes_per_device = Some(PerDevice { sent: price.sent, received: price.received });
            report.peak_memory_per_device = Some(tasks.arenas);
        }
    }
    report
}

/// Refuses machines and placements that no plan can serve.
pub(crate) fn admit(machine: &Machine, options: &Options) -> Result<(), PlanError> {
    if machine.workers().is_empty() {
        return Err(PlanError::NoDevice { machine: machine.name.clone() });
    }
    if options.offload && hosts(machine).is_empty() {
        return Err(PlanError::NoHost { machine: machine.name.clone() });
    }
    for placement in [options.inputs, options.outputs] {
        if let Placement::Device(device) = placement
            && device.index() >= machine.len()
        {
            return Err(PlanError::NoSuchDevice { machine: machine.name.clone(), device, count: machine.len() });
        }
    }
    Ok(())
}

fn forced(graph: &Graph, machine: &Machine, options: &Options, strategy: Strategy) -> Result<Decided, PlanError> {
    let choice = fixed(strategy, graph, machine, options)?;
    // Nothing was searched, so the only bound is the one that knows no candidates.
    let bound = bounds::absolute(graph, machine, options);
    let mut lack = None;
    for options in styles(options) {
        let mut known = Answers::of(&options);
        let price = price_with(graph, &choice, machine, &options, &mut known)?;
        let tasks = tasks(graph, &choice, machine, &options, &mut known)?;
        match check_capacity(&tasks, machine, options.memory) {
            Ok(()) => {
                let (tight, effort) = (false, Effort::default());
                return Ok(Decided { options, choice, tasks, price, bound, tight, effort, known });
            }
            Err(lacking) => keep_less(&mut lack, lacking),
        }
    }
    Err(does_not_fit(&lack.expect("some style was tried")))
}

/// Replaces a choice's task graph by one whose exchanges hide behind what is computed, if there is one.
pub(crate) fn overlapped(
    graph: &Graph,
    machine: &Machine,
    options: &Options,
    choice: &Choice,
    tasks: &mut TaskGraph,
    patterns: usize,
    known: &mut Answers,
) -> Result<Overlap, PlanError> {
    let (better, overlap) = overlap(graph, choice, machine, options, tasks, patterns, known)?;
    if let Some(better) = better {
        *tasks = better;
    }
    Ok(overlap)
}

pub(crate) fn report(
    graph: &Graph,
    machine: &Machine,
    options: &Options,
    decided: &Decided,
    overlap: Overlap,
) -> Report {
    let Decided { tasks, price, bound, .. } = decided;
    let cost = match options.objective {
        Objective::Makespan => overlap.simulated_seconds.0,
        objective => cost(price, tasks, machine, objective),
    };
    let absolute = bounds::absolute(graph, machine, options);
    let bound = bound.max(absolute).min(cost);
    let computes = |op: &Op| matches!(op, Op::Einsum(_) | Op::Kernel(_));
    let (objective, unit) = match options.objective {
        Objective::Time => ("time", "s"),
        Objective::Makespan => ("makespan", "s"),
        Objective::Bytes => ("bytes", "B"),
        Objective::Memory => ("memory", "B"),
    };
    Report {
        machine: machine.name.clone(),
        devices: machine.workers().len(),
        hosts: machine.len() - machine.workers().len(),
        operations: graph.nodes().iter().filter(|n| computes(&n.op)).count(),
        objective: objective.into(),
        strategy: options.strategy.map(Strategy::name),
        exchanges: match decided.options.exchange {
            ExchangeStyle::Synthesized => "quickest".into(),
            ExchangeStyle::Lean => "lean".into(),
            ExchangeStyle::Naive => "naive".into(),
        },
        bytes_total: price.bytes_total,
        bytes_delivered: price.bytes_delivered,
        bytes_per_device: PerDevice { sent: price.sent.clone(), received: price.received.clone() },
        cost,
        cost_unit: unit.into(),
        seconds: price.seconds,
        compute_seconds: price.compute,
        simulated_seconds: overlap.simulated_seconds,
        overlap,
        lower_bound: bound,
        gap: gap(cost, bound),
        gap_absolute: gap(cost, absolute),
        lower_bound_absolute: absolute,
        balance: price.balance,
        peak_memory_per_device: tasks.arenas.clone(),
        planning_seconds: Seconds(0.0),
        assumptions: assumptions(options),
        effort: decided.effort.clone(),
    }
}

/// How far a cost is above a bound, as a share of the cost; rounding errors are no gap.
pub(crate) fn gap(cost: f64, bound: f64) -> f64 {
    let gap = if cost > 0.0 { (cost - bound) / cost } else { 0.0 };
    if gap < 1e-9 { 0.0 } else { gap }
}

fn assumptions(options: &Options) -> Assumptions {
    let place = |p: Placement| match p {
        Placement::Anywhere => "held once, wherever the plan likes".to_string(),
        Placement::Replicated => "whole on every device".to_string(),
        Placement::Device(d) => format!("whole on device {d}"),
    };
    Assumptions {
        inputs: place(options.inputs),
        outputs: place(options.outputs),
        partials: if options.wide_partials {
            "partials of 16-bit tensors cross in f32".into()
        } else {
            "partials of 16-bit tensors cross in 16 bits and are folded in f32".into()
        },
        parameters: if options.offload {
            "resident: they cost memory, not traffic, unless they stay at a host, from where they are sent in every run"
                .into()
        } else {
            "resident: they cost memory, not traffic".into()
        },
    }
}

impl Plan {
    /// The memory of the fullest device that computes.
    pub fn peak_memory(&self) -> Bytes {
        fullest(&self.tasks, &self.machine)
    }
}
