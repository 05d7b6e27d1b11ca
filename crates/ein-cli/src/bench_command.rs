//! `ein bench`: how long a computation takes here, beside one device, beside the floor and beside other programs.

mod floor;
mod peers;
mod values;

use crate::args::{Asked, Balance, Bench, Objective, Partials, Source};
use crate::asked;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::run_command::session;
use crate::source;
use ein_ir::dense::Dense;
use ein_ir::graph::Graph;
use ein_ir::op::InputKind;
use ein_ir::reference::run_from;
use ein_plan::plan::Plan;
use ein_run::measure::median;
use ein_run::{Executor, ParameterSource};
use ein_task::machine::Machine;
use ein_task::units::{Bytes, Seconds};
use einsummable::models::Folder;
use einsummable::runner::{Fitted, Prepared, Runner};
use einsummable::synthetic::SyntheticWeights;
use einsummable::workloads::FORMS;
use floor::Floor;
use peers::{Kind, Peer, Scripts};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Every side runs for at least so long when it is its turn, if it is quicker than that: long enough that the host has given
/// its threads processors of their own.
const TURN: f64 = 0.2;
/// But no more often than this.
const MOST: usize = 200;
/// How far the figures of two results may be apart, in parts of the sum of their sizes.
const SAME: f64 = 2e-3;

/// Our side: an executor with what it is given.
struct Ours {
    plan: Arc<Plan>,
    devices: usize,
    runner: Runner,
    executor: Executor,
    inputs: BTreeMap<String, Dense>,
    outputs: BTreeMap<String, Dense>,
    /// Bytes that the process had before anything was loaded.
    before: u64,
}

/// The seconds of so many runs of a side.
type Runs<'a> = Box<dyn FnMut(usize) -> Result<Vec<f64>, Failure> + 'a>;

/// What was measured of one side: its seconds of each turn.
struct Side {
    name: String,
    version: String,
    turns: Vec<f64>,
    /// How far its result is from ours.
    apart: Option<f64>,
}

/// A peer that could not be compared with.
struct Missing {
    kind: Kind,
    reason: String,
}

/// `ein bench`.
pub fn bench(args: &Bench) -> Result<(), Failure> {
    output::writable(args.trace.as_ref())?;
    let kinds = peers::kinds(&args.compare)?;
    // One device has no use for a strategy, but a name that is none is a mistake.
    args.strategy.as_deref().map(asked::strategy).transpose()?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.unwrap_or(processors);
    if threads > processors {
        // The floor would add up what no two threads of one processor do at once.
        return Err(Failure::request(format!("--threads {threads}: this host has {processors} processors")));
    }
    let source = source_of(args);
    let (name, graph) = source::graph(&source)?;
    let seed = SyntheticWeights::new(0);
    let folder = source.place.as_deref().map(Path::new).filter(|p| p.is_dir());
    let folder = folder.map(Folder::open).transpose().map_err(Failure::request)?;
    let parameters: &dyn ParameterSource = folder.as_ref().map_or(&seed, |f| &f.weights);
    let progress = Progress::start(format!("planning and loading {name}"));
    // What does not fit is said before memory is taken for what it is given.
    let planned = Planned::new(args, &graph, &args.devices)?;
    let alone = match planned.devices() {
        1 => None,
        _ => Some(Planned::new(args, &graph, first(&args.devices))?),
    };
    let given = values::given(&graph, seed);
    let mut ours = Ours::new(planned, threads, parameters, &given.tensors)?;
    ours.run(1)?;
    // Of loading and running: what results are compared by comes after.
    let peak = memory("VmHWM:").saturating_sub(ours.before);
    let result = ours.result()?;
    // What one device does is the measure of what cutting costs.
    let mut one = alone.map(|plan| Ours::new(plan, threads, parameters, &given.tensors)).transpose()?;
    drop(progress);
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    let scripts = if kinds.is_empty() { None } else { Some(Scripts::write()?) };
    if let Some(scripts) = &scripts {
        let request = peers::request(source.workload.as_deref(), &name, &given.texts);
        for kind in kinds {
            let _progress = Progress::start(format!("starting {kind}"));
            match Peer::start(scripts, &args.python, kind, threads, &ours.runner, &request) {
                Ok(peer) => peers.push(peer),
                Err(reason) => missing.push(Missing { kind, reason }),
            }
        }
    }
    let _progress = Progress::start("measuring");
    let mut sides = vec![Side::new("einsummable", env!("CARGO_PKG_VERSION"), None)];
    sides.extend(one.is_some().then(|| Side::new("one device", env!("CARGO_PKG_VERSION"), None)));
    sides.extend(peers.iter().map(|peer| {
        let apart = peers::all_apart(&result, &peer.figures);
        Side::new(&peer.kind.to_string(), &peer.version, Some(apart))
    }));
    let mut runs: Vec<Runs<'_>> = vec![Box::new(|n| ours.run(n))];
    if let Some(one) = &mut one {
        runs.push(Box::new(|n| one.run(n)));
    }
    for peer in &mut peers {
        runs.push(Box::new(|n| peer.run(n)));
    }
    turns(args, &mut runs, &mut sides)?;
    drop(runs);
    if let Some(path) = &args.trace {
        output::write(path, &ours.executor.timeline().to_chrome_json())?;
    }
    let floor = match ours.runner {
        Runner::Cpu => Floor::measure(&graph, threads),
        #[cfg(feature = "cuda")]
        Runner::Cuda { .. } | Runner::Elsewhere { .. } => Floor::of_machine(&graph, &ours.plan.machine),
    };
    let (ours, floor) = (&ours, &floor);
    let measured = Measured { name, args, threads, ours, result, peak, sides: &sides, missing: &missing, floor };
    let differs = sides.iter().find(|s| s.apart.is_some_and(|apart| apart.is_nan() || apart > SAME));
    output::print(&if args.json { format!("{:#}\n", measured.json()) } else { measured.text() })?;
    match differs {
        Some(side) => Err(Failure::Differs(format!(
            "{} computes something else: figures of its result are {:.1e} apart",
            side.name,
            side.apart.unwrap_or_default()
        ))),
        None => Ok(()),
    }
}

/// Bytes that a line of the system's account of this process says; 0 where there is none.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = status.lines().find_map(|l| l.strip_prefix(line)?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    found.unwrap_or_default() << 10
}

/// Times the sides in turns, so that what else the host does meets all of them.
fn turns(args: &Bench, runs: &mut [Runs<'_>], sides: &mut [Side]) -> Result<(), Failure> {
    let mut counts = Vec::new();
    for run in runs.iter_mut() {
        // What a run has to do beside what is timed is part of its turn.
        let mut quickest = f64::INFINITY;
        for _ in 0..args.warmup {
            let start = Instant::now();
            run(1)?;
            quickest = quickest.min(start.elapsed().as_secs_f64());
        }
        counts.push(((TURN / quickest.max(1e-9)).ceil() as usize).clamp(1, MOST));
    }
    for _ in 0..args.runs {
        for ((run, side), &count) in runs.iter_mut().zip(sides.iter_mut()).zip(&counts) {
            side.turns.push(median(&run(count)?));
        }
    }
    Ok(())
}

/// The computation: a folder or a file that is there, else a workload's line.
fn source_of(args: &Bench) -> Source {
    let name = args.computation.split(':').next().unwrap_or_default();
    let workload = !Path::new(&args.computation).exists() && FORMS.iter().any(|f| f.0 == name);
    let (place, workload) =
        if workload { (None, Some(args.computation.clone())) } else { (Some(args.computation.clone()), None) };
    Source { place, workload, batch_seq: args.batch_seq.clone() }
}

/// The first device of a list, or one of so many.
fn first(devices: &str) -> &str {
    if devices.contains(':') { devices.split(',').next().unwrap_or(devices) } else { "1" }
}

/// What is asked of the plan for these devices of this host.
fn asked_of(args: &Bench, devices: &str) -> Asked {
    let machine = args
        .machine
        .clone()
        .unwrap_or_else(|| if devices.contains(':') { "cuda".into() } else { format!("{devices}xcpu") });
    Asked {
        machine,
        devices: Some(devices.to_owned()),
        tf32: args.tf32,
        wgmma: args.wgmma,
        objective: Objective::Time,
        balance: None::<Balance>,
        memory_per_device: None,
        offload: false,
        time_limit: None,
        partials: Partials::Same,
        inputs: "anywhere".into(),
        outputs: "anywhere".into(),
        strategy: args.strategy.clone().filter(|_| devices != first(devices)),
        no_overlap: false,
        no_cache: args.no_cache,
        json: args.json,
    }
}

/// A plan, and who is to run it.
struct Planned {
    plan: Arc<Plan>,
    machine: Machine,
    runner: Runner,
    prepared: Prepared,
}

/// GPUs, such that inputs and results lie in their memory while what is timed goes on: as those of other programs do.
#[cfg(feature = "cuda")]
fn on_gpus(runner: Runner) -> Runner {
    use ein_cuda::devices::Settings;
    use ein_cuda::nodes::Staging;
    match runner {
        Runner::Cpu => Runner::Cpu,
        Runner::Cuda { seats, settings } => {
            Runner::Cuda { seats, settings: Settings { staging: Staging::Device, ..settings } }
        }
        elsewhere @ Runner::Elsewhere { .. } => elsewhere,
    }
}

impl Planned {
    fn new(args: &Bench, graph: &Graph, devices: &str) -> Result<Self, Failure> {
        let asked = asked_of(args, devices);
        let (machine, runner) = asked::runner(&asked, false)?;
        #[cfg(feature = "cuda")]
        let runner = on_gpus(runner);
        if !matches!(runner, Runner::Cpu) && args.trace.is_some() {
            let reason =
                "--trace: on GPUs what is timed is one launch, whose parts tell no times; `ein run --trace` does";
            return Err(Failure::request(reason));
        }
        let options = asked::options(&asked, &machine)?;
        let fitted = runner.fitted(&asked::cache(&asked), graph, &machine, &options).map_err(session)?;
        let Fitted { plan, prepared, .. } = fitted;
        Ok(Self { plan, machine, runner, prepared })
    }

    /// How many devices compute.
    fn devices(&self) -> usize {
        self.machine.workers().len()
    }
}

impl Ours {
    fn new(
        planned: Planned,
        threads: usize,
        parameters: &dyn ParameterSource,
        given: &BTreeMap<String, Dense>,
    ) -> Result<Self, Failure> {
        let Planned { plan, machine, runner, prepared } = planned;
        let before = memory("VmRSS:");
        let executor = match prepared {
            Prepared::Cpu => Executor::with_threads(plan.tasks.clone(), parameters, threads),
            #[cfg(feature = "cuda")]
            Prepared::Cuda(_) | Prepared::Elsewhere(_) => prepared.executor(&plan.tasks, parameters),
        };
        let executor = executor.map_err(|e| session(e.into()))?;
        let wanted = |name: &String| plan.tasks.externals.iter().any(|e| e.name == *name);
        let inputs = given.iter().filter(|(name, _)| wanted(name)).map(|(n, v)| (n.clone(), v.clone())).collect();
        let devices = machine.workers().len();
        Ok(Self { plan, devices, runner, executor, inputs, outputs: BTreeMap::new(), before })
    }

    /// The seconds of so many runs: from inputs in the caller's memory to outputs there or, on GPUs, from inputs to
    /// outputs in their memory. State is given in the first run alone: it stays where it is, as a peer's caches do.
    fn run(&mut self, count: usize) -> Result<Vec<f64>, Failure> {
        let once = |_| {
            if let Some(seconds) = self.again()? {
                return Ok(seconds);
            }
            let start = Instant::now();
            let own = self.executor.run_into(&self.inputs, &mut self.outputs).map_err(Failure::run)?;
            let elapsed = start.elapsed().as_secs_f64();
            let externals = &self.executor.graph().externals;
            self.inputs.retain(|name, _| externals.iter().any(|e| e.name == *name && e.kind == InputKind::Input));
            Ok(if matches!(self.runner, Runner::Cpu) { elapsed } else { own })
        };
        (0..count).map(once).collect()
    }

    /// The seconds of a further run of GPUs, in whose memory inputs and results stay: it follows on the one before as soon as
    /// a peer's does.
    fn again(&mut self) -> Result<Option<f64>, Failure> {
        self.executor.again().transpose().map_err(Failure::run)
    }

    /// The figures of the last run's first result, views that end the graph applied.
    fn result(&self) -> Result<Vec<[f64; 2]>, Failure> {
        let graph = &self.plan.graph;
        let source = |(name, value): (&String, &Dense)| Some((graph.find(name)?, value.clone()));
        let outputs = run_from(graph, &self.outputs.iter().filter_map(source).collect()).map_err(Failure::run)?;
        let first = graph.outputs().first().and_then(|(name, _)| outputs.get(name));
        Ok(first.map(|value| peers::figures(&value.to_f64())).into_iter().collect())
    }
}

impl Side {
    fn new(name: &str, version: &str, apart: Option<f64>) -> Self {
        Self { name: name.into(), version: version.into(), turns: Vec::new(), apart }
    }

    fn seconds(&self) -> f64 {
        median(&self.turns)
    }
}

/// Everything that is told.
struct Measured<'a> {
    name: String,
    args: &'a Bench,
    threads: usize,
    ours: &'a Ours,
    result: Vec<[f64; 2]>,
    peak: u64,
    sides: &'a [Side],
    missing: &'a [Missing],
    floor: &'a Floor,
}

impl Measured<'_> {
    /// Our seconds over a side's, the median over turns.
    fn ratio(&self, side: &Side) -> f64 {
        median(&self.sides[0].turns.iter().zip(&side.turns).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())
    }

    /// Bytes of the parameters, each once.
    fn weights(&self) -> u64 {
        let graph = &self.ours.plan.graph;
        graph.inputs(InputKind::Parameter).into_iter().map(|id| graph.ty(id).bytes()).sum()
    }

    /// Where inputs and results lie while our side is timed.
    fn place(&self) -> &'static str {
        if matches!(self.ours.runner, Runner::Cpu) { "host" } else { "gpus" }
    }

    fn json(&self) -> Value {
        let tasks = &self.ours.plan.tasks;
        let seconds = self.sides[0].seconds();
        let arenas = self.ours.executor.memory().0;
        let mut value = json!({
            "computation": self.name,
            "devices": self.ours.devices,
            "threads": self.threads,
            "runs": self.args.runs,
            "seconds": seconds,
            "inputs_and_results": self.place(),
            "gflops": self.floor.operations / seconds / 1e9,
            "operations": self.floor.operations,
            "bytes_moved": self.ours.plan.report.bytes_total.0,
            "tasks": tasks.tasks.len(),
            "figures": self.result,
            "peak_bytes": self.peak,
            "weight_bytes": self.weights(),
            "arena_bytes": arenas,
            "live_bytes": ein_task::memory::peak(tasks).iter().map(|b| b.0).sum::<u64>(),
            "floor": {
                "peak_gflops": self.floor.peak / 1e9,
                "bandwidth": self.floor.bandwidth,
                "bytes": self.floor.bytes,
                "seconds": self.floor.seconds(),
                "over": seconds / self.floor.seconds(),
            },
        });
        let side = |side: &Side| json!({ "name": side.name, "version": side.version, "seconds": side.seconds(), "ratio": self.ratio(side), "apart": side.apart });
        let (one, peers): (Vec<&Side>, Vec<&Side>) = self.sides[1..].iter().partition(|s| s.apart.is_none());
        value["one_device"] = one.first().map_or(Value::Null, |one| side(one));
        value["peers"] = peers.into_iter().map(side).collect();
        value["missing"] =
            self.missing.iter().map(|m| json!({ "name": m.kind.to_string(), "reason": m.reason })).collect();
        value
    }

    fn text(&self) -> String {
        let (tasks, floor) = (&self.ours.plan.tasks, self.floor);
        let seconds = self.sides[0].seconds();
        let devices = self.ours.devices;
        let mut text = format!("{}\n", self.name);
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let _ = writeln!(
            text,
            "  takes        {} ({:.1} GFLOP/s), the median of {} turns on {devices} device{} and {} thread{}{}",
            Seconds(seconds),
            floor.operations / seconds / 1e9,
            self.args.runs,
            plural(devices),
            self.threads,
            plural(self.threads),
            if self.place() == "gpus" { ", inputs and results on the GPUs" } else { "" },
        );
        let _ = writeln!(text, "  moves        {} in {} tasks", self.ours.plan.report.bytes_total, tasks.tasks.len());
        let arenas = self.ours.executor.memory();
        let _ = writeln!(text, "  memory       {arenas} in arenas, of that weights {} once", Bytes(self.weights()));
        let _ = writeln!(
            text,
            "  floor        {}: {:.3e} operations at {:.0} GFLOP/s, {} at {:.1} GB/s, both {}; {:.2} × that",
            Seconds(floor.seconds()),
            floor.operations,
            floor.peak / 1e9,
            Bytes(floor.bytes as u64),
            floor.bandwidth / 1e9,
            floor.source,
            seconds / floor.seconds(),
        );
        for side in &self.sides[1..] {
            let version = if side.apart.is_some() { format!(" {}", side.version) } else { String::new() };
            let same = side.apart.map_or(String::new(), |apart| format!(", results {apart:.1e} apart"));
            let _ = writeln!(
                text,
                "  against      {}{version}: {}, ours is {:.3} × that{same}",
                side.name,
                Seconds(side.seconds()),
                self.ratio(side),
            );
        }
        for Missing { kind, reason } in self.missing {
            let _ = writeln!(text, "  against      {kind}: not compared: {reason}");
        }
        text
    }
}
