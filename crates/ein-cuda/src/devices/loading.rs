//! Parameters, to the devices that hold them.

use super::{failed, parameters as fed};
use crate::driver::{Gpu, Memory, Stream};
use crate::nodes::Sites;
use ein_run::device::Memory as Arena;
use ein_run::load::load as load_all;
use ein_run::{Cause, ParameterSource, RunError};
use ein_task::task::{Slot, TaskGraph};
use ein_task::units::Bytes;
use std::sync::Arc;

/// Bytes that are read and copied at a time, unless one row of a parameter has more.
const AT_ONCE: usize = 8 << 20;

/// What pinned memory is for.
const PURPOSE: &str = "parameters on their way to a device";

/// A device's memory while parameters are written to it, through pinned memory.
struct Loading<'a> {
    gpu: &'a Arc<Gpu>,
    memory: &'a mut Memory,
    staging: Memory,
    stream: Stream,
}

/// Loads all parameters.
pub(super) fn load(
    graph: &TaskGraph,
    parameters: &dyn ParameterSource,
    gpus: &[Arc<Gpu>],
    sites: &Sites,
    memory: &mut [Memory],
) -> Result<(), RunError> {
    let feeds = fed(graph);
    if feeds.is_empty() {
        return Ok(());
    }
    let loading = |(n, memory): (usize, _)| {
        let gpu = &gpus[sites.devices[n].gpu];
        let staging = Memory::of_host(gpu, AT_ONCE as u64, PURPOSE).map_err(|e| failed(n, &e))?;
        Ok(Loading { gpu, memory, staging, stream: Stream::new(gpu).map_err(|e| failed(n, &e))? })
    };
    let mut all = memory.iter_mut().enumerate().map(loading).collect::<Result<Vec<_>, RunError>>()?;
    load_all(graph, &feeds, parameters, all.iter_mut().map(|l| l as &mut dyn Arena).collect())
}

impl Arena for Loading<'_> {
    fn allocate(&mut self, bytes: Bytes) -> Result<(), Cause> {
        self.memory.address(0, bytes.0).map(|_| ()).map_err(|e| Cause::Device { reason: e.to_string() })
    }

    fn put(
        &mut self,
        slot: Slot,
        bytes: Bytes,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        let said = |e: crate::driver::DriverError| Cause::Device { reason: e.to_string() };
        if bytes.0 > self.staging.bytes() {
            self.staging = Memory::of_host(self.gpu, bytes.0, PURPOSE).map_err(said)?;
        }
        let count = bytes.0 as usize;
        fill(&mut self.staging.host_mut()[..count])?;
        self.memory.write(slot.offset, &mut self.staging, 0..count, &self.stream).map_err(said)
    }

    fn get(&mut self, slot: Slot, bytes: Bytes, take: &mut dyn FnMut(&[u8]) -> Result<(), Cause>) -> Result<(), Cause> {
        let said = |e: crate::driver::DriverError| Cause::Device { reason: e.to_string() };
        if bytes.0 > self.staging.bytes() {
            self.staging = Memory::of_host(self.gpu, bytes.0, PURPOSE).map_err(said)?;
        }
        let part = 0..bytes.0 as usize;
        self.memory.read(slot.offset, &mut self.staging, part, &self.stream).map_err(said)?;
        take(&self.staging.host()[..bytes.0 as usize])
    }

    fn at_once(&self) -> Option<usize> {
        Some(AT_ONCE)
    }
}
