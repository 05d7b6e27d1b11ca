//! The counting page: what a complete choice costs.

use crate::answers::Answers;
use crate::candidates;
use crate::choice::{Choice, Decomposition, Home};
use crate::error::PlanError;
use crate::exchanges::{Planned, exchanges};
use crate::options::{Objective, Options};
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::Op;
use ein_ir::spec::Spec;
use ein_task::machine::{DeviceId, Machine};
use ein_task::price::kernel_seconds;
use ein_task::units::{Bytes, Seconds};
use std::collections::BTreeMap;

/// Why an exchange has no price.
pub type PriceError = crate::answers::AnswerError;

/// What a choice costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// Serial seconds: for each operation its slowest device, plus each exchange.
    pub seconds: Seconds,
    /// The part of `seconds` that is computing.
    pub compute: Seconds,
    /// Bytes over all link crossings.
    pub bytes_total: Bytes,
    /// Bytes without relays.
    pub bytes_delivered: Bytes,
    /// Bytes that each device sends.
    pub sent: Vec<Bytes>,
    /// Bytes that each device receives.
    pub received: Vec<Bytes>,
    /// Operations of contractions: the largest device's over the mean.
    pub balance: f64,
    /// Whether every contraction gives every device at most 1.02 of its share, whole numbers permitting.
    pub balanced: bool,
    /// Bytes each device must at least hold at once: parameters, and activations from producer to last reader.
    pub memory: Vec<Bytes>,
}

impl Price {
    /// The number that the objective compares.
    pub fn of(&self, objective: Objective) -> f64 {
        match objective {
            Objective::Time | Objective::Makespan => self.seconds.0,
            Objective::Bytes => self.bytes_total.0 as f64,
            Objective::Memory => self.memory.iter().map(|b| b.0 as f64).fold(0.0, f64::max),
        }
    }
}

/// Prices a complete choice.
pub fn price(graph: &Graph, choice: &Choice, machine: &Machine, options: &Options) -> Result<Price, PlanError> {
    price_with(graph, choice, machine, options, &mut Answers::of(options))
}

/// [`price`], with exchanges that are already known.
pub fn price_with(
    graph: &Graph,
    choice: &Choice,
    machine: &Machine,
    options: &Options,
    known: &mut Answers,
) -> Result<Price, PlanError> {
    let planned = exchanges(graph, choice, options, machine)?;
    let devices = machine.len();
    let mut price = Price {
        seconds: Seconds(0.0),
        compute: Seconds(0.0),
        bytes_total: Bytes(0),
        bytes_delivered: Bytes(0),
        sent: vec![Bytes(0); devices],
        received: vec![Bytes(0); devices],
        balance: 1.0,
        balanced: true,
        memory: memory(graph, choice, &planned, machine),
    };
    let workers: Vec<DeviceId> = machine.workers().iter().collect();
    let mut work = vec![0.0; devices];
    for (&tensor, decomposition) in &choice.decompositions {
        let Some(spec) = graph.spec(tensor) else { continue };
        price.compute += seconds(&spec, decomposition, machine);
        if spec.work.contraction {
            for b in decomposition.blocks() {
                b.devices.iter().for_each(|d| work[d.index()] += spec.operations(&b.region));
            }
            price.balanced &= is_balanced(&spec, decomposition, &workers);
        }
    }
    // Repeated work does not lower anybody's share: the mean is of the work there is.
    let contractions = choice.decompositions.keys().filter_map(|&t| graph.spec(t)).filter(|s| s.work.contraction);
    let total: f64 = contractions.map(|s| s.operations(&s.space())).sum();
    if total > 0.0 {
        price.balance = work.iter().copied().fold(0.0, f64::max) / (total / workers.len() as f64);
    }
    let mut moving = 0.0;
    for p in &planned {
        let answer = known
            .answer(&p.exchange, machine)
            .map_err(|e| PlanError::Exchange { tensor: graph.node(p.tensor).name.clone(), reason: e.to_string() })?;
        let found = &answer.traffic;
        moving += found.seconds.0;
        price.bytes_total += found.bytes_total;
        price.bytes_delivered += found.bytes_delivered;
        for d in 0..devices {
            price.sent[d] += found.sent[d];
            price.received[d] += found.received[d];
        }
    }
    price.seconds = Seconds(price.compute.0 + moving);
    Ok(price)
}

/// Seconds of an operation: its slowest device, the blocks of a device one after the other. Devices that share processors
/// take turns (see [`Machine::together`]).
pub fn seconds(spec: &Spec, decomposition: &Decomposition, machine: &Machine) -> Seconds {
    let mut each = vec![0.0; machine.len()];
    for b in decomposition.blocks() {
        for d in b.devices.iter() {
            each[d.index()] += kernel_seconds(&machine.devices[d.index()], spec, &b.region).0;
        }
    }
    machine.together(&each)
}

/// Whether no device does more than 1.02 of its share, or than equal cuts in whole numbers give.
fn is_balanced(spec: &Spec, decomposition: &Decomposition, workers: &[DeviceId]) -> bool {
    let balance = candidates::balance(spec, decomposition, workers);
    balance <= 1.02 * candidates::snapping(spec, decomposition, workers.len()) + 1e-9
}

/// A lower estimate of every device's peak: what is resident, plus, at the worst operation, the activations
/// that are alive and what that operation's exchanges deliver.
fn memory(graph: &Graph, choice: &Choice, planned: &[Planned], machine: &Machine) -> Vec<Bytes> {
    let devices = machine.len();
    let mut last: BTreeMap<TensorId, TensorId> = BTreeMap::new();
    for id in graph.ids() {
        for &operand in &graph.node(id).inputs {
            for source in crate::needs::sources(graph, operand) {
                last.insert(source, id);
            }
        }
    }
    let end = TensorId(graph.nodes().len() as u32);
    for source in crate::needs::output_sources(graph) {
        last.insert(source, end);
    }
    let at_home = |tensor: TensorId| -> Vec<u64> {
        let mut bytes = vec![0; devices];
        let element = graph.ty(tensor).dtype.bytes() as u64;
        match &choice.homes[&tensor] {
            Home::At(held) => {
                for h in held {
                    h.devices.iter().for_each(|d| bytes[d.index()] += h.region.volume() as u64 * element);
                }
            }
            Home::AsProduced => {
                let Some(spec) = graph.spec(tensor) else { return bytes };
                for b in choice.decompositions[&tensor].blocks() {
                    let region = spec.result_region(&b.region);
                    b.devices.iter().for_each(|d| bytes[d.index()] += region.volume() as u64 * element);
                }
            }
        }
        bytes
    };
    let mut live = vec![0u64; devices];
    let mut ends: BTreeMap<TensorId, Vec<Vec<u64>>> = BTreeMap::new();
    let mut delivered: BTreeMap<TensorId, Vec<u64>> = BTreeMap::new();
    for p in planned {
        for &reader in &p.readers {
            let at = delivered.entry(reader).or_insert_with(|| vec![0; devices]);
            for n in &p.exchange.needs {
                at[n.device.index()] += p.exchange.have.finished.bytes(&n.region) as u64;
            }
        }
    }
    for id in graph.ids().filter(|&id| matches!(graph.node(id).op, Op::Input(_))) {
        live.iter_mut().zip(at_home(id)).for_each(|(l, b)| *l += b);
    }
    let mut peak = live.clone();
    for id in graph.ids() {
        let node = graph.node(id);
        if matches!(node.op, Op::Einsum(_) | Op::Kernel(_)) {
            let own = at_home(id);
            live.iter_mut().zip(&own).for_each(|(l, b)| *l += b);
            ends.entry(last.get(&id).copied().unwrap_or(id)).or_default().push(own);
            let brought = delivered.get(&id);
            for d in 0..devices {
                peak[d] = peak[d].max(live[d] + brought.map_or(0, |b| b[d]));
            }
        }
        for gone in ends.remove(&id).unwrap_or_default() {
            live.iter_mut().zip(gone).for_each(|(l, b)| *l -= b);
        }
    }
    peak.into_iter().map(Bytes).collect()
}
