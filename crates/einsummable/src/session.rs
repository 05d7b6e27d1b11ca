//! From tensors to numbers: plan for a machine, make ready, run.

use crate::runner::Fitted;
pub use crate::runner::Runner;
use crate::synthetic::SyntheticWeights;
use crate::tensor::{Tensor, TensorError};
use crate::trace::{Traced, trace};
use crate::weights::Weights;
use ein_ir::dense::Dense;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::op::InputKind;
use ein_ir::reference::{EvalError, run as reference, run_from};
use ein_ir::region::Region;
use ein_plan::cache::{Cache, Origin};
use ein_plan::error::PlanError;
use ein_plan::options::Options;
use ein_plan::plan::Plan;
use ein_run::{Executor, Order, ParameterSource, RunError};
use ein_task::machine::Machine;
use ein_task::timeline::Timeline;
use ein_task::units::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why a computation could not be compiled or run.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The tensors are not well formed.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There is no plan that leaves as much memory as its kernels need.
    #[error(
        "{error}; {scratch} of a device's memory are left to what kernels need besides their values (scratch memory)"
    )]
    Scratch {
        /// Bytes that are left.
        scratch: Bytes,
        /// Why there is no plan for the rest.
        error: Box<PlanError>,
    },
    /// Plans need more memory besides their values than the plans before left.
    #[error(
        "no plan was found that leaves enough memory to what its kernels need besides their values (scratch memory, \
         {scratch} on a device): use more devices or a smaller model"
    )]
    NoRoom {
        /// Bytes that the last plan left.
        scratch: Bytes,
    },
    /// It did not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A parameter is not there, of another type, or could not be read.
    #[error("parameter `{name}`: {reason}")]
    Parameter {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The outputs could not be put together.
    #[error(transparent)]
    Output(#[from] EvalError),
}

/// A machine to plan for, and what is asked of plans.
///
/// ```
/// use einsummable::{DType, Dense, Session, Tensor};
/// let x = Tensor::input("x", [3, 4], DType::F32);
/// let w = Tensor::constant("w", Dense::f32([4, 2], vec![1.0; 8]));
/// let mut compiled = Session::cpu(3)?.compile(&[("y", &x.matmul(&w))])?;
/// let outputs = compiled.run([("x", Dense::f32([3, 4], vec![2.0; 12]))])?;
/// assert_eq!(outputs["y"], Dense::f32([3, 2], vec![8.0; 6]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Session {
    machine: Machine,
    runner: Runner,
    options: Options,
    parameters: Arc<dyn ParameterSource + Send>,
    cache: Arc<Cache>,
}

impl Session {
    /// A session on a machine, with the default options.
    pub fn new(machine: Machine) -> Self {
        let parameters = Arc::new(BTreeMap::<String, Dense>::new());
        Self { machine, runner: Runner::Cpu, options: Options::default(), parameters, cache: Arc::default() }
    }

    /// A session on virtual devices of this host.
    pub fn cpu(devices: usize) -> Result<Self, ein_task::machine_error::MachineError> {
        Ok(Self::new(Machine::by_name(&format!("{devices}xcpu"))?))
    }

    /// A session on this host's GPUs.
    #[cfg(feature = "cuda")]
    pub fn on_gpus(gpus: ein_cuda::gpus::Gpus) -> Self {
        let runner = Runner::Cuda { seats: gpus.seats, settings: ein_cuda::devices::Settings::default() };
        Self::new(gpus.machine).with_runner(runner)
    }

    /// The session with another to run its plans, whose devices are those of its machine.
    pub fn with_runner(mut self, runner: Runner) -> Self {
        self.runner = runner;
        self
    }

    /// The session with other options.
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The session with values for parameters: [`Weights`] of a folder, a map of dense tensors, or any other source.
    pub fn with_parameters(mut self, parameters: impl ParameterSource + Send + 'static) -> Self {
        self.parameters = Arc::new(parameters);
        self
    }

    /// The session with this cache of plans, which others may share. A session's own keeps plans for the process; one [with a
    /// store](crate::plan_store::PlanStore) keeps them for later ones, too.
    pub fn with_cache(mut self, cache: Arc<Cache>) -> Self {
        self.cache = cache;
        self
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What is asked of plans.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Plans the computation of some outputs, each under a name, and loads its parameters.
    pub fn compile(&self, outputs: &[(&str, &Tensor)]) -> Result<Compiled, SessionError> {
        self.compile_with(outputs, &*self.parameters)
    }

    /// As [`Session::compile`], with parameters from `source` instead of the session's.
    pub fn compile_with(
        &self,
        outputs: &[(&str, &Tensor)],
        source: &dyn ParameterSource,
    ) -> Result<Compiled, SessionError> {
        let Traced { graph, constants } = trace(outputs)?;
        let mut compiled = self.compile_graph(&graph, &Overlay { constants: &constants, rest: source })?;
        compiled.constants = constants;
        Ok(compiled)
    }

    /// Plans a graph and loads its parameters.
    pub fn compile_graph(&self, graph: &Graph, parameters: &dyn ParameterSource) -> Result<Compiled, SessionError> {
        // A parameter that cannot be had is said before the time of planning is spent.
        for node in graph.inputs(InputKind::Parameter).into_iter().map(|id| graph.node(id)) {
            parameters
                .check(&node.name, &node.ty)
                .map_err(|reason| SessionError::Parameter { name: node.name.clone(), reason })?;
        }
        let fitted = self.runner.fitted(&self.cache, graph, &self.machine, &self.options)?;
        let Fitted { plan, origin, prepared, scratch } = fitted;
        let executor = prepared.executor(&plan.tasks, parameters)?;
        Ok(Compiled {
            plan,
            origin,
            on_gpus: !matches!(self.runner, Runner::Cpu),
            scratch,
            executor,
            constants: BTreeMap::new(),
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
            timeline: Timeline::default(),
            seconds: 0.0,
        })
    }
}

/// A computation that is ready to run.
pub struct Compiled {
    plan: Arc<Plan>,
    origin: Origin,
    on_gpus: bool,
    scratch: Vec<Bytes>,
    executor: Executor,
    constants: BTreeMap<String, Arc<Dense>>,
    /// What went into and came out of the last run, for comparing with the reference.
    inputs: BTreeMap<String, Dense>,
    outputs: BTreeMap<String, Dense>,
    timeline: Timeline,
    seconds: f64,
}

impl Compiled {
    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether it was planned for this, or was known.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Whether this host's GPUs run it, rather than its processors.
    pub fn is_on_gpus(&self) -> bool {
        self.on_gpus
    }

    /// By device, the bytes that its kernels need besides its arena.
    pub fn scratch(&self) -> &[Bytes] {
        &self.scratch
    }

    /// What happened when in the last run.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// How long the last run took.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Chooses which ready task a device takes first in later runs. It changes no bit of a result; tests make
    /// sure of that with it.
    pub fn set_order(&mut self, order: Order) {
        self.executor.set_order(order);
    }

    /// Runs once. Inputs are given, and outputs returned, by name.
    pub fn run<N: Into<String>>(
        &mut self,
        inputs: impl IntoIterator<Item = (N, Dense)>,
    ) -> Result<BTreeMap<String, Dense>, SessionError> {
        let inputs: BTreeMap<String, Dense> = inputs.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let run = self.executor.run(&inputs)?;
        (self.timeline, self.seconds, self.inputs) = (run.timeline, run.seconds, inputs);
        // What comes out are the tensors behind views that end the graph; those are applied here.
        let graph = &self.plan.graph;
        let mut sources: BTreeMap<TensorId, Dense> = BTreeMap::new();
        for (name, value) in run.outputs {
            sources.insert(graph.find(&name).expect("the plan's outputs are rows of its graph"), value);
        }
        self.outputs = run_from(graph, &sources)?;
        Ok(self.outputs.clone())
    }

    /// The largest absolute difference between the last run's outputs and the dense reference's.
    pub fn max_abs_error(&self, parameters: &dyn ParameterSource) -> Result<f64, SessionError> {
        Ok(self.errors(parameters)?.into_iter().map(|(error, _)| error).fold(0.0, f64::max))
    }

    /// For every output of the last run, its largest absolute difference to the dense reference, and the largest finite
    /// magnitude that the reference has in it.
    pub fn errors(&self, parameters: &dyn ParameterSource) -> Result<Vec<(f64, f64)>, SessionError> {
        let right = self.reference(parameters)?;
        let size =
            |value: &Dense| value.to_f64().into_iter().filter(|v| v.is_finite()).fold(0.0, |m, v| v.abs().max(m));
        let of = |(name, value): (&String, &Dense)| (value.max_abs_difference(&right[name]), size(&right[name]));
        Ok(self.outputs.iter().map(of).collect())
    }

    /// What the dense reference, on one device and without any plan, makes of the last run's inputs. Reads every
    /// parameter whole.
    pub fn reference(&self, parameters: &dyn ParameterSource) -> Result<BTreeMap<String, Dense>, SessionError> {
        let source = Overlay { constants: &self.constants, rest: parameters };
        let mut inputs = self.inputs.clone();
        for id in self.plan.graph.inputs(InputKind::Parameter) {
            let node = self.plan.graph.node(id);
            let mut bytes = vec![0; node.ty.bytes() as usize];
            source
                .read(&node.name, &node.ty, &node.ty.whole(), &mut bytes)
                .map_err(|reason| SessionError::Parameter { name: node.name.clone(), reason })?;
            let value = Dense::from_le_bytes(&node.ty, &bytes).expect("as many bytes as its type has");
            inputs.insert(node.name.clone(), value);
        }
        Ok(reference(&self.plan.graph, &inputs)?)
    }
}

/// Constants of the tensors before the parameters of the session.
struct Overlay<'a> {
    constants: &'a BTreeMap<String, Arc<Dense>>,
    rest: &'a dyn ParameterSource,
}

impl ParameterSource for Overlay<'_> {
    fn read(&self, name: &str, ty: &TensorType, region: &Region, out: &mut [u8]) -> Result<(), String> {
        match self.constants.get(name) {
            Some(value) => {
                out.copy_from_slice(&value.cut(&ty.whole(), region).to_le_bytes());
                Ok(())
            }
            None => self.rest.read(name, ty, region, out),
        }
    }

    fn check(&self, name: &str, ty: &TensorType) -> Result<(), String> {
        if self.constants.contains_key(name) { Ok(()) } else { self.rest.check(name, ty) }
    }
}

impl ParameterSource for Weights {
    fn read(&self, name: &str, ty: &TensorType, region: &Region, out: &mut [u8]) -> Result<(), String> {
        Weights::read(self, name, ty, region, out).map_err(|e| e.to_string())
    }

    fn check(&self, name: &str, ty: &TensorType) -> Result<(), String> {
        self.check_tensor(name, ty).map_err(|e| e.to_string())
    }
}

impl ParameterSource for SyntheticWeights {
    fn read(&self, name: &str, ty: &TensorType, region: &Region, out: &mut [u8]) -> Result<(), String> {
        out.copy_from_slice(&self.region(name, ty, region).to_le_bytes());
        Ok(())
    }
}
