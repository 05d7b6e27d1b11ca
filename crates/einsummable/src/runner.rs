//! Who runs what is planned, and plans that leave room for what that takes.

use crate::session::SessionError;
use ein_ir::graph::Graph;
use ein_plan::cache::{Cache, Origin};
use ein_plan::error::PlanError;
use ein_plan::options::Options;
use ein_plan::plan::Plan;
use ein_run::{Executor, ParameterSource, RunError};
use ein_task::machine::{DeviceKind, Machine};
use ein_task::task::TaskGraph;
use ein_task::units::Bytes;
use std::sync::Arc;

/// Who runs what is planned.
#[derive(Clone, Debug, Default)]
pub enum Runner {
    /// This host's processors, which stand for the devices of any machine.
    #[default]
    Cpu,
    /// This host's GPUs.
    #[cfg(feature = "cuda")]
    Cuda {
        /// Where each device of the machine is.
        seats: Vec<ein_cuda::devices::Seat>,
        /// What may be chosen.
        settings: ein_cuda::devices::Settings,
    },
    /// Nobody: what is planned for GPUs leaves them room for what their kernels would need, as they are described.
    #[cfg(feature = "cuda")]
    Elsewhere {
        /// The machine.
        machine: Box<Machine>,
        /// What may be chosen.
        settings: ein_cuda::devices::Settings,
    },
}

/// Bytes of a GPU that a first plan leaves to what kernels need besides their values, before it is known how much that is.
#[cfg(feature = "cuda")]
const ASSUMED: u64 = 80 << 20;
/// Plans that are made until one leaves as much as it needs: what kernels need depends on how they are cut.
const PLANS: usize = 4;

impl Runner {
    /// Who would run what is planned for a machine that need not be at hand: only what it needs is known.
    pub fn elsewhere(machine: &Machine) -> Self {
        #[cfg(feature = "cuda")]
        if machine.devices.iter().any(|d| d.kind == DeviceKind::Gpu)
            && machine.devices.iter().all(|d| d.kind != DeviceKind::Cpu)
        {
            let settings = ein_cuda::devices::Settings::default();
            return Self::Elsewhere { machine: Box::new(machine.clone()), settings };
        }
        let _ = machine;
        Self::Cpu
    }

    /// A planned task graph as it is to be run, before memory is made for it.
    ///
    /// # Errors
    ///
    /// There are no such GPUs, or a row cannot be run there.
    pub fn prepare(&self, tasks: &TaskGraph) -> Result<Prepared, RunError> {
        match self {
            Self::Cpu => {
                // What is run is looked at where memory is made for it.
                let _ = tasks;
                Ok(Prepared::Cpu)
            }
            #[cfg(feature = "cuda")]
            Self::Cuda { seats, settings } => {
                ein_task::verify::verify(tasks)?;
                let prepared = ein_cuda::devices::Prepared::new(tasks, &seats[..tasks.devices], *settings)?;
                Ok(Prepared::Cuda(Box::new(prepared)))
            }
            #[cfg(feature = "cuda")]
            Self::Elsewhere { machine, settings } => {
                let scratch = ein_cuda::devices::elsewhere::scratch(tasks, machine, *settings)?;
                Ok(Prepared::Elsewhere(scratch))
            }
        }
    }

    /// Makes a planned task graph ready to run.
    ///
    /// # Errors
    ///
    /// As of [`Runner::prepare`] and [`Prepared::executor`].
    pub fn executor(&self, tasks: &TaskGraph, parameters: &dyn ParameterSource) -> Result<Executor, RunError> {
        self.prepare(tasks)?.executor(tasks, parameters)
    }

    /// Plans a graph such that every device has room for its arena and for what its kernels need besides, and prepares it.
    ///
    /// What kernels need is known when there is a plan. So a first one leaves an assumed amount of each GPU's memory; where
    /// the arena and what is needed do not fit together, the library of products gets less to work with, and where that is
    /// not enough, another plan leaves as much as the one before needed.
    ///
    /// # Errors
    ///
    /// There is no plan, or none that leaves enough.
    pub fn fitted(
        &self,
        cache: &Cache,
        graph: &Graph,
        machine: &Machine,
        options: &Options,
    ) -> Result<Fitted, SessionError> {
        let room = |d: usize| options.memory.map_or(machine.devices[d].memory, |m| m.min(machine.devices[d].memory)).0;
        let (mut left, mut known) = (self.assumed(machine, &room), false);
        for _ in 0..PLANS {
            let mut smaller = machine.clone();
            for (d, device) in smaller.devices.iter_mut().enumerate().filter(|(d, _)| left[*d] > 0) {
                device.memory = Bytes(room(d).saturating_sub(left[d]).max(1));
            }
            let (plan, origin) = match cache.plan(graph, &smaller, options) {
                Err(PlanError::DoesNotFit { .. }) if !known && left.iter().any(|&l| l > 0) => {
                    // What was assumed may be too much.
                    (left, known) = (vec![0; machine.len()], true);
                    continue;
                }
                Err(error @ PlanError::DoesNotFit { .. }) if left.iter().any(|&l| l > 0) => {
                    return Err(SessionError::Scratch { scratch: most(&left), error: Box::new(error) });
                }
                planned => planned?,
            };
            let free: Vec<u64> =
                plan.tasks.arenas.iter().enumerate().map(|(d, arena)| room(d).saturating_sub(arena.0)).collect();
            let (prepared, scratch) = self.within(&plan.tasks, &free)?;
            if scratch.iter().zip(&free).all(|(scratch, free)| scratch.0 <= *free) {
                return Ok(Fitted { plan, origin, prepared, scratch });
            }
            for (left, scratch) in left.iter_mut().zip(&scratch) {
                *left = if known { scratch.0.max(*left) } else { scratch.0 };
            }
            known = true;
        }
        Err(SessionError::NoRoom { scratch: most(&left) })
    }

    /// A task graph prepared, and what its devices need besides their arenas: if possible no more than so many bytes, at the
    /// cost of the library of products.
    fn within(&self, tasks: &TaskGraph, free: &[u64]) -> Result<(Prepared, Vec<Bytes>), RunError> {
        let prepared = self.prepare(tasks)?;
        let scratch = prepared.scratch(tasks);
        if scratch.iter().zip(free).all(|(scratch, free)| scratch.0 <= *free) {
            return Ok((prepared, scratch));
        }
        #[cfg(feature = "cuda")]
        if !matches!(self, Self::Cpu) {
            let with = |workspace: u64| {
                let prepared = self.with_workspace(workspace).prepare(tasks)?;
                let scratch = prepared.scratch(tasks);
                Ok::<_, RunError>((prepared, scratch))
            };
            let (least, scratch) = with(0)?;
            // What is left besides, in equal parts for the rows that may run at once.
            let of_gpus = (0..tasks.devices).filter(|d| !self.is_host(*d));
            let spare = of_gpus.map(|d| free[d].saturating_sub(scratch[d].0)).min();
            let spare = spare.unwrap_or(0);
            let (prepared, more) = with(spare / ein_cuda::nodes::LANES as u64)?;
            let fits = more.iter().zip(free).all(|(scratch, free)| scratch.0 <= *free);
            return Ok(if fits { (prepared, more) } else { (least, scratch) });
        }
        Ok((prepared, scratch))
    }

    /// The same with at most so many bytes for the library of products.
    #[cfg(feature = "cuda")]
    fn with_workspace(&self, workspace: u64) -> Self {
        let with = |settings: &ein_cuda::devices::Settings| ein_cuda::devices::Settings { workspace, ..*settings };
        match self {
            Self::Cpu => Self::Cpu,
            Self::Cuda { seats, settings } => Self::Cuda { seats: seats.clone(), settings: with(settings) },
            Self::Elsewhere { machine, settings } => {
                Self::Elsewhere { machine: machine.clone(), settings: with(settings) }
            }
        }
    }

    /// Whether a device's memory is the host's.
    #[cfg(feature = "cuda")]
    fn is_host(&self, device: usize) -> bool {
        match self {
            Self::Cpu => true,
            Self::Cuda { seats, .. } => seats[device] == ein_cuda::devices::Seat::Host,
            Self::Elsewhere { machine, .. } => machine.devices[device].kind == DeviceKind::Host,
        }
    }

    /// Bytes of each device's memory that a first plan leaves.
    fn assumed(&self, machine: &Machine, room: &dyn Fn(usize) -> u64) -> Vec<u64> {
        let most = match self {
            Self::Cpu => 0,
            #[cfg(feature = "cuda")]
            Self::Cuda { .. } => ASSUMED,
            // A plan for all of the memory stands as long as what is needed besides fits.
            #[cfg(feature = "cuda")]
            Self::Elsewhere { .. } => 0,
        };
        // Of little memory a part, and nothing of a host's.
        let of = |d: usize| match machine.devices[d].kind {
            DeviceKind::Host => 0,
            DeviceKind::Cpu | DeviceKind::Gpu => most.min(room(d) / 8),
        };
        (0..machine.len()).map(of).collect()
    }
}

fn most(bytes: &[u64]) -> Bytes {
    Bytes(bytes.iter().copied().max().unwrap_or(0))
}

/// A plan with room for everything, and what is to run it.
#[derive(Debug)]
pub struct Fitted {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Whether it was planned for this, or was known.
    pub origin: Origin,
    /// Its task graph, as it is to be run.
    pub prepared: Prepared,
    /// Bytes that each device needs besides its arena.
    pub scratch: Vec<Bytes>,
}

/// A task graph as it is to be run, before memory is made for it.
#[derive(Debug)]
pub enum Prepared {
    /// On processors, which need nothing besides.
    Cpu,
    /// On GPUs.
    #[cfg(feature = "cuda")]
    Cuda(Box<ein_cuda::devices::Prepared>),
    /// For GPUs that are not asked to run it: what each device needs besides its arena.
    #[cfg(feature = "cuda")]
    Elsewhere(Vec<Bytes>),
}

impl Prepared {
    /// Bytes that each device needs besides its arena.
    pub fn scratch(&self, tasks: &TaskGraph) -> Vec<Bytes> {
        match self {
            Self::Cpu => vec![Bytes(0); tasks.devices],
            #[cfg(feature = "cuda")]
            Self::Cuda(prepared) => prepared.scratch(tasks),
            #[cfg(feature = "cuda")]
            Self::Elsewhere(scratch) => {
                let _ = tasks;
                scratch.clone()
            }
        }
    }

    /// Makes memory, and loads parameters.
    ///
    /// # Errors
    ///
    /// Too little memory, or a parameter that cannot be read; on GPUs, no compiler or one that refuses.
    pub fn executor(self, tasks: &TaskGraph, parameters: &dyn ParameterSource) -> Result<Executor, RunError> {
        match self {
            Self::Cpu => Executor::new(tasks.clone(), parameters),
            #[cfg(feature = "cuda")]
            Self::Cuda(prepared) => {
                Executor::on(tasks.clone(), |tasks| Ok(Box::new(prepared.load(tasks, parameters)?)))
            }
            #[cfg(feature = "cuda")]
            Self::Elsewhere(_) => {
                let reason = "what is planned for GPUs elsewhere is not run here".to_owned();
                Err(RunError::Device { device: ein_task::machine::DeviceId(0), reason })
            }
        }
    }
}
