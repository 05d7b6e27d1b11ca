//! The border to a device: memory in, memory out, execute a row. No verb for any one operation.

use crate::error::Cause;
use ein_task::machine::DeviceId;
use ein_task::task::{Slot, TaskGraph, TaskId};
use ein_task::units::Bytes;

/// A device's memory: one arena.
pub trait Memory: Send {
    /// Makes the arena that every later slot lies in.
    fn allocate(&mut self, bytes: Bytes) -> Result<(), Cause>;

    /// Lets `fill` write the first `bytes` bytes of a slot. While parameters are loaded, a slot may also be the
    /// rest of one, from any element of its value on.
    fn put(
        &mut self,
        slot: Slot,
        bytes: Bytes,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<(), Cause>,
    ) -> Result<(), Cause>;

    /// Lets `take` read the first `bytes` bytes of a slot.
    fn get(&mut self, slot: Slot, bytes: Bytes, take: &mut dyn FnMut(&[u8]) -> Result<(), Cause>) -> Result<(), Cause>;

    /// How many bytes are best written at once while parameters are loaded; `None`: as many as there are, because `put`
    /// lends the memory itself.
    fn at_once(&self) -> Option<usize> {
        None
    }
}

/// A device: an arena and the ability to execute the rows that are its own.
///
/// What a row does is in the task graph; a device that lacks an operation says so in the error.
pub trait Device: Memory {
    /// All parameters are in their slots. From here on only the device's own rows read them: it may store them as its
    /// kernels like.
    fn loaded(&mut self, graph: &TaskGraph, device: DeviceId) {
        let _ = (graph, device);
    }

    /// Executes a row that computes: kernel, view, cut, fold or paste.
    fn execute(&mut self, graph: &TaskGraph, task: TaskId) -> Result<(), Cause>;
}
