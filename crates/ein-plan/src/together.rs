//! Several graphs planned as one, so that where their parameters and states lie is decided once for all that read them: a
//! prompt's and a token's pass over the same weights, say.
//!
//! The graphs are searched as one graph in which a parameter or state of one name stands once. Its home has to serve all its
//! readers, and its memory is paid once. What is found is split again, row by row, and every plan keeps what is resident at
//! the same places of the same arenas. As one graph, readers of different graphs could share what is handed out of a
//! parameter's home, too; in runs of their own they cannot, so the bound of the one graph is one on all plans together, and
//! their cost may be a little above it.

use crate::answers::Answers;
use crate::choice::Choice;
use crate::deadline::Deadline;
use crate::error::PlanError;
use crate::fit::{Decided, does_not_fit};
use crate::lower::lower_with;
use crate::options::{Objective, Options};
use crate::overlap::Overlap;
use crate::plan::{Plan, admit, decide, gap, report};
use crate::price::price_with;
use ein_ir::graph::{Graph, GraphError, TensorId};
use ein_ir::op::{InputKind, Op};
use ein_ir::simplify::simplify;
use ein_task::machine::Machine;
use ein_task::memory::{check_capacity, fullest, plan_memory_together};
use ein_task::simulate::simulate;
use ein_task::task::TaskGraph;
use ein_task::units::Seconds;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Instant;

/// Plans that keep what is resident at the same places.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    /// One for each graph. Their bounds know no candidates; the bound within those is that of all together.
    pub plans: Vec<Plan>,
    /// What all cost together, each done once, in the objective's unit; of memory, what the fullest takes.
    pub cost: f64,
    /// No choice of candidates costs less.
    pub lower_bound: f64,
    /// `(cost - lower_bound) / cost`, 0 where the cost is 0.
    pub gap: f64,
}

/// Plans graphs together. Parameters and states of one name are one; their types must be equal, or the error names both.
/// Memory is that of the fullest graph, its parameters and those of the others. Blocks are not cut once more for overlap.
pub fn plan_together(graphs: &[Graph], machine: &Machine, options: &Options) -> Result<Together, PlanError> {
    let start = Instant::now();
    let deadline = Deadline::after(options.time_limit);
    admit(machine, options)?;
    let graphs: Vec<Graph> = graphs.iter().map(simplify).collect();
    let (joined, places) = joined(&graphs)?;
    let decided = decide(&joined, machine, options, deadline)?;
    let choices: Vec<Choice> = places.iter().map(|places| part(&decided.choice, places)).collect();
    let mut known = Answers::of(&decided.options);
    let lowered = graphs.iter().zip(&choices);
    let lowered = lowered.map(|(graph, choice)| lower_with(graph, choice, machine, &decided.options, &mut known));
    let mut tasks = lowered.collect::<Result<Vec<TaskGraph>, _>>()?;
    plan_memory_together(&mut tasks);
    for tasks in &tasks {
        check_capacity(tasks, machine, options.memory).map_err(|lack| does_not_fit(&lack))?;
    }
    let mut plans = Vec::with_capacity(graphs.len());
    for ((graph, choice), tasks) in graphs.into_iter().zip(choices).zip(tasks) {
        let price = price_with(&graph, &choice, machine, &decided.options, &mut known)?;
        let simulated = simulate(&tasks, machine).makespan();
        let overlap = Overlap {
            simulated_seconds: simulated,
            simulated_seconds_uncut: simulated,
            peak_memory_uncut: fullest(&tasks, machine),
            untried: Some(Cow::Borrowed("graphs are planned together")),
            ..Overlap::default()
        };
        let (asked, effort) = (decided.options.clone(), decided.effort.clone());
        let own = Decided {
            options: asked,
            choice,
            tasks,
            price,
            bound: 0.0,
            tight: false,
            effort,
            known: Answers::default(),
        };
        let mut report = report(&graph, machine, options, &own, overlap);
        report.planning_seconds = Seconds(start.elapsed().as_secs_f64());
        let options = Options { time_limit: None, ..own.options };
        plans.push(Plan { graph, machine: machine.clone(), options, choice: own.choice, tasks: own.tasks, report });
    }
    let costs = plans.iter().map(|p| p.report.cost);
    let total = match options.objective {
        Objective::Time | Objective::Makespan | Objective::Bytes => costs.sum(),
        Objective::Memory => costs.fold(0.0, f64::max),
    };
    let proved = match options.objective {
        Objective::Time | Objective::Bytes => decided.bound,
        // What bounds the sum of what tasks take does not bound how long they take beside one another.
        Objective::Makespan | Objective::Memory => 0.0,
    };
    let lower_bound = proved.min(total).max(0.0);
    Ok(Together { plans, cost: total, lower_bound, gap: gap(total, lower_bound) })
}

/// All graphs as one, and where the rows of each are in it. What is not shared is named after its graph's number, too.
fn joined(graphs: &[Graph]) -> Result<(Graph, Vec<Vec<TensorId>>), PlanError> {
    let mut all = Graph::new();
    let mut shared: BTreeMap<&str, TensorId> = BTreeMap::new();
    let mut places = Vec::with_capacity(graphs.len());
    for (n, graph) in graphs.iter().enumerate() {
        let mut place: Vec<TensorId> = Vec::with_capacity(graph.nodes().len());
        for node in graph.nodes() {
            let inputs: Vec<TensorId> = node.inputs.iter().map(|i| place[i.index()]).collect();
            let own = format!("{n}/{}", node.name);
            let row = match &node.op {
                Op::Input(kind @ (InputKind::Parameter | InputKind::State)) => match shared.get(node.name.as_str()) {
                    Some(&known) if all.node(known).op == node.op && *all.ty(known) == node.ty => Ok(known),
                    Some(&known) => {
                        let (name, first, second) = (node.name.clone(), all.ty(known).clone(), node.ty.clone());
                        return Err(PlanError::Shared { name, first, second });
                    }
                    None => {
                        let row = all.input(&format!("shared/{}", node.name), *kind, node.ty.clone());
                        shared.extend(row.as_ref().ok().map(|&id| (node.name.as_str(), id)));
                        row
                    }
                },
                Op::Input(InputKind::Input) => all.input(&own, InputKind::Input, node.ty.clone()),
                Op::Einsum(einsum) => all.einsum(&own, einsum.clone(), &inputs),
                Op::View(view) => all.view(&own, view.clone(), &inputs),
                Op::Kernel(kernel) => all.kernel(&own, kernel.clone(), &inputs),
            };
            place.push(sound(row));
        }
        for (name, id) in graph.outputs() {
            sound(all.output(&format!("{n}/{name}"), place[id.index()]));
        }
        places.push(place);
    }
    Ok((all, places))
}

/// A row that was sound in its own graph is so beside others, under another name.
fn sound<T>(row: Result<T, GraphError>) -> T {
    row.unwrap_or_else(|e| panic!("a sound row is sound beside others: {e}"))
}

/// What was decided of the rows of one graph.
fn part(choice: &Choice, places: &[TensorId]) -> Choice {
    let mut part = Choice::default();
    for (n, place) in places.iter().enumerate() {
        let id = TensorId(n as u32);
        part.decompositions.extend(choice.decompositions.get(place).map(|d| (id, d.clone())));
        part.homes.extend(choice.homes.get(place).map(|h| (id, h.clone())));
    }
    part
}
