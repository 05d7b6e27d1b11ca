//! A task graph as GPUs would run it, before any memory is made for it.

use super::building::Building;
use super::{Devices, Seat, Settings, failed, loading};
use crate::compile::{Arch, compile};
use crate::driver::{Driver, DriverError, Function, Gpu, Memory, Module, Products, Stream};
use crate::generate;
use crate::nodes::{Nodes, Site, Sites, Work};
use crate::program::Target;
use ein_run::{ParameterSource, RunError};
use ein_task::machine::DeviceId;
use ein_task::task::TaskGraph;
use ein_task::units::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What every device of a task graph is to do on which GPU, and how much memory that takes. Nothing is compiled yet, and
/// nothing is allocated.
#[derive(Debug)]
pub struct Prepared {
    gpus: Vec<Arc<Gpu>>,
    sites: Sites,
    nodes: Nodes,
    seats: Vec<Seat>,
    settings: Settings,
}

impl Prepared {
    /// Prepares a task graph that has been verified, each of its devices on its seat.
    ///
    /// # Errors
    ///
    /// There is no driver, no such GPU or one that is too old; a row that no kernel is generated for.
    pub fn new(graph: &TaskGraph, seats: &[Seat], settings: Settings) -> Result<Self, RunError> {
        assert_eq!(seats.len(), graph.devices, "a seat for each device");
        let driver = Driver::new().map_err(|e| failed(0, &e))?;
        let (gpus, places) = used(&driver, seats)?;
        let sites = sites(&gpus, &places, seats, settings)?;
        let nodes = Nodes::generated(graph, &sites)?;
        Ok(Self { gpus, sites, nodes, seats: seats.to_vec(), settings })
    }

    /// What is done in a run.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// By device, the bytes of its GPU's memory that it needs besides its arena: for workspaces of the library of products,
    /// parts of split reductions and attention, what is staged, and reports of faults. What is in the host's memory
    /// counts nothing.
    pub fn scratch(&self, graph: &TaskGraph) -> Vec<Bytes> {
        let of = |(n, arena): (usize, &Bytes)| {
            let whole = if self.sites.devices[n].host { arena.0 } else { self.nodes.devices[n] };
            Bytes(whole - arena.0)
        };
        graph.arenas.iter().enumerate().map(of).collect()
    }

    /// Makes memory, loads parameters, and gives all that a run does to the driver as one graph.
    ///
    /// # Errors
    ///
    /// There is no compiler, or it refuses; a device has not enough memory; a parameter that cannot be read.
    pub fn load(self, graph: &TaskGraph, parameters: &dyn ParameterSource) -> Result<Devices, RunError> {
        let Self { gpus, sites, nodes, seats, settings } = self;
        let functions = functions(&nodes, &gpus, &sites)?;
        let stream = |(n, gpu): (usize, &Arc<Gpu>)| Stream::new(gpu).map_err(|e| failed(sites.first_on(n), &e));
        let streams = gpus.iter().enumerate().map(stream).collect::<Result<_, _>>()?;
        let mut memory = Vec::new();
        for (n, bytes) in nodes.devices.iter().enumerate() {
            let gpu = &gpus[sites.devices[n].gpu];
            let made = if sites.devices[n].host {
                Memory::of_host(gpu, *bytes, "what a device in the host's memory holds")
            } else {
                Memory::of_gpu(gpu, *bytes)
            };
            memory.push(made.map_err(|e| refused(graph, n, *bytes, &e))?);
        }
        loading::load(graph, parameters, &gpus, &sites, &mut memory)?;
        memory.push(Memory::of_host(&gpus[0], nodes.host, "what goes in and comes out").map_err(|e| failed(0, &e))?);
        let mut building = Building::new(graph, &nodes, &gpus, &sites, &memory, &functions)?;
        let built = building.build(settings)?;
        let traced = settings.traced.then(|| building.trace(settings)).transpose()?;
        let (traced, pieces) = traced.map_or((None, Vec::new()), |(traced, pieces)| (Some(traced), pieces));
        let products = building.into_products();
        let replay = built.finish(streams, memory, products, traced).map_err(|e| failed(0, &e))?;
        let (host, marks, staging) = (nodes.devices.len(), Vec::new(), settings.staging);
        Ok(Devices { replay, host, nodes, seats, gpus, pieces, marks, staging, seconds: None })
    }
}

/// The GPUs that seats name, and for every seat which of them it is on; the host's rows are the first one's.
fn used(driver: &Driver, seats: &[Seat]) -> Result<(Vec<Arc<Gpu>>, Vec<usize>), RunError> {
    let mut gpus: Vec<Arc<Gpu>> = Vec::new();
    let mut places = vec![0; seats.len()];
    for (n, seat) in seats.iter().enumerate() {
        let Seat::Gpu(ordinal) = *seat else { continue };
        let gpu = driver.gpus().get(ordinal).ok_or_else(|| {
            let reason = format!("there is no GPU {ordinal}: the driver knows {}", driver.gpus().len());
            RunError::Device { device: DeviceId(n as u16), reason }
        })?;
        gpu.check().map_err(|e| failed(n, &e))?;
        places[n] = gpus.iter().position(|g| g.ordinal() == gpu.ordinal()).unwrap_or_else(|| {
            gpus.push(gpu.clone());
            gpus.len() - 1
        });
    }
    if gpus.is_empty() {
        let reason = "none of the devices is a GPU".to_owned();
        return Err(RunError::Device { device: DeviceId(0), reason });
    }
    Ok((gpus, places))
}

fn sites(gpus: &[Arc<Gpu>], places: &[usize], seats: &[Seat], settings: Settings) -> Result<Sites, RunError> {
    let site = |(seat, &gpu): (&Seat, &usize)| Site {
        gpu,
        host: *seat == Seat::Host,
        target: Target {
            arch: gpus[gpu].capability(),
            multiprocessors: gpus[gpu].multiprocessors(),
            shared: gpus[gpu].shared(),
            tf32: settings.tf32,
            library: Products::are_there(),
            wgmma: settings.wgmma && gpus[gpu].capability() == 90,
        },
    };
    let reach = |(n, own): (usize, &Arc<Gpu>)| {
        let device = places.iter().position(|&p| p == n).unwrap_or(0);
        gpus.iter().map(|other| own.reach(other).map_err(|e| failed(device, &e))).collect::<Result<Vec<bool>, _>>()
    };
    let reach = gpus.iter().enumerate().map(reach).collect::<Result<_, _>>()?;
    let Settings { staging, workspace, .. } = settings;
    Ok(Sites { devices: seats.iter().zip(places).map(site).collect(), reach, staging, workspace })
}

/// Every GPU's kernels by name: those of one architecture are compiled as one.
fn functions(nodes: &Nodes, gpus: &[Arc<Gpu>], sites: &Sites) -> Result<Vec<BTreeMap<String, Function>>, RunError> {
    let mut sources: BTreeMap<u32, BTreeMap<&str, &str>> = BTreeMap::new();
    let mut shared: Vec<BTreeMap<&str, u32>> = vec![BTreeMap::new(); gpus.len()];
    for node in &nodes.all {
        if let Work::Kernel { kernel, shared: bytes, .. } = &node.work {
            sources.entry(gpus[node.gpu].capability()).or_default().insert(&kernel.name, &kernel.source);
            let most = shared[node.gpu].entry(&kernel.name).or_default();
            *most = (*most).max(*bytes);
        }
    }
    let mut images = BTreeMap::new();
    for (capability, kernels) in sources {
        let text: Vec<&str> = std::iter::once(generate::PRELUDE).chain(kernels.into_values()).collect();
        let image = compile(&text.join("\n"), Arch::of(capability)).map_err(|e| {
            let gpu = gpus.iter().position(|g| g.capability() == capability).unwrap_or(0);
            RunError::Device { device: DeviceId(sites.first_on(gpu) as u16), reason: e.to_string() }
        })?;
        images.insert(capability, image);
    }
    let load = |(n, names): (usize, BTreeMap<&str, u32>)| {
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let loaded = || {
            let module = Module::load(&gpus[n], &images[&gpus[n].capability()].bytes)?;
            let function = |(name, bytes): (&str, u32)| Ok((name.to_owned(), module.function(name, bytes)?));
            names.into_iter().map(function).collect::<Result<BTreeMap<_, _>, DriverError>>()
        };
        loaded().map_err(|e| failed(sites.first_on(n), &e))
    };
    shared.into_iter().enumerate().map(load).collect()
}

/// What is said when a device's memory, of so many bytes in all, cannot be made.
fn refused(graph: &TaskGraph, device: usize, all: u64, error: &DriverError) -> RunError {
    if !error.is_memory() {
        return failed(device, error);
    }
    let bytes = graph.arenas[device].0;
    RunError::Memory { device: DeviceId(device as u16), bytes, scratch: all - bytes }
}
