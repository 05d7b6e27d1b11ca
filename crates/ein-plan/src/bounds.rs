//! Bounds that know no candidates: what no decomposition of any kind could beat.

use crate::options::{Objective, Options};
use ein_ir::graph::Graph;
use ein_ir::spec::{AxisMap, Role, Spec};
use ein_task::machine::{DeviceId, Machine};

/// The least cost of any plan, in the objective's unit: for time the sum of every operation's roofline with
/// all devices perfectly shared; for the makespan the arithmetic of contractions alone, since what else there is may be
/// done as part of another row or beside it; for bytes, where contractions must be balanced, the largest of what any one
/// contraction must move on its own (Loomis and Whitney, 1949).
pub fn absolute(graph: &Graph, machine: &Machine, options: &Options) -> f64 {
    let specs: Vec<Spec> = graph.ids().filter_map(|id| graph.spec(id)).collect();
    match options.objective {
        Objective::Time => specs.iter().map(|s| roofline(s, machine)).sum(),
        Objective::Makespan => specs.iter().map(|s| arithmetic(s, machine)).sum(),
        Objective::Bytes if options.balance => {
            // Operands of one contraction may be what another left in place, so only one is counted.
            specs.iter().map(|s| loomis_whitney(s, machine.workers().len())).fold(0.0, f64::max)
        }
        Objective::Bytes | Objective::Memory => 0.0,
    }
}

/// Seconds of a contraction's operations on all devices at once; 0 for what is none.
fn arithmetic(spec: &Spec, machine: &Machine) -> f64 {
    if !spec.work.contraction {
        return 0.0;
    }
    spec.operations(&spec.space()) / machine.rate_together(|d| d.fastest(spec.work.dtype))
}

/// Seconds of an operation on all devices at once: operations over all rates, and its bytes, each once, over
/// all memory bandwidths; one launch.
pub fn roofline(spec: &Spec, machine: &Machine) -> f64 {
    let workers: Vec<DeviceId> = machine.workers().iter().collect();
    let of = |d: &DeviceId| &machine.devices[d.index()];
    let space = spec.space();
    if spec.result_region(&space).is_empty() {
        return 0.0;
    }
    // A thread alone on its host is faster than its rates.
    let launch = workers.iter().map(|d| of(d).launch.0).fold(f64::INFINITY, f64::min) / machine.turns.alone.max(1.0);
    let bandwidth = machine.rate_together(|d| d.memory_bandwidth);
    let memory = spec.bytes(&space) / bandwidth;
    if !spec.work.contraction {
        return if workers.iter().any(|d| of(d).free_elementwise) { 0.0 } else { memory + launch };
    }
    let rate = machine.rate_together(|d| d.fastest(spec.work.dtype));
    (spec.operations(&space) / rate).max(memory) + launch
}

/// Bytes that `devices` devices with equal shares of a plain matrix product move at least: each of them touches
/// faces whose product is at least the square of its volume, so of `m × n × k` in all
/// `3 (mnk/p)^(2/3) p` elements are touched, of which the operands and the result are held once for nothing.
/// A device may do 1.02 of its share, so the bound is for that many devices fewer. 0 for what is not of
/// that form.
pub fn loomis_whitney(spec: &Spec, devices: usize) -> f64 {
    let Some(faces) = faces(spec) else { return 0.0 };
    let volume: f64 = spec.labels.iter().map(|l| l.extent as f64).product();
    let p = devices as f64;
    let element = spec.operand_dtypes.iter().map(|d| d.bytes()).chain([spec.dtype.bytes()]).min().unwrap_or(1);
    // Convexity: with shares of at most 1.02/p, the sum of share^(2/3) is least at the largest shares allowed.
    let touched = 3.0 * volume.powf(2.0 / 3.0) * (p / 1.02).max(1.0) * (1.02 / p).min(1.0).powf(2.0 / 3.0);
    ((touched - faces) * element as f64).max(0.0)
}

/// Elements of the two operands and the result, where every label is in exactly two of the three.
fn faces(spec: &Spec) -> Option<f64> {
    if !spec.work.contraction || spec.operands.len() != 2 || spec.work.band.is_some() {
        return None;
    }
    let mut uses = vec![0usize; spec.labels.len()];
    let mut elements = 0.0;
    uses[..spec.rank].iter_mut().for_each(|u| *u += 1);
    elements += spec.labels[..spec.rank].iter().map(|l| l.extent as f64).product::<f64>();
    for operand in &spec.operands {
        let mut size = 1.0;
        for axis in &operand.axes {
            let AxisMap::Affine(a) = axis else { return None };
            let label = a.as_label()?;
            uses[label] += 1;
            size *= spec.labels[label].extent as f64;
        }
        elements += size;
    }
    let plain = spec.labels.iter().all(|l| matches!(l.role, Role::Free | Role::Fold));
    (plain && uses.iter().all(|&u| u == 2)).then_some(elements)
}
