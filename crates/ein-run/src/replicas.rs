//! Parameters that several virtual devices of one process hold alike: they are there once, in the arena of the first of
//! them, and the others read them there.
//!
//! On virtual devices a replica saves no transfer, it only costs memory and the processors' caches. The memory plan of the
//! task graph still counts it, as on devices that are machines of their own.

use crate::cpu::packing::Packing;
use ein_task::task::{TaskGraph, TaskId, Verb};
use ein_task::units::Bytes;
use std::collections::HashMap;
use std::ops::Range;

/// Which of the parameters that devices hold are the same memory.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    /// Of a feed whose value is another's: that one.
    homes: HashMap<TaskId, TaskId>,
}

impl Replicas {
    /// The replicas among some feeds of parameters: one part of one parameter, stored alike.
    pub(crate) fn of(graph: &TaskGraph, resident: &[TaskId], packing: &Packing) -> Self {
        let mut first = HashMap::new();
        let mut homes = HashMap::new();
        for &id in resident {
            let task = graph.task(id);
            let Verb::Feed { external } = task.verb else { continue };
            let home = *first.entry((external, &task.value.region, packing.matrix(id))).or_insert(id);
            if home != id {
                homes.insert(id, home);
            }
        }
        Self { homes }
    }

    /// The row in whose slot the value of a row is.
    pub(crate) fn home(&self, row: TaskId) -> TaskId {
        self.homes.get(&row).copied().unwrap_or(row)
    }

    /// Whether the value of a row is in its own slot.
    pub(crate) fn is_home(&self, row: TaskId) -> bool {
        !self.homes.contains_key(&row)
    }

    /// Bytes of a device's arena that no value is stored in but replicas: where they begin and end, in order.
    pub(crate) fn unused(&self, graph: &TaskGraph, device: usize) -> Vec<Range<u64>> {
        let slot = |row: &TaskId| {
            let slot = graph.task(*row).slot;
            slot.offset..slot.offset + slot.bytes
        };
        let own = |row: &&TaskId| graph.task(**row).device.index() == device;
        let mut unused: Vec<_> = self.homes.keys().filter(own).map(slot).filter(|r| !r.is_empty()).collect();
        unused.sort_unstable_by_key(|r| r.start);
        unused
    }

    /// Bytes of all arenas that are not used.
    pub(crate) fn saved(&self, graph: &TaskGraph) -> Bytes {
        Bytes(self.homes.keys().map(|row| graph.task(*row).slot.bytes).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::dtype::DType;
    use ein_ir::graph::TensorType;
    use ein_ir::monoid::Form;
    use ein_ir::op::InputKind;
    use ein_ir::region::{Interval, Region};
    use ein_task::machine::DeviceId;
    use ein_task::task::{External, Slot, Task, Value};

    /// A feed on a device of some rows of a parameter, in a slot of 64 bytes.
    fn feed(graph: &mut TaskGraph, device: u16, external: usize, rows: (usize, usize), offset: u64) -> TaskId {
        let region = Region(vec![Interval::new(rows.0, rows.1)]);
        let value = Value { region, form: Form::finished(DType::F32, 1) };
        let slot = Slot { offset, bytes: 64 };
        let verb = Verb::Feed { external };
        let device = DeviceId(device);
        graph.push(Task { device, verb, reads: vec![], after: vec![], value, within: None, slot, label: 0 })
    }

    #[test]
    fn the_same_part_of_one_parameter_is_there_once() {
        let mut graph = TaskGraph { devices: 3, ..TaskGraph::default() };
        for name in ["w", "v"] {
            let ty = TensorType { dtype: DType::F32, shape: vec![4] };
            graph.externals.push(External { name: name.to_owned(), kind: InputKind::Parameter, ty });
        }
        let whole = feed(&mut graph, 0, 0, (0, 4), 0);
        let other = feed(&mut graph, 0, 1, (0, 4), 64);
        let again = feed(&mut graph, 1, 0, (0, 4), 128);
        let part = feed(&mut graph, 2, 0, (0, 2), 0);
        let third = feed(&mut graph, 2, 0, (0, 4), 64);
        let all = [whole, other, again, part, third];
        let replicas = Replicas::of(&graph, &all, &Packing::of(&graph));
        assert_eq!(all.map(|id| replicas.home(id)), [whole, other, whole, part, whole]);
        assert_eq!(all.map(|id| replicas.is_home(id)), [true, true, false, true, false]);
        let unused = |device| replicas.unused(&graph, device).into_iter().map(|r| (r.start, r.end)).collect::<Vec<_>>();
        assert_eq!([0, 1, 2].map(unused), [vec![], vec![(128, 192)], vec![(64, 128)]]);
        assert_eq!(replicas.saved(&graph), Bytes(128));
    }
}
