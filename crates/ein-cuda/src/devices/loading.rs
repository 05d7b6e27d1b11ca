//! Parameters, to the devices that hold them.

use super::{failed, parameters as fed};
use crate::driver::{DriverError, Gpu, Memory, Passing};
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

/// A device's memory while parameters are written to it.
struct Loading<'a>(Passing<'a>);

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
        let made = Passing::new(&gpus[sites.devices[n].gpu], memory, AT_ONCE as u64, PURPOSE);
        made.map(Loading).map_err(|e| failed(n, &e))
    };
    let mut all = memory.iter_mut().enumerate().map(loading).collect::<Result<Vec<_>, RunError>>()?;
    load_all(graph, &feeds, parameters, all.iter_mut().map(|l| l as &mut dyn Arena).collect())?;
    all.iter().enumerate().try_for_each(|(n, loading)| loading.0.finish().map_err(|e| failed(n, &e)))
}

/// What a source or the driver says.
struct Said(Cause);

impl From<DriverError> for Said {
    fn from(error: DriverError) -> Self {
        Self(Cause::Device { reason: error.to_string() })
    }
}

impl Arena for Loading<'_> {
    fn allocate(&mut self, bytes: Bytes) -> Result<(), Cause> {
        let there = self.0.memory().address(0, bytes.0);
        there.map(|_| ()).map_err(|e| Cause::Device { reason: e.to_string() })
    }

    fn put(
        &mut self,
        slot: Slot,
        bytes: Bytes,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        let put = self.0.write(slot.offset, bytes.0 as usize, |part| fill(part).map_err(Said));
        put.map_err(|Said(cause)| cause)
    }

    fn get(&mut self, slot: Slot, bytes: Bytes, take: &mut dyn FnMut(&[u8]) -> Result<(), Cause>) -> Result<(), Cause> {
        let got = self.0.read(slot.offset, bytes.0 as usize, |part| take(part).map_err(Said));
        got.map_err(|Said(cause)| cause)
    }

    fn at_once(&self) -> Option<usize> {
        Some(AT_ONCE)
    }
}
