//! `EXPLAIN` for tensors: for every operation its blocks and seconds, for every exchange its program and
//! bytes, for every device its memory.

use crate::answers::Answers;
use crate::choice::{Decomposition, Home};
use crate::consumers::consumers;
use crate::error::PlanError;
use crate::exchanges::{Planned, Stage, exchanges};
use crate::needs::{home_relation, produced};
use crate::plan::Plan;
use crate::price::seconds;
use crate::report::Report;
use ein_ir::graph::TensorId;
use ein_ir::op::{InputKind, Op};
use ein_ir::spec::Spec;
use ein_task::machine::Device;
use ein_task::units::{Bytes, Seconds};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

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
            kind: kind(&plan.graph.node(id).op, &spec).into(),
            labels: labels(&spec),
            decomposition: describe(&spec, decomposition),
            blocks: decomposition.blocks().iter().map(|b| b.devices.len()).sum(),
            seconds: seconds(&spec, decomposition, &plan.machine),
            bound: Seconds(compute.max(memory) / p),
            bytes_in: Bytes(0),
            bytes_out: Bytes(0),
            home: home(plan.choice.homes.get(&id)),
        });
    }
    let position = |id: &TensorId| positions.get(id).copied();
    let mut moved = Vec::new();
    let mut answers = Answers::of(&plan.options);
    for planned in exchanges(&plan.graph, &plan.choice, &plan.options, &plan.machine)? {
        let answer = answers
            .answer(&planned.exchange, &plan.machine)
            .map_err(|e| PlanError::Exchange { tensor: name(planned.tensor), reason: e.to_string() })?;
        let (program, counted) = (&answer.program, &answer.traffic);
        if counted.moves == 0 {
            continue;
        }
        let stage = match planned.stage {
            Stage::ToHome => {
                if let Some(n) = position(&planned.tensor) {
                    operations[n].bytes_out += counted.bytes_total;
                }
                "to home"
            }
            Stage::HandOut => {
                if let Some(n) = planned.readers.first().and_then(position) {
                    operations[n].bytes_in += counted.bytes_total;
                }
                "hand-out"
            }
        };
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

fn kind(op: &Op, spec: &Spec) -> &'static str {
    match op {
        Op::Kernel(kernel) => kernel.name(),
        Op::Input(_) | Op::View(_) => "view",
        Op::Einsum(_) if spec.work.contraction => "contraction",
        Op::Einsum(e) if e.folds() => "reduction",
        Op::Einsum(_) => "map",
    }
}

fn labels(spec: &Spec) -> String {
    let mut text = String::new();
    for (n, l) in spec.labels.iter().enumerate() {
        let bar = if n == spec.rank { "| " } else { "" };
        let _ = write!(text, "{}{bar}{}:{}", if n == 0 { "" } else { " " }, l.name, l.extent);
    }
    text
}

/// How the label space is cut, in a line: extents along every label that is cut if the blocks are a grid,
/// else the number of boxes and the largest.
fn describe(spec: &Spec, decomposition: &Decomposition) -> String {
    let blocks = decomposition.blocks();
    let Some(first) = blocks.first() else { return "nothing to do".into() };
    if blocks.len() == 1 {
        return format!("whole on {}", first.devices);
    }
    let mut parts = Vec::new();
    let mut cells = 1;
    for (axis, label) in spec.labels.iter().enumerate() {
        let mut intervals: Vec<_> = blocks.iter().map(|b| b.region.0[axis]).collect();
        intervals.sort_unstable();
        intervals.dedup();
        cells *= intervals.len();
        if intervals.len() > 1 {
            let lengths: Vec<String> = intervals.iter().map(|i| i.len().to_string()).collect();
            let equal = lengths.iter().all(|l| *l == lengths[0]);
            parts.push(if equal {
                format!("{} {}×{}", label.name, lengths.len(), lengths[0])
            } else {
                format!("{} {}", label.name, lengths.join("+"))
            });
        }
    }
    let repeated = blocks.iter().map(|b| b.devices.len()).max().unwrap_or(1);
    let times = if repeated > 1 { format!(", each on {repeated} devices") } else { String::new() };
    if cells == blocks.len() {
        format!("{}{times}", parts.join(", "))
    } else {
        let largest = blocks.iter().max_by_key(|b| b.region.volume()).expect("there are blocks");
        format!("{} boxes, largest {}{times}", blocks.len(), largest.region)
    }
}

fn home(home: Option<&Home>) -> String {
    match home {
        None => "none".into(),
        Some(Home::AsProduced) => "as produced".into(),
        Some(Home::At(held)) => match held.as_slice() {
            [one] => format!("whole on {}", one.devices),
            many => format!("{} blocks such as {}@{}", many.len(), many[0].region, many[0].devices),
        },
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.operations.iter().map(|o| o.name.chars().count()).max().unwrap_or(0).clamp(9, 34);
        let cut = |text: &str, n: usize| {
            let long = text.chars().count() > n;
            if long { text.chars().take(n - 1).chain(['…']).collect() } else { text.to_string() }
        };
        writeln!(
            f,
            "{:<width$}  {:<11}  {:<44}  {:>10}  {:>10}  {:>10}",
            "operation", "kind", "decomposition", "compute", "bytes in", "bytes out"
        )?;
        for o in &self.operations {
            let (name, how) = (cut(&o.name, width), cut(&o.decomposition, 44));
            let (s, i, u) = (o.seconds.to_string(), dash(o.bytes_in), dash(o.bytes_out));
            writeln!(f, "{name:<width$}  {:<11}  {how:<44}  {s:>10}  {i:>10}  {u:>10}", o.kind)?;
        }
        if self.exchanges.is_empty() {
            writeln!(f, "\nno exchange moves anything")?;
        } else {
            writeln!(
                f,
                "\n{:<width$}  {:<9}  {:>10}  {:>5}  {:>13}  {:>10}  {:>10}  {:<4}  {:>5}  read by",
                "exchange of", "stage", "bytes", "moves", "depth (least)", "time", "bound", "by", "over"
            )?;
            for m in &self.exchanges {
                let (name, mut readers) = (cut(&m.tensor, width), cut(&m.readers.join(", "), 40));
                if !m.views.is_empty() {
                    let _ = write!(readers, " through {}", cut(&m.views.join(", "), 60));
                }
                let (b, t, l) = (m.bytes.to_string(), m.seconds.to_string(), m.bound.to_string());
                writeln!(
                    f,
                    "{name:<width$}  {:<9}  {b:>10}  {:>5}  {:>13}  {t:>10}  {l:>10}  {:<4}  {:>5.2}  {readers}",
                    m.stage,
                    m.moves,
                    format!("{} ({})", m.depth, m.depth_bound),
                    m.binds,
                    m.over_bound
                )?;
            }
        }
        if !self.replicated.is_empty() {
            writeln!(f, "\n{:<width$}  {:<10}  {:>6}  {:>11}", "replicated", "kind", "copies", "extra bytes")?;
            for r in &self.replicated {
                let (name, bytes) = (cut(&r.tensor, width), r.bytes.to_string());
                writeln!(f, "{name:<width$}  {:<10}  {:>6}  {bytes:>11}", r.kind, r.copies)?;
            }
        }
        writeln!(
            f,
            "\n{:<8}  {:>10}  {:>10}  {:>10}  {:>10}  {:>12}",
            "device", "memory", "parameters", "sent", "received", "operations"
        )?;
        for d in &self.devices {
            let (m, p, s, r) =
                (d.memory.to_string(), d.parameters.to_string(), d.sent.to_string(), d.received.to_string());
            writeln!(f, "{:<8}  {m:>10}  {p:>10}  {s:>10}  {r:>10}  {:>12.3e}", d.device, d.operations)?;
        }
        Ok(())
    }
}

fn dash(bytes: Bytes) -> String {
    if bytes.0 == 0 { "-".into() } else { bytes.to_string() }
}
