//! `EXPLAIN` for tensors: for every operation its blocks and seconds, for every exchange its program and
//! bytes, for every device its memory; and why it is so: what each operation costs, and its best other decomposition.

mod describe;
mod text;
mod why;

pub(crate) use describe::home;
pub use why::{RunnerUp, Split};

use crate::answers::Answers;
use crate::choice::Home;
use crate::consumers::consumers;
use crate::error::PlanError;
use crate::exchanges::{Planned, Stage, exchanges};
use crate::needs::{home_relation, produced};
use crate::plan::Plan;
use crate::price::seconds;
use crate::report::Report;
use ein_ir::graph::TensorId;
use ein_ir::op::{InputKind, Op};
use ein_task::machine::Device;
use ein_task::units::{Bytes, Seconds};
use serde::Serialize;
use std::collections::BTreeMap;
use why::Rivals;

/// One operation of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Operation {
    /// The row's name.
    pub name: String,
    /// What it is: `contraction`, `map`, `reduction`, `attention`, `gather`.
    pub kind: String,
    /// Label extents, folded ones after a bar: `b:1 s:128 n:384 | k:384`.
    pub labels: String,
    /// How the label space is cut: `s 16+16+16+16`, `whole on {0}`, or the boxes.
    pub decomposition: String,
    /// The same in words, with what follows from it.
    pub words: String,
    /// Blocks, counting a repeated one once for each device.
    pub blocks: usize,
    /// Seconds of its slowest device.
    pub seconds: Seconds,
    /// Seconds if its operations and compulsory bytes were spread evenly: no decomposition is faster.
    pub bound: Seconds,
    /// Bytes moved so that it has its operands: hand-outs that name it as a reader.
    pub bytes_in: Bytes,
    /// Bytes moved from what it leaves to its result's home.
    pub bytes_out: Bytes,
    /// Where its result lives: `as produced`, or the blocks and their devices.
    pub home: String,
    /// What its cost is made of.
    pub split: Split,
    /// The best other decomposition, if there is one; the rest of the plan stays as it is.
    pub runner_up: Option<RunnerUp>,
}

impl Operation {
    /// Its seconds and those of the exchanges that bring it its operands and its result home.
    pub fn cost(&self) -> Seconds {
        Seconds(self.seconds.0 + self.split.moved.0 + self.split.fold.0)
    }
}

/// One exchange of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moved {
    /// The tensor.
    pub tensor: String,
    /// `to home` or `hand-out`.
    pub stage: String,
    /// The rows that read what is delivered; all that read the tensor where it goes to its home.
    pub readers: Vec<String>,
    /// Views between the tensor and these readers: `name (kind)`. They move nothing themselves; where one makes the
    /// readers want other elements than are there, it is why this exchange moves something.
    pub views: Vec<String>,
    /// What there is.
    pub have: String,
    /// Bytes over links.
    pub bytes: Bytes,
    /// Moves.
    pub moves: usize,
    /// Longest chain of moves.
    pub depth: usize,
    /// Its time.
    pub seconds: Seconds,
    /// The lower bound of that time for any program: of its busiest resource, plus latency.
    pub bound: Seconds,
    /// Of that, the busiest resource's time.
    pub bandwidth_bound: Seconds,
    /// Which bound on it is the largest: `port`, `cut`, `fold` (by prices), or `none`.
    pub binds: String,
    /// Of that, the latency of the longest chain.
    pub latency_bound: Seconds,
    /// Fewest moves on the longest chain of any program.
    pub depth_bound: usize,
    /// Its time over the bound.
    pub over_bound: f64,
    /// The steps in text form.
    pub program: String,
}

/// One device of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceUse {
    /// Its name.
    pub device: String,
    /// Bytes of its arena, and of that the parameters.
    pub memory: Bytes,
    /// Bytes of parameters it keeps.
    pub parameters: Bytes,
    /// Arithmetic operations of contractions.
    pub operations: f64,
    /// Bytes it sends.
    pub sent: Bytes,
    /// Bytes it receives.
    pub received: Bytes,
}

/// A tensor that lies at more than one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replicated {
    /// The tensor.
    pub tensor: String,
    /// What it is: `parameter`, `input`, `state`, or `activation`.
    pub kind: String,
    /// The most devices that hold one of its elements.
    pub copies: usize,
    /// Bytes of all copies but the first.
    pub bytes: Bytes,
}

/// A plan, explained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The figures of the whole.
    pub report: Report,
    /// Every operation, in order.
    pub operations: Vec<Operation>,
    /// Every exchange that moves something, in order.
    pub exchanges: Vec<Moved>,
    /// Every tensor that is kept more than once, in order: what replication costs in memory.
    pub replicated: Vec<Replicated>,
    /// Every device.
    pub devices: Vec<DeviceUse>,
}

/// Explains a plan.
pub fn explain(plan: &Plan) -> Result<Explanation, PlanError> {
    let mut answers = Answers::of(&plan.options);
    let mut explanation = explained(plan, &mut answers)?;
    let mut rivals = Rivals::new(plan);
    let rows = plan.choice.decompositions.keys().filter_map(|&id| Some((id, plan.graph.spec(id)?)));
    for (operation, (id, spec)) in explanation.operations.iter_mut().zip(rows) {
        operation.runner_up = rivals.of(id, &spec, &mut answers)?;
    }
    Ok(explanation)
}

/// An explanation without runner-ups.
pub(crate) fn facts(plan: &Plan) -> Result<Explanation, PlanError> {
    explained(plan, &mut Answers::of(&plan.options))
}

fn explained(plan: &Plan, answers: &mut Answers) -> Result<Explanation, PlanError> {
    let name = |id: TensorId| plan.graph.node(id).name.clone();
    let workers = plan.machine.workers();
    let mut operations = Vec::new();
    let mut positions = BTreeMap::new();
    let mut work = vec![0.0; plan.machine.len()];
    for (&id, decomposition) in &plan.choice.decompositions {
        let Some(spec) = plan.graph.spec(id) else { continue };
        if spec.work.contraction {
            for block in decomposition.blocks() {
                for device in block.devices.iter() {
                    work[device.index()] += spec.operations(&block.region);
                }
            }
        }
        let fastest = |of: &dyn Fn(&Device) -> f64| {
            workers.iter().map(|d| of(&plan.machine.devices[d.index()])).fold(0.0, f64::max)
        };
        let p = workers.len() as f64;
        let dtype = spec.work.dtype;
        let rate = fastest(&|d| d.rate(dtype));
        let compute = if spec.work.contraction && rate > 0.0 { spec.operations(&spec.space()) / rate } else { 0.0 };
        let bandwidth = fastest(&|d| if d.free_elementwise { f64::INFINITY } else { d.memory_bandwidth });
        let memory = if bandwidth > 0.0 { spec.bytes(&spec.space()) / bandwidth } else { 0.0 };
        positions.insert(id, operations.len());
        operations.push(Operation {
            name: name(id),
            kind: describe::kind(&plan.graph.node(id).op, &spec).into(),
            labels: describe::labels(&spec),
            decomposition: describe::cuts(&spec, decomposition),
            words: describe::words(&spec, decomposition),
            blocks: decomposition.blocks().iter().map(|b| b.devices.len()).sum(),
            seconds: seconds(&spec, decomposition, &plan.machine),
            bound: Seconds(compute.max(memory) / p),
            bytes_in: Bytes(0),
            bytes_out: Bytes(0),
            home: home(plan.choice.homes.get(&id)),
            split: why::slowest(&spec, decomposition, &plan.machine),
            runner_up: None,
        });
    }
    let position = |id: &TensorId| positions.get(id).copied();
    let mut moved = Vec::new();
    for planned in exchanges(&plan.graph, &plan.choice, &plan.options, &plan.machine)? {
        let answer = answers
            .answer(&planned.exchange, &plan.machine)
            .map_err(|e| PlanError::Exchange { tensor: name(planned.tensor), reason: e.to_string() })?;
        let (program, counted) = (&answer.program, &answer.traffic);
        if counted.moves == 0 {
            continue;
        }
        let (stage, pays) = match planned.stage {
            Stage::ToHome => {
                let pays = position(&planned.tensor);
                if let Some(n) = pays {
                    operations[n].bytes_out += counted.bytes_total;
                }
                ("to home", pays)
            }
            Stage::HandOut => {
                let pays = planned.readers.first().and_then(position);
                if let Some(n) = pays {
                    operations[n].bytes_in += counted.bytes_total;
                }
                ("hand-out", pays)
            }
        };
        if let Some(n) = pays {
            let split = &mut operations[n].split;
            let part = if planned.exchange.have.is_complete() { &mut split.moved } else { &mut split.fold };
            part.0 += counted.seconds.0;
        }
        let (readers, views) = readers(plan, &planned);
        moved.push(Moved {
            tensor: name(planned.tensor),
            stage: stage.into(),
            readers,
            views,
            have: planned.exchange.have.to_string(),
            bytes: counted.bytes_total,
            moves: counted.moves,
            depth: counted.depth,
            seconds: counted.seconds,
            bound: counted.bound.total(),
            bandwidth_bound: counted.bound.bandwidth(),
            binds: counted.bound.binds().into(),
            latency_bound: counted.bound.latency,
            depth_bound: counted.bound.depth,
            over_bound: counted.seconds.0 / counted.bound.total().0,
            program: program.to_string(),
        });
    }
    let parameters = parameters(plan);
    let devices = plan
        .machine
        .ids()
        .map(|d| DeviceUse {
            device: plan.machine.devices[d.index()].name.clone(),
            memory: plan.tasks.arenas.get(d.index()).copied().unwrap_or_default(),
            parameters: parameters[d.index()],
            operations: work[d.index()],
            sent: plan.report.bytes_per_device.sent[d.index()],
            received: plan.report.bytes_per_device.received[d.index()],
        })
        .collect();
    let report = plan.report.clone();
    Ok(Explanation { report, operations, exchanges: moved, replicated: replicated(plan), devices })
}

/// The names of an exchange's readers, and the views through which they read.
fn readers(plan: &Plan, planned: &Planned) -> (Vec<String>, Vec<String>) {
    let (mut readers, mut views) = (Vec::new(), Vec::new());
    for consumer in consumers(&plan.graph, planned.tensor) {
        let served = match planned.stage {
            Stage::ToHome => true,
            Stage::HandOut => consumer.operation.is_none_or(|id| planned.readers.contains(&id)),
        };
        // A hand-out without a reader delivers outputs.
        let output = consumer.operation.is_none() && planned.stage == Stage::HandOut && !planned.readers.is_empty();
        if !served || output {
            continue;
        }
        if !readers.contains(&consumer.name) {
            readers.push(consumer.name);
        }
        for view in consumer.views {
            let node = plan.graph.node(view);
            if let Op::View(v) = &node.op {
                let told = format!("{} ({})", node.name, v.name());
                if !views.contains(&told) {
                    views.push(told);
                }
            }
        }
    }
    (readers, views)
}

/// What is held, or computed and left, at several devices.
fn replicated(plan: &Plan) -> Vec<Replicated> {
    let mut found = Vec::new();
    for (&id, home) in &plan.choice.homes {
        let blocks = match (home, plan.choice.decompositions.get(&id)) {
            (Home::At(held), _) => home_relation(&plan.graph, id, held),
            (Home::AsProduced, Some(decomposition)) => {
                produced(&plan.graph, id, decomposition, plan.options.wide_partials)
            }
            (Home::AsProduced, None) => continue,
        };
        let form = if blocks.is_complete() { &blocks.finished } else { &blocks.pending };
        let (mut copies, mut bytes) = (1, 0);
        for block in &blocks.blocks {
            copies = copies.max(block.devices.len());
            bytes += form.bytes(&block.region) as u64 * (block.devices.len() as u64 - 1);
        }
        let kind = match plan.graph.node(id).op {
            Op::Input(InputKind::Parameter) => "parameter",
            Op::Input(InputKind::Input) => "input",
            Op::Input(InputKind::State) => "state",
            Op::Einsum(_) | Op::Kernel(_) | Op::View(_) => "activation",
        };
        if bytes > 0 {
            let tensor = plan.graph.node(id).name.clone();
            found.push(Replicated { tensor, kind: kind.into(), copies, bytes: Bytes(bytes) });
        }
    }
    found
}

fn parameters(plan: &Plan) -> Vec<Bytes> {
    let mut bytes = vec![Bytes(0); plan.machine.len()];
    for id in plan.graph.inputs(InputKind::Parameter) {
        let dtype = plan.graph.ty(id).dtype;
        let Some(Home::At(held)) = plan.choice.homes.get(&id) else { continue };
        for block in held {
            for device in block.devices.iter() {
                bytes[device.index()] += Bytes(block.region.volume() as u64 * dtype.bytes() as u64);
            }
        }
    }
    bytes
}
