//! Real runs of plans on threads of this host.

use ein_ir::dense::Dense;
use ein_plan::plan::Plan;
use ein_run::Executor;
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

/// The seconds of runs, each from its first event to its last.
pub fn seconds(timelines: &[Timeline]) -> Vec<f64> {
    let first = |t: &Timeline| t.events.iter().map(|e| e.start.0).fold(f64::INFINITY, f64::min);
    timelines.iter().map(|t| t.makespan().0 - first(t)).collect()
}

/// Numbers around one, the same each time.
fn numbers(ty: &ein_ir::graph::TensorType) -> Dense {
    let value = |n: usize| 0.5 + (n.wrapping_mul(0x9e37_79b9) >> 8 & 0xff) as f64 / 256.0;
    Dense::from_f64(ty.dtype, ty.shape.clone(), &(0..ty.elements()).map(value).collect::<Vec<_>>())
}
