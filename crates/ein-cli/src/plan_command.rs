//! `ein plan`, `ein explain` and `ein simulate`.

use crate::args::{Asked, Explain, Plan as PlanArgs, Simulate, Source};
use crate::asked;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::show;
use crate::source;
use ein_plan::error::PlanError;
use ein_plan::plan::{Plan, compare};
use ein_task::simulate::simulate as simulated;
use serde_json::{Value, json};

/// Plans what the command line names.
fn planned(source: &Source, asked: &Asked) -> Result<(String, Plan), Failure> {
    let machine = asked::machine(asked)?;
    let options = asked::options(asked, &machine)?;
    let (name, graph) = source::graph(source)?;
    let _progress = Progress::start(format!("planning {name} on {}", machine.name));
    let plan = ein_plan::plan::plan(&graph, &machine, &options).map_err(refused)?;
    Ok((name, plan))
}

/// A plan's failure, by what the caller can do about it.
pub fn refused(error: PlanError) -> Failure {
    match error {
        PlanError::DoesNotFit { .. } => Failure::DoesNotFit(error.to_string()),
        PlanError::Exchange { .. } | PlanError::Choice(_) | PlanError::Lower(_) => Failure::run(error),
        PlanError::NoDevice { .. } | PlanError::NoSuchDevice { .. } | PlanError::Strategy { .. } => {
            Failure::request(error)
        }
    }
}

/// `ein plan`.
pub fn plan(args: &PlanArgs) -> Result<(), Failure> {
    let (name, plan) = planned(&args.source, &args.asked)?;
    let strategies = {
        let _progress = Progress::start("pricing the fixed strategies");
        compare(&plan.graph, &plan.machine, &plan.options)
    };
    if let Some(path) = &args.write_tasks {
        show::write(path, &ein_task::task_text::print(&plan.tasks))?;
    }
    if args.asked.json {
        let mut value = show::report_json(&plan.report)?;
        value["computation"] = json!(name);
        value["strategies"] = show::strategies_json(&strategies)?;
        println!("{value:#}");
    } else {
        println!("{name}");
        print!("{}", show::report(&plan.report));
        print!("\n{}", show::strategies(&plan.report, &strategies));
    }
    Ok(())
}

/// `ein explain`.
pub fn explain(args: &Explain) -> Result<(), Failure> {
    let (name, plan) = planned(&args.source, &args.asked)?;
    let explanation = ein_plan::explain::explain(&plan).map_err(refused)?;
    if args.asked.json {
        let mut value = serde_json::to_value(&explanation).map_err(Failure::run)?;
        value["computation"] = json!(name);
        println!("{value:#}");
        return Ok(());
    }
    println!("{name}");
    print!("{}\n{explanation}", show::report(&plan.report));
    if args.programs {
        for exchange in &explanation.exchanges {
            println!("\nexchange of {} ({}), have {}", exchange.tensor, exchange.stage, exchange.have);
            print!("{}", exchange.program);
        }
    }
    Ok(())
}

/// `ein simulate`.
pub fn simulate(args: &Simulate) -> Result<(), Failure> {
    let (name, plan) = planned(&args.source, &args.asked)?;
    let timeline = simulated(&plan.tasks, &plan.machine);
    if let Some(path) = &args.trace {
        show::write(path, &timeline.to_chrome_json())?;
    }
    let busy = show::busy(&timeline, plan.machine.len());
    if args.asked.json {
        let value: Value = json!({
            "computation": name,
            "machine": plan.machine.name,
            "devices": plan.machine.len(),
            "simulated_seconds": timeline.makespan().0,
            "cost": plan.report.cost,
            "cost_unit": plan.report.cost_unit,
            "tasks": plan.tasks.tasks.len(),
            "compute_busy_seconds": busy,
        });
        println!("{value:#}");
    } else {
        println!(
            "{name} on {}: {} simulated, {} tasks",
            plan.machine.name,
            timeline.makespan(),
            plan.tasks.tasks.len()
        );
        for (device, busy) in plan.machine.devices.iter().zip(busy) {
            let share = 100.0 * busy / timeline.makespan().0.max(1e-30);
            println!("  {:<8} computing {share:5.1} % of the time", device.name);
        }
    }
    Ok(())
}
