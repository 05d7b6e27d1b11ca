//! Real runs of plans on threads of this host.

use ein_ir::dense::Dense;
use ein_plan::plan::Plan;
use ein_run::Executor;
use ein_run::measure::median;
use ein_task::timeline::Timeline;
use std::collections::BTreeMap;
use std::error::Error;

/// Runs that do not count.
const WARM: usize = 3;

/// The timelines of `runs` runs of a plan, after some that do not count.
pub fn timelines(plan: &Plan, runs: usize) -> Result<Vec<Timeline>, Box<dyn Error>> {
    let externals = &plan.tasks.externals;
    let values: BTreeMap<String, Dense> = externals.iter().map(|e| (e.name.clone(), numbers(&e.ty))).collect();
    let mut executor = Executor::new(plan.tasks.clone(), &values)?;
    let given = externals.iter().filter(|e| !e.is_resident());
    let inputs: BTreeMap<String, Dense> = given.map(|e| (e.name.clone(), values[&e.name].clone())).collect();
    for _ in 0..WARM {
        executor.run(&inputs)?;
    }
    (0..runs).map(|_| Ok(executor.run(&inputs)?.timeline)).collect()
}

/// The median seconds of runs, each from its first event to its last.
pub fn seconds(timelines: &[Timeline]) -> f64 {
    let span = |t: &Timeline| t.makespan().0 - t.events.iter().map(|e| e.start.0).fold(f64::INFINITY, f64::min);
    median(&timelines.iter().map(span).collect::<Vec<_>>())
}

/// Numbers around one, the same each time.
fn numbers(ty: &ein_ir::graph::TensorType) -> Dense {
    let value = |n: usize| 0.5 + (n.wrapping_mul(0x9e37_79b9) >> 8 & 0xff) as f64 / 256.0;
    Dense::from_f64(ty.dtype, ty.shape.clone(), &(0..ty.elements()).map(value).collect::<Vec<_>>())
}
