//! `ein plan`, `ein explain` and `ein simulate`.

use crate::args::{Asked, Explain, Plan as PlanArgs, Simulate, Source};
use crate::asked;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::run_command::session;
use crate::show;
use crate::source;
use ein_plan::cache::Origin;
use ein_plan::error::PlanError;
use ein_plan::plan::{Plan, compare};
use ein_task::simulate::simulate as simulated;
use ein_task::timeline::Lane;
use ein_task::units::Bytes;
use einsummable::runner::Fitted;
use einsummable::session::Runner;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// A plan, the name of what it computes, and whether it was known.
pub struct Planned {
    /// The computation.
    pub name: String,
    /// Its plan.
    pub plan: Arc<Plan>,
    /// Where it comes from.
    pub origin: Origin,
    /// Bytes that each device needs besides its arena, if it is a GPU.
    pub scratch: Vec<Bytes>,
}

/// Plans what the command line names.
pub fn planned(source: &Source, asked: &Asked) -> Result<Planned, Failure> {
    let machine = asked::machine(asked)?;
    let options = asked::options(asked, &machine)?;
    let (name, graph) = source::graph(source)?;
    let _progress = Progress::start(format!("planning {name} on {}", machine.name));
    let runner = Runner::elsewhere(&machine);
    let fitted = runner.fitted(&asked::cache(asked), &graph, &machine, &options).map_err(session)?;
    let Fitted { plan, origin, scratch, .. } = fitted;
    Ok(Planned { name, plan, origin, scratch })
}

/// A line of what kernels need besides arenas; empty where that is nothing.
fn besides(scratch: &[Bytes]) -> String {
    match scratch.iter().max() {
        Some(most) if most.0 > 0 => {
            format!("  scratch memory   at most {most} a device besides, for what kernels of GPUs need\n")
        }
        _ => String::new(),
    }
}

/// A plan's failure, by what the caller can do about it.
pub fn refused(error: PlanError) -> Failure {
    match error {
        PlanError::DoesNotFit { .. } => Failure::DoesNotFit(error.to_string()),
        PlanError::Exchange { .. } | PlanError::Choice(_) | PlanError::Lower(_) => Failure::run(error),
        PlanError::NoDevice { .. }
        | PlanError::NoSuchDevice { .. }
        | PlanError::NoHost { .. }
        | PlanError::TimeLimit { .. }
        | PlanError::Shared { .. }
        | PlanError::Strategy { .. } => Failure::request(error),
    }
}

/// `ein plan`.
pub fn plan(args: &PlanArgs) -> Result<(), Failure> {
    output::writable(args.write_tasks.as_ref())?;
    output::writable(args.save.as_ref())?;
    let Planned { name, plan, origin, scratch } = planned(&args.source, &args.asked)?;
    let strategies = {
        let _progress = Progress::start("pricing the fixed strategies");
        compare(&plan.graph, &plan.machine, &plan.options)
    };
    if let Some(path) = &args.write_tasks {
        output::write(path, &ein_task::task_text::print(&plan.tasks))?;
    }
    if let Some(path) = &args.save {
        output::write(path, &ein_plan::saved::print(&plan))?;
    }
    if args.asked.json {
        let mut value = show::report_json(&plan.report, origin)?;
        value["computation"] = json!(name);
        value["strategies"] = show::strategies_json(&strategies)?;
        value["scratch_per_device"] = json!(scratch);
        return output::print(&format!("{value:#}\n"));
    }
    output::print(&format!(
        "{name}\n{}\n{}{}\n{}\n  --json prints all of this, exactly, on standard output; `ein explain` says why\n",
        show::report(&plan.report, origin),
        show::devices(&plan),
        besides(&scratch),
        show::strategies(&plan.report, &strategies)
    ))
}

/// `ein explain`.
pub fn explain(args: &Explain) -> Result<(), Failure> {
    let Planned { name, plan, origin, .. } = planned(&args.source, &args.asked)?;
    let explanation = ein_plan::explain::explain(&plan).map_err(refused)?;
    if args.asked.json {
        let mut value = serde_json::to_value(&explanation).map_err(Failure::run)?;
        value["computation"] = json!(name);
        value["cached"] = json!(origin != Origin::Planned);
        return output::print(&format!("{value:#}\n"));
    }
    let mut text = format!("{name}\n{}\n{explanation}", show::report(&plan.report, origin));
    if args.programs {
        for exchange in &explanation.exchanges {
            let _ = writeln!(text, "\nexchange of {} ({}), have {}", exchange.tensor, exchange.stage, exchange.have);
            text += &exchange.program;
        }
    }
    output::print(&text)
}

/// `ein simulate`.
pub fn simulate(args: &Simulate) -> Result<(), Failure> {
    output::writable(args.trace.as_ref())?;
    let Planned { name, plan, origin, .. } = planned(&args.source, &args.asked)?;
    let timeline = simulated(&plan.tasks, &plan.machine);
    if let Some(path) = &args.trace {
        output::write(path, &timeline.to_chrome_json())?;
    }
    let busy: Vec<f64> = plan.machine.ids().map(|d| timeline.busy(d, Lane::Compute).0).collect();
    let (machine, makespan, tasks) = (&plan.machine, timeline.makespan(), plan.tasks.tasks.len());
    if args.asked.json {
        let value: Value = json!({
            "computation": name,
            "cached": origin != Origin::Planned,
            "machine": machine.name,
            "devices": machine.workers().len(),
            "hosts": machine.len() - machine.workers().len(),
            "simulated_seconds": makespan.0,
            "cost": plan.report.cost,
            "cost_unit": plan.report.cost_unit,
            "tasks": tasks,
            "compute_busy_seconds": busy,
        });
        return output::print(&format!("{value:#}\n"));
    }
    let mut text = format!("{name} on {}: {makespan} simulated, {tasks} tasks\n", machine.name);
    for (device, busy) in machine.devices.iter().zip(busy) {
        let share = 100.0 * busy / makespan.0.max(1e-30);
        let _ = writeln!(text, "  {:<8} computing {share:5.1} % of the time", device.name);
    }
    output::print(&text)
}
