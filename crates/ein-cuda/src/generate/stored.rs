//! Values in memory: which box, in which form, where.

use crate::program::{Base, Place};
use ein_ir::dtype::DType;
use ein_ir::monoid::Form;
use ein_ir::region::Region;
use ein_task::task::{Task, TaskGraph};

/// A value that a program reads or writes: its fields packed as [`Form::layout`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The box whose elements are there.
    pub(crate) region: Region,
    /// Its fields.
    pub(crate) form: Form,
    /// Where it begins, at a multiple of 16 bytes.
    pub(crate) place: Place,
}

impl Stored {
    /// What a row leaves.
    pub(crate) fn own(task: &Task) -> Self {
        Self { region: task.stored().clone(), form: task.value.form.clone(), place: Base::Own.at(0) }
    }

    /// What a row reads at position `n` of its reads.
    pub(crate) fn read(graph: &TaskGraph, task: &Task, n: usize) -> Self {
        let read = graph.task(task.reads[n]);
        Self { region: read.stored().clone(), form: read.value.form.clone(), place: Base::Read(n).at(0) }
    }

    /// All that a row reads.
    pub(crate) fn reads(graph: &TaskGraph, task: &Task) -> Vec<Self> {
        (0..task.reads.len()).map(|n| Self::read(graph, task, n)).collect()
    }

    /// Type of a field's elements.
    pub(crate) fn dtype(&self, field: usize) -> DType {
        self.form.fields[field].dtype
    }

    /// The box of a field: the value's on the field's axes.
    pub(crate) fn field(&self, field: usize) -> Region {
        self.region.project(&self.form.fields[field].axes)
    }

    /// Where element `element` of a field lies.
    pub(crate) fn at(&self, field: usize, element: i64) -> Place {
        let bytes = self.form.layout(&self.region).0[field] as i64 + element * self.dtype(field).bytes() as i64;
        Place { offset: self.place.offset + bytes as u64, ..self.place }
    }

    /// Bytes of the whole.
    pub(crate) fn bytes(&self) -> u64 {
        self.form.layout(&self.region).1 as u64
    }
}

/// The largest power of two, at most 16, that an address is a multiple of: slots and scratch memory begin at multiples
/// of 16 at least.
pub(crate) fn alignment(place: Place) -> u64 {
    1 << place.offset.trailing_zeros().min(4)
}
