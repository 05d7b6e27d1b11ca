//! `measure one`: one plan, its figures as JSON. `measure plan` asks a process of its own for each.

use super::graphs::graph;
use super::question::Question;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::kernel::Kernel;
use ein_ir::op::{InputKind, Op};
use ein_plan::answers::Answers;
use ein_plan::error::PlanError;
use ein_plan::exchanges::exchanges;
use ein_plan::options::{Options, Strategy};
use ein_plan::plan::{Plan, compare, plan};
use ein_plan::price::seconds;
use ein_task::machine::Machine;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Plans and prints.
pub fn run(question: &Question) -> ExitCode {
    match answer(question) {
        Ok(value) => {
            println!("{value}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// What is said of a question; `refused` alone where there is no plan.
fn answer(question: &Question) -> Result<Value, String> {
    let (machine, options) = (question.place()?, question.options()?);
    let graph = graph(&question.workload)?;
    if question.draws > 0 {
        return Ok(json!({ "draws": draws(&graph, &machine, &options, question.draws)? }));
    }
    let mut value = match plan(&graph, &machine, &options) {
        Err(refusal) => json!({ "refused": refusal.to_string() }),
        Ok(plan) => {
            // Read before anything else is done.
            let peak = peak_memory();
            json!({ "report": plan.report, "peak_memory": peak, "layers": in_layers(&plan)?, "cuts": cuts(&plan) })
        }
    };
    if question.compare {
        value["strategies"] = json!(compare(&graph, &machine, &options));
    }
    Ok(value)
}

/// Figures of plans drawn from the candidates, without those that do not fit.
fn draws(graph: &Graph, machine: &Machine, options: &Options, count: u64) -> Result<Vec<Value>, String> {
    let mut draws = Vec::new();
    for seed in 0..count {
        let drawn = Options { strategy: Some(Strategy::Random(seed)), ..options.clone() };
        match plan(graph, machine, &drawn) {
            Ok(Plan { report: r, .. }) => draws.push(json!({
                "seed": seed, "cost": r.cost, "simulated": r.simulated_seconds, "bytes": r.bytes_total
            })),
            Err(PlanError::DoesNotFit { .. }) => {}
            Err(other) => return Err(format!("draw {seed}: {other}")),
        }
    }
    Ok(draws)
}

/// The most bytes that this process has had in memory (Linux); 0 where nobody says.
fn peak_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kilobytes| kilobytes << 10)
}

/// What a whole model costs without its embedding and its head, in serial seconds: rows up to the last layer's end and the
/// exchanges of what they make, those of the embedded tokens and of the layers' parameters included.
fn in_layers(plan: &Plan) -> Result<f64, String> {
    let (graph, choice, machine) = (&plan.graph, &plan.choice, &plan.machine);
    let named = |id: TensorId, part: &str| graph.node(id).name.contains(part);
    let last = graph.ids().rev().find(|&id| named(id, "layers."));
    let embeds = |id: TensorId| graph.node(id).inputs.iter().any(|&i| named(i, "embed"));
    let mut known = Answers::of(&plan.options);
    let rows = choice.decompositions.iter().filter(|(id, _)| Some(**id) <= last && !embeds(**id));
    let mut total: f64 = rows.filter_map(|(&id, d)| Some(seconds(&graph.spec(id)?, d, machine).0)).sum();
    for planned in exchanges(graph, choice, &plan.options, machine).map_err(|e| e.to_string())? {
        let inside = match graph.node(planned.tensor).op {
            Op::Input(InputKind::Parameter) => named(planned.tensor, "layers."),
            Op::Input(InputKind::Input | InputKind::State) => false,
            Op::Einsum(_) | Op::View(_) | Op::Kernel(_) => Some(planned.tensor) <= last,
        };
        if inside {
            total += known.answer(&planned.exchange, machine).map_err(|e| e.to_string())?.traffic.seconds.0;
        }
    }
    Ok(total)
}

/// Of every row that computes: its name, what it is, and every label that is cut, with its extent and the number of
/// intervals.
fn cuts(plan: &Plan) -> Value {
    let row = |(&id, d): (&TensorId, &ein_plan::choice::Decomposition)| {
        let spec = plan.graph.spec(id)?;
        let cut = spec.labels.iter().enumerate().filter_map(|(l, label)| {
            let mut starts: Vec<usize> = d.blocks().iter().map(|b| b.region.0[l].lo).collect();
            starts.sort_unstable();
            starts.dedup();
            (starts.len() > 1).then(|| json!({ "label": label.name, "extent": label.extent, "parts": starts.len() }))
        });
        let cut: Vec<Value> = cut.collect();
        Some(json!({ "row": plan.graph.node(id).name, "kind": kind(&plan.graph, id), "cut": cut }))
    };
    plan.choice.decompositions.iter().filter_map(row).collect()
}

fn kind(graph: &Graph, id: TensorId) -> &'static str {
    match &graph.node(id).op {
        Op::Kernel(Kernel::Attention(_)) => "attention",
        _ if graph.spec(id).is_some_and(|s| s.work.contraction) => "product",
        _ => "other",
    }
}
