//! Runs a task graph: on threads that all virtual devices of this process share, or on devices that see nothing of each
//! other but messages.

use crate::backend::Backend;
use crate::cpu::CpuDevice;
use crate::device::Device;
use crate::error::RunError;
use crate::messages::Workers;
use crate::rendezvous::Rendezvous;
use crate::source::ParameterSource;
use crate::trace;
use crate::transport::Transport;
use crate::virtual_devices::VirtualDevices;
use ein_ir::dense::{Data, Dense};
use ein_ir::graph::TensorType;
use ein_ir::op::InputKind;
use ein_task::task::{External, TaskGraph};
use ein_task::timeline::Timeline;
use ein_task::units::Bytes;
use ein_task::verify::verify;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Which of the ready tasks goes next. Results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// As foreseen: those first after which most remains to be done; of devices that are joined by messages, sends
    /// first, then the task graph's order.
    #[default]
    Listed,
    /// Any, drawn from this seed: for tests that a plan names all its dependencies.
    Random(u64),
}

/// What a run yields.
#[derive(Clone, Debug)]
pub struct Run {
    /// The outputs by name.
    pub outputs: BTreeMap<String, Dense>,
    /// What happened when.
    pub timeline: Timeline,
    /// From the first feed to the last output; on devices that time their runs themselves, what those say.
    pub seconds: f64,
}

/// A task graph ready to run: arenas allocated, parameters loaded, threads waiting.
pub struct Executor {
    graph: TaskGraph,
    devices: Box<dyn Backend>,
    /// The outputs of a run, in the graph's order; empty between runs.
    outputs: Vec<Mutex<Dense>>,
    /// For every external, whether it is state that was given in a run before.
    held: Vec<bool>,
}

impl Executor {
    /// Prepares a task graph for the CPU, its devices virtual ones that share as many threads as there are processors.
    pub fn new(graph: TaskGraph, parameters: &dyn ParameterSource) -> Result<Self, RunError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_threads(graph, parameters, processors)
    }

    /// Prepares a task graph for the CPU, its devices virtual ones that share `threads` threads (at least one), the
    /// caller's among them. The others wait between runs and end with the executor. No bit of a result depends on
    /// their number.
    pub fn with_threads(graph: TaskGraph, parameters: &dyn ParameterSource, threads: usize) -> Result<Self, RunError> {
        check(&graph)?;
        let devices = VirtualDevices::new(&graph, parameters, threads)?;
        Ok(Self::of(graph, Box::new(devices)))
    }

    /// Prepares a task graph for the CPU, its devices joined by a transport that buffers no message. For tests:
    /// it shows that a plan counts on no buffer. `limit` is how long a device waits for news of others.
    pub fn unbuffered(
        graph: TaskGraph,
        parameters: &dyn ParameterSource,
        limit: Option<Duration>,
    ) -> Result<Self, RunError> {
        let devices = (0..graph.devices).map(|_| Box::new(CpuDevice::default()) as Box<dyn Device>).collect();
        let ends = Rendezvous::ends(graph.devices, limit);
        Self::with(
            graph,
            parameters,
            devices,
            ends.into_iter().map(|end| Box::new(end) as Box<dyn Transport>).collect(),
        )
    }

    /// Prepares a task graph for given devices, joined by given ends of one transport: one thread a device.
    pub fn with(
        graph: TaskGraph,
        parameters: &dyn ParameterSource,
        devices: Vec<Box<dyn Device>>,
        ends: Vec<Box<dyn Transport>>,
    ) -> Result<Self, RunError> {
        assert_eq!((devices.len(), ends.len()), (graph.devices, graph.devices), "a device and an end for each");
        check(&graph)?;
        let workers = Workers::new(&graph, parameters, devices, ends)?;
        Ok(Self::of(graph, Box::new(workers)))
    }

    /// Prepares a task graph for devices of another crate, which `make` makes ready once the graph has been verified:
    /// with memory, and with parameters loaded.
    pub fn on(
        graph: TaskGraph,
        make: impl FnOnce(&TaskGraph) -> Result<Box<dyn Backend>, RunError>,
    ) -> Result<Self, RunError> {
        check(&graph)?;
        let devices = make(&graph)?;
        Ok(Self::of(graph, devices))
    }

    fn of(graph: TaskGraph, devices: Box<dyn Backend>) -> Self {
        let outputs = graph.outputs.iter().map(|_| Mutex::new(nothing())).collect();
        let held = vec![false; graph.externals.len()];
        Self { graph, devices, outputs, held }
    }

    /// The task graph.
    pub fn graph(&self) -> &TaskGraph {
        &self.graph
    }

    /// Bytes of all arenas. Virtual devices of one process that hold the same parameter share its memory, so that there
    /// can be fewer than the memory plan counts.
    pub fn memory(&self) -> Bytes {
        let planned: u64 = self.graph.arenas.iter().map(|bytes| bytes.0).sum();
        Bytes(planned - self.devices.replicas(&self.graph).0)
    }

    /// Chooses which ready task goes first in later runs.
    pub fn set_order(&mut self, order: Order) {
        self.devices.set_order(order);
    }

    /// Runs the task graph once. State must be given in the first run; it stays as it is where later runs do not give
    /// it again.
    pub fn run(&mut self, inputs: &BTreeMap<String, Dense>) -> Result<Run, RunError> {
        let mut outputs = BTreeMap::new();
        let seconds = self.run_into(inputs, &mut outputs)?;
        Ok(Run { outputs, timeline: self.timeline(), seconds })
    }

    /// As [`Executor::run`], into tensors that the caller has: outputs that are there in their type are written, others
    /// are made. On virtual devices, a run that finds all of them allocates nothing. How many seconds it took, as [`Run`]
    /// has it.
    ///
    /// After an error, what the outputs hold is not specified.
    pub fn run_into(
        &mut self,
        inputs: &BTreeMap<String, Dense>,
        outputs: &mut BTreeMap<String, Dense>,
    ) -> Result<f64, RunError> {
        check_inputs(&self.graph, inputs, &self.held)?;
        for (slot, (name, ty)) in self.outputs.iter_mut().zip(&self.graph.outputs) {
            let there = outputs.get_mut(name).filter(|there| is_of(there, ty));
            let output = there.map_or_else(|| Dense::zeros(ty), |there| std::mem::replace(there, nothing()));
            *slot.get_mut().unwrap_or_else(PoisonError::into_inner) = output;
        }
        let start = Instant::now();
        let result = self.devices.run(&self.graph, inputs, &self.outputs);
        let elapsed = start.elapsed().as_secs_f64();
        let seconds = self.devices.seconds().unwrap_or(elapsed);
        for (slot, (name, _)) in self.outputs.iter_mut().zip(&self.graph.outputs) {
            let slot = slot.get_mut().unwrap_or_else(PoisonError::into_inner);
            let output = std::mem::replace(slot, nothing());
            match outputs.get_mut(name) {
                Some(there) => *there = output,
                None => drop(outputs.insert(name.clone(), output)),
            }
        }
        result?;
        for (held, external) in self.held.iter_mut().zip(&self.graph.externals) {
            *held |= external.kind == InputKind::State;
        }
        Ok(seconds)
    }

    /// Runs once more with the inputs of the last run, where inputs and outputs may stay with the devices, as programs do whose
    /// tensors are there: the seconds, as of [`Executor::run_into`]. None where every run brings and fetches them, and before
    /// the first run.
    ///
    /// # Errors
    ///
    /// As of a run. What fails for the values that it is given, the run before told.
    pub fn again(&mut self) -> Option<Result<f64, RunError>> {
        self.devices.again()
    }

    /// What happened when in the last run.
    pub fn timeline(&self) -> Timeline {
        trace::timeline(&self.graph, self.devices.marks())
    }
}

/// No tensor: it takes no memory, not even for its shape.
fn nothing() -> Dense {
    Dense { shape: Vec::new(), data: Data::F32(Vec::new()) }
}

fn is_of(dense: &Dense, ty: &TensorType) -> bool {
    dense.dtype() == ty.dtype && dense.shape == ty.shape
}

/// Refuses a graph that cannot be executed.
fn check(graph: &TaskGraph) -> Result<(), RunError> {
    verify(graph)?;
    if graph.arenas.len() != graph.devices {
        return Err(RunError::Unplanned { arenas: graph.arenas.len(), devices: graph.devices });
    }
    Ok(())
}

/// Refuses inputs that are not those of the graph.
fn check_inputs(graph: &TaskGraph, inputs: &BTreeMap<String, Dense>, held: &[bool]) -> Result<(), RunError> {
    let wanted = || graph.externals.iter().filter(|e| e.kind != InputKind::Parameter);
    let names = || {
        let list: Vec<String> = wanted().map(|e| format!("`{}` ({})", e.name, e.ty)).collect();
        if list.is_empty() { "none".to_owned() } else { list.join(", ") }
    };
    if let Some(name) = inputs.keys().find(|name| wanted().all(|e| e.name != **name)) {
        return Err(RunError::UnknownInput { name: name.clone(), inputs: names() });
    }
    let expected = |e: &External| (e.name.clone(), e.ty.clone());
    for (external, held) in graph.externals.iter().zip(held).filter(|(e, _)| e.kind != InputKind::Parameter) {
        match inputs.get(&external.name) {
            None if *held => {}
            None => {
                let (name, expected) = expected(external);
                return Err(RunError::MissingInput { name, expected, inputs: names() });
            }
            Some(dense) if !is_of(dense, &external.ty) => {
                let (name, expected) = expected(external);
                return Err(RunError::InputType { name, found: dense.ty(), expected });
            }
            Some(_) => {}
        }
    }
    Ok(())
}
